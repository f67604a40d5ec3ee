package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-kcl/kcl/coordinator/assignment"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/scheduler"
)

// scenario is all that a seed decides before it is played: a plain value, from
// which events can be left out without changing the others.
type scenario struct {
	seed     uint64
	profile  profile
	shards   int
	most     int // so many at once, besides those that stop
	latency  time.Duration
	instant  bool // the application begins at an instant instead of the horizon: that of the stream's creation
	page     int  // so many items or shards a page; 0: as many as the services give
	feed     feed
	settings []scheduler.Config // of the generations of workers, one after another
	strategy assignment.Strategy
	lasts    time.Duration
	events   []event
}

// profile is the kind of trouble that a scenario is made of.
type profile int

const (
	stormy profile = iota // everything but the two below
	gentle                // only starts, stops, rolls, reshards and lag: nothing may be repeated
	outage                // stormy, and a while for which no worker runs and unread records are trimmed
	reborn                // stormy, and the stream is deleted and created anew
	profiles
)

func (p profile) String() string { return [...]string{"stormy", "gentle", "outage", "reborn"}[p] }

// event is something that befalls the fleet or its world. What it befalls is
// chosen by pick, among what is there at that time.
type event struct {
	at     time.Duration
	what   string
	pick   uint64
	lasts  time.Duration
	faults []kcltest.Fault
}

func (e event) String() string {
	return fmt.Sprintf("%8.3f %s, lasting %s%s", e.at.Seconds(), e.what, e.lasts, list(e.faults))
}

func list(faults []kcltest.Fault) (s string) {
	for _, f := range faults {
		s += "; " + describe(f)
	}
	return s
}

// describe tells what a fault does, to which calls.
func describe(f kcltest.Fault) string {
	s := f.Effect.String()
	if f.Code != "" {
		s = f.Code
	}
	if f.Delay > 0 {
		s += fmt.Sprint(" after ", f.Delay)
	}
	for _, list := range [][]string{f.Services, f.Operations, f.Clients} {
		if len(list) > 0 {
			s += " " + strings.Join(list, ",")
		}
	}
	if f.Chance > 0 {
		s += fmt.Sprintf(" %.1f %%", 100*f.Chance)
	}
	return s
}

func (s *scenario) String() string {
	lines := []string{fmt.Sprintf("seed %d, %s: %d shards, %d workers, %s a call, pages of %d, from an instant %v, %s, %s, for %s",
		s.seed, s.profile, s.shards, s.most, s.latency, s.page, s.instant, s.feed, s.strategy, s.lasts)}
	for i, c := range s.settings {
		lines = append(lines, fmt.Sprintf("settings %d: %+v %+v %+v, stop timeout %s", i, c.Leases, c.Leader, c.Shards, c.StopTimeout))
	}
	for _, e := range s.events {
		lines = append(lines, e.String())
	}
	return strings.Join(lines, "\n")
}

// without leaves out the events from i to j.
func (s *scenario) without(i, j int) *scenario {
	c := *s
	c.events = slices.Concat(s.events[:i], s.events[j:])
	return &c
}

