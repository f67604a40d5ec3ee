package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/go-kcl/kcl"
)

const (
	// handOffPoll is how often pending hand-offs are looked at, besides when
	// their time is up. KCL's monitor has the same period.
	handOffPoll = 2 * time.Second

	// giveUpAttempts bounds the tries of a write that gives a lease up.
	giveUpAttempts = 3
)

// ErrNoHandOff: there is no pending hand-off to complete.
var ErrNoHandOff = errors.New("no hand-off is pending")

// noteHandOffLocked takes notice of a pending hand-off, once a tenure.
// Renewer.mu must be held; the caller delivers the mail.
func (r *Renewer) noteHandOffLocked(t *tenure) {
	if !t.handOffAt.IsZero() || !t.lease.HandOffPending() || !ownedBy(t.lease, r.worker) {
		return
	}
	t.handOffAt = time.Now()
	l := t.view()
	r.mailbox.post(func() {
		r.log.Info("hand-off requested", "lease", l.Key, "to", l.Owner)
		if r.events.HandOffRequested != nil {
			r.events.HandOffRequested(l)
		}
		select {
		case r.handOffWake <- struct{}{}:
		default:
		}
	})
}

// StartHandOff asks this worker itself to hand the lease over to another; the
// request takes effect at once, whereas one that the leader of another worker
// makes is found out by the next heartbeat. It is false when the table does not
// allow it, as when a hand-off is pending already.
func (r *Renewer) StartHandOff(ctx context.Context, key, token, to string) (started bool, err error) {
	err = r.inTurn(ctx, key, token, func(ctx context.Context, t *tenure) error {
		r.mu.Lock()
		l := t.view()
		r.mu.Unlock()
		next, ok, err := r.store.StartHandOff(ctx, l, to)
		if err != nil || !ok {
			return err
		}
		started = true
		r.mu.Lock()
		t.lease.Owner, t.lease.CheckpointOwner = next.Owner, next.CheckpointOwner
		r.noteHandOffLocked(t)
		r.mu.Unlock()
		r.mailbox.deliver()
		return nil
	})
	return started, err
}

// Transfer completes the tenure's pending hand-off: the next owner may start.
// Then, whatever came of it, the lease is dropped, so that a failure ends the
// heartbeat and the leader can recover the lease. If none is pending, it does
// nothing and returns an error that wraps [ErrNoHandOff].
func (r *Renewer) Transfer(ctx context.Context, key, token string) error {
	t := r.find(key, token)
	if t == nil {
		return lostError(key)
	}
	if !r.handOffKnown(t) {
		return fmt.Errorf("lease %s: %w", key, ErrNoHandOff)
	}
	err := r.transfer(ctx, t)
	if err != nil {
		r.end(t, LossDropped)
	}
	return err
}

// handOffKnown reports whether t's consumer was asked to hand the lease over,
// even if the leader has taken that back.
func (r *Renewer) handOffKnown(t *tenure) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !t.handOffAt.IsZero()
}

// transfer assigns the lease to its next owner and ends the tenure. After an
// error the lease is still held, if its term lasts.
func (r *Renewer) transfer(ctx context.Context, t *tenure) error {
	return r.giveAway(ctx, t, func(ctx context.Context, l Lease) (Loss, error) {
		if !l.HandOffPending() {
			return LossDropped, nil // the leader gave it back to us; a new tenure will find it
		}
		_, done, err := r.store.Assign(ctx, l, l.Owner, false)
		if !done {
			return LossRefused, err
		}
		return LossTransferred, nil
	})
}

// Release gives the lease back to the fleet: nobody owns it then, or, if a
// hand-off is pending, its next owner does. Then, whatever came of it, the
// lease is dropped.
func (r *Renewer) Release(ctx context.Context, key, token string) error {
	t := r.find(key, token)
	if t == nil {
		return lostError(key)
	}
	err := r.giveAway(ctx, t, func(ctx context.Context, l Lease) (Loss, error) {
		_, done, err := r.store.Evict(ctx, l)
		if err == nil && !done {
			// A hand-off may have begun that no heartbeat has told us of.
			met, found, readErr := r.store.GetConsistent(ctx, l.Key)
			if err = readErr; found && ownedBy(met, r.worker) {
				_, done, err = r.store.Evict(ctx, met)
			}
		}
		if !done {
			return LossRefused, err
		}
		return LossReleased, nil
	})
	if err != nil {
		r.end(t, LossDropped)
	}
	return err
}

