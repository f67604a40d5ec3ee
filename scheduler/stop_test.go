package scheduler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/lease"
)

// callNotes is what processors were called with, in order.
type callNotes struct {
	mu    sync.Mutex
	calls []string // guarded by mu
}

func (n *callNotes) add(call string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, call)
}

func (n *callNotes) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.calls)
}

// recorder is a processor that notes its callbacks.
type recorder struct {
	kcl.NopProcessor
	notes *callNotes
	shard string
	block func(ctx context.Context) error // in ProcessRecords, may be nil
}

func (r *recorder) note(call string) {
	r.notes.add(strings.TrimPrefix(r.shard, "shardId-00000000000") + " " + call)
}

func (r *recorder) ProcessRecords(ctx context.Context, b *kcl.Batch) error {
	r.note("records")
	if r.block != nil {
		if err := r.block(ctx); err != nil {
			return err
		}
	}
	return b.Checkpoint(ctx)
}

func (r *recorder) LeaseLost(context.Context) { r.note("lost") }

func (r *recorder) ShutdownRequested(ctx context.Context, cp kcl.Checkpointer) error {
	r.note("shutdown requested")
	return cp.Checkpoint(ctx)
}

// recording makes a worker's processors recorders.
func recording(notes *callNotes, block func(shard string) func(context.Context) error) func(*Config) {
	return func(c *Config) {
		c.Handler = nil
		c.NewProcessor = func(_ context.Context, s kcl.ShardInfo) (kcl.RecordProcessor, error) {
			r := &recorder{notes: notes, shard: s.ShardID}
			if block != nil {
				r.block = block(s.ShardID)
			}
			return r, nil
		}
	}
}

// A hard stop names the shards that it cuts off, and only those: the others left
// gracefully. consumption#10 as ruled
func TestHardStopNamesTheShards(t *testing.T) {
	inFleet(t, 4, func(t *testing.T, f *fleet) {
		f.put(100)
		var calls callNotes
		m := f.start("a", func(c *Config) { c.StopTimeout = 2 * time.Second }, recording(&calls, func(shard string) func(context.Context) error {
			if shard != "shardId-000000000002" {
				return nil
			}
			return func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
		}))
		f.until(time.Minute, "the batches", func() bool { return len(calls.all()) == 4 })
		time.Sleep(time.Second)
		err := m.stop()
		require.ErrorIs(t, err, kcl.ErrStopping)
		require.ErrorContains(t, err, "shardId-000000000002")
		for _, other := range []string{"0", "1", "3"} {
			assert.NotContains(t, err.Error(), "shardId-00000000000"+other)
			assert.Contains(t, calls.all(), other+" shutdown requested")
		}
		assert.NotContains(t, calls.all(), "2 shutdown requested")
		assert.Equal(t, map[string]int{"": 4}, f.owners())
		for k, l := range f.leases() {
			assert.Equal(t, k == "shardId-000000000002", l.Checkpoint == kcl.AtTrimHorizon, "%s at %s", k, l.Checkpoint)
		}
	})
}

// StopTimeout is not for a stop that Shutdown asks for: that may take as long as
// its context allows.
func TestShutdownTakesItsTime(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet) {
		f.put(5)
		m := f.start("a", func(c *Config) {
			inner := c.Handler
			c.Handler = func(ctx context.Context, b *kcl.Batch) error {
				time.Sleep(time.Minute)
				return inner(ctx, b)
			}
		})
		f.until(time.Minute, "the batch", func() bool { st := m.Status(); return len(st.Leases) == 1 && st.Leases[0].State == "processing" })
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		require.NoError(t, m.Shutdown(ctx))
		assert.Equal(t, 5, f.delivered())
		assert.True(t, m.Status().Draining)
	})
}

// A lease that cannot be given back is an error that names it; it lapses.
func TestStopWithoutTable(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, f *fleet) {
		m := f.start("a")
		f.until(time.Minute, "leases", func() bool { return len(m.Status().Leases) == 2 })
		f.refuse("UpdateItem", "com.amazonaws.dynamodb.v20120810#InternalServerError", 500, always)
		err := m.stop()
		require.ErrorIs(t, err, kcl.ErrDependency)
		for _, shard := range []string{shardID(0), shardID(1)} {
			assert.ErrorContains(t, err, shard)
		}
		assert.Equal(t, map[string]int{"a": 2}, f.owners())
	})
}

