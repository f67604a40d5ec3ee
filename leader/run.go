package leader

import (
	"context"
	"errors"
	"time"
)

const (
	// callParts is the part of a Heartbeat that a call may take: a hanging one
	// leaves time for another before the next heartbeat is due.
	callParts = 2
	// retryParts is the part of a Heartbeat after which a failed call is
	// repeated; a failed look that goes on failing waits longer, up to one
	// Heartbeat.
	retryParts = 10
)

// errRanTwice is a mistake of the caller.
var errRanTwice = errors.New("leader: Run was called twice")

// run is what belongs to Run's goroutine alone.
type run struct {
	*Decider
	table     table
	own       own
	sighting  sighting
	standBack time.Time // until then the lock is left to others

	number uint64 // of the last term

	failures  int    // looks or heartbeats that failed in a row
	malformed bool   // the item was so at the last look
	silent    string // the version whose owner's silence was warned of
}

// Run contends for the lock, keeps it alive while this worker has it, and
// returns when ctx ends, having freed it: within two Heartbeats even if no call
// is answered. The first attempt is made at once. An error says that the lock
// could not be freed; it then lapses by itself. Run may be called once.
func (d *Decider) Run(ctx context.Context) error {
	d.mu.Lock()
	again := d.running
	d.running = true
	d.mu.Unlock()
	if again {
		return errRanTwice
	}
	defer close(d.done)
	r := &run{Decider: d, table: d.place(d.cfg.Table, d.cfg.KeyAttribute)}
	for ctx.Err() == nil {
		if r.contend(ctx) {
			r.lead(ctx)
		}
	}
	r.end(r.number, "stopping", nil)
	r.move(ctx) // to where there may be a claim to free
	err := r.free(ctx)
	if res := r.takeResignation(); res != nil {
		res.err = err
		close(res.done)
	}
	return err
}

// contend looks at the lock until this worker has it, or ctx ends.
func (r *run) contend(ctx context.Context) (won bool) {
	look := time.Now()
	for {
		r.stepDown(ctx)
		if r.move(ctx) {
			look = time.Now()
		}
		if !time.Now().Before(look) {
			if won, look = r.look(ctx); won {
				return true
			}
		}
		if !r.sleep(ctx, look) {
			return false
		}
	}
}

// look reads the lock once and does what follows from it. again is when to look
// next.
func (r *run) look(ctx context.Context) (won bool, again time.Time) {
	readCtx, cancel := context.WithTimeout(ctx, r.cfg.Heartbeat/callParts)
	item, found, err := r.table.read(readCtx)
	cancel()
	now := time.Now()
	if ctx.Err() != nil {
		return false, now
	}
	if err == nil {
		a := next(item, found, r.sighting, r.own.has(item, r.cfg.Worker), now, now.Before(r.standBack))
		if a != adopt {
			r.sight(item, found, now)
		}
		won, again, err = r.act(ctx, a, item)
	}
	r.report(won, err)
	if err != nil {
		again = time.Now().Add(r.backoff())
	}
	if !won {
		r.warnOfSilence(now)
	}
	return won, again
}

func (r *run) act(ctx context.Context, a action, item lock) (won bool, again time.Time, err error) {
	switch a {
	case adopt:
		won, err = r.adopt(ctx, item.version)
		return won, time.Now().Add(r.retry()), err
	case acquire, reclaim, steal:
		return r.take(ctx, a)
	default:
		return false, nextLook(r.sighting, time.Now(), r.cfg.Heartbeat, r.standBack), nil
	}
}

// lead renews the lock until the term is over or ctx ends.
func (r *run) lead(ctx context.Context) {
	beat := r.renewed().mono.Add(r.cfg.Heartbeat)
	for {
		if r.stepDown(ctx) || r.move(ctx) {
			return
		}
		from := r.renewed()
		until := from.mono.Add(r.cfg.Duration)
		switch s := r.stands(from); {
		case s == over:
			r.end(r.number, "not renewed in time", nil)
			return
		case s == doubtful:
			if !r.end(r.number, "clock set or machine suspended", nil) {
				continue // resigned in this moment
			}
			won, err := r.adopt(ctx, r.own.known)
			r.report(won, err)
			if !won {
				return
			}
			beat = r.renewed().mono.Add(r.cfg.Heartbeat)
		case !time.Now().Before(beat):
			var lost bool
			if beat, lost = r.beat(ctx, until); lost {
				r.end(r.number, "another worker took the lock", nil)
				return
			}
		default:
			r.stood()
			if until = until.Add(1); until.Before(beat) {
				beat = until
			}
			if !r.sleep(ctx, beat) {
				return
			}
		}
	}
}

// beat renews the lock of a term that ends at until, and says when to do it
// again.
func (r *run) beat(ctx context.Context, until time.Time) (again time.Time, lost bool) {
	deadline := time.Now().Add(r.cfg.Heartbeat / callParts)
	if until.Before(deadline) {
		deadline = until
	}
	from, renewed, err := r.renew(ctx, deadline)
	switch {
	case err != nil:
		r.report(true, err)
		return time.Now().Add(r.retry()), false
	case !renewed:
		return time.Time{}, true
	}
	r.extend(from)
	r.report(true, nil)
	return from.mono.Add(r.cfg.Heartbeat), false
}

// stepDown frees the lock if somebody resigned the last term.
func (r *run) stepDown(ctx context.Context) bool {
	res := r.takeResignation()
	if res == nil {
		return false
	}
	if res.err = r.free(ctx); res.err != nil {
		r.log.Warn("cannot free the lock; it lapses by itself", "err", res.err)
	}
	r.standBack = time.Now().Add(r.cfg.Duration)
	close(res.done)
	return true
}

// move goes over to the lock of another table if it is to. What is left of the
// present one nobody looks at any more.
func (r *run) move(ctx context.Context) bool {
	to := r.takeMove()
	if to == nil {
		return false
	}
	if err := r.free(ctx); err != nil {
		r.log.Warn("cannot free the former lock; it lapses by itself", "table", r.table.name, "err", err)
	}
	r.table, r.own = to.table, own{known: to.claim}
	r.sight(lock{}, false, time.Now())
	r.standBack, r.silent, r.malformed = time.Time{}, "", false
	return true
}

// sleep waits until then, or until it is woken. It is false when ctx has ended.
func (r *run) sleep(ctx context.Context, until time.Time) bool {
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.kick:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// retry is the pause after a call that failed.
func (r *run) retry() time.Duration { return r.cfg.Heartbeat / retryParts }

// backoff is the pause after a look that failed: doubled by each further
// failure, up to a heartbeat.
func (r *run) backoff() time.Duration {
	d := r.retry()
	for range r.failures - 1 {
		if d *= 2; d >= r.cfg.Heartbeat {
			return r.cfg.Heartbeat
		}
	}
	return d
}
