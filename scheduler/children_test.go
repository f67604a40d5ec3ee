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
	"github.com/go-kcl/kcl/lease"
)

func shardID(n int) string { return fmt.Sprintf("shardId-%012d", n) }

// split divides the n-th shard of a stream of so many.
func (f *fleet) split(n, shards int) {
	f.t.Helper()
	_, err := f.kinesis().SplitShard(f.t.Context(), &kinesis.SplitShardInput{
		StreamName: aws.String(testStream), ShardToSplit: aws.String(shardID(n)), NewStartingHashKey: aws.String(middleOf(n, shards)),
	})
	require.NoError(f.t, err)
}

// middleOf returns a hash key from within the n-th of so many equal shards.
func middleOf(n, shards int) string {
	return kcl.HashKey{Hi: uint64(2*n+1) * (1 << 63 / uint64(shards))}.String()
}

// idle makes a leader run only when it is asked to. As a worker it finds leases
// just as seldom.
func idle(c *Config) { c.Leases.AssignmentInterval = time.Hour }

// lease returns the n-th shard's lease; none if it cannot be read. It may be
// called from any goroutine.
func (f *fleet) lease(n int) lease.Lease {
	l, _, _ := f.store().GetConsistent(context.Background(), shardID(n))
	return l
}

// whoOwns returns the worker that owns the n-th shard's lease.
func (f *fleet) whoOwns(n int) string { return f.lease(n).Owner }

// A worker takes the children of a shard that it has ended at once, whoever the
// leader would give them to, and reads them at once.
func TestChildrenAreTaken(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, f *fleet) {
		a := f.start("a", idle)
		f.until(time.Minute, "a has both", func() bool { return len(a.Status().Leases) == 2 })
		b := f.start("b")
		<-b.Ready()
		_, ok, err := f.store().Assign(t.Context(), f.lease(1), "b", false)
		require.NoError(t, err)
		require.True(t, ok)
		f.until(20*time.Second, "b reads one", func() bool { st := b.Status(); return len(st.Leases) == 1 && st.Leases[0].State == "reading" })

		f.split(1, 2)
		f.until(20*time.Second, "the children are owned", func() bool { return f.whoOwns(2) != "" && f.whoOwns(3) != "" })
		assert.Equal(t, []string{"b", "b"}, []string{f.whoOwns(2), f.whoOwns(3)})
		time.Sleep(200 * time.Millisecond)
		assert.Len(t, b.Status().Leases, 3, "two children, and the parent until it is cleaned up")
		require.NoError(t, b.stop())
		require.NoError(t, a.stop())
	})
}

// What a worker has no room for, its leader hears of at once.
func TestChildrenWithoutRoom(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, f *fleet) {
		seldom := func(c *Config) { c.Leases.MaxLeasesForWorker, c.Leases.AssignmentInterval = 1, 40*time.Second }
		a, b := f.start("a", seldom), f.start("b", seldom)
		f.until(2*time.Minute, "each reads one", func() bool { return len(a.Status().Leases) == 1 && len(b.Status().Leases) == 1 })
		c := f.start("c", seldom)
		time.Sleep(10 * time.Second)
		lead := a // whose own reading tells it of the end at once; it cannot take the children
		if b.Status().Leading {
			lead = b
		}
		ends := 0
		if f.whoOwns(1) == lead.name {
			ends = 1
		}
		f.split(ends, 2)
		f.until(20*time.Second, "the children exist", func() bool { return len(f.leases()) == 4 })
		took := f.until(time.Minute, "both are owned", func() bool { return f.whoOwns(2) != "" && f.whoOwns(3) != "" })
		assert.Less(t, took, 5*time.Second)
		assert.NotEqual(t, f.whoOwns(2), f.whoOwns(3))
		for _, m := range []*member{a, b, c} {
			require.NoError(t, m.stop())
		}
	})
}

// A child that waits for a parent on the same worker is woken by the parent's end,
// however seldom it looks by itself.
func TestChildrenAreWoken(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, f *fleet) {
		f.put(100)
		m := f.start("a", func(c *Config) { c.ParentShardPollInterval = 10 * time.Minute })
		f.until(time.Minute, "all records", func() bool { return f.delivered() == 100 })
		_, err := f.kinesis().MergeShards(t.Context(), &kinesis.MergeShardsInput{
			StreamName: aws.String(testStream), ShardToMerge: aws.String(shardID(0)), AdjacentShardToMerge: aws.String(shardID(1)),
		})
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		f.put(10)
		f.until(30*time.Second, "the child's records", func() bool { return f.delivered() == 110 })
		require.NoError(t, m.stop())
		f.requireAllProcessed()
	})
}

// The lease of an ended shard is kept, and shown, until its children have begun;
// with KeepFinished, for longer.
func TestEndedLeases(t *testing.T) {
	for _, keep := range []bool{false, true} {
		inFleet(t, 1, func(t *testing.T, f *fleet) {
			f.put(10)
			m := f.start("a", func(c *Config) {
				c.Leases.CleanupInterval, c.Leases.CompletedCleanupInterval, c.Leases.GarbageCleanupInterval = time.Second, 10*time.Second, 10*time.Second
				c.Leases.KeepFinished = keep
			})
			f.until(time.Minute, "all records", func() bool { return f.delivered() == 10 })
			f.split(0, 1)
			f.until(20*time.Second, "the end", func() bool { return f.leases()[shardID(0)].Ended() })
			time.Sleep(100 * time.Millisecond)
			st := m.Status()
			require.Len(t, st.Leases, 3)
			assert.Equal(t, "ended", st.Leases[0].State)
			f.put(10)
			f.until(20*time.Second, "the children's records", func() bool { return f.delivered() == 20 })
			time.Sleep(time.Minute)
			want := 2
			if keep {
				want = 3
			}
			assert.Len(t, f.leases(), want)
			assert.Len(t, m.Status().Leases, want)
			require.NoError(t, m.stop())
		})
	}
}
