package shardsync

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/lease"
)

// readers read listed shards as consumers do: each once no parent's lease is left
// that is not at SHARD_END, to its end, and then they create the leases of the
// children.
type readers struct {
	tree
	leases map[string]kcl.Position // by shard id
	began  map[string]kcl.Position // where the reading of a shard began
	ahead  map[string]bool         // there was a lease, at first, of the shard or of a descendant
}

func newReaders(listed []Shard, leases []lease.Lease) *readers {
	r := &readers{tree: index(listed), leases: map[string]kcl.Position{}, began: map[string]kcl.Position{}, ahead: map[string]bool{}}
	for _, l := range leases {
		if _, ok := r.shards[l.ShardID]; ok { // others' consumers find nothing to read
			r.leases[l.ShardID] = l.Checkpoint
		}
	}
	for id := range r.shards {
		r.ahead[id] = r.leads(id)
	}
	return r
}

func (r *readers) leased(id string) bool {
	_, ok := r.leases[id]
	return ok
}

func (r *readers) ended(id string) bool { return r.leases[id] == kcl.ShardEnd }

// leads reports whether there is a lease of the shard or of a descendant.
func (r *readers) leads(id string) bool {
	return r.leased(id) || slices.ContainsFunc(r.children[id], r.leads)
}

// startable reports whether a shard waits for no parent.
func (r *readers) startable(id string) bool {
	return !slices.ContainsFunc(r.parents(id), func(p string) bool { return r.leased(p) && !r.ended(p) })
}

// endable reports whether what a shard was merged into does not lack the lease of
// its other parent. If that lease was deleted when the merged shard had one
// already, by hand, nobody mends it but that hand; the readers act as if it had.
func (r *readers) endable(id string) bool {
	if len(r.children[id]) != 1 || r.ahead[r.children[id][0]] {
		return true
	}
	parents := r.parents(r.children[id][0])
	return !slices.ContainsFunc(parents, func(p string) bool { return !r.leased(p) })
}

// step reads a shard as far as it goes, and reports whether it came to its end.
func (r *readers) step(id string) bool {
	if r.ended(id) || !r.startable(id) {
		return false
	}
	if _, reading := r.began[id]; !reading {
		r.began[id] = r.leases[id]
	}
	if r.shards[id].Open() || !r.endable(id) {
		return false
	}
	for _, c := range r.children[id] {
		if !r.leased(c) {
			r.leases[c] = kcl.AtTrimHorizon
		}
	}
	r.leases[id] = kcl.ShardEnd
	return true
}

// finish reads whatever can be read.
func (r *readers) finish() {
	for moved := true; moved; {
		moved = false
		for _, id := range slices.Sorted(maps.Keys(r.leases)) {
			moved = r.step(id) || moved
		}
	}
}

// lines returns, for each part of the hash key space that was never cut, the
// shards that it went through, in order.
func lines(all []Shard) (out [][]Shard) {
	starts := map[kcl.HashKey]bool{}
	for _, s := range all {
		starts[s.HashRange.Start] = true
	}
	for _, key := range slices.SortedFunc(maps.Keys(starts), kcl.HashKey.Compare) {
		out = append(out, slices.DeleteFunc(slices.Clone(all), func(s Shard) bool { return !s.HashRange.Contains(key) }))
	}
	return out
}

// expire returns the shards that are left once those that ended by an instant are
// not listed any more. So the parents of a merge go together.
func expire(t *rapid.T, all []Shard) []Shard {
	ends := []string{""}
	for _, s := range all {
		if !s.Open() {
			ends = append(ends, s.End)
		}
	}
	horizon := rapid.SampledFrom(ends).Draw(t, "horizon")
	return slices.DeleteFunc(slices.Clone(all), func(s Shard) bool {
		return !s.Open() && strings.Compare(s.End, horizon) <= 0
	})
}

