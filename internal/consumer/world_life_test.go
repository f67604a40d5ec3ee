package consumer

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/lease"
)

func (w *world) split(id string, at string) {
	w.t.Helper()
	_, err := w.kinesis.SplitShard(w.t.Context(), &kinesis.SplitShardInput{
		StreamName: aws.String(streamName), ShardToSplit: &id, NewStartingHashKey: &at,
	})
	require.NoError(w.t, err)
	time.Sleep(3 * time.Second)
}

func (w *world) merge(a, b string) {
	w.t.Helper()
	_, err := w.kinesis.MergeShards(w.t.Context(), &kinesis.MergeShardsInput{
		StreamName: aws.String(streamName), ShardToMerge: &a, AdjacentShardToMerge: &b,
	})
	require.NoError(w.t, err)
	time.Sleep(3 * time.Second)
}

// A split of one shard and a merge of two, shared by two workers: every record
// once, parents before children, and each child's lease made once.
// consumption#36,37 shard-sync#48
func TestReshardAcrossWorkers(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a, b := w.worker("a", checkpointEach), w.worker("b", checkpointEach)
		s0, s1, s2 := w.shardID(0), w.shardID(1), w.shardID(2)
		all := w.put(0, 60)
		w.split(s2, "300000000000000000000000000000000000000")
		w.merge(s0, s1)
		all = append(all, w.put(60, 60)...)
		children := w.aws.Shards(streamName)[3:]
		require.Len(t, children, 3)

		a.take(s0)
		b.take(s1)
		a.take(s2)
		settle(20 * time.Second)
		for _, s := range []string{s0, s1, s2} {
			assert.True(t, w.item(s).Ended(), s)
		}
		merged := children[2]
		assert.ElementsMatch(t, []string{s0, s1}, merged.Parents)
		for _, c := range children {
			l := w.item(c.ID)
			assert.Equal(t, kcl.AtTrimHorizon, l.Checkpoint)
			assert.ElementsMatch(t, c.Parents, l.Parents)
			assert.False(t, l.HashRange.IsZero())
		}
		assert.ElementsMatch(t, []string{children[0].ID, children[1].ID}, w.item(s2).Children)
		assert.Equal(t, []Result{{End: Ended, Children: []string{merged.ID}}}, a.result(s0))
		assert.Equal(t, []Result{{End: Ended, Children: []string{merged.ID}}}, b.result(s1))
		counter := w.item(s0).Counter
		settle(10 * time.Second)
		assert.Greater(t, w.item(s0).Counter, counter, "an ended lease is renewed until it is cleaned up")

		for _, c := range children {
			b.take(c.ID)
		}
		settle(20 * time.Second)
		slices.Sort(all)
		assert.Equal(t, all, w.seen())
	})
}

// A child whose parent is processed elsewhere, and still going on.
func TestChildWaitsForItsParentElsewhere(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		id := w.shardID(0)
		w.put(0, 10)
		w.split(id, "1000")
		child := w.aws.Shards(streamName)[1].ID
		w.create(lease.Lease{Key: child, ShardID: child, Checkpoint: kcl.AtTrimHorizon, Parents: []string{id}})
		b := w.worker("b", checkpointEach)
		b.take(child)
		settle(30 * time.Second)
		assert.Equal(t, StateWaiting, b.of(child).Status().State)
		a := w.worker("a", checkpointEach)
		a.take(id)
		settle(2 * time.Second)
		require.True(t, w.item(id).Ended())
		settle(parentPoll)
		assert.Equal(t, StateReading, b.of(child).Status().State)
	})
}

// leases#50 consumption#42,68: a hand-off by a leader's write: A's next renewal
// learns of it; its processor checkpoints; B starts there. No record is
// processed twice, and A calls for none once the lease is B's.
func TestHandOffBetweenWorkers(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		id := w.shardID(0)
		a, b := w.worker("a", checkpointNever), w.worker("b", checkpointNever)
		a.take(id)
		first := w.put(0, 20)
		settle(2 * time.Second)
		assert.Equal(t, kcl.AtTrimHorizon, w.item(id).Checkpoint)
		w.handOffTo(id, "b")
		settle(4 * time.Second)

		l := w.item(id)
		assert.Equal(t, "b", l.Owner)
		assert.Empty(t, l.CheckpointOwner)
		assert.Equal(t, w.handledAt(19), l.Checkpoint)
		assert.Equal(t, []Result{{End: HandedOver}}, a.result(id))
		transferred := time.Now()
		second := w.put(20, 20)
		b.adopt(id)
		settle(10 * time.Second)
		all := slices.Concat(first, second)
		slices.Sort(all)
		assert.Equal(t, all, w.seen())
		calls := w.callTimes("a", "GetRecords")
		assert.True(t, calls[len(calls)-1].Before(transferred))
	})
}

