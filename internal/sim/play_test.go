package sim

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/coordinator/assignment"
	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/scheduler"
	"github.com/go-kcl/kcl/workermetrics"
)

// play is a scenario that is played: first its events, then healing, and what
// must be so in peace.
type play struct {
	*bed
	*scenario
	world *world
	book  *book
	began time.Time
	loose sync.WaitGroup // goroutines that nobody else waits for

	healed   atomic.Bool
	orphaned atomic.Bool // the stream is gone
	vanished atomic.Bool // shards are, or were, gone before they were done

	// The driver's.
	back       time.Time  // when workers ran again after an outage
	live       []*process // not known to be gone
	generation int        // of settings
	calm       []*kcltest.Injection

	mu sync.Mutex
	// Guarded by mu.
	rolls    map[string]uint64 // of dice
	counts   map[string]int
	injected map[string][]*kcltest.Injection
	log      []string
	trace    hash.Hash64
}

// newPlay sets the scene, in a bubble.
func newPlay(b *bed, s *scenario) *play {
	p := &play{
		bed: b, scenario: s, began: time.Now(),
		rolls: map[string]uint64{}, counts: map[string]int{}, injected: map[string][]*kcltest.Injection{},
		trace: fnv.New64a(),
	}
	p.book = newBook(dynamodb.NewFromConfig(b.config()), p.tell)
	p.book.askFirst = !slices.ContainsFunc(s.settings, func(c scheduler.Config) bool { return c.Leases.NoGracefulHandoff })
	p.world = &world{b: b, feed: s.feed, rng: rand.New(rand.NewPCG(s.seed, 2))}
	b.aws.Intercept(func(ctx context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
		if a, ok := ctx.Value(attemptKey{}).(attempt); ok {
			p.mu.Lock()
			fmt.Fprintln(p.trace, time.Since(p.began), i.Client, i.Operation, a.key)
			p.mu.Unlock()
			return p.book.watch(a, i, run), nil
		}
		return run(), nil
	})
	return p
}

// tell adds a line to the log.
func (p *play) tell(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := fmt.Sprintf("%8.3f ", time.Since(p.began).Seconds()) + strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
	if *follow {
		fmt.Println(line)
	}
	p.log = append(p.log, line)
	fmt.Fprintln(p.trace, line)
}

// count counts what went wrong inside of processes.
func (p *play) count(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[what]++
}

// dice returns what is random about the next event of that name. It depends on
// the seed and on how many there were, not on what else goes on.
func (p *play) dice(name string) *rand.Rand {
	p.mu.Lock()
	n := p.rolls[name]
	p.rolls[name]++
	p.mu.Unlock()
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(p.seed^h.Sum64(), n))
}

// inject puts faults in force, for a while unless that is 0.
func (p *play) inject(faults []kcltest.Fault, lasts time.Duration) (all []*kcltest.Injection) {
	for _, f := range faults {
		f.For = lasts
		i := p.aws.Inject(f)
		all = append(all, i)
		name := f.Effect.String()
		if f.Code != "" {
			name = f.Code
		} else if f.Delay > 0 {
			name += ", delayed"
		}
		p.mu.Lock()
		p.injected[name] = append(p.injected[name], i)
		p.mu.Unlock()
	}
	return all
}

// perform plays the scenario to its end, or until a law is broken.
func (p *play) perform() {
	if p.profile == gentle {
		p.healed.Store(true)
	} else {
		p.calm = p.inject(drawing{rand.New(rand.NewPCG(p.seed, 3))}.faults(0.004), 0)
	}
	p.world.produce()
	defer p.end()
	for range p.most {
		p.start()
	}
	now := p.began // as events count it, for which no time passes while one happens
	for _, e := range p.events {
		time.Sleep(p.began.Add(e.at).Sub(now))
		now = p.began.Add(e.at)
		p.reap()
		p.happen(e)
		if p.check() {
			return
		}
	}
	time.Sleep(p.began.Add(p.lasts).Sub(now))
	p.settle()
}

