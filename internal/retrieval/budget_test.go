package retrieval

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
)

// acquire reserves in a goroutine and returns a channel that is closed when
// that is done.
func acquire(ctx context.Context, a *account, n int64) <-chan error {
	done := make(chan error, 1)
	go func() {
		admitted := a.reserve(n)
		if admitted == nil {
			done <- nil
			return
		}
		done <- a.wait(ctx, admitted)
	}()
	synctest.Wait()
	return done
}

func admitted(done <-chan error) bool {
	synctest.Wait()
	return len(done) == 1
}

func TestBudgetAdmitsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		b := NewBudget(100)
		x, y, z := &account{b: b}, &account{b: b}, &account{b: b}
		for _, a := range []*account{x, y, z} {
			require.True(t, admitted(acquire(ctx, a, 30)), "who holds nothing is admitted")
		}
		big := acquire(ctx, x, 40)
		small := acquire(ctx, y, 5)
		assert.False(t, admitted(big))
		assert.False(t, admitted(small), "no overtaking, though it would fit")
		z.release(30)
		assert.True(t, admitted(big))
		assert.False(t, admitted(small), "100 of 100 are held")
		x.release(30)
		assert.True(t, admitted(small))
		assert.EqualValues(t, 75, b.Used())
	})
}

func TestBudgetNeverStopsWhoHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		b := NewBudget(100)
		hog, other := &account{b: b}, &account{b: b}
		require.True(t, admitted(acquire(ctx, hog, 1000)))
		require.True(t, admitted(acquire(ctx, other, 50)), "the budget is full, but it holds nothing")
		wait := acquire(ctx, other, 50)
		assert.False(t, admitted(wait))
		other.release(50)
		assert.True(t, admitted(wait), "it holds nothing again, while the hog holds all")
		hog.release(1000)
		require.True(t, admitted(acquire(ctx, hog, 1000)), "larger than the budget, and alone")
	})
}

func TestBudgetForgetsWhoGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(100)
		x, y := &account{b: b}, &account{b: b}
		require.True(t, admitted(acquire(context.Background(), x, 80)))
		require.True(t, admitted(acquire(context.Background(), y, 20)))
		ctx, cancel := context.WithCancel(context.Background())
		first := acquire(ctx, x, 100)
		second := acquire(context.Background(), y, 10)
		cancel()
		assert.ErrorIs(t, <-first, context.Canceled)
		assert.False(t, admitted(second))
		x.release(10)
		assert.True(t, admitted(second), "not blocked by the one that gave up")
		assert.EqualValues(t, 100, b.Used())
	})
}

// Ten shards whose processors take nothing, then one after another.
func TestBudgetBoundsAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const data, limit = 1 << 20, 12 << 20
		b := NewBudget(limit)
		var pollers []*Poller
		for range 10 {
			s := &shardServer{pages: pagesOf(20, 1, data), closed: true, children: split()}
			p := NewReader(Config{Client: s, Budget: b}).Open(context.Background(), shardAt(kcl.AtTrimHorizon))
			t.Cleanup(p.Close)
			pollers = append(pollers, p)
		}
		time.Sleep(time.Minute)
		assert.LessOrEqual(t, b.Used(), int64(limit), "10 shards could hold 4 MiB each")
		assert.Contains(t, []string{pollers[0].Status().Waiting, pollers[9].Status().Waiting},
			"the worker's shards hold MaxBufferedBytes of records: waits for processors to finish some")
		for _, p := range pollers {
			assert.Equal(t, upTo(20), drain(t, p))
		}
		for _, p := range pollers {
			p.Close()
		}
		assert.Zero(t, b.Used())
	})
}

func TestCloseGivesTheBudgetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(0)
		s := &shardServer{pages: pagesOf(9, 10, 100)}
		p := open(t, Config{Budget: b}, s)
		time.Sleep(time.Minute)
		taken := next(t, p)
		assert.NotZero(t, b.Used())
		p.Close()
		assert.EqualValues(t, taken.footprint, b.Used(), "what the processor has still counts")
		taken.Release()
		taken.Release()
		assert.Zero(t, b.Used())
	})
}
