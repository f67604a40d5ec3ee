package consumer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/retrieval"
	"github.com/go-kcl/kcl/lease"
)

func TestWholeLife(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		s.start()
		s.deliver(batch(1, 3), batch(4, 4), endOf(batch(5, 6)))
		assert.Equal(t, Result{End: Ended, Children: []string{childA, childB}}, s.ended())
		assert.Equal(t, []string{
			"new", "initialize TRIM_HORIZON", "process 1-3", "process 4-4", "process 5-6", "close",
			"create " + childA, "create " + childB, "children " + childA + " " + childB,
			"shard ended", "checkpoint SHARD_END",
		}, s.took())
		assert.Equal(t, StateDone, s.c.Status().State)
	})
}

// The phases of a life, each with what is done to bring a consumer there. What
// has happened so far is forgotten.
func phase(s *stage, name string) {
	s.t.Helper()
	hold := make(chan struct{})
	s.t.Cleanup(func() { close(hold) })
	switch name {
	case "waiting":
		s.lease.Parents = []string{parent}
		s.rows.put(lease.Lease{Key: parent, Checkpoint: at(5)})
		s.start()
	case "starting": // Initialize fails and fails
		s.actor.onInitialize = func(context.Context, *kcl.Initialization) error { return errTest }
		s.start()
	case "reading":
		s.start()
	case "retrying": // the batch fails and fails
		s.actor.onProcess = func(context.Context, *kcl.Batch) error { return errTest }
		s.start()
		s.deliver(batch(1, 2))
	case "stopped": // by the failure policy
		s.cfg.OnFailure = func(kcl.Failure) kcl.Action { return kcl.StopShard }
		s.actor.onProcess = func(context.Context, *kcl.Batch) error { return errTest }
		s.start()
		s.deliver(batch(1, 2))
	case "ending": // ShardEnded fails and fails
		s.actor.onEnded = func(context.Context) error {
			if s.actor.recovered.Load() {
				return nil
			}
			return errTest
		}
		s.start()
		s.deliver(endOf(batch(1, 2)))
	case "merging": // the other parent's lease is missing
		s.start()
		s.deliver(endOf(batch(1, 2), retrieval.Child{ShardID: childA, Parents: []string{other, shard}}))
	default:
		s.t.Fatal(name)
	}
	s.took()
}

// consumption#16: the cells of the transition table. A reason to leave wins
// over whatever the phase's own work comes to, and no wait holds it up.
func TestLeaveFromEachPhase(t *testing.T) {
	gracefully := []string{"close", "shutdown requested", "release", "drop", "lease lost"}
	handingOver := []string{"close", "shutdown requested", "transfer", "drop", "lease lost"}
	asLost := []string{"close", "lease lost"}
	hard := []string{"close", "release", "drop", "lease lost"}
	without := func(lines []string, which ...string) []string {
		var out []string
		for _, l := range lines {
			keep := true
			for _, w := range which {
				keep = keep && l != w
			}
			if keep {
				out = append(out, l)
			}
		}
		return out
	}
	for _, tc := range []struct {
		phase                     string
		stop, handOff, lost, hard []string
	}{
		{"waiting", []string{"release", "drop"}, []string{"transfer", "drop"}, nil, []string{"release", "drop"}},
		{"starting", hard, []string{"close", "transfer", "drop", "lease lost"}, asLost, hard},
		{"reading", gracefully, handingOver, asLost, hard},
		{"retrying", gracefully, handingOver, asLost, hard},
		{"stopped", without(gracefully, "close"), without(handingOver, "close"), without(asLost, "close"), without(hard, "close")},
		// A shard's end outranks a hand-off, which is the renewer's to force.
		{"ending", without(gracefully, "close"), nil, without(asLost, "close"), without(hard, "close")},
		{"merging", without(gracefully, "close"), nil, without(asLost, "close"), without(hard, "close")},
	} {
		bubble(t, tc.phase+", stop", func(t *testing.T, s *stage) {
			phase(s, tc.phase)
			s.c.Stop(false)
			assert.Equal(t, Result{End: Released}, s.ended())
			assert.Equal(t, tc.stop, s.took())
		})
		bubble(t, tc.phase+", hand-off", func(t *testing.T, s *stage) {
			phase(s, tc.phase)
			s.held.handOff = true
			s.c.HandOff()
			if tc.handOff == nil {
				s.goesOn()
				assert.Empty(t, s.took())
				s.c.LeaseLost() // forced by the renewer
				assert.Equal(t, Result{End: Lost}, s.ended())
				assert.Equal(t, []string{"lease lost"}, s.took())
				return
			}
			assert.Equal(t, Result{End: HandedOver}, s.ended())
			assert.Equal(t, tc.handOff, s.took())
		})
		bubble(t, tc.phase+", lease lost", func(t *testing.T, s *stage) {
			phase(s, tc.phase)
			s.c.LeaseLost()
			assert.Equal(t, Result{End: Lost}, s.ended())
			assert.Equal(t, tc.lost, s.took())
		})
		bubble(t, tc.phase+", hard stop", func(t *testing.T, s *stage) {
			phase(s, tc.phase)
			s.stop()
			assert.Equal(t, Result{End: Released}, s.ended())
			assert.Equal(t, tc.hard, s.took())
		})
	}
}

