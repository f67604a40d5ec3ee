// Package checkpoint decides which positions of a shard may be stored, and
// stores them through whoever holds the lease. There is one [Checkpointer] for
// each tenure of a shard; what a processor gets of it are [Batch] and
// [Checkpointer.Final].
//
// Three positions matter, in this order: last, the stored checkpoint; accepted,
// the end of what the processor has returned nil for or the failure policy has
// skipped; and permitted, the end of what was delivered. A processor may name
// any position from last to permitted. What a batch's own Checkpoint stores is
// the batch's end, which must be accepted or in the processor's hands at
// present: so a batch that failed is never covered by accident.
//
// Writes of one tenure are made one at a time. Nothing is repeated here: the
// caller of a failed write knows best whether to.
package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/metrics"
)

// Leases writes to the held leases. The errors of the first two wrap kcl's; that
// p lies before what is stored is [kcl.ErrInvalidPosition].
type Leases interface {
	// Checkpoint stores p and clears what was prepared.
	Checkpoint(ctx context.Context, key, token string, p kcl.Position) error
	// Prepare stores p and state as pending.
	Prepare(ctx context.Context, key, token string, p kcl.Position, state []byte) error
	// Accept lets p be stored with the next renewal.
	Accept(key, token string, p kcl.Position)
}

// Config sets up a [Checkpointer].
type Config struct {
	Leases Leases
	// Key and Token name the tenure.
	Key, Token string
	// Last is the checkpoint that is stored.
	Last kcl.Position
	// Auto lets accepted positions be stored with the lease's renewals, for
	// processors that do not checkpoint by themselves.
	Auto bool

	Metrics    metrics.Recorder
	Dimensions []metrics.Dimension
}

// Checkpointer stores the positions of one tenure. Its methods may be called
// from any goroutine.
type Checkpointer struct {
	cfg  Config
	turn chan struct{} // capacity 1: held while a write is made

	mu                        sync.Mutex // guards what follows
	last, accepted, permitted kcl.Position
	inHand                    *Batch // with the processor at present
	ending                    bool
}

// New returns a Checkpointer. It makes no call.
func New(cfg Config) *Checkpointer {
	return &Checkpointer{
		cfg:  cfg,
		turn: make(chan struct{}, 1),
		last: cfg.Last, accepted: cfg.Last, permitted: cfg.Last,
	}
}

// Last returns the stored checkpoint.
func (c *Checkpointer) Last() kcl.Position {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// Accepted returns the end of what was accepted.
func (c *Checkpointer) Accepted() kcl.Position {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.accepted
}

// Flush stores what was accepted, if that lies behind the checkpoint.
func (c *Checkpointer) Flush(ctx context.Context) error {
	return c.reach(ctx, func() (kcl.Position, bool, error) {
		return c.accepted, c.accepted.Compare(c.last) > 0, nil
	})
}

// ReachEnd permits SHARD_END from now on.
func (c *Checkpointer) ReachEnd() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.permitted, c.ending = kcl.ShardEnd, true
}

// End stores SHARD_END, unless it is stored already.
func (c *Checkpointer) End(ctx context.Context) error { return c.store(ctx, kcl.ShardEnd) }

// Final returns the Checkpointer for when no further batch will come: its
// Checkpoint stores what was accepted.
func (c *Checkpointer) Final() kcl.Checkpointer { return final{c} }

type final struct{ c *Checkpointer }

func (f final) Checkpoint(ctx context.Context) error { return f.c.Flush(ctx) }

func (f final) CheckpointAt(ctx context.Context, p kcl.Position) error { return f.c.store(ctx, p) }

func (f final) Prepare(ctx context.Context, p kcl.Position, state []byte) (*kcl.Prepared, error) {
	return f.c.prepare(ctx, p, state)
}

// store stores the position that a processor named.
func (c *Checkpointer) store(ctx context.Context, p kcl.Position) error {
	_, err := c.write(ctx, func() (kcl.Position, bool, error) {
		return canonical(p), p.Compare(c.last) != 0, allowed(p, c.floor(), c.permitted)
	})
	return err
}

// decision says, with the lock held, what to store.
type decision func() (p kcl.Position, store bool, err error)

