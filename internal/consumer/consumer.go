package consumer

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/checkpoint"
	"github.com/go-kcl/kcl/internal/retrieval"
	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/metrics"
)

// Consumer consumes one shard during one tenure of its lease. Run is called
// once; all other methods may be called from any goroutine, before, during and
// after it, and return at once.
type Consumer struct {
	cfg    Config
	stream kcl.StreamConfig
	lease  lease.Lease
	info   kcl.ShardInfo
	log    *slog.Logger
	dims   []metrics.Dimension
	poked  chan struct{} // capacity 1

	// What follows belongs to Run's goroutine.
	processor   kcl.RecordProcessor // nil until it is made
	initialized bool

	mu sync.Mutex // guards what follows
	// What was asked so far, and how to let Run know: nil outside of it.
	lost, stopping, keep, handOff bool
	endWork                       context.CancelCauseFunc
	endRunning, endStay           context.CancelFunc

	status     Status
	reported   time.Time
	source     Source                   // nil until it is opened
	checkpoint *checkpoint.Checkpointer // nil until the lease was read
}

// New returns the consumer of a lease that was just acquired. It starts nothing.
func New(cfg Config, stream kcl.StreamConfig, l lease.Lease) *Consumer {
	cfg = cfg.withDefaults()
	parents := slices.Sorted(slices.Values(l.Parents))
	return &Consumer{
		cfg:    cfg,
		stream: stream,
		lease:  l,
		info: kcl.ShardInfo{
			Stream: stream.Stream, ShardID: l.ShardID, Parents: parents, HashRange: l.HashRange,
			LeaseKey: l.Key, LeaseToken: l.Token,
		},
		log:    cfg.Logger.With("stream", stream.Stream.String(), "shard", l.ShardID),
		dims:   retrieval.Dimensions(stream.Stream, l.ShardID),
		poked:  make(chan struct{}, 1),
		status: Status{State: StateNew, Since: time.Now()},
	}
}

// Shard describes the shard.
func (c *Consumer) Shard() kcl.ShardInfo { return c.info }

// LeaseLost says that the lease is no longer held. The processor's contexts are
// cancelled with [kcl.ErrLeaseLost].
func (c *Consumer) LeaseLost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = true
	if c.endWork != nil {
		c.endWork(kcl.ErrLeaseLost)
	}
}

// HandOff asks the consumer to leave gracefully and to transfer the lease.
func (c *Consumer) HandOff() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handOff = true
	if c.endStay != nil {
		c.endStay()
	}
}

// Stop asks the consumer to leave gracefully and to release the lease or, with
// keep, to leave it owned by this worker.
func (c *Consumer) Stop(keep bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopping, c.keep = true, keep
	if c.endRunning != nil {
		c.endRunning()
	}
}

// Poke lets a consumer that waits for its parents look again now: some shard
// has ended.
func (c *Consumer) Poke() {
	select {
	case c.poked <- struct{}{}:
	default:
	}
}

// End says how a consumer has left its shard.
type End string

// The ends.
const (
	// Ended: SHARD_END is stored. The lease is still held, and is to be until
	// it is cleaned up.
	Ended End = "ended"
	// Lost: the lease is held no longer, or was dropped because somebody else is
	// to have it.
	Lost End = "lost"
	// HandedOver: the lease was transferred to its next owner.
	HandedOver End = "handed over"
	// Released: nobody owns the lease.
	Released End = "released"
	// Kept: the lease is held no longer, but this worker's in the table, as asked
	// or because of Err.
	Kept End = "kept"
)

// Result is what came of a tenure.
type Result struct {
	End End
	// Children are the shards that follow one that has Ended, as far as known:
	// none if the shard or its stream is gone.
	Children []string
	// Err says why a lease could not be transferred or released as it should:
	// it is dropped, and found expired by others.
	Err error
}

// Run consumes the shard until it has ended or is left. ctx ending is the hard
// stop: callbacks' contexts are then cancelled with [kcl.ErrStopping]. Run
// returns only when no callback is under way any more.
func (c *Consumer) Run(ctx context.Context) Result {
	base, endBase := context.WithCancelCause(context.WithoutCancel(ctx))
	defer endBase(nil)
	defer context.AfterFunc(ctx, func() { endBase(kcl.ErrStopping) })()
	work, endWork := context.WithCancelCause(base)
	running, endRunning := context.WithCancel(work)
	stay, endStay := context.WithCancel(running)

	c.mu.Lock()
	c.endWork, c.endRunning, c.endStay = endWork, endRunning, endStay
	lost, stopping, handOff := c.lost, c.stopping, c.handOff
	c.mu.Unlock()
	if lost {
		endWork(kcl.ErrLeaseLost)
	}
	if stopping {
		endRunning()
	}
	if handOff {
		endStay()
	}
	defer endStay()
	defer endRunning()
	defer endWork(nil)

	res, ended := c.live(work, running, stay)
	if !ended {
		res = c.leave(base, work)
	}
	c.say(StateDone, "")
	return res
}

// live goes through the phases. It is false when the consumer is to leave
// before the shard has ended.
func (c *Consumer) live(work, running, stay context.Context) (res Result, ended bool) {
	if c.lease.Ended() {
		return Result{End: Ended, Children: c.lease.Children}, true
	}
	if !c.awaitParents(stay) {
		return Result{}, false
	}
	row, ok := c.readLease(stay)
	if !ok {
		return Result{}, false
	}
	if row.Ended() {
		return Result{End: Ended, Children: row.Children}, true
	}
	c.open(stay, row)
	if !c.initialize(work, stay, row) {
		return Result{}, false
	}
	end, ok := c.process(work, stay)
	if !ok {
		return Result{}, false
	}
	c.closeSource()
	if !c.endShard(work, running, stay, end.Children) {
		return Result{}, false
	}
	return Result{End: Ended, Children: childIDs(end.Children)}, true
}

// giveUp drops a lease that this consumer can do nothing more with, so that
// its heartbeat stops and somebody takes it up anew.
func (c *Consumer) giveUp() {
	c.cfg.Leases.Drop(c.lease.Key, c.lease.Token)
	c.LeaseLost()
}