// leases#51: the processor hangs: nothing happens before 30 s, then the lease is
// B's, and A's consumer leaves once the processor lets it.
func TestHandOffForced(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		id := w.shardID(0)
		hold := make(chan struct{})
		a := w.worker("a", func(context.Context, *kcl.Batch) error { <-hold; return nil })
		a.take(id)
		w.put(0, 1)
		settle(time.Second)
		w.handOffTo(id, "b")
		settle(29 * time.Second)
		assert.Equal(t, "a", w.item(id).CheckpointOwner)
		settle(8 * time.Second)
		l := w.item(id)
		assert.Equal(t, []string{"b", ""}, []string{l.Owner, l.CheckpointOwner})
		assert.Empty(t, a.result(id))
		close(hold)
		assert.Equal(t, []Result{{End: Lost}}, a.result(id))
		counter := l.Counter
		settle(time.Minute)
		assert.Equal(t, counter, w.item(id).Counter, "A writes nothing more")
	})
}

// leases#53: a consumer that waits for its parent hands over at once.
func TestHandOffWhileWaiting(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		child := "shardId-000000000009"
		w.create(lease.Lease{Key: child, ShardID: child, Checkpoint: kcl.AtTrimHorizon, Parents: []string{w.shardID(0)}})
		a := w.worker("a", checkpointEach)
		a.take(child)
		w.handOffTo(child, "b")
		settle(4 * time.Second)
		assert.Equal(t, []Result{{End: HandedOver}}, a.result(child))
		l := w.item(child)
		assert.Equal(t, []string{"b", ""}, []string{l.Owner, l.CheckpointOwner})
		_, held := a.renewer.Get(child)
		assert.False(t, held)
	})
}

// leases#54: a consumer that has left drops its own tenure, never a later one's.
func TestLateDropSparesTheNextTenure(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		id := w.shardID(0)
		hold := make(chan struct{})
		busy := true
		a := w.worker("a", func(context.Context, *kcl.Batch) error {
			if busy {
				busy = false
				<-hold
			}
			return nil
		})
		a.take(id)
		w.put(0, 1)
		settle(time.Second)
		old := a.of(id)
		l, _ := a.renewer.Get(id)
		a.renewer.Drop(id, l.Token)
		a.take(id) // lost and regained, while the processor is busy
		synctest.Wait()
		close(hold)
		assert.Equal(t, []Result{{End: Lost}}, a.result(id))
		settle(time.Minute)
		require.NotSame(t, old, a.of(id), "the second tenure goes on")
		assert.Equal(t, StateReading, a.of(id).Status().State)
	})
}

// leases#63: a hand-off meets a shard's end. The end goes on; the deadline
// passes; the next owner ends the shard, makes no lease twice and moves no
// checkpoint back.
func TestHandOffAtTheShardsEnd(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		id := w.shardID(0)
		w.put(0, 5)
		w.split(id, "1000")
		var ended atomic.Int32
		stuck := func(c *Config) {
			makes := c.NewProcessor
			c.NewProcessor = func(ctx context.Context, s kcl.ShardInfo) (kcl.RecordProcessor, error) {
				p, err := makes(ctx, s)
				return &neverEnds{p, &ended}, err
			}
		}
		a, b := w.worker("a", checkpointEach, stuck), w.worker("b", checkpointEach)
		a.take(id)
		settle(2 * time.Second)
		require.Positive(t, ended.Load())
		children := w.aws.Shards(streamName)[1:]
		require.Len(t, children, 2)
		before := w.item(children[0].ID)
		w.handOffTo(id, "b")
		settle(29 * time.Second)
		assert.Equal(t, "a", w.item(id).CheckpointOwner, "no transfer before the deadline")
		assert.False(t, w.item(id).Ended())
		settle(8 * time.Second)
		assert.Equal(t, []Result{{End: Lost}}, a.result(id))
		checkpoint := w.item(id).Checkpoint
		assert.Equal(t, w.handledAt(4), checkpoint)
		b.adopt(id)
		settle(10 * time.Second)
		assert.True(t, w.item(id).Ended())
		assert.Equal(t, before, w.item(children[0].ID))
		assert.Len(t, w.seen(), 5, "nothing was read again from before the checkpoint")
	})
}

