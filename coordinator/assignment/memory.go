package assignment

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/workermetrics"
)

// minGrace is the least time that a worker has to find and renew a lease it was
// given. Of 25 recorded Java workers 15 took 10.4 to 13 s.
const minGrace = 20 * time.Second

// timing holds the durations that decide about leases and workers.
type timing struct {
	failover time.Duration // a counter that stands still for longer is expired
	grace    time.Duration // the same, when it never moved under its present owner
	handOff  time.Duration // a hand-off that takes longer is overdue
	report   time.Duration // workers' period
	stale    time.Duration // age at which a worker's record is deleted
}

// sighting is what this process saw of one lease.
type sighting struct {
	owner, checkpointOwner string
	counter                int64
	before                 string    // the actual owner before the present one, if it was seen and there was one
	came                   time.Time // when the present one was first seen in its place; zero if that was not seen
	since                  time.Time // first look at this counter with this actual owner, or begin of this hand-off
	handOff                time.Time // first look at the pending hand-off; zero if none is
	fresh                  bool      // the counter was not seen to move since the owner changed or the hand-off began
	renewed                bool      // the counter was seen to move under its present owner, no hand-off having begun since
	untouched              bool      // the owner has not renewed it, for sure: the counter stands where the change of owner put it
	expired                bool      // known to be expired since
	flow                   flow
}

// flow is a lease's throughput, averaged over some time: what its owner writes
// is that of a few seconds.
type flow struct {
	kbps  float64
	known bool
	at    time.Time
}

// flowTime is the time constant of that average.
const flowTime = 30 * time.Second

func (f flow) next(l lease.Lease, now time.Time) flow {
	switch {
	case !l.HasThroughput || !(l.ThroughputKBps >= 0) || math.IsInf(l.ThroughputKBps, 1):
		return f
	case !f.known:
		f.kbps = l.ThroughputKBps
	default:
		f.kbps += (l.ThroughputKBps - f.kbps) * -math.Expm1(-float64(now.Sub(f.at))/float64(flowTime))
	}
	f.known, f.at = true, now
	return f
}

func (s sighting) actualOwner() string {
	if s.checkpointOwner != "" {
		return s.checkpointOwner
	}
	return s.owner
}

// next returns the sighting after a look that ended at now. That another owner
// comes with another counter is no renewal by it. A counter that went down is as
// good a sign of life as one that went up: the lease was made anew.
func (s sighting) next(l lease.Lease, now time.Time) sighting {
	first := s.since.IsZero()
	n := s
	n.owner, n.checkpointOwner, n.counter = l.Owner, l.CheckpointOwner, l.Counter
	n.flow = s.flow.next(l, now)
	began := l.HandOffPending() && (s.owner != l.Owner || s.checkpointOwner != l.CheckpointOwner)
	switch {
	case first:
		n.since, n.fresh, n.renewed, n.untouched, n.expired = now, false, false, false, false
	case began, l.ActualOwner() != s.actualOwner():
		n.since, n.fresh, n.renewed, n.untouched, n.expired = now, true, false, l.Counter == s.counter+1, false
	case l.Counter != s.counter:
		n.since, n.fresh, n.renewed, n.untouched, n.expired = now, false, true, false, false
	}
	if !first && l.ActualOwner() != s.actualOwner() {
		n.before, n.came = s.actualOwner(), now
	}
	switch {
	case !l.HandOffPending():
		n.handOff = time.Time{}
	case began:
		n.handOff = now
	}
	return n
}

// expiry is the instant after which the lease is expired unless its counter
// moves.
func (s sighting) expiry(t timing) time.Time {
	if s.fresh {
		return s.since.Add(t.grace)
	}
	return s.since.Add(t.failover)
}

// standing is what a worker's record means to the leader.
type standing uint8

const (
	active        standing = iota // gets leases
	silent                        // leases of it have expired since its last report
	draining                      // wants none, or has lost one of its metrics
	dead                          // does not report
	invalidRecord                 // it is of no use
)

var standingNames = [...]string{"active", "silent", "draining", "dead", "invalid"}

func (s standing) String() string { return standingNames[s] }

