package leader

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A model of several contenders and their table, in steps of modelTick. What a
// contender decides is decided by the package's pure functions; what it does with
// that is Run's, in the small. Calls are slow, are lost on their way or on their
// way back, land long after their caller has given up, and land twice, as when
// the SDK repeats them.

const (
	modelTick  = 100 * time.Millisecond
	modelQuiet = 20 * time.Second
)

type modelWorld struct {
	t     *rapid.T
	now   time.Time // true time
	item  lock
	found bool
	since time.Time // of the last write
	land  []landing
	procs []*modelProcess
	calm  bool // no more faults

	versions int
	refused  int // writes
}

type landing struct {
	at time.Time
	do func()
}

// modelProcess is a worker's process. It is suspended, when its monotonic clock
// stands still, or its wall clock is set, but not both: one of the two clocks has
// to be right.
type modelProcess struct {
	w         *modelWorld
	name      string
	d, beat   time.Duration // the lock's duration, and heartbeat
	suspends  bool          // else its wall clock is set
	slept     time.Duration
	wallOff   time.Duration
	sleepTill time.Time
	cutTill   time.Time // no call of it comes through

	own      own
	sighting sighting
	leading  bool
	from     reading
	next     time.Time // the next look or heartbeat
	call     *modelCall
}

// modelCall is a call that its process waits for until it gives up.
type modelCall struct {
	until    time.Time // by the process's monotonic clock
	answered bool
	then     func(failed bool)
}

func (p *modelProcess) read() reading {
	return reading{p.w.now.Add(-p.slept), p.w.now.Add(p.wallOff)}
}

func (p *modelProcess) mono() time.Time { return p.read().mono }

func (p *modelProcess) stands() standing {
	mono, wall := p.read().since(p.from)
	return judge(mono, wall, p.d)
}

// acts reports whether the process does a leader's work at this moment.
func (p *modelProcess) acts() bool {
	return p.leading && !p.suspended() && p.stands() == certain
}

func (p *modelProcess) suspended() bool { return p.w.now.Before(p.sleepTill) }

// ask makes a call: do is what it does in the table, then what follows.
func (p *modelProcess) ask(patience time.Duration, do func(), then func(failed bool)) {
	c := &modelCall{until: p.mono().Add(patience), then: then}
	p.call = c
	ticks := func(most int, what string) time.Duration {
		return time.Duration(rapid.IntRange(0, most).Draw(p.w.t, what)) * modelTick
	}
	fate := 0
	switch {
	case p.w.now.Before(p.cutTill):
		fate = 6
	case !p.w.calm:
		fate = rapid.IntRange(0, 9).Draw(p.w.t, "fate of the call")
	}
	arrives := p.w.now
	if fate < 7 {
		arrives = arrives.Add(ticks(2, "way"))
	}
	lands := func(at time.Time, answer bool) {
		p.w.land = append(p.w.land, landing{at, func() {
			do()
			if answer {
				c.answered = true
			}
		}})
	}
	switch fate {
	case 6: // lost
	case 7: // the answer is lost
		lands(arrives.Add(ticks(30, "late by")), false)
	case 8: // repeated by the SDK
		lands(arrives, false)
		lands(arrives.Add(ticks(4, "repeated after")), true)
	case 9: // too slow, perhaps
		lands(arrives.Add(ticks(10, "slow by")), true)
	default:
		lands(arrives, true)
	}
}

func (w *modelWorld) version() string {
	w.versions++
	return fmt.Sprint("v", w.versions)
}

// put is a write that replaces the item if held says so.
func (w *modelWorld) put(held bool, l lock) answer {
	if !held {
		w.refused++
		return answer{old: w.item, found: w.found}
	}
	w.item, w.found, w.since = l, true, w.now
	return answer{done: true}
}

func (w *modelWorld) take(a action, l lock, seen string) answer {
	held := false
	switch a {
	case acquire:
		held = !w.found
	case reclaim:
		held = w.found && w.item.released
	case steal:
		held = w.found && w.item.version == seen
	}
	if held && a == steal {
		require.Greater(w.t, w.now.Sub(w.since), w.item.duration, "%s takes a lock that %s has renewed in time", l.owner, w.item.owner)
	}
	return w.put(held, l)
}