// draw returns the scenario of a seed.
func draw(seed uint64) *scenario {
	d := drawing{rand.New(rand.NewPCG(seed, 0))}
	s := &scenario{
		seed: seed, strategy: assignment.LeaseCountBased, shards: d.between(2, 12), most: d.between(2, 5), feed: d.feed(),
		lasts: d.time(2*time.Minute, 9*time.Minute), latency: d.time(time.Millisecond, 10*time.Millisecond),
	}
	switch n := d.IntN(100); {
	case n < 25:
		s.profile = gentle
	case n < 31:
		s.profile = outage
	case n < 37:
		s.profile = reborn
	}
	slow := d.IntN(4) == 0
	if slow {
		s.latency *= 30
	}
	for range 2 {
		s.settings = append(s.settings, d.settings(slow, s.profile == gentle))
	}
	total := 0
	for _, o := range occurrences {
		total += o.weight(s.profile)
	}
	for at := time.Duration(0); ; {
		if at += d.time(0, 15*time.Second); at > s.lasts {
			break
		}
		n := d.IntN(total)
		i := slices.IndexFunc(occurrences, func(o occurrence) bool { n -= o.weight(s.profile); return n < 0 })
		e := event{at: at, what: occurrences[i].what, pick: d.Uint64(), lasts: d.time(5*time.Second, time.Minute)}
		if draw := occurrences[i].faults; draw != nil {
			e.faults = draw(d)
		}
		s.events = append(s.events, e)
	}
	once := map[profile]string{outage: "outage", reborn: "rebirth"}
	if what, ok := once[s.profile]; ok {
		i := d.IntN(len(s.events) + 1)
		at := time.Duration(0)
		if i > 0 {
			at = s.events[i-1].at
		}
		s.events = slices.Insert(s.events, i, event{at: at, what: what, pick: d.Uint64(), lasts: d.time(10*time.Second, 3*time.Minute)})
	}
	if d.IntN(2) == 0 {
		s.page = d.between(4, 9)
	}
	s.instant = d.IntN(4) == 0
	return s
}

// drawing makes the choices of a scenario.
type drawing struct{ *rand.Rand }

func (d drawing) between(least, most int) int { return least + d.IntN(most-least+1) }

func (d drawing) time(least, most time.Duration) time.Duration {
	return least + time.Duration(d.Int64N(int64(most-least)+1)).Truncate(time.Millisecond)
}

func (d drawing) seconds(least, most int) time.Duration {
	return d.time(time.Duration(least)*time.Second, time.Duration(most)*time.Second)
}

// settings draws the settings of a generation of workers. With slow calls
// renewals must be given time, or they cannot keep up.
func (d drawing) settings(slow, gentle bool) (c scheduler.Config) {
	c.Leases = scheduler.LeaseConfig{
		FailoverTime: d.seconds(2, 10), GracefulHandoffTimeout: d.seconds(2, 30), NoGracefulHandoff: d.IntN(5) == 0 && !gentle,
		CleanupInterval: d.seconds(1, 5), CompletedCleanupInterval: d.seconds(1, 10), GarbageCleanupInterval: d.seconds(5, 30),
		WorkerReportInterval: d.seconds(1, 30), MaxRenewals: d.between(1, 20), RequestTimeout: d.seconds(1, 10),
	}
	if d.IntN(3) == 0 {
		c.Leases.AssignmentInterval = d.seconds(1, 10)
	}
	if d.IntN(4) == 0 {
		c.Leases.MaxLeasesForWorker = 12
	}
	if slow {
		c.Leases.FailoverTime, c.Leases.MaxRenewals = d.seconds(5, 10), 20
	}
	c.Leader.LeaseDuration = d.seconds(3, 30)
	c.Leader.HeartbeatPeriod = (c.Leader.LeaseDuration / time.Duration(d.between(2, 4))).Truncate(time.Millisecond)
	c.Polling.RequestTimeout = d.seconds(1, 10)
	c.Shards = scheduler.ShardConfig{
		AuditorInterval: d.seconds(2, 60), AuditorConfidence: d.between(1, 3), ListShardsBackoff: d.seconds(1, 2), ListShardsTimeout: d.seconds(1, 10),
	}
	c.StopTimeout = d.seconds(5, 20)
	return c
}

const (
	dynamoDB = "dynamodb"
	streams  = "kinesis"
)

var everyService = []string{dynamoDB, streams}

// refusals are the errors with which the services turn calls away on bad days.
var refusals = []kcltest.Fault{
	{Services: []string{dynamoDB}, Code: "ProvisionedThroughputExceededException"},
	{Services: []string{dynamoDB}, Code: "RequestLimitExceeded"},
	{Services: []string{dynamoDB}, Code: "ThrottlingException"},
	{Services: []string{streams}, Operations: []string{"GetRecords", "GetShardIterator"}, Code: "ProvisionedThroughputExceededException"},
	{Services: []string{streams}, Operations: []string{"ListShards", "DescribeStreamSummary"}, Code: "LimitExceededException"},
	{Services: []string{streams}, Operations: []string{"GetRecords"}, Code: "ExpiredIteratorException"},
	{Services: everyService, Code: "InternalServerError"},
	{Services: everyService, Code: "InternalFailure"},
	{Services: everyService, Code: "ServiceUnavailable"},
}

