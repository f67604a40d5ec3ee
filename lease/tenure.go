package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-kcl/kcl"
)

// tenure is one lease, for as long as this worker holds it.
type tenure struct {
	key, token string
	// turn is full while somebody writes the item. Unlike a mutex it can be
	// waited for with a context.
	turn chan struct{}

	// guarded by Renewer.mu
	lease Lease
	term  reading // when the present term began
	// unanswered is when the first of the writes began that failed since the
	// last success: any of them may have been carried out, and have begun the
	// term that a later success reports.
	unanswered reading
	// stale: one of them was a checkpoint, so the item's may be another than
	// lease's.
	stale      bool
	accepted   kcl.Position
	throughput throughput
	handOffAt  time.Time // when a hand-off became known; zero if none has
	// leaving: the last write is under way, and may have been carried out. From
	// then on nothing is done under the lease but to repeat that write, and to
	// renew until it succeeds.
	leaving bool
	told    bool // Lost has been posted
}

// take waits for t's turn, give ends it.
func (t *tenure) take(ctx context.Context) error {
	select {
	case t.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("lease %s: %w: waiting for another write of it: %w", t.key, kcl.ErrDependency, context.Cause(ctx))
	}
}

func (t *tenure) give() { <-t.turn }

// view returns the lease as it is to be shown and written, sharing no memory.
// Renewer.mu must be held.
func (t *tenure) view() Lease {
	l := t.lease.Clone()
	if t.throughput.known {
		l.ThroughputKBps, l.HasThroughput = t.throughput.mean, true
	}
	return l
}

// unsaved reports whether a position was accepted that lies behind the
// checkpoint. Renewer.mu must be held.
func (t *tenure) unsaved() bool { return t.accepted.Compare(t.lease.Checkpoint) > 0 }

// usable reports whether the shard may be worked on: the tenure goes on beyond
// doubt. Renewer.mu must be held.
func (r *Renewer) usable(t *tenure, now reading) bool {
	return !t.leaving && r.trustIn(t, now) == live
}

// ownedBy reports whether worker may renew l: it owns it and no hand-off is
// pending, or it is to hand it over to somebody else.
func ownedBy(l Lease, worker string) bool {
	return l.ActualOwner() == worker && (!l.HandOffPending() || l.Owner != worker)
}

// change is what a write does to a lease besides moving its counter. An error
// means that it cannot be done to this lease; then nothing is sent.
type change func(*Lease) error

// renewal is the change of a write that does nothing else.
var renewal change

func checkpointAt(p kcl.Position) change {
	return func(l *Lease) error {
		if err := notBefore(*l, p); err != nil {
			return err
		}
		l.Checkpoint, l.OwnerSwitches = p, 0
		l.Pending, l.PendingState = kcl.Position{}, nil
		return nil
	}
}

func prepareAt(p kcl.Position, state []byte) change {
	return func(l *Lease) error {
		if err := notBefore(*l, p); err != nil {
			return err
		}
		l.Pending, l.PendingState = p, state
		return nil
	}
}

// notBefore returns an error if p lies before l's checkpoint. The caller may not
// know of that one: it may have been stored by a call that got no answer.
func notBefore(l Lease, p kcl.Position) error {
	if p.Compare(l.Checkpoint) >= 0 {
		return nil
	}
	return fmt.Errorf("lease %s: %w: %s lies before the stored checkpoint, %s", l.Key, kcl.ErrInvalidPosition, p, l.Checkpoint)
}

// storeAccepted is the change that stores t's accepted position, unless the
// lease turns out to stand behind it: a checkpoint may have been stored whose
// answer got lost.
func (r *Renewer) storeAccepted(t *tenure) change {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := t.accepted
	return func(l *Lease) error {
		if p.Compare(l.Checkpoint) > 0 {
			return checkpointAt(p)(l)
		}
		return nil
	}
}

// errUnread: a write was not sent, as the item had to be read first and could
// not be.
var errUnread = errors.New("not written")

