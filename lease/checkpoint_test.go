package lease

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/kcltest"
)

// leases#30
func TestTokensTellTenuresApart(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"))
		a := w.peer("a").hold()
		old := a.token("s1")
		assert.ErrorIs(t, a.Checkpoint(t.Context(), "s1", "another", at("1")), kcl.ErrLeaseLost)
		assert.ErrorIs(t, a.Checkpoint(t.Context(), "unknown", old, at("1")), kcl.ErrLeaseLost)

		a.Drop("s1", old)
		a.hold()
		require.NotEqual(t, old, a.token("s1"))
		writes := a.line.count("UpdateItem", "")
		assert.ErrorIs(t, a.Checkpoint(t.Context(), "s1", old, at("1")), kcl.ErrLeaseLost)
		assert.ErrorIs(t, a.Prepare(t.Context(), "s1", old, at("1"), nil), kcl.ErrLeaseLost)
		assert.ErrorIs(t, a.Release(t.Context(), "s1", old), kcl.ErrLeaseLost)
		assert.ErrorIs(t, a.Transfer(t.Context(), "s1", old), kcl.ErrLeaseLost)
		a.Drop("s1", old)
		a.Accept("s1", old, at("1"))
		require.NoError(t, a.Flush(t.Context(), "s1", a.token("s1")))
		assert.Equal(t, writes, a.line.count("UpdateItem", ""), "no write")
		assert.True(t, a.holds("s1"))
	})
	t.Run("lost and regained while its checkpoint waited: the new tenure is kept", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			old := a.token("s1")
			w.assign("s1", "b")
			a.line.fail(1, "UpdateItem", "s1", delayed(time.Second))
			var wg sync.WaitGroup
			wg.Go(func() {
				assert.ErrorIs(t, a.Checkpoint(t.Context(), "s1", old, at("1")), kcl.ErrLeaseLost)
			})
			synctest.Wait()
			w.assign("s1", "a")
			a.Drop("s1", old)
			a.hold()
			regained := a.token("s1")
			wg.Wait()
			assert.Equal(t, regained, a.token("s1"))
			assert.Equal(t, kcl.AtTrimHorizon, w.item("s1").Checkpoint)
		})
	})
}

func TestCheckpointAndPrepare(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"))
		a := w.peer("a").hold()
		token := a.token("s1")
		ctx := t.Context()

		require.NoError(t, a.Prepare(ctx, "s1", token, at("5"), []byte("state")))
		got := w.item("s1")
		assert.Equal(t, kcl.AtTrimHorizon, got.Checkpoint)
		assert.Equal(t, at("5"), got.Pending)
		assert.Equal(t, []byte("state"), got.PendingState)

		require.NoError(t, a.Checkpoint(ctx, "s1", token, kcl.Position{SequenceNumber: "5", SubSequenceNumber: 2}))
		got = w.item("s1")
		assert.Equal(t, kcl.Position{SequenceNumber: "5", SubSequenceNumber: 2}, got.Checkpoint)
		assert.True(t, got.Pending.IsZero())
		assert.Nil(t, got.PendingState)
		assert.EqualValues(t, 3, got.Counter)

		held, _ := a.Get("s1")
		assert.Equal(t, got.Checkpoint, held.Checkpoint)
		assert.Equal(t, time.Now(), held.Moved, "a heartbeat too")
		assert.ErrorIs(t, a.Checkpoint(ctx, "s1", token, at("x")), kcl.ErrInvalidPosition)
	})
}

// leases#31
func TestFailedCheckpointChangesNothingInMemory(t *testing.T) {
	for name, c := range map[string]struct {
		fault fault
		want  error
	}{
		"throttled":     {throttled, kcl.ErrThrottled},
		"broken":        {broken, kcl.ErrDependency},
		"without reply": {unanswered, kcl.ErrDependency},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
				l := lease("s1", "a")
				l.Pending, l.PendingState, l.OwnerSwitches = at("3"), []byte("s"), 2
				w.create(l)
				a := w.peer("a").hold()
				before, _ := a.Get("s1")
				a.line.fail(1, "UpdateItem", "s1", c.fault)
				require.ErrorIs(t, a.Checkpoint(t.Context(), "s1", before.Token, at("5")), c.want)
				after, _ := a.Get("s1")
				assert.Equal(t, before, after)
			})
		})
	}
	t.Run("and does not undo a renewal of the same time", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			before, _ := a.Get("s1")
			time.Sleep(testPeriod)
			a.line.fail(1, "UpdateItem", "s1", func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
				time.Sleep(time.Second)
				return throttled(r, send)
			})
			var wg sync.WaitGroup
			wg.Go(func() {
				assert.ErrorIs(t, a.Checkpoint(t.Context(), "s1", before.Token, at("5")), kcl.ErrThrottled)
			})
			synctest.Wait()
			require.NoError(t, a.renewAll(t.Context()))
			wg.Wait()
			after, _ := a.Get("s1")
			assert.Equal(t, before.Counter+1, after.Counter)
			assert.Equal(t, w.item("s1").Counter, after.Counter)
			assert.Equal(t, before.Checkpoint, after.Checkpoint)
		})
	})
}

