package leader

import (
	"context"
	"errors"
	"time"
)

// ErrTermOver is the cause of a [Term.Context] that ended with its term.
var ErrTermOver = errors.New("term as leader is over")

// Term is one uninterrupted stretch of this worker's leadership, as it stood
// when it was asked for.
type Term struct {
	// Number counts this Decider's terms, from 1. Work of one term must not be
	// carried on in the next: what it has read may be out of date.
	Number uint64
	// Table is where the lock is that the term goes by.
	Table string
	// Began is when the term was won.
	Began time.Time
	// Until is how long the lock is certain to be held, unless it is renewed:
	// one Duration from before the call that won or last renewed it.
	Until time.Time
	// Duration is the lock's, as configured.
	Duration time.Duration

	ended context.Context // done when the term is over
}

// Context returns a copy of ctx that is cancelled, with the cause
// [ErrTermOver], when the term ends. It lives on when the lock is renewed. Calls
// made under it end by the end of the term; what of them still reaches the
// table later is fenced by its condition only. cancel must be called.
func (t Term) Context(ctx context.Context) (_ context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	if t.Over() {
		end(ErrTermOver)
		return ctx, func() {}
	}
	stop := context.AfterFunc(t.ended, func() { end(ErrTermOver) })
	return ctx, func() {
		stop()
		end(context.Canceled)
	}
}

// Over reports whether the term has ended.
func (t Term) Over() bool { return t.ended == nil || t.ended.Err() != nil }

// Sighting is what a contender last saw of another worker's lock.
type Sighting struct {
	// Leader is the worker that holds the lock.
	Leader string
	// Duration is how long the lock is valid after each renewal.
	Duration time.Duration
	// Since is when this worker first saw the lock's present version, Last when
	// it last saw it. In between the leader did not renew it.
	Since, Last time.Time
}

// Suspect reports whether the leader has been silent for at least half of its
// lock's duration, in which a live one renews it at least once. Its leases may
// then be watched, so that those that do not move are known to be expired when
// the lock changes hands.
func (s Sighting) Suspect() bool {
	return s.Leader != "" && s.Last.Sub(s.Since) >= s.Duration/2
}