// reach is write for which a later checkpoint will do: one that turns out to be
// stored, by a call that got no answer.
func (c *Checkpointer) reach(ctx context.Context, decide decision) error {
	sent, err := c.write(ctx, decide)
	if sent && errors.Is(err, kcl.ErrInvalidPosition) {
		return nil
	}
	return err
}

// write waits for its turn and stores what is decided then.
func (c *Checkpointer) write(ctx context.Context, decide decision) (sent bool, err error) {
	if err := c.take(ctx); err != nil {
		return false, err
	}
	defer c.give()
	c.mu.Lock()
	p, store, err := decide()
	c.mu.Unlock()
	if err != nil {
		return false, fmt.Errorf("checkpoint %s: %w", c.cfg.Key, err)
	}
	if !store {
		return false, nil
	}
	start := time.Now()
	err = c.cfg.Leases.Checkpoint(ctx, c.cfg.Key, c.cfg.Token, p)
	c.report(start, err)
	if err != nil {
		return true, fmt.Errorf("checkpoint %s at %s: %w", c.cfg.Key, p, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = p
	if p.Compare(c.accepted) > 0 {
		c.accepted = p
	}
	return true, nil
}

func (c *Checkpointer) prepare(ctx context.Context, p kcl.Position, state []byte) (*kcl.Prepared, error) {
	if err := c.take(ctx); err != nil {
		return nil, err
	}
	defer c.give()
	c.mu.Lock()
	stored, err := p.Compare(c.last) == 0, allowed(p, c.floor(), c.permitted)
	c.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("prepare checkpoint %s: %w", c.cfg.Key, err)
	}
	p = canonical(p)
	if stored {
		return kcl.NewPrepared(p, func(context.Context) error { return nil }), nil
	}
	start := time.Now()
	err = c.cfg.Leases.Prepare(ctx, c.cfg.Key, c.cfg.Token, p, state)
	c.report(start, err)
	if err != nil {
		return nil, fmt.Errorf("prepare checkpoint %s at %s: %w", c.cfg.Key, p, err)
	}
	return kcl.NewPrepared(p, func(ctx context.Context) error { return c.store(ctx, p) }), nil
}

func (c *Checkpointer) take(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("checkpoint %s: %w: waiting for another one: %w", c.cfg.Key, kcl.ErrDependency, context.Cause(ctx))
	}
}

func (c *Checkpointer) give() { <-c.turn }

// floor is the position that none may be stored before. With Auto, what was
// accepted may have been stored by a renewal. It needs c.mu.
func (c *Checkpointer) floor() kcl.Position {
	if c.cfg.Auto {
		return c.accepted
	}
	return c.last
}

func (c *Checkpointer) report(start time.Time, err error) {
	scope := metrics.Scope{Recorder: c.cfg.Metrics, Operation: "ProcessTask", Dimensions: c.cfg.Dimensions}
	c.mu.Lock()
	if c.ending {
		scope.Operation = "ShutdownTask"
	}
	c.mu.Unlock()
	scope.Done("UpdateLease", start, err, metrics.Detailed)
}

// allowed says whether a processor may name p.
//
//	p                                  answer
//	neither number nor sentinel        error
//	sentinel other than SHARD_END      error
//	before last                        error
//	behind permitted                   error (SHARD_END is permitted at the end only)
//	else                               yes
func allowed(p, last, permitted kcl.Position) error {
	if err := p.Validate(); err != nil {
		return err
	}
	switch {
	case p.IsSentinel() && p.SequenceNumber != kcl.ShardEnd.SequenceNumber:
		return fmt.Errorf("%w: %s is not a place to checkpoint at", kcl.ErrInvalidPosition, p)
	case p.Compare(last) < 0:
		return fmt.Errorf("%w: %s lies before the last checkpoint, %s", kcl.ErrInvalidPosition, p, last)
	case p.Compare(permitted) > 0:
		return fmt.Errorf("%w: %s lies behind what was delivered, up to %s", kcl.ErrInvalidPosition, p, permitted)
	}
	return nil
}

// canonical drops the sub-sequence number of a sentinel, which means nothing.
func canonical(p kcl.Position) kcl.Position {
	if p.IsSentinel() {
		p.SubSequenceNumber = 0
	}
	return p
}
