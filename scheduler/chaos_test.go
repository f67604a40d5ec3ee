package scheduler

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	ktypes "github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/ddb"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/lease"
)

var (
	chaosSeed = flag.Uint64("chaos.seed", 1, "first seed of TestChaos")
	chaosRuns = flag.Int("chaos.runs", 4, "number of seeds that TestChaos runs")
	chaosLog  = flag.String("chaos.log", "", "file for the workers' logs of a seed that fails")
)

// Fleets of workers go through what a seed makes of freezes, partitions, deaths,
// stops, reshards, failing processors and services that refuse, lose, delay and
// forget. Then all is well again, and everything must have been processed, in
// order, under checkpoints that never lied.
func TestChaos(t *testing.T) {
	for i := range *chaosRuns {
		seed := *chaosSeed + uint64(i)
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, seed)
			synctest.Test(t, func(t *testing.T) {
				c := newChaos(t, seed)
				t.Cleanup(c.end)
				c.rage()
				c.settle()
			})
		})
	}
}

// chaos is a fleet in trouble.
type chaos struct {
	*fleet
	seed  uint64
	rng   *rand.Rand // the driver's
	began time.Time
	book  *book
	loose sync.WaitGroup // goroutines that nobody else waits for
	lines lineLog

	// The fleet's set-up.
	common   Config
	shards   int
	most     int // workers
	lasts    time.Duration
	askFirst bool // leases are moved gracefully

	gentle bool   // only starts, stops, reshards and reads that lag
	halt   func() // stops the producer

	healed atomic.Bool
	storm  atomic.Pointer[storm]

	live    []*process // not known to be gone; the driver's
	started int

	mu sync.Mutex
	// Guarded by mu.
	processes map[string]*process
	rolls     map[string]uint64
	counts    map[string]int
	events    []string
}

func newChaos(t *testing.T, seed uint64) *chaos {
	rng := rand.New(rand.NewPCG(seed, 0))
	c := &chaos{
		seed: seed, rng: rng, began: time.Now(), shards: 2 + rng.IntN(11), most: 2 + rng.IntN(4),
		lasts:     5*time.Minute + time.Duration(rng.Int64N(int64(10*time.Minute))),
		processes: map[string]*process{}, rolls: map[string]uint64{}, counts: map[string]int{},
	}
	latency := time.Duration(1+rng.IntN(10)) * time.Millisecond
	if rng.IntN(4) == 0 {
		latency *= 30
	}
	c.fleet = &fleet{
		t: t, seen: make(map[string][]delivery), cut: make(map[string]bool),
		aws: kcltest.New(kcltest.Options{Seed: seed, Latency: latency}),
	}
	c.aws.Intercept(c.intercept)
	require.NoError(t, c.aws.CreateStream(testStream, c.shards))
	eyes := c.aws.Config("eyes")
	eyes.HTTPClient = direct{c.aws.Handler()}
	c.book = newBook(lease.NewStore(lease.StoreConfig{Client: dynamodb.NewFromConfig(eyes), Table: testApp}))
	c.book.lines = &c.lines

	seconds := func(least, most int) time.Duration {
		return time.Duration(1000*least+rng.IntN(1000*(most-least)+1)) * time.Millisecond
	}
	c.common.Leases = LeaseConfig{
		FailoverTime: seconds(2, 10), GracefulHandoffTimeout: seconds(2, 30), NoGracefulHandoff: rng.IntN(5) == 0,
		CleanupInterval: seconds(1, 5), CompletedCleanupInterval: seconds(1, 10), GarbageCleanupInterval: seconds(5, 30),
		WorkerReportInterval: seconds(1, 30), MaxRenewals: 1 + rng.IntN(20), RequestTimeout: seconds(1, 10),
	}
	if c.gentle = rng.IntN(4) == 0; c.gentle {
		c.common.Leases.NoGracefulHandoff = false
		c.healed.Store(true)
	}
	c.askFirst = !c.common.Leases.NoGracefulHandoff
	if rng.IntN(3) == 0 {
		c.common.Leases.AssignmentInterval = seconds(1, 10)
	}
	if rng.IntN(4) == 0 {
		c.common.Leases.MaxLeasesForWorker = 12
	}
	c.common.Leader.LeaseDuration = seconds(3, 30)
	c.common.Leader.HeartbeatPeriod = (c.common.Leader.LeaseDuration / time.Duration(2+rng.IntN(3))).Truncate(time.Millisecond)
	c.common.Polling.RequestTimeout = seconds(1, 10)
	c.common.Shards = ShardConfig{
		AuditorInterval: seconds(2, 60), AuditorConfidence: 1 + rng.IntN(3), ListShardsBackoff: seconds(1, 2), ListShardsTimeout: seconds(1, 10),
	}
	c.common.StopTimeout = seconds(5, 20)
	c.halt = c.produce(200 * time.Millisecond)
	return c
}

