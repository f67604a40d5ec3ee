package interop

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// span is a time in which a shard was read by nobody, from a record's arrival to
// its first delivery, or in which a lease showed no sign of life of an owner.
type span struct {
	shard    string
	from, to time.Time
	by       string // the worker that ended it, if one has
}

func (s span) lasts() time.Duration { return s.to.Sub(s.from) }

// upset is what was done to a worker.
type upset struct {
	how    string // "killed", "stopped" or "frozen"
	worker string
	at     time.Time
	end    time.Time     // when it had gone, or went on
	lock   time.Duration // how long its lock lasts, if it led
	moving []string      // leases that were on their way to or from it
}

func (u upset) String() string {
	s := u.worker + " " + u.how
	if u.how == "frozen" {
		s += " " + u.end.Sub(u.at).Round(time.Second).String()
	}
	if u.lock > 0 {
		s += ", leader"
	}
	return s
}

// reign is a worker's time as leader, until the next one's.
type reign struct {
	worker string
	from   time.Time
}

// law says how long a shard may be read by nobody. Each term is one that the
// side which leads, or which reads in the end, explains (leases#60).
type law struct {
	times   times
	upsets  []upset
	reigns  []reign
	absence []span        // when there was no worker: nobody is to blame
	least   time.Duration // that any bound is
}

// times are the settings in milliseconds that both sides are started with, 0 for
// each side's default.
type times struct{ failover, lock, beat, assign, report int64 }

func (t times) or(ms int64, standard time.Duration) time.Duration {
	if ms > 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return standard
}

func (t times) failoverTime() time.Duration { return t.or(t.failover, 10*time.Second) }

// cycle is the time between two assignment runs of a leader.
func (t times) cycle(side string) time.Duration {
	if side == "go" {
		return t.or(t.assign, 2*time.Second) // of a small table
	}
	return t.or(t.assign, 2*t.failoverTime())
}

// discovery is the time between two looks of a worker for leases that it was given.
func (t times) discovery(side string) time.Duration {
	if side == "go" {
		return t.or(t.assign/2, 2*time.Second)
	}
	return t.cycle(side) / 2
}

// start is what passes from knowing of a lease to the first record.
func (t times) start(side string) time.Duration {
	if side == "go" {
		return 3 * time.Second // parents are looked at every second
	}
	return 15 * time.Second // every 10 s; the first renewal comes as late
}

// contend is how long the lock of a leader is seen to be free and not taken: two
// looks, two turns of the main loop.
func (t times) contend(side string) time.Duration {
	if side == "go" {
		return 2 * t.or(t.beat, 10*time.Second)
	}
	return 2*t.or(t.beat, 30*time.Second) + 2*time.Second
}

const (
	busy    = 5 * time.Second  // what a loaded machine adds
	handoff = 30 * time.Second // how long either side leaves a hand-off that makes no progress
)

// calm is the bound where nothing happened to anybody: two runs of the leader,
// and the reader's start.
func (l law) calm(leader, reader string) time.Duration {
	return 2*l.times.cycle(leader) + l.times.discovery(reader) + l.times.start(reader) + busy
}

// cost is how much longer a shard may be unread because of an upset. leaderless is
// for how long nobody will lead because of an earlier one.
func (l law) cost(u upset, shard, leader, reader string, leaderless time.Duration) time.Duration {
	t := l.times
	// A lease that is not released has to expire. A Java leader gives it to the
	// worker that has gone for as long as that one's report counts as fresh.
	again := t.failoverTime() + 2*t.cycle(leader) + t.discovery(reader)
	if leader == "java" {
		again += 2 * t.or(t.report, 30*time.Second)
	}
	if slices.Contains(u.moving, shard) {
		again += handoff
	}
	lock := leaderless
	if u.lock > 0 {
		lock = u.lock + t.contend(leader)
	}
	lasted := u.end.Sub(u.at)
	switch u.how {
	case "frozen":
		if lasted < t.failoverTime() {
			return lasted
		}
		return min(lasted+again, lock+again)
	case "stopped":
		if u.lock > 0 {
			lock = t.contend(leader) // freed
		}
		if side(u.worker) == "go" { // releases its leases, and says that it goes
			again = 2*t.cycle(leader) + t.discovery(reader)
			if slices.Contains(u.moving, shard) {
				again += handoff
			}
		}
		return lasted + lock + again
	}
	return lock + again
}

// leads tells the side whose times count: Java's, the longer ones, if a Java
// worker led at any time from the upset on.
func (l law) leads(from, to time.Time, without string) string {
	found := ""
	for i, r := range l.reigns {
		over := i+1 < len(l.reigns) && !l.reigns[i+1].from.After(from)
		if over || r.from.After(to) || r.worker == without && !r.from.After(from) {
			continue
		}
		if found = side(r.worker); found == "java" {
			return found
		}
	}
	return cmp.Or(found, "java")
}