// consumption#16: the cells without a reason to leave: success goes on, failure
// is repeated, until it succeeds.
func TestEachPhaseRepeatsUntilItSucceeds(t *testing.T) {
	bubble(t, "waiting", func(t *testing.T, s *stage) {
		phase(s, "waiting")
		s.rows.fail(errTest)
		time.Sleep(time.Hour)
		assert.Empty(t, s.took())
		s.rows.fail(nil)
		s.rows.put(lease.Lease{Key: parent, Checkpoint: kcl.ShardEnd})
		settle(slowParentPoll)
		assert.Equal(t, []string{"new", "initialize TRIM_HORIZON"}, s.took())
	})
	bubble(t, "reading the lease", func(t *testing.T, s *stage) {
		s.rows.fail(errTest)
		s.start()
		time.Sleep(time.Hour)
		assert.Empty(t, s.took())
		assert.Equal(t, []string{"WARN shard is held up, tried again what=cannot read its lease"}, s.log.took())
		s.rows.fail(nil)
		settle(maxTableRetry * 2)
		assert.Equal(t, []string{"new", "initialize TRIM_HORIZON"}, s.took())
	})
	bubble(t, "ending", func(t *testing.T, s *stage) {
		phase(s, "ending")
		settle(750 * time.Millisecond) // 100, 200 and 400 ms
		assert.Equal(t, []string{"shard ended", "shard ended", "shard ended"}, s.took())
		s.actor.recovered.Store(true)
		settle(800 * time.Millisecond)
		assert.Equal(t, []string{"shard ended", "checkpoint SHARD_END"}, s.took())
		assert.Equal(t, Ended, s.ended().End)
	})
	bubble(t, "storing the end", func(t *testing.T, s *stage) {
		s.held.setErr("Checkpoint", kcl.ErrThrottled)
		s.start()
		s.deliver(endOf(batch(1, 1), []retrieval.Child{}...))
		s.goesOn()
		s.c.Stop(false) // no reason to give up what the processor has acknowledged
		s.goesOn()
		s.held.setErr("Checkpoint", nil)
		settle(maxTableRetry * 2)
		assert.Equal(t, Ended, s.ended().End)
	})
}

// consumption#17
func TestTheHigherReasonWins(t *testing.T) {
	bubble(t, "stop, then lease lost", func(t *testing.T, s *stage) {
		s.actor.onShutdown = func(ctx context.Context, _ kcl.Checkpointer) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		s.start()
		s.c.Stop(false)
		s.goesOn()
		s.c.LeaseLost()
		assert.Equal(t, Result{End: Lost}, s.ended())
		assert.Equal(t, []string{"new", "initialize TRIM_HORIZON", "close", "shutdown requested", "lease lost"}, s.took())
		assert.Empty(t, s.log.took(), "what ShutdownRequested returned is of no interest")
	})
	bubble(t, "lease lost, then the shard's end", func(t *testing.T, s *stage) {
		s.actor.onProcess = func(ctx context.Context, _ *kcl.Batch) error {
			<-ctx.Done()
			return nil
		}
		s.start()
		s.deliver(endOf(batch(1, 2)))
		s.c.LeaseLost()
		assert.Equal(t, Result{End: Lost}, s.ended())
		assert.Equal(t, []string{"new", "initialize TRIM_HORIZON", "process 1-2", "close", "lease lost"}, s.took()[:5])
	})
	// consumption#13
	bubble(t, "the shard's end, then stop", func(t *testing.T, s *stage) {
		hold := make(chan struct{})
		s.actor.onEnded = func(context.Context) error { <-hold; return nil }
		s.start()
		s.deliver(endOf(batch(1, 2)))
		s.took()
		s.c.Stop(false)
		s.goesOn()
		close(hold)
		assert.Equal(t, Ended, s.ended().End)
		assert.Equal(t, []string{"checkpoint SHARD_END"}, s.took())
	})
	bubble(t, "stop, then the last batch", func(t *testing.T, s *stage) {
		hold := make(chan struct{})
		s.actor.onProcess = func(context.Context, *kcl.Batch) error { <-hold; return nil }
		s.start()
		s.deliver(endOf(batch(1, 2)))
		s.c.Stop(false)
		close(hold)
		assert.Equal(t, Ended, s.ended().End, "the batch in hand was the last")
	})
}