// Checkpoints and renewals of one lease at the same time: each is carried out,
// unless a later position was stored before it, and none makes another's counter
// stale.
func TestConcurrentWritesOfOneLease(t *testing.T) {
	inWorld(t, kcltest.Options{Latency: 10 * time.Millisecond}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"))
		a := w.peer("a").hold()
		token := a.token("s1")
		time.Sleep(testPeriod)
		start := w.item("s1").Counter
		var (
			wg   sync.WaitGroup
			done atomic.Int64
		)
		const n = 20
		for i := range n {
			wg.Go(func() {
				p := at(fmt.Sprint(i + 1))
				var err error
				if i%2 == 0 {
					err = a.Prepare(t.Context(), "s1", token, p, nil)
				} else {
					err = a.Checkpoint(t.Context(), "s1", token, p)
				}
				if err == nil {
					done.Add(1)
				} else {
					assert.ErrorIs(t, err, kcl.ErrInvalidPosition)
				}
			})
		}
		wg.Go(func() { assert.NoError(t, a.renewAll(t.Context())) })
		wg.Wait()
		got := w.item("s1")
		assert.Positive(t, done.Load())
		assert.Equal(t, at(fmt.Sprint(n)), got.Checkpoint, "the last of all is stored in any order")
		assert.GreaterOrEqual(t, got.Counter, start+done.Load())
		held, _ := a.Get("s1")
		assert.Equal(t, got.Counter, held.Counter)
		assert.Equal(t, got.Checkpoint, held.Checkpoint)
		assert.Equal(t, []string{"acquired s1"}, a.heard())
	})
}

