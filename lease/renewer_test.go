package lease

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/kcltest"
)

const (
	testPeriod = 3308 * time.Millisecond
	tick       = time.Nanosecond
)

// leases#23
func TestRenewalMovesTheCounterUntilAnotherOwns(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"))
		a := w.peer("a").hold()
		require.EqualValues(t, 1, w.item("s1").Counter) // by the discovery

		stop := a.run()
		defer stop()
		time.Sleep(testPeriod + 1)
		require.EqualValues(t, 2, w.item("s1").Counter)

		w.assign("s1", "b")
		a.heard()
		time.Sleep(testPeriod)
		assert.Equal(t, []string{"lost s1 refused"}, a.heard())
		assert.Empty(t, a.Held())
		assert.EqualValues(t, 3, w.item("s1").Counter)
	})
}

// leases#24
func TestRenewalLearnsOfAHandOff(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"))
		a := w.peer("a").hold()
		w.startHandOff("s1", "b")
		writes := a.line.count("UpdateItem", "s1")

		time.Sleep(testPeriod)
		require.NoError(t, a.renewAll(t.Context()))
		assert.Equal(t, 2, a.line.count("UpdateItem", "s1")-writes)
		l, held := a.Get("s1")
		require.True(t, held)
		assert.Equal(t, "b", l.Owner)
		assert.Equal(t, "a", l.CheckpointOwner)

		time.Sleep(testPeriod)
		require.NoError(t, a.renewAll(t.Context()))
		assert.Equal(t, 3, a.line.count("UpdateItem", "s1")-writes)
		assert.EqualValues(t, 3, w.item("s1").Counter)

		w.assign("s1", "b")
		time.Sleep(testPeriod)
		require.NoError(t, a.renewAll(t.Context()))
		assert.False(t, a.holds("s1"))
	})
}

// leases#25
func TestRenewalOfALeaseThatIsNotOurs(t *testing.T) {
	for name, meddle := range map[string]func(w *world){
		"the item is gone": func(w *world) { require.NoError(w.t, w.look.Delete(w.t.Context(), "s1")) },
		"another's hand-off": func(w *world) {
			w.assign("s1", "b")
			w.startHandOff("s1", "c")
		},
		"both owners the same": func(w *world) { w.startHandOff("s1", "a") },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
				w.create(lease("s1", "a"))
				a := w.peer("a").hold()
				meddle(w)
				writes := a.line.count("UpdateItem", "s1")
				time.Sleep(testPeriod)
				require.NoError(t, a.renewAll(t.Context()))
				assert.Equal(t, 1, a.line.count("UpdateItem", "s1")-writes)
				assert.Equal(t, []string{"acquired s1", "lost s1 refused"}, a.heard())
			})
		})
	}
}

// leases#26
func TestWriteWhoseAnswerWasLost(t *testing.T) {
	for name, c := range map[string]struct {
		handOff bool
		write   func(ctx context.Context, a *peer, token string) error
	}{
		"renewal":                    {false, func(ctx context.Context, a *peer, _ string) error { return a.renewAll(ctx) }},
		"renewal during a hand-off":  {true, func(ctx context.Context, a *peer, _ string) error { return a.renewAll(ctx) }},
		"checkpoint":                 {false, checkpoint7},
		"checkpoint during hand-off": {true, checkpoint7},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
				w.create(lease("s1", "a"))
				a := w.peerWith("a", w.aws.Config("a")).hold() // its SDK retries
				token := a.token("s1")
				if c.handOff {
					w.startHandOff("s1", "b")
					time.Sleep(testPeriod)
					require.NoError(t, a.renewAll(t.Context()))
				}
				before := w.item("s1")
				time.Sleep(testPeriod)
				a.line.fail(1, "UpdateItem", "s1", unanswered)
				require.NoError(t, c.write(t.Context(), a, token))
				assert.EqualValues(t, before.Counter+1, w.item("s1").Counter)

				time.Sleep(testPeriod)
				require.NoError(t, a.renewAll(t.Context()))
				assert.Equal(t, token, a.token("s1"))
				assert.EqualValues(t, before.Counter+2, w.item("s1").Counter)
			})
		})
	}
}

