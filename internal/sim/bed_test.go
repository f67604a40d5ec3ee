package sim

import (
	"context"
	"fmt"
	"log/slog"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/scheduler"
)

const (
	simStream = "orders"
	simApp    = "orders-app"
	observer  = "observer" // the name of a client that is the test's own
)

// bed is an emulated AWS with a stream and a fleet, in a bubble.
type bed struct {
	t   *testing.T
	aws *kcltest.AWS
	rng *rand.Rand

	mu sync.Mutex // held over no call and no sleep
	// Guarded by mu.
	workers    []*worker
	deliveries []delivery
	first      map[string]map[string]time.Time // by shard, by worker: its first delivery since mark
}

// delivery is a record handed to a worker.
type delivery struct {
	at       time.Time
	worker   string
	shard    string
	position kcl.Position
}

// worker is one worker of the fleet.
type worker struct {
	*scheduler.Scheduler
	id     string // of the process, which a later one of the same name does not have
	name   string
	ctx    context.Context
	began  time.Time
	cancel context.CancelFunc
	done   chan struct{}
	err    error
	cut    *kcltest.Injection
}

// notWhileRacing leaves a test out under the race detector. It is for such as are
// about what comes of long stretches, in which nothing is at work at the same time
// that is not in shorter tests, too.
func notWhileRacing(t *testing.T) {
	t.Helper()
	if racing {
		t.Skip("long stretches take too long under the race detector")
	}
}

// inBed runs f in a bubble with a stream of so many shards.
func inBed(t *testing.T, seed uint64, shards int, o kcltest.Options, f func(b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Seed = seed
		b := &bed{t: t, aws: kcltest.New(o), rng: rand.New(rand.NewPCG(seed, 1)), first: make(map[string]map[string]time.Time)}
		require.NoError(t, b.aws.CreateStream(simStream, shards))
		t.Cleanup(b.end)
		f(b)
	})
}

// start runs a worker whose configuration is the default, changed by change.
func (b *bed) start(name string, change ...func(*scheduler.Config)) *worker {
	b.t.Helper()
	w := b.add(name, change...)
	w.run()
	return w
}

// add makes a worker that does not run yet.
func (b *bed) add(name string, change ...func(*scheduler.Config)) *worker {
	b.t.Helper()
	b.mu.Lock()
	w := &worker{name: name, id: fmt.Sprintf("%s#%d", name, len(b.workers)), began: time.Now(), done: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	b.workers = append(b.workers, w)
	b.mu.Unlock()
	c := scheduler.Config{
		Application: simApp, Streams: kcl.SingleStream(simStream, kcl.TrimHorizon), AWS: b.aws.Config(w.id),
		WorkerIdentifier: name, Logger: slog.New(slog.DiscardHandler),
		Handler: func(_ context.Context, batch *kcl.Batch) error {
			b.note(w.id, batch)
			return nil
		},
	}
	for _, ch := range change {
		ch(&c)
	}
	s, err := scheduler.New(c)
	require.NoError(b.t, err)
	w.Scheduler = s
	return w
}

func (w *worker) run() {
	go func() {
		defer close(w.done)
		w.err = w.Run(w.ctx)
	}()
}

func (b *bed) note(worker string, batch *kcl.Batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	shard := batch.Shard.ShardID
	for _, r := range batch.Records {
		b.deliveries = append(b.deliveries, delivery{time.Now(), worker, shard, r.Position})
	}
	if len(batch.Records) == 0 {
		return
	}
	if b.first[shard] == nil {
		b.first[shard] = make(map[string]time.Time)
	}
	if b.first[shard][worker].IsZero() {
		b.first[shard][worker] = time.Now()
	}
}

// mark forgets who has delivered what so far.
func (b *bed) mark() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.first)
}

