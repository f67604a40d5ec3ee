package leader

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/interchange"
	"github.com/go-kcl/kcl/kcltest"
)

// leader-and-client-version-migration#11, and unknown attributes of every type
// survive a heartbeat.
func TestHeartbeat(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		x := w.start("go")
		require.NoError(t, askErr(t, x))
		item := w.item()
		maps.Copy(item, interchange.Foreign())
		w.Put(item)
		versions := map[string]bool{}
		for range 10 {
			before := w.item()
			versions[text(before, "recordVersionNumber")] = true
			time.Sleep(10 * time.Second)
			synctest.Wait()
			after := w.item()
			after["recordVersionNumber"] = before["recordVersionNumber"]
			require.Equal(t, before, after)
			term, leads := x.Leading()
			require.True(t, leads)
			assert.Equal(t, 30*time.Second, time.Until(term.Until), "moves with the heartbeat")
			assert.Equal(t, uint64(1), term.Number)
		}
		assert.Len(t, versions, 10)
		assert.Equal(t, 10, w.aws.Count("UpdateItem", "go"))
		assert.Equal(t, 1, w.aws.Count("GetItem", "go"), "a leader does not read")
	})
}

// A heartbeat is refused by an item of another version, and by one of another
// owner, and does not make an item where there is none.
//
// leader-and-client-version-migration#11,12
func TestStolenLockIsDropped(t *testing.T) {
	for name, tc := range map[string]struct{ owner, version string }{
		"other owner and version": {"java", "v1"},
		"other version":           {"go", "v1"},
		"other owner":             {"java", ""},
		"absent":                  {},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
				x := w.start("go")
				require.NoError(t, askErr(t, x))
				term, leads := x.Leading()
				require.True(t, leads)
				ctx, cancel := term.Context(t.Context())
				defer cancel()
				before := w.item()
				if tc.version == "" {
					tc.version = text(before, "recordVersionNumber")
				}
				thief := w.javaLock(tc.owner, tc.version, "120000")
				w.Delete(lockKey)
				if tc.owner != "" {
					w.Put(thief)
				}
				changed := x.Changed()
				time.Sleep(10 * time.Second)
				synctest.Wait()
				select {
				case <-changed:
				default:
					t.Fatal("nothing was told")
				}
				assert.Equal(t, ErrTermOver, context.Cause(ctx))
				assert.Equal(t, 1, x.log.Count("leadership ended", "another worker took the lock"))
				if tc.owner != "" {
					assert.False(t, x.leads())
					assert.Equal(t, thief, w.item())
					return
				}
				// Deleted by hand: a new leader appears at once, with a new term.
				again, leads := x.Leading()
				require.True(t, leads)
				assert.Equal(t, term.Number+1, again.Number)
			})
		})
	}
}

// leader-and-client-version-migration#13
func TestHeartbeatsThatFailEndTheTerm(t *testing.T) {
	for name, f := range map[string]fault{"unavailable": unavailable, "no answer": unanswered} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
				a := w.start("a")
				term, _, err := a.Ask(t.Context())
				require.NoError(t, err)
				ctx, cancel := term.Context(t.Context())
				defer cancel()
				cancelled := time.Duration(0)
				context.AfterFunc(ctx, func() { cancelled = time.Since(term.Began) })
				b := w.start("b")
				require.NoError(t, askErr(t, b))
				time.Sleep(5 * time.Second)
				w.fail("a", "", f)
				began := time.Now()
				var aEnded, bBegan time.Duration
				for time.Since(began) < 2*time.Minute {
					time.Sleep(100 * time.Millisecond)
					synctest.Wait()
					require.False(t, a.leads() && b.leads())
					if !a.leads() && aEnded == 0 {
						aEnded = time.Since(began)
					}
					if b.leads() && bBegan == 0 {
						bBegan = time.Since(began)
					}
				}
				assert.Equal(t, 25*time.Second+100*time.Millisecond, aEnded, "30 s after it was won")
				assert.Equal(t, 30*time.Second+1, cancelled, "though a heartbeat is under way")
				assert.GreaterOrEqual(t, bBegan, aEnded)
				assert.Less(t, bBegan, 41*time.Second)
				assert.Equal(t, 1, a.log.Count("leadership ended", "not renewed in time"))
				assert.Equal(t, 1, a.log.Count("WARN", "cannot reach"), "a warning that repeats drops to debug")
				assert.False(t, a.leads())
			})
		})
	}
}

// leader-and-client-version-migration#14: a heartbeat that landed, but whose
// answer was lost, is no theft.
func TestLostAnswerOfAHeartbeat(t *testing.T) {
	for name, f := range map[string]fault{"repeated by the SDK": landed, "never answered": landedSilently} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
				x := w.start("go")
				require.NoError(t, askErr(t, x))
				n := 0
				w.faults(func(_, operation string) fault {
					if operation == "UpdateItem" {
						if n++; n == 1 {
							return f
						}
					}
					return nil
				})
				for range 300 {
					time.Sleep(time.Second)
					synctest.Wait()
					require.True(t, x.leads())
				}
				term, _ := x.Leading()
				assert.Equal(t, uint64(1), term.Number)
				assert.Zero(t, x.log.Count("leadership ended"))
				assert.Equal(t, 1, w.aws.Count("PutItem", "go"))
			})
		})
	}
}

// Only the wall clock says that the term is over: the worker pauses, renews once
// on condition, and begins a new term, or gives up.
func TestWallClockJumps(t *testing.T) {
	for _, stolen := range []bool{false, true} {
		t.Run(fmt.Sprint("stolen ", stolen), func(t *testing.T) {
			inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
				x := w.start("go")
				require.NoError(t, askErr(t, x))
				term, _ := x.Leading()
				time.Sleep(time.Second)
				if stolen {
					w.Put(w.javaLock("java", "v1", "120000"))
				}
				x.mu.Lock()
				x.from.wall = x.from.wall.Add(-time.Minute) // as after a minute's suspension
				x.mu.Unlock()
				assert.False(t, x.leads(), "pauses")
				synctest.Wait() // asking has woken it
				assert.True(t, term.Over())
				assert.Equal(t, 1, x.log.Count("leadership ended", "clock set"))
				again, leads := x.Leading()
				assert.Equal(t, !stolen, leads)
				if leads {
					assert.Equal(t, term.Number+1, again.Number)
				}
				assert.Equal(t, 1, w.aws.Count("UpdateItem", "go"))
			})
		})
	}
}

// A term that the clocks are in doubt of while its renewal is under way stands
// once that has succeeded. Whoever was told no meanwhile is told so: nothing else
// would have it ask again.
func TestDeniedTermStandsAfterAll(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.aws.Inject(kcltest.Fault{Clients: []string{"go"}, Operations: []string{"UpdateItem"}, Effect: kcltest.Slow, Delay: time.Second})
		x := w.start("go")
		require.NoError(t, askErr(t, x))
		term, _ := x.Leading()
		time.Sleep(10*time.Second + 500*time.Millisecond)
		x.mu.Lock()
		x.from.wall = x.from.wall.Add(-time.Minute) // until the renewal that is under way
		x.mu.Unlock()
		changed := x.Changed()
		require.False(t, x.leads())
		select {
		case <-changed:
		case <-time.After(time.Minute):
			t.Error("nobody is told")
		}
		again, leads := x.Leading()
		assert.True(t, leads)
		assert.Equal(t, term.Number, again.Number)

		changed = x.Changed()
		time.Sleep(time.Minute)
		select {
		case <-changed:
			t.Error("told for nothing")
		default:
		}
	})
}