// A leader that stops gives its leases to others while it has the lock.
func TestLeaderHandsOverUnderItsLock(t *testing.T) {
	inFleet(t, 4, func(t *testing.T, f *fleet) {
		a := f.start("a")
		f.until(time.Minute, "a leads", func() bool { return a.Status().Leading })
		b := f.start("b")
		f.until(2*time.Minute, "a share", func() bool { return len(a.Status().Leases) == 2 && len(b.Status().Leases) == 2 })
		var mu sync.Mutex
		var whenFreed map[string]int
		f.aws.Intercept(func(ctx context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
			if i.Client == "a" && i.Operation == "DeleteItem" {
				mu.Lock()
				if whenFreed == nil {
					whenFreed = f.owners()
				}
				mu.Unlock()
			}
			return f.intercept(ctx, i, run)
		})
		require.NoError(t, a.stop())
		assert.Equal(t, map[string]int{"b": 4}, whenFreed)
		f.until(5*time.Second, "b reads all", func() bool { return len(b.Status().Leases) == 4 })
		require.NoError(t, b.stop())
	})
}

// What a worker tells of a tenure: none, or one whose consumer has gone before the
// shard's end, cannot answer a hand-off.
func TestLive(t *testing.T) {
	gone := make(chan struct{})
	close(gone)
	w := &worker{tenures: map[string]*tenure{
		"running": {done: make(chan struct{})}, "gone": {done: gone}, "ended": {done: gone, ended: true},
	}}
	for token, want := range map[string]bool{"running": true, "ended": true, "gone": false, "unknown": false} {
		assert.Equal(t, want, w.live("key", token), token)
	}
}

// A hand-off of a lease that has no consumer is completed at once, instead of
// waiting for one until its time is up.
func TestHandOffWithoutConsumer(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet) {
		m := f.start("a", idle)
		f.until(time.Minute, "the lease", func() bool { return len(m.Status().Leases) == 1 })
		w := m.worker
		w.mu.Lock()
		clear(w.tenures)
		w.mu.Unlock()
		_, ok, err := f.store().StartHandOff(t.Context(), f.leases()[shardID(0)], "java")
		require.NoError(t, err)
		require.True(t, ok)
		f.until(10*time.Second, "the transfer", func() bool { return !f.leases()[shardID(0)].HandOffPending() })
		assert.Equal(t, "java", f.whoOwns(0))
	})
}

// Shutdown from a callback only starts the stop; the callback goes on.
// consumption#11
func TestShutdownFromACallback(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet) {
		f.put(5)
		self := make(chan *member, 1)
		after := make(chan error, 1)
		m := f.start("a", func(c *Config) {
			inner := c.Handler
			c.Handler = func(ctx context.Context, b *kcl.Batch) error {
				after <- (<-self).Shutdown(ctx)
				return inner(ctx, b)
			}
		})
		self <- m
		<-m.done
		require.NoError(t, m.err)
		require.NoError(t, <-after)
		f.requireAllProcessed()
	})
}

// Shutdown waits for the graceful stop, whoever calls it and how often.
func TestShutdownTwice(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, f *fleet) {
		var calls callNotes
		f.put(10)
		m := f.start("a", recording(&calls, nil))
		f.until(time.Minute, "the batches", func() bool { return len(calls.all()) == 2 })
		time.Sleep(5 * time.Second)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { assert.NoError(t, m.Shutdown(t.Context())) })
		}
		wg.Wait()
		<-m.done
		require.NoError(t, m.err)
		require.NoError(t, m.Shutdown(t.Context()))
		for _, c := range []string{"0 shutdown requested", "1 shutdown requested"} {
			assert.Contains(t, calls.all(), c)
		}
	})
}

// The policy can stop the whole worker; Run tells why, and the leases are free.
func TestStopWorkerPolicy(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, f *fleet) {
		f.put(10)
		broken := errors.New("disk is full")
		m := f.start("a", func(c *Config) {
			c.Handler = func(context.Context, *kcl.Batch) error { return broken }
			c.OnFailure = func(kcl.Failure) kcl.Action { return kcl.StopWorker }
		})
		<-m.done
		require.ErrorIs(t, m.err, broken)
		assert.Equal(t, map[string]int{"": 2}, f.owners())
		for k, l := range f.leases() {
			assert.Equal(t, kcl.AtTrimHorizon, l.Checkpoint, k)
		}
	})
}