// write makes one conditional write of t's item and takes over the answer. The
// caller has t's turn. The write ends with the term, and within a period: one
// that hangs shall leave time for others. An error that wraps [kcl.ErrLeaseLost]
// ended the tenure; after any other the memory is as it was, and the write may
// have been carried out all the same.
func (r *Renewer) write(ctx context.Context, t *tenure, c change) error {
	start := readClocks()
	r.mu.Lock()
	held, l, worth, stale := r.held[t.key] == t, t.view(), r.trustIn(t, start), t.stale
	end := t.term.mono.Add(r.failover)
	r.mu.Unlock()
	if !held {
		return lostError(t.key)
	}
	if worth == over {
		r.end(t, LossExpired)
		return lostError(t.key)
	}
	if patience := start.mono.Add(r.period); patience.Before(end) {
		end = patience
	}
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()

	if stale && c != nil {
		// A prepare would write the checkpoint of before that one, else.
		read, ok, err := r.reread(ctx, l)
		if err != nil {
			return r.failed(t, start, worth, c, fmt.Errorf("%w: %w", errUnread, err))
		}
		if !ok {
			r.end(t, LossRefused)
			return lostError(t.key)
		}
		l = read
	}
	next, won, err := r.send(ctx, l, c)
	if err == nil && !won && c != nil && r.hasUnanswered(t) {
		// The counter may have been moved by our own write that got no answer.
		// A refused renewal finds that out by itself.
		read, ok, rereadErr := r.reread(ctx, l)
		if err = rereadErr; ok {
			next, won, err = r.send(ctx, read, c)
		}
	}
	if errors.Is(err, kcl.ErrInvalidPosition) {
		return err
	}
	if err != nil {
		return r.failed(t, start, worth, c, err)
	}
	if !won {
		r.end(t, LossRefused)
		return lostError(t.key)
	}
	return r.succeeded(t, start, c, next)
}

func (r *Renewer) send(ctx context.Context, l Lease, c change) (Lease, bool, error) {
	if c == nil {
		return r.store.Renew(ctx, l)
	}
	if err := c(&l); err != nil {
		return l, false, err
	}
	return r.store.Checkpoint(ctx, l)
}

// reread reads the item of a held lease one of whose writes got no answer. It
// is false when the item shows another's write.
func (r *Renewer) reread(ctx context.Context, l Lease) (Lease, bool, error) {
	met, found, err := r.store.GetConsistent(ctx, l.Key)
	if err != nil || !found || !ownedBy(met, r.worker) {
		return l, false, err
	}
	if met.Counter != l.Counter && met.Counter != l.Counter+1 {
		return l, false, nil
	}
	met.Token, met.ThroughputKBps, met.HasThroughput = l.Token, l.ThroughputKBps, l.HasThroughput
	return met, true, nil
}

func (r *Renewer) hasUnanswered(t *tenure) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !t.unanswered.isZero()
}

func (r *Renewer) failed(t *tenure, start reading, worth trust, c change, err error) error {
	r.mu.Lock()
	if t.unanswered.isZero() {
		t.unanswered = start
	}
	t.stale = t.stale || c != nil
	r.mu.Unlock()
	if worth == doubtful {
		r.end(t, LossExpired)
		return fmt.Errorf("%w: %w", lostError(t.key), err)
	}
	return err
}

func (r *Renewer) succeeded(t *tenure, start reading, c change, next Lease) error {
	r.mu.Lock()
	if r.held[t.key] != t {
		r.mu.Unlock()
		return lostError(t.key)
	}
	if !t.unanswered.isZero() {
		start, t.unanswered = t.unanswered, reading{}
	}
	if c != nil {
		t.stale = false
	}
	next.Token, next.Moved = t.token, start.mono
	t.lease, t.term = next, start
	r.noteHandOffLocked(t)
	r.mu.Unlock()
	r.mailbox.deliver()
	return nil
}

// giveUp ends a tenure that nothing can be written for any more.
func (r *Renewer) giveUp(t *tenure) error {
	r.mu.Lock()
	reason := LossExpired
	if !ownedBy(t.lease, r.worker) {
		reason = LossRefused
	}
	r.endLocked(t, reason)
	r.mu.Unlock()
	r.mailbox.deliver()
	return lostError(t.key)
}

// end ends a tenure, unless it has ended, and tells so.
func (r *Renewer) end(t *tenure, why Loss) {
	r.mu.Lock()
	r.endLocked(t, why)
	r.mu.Unlock()
	r.mailbox.deliver()
}

// endLocked is end with Renewer.mu held. The caller delivers the mail.
func (r *Renewer) endLocked(t *tenure, why Loss) {
	if r.held[t.key] != t {
		return
	}
	delete(r.held, t.key)
	r.losses++
	if r.passes > 0 {
		r.lostSeen[t.key] = r.losses
	}
	r.tellLocked(t, why)
}

// tellLocked posts that the lease is lost, once a tenure. Renewer.mu must be
// held; the caller delivers the mail.
func (r *Renewer) tellLocked(t *tenure, why Loss) {
	if t.told {
		return
	}
	t.told = true
	l := t.view()
	r.mailbox.post(func() {
		r.log.Info("lease no longer held", "lease", t.key, "reason", string(why))
		if r.events.Lost != nil {
			r.events.Lost(l, why)
		}
	})
}

func lostError(key string) error { return fmt.Errorf("lease %s: %w", key, kcl.ErrLeaseLost) }
