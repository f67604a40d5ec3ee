package sim

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/scheduler"
)

var (
	gapSeeds = flag.Int("gap-seeds", 1, "seeds to measure the gaps in delivery with")
	gapJSON  = flag.String("gap-json", "", "file to write the worst of the gaps to")
)

const (
	gapShards = 12
	// gapLimit is when a measurement is given up.
	gapLimit = 5 * time.Minute
)

// gapWorld is the AWS that gaps are measured on.
var gapWorld = kcltest.Options{
	Latency: 5 * time.Millisecond, IndexLag: 500 * time.Millisecond, StaleReads: 200 * time.Millisecond,
}

// failover is the default failover time, by which some gaps are bounded.
const failover = 10 * time.Second

// gap is a measurement: how long, in virtual time, shards are read by nobody, and
// how long that may be. The one seed that is part of the tests has a tenth to
// spare.
type gap struct {
	name  string
	limit time.Duration
}

// gaps are measured with default settings, in a phase of the workers' loops that
// the seed chooses.
var gaps = []struct {
	gaps    []gap
	measure func(b *bed) []time.Duration
}{
	{[]gap{{"fresh_first_record", 3 * time.Second}, {"fresh_all_shards", 6 * time.Second}}, freshGap},
	{[]gap{{"stop_owner", 5 * time.Second}}, func(b *bed) []time.Duration { return []time.Duration{b.departure(false, stopWorker)} }},
	{[]gap{{"stop_leader", 5 * time.Second}}, func(b *bed) []time.Duration { return []time.Duration{b.departure(true, stopWorker)} }},
	{[]gap{{"kill_owner", failover + 5*time.Second}}, func(b *bed) []time.Duration { return []time.Duration{b.departure(false, b.kill)} }},
	{[]gap{{"kill_leader", 45 * time.Second}}, func(b *bed) []time.Duration { return []time.Duration{b.departure(true, b.kill)} }},
	{[]gap{{"child_after_parent", 3 * time.Second}}, childGap},
	{[]gap{{"hand_off", 2 * time.Second}, {"joiner_even_spread", time.Minute}}, joinGap},
	{[]gap{{"same_id_restart", 2 * time.Second}}, restartGap},
}

func stopWorker(w *worker) { w.cancel() }

// TestGaps measures the gaps in delivery and holds them to their limits, which
// virtual time makes exact. One seed is part of every run of the
// tests; make gaps takes the worst of many.
func TestGaps(t *testing.T) {
	worst := make(map[string]time.Duration)
	for _, g := range gaps {
		for seed := range *gapSeeds {
			t.Run(fmt.Sprintf("%s/%d", g.gaps[0].name, seed+1), func(t *testing.T) {
				inBed(t, uint64(seed+1), gapShards, gapWorld, func(b *bed) {
					b.produce(gapShards)
					for i, d := range g.measure(b) {
						limit := g.gaps[i].limit
						if *gapSeeds == 1 {
							limit = limit * 9 / 10
						}
						assert.LessOrEqual(t, d, limit, g.gaps[i].name)
						worst[g.gaps[i].name] = max(worst[g.gaps[i].name], d)
					}
				})
			})
		}
	}
	seconds := make(map[string]float64, len(worst))
	for name, d := range worst {
		seconds[name] = math.Round(d.Seconds()*100) / 100
	}
	for _, name := range slices.Sorted(maps.Keys(seconds)) {
		t.Logf("%-20s %6.2f s", name, seconds[name])
	}
	if *gapJSON != "" {
		text, err := json.Marshal(seconds)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(*gapJSON, append(text, '\n'), 0o644))
	}
}

// A worker that dies costs the records to be delivered again that it has not
// checkpointed: a handler's position rides on the heartbeats, a third of the
// failover time apart.
func TestRepeatsOfACrash(t *testing.T) {
	const perSecond, ownedShards = 2 * 10, gapShards / 3 // records into each shard; a worker's
	worst := 0
	for seed := range max(3, *gapSeeds) { // of one seed the worker may have just checkpointed
		inBed(t, uint64(seed+1), gapShards, gapWorld, func(b *bed) {
			b.produce(gapShards)
			b.departure(false, b.kill)
			time.Sleep(5 * time.Second)
			most := int(math.Ceil(float64(ownedShards*perSecond) * (failover/3 + 2*time.Second).Seconds())) // a read a second, and calls
			n := b.repeated()
			assert.LessOrEqual(t, n, most)
			worst = max(worst, n)
		})
	}
	assert.Positive(t, worst, "no worker died between two checkpoints")
	t.Logf("at most %d records of %d shards with %d a second each", worst, ownedShards, perSecond)
}