// bound returns how long the span may be, and the last upset that excuses it.
func (l law) bound(s span) (span, time.Duration, string) {
	present := func(t time.Time) time.Time {
		for _, a := range l.absence {
			if !t.Before(a.from) && t.Before(a.to) {
				t = a.to
			}
		}
		return t
	}
	s.from = present(s.from)
	for _, a := range l.absence {
		if a.from.After(s.from) && a.to.Before(s.to) {
			s.from = a.to
		}
	}
	reader := cmp.Or(side(s.by), "java")
	limit, why := l.calm(l.leads(s.from, s.to, ""), reader), "calm"
	until, lead := s.from, time.Time{} // when the upsets are over; from when on somebody leads
	for _, u := range l.upsets {
		gone := u.worker
		if u.how == "frozen" {
			gone = "" // it may lead again
		}
		leader := l.leads(u.at, s.to, gone)
		at := present(u.at) // where nobody was there, nobody saw it
		end := at.Add(l.cost(u, s.shard, leader, reader, max(0, lead.Sub(at))))
		if at.After(s.to) || at.After(until.Add(limit)) {
			break // the bound was over by then
		}
		if u.lock > 0 {
			lead = at.Add(u.lock + l.times.contend(leader))
		}
		if end.Before(s.from) {
			continue
		}
		why = u.String()
		if end.After(until) {
			until = end
		}
	}
	return s, max(limit+until.Sub(s.from), l.least), why
}

// finding is a span beside its bound.
type finding struct {
	span
	limit time.Duration
	why   string
}

func (f finding) String() string {
	if f.shard == "" {
		return "none"
	}
	return fmt.Sprintf("%.1f s of %.1f s allowed (%s), shard %s until %s", f.lasts().Seconds(), f.limit.Seconds(), f.why, short(f.shard), f.to.Format("15:04:05"))
}

// findings returns the longest span for each thing that excuses it, the longest
// first, and those beyond their bounds, one a shard.
func (l law) findings(spans []span) (worst, breaches []finding) {
	by, broken := map[string]finding{}, map[string]finding{}
	for _, s := range spans {
		s, limit, why := l.bound(s)
		f := finding{s, limit, why}
		if f.lasts() > by[why].lasts() {
			by[why] = f
		}
		if f.lasts() > limit && f.lasts() > broken[s.shard].lasts() {
			broken[s.shard] = f
		}
	}
	sorted := func(m map[string]finding) (all []finding) {
		for _, f := range m {
			all = append(all, f)
		}
		slices.SortFunc(all, func(a, b finding) int {
			return cmp.Or(cmp.Compare(b.lasts(), a.lasts()), cmp.Compare(a.shard, b.shard), cmp.Compare(a.why, b.why))
		})
		return all
	}
	return sorted(by), sorted(broken)
}

