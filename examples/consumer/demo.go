package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/go-kcl/kcl/kcltest"
)

const (
	// The demonstration ends within a minute, whatever happens, but for that of
	// -load: demoLimit is for all but the stop, stopLimit for a graceful one. After
	// that the library takes seconds.
	demoLimit = 50 * time.Second
	stopLimit = 4 * time.Second
	// drainLimit is how long the last records may take to be processed.
	drainLimit = 30 * time.Second
)

// demo is one run of the demonstration.
type demo struct {
	o        options
	aws      *kcltest.AWS
	admin    *kinesis.Client
	ledger   *ledger
	lists    *listings
	fleet    *fleet
	producer *producer
	screen   *screen
	start    time.Time
	phases   []phase // with -load, those that are over
}

func demonstrate(ctx context.Context, o options, stdout, stderr io.Writer) error {
	limit := demoLimit
	if o.load {
		limit = loadLimit
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done after %v", limit))
	defer cancel()
	d, err := newDemo(o, stdout, stderr)
	if err != nil {
		return err
	}
	if o.load {
		d.screen.say("%d workers, %d shards of %d KB a second each, on the embedded AWS; speeds in brackets", o.workers, o.shards, shardKBps)
	} else {
		d.screen.say("%d workers, %d shards, %d records of %d bytes, on the embedded AWS", o.workers, o.shards, o.records, o.recordSize)
	}
	run := context.WithoutCancel(ctx) // the workers are stopped by us, not by the signal
	for _, w := range d.fleet.workers {
		go w.run(run) // stopped and awaited below
	}
	watched := make(chan struct{})
	watch, endWatch := context.WithCancel(run)
	go func() { defer close(watched); d.watch(watch) }()

	err = d.play(ctx)

	stop, cancelStop := context.WithTimeout(run, stopLimit)
	defer cancelStop()
	err = errors.Join(err, d.fleet.stop(stop))
	endWatch()
	<-watched
	d.screen.clear()

	r := d.report()
	if o.json {
		return errors.Join(r.writeJSON(stdout), err, r.verdict())
	}
	r.write(stdout)
	return errors.Join(err, r.verdict())
}

func newDemo(o options, stdout, stderr io.Writer) (*demo, error) {
	log := io.Discard
	if o.verbose {
		log = stderr
	}
	d := &demo{
		o: o, ledger: newLedger(), lists: new(listings), fleet: new(fleet), start: time.Now(),
		aws: kcltest.New(kcltest.Options{Seed: o.seed}), screen: newScreen(stdout),
	}
	d.admin = kinesis.NewFromConfig(d.aws.Config("producer"))
	if o.load {
		d.screen.rows(loadEvery)
	}
	d.producer = &producer{client: d.admin, ledger: d.ledger, records: o.records, size: o.recordSize, rng: rand.New(rand.NewPCG(o.seed, 0))}
	if err := d.aws.CreateStream(demoStream, o.shards); err != nil {
		return nil, err
	}
	for i := range o.workers {
		var c *cpu
		if o.load {
			c = newCPU(i)
		}
		w, err := newWorker(fmt.Sprintf("worker-%d", i+1), d.aws, d.ledger, d.lists, log, c)
		if err != nil {
			return nil, err
		}
		d.fleet.workers = append(d.fleet.workers, w)
	}
	return d, nil
}

// play is what happens between start and stop.
func (d *demo) play(ctx context.Context) error {
	for _, w := range d.fleet.workers {
		select {
		case <-w.Ready():
		case <-w.done:
			return fmt.Errorf("worker %s: %w", w.name, w.err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if d.o.load {
		return d.balance(ctx)
	}
	return d.disturb(ctx)
}

// disturb has records flow, reshards and kills, until all is processed.
func (d *demo) disturb(ctx context.Context) error {
	put := make(chan error, 1)
	producing, endProducing := context.WithCancel(ctx)
	var producer sync.WaitGroup
	producer.Go(func() { put <- d.producer.run(producing, d.o.shards) })
	defer producer.Wait()
	defer endProducing()
	events := d.script()
	for putting := true; putting || len(events) > 0; {
		var next <-chan time.Time
		if len(events) > 0 {
			next = time.After(time.Until(d.start.Add(events[0].at)))
		}
		select {
		case err := <-put:
			if err != nil {
				return err
			}
			putting, put = false, nil
			d.screen.say("all %d records are put", d.o.records)
		case <-next:
			if err := events[0].do(ctx); err != nil {
				return err
			}
			events = events[1:]
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return d.drain(ctx)
}

type event struct {
	at time.Duration
	do func(context.Context) error
}

// script is what happens while records flow.
func (d *demo) script() []event {
	var events []event
	if d.o.reshard {
		events = append(events, event{5 * time.Second, d.split})
		if d.o.shards > 1 {
			events = append(events, event{9 * time.Second, d.merge})
		}
	}
	if d.o.kill && d.o.workers > 1 {
		events = append(events, event{12 * time.Second, d.kill})
	}
	return events
}

// split divides the first shard in the middle.
func (d *demo) split(ctx context.Context) error {
	out, err := d.admin.ListShards(ctx, &kinesis.ListShardsInput{StreamName: aws.String(demoStream)})
	if err != nil {
		return fmt.Errorf("split: %w", err)
	}
	first := out.Shards[0]
	d.screen.say("shard %s is split", short(*first.ShardId))
	_, err = d.admin.SplitShard(ctx, &kinesis.SplitShardInput{
		StreamName: aws.String(demoStream), ShardToSplit: first.ShardId, NewStartingHashKey: aws.String(middle(first.HashKeyRange)),
	})
	return err
}

// merge joins the last two shards that the stream began with or, where there is
// but one of them left, those that the first was split into.
func (d *demo) merge(ctx context.Context) error {
	out, err := d.admin.ListShards(ctx, &kinesis.ListShardsInput{
		StreamName: aws.String(demoStream), ShardFilter: &types.ShardFilter{Type: types.ShardFilterTypeAtLatest},
	})
	if err != nil {
		return fmt.Errorf("merge: %w", err)
	}
	left, right := adjacent(out.Shards)
	if left == "" {
		return nil
	}
	d.screen.say("shards %s and %s are merged", short(left), short(right))
	_, err = d.admin.MergeShards(ctx, &kinesis.MergeShardsInput{
		StreamName: aws.String(demoStream), ShardToMerge: aws.String(left), AdjacentShardToMerge: aws.String(right),
	})
	return err
}

// kill cuts a worker off that owns shards and does not lead.
func (d *demo) kill(context.Context) error {
	w := d.fleet.victim()
	if w == nil {
		d.screen.say("no worker but the leader holds a lease, so none is killed")
		return nil
	}
	w.wire.cut.Store(true)
	d.screen.say("%s is killed; it held %d leases", w.name, len(w.Status().Leases))
	return nil
}

// drain waits until every record is processed and every closed shard ended.
func (d *demo) drain(ctx context.Context) error {
	limit := time.After(drainLimit)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if c := d.ledger.counts(); c.Missing == 0 && c.ShardsEnded == d.closedShards() {
			return nil
		}
		select {
		case <-tick.C:
		case <-limit:
			return fmt.Errorf("not all is processed %v after the last record was put", drainLimit)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (d *demo) closedShards() (n int) {
	for _, s := range d.aws.Shards(demoStream) {
		if s.Closed {
			n++
		}
	}
	return n
}

// watch samples the fleet and shows the progress.
func (d *demo) watch(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		at := time.Since(d.start)
		d.fleet.look(at)
		if d.o.load {
			d.screen.progress(at, d.loadRow())
		} else {
			d.screen.progress(at, d.line())
		}
	}
}

func (d *demo) line() string {
	leader, leases := d.fleet.now()
	c := d.ledger.counts()
	return fmt.Sprintf("put %d, processed %d, leases %v, leader %s", c.Put, c.Processed, leases, cmp.Or(leader, "none yet"))
}

func middle(r *types.HashKeyRange) string {
	a, _ := new(big.Int).SetString(aws.ToString(r.StartingHashKey), 10)
	b, _ := new(big.Int).SetString(aws.ToString(r.EndingHashKey), 10)
	return a.Add(a, b).Rsh(a, 1).String()
}

// adjacent returns the last two shards that lie side by side.
func adjacent(shards []types.Shard) (left, right string) {
	for _, l := range shards {
		end, _ := new(big.Int).SetString(aws.ToString(l.HashKeyRange.EndingHashKey), 10)
		next := end.Add(end, big.NewInt(1)).String()
		for _, r := range shards {
			if aws.ToString(r.HashKeyRange.StartingHashKey) == next {
				left, right = aws.ToString(l.ShardId), aws.ToString(r.ShardId)
			}
		}
	}
	return left, right
}

// short is a shard's number.
func short(shardID string) string {
	const prefix = "shardId-"
	i := len(prefix)
	for i < len(shardID)-1 && shardID[i] == '0' {
		i++
	}
	return shardID[i:]
}
