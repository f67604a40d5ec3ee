package scheduler

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/wait"
)

// produce puts records at a steady rate until the fleet stops.
func (f *fleet) produce(every time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		k := f.kinesis()
		for i := 0; wait.For(ctx, every); i++ {
			_, err := k.PutRecord(ctx, &kinesis.PutRecordInput{
				StreamName: aws.String(testStream), PartitionKey: aws.String(fmt.Sprint("key", i)), Data: fmt.Appendf(nil, "produced %d", i),
			})
			if ctx.Err() == nil {
				assert.NoError(f.t, err)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// A fleet shares the shards out evenly, and what a worker that stops had goes to
// the others within seconds.
func TestFleetSharesAndStops(t *testing.T) {
	inFleet(t, 12, func(t *testing.T, f *fleet) {
		stop := f.produce(20 * time.Millisecond)
		a, b, c := f.start("a"), f.start("b"), f.start("c")
		for _, m := range []*member{a, b, c} {
			<-m.Ready()
		}
		even := map[string]int{"a": 4, "b": 4, "c": 4}
		took := f.until(2*time.Minute, "an even spread", func() bool { return assert.ObjectsAreEqual(even, f.owners()) })
		t.Log("even spread after", took)

		time.Sleep(10 * time.Second)
		require.NoError(t, a.stop())
		took = f.until(30*time.Second, "others take over", func() bool { o := f.owners(); return o["b"]+o["c"] == 12 })
		t.Log("taken over after", took)
		require.NoError(t, b.stop())
		f.until(30*time.Second, "the last one takes over", func() bool { return f.owners()["c"] == 12 })
		stop()
		time.Sleep(10 * time.Second)
		require.NoError(t, c.stop())
		assert.Zero(t, f.requireAllProcessed(), "graceful stops repeat nothing")
	})
}

// The shards of a worker that dies are taken over after FailoverTime; if it led,
// after the lock's duration. Nothing is lost.
func TestWorkersDie(t *testing.T) {
	inFleet(t, 8, func(t *testing.T, f *fleet) {
		stop := f.produce(20 * time.Millisecond)
		ms := []*member{f.start("a")}
		f.until(time.Minute, "a leads", func() bool { return ms[0].Status().Leading })
		ms = append(ms, f.start("b"), f.start("c"))
		f.until(3*time.Minute, "an even spread", func() bool {
			o := f.owners()
			return o[""] == 0 && o["a"] <= 3 && o["b"] <= 3 && o["c"] <= 3
		})
		time.Sleep(20 * time.Second)
		f.kill(ms[1])
		took := f.until(time.Minute, "others take over from b", func() bool { return f.owners()["b"] == 0 })
		t.Log("killed follower replaced after", took)
		time.Sleep(20 * time.Second)
		f.kill(ms[0])
		took = f.until(2*time.Minute, "c takes over from the leader", func() bool { return f.owners()["c"] == 8 })
		t.Log("killed leader replaced after", took)
		stop()
		time.Sleep(20 * time.Second)
		require.NoError(t, ms[2].stop())
		t.Log("repeated:", f.requireAllProcessed())
	})
}

// Splits and merges while records flow: parents before children, ended leases
// are deleted in the end.
func TestReshard(t *testing.T) {
	inFleet(t, 4, func(t *testing.T, f *fleet) {
		stop := f.produce(20 * time.Millisecond)
		short := func(c *Config) {
			c.Leases.CleanupInterval, c.Leases.CompletedCleanupInterval = time.Second, 2*time.Second
		}
		a, b := f.start("a", short), f.start("b", short)
		f.until(time.Minute, "all leases are owned", func() bool { o := f.owners(); return len(o) > 0 && o[""] == 0 && o["a"]+o["b"] == 4 })
		time.Sleep(5 * time.Second)
		k := f.kinesis()
		_, err := k.SplitShard(t.Context(), &kinesis.SplitShardInput{
			StreamName: aws.String(testStream), ShardToSplit: aws.String("shardId-000000000000"), NewStartingHashKey: aws.String("42535295865117307932921825928971026432"),
		})
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		_, err = k.MergeShards(t.Context(), &kinesis.MergeShardsInput{
			StreamName: aws.String(testStream), ShardToMerge: aws.String("shardId-000000000002"), AdjacentShardToMerge: aws.String("shardId-000000000003"),
		})
		require.NoError(t, err)
		took := f.until(time.Minute, "ended leases are deleted", func() bool {
			l := f.leases()
			_, zero := l["shardId-000000000000"]
			_, two := l["shardId-000000000002"]
			_, three := l["shardId-000000000003"]
			return len(l) == 4 && !zero && !two && !three
		})
		t.Log("cleaned up after", took)
		time.Sleep(10 * time.Second)
		stop()
		time.Sleep(10 * time.Second)
		require.NoError(t, a.stop())
		require.NoError(t, b.stop())
		assert.Zero(t, f.requireAllProcessed())
		for _, l := range f.leases() {
			assert.False(t, l.Ended(), l.Key)
		}
	})
}

// An ended parent's lease is kept until its children are read: it must not take
// the room that they need.
func TestReshardAtTheLimit(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet) {
		stop := f.produce(20 * time.Millisecond)
		change := func(c *Config) {
			c.Leases.MaxLeasesForWorker = 1
			c.Leases.CleanupInterval, c.Leases.CompletedCleanupInterval = time.Second, 2*time.Second
		}
		a, b := f.start("a", change), f.start("b", change)
		f.until(time.Minute, "the shard is read", func() bool { return f.delivered() > 0 })
		_, err := f.kinesis().SplitShard(t.Context(), &kinesis.SplitShardInput{
			StreamName: aws.String(testStream), ShardToSplit: aws.String("shardId-000000000000"), NewStartingHashKey: aws.String("170141183460469231731687303715884105728"),
		})
		require.NoError(t, err)
		f.until(2*time.Minute, "each child is read, the parent's lease deleted", func() bool {
			return assert.ObjectsAreEqual(map[string]int{"a": 1, "b": 1}, f.owners()) && len(f.leases()) == 2
		})
		time.Sleep(10 * time.Second)
		stop()
		time.Sleep(10 * time.Second)
		require.NoError(t, a.stop())
		require.NoError(t, b.stop())
		f.requireAllProcessed()
	})
}

// A lease that somebody else takes ends the processor's work on it: its context is
// cancelled, and it is told, once. The worker goes on with its other shards.
func TestLeaseLost(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, f *fleet) {
		f.put(100)
		var calls callNotes
		cause := make(chan error, 1)
		m := f.start("a", idle, recording(&calls, func(shard string) func(context.Context) error {
			if shard != shardID(0) {
				return nil
			}
			return func(ctx context.Context) error {
				<-ctx.Done()
				cause <- context.Cause(ctx)
				return ctx.Err()
			}
		}))
		f.until(time.Minute, "the batches", func() bool { return len(calls.all()) == 2 })
		_, ok, err := f.store().Assign(t.Context(), f.leases()[shardID(0)], "thief", false)
		require.NoError(t, err)
		require.True(t, ok)
		time.Sleep(5 * time.Second)
		require.ErrorIs(t, <-cause, kcl.ErrLeaseLost)
		time.Sleep(time.Minute)
		assert.Len(t, m.Status().Leases, 1)
		require.NoError(t, m.stop())
		assert.ElementsMatch(t, []string{"0 records", "0 lost", "1 records", "1 shutdown requested", "1 lost"}, calls.all())
		assert.Equal(t, "thief", f.whoOwns(0))
	})
}

