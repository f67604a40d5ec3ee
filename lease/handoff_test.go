package lease

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/kcltest"
)

// leases#35
func TestHandOffIsAskedForOnce(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"))
		a := w.peer("a").hold()
		stop := a.run()
		defer stop()
		w.startHandOff("s1", "b")
		time.Sleep(5 * testPeriod)
		assert.Equal(t, []string{"acquired s1", "hand-off s1"}, a.heard())
		assert.True(t, a.holds("s1"))
	})
	t.Run("and again of a new tenure", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			for range 2 {
				started, err := a.StartHandOff(t.Context(), "s1", a.token("s1"), "b")
				require.NoError(t, err)
				require.True(t, started)
				require.NoError(t, a.Transfer(t.Context(), "s1", a.token("s1")))
				w.assign("s1", "a")
				a.hold()
			}
			assert.Equal(t, []string{
				"acquired s1", "hand-off s1", "lost s1 transferred",
				"acquired s1", "hand-off s1", "lost s1 transferred",
				"acquired s1",
			}, a.heard())
		})
	})
}

// consumers stand in for the consumers of one worker: each is asked to stop, and
// transfers its lease after what stop says.
type consumers struct {
	p    *peer
	stop func(ctx context.Context, l Lease) // the application's callback

	mu sync.Mutex
	wg sync.WaitGroup
	// guarded by mu
	live    map[string]string // token by key
	started []Lease
	overlap bool // two workers processed one shard at a time
	others  *consumers
}

// consume gives the worker consumers; it takes the place of its events.
func (w *world) consume(name string, stop func(context.Context, Lease)) *consumers {
	c := &consumers{stop: stop, live: map[string]string{}}
	c.p = w.peer(name, func(rc *RenewerConfig) {
		rc.Live = func(key, token string) bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.live[key] == token
		}
		told := rc.Events
		rc.Events = Events{
			Acquired: func(l Lease) { told.Acquired(l); c.start(l) },
			Lost:     func(l Lease, why Loss) { told.Lost(l, why); c.end(l) },
			HandOffRequested: func(l Lease) {
				told.HandOffRequested(l)
				c.wg.Go(func() {
					if c.stop != nil {
						c.stop(w.t.Context(), l)
					}
					_ = c.p.Transfer(w.t.Context(), l.Key, l.Token)
				})
			},
		}
	})
	return c
}

func (c *consumers) start(l Lease) {
	if c.others != nil && c.others.processes(l.Key) {
		c.overlap = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live[l.Key] = l.Token
	c.started = append(c.started, l)
}

func (c *consumers) end(l Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live[l.Key] == l.Token {
		delete(c.live, l.Key)
	}
}

func (c *consumers) processes(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live[key] != ""
}

// leases#50
func TestHandOffFromEndToEnd(t *testing.T) {
	inWorld(t, kcltest.Options{Latency: 5 * time.Millisecond, StaleReads: time.Second, IndexLag: 500 * time.Millisecond}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"))
		a := w.consume("a", nil)
		a.stop = func(ctx context.Context, l Lease) {
			time.Sleep(3 * time.Second) // the application finishes its batch
			assert.NoError(t, a.p.Checkpoint(ctx, l.Key, l.Token, at("42")))
		}
		b := w.consume("b", nil)
		b.others = a
		for _, p := range []*peer{a.p, b.p} {
			defer p.run()()
			defer p.discover()()
		}
		time.Sleep(5 * time.Second)
		require.True(t, a.processes("s1"))
		w.startHandOff("s1", "b")

		time.Sleep(testPeriod + time.Second)
		assert.True(t, a.processes("s1"), "a goes on until it is done")
		assert.False(t, b.processes("s1"))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, []string{"acquired s1", "hand-off s1", "lost s1 transferred"}, a.p.heard())
		require.Len(t, b.started, 1)
		assert.Equal(t, at("42"), b.started[0].Checkpoint)
		assert.False(t, b.overlap)
		got := w.item("s1")
		assert.Equal(t, [2]string{"b", ""}, [2]string{got.Owner, got.CheckpointOwner})
		assert.Zero(t, got.OwnerSwitches)
		a.wg.Wait()
	})
}