// fleet starts three workers, one of which leads, and waits for an even spread
// and for every shard to deliver.
func (b *bed) fleet() (leader *worker, others []*worker) {
	for _, name := range []string{"a", "b", "c"} {
		b.somewhere(time.Second)
		b.start(name)
	}
	b.until(gapLimit, "a leader and an even spread", func() bool { return b.leader() != nil && b.spread() <= 1 })
	b.until(gapLimit, "all shards deliver", func() bool { return b.delivering(func(string) bool { return true }) })
	time.Sleep(30 * time.Second) // let it settle
	b.somewhere(30 * time.Second)
	leader = b.leader()
	for _, w := range b.workers {
		if w != leader {
			others = append(others, w)
		}
	}
	return leader, others
}

// leader returns the worker that leads, nil if none does.
func (b *bed) leader() *worker {
	for _, w := range b.workers {
		if w.Status().Leading {
			return w
		}
	}
	return nil
}

func (b *bed) spread() int { return b.spreadOf(b.leases()) }

// spreadOf returns how many leases more the fullest live worker has than the
// emptiest, at least as many as nobody owns.
func (b *bed) spreadOf(leases map[string]lease.Lease) int {
	counts := make(map[string]int)
	for _, w := range b.workers {
		if w.cut == nil && w.Status().State == scheduler.StateStarted {
			counts[w.name] = 0
		}
	}
	free := 0
	for _, l := range leases {
		if _, live := counts[l.Owner]; live {
			counts[l.Owner]++
		} else {
			free++
		}
	}
	if len(counts) == 0 || len(leases) == 0 {
		return 1 << 30
	}
	values := slices.Collect(maps.Values(counts))
	return max(slices.Max(values)-slices.Min(values), 2*free)
}

// delivering reports whether every shard was delivered, since mark, by a worker
// that ok says yes to.
func (b *bed) delivering(ok func(worker string) bool) bool {
	for _, s := range b.aws.Shards(simStream) {
		if _, delivered := b.firstBy(s.ID, ok); !delivered {
			return false
		}
	}
	return true
}

// freshGap is from the lease table being ACTIVE to the first record, and to the
// first record of the last shard.
func freshGap(b *bed) []time.Duration {
	for _, name := range []string{"a", "b", "c"} {
		b.start(name)
		b.somewhere(200 * time.Millisecond)
	}
	d := dynamodb.NewFromConfig(b.config())
	b.until(gapLimit, "the table is ACTIVE", func() bool {
		out, err := d.DescribeTable(b.t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(simApp)})
		return err == nil && out.Table.TableStatus == types.TableStatusActive
	})
	active := time.Now()
	b.until(gapLimit, "all shards deliver", func() bool { return b.delivering(func(string) bool { return true }) })
	all := time.Since(active)
	first := all
	for _, s := range b.aws.Shards(simStream) {
		at, _ := b.firstBy(s.ID, func(string) bool { return true })
		first = min(first, at.Sub(active))
	}
	return []time.Duration{first, all}
}

// departure is from the moment at which a worker leaves the fleet to the first
// record that another one is handed of the last of its shards.
func (b *bed) departure(leads bool, leave func(*worker)) time.Duration {
	leader, others := b.fleet()
	w := others[b.rng.IntN(len(others))]
	if leads {
		w = leader
	}
	shards := b.owned(w.name)
	require.NotEmpty(b.t, shards)
	b.mark()
	start := time.Now()
	leave(w)
	elsewhere := func(worker string) bool { return worker != w.id }
	b.until(gapLimit, "its shards are delivered elsewhere", func() bool {
		return !slices.ContainsFunc(shards, func(s string) bool { _, ok := b.firstBy(s, elsewhere); return !ok })
	})
	return time.Since(start)
}

