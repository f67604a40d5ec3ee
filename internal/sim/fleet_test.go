package sim

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/go-kcl/kcl/coordinator/assignment"
	"github.com/go-kcl/kcl/kcltest"
)

var (
	firstSeed = flag.Uint64("seed", 0, "the seed that TestFleet and TestFleetByLoad play, or the first of -seeds")
	seeds     = flag.Int("seeds", 1, "how many seeds they play from -seed on")
	anySeeds  = flag.Int("any-seeds", 0, "let them play so many seeds that nobody has chosen, and tell what they find without failing")
	follow    = flag.Bool("follow", false, "print their logs as it is written")
	shrinking = flag.Duration("shrink", time.Minute, "how long to look for a shorter scenario that fails as well")
	logFile   = flag.String("worker-log", "", "file for the workers' logs of a seed that fails")
)

// chosen are the seeds that are part of every run of the tests: of every profile
// one. By load, and under the race detector, it is some of them.
var chosen = []uint64{1, 2, 6, 15, 22}

// toPlay returns the seeds that the flags ask for, or those that are chosen.
func toPlay(chosen []uint64) (list []uint64) {
	switch {
	case *anySeeds > 0:
		for range *anySeeds {
			list = append(list, 1000+rand.Uint64N(1_000_000))
		}
	case *firstSeed > 0:
		for i := range *seeds {
			list = append(list, *firstSeed+uint64(i))
		}
	case racing:
		return chosen[:len(chosen)*3/5]
	default:
		return chosen
	}
	return list
}

// workerLog keeps the workers' logs of one play.
var workerLog lineLog

type lineLog struct {
	mu   sync.Mutex
	text []byte // guarded by mu
}

func (l *lineLog) Write(b []byte) (int, error) {
	if *logFile == "" {
		return len(b), nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	return len(b), nil
}

// Fleets of workers go through what a seed makes of deaths, freezes, partitions,
// stops, rolls, reshards, failing processors, and services that refuse, lose,
// delay and forget. Then all is well again, and everything must have been
// processed, in order, under checkpoints that never lied.
func TestFleet(t *testing.T) { playAll(t, assignment.LeaseCountBased, chosen) }

// The same scenarios with leases assigned by load, which workers measure, or do
// not, or not always.
func TestFleetByLoad(t *testing.T) { playAll(t, assignment.WorkerUtilizationAware, chosen[:3]) }

func playAll(t *testing.T, strategy assignment.Strategy, chosen []uint64) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // as repeatable as can be
	var sum tally
	for _, seed := range toPlay(chosen) {
		s := draw(seed)
		s.strategy = strategy
		r := stage(t, s)
		sum.add(r)
		t.Logf("seed %d, %s: %d calls, trace %x", s.seed, s.profile, r.calls, r.trace)
		if len(r.broken) > 0 {
			report(t, s, r)
		}
	}
	t.Log(sum.String())
}

// result is what came of a scenario.
type result struct {
	broken  []violation
	log     []string
	virtual time.Duration
	calls   int
	hits    map[string]int // calls, by kind of fault
	faults  map[string]int // put in force, by kind
	counts  map[string]int
	trace   uint64 // sums up every call and every line of the log
}

// stage plays a scenario in a bubble of its own.
func stage(t *testing.T, s *scenario) (r result) {
	t.Run(fmt.Sprintf("seed=%d/events=%d", s.seed, len(s.events)), func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, s.seed)
		workerLog.text = nil
		inBed(t, s.seed, s.shards, kcltest.Options{Latency: s.latency}, func(b *bed) {
			p := newPlay(b, s)
			p.perform()
			r = p.result()
		})
	})
	return r
}

func (p *play) result() result {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := result{broken: p.book.broken(), log: p.log, virtual: time.Since(p.began), trace: p.trace.Sum64(), hits: map[string]int{}, faults: map[string]int{}, counts: p.counts}
	for _, c := range p.aws.Calls() {
		r.calls += c.Calls
	}
	for name, list := range p.injected {
		r.faults[name] = len(list)
		for _, i := range list {
			r.hits[name] += i.Hits()
		}
	}
	return r
}

// report tells how to see a failure again, and its story in short.
func report(t *testing.T, s *scenario, r result) {
	complain := t.Errorf
	if *anySeeds > 0 {
		complain = t.Logf
	}
	complain("%s\n\nreplay: go test ./internal/sim -run '^%s$' -seed %d\n\n%s\n\n%s", r.broken[0], t.Name(), s.seed, s, strings.Join(r.log, "\n"))
	if *logFile != "" {
		if err := os.WriteFile(*logFile, workerLog.text, 0o600); err != nil {
			t.Error(err)
		}
	}
	short, again := shrink(t, s, r.broken[0].law)
	if len(short.events) < len(s.events) {
		t.Logf("%d of %d events are enough:\n%s\n\n%s", len(short.events), len(s.events), short, strings.Join(again.log, "\n"))
	}
}

// shrink leaves out events for as long as the same law is broken.
func shrink(t *testing.T, s *scenario, l law) (short *scenario, last result) {
	short = s
	started := time.Now()
	for n := len(s.events); n > 0; n /= 2 {
		for i := 0; i < len(short.events); {
			if time.Since(started) > *shrinking {
				return short, last
			}
			try := short.without(i, min(i+n, len(short.events)))
			r := stage(t, try)
			if slices.ContainsFunc(r.broken, func(v violation) bool { return v.law == l }) {
				short, last = try, r
			} else {
				i += n
			}
		}
	}
	return short, last
}

// tally sums up what many seeds went through.
type tally struct {
	seeds, calls int
	virtual      time.Duration
	counts       map[string]int
}

func (s *tally) add(r result) {
	if s.counts == nil {
		s.counts = map[string]int{}
	}
	s.seeds++
	s.calls += r.calls
	s.virtual += r.virtual
	for name, n := range r.hits {
		s.counts["calls hit: "+name] += n
		s.counts["faults: "+name] += r.faults[name]
	}
	for name, n := range r.counts {
		s.counts[name] += n
	}
}

func (s *tally) String() string {
	text := fmt.Sprintf("%d seeds, %.1f virtual hours, %d calls", s.seeds, s.virtual.Hours(), s.calls)
	for _, name := range slices.Sorted(maps.Keys(s.counts)) {
		text += fmt.Sprintf("\n%8d %s", s.counts[name], name)
	}
	return text
}
