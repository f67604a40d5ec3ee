package assignment

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/lease"
)

// anyView draws a view as a look may find it. Workers X0, X1 are there to own
// leases, and no targets: they drain, are silent or dead.
func anyView(t *rapid.T) View {
	v := View{
		Limit:   rapid.SampledFrom([]int{math.MaxInt, 1, 2, 3, 5}).Draw(t, "limit"),
		Balance: rapid.Bool().Draw(t, "balance"),
	}
	owners := []string{"X0", "X1"}
	for i := range rapid.IntRange(0, 5).Draw(t, "workers") {
		v.Workers = append(v.Workers, Worker{ID: workerName(i)})
		owners = append(owners, workerName(i))
	}
	owner := rapid.SampledFrom(owners)
	stuck := rapid.IntRange(0, 3).Draw(t, "not movable, of 4")
	for i := range rapid.IntRange(0, 16).Draw(t, "leases") {
		l := Lease{
			Lease: &lease.Lease{Key: fmt.Sprintf("k%02d", i), Counter: int64(100 + i)},
			State: rapid.SampledFrom([]State{Unowned, Abandoned, Expired, Overdue, Pending, Held, Held, Held, Held}).Draw(t, "state"),
			Since: time.Unix(int64(rapid.IntRange(0, 3).Draw(t, "since")), 0),
		}
		if l.State != Unowned {
			l.Owner = owner.Draw(t, "owner")
		}
		switch l.State {
		case Overdue, Pending:
			l.CheckpointOwner = owner.Draw(t, "checkpoint owner")
		case Expired:
			if rapid.Bool().Draw(t, "in hand-off") {
				l.CheckpointOwner = owner.Draw(t, "checkpoint owner")
			}
		}
		if l.State != Overdue && l.State != Pending && rapid.IntRange(0, 4).Draw(t, "ended") == 0 {
			l.Checkpoint = kcl.ShardEnd
		}
		l.Movable = l.State == Held && !l.Ended() && rapid.IntRange(0, 3).Draw(t, "movable") >= stuck
		v.Leases = append(v.Leases, l)
	}
	return v
}

// load counts the leases that are not at SHARD_END by the worker they count for,
// once a plan is carried out. A free lease that the plan passes over may stay
// with a target that owns it; stay says whether it does.
func load(v View, p Plan, stay bool) map[string]int {
	to := map[int]string{}
	for _, m := range slices.Concat(p.Assign, p.Balance) {
		to[m.Lease] = m.To
	}
	of := map[string]int{}
	for _, w := range v.Workers {
		of[w.ID] = 0
	}
	for i, l := range v.Leases {
		at := l.Owner // the next owner, in a hand-off
		if l.State.Free() && (!stay || l.HandOffPending()) {
			at = ""
		}
		if next, moved := to[i]; moved {
			at = next
		}
		if _, target := of[at]; target && !l.Ended() {
			of[at]++
		}
	}
	return of
}

// fewestMoves is how many leases must move until nobody with room has two less
// than another: from whoever has most to whoever has least, one by one.
func fewestMoves(of map[string]int, limit int) (n int) {
	counts := make([]int, 0, len(of))
	for _, c := range of {
		counts = append(counts, c)
	}
	for len(counts) > 1 {
		slices.Sort(counts)
		last := len(counts) - 1
		if counts[0] >= limit || counts[last]-counts[0] <= 1 {
			break
		}
		counts[0]++
		counts[last]--
		n++
	}
	return n
}

// Rulings 8, 12, 13: who is no target gets nothing, no one gets more than the
// limit, nothing is left while there is room, what is at SHARD_END is never
// balanced, as few leases move as will do, and then none.
func TestCountOfAnyView(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := anyView(t)
		p := ByCount(v)
		before := load(v, Plan{}, false)

		moved := map[int]bool{}
		for _, m := range slices.Concat(p.Assign, p.Balance) {
			require.False(t, moved[m.Lease], "two moves of one lease")
			moved[m.Lease] = true
			require.Contains(t, before, m.To, "no target")
		}
		for _, m := range p.Assign {
			require.LessOrEqual(t, v.Leases[m.Lease].State, Overdue)
		}
		for _, m := range p.Balance {
			l := v.Leases[m.Lease]
			require.True(t, l.Movable && !l.Ended(), "lease %s in state %s is balanced", l.Key, l.State)
			require.NotEqual(t, l.Owner, m.To)
		}
		for id, n := range load(v, p, false) {
			require.LessOrEqual(t, n, max(before[id], v.Limit), "%s is given too many", id)
		}
		after, least := load(v, p, true), math.MaxInt
		for _, n := range after {
			least = min(least, n)
		}
		require.True(t, p.Spill == 0 || len(v.Workers) == 0 || least >= v.Limit, "leases are left, and there is room")
		left := 0
		for i, l := range v.Leases {
			if _, target := before[l.ActualOwner()]; l.State <= Overdue && !moved[i] && (!target || l.HandOffPending()) {
				left++
			}
		}
		require.LessOrEqual(t, left, p.Spill, "leases are passed over")

		if !v.Balance || p.Spill > 0 {
			require.True(t, v.Balance || len(p.Balance) == 0)
			return
		}
		fewest := fewestMoves(load(v, Plan{Assign: p.Assign}, true), v.Limit)
		require.LessOrEqual(t, len(p.Balance), fewest, "needless moves")
		require.Equal(t, len(p.Balance) < fewest, p.Uneven)
		if p.Uneven {
			require.True(t, slices.ContainsFunc(v.Leases, func(l Lease) bool { return !l.Ended() && !l.Movable }), "all could move")
			return
		}
		require.Zero(t, fewestMoves(after, v.Limit), "uneven: %v", after)
		again := ByCount(done(v, p))
		require.Empty(t, again.Assign)
		require.Empty(t, again.Balance, "no rest: %v", after)
	})
}