// start runs a worker under a name of its own or one that is free again.
func (c *chaos) start() {
	taken := map[string]bool{}
	for _, p := range c.live {
		taken[p.name] = true
	}
	var free []string
	for i := range 2 * c.most {
		if name := fmt.Sprint("w", i); !taken[name] {
			free = append(free, name)
		}
	}
	name := free[c.rng.IntN(len(free))]
	c.started++
	p := &process{
		c: c, name: name, client: fmt.Sprintf("%s#%d", name, c.started), style: styles[c.rng.IntN(len(styles))], keep: c.rng.IntN(4) == 0 && !c.gentle,
	}
	c.mu.Lock()
	c.processes[p.client] = p
	c.mu.Unlock()
	polling := c.common.Polling
	polling.IdleTimeBetweenReads = time.Duration(200+c.rng.IntN(1800)) * time.Millisecond
	switch c.rng.IntN(4) {
	case 0:
		polling.NoPrefetch = true
	case 1:
		polling.MaxRecords, polling.MaxPendingProcessRecordsInput, polling.MaxBufferedRecords = 10+c.rng.IntN(20), 1, 10
	}
	p.member = c.fleet.start(name, func(cfg *Config) {
		cfg.AWS = c.aws.Config(p.client)
		cfg.AWS.HTTPClient = tap{cfg.AWS.HTTPClient}
		cfg.Logger = slog.New(slog.NewTextHandler(&c.lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
		cfg.Leases, cfg.Leader, cfg.Shards, cfg.StopTimeout = c.common.Leases, c.common.Leader, c.common.Shards, c.common.StopTimeout
		cfg.Polling, cfg.KeepLeasesOnStop, cfg.OnFailure = polling, p.keep, p.onFailure
		cfg.Handler = nil
		if p.style == "handler" {
			cfg.Handler = func(ctx context.Context, b *kcl.Batch) error {
				return (&processor{p: p, shard: b.Shard.ShardID}).ProcessRecords(ctx, b)
			}
			return
		}
		cfg.NewProcessor = func(_ context.Context, s kcl.ShardInfo) (kcl.RecordProcessor, error) {
			return &processor{p: p, shard: s.ShardID}, nil
		}
	})
	c.live = append(c.live, p)
	c.log("start %s, %s, keep %v, no prefetch %v, max records %d", p.client, p.style, p.keep, polling.NoPrefetch, polling.MaxRecords)
}

// rage lets things happen.
func (c *chaos) rage() {
	c.log("%d shards, at most %d workers, for %s; %+v %+v %+v", c.shards, c.most, c.lasts.Round(time.Second), c.common.Leases, c.common.Leader, c.common.Shards)
	for range c.most {
		c.start()
	}
	for time.Since(c.began) < c.lasts {
		time.Sleep(time.Duration(c.rng.Int64N(int64(15 * time.Second))))
		c.reap()
		c.happen()
		c.check()
	}
}

// happen is one event.
func (c *chaos) happen() {
	d := 5*time.Second + time.Duration(c.rng.Int64N(int64(55*time.Second)))
	event := c.rng.IntN(100)
	if event < 35 && c.reshard(event) {
		return
	}
	var up []*process
	for _, p := range c.live {
		if !p.dead.Load() && !p.stopped.Load() {
			up = append(up, p)
		}
	}
	if len(up) < 2 && event < 70 || len(up) == 0 || event < 25 && len(up) < c.most {
		c.start()
		return
	}
	p := up[c.rng.IntN(len(up))]
	switch {
	case event < 37, c.gentle && event < 90:
		c.log("stop %s", p.client)
		p.stopped.Store(true)
		p.cancel()
	case event < 40:
		c.log("stop %s within %s", p.client, d/20)
		p.stopped.Store(true)
		p.hurt()
		c.loose.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), d/20)
			defer cancel()
			_ = p.Shutdown(ctx)
		})
	case event < 50:
		c.log("kill %s", p.client)
		c.kill(p)
	case event < 60:
		c.log("freeze %s for %s", p.client, d)
		p.freeze(d)
	case event < 75:
		both, n := c.rng.IntN(3) == 0, c.rng.IntN(2)
		c.log("cut %s off for %s, from both services: %v, else from %d", p.client, d, both, n)
		for i := range p.cutUntil {
			if both || i == n {
				p.cutUntil[i].Store(time.Now().Add(d).UnixNano())
			}
		}
	case event < 77:
		c.log("delete the leader's lock")
		_, err := dynamodb.NewFromConfig(c.aws.Config("test")).DeleteItem(c.t.Context(), &dynamodb.DeleteItemInput{
			TableName: aws.String(testApp), Key: map[string]types.AttributeValue{"leaseKey": &types.AttributeValueMemberS{Value: "Leader"}},
		})
		require.NoError(c.t, err)
	case event < 90:
		s := &storm{odds: 50 + c.rng.IntN(800), until: time.Now().Add(d)}
		switch c.rng.IntN(4) {
		case 0:
			s.service = "dynamodb"
		case 1:
			s.service = "kinesis"
		case 2:
			ops := []string{"UpdateItem", "PutItem", "GetItem", "Query", "Scan", "GetRecords", "GetShardIterator", "ListShards", "DeleteItem"}
			s.operation = ops[c.rng.IntN(len(ops))]
		}
		c.log("storm over %q%q at %d for %s", s.service, s.operation, s.odds, d)
		c.storm.Store(s)
	default:
		stale, index := time.Duration(c.rng.Int64N(int64(3*time.Second))), time.Duration(c.rng.Int64N(int64(10*time.Second)))
		c.log("reads stale by %s, index by %s", stale, index)
		c.aws.SetLag(stale, index)
	}
}