// firstBy returns when a shard was first delivered, since mark, by a worker that
// ok says yes to.
func (b *bed) firstBy(shard string, ok func(worker string) bool) (time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var first time.Time
	for w, at := range b.first[shard] {
		if ok(w) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first, !first.IsZero()
}

// repeated returns how many deliveries, of some shards or all, were not the first
// of their record.
func (b *bed) repeated(shards ...string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := make(map[string]bool, len(b.deliveries))
	for _, d := range b.deliveries {
		if len(shards) > 0 && !slices.Contains(shards, d.shard) {
			continue
		}
		key := d.shard + " " + d.position.SequenceNumber
		if seen[key] {
			n++
		}
		seen[key] = true
	}
	return n
}

// kill cuts a worker off for good. What it had in hand is lost with it.
func (b *bed) kill(w *worker) {
	w.cut = b.aws.Inject(kcltest.Fault{Clients: []string{w.id}, Effect: kcltest.Break})
}

// end stops all workers.
func (b *bed) end() {
	b.mu.Lock()
	workers := b.workers
	b.mu.Unlock()
	for _, w := range workers {
		w.cancel()
	}
	for _, w := range workers {
		<-w.done
	}
}

// until waits for a condition, looking every 10 ms, and fails the test after
// limit.
func (b *bed) until(limit time.Duration, what string, ok func() bool) {
	b.t.Helper()
	for start := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		require.Less(b.t, time.Since(start), limit, what)
	}
}

// somewhere waits a random time below d, so that what follows meets the loops
// of the workers in another phase for each seed.
func (b *bed) somewhere(d time.Duration) { time.Sleep(time.Duration(b.rng.Int64N(int64(d)))) }

// atOnce is a client whose calls take no time and meet no fault.
type atOnce struct{ h http.Handler }

func (c atOnce) Do(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	c.h.ServeHTTP(rec, r)
	return rec.Result(), nil
}

func (b *bed) config() aws.Config {
	c := b.aws.Config(observer)
	c.HTTPClient = atOnce{b.aws.Handler()}
	return c
}

func (b *bed) kinesis() *kinesis.Client { return kinesis.NewFromConfig(b.config()) }

func (b *bed) store() *lease.Store {
	return lease.NewStore(lease.StoreConfig{Client: dynamodb.NewFromConfig(b.config()), Table: simApp})
}

// leases returns the lease table as it is, or was lately.
func (b *bed) leases() map[string]lease.Lease {
	all, err := b.store().List(context.Background())
	if err != nil {
		return nil // no table yet
	}
	out := make(map[string]lease.Lease, len(all))
	for _, l := range all {
		out[l.Key] = l
	}
	return out
}

// owned returns the keys of a worker's leases.
func (b *bed) owned(name string) (keys []string) {
	for k, l := range b.leases() {
		if l.Owner == name {
			keys = append(keys, k)
		}
	}
	return keys
}

// produce puts two records into every first shard, one into each half of it, every
// 100 ms until the test ends.
func (b *bed) produce(shards int) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	var records []types.PutRecordsRequestEntry
	space := new(big.Int).Lsh(big.NewInt(1), 128)
	for i := range int64(2 * shards) {
		// The middle of each half.
		key := new(big.Int).Div(new(big.Int).Mul(space, big.NewInt(2*i+1)), big.NewInt(int64(4*shards)))
		records = append(records, types.PutRecordsRequestEntry{PartitionKey: aws.String("k"), ExplicitHashKey: aws.String(key.String()), Data: []byte("x")})
	}
	go func() {
		defer close(done)
		k := b.kinesis()
		t := time.NewTicker(100 * time.Millisecond)
		defer t.Stop()
		for {
			select {
			case <-t.C:
			case <-ctx.Done():
				return
			}
			_, err := k.PutRecords(ctx, &kinesis.PutRecordsInput{StreamName: aws.String(simStream), Records: records})
			if err != nil && ctx.Err() == nil {
				b.t.Errorf("put: %v", err)
				return
			}
		}
	}()
	b.t.Cleanup(func() { cancel(); <-done })
}