// giveAway makes, in t's turn, the last write of a tenure, and ends it for the
// reason that the write gives. A position accepted but not stored is stored
// first; that failing, the next owner processes again what lies behind the
// checkpoint. After an error the tenure goes on, though nothing can be done with
// it but to try again.
func (r *Renewer) giveAway(ctx context.Context, t *tenure, last func(context.Context, Lease) (Loss, error)) error {
	if err := t.take(ctx); err != nil {
		return err
	}
	defer t.give()
	if r.hasUnsaved(t) {
		if err := r.write(ctx, t, r.storeAccepted(t)); errors.Is(err, kcl.ErrLeaseLost) {
			return err
		} else if err != nil {
			r.log.WarnContext(ctx, "last position not stored", "lease", t.key, "err", err)
		}
	}
	r.mu.Lock()
	held, l, end := r.held[t.key] == t, t.view(), t.term.mono.Add(r.failover)
	t.leaving = true
	r.mu.Unlock()
	if !held {
		return lostError(t.key)
	}
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	for attempt := 0; ; attempt++ {
		tryCtx, cancel := context.WithTimeout(ctx, r.period)
		why, err := last(tryCtx, l)
		cancel()
		if err == nil {
			r.end(t, why)
			return nil
		}
		if errors.Is(err, kcl.ErrInvalidState) || attempt+1 == giveUpAttempts || !pause(ctx, attempt) {
			return err
		}
	}
}

func (r *Renewer) hasUnsaved(t *tenure) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return t.unsaved()
}

// watchHandOffs completes, until ctx ends, the hand-offs that the consumers do
// not.
func (r *Renewer) watchHandOffs(ctx context.Context) {
	for {
		var next <-chan time.Time
		if wait, pending := r.checkHandOffs(ctx); pending {
			next = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-r.handOffWake:
		case <-next:
		}
	}
}

// checkHandOffs looks at every pending hand-off once. It returns how long there
// is to wait until it is to be called again, if there are any.
func (r *Renewer) checkHandOffs(ctx context.Context) (wait time.Duration, pending bool) {
	type open struct {
		tenure   *tenure
		ended    bool
		deadline time.Time
	}
	var all []open
	r.mu.Lock()
	for _, t := range r.held {
		if !t.handOffAt.IsZero() {
			all = append(all, open{t, t.lease.Ended(), t.handOffAt.Add(r.handOffTimeout)})
		}
	}
	r.mu.Unlock()

	var g errgroup.Group
	g.SetLimit(r.threads)
	wait = handOffPoll
	for _, o := range all {
		alive := r.live == nil || r.live(o.tenure.key, o.tenure.token)
		left := time.Until(o.deadline)
		if !mustTransfer(o.ended, alive, left) {
			if left > 0 {
				wait = min(wait, left)
			}
			continue
		}
		g.Go(func() error { // ends with its write, by handOffPoll
			r.force(ctx, o.tenure, alive)
			return nil
		})
	}
	_ = g.Wait()
	return wait, len(all) > 0
}

// mustTransfer reports whether a pending hand-off is to be completed without
// waiting for the consumer any longer.
//
//	at shard end  consumer  time left  transfer
//	yes           any       any        no: the lease is kept until it is cleaned up
//	no            none      any        yes: nobody would ever do it
//	no            live      none       yes
//	no            live      some       no
func mustTransfer(ended, alive bool, left time.Duration) bool {
	return !ended && (!alive || left <= 0)
}

// force completes a hand-off over the consumer's head.
func (r *Renewer) force(ctx context.Context, t *tenure, alive bool) {
	ctx, cancel := context.WithTimeout(ctx, handOffPoll)
	defer cancel()
	// The consumer is told first: the next owner may start as soon as the write
	// is carried out, whenever its answer comes.
	r.mu.Lock()
	t.leaving = true
	r.tellLocked(t, LossTransferred)
	r.mu.Unlock()
	r.mailbox.deliver()
	err := r.transfer(ctx, t)
	switch {
	case errors.Is(err, kcl.ErrLeaseLost):
	case err != nil:
		r.log.WarnContext(ctx, "hand-off not completed, tried again", "lease", t.key, "err", err)
	case alive:
		r.log.InfoContext(ctx, "consumer did not stop in time, hand-off completed", "lease", t.key)
	default:
		r.log.InfoContext(ctx, "lease had no consumer, hand-off completed", "lease", t.key)
	}
}