// kill ends a process at once: nothing that it does from now on reaches anybody.
func (c *chaos) kill(p *process) {
	p.dead.Store(true)
	p.unfreeze()
	c.loose.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.Shutdown(ctx)
	})
}

// reshard splits or merges, if it can.
func (c *chaos) reshard(event int) bool {
	k, open := c.kinesis(), c.open()
	i := c.rng.IntN(len(open))
	var err error
	switch {
	case event < 15 && len(open) < 16:
		r := rangeOf(open[i])
		middle := r.Start
		middle.Hi += (r.End.Hi - r.Start.Hi) / 2
		_, err = k.SplitShard(c.t.Context(), &kinesis.SplitShardInput{
			StreamName: aws.String(testStream), ShardToSplit: open[i].ShardId, NewStartingHashKey: aws.String(middle.String()),
		})
	case event < 30 && i+1 < len(open) && len(open) > 2:
		_, err = k.MergeShards(c.t.Context(), &kinesis.MergeShardsInput{
			StreamName: aws.String(testStream), ShardToMerge: open[i].ShardId, AdjacentShardToMerge: open[i+1].ShardId,
		})
	case event < 33:
		n := 2 * len(open)
		if n > 16 {
			n = len(open) / 2
		}
		_, err = k.UpdateShardCount(c.t.Context(), &kinesis.UpdateShardCountInput{
			StreamName: aws.String(testStream), ScalingType: ktypes.ScalingTypeUniformScaling, TargetShardCount: aws.Int32(int32(n)),
		})
	default:
		return false
	}
	switch ddb.Code(err) {
	case "ResourceInUseException", "LimitExceededException", "InvalidArgumentException": // a reshard is under way
		return false
	}
	require.NoError(c.t, err)
	c.log("reshard %s, of %d", *open[i].ShardId, len(open))
	return true
}

