package shardsync

import (
	"slices"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/lease"
)

// holes returns the parts of the hash key space, in order, that no lease covers
// which is not at SHARD_END. Overlap is normal: parents drain beside their
// children. Leases whose range is not known do not count.
func holes(leases []lease.Lease) []kcl.HashRange {
	var ranges []kcl.HashRange
	for _, l := range leases {
		if !l.Ended() && !l.HashRange.IsZero() {
			ranges = append(ranges, l.HashRange)
		}
	}
	slices.SortFunc(ranges, func(a, b kcl.HashRange) int { return a.Start.Compare(b.Start) })
	var (
		out  []kcl.HashRange
		next kcl.HashKey // the first key not yet covered
	)
	for _, r := range ranges {
		if r.Start.Compare(next) > 0 {
			out = append(out, kcl.HashRange{Start: next, End: prev(r.Start)})
		}
		if r.End == kcl.MaxHashKey {
			return out
		}
		if r.End.Compare(next) >= 0 {
			next = r.End.Next()
		}
	}
	return append(out, kcl.HashRange{Start: next, End: kcl.MaxHashKey})
}

// prev returns k - 1 for k above 0.
func prev(k kcl.HashKey) kcl.HashKey {
	if k.Lo == 0 {
		k.Hi--
	}
	k.Lo--
	return k
}

// tracker counts how often in a row the same holes were seen. During a reshard
// and a cleanup there are holes for a short while, which need nothing.
type tracker struct {
	holes []kcl.HashRange
	times int
}

// observe takes the holes of the latest look and reports whether they have been
// seen often enough.
func (t *tracker) observe(now []kcl.HashRange, confidence int) bool {
	switch {
	case len(now) == 0:
		*t = tracker{}
		return false
	case slices.Equal(now, t.holes):
		t.times++
	default:
		*t = tracker{holes: now, times: 1}
	}
	return t.times >= confidence
}

// untouched reports whether nobody has read from any of the leases. With holes,
// that is a first sync that its leader did not live to finish.
func untouched(leases []lease.Lease, p kcl.InitialPosition) bool {
	return !slices.ContainsFunc(leases, func(l lease.Lease) bool { return l.Checkpoint != p.Sentinel() })
}