func (p *modelProcess) look() {
	var item lock
	var found bool
	p.ask(p.beat/callParts, func() { item, found = p.w.item, p.w.found }, func(failed bool) {
		now := p.mono()
		if failed {
			p.next = now.Add(p.beat / retryParts)
			return
		}
		a := next(item, found, p.sighting, p.own.has(item, p.name), now, false)
		if a != adopt {
			p.sighting = p.sighting.next(item, found, now)
		}
		switch a {
		case adopt:
			p.adopt(item.version)
		case acquire, reclaim, steal:
			p.take(a)
		default:
			p.next = nextLook(p.sighting, now, p.beat, time.Time{})
		}
	})
}

func (p *modelProcess) take(a action) {
	l := lock{owner: p.name, version: p.w.version(), duration: p.d}
	p.own.unsure = l.version
	from, seen := p.read(), p.sighting.version
	var ans answer
	p.ask(p.beat/callParts, func() { ans = p.w.take(a, l, seen) }, func(failed bool) {
		now := p.mono()
		switch {
		case failed, !ans.done && !ans.found:
			p.next = now.Add(p.beat / retryParts)
		case ans.done:
			p.own = own{known: l.version}
			p.lead(from)
		case p.own.has(ans.old, p.name):
			p.adopt(ans.old.version)
		default:
			p.sighting = p.sighting.next(ans.old, true, now)
			p.next = nextLook(p.sighting, now, p.beat, time.Time{})
		}
	})
}

func (p *modelProcess) lead(from reading) {
	p.leading, p.from, p.sighting = true, from, sighting{}
	p.next = from.mono.Add(p.beat)
}

func (p *modelProcess) contend() {
	p.leading, p.next = false, p.mono()
}

func (p *modelProcess) adopt(version string) {
	if version == p.own.unsure {
		p.own.unsure = ""
	}
	p.own.known = version
	p.renew(p.beat/callParts, 2, func(from reading, renewed, _ bool) {
		if renewed {
			p.lead(from)
			return
		}
		p.next = p.mono().Add(p.beat / retryParts)
	})
}

func (p *modelProcess) renew(patience time.Duration, passes int, then func(from reading, renewed, failed bool)) {
	version := p.own.unsure
	if version == "" {
		version = p.w.version()
	}
	p.own.unsure = version
	l, known, from := lock{owner: p.name, version: version, duration: p.d}, p.own.known, p.read()
	deadline := p.mono().Add(patience)
	var ans answer
	p.ask(patience, func() {
		ans = p.w.put(p.w.found && p.w.item.version == known && p.w.item.owner == p.name, l)
	}, func(failed bool) {
		if failed {
			then(from, false, true)
			return
		}
		again, mine := false, ans.found && p.own.has(ans.old, p.name)
		if p.own, again = p.own.renewed(ans, p.name); again {
			if passes == 1 {
				then(from, false, true)
				return
			}
			p.renew(deadline.Sub(p.mono()), passes-1, then)
			return
		}
		require.False(p.w.t, mine, "%s drops a lock that it has", p.name)
		then(from, ans.done, false)
	})
}

// step is what the process does at this moment.
func (p *modelProcess) step() {
	if c := p.call; c != nil {
		failed := p.mono().After(c.until)
		if !failed && !c.answered {
			return
		}
		p.call = nil
		c.then(failed)
		return
	}
	if !p.leading {
		if !p.mono().Before(p.next) {
			p.look()
		}
		return
	}
	switch s := p.stands(); {
	case s == over:
		p.contend()
	case s == doubtful:
		p.contend()
		p.adopt(p.own.known)
	case !p.mono().Before(p.next):
		patience := min(p.beat/callParts, p.from.mono.Add(p.d).Sub(p.mono()))
		p.renew(patience, 2, func(from reading, renewed, failed bool) {
			switch {
			case failed:
				p.next = p.mono().Add(p.beat / retryParts)
			case !renewed:
				p.contend()
			case p.leading:
				p.from, p.next = from, from.mono.Add(p.beat)
			}
		})
	}
}

