package shardsync

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
)

// shard-sync#10: the worked examples, with their order of creation. Where the
// lease of an ended or expired parent makes a difference, a T marks a lease
// that begins at TRIM_HORIZON for it.
func TestPlanWorkedExamples(t *testing.T) {
	timestamp := kcl.AtTimestamp(time.Unix(150, 0))
	cases := []struct{ graph, leases, latest, horizon string }{
		{"A", "", "4,10,8,9", "0,1,2,3,4,5"},
		{"A", "3,4,5", "2,6", "0,1,2"},
		{"A", "4,5,7", "6", "0,1"},
		{"A", "2,6", "3,4,10,9", "3,4,5"},
		{"A", "4,9,10", "8", "0,1,2,3"},
		{"A", "4,5,6,7", "", ""},
		{"A", "0,1,2,3,4,5,6,7", "", ""},
		{"A", "0,1,4,7,9,10", "", ""},
		{"A", "1,2,3,4,5,7,9,10", "0", "0"},
		{"A", "8", "4,10,9", "4,5"},
		{"A", "0", "1,4,7,10,9", "1,2,3,4,5"},
		{"A", "9", "4,10,8", "0,1,2,3,4,5"},
		{"B", "6", "7", "0,1"},
		{"B", "5", "", ""},
		{"B", "0,1,2,3,4,5", "", ""},
		{"B", "", "10,9", "0,1"},
		{"B", "4,6", "3", "0,1"},
		{"C", "9,10", "1,6,7,8", "0,1,2,3"},
		{"C", "0", "1,6", "1,2,3"},
		{"C", "2", "1,3,10,7,8,9", "0,1,3"},
		{"D", "0", "", ""},
		{"D", "1", "2", "0"},
		{"D", "0,1", "", ""},
		{"D'", "1", "2", "2"},
		{"E", "0", "1", "1"},
		{"E", "2", "", ""},
		{"E'", "", "2", "1"},
		{"E'", "1", "", ""},
		{"G", "1", "2", "0"},
		{"G", "3", "2,4", "0"},
		{"G", "3,4", "2", "0"},
		{"G", "0,2", "", ""},
	}
	all := graphs(t)
	for _, c := range cases {
		t.Run(c.graph+"{"+c.leases+"}", func(t *testing.T) {
			for p, want := range map[kcl.InitialPosition]string{kcl.Latest: c.latest, kcl.TrimHorizon: c.horizon, timestamp: c.horizon} {
				plan, err := Plan(all[c.graph], leasesOf(c.leases), settings(p))
				require.NoError(t, err)
				assert.Equal(t, want, render(plan, p), p.String())
			}
		})
	}
}

// shard-sync#11: a lease that only an ended or an expired parent explains begins
// at TRIM_HORIZON, whatever the initial position.
func TestPlanNeverStartsChildrenLate(t *testing.T) {
	cases := []struct{ rule, graph, leases, latest, horizon string }{
		{"children of an ended lease are created", "D", "0e", "1T,2T", "1,2"},
		{"the missing one of two children is created", "D", "0e,1", "2T", "2"},
		{"an ended lease whose children are leased needs nothing", "D", "0e,1,2", "", ""},
		{"a child's lease may be gone when its own children are leased", "G", "0e,2,3,4", "", ""},
		{"a grandchild lost on the way", "G", "0e,2,3", "4T", "4"},
		{"a child of two parents, one of which has ended", "E", "0e,1", "2T", "2"},
		{"the missing co-parent is leased too, before the child", "E", "0e", "1,2T", "1,2"},
		{"an expired parent was being read", "D'", "0", "1T,2T", "1,2"},
		{"an expired and ended parent", "D'", "0e", "1T,2T", "1,2"},
	}
	all := graphs(t)
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			for p, want := range map[kcl.InitialPosition]string{kcl.Latest: c.latest, kcl.TrimHorizon: c.horizon} {
				plan, err := Plan(all[c.graph], leasesOf(c.leases), settings(p))
				require.NoError(t, err)
				assert.Equal(t, want, render(plan, p), p.String())
			}
		})
	}
}

