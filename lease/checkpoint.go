package lease

import (
	"context"
	"time"

	"github.com/go-kcl/kcl"
)

// Checkpoint stores p for the tenure, and clears a pending checkpoint. It is a
// heartbeat too. Nothing is retried. The error wraps [kcl.ErrLeaseLost],
// [kcl.ErrThrottled], [kcl.ErrInvalidState], [kcl.ErrDependency] or, if p is no
// position or lies before the stored checkpoint, [kcl.ErrInvalidPosition]. After
// an error of the call it may have been stored all the same, and a later call
// find that out.
func (r *Renewer) Checkpoint(ctx context.Context, key, token string, p kcl.Position) error {
	return r.storePosition(ctx, key, token, p, checkpointAt(p))
}

// Prepare stores p and state as the pending checkpoint and leaves the
// checkpoint where it is. Its errors are those of [Renewer.Checkpoint].
func (r *Renewer) Prepare(ctx context.Context, key, token string, p kcl.Position, state []byte) error {
	return r.storePosition(ctx, key, token, p, prepareAt(p, state))
}

func (r *Renewer) storePosition(ctx context.Context, key, token string, p kcl.Position, c change) error {
	if err := p.Validate(); err != nil {
		return err
	}
	return r.inTurn(ctx, key, token, func(ctx context.Context, t *tenure) error { return r.write(ctx, t, c) })
}

// Accept says that the shard is processed up to p. The lease's next heartbeat
// stores that, at no further write; so does [Renewer.Flush]. A position before
// the accepted one is ignored, and so is an unknown tenure.
func (r *Renewer) Accept(key, token string, p kcl.Position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.held[key]; t != nil && t.token == token && p.Compare(t.accepted) > 0 {
		t.accepted = p
	}
}

// Flush stores the accepted position now, unless it is stored. Its errors are
// those of [Renewer.Checkpoint].
func (r *Renewer) Flush(ctx context.Context, key, token string) error {
	return r.inTurnIf(ctx, key, token, (*tenure).unsaved,
		func(ctx context.Context, t *tenure) error { return r.write(ctx, t, r.storeAccepted(t)) })
}

// Delivered counts bytes of records that are about to be handed to the tenure's
// processor. Renewals store the rate; unknown tenures are ignored.
func (r *Renewer) Delivered(key, token string, bytes int) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.held[key]; t != nil && t.token == token {
		t.throughput.add(now, int64(bytes))
	}
}

// inTurn calls f in the tenure's turn, unless the lease is being given away.
func (r *Renewer) inTurn(ctx context.Context, key, token string, f func(context.Context, *tenure) error) error {
	return r.inTurnIf(ctx, key, token, func(*tenure) bool { return true }, f)
}

// inTurnIf is inTurn that waits for the turn, and calls f, only if needed says
// so, which is called with Renewer.mu held.
func (r *Renewer) inTurnIf(ctx context.Context, key, token string, needed func(*tenure) bool, f func(context.Context, *tenure) error) error {
	t := r.find(key, token)
	if t == nil {
		return lostError(key)
	}
	check := func() (needs, held bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return needed(t), r.held[key] == t && !t.leaving
	}
	if needs, held := check(); !held {
		return lostError(key)
	} else if !needs {
		return nil
	}
	if err := t.take(ctx); err != nil {
		return err
	}
	defer t.give()
	if needs, held := check(); !held {
		return lostError(key)
	} else if !needs {
		return nil
	}
	return f(ctx, t)
}
