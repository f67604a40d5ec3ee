package sim

import (
	"context"
	"flag"
	"fmt"
	"math/big"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/scheduler"
)

var fullDay = flag.Bool("full-day", false, "run the whole day of TestDay, the hour of TestHour, those of TestFleetWithJava, and all lives of TestMigration")

// stretch is a long quiet time of a large fleet, with a reshard now and then.
type stretch struct {
	workers, shards int
	lasts, drain    time.Duration
	reshardEvery    time.Duration
	putEvery        time.Duration
	change          func(*scheduler.Config)
}

// unsigned spares a fleet the signing of its calls, which nobody checks here.
func unsigned(c *scheduler.Config) { c.AWS.Credentials = aws.AnonymousCredentials{} }

// slow are settings for a fleet that may take its time.
func slow(c *scheduler.Config) {
	c.Leases.FailoverTime, c.Leases.AssignmentInterval = 5*time.Minute, time.Minute
	c.Polling.IdleTimeBetweenReads = time.Minute
}

// A day of twenty workers on two hundred shards, a reshard an hour; without
// -full-day an hour of three workers on ten.
func TestDay(t *testing.T) {
	s := stretch{workers: 3, shards: 10, lasts: time.Hour, drain: 10 * time.Minute, reshardEvery: 20 * time.Minute, putEvery: time.Minute, change: slow}
	if *fullDay {
		s.workers, s.shards, s.lasts, s.reshardEvery = 20, 200, 24*time.Hour, time.Hour
	}
	s.run(t)
}

// An hour of such a fleet at default settings; without -full-day two minutes
// of three workers on ten shards.
func TestHour(t *testing.T) {
	s := stretch{workers: 3, shards: 10, lasts: 2 * time.Minute, drain: 30 * time.Second, reshardEvery: 40 * time.Second, putEvery: time.Second, change: func(*scheduler.Config) {}}
	if *fullDay {
		s.workers, s.shards, s.lasts, s.reshardEvery = 20, 200, time.Hour, 10*time.Minute
	}
	s.run(t)
}

func (s stretch) run(t *testing.T) {
	if *fullDay {
		// No two goroutines of a bubble have work at one instant, but other
		// processors would look for some.
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		// A call leaves tens of kilobytes behind, of little that lives.
		defer debug.SetGCPercent(debug.SetGCPercent(2000))
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 30))
	}
	real := time.Now()
	inBed(t, 1, s.shards, kcltest.Options{Latency: 5 * time.Millisecond}, func(b *bed) {
		for i := range s.workers {
			b.start(fmt.Sprintf("worker-%02d", i), unsigned, s.change)
		}
		stop := b.produceSlowly(s.shards, s.putEvery)
		b.until(10*time.Minute, "an even spread", func() bool { time.Sleep(time.Second); return b.spread() <= 1 })
		for end := time.Now().Add(s.lasts); time.Now().Before(end); time.Sleep(s.reshardEvery) {
			b.reshard()
		}
		stop()
		time.Sleep(s.drain)
		for _, w := range b.workers {
			w.cancel()
		}
		for _, w := range b.workers {
			<-w.done
			assert.NoError(t, w.err, w.name)
		}
		repeated := b.requireAll()
		assert.Zero(t, repeated, "nothing went wrong, so nothing is repeated")
		calls := b.callsByOperation()
		b.t.Logf("%v of %d workers and %d shards: %d records, %d calls %v", s.lasts, s.workers, s.shards, len(b.deliveries), sum(calls), calls)
	})
	t.Logf("in %v", time.Since(real).Round(time.Millisecond))
}

// A fleet at rest makes the calls that its settings ask for, and no others. What
// a lease and a worker may cost is in config-metrics-operations 9.5.
func TestCallsOfAFleetAtRest(t *testing.T) {
	const workers, shards, minutes = 3, 6, 10
	type perMinute struct{ reads, renewals, discoveries, scans float64 }
	for name, tc := range map[string]struct {
		change func(*scheduler.Config)
		perMinute
	}{
		"as it comes": {func(*scheduler.Config) {}, perMinute{reads: 40, renewals: 18.2, discoveries: 30, scans: 30}},
		"slow":        {slow, perMinute{reads: 1, renewals: 0.61, discoveries: 2.01, scans: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			inBed(t, 1, shards, kcltest.Options{Latency: 5 * time.Millisecond}, func(b *bed) {
				for i := range workers {
					b.start(fmt.Sprintf("worker-%02d", i), unsigned, tc.change)
				}
				b.until(10*time.Minute, "an even spread", func() bool { time.Sleep(time.Second); return b.spread() <= 1 })
				time.Sleep(5 * time.Minute)
				b.aws.ResetCalls()
				time.Sleep(minutes * time.Minute)

				calls := b.callsByOperation()
				for operation, most := range map[string]float64{
					"GetRecords": shards * tc.reads,
					"UpdateItem": shards*tc.renewals + workers*2 + 6, // the workers' rows, the leader's lock
					"GetItem":    (workers - 1) * 6,                  // of that lock
					"Query":      workers * tc.discoveries,
					"Scan":       tc.scans,
					// The leader looks whether somebody has made a legacy table.
					"DescribeTable": 0.1,
				} {
					// Each worker's loop may have just begun another round.
					assert.LessOrEqual(b.t, float64(calls[operation]), minutes*most+workers, operation)
					delete(calls, operation)
				}
				assert.Empty(b.t, calls)
			})
		})
	}
}

