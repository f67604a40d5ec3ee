package assignment

import "time"

const (
	// balanceInterval is KCL's pace with its defaults: every third run of 20 s.
	defaultBalanceInterval = time.Minute
	// hurriedInterval is the pace after a worker without leases was seen, until
	// the load is even.
	hurriedInterval = 20 * time.Second

	minPause = 2 * time.Second
	// minSpacing is the least time between two runs, whatever happens.
	minSpacing = 100 * time.Millisecond
	// readUnitsPerSecond is what a leader's scans may consume.
	readUnitsPerSecond = 50
	// tick is the smallest step past an instant that is worth a timer.
	tick = time.Millisecond
)

// pace says when to balance. It counts time, not runs, for runs come at
// irregular intervals.
type pace struct {
	interval time.Duration
	last     time.Time // zero: balance with the next run
	hurried  bool
	stuck    bool // a worker without leases got none
}

// due reports whether a run at now balances. idle: some worker has no lease
// while another has several.
func (p pace) due(now time.Time, idle bool) bool {
	since := now.Sub(p.last)
	switch {
	case p.last.IsZero(), since >= p.interval:
		return true
	case p.hurried, p.stuck:
		return (p.hurried || idle) && since >= hurriedInterval
	}
	return idle
}

// after returns the pace after a run at now that balanced.
func (p pace) after(now time.Time, idle bool, plan Plan) pace {
	switch {
	case len(plan.Balance) > 0:
		p.hurried, p.stuck = p.hurried || idle, false
	case plan.Uneven:
		return p // nothing could be moved yet: the next run tries again
	default:
		p.hurried, p.stuck = false, idle
	}
	p.last = now
	return p
}

// idle reports whether some worker has nothing to do while another has several
// leases.
func (v View) idle() bool {
	n := make(map[string]int, len(v.Workers))
	for _, l := range v.Leases {
		if h := l.Holder(); h != "" && !l.Ended() {
			n[h]++
		}
	}
	idle, several := false, false
	for _, w := range v.Workers {
		idle = idle || n[w.ID] == 0
		several = several || n[w.ID] > 1
	}
	return idle && several
}

// intervals are the pauses between runs.
type intervals struct {
	explicit    time.Duration // obeyed as it stands; 0 if not given
	failover    time.Duration
	provisioned bool // the table's read units are few and paid for in advance
}

// pause returns how long after the end of a run the next is to begin, by the
// read units that a scan consumes.
func (i intervals) pause(readUnits float64) time.Duration {
	most := 2 * i.failover
	switch {
	case i.explicit > 0:
		return i.explicit
	case i.provisioned:
		return most
	}
	return min(max(scanTime(readUnits), minPause), most)
}

// spacing returns how long after the end of a run an event may start the next.
func (i intervals) spacing(readUnits float64) time.Duration {
	return min(max(scanTime(readUnits), minSpacing), minPause)
}

func scanTime(readUnits float64) time.Duration {
	return time.Duration(readUnits / readUnitsPerSecond * float64(time.Second))
}

// agenda says when the next run is to begin.
type agenda struct {
	next    time.Time
	regular time.Time // the next regular run
	extra   bool      // next comes before it, timed by an expiry
}

// after returns the agenda after a run that ended at end. expiry is the earliest
// instant at which a lease seen idle expires, zero if there is none.
func (a agenda) after(end time.Time, i intervals, readUnits float64, expiry time.Time) agenda {
	spacing := i.spacing(readUnits)
	if a.extra {
		// Between two regular runs there is one extra at most.
		a.regular = later(a.regular, end.Add(spacing))
		return agenda{next: a.regular, regular: a.regular}
	}
	regular := end.Add(i.pause(readUnits))
	n := agenda{next: regular, regular: regular}
	if i.explicit > 0 || i.provisioned || expiry.IsZero() {
		return n
	}
	if at := later(expiry.Add(tick), end.Add(spacing)); at.Before(regular) {
		n.next, n.extra = at, true
	}
	return n
}

// hasten returns the agenda after an event at now, when the last run ended at
// end.
func (a agenda) hasten(now, end time.Time, i intervals, readUnits float64) agenda {
	at := now
	if !end.IsZero() {
		at = later(now, end.Add(i.spacing(readUnits)))
	}
	if at.Before(a.next) {
		return agenda{next: at, regular: at}
	}
	return a
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