// origin tells records apart. In a fleet that moves the tables of KCL 3.0 to 3.4
// one worker may have two: it has started anew, and writes to the other table.
type origin struct {
	worker string
	legacy bool
}

// known is what this process knows of one record.
type known struct {
	record workermetrics.Record
	seen   workermetrics.Sighting
}

// replaces reports whether k, rather than other, tells of the worker that both
// are of: if it shows life and other does not, and else if it is the newer, which
// counts for less because clocks may be wrong.
func (k known) replaces(other known, now time.Time, period time.Duration) bool {
	if alive := k.seen.Alive(now, period); alive != other.seen.Alive(now, period) {
		return alive
	}
	if c := k.record.Updated.Compare(other.record.Updated); c != 0 {
		return c > 0
	}
	return other.record.Legacy
}

// worker is what this process knows of one worker.
type worker struct {
	known // the record that tells of it
	// stand is what the record meant at the last look.
	stand standing
	// silent: leases expired, and the record has said silentSince ever since.
	silent      bool
	silentSince time.Time
}

func (w worker) next(k known) worker {
	w.known = k
	if w.silent && !w.seen.Updated().Equal(w.silentSince) {
		w.silent = false
	}
	return w
}

func (w worker) stands(now time.Time, t timing) standing {
	switch {
	case !w.record.Valid():
		return invalidRecord
	case !w.seen.Alive(now, t.report):
		return dead
	case w.record.Failing():
		return draining
	case w.silent:
		return silent
	}
	return active
}

// memory is what this process saw of the table. It is not safe for concurrent
// use.
type memory struct {
	leases  map[string]sighting // not nil
	at      time.Time           // of the last look
	records map[origin]known    // nil before the first look
	// watching is when this process began to look at the records; since then every
	// look has shown which of their workers live. watched is when it last did.
	watching, watched time.Time
	workers           map[string]worker // nil before the first look
	// unreadable are the workers whose records could not be read, and why.
	unreadable map[string]string
}

func newMemory() memory { return memory{leases: map[string]sighting{}} }

// look takes in a scan of the table that ended at now. What is gone from the
// table is forgotten.
func (m *memory) look(leases []lease.Lease, records []workermetrics.Record, unreadable map[string]string, now time.Time, t timing) {
	m.see(leases, now)
	paused, unsure := now.Sub(m.watched) > 2*t.report, m.records == nil
	m.unreadable = unreadable
	seen := make(map[origin]known, len(records))
	workers := make(map[string]worker, len(records))
	for _, r := range records {
		o := origin{r.Worker, r.Legacy}
		before := m.records[o].seen
		k := known{r, before.Next(r, now, t.report)}
		seen[o] = k
		// One that was written in a long pause has only its own clock to tell when.
		if paused && !before.Updated().Equal(r.Updated) && !k.seen.Alive(now, t.report) {
			unsure = true
		}
		if other, twice := workers[r.Worker]; !twice || k.replaces(other.known, now, t.report) {
			workers[r.Worker] = m.workers[r.Worker].next(k)
		}
	}
	m.records, m.workers = seen, workers
	if unsure {
		m.watching = now
	}
	m.watched = now

	for key, s := range m.leases {
		owner := s.actualOwner()
		if owner == "" || s.expired || !now.After(s.expiry(t)) {
			continue
		}
		s.expired = true
		m.leases[key] = s
		if w, ok := m.workers[owner]; ok {
			w.silent, w.silentSince = true, w.seen.Updated()
			m.workers[owner] = w
		}
	}
	for id, w := range m.workers {
		w.stand = w.stands(now, t)
		m.workers[id] = w
	}
}

// glimpse is see by who does not look all the time. What it last saw longer than
// grace ago it sees for the first time: an owner that has changed since need not
// have changed just now.
func (m *memory) glimpse(leases []lease.Lease, now time.Time, grace time.Duration) {
	if now.Sub(m.at) > grace {
		m.leases = map[string]sighting{}
	}
	m.see(leases, now)
}

