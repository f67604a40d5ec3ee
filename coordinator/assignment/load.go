package assignment

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

const (
	defaultRebalanceThreshold = 10
	defaultDampening          = 60
	defaultEMAAlpha           = 0.5

	// An idle lease weighs minWeight KB/s, or a thousandth of the average lease,
	// so that idle leases are spread and noise in them moves nothing.
	minWeight     = 0.1
	weightOfIdle  = 1. / 1000
	minBand       = 2 // points of load within which differences are noise
	minAverage    = 1 // percent; below, an average says nothing of what a lease costs
	fairShare     = 100
	maxGroupScale = 4
	// settled is the share of a lease's load that a worker's reports may still
	// lack for the worker to be judged by them.
	settled = 1. / 8
	// tolerance is for sums that come out a hair above what they should be.
	tolerance = 1 + 1e-9
)

// Load sets up [ByLoad]. A zero field means its default. As all leaders' limits,
// they count for every worker of the fleet.
type Load struct {
	// RebalanceThreshold is how far, in percent of the fleet's average, the load
	// of a worker may be from it before leases are moved, above 0 and at most
	// 100. Default 10. KCL: reBalanceThresholdPercentage.
	RebalanceThreshold float64
	// Dampening is the share, in percent, of a worker's excess that one balancing
	// moves, above 0 and at most 100. Default 60. KCL: dampeningPercentage.
	Dampening float64
	// NoThroughputOvershoot leaves a worker's excess where it is if each of its
	// leases is more than is to be moved. KCL: allowThroughputOvershoot = false.
	NoThroughputOvershoot bool
	// MaxThroughput is the KB/s from which on a worker gets no more leases, as
	// measured by these; the last one may exceed it. Default 0: no bound. KCL:
	// maxThroughputPerHostKBps.
	MaxThroughput float64
	// EMAAlpha is the weight of a report's newest value in the moving average
	// that counts as a worker's load, above 0 and at most 1. Default 0.5. KCL:
	// workerMetricsEMAAlpha.
	EMAAlpha float64
}

func (c Load) withDefaults() (Load, error) {
	var faults []error
	bounded := func(x *float64, field string, most, fallback float64) {
		switch {
		case *x == 0:
			*x = fallback
		case !(*x > 0 && *x <= most):
			faults = append(faults, fmt.Errorf("%s is %v, must be above 0 and at most %v", field, *x, most))
		}
	}
	bounded(&c.RebalanceThreshold, "Load.RebalanceThreshold", 100, defaultRebalanceThreshold)
	bounded(&c.Dampening, "Load.Dampening", 100, defaultDampening)
	bounded(&c.EMAAlpha, "Load.EMAAlpha", 1, defaultEMAAlpha)
	bounded(&c.MaxThroughput, "Load.MaxThroughput", math.Inf(1), math.Inf(1))
	return c, errors.Join(faults...)
}

// ByLoad evens the load that workers report: each metric of a worker is to be
// near the average of those workers that have it. A worker that reports none is
// judged by the throughput of its leases, of which 100 is a fair share; beside
// such workers the others, together, are to carry theirs. KCL:
// WORKER_UTILIZATION_AWARE. An invalid c panics; [New] returns an error.
//
// A free lease goes to the worker with the lowest load, which is its highest
// metric relative to the average, and which grows with each lease given by what
// the fleet's average lease of that throughput costs. Ties go to the worker with
// fewer leases, then as with [ByCount], which also says what becomes of overdue
// leases, of those that expired, and of those at SHARD_END.
//
// To balance, the metric with the most excess is picked. Each worker above the
// band around its average, or above its operating range, gives up to the dampened
// excess, but at least one lease if overshoot is allowed, to workers that stay
// below the average and their operating ranges. A worker without leases gets one
// from one with several if it has that much room. Reports lag: what came or went
// since is added and taken off, and what lately moved stays until reports show
// what came of it.
func ByLoad(c Load) Decider {
	c, err := c.withDefaults()
	if err != nil {
		panic(err)
	}
	return func(v View) Plan {
		f := weigh(v, c)
		plan := f.assign()
		if v.Balance {
			plan.Balance, plan.Uneven = f.balance()
		}
		return plan
	}
}

// metric is one measure of load over the workers that have it.
type metric struct {
	name    string // empty: throughput
	average float64
	cost    float64 // what a KB/s adds
}

// reading is one worker's value of a metric.
type reading struct {
	metric int // index in loads.metrics
	// value is what the worker reports and what came since, by the fleet's costs.
	// came is the latter; idle is what of it is put down to idle leases, which must
	// count for something, lest all go to one worker. left is what went since, and
	// the reports still show.
	value, came, idle, left float64
	limit                   float64 // operating range
}