func checkpoint7(ctx context.Context, a *peer, token string) error {
	return a.Checkpoint(ctx, "s1", token, at("7"))
}

// leases#28
func TestHeldCopyIsACopy(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		l := lease("s1", "a")
		l.Parents = []string{"p"}
		w.create(l)
		a := w.peer("a").hold()
		first, _ := a.Get("s1")
		again := first.Clone()
		time.Sleep(testPeriod)
		require.NoError(t, a.renewAll(t.Context()))
		assert.Equal(t, again, first)

		first.Parents[0] = "changed"
		now, _ := a.Get("s1")
		assert.Equal(t, []string{"p"}, now.Parents)
		assert.Equal(t, again.Counter+1, now.Counter)
	})
}

// leases#29
func TestTermThatIsOver(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"))
		a := w.peer("a").hold()
		token := a.token("s1")
		time.Sleep(testTerm)
		require.Len(t, a.Held(), 1, "exactly at its end the term still lasts")
		time.Sleep(tick)
		assert.Empty(t, a.Held())
		assert.False(t, a.holds("s1"))

		calls := a.line.count("UpdateItem", "")
		require.NoError(t, a.renewAll(t.Context()))
		assert.Equal(t, calls, a.line.count("UpdateItem", ""), "no write")
		assert.Equal(t, []string{"acquired s1", "lost s1 expired"}, a.heard())
		assert.ErrorIs(t, a.Checkpoint(t.Context(), "s1", token, at("1")), kcl.ErrLeaseLost)
		assert.Equal(t, kcl.AtTrimHorizon, w.item("s1").Checkpoint)
	})
	t.Run("a checkpoint finds out too", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			token := a.token("s1")
			time.Sleep(testTerm + 1)
			assert.ErrorIs(t, a.Checkpoint(t.Context(), "s1", token, at("1")), kcl.ErrLeaseLost)
			assert.Equal(t, []string{"acquired s1", "lost s1 expired"}, a.heard())
			assert.Equal(t, kcl.AtTrimHorizon, w.item("s1").Checkpoint)
		})
	})
}

// The loss is told at the instant the term ends, not at the next run, nor when the
// present one gives up calls that hang.
func TestExpiryIsToldAtOnce(t *testing.T) {
	for name, f := range map[string]fault{"broken": broken, "hanging": hanging} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
				w.create(lease("s1", "a"), lease("s2", "a"))
				a := w.peer("a").hold()
				stop := a.run()
				defer stop()
				synctest.Wait()
				a.heard()
				time.Sleep(testPeriod / 4)
				require.NoError(t, a.Checkpoint(t.Context(), "s2", a.token("s2"), at("1"))) // which begins a term
				a.line.fail(-1, "UpdateItem", "", f)
				time.Sleep(testTerm - testPeriod/4)
				assert.Empty(t, a.heard())
				time.Sleep(tick)
				assert.Equal(t, []string{"lost s1 expired"}, a.heard())
				time.Sleep(testPeriod / 4)
				assert.Equal(t, []string{"lost s2 expired"}, a.heard())
			})
		})
	}
}

