package consumer

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/retrieval"
	"github.com/go-kcl/kcl/lease"
)

type shardToRead = retrieval.Shard

// merged is the child of shard and other.
var merged = retrieval.Child{ShardID: childA, Parents: []string{other, shard}, HashRange: hashes(0, 19)}

// consumption#36 shard-sync#42
func TestSplit(t *testing.T) {
	for name, stream := range map[string]kcl.StreamIdentifier{
		"single stream": {Name: "orders"},
		"multi-stream":  {AccountID: "123456789012", Name: "orders", CreationEpoch: 17},
	} {
		bubble(t, name, func(t *testing.T, s *stage) {
			s.stream.Stream = stream
			s.stream.Position = kcl.Latest // changes nothing: a child is read from its beginning
			s.lease.Key = stream.LeaseKey(shard)
			if stream.CreationEpoch != 0 {
				s.lease.Stream = stream.String()
			}
			s.rows.put(s.lease)
			s.start()
			s.deliver(endOf(batch(1, 2)))
			assert.Equal(t, Result{End: Ended, Children: []string{childA, childB}}, s.ended())
			for _, want := range []lease.Lease{
				{Key: stream.LeaseKey(childA), Stream: s.lease.Stream, ShardID: childA, Checkpoint: kcl.AtTrimHorizon, Parents: []string{shard}, HashRange: hashes(0, 9)},
				{Key: stream.LeaseKey(childB), Stream: s.lease.Stream, ShardID: childB, Checkpoint: kcl.AtTrimHorizon, Parents: []string{shard}, HashRange: hashes(10, 19)},
			} {
				assert.Equal(t, want, s.rows.leases[want.Key])
			}
			assert.Equal(t, []string{childA, childB}, s.rows.leases[s.lease.Key].Children)
			assert.Equal(t, []string{
				"create " + stream.LeaseKey(childA), "create " + stream.LeaseKey(childB), "children " + childA + " " + childB,
				"shard ended", "checkpoint SHARD_END",
			}, s.took()[4:], "children exist before SHARD_END is stored")
		})
	}
	bubble(t, "a child has a lease already", func(t *testing.T, s *stage) {
		running := lease.Lease{Key: childA, Owner: "you", Checkpoint: at(77), Counter: 5}
		s.rows.put(running)
		s.start()
		s.deliver(endOf(batch(1, 2)))
		assert.Equal(t, Ended, s.ended().End)
		assert.Equal(t, running, s.rows.leases[childA])
		assert.NotContains(t, s.took(), "create "+childA)
	})
}

// consumption#37 shard-sync#43,44
func TestMerge(t *testing.T) {
	for name, others := range map[string][]lease.Lease{
		"both parents have leases": {{Key: other, Checkpoint: at(5)}},
		"the other ended first":    {{Key: other, Checkpoint: kcl.ShardEnd}, {Key: childA, Checkpoint: kcl.AtTrimHorizon, Counter: 3}},
	} {
		bubble(t, name, func(t *testing.T, s *stage) {
			for _, l := range others {
				s.rows.put(l)
			}
			s.start()
			s.deliver(endOf(batch(1, 2), merged))
			assert.Equal(t, Result{End: Ended, Children: []string{childA}}, s.ended())
			if len(others) == 2 {
				assert.Equal(t, others[1], s.rows.leases[childA], "found, not made again")
				return
			}
			assert.Equal(t, lease.Lease{
				Key: childA, ShardID: childA, Checkpoint: kcl.AtTrimHorizon, Parents: merged.Parents, HashRange: hashes(0, 19),
			}, s.rows.leases[childA])
		})
	}
	// Rows of both parents absent: the child is created, but this worker's own
	// lease is gone too, so another worker ends the shard.
	bubble(t, "no parent has a lease", func(t *testing.T, s *stage) {
		s.start()
		delete(s.rows.leases, shard)
		s.deliver(endOf(batch(1, 2), merged))
		assert.Equal(t, Result{End: Lost}, s.ended())
		assert.Contains(t, s.took(), "create "+childA)
	})
	for name, tc := range map[string]struct {
		random float64
		gone   bool
	}{"one missing, shard kept": {1.0 / 30, false}, "one missing, shard given up": {1.0/30 - 1e-9, true}} {
		bubble(t, name, func(t *testing.T, s *stage) {
			s.cfg.Random = func() float64 { return tc.random }
			s.start()
			s.took()
			s.deliver(endOf(batch(1, 2), merged))
			assert.Equal(t, []float64{1}, s.rec.Values("ShutdownTask", "MissingMergeParentLease"))
			if tc.gone {
				assert.Equal(t, Result{End: Lost}, s.ended())
				assert.Equal(t, []string{"process 1-2", "close", "drop", "lease lost"}, s.took())
				return
			}
			settle(10 * time.Second)
			assert.Equal(t, []string{"process 1-2", "close"}, s.took(), "neither child's lease nor ShardEnded")
			assert.ErrorIs(t, s.c.Status().Err, errBlocked)
			s.rows.put(lease.Lease{Key: other, Checkpoint: at(5)})
			settle(mergePoll)
			assert.Equal(t, Ended, s.ended().End)
		})
	}
	bubble(t, "only one parent named", func(t *testing.T, s *stage) {
		child := merged
		child.Parents = []string{shard}
		s.start()
		s.took()
		s.deliver(endOf(batch(1, 2), child))
		assert.Equal(t, Result{End: Lost}, s.ended())
		assert.Equal(t, []float64{1}, s.rec.Values("ShutdownTask", "MissingMergeParent"))
		assert.Equal(t, []string{"process 1-2", "close", "drop", "lease lost"}, s.took())
	})
}

