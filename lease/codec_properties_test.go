package lease

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/testbed"
)

func anyPosition(t *rapid.T, what string) kcl.Position {
	if rapid.IntRange(0, 2).Draw(t, what+" is a number") > 0 {
		return kcl.Position{
			SequenceNumber:    rapid.StringMatching(`0|[1-9][0-9]{0,127}`).Draw(t, what),
			SubSequenceNumber: rapid.Int64Min(0).Draw(t, what+", sub"),
		}
	}
	return rapid.SampledFrom([]kcl.Position{{}, kcl.AtTrimHorizon, kcl.AtLatest, kcl.AtTimestampSentinel, kcl.ShardEnd}).Draw(t, what)
}

// anyLease draws a lease as an item can hold it.
func anyLease(t *rapid.T) Lease {
	text := rapid.StringN(1, 8, -1)
	maybe := rapid.OneOf(rapid.Just(""), text)
	set := rapid.Custom(func(t *rapid.T) []string {
		s := rapid.SliceOfN(text, 0, 3).Draw(t, "set")
		if len(s) == 0 {
			return nil
		}
		slices.Sort(s)
		return slices.Compact(s)
	})
	l := Lease{
		Key:   text.Draw(t, "key"),
		Owner: maybe.Draw(t, "owner"), CheckpointOwner: maybe.Draw(t, "checkpoint owner"),
		Counter: rapid.Int64().Draw(t, "counter"), OwnerSwitches: rapid.Int64().Draw(t, "owner switches"),
		Checkpoint: anyPosition(t, "checkpoint"), Pending: anyPosition(t, "pending"),
		Parents: set.Draw(t, "parents"), Children: set.Draw(t, "children"),
	}
	if rapid.Bool().Draw(t, "state") {
		l.PendingState = rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "pending state")
	}
	l.ShardID = l.Key
	if rapid.Bool().Draw(t, "of many streams") {
		l.Stream, l.ShardID = "123456789012:s:1", text.Draw(t, "shard")
	}
	key := rapid.Custom(func(t *rapid.T) kcl.HashKey {
		return kcl.HashKey{Hi: rapid.Uint64().Draw(t, "hi"), Lo: rapid.Uint64().Draw(t, "lo")}
	})
	if a, b := key.Draw(t, "start"), key.Draw(t, "end"); a.Compare(b) < 0 {
		l.HashRange = kcl.HashRange{Start: a, End: b}
	}
	if l.HasThroughput = rapid.Bool().Draw(t, "throughput known"); l.HasThroughput {
		l.ThroughputKBps = float64(rapid.Int64Range(0, 1<<40).Draw(t, "throughput")) / 1e6
	}
	return l
}

// What is written is read as it was, and written again as it was.
func TestEveryLeaseSurvives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLease(t)
		it := encode(l)
		back, err := decode(it, l.Stream != "")
		require.NoError(t, err)
		require.Equal(t, l, back)
		require.Equal(t, it, encode(back))
		for _, v := range it {
			if s, ok := v.(*stringSet); ok {
				slices.Reverse(s.Value) // a set has no order
			}
		}
		back, err = decode(it, l.Stream != "")
		require.NoError(t, err)
		require.Equal(t, l, back)
	})
}

// Whatever an item holds, decode returns: what is well, without regard to what it
// does not know, or an error that names the key.
func TestDecodeOfAnyItem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLease(t)
		it := testbed.Spoil(t, encode(l))
		multi := rapid.Bool().Draw(t, "multi-stream")
		got, err := decode(it, multi)
		strange, strangeErr := decode(testbed.Strange(t, it), multi)
		require.Equal(t, err, strangeErr)
		require.Equal(t, got, strange)
		if err != nil {
			require.Equal(t, Lease{}, got)
			require.ErrorContains(t, err, strconv.Quote(keyOf(it)))
			return
		}
		require.NotEmpty(t, got.Key)
		require.True(t, got.Checkpoint.IsZero() || got.Checkpoint.Validate() == nil)
		require.True(t, got.Pending.IsZero() || got.Pending.Validate() == nil)
		require.LessOrEqual(t, got.HashRange.Start.Compare(got.HashRange.End), 0)
	})
}