// open returns the open shards, by hash range.
func (c *chaos) open() []ktypes.Shard {
	out, err := c.kinesis().ListShards(c.t.Context(), &kinesis.ListShardsInput{StreamName: aws.String(testStream)})
	require.NoError(c.t, err)
	open := slices.DeleteFunc(out.Shards, func(s ktypes.Shard) bool { return s.SequenceNumberRange.EndingSequenceNumber != nil })
	slices.SortFunc(open, func(a, b ktypes.Shard) int { return rangeOf(a).Start.Compare(rangeOf(b).Start) })
	return open
}

// feed puts a record into every open shard: one that never had any keeps its
// parents' leases from being deleted.
func (c *chaos) feed() (shards int) {
	open := c.open()
	for _, s := range open {
		_, err := c.kinesis().PutRecord(c.t.Context(), &kinesis.PutRecordInput{
			StreamName: aws.String(testStream), PartitionKey: aws.String("fed"), ExplicitHashKey: s.HashKeyRange.StartingHashKey, Data: []byte("fed"),
		})
		require.NoError(c.t, err)
	}
	return len(open)
}

func rangeOf(s ktypes.Shard) kcl.HashRange {
	r, err := kcl.ParseHashRange(*s.HashKeyRange.StartingHashKey, *s.HashKeyRange.EndingHashKey)
	if err != nil {
		panic(err)
	}
	return r
}

// reap takes note of the processes that have ended.
func (c *chaos) reap() {
	c.live = slices.DeleteFunc(c.live, func(p *process) bool {
		select {
		case <-p.done:
		default:
			return false
		}
		c.log("%s has ended: %v", p.client, p.err)
		if p.err != nil && !p.dead.Load() && !c.excused(p) {
			c.t.Errorf("%s ended without a reason: %v", p.client, p.err)
		}
		return true
	})
}

// excused reports whether a process may have ended with its error.
func (c *chaos) excused(p *process) bool {
	if errors.Is(p.err, errChaos) { // StopWorker
		return true
	}
	if p.stopped.Load() && errors.Is(p.err, kcl.ErrStopping) { // callbacks were too slow
		return true
	}
	return !p.sound()
}

// check fails the test if something went wrong.
func (c *chaos) check() {
	c.t.Helper()
	if wrong := c.book.errors(); len(wrong) > 0 {
		c.t.Fatal(strings.Join(wrong[:min(len(wrong), 20)], "\n"))
	}
	if c.t.Failed() {
		c.t.FailNow()
	}
}

func (c *chaos) heal() {
	c.healed.Store(true)
	c.storm.Store(nil)
	c.aws.SetLag(0, 0)
	for _, p := range c.live {
		p.unfreeze()
		for i := range p.cutUntil {
			p.cutUntil[i].Store(0)
		}
		if p.parked.Load() { // nobody else gets its shard before
			p.stopped.Store(true)
			p.cancel()
		}
	}
}

