package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	ktypes "github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/lease"
)

const (
	testStream = "orders"
	testApp    = "orders-app"
)

// fleet is an AWS, a stream and workers, in a bubble.
type fleet struct {
	t   *testing.T
	aws *kcltest.AWS
	log *testLog

	mu      sync.Mutex
	seen    map[string][]delivery // by shard, in order of delivery
	workers []*member
	cut     map[string]bool // clients whose calls fail
	stopped atomic.Bool
	leisure bool // workers are slow to look, for tests that take hours
}

// delivery is a record that a worker was handed.
type delivery struct {
	worker   string
	position kcl.Position
	data     string
	at       time.Time
}

// member is a worker of the fleet.
type member struct {
	*Scheduler
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// inFleet runs f in a bubble. A call takes 5 ms on average.
func inFleet(t *testing.T, shards int, f func(t *testing.T, fl *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fl := &fleet{
			t: t, log: &testLog{t: t}, seen: make(map[string][]delivery), cut: make(map[string]bool),
			aws: kcltest.New(kcltest.Options{Latency: 5 * time.Millisecond}),
		}
		fl.aws.Intercept(fl.intercept)
		if shards > 0 {
			require.NoError(t, fl.aws.CreateStream(testStream, shards))
		}
		t.Cleanup(fl.stopAll)
		f(t, fl)
	})
}

var errCut = errors.New("cut off")

func (f *fleet) intercept(_ context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
	if f.isCut(i.Client) {
		return wire.Answer{}, errCut
	}
	return run(), nil
}

func (f *fleet) isCut(client string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cut[client]
}

// config returns the configuration of a worker that notes what it is handed.
func (f *fleet) config(name string) Config {
	c := Config{
		Application: testApp, Streams: kcl.SingleStream(testStream, kcl.TrimHorizon), AWS: f.aws.Config(name),
		WorkerIdentifier: name, Logger: slog.New(f.log),
		Handler: func(_ context.Context, b *kcl.Batch) error {
			f.note(name, b)
			return nil
		},
	}
	if f.leisure {
		c.Leases.AssignmentInterval, c.Polling.IdleTimeBetweenReads = 20*time.Second, 10*time.Second
	}
	return c
}

func (f *fleet) note(worker string, b *kcl.Batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range b.Records {
		f.seen[b.Shard.ShardID] = append(f.seen[b.Shard.ShardID], delivery{worker, r.Position, string(r.Data), time.Now()})
	}
}

// start runs a worker with the default configuration, changed by change.
func (f *fleet) start(name string, change ...func(*Config)) *member {
	f.t.Helper()
	c := f.config(name)
	for _, ch := range change {
		ch(&c)
	}
	s, err := New(c)
	require.NoError(f.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{Scheduler: s, name: name, cancel: cancel, done: make(chan struct{})}
	f.workers = append(f.workers, m)
	go func() {
		defer close(m.done)
		m.err = s.Run(ctx)
	}()
	return m
}

// stop ends a worker gracefully and returns what Run returned.
func (m *member) stop() error {
	m.cancel()
	<-m.done
	return m.err
}

// kill cuts a worker off and leaves it running.
func (f *fleet) kill(m *member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut[m.name] = true
}

func (f *fleet) stopAll() {
	f.stopped.Store(true)
	for _, m := range f.workers {
		m.cancel()
	}
	for _, m := range f.workers {
		<-m.done
	}
}

func (f *fleet) kinesis() *kinesis.Client { return kinesis.NewFromConfig(f.aws.Config("test")) }

func (f *fleet) store() *lease.Store {
	return lease.NewStore(lease.StoreConfig{Client: dynamodb.NewFromConfig(f.aws.Config("test")), Table: testApp})
}

// put stores n records, a few a call, and returns their number.
func (f *fleet) put(n int) {
	f.t.Helper()
	k := f.kinesis()
	for i := 0; i < n; i += 100 {
		in := &kinesis.PutRecordsInput{StreamName: aws.String(testStream)}
		for j := i; j < min(i+100, n); j++ {
			in.Records = append(in.Records, ktypes.PutRecordsRequestEntry{
				PartitionKey: aws.String(fmt.Sprint("key", j)), Data: fmt.Appendf(nil, "record %d", j),
			})
		}
		out, err := k.PutRecords(f.t.Context(), in)
		require.NoError(f.t, err)
		require.Zero(f.t, aws.ToInt32(out.FailedRecordCount))
	}
}

// leases returns the lease table's leases by key, none before there is a table.
func (f *fleet) leases() map[string]lease.Lease {
	f.t.Helper()
	all, err := f.store().List(context.Background())
	if !errors.Is(err, kcl.ErrInvalidState) {
		require.NoError(f.t, err)
	}
	out := make(map[string]lease.Lease)
	for _, l := range all {
		out[l.Key] = l
	}
	return out
}

// owners returns how many leases each worker owns, "" for nobody.
func (f *fleet) owners() map[string]int {
	out := make(map[string]int)
	for _, l := range f.leases() {
		out[l.Owner]++
	}
	return out
}

// requireAllProcessed checks what the fleet was handed against what the stream
// holds: every record, first deliveries in order, parents before children.
func (f *fleet) requireAllProcessed() (repeated int) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	first := make(map[string]time.Time) // delivery of a shard's first and last record
	last := make(map[string]time.Time)
	for _, s := range f.aws.Shards(testStream) {
		known := make(map[string]bool)
		var high kcl.Position
		for _, d := range f.seen[s.ID] {
			if known[d.position.SequenceNumber] {
				repeated++
				continue
			}
			known[d.position.SequenceNumber] = true
			require.Positive(f.t, d.position.Compare(high), "shard %s: %s delivered after %s", s.ID, d.position, high)
			high = d.position
			if first[s.ID].IsZero() {
				first[s.ID] = d.at
			}
			last[s.ID] = d.at
		}
		for _, r := range s.Records {
			require.True(f.t, known[r.SequenceNumber], "shard %s: record %s (%s) was never processed", s.ID, r.SequenceNumber, r.Data)
		}
	}
	for _, s := range f.aws.Shards(testStream) {
		for _, p := range s.Parents {
			if !first[s.ID].IsZero() && !last[p].IsZero() {
				require.False(f.t, first[s.ID].Before(last[p]), "shard %s was read before its parent %s was done", s.ID, p)
			}
		}
	}
	return repeated
}