// neverEnds does not acknowledge the end.
type neverEnds struct {
	kcl.RecordProcessor
	ended *atomic.Int32
}

func (n *neverEnds) ShardEnded(context.Context) error { n.ended.Add(1); return errTest }

// consumption#68: no call for a shard's records after its LeaseLost.
func TestNoCallsAfterLeaseLost(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		id := w.shardID(0)
		a := w.worker("a", checkpointEach)
		a.take(id)
		w.put(0, 5)
		settle(5 * time.Second)
		_, done, err := w.look.Assign(t.Context(), w.item(id), "b", false) // taken away
		require.NoError(t, err)
		require.True(t, done)
		for len(a.result(id)) == 0 {
			time.Sleep(time.Millisecond)
		}
		calls := len(w.callTimes("a", "GetRecords"))
		settle(time.Hour)
		assert.Len(t, w.callTimes("a", "GetRecords"), calls)
	})
}

// A graceful stop stores what the processor checkpoints and frees the lease, so
// that the next owner needs no expiry. (leases#62 as ruled.)
func TestStopReleases(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		id := w.shardID(0)
		a := w.worker("a", checkpointNever)
		a.take(id)
		w.put(0, 5)
		settle(time.Second)
		a.of(id).Stop(false)
		assert.Equal(t, []Result{{End: Released}}, a.result(id))
		l := w.item(id)
		assert.Empty(t, l.Owner)
		assert.Equal(t, w.handledAt(4), l.Checkpoint)
	})
}

// The handler form: the position rides on the renewals, at no write of its own,
// and is stored at once on a stop.
func TestHandlerInTheTable(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		id := w.shardID(0)
		n := 0
		a := w.worker("a", nil, func(c *Config) {
			c.NewProcessor = nil
			c.Handler = func(_ context.Context, b *kcl.Batch) error { n += len(b.Records); return nil }
		})
		a.take(id)
		settle(time.Second)
		writes := w.aws.Count("UpdateItem", "a")
		for i := range 20 {
			w.put(i, 1)
			time.Sleep(500 * time.Millisecond)
		}
		assert.LessOrEqual(t, w.aws.Count("UpdateItem", "a")-writes, 4, "ten seconds of renewals, 20 batches")
		settle(4 * time.Second)
		assert.Equal(t, 20, n)
		stored := w.aws.Shards(streamName)[0].Records
		assert.Equal(t, stored[19].SequenceNumber, w.item(id).Checkpoint.SequenceNumber)
		w.put(20, 1)
		settle(500 * time.Millisecond)
		a.of(id).Stop(false)
		assert.Equal(t, []Result{{End: Released}}, a.result(id))
		stored = w.aws.Shards(streamName)[0].Records
		assert.Equal(t, stored[20].SequenceNumber, w.item(id).Checkpoint.SequenceNumber)
	})
}

// consumption#9: a shard whose processor fails and panics for ever holds up no
// other.
func TestOneBadShardHoldsUpNoOther(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		bad, good := w.shardID(0), w.shardID(1)
		a := w.worker("a", func(ctx context.Context, b *kcl.Batch) error {
			if b.Shard.ShardID == bad {
				panic("every time")
			}
			return b.Checkpoint(ctx)
		})
		a.take(bad)
		a.take(good)
		for i := range 10 {
			w.put(i*10, 10)
			time.Sleep(10 * time.Second)
		}
		synctest.Wait()
		stored := w.aws.Shards(streamName)[1].Records
		assert.Equal(t, stored[len(stored)-1].SequenceNumber, w.item(good).Checkpoint.SequenceNumber)
		assert.Equal(t, kcl.AtTrimHorizon, w.item(bad).Checkpoint)
		assert.Equal(t, StateRetrying, a.of(bad).Status().State)
	})
}

// consumption#40: the stream is deleted under a running consumer: its shards end
// without children.
func TestStreamDeleted(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		id := w.shardID(0)
		a := w.worker("a", checkpointEach)
		a.take(id)
		w.put(0, 3)
		settle(3 * time.Second)
		_, err := w.kinesis.DeleteStream(t.Context(), &kinesis.DeleteStreamInput{StreamName: aws.String(streamName)})
		require.NoError(t, err)
		settle(30 * time.Second)
		assert.Equal(t, []Result{{End: Ended}}, a.result(id))
		assert.True(t, w.item(id).Ended())
	})
}