// happen lets an event take place.
func (p *play) happen(e event) {
	i := slices.IndexFunc(occurrences, func(o occurrence) bool { return o.what == e.what })
	if told := occurrences[i].do(p, e, rand.New(rand.NewPCG(p.seed, e.pick))); told != "" {
		p.tell("%s", told)
		p.count("event: " + e.what)
	}
}

// up returns the processes that neither died nor were asked to stop.
func (p *play) up() (up []*process) {
	for _, x := range p.live {
		if !x.dead.Load() && !x.stopped.Load() {
			up = append(up, x)
		}
	}
	return up
}

// start runs a worker under a name of its own or one that is free again, with
// the settings of the present generation.
func (p *play) start() *process {
	d := p.dice("start")
	taken := map[string]bool{}
	for _, x := range p.live {
		taken[x.name] = true
	}
	var free []string
	for i := 0; len(free) <= p.most; i++ {
		if name := fmt.Sprint("w", i); !taken[name] {
			free = append(free, name)
		}
	}
	name := free[d.IntN(len(free))]
	x := &process{play: p, temper: tempers[d.IntN(len(tempers))], settings: p.settings[p.generation]}
	c := &x.settings
	c.KeepLeasesOnStop = d.IntN(4) == 0 && p.profile != gentle
	c.Polling.IdleTimeBetweenReads = drawing{d}.time(200*time.Millisecond, 2*time.Second)
	switch d.IntN(4) {
	case 0:
		c.Polling.NoPrefetch = true
	case 1:
		c.Polling.MaxRecords = 10 + d.IntN(20) + 2*p.feed.within(c.Polling.IdleTimeBetweenReads)
		c.Polling.MaxPendingProcessRecordsInput, c.Polling.MaxBufferedRecords = 1, 10
	}
	x.worker = p.add(name, func(c *scheduler.Config) {
		unsigned(c)
		c.Streams = kcl.SingleStream(simStream, p.initial())
		c.AWS.HTTPClient = boundary{x, c.AWS.HTTPClient}
		c.Leases, c.Leader, c.Shards, c.Polling = x.settings.Leases, x.settings.Leader, x.settings.Shards, x.settings.Polling
		c.Leases.AssignmentStrategy, c.Leases.WorkerUtilization = p.strategy, p.utilization()
		c.StopTimeout, c.KeepLeasesOnStop, c.OnFailure = x.settings.StopTimeout, x.settings.KeepLeasesOnStop, x.onFailure
		c.Logger = slog.New(slog.NewTextHandler(&workerLog, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c.Handler = nil
		if x.temper == "handler" {
			c.Handler = func(ctx context.Context, b *kcl.Batch) error {
				return (&processor{p: x, shard: b.Shard.ShardID}).ProcessRecords(ctx, b)
			}
			return
		}
		c.NewProcessor = func(_ context.Context, s kcl.ShardInfo) (kcl.RecordProcessor, error) {
			return &processor{p: x, shard: s.ShardID}, nil
		}
	})
	x.run()
	p.live = append(p.live, x)
	p.tell("start %s: %s, settings %d, keep %v, no prefetch %v, max records %d",
		x.id, x.temper, p.generation, c.KeepLeasesOnStop, c.Polling.NoPrefetch, c.Polling.MaxRecords)
	return x
}

// utilization is what a worker measures of itself: nothing, or a CPU that has
// little to do with its leases. Of a fleet some may and some may not.
func (p *play) utilization() scheduler.WorkerUtilizationConfig {
	u := scheduler.WorkerUtilizationConfig{DisableWorkerMetrics: true, CaptureInterval: 300 * time.Millisecond}
	if p.strategy == assignment.LeaseCountBased {
		return u
	}
	d := drawing{p.dice("load")}
	u.VarianceBalancingFrequency = d.between(1, 3)
	if d.IntN(3) > 0 {
		u.WorkerMetrics = []workermetrics.Metric{&whim{level: float64(d.between(0, 90)), dice: d}}
	}
	return u
}

// whim is a CPU that does as it likes.
type whim struct {
	level float64
	dice  drawing
}

func (*whim) Name() string        { return workermetrics.CPU }
func (*whim) OperatingRange() int { return 100 }

func (w *whim) Capture(context.Context) (float64, error) {
	if w.dice.IntN(200) == 0 {
		w.level = float64(w.dice.between(0, 100))
	}
	return min(100, w.level*(0.9+0.2*w.dice.Float64())), nil
}

// initial is where the application begins to read.
func (p *play) initial() kcl.InitialPosition {
	if p.instant {
		return kcl.AtTimestamp(p.began)
	}
	return kcl.TrimHorizon
}

// reap takes note of the processes that have ended.
func (p *play) reap() {
	p.live = slices.DeleteFunc(p.live, func(x *process) bool {
		select {
		case <-x.done:
		default:
			return false
		}
		if x.dead.Load() {
			p.tell("%s is gone", x.id)
			return true
		}
		p.tell("%s has ended: %v", x.id, x.err)
		if x.err != nil && !x.excused() {
			p.book.breaks(cleanEnd, "%s ended without a reason: %v", x.id, x.err)
		}
		if p.profile == gentle {
			p.book.buries(x, p.table())
		}
		return true
	})
}

// excused reports whether a process may have ended with its error.
func (x *process) excused() bool {
	switch {
	case x.dead.Load(), errors.Is(x.err, errCallback): // StopWorker
		return true
	case x.stopped.Load() && errors.Is(x.err, kcl.ErrStopping): // callbacks were too slow
		return true
	}
	return !x.sound() || x.play.orphaned.Load()
}

// check reports whether something went wrong, and looks at what each worker
// keeps.
func (p *play) check() (broken bool) {
	for _, x := range p.up() {
		if got := x.Status().BufferedBytes; got > 256<<20 {
			p.book.breaks(bounded, "%s has buffered %d bytes", x.id, got)
		}
	}
	return len(p.book.broken()) > 0
}

// heal ends all faults.
func (p *play) heal() {
	p.healed.Store(true)
	p.mu.Lock()
	var all []*kcltest.Injection
	for _, list := range p.injected {
		all = append(all, list...)
	}
	p.mu.Unlock()
	for _, i := range all {
		i.Remove()
	}
	p.aws.SetLag(0, 0)
	for _, x := range p.live {
		x.unfreeze()
		if x.parked.Load() { // nobody else gets its shard before
			x.stopped.Store(true)
			x.cancel()
		}
	}
}

// end lets everything end.
func (p *play) end() {
	p.heal()
	p.world.stop()
	for _, x := range p.live {
		x.cancel()
	}
	for _, x := range p.live {
		<-x.done
	}
	p.loose.Wait()
	p.leaves()
}

// table returns all leases.
func (p *play) table() []lease.Lease {
	all, err := p.book.eyes.List(context.Background())
	if err != nil {
		p.book.breaks(soundTable, "%v", err)
	}
	return all
}

// wait waits for something that must come within a time, and reports whether it
// came. Otherwise the law is broken.
func (p *play) wait(l law, limit time.Duration, what string, ok func() bool) bool {
	began := time.Now()
	for !ok() {
		if p.check() {
			return false
		}
		if time.Since(began) > limit {
			for _, l := range p.table() {
				p.tell("%s: %s, counter %d, at %s, children %v", l.Key, owners(l), l.Counter, l.Checkpoint, l.Children)
			}
			for _, x := range p.live {
				p.tell("%s: %+v", x.id, x.Status())
			}
			missing := p.missing()
			p.book.breaks(l, "waited %s for %s; %d records are missing: %v", limit, what, len(missing), missing[:min(len(missing), 10)])
			return false
		}
		time.Sleep(250 * time.Millisecond)
	}
	p.tell("waited %s of %s for %s", time.Since(began).Round(time.Millisecond), limit, what)
	return true
}