// until waits for a condition, at most so long in virtual time.
func (f *fleet) until(limit time.Duration, what string, ok func() bool) time.Duration {
	f.t.Helper()
	start := time.Now()
	for !ok() {
		require.Less(f.t, time.Since(start), limit, what)
		time.Sleep(50 * time.Millisecond)
	}
	return time.Since(start)
}

func (f *fleet) delivered() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, d := range f.seen {
		n += len(d)
	}
	return n
}

// testLog sends a worker's log to the test and keeps the warnings.
type testLog struct {
	t  *testing.T
	mu sync.Mutex
	// warnings are the lines at Warn and above. Guarded by mu.
	warnings []string
	attrs    []slog.Attr
	parent   *testLog
}

func (l *testLog) Enabled(context.Context, slog.Level) bool { return true }

func (l *testLog) Handle(_ context.Context, r slog.Record) error {
	line := fmt.Sprintf("%s %s %s", r.Time.Format("15:04:05.000"), r.Level, r.Message)
	for _, a := range l.attrs {
		line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
	}
	r.Attrs(func(a slog.Attr) bool { line += fmt.Sprintf(" %s=%v", a.Key, a.Value); return true })
	root := l
	for root.parent != nil {
		root = root.parent
	}
	root.mu.Lock()
	defer root.mu.Unlock()
	if r.Level >= slog.LevelWarn {
		root.warnings = append(root.warnings, line)
	}
	root.t.Log(line)
	return nil
}

func (l *testLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &testLog{attrs: append(append([]slog.Attr(nil), l.attrs...), attrs...), parent: l}
}

func (l *testLog) WithGroup(string) slog.Handler { return l }

func TestOneWorkerConsumesAStream(t *testing.T) {
	inFleet(t, 4, func(t *testing.T, f *fleet) {
		f.put(1000)
		start := time.Now()
		m := f.start("a")
		<-m.Ready()
		f.until(30*time.Second, "all records", func() bool { return f.delivered() >= 1000 })
		t.Log("all records after", time.Since(start))
		require.Equal(t, map[string]int{"a": 4}, f.owners())
		require.NoError(t, m.stop())
		assert.Zero(t, f.requireAllProcessed())
		assert.Equal(t, map[string]int{"": 4}, f.owners(), "leases are released")
	})
}

func (f *fleet) describe(table string) *types.TableDescription {
	f.t.Helper()
	out, err := dynamodb.NewFromConfig(f.aws.Config("test")).DescribeTable(f.t.Context(), &dynamodb.DescribeTableInput{TableName: &table})
	require.NoError(f.t, err)
	return out.Table
}

func (f *fleet) recovery(table string) types.PointInTimeRecoveryStatus {
	f.t.Helper()
	out, err := dynamodb.NewFromConfig(f.aws.Config("test")).DescribeContinuousBackups(f.t.Context(), &dynamodb.DescribeContinuousBackupsInput{TableName: &table})
	require.NoError(f.t, err)
	return out.ContinuousBackupsDescription.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus
}

// deleteStream deletes the stream and waits until it is gone.
func (f *fleet) deleteStream() {
	f.t.Helper()
	_, err := f.kinesis().DeleteStream(f.t.Context(), &kinesis.DeleteStreamInput{StreamName: aws.String(testStream)})
	require.NoError(f.t, err)
	time.Sleep(5 * time.Second)
}