// leases#51
func TestHandOffIsForcedWhenTheConsumerHangs(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"))
		release := make(chan struct{})
		a := w.consume("a", func(context.Context, Lease) { <-release })
		a.p.hold()
		defer a.p.run()()
		synctest.Wait()
		started, err := a.p.StartHandOff(t.Context(), "s1", a.p.token("s1"), "b")
		require.NoError(t, err)
		require.True(t, started)

		time.Sleep(30*time.Second - tick)
		synctest.Wait()
		require.Equal(t, "a", w.item("s1").CheckpointOwner)
		time.Sleep(tick)
		synctest.Wait()
		got := w.item("s1")
		assert.Equal(t, [2]string{"b", ""}, [2]string{got.Owner, got.CheckpointOwner})
		assert.Equal(t, []string{"acquired s1", "hand-off s1", "lost s1 transferred"}, a.p.heard())
		close(release)
		a.wg.Wait()
		assert.Equal(t, got, w.item("s1"))
	})
	t.Run("to the tick", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a", func(rc *RenewerConfig) { rc.HandOffTimeout = 5500 * time.Millisecond }).hold()
			defer a.run()()
			_, err := a.StartHandOff(t.Context(), "s1", a.token("s1"), "b")
			require.NoError(t, err)
			time.Sleep(5500 * time.Millisecond)
			synctest.Wait()
			assert.Empty(t, w.item("s1").CheckpointOwner)
		})
	})
	t.Run("and again when that fails", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			_, err := a.StartHandOff(t.Context(), "s1", a.token("s1"), "b")
			require.NoError(t, err)
			time.Sleep(testPeriod)
			require.NoError(t, a.renewAll(t.Context()))
			token := a.token("s1")
			leaving := a.find("s1", token)
			a.line.fail(-1, "UpdateItem", "s1", throttled)
			a.force(t.Context(), leaving, true)
			assert.Equal(t, []string{"acquired s1", "hand-off s1", "lost s1 transferred"}, a.heard(), "the consumer is told first")
			assert.False(t, a.holds("s1"))
			assert.ErrorIs(t, checkpoint7(t.Context(), a, token), kcl.ErrLeaseLost)
			a.line.heal()
			time.Sleep(testPeriod)
			require.NoError(t, a.renewAll(t.Context()))
			assert.EqualValues(t, 3, w.item("s1").Counter, "renewed until it can be transferred")

			a.force(t.Context(), leaving, false)
			assert.Equal(t, "b", w.item("s1").Owner)
			assert.Empty(t, w.item("s1").CheckpointOwner)
			assert.Nil(t, a.find("s1", token))
			assert.Empty(t, a.heard())
		})
	})
	t.Run("but not when the lease is no longer held", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			defer a.run()()
			_, err := a.StartHandOff(t.Context(), "s1", a.token("s1"), "b")
			require.NoError(t, err)
			a.Drop("s1", a.token("s1"))
			before := w.item("s1")
			time.Sleep(time.Minute)
			synctest.Wait()
			assert.Equal(t, before, w.item("s1"))
		})
	})
	t.Run("nor when the hand-off is another's by now", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			token := a.token("s1")
			_, err := a.StartHandOff(t.Context(), "s1", token, "b")
			require.NoError(t, err)
			w.assign("s1", "b")
			w.startHandOff("s1", "c")
			before := w.item("s1")
			a.force(t.Context(), a.find("s1", token), true)
			assert.Equal(t, before, w.item("s1"))
			assert.Equal(t, []string{"acquired s1", "hand-off s1", "lost s1 transferred"}, a.heard())
			assert.Nil(t, a.find("s1", token))
		})
	})
}

// The rulings' form of leases#52: the callback's error is logged, and the lease
// transferred at its last checkpoint.
func TestHandOffAfterAFailedCallback(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"))
		a := w.consume("a", func(context.Context, Lease) { /* fails without a checkpoint */ })
		a.p.hold()
		defer a.p.run()()
		token := a.p.token("s1")
		require.NoError(t, a.p.Checkpoint(t.Context(), "s1", token, at("5")))
		w.startHandOff("s1", "b")
		time.Sleep(2 * testPeriod)
		synctest.Wait()
		got := w.item("s1")
		assert.Equal(t, [2]string{"b", ""}, [2]string{got.Owner, got.CheckpointOwner})
		assert.Equal(t, at("5"), got.Checkpoint)
	})
}