// present is the value without what has left.
func (r reading) present() float64 { return max(0, r.value-r.left) }

// shown is what of that the worker's reports show. Its own costs may be others
// than the fleet's, so what came is no reason to take from it.
func (r reading) shown() float64 { return max(0, r.value-r.left-r.came) }

// carrier is a worker and its load.
type carrier struct {
	*tally
	readings []reading
	kbps     float64 // of its leases
	weight   float64 // the same, idle leases counted as if they were not
	held     []int   // indexes of its leases but those at SHARD_END
	gave     bool    // lately, and its reports do not show it yet
	// busy and idle are what steady returns, once sorted is set.
	busy, idle []int
	sorted     bool
}

// measured reports whether the worker reports its load.
func (w *carrier) measured(f *loads) bool { return f.metrics[w.readings[0].metric].name != "" }

// loads is a fleet's load in one run.
type loads struct {
	View
	cfg     Load
	kbps    []float64 // by lease; the average, if unknown
	weight  []float64 // by lease
	idle    []bool    // by lease
	fair    float64   // weight that a worker is to carry
	tallies tallies
	workers []*carrier // in the order of View.Workers
	order   []*carrier // the one to get the next lease first; set by balance
	metrics []metric
}

func weigh(v View, c Load) *loads {
	f := &loads{View: v, cfg: c, tallies: count(v)}
	f.workers = make([]*carrier, len(v.Workers))
	for i, t := range f.tallies {
		f.workers[i] = &carrier{tally: t}
	}
	f.weighLeases()
	f.read()
	f.correct()
	f.scale()
	for _, w := range f.workers {
		w.ratio = f.ratio(w)
	}
	return f
}

func (f *loads) find(id string) *carrier {
	if t := f.tallies.find(id); t != nil {
		return f.workers[t.index]
	}
	return nil
}

// weighLeases says how much each lease is, whose load it is, and what a fair
// share is: of the leases of targets, and of those to be assigned.
func (f *loads) weighLeases() {
	known := func(l Lease) bool { // a View is anybody's
		return l.HasThroughput && l.ThroughputKBps >= 0 && !math.IsInf(l.ThroughputKBps, 1)
	}
	holder := make([]*carrier, len(f.Leases))
	counts := func(i int) bool { return !f.Leases[i].Ended() && (holder[i] != nil || f.Leases[i].State <= Overdue) }
	sum, n := 0., 0.
	for i, l := range f.Leases {
		holder[i] = f.find(l.Holder())
		if counts(i) && known(l) {
			sum += l.ThroughputKBps
			n++
		}
	}
	average := sum / max(n, 1)
	floor := max(minWeight, average*weightOfIdle)

	f.kbps = make([]float64, len(f.Leases))
	f.weight = make([]float64, len(f.Leases))
	f.idle = make([]bool, len(f.Leases))
	total := 0.
	for i, l := range f.Leases {
		if !counts(i) {
			continue
		}
		f.kbps[i] = average
		if known(l) {
			f.kbps[i] = l.ThroughputKBps
		}
		f.idle[i] = f.kbps[i] <= floor
		f.weight[i] = max(f.kbps[i], floor)
		total += f.weight[i]
		if w := holder[i]; w != nil {
			w.held = append(w.held, i)
			w.kbps += f.kbps[i]
			w.weight += f.weight[i]
		}
	}
	f.fair = total / float64(max(len(f.workers), 1))
	if f.fair == 0 {
		f.fair = floor
	}
}

// read takes the workers' values from their records.
func (f *loads) read() {
	values := make([]map[string]float64, len(f.workers))
	names := map[string]struct{}{}
	for i, w := range f.Workers {
		values[i] = w.values(f.cfg.EMAAlpha)
		for name := range values[i] {
			names[name] = struct{}{}
		}
	}
	index := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		index[name] = len(f.metrics)
		f.metrics = append(f.metrics, metric{name: name})
	}
	n := make([]float64, len(f.metrics))
	for i, w := range f.workers {
		for _, name := range slices.Sorted(maps.Keys(values[i])) {
			r := reading{metric: index[name], value: values[i][name], limit: math.Inf(1)}
			if name == "" {
				r.value = fairShare * w.weight / f.fair
			} else if limits := f.Workers[i].Record.OperatingRange[name]; len(limits) > 0 {
				r.limit = float64(limits[0])
			}
			w.readings = append(w.readings, r)
			f.metrics[r.metric].average += r.value
			n[r.metric]++
		}
	}
	for i := range f.metrics {
		m := &f.metrics[i]
		m.average = max(m.average/n[i], minAverage)
		if m.name == "" {
			m.average = fairShare
		}
		m.cost = m.average / f.fair
	}
}

