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
