package assignment

import (
	"cmp"
	"slices"
)

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

// balance moves leases from workers with too much load to those with too little,
// by the worst metric that allows for a move. uneven: a lease would be moved that
// cannot move yet.
func (f *loads) balance() (moves []Move, uneven bool) {
	for _, w := range f.workers {
		w.ratio = f.ratio(w)
	}
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
	uneven = f.occupy(&moves) || uneven
	return moves, uneven
}

// excess finds the workers above the band around a metric's average, or above
// their operating range; if there is none but one below the band, the one with
// the highest value.
func (f *loads) excess(m int) (e excess) {
	average := f.metrics[m].average
	band := max(average*f.cfg.RebalanceThreshold/100, minBand)
	add := func(w *carrier, r reading) {
		value, to := r.present(), average
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
			if value := r.present(); value >= average+band || value > r.limit {
				add(w, r)
			}
			below = below || r.value < average-band
			if top == nil || r.present() > topReading.present() {
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
// is left to take. If all are more it moves the least, if that is allowed. stuck:
// it would have moved one that cannot move yet.
//
// Idle leases, which may not stay idle but are no relief, it moves only if it has
// moved no other, and of their number no more than the excess's share.
func (f *loads) relieve(g giver, moves *[]Move) (stuck bool) {
	left, n := g.take, 0
	try := func(i int) {
		switch moved, blocked := f.move(i, g.carrier, moves); {
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
	tooGreat := true
	for _, i := range busy {
		if f.weight[i] < left {
			tooGreat = false
			try(i)
		}
	}
	if len(busy) > 0 && tooGreat && !f.cfg.NoThroughputOvershoot {
		least := f.weight[busy[len(busy)-1]]
		try(busy[slices.IndexFunc(busy, func(i int) bool { return f.weight[i] == least })])
	}
	if n > 0 {
		return stuck
	}
	most := max(1, int(float64(g.live)*g.share))
	for _, i := range idle {
		if f.weight[i] < left && n < most {
			try(i)
		}
	}
	return stuck
}

// steady returns a worker's leases that balancing may move, busy and idle ones,
// the greatest first: not those that have come from another worker so lately that
// the reports hardly show what they cost here.
func (f *loads) steady(w *carrier) (busy, idle []int) {
	reported := f.Workers[w.index].Reported
	for _, i := range w.held {
		l := f.Leases[i]
		switch {
		case l.State != Held || l.HandOffPending():
		case w.measured(f) && f.find(l.Before) != nil && unreported(l.Came, reported, f.ReportPeriod, f.cfg.EMAAlpha) > settled:
		case f.idle[i]:
			idle = append(idle, i)
		default:
			busy = append(busy, i)
		}
	}
	slices.SortStableFunc(busy, func(a, b int) int { return cmp.Compare(f.weight[b], f.weight[a]) })
	return busy, idle
}

// move gives a lease of a worker to the best of those that can take it. blocked:
// there is one, but the lease cannot move yet.
func (f *loads) move(i int, from *carrier, moves *[]Move) (moved, blocked bool) {
	var to *carrier
	for _, w := range f.workers {
		if w != from && (to == nil || w.less(to)) && f.fits(w, i, from) {
			to = w
		}
	}
	return f.hand(i, from, to, moves)
}

func (f *loads) hand(i int, from, to *carrier, moves *[]Move) (moved, blocked bool) {
	switch {
	case to == nil:
		return false, false
	case !f.Leases[i].Movable:
		return false, true
	}
	f.give(to, i)
	from.live--
	from.weight -= f.weight[i]
	*moves = append(*moves, Move{i, to.id})
	return true, false
}

// fits reports whether a worker would stay below the averages and its operating
// ranges with a lease more. Of two workers that report no load it may have as
// much as the other will have left: what they carry is known for sure, and three
// leases beside one and one are better two, two and one.
func (f *loads) fits(w *carrier, i int, from *carrier) bool {
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
		if m.name == "" && !from.measured(f) {
			most = max(most, (from.weight-f.weight[i])*m.cost)
		}
		if after > most*tolerance || after > r.limit*tolerance {
			return false
		}
	}
	return true
}

// occupy gives each worker without leases one of the worker with the most, the
// greatest that it can take.
func (f *loads) occupy(moves *[]Move) (stuck bool) {
	taken := map[int]bool{}
	for _, m := range *moves {
		taken[m.Lease] = true
	}
	for _, w := range f.workers {
		if w.live > 0 {
			continue
		}
		var from *carrier
		for _, g := range f.workers {
			if g.live > 1 && (from == nil || g.live > from.live) {
				from = g
			}
		}
		if from == nil {
			return stuck
		}
		busy, idle := f.steady(from)
		for _, i := range slices.Concat(busy, idle) {
			if taken[i] || !f.fits(w, i, from) {
				continue
			}
			moved, blocked := f.hand(i, from, w, moves)
			stuck = stuck || blocked
			if moved {
				taken[i] = true
				break
			}
		}
	}
	return stuck
}
