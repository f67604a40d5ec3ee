package processortest

import (
	"context"
	"fmt"

	"github.com/go-kcl/kcl"
)

// checkpointer is the kcl.Checkpointer of one delivery, or the final one. Its
// rules are the library's; a test there holds the two against each other.
type checkpointer struct {
	tenure *Tenure
	end    kcl.Position // of the batch
	final  bool
}

// begin permits what the records hold. It needs shard.mu.
func (t *Tenure) begin(records []kcl.Record) *checkpointer {
	end := t.accepted
	if n := len(records); n > 0 {
		end = records[n-1].Position
	}
	t.permitted = latest(t.permitted, end)
	t.inHand = &checkpointer{tenure: t, end: end}
	return t.inHand
}

func (c *checkpointer) Checkpoint(ctx context.Context) error {
	t := c.tenure
	t.shard.mu.Lock()
	defer t.shard.mu.Unlock()
	end := c.end
	if c.final {
		end = t.accepted
	}
	switch {
	case end.Compare(t.floor()) < 0, end.Compare(t.last) == 0:
		return nil
	case t.inHand != c && end.Compare(t.accepted) > 0:
		return fmt.Errorf("%w: the batch that ends at %s has failed", kcl.ErrInvalidPosition, end)
	}
	return t.checkpoint(ctx, end)
}

func (c *checkpointer) CheckpointAt(ctx context.Context, p kcl.Position) error {
	t := c.tenure
	t.shard.mu.Lock()
	defer t.shard.mu.Unlock()
	return t.checkpointAt(ctx, p)
}

func (c *checkpointer) Prepare(ctx context.Context, p kcl.Position, state []byte) (*kcl.Prepared, error) {
	t := c.tenure
	t.shard.mu.Lock()
	defer t.shard.mu.Unlock()
	p, err := t.allowed(p)
	if err != nil {
		return nil, err
	}
	if p.Compare(t.last) == 0 {
		return kcl.NewPrepared(p, func(context.Context) error { return nil }), nil
	}
	if err := ended(ctx); err != nil {
		return nil, err
	}
	if err := t.shard.store(t, p, true, state); err != nil {
		return nil, err
	}
	return kcl.NewPrepared(p, func(ctx context.Context) error { return c.CheckpointAt(ctx, p) }), nil
}

// The rest needs shard.mu.

func (t *Tenure) checkpointAt(ctx context.Context, p kcl.Position) error {
	p, err := t.allowed(p)
	if err != nil || p.Compare(t.last) == 0 {
		return err
	}
	return t.checkpoint(ctx, p)
}

func (t *Tenure) checkpoint(ctx context.Context, p kcl.Position) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if err := t.shard.store(t, p, false, nil); err != nil {
		return err
	}
	t.last = p
	t.accepted = latest(t.accepted, p)
	return nil
}

// floor is the position that none may be stored before.
func (t *Tenure) floor() kcl.Position {
	if t.auto {
		return t.accepted
	}
	return t.last
}

func (t *Tenure) allowed(p kcl.Position) (kcl.Position, error) {
	end := p.SequenceNumber == kcl.ShardEnd.SequenceNumber
	if end {
		p = kcl.ShardEnd
	}
	if err := p.Validate(); err != nil {
		return p, err
	}
	switch {
	case p.IsSentinel() && !end:
		return p, fmt.Errorf("%w: %s is not a place to checkpoint at", kcl.ErrInvalidPosition, p)
	case p.Compare(t.floor()) < 0:
		return p, fmt.Errorf("%w: %s lies before the last checkpoint, %s", kcl.ErrInvalidPosition, p, t.floor())
	case p.Compare(t.permitted) > 0:
		return p, fmt.Errorf("%w: %s lies behind what was delivered, up to %s", kcl.ErrInvalidPosition, p, t.permitted)
	}
	return p, nil
}

// ended is the error of a write whose context has ended.
func ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", kcl.ErrDependency, context.Cause(ctx))
}