// see takes in leases that were read until now. All others are forgotten.
func (m *memory) see(leases []lease.Lease, now time.Time) {
	m.at = now
	seen := make(map[string]sighting, len(leases))
	for _, l := range leases {
		seen[l.Key] = m.leases[l.Key].next(l, now)
	}
	m.leases = seen
}

// wrote takes in what a write of ours made of a lease, by an answer that came at
// now.
func (m *memory) wrote(l lease.Lease, now time.Time) {
	before := m.leases[l.Key]
	s := before.next(l, now)
	// An answer that was lost is seen late: the new owner may have renewed by then.
	s.since, s.fresh, s.renewed, s.untouched, s.expired = now, true, false, l.Counter == before.counter+1, false
	m.leases[l.Key] = s
}

// state says what a lease is to the leader at now, the instant of the last look.
func (m *memory) state(l *lease.Lease, now time.Time, t timing) (st State, since time.Time, movable bool) {
	s := m.leases[l.Key]
	switch {
	case s.actualOwner() == "":
		st = Unowned
	case s.expired:
		st = Expired
	case l.Ended():
		st = Held // in a hand-off too: there is nothing left to hand over
	case l.HandOffPending() && now.Sub(s.handOff) < t.handOff:
		st = Pending
	case l.HandOffPending():
		st = Overdue
	case s.untouched && m.unfit(l.Owner):
		st = Abandoned
	default:
		st = Held
		// Half the failover time is one and a half renewals. An owner that has not
		// renewed yet may not have found the lease, and would not find it in a
		// hand-off: it looks for leases that are its own.
		movable = s.renewed && now.Sub(s.since) <= t.failover/2
	}
	return st, s.since, movable
}

// stale returns records that are to be deleted, at most limit. The one that tells
// of the worker called self is not among them.
func (m *memory) stale(now time.Time, t timing, self string, limit int) (out []workermetrics.Record) {
	for o, k := range m.records {
		if o.worker == self && o.legacy == m.workers[self].record.Legacy {
			continue
		}
		if k.seen.Stale(now, t.stale, t.report) && len(out) < limit {
			out = append(out, k.record)
		}
	}
	return out
}

// seen returns the records, sorted by worker.
func (m *memory) seen() []Seen {
	out := make([]Seen, 0, len(m.records))
	for _, k := range m.records {
		out = append(out, Seen{k.record, k.seen})
	}
	slices.SortFunc(out, func(a, b Seen) int { return strings.Compare(a.Worker, b.Worker) })
	return out
}

// unfit reports whether a worker drains or has no record.
func (m *memory) unfit(id string) bool {
	w, ok := m.workers[id]
	if !ok {
		_, unreadable := m.unreadable[id]
		return !unreadable
	}
	return w.record.Valid() && w.record.Failing()
}

// view says how things stand at now, the instant of the last look, which found
// these leases. The worker called leaving gets none.
func (m *memory) view(leases []lease.Lease, now time.Time, t timing, leaving string) View {
	v := View{Leases: make([]Lease, len(leases)), ReportPeriod: t.report}
	for i := range leases {
		l := &v.Leases[i]
		l.Lease = &leases[i]
		l.State, l.Since, l.Movable = m.state(l.Lease, now, t)
		s := m.leases[l.Key]
		l.Came, l.Before = s.came, s.before
		l.ThroughputKBps, l.HasThroughput = s.flow.kbps, s.flow.known
	}
	slices.SortFunc(v.Leases, func(a, b Lease) int { return strings.Compare(a.Key, b.Key) })
	for id, w := range m.workers {
		if w.stand == active && id != leaving {
			v.Workers = append(v.Workers, Worker{id, w.record, w.seen.LastSeen()})
		}
	}
	slices.SortFunc(v.Workers, func(a, b Worker) int { return strings.Compare(a.ID, b.ID) })
	return v
}

// expiry returns when the first lease expires that did not move between the last
// look, at now, and the one before; zero if there is none.
func (m *memory) expiry(now time.Time, t timing) (first time.Time) {
	for _, s := range m.leases {
		if s.expired || s.actualOwner() == "" || !s.since.Before(now) {
			continue
		}
		if at := s.expiry(t); first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}
