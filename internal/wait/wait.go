// Package wait pauses for as long as there is a point in it.
package wait

import (
	"context"
	"time"
)

// For waits until d has passed or ctx has ended, and reports whether ctx still
// goes on. It does not wait if d is not positive.
func For(ctx context.Context, d time.Duration) bool {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}