// leases#53
func TestTransfer(t *testing.T) {
	pending := func(t *testing.T, f func(w *world, a *peer, token string)) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			token := a.token("s1")
			_, err := a.StartHandOff(t.Context(), "s1", token, "b")
			require.NoError(t, err)
			a.heard()
			f(w, a, token)
		})
	}
	t.Run("transfers, then drops", func(t *testing.T) {
		pending(t, func(w *world, a *peer, token string) {
			counter := w.item("s1").Counter
			require.NoError(w.t, a.Transfer(w.t.Context(), "s1", token))
			got := w.item("s1")
			assert.Equal(w.t, "b", got.Owner)
			assert.Empty(w.t, got.CheckpointOwner)
			assert.Equal(w.t, counter+1, got.Counter)
			assert.Equal(w.t, []string{"lost s1 transferred"}, a.heard())
		})
	})
	t.Run("a failed transfer drops too", func(t *testing.T) {
		pending(t, func(w *world, a *peer, token string) {
			a.line.fail(-1, "UpdateItem", "", broken)
			require.ErrorIs(w.t, a.Transfer(w.t.Context(), "s1", token), kcl.ErrDependency)
			assert.Equal(w.t, []string{"lost s1 dropped"}, a.heard())
			assert.Equal(w.t, "a", w.item("s1").CheckpointOwner)
		})
	})
	t.Run("a transfer whose answer is lost is done", func(t *testing.T) {
		pending(t, func(w *world, a *peer, token string) {
			a.line.fail(1, "UpdateItem", "", unanswered)
			require.NoError(w.t, a.Transfer(w.t.Context(), "s1", token))
			assert.Equal(w.t, []string{"lost s1 transferred"}, a.heard())
			assert.Equal(w.t, "b", w.item("s1").Owner)
		})
	})
	t.Run("the accepted position goes first", func(t *testing.T) {
		pending(t, func(w *world, a *peer, token string) {
			a.Accept("s1", token, at("9"))
			require.NoError(w.t, a.Transfer(w.t.Context(), "s1", token))
			assert.Equal(w.t, at("9"), w.item("s1").Checkpoint)
			assert.Equal(w.t, "b", w.item("s1").Owner)
		})
	})
	t.Run("nothing is done under the lease once the write is sent", func(t *testing.T) {
		pending(t, func(w *world, a *peer, token string) {
			a.line.fail(1, "UpdateItem", "s1", func(_ *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
				_, err := send()
				assert.NoError(w.t, err)
				assert.False(w.t, a.holds("s1"))
				assert.Empty(w.t, a.Held())
				assert.ErrorIs(w.t, checkpoint7(w.t.Context(), a, token), kcl.ErrLeaseLost)
				assert.ErrorIs(w.t, a.Confirm(w.t.Context(), "s1", token), kcl.ErrLeaseLost)
				return nil, errCut
			})
			require.NoError(w.t, a.Transfer(w.t.Context(), "s1", token))
			assert.Equal(w.t, "b", w.item("s1").Owner)
			assert.Equal(w.t, []string{"lost s1 transferred"}, a.heard())
		})
	})
	t.Run("a hanging write is repeated while the term lasts", func(t *testing.T) {
		pending(t, func(w *world, a *peer, token string) {
			a.line.fail(1, "UpdateItem", "s1", hanging)
			require.NoError(w.t, a.Transfer(w.t.Context(), "s1", token))
			assert.Equal(w.t, "b", w.item("s1").Owner)
		})
	})
	t.Run("without a request it does neither", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			before := w.item("s1")
			require.ErrorIs(t, a.Transfer(t.Context(), "s1", a.token("s1")), ErrNoHandOff)
			assert.True(t, a.holds("s1"))
			assert.Equal(t, before, w.item("s1"))
		})
	})
	t.Run("taken back by the leader: dropped, so that a new consumer can start", func(t *testing.T) {
		pending(t, func(w *world, a *peer, token string) {
			w.assign("s1", "a")
			time.Sleep(testPeriod)
			require.NoError(w.t, a.renewAll(w.t.Context()))
			before := w.item("s1")
			require.NoError(w.t, a.Transfer(w.t.Context(), "s1", token))
			assert.Equal(w.t, before, w.item("s1"))
			assert.Equal(w.t, []string{"lost s1 dropped"}, a.heard())
		})
	})
}

