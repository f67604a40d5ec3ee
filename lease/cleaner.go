package lease

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/ddb"
)

const (
	defaultCleanInterval     = time.Minute
	defaultCompletedInterval = 5 * time.Minute
	defaultGarbageInterval   = 30 * time.Minute
)

// Child is a child of an ended shard, as Kinesis names it.
type Child struct {
	ShardID   string
	Parents   []string // bare shard ids
	HashRange kcl.HashRange
}

// CleanerConfig sets up a [Cleaner].
type CleanerConfig struct {
	Store *Store
	// Worker is this worker's id, leaseOwner in the table.
	Worker string
	// Children asks Kinesis for the children of a lease's shard. An error whose
	// service code is ResourceNotFoundException means that the shard or the
	// stream is gone, and deletes the lease; so the caller has made sure of it.
	Children func(ctx context.Context, l Lease) ([]Child, error)
	// Drop is told of each deleted lease that was handed to Add, so that it is
	// renewed no more: [Renewer.Drop]. May be nil.
	Drop func(key, token string)
	// KeepCompleted leaves the leases of ended shards in the table until the
	// shards themselves are gone. KCL: cleanupLeasesUponShardCompletion, its
	// opposite.
	KeepCompleted bool
	// Interval is the time between two looks at the queue, CompletedInterval
	// that between two rounds that delete the leases of ended shards, and
	// GarbageInterval that between two that ask Kinesis whether the shards are
	// still there. 0 means 1, 5 and 30 minutes. KCL: leaseCleanupConfig, where
	// they cannot be set.
	Interval, CompletedInterval, GarbageInterval time.Duration
	Logger                                       *slog.Logger // nil discards
}

// Cleaner deletes the leases of ended shards. It keeps a lease until all
// children are being processed and no parent's lease is left, so that nothing
// that still has to be read, or to be waited for, loses its trace.
//
// Its queue is not durable: whoever acquires an ended lease adds it again. Nor
// is it bounded but by the number of leases this worker holds: there is one
// entry for each lease at most.
type Cleaner struct {
	store         *Store
	worker        string
	children      func(context.Context, Lease) ([]Child, error)
	drop          func(key, token string)
	keepCompleted bool
	interval      time.Duration
	every         rounds
	log           *slog.Logger

	mu sync.Mutex
	// guarded by mu
	queue []Lease // in the order of Add, one a key
}

// rounds says how often each kind of work is due.
type rounds struct{ completed, garbage time.Duration }