// consumption#18
func TestLeaseLostWhileProcessing(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		hold := make(chan struct{})
		var cause error
		s.actor.onProcess = func(ctx context.Context, _ *kcl.Batch) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			<-hold
			return errors.New("no reason to tell anybody")
		}
		s.start()
		s.deliver(batch(1, 2), batch(3, 4))
		s.took()
		start := time.Now()
		s.c.LeaseLost()
		assert.Zero(t, time.Since(start), "whoever marks the loss does not wait")
		s.goesOn()
		assert.Error(t, s.feed.ctx.Err(), "fetching ends at once")
		assert.Empty(t, s.took())
		close(hold)
		assert.Equal(t, Result{End: Lost}, s.ended())
		assert.Equal(t, []string{"close", "lease lost"}, s.took())
		assert.Equal(t, kcl.ErrLeaseLost, cause)
		assert.Empty(t, s.log.took())
	})
}

// consumption#19
func TestEmptyShardThatEndsAtOnce(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		hold := make(chan struct{})
		s.actor.onInitialize = func(context.Context, *kcl.Initialization) error { <-hold; return nil }
		s.feed.batches <- endOf(batch(1, 0))
		s.start()
		close(hold)
		assert.Equal(t, Ended, s.ended().End)
		assert.Equal(t, []string{
			"new", "initialize TRIM_HORIZON", "close",
			"create " + childA, "create " + childB, "children " + childA + " " + childB,
			"shard ended", "checkpoint SHARD_END",
		}, s.took())
	})
}

// consumption#20
func TestLeaseAtShardEnd(t *testing.T) {
	for name, known := range map[string]bool{"when acquired": true, "when read": false} {
		bubble(t, name, func(t *testing.T, s *stage) {
			row := s.lease
			row.Checkpoint, row.Children = kcl.ShardEnd, []string{childA}
			s.rows.put(row)
			if known {
				s.lease = row
				s.lease.Parents = []string{parent}
				s.rows.put(lease.Lease{Key: parent, Checkpoint: at(5)})
			}
			s.start()
			assert.Equal(t, Result{End: Ended, Children: []string{childA}}, s.ended())
			assert.Empty(t, s.took())
		})
	}
}

// A lease that is gone from the table is dropped: nothing is to be read of it.
func TestLeaseGoneAtStart(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		delete(s.rows.leases, shard)
		s.start()
		assert.Equal(t, Result{End: Lost}, s.ended())
		assert.Equal(t, []string{"drop"}, s.took())
	})
}

// consumption#23
func TestNothingIsDeliveredAfterAStop(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		hold := make(chan struct{})
		s.actor.onProcess = func(ctx context.Context, b *kcl.Batch) error {
			<-hold
			return b.Checkpoint(ctx)
		}
		s.start()
		s.deliver(batch(1, 2), batch(3, 4), batch(5, 6))
		s.c.Stop(false)
		close(hold)
		assert.Equal(t, Released, s.ended().End)
		assert.Equal(t, []string{
			"new", "initialize TRIM_HORIZON", "process 1-2", "checkpoint 2",
			"close", "shutdown requested", "release", "drop", "lease lost",
		}, s.took())
	})
}

// What was asked before Run counts.
func TestAskedBeforeRun(t *testing.T) {
	for name, ask := range map[string]func(*Consumer){
		"stop": func(c *Consumer) { c.Stop(false) }, "hand-off": (*Consumer).HandOff, "lost": (*Consumer).LeaseLost,
	} {
		bubble(t, name, func(t *testing.T, s *stage) {
			s.held.handOff = name == "hand-off"
			c := New(s.cfg, s.stream, s.lease)
			ask(c)
			want := map[string]End{"stop": Released, "hand-off": HandedOver, "lost": Lost}[name]
			assert.Equal(t, want, c.Run(t.Context()).End)
			assert.NotContains(t, s.took(), "new")
		})
	}
}
