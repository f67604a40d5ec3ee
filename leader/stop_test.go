package leader

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/kcltest"
)

// leader-and-client-version-migration#15
func TestStopFreesTheLock(t *testing.T) {
	inWorld(t, kcltest.Options{Latency: 50 * time.Millisecond}, func(t *testing.T, w *world) {
		x := w.start("go")
		term, leads, err := x.Ask(t.Context())
		require.NoError(t, err)
		require.True(t, leads)
		require.NoError(t, x.stop())
		assert.Nil(t, w.item())
		assert.True(t, term.Over())
		calls := w.aws.Count("UpdateItem", "go") + w.aws.Count("GetItem", "go") + w.aws.Count("PutItem", "go")
		time.Sleep(time.Hour)
		_, leads, err = x.Ask(t.Context())
		assert.NoError(t, err)
		assert.False(t, leads)
		assert.False(t, x.leads())
		assert.NoError(t, x.Resign(t.Context(), term))
		assert.Equal(t, calls, w.aws.Count("UpdateItem", "go")+w.aws.Count("GetItem", "go")+w.aws.Count("PutItem", "go"))
		assert.Nil(t, w.item())
	})
}

// leader-and-client-version-migration#16
func TestStopLeavesAThiefsItem(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		x := w.start("go")
		require.NoError(t, askErr(t, x))
		thief := w.javaLock("java", "v1", "120000")
		w.Put(thief)
		require.NoError(t, x.stop())
		assert.Equal(t, thief, w.item())
	})
}

// leader-and-client-version-migration#17
func TestStopWhileAskedLeavesNoItem(t *testing.T) {
	for stopAfter := range 25 {
		t.Run(fmt.Sprint(stopAfter), func(t *testing.T) {
			inWorld(t, kcltest.Options{Latency: 40 * time.Millisecond, Seed: uint64(stopAfter)}, func(t *testing.T, w *world) {
				x := w.start("go", times(time.Second, 300*time.Millisecond))
				ctx, cancel := context.WithCancel(t.Context())
				var askers sync.WaitGroup
				for i := range 4 {
					askers.Go(func() {
						for ctx.Err() == nil {
							term, leads, _ := x.Ask(ctx)
							if leads && i == 0 {
								_ = x.Resign(ctx, term)
							}
							time.Sleep(7 * time.Millisecond)
						}
					})
				}
				time.Sleep(time.Duration(stopAfter) * 13 * time.Millisecond)
				require.NoError(t, x.stop())
				assert.Nil(t, w.item())
				time.Sleep(5 * time.Second)
				assert.Nil(t, w.item())
				assert.False(t, x.leads())
				cancel()
				askers.Wait()
			})
		})
	}
}

func TestStopWhileLookingIsNoFailure(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.Put(w.javaLock("java", "v1", "120000"))
		x := w.start("go")
		require.NoError(t, askErr(t, x))
		w.fail("go", "", unanswered)
		time.Sleep(11 * time.Second) // a second into the next look
		began := time.Now()
		require.NoError(t, x.stop())
		assert.Zero(t, time.Since(began), "a read is cut short")
		assert.Zero(t, x.log.Count("WARN"))
	})
}

// An unanswered put is undone too.
func TestStopAfterALostAcquire(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.fail("", "PutItem", landedSilently)
		x := w.start("go")
		time.Sleep(time.Second)
		require.NotNil(t, w.item())
		require.NoError(t, x.stop())
		assert.Nil(t, w.item())
	})
}

func TestResign(t *testing.T) {
	inWorld(t, kcltest.Options{Latency: 30 * time.Millisecond}, func(t *testing.T, w *world) {
		a := w.start("a")
		term, leads, err := a.Ask(t.Context())
		require.NoError(t, err)
		require.True(t, leads)
		require.NoError(t, a.Resign(t.Context(), term))
		resigned := time.Now()
		assert.False(t, a.leads())
		assert.True(t, term.Over())
		assert.Nil(t, w.item())
		require.NoError(t, a.Resign(t.Context(), term), "is over already")

		// Nobody else is there: it stands back for one duration, then leads anew.
		for time.Since(resigned) < 29*time.Second {
			time.Sleep(time.Second)
			require.False(t, a.leads())
		}
		time.Sleep(2 * time.Second)
		again, leads := a.Leading()
		require.True(t, leads)
		assert.Equal(t, term.Number+1, again.Number)
		require.NoError(t, a.Resign(t.Context(), term), "an old term's does not end the new one")
		require.True(t, a.leads())

		b := w.start("b")
		require.NoError(t, askErr(t, b))
		require.NoError(t, a.Resign(t.Context(), again))
		w.awaitLead(b, 11*time.Second)
		time.Sleep(time.Hour)
		assert.True(t, b.leads())
		assert.False(t, a.leads())
		assert.Equal(t, 2, a.log.Count("INFO", "leadership ended", "resigned"))
	})
}

// Whoever asked may be gone: the lock is freed all the same, whatever version a
// heartbeat under way has left there.
func TestResignDuringAHeartbeat(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		x := w.start("go")
		require.NoError(t, askErr(t, x))
		term, _ := x.Leading()
		w.fail("", "UpdateItem", landedSilently)
		time.Sleep(11 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, x.Resign(ctx, term), context.DeadlineExceeded)
		assert.False(t, x.leads(), "at once")
		assert.True(t, term.Over())
		require.NotNil(t, w.item())
		time.Sleep(5 * time.Second)
		assert.Nil(t, w.item())
	})
}

func TestResignThatCannotFree(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		x := w.start("go")
		require.NoError(t, askErr(t, x))
		term, _ := x.Leading()
		w.fail("", "DeleteItem", lost)
		err := x.Resign(t.Context(), term)
		require.ErrorIs(t, err, kcl.ErrDependency)
		assert.False(t, x.leads())
		for range 29 {
			time.Sleep(time.Second)
			require.False(t, x.leads(), "its own item does not draw it back")
		}
		assert.Equal(t, 1, x.log.Count("WARN", "cannot free the lock"))
	})
}
