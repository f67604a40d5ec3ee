package consumer

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/ddb"
	"github.com/go-kcl/kcl/internal/retrieval"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/lease"
)

// world is an emulated AWS with a stream and a lease table, in a bubble.
type world struct {
	t       *testing.T
	aws     *kcltest.AWS
	kinesis *kinesis.Client
	look    *lease.Store // an observer's, and the leader's

	mu    sync.Mutex
	calls []kcltest.Call
	// handled has what the processors were given, in order.
	handled []handled
}

type handled struct {
	worker, shard, data string
	position            kcl.Position
}

const streamName, tableName = "orders", "app"

func inWorld(t *testing.T, shards int, f func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		w.aws = kcltest.New(kcltest.Options{Delays: kcltest.NoDelays, OnCall: func(c kcltest.Call) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.calls = append(w.calls, c)
		}})
		require.NoError(t, w.aws.CreateStream(streamName, shards))
		w.kinesis = kinesis.NewFromConfig(w.aws.Config("producer"))
		client := dynamodb.NewFromConfig(w.aws.Config("observer"))
		_, err := ddb.NewTable(ddb.TableConfig{Client: client, Table: tableName}).Prepare(t.Context())
		require.NoError(t, err)
		w.look = lease.NewStore(lease.StoreConfig{Client: client, Table: tableName})
		for _, s := range w.aws.Shards(streamName) {
			w.create(lease.Lease{Key: s.ID, ShardID: s.ID, Checkpoint: kcl.AtTrimHorizon})
		}
		f(t, w)
	})
}

func (w *world) create(l lease.Lease) {
	w.t.Helper()
	created, err := w.look.Create(w.t.Context(), l)
	require.NoError(w.t, err)
	require.True(w.t, created)
}

// item returns the lease as the table has it.
func (w *world) item(key string) lease.Lease {
	w.t.Helper()
	l, found, err := w.look.GetConsistent(w.t.Context(), key)
	require.NoError(w.t, err)
	require.True(w.t, found, key)
	return l
}

func (w *world) shardID(i int) string { return w.aws.Shards(streamName)[i].ID }

// put puts n records, spread over all shards, and returns their data.
func (w *world) put(first, n int) []string {
	w.t.Helper()
	var all []string
	for i := first; i < first+n; i++ {
		data := fmt.Sprintf("record %d", i)
		_, err := w.kinesis.PutRecord(w.t.Context(), &kinesis.PutRecordInput{
			StreamName: aws.String(streamName), PartitionKey: aws.String(data), Data: []byte(data),
		})
		require.NoError(w.t, err)
		all = append(all, data)
	}
	return all
}

// seen returns what was handled, by its data, sorted.
func (w *world) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, h := range w.handled {
		out = append(out, h.data)
	}
	slices.Sort(out)
	return out
}

// handledAt returns the position of the i-th record that was handled.
func (w *world) handledAt(i int) kcl.Position {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.handled[i].position
}

// callTimes returns when a client made calls of an operation.
func (w *world) callTimes(client, operation string) []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	var at []time.Time
	for _, c := range w.calls {
		if c.Client == client && c.Operation == operation {
			at = append(at, c.At)
		}
	}
	return at
}

// worker has the real renewer and reader, and a consumer for each lease it is
// given: as much of a worker as a consumer can see.
type worker struct {
	w       *world
	id      string
	cfg     Config
	store   *lease.Store
	renewer *lease.Renewer
	stop    context.CancelFunc // the hard stop, renewals included

	mu        sync.Mutex
	consumers map[string]*Consumer // by token
	results   map[string][]Result  // by lease key
	running   sync.WaitGroup
}

