package leader

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-kcl/kcl/internal/testbed"
)

func anyLock(t *rapid.T) lock {
	return lock{
		owner:    rapid.StringN(0, 8, -1).Draw(t, "owner"),
		version:  rapid.StringN(1, 8, -1).Draw(t, "version"),
		duration: time.Duration(rapid.Int64Range(0, int64(maxDuration/time.Millisecond)).Draw(t, "milliseconds")) * time.Millisecond,
	}
}

// What is written is read as it was, and written again as it was.
func TestEveryLockSurvives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLock(t)
		item := l.encode("leaseKey")
		back, err := decodeLock(item)
		require.NoError(t, err)
		require.Equal(t, l, back)
		require.Equal(t, item, back.encode("leaseKey"))
	})
}

// Whatever an item holds, it is read, without regard to what is not known, or
// malformed; and isReleased, of any type, marks it as released.
func TestDecodeOfAnyLock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		item := testbed.Spoil(t, anyLock(t).encode("leaseKey"))
		l, err := decodeLock(item)
		strange, strangeErr := decodeLock(testbed.Strange(t, item))
		require.Equal(t, err, strangeErr)
		require.Equal(t, l, strange)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformedLock)
			require.Equal(t, lock{}, l)
			return
		}
		require.NotEmpty(t, l.version)
		require.True(t, l.duration >= 0 && l.duration <= maxDuration)
		item[attrReleased] = testbed.Attribute(t)
		l.released = true
		marked, err := decodeLock(item)
		require.NoError(t, err)
		require.Equal(t, l, marked)
	})
}

// Ruling 1: whatever an owner's clocks did, as long as not both went wrong, nobody
// takes over while it is certain of its term, nor does it give up a term that
// nobody may take.
func TestNoCertainTermIsStolen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const d = 30 * time.Second
		step := rapid.SampledFrom([]time.Duration{0, 1, time.Second, d / 2, d - 1, d, d + 1, time.Hour})
		passed := step.Draw(t, "passed")
		suspended, set := time.Duration(0), time.Duration(0)
		if rapid.Bool().Draw(t, "suspends") {
			suspended = min(passed, step.Draw(t, "suspended for"))
			set = step.Draw(t, "wall clock set forward by")
		} else {
			set = step.Draw(t, "wall clock set by") - step.Draw(t, "wall clock set back by")
		}
		began := reading{t0, t0}
		now := reading{t0.Add(passed - suspended), t0.Add(passed + set)}
		mono, wall := now.since(began)
		stands := judge(mono, wall, d)

		item := lock{owner: "w", version: "v", duration: d}
		seen := sighting{}.next(item, true, t0) // in the very moment of the write
		stolen := next(item, true, seen, false, t0.Add(passed), false) == steal
		require.False(t, stands == certain && stolen, "two act")
		require.False(t, stands == over && !stolen, "given up too early")
		require.True(t, suspended > 0 || set != 0 || stands != doubtful, "doubt for no reason")
	})
}
