package lease

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/kcltest"
)

// family is an ended lease with two children, as after a split.
func family() (parent Lease, children []Lease) {
	parent = lease("p", "a")
	parent.Checkpoint = kcl.ShardEnd
	parent.Parents = []string{"grandparent"}
	parent.Children = []string{"c1", "c2"}
	for _, key := range parent.Children {
		c := lease(key, "b")
		c.Checkpoint = at("1")
		children = append(children, c)
	}
	return parent, children
}

// shards stands in for Kinesis.
type shards struct {
	children []Child

	mu sync.Mutex
	// guarded by mu
	err   error
	asked int
}

func (s *shards) ask(context.Context, Lease) ([]Child, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return s.children, s.err
}

func (s *shards) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

var errNoShard = &smithy.GenericAPIError{Code: "ResourceNotFoundException", Message: "no such shard"}

// leases#56
func TestDeletable(t *testing.T) {
	parent, children := family()
	for name, c := range map[string]struct {
		change func(parent *Lease, children *[]Lease, parents *int)
		want   bool
	}{
		"both children of a split begun, no parent": {func(*Lease, *[]Lease, *int) {}, true},
		"the child of a merge begun":                {func(_ *Lease, c *[]Lease, _ *int) { *c = (*c)[:1] }, true},
		"a child at LATEST has begun":               {func(_ *Lease, c *[]Lease, _ *int) { (*c)[0].Checkpoint = kcl.AtLatest }, true},
		"a child at its end":                        {func(_ *Lease, c *[]Lease, _ *int) { (*c)[0].Checkpoint = kcl.ShardEnd }, true},
		"a child at TRIM_HORIZON":                   {func(_ *Lease, c *[]Lease, _ *int) { (*c)[1].Checkpoint = kcl.AtTrimHorizon }, false},
		"a child at AT_TIMESTAMP":                   {func(_ *Lease, c *[]Lease, _ *int) { (*c)[1].Checkpoint = kcl.AtTimestampSentinel }, false},
		"a pending checkpoint does not count": {func(_ *Lease, c *[]Lease, _ *int) {
			(*c)[1].Checkpoint, (*c)[1].Pending = kcl.AtTrimHorizon, at("1")
		}, false},
		"a parent's lease is left":    {func(_ *Lease, _ *[]Lease, n *int) { *n = 1 }, false},
		"no child is known":           {func(_ *Lease, c *[]Lease, _ *int) { *c = nil }, false},
		"the shard is not at its end": {func(p *Lease, _ *[]Lease, _ *int) { p.Checkpoint = at("99") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, cs, parents := parent.Clone(), append([]Lease(nil), children...), 0
			c.change(&p, &cs, &parents)
			assert.Equal(t, c.want, deletable(p, cs, parents))
		})
	}
}

