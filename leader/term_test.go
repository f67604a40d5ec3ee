package leader

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTermContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, end := context.WithCancel(context.Background())
		term := Term{Number: 1, ended: ended}

		done, cancelDone := term.Context(t.Context())
		cancelDone()
		assert.Equal(t, context.Canceled, context.Cause(done))

		ctx, cancel := term.Context(t.Context())
		defer cancel()
		require.NoError(t, ctx.Err())
		assert.False(t, term.Over())

		end()
		synctest.Wait()
		assert.Equal(t, ErrTermOver, context.Cause(ctx))
		assert.True(t, term.Over())

		late, cancelLate := term.Context(t.Context())
		defer cancelLate()
		synctest.Wait()
		assert.Equal(t, ErrTermOver, context.Cause(late), "made after the end")
	})
}

func TestZeroTerm(t *testing.T) {
	ctx, cancel := Term{}.Context(t.Context())
	defer cancel()
	assert.Equal(t, ErrTermOver, context.Cause(ctx))
	assert.True(t, Term{}.Over())
}

func TestSuspect(t *testing.T) {
	s := Sighting{Leader: "java", Duration: time.Minute, Since: t0, Last: t0}
	assert.False(t, s.Suspect())
	s.Last = t0.Add(30*time.Second - 1)
	assert.False(t, s.Suspect())
	s.Last = t0.Add(30 * time.Second)
	assert.True(t, s.Suspect())
	assert.False(t, Sighting{}.Suspect())
}