// values are the worker's values by name of metric; of a worker that reports
// none, one without name.
func (w Worker) values(alpha float64) map[string]float64 {
	values := map[string]float64{}
	if !w.Record.Throughput() {
		for name := range w.Record.Stats {
			if v, ok := w.Record.Average(name, alpha); ok {
				values[name] = v
			}
		}
	}
	if len(values) == 0 {
		values[""] = 0
	}
	return values
}

// correct adds to the workers' values, and takes from them, what came and went
// and is not in their reports yet, and fixes the averages.
func (f *loads) correct() {
	share := func(w *carrier, at time.Time) float64 {
		switch {
		case w == nil || !w.measured(f):
			return 0
		case at.IsZero():
			return 1
		}
		return unreported(at, f.Workers[w.index].Reported, f.ReportPeriod, f.cfg.EMAAlpha)
	}
	for i, l := range f.Leases {
		if f.weight[i] == 0 || l.State.Free() {
			continue
		}
		before, at := l.Before, l.Came
		if l.HandOffPending() {
			before, at = l.CheckpointOwner, time.Time{}
		} else if at.IsZero() {
			continue
		}
		if w := f.find(l.Holder()); w != nil {
			s := share(w, at)
			for k := range w.readings {
				r := &w.readings[k]
				more := s * f.weight[i] * f.metrics[r.metric].cost
				r.value += more
				r.came += more
				if f.idle[i] {
					r.idle += more
				}
			}
		}
		if w := f.find(before); w != nil {
			s := share(w, at)
			w.gave = w.gave || s > settled
			for k := range w.readings {
				w.readings[k].left += s * f.weight[i] * f.metrics[w.readings[k].metric].cost
			}
		}
	}
	sum, n := make([]float64, len(f.metrics)), make([]float64, len(f.metrics))
	for _, w := range f.workers {
		for _, r := range w.readings {
			sum[r.metric] += r.present()
			n[r.metric]++
		}
	}
	for i := range f.metrics {
		if m := &f.metrics[i]; m.name != "" {
			m.average = max(sum[i]/n[i], minAverage)
			m.cost = m.average / f.fair
		}
	}
}

// unreported is the share of a load, there or gone since then, that a worker's
// moving average does not show that was last reported at that time. The first
// report after the change covers a part of a period, later ones whole periods.
func unreported(since, reported time.Time, period time.Duration, alpha float64) float64 {
	d := reported.Sub(since)
	if d <= 0 {
		return 1
	}
	whole, part := math.Modf(float64(d) / float64(period))
	return (1 - alpha*part) * math.Pow(1-alpha, whole)
}

// scale sets, in a fleet of which only some workers report their load, the
// averages of these to what they would be if these workers together carried
// their fair share, within bounds: how load grows is not known that far.
func (f *loads) scale() {
	n, weight := 0., 0.
	for _, w := range f.workers {
		if w.measured(f) {
			n++
			weight += w.weight
		}
	}
	if n == 0 || int(n) == len(f.workers) {
		return
	}
	by := min(max(f.fair*n/weight, 1./maxGroupScale), maxGroupScale)
	for i := range f.metrics {
		if m := &f.metrics[i]; m.name != "" {
			m.average *= by
			m.cost *= by
		}
	}
}

// ratio is a worker's load: its highest metric, relative to the average.
func (f *loads) ratio(w *carrier) (most float64) {
	for _, r := range w.readings {
		most = max(most, r.value/f.metrics[r.metric].average)
	}
	return most
}

func (f *loads) assign() Plan {
	return f.tallies.assign(f.View, func(t *tally) bool { return f.room(f.workers[t.index]) }, func(t *tally, i int) {
		f.give(f.workers[t.index], i)
	})
}

// room reports whether a worker may get a lease at all.
func (f *loads) room(w *carrier) bool {
	return w.live < f.Limit && w.kbps <= f.cfg.MaxThroughput
}

// give takes in that a worker gets a lease.
func (f *loads) give(w *carrier, i int) {
	w.add(f.Leases[i])
	w.kbps += f.kbps[i]
	w.weight += f.weight[i]
	for k := range w.readings {
		r := &w.readings[k]
		r.value += f.weight[i] * f.metrics[r.metric].cost
	}
	w.ratio = f.ratio(w)
}

// compare orders first the worker to get the next lease.
func (w *carrier) compare(o *carrier) int {
	if c := cmp.Compare(w.ratio, o.ratio); c != 0 {
		return c
	}
	if c := cmp.Compare(w.live, o.live); c != 0 {
		return c
	}
	return cmp.Compare(w.id, o.id)
}
