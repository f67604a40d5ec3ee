package kcl_test

import (
	"cmp"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-kcl/kcl"
)

func anyPosition(t *rapid.T) kcl.Position {
	digits := rapid.StringMatching(`0{0,2}[0-9]{1,3}`)
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		digits = rapid.StringMatching(`0{0,2}[0-9]{50,129}`)
	case 1:
		return at(rapid.SampledFrom([]string{"AT_TIMESTAMP", "TRIM_HORIZON", "LATEST", "SHARD_END"}).Draw(t, "sentinel"), rapid.Int64().Draw(t, "sub"))
	case 2:
		return at(rapid.SampledFrom([]string{"", "x", "-1", "1.5", "latest", " 7", "7 ", "１"}).Draw(t, "nonsense"), rapid.Int64().Draw(t, "sub"))
	}
	return at(digits.Draw(t, "number"), rapid.Int64Range(0, 3).Draw(t, "sub"))
}

// place is what a position's order is made of: nonsense, sentinels before the
// numbers, numbers, SHARD_END.
func place(p kcl.Position) (class int, number *big.Int, sub int64) {
	class = slices.Index([]string{"AT_TIMESTAMP", "TRIM_HORIZON", "LATEST", "(a number)", "SHARD_END"}, p.SequenceNumber)
	if class >= 0 {
		return class, nil, 0
	}
	if p.SequenceNumber == "" || strings.Trim(p.SequenceNumber, "0123456789") != "" {
		return -1, nil, 0
	}
	number, _ = new(big.Int).SetString(p.SequenceNumber, 10)
	return 3, number, p.SubSequenceNumber
}

// consumption#49: the order is that of big integers, with the sentinels around
// them; so it is total, and sorting by it comes to one result.
func TestPositionsAreOrderedAsNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q := anyPosition(t), anyPosition(t)
		if rapid.IntRange(0, 3).Draw(t, "same number") == 0 {
			q.SequenceNumber = "0" + p.SequenceNumber
		}
		pClass, pNumber, pSub := place(p)
		qClass, qNumber, qSub := place(q)
		want := cmp.Compare(pClass, qClass)
		if want == 0 && pClass == 3 {
			want = cmp.Or(pNumber.Cmp(qNumber), cmp.Compare(pSub, qSub))
		}
		require.Equal(t, want, p.Compare(q), "%s and %s", p, q)
		require.Equal(t, -want, q.Compare(p), "%s and %s", q, p)
		require.Equal(t, pClass >= 0 && pSub >= 0, p.Validate() == nil)
		require.Equal(t, pClass >= 0 && pClass != 3, p.IsSentinel())
	})
}