// leases#56,57,58,59
func TestClean(t *testing.T) {
	both := due{completed: true, garbage: true}
	for name, c := range map[string]struct {
		is      due
		set     func(w *world) // after parent and children were created
		cfg     CleanerConfig
		kinesis *shards
		want    ending
		wantErr bool
		left    bool // the item is still there
		asked   int
	}{
		"children begun, parents gone":  {is: both, want: cleaned},
		"a child's lease is missing":    {is: due{completed: true}, set: func(w *world) { w.delete("c2") }, want: kept, left: true},
		"a parent's lease is left":      {is: due{completed: true}, set: func(w *world) { w.create(lease("grandparent", "")) }, want: kept, left: true},
		"completed is not due":          {is: due{garbage: true}, want: kept, left: true, asked: 1},
		"completed leases are kept":     {is: both, cfg: CleanerConfig{KeepCompleted: true}, want: kept, left: true, asked: 1},
		"kept, but the shard is gone":   {is: both, cfg: CleanerConfig{KeepCompleted: true}, kinesis: &shards{err: errNoShard}, want: collected, asked: 1},
		"the shard is gone":             {is: due{garbage: true}, kinesis: &shards{err: errNoShard}, want: collected, asked: 1},
		"Kinesis fails":                 {is: due{garbage: true}, kinesis: &shards{err: errors.New("x")}, want: kept, wantErr: true, left: true, asked: 1},
		"the lease is gone already":     {is: both, set: func(w *world) { w.delete("p") }, want: cleaned},
		"the lease is another worker's": {is: both, set: func(w *world) { w.assign("p", "b") }, want: abandoned, left: true},
		"children unknown, none at Kinesis either": {
			is: both, set: func(w *world) { w.replaceParent(func(p *Lease) { p.Children = nil }) }, want: kept, left: true, asked: 1,
		},
		"children unknown, Kinesis names them": {
			is: both, set: func(w *world) { w.replaceParent(func(p *Lease) { p.Children = nil }) },
			kinesis: &shards{children: []Child{{ShardID: "c1"}, {ShardID: "c2"}}}, want: cleaned, asked: 1,
		},
		"children unknown, the shard is gone": {
			is: both, set: func(w *world) { w.replaceParent(func(p *Lease) { p.Children = nil }) },
			kinesis: &shards{err: errNoShard}, want: collected, asked: 1,
		},
		"no children known, no parents either": {
			is: both, set: func(w *world) { w.replaceParent(func(p *Lease) { p.Children, p.Parents = nil, nil }) }, want: kept, left: true, asked: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
				parent, children := family()
				w.create(append(children, parent)...)
				if c.set != nil {
					c.set(w)
				}
				if c.kinesis == nil {
					c.kinesis = &shards{}
				}
				var dropped []string
				cfg := c.cfg
				cfg.Store, cfg.Worker, cfg.Children = w.look, "a", c.kinesis.ask
				cfg.Drop = func(key, token string) { dropped = append(dropped, key+" "+token) }
				parent.Token = "tenure"
				got, err := NewCleaner(cfg).clean(t.Context(), parent, c.is)
				assert.Equal(t, c.wantErr, err != nil, "%v", err)
				assert.Equal(t, c.want, got)
				assert.Equal(t, c.left, w.exists("p"))
				assert.Equal(t, c.asked, c.kinesis.asked)
				if c.want == cleaned || c.want == collected {
					assert.Equal(t, []string{"p tenure"}, dropped)
				} else {
					assert.Empty(t, dropped)
				}
			})
		})
	}
}

func TestCleanNotesTheChildrenInTheTable(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		parent, _ := family()
		parent.Children = nil
		w.create(parent)
		kinesis := &shards{children: []Child{{ShardID: "c1"}, {ShardID: "c2"}}}
		c := NewCleaner(CleanerConfig{Store: w.look, Worker: "a", Children: kinesis.ask})
		got, err := c.clean(t.Context(), parent, due{completed: true})
		require.NoError(t, err)
		assert.Equal(t, kept, got, "the children have no leases yet")
		assert.Equal(t, []string{"c1", "c2"}, w.item("p").Children)
	})
}

// The delete is refused when the checkpoint has changed since the decision, and
// is not when the owner has renewed the lease meanwhile.
func TestDeleteIsConditional(t *testing.T) {
	for name, c := range map[string]struct {
		meddle func(w *world, l Lease)
		want   ending
	}{
		"renewed meanwhile":   {func(w *world, l Lease) { _, _, _ = w.look.Renew(w.t.Context(), l) }, cleaned},
		"rewritten meanwhile": {func(w *world, l Lease) { l.Checkpoint = at("1"); _, _, _ = w.look.Checkpoint(w.t.Context(), l) }, kept},
		"deleted by someone":  {func(w *world, l Lease) { w.delete(l.Key) }, cleaned},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
				parent, children := family()
				w.create(append(children, parent)...)
				c2 := NewCleaner(CleanerConfig{Store: w.look, Worker: "a"})
				l := w.item("p")
				c.meddle(w, l)
				got, err := c2.delete(t.Context(), parent, l, cleaned)
				require.NoError(t, err)
				assert.Equal(t, c.want, got)
				assert.Equal(t, c.want == kept, w.exists("p"))
			})
		})
	}
}