func (b *bed) callsByOperation() map[string]int {
	calls := make(map[string]int)
	for _, c := range b.aws.Calls() {
		calls[c.Operation] += c.Calls
	}
	return calls
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// produceSlowly puts so many records now and then.
func (b *bed) produceSlowly(records int, every time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		k := b.kinesis()
		for n := 0; ; {
			in := &kinesis.PutRecordsInput{StreamName: aws.String(simStream)}
			for range records {
				n++
				in.Records = append(in.Records, types.PutRecordsRequestEntry{PartitionKey: aws.String(fmt.Sprint(n)), Data: []byte("x")})
			}
			if _, err := k.PutRecords(ctx, in); err != nil && ctx.Err() == nil {
				b.t.Errorf("put: %v", err)
			}
			select {
			case <-time.After(every):
			case <-ctx.Done():
				return
			}
		}
	}()
	stop = func() { cancel(); <-done }
	b.t.Cleanup(stop)
	return stop
}

// reshard splits one open shard, and merges two that lie side by side.
func (b *bed) reshard() {
	b.t.Helper()
	open := b.openShards()
	require.NoError(b.t, b.split(open[b.rng.IntN(len(open))]))
	time.Sleep(3 * time.Second)
	open = b.openShards()
	i := b.rng.IntN(len(open) - 1)
	require.NoError(b.t, b.merge(open[i], open[i+1]))
}

// split divides a shard in the middle.
func (b *bed) split(s types.Shard) error {
	from, _ := new(big.Int).SetString(*s.HashKeyRange.StartingHashKey, 10)
	to, _ := new(big.Int).SetString(*s.HashKeyRange.EndingHashKey, 10)
	middle := from.Add(from, to).Add(from, big.NewInt(1)).Rsh(from, 1)
	_, err := b.kinesis().SplitShard(b.t.Context(), &kinesis.SplitShardInput{
		StreamName: aws.String(simStream), ShardToSplit: s.ShardId, NewStartingHashKey: aws.String(middle.String()),
	})
	return err
}

// merge makes one shard of two that lie side by side.
func (b *bed) merge(left, right types.Shard) error {
	_, err := b.kinesis().MergeShards(b.t.Context(), &kinesis.MergeShardsInput{
		StreamName: aws.String(simStream), ShardToMerge: left.ShardId, AdjacentShardToMerge: right.ShardId,
	})
	return err
}

// openShards returns the open shards in the order of their hash keys.
func (b *bed) openShards() []types.Shard {
	b.t.Helper()
	out, err := b.kinesis().ListShards(b.t.Context(), &kinesis.ListShardsInput{
		StreamName: aws.String(simStream), ShardFilter: &types.ShardFilter{Type: types.ShardFilterTypeAtLatest},
	})
	require.NoError(b.t, err)
	key := func(s types.Shard) *big.Int {
		k, _ := new(big.Int).SetString(*s.HashKeyRange.StartingHashKey, 10)
		return k
	}
	slices.SortFunc(out.Shards, func(x, y types.Shard) int { return key(x).Cmp(key(y)) })
	return out.Shards
}

// seen is what was delivered of a shard.
type seen struct {
	order map[string]int // of first deliveries, by sequence number
	last  kcl.Position
}

func (s *seen) delivered(number string) bool {
	_, ok := s.order[number]
	return ok
}

// requireAll checks that every record the stream holds was delivered, first
// deliveries in order and after the parents'; it returns how many were repeated.
func (b *bed) requireAll() (repeated int) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	shards := make(map[string]*seen)
	for i, d := range b.deliveries {
		s := shards[d.shard]
		if s == nil {
			s = &seen{order: make(map[string]int)}
			shards[d.shard] = s
		}
		if _, again := s.order[d.position.SequenceNumber]; again {
			repeated++
			continue
		}
		if d.position.Compare(s.last) <= 0 {
			require.Failf(b.t, "out of order", "shard %s: %s after %s", d.shard, d.position, s.last)
		}
		s.order[d.position.SequenceNumber], s.last = i, d.position
	}
	span := func(id string) (first, last int) {
		first, last = 1<<62, -1
		if s := shards[id]; s != nil {
			for _, i := range s.order {
				first, last = min(first, i), max(last, i)
			}
		}
		return first, last
	}
	for _, s := range b.aws.Shards(simStream) {
		for _, r := range s.Records {
			if d := shards[s.ID]; d == nil || !d.delivered(r.SequenceNumber) {
				require.Failf(b.t, "never delivered", "%s of shard %s", r.SequenceNumber, s.ID)
			}
		}
		first, _ := span(s.ID)
		for _, p := range s.Parents {
			_, last := span(p)
			require.Greater(b.t, first, last, "shard %s before its parent %s", s.ID, p)
		}
	}
	return repeated
}