// childGap is from SHARD_END of the shard's parent being stored to the first
// record of the last child, of a split and of a merge.
func childGap(b *bed) []time.Duration {
	b.fleet()
	k := b.kinesis()
	_, err := k.SplitShard(b.t.Context(), &kinesis.SplitShardInput{
		StreamName: aws.String(simStream), ShardToSplit: aws.String("shardId-000000000000"), NewStartingHashKey: aws.String("14178431955039102644307275309657008810"),
	})
	require.NoError(b.t, err)
	split := b.childrenDeliver([]string{"shardId-000000000000"}, []string{"shardId-000000000012", "shardId-000000000013"})
	_, err = k.MergeShards(b.t.Context(), &kinesis.MergeShardsInput{
		StreamName: aws.String(simStream), ShardToMerge: aws.String("shardId-000000000004"), AdjacentShardToMerge: aws.String("shardId-000000000005"),
	})
	require.NoError(b.t, err)
	merge := b.childrenDeliver([]string{"shardId-000000000004", "shardId-000000000005"}, []string{"shardId-000000000014"})
	return []time.Duration{max(split, merge)}
}

func (b *bed) childrenDeliver(parents, children []string) time.Duration {
	b.until(gapLimit, "the parents end", func() bool {
		leases := b.leases()
		return !slices.ContainsFunc(parents, func(p string) bool { l, ok := leases[p]; return ok && !l.Ended() })
	})
	ended := time.Now()
	any := func(string) bool { return true }
	b.until(gapLimit, "the children deliver", func() bool {
		return !slices.ContainsFunc(children, func(c string) bool { _, ok := b.firstBy(c, any); return !ok })
	})
	return time.Since(ended)
}

// joinGap is, when a third worker joins two, the longest time from the write
// that transfers a lease to the new owner's first record, and the time until the
// leases are spread evenly.
func joinGap(b *bed) []time.Duration {
	b.start("a")
	b.start("b")
	b.until(gapLimit, "an even spread", func() bool { return b.spread() <= 1 })
	time.Sleep(time.Minute)
	b.somewhere(time.Minute)
	b.mark()
	start := time.Now()
	c := b.start("c")
	<-c.Ready()
	var (
		even  time.Duration
		moved = make(map[string]time.Time) // when the transfer was seen
		worst time.Duration
	)
	mine := func(worker string) bool { return worker == c.id }
	b.until(gapLimit, "an even spread and all of it delivering", func() bool {
		leases := b.leases() // may be stale
		done := b.spreadOf(leases) <= 1
		if even == 0 && done {
			even = time.Since(start)
		}
		for k, l := range leases {
			if l.Owner != "c" || l.HandOffPending() {
				done = done && l.Owner != "c"
				continue
			}
			if moved[k].IsZero() {
				moved[k] = time.Now()
			}
			at, ok := b.firstBy(k, mine)
			done = done && ok
			if ok {
				worst = max(worst, at.Sub(moved[k]))
			}
		}
		return done
	})
	return []time.Duration{worst, even}
}

// restartGap is from Run of a worker that takes the place of one of its name to
// the first record of the last shard that was its own.
func restartGap(b *bed) []time.Duration {
	keep := func(c *scheduler.Config) { c.KeepLeasesOnStop = true }
	for _, name := range []string{"a", "b", "c"} {
		b.start(name, keep)
	}
	b.until(gapLimit, "an even spread", func() bool { return b.spread() <= 1 })
	time.Sleep(30 * time.Second)
	b.somewhere(30 * time.Second)
	w := b.workers[b.rng.IntN(3)]
	shards := b.owned(w.name)
	w.cancel()
	<-w.done
	b.mark()
	start := time.Now()
	again := b.start(w.name, keep)
	mine := func(worker string) bool { return worker == again.id }
	b.until(gapLimit, "its shards deliver again", func() bool {
		return !slices.ContainsFunc(shards, func(s string) bool { _, ok := b.firstBy(s, mine); return !ok })
	})
	return []time.Duration{time.Since(start)}
}