// A lease that arrives when the worker drains already starts no consumer, which
// nobody would wait for.
func TestNoConsumerOnceDraining(t *testing.T) {
	w := &worker{s: new(Scheduler), draining: true, tenures: make(map[string]*tenure)}
	w.acquired(lease.Lease{Key: "shardId-000000000000", Token: "t"})
	assert.Empty(t, w.tenures)
}

// With KeepLeasesOnStop the leases stay, and a worker of the same name goes on
// with them within seconds, at their checkpoints.
func TestKeepLeasesOnStop(t *testing.T) {
	inFleet(t, 4, func(t *testing.T, f *fleet) {
		keep := func(c *Config) { c.KeepLeasesOnStop = true }
		f.put(100)
		other := f.start("other")
		a := f.start("a", keep)
		f.until(2*time.Minute, "a share", func() bool { return f.owners()["a"] == 2 })
		f.until(time.Minute, "all records", func() bool { return f.delivered() >= 100 })
		time.Sleep(10 * time.Second)
		require.NoError(t, a.stop())
		assert.Equal(t, 2, f.owners()["a"], "nothing is released")

		again := f.start("a", keep)
		took := f.until(5*time.Second, "the same leases", func() bool { return len(again.Status().Leases) == 2 })
		t.Log("back after", took)
		f.put(100)
		f.until(time.Minute, "the new records", func() bool { return f.delivered() >= 200 })
		require.NoError(t, again.stop())
		require.NoError(t, other.stop())
		assert.Zero(t, f.requireAllProcessed())
	})
}

// A worker that stops deletes its record, so that nobody gives it leases; one
// that leads frees the lock at once, for whoever looks next.
// leader-and-client-version-migration#56
func TestStopLeavesNoTrace(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, f *fleet) {
		a := f.start("a")
		f.until(time.Minute, "a leads", func() bool { return a.Status().Leading })
		b := f.start("b")
		f.until(2*time.Minute, "a share", func() bool { return f.owners()["b"] == 1 })
		require.NoError(t, a.stop())
		assert.NotEqual(t, "a", f.lockOwner())
		f.until(15*time.Second, "b leads", func() bool { return b.Status().Leading })
		f.until(15*time.Second, "b has all", func() bool { return f.owners()["b"] == 2 })
		require.NoError(t, b.stop())
		assert.Empty(t, f.lockOwner())
		snap, err := f.store().Scan(t.Context())
		require.NoError(t, err)
		assert.Empty(t, snap.Others["WORKER_METRIC_STATS"])
		assert.Equal(t, map[string]int{"": 2}, f.owners())
	})
}

// A leader that stops gives a lease that it was given, and has not taken up, to
// another at once: it would never complete a hand-off of it.
func TestStopHandsOnWhatItHasNotTakenUp(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, f *fleet) {
		never := func(c *Config) { c.Leases.AssignmentInterval = time.Hour }
		a := f.start("a", never)
		f.until(time.Minute, "a has all", func() bool { return len(a.Status().Leases) == 2 })
		b := f.start("b", never)
		<-b.Ready()
		l := f.leases()["shardId-000000000000"]
		for _, owner := range []string{"gone", "a"} {
			var ok bool
			var err error
			l, ok, err = f.store().Assign(t.Context(), l, owner, false)
			require.NoError(t, err)
			require.True(t, ok)
			f.until(10*time.Second, "a has lost it", func() bool { return len(a.Status().Leases) == 1 })
		}
		require.NoError(t, a.stop())
		for key, l := range f.leases() {
			assert.Equal(t, "b", l.Owner, key)
			assert.False(t, l.HandOffPending(), key)
		}
		require.NoError(t, b.stop())
	})
}