func (w *modelWorld) start(name string) *modelProcess {
	p := &modelProcess{
		w: w, name: name, suspends: rapid.Bool().Draw(w.t, "suspends"),
		beat: time.Second, d: time.Duration(rapid.IntRange(20, 50).Draw(w.t, "duration")) * modelTick,
	}
	p.next = p.mono()
	w.procs = append(w.procs, p)
	return p
}

// disturb is what befalls the processes now and then.
func (w *modelWorld) disturb() {
	p := rapid.SampledFrom(w.procs).Draw(w.t, "process")
	if x := w.acting(); x != nil && rapid.IntRange(0, 3).Draw(w.t, "the leader") > 0 {
		p = x
	}
	seconds := func(what string, from, to int) time.Duration {
		return time.Duration(rapid.IntRange(from, to).Draw(w.t, what)) * time.Second
	}
	switch rapid.IntRange(0, 6).Draw(w.t, "event") {
	case 0: // killed, and started anew under the same name
		w.procs = slices.DeleteFunc(w.procs, func(q *modelProcess) bool { return q == p })
		w.start(p.name)
	case 1: // stops, and frees the lock
		if p.suspended() {
			return
		}
		w.procs = slices.DeleteFunc(w.procs, func(q *modelProcess) bool { return q == p })
		for _, version := range []string{p.own.known, p.own.unsure} {
			if version != "" && w.found && w.item.version == version && w.item.owner == p.name {
				w.item, w.found = lock{}, false
			}
		}
		w.start(p.name)
	case 2, 3:
		if p.suspends {
			p.sleepTill = w.now.Add(seconds("suspended for", 1, 12))
		} else {
			p.wallOff += seconds("wall clock set by", -12, 12)
		}
	case 4, 5:
		p.cutTill = w.now.Add(seconds("cut off for", 1, 12))
	case 6: // an operator marks the lock as released
		if w.found && w.now.Sub(w.since) > w.item.duration {
			w.item.released = true
		}
	}
}

// tick lets modelTick pass, in parts.
func (w *modelWorld) tick() {
	w.now = w.now.Add(modelTick)
	for _, p := range w.procs {
		if p.suspended() {
			p.slept += modelTick
		}
	}
	due := w.land
	w.land = nil
	for _, l := range due {
		if l.at.After(w.now) {
			w.land = append(w.land, l)
		} else {
			l.do()
		}
	}
	for _, p := range w.procs {
		if !p.suspended() {
			p.step()
		}
	}
	var acting []string
	for _, p := range w.procs {
		if p.acts() {
			acting = append(acting, p.name)
		}
	}
	require.LessOrEqual(w.t, len(acting), 1, "%v act as leader", acting)
}

func (w *modelWorld) acting() *modelProcess {
	for _, p := range w.procs {
		if p.acts() {
			return p
		}
	}
	return nil
}

// Rulings 1, 5 and 10, leader-and-client-version-migration#6,7,8: at no moment do
// two act as leader, whatever calls, processes and clocks do; a lock is stolen
// only when its owner was silent for the item's whole duration; and when all is
// calm, the lock has a holder within that duration and one and a half
// heartbeats, who keeps it by one write each.
func TestOneHolderActs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &modelWorld{t: t, now: t0}
		for i := range rapid.IntRange(1, 3).Draw(t, "processes") {
			w.start(fmt.Sprint("w", i))
		}
		for range rapid.IntRange(0, 20).Draw(t, "events") {
			for range rapid.IntRange(1, 40).Draw(t, "ticks") {
				w.tick()
			}
			w.disturb()
		}
		w.calm = true
		for _, p := range w.procs {
			p.sleepTill, p.cutTill = time.Time{}, time.Time{}
		}
		// Calls that are under way still come to their end.
		bound := w.item.duration
		for len(w.land) > 0 {
			w.tick()
			bound = max(bound, w.item.duration)
		}
		for end := w.now.Add(bound + 3*time.Second/2); w.now.Before(end); {
			w.tick()
		}
		leader := w.acting()
		require.NotNil(t, leader, "nobody leads")
		w.refused = 0
		for end := w.now.Add(modelQuiet); w.now.Before(end); {
			w.tick()
			require.True(t, leader == w.acting(), "the lock is not kept")
			require.Zero(t, w.refused, "there are needless writes")
		}
	})
}
