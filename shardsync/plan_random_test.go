package shardsync

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/lease"
)

func shardName(i int) string { return fmt.Sprintf("shardId-%012d", i) }

func decimal(i int) string { return strconv.Itoa(1000 + i) }

// randomTree draws a stream's history: a few first shards, then splits and
// merges, of which up to maxExpired of the oldest shards are gone.
func randomTree(t *rapid.T, maxExpired int) []Shard {
	n := rapid.IntRange(1, 4).Draw(t, "first shards")
	clock := 0
	tick := func() string { clock += 10; return decimal(clock) }
	var all []Shard
	add := func(r kcl.HashRange, parents ...string) {
		all = append(all, Shard{ID: shardName(len(all)), Parents: parents, HashRange: r, Start: decimal(clock + 1)})
	}
	space := new(big.Int).Lsh(big.NewInt(1), 128)
	for i := range n {
		from := new(big.Int).Div(new(big.Int).Mul(space, big.NewInt(int64(i))), big.NewInt(int64(n)))
		to := new(big.Int).Div(new(big.Int).Mul(space, big.NewInt(int64(i+1))), big.NewInt(int64(n)))
		r, err := kcl.ParseHashRange(from.String(), to.Sub(to, big.NewInt(1)).String())
		if err != nil {
			t.Fatal(err)
		}
		add(r)
	}
	for range rapid.IntRange(0, 12).Draw(t, "reshards") {
		var open []int
		for i, s := range all {
			if s.Open() {
				open = append(open, i)
			}
		}
		i := open[rapid.IntRange(0, len(open)-1).Draw(t, "shard")]
		end := tick()
		right := -1
		for _, j := range open {
			if all[i].HashRange.End != kcl.MaxHashKey && all[j].HashRange.Start == all[i].HashRange.End.Next() {
				right = j
			}
		}
		if right >= 0 && rapid.Bool().Draw(t, "merge") {
			all[i].End, all[right].End = end, end
			add(kcl.HashRange{Start: all[i].HashRange.Start, End: all[right].HashRange.End}, all[i].ID, all[right].ID)
			continue
		}
		all[i].End = end
		r := all[i].HashRange
		mid := middle(r)
		add(kcl.HashRange{Start: r.Start, End: mid}, all[i].ID)
		add(kcl.HashRange{Start: mid.Next(), End: r.End}, all[i].ID)
	}
	gone := rapid.IntRange(0, maxExpired).Draw(t, "expired")
	for gone > 0 && !all[0].Open() {
		all = all[1:]
		gone--
	}
	return all
}

func middle(r kcl.HashRange) kcl.HashKey {
	a, _ := new(big.Int).SetString(r.Start.String(), 10)
	b, _ := new(big.Int).SetString(r.End.String(), 10)
	k, err := kcl.ParseHashKey(a.Add(a, b).Rsh(a, 1).String())
	if err != nil {
		panic(err)
	}
	return k
}

// shard-sync#12: whatever the history and the leases there are, the plan does
// not depend on the order of its input, planning again with it carried out gives
// nothing, parents come first, and every part of the hash key space is led to by
// a lease.
func TestPlanProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := randomTree(t, 4)
		p := rapid.SampledFrom([]kcl.InitialPosition{kcl.Latest, kcl.TrimHorizon, kcl.AtTimestamp(time.Unix(1, 0))}).Draw(t, "position")
		var have []lease.Lease
		for _, s := range all {
			switch rapid.IntRange(0, 3).Draw(t, "lease of "+s.ID) {
			case 0:
				have = append(have, s.Lease(kcl.StreamIdentifier{Name: "s"}, kcl.AtTrimHorizon))
			case 1:
				if !s.Open() {
					have = append(have, s.Lease(kcl.StreamIdentifier{Name: "s"}, kcl.ShardEnd))
				}
			}
		}
		plan, err := Plan(all, have, settings(p))
		require.NoError(t, err)

		shuffled := append([]Shard(nil), all...)
		rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		again, err := Plan(shuffled, have, settings(p))
		require.NoError(t, err)
		require.Equal(t, plan, again, "order of input")

		with := append(append([]lease.Lease(nil), have...), plan...)
		rest, err := Plan(all, with, settings(p))
		require.NoError(t, err)
		require.Empty(t, rest, "planned twice")

		created := make(map[string]int)
		for i, l := range plan {
			created[l.ShardID] = i
		}
		for i, l := range plan {
			for _, parent := range l.Parents {
				if j, ok := created[parent]; ok {
					require.Less(t, j, i, "%s before its parent", l.ShardID)
				}
			}
		}
		requireLed(t, all, with)
	})
}

// requireLed checks that every open shard has a lease that is not ended, or will
// get one: from an ancestor whose end creates its children's leases, all the way
// down.
func requireLed(t *rapid.T, all []Shard, leases []lease.Lease) {
	tr := index(all)
	led := make(map[string]bool)
	for _, l := range leases {
		if !l.Ended() {
			led[l.ShardID] = true
		}
	}
	// A lease's end leads to its children, whether they are leased or not.
	ids := make([]string, 0, len(all))
	for _, s := range all {
		ids = append(ids, s.ID)
	}
	walk(ids, tr.parents, func(id string) {
		for _, p := range tr.parents(id) {
			led[id] = led[id] || led[p]
		}
	})
	for _, s := range all {
		if !s.Open() || led[s.ID] {
			continue
		}
		// An open shard with a lease at SHARD_END cannot be; our trees have none.
		t.Fatalf("nothing leads to open shard %s", s.ID)
	}
}