func (w *world) delete(key string) {
	w.t.Helper()
	require.NoError(w.t, w.look.Delete(w.t.Context(), key))
}

func (w *world) replaceParent(change func(*Lease)) {
	w.t.Helper()
	p := w.item("p")
	w.delete("p")
	change(&p)
	w.create(p)
}

// clean runs a cleaner in the background.
func (w *world) clean(cfg CleanerConfig) (c *Cleaner, stop func()) {
	cfg.Store, cfg.Worker = w.look, "a"
	c = NewCleaner(cfg)
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { c.Run(ctx) })
	return c, func() { cancel(); wg.Wait() }
}

// leases#58: nothing cleaned is tried again at the next run, an error too, and
// what was done once is not done again.
func TestCleanerRuns(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		parent, children := family()
		w.create(parent, children[0])
		kinesis := &shards{}
		c, stop := w.clean(CleanerConfig{Children: kinesis.ask})
		defer stop()
		c.Add(parent)
		c.Add(parent) // again: one entry
		c.mu.Lock()
		assert.Len(t, c.queue, 1)
		c.mu.Unlock()

		time.Sleep(5*time.Minute - tick)
		synctest.Wait()
		require.True(t, w.exists("p"))
		require.True(t, c.Queued("p"))
		time.Sleep(tick) // due, but a child is missing
		synctest.Wait()
		require.True(t, w.exists("p"))
		w.create(children[1])
		time.Sleep(time.Minute) // not five
		synctest.Wait()
		assert.False(t, w.exists("p"))
		assert.False(t, c.Queued("p"))

		// Now a round has been done: the next is five minutes off.
		w.create(parent)
		c.Add(parent)
		time.Sleep(5*time.Minute - tick)
		synctest.Wait()
		assert.True(t, w.exists("p"))
		time.Sleep(tick)
		synctest.Wait()
		assert.False(t, w.exists("p"))
		assert.Zero(t, kinesis.asked)
	})
	t.Run("errors are tried again", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			parent, _ := family()
			w.create(parent)
			kinesis := &shards{err: errors.New("unreachable")}
			c, stop := w.clean(CleanerConfig{
				Children: kinesis.ask, KeepCompleted: true,
				Interval: time.Second, CompletedInterval: time.Second, GarbageInterval: 10 * time.Second,
			})
			defer stop()
			c.Add(parent)
			time.Sleep(12 * time.Second)
			synctest.Wait()
			require.Equal(t, 3, kinesis.asked)
			kinesis.fail(errNoShard)
			time.Sleep(time.Second)
			synctest.Wait()
			assert.False(t, w.exists("p"))
			assert.False(t, c.Queued("p"))
		})
	})
	t.Run("a later tenure takes the former's place", func(t *testing.T) {
		c := NewCleaner(CleanerConfig{})
		c.Add(Lease{Key: "p", Token: "old"})
		c.Add(Lease{Key: "p", Token: "new"})
		assert.Equal(t, []Lease{{Key: "p", Token: "new"}}, c.queue)
	})
	t.Run("an empty queue costs nothing, and stopping is possible at any time", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			before := w.aws.Count("GetItem")
			_, stop := w.clean(CleanerConfig{})
			time.Sleep(time.Hour)
			stop()
			stop()
			assert.Equal(t, before, w.aws.Count("GetItem"))
		})
	})
}

// Keys of related leases carry the stream's prefix in a multi-stream
// application.
func TestSiblingKey(t *testing.T) {
	assert.Equal(t, "shardId-1", siblingKey(Lease{Key: "shardId-0", ShardID: "shardId-0"}, "shardId-1"))
	multi := Lease{Key: "123:s:1:shardId-0", Stream: "123:s:1", ShardID: "shardId-0"}
	assert.Equal(t, "123:s:1:shardId-1", siblingKey(multi, "shardId-1"))
}