// leases#54 as far as it is decided here: a finished lease stays held though
// nobody consumes it any more, also when it is to be handed over.
func TestEndedLeaseIsKept(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"))
		a := w.peer("a", func(rc *RenewerConfig) { rc.Live = func(string, string) bool { return false } }).hold()
		defer a.run()()
		require.NoError(t, a.Checkpoint(t.Context(), "s1", a.token("s1"), kcl.ShardEnd))
		w.startHandOff("s1", "b")
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, "a", w.item("s1").CheckpointOwner)
		assert.True(t, a.holds("s1"))
		a.Drop("s1", "another token")
		assert.True(t, a.holds("s1"))
	})
}

// The rulings' form of leases#62, see also leases#47: a worker that stops
// gracefully releases its leases after the last checkpoint; one in hand-off
// goes to its next owner.
func TestRelease(t *testing.T) {
	t.Run("leaves the lease to the fleet, at its last checkpoint", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			token := a.token("s1")
			a.Accept("s1", token, at("9"))
			require.NoError(t, a.Release(t.Context(), "s1", token))
			got := w.item("s1")
			assert.Empty(t, got.Owner)
			assert.Equal(t, at("9"), got.Checkpoint)
			assert.EqualValues(t, 3, got.Counter) // discovery, checkpoint, release
			assert.Equal(t, []string{"acquired s1", "lost s1 released"}, a.heard())
		})
	})
	t.Run("leaves a lease in hand-off to its next owner", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			token := a.token("s1")
			_, err := a.StartHandOff(t.Context(), "s1", token, "b")
			require.NoError(t, err)
			require.NoError(t, a.Release(t.Context(), "s1", token))
			got := w.item("s1")
			assert.Equal(t, [2]string{"b", ""}, [2]string{got.Owner, got.CheckpointOwner})
			assert.EqualValues(t, 2, got.Counter)
		})
	})
	t.Run("also when no heartbeat has told of it yet", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			w.startHandOff("s1", "b")
			require.NoError(t, a.Release(t.Context(), "s1", a.token("s1")))
			got := w.item("s1")
			assert.Equal(t, [2]string{"b", ""}, [2]string{got.Owner, got.CheckpointOwner})
		})
	})
	t.Run("leaves alone what is another's", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			token := a.token("s1")
			w.assign("s1", "b")
			before := w.item("s1")
			require.NoError(t, a.Release(t.Context(), "s1", token))
			assert.Equal(t, before, w.item("s1"))
			assert.Equal(t, []string{"acquired s1", "lost s1 refused"}, a.heard())
		})
	})
	t.Run("ends the heartbeat even when it fails", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			a.line.fail(-1, "UpdateItem", "", broken)
			require.ErrorIs(t, a.Release(t.Context(), "s1", a.token("s1")), kcl.ErrDependency)
			assert.Equal(t, []string{"acquired s1", "lost s1 dropped"}, a.heard())
			assert.Equal(t, "a", w.item("s1").Owner)
		})
	})
	t.Run("Drop leaves the item as it is", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			before := w.item("s1")
			a.Drop("s1", a.token("s1"))
			assert.Equal(t, before, w.item("s1"))
			assert.Equal(t, []string{"acquired s1", "lost s1 dropped"}, a.heard())
		})
	})
}

