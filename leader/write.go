package leader

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/go-kcl/kcl/metrics"
)

// errUnsettled ends a renewal that found its own writes twice.
var errUnsettled = errors.New("the lock's version changed under two renewals of its owner")

// The writes are not cut short when Run is to end: one whose outcome is known
// can be undone. Their own bound is short.

// take puts the item, and begins a term if the condition held. again is when to
// look next if not.
func (r *run) take(ctx context.Context, a action) (won bool, again time.Time, err error) {
	writeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.Heartbeat/callParts)
	defer cancel()
	l := lock{owner: r.cfg.Worker, version: uuid.NewString(), duration: r.cfg.Duration}
	r.own.unsure = l.version
	from := read()
	ans, err := r.table.take(writeCtx, a, l, r.sighting.version)
	now := time.Now()
	switch {
	case err != nil:
		return false, time.Time{}, err
	case ans.done:
		r.own = own{known: l.version}
		return r.beginTerm(from), now, nil
	case ans.found && r.own.has(ans.old, r.cfg.Worker):
		won, err = r.adopt(ctx, ans.old.version)
		return won, now.Add(r.retry()), err
	case !ans.found: // freed in this moment
		return false, now.Add(r.retry()), nil
	default:
		r.sight(ans.old, true, now)
		return false, nextLook(r.sighting, now, r.cfg.Heartbeat, r.standBack), nil
	}
}

// adopt renews an item that an earlier write of this process left, and begins a
// term if nobody was faster.
func (r *run) adopt(ctx context.Context, version string) (won bool, err error) {
	if version == r.own.unsure {
		r.own.unsure = ""
	}
	r.own.known = version
	from, won, err := r.renew(ctx, time.Now().Add(r.cfg.Heartbeat/callParts))
	return won && r.beginTerm(from), err
}

// renew writes a new version over the last one. It is false without an error
// if the item is no longer this worker's. from is when the call began.
func (r *run) renew(ctx context.Context, deadline time.Time) (from reading, renewed bool, err error) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	// The second pass is for an item that carries the version of a write whose
	// answer was lost, be it an earlier call's or this one's, repeated by the SDK.
	for range 2 {
		// Such a version is written anew rather than joined by another: it can
		// only land once, for its condition is the version it replaces.
		l := lock{owner: r.cfg.Worker, version: r.own.unsure, duration: r.cfg.Duration}
		if l.version == "" {
			l.version = uuid.NewString()
		}
		r.own.unsure = l.version
		from = read()
		ans, err := r.table.renew(ctx, l, r.own.known)
		if err != nil {
			return from, false, err
		}
		again := false
		if r.own, again = r.own.renewed(ans, r.cfg.Worker); !again {
			return from, ans.done, nil
		}
	}
	return from, false, errUnsettled
}

// free deletes the item if it is this worker's; that it is not is no error.
func (r *run) free(ctx context.Context) error {
	for _, version := range []string{r.own.known, r.own.unsure} {
		if version == "" {
			continue
		}
		writeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.Heartbeat/callParts)
		freed, err := r.table.free(writeCtx, r.cfg.Worker, version)
		cancel()
		if err != nil {
			return err
		}
		if freed {
			break
		}
	}
	r.own = own{}
	return nil
}

func (r *run) beginTerm(from reading) (began bool) {
	r.number, began = r.begin(from, r.table.name)
	r.sighting = sighting{}
	return began
}

// sight remembers what a read, or a refused write, showed at now, and tells who
// waits for it.
func (r *run) sight(item lock, found bool, now time.Time) {
	r.sighting = r.sighting.next(item, found, now)
	s := Sighting{}
	if r.sighting.version != "" {
		s = Sighting{Leader: item.owner, Duration: item.duration, Since: r.sighting.at, Last: now}
	}
	if r.publish(s) {
		r.log.Info("leader seen", "leader", s.Leader)
	}
}

// report tells of a look or heartbeat that has ended.
func (r *run) report(leading bool, err error) {
	r.looks(err)
	r.countLeading(leading)
	malformed := errors.Is(err, ErrMalformedLock)
	switch {
	case malformed:
		r.metrics.Count(metricMalformed, 1, metrics.Summary)
		if !r.malformed {
			r.log.Error("nobody can lead: delete the item "+lockKey+" from the table", "table", r.table.name, "err", err)
		}
	case err != nil && r.failures == 0:
		r.log.Warn("cannot reach the leader's lock", "err", err)
	case err != nil:
		r.log.Debug("cannot reach the leader's lock", "err", err)
	}
	r.malformed = malformed
	if r.failures++; err == nil {
		r.failures = 0
	}
}

// warnOfSilence tells once of a lock that should have changed hands long ago.
func (r *run) warnOfSilence(now time.Time) {
	s := r.sighting
	if s.version == "" || s.version == r.silent || now.Sub(s.at)/2 <= s.duration {
		return
	}
	r.silent = s.version
	r.log.Warn("lock outlived twice its duration without being taken over",
		"leader", s.owner, "duration", s.duration, "silent", now.Sub(s.at))
}
