package lease

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/kcltest"
)

func TestVigil(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second))) }
	v := vigil(nil).after(at(0), nil, []string{"b", "a"})
	keys, pause := v.next(at(0))
	assert.Equal(t, []string{"a", "b"}, keys)
	assert.Equal(t, 300*time.Millisecond, pause)

	v = v.after(at(1), []string{"a"}, nil)
	keys, _ = v.next(at(1))
	assert.Equal(t, []string{"b"}, keys, "a was handed over, b was not looked at")
	v = v.after(at(2), nil, []string{"b", "c"})
	keys, _ = v.next(at(60))
	assert.Equal(t, []string{"c"}, keys, "b's minute counts from when it was first seen")
	v = v.after(at(61), nil, []string{"c"})
	assert.Len(t, v, 1, "what no longer waits is forgotten")

	_, pause = vigil(nil).after(at(0), nil, slices.Repeat([]string{"k"}, 3)).next(at(0))
	assert.Equal(t, 300*time.Millisecond, pause)
	var many []string
	for i := range 17 {
		many = append(many, string(rune('a'+i)))
	}
	keys, pause = vigil(nil).after(at(0), nil, many).next(at(0))
	assert.Len(t, keys, 17)
	assert.Equal(t, 900*time.Millisecond, pause, "more leases at the same cost")
}

// A lease that is to be handed over is taken up within 300 ms of the transfer, however
// seldom the worker looks for others; what that costs ends after a minute.
func TestHandOffIsAwaited(t *testing.T) {
	awaits := func(provisioned bool, f func(t *testing.T, w *world, a *peer)) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "b"))
			w.startHandOff("s1", "a")
			a := w.peer("a")
			a.finder.pace.assignment, a.finder.pace.provisioned = 20*time.Minute, provisioned
			defer a.run()()
			defer a.discover()()
			f(t, w, a)
		})
	}
	awaits(false, func(t *testing.T, w *world, a *peer) {
		time.Sleep(7*time.Second + 50*time.Millisecond)
		w.assign("s1", "a")
		time.Sleep(149 * time.Millisecond)
		synctest.Wait()
		require.False(t, a.holds("s1"))
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		assert.True(t, a.holds("s1"))
		reads := a.line.count("GetItem", "")
		time.Sleep(5 * time.Second)
		assert.Equal(t, reads, a.line.count("GetItem", ""))
		assert.Equal(t, 1, a.line.count("Query", ""))
	})
	awaits(false, func(t *testing.T, w *world, a *peer) {
		time.Sleep(9 * time.Minute)
		synctest.Wait()
		assert.Equal(t, 201, a.line.count("GetItem", ""), "a minute of them")
	})
	awaits(true, func(t *testing.T, w *world, a *peer) {
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		assert.Equal(t, 1, a.line.count("GetItem", ""), "read units are rationed")
	})
}
