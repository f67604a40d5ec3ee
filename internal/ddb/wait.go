package ddb

import (
	"context"
	"time"
)

// poll calls check until it answers true or an error, and reports whether it
// did so before timeout. It checks first, and once more at the end. every says
// how long to pause, given how long it has waited. ctx ends the wait with its
// cause.
func poll(ctx context.Context, timeout time.Duration, every func(waited time.Duration) time.Duration, check func(context.Context) (bool, error)) (bool, error) {
	start := time.Now()
	for {
		done, err := check(ctx)
		if done || err != nil {
			return done, err
		}
		waited := time.Since(start)
		if waited >= timeout {
			return false, nil
		}
		timer := time.NewTimer(min(every(waited), timeout-waited))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false, context.Cause(ctx)
		}
	}
}

// steadily pauses for d each time.
func steadily(d time.Duration) func(time.Duration) time.Duration {
	return func(time.Duration) time.Duration { return d }
}
