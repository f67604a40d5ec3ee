package assignment

import (
	"cmp"
	"slices"
	"sort"
)

// maxGivers is of how many workers a lease is sought for one that has too few.
const maxGivers = 10

// excess is how much there is too much by one metric.
type excess struct {
	sum    float64
	givers []giver // those with the most first
}

// giver is a worker that is to give up to take KB/s, which is share of what it
// has.
type giver struct {
	*carrier
	take, share float64
}

// bar is how far a worker may be filled by a lease of another one.
type bar uint8

const (
	// toAverage: not above the fleet's average.
	toAverage bar = iota
	// belowGiver: or to less than what the giver has now, by the band around the
	// average, and one that is not below that band to no more than what the giver
	// will have left. That is for one lease, by which the greater of two loads
	// falls.
	belowGiver
	// withinBand: not above the band around the average.
	withinBand
)

// balance moves leases from workers with too much load to those with too little,
// by the worst metric that allows for a move; if there is no such worker, to those
// with hardly any leases. uneven: a lease would be moved that cannot move yet.
func (f *loads) balance() (moves []Move, uneven bool) {
	for _, w := range f.workers {
		w.ratio = f.ratio(w)
	}
	f.order = slices.Clone(f.workers)
	slices.SortFunc(f.order, (*carrier).compare)
	var all []excess
	for m := range f.metrics {
		if e := f.excess(m); e.sum > 0 {
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b excess) int { return cmp.Compare(b.sum, a.sum) })
	for _, e := range all {
		for _, g := range e.givers {
			uneven = f.relieve(g, &moves) || uneven
		}
		if len(moves) > 0 {
			break
		}
	}
	quiet := len(moves) == 0 && !uneven
	return moves, f.share(&moves, quiet) || uneven
}

// band is how far a worker's value may be from a metric's average.
func (f *loads) band(m int) float64 {
	return max(f.metrics[m].average*f.cfg.RebalanceThreshold/100, minBand)
}

// excess finds the workers above the band around a metric's average, or above
// their operating range; if there is none but one below the band, the one with
// the highest value.
func (f *loads) excess(m int) (e excess) {
	average, band := f.metrics[m].average, f.band(m)
	add := func(w *carrier, r reading) {
		value, to := r.shown(), average
		if value <= average {
			to = r.limit
		}
		if share := (value - to) / value * f.cfg.Dampening / 100; share > 0 {
			e.givers = append(e.givers, giver{w, w.weight * share, share})
			e.sum += w.weight * share
		}
	}
	var (
		top        *carrier
		topReading reading
		below      bool
	)
	for _, w := range f.workers {
		for _, r := range w.readings {
			if r.metric != m {
				continue
			}
			if value := r.shown(); value >= average+band || value > r.limit {
				add(w, r)
			}
			below = below || r.value < average-band
			if top == nil || r.shown() > topReading.shown() {
				top, topReading = w, r
			}
		}
	}
	if below && len(e.givers) == 0 {
		add(top, topReading)
	}
	slices.SortStableFunc(e.givers, func(a, b giver) int { return cmp.Compare(b.take, a.take) })
	return e
}