// shard-sync#11,14: what a planned lease holds; other streams' leases of equal
// shard ids are not this stream's, for keys carry the stream.
func TestPlannedLease(t *testing.T) {
	g := graphs(t)["D"]
	stream := kcl.StreamIdentifier{AccountID: "123456789012", Name: "s", CreationEpoch: 7}
	plan, err := Plan(g[1:], nil, Settings{Stream: stream, Position: kcl.TrimHorizon})
	require.NoError(t, err)
	require.Len(t, plan, 2)
	want := g[1].Lease(stream, kcl.AtTrimHorizon)
	assert.Equal(t, want, plan[0])
	assert.Equal(t, "123456789012:s:7:shardId-1", want.Key)
	assert.Equal(t, "123456789012:s:7", want.Stream)
	assert.Equal(t, []string{"shardId-0"}, want.Parents, "a trimmed parent is kept")
	assert.Equal(t, hashRange(t, "0", "499"), want.HashRange)

	single, err := Plan(g[1:], nil, settings(kcl.Latest))
	require.NoError(t, err)
	assert.Equal(t, "shardId-1", single[0].Key)
	assert.Empty(t, single[0].Stream)
}

// shard-sync#10: the empty path leases just what the filtered listing shows.
func TestPlanInitial(t *testing.T) {
	g := graphs(t)["A"]
	plan, err := PlanInitial([]Shard{g[8], g[10], g[4], g[9]}, settings(kcl.Latest))
	require.NoError(t, err)
	assert.Equal(t, "4,10,8,9", render(plan, kcl.Latest))

	plan, err = PlanInitial(g[4:8], settings(kcl.AtTimestamp(time.Unix(200, 0))))
	require.NoError(t, err)
	assert.Equal(t, "4,5,6,7", render(plan, kcl.AtTimestamp(time.Unix(200, 0))))
}

// shard-sync#18: children of open parents are an error that names them, or, if
// they are to be ignored, get no lease.
func TestPlanInconsistentListing(t *testing.T) {
	g := graphs(t)["A"]
	g[5].End = ""
	for _, plan := range []func() error{
		func() error { _, err := Plan(g, nil, settings(kcl.Latest)); return err },
		func() error { _, err := PlanInitial(g, settings(kcl.Latest)); return err },
	} {
		err := plan()
		require.ErrorIs(t, err, ErrInconsistent)
		assert.ErrorContains(t, err, "shardId-10, shardId-9")
	}
	ignoring := func(p kcl.InitialPosition) Settings {
		s := settings(p)
		s.IgnoreUnexpectedChildren = true
		return s
	}
	plan, err := Plan(g, nil, ignoring(kcl.Latest))
	require.NoError(t, err)
	assert.Equal(t, "4,5,8", render(plan, kcl.Latest))
	plan, err = Plan(g, nil, ignoring(kcl.TrimHorizon))
	require.NoError(t, err)
	assert.Equal(t, "0,1,2,3,4,5", render(plan, kcl.TrimHorizon))

	roots := shards(t, "0() 11 0-9", "1() 11 10-19", "2(1) 20 10-14", "3() 11 20-M")
	plan, err = Plan(roots, leasesOf("3"), ignoring(kcl.Latest))
	require.NoError(t, err)
	assert.Equal(t, "0,1", render(plan, kcl.Latest))
	plan, err = PlanInitial(roots, ignoring(kcl.Latest))
	require.NoError(t, err)
	assert.Len(t, plan, 4, "the first listing leases all it shows")
}

// shard-sync#15: a long history costs neither stack nor quadratic time.
func TestPlanDeepChain(t *testing.T) {
	const depth = 10_000
	chain := make([]Shard, depth)
	for i := range chain {
		chain[i] = Shard{
			ID: shardName(i), HashRange: kcl.HashRange{End: kcl.MaxHashKey},
			Start: decimal(10 * i), End: decimal(10*i + 9),
		}
		if i > 0 {
			chain[i].Parents = []string{shardName(i - 1)}
		}
	}
	chain[depth-1].End = ""
	rand.Shuffle(depth, func(i, j int) { chain[i], chain[j] = chain[j], chain[i] })
	plan, err := Plan(chain, nil, settings(kcl.TrimHorizon))
	require.NoError(t, err)
	require.Len(t, plan, 1)
	assert.Equal(t, shardName(0), plan[0].ShardID)
	assert.Len(t, waves(chain, plan), 1)
}

// No child is created before its parents: each wave holds one generation.
func TestWaves(t *testing.T) {
	g := graphs(t)["E"]
	plan, err := Plan(g, leasesOf("0e"), settings(kcl.Latest))
	require.NoError(t, err)
	got := waves(g, plan)
	require.Len(t, got, 2)
	assert.Equal(t, "1", render(got[0], kcl.Latest))
	assert.Equal(t, "2T", render(got[1], kcl.Latest))

	got = waves(graphs(t)["G"], leasesOf("0,1,2,3,4"))
	require.Len(t, got, 3)
	for i, want := range []int{1, 2, 2} {
		assert.Len(t, got[i], want)
	}
	assert.Equal(t, "shardId-0", got[0][0].ShardID)
}
