package checkpoint

import (
	"context"
	"fmt"

	"github.com/go-kcl/kcl"
)

// Batch is the kcl.Checkpointer of one delivery of a batch.
type Batch struct {
	c   *Checkpointer
	end kcl.Position
}

var _ kcl.Checkpointer = (*Batch)(nil)

// Deliver permits positions up to end, and returns the Checkpointer of the
// batch that ends there. It is in the processor's hands until its Accept or
// Fail is called. A zero end is that of a batch without records: where the one
// before ended.
func (c *Checkpointer) Deliver(end kcl.Position) *Batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	if end.IsZero() {
		end = c.accepted
	}
	if end.Compare(c.permitted) > 0 {
		c.permitted = end
	}
	c.inHand = &Batch{c, end}
	return c.inHand
}

// Accept says that the batch is done: processed, or skipped by the policy.
func (b *Batch) Accept() { b.settle(b.end) }

// Fail says that the processor failed. What lies up to done is processed
// nonetheless; done is zero if nothing is.
func (b *Batch) Fail(done kcl.Position) { b.settle(done) }

func (b *Batch) settle(done kcl.Position) {
	c := b.c
	c.mu.Lock()
	c.inHand = nil
	forward := !done.IsZero() && done.Compare(c.accepted) > 0
	if forward {
		c.accepted = done
	}
	auto := forward && c.cfg.Auto
	c.mu.Unlock()
	if auto {
		c.cfg.Leases.Accept(c.cfg.Key, c.cfg.Token, done)
	}
}

// Checkpoint implements [kcl.Checkpointer].
func (b *Batch) Checkpoint(ctx context.Context) error {
	c := b.c
	return c.reach(ctx, func() (kcl.Position, bool, error) {
		switch {
		case b.end.Compare(c.floor()) < 0, b.end.Compare(c.last) == 0:
			return b.end, false, nil
		case c.inHand != b && b.end.Compare(c.accepted) > 0:
			return b.end, false, fmt.Errorf("%w: the batch that ends at %s has failed", kcl.ErrInvalidPosition, b.end)
		}
		return b.end, true, nil
	})
}

// CheckpointAt implements [kcl.Checkpointer].
func (b *Batch) CheckpointAt(ctx context.Context, p kcl.Position) error { return b.c.store(ctx, p) }

// Prepare implements [kcl.Checkpointer].
func (b *Batch) Prepare(ctx context.Context, p kcl.Position, state []byte) (*kcl.Prepared, error) {
	return b.c.prepare(ctx, p, state)
}