// A checkpoint that was stored, though its answer got lost, is neither undone
// nor in the way of what follows.
func TestAfterACheckpointWithoutAnswer(t *testing.T) {
	for name, follow := range map[string]struct {
		do   func(ctx context.Context, a *peer, token string) error
		want func(*Lease)
	}{
		"the same again": {checkpoint7, func(l *Lease) { l.Checkpoint = at("7") }},
		"a later one": {func(ctx context.Context, a *peer, token string) error {
			return a.Checkpoint(ctx, "s1", token, at("9"))
		}, func(l *Lease) { l.Checkpoint = at("9") }},
		"a prepare": {func(ctx context.Context, a *peer, token string) error {
			return a.Prepare(ctx, "s1", token, at("9"), nil)
		}, func(l *Lease) { l.Checkpoint, l.Pending = at("7"), at("9") }},
		"a renewal, then a prepare": {func(ctx context.Context, a *peer, token string) error {
			time.Sleep(testPeriod)
			if err := a.renewAll(ctx); err != nil {
				return err
			}
			return a.Prepare(ctx, "s1", token, at("9"), nil)
		}, func(l *Lease) { l.Checkpoint, l.Pending = at("7"), at("9") }},
		"a renewal": {func(ctx context.Context, a *peer, _ string) error {
			time.Sleep(testPeriod)
			return a.renewAll(ctx)
		}, func(l *Lease) { l.Checkpoint = at("7") }},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
				w.create(lease("s1", "a"))
				a := w.peer("a").hold()
				token := a.token("s1")
				a.line.fail(1, "UpdateItem", "s1", unanswered)
				require.ErrorIs(t, checkpoint7(t.Context(), a, token), kcl.ErrDependency)
				require.NoError(t, follow.do(t.Context(), a, token))

				got := w.item("s1")
				want := got
				follow.want(&want)
				assert.Equal(t, want, got)
				assert.Equal(t, token, a.token("s1"))
				time.Sleep(testPeriod)
				require.NoError(t, a.renewAll(t.Context()))
				assert.Equal(t, got.Counter+1, w.item("s1").Counter)
			})
		})
	}
	t.Run("an earlier one is refused", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			token := a.token("s1")
			a.line.fail(1, "UpdateItem", "s1", unanswered)
			require.ErrorIs(t, checkpoint7(t.Context(), a, token), kcl.ErrDependency)
			for range 3 {
				require.ErrorIs(t, a.Checkpoint(t.Context(), "s1", token, at("6")), kcl.ErrInvalidPosition)
				require.ErrorIs(t, a.Prepare(t.Context(), "s1", token, at("6"), nil), kcl.ErrInvalidPosition)
				assert.Equal(t, at("7"), w.item("s1").Checkpoint)
				assert.Zero(t, w.item("s1").Pending)
				time.Sleep(testPeriod)
				require.NoError(t, a.renewAll(t.Context()))
			}
			assert.Equal(t, token, a.token("s1"))
			require.NoError(t, a.Checkpoint(t.Context(), "s1", token, at("8")))
			assert.Equal(t, at("8"), w.item("s1").Checkpoint)
		})
	})
	t.Run("after a renewal without answer", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			token := a.token("s1")
			time.Sleep(testPeriod)
			a.line.fail(1, "UpdateItem", "s1", unanswered)
			require.Error(t, a.renewAll(t.Context()))
			require.NoError(t, checkpoint7(t.Context(), a, token))
			assert.Equal(t, at("7"), w.item("s1").Checkpoint)
			assert.EqualValues(t, 3, w.item("s1").Counter)
		})
	})
	t.Run("one that lands when the next is on its way", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			token := a.token("s1")
			var land func()
			a.line.fail(1, "UpdateItem", "s1", func(_ *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
				land = func() { _, _ = send() }
				return nil, errCut
			})
			require.Error(t, checkpoint7(t.Context(), a, token))
			a.line.fail(1, "UpdateItem", "s1", func(_ *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
				land()
				return send()
			})
			require.NoError(t, a.Checkpoint(t.Context(), "s1", token, at("9")))
			assert.Equal(t, at("9"), w.item("s1").Checkpoint)
			assert.EqualValues(t, 3, w.item("s1").Counter)
			assert.Equal(t, []string{"acquired s1"}, a.heard())
		})
	})
	t.Run("the lease was taken meanwhile", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			token := a.token("s1")
			a.line.fail(1, "UpdateItem", "s1", unanswered)
			require.Error(t, checkpoint7(t.Context(), a, token))
			w.assign("s1", "b")
			require.ErrorIs(t, a.Checkpoint(t.Context(), "s1", token, at("9")), kcl.ErrLeaseLost)
			assert.Equal(t, at("7"), w.item("s1").Checkpoint)
			assert.Equal(t, []string{"acquired s1", "lost s1 refused"}, a.heard())
		})
	})
}

// leases#64
func TestMetadataOfOthersSurvives(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"))
		a := w.peer("a").hold()
		token := a.token("s1")
		r, err := kcl.ParseHashRange("0", "100")
		require.NoError(t, err)
		require.NoError(t, w.look.SetHashRange(t.Context(), "s1", r))
		require.NoError(t, w.look.SetChildren(t.Context(), "s1", []string{"c1", "c2"}))

		time.Sleep(testPeriod)
		require.NoError(t, a.renewAll(t.Context()))
		require.NoError(t, a.Checkpoint(t.Context(), "s1", token, at("1")))
		require.NoError(t, a.Prepare(t.Context(), "s1", token, at("2"), nil))
		got := w.item("s1")
		assert.Equal(t, r, got.HashRange)
		assert.Equal(t, []string{"c1", "c2"}, got.Children)
	})
}