// relieve moves leases from a worker, the greatest first that are less than what
// is left to take. If all are more, or nobody has room for them, it moves the
// least, if that is allowed. stuck: it would have moved one that cannot move yet.
//
// Idle leases, which may not stay idle but are no relief, it moves only if it has
// moved no other, and of their number no more than the excess's share.
func (f *loads) relieve(g giver, moves *[]Move) (stuck bool) {
	left, n := g.take, 0
	// give hands lease i to a worker, if there is one.
	give := func(i int, to *carrier) {
		switch moved, blocked := f.hand(i, g.carrier, to, moves); {
		case moved:
			left -= f.weight[i]
			n++
		case blocked:
			stuck = true
		}
	}
	busy, idle := f.steady(g.carrier)
	if len(busy) == 0 {
		busy, idle = idle, nil
	}
	for k := 0; k < len(busy); k++ {
		i := busy[k]
		if f.weight[i] >= left {
			continue
		}
		if to := f.taker(i, g.carrier, toAverage); to != nil {
			give(i, to)
			continue
		}
		// Nobody has room for it: on with the first that somebody has room for.
		rest := busy[k+1:]
		k += sort.Search(len(rest), func(r int) bool { return f.taker(rest[r], g.carrier, toAverage) != nil })
	}
	if len(busy) > 0 && n == 0 && !stuck && !f.cfg.NoThroughputOvershoot {
		least := f.weight[busy[len(busy)-1]]
		i := busy[slices.IndexFunc(busy, func(i int) bool { return f.weight[i] == least })]
		give(i, f.taker(i, g.carrier, belowGiver))
	}
	if n > 0 {
		return stuck
	}
	most := max(1, int(float64(g.live)*g.share))
	for _, i := range idle {
		if f.weight[i] < left && n < most {
			give(i, f.taker(i, g.carrier, toAverage))
		}
	}
	return stuck
}

// steady returns a worker's leases that balancing may move, busy and idle ones,
// the greatest first: not those that have come from another worker so lately that
// the reports hardly show what they cost here.
func (f *loads) steady(w *carrier) (busy, idle []int) {
	if w.sorted {
		return w.busy, w.idle
	}
	w.sorted = true
	reported := f.Workers[w.index].Reported
	for _, i := range w.held {
		l := f.Leases[i]
		switch {
		case l.State != Held || l.HandOffPending():
		case w.measured(f) && f.find(l.Before) != nil && unreported(l.Came, reported, f.ReportPeriod, f.cfg.EMAAlpha) > settled:
		case f.idle[i]:
			w.idle = append(w.idle, i)
		default:
			w.busy = append(w.busy, i)
		}
	}
	slices.SortStableFunc(w.busy, func(a, b int) int { return cmp.Compare(f.weight[b], f.weight[a]) })
	return w.busy, w.idle
}

// taker returns the worker with the least load that can take a lease of another
// one, nil if there is none.
func (f *loads) taker(i int, from *carrier, b bar) *carrier {
	for _, w := range f.order {
		if w.ratio > 1 && w.ratio > from.ratio {
			break
		}
		if w != from && f.fits(w, i, from, b) {
			return w
		}
	}
	return nil
}

// hand moves a lease to a worker, unless that is nil. blocked: the lease cannot
// move yet.
func (f *loads) hand(i int, from, to *carrier, moves *[]Move) (moved, blocked bool) {
	switch {
	case to == nil:
		return false, false
	case !f.Leases[i].Movable:
		return false, true
	}
	f.give(to, i)
	sink(f.order, to, (*carrier).compare)
	from.live--
	from.weight -= f.weight[i]
	*moves = append(*moves, Move{i, to.id})
	return true, false
}

// sink puts a worker that is to come later than before in its place again.
func sink(order []*carrier, w *carrier, compare func(a, b *carrier) int) {
	for k := slices.Index(order, w); k+1 < len(order) && compare(order[k+1], w) < 0; k++ {
		order[k], order[k+1] = order[k+1], w
	}
}