// The term is counted from before the call: what a slow answer brings is older
// than the answer.
func TestTermBeginsBeforeTheCall(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"))
		a := w.peer("a").hold()
		time.Sleep(testPeriod)
		began := time.Now()
		a.line.fail(1, "UpdateItem", "s1", delayed(2*time.Second))
		require.NoError(t, a.renewAll(t.Context()))
		l, _ := a.Get("s1")
		assert.Equal(t, began, l.Moved)
		time.Sleep(testTerm - 2*time.Second)
		assert.True(t, a.holds("s1"))
		time.Sleep(tick)
		assert.False(t, a.holds("s1"))
	})
	t.Run("also of the discovery that won the lease", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a")
			began := time.Now()
			a.line.fail(1, "UpdateItem", "s1", delayed(2*time.Second))
			a.hold()
			l, _ := a.Get("s1")
			assert.Equal(t, began, l.Moved)
		})
	})
	t.Run("and of an earlier call whose answer was lost", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			time.Sleep(testPeriod)
			landed := time.Now()
			a.line.fail(1, "UpdateItem", "s1", unanswered)
			require.Error(t, a.renewAll(t.Context()))
			time.Sleep(time.Second)
			require.NoError(t, a.renewAll(t.Context()))
			l, _ := a.Get("s1")
			assert.Equal(t, landed, l.Moved)
			assert.EqualValues(t, 2, w.item("s1").Counter)
		})
	})
	t.Run("which, if long ago, is followed by a call of its own", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			a.line.fail(1, "UpdateItem", "s1", unanswered)
			time.Sleep(testPeriod)
			require.Error(t, a.renewAll(t.Context()))
			time.Sleep(testPeriod + 1)
			now := time.Now()
			require.NoError(t, a.renewAll(t.Context()))
			l, _ := a.Get("s1")
			assert.Equal(t, now, l.Moved)
			assert.EqualValues(t, 3, w.item("s1").Counter)
		})
	})
}

// A call never outlives the term under which it was made, nor the run.
func TestRenewalCallsEndInTime(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"))
		a := w.peer("a").hold()
		token := a.token("s1")
		time.Sleep(testPeriod)
		a.line.fail(-1, "UpdateItem", "", hanging)
		began := time.Now()
		require.ErrorIs(t, a.renewAll(t.Context()), kcl.ErrDependency)
		assert.Equal(t, testPeriod, time.Since(began))

		// Nor does a checkpoint take the time of the renewals.
		require.ErrorIs(t, checkpoint7(t.Context(), a, token), kcl.ErrDependency)
		assert.Equal(t, 2*testPeriod, time.Since(began))
		require.ErrorIs(t, checkpoint7(t.Context(), a, token), kcl.ErrDependency)
		assert.Equal(t, testTerm-testPeriod, time.Since(began), "the term's end comes first")
		assert.EqualValues(t, 1, w.item("s1").Counter)
	})
}

// leases#32
func TestOneFailedRenewalLeavesTheOthersAlone(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"), lease("s2", "a"), lease("s3", "a"))
		a := w.peer("a").hold()
		time.Sleep(testPeriod)
		a.line.fail(1, "UpdateItem", "s2", broken)
		err := a.renewAll(t.Context())
		require.ErrorIs(t, err, kcl.ErrDependency)
		require.ErrorContains(t, err, "1 leases not renewed")
		assert.Equal(t, []string{"s1", "s2", "s3"}, a.keys())
		for key, want := range map[string]int64{"s1": 2, "s2": 1, "s3": 2} {
			assert.Equal(t, want, w.item(key).Counter, key)
		}
		success, _ := a.metrics.get("RenewAllLeases Success")
		assert.Zero(t, success)

		require.NoError(t, a.renewAll(t.Context()))
		assert.EqualValues(t, 2, w.item("s2").Counter)
	})
}

// A renewal that hangs takes one of the workers, and no more than one period.
func TestHangingRenewalDoesNotHoldUpTheOthers(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"), lease("s2", "a"))
		a := w.peer("a").hold()
		stop := a.run()
		defer stop()
		synctest.Wait()
		a.line.fail(-1, "UpdateItem", "s1", hanging)
		time.Sleep(5 * testPeriod)
		synctest.Wait()
		assert.EqualValues(t, 6, w.item("s2").Counter)
		assert.Equal(t, []string{"s2"}, a.keys())
	})
}

// leases#34
func TestImpossibleOwnersInMemoryAreGivenUp(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		a := w.peer("a")
		w.create(lease("s1", "a"), lease("s2", "a"))
		for key, owners := range map[string][2]string{"s1": {"a", "b"}, "s2": {"b", "a"}} {
			l := w.item(key)
			l.Owner, l.CheckpointOwner, l.Moved = owners[0], owners[1], time.Now()
			_, ok := a.Renewer.hold(l, anyLoss)
			require.True(t, ok)
		}
		a.heard()
		time.Sleep(testPeriod)
		require.NoError(t, a.renewAll(t.Context()))
		assert.Equal(t, []string{"lost s1 refused"}, a.heard())
		assert.Equal(t, []string{"s2"}, a.keys())
		assert.Zero(t, a.line.count("UpdateItem", "s1"))
		assert.EqualValues(t, 1, w.item("s2").Counter)
	})
}