// faults draws one fault of each kind, which together hit about that share of
// the calls.
func (d drawing) faults(share float64) []kcltest.Fault {
	refused := make([]kcltest.Fault, len(refusals))
	for i, f := range refusals {
		f.Effect = kcltest.Refuse
		refused[i] = f
	}
	all := slices.Concat(refused, []kcltest.Fault{
		{Effect: kcltest.Break},
		{Effect: kcltest.LoseAnswer},
		{Effect: kcltest.LoseAnswer, Delay: d.time(0, 4*time.Second)},
		{Effect: kcltest.Slow, Delay: d.time(0, time.Second)},
		{Effect: kcltest.Slow, Delay: d.time(time.Second, 5*time.Second)},
		{Effect: kcltest.Hang},
		{Effect: kcltest.Late, Delay: d.time(0, 3*time.Second)},
		{Effect: kcltest.Late, Delay: d.time(3*time.Second, 15*time.Second)},
	})
	d.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i := range all {
		all[i].Except = []string{observer}
		all[i].Chance = share / 12 // a call matches about so many of them
	}
	return all
}

// storm draws faults for one service, one operation or everything: all kinds of
// them, or only one.
func (d drawing) storm() []kcltest.Fault {
	faults := d.faults(0.05 + 0.75*d.Float64())
	operations := []string{"UpdateItem", "PutItem", "GetItem", "Query", "Scan", "GetRecords", "GetShardIterator", "ListShards", "DeleteItem"}
	scope := kcltest.Fault{}
	switch d.IntN(4) {
	case 0:
		scope.Services = []string{dynamoDB}
	case 1:
		scope.Services = []string{streams}
	case 2:
		scope.Operations = []string{operations[d.IntN(len(operations))]}
	}
	faults = slices.DeleteFunc(faults, func(f kcltest.Fault) bool {
		return !meet(f.Services, scope.Services) || !meet(f.Operations, scope.Operations)
	})
	if d.IntN(3) == 0 {
		one := faults[0]
		one.Chance = min(1, 12*one.Chance)
		faults = []kcltest.Fault{one}
	}
	for i := range faults {
		if len(faults[i].Services) == 0 {
			faults[i].Services = scope.Services
		}
		if len(faults[i].Operations) == 0 {
			faults[i].Operations = scope.Operations
		}
	}
	return faults
}

// meet reports whether two lists of what is meant, empty meaning all, have
// something in common.
func meet(a, b []string) bool {
	return len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// fade draws what keeps answers to a worker's writes from it, or some of them,
// and at last what cuts its writes off.
func (d drawing) fade() []kcltest.Fault {
	writes := kcltest.Fault{Operations: []string{"UpdateItem"}}
	with := func(e kcltest.Effect, chance float64) kcltest.Fault {
		f := writes
		f.Effect, f.Chance = e, chance
		return f
	}
	last := with([]kcltest.Effect{kcltest.Break, kcltest.Hang}[d.IntN(2)], 0)
	if d.IntN(2) == 0 {
		return []kcltest.Fault{with(kcltest.FreezeAnswer, 0), last}
	}
	return []kcltest.Fault{with(kcltest.LoseAnswer, 0.5), with(kcltest.Break, 0.5), last}
}

// cutOff draws what keeps a worker from one of the services or from both: the
// network refuses its calls, or they vanish, or they or their answers arrive when
// it is over.
func (d drawing) cutOff() []kcltest.Fault {
	effects := []kcltest.Effect{kcltest.Break, kcltest.Hang, kcltest.Freeze, kcltest.FreezeAnswer}
	f := kcltest.Fault{Effect: effects[d.IntN(len(effects))]}
	if d.IntN(3) > 0 {
		f.Services = []string{everyService[d.IntN(2)]}
	}
	return []kcltest.Fault{f}
}