// worker starts one. Its processors note each record, and then do what process
// says.
func (w *world) worker(id string, process func(context.Context, *kcl.Batch) error, change ...func(*Config)) *worker {
	w.t.Helper()
	cfg := w.aws.Config(id)
	k := &worker{w: w, id: id, consumers: map[string]*Consumer{}, results: map[string][]Result{},
		store: lease.NewStore(lease.StoreConfig{Table: tableName, Client: dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
			o.RetryMaxAttempts = 1 // a refused call is refused at once
		})})}
	reader := retrieval.NewReader(retrieval.Config{Client: kinesis.NewFromConfig(cfg), IdleTime: 250 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	k.stop = cancel
	k.renewer = lease.NewRenewer(lease.RenewerConfig{Store: k.store, Worker: id, Events: lease.Events{
		Acquired: func(l lease.Lease) { k.begin(ctx, l) },
		Lost: func(l lease.Lease, _ lease.Loss) {
			if c := k.consumer(l.Token); c != nil {
				c.LeaseLost()
			}
		},
		HandOffRequested: func(l lease.Lease) { k.consumer(l.Token).HandOff() },
	}})
	k.cfg = Config{
		Leases: k.renewer, Store: k.store, ParentPolls: new(ParentPolls),
		Open: func(ctx context.Context, s retrieval.Shard) Source { return reader.Open(ctx, s) },
		NewProcessor: func(_ context.Context, info kcl.ShardInfo) (kcl.RecordProcessor, error) {
			return &noting{worker: k, shard: info.ShardID, process: process}, nil
		},
	}
	for _, f := range change {
		f(&k.cfg)
	}
	k.running.Go(func() { k.renewer.Run(ctx) })
	w.t.Cleanup(func() {
		cancel()
		k.running.Wait()
	})
	return k
}

func (k *worker) begin(ctx context.Context, l lease.Lease) {
	c := New(k.cfg, kcl.StreamConfig{Stream: kcl.StreamIdentifier{Name: streamName}, Position: kcl.TrimHorizon}, l)
	k.mu.Lock()
	k.consumers[l.Token] = c
	k.mu.Unlock()
	k.running.Go(func() {
		r := c.Run(ctx)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.results[l.Key] = append(k.results[l.Key], r)
		for _, c := range k.consumers {
			c.Poke()
		}
	})
}

func (k *worker) consumer(token string) *Consumer {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.consumers[token]
}

// of returns the consumer of a lease that the worker holds.
func (k *worker) of(key string) *Consumer {
	k.w.t.Helper()
	l, ok := k.renewer.Get(key)
	require.True(k.w.t, ok, key)
	return k.consumer(l.Token)
}

// result returns how the tenures of a lease ended, up to now.
func (k *worker) result(key string) []Result {
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.results[key])
}

// take makes the worker the owner of a lease, as the leader does, and holds it.
func (k *worker) take(key string) {
	k.w.t.Helper()
	taken, err := k.renewer.Take(k.w.t.Context(), k.w.item(key))
	require.NoError(k.w.t, err)
	require.True(k.w.t, taken)
}

// adopt holds what the table says is the worker's, as discovery does.
func (k *worker) adopt(key string) {
	k.w.t.Helper()
	k.renewer.Resume(k.w.t.Context())
	_, held := k.renewer.Get(key)
	require.True(k.w.t, held)
}

// handOffTo is the leader's write.
func (w *world) handOffTo(key, to string) {
	w.t.Helper()
	_, done, err := w.look.StartHandOff(w.t.Context(), w.item(key), to)
	require.NoError(w.t, err)
	require.True(w.t, done)
}

// noting is a processor that notes what it is given.
type noting struct {
	kcl.NopProcessor
	worker  *worker
	shard   string
	process func(context.Context, *kcl.Batch) error
}

func (n *noting) ProcessRecords(ctx context.Context, b *kcl.Batch) error {
	n.worker.w.mu.Lock()
	for _, r := range b.Records {
		n.worker.w.handled = append(n.worker.w.handled, handled{n.worker.id, n.shard, string(r.Data), r.Position})
	}
	n.worker.w.mu.Unlock()
	return n.process(ctx, b)
}

func (n *noting) ShutdownRequested(ctx context.Context, cp kcl.Checkpointer) error {
	return cp.Checkpoint(ctx)
}

func checkpointEach(ctx context.Context, b *kcl.Batch) error { return b.Checkpoint(ctx) }

func checkpointNever(context.Context, *kcl.Batch) error { return nil }