// randomLeases draws leases at any position for some of the shards.
func randomLeases(t *rapid.T, all []Shard) (out []lease.Lease) {
	some := rapid.IntRange(0, 4).Draw(t, "leased, of 4")
	for _, s := range all {
		if rapid.IntRange(1, 4).Draw(t, "lease of "+s.ID) > some {
			continue
		}
		from := []kcl.Position{kcl.AtTrimHorizon, kcl.AtLatest, kcl.AtTimestampSentinel, {SequenceNumber: s.Start, SubSequenceNumber: 3}}
		if !s.Open() {
			from = append(from, kcl.ShardEnd, kcl.ShardEnd)
		}
		out = append(out, s.Lease(kcl.StreamIdentifier{Name: "s"}, rapid.SampledFrom(from).Draw(t, "position of "+s.ID)))
	}
	return out
}

// planCase is what a plan is made from.
type planCase struct {
	listed []Shard
	leases []lease.Lease // of listed and of expired shards
	Settings
}

func randomCase(t *rapid.T) planCase {
	all := randomTree(t, 0)
	return planCase{
		expire(t, all), randomLeases(t, all),
		settings(rapid.SampledFrom([]kcl.InitialPosition{kcl.Latest, kcl.TrimHorizon, kcl.AtTimestamp(time.Unix(1, 0))}).Draw(t, "position")),
	}
}

// shard-sync#10,11,12: wherever leases were lost, once the plan is carried out
// and everything is read, each shard below a lease was read from its beginning;
// where there was no lease, all was read that the initial position asks for;
// nothing was read twice, and nobody waits for ever. The auditor sees no hole.
func TestPlanIsReadOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := randomCase(t)
		plan, err := Plan(c.listed, c.leases, c.Settings)
		require.NoError(t, err)
		before := newReaders(c.listed, c.leases)
		r := newReaders(c.listed, c.leases)
		for _, l := range plan {
			require.False(t, r.leased(l.ShardID), "%s leased twice", l.ShardID)
			r.leases[l.ShardID] = l.Checkpoint
		}
		require.Empty(t, holes(slices.Concat(c.leases, plan)), "the plan leaves holes")
		r.finish()

		expired := map[string]bool{} // leased, and not listed any more
		for _, l := range c.leases {
			_, listed := r.shards[l.ShardID]
			expired[l.ShardID] = !listed
		}
		for id := range r.leases {
			require.True(t, r.ended(id) || r.startable(id) && r.shards[id].Open(), "%s waits for ever", id)
		}
		for _, line := range lines(c.listed) {
			last := -1 // the youngest that had a lease
			for i, s := range line {
				if before.leased(s.ID) {
					last = i
				}
			}
			below := last >= 0 || slices.ContainsFunc(line[0].Parents, func(p string) bool { return expired[p] })
			for i, s := range line {
				began, read := r.began[s.ID]
				switch {
				case before.ended(s.ID):
					require.False(t, read, "%s is read again", s.ID)
				case before.leased(s.ID):
					require.Equal(t, before.leases[s.ID], began, s.ID)
				case last >= 0 && i > last && before.ended(line[last].ID) && before.ahead[s.ID]:
					// It was read, and cleaned up before its descendants.
				case below && i > last:
					require.Equal(t, kcl.AtTrimHorizon, began, "%s, below a lease, is not read from its beginning", s.ID)
				case last < 0 && (c.Position != kcl.Latest || i == len(line)-1):
					require.True(t, read, "%s is never read", s.ID)
				}
			}
		}
	})
}

