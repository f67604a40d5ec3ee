package javalike

import (
	"context"
	"time"
)

// decider answers who leads, by a lock in the table.
type decider struct {
	turn chan struct{} // whose value is in it may use the rest
	// Guarded by turn.
	mine     *lock     // held, if it has not outlived its term
	since    time.Time // from before the call that won or renewed it
	seen     lock      // another's
	seenAt   time.Time
	asked    time.Time // when the last answer was given
	answer   bool
	shutting bool
}

func (d *decider) take(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case d.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}
func (d *decider) leave() { <-d.turn }

func (d *decider) holds(now time.Time) bool { return d.mine != nil && now.Sub(d.since) <= d.mine.lasts }

// isLeader asks, and contends for the lock if it is free. A no is good for a
// heartbeat's period.
func (d *decider) isLeader(ctx context.Context, w *Worker) bool {
	if !d.take(ctx) {
		return false
	}
	defer d.leave()
	now := time.Now()
	switch {
	case d.shutting, !d.answer && now.Sub(d.asked) < w.LockHeartbeat && !d.asked.IsZero():
		return false
	case d.holds(now):
		return true
	}
	got, err := d.contend(ctx, w)
	if err != nil {
		w.Tell("%s does not learn who leads: %v", w.Name, err)
		return false
	}
	if got && !d.answer {
		w.Tell("%s leads", w.Name)
	}
	d.answer, d.asked = got, time.Now()
	return got
}

func (d *decider) contend(ctx context.Context, w *Worker) (bool, error) {
	d.mine = nil
	out, err := w.db.GetItem(ctx, w.wire.getState(leaderKey))
	if err != nil {
		return false, err
	}
	read := time.Now()
	var was *lock
	if out.Item != nil {
		l, err := decodeLock(out.Item)
		if err != nil {
			w.complain("leader check", leaderKey, err)
			return false, err
		}
		if !l.released {
			if l.version != d.seen.version {
				d.seen, d.seenAt = l, read
			}
			if read.Sub(d.seenAt) <= l.lasts {
				return false, nil
			}
		}
		was = &l
	}
	next := lock{owner: w.Name, version: w.token(), lasts: w.LockDuration}
	won, err := w.put(ctx, w.wire.acquire(next.owner, next.version, next.lasts, was))
	if won {
		d.mine, d.since, d.seen = &next, read, lock{}
	}
	return won, err
}

// beat keeps the lock.
func (d *decider) beat(ctx context.Context, w *Worker) {
	if !d.take(ctx) {
		return
	}
	defer d.leave()
	before := time.Now()
	if !d.holds(before) {
		d.mine = nil
		return
	}
	version := w.token()
	in := w.wire.beat(*d.mine, version)
	switch _, done, err := w.update(ctx, in); {
	case err != nil:
		w.Tell("%s cannot keep the lock: %v", w.Name, err) // it lapses by itself
	case done:
		d.mine.version, d.since = version, before
	default:
		w.Tell("%s has lost the lock", w.Name)
		d.mine = nil
	}
}

// free gives the lock up.
func (d *decider) free(ctx context.Context, w *Worker) {
	if d.mine == nil {
		return
	}
	in := w.wire.release(*d.mine)
	d.mine = nil
	if _, err := w.db.DeleteItem(ctx, in); err != nil {
		w.Tell("%s cannot free the lock: %v", w.Name, err)
	}
}

func (d *decider) resign(ctx context.Context, w *Worker) {
	if d.take(ctx) {
		defer d.leave()
		d.free(ctx, w)
	}
}

func (d *decider) shutdown(ctx context.Context, w *Worker) {
	if d.take(ctx) {
		defer d.leave()
		d.shutting = true
		d.free(ctx, w)
	}
}