// leases#63 as far as the renewer goes.
func TestHandOffMeetsTheEndOfTheShard(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"), lease("c1", "b"))
		var a *consumers
		a = w.consume("a", func(ctx context.Context, l Lease) {
			time.Sleep(20 * time.Second) // ends the shard instead of stopping
			assert.NoError(t, a.p.Checkpoint(ctx, l.Key, l.Token, kcl.ShardEnd))
			time.Sleep(time.Hour) // and does not transfer
		})
		a.p.hold()
		stop := a.p.run()
		defer a.wg.Wait()
		defer stop()
		_, err := a.p.StartHandOff(t.Context(), "s1", a.p.token("s1"), "b")
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		got := w.item("s1")
		assert.Equal(t, kcl.ShardEnd, got.Checkpoint)
		assert.Equal(t, "a", got.CheckpointOwner, "kept until it is cleaned up")

		require.NoError(t, w.look.SetChildren(t.Context(), "s1", []string{"c1"}))
		c1 := w.item("c1")
		c1.Checkpoint = at("1")
		_, done, err := w.look.Checkpoint(t.Context(), c1)
		require.NoError(t, err)
		require.True(t, done)
		cleaner := NewCleaner(CleanerConfig{Store: a.p.store, Worker: "a", Drop: a.p.Drop})
		held, _ := a.p.Get("s1")
		end, err := cleaner.clean(t.Context(), held, due{completed: true})
		require.NoError(t, err)
		assert.Equal(t, cleaned, end)
		assert.Equal(t, []string{"acquired s1", "hand-off s1", "lost s1 dropped"}, a.p.heard())
	})
	t.Run("the deadline passes in the middle", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			var a *consumers
			a = w.consume("a", func(ctx context.Context, l Lease) {
				time.Sleep(31 * time.Second)
				assert.ErrorIs(t, a.p.Checkpoint(ctx, l.Key, l.Token, kcl.ShardEnd), kcl.ErrLeaseLost)
			})
			a.p.hold()
			defer a.p.run()()
			require.NoError(t, a.p.Checkpoint(t.Context(), "s1", a.p.token("s1"), at("5")))
			_, err := a.p.StartHandOff(t.Context(), "s1", a.p.token("s1"), "b")
			require.NoError(t, err)
			time.Sleep(30 * time.Second)
			synctest.Wait()
			b := w.peer("b").hold()
			require.NoError(t, b.Checkpoint(t.Context(), "s1", b.token("s1"), at("6")))
			a.wg.Wait()
			assert.Equal(t, at("6"), w.item("s1").Checkpoint, "not moved back, nor past b")
		})
	})
}

// leases#65
func TestHandOffOfALeaseWithoutAConsumer(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"))
		a := w.peer("a", func(rc *RenewerConfig) { rc.Live = func(string, string) bool { return false } }).hold()
		defer a.run()()
		synctest.Wait()
		w.startHandOff("s1", "b")
		time.Sleep(testPeriod)
		synctest.Wait()
		got := w.item("s1")
		assert.Equal(t, [2]string{"b", ""}, [2]string{got.Owner, got.CheckpointOwner}, "as soon as it is known")
	})
	t.Run("or whose consumer goes away meanwhile", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			var mu sync.Mutex
			alive := true
			a := w.peer("a", func(rc *RenewerConfig) {
				rc.Live = func(string, string) bool { mu.Lock(); defer mu.Unlock(); return alive }
			}).hold()
			defer a.run()()
			_, err := a.StartHandOff(t.Context(), "s1", a.token("s1"), "b")
			require.NoError(t, err)
			time.Sleep(5 * time.Second)
			require.Equal(t, "a", w.item("s1").CheckpointOwner)
			mu.Lock()
			alive = false
			mu.Unlock()
			time.Sleep(2 * handOffPoll)
			synctest.Wait()
			assert.Equal(t, "b", w.item("s1").Owner)
			assert.Empty(t, w.item("s1").CheckpointOwner)
		})
	})
}

// Callbacks may call the renewer, and none is made with a lock held.
func TestEventsMayCallBack(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"), lease("s2", "a"))
		var p *peer
		p = w.peer("a", func(rc *RenewerConfig) {
			told := rc.Events
			rc.Events.Acquired = func(l Lease) {
				told.Acquired(l)
				if l.Key == "s1" {
					p.Drop(l.Key, l.Token)
				}
			}
			rc.Events.Lost = func(l Lease, why Loss) {
				told.Lost(l, why)
				_, held := p.Get(l.Key)
				assert.False(t, held)
			}
		})
		p.hold()
		heard := p.heard()
		assert.Less(t, slices.Index(heard, "acquired s1"), slices.Index(heard, "lost s1 dropped"))
		assert.Equal(t, []string{"s2"}, p.keys())
	})
}