// shard-sync#35: no lease is created before that of a parent, or its shard could
// be read first; and whoever carries on where a leader has died in the middle of
// a plan plans the rest, just as it was.
func TestRestOfAPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := randomCase(t)
		plan, err := Plan(c.listed, c.leases, c.Settings)
		require.NoError(t, err)
		var rest []lease.Lease
		groups := waves(c.listed, plan)
		whole := rapid.IntRange(0, len(groups)).Draw(t, "whole groups")
		group := map[string]int{} // of those planned, from 1
		for i, g := range groups {
			for _, l := range g {
				group[l.ShardID] = i + 1
				for _, p := range l.Parents {
					require.True(t, group[p] <= i && (group[p] > 0 || !planned(plan, p)), "%s may come before %s", l.ShardID, p)
				}
				if i < whole || i == whole && rapid.Bool().Draw(t, "created") {
					c.leases = append(c.leases, l)
				} else {
					rest = append(rest, l)
				}
			}
		}
		require.Len(t, group, len(plan))
		again, err := Plan(c.listed, c.leases, c.Settings)
		require.NoError(t, err)
		require.ElementsMatch(t, rest, again)
	})
}

func planned(plan []lease.Lease, id string) bool {
	return slices.ContainsFunc(plan, func(l lease.Lease) bool { return l.ShardID == id })
}

// shard-sync#38: a key lies in a hole just if no lease covers it that is not at
// SHARD_END and whose range is known; holes are in order and as large as can be.
func TestHolesAreWhatNoLeaseCovers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.Custom(func(t *rapid.T) kcl.HashKey {
			near := rapid.SampledFrom([]kcl.HashKey{{}, {Hi: 1}, {Hi: 1 << 63}, kcl.MaxHashKey}).Draw(t, "near")
			for range rapid.IntRange(0, 3).Draw(t, "off") {
				near = near.Next()
			}
			return near
		})
		keys := []kcl.HashKey{{}, kcl.MaxHashKey}
		var leases []lease.Lease
		for range rapid.IntRange(0, 8).Draw(t, "leases") {
			var l lease.Lease
			if a, b := key.Draw(t, "a"), key.Draw(t, "b"); a.Compare(b) < 0 {
				l.HashRange = kcl.HashRange{Start: a, End: b}
			}
			l.Checkpoint = rapid.SampledFrom([]kcl.Position{kcl.AtTrimHorizon, kcl.ShardEnd}).Draw(t, "checkpoint")
			leases = append(leases, l)
			keys = append(keys, l.HashRange.Start, l.HashRange.End, l.HashRange.Start.Next(), l.HashRange.End.Next())
			if l.HashRange.Start != (kcl.HashKey{}) {
				keys = append(keys, prev(l.HashRange.Start))
			}
		}
		found := holes(leases)
		for i, h := range found {
			require.LessOrEqual(t, h.Start.Compare(h.End), 0)
			require.True(t, i == 0 || found[i-1].End.Next().Compare(h.Start) < 0, "holes %v", found)
		}
		for _, k := range keys {
			covered := slices.ContainsFunc(leases, func(l lease.Lease) bool {
				return !l.Ended() && !l.HashRange.IsZero() && l.HashRange.Contains(k)
			})
			hole := slices.ContainsFunc(found, func(r kcl.HashRange) bool { return r.Contains(k) })
			require.NotEqual(t, covered, hole, "%s in %v", k, found)
		}
	})
}

// shard-sync#37: a sync is asked for just if the last looks, as many as are
// called for, found the same holes.
func TestTrackerAsksAfterTheSameHoles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hole := func(k uint64) kcl.HashRange { return kcl.HashRange{Start: kcl.HashKey{Lo: k}, End: kcl.HashKey{Lo: k}} }
		one := []kcl.HashRange{hole(1)}
		found := [][]kcl.HashRange{nil, one, one, {hole(2)}, {hole(1), hole(3)}}
		confidence := rapid.IntRange(1, 4).Draw(t, "confidence")
		var tr tracker
		var looks [][]kcl.HashRange
		for range rapid.IntRange(1, 20).Draw(t, "looks") {
			now := rapid.SampledFrom(found).Draw(t, "holes")
			looks = append(looks, now)
			last := looks[max(0, len(looks)-confidence):]
			want := len(now) > 0 && len(last) == confidence &&
				!slices.ContainsFunc(last, func(h []kcl.HashRange) bool { return !slices.Equal(h, now) })
			require.Equal(t, want, tr.observe(now, confidence), "%v", looks)
		}
	})
}
