package wait_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-kcl/kcl/internal/wait"
)

func TestFor(t *testing.T) {
	const never = time.Hour
	for name, c := range map[string]struct {
		d, ends time.Duration // of the wait; of its context
		took    time.Duration
		goesOn  bool
	}{
		"to the end":               {time.Second, never, time.Second, true},
		"context ends before":      {time.Minute, time.Second, time.Second, false},
		"not at all":               {0, never, 0, true},
		"not at all, nor backward": {-time.Second, never, 0, true},
		"ended from the beginning": {time.Second, 0, 0, false},
		"ended, and nothing to do": {0, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.ends)
				defer cancel()
				start := time.Now()
				assert.Equal(t, c.goesOn, wait.For(ctx, c.d))
				assert.Equal(t, c.took, time.Since(start))
			})
		})
	}
}