// fits reports whether a worker would stay below the bar and its operating
// ranges with a lease more. Of two workers that report no load it may have as
// much as the other will have left: what they carry is known for sure, and three
// leases beside one and one are better two, two and one.
func (f *loads) fits(w *carrier, i int, from *carrier, b bar) bool {
	switch {
	case !f.room(w):
		return false
	case w.gave && w.live > 0:
		return false // its reports do not show yet how much room that made
	case f.idle[i] && w.live+2 > from.live:
		return false // they are spread by number
	}
	for _, r := range w.readings {
		m := f.metrics[r.metric]
		after, most := r.value+f.weight[i]*m.cost, max(m.average, minBand)
		switch {
		case m.name == "" && !from.measured(f):
			most = max(most, (from.weight-f.weight[i])*m.cost)
		case b == withinBand:
			most = m.average + f.band(r.metric)
			if w.live == 0 {
				// What it is at now, without leases, is about what the giver would
				// be: the rest of the giver's load, if known, is that of its leases.
				after = r.value
				if g, ok := from.reading(r.metric); ok {
					after += max(0, g.present()-r.value) * f.weight[i] / from.weight
				}
				break
			}
			after -= r.idle
			if f.idle[i] {
				after -= f.weight[i] * m.cost
			}
		case b == belowGiver && after > most:
			g, ok := from.reading(r.metric)
			if !ok {
				return false
			}
			after = r.value + f.weight[i]*max(m.cost, w.cost(r))
			most = g.shown() - f.band(r.metric)
			if r.value > m.average-f.band(r.metric) {
				most = min(most, g.shown()-f.weight[i]*max(m.cost, from.cost(g)))
			}
		}
		if after > most*tolerance || after > r.limit*tolerance {
			return false
		}
	}
	return true
}

// reading returns a worker's value of a metric, if it has one.
func (w *carrier) reading(metric int) (reading, bool) {
	for _, r := range w.readings {
		if r.metric == metric {
			return r, true
		}
	}
	return reading{}, false
}

// cost is what a KB/s costs this worker, at most.
func (w *carrier) cost(r reading) float64 {
	if w.weight == 0 {
		return 0
	}
	return r.value / w.weight
}

// share gives each worker without leases one of another's, and in a quiet fleet,
// in which no load is to be moved, each that has less than half of its fair share:
// load may be too low, or too much of it due to something else, for leases to show
// in it. Idle leases are shared out by number. It takes from those with the most.
func (f *loads) share(moves *[]Move, quiet bool) (stuck bool) {
	taken := map[int]bool{}
	for _, m := range *moves {
		taken[m.Lease] = true
	}
	heavy, many := slices.Clone(f.workers), slices.Clone(f.workers)
	slices.SortFunc(heavy, byWeight)
	slices.SortFunc(many, byNumber)
	for _, w := range f.workers {
		if w.live > 0 && !quiet {
			continue
		}
		givers := many
		poor := w.live == 0 || w.weight < f.fair/2
		if poor {
			givers = heavy
		}
		for _, from := range givers[:min(len(givers), maxGivers)] {
			if !poor && from.live < w.live+2 {
				break // they are spread evenly
			}
			leases := f.supply(w, from, poor)
			k := slices.IndexFunc(leases, func(i int) bool { return !taken[i] && f.fits(w, i, from, withinBand) })
			if k < 0 {
				continue
			}
			moved, blocked := f.hand(leases[k], from, w, moves)
			stuck = stuck || blocked
			if moved {
				taken[leases[k]] = true
				sink(heavy, from, byWeight)
				sink(many, from, byNumber)
				break
			}
		}
	}
	return stuck
}

// supply returns the leases that a worker may give to one that will not have more
// than it keeps, the greatest first.
func (f *loads) supply(to, from *carrier, poor bool) []int {
	if from.live < 2 || from == to {
		return nil
	}
	busy, idle := f.steady(from)
	if !poor {
		return idle
	}
	if to.live > 0 {
		// The greatest first: those that are too great are at the beginning.
		busy = busy[sort.Search(len(busy), func(k int) bool {
			return to.weight+f.weight[busy[k]] <= (from.weight-f.weight[busy[k]])*tolerance
		}):]
	}
	return slices.Concat(busy, idle)
}

// byWeight orders those with the most load first, byNumber those with the most
// leases.
func byWeight(a, b *carrier) int {
	if c := cmp.Compare(b.weight, a.weight); c != 0 {
		return c
	}
	return byNumber(a, b)
}

func byNumber(a, b *carrier) int {
	if c := cmp.Compare(b.live, a.live); c != 0 {
		return c
	}
	return cmp.Compare(a.id, b.id)
}
