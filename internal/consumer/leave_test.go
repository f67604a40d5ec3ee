package consumer

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
)

// consumption#11: ShutdownRequested comes before LeaseLost, once, and its
// checkpointer works.
func TestShutdownRequestedMayCheckpoint(t *testing.T) {
	for _, how := range []string{"stop", "hand-off"} {
		bubble(t, how, func(t *testing.T, s *stage) {
			s.held.handOff = how == "hand-off"
			s.actor.onShutdown = func(ctx context.Context, cp kcl.Checkpointer) error { return cp.Checkpoint(ctx) }
			s.start()
			s.deliver(batch(1, 3))
			s.took()
			want, end := "release", Released
			if how == "stop" {
				s.c.Stop(false)
			} else {
				want, end = "transfer", HandedOver
				s.c.HandOff()
				s.c.HandOff() // asked for with every renewal
			}
			assert.Equal(t, Result{End: end}, s.ended())
			assert.Equal(t, []string{"close", "shutdown requested", "checkpoint 3", want, "drop", "lease lost"}, s.took())
		})
	}
}

// A failing ShutdownRequested is logged, and what follows follows.
func TestShutdownRequestedFails(t *testing.T) {
	for _, handOff := range []bool{false, true} {
		bubble(t, "", func(t *testing.T, s *stage) {
			s.held.handOff = handOff
			s.actor.onShutdown = func(context.Context, kcl.Checkpointer) error { return errTest }
			s.start()
			s.took()
			s.c.Stop(false)
			assert.Contains(t, []End{Released, HandedOver}, s.ended().End)
			trace := s.took()
			assert.Equal(t, []string{"close", "shutdown requested"}, trace[:2])
			assert.Contains(t, []string{"release", "transfer"}, trace[2], "at its last checkpoint")
			assert.Equal(t, []string{"drop", "lease lost"}, trace[3:])
			assert.Equal(t, []string{"ERROR processor failed callback=ShutdownRequested"}, s.log.took())
		})
	}
}

// consumption#41, leases#53
func TestLeaseCannotBeGivenUp(t *testing.T) {
	for _, tc := range []struct {
		method  string
		handOff bool
		keep    bool
	}{{"Transfer", true, false}, {"Release", false, false}, {"Flush", false, true}} {
		bubble(t, tc.method, func(t *testing.T, s *stage) {
			s.held.handOff = tc.handOff
			s.held.setErr(tc.method, kcl.ErrDependency)
			s.start()
			s.took()
			s.c.Stop(tc.keep)
			res := s.ended()
			assert.Equal(t, Kept, res.End)
			require.ErrorIs(t, res.Err, kcl.ErrDependency)
			trace := s.took()
			assert.Equal(t, []string{"drop", "lease lost"}, trace[3:], "its heartbeat stops all the same")
			assert.Len(t, s.log.took(), 1)
		})
		bubble(t, tc.method+", lost meanwhile", func(t *testing.T, s *stage) {
			s.held.handOff = tc.handOff
			s.held.setErr(tc.method, kcl.ErrLeaseLost)
			s.start()
			s.c.Stop(tc.keep)
			assert.Equal(t, Result{End: Lost}, s.ended())
			assert.Empty(t, s.log.took())
		})
	}
}

// A stop meets a hand-off that is already pending: the next owner gets the
// lease, whatever KeepLeasesOnStop says. (leases#62 as ruled.)
func TestStopCompletesAPendingHandOff(t *testing.T) {
	for _, keep := range []bool{false, true} {
		bubble(t, "", func(t *testing.T, s *stage) {
			s.held.handOff = true
			s.start()
			s.took()
			s.c.Stop(keep)
			assert.Equal(t, Result{End: HandedOver}, s.ended())
			assert.Equal(t, []string{"close", "shutdown requested", "transfer", "drop", "lease lost"}, s.took())
		})
	}
}

func TestStopMayKeepTheLease(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		s.start()
		s.took()
		s.c.Stop(true)
		assert.Equal(t, Result{End: Kept}, s.ended())
		assert.Equal(t, []string{"close", "shutdown requested", "flush", "drop", "lease lost"}, s.took())
	})
}