func TestHold(t *testing.T) {
	inWorld(t, kcltest.Options{Latency: 20 * time.Millisecond}, func(t *testing.T, w *world) {
		w.create(lease("free", ""))
		a := w.peer("a")
		began := time.Now()
		won, done, err := a.store.Assign(t.Context(), w.item("free"), "a", false)
		require.NoError(t, err)
		require.True(t, done)
		l, ok := a.Renewer.hold(won, anyLoss)
		require.True(t, ok)
		assert.NotEmpty(t, l.Token)
		assert.GreaterOrEqual(t, l.Moved.Sub(began), time.Duration(0))
		assert.True(t, l.Moved.Before(time.Now()), "from before the write")
		assert.Equal(t, []string{"acquired free"}, a.heard())

		time.Sleep(testPeriod)
		require.NoError(t, a.renewAll(t.Context()))
		assert.EqualValues(t, 2, w.item("free").Counter)

		_, ok = a.Renewer.hold(won, anyLoss)
		assert.False(t, ok, "held already")
		assert.Equal(t, l.Token, a.token("free"))
		a.Drop("free", l.Token)
		won.Moved = time.Now().Add(-testTerm - tick)
		_, ok = a.Renewer.hold(won, anyLoss)
		assert.False(t, ok, "the term is over")
		won.Moved = time.Time{}
		_, ok = a.Renewer.hold(won, anyLoss)
		assert.False(t, ok, "nothing was written")
	})
	t.Run("in place of a tenure whose term is over", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			old := a.token("s1")
			time.Sleep(testTerm + tick)
			a.hold()
			assert.NotEqual(t, old, a.token("s1"))
			assert.Equal(t, []string{"acquired s1", "lost s1 expired", "acquired s1"}, a.heard())
		})
	})
}

func TestRenewerTakes(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", ""), lease("s2", ""), lease("s3", "b"))
		a := w.peer("a")
		take := func(l Lease) bool {
			t.Helper()
			taken, err := a.Take(t.Context(), l)
			require.NoError(t, err)
			return taken
		}
		assert.True(t, take(w.item("s1")))
		assert.Equal(t, "a", w.item("s1").Owner)
		assert.False(t, take(w.item("s1")), "held already")
		old := w.item("s2")
		w.assign("s2", "b")
		assert.False(t, take(old), "changed since")
		assert.True(t, take(w.item("s3")))
		a.Drain(true)
		assert.False(t, take(w.item("s2")), "draining")
		assert.Equal(t, []string{"s1", "s3"}, a.keys())
	})
	t.Run("a discovery leaves alone what is being taken", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", ""))
			a := w.peer("a")
			a.line.fail(1, "UpdateItem", "s1", func(_ *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
				defer time.Sleep(time.Second) // carried out, and not answered yet
				return send()
			})
			var wg sync.WaitGroup
			wg.Go(func() {
				taken, err := a.Take(t.Context(), w.item("s1"))
				assert.NoError(t, err)
				assert.True(t, taken)
			})
			time.Sleep(tick)
			found, err := a.finder.Discover(t.Context())
			require.NoError(t, err)
			assert.Zero(t, found)
			wg.Wait()
			time.Sleep(testPeriod)
			require.NoError(t, a.renewAll(t.Context()))
			assert.Equal(t, []string{"acquired s1"}, a.heard())
		})
	})
}