// leases#60
func TestBound(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0) }
	fast := times{failover: 10_000, lock: 15_000, beat: 4_000, assign: 4_000, report: 5_000}
	java := []reign{{"java-1", at(-100)}}
	gone := []reign{{"go-1", at(-100)}}
	var none times
	for name, c := range map[string]struct {
		times    times
		upsets   []upset
		reigns   []reign
		absence  []span
		from, to int
		by       string
		want     int // seconds
	}{
		"nothing happened, Go":     {none, nil, gone, nil, 0, 60, "go-1", 4 + 2 + 3 + 5},
		"nothing happened, Java":   {none, nil, java, nil, 0, 60, "java-1", 40 + 10 + 15 + 5},
		"Java leads, Go reads":     {fast, nil, java, nil, 0, 60, "go-1", 8 + 2 + 3 + 5},
		"who reads is not known":   {fast, nil, java, nil, 0, 60, "", 8 + 2 + 15 + 5},
		"an owner is killed, Go":   {none, []upset{{how: "killed", worker: "go-2", at: at(0)}}, gone, nil, 0, 60, "go-1", 14 + 10 + 4 + 2},
		"an owner is killed, Java": {none, []upset{{how: "killed", worker: "go-2", at: at(0)}}, java, nil, 0, 60, "java-1", 70 + 10 + 40 + 10 + 60},
		"half of it is over":       {none, []upset{{how: "killed", worker: "go-2", at: at(0)}}, gone, nil, 8, 60, "go-1", 14 + 8},
		"all of it is over":        {none, []upset{{how: "killed", worker: "go-2", at: at(0)}}, gone, nil, 17, 60, "go-1", 14},
		"it came later":            {none, []upset{{how: "killed", worker: "go-2", at: at(61)}}, gone, nil, 0, 60, "go-1", 14},
		"it came in time":          {none, []upset{{how: "killed", worker: "go-2", at: at(14)}}, gone, nil, 0, 60, "go-1", 14 + 14 + 16},
		"it came too late":         {none, []upset{{how: "killed", worker: "go-2", at: at(15)}}, gone, nil, 0, 60, "go-1", 14},
		"two are killed":           {none, []upset{{how: "killed", worker: "go-2", at: at(0)}, {how: "killed", worker: "go-3", at: at(10)}}, gone, nil, 0, 60, "go-1", 14 + 10 + 16},
		"the leader, then an owner": {none, []upset{{how: "killed", worker: "go-1", at: at(0), lock: 30 * time.Second}, {how: "killed", worker: "go-3", at: at(10), moving: []string{"s"}}},
			append(gone, reign{"go-2", at(40)}), nil, 0, 60, "go-2", 14 + 50 + 16 + 30},
		"two at a time":               {none, []upset{{how: "killed", worker: "go-2", at: at(0)}, {how: "killed", worker: "go-3", at: at(0)}}, gone, nil, 0, 60, "go-1", 14 + 16},
		"in the middle of a hand-off": {none, []upset{{how: "killed", worker: "go-2", at: at(0), moving: []string{"s"}}}, gone, nil, 0, 60, "go-1", 14 + 16 + 30},
		"of another lease":            {none, []upset{{how: "killed", worker: "go-2", at: at(0), moving: []string{"x"}}}, gone, nil, 0, 60, "go-1", 14 + 16},
		"the leader is killed, Go takes over": {none, []upset{{how: "killed", worker: "go-1", at: at(0), lock: 30 * time.Second}},
			append(gone, reign{"go-2", at(40)}), nil, 0, 60, "go-2", 14 + 30 + 20 + 10 + 4 + 2},
		"the leader is killed, Java takes over": {fast, []upset{{how: "killed", worker: "go-1", at: at(0), lock: 30 * time.Second}},
			append(gone, reign{"java-1", at(40)}), nil, 0, 60, "java-1", 8 + 2 + 15 + 5 + 30 + 8 + 2 + 10 + 8 + 2 + 10},
		"a Java leader is killed, Go takes over": {none, []upset{{how: "killed", worker: "java-1", at: at(0), lock: 120 * time.Second}},
			append(java, reign{"go-1", at(130)}), nil, 0, 140, "go-1", 40 + 2 + 3 + 5 + 120 + 20 + 10 + 4 + 2},
		"the lesser one is over first": {none, []upset{{how: "killed", worker: "go-1", at: at(0), lock: 30 * time.Second}, {how: "stopped", worker: "go-3", at: at(20), end: at(23)}},
			append(gone, reign{"go-2", at(40)}), nil, 0, 60, "go-2", 14 + 30 + 20 + 10 + 4 + 2},
		"a Go owner stops":    {none, []upset{{how: "stopped", worker: "go-2", at: at(0), end: at(3)}}, gone, nil, 0, 60, "go-1", 14 + 3 + 4 + 2},
		"a Java owner stops":  {none, []upset{{how: "stopped", worker: "java-2", at: at(0), end: at(3)}}, gone, nil, 0, 60, "go-1", 14 + 3 + 10 + 4 + 2},
		"a Go leader stops":   {none, []upset{{how: "stopped", worker: "go-1", at: at(0), end: at(3), lock: 30 * time.Second}}, append(gone, reign{"go-2", at(4)}), nil, 0, 60, "go-2", 14 + 3 + 20 + 4 + 2},
		"a short freeze":      {none, []upset{{how: "frozen", worker: "go-1", at: at(0), end: at(9), lock: 30 * time.Second}}, gone, nil, 0, 60, "go-1", 14 + 9},
		"a leader frozen 20s": {none, []upset{{how: "frozen", worker: "go-1", at: at(0), end: at(20), lock: 30 * time.Second}}, gone, nil, 0, 60, "go-1", 14 + 20 + 16},
		"a leader frozen 75s": {none, []upset{{how: "frozen", worker: "go-1", at: at(0), end: at(75), lock: 30 * time.Second}}, gone, nil, 0, 60, "go-1", 14 + 30 + 20 + 16},
		"nobody was there, then": {none, []upset{{how: "killed", worker: "go-2", at: at(0)}}, gone,
			[]span{{from: at(0), to: at(50)}}, 10, 60, "go-1", 14 + 16},
	} {
		l := law{times: c.times, upsets: c.upsets, reigns: c.reigns, absence: c.absence}
		_, limit, _ := l.bound(span{"s", at(c.from), at(c.to), c.by})
		assert.Equal(t, float64(c.want), limit.Seconds(), name)
	}

	l := law{times: none, upsets: []upset{{how: "killed", worker: "go-2", at: at(0)}}, reigns: gone, absence: []span{{from: at(100), to: at(200)}}}
	worst, breaches := l.findings([]span{
		{"s", at(0), at(30), "go-1"}, {"s", at(0), at(31), "go-1"}, {"s", at(1), at(32), "go-1"}, {"r", at(90), at(104), "go-1"}, {"r", at(90), at(214), "go-1"},
		{"q", at(50), at(100), "go-1"},
	})
	said := func(all []finding) (lines []string) {
		for _, f := range all {
			lines = append(lines, fmt.Sprintf("%s %v %v %s", f.shard, f.lasts(), f.limit, f.why))
		}
		return lines
	}
	assert.Equal(t, []string{"q 50s 14s calm", "s 31s 30s go-2 killed"}, said(worst))
	assert.Equal(t, []string{"q 50s 14s calm", "s 31s 30s go-2 killed"}, said(breaches), "what began before an absence is counted from its end")
}