// NewCleaner does no I/O and starts nothing.
func NewCleaner(cfg CleanerConfig) *Cleaner {
	c := &Cleaner{
		store:         cfg.Store,
		worker:        cfg.Worker,
		children:      cfg.Children,
		drop:          cfg.Drop,
		keepCompleted: cfg.KeepCompleted,
		interval:      cmp.Or(cfg.Interval, defaultCleanInterval),
		every: rounds{
			completed: cmp.Or(cfg.CompletedInterval, defaultCompletedInterval),
			garbage:   cmp.Or(cfg.GarbageInterval, defaultGarbageInterval),
		},
		log: cfg.Logger,
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.log = c.log.With("worker", cfg.Worker)
	return c
}

// Add queues the lease of an ended shard, unless it is queued already; a later
// tenure's token then takes the place of the former's. It may be called before,
// during and after Run.
func (c *Cleaner) Add(l Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := c.index(l.Key); i >= 0 {
		c.queue[i] = l
		return
	}
	c.queue = append(c.queue, l)
}

// Queued reports whether the lease waits to be deleted.
func (c *Cleaner) Queued(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.index(key) >= 0
}

func (c *Cleaner) index(key string) int {
	return slices.IndexFunc(c.queue, func(l Lease) bool { return l.Key == key })
}

func (c *Cleaner) remove(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := c.index(key); i >= 0 {
		c.queue = slices.Delete(c.queue, i, i+1)
	}
}

// Run works off the queue until ctx ends.
func (c *Cleaner) Run(ctx context.Context) {
	completed := time.Now() // when the last round of each kind began
	garbage := completed
	tick := time.NewTicker(c.interval)
	defer tick.Stop()
	for {
		now := time.Now()
		did := c.runOnce(ctx, due{
			completed: now.Sub(completed) >= c.every.completed,
			garbage:   now.Sub(garbage) >= c.every.garbage,
		})
		// Only a run that got somewhere was a round; else the next one tries again.
		if did.completed {
			completed = now
		}
		if did.garbage {
			garbage = now
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// due says which kinds of work are due, or were done.
type due struct{ completed, garbage bool }

// runOnce goes through the queue once, in its order: parents are added before
// their children, and have to go first.
func (c *Cleaner) runOnce(ctx context.Context, is due) (did due) {
	if is == (due{}) {
		return did
	}
	c.mu.Lock()
	queue := slices.Clone(c.queue)
	c.mu.Unlock()
	for _, l := range queue {
		if ctx.Err() != nil {
			return did
		}
		end, err := c.clean(ctx, l, is)
		did.completed = did.completed || end == cleaned
		did.garbage = did.garbage || end == collected
		switch {
		case err != nil:
			c.log.WarnContext(ctx, "ended lease not cleaned up, tried again", "lease", l.Key, "err", err)
		case end != kept:
			c.remove(l.Key)
		}
	}
	return did
}

// ending is what became of a queued lease.
type ending uint8

const (
	kept      ending = iota // to be tried again
	cleaned                 // gone, as its shard was completed
	collected               // gone, as its shard is
	abandoned               // another worker's by now, which will queue it itself
)

// clean does what is due about one lease.
func (c *Cleaner) clean(ctx context.Context, queued Lease, is due) (ending, error) {
	l, found, err := c.store.GetConsistent(ctx, queued.Key)
	switch {
	case err != nil:
		return kept, err
	case !found:
		c.forget(queued)
		return cleaned, nil
	case l.ActualOwner() != c.worker:
		return abandoned, nil
	}
	asked := false
	if is.completed && !c.keepCompleted {
		if len(l.Children) == 0 {
			asked = true
			children, err := c.children(ctx, l)
			if err != nil {
				return c.collect(ctx, queued, l, err)
			}
			if l.Children, err = c.note(ctx, l, children); err != nil {
				return kept, err
			}
		}
		ok, err := c.completed(ctx, l)
		if err != nil {
			c.log.WarnContext(ctx, "completion of an ended lease not known", "lease", l.Key, "err", err)
		} else if ok {
			return c.delete(ctx, queued, l, cleaned)
		}
	}
	if is.garbage && !asked {
		if _, err := c.children(ctx, l); err != nil {
			return c.collect(ctx, queued, l, err)
		}
	}
	return kept, nil
}

// note stores what Kinesis says the children of l's shard are, and returns
// their shard ids.
func (c *Cleaner) note(ctx context.Context, l Lease, children []Child) ([]string, error) {
	if len(children) == 0 {
		c.log.WarnContext(ctx, "ended shard has no children", "lease", l.Key)
		return nil, nil
	}
	ids := make([]string, len(children))
	for i, ch := range children {
		ids[i] = ch.ShardID
	}
	return ids, c.store.SetChildren(ctx, l.Key, ids)
}

// completed reads the leases of l's children and parents, and reports whether l
// can go.
func (c *Cleaner) completed(ctx context.Context, l Lease) (bool, error) {
	children := make([]Lease, 0, len(l.Children))
	for _, shard := range l.Children {
		child, found, err := c.store.GetConsistent(ctx, siblingKey(l, shard))
		if err != nil {
			return false, err
		}
		if !found {
			return false, nil
		}
		children = append(children, child)
	}
	parents := 0
	for _, shard := range l.Parents {
		_, found, err := c.store.GetConsistent(ctx, siblingKey(l, shard))
		if err != nil {
			return false, err
		}
		if found {
			parents++
		}
	}
	return deletable(l, children, parents), nil
}

// deletable reports whether an ended lease can go: its own shard is read to its
// end, reading of every child has begun, and no parent's lease is left. A child
// that stands at LATEST counts as begun. Without any child known, none can have
// begun.
func deletable(l Lease, children []Lease, parents int) bool {
	if !l.Ended() || len(children) == 0 || parents > 0 {
		return false
	}
	return !slices.ContainsFunc(children, func(child Lease) bool {
		at := child.Checkpoint.SequenceNumber
		return at == "" || at == kcl.AtTrimHorizon.SequenceNumber || at == kcl.AtTimestampSentinel.SequenceNumber
	})
}

// siblingKey is the key of the lease of another shard of l's stream.
func siblingKey(l Lease, shard string) string {
	if l.Stream == "" {
		return shard
	}
	return l.Stream + ":" + shard
}

// collect deletes the lease if err, from Kinesis, says that its shard is gone.
func (c *Cleaner) collect(ctx context.Context, queued, l Lease, err error) (ending, error) {
	if ddb.Code(err) != "ResourceNotFoundException" {
		return kept, err
	}
	return c.delete(ctx, queued, l, collected)
}

// delete deletes the lease unless its checkpoint has changed since it was read.
// The counter may: its owner, this worker, goes on renewing it.
func (c *Cleaner) delete(ctx context.Context, queued, l Lease, as ending) (ending, error) {
	gone, err := c.store.DeleteIf(ctx, l, IfCheckpoint)
	if err != nil || !gone {
		return kept, err
	}
	c.log.InfoContext(ctx, "lease of an ended shard deleted", "lease", l.Key, "garbage", as == collected)
	c.forget(queued)
	return as, nil
}

func (c *Cleaner) forget(queued Lease) {
	if c.drop != nil {
		c.drop(queued.Key, queued.Token)
	}
}