// leases#61
func TestThrottledRenewalKeepsTheLease(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"))
		a := w.peer("a").hold()
		token := a.token("s1")
		time.Sleep(testPeriod)
		a.line.fail(-1, "UpdateItem", "", throttled)
		calls := a.line.count("UpdateItem", "s1")
		require.ErrorIs(t, a.renewAll(t.Context()), kcl.ErrThrottled)
		assert.Equal(t, renewAttempts, a.line.count("UpdateItem", "s1")-calls)
		assert.Equal(t, token, a.token("s1"))
		assert.Equal(t, []string{"acquired s1"}, a.heard())

		a.line.heal()
		require.NoError(t, a.renewAll(t.Context()))
		assert.EqualValues(t, 2, w.item("s1").Counter)
		assert.Equal(t, token, a.token("s1"))
		assert.Empty(t, a.heard())
	})
	t.Run("a retry within the run gets through", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			time.Sleep(testPeriod)
			a.line.fail(2, "UpdateItem", "", throttled)
			require.NoError(t, a.renewAll(t.Context()))
			assert.EqualValues(t, 2, w.item("s1").Counter)
		})
	})
}

// Idle, a lease costs no more write units an hour than Java's 1089.
func TestIdleLeaseCost(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"))
		a := w.peer("a").hold()
		stop := a.run()
		defer stop()
		synctest.Wait()
		before := w.item("s1").Counter
		time.Sleep(time.Hour)
		synctest.Wait()
		writes := w.item("s1").Counter - before
		assert.LessOrEqual(t, writes, int64(1089))
		assert.Greater(t, writes, int64(1080))
	})
}

func TestRenewAllMetrics(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"), lease("s2", "a"))
		a := w.peer("a").hold()
		w.assign("s1", "b")
		time.Sleep(testPeriod)
		require.NoError(t, a.renewAll(t.Context()))
		for name, want := range map[string]float64{
			"LostLeases": 1, "CurrentLeases": 1, "Success": 1, "Time": 0, "RenewLease.Success": 1, "RenewLease.Time": 0,
		} {
			got, found := a.metrics.get("RenewAllLeases " + name)
			assert.True(t, found, name)
			assert.Equal(t, want, got, name)
		}
	})
}

// Renewals carry the rate at which the shard is read.
func TestRenewalCarriesThroughput(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"))
		a := w.peer("a").hold()
		token := a.token("s1")
		require.NoError(t, a.renewAll(t.Context()))
		assert.False(t, w.item("s1").HasThroughput)

		time.Sleep(testPeriod - 1)
		a.Delivered("s1", token, 3308*1024)
		a.Delivered("s1", "another tenure", 3308*1024)
		require.NoError(t, a.renewAll(t.Context()))
		assert.Equal(t, 1000.0, w.item("s1").ThroughputKBps)
		time.Sleep(testPeriod)
		require.NoError(t, a.renewAll(t.Context()))
		assert.Equal(t, 500.0, w.item("s1").ThroughputKBps)

		// A new tenure starts at what the table says, not at what the old one
		// had measured.
		a.Delivered("s1", token, 1<<30)
		a.Drop("s1", token)
		a.hold()
		time.Sleep(testPeriod)
		require.NoError(t, a.renewAll(t.Context()))
		assert.Equal(t, 250.0, w.item("s1").ThroughputKBps)
	})
}

// The shape of leases#47 that holds here: stopping writes nothing, and a worker
// may stop before it has started, and twice.
func TestStopForgetsAndWritesNothing(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"))
		a := w.peer("a").hold()
		stop := a.run()
		time.Sleep(testPeriod)
		synctest.Wait()
		before := w.item("s1")
		stop()
		stop()
		assert.Equal(t, []string{"acquired s1", "lost s1 stopped"}, a.heard())
		assert.Empty(t, a.Held())
		assert.Equal(t, before, w.item("s1"))

		found, err := a.finder.Discover(t.Context())
		require.NoError(t, err)
		assert.Zero(t, found.Acquired)
		assert.Empty(t, a.Held(), "nothing is held after the end")
	})
	t.Run("before the start", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			a := w.peer("a")
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			a.Run(ctx)
			assert.Empty(t, a.heard())
		})
	})
}

func TestStopDuringARenewal(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"))
		a := w.peer("a").hold()
		a.line.fail(-1, "UpdateItem", "", hanging)
		stop := a.run()
		time.Sleep(testPeriod + time.Second)
		began := time.Now()
		stop()
		assert.Zero(t, time.Since(began))
		assert.Equal(t, []string{"acquired s1", "lost s1 stopped"}, a.heard())
	})
}
