package leader

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/kcltest"
)

// leader-and-client-version-migration#20
func TestMalformedItem(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		bad := w.javaLock("dynamolock", "v1", "2m0s")
		w.Put(bad)
		x := w.start("go")
		for range 20 {
			_, leads, err := x.Ask(t.Context())
			require.False(t, leads)
			require.ErrorIs(t, err, ErrMalformedLock)
			time.Sleep(10 * time.Second)
		}
		assert.Equal(t, bad, w.item(), "never stolen")
		assert.Equal(t, 1, x.log.Count("ERROR", "delete the item Leader"), "told once")
		assert.NotEmpty(t, x.seen.Values(Operation, "LeaderDecider:MalformedLock"))
		assert.NotContains(t, x.seen.Values(Operation, "LeaderDecider:IsLeader"), 1.0)

		w.Delete(lockKey)
		w.awaitLead(x, 10*time.Second)
		_, leads, err := x.Ask(t.Context())
		assert.True(t, leads)
		assert.NoError(t, err)
	})
}

// leader-and-client-version-migration#22: a failed read reaches the asker, and
// what was seen before still counts.
func TestReadFails(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.Put(w.javaLock("java", "v1", "60000"))
		x := w.start("go")
		require.NoError(t, askErr(t, x))
		before, _ := x.Seen()
		began := time.Now()
		w.cut("go")
		time.Sleep(30 * time.Second)
		_, leads, err := x.Ask(t.Context())
		require.False(t, leads)
		require.ErrorIs(t, err, kcl.ErrDependency)
		require.ErrorIs(t, err, errBroken)
		after, _ := x.Seen()
		assert.Equal(t, before, after)

		w.heal()
		w.awaitLead(x, time.Minute)
		assert.LessOrEqual(t, time.Since(began), time.Minute+time.Second, "the old sighting counts")
	})
}

func TestFirstReadFails(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.Name = "missing"
		x := w.start("go")
		_, leads, err := x.Ask(t.Context())
		assert.False(t, leads)
		require.ErrorIs(t, err, kcl.ErrInvalidState)
		time.Sleep(10 * time.Minute)
		// 1, 2, 4, 8, then every 10 s.
		assert.InDelta(t, 63, w.aws.Count("GetItem", "go"), 3)
	})
}

func TestChangesAreTold(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		x := w.idle("go")
		changed := x.Changed()
		assert.False(t, x.leads(), "before Run")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- x.Run(ctx) }()
		<-changed // without a wait: time stands still in a bubble unless all sleep
		assert.True(t, x.leads())
		changed = x.Changed()
		select {
		case <-changed:
			t.Fatal("nothing has changed")
		case <-time.After(5 * time.Minute):
		}
		cancel()
		<-changed
		assert.False(t, x.leads())
		require.NoError(t, <-done)
		assert.ErrorIs(t, x.Run(t.Context()), errRanTwice)
	})
}

func TestAskEndsWithItsContext(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		x := w.idle("go") // never run
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, leads, err := x.Ask(ctx)
		assert.False(t, leads)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestMetrics(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		a, b := w.start("a"), w.start("b")
		time.Sleep(25 * time.Second)
		require.NoError(t, a.stop())
		require.NoError(t, b.stop())
		got := [][]float64{a.seen.Values(Operation, "LeaderDecider:IsLeader"), b.seen.Values(Operation, "LeaderDecider:IsLeader")}
		assert.ElementsMatch(t, [][]float64{{1, 1, 1, 0}, {0, 0, 0}}, got)
		s := a.seen.All()[0]
		assert.Equal(t, "LeaderDecider", s.Operation)
		assert.Equal(t, "Count", string(s.Unit))
	})
}