// shard-sync#46, and consumption#40 once the reader has said so: no children, no
// child leases, and the shard ends all the same, for the lease to be cleaned up.
func TestEndWithoutChildren(t *testing.T) {
	for name, children := range map[string][]retrieval.Child{"nil": nil, "empty": {}} {
		bubble(t, name, func(t *testing.T, s *stage) {
			s.start()
			s.took()
			b := batch(1, 0)
			b.End, b.Children = true, children
			s.deliver(b)
			assert.Equal(t, Result{End: Ended}, s.ended())
			assert.Equal(t, []string{"close", "shard ended", "checkpoint SHARD_END"}, s.took())
		})
	}
}

// Returning nil from ShardEnded is the acknowledgement, whatever the processor
// has checkpointed; after an error it is called again. (consumption#38,45 and
// shard-sync#47 as ruled.)
func TestShardEndedIsTheAcknowledgement(t *testing.T) {
	for name, checkpoint := range map[string]func(context.Context, *kcl.Batch) error{
		"no checkpoint":       func(context.Context, *kcl.Batch) error { return nil },
		"the last record":     func(ctx context.Context, b *kcl.Batch) error { return b.Checkpoint(ctx) },
		"SHARD_END by itself": func(ctx context.Context, b *kcl.Batch) error { return b.CheckpointAt(ctx, kcl.ShardEnd) },
	} {
		bubble(t, name, func(t *testing.T, s *stage) {
			var last *kcl.Batch
			s.actor.onProcess = func(_ context.Context, b *kcl.Batch) error { last = b; return nil }
			results := failing(errTest, errTest)
			s.actor.onEnded = func(ctx context.Context) error {
				if err := results(); err != nil {
					return err
				}
				return checkpoint(ctx, last)
			}
			s.start()
			s.deliver(endOf(batch(1, 2)))
			settle(50 * time.Millisecond)
			assert.NotContains(t, s.took(), "checkpoint SHARD_END")
			settle(time.Second)
			assert.Equal(t, Ended, s.ended().End)
			trace := s.took()
			assert.Equal(t, "checkpoint SHARD_END", trace[len(trace)-1])
			assert.Equal(t, kcl.ShardEnd, s.c.Status().Checkpoint)
		})
	}
	bubble(t, "skipped by the policy", func(t *testing.T, s *stage) {
		s.cfg.OnFailure = always(kcl.Skip)
		s.actor.onEnded = func(context.Context) error { return errTest }
		s.start()
		s.deliver(endOf(batch(1, 2)))
		assert.Equal(t, Ended, s.ended().End)
	})
}

// consumption#39
func TestLeaseNotHeldAtTheEnd(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		s.actor.onProcess = func(context.Context, *kcl.Batch) error {
			s.held.setErr("Confirm", kcl.ErrLeaseLost)
			return nil
		}
		s.start()
		s.took()
		s.deliver(endOf(batch(1, 2)))
		assert.Equal(t, Result{End: Lost}, s.ended())
		assert.Equal(t, []string{"process 1-2", "close", "drop", "lease lost"}, s.took())
		assert.Len(t, s.rows.leases, 1)
	})
}

// The lease is lost between ShardEnded and the write of SHARD_END.
func TestEndRefused(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		s.held.setErr("Checkpoint", kcl.ErrLeaseLost)
		s.start()
		s.deliver(endOf(batch(1, 2)))
		assert.Equal(t, Result{End: Lost}, s.ended())
		assert.Equal(t, []string{"shard ended", "checkpoint SHARD_END fails", "drop", "lease lost"}, s.took()[7:])
	})
}

// shard-sync#45: the owner crashed between the children's leases and its
// checkpoint; the next one repeats all of it and makes nothing twice. The crash
// may also have come right behind SHARD_END.
func TestEndIsRepeatedByTheNextOwner(t *testing.T) {
	bubble(t, "before SHARD_END", func(t *testing.T, s *stage) {
		s.rows.put(lease.Lease{Key: childA, Owner: "you", Checkpoint: at(9)})
		s.rows.put(lease.Lease{Key: childB, Checkpoint: kcl.AtTrimHorizon})
		s.start()
		s.deliver(endOf(batch(1, 2)))
		assert.Equal(t, Ended, s.ended().End)
		assert.Equal(t, []string{"children " + childA + " " + childB, "shard ended", "checkpoint SHARD_END"}, s.took()[4:])
		assert.Equal(t, at(9), s.rows.leases[childA].Checkpoint)
	})
	bubble(t, "behind SHARD_END", func(t *testing.T, s *stage) {
		s.start()
		s.rows.put(withCheckpoint(s, kcl.ShardEnd))
		s.deliver(endOf(batch(1, 2)))
		assert.Equal(t, Ended, s.ended().End)
		assert.NotContains(t, s.took(), "shard ended")
	})
}

// Calls that fail at the end are repeated; nothing is skipped on their account.
func TestTableFailsAtTheEnd(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		s.start()
		s.took()
		s.rows.fail(errTest)
		s.deliver(endOf(batch(1, 2)))
		settle(time.Hour)
		assert.Equal(t, []string{"process 1-2", "close"}, s.took())
		st := s.c.Status()
		assert.Equal(t, StateEnding, st.State)
		assert.Equal(t, "cannot prepare the shard's end", st.Waiting)
		require.ErrorIs(t, st.Err, errTest)
		s.rows.fail(nil)
		settle(2 * maxTableRetry)
		assert.Equal(t, Ended, s.ended().End)
	})
}