// Another worker's leader, Java's for one, asks for a lease by the writes of the
// protocol: the processor is asked to finish, its checkpoint is stored, and the
// lease is the other's. leases#50,24
func TestHandOffToAnotherWorker(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet) {
		f.put(10)
		var calls callNotes
		m := f.start("a", recording(&calls, nil), func(c *Config) { c.Leases.AssignmentInterval = time.Hour })
		f.until(time.Minute, "the batch", func() bool { return len(calls.all()) == 1 })
		time.Sleep(5 * time.Second)
		l := f.leases()["shardId-000000000000"]
		_, ok, err := f.store().StartHandOff(t.Context(), l, "java")
		require.NoError(t, err)
		require.True(t, ok)
		took := f.until(10*time.Second, "the transfer", func() bool {
			l := f.leases()["shardId-000000000000"]
			return l.Owner == "java" && l.CheckpointOwner == ""
		})
		t.Log("transferred after", took)
		assert.Contains(t, calls.all(), "0 shutdown requested")
		shard := f.aws.Shards(testStream)[0]
		assert.Equal(t, shard.Records[9].SequenceNumber, f.leases()["shardId-000000000000"].Checkpoint.SequenceNumber)
		time.Sleep(time.Minute)
		assert.Equal(t, 0, len(m.Status().Leases), "it is left alone")
		require.NoError(t, m.stop())
	})
}

// A stream that is deleted under a running worker ends its shards, whose leases
// are cleaned up; the worker lives on, and consumes the stream that takes its
// place.
func TestStreamDeletedAndMadeAgain(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, f *fleet) {
		f.put(10)
		m := f.start("a", func(c *Config) {
			c.Leases.CleanupInterval, c.Leases.CompletedCleanupInterval, c.Leases.GarbageCleanupInterval = time.Second, time.Second, time.Second
		})
		f.until(time.Minute, "all records", func() bool { return f.delivered() == 10 })
		f.deleteStream()
		f.until(5*time.Minute, "no leases", func() bool { return len(f.leases()) == 0 })
		time.Sleep(5 * time.Minute)
		select {
		case <-m.done:
			t.Fatal("the worker ended: ", m.err)
		default:
		}
		require.NoError(t, f.aws.CreateStream(testStream, 3))
		f.mu.Lock()
		f.seen = make(map[string][]delivery)
		f.mu.Unlock()
		f.put(30)
		f.until(10*time.Minute, "the new stream's records", func() bool { return f.delivered() == 30 })
		require.NoError(t, m.stop())
		f.requireAllProcessed()
	})
}

// So does one that is deleted before the worker has read any of it: its start has
// found it.
func TestStreamDeletedUnread(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, f *fleet) {
		cut := f.aws.Inject(kcltest.Fault{Operations: []string{"GetShardIterator", "GetRecords"}, Effect: kcltest.Break})
		m := f.start("a", func(c *Config) {
			c.Leases.CleanupInterval, c.Leases.CompletedCleanupInterval, c.Leases.GarbageCleanupInterval = time.Second, time.Second, time.Second
		})
		f.until(time.Minute, "both leases", func() bool { return len(m.Status().Leases) == 2 })
		f.deleteStream()
		cut.Remove()
		f.until(5*time.Minute, "no leases", func() bool { return len(f.leases()) == 0 })
		require.NoError(t, m.stop())
	})
}

// A provisioned table, recovery, protection, tags and the callback of a new
// table reach the table that the worker creates.
func TestTableOptions(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet) {
		created := 0
		m := f.start("a", func(c *Config) {
			c.Table = TableConfig{
				Name: "leases-of-orders", BillingMode: types.BillingModeProvisioned, ReadCapacity: 7, WriteCapacity: 8,
				DeletionProtection: true, PointInTimeRecovery: true, Tags: map[string]string{"team": "orders"},
				Created: func(context.Context, *dynamodb.Client, string) error { created++; return nil },
			}
		})
		<-m.Ready()
		d := f.describe("leases-of-orders")
		assert.Equal(t, int64(7), *d.ProvisionedThroughput.ReadCapacityUnits)
		assert.Equal(t, int64(8), *d.ProvisionedThroughput.WriteCapacityUnits)
		assert.True(t, *d.DeletionProtectionEnabled)
		assert.Equal(t, 1, created)
		assert.Equal(t, types.PointInTimeRecoveryStatusEnabled, f.recovery("leases-of-orders"))
		require.NoError(t, m.stop())
	})
}