// An accepted position rides on the next heartbeat, at no further write.
func TestAcceptedPositionRidesOnTheHeartbeat(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"))
		a := w.peer("a").hold()
		token := a.token("s1")
		stop := a.run()
		defer stop()
		synctest.Wait()
		writes := a.line.count("UpdateItem", "s1")

		a.Accept("s1", token, at("5"))
		a.Accept("s1", token, at("9"))
		a.Accept("s1", token, at("7")) // late: ignored
		assert.Equal(t, kcl.AtTrimHorizon, w.item("s1").Checkpoint)
		time.Sleep(testPeriod)
		synctest.Wait()
		assert.Equal(t, at("9"), w.item("s1").Checkpoint)
		assert.Equal(t, 1, a.line.count("UpdateItem", "s1")-writes)

		time.Sleep(testPeriod) // nothing new: a plain renewal
		synctest.Wait()
		assert.Equal(t, 2, a.line.count("UpdateItem", "s1")-writes)

		a.Accept("s1", token, at("10"))
		require.NoError(t, a.Flush(t.Context(), "s1", token))
		assert.Equal(t, at("10"), w.item("s1").Checkpoint)
		require.NoError(t, a.Flush(t.Context(), "s1", token))
		assert.Equal(t, 3, a.line.count("UpdateItem", "s1")-writes)
	})
	t.Run("and is stored once, however many ask for it", func(t *testing.T) {
		inWorld(t, kcltest.Options{Latency: 10 * time.Millisecond}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			token := a.token("s1")
			a.Accept("s1", token, at("9"))
			before := w.item("s1").Counter
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() { assert.NoError(t, a.Flush(t.Context(), "s1", token)) })
			}
			wg.Wait()
			assert.Equal(t, before+1, w.item("s1").Counter)
		})
	})
	t.Run("which learns of a hand-off all the same, and carries the throughput", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			token := a.token("s1")
			w.startHandOff("s1", "b")
			time.Sleep(testPeriod - tick)
			a.Accept("s1", token, at("9"))
			a.Delivered("s1", token, 3308*1024)
			require.NoError(t, a.renewAll(t.Context()))
			assert.Equal(t, []string{"acquired s1", "hand-off s1"}, a.heard())
			got := w.item("s1")
			assert.Equal(t, at("9"), got.Checkpoint)
			assert.Equal(t, 1000.0, got.ThroughputKBps)
			held, _ := a.Get("s1")
			assert.Equal(t, "b", held.Owner)
			assert.Equal(t, "a", held.CheckpointOwner)
		})
	})
	t.Run("without which a lease is renewed when its item cannot be read", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			token := a.token("s1")
			a.Accept("s1", token, at("9"))
			a.line.fail(1, "UpdateItem", "s1", broken)
			require.Error(t, a.Flush(t.Context(), "s1", token))
			time.Sleep(testPeriod)
			a.line.fail(-1, "GetItem", "s1", throttled)
			require.NoError(t, a.renewAll(t.Context()))
			assert.EqualValues(t, 2, w.item("s1").Counter)
			assert.Equal(t, kcl.AtTrimHorizon, w.item("s1").Checkpoint)
			a.line.heal()
			time.Sleep(testPeriod)
			require.NoError(t, a.renewAll(t.Context()))
			assert.Equal(t, at("9"), w.item("s1").Checkpoint)
		})
	})
	t.Run("but never moves the checkpoint back", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			token := a.token("s1")
			a.Accept("s1", token, at("9"))
			a.line.fail(1, "UpdateItem", "s1", unanswered)
			require.Error(t, a.Checkpoint(t.Context(), "s1", token, kcl.ShardEnd))
			time.Sleep(testPeriod)
			require.NoError(t, a.renewAll(t.Context()))
			assert.Equal(t, kcl.ShardEnd, w.item("s1").Checkpoint)
			held, _ := a.Get("s1")
			assert.True(t, held.Ended())
		})
	})
	t.Run("which is tried again when it fails", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			token := a.token("s1")
			a.Accept("s1", token, at("9"))
			time.Sleep(testPeriod)
			a.line.fail(1, "UpdateItem", "s1", unanswered)
			require.Error(t, a.renewAll(t.Context()))
			a.Accept("s1", token, at("11"))
			time.Sleep(testPeriod)
			require.NoError(t, a.renewAll(t.Context()))
			assert.Equal(t, at("11"), w.item("s1").Checkpoint)
			assert.Equal(t, token, a.token("s1"))
		})
	})
}

