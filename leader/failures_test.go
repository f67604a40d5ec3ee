package leader

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// The ruling in place of leader-and-client-version-migration#27: three failing
// runs in a row that span the lock's duration, or one panic.
func TestFailures(t *testing.T) {
	bad := errors.New("scan failed")
	panicked := fmt.Errorf("assignment: %w: index out of range", ErrPanic)
	type run struct {
		term   uint64
		began  int // seconds
		err    error
		giveUp bool
	}
	for _, tc := range []struct {
		name string
		runs []run // each takes a second
	}{
		{"three that span the duration", []run{{1, 0, bad, false}, {1, 15, bad, false}, {1, 29, bad, true}}},
		{"and every further one", []run{{1, 0, bad, false}, {1, 15, bad, false}, {1, 29, bad, true}, {1, 40, bad, true}}},
		{"three in too short a time", []run{{1, 0, bad, false}, {1, 2, bad, false}, {1, 28, bad, false}, {1, 29, bad, true}}},
		{"two, however far apart", []run{{1, 0, bad, false}, {1, 1000, bad, false}}},
		{"success between", []run{{1, 0, bad, false}, {1, 15, bad, false}, {1, 29, nil, false}, {1, 31, bad, false}, {1, 45, bad, false}, {1, 60, bad, true}}},
		{"another term between", []run{{1, 0, bad, false}, {1, 15, bad, false}, {2, 29, bad, false}, {2, 45, bad, false}, {2, 58, bad, true}}},
		{"a panic", []run{{1, 0, panicked, true}}},
		{"a panic counts", []run{{1, 0, panicked, true}, {1, 1, bad, false}, {1, 29, bad, true}}},
		{"cancelled", []run{{1, 0, bad, false}, {1, 15, bad, false}, {1, 29, context.Canceled, false}, {1, 30, bad, true}}},
		{"cancelled by the end of the term", []run{{1, 0, ErrTermOver, false}, {1, 20, ErrTermOver, false}, {1, 40, ErrTermOver, false}}},
		{"a deadline is a failure", []run{{1, 0, context.DeadlineExceeded, false}, {1, 15, context.DeadlineExceeded, false}, {1, 29, context.DeadlineExceeded, true}}},
		{"a panic while cancelled", []run{{1, 0, errors.Join(context.Canceled, panicked), true}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var f Failures
			for i, r := range tc.runs {
				began := t0.Add(time.Duration(r.began) * time.Second)
				got := f.Count(Term{Number: r.term, Duration: 30 * time.Second}, began, began.Add(time.Second), r.err)
				assert.Equal(t, r.giveUp, got, "run %d", i+1)
			}
		})
	}
}

func TestFailuresFailed(t *testing.T) {
	var f Failures
	term := Term{Number: 1, Duration: time.Minute}
	f.Count(term, t0, t0, errors.New("no"))
	f.Count(term, t0, t0, errors.New("no"))
	assert.Equal(t, 2, f.Failed())
	f.Count(term, t0, t0, nil)
	assert.Zero(t, f.Failed())
}