// consumption#42 leases#51: the processor is slower than the hand-off's timeout:
// the renewer transfers the lease, and the consumer learns it as a loss. It
// transfers nothing itself.
func TestForcedHandOff(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		var cause error
		s.held.handOff = true
		s.actor.onShutdown = func(ctx context.Context, _ kcl.Checkpointer) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return nil
		}
		s.start()
		s.took()
		s.c.HandOff()
		settle(30 * time.Second)
		assert.Equal(t, []string{"close", "shutdown requested"}, s.took())
		s.c.LeaseLost()
		assert.Equal(t, Result{End: Lost}, s.ended())
		assert.Equal(t, []string{"lease lost"}, s.took())
		assert.Equal(t, kcl.ErrLeaseLost, cause)
	})
}

// consumption#12
func TestLeaseLostBeforeTheStopArrives(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		s.start()
		s.took()
		s.c.LeaseLost()
		s.c.Stop(false)
		s.c.HandOff()
		assert.Equal(t, Result{End: Lost}, s.ended())
		assert.Equal(t, []string{"close", "lease lost"}, s.took())
	})
}

// consumption#8
func TestLeaseLostIsCalledOnce(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		s.actor.onLost = func(context.Context) {
			s.c.LeaseLost()
			panic("not again")
		}
		s.start()
		s.c.LeaseLost()
		s.c.LeaseLost()
		s.ended()
		settle(time.Hour)
		calls := 0
		for _, l := range s.took() {
			if l == "lease lost" {
				calls++
			}
		}
		assert.Equal(t, 1, calls)
		assert.Equal(t, []string{"ERROR processor failed callback=LeaseLost"}, s.log.took())
	})
}

// The hard stop leaves the lease table 5 s to take the lease back.
func TestHardStopIsBounded(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		s.cfg.Leases = hanging{s.held}
		s.start()
		start := time.Now()
		s.stop()
		settle(leaveTimeout)
		res := s.ended()
		assert.ErrorIs(t, res.Err, context.DeadlineExceeded)
		assert.Equal(t, leaveTimeout, time.Since(start))
	})
}

// hanging answers no write.
type hanging struct{ *held }

func (h hanging) Release(ctx context.Context, _, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

// The handler form: what was accepted is handed on for the next renewal, and at
// the end of the tenure whoever takes the lease stores it first.
func TestHandler(t *testing.T) {
	handle := func(s *stage, f func(context.Context, *kcl.Batch) error) {
		s.cfg.NewProcessor = nil
		s.cfg.Handler = func(ctx context.Context, b *kcl.Batch) error {
			s.add("handle %s", span(b.Records))
			return f(ctx, b)
		}
	}
	ok := func(context.Context, *kcl.Batch) error { return nil }
	bubble(t, "accepts", func(t *testing.T, s *stage) {
		handle(s, ok)
		s.start()
		s.deliver(batch(1, 2), batch(3, 4), batch(5, 4))
		assert.Equal(t, []string{"handle 1-2", "accept 2", "handle 3-4", "accept 4"}, s.took())
		s.c.Stop(false)
		assert.Equal(t, Result{End: Released}, s.ended())
		assert.Equal(t, []string{"close", "release", "drop"}, s.took())
	})
	bubble(t, "keeps", func(t *testing.T, s *stage) {
		handle(s, ok)
		s.start()
		s.deliver(batch(1, 2))
		s.took()
		s.c.Stop(true)
		assert.Equal(t, Result{End: Kept}, s.ended())
		assert.Equal(t, []string{"close", "flush", "drop"}, s.took())
	})
	bubble(t, "ends", func(t *testing.T, s *stage) {
		handle(s, ok)
		s.start()
		s.deliver(endOf(batch(1, 2)))
		assert.Equal(t, Ended, s.ended().End)
		trace := s.took()
		assert.Equal(t, []string{"handle 1-2", "accept 2", "close"}, trace[:3])
		assert.Equal(t, "checkpoint SHARD_END", trace[len(trace)-1])
	})
	bubble(t, "fails in the middle", func(t *testing.T, s *stage) {
		results := failing(kcl.FailedAt(at(3), errTest))
		handle(s, func(context.Context, *kcl.Batch) error { return results() })
		s.start()
		s.deliver(batch(1, 4))
		settle(time.Second)
		assert.Equal(t, []string{"handle 1-4", "accept 2", "handle 3-4", "accept 4"}, s.took())
	})
}