// settle heals everything and waits for the fleet to be as it should.
func (c *chaos) settle() {
	c.log("heal")
	c.heal()
	up := func() (names map[string]int) {
		for {
			c.reap()
			names = make(map[string]int)
			for _, p := range c.live {
				if !p.dead.Load() && !p.stopped.Load() {
					names[p.name] = 0
				}
			}
			if len(names) > 1 {
				return names
			}
			c.start()
		}
	}
	c.wait(time.Minute, "the last reshard", func() bool {
		out, err := c.kinesis().DescribeStreamSummary(c.t.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: aws.String(testStream)})
		return err == nil && out.StreamDescriptionSummary.StreamStatus == ktypes.StreamStatusActive
	})
	fed := c.feed()
	l := c.common.Leases
	grace := max(2*l.FailoverTime, 20*time.Second, l.AssignmentInterval)
	bound := c.common.Leader.LeaseDuration + grace + 2*l.FailoverTime + 2*l.WorkerReportInterval + l.GracefulHandoffTimeout + 30*time.Second
	c.wait(bound, "every lease to be a live worker's", func() bool {
		live := up()
		for _, l := range c.table() {
			if _, ok := live[l.ActualOwner()]; !ok {
				return false
			}
		}
		return true
	})
	even := func() bool {
		live := up()
		all := c.table()
		least, most := len(all), 0
		if len(all) != fed {
			return false
		}
		for _, l := range all {
			if _, ok := live[l.Owner]; !ok || l.Ended() || l.HandOffPending() {
				return false
			}
			live[l.Owner]++
		}
		for _, n := range live {
			least, most = min(least, n), max(most, n)
		}
		return most-least <= 1
	}
	since := time.Now()
	c.wait(4*time.Minute, "leases to be spread evenly, and those of ended shards deleted", func() bool {
		if !even() {
			since = time.Now()
		}
		return time.Since(since) > 30*time.Second
	})
	c.wait(time.Minute, "stopping workers to be gone", func() bool { return len(up()) == len(c.live) })
	before := c.owners()
	time.Sleep(time.Minute)
	require.Equal(c.t, before, c.owners(), "in peace nothing moves")

	c.halt()
	c.wait(time.Minute, "all records", func() bool { return len(c.book.undelivered(c.aws.Shards(testStream))) == 0 })
	c.log("stop all")
	for _, p := range c.live {
		asked := time.Now()
		require.NoError(c.t, p.stop(), p.client)
		require.Less(c.t, time.Since(asked), c.common.StopTimeout, p.client)
		for _, l := range c.table() {
			require.False(c.t, !p.keep && l.ActualOwner() == p.name, "%s has stopped and still owns %s", p.client, l.Key)
		}
	}
	c.loose.Wait()
	if repeated := c.requireAllProcessed(); c.gentle {
		require.Zero(c.t, repeated, "records processed twice")
	}
	shards := c.aws.Shards(testStream)
	c.book.audit(shards)
	c.book.gaps(shards)
	c.check()
}

// table returns all leases.
func (c *chaos) table() []lease.Lease {
	all, err := c.book.eyes.List(context.Background())
	require.NoError(c.t, err)
	return all
}

func (c *chaos) wait(limit time.Duration, what string, ok func() bool) {
	c.t.Helper()
	began := time.Now()
	for !ok() {
		c.check()
		if time.Since(began) > limit {
			for _, l := range c.table() {
				c.log("%s: owner %q, checkpoint owner %q, counter %d, at %s, children %v", l.Key, l.Owner, l.CheckpointOwner, l.Counter, l.Checkpoint, l.Children)
			}
			missing := c.book.undelivered(c.aws.Shards(testStream))
			c.log("%d records missing, %s", len(missing), strings.Join(missing[:min(len(missing), 20)], ", "))
			for _, p := range c.live {
				c.log("%s: %+v", p.client, p.Status())
			}
			c.t.Fatalf("waited %s for %s", limit, what)
		}
		time.Sleep(time.Second)
	}
	c.log("waited %s of %s for %s", time.Since(began).Round(time.Second), limit, what)
	c.t.Logf("waited %s of %s for %s", time.Since(began).Round(time.Second), limit, what)
}

// end lets everything end, and tells the story of a failure.
func (c *chaos) end() {
	c.heal()
	c.halt()
	c.stopAll()
	c.loose.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.t.Failed() {
		c.t.Logf("seed %d:\n%s", c.seed, strings.Join(c.events, "\n"))
		if *chaosLog != "" {
			require.NoError(c.t, os.WriteFile(*chaosLog, c.lines.text, 0o600))
		}
	}
	c.t.Log(c.counts)
}

func (c *chaos) process(client string) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.processes[client]
}

func (c *chaos) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[what]++
}

func (c *chaos) log(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if os.Getenv("CHAOS_LIVE") != "" {
		fmt.Fprintf(os.Stderr, "%8.3f ", time.Since(c.began).Seconds())
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}
	c.events = append(c.events, fmt.Sprintf("%8.3f ", time.Since(c.began).Seconds())+fmt.Sprintf(format, args...))
}

// lineLog keeps the workers' logs.
type lineLog struct {
	mu   sync.Mutex
	text []byte // guarded by mu
}

func (l *lineLog) Write(b []byte) (int, error) {
	if *chaosLog == "" {
		return len(b), nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	return len(b), nil
}