// A checkpoint stands in for the renewal that follows, for it does all that one
// does; but not for so long that the heartbeats come more than one and a half
// periods apart.
func TestCheckpointStandsInForARenewal(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"))
		a := w.peer("a").hold()
		token := a.token("s1")
		stop := a.run()
		defer stop()
		synctest.Wait()
		writes := func() int { return a.line.count("UpdateItem", "s1") }
		before := writes()

		time.Sleep(testPeriod - testPeriod/2 + time.Millisecond)
		require.NoError(t, a.Checkpoint(t.Context(), "s1", token, at("1")))
		time.Sleep(testPeriod / 2)
		synctest.Wait()
		assert.Equal(t, 1, writes()-before, "skipped at the first run")
		time.Sleep(testPeriod)
		synctest.Wait()
		assert.Equal(t, 2, writes()-before, "renewed at the second")

		require.NoError(t, a.Checkpoint(t.Context(), "s1", token, at("2")))
		time.Sleep(testPeriod)
		synctest.Wait()
		assert.Equal(t, 4, writes()-before, "an early checkpoint does not stand in")
	})
	t.Run("and learns of a hand-off at once", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			w.startHandOff("s1", "b")
			require.NoError(t, a.Checkpoint(t.Context(), "s1", a.token("s1"), at("2")))
			assert.Equal(t, []string{"acquired s1", "hand-off s1"}, a.heard())
		})
	})
	t.Run("so that a checkpoint a second costs no more than its own writes", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			token := a.token("s1")
			stop := a.run()
			defer stop()
			synctest.Wait()
			before := w.item("s1").Counter
			for i := range 600 {
				time.Sleep(time.Second)
				require.NoError(t, a.Checkpoint(t.Context(), "s1", token, at(fmt.Sprint(i+1))))
			}
			assert.Equal(t, int64(600), w.item("s1").Counter-before)
		})
	})
}

// suspend makes the wall clock say that d more has passed of the lease's term.
func (p *peer) suspend(key string, d time.Duration) {
	p.Renewer.mu.Lock()
	defer p.Renewer.mu.Unlock()
	t := p.held[key]
	t.term.wall = t.term.wall.Add(-d)
}

// When only the wall clock says that a term is over, one conditional write
// decides.
func TestSuspendedMachine(t *testing.T) {
	suspended := func(t *testing.T, f func(t *testing.T, w *world, a *peer, token string)) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			token := a.token("s1")
			a.suspend("s1", time.Minute)
			require.False(t, a.holds("s1"), "nothing is done under a doubtful term")
			f(t, w, a, token)
		})
	}
	t.Run("a renewal that succeeds begins a new term", func(t *testing.T) {
		suspended(t, func(t *testing.T, w *world, a *peer, token string) {
			require.NoError(t, a.renewAll(t.Context()))
			assert.Equal(t, token, a.token("s1"))
			assert.Equal(t, []string{"acquired s1"}, a.heard())
		})
	})
	t.Run("one that is refused gives up", func(t *testing.T) {
		suspended(t, func(t *testing.T, w *world, a *peer, _ string) {
			w.assign("s1", "b")
			require.NoError(t, a.renewAll(t.Context()))
			assert.Equal(t, []string{"acquired s1", "lost s1 refused"}, a.heard())
		})
	})
	t.Run("one that fails gives up", func(t *testing.T) {
		suspended(t, func(t *testing.T, w *world, a *peer, _ string) {
			a.line.fail(-1, "UpdateItem", "", throttled)
			require.NoError(t, a.renewAll(t.Context()))
			assert.Equal(t, []string{"acquired s1", "lost s1 expired"}, a.heard())
			assert.Equal(t, 2, a.line.count("UpdateItem", "s1"), "the discovery's and one more")
			lost, _ := a.metrics.get("RenewAllLeases LostLeases")
			assert.Equal(t, 1.0, lost)
		})
	})
	t.Run("who hands out records has the renewal made", func(t *testing.T) {
		suspended(t, func(t *testing.T, w *world, a *peer, token string) {
			require.NoError(t, a.Confirm(t.Context(), "s1", token))
			assert.True(t, a.holds("s1"))
			writes := a.line.count("UpdateItem", "s1")
			require.NoError(t, a.Confirm(t.Context(), "s1", token))
			assert.Equal(t, writes, a.line.count("UpdateItem", "s1"), "no call when there is no doubt")
			assert.ErrorIs(t, a.Confirm(t.Context(), "s1", "another"), kcl.ErrLeaseLost)
		})
	})
	t.Run("or learns that the lease is lost", func(t *testing.T) {
		suspended(t, func(t *testing.T, w *world, a *peer, token string) {
			w.assign("s1", "b")
			assert.ErrorIs(t, a.Confirm(t.Context(), "s1", token), kcl.ErrLeaseLost)
		})
	})
	t.Run("a checkpoint decides too", func(t *testing.T) {
		suspended(t, func(t *testing.T, w *world, a *peer, token string) {
			require.NoError(t, checkpoint7(t.Context(), a, token))
			assert.Equal(t, token, a.token("s1"))
		})
	})
}
