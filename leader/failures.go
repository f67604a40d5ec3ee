package leader

import (
	"context"
	"errors"
	"time"
)

// ErrPanic marks a run that panicked, for [Failures.Count].
var ErrPanic = errors.New("panic")

// maxFailures is how many runs in a row may fail before leadership is given up.
const maxFailures = 3

// Failures counts a leader's failing runs in a row, to tell when another worker
// should have a try: a worker that cannot do a leader's work must not go on
// holding the lock. The zero Failures is ready for use; it is not safe for
// concurrent use.
type Failures struct {
	term  uint64
	n     int
	since time.Time // when the first of them began
}

// Count takes in a run that ended at now with err, and reports whether
// leadership is to be given up (by [Decider.Resign]). It is after three failing
// runs in a row that span at least the lock's duration, and after one whose err
// wraps [ErrPanic]. A run that was cancelled does not count; success, or another
// term, starts the count anew.
func (f *Failures) Count(t Term, began, now time.Time, err error) (giveUp bool) {
	if err == nil || t.Number != f.term {
		*f = Failures{term: t.Number}
	}
	panicked := errors.Is(err, ErrPanic)
	cancelled := errors.Is(err, context.Canceled) || errors.Is(err, ErrTermOver)
	if err == nil || cancelled && !panicked {
		return false
	}
	if f.n == 0 {
		f.since = began
	}
	f.n++
	return panicked || f.n >= maxFailures && now.Sub(f.since) >= t.Duration
}

// Failed is how many runs in a row have failed.
func (f *Failures) Failed() int { return f.n }
