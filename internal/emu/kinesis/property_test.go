package kinesis

import (
	"cmp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// covers fails unless the shards hold each key exactly once.
func covers(t *rapid.T, what string, shards []shardOutput) {
	type span struct{ lo, hi hashKey }
	spans := make([]span, len(shards))
	for i, s := range shards {
		lo, ok := parseHashKey(s.HashKeyRange.StartingHashKey)
		hi, ok2 := parseHashKey(s.HashKeyRange.EndingHashKey)
		require.True(t, ok && ok2)
		spans[i] = span{lo, hi}
	}
	slices.SortFunc(spans, func(a, b span) int { return a.lo.compare(b.lo) })
	require.NotEmpty(t, spans, what)
	require.Equal(t, hashKey{}, spans[0].lo, what)
	require.Equal(t, maxHashKey, spans[len(spans)-1].hi, what)
	for i := 1; i < len(spans); i++ {
		require.Equal(t, spans[i-1].hi.plus(1), spans[i].lo, what)
	}
}

// aws-kinesis#50,51: whatever is resharded, however the retention changes and the
// horizon moves, AT_TRIM_HORIZON and AT_LATEST cover the key space exactly once.
// What they list changes only where the present or the horizon passes a shard's
// start or end, so the walk stops at both sides of those.
func TestKeySpaceIsCovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(struct{ rapid.TB }{t}, func(rt *rapid.T) { // hides Deadline, which a bubble does not have
			reshard := rapid.SampledFrom([]time.Duration{time.Second, 1001 * time.Millisecond, 1999 * time.Millisecond, 30 * time.Second}).Draw(rt, "reshard")
			w := newWorld(t, Config{NoLimits: true, ReshardDuration: reshard})
			time.Sleep(time.Duration(rapid.IntRange(0, 999).Draw(rt, "offset")) * time.Millisecond)
			w.create("s", rapid.IntRange(1, 5).Draw(rt, "shards"))

			check := func(rt *rapid.T) {
				covers(rt, "AT_TRIM_HORIZON", w.shards("s", m{"Type": "AT_TRIM_HORIZON"}))
				covers(rt, "AT_LATEST", w.shards("s", m{"Type": "AT_LATEST"}))
				st := w.peek("s")
				assertFamily(rt, st)
				s := st.writer(hashOf(rapid.StringN(1, 4, -1).Draw(rt, "key")), w.last)
				require.LessOrEqual(rt, s.start, w.last.sec())
				require.True(rt, s.open() || w.last.ms() < s.handover())
			}
			rt.Repeat(map[string]func(*rapid.T){
				"": check,
				"wait": func(rt *rapid.T) {
					time.Sleep(rapid.SampledFrom([]time.Duration{
						time.Millisecond, 100 * time.Millisecond, 999 * time.Millisecond, time.Second, reshard, time.Hour, 11 * time.Hour, 23 * time.Hour,
					}).Draw(rt, "time"))
				},
				"wait for an edge": func(rt *rapid.T) {
					st := w.peek("s")
					edges := []int64{st.created * 1000}
					for _, s := range st.shards {
						edges = append(edges, s.start*1000)
						if !s.open() {
							edges = append(edges, s.end*1000, s.handover())
						}
					}
					edge := rapid.SampledFrom(edges).Draw(rt, "edge")
					if rapid.Bool().Draw(rt, "of the horizon") {
						edge += st.retention * time.Hour.Milliseconds()
					}
					edge += rapid.SampledFrom([]int64{-1, 0, 1}).Draw(rt, "side")
					if wait := time.Duration(edge-w.last.ms()) * time.Millisecond; wait > 0 {
						time.Sleep(wait)
					}
				},
				"split": func(rt *rapid.T) {
					open := w.peek("s").open
					s := open[rapid.IntRange(0, len(open)-1).Draw(rt, "shard")]
					w.answer("SplitShard", m{"StreamName": "s", "ShardToSplit": shardID(s.number), "NewStartingHashKey": middle(s).String()})
				},
				"merge": func(rt *rapid.T) {
					open := w.peek("s").open
					if len(open) > 1 {
						i := rapid.IntRange(0, len(open)-2).Draw(rt, "lower")
						w.answer("MergeShards", m{"StreamName": "s", "ShardToMerge": shardID(open[i].number), "AdjacentShardToMerge": shardID(open[i+1].number)})
					}
				},
				"scale": func(rt *rapid.T) {
					n := len(w.peek("s").open)
					target := rapid.IntRange((n+1)/2, min(2*n, 16)).Draw(rt, "target")
					w.answer("UpdateShardCount", m{"StreamName": "s", "TargetShardCount": target, "ScalingType": "UNIFORM_SCALING"})
				},
				"change the retention": func(rt *rapid.T) {
					hours := rapid.SampledFrom([]int64{24, 25, 36, 48, 72}).Draw(rt, "hours")
					operation := "IncreaseStreamRetentionPeriod"
					if hours < w.peek("s").retention {
						operation = "DecreaseStreamRetentionPeriod"
					}
					w.answer(operation, m{"StreamName": "s", "RetentionPeriodHours": hours})
				},
			})
		})
	})
}

// A plan for any stream ends in n shards of nearly equal width, and each of its
// steps is a split or a merge that the service would take.
func TestUniformStepsProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		st := newStream(streamKey{}, 0, uniform(rapid.IntRange(1, 40).Draw(rt, "shards"), 0))
		due := second
		for range rapid.IntRange(1, 4).Draw(rt, "times") {
			n := len(st.open)
			target := rapid.IntRange((n+1)/2, 2*n).Draw(rt, "target")
			for _, p := range uniformSteps(st.open, target) {
				i := covering(st.open, p.at)
				if p.merge {
					require.Equal(rt, p.at, st.open[i].lo)
					require.Positive(rt, i)
				} else {
					require.True(rt, splits(st.open[i], p.at))
				}
				due += second
				p.due = due
				st.apply(p)
			}
			require.Len(rt, st.open, target)
			for i, s := range st.open {
				require.True(rt, s.lo.near(uniformBound(i, target)), "bound %d of %d", i, target)
			}
		}
		require.True(rt, slices.IsSortedFunc(st.shards, func(a, b *shard) int { return cmp.Compare(a.number, b.number) }))
	})
}