// A worker that stops while leases are still unread, or before it has joined,
// stops at once.
func TestStopEarly(t *testing.T) {
	inFleet(t, 4, func(t *testing.T, f *fleet) {
		var told []State
		c := f.config("never run")
		states(&told)(&c)
		s, err := New(c)
		require.NoError(t, err)
		require.NoError(t, s.Shutdown(t.Context()))
		require.NoError(t, s.Run(t.Context()), "consumption#14: a stop before the start makes it nothing")
		require.Error(t, s.Run(t.Context()))
		require.NoError(t, s.Shutdown(t.Context()))
		assert.Equal(t, []State{StateStopped}, told)

		m := f.start("a")
		time.Sleep(100 * time.Millisecond) // the table is being created
		start := time.Now()
		require.NoError(t, m.stop())
		assert.Less(t, time.Since(start), time.Second)
		select {
		case <-m.Ready():
			t.Error("ready although it never joined")
		default:
		}
	})
}

// Stopping a worker whose processor hangs takes StopTimeout; the error names the
// shard, and the lease is free for others.
func TestStopTimeout(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet) {
		f.put(10)
		hang := make(chan struct{})
		m := f.start("a", func(c *Config) {
			c.StopTimeout = 3 * time.Second
			c.Handler = func(ctx context.Context, b *kcl.Batch) error { <-hang; return nil }
		})
		f.until(time.Minute, "the batch", func() bool { st := m.Status(); return len(st.Leases) == 1 && st.Leases[0].State == "processing" })
		start := time.Now()
		err := m.stop()
		require.ErrorContains(t, err, "shardId-000000000000")
		require.ErrorIs(t, err, kcl.ErrStopping)
		assert.LessOrEqual(t, time.Since(start), 3*time.Second+hardGrace+lastCalls)
		assert.Equal(t, map[string]int{"": 1}, f.owners())
		close(hang)
	})
}

// A processor that honours its context is cut off by the hard stop, with the
// reason as the cause.
func TestStopHard(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet) {
		f.put(10)
		var cause error
		m := f.start("a", func(c *Config) {
			c.Handler = func(ctx context.Context, b *kcl.Batch) error {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return ctx.Err()
			}
		})
		f.until(time.Minute, "the batch", func() bool { st := m.Status(); return len(st.Leases) == 1 && st.Leases[0].State == "processing" })
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		err := m.Shutdown(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "shardId-000000000000")
		require.ErrorIs(t, cause, kcl.ErrStopping)
		assert.Equal(t, map[string]int{"": 1}, f.owners())
	})
}
