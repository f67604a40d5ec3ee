package shardsync

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/lease"
)

// ranged makes leases from "from-to" ranges; an e behind one means SHARD_END, and
// "?" a range that is not known.
func ranged(t *testing.T, list string) []lease.Lease {
	t.Helper()
	var out []lease.Lease
	for i, f := range strings.Fields(list) {
		f, ended := strings.CutSuffix(f, "e")
		l := lease.Lease{Key: shardName(i), ShardID: shardName(i), Checkpoint: kcl.AtTrimHorizon}
		if ended {
			l.Checkpoint = kcl.ShardEnd
		}
		if f != "?" {
			from, to, ok := strings.Cut(f, "-")
			require.True(t, ok, f)
			l.HashRange = hashRange(t, from, to)
		}
		out = append(out, l)
	}
	return out
}

// shard-sync#38: what counts as a hole.
func TestHoles(t *testing.T) {
	cases := []struct{ rule, leases, want string }{
		{"no lease at all", "", "0-M"},
		{"a partition", "0-1 2-3 4-23 24-M", ""},
		{"any order, with overlap", "24-M 6-23 0-1 4-23 2-3", ""},
		{"overlap beyond the next", "0-1 2-3 4-23 6-23 24-M 24-45", ""},
		{"a draining parent beside a child that sorts behind it", "0-M 5-10", ""},
		{"the same in a part of the space", "0-50 5-10 51-M", ""},
		{"a hole up to 2^64", "18446744073709551616-M", "0-18446744073709551615"},
		{"a lease without a range does not cover the first key", "? 1-M", "0-0"},
		{"one key is missing", "0-1 2-3 4-23 6-23 25-M", "24-24"},
		{"the start is missing", "2-M", "0-1"},
		{"the end is missing", "0-1 2-9", "10-M"},
		{"several holes", "1-1 3-3", "0-0 2-2 4-M"},
		{"SHARD_END covers nothing", "0-1 2-3 4-23e 6-23 24-M", "4-5"},
		{"all at SHARD_END", "0-5e 6-Me", "0-M"},
		{"a lease without a range covers nothing", "0-5 ?", "6-M"},
		{"a range of one key", "0-4 5-5 6-M", ""},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			var got []string
			for _, h := range holes(ranged(t, c.leases)) {
				got = append(got, strings.Replace(h.String(), kcl.MaxHashKey.String(), "M", 1))
			}
			assert.Equal(t, c.want, strings.Join(got, " "))
		})
	}
}

// shard-sync#38: while a stream drains, each reader leasing the children of the
// shard it ends, there is never a hole.
func TestDrainingTreesHaveNoHoles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := randomTree(t, 0)
		tr := index(all)
		leased := make(map[string]bool)
		var leases []lease.Lease
		for _, s := range all { // parents come first
			if len(s.Parents) > 0 && !leased[s.ID] {
				continue
			}
			at := kcl.AtTrimHorizon
			if !s.Open() && rapid.Bool().Draw(t, "ended "+s.ID) {
				at = kcl.ShardEnd
				for _, c := range tr.children[s.ID] {
					leased[c] = true
				}
			}
			leases = append(leases, s.Lease(kcl.StreamIdentifier{Name: "s"}, at))
		}
		require.Empty(t, holes(leases))
	})
}

// shard-sync#37: the count begins anew when the holes change, ends when there
// are none, and goes on asking while they stay.
func TestTracker(t *testing.T) {
	a := []kcl.HashRange{hashRange(t, "24", "24")}
	b := []kcl.HashRange{hashRange(t, "24", "25")}
	steps := []struct {
		holes []kcl.HashRange
		sync  bool
	}{
		{a, false}, {a, false}, {a, true}, {a, true},
		{b, false}, {b, false}, {nil, false}, {b, false}, {b, false}, {b, true},
		{append(a, b...), false},
	}
	var tr tracker
	for i, s := range steps {
		assert.Equal(t, s.sync, tr.observe(s.holes, 3), "step %d", i)
	}
	var once tracker
	assert.True(t, once.observe(a, 1), "a threshold of 1 needs no second look")
}