// done is the view once all of a plan's writes were made and the leases have
// arrived, all of them movable.
func done(v View, p Plan) View {
	to := map[int]string{}
	for _, m := range slices.Concat(p.Assign, p.Balance) {
		to[m.Lease] = m.To
	}
	v.Leases = slices.Clone(v.Leases)
	for i, l := range v.Leases {
		next := *l.Lease
		if id, moved := to[i]; moved {
			next.Owner, next.CheckpointOwner = id, ""
		}
		l.Lease, l.State, l.Movable = &next, Held, !next.Ended()
		v.Leases[i] = l
	}
	return v
}

// Rulings 4 and 8, lease-assignment-and-worker-metrics#34,35,36,37: whatever the
// plan, a lease is written once, as it was seen; what is taken from an owner who
// cannot be asked on condition of the counter that was seen; one that works is
// asked; and what is being handed over is left alone.
func TestWritesOfAnyPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := anyView(t)
		handOff := rapid.Bool().Draw(t, "hand-off")
		var p Plan
		if rapid.Bool().Draw(t, "by count") {
			p = ByCount(v)
		} else {
			for i := range v.Leases {
				to := rapid.SampledFrom([]string{"", "", "X0", "W1", "W2"})
				if id := to.Draw(t, "assigned to"); id != "" {
					p.Assign = append(p.Assign, Move{i, id})
				}
				if id := to.Draw(t, "moved to"); id != "" {
					p.Balance = append(p.Balance, Move{i, id})
				}
			}
		}
		to := map[string]string{}
		for _, m := range slices.Concat(p.Assign, p.Balance) {
			to[v.Leases[m.Lease].Key] = m.To
		}
		written := map[string]bool{}
		for _, w := range writes(v, p, handOff) {
			i := slices.IndexFunc(v.Leases, func(l Lease) bool { return l.Key == w.lease.Key })
			l := v.Leases[i]
			require.False(t, written[l.Key], "%s is written twice", l.Key)
			written[l.Key] = true
			require.Equal(t, *l.Lease, w.lease)
			require.Equal(t, to[l.Key], w.to)
			require.NotEqual(t, Pending, l.State)
			require.Equal(t, l.State == Expired || l.State == Abandoned, w.ifCounter, l.State)
			require.Equal(t, handOff && l.State == Held && !l.Ended() && !l.HandOffPending(), w.handOff, l.State)
			require.False(t, l.State == Held && w.to == l.Owner && !l.HandOffPending(), "%s has it already", w.to)
		}
		for _, l := range v.Leases {
			id, planned := to[l.Key]
			needless := l.State == Pending || l.State == Held && id == l.Owner
			require.True(t, !planned || needless || written[l.Key], "%s, %s, is not written", l.Key, l.State)
		}
	})
}

// Ruling 7: a leader that stops gives all that it holds, or was given, to others
// that have room, and to them evenly.
func TestHandOverOfAnyView(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := anyView(t)
		from := rapid.SampledFrom([]string{"W1", "W2", "X0"}).Draw(t, "from")
		v.Workers = slices.DeleteFunc(v.Workers, func(w Worker) bool { return w.ID == from })
		decide := ByCount
		if rapid.Bool().Draw(t, "by load") {
			decide = ByLoad(Load{})
		}
		p := handOver(v, from, decide)
		require.Empty(t, p.Assign)
		before := load(v, Plan{}, false)
		given := map[string]int{}
		moved := map[int]bool{}
		for _, m := range p.Balance {
			l := v.Leases[m.Lease]
			require.False(t, moved[m.Lease])
			moved[m.Lease] = true
			require.True(t, l.Owner == from && !l.Ended() && (l.State == Held || l.State == Abandoned), l.State)
			require.Contains(t, before, m.To)
			given[m.To]++
		}
		least, most := math.MaxInt, 0
		for id, n := range before {
			require.True(t, given[id] == 0 || n+given[id] <= v.Limit, "%s is given too many", id)
			least = min(least, n+given[id])
			if given[id] > 0 {
				most = max(most, n+given[id])
			}
		}
		if most > 0 && least < v.Limit {
			require.LessOrEqual(t, most-least, 1, "uneven")
		}
		require.True(t, p.Spill == 0 || least >= v.Limit, "leases are left, and there is room")
	})
}
