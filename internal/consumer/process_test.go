package consumer

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/lease"
)

// consumption#27
func TestBatchAsDelivered(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		s.lease.Parents = []string{other, parent}
		s.lease.HashRange = hashes(3, 4)
		var got *kcl.Batch
		s.actor.onProcess = func(ctx context.Context, b *kcl.Batch) error {
			got = b
			return b.Checkpoint(ctx)
		}
		b := batch(1, 3)
		b.Behind, b.BehindKnown = 5*time.Second, true
		s.start()
		s.deliver(b)
		require.NotNil(t, got)
		got.Checkpointer = nil
		assert.Equal(t, &kcl.Batch{
			Shard: kcl.ShardInfo{
				Stream: s.stream.Stream, ShardID: shard, Parents: []string{parent, other}, HashRange: hashes(3, 4),
				LeaseKey: shard, LeaseToken: "token",
			},
			Records: batch(1, 3).Records, Behind: 5 * time.Second, ReceivedAt: b.ReceivedAt,
		}, got)
		assert.Contains(t, s.took(), "checkpoint 3")
		st := s.c.Status()
		assert.Equal(t, at(3), st.Checkpoint)
		assert.Equal(t, at(3), st.Accepted)
		assert.Equal(t, 5*time.Second, st.Behind)
		assert.Equal(t, 12, s.held.bytes)
	})
}

// consumption#30
func TestEmptyAndFilteredBatches(t *testing.T) {
	for _, call := range []bool{false, true} {
		bubble(t, fmt.Sprintf("call with empty batches %v", call), func(t *testing.T, s *stage) {
			s.cfg.CallWithEmptyBatches = call
			s.rows.put(withCheckpoint(s, at(4)))
			var errs []error
			s.actor.onProcess = func(ctx context.Context, b *kcl.Batch) error {
				errs = append(errs, b.Checkpoint(ctx), b.CheckpointAt(ctx, at(5)))
				return nil
			}
			s.start()
			s.took()
			s.deliver(batch(1, 0), batch(1, 4))
			if !call {
				assert.Empty(t, s.took())
				return
			}
			assert.Equal(t, []string{"process none", "process none"}, s.took())
			require.Len(t, errs, 4)
			assert.NoError(t, errs[0])
			assert.ErrorIs(t, errs[1], kcl.ErrInvalidPosition, "nothing more is permitted")
			assert.Equal(t, at(4), s.c.Status().Accepted)
		})
	}
}

// What lies up to the checkpoint is not delivered again.
func TestCheckpointedRecordsAreLeftOut(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		s.rows.put(withCheckpoint(s, at(4)))
		s.start()
		s.deliver(batch(3, 6))
		assert.Equal(t, at(4), s.feed.shard.Checkpoint)
		assert.Equal(t, []string{"new", "initialize 4", "process 5-6"}, s.took())
	})
}

// consumption#31
func TestLastBatch(t *testing.T) {
	for _, call := range []bool{false, true} {
		bubble(t, fmt.Sprintf("empty, call with empty batches %v", call), func(t *testing.T, s *stage) {
			s.cfg.CallWithEmptyBatches = call
			s.start()
			s.deliver(endOf(batch(1, 0)))
			assert.Equal(t, Ended, s.ended().End)
			assert.NotContains(t, s.took(), "process none")
			assert.Equal(t, []float64{1}, s.rec.Values("ProcessTask", "Success"))
		})
	}
	bubble(t, "with records", func(t *testing.T, s *stage) {
		var ends []bool
		var children [][]string
		s.actor.onProcess = func(_ context.Context, b *kcl.Batch) error {
			ends, children = append(ends, b.AtShardEnd), append(children, b.ChildShards)
			return nil
		}
		s.start()
		s.deliver(batch(1, 1), endOf(batch(2, 2)))
		assert.Equal(t, Ended, s.ended().End)
		assert.Equal(t, []bool{false, true}, ends)
		assert.Equal(t, [][]string{nil, {childA, childB}}, children)
	})
}

func withCheckpoint(s *stage, p kcl.Position) (l lease.Lease) {
	l = s.lease
	l.Checkpoint = p
	return l
}

// A failing batch is delivered again by default, for ever, with waits of 100 ms
// to 30 s; what follows waits for it. (consumption#32 as ruled.)
func TestFailingBatchIsRetried(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		var calls []time.Duration
		var failures []kcl.Failure
		start := time.Now()
		s.actor.onProcess = func(context.Context, *kcl.Batch) error {
			calls = append(calls, time.Since(start))
			if len(calls) <= 12 {
				return errTest
			}
			return nil
		}
		s.cfg.OnFailure = func(f kcl.Failure) kcl.Action {
			failures = append(failures, f)
			return kcl.Action{}
		}
		s.start()
		s.deliver(batch(1, 2), batch(3, 3))
		settle(time.Hour)
		var want []time.Duration
		sum, wait := time.Duration(0), firstRetry
		for range 13 {
			want = append(want, sum)
			sum, wait = sum+wait, min(2*wait, maxRetry)
		}
		assert.Equal(t, append(want, want[12]), calls, "then the next batch at once")
		require.Len(t, failures, 12)
		assert.Equal(t, kcl.Failure{
			Shard: s.c.Shard(), Callback: kcl.CallbackProcessRecords, Err: errTest, Attempt: 12,
			First: at(1), Last: at(2),
		}, failures[11])
		assert.Equal(t, []string{"WARN processor failed, tried again callback=ProcessRecords first=1 last=2"}, s.log.took(), "one line")
	})
}

// A retry begins behind the last checkpoint, or where FailedAt says.
func TestRetryLeavesOutWhatIsDone(t *testing.T) {
	for name, tc := range map[string]struct {
		first func(context.Context, *kcl.Batch) error
		want  string // of the second delivery
	}{
		"nothing done": {func(context.Context, *kcl.Batch) error { return errTest }, "process 1-5"},
		"checkpointed": {func(ctx context.Context, b *kcl.Batch) error {
			return errors.Join(b.CheckpointAt(ctx, at(2)), errTest)
		}, "process 3-5"},
		"failed at":                  {func(context.Context, *kcl.Batch) error { return kcl.FailedAt(at(4), errTest) }, "process 4-5"},
		"failed at, wrapped":         {func(context.Context, *kcl.Batch) error { return fmt.Errorf("x: %w", kcl.FailedAt(at(4), errTest)) }, "process 4-5"},
		"failed at the first record": {func(context.Context, *kcl.Batch) error { return kcl.FailedAt(at(1), errTest) }, "process 1-5"},
		"failed at, behind the checkpoint": {func(ctx context.Context, b *kcl.Batch) error {
			return errors.Join(b.CheckpointAt(ctx, at(2)), kcl.FailedAt(at(4), errTest))
		}, "process 4-5"},
		"failed at, before the checkpoint": {func(ctx context.Context, b *kcl.Batch) error {
			return errors.Join(b.CheckpointAt(ctx, at(4)), kcl.FailedAt(at(2), errTest))
		}, "process 5-5"},
		"failed at a position before the batch": {func(context.Context, *kcl.Batch) error { return kcl.FailedAt(at(0), errTest) }, "process 1-5"},
		"failed at a position behind the batch": {func(context.Context, *kcl.Batch) error { return kcl.FailedAt(at(9), errTest) }, "process 1-5"},
		"checkpointed to the end": {func(ctx context.Context, b *kcl.Batch) error {
			return errors.Join(b.Checkpoint(ctx), errTest)
		}, "process 6-6"},
	} {
		bubble(t, name, func(t *testing.T, s *stage) {
			first := true
			s.actor.onProcess = func(ctx context.Context, b *kcl.Batch) error {
				if first {
					first = false
					return tc.first(ctx, b)
				}
				return nil
			}
			s.start()
			s.deliver(batch(1, 5), batch(6, 6))
			settle(time.Minute)
			var deliveries []string
			for _, l := range s.took() {
				if len(l) > 8 && l[:8] == "process " {
					deliveries = append(deliveries, l)
				}
			}
			require.GreaterOrEqual(t, len(deliveries), 2)
			assert.Equal(t, tc.want, deliveries[1])
			assert.Equal(t, "process 6-6", deliveries[len(deliveries)-1])
		})
	}
}

// Progress begins a new count of attempts: it is another call.
func TestAttemptsCountOneCall(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		results := failing(errTest, errTest, kcl.FailedAt(at(3), errTest), errTest)
		s.actor.onProcess = func(context.Context, *kcl.Batch) error { return results() }
		var attempts []int
		s.cfg.OnFailure = func(f kcl.Failure) kcl.Action {
			attempts = append(attempts, f.Attempt)
			return kcl.Action{}
		}
		s.start()
		s.deliver(batch(1, 5))
		settle(time.Minute)
		assert.Equal(t, []int{1, 2, 3, 1}, attempts)
	})
}

func TestFigures(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		s.rows.put(withCheckpoint(s, at(1)))
		results := failing(errTest)
		s.actor.onProcess = func(context.Context, *kcl.Batch) error { return results() }
		b := batch(1, 3)
		b.Behind, b.BehindKnown = 1500*time.Millisecond, true
		s.start()
		s.deliver(b, endOf(batch(1, 0)))
		settle(time.Minute)
		for name, want := range map[string][]float64{
			"RecordsProcessed": {3, 0}, "DataBytesProcessed": {8, 0}, "MillisBehindLatest": {1500},
			"Success": {0, 1, 1}, "RecordProcessor.processRecords.Time": {0, 0},
		} {
			assert.Equal(t, want, s.rec.Values("ProcessTask", name), name)
		}
		assert.Equal(t, []float64{1500}, s.rec.Values("ApplicationTracker", "MillisBehindLatest"))
		assert.Len(t, s.rec.Values("InitializeTask", "RecordProcessor.initialize.Time"), 1)
		assert.Len(t, s.rec.Values("ShutdownTask", "RecordProcessor.shutdown.Time"), 1)
		assert.Equal(t, []float64{1, 1}, s.rec.Values("ShutdownTask", "CreateLease.Success"))
		assert.Equal(t, []float64{1, 1}, s.rec.Values("ShutdownTask", "CreateLease_TRIM_HORIZON.Success"))
	})
}

// Before records are handed out the lease is made sure of, as after a suspend.
func TestLeaseIsConfirmedBeforeDelivery(t *testing.T) {
	bubble(t, "lost", func(t *testing.T, s *stage) {
		s.start()
		s.held.setErr("Confirm", fmt.Errorf("lease: %w", kcl.ErrLeaseLost))
		s.took()
		s.deliver(batch(1, 2))
		assert.Equal(t, Result{End: Lost}, s.ended())
		assert.Equal(t, []string{"drop", "close", "lease lost"}, s.took())
	})
	bubble(t, "not known yet", func(t *testing.T, s *stage) {
		s.start()
		s.held.setErr("Confirm", kcl.ErrDependency)
		s.took()
		s.deliver(batch(1, 2))
		settle(time.Second)
		assert.Empty(t, s.took())
		s.held.setErr("Confirm", nil)
		settle(maxTableRetry)
		assert.Equal(t, []string{"process 1-2"}, s.took())
	})
}
