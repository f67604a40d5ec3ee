package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// The fleet goes back.
var (
	backToOld = step{"the fleet goes back to 3.4, and forward again", func(l *life) {
		was, since := l.stored()
		l.roll(of34, 0, 1, 2)
		l.pass(10 * time.Minute)
		// INIT may be undone by the last that know it, or be left.
		if s, at := l.stored(); (s != was || !at.Equal(since)) && (was != isInit || s != noStatus) {
			l.fails(staysPut, "3.4 cannot change the status, and it became %s", s)
		}
		forth := time.Now()
		l.roll(ofFirst, 0, 1, 2)
		l.pass(l.slack())
		s, at := l.stored()
		switch {
		case was == isInit && (s != isInit || !at.After(forth)):
			l.fails(fullBake, "INIT is not begun anew: %s since %v", s, at)
		case was == isDeployed && !at.Equal(since):
			l.fails(steps, "DEPLOYED is not kept: %s since %v", s, at)
		}
	}}
	backToFirst = step{"the fleet goes back to the first deployment, and forward again", func(l *life) {
		l.roll(ofFirst, 0, 1, 2)
		l.await(isDeployed, l.slack())
		l.stays(isDeployed, 10*time.Minute)
		l.roll(ofSecond, 0, 1, 2)
		l.await(isPending, 2*time.Minute+l.slack())
	}}
	halfBackToFirst = step{"one worker goes back to the first deployment, and forward again", func(l *life) {
		l.roll(ofFirst, 1)
		l.await(isDeployed, l.slack())
		l.stays(isDeployed, 10*time.Minute)
		l.roll(ofSecond, 1)
		l.await(isPending, 2*time.Minute+l.slack())
	}}
)

// Stragglers.
var (
	oldStays = step{"a worker of 3.4 stays for longer than a bake", func(l *life) {
		l.stays(noStatus, 65*time.Minute)
	}}
	oldJoins = step{"a worker of 3.4 joins at INIT", func(l *life) {
		h := l.start("guest", of34)
		l.await(noStatus, l.slack())
		l.stays(noStatus, 10*time.Minute)
		l.dismiss(h)
		l.await(isInit, l.slack())
	}}
	ownerDies = step{"a lease owner that does not lead is killed", func(l *life) {
		l.chronicle.mu.Lock()
		leads, _ := l.holder()
		l.chronicle.mu.Unlock()
		i := slices.IndexFunc(l.places[:], func(h *hand) bool { return h.name != leads && h.up() })
		require.GreaterOrEqual(l.t, i, 0, "another")
		l.unmoved(6*time.Minute, func() { l.slay(l.places[i]) })
	}}
	leaderDies = step{"the leader is killed", func(l *life) {
		i := l.leader()
		l.unmoved(6*time.Minute, func() { l.slay(l.places[i]) })
	}}
	leaderStops = step{"the leader is replaced", func(l *life) {
		i := l.leader()
		l.unmoved(4*time.Minute, func() { l.roll(l.places[i].stage, i) })
	}}
	firstStays = step{"then a worker of the first deployment stays when the others are of the second", func(l *life) {
		l.roll(ofSecond, 0, 1)
		l.stays(isDeployed, 20*time.Minute)
	}}
	firstJoins = step{"a worker of the first deployment joins at PENDING", func(l *life) {
		h := l.start("guest", ofFirst)
		l.await(isDeployed, l.slack())
		l.stays(isDeployed, 10*time.Minute)
		l.dismiss(h)
		l.await(isPending, 2*time.Minute+l.slack())
	}}
	firstLeads = step{"a worker of the first deployment joins at PENDING, and is the only one left", func(l *life) {
		h := l.start("guest", ofFirst)
		l.pass(2 * time.Second)
		for _, other := range l.places {
			if other.up() {
				l.slay(other)
			}
		}
		l.await(isDeployed, l.slack())
		l.stays(isDeployed, 10*time.Minute)
		l.dismiss(h)
		l.await(isPending, 2*time.Minute+l.slack())
	}}
	lastMinute = step{"a worker of the first deployment joins just before COMPLETE", func(l *life) {
		_, since := l.stored()
		due := since.Add(l.course.bake)
		l.pass(time.Until(due.Add(-assignEvery + time.Second)))
		scans := func() (n int) {
			for _, c := range l.aws.Calls() {
				if c.Operation == "Scan" && c.Resource == reportTable {
					n += c.Calls
				}
			}
			return n
		}
		// After the leader's last scan but for the one that the end asks for.
		for before := scans(); time.Until(due) > 15*time.Second && scans() == before; {
			time.Sleep(100 * time.Millisecond)
		}
		h := l.start("guest", ofFirst)
		l.await(isDeployed, l.slack())
		l.stays(isDeployed, 5*time.Minute)
		l.dismiss(h)
		l.await(isPending, 2*time.Minute+l.slack())
	}}
	oldAppears = step{"a worker of 3.4 appears at PENDING", func(l *life) {
		h := l.start("guest", of34)
		for start := time.Now(); ; l.pass(time.Second) {
			if s, _ := l.stored(); s == isDeployed {
				break
			}
			select {
			case <-h.done: // it has met something that it takes for a broken lease
				require.Error(l.t, h.err)
				h.leaving = true
				l.stays(isPending, 5*time.Minute)
				return
			default:
			}
			if time.Since(start) > l.slack() {
				l.fails(inTime, "a worker of 3.4 does not undo PENDING")
			}
		}
		l.stays(isDeployed, 5*time.Minute)
		h.leaving = true
		h.stop(nil)
		l.await(isPending, 2*time.Minute+l.slack())
	}}
	itemAppears = step{"an item is put into the legacy table at PENDING", func(l *life) {
		l.put(row{"key": text("stream-late"), "entityType": text("STREAM"), "streamId": text("id-late")})
		appeared := time.Now() // it is at DEPLOYED for an instant only
		for s, at := l.stored(); s != isPending || at.Before(appeared); s, at = l.stored() {
			if l.pass(time.Second); time.Since(appeared) > 2*l.slack() {
				l.fails(inTime, "it is %s since %v, and an item appeared at %v", s, at, appeared)
			}
		}
	}}
	tooEarly = step{"a worker of the second deployment comes too early", func(l *life) {
		h := l.start("early", ofSecond)
		for start := time.Now(); ; l.pass(time.Second) {
			select {
			case <-h.done:
				require.ErrorContains(l.t, h.cause(), "second deployment of the single-table migration before the first is done")
				h.leaving = true
				return
			default:
				require.Less(l.t, time.Since(start), 2*time.Minute)
			}
		}
	}}
)

// points are the writes of the migration, in their order.
var points = []trap{{at: isInit}, {at: isDeployed}, {at: itemMove}, {at: itemMove, nth: 2}, {at: isPending}, {at: isComplete}}

// everywhere has the same befall each write.
func everywhere(how trick) (all []trap) {
	for _, p := range points {
		p.how = how
		all = append(all, p)
	}
	return all
}

// fewLives are part of every run of the tests.
func fewLives() []course {
	return []course{
		{name: "the leader dies after each write", traps: everywhere(killAfter), names: true},
		{name: "writes of the dead land", traps: everywhere(ghost)},
		{name: "back and forth", then: map[string][]step{isInit: {backToOld}, isDeployed: {backToOld, firstStays}, isPending: {halfBackToFirst, ownerDies}}},
	}
}

// allLives are with -full-day.
func allLives() (all []course) {
	all = fewLives()
	for _, how := range []trick{killBefore, loseAnswer, muteAnswer, cutOff, comeLate, killOther} {
		all = append(all, course{name: "at each write, " + string(how), traps: everywhere(how)})
	}
	backs := map[string]map[string][]step{
		"": nil, ", back from INIT": {isInit: {backToOld}}, ", back from DEPLOYED": {isDeployed: {backToOld}}, ", back from PENDING": {isPending: {backToFirst}},
	}
	for _, p := range points {
		for _, how := range []trick{killBefore, killAfter, ghost, muteAnswer} {
			for _, back := range slices.Sorted(maps.Keys(backs)) {
				p.how = how
				c := course{name: fmt.Sprintf("%s %d, %s%s", strings.TrimPrefix(p.at, statusPrefix), max(1, p.nth), how, back), traps: []trap{p}, then: backs[back]}
				c.lossy, c.names = len(all)%2 == 0, len(all)/2%2 == 0
				all = append(all, c)
			}
		}
	}
	all = append(all,
		course{name: "every second answer is lost", lossy: true},
		course{name: "an item is changed while it is moved", traps: []trap{{at: itemMove, how: meddle}, {at: itemMove, nth: 2, how: meddle}}},
		course{name: "3.4 stays", then: map[string][]step{noStatus: {oldStays}, isInit: {tooEarly}}},
		course{name: "3.4 joins", then: map[string][]step{isInit: {oldJoins}}},
		course{name: "3.4 appears", then: map[string][]step{isPending: {oldAppears}}},
		course{name: "the first deployment joins", names: true, then: map[string][]step{isPending: {firstJoins}}},
		course{name: "the first deployment leads", then: map[string][]step{isPending: {firstLeads}}},
		course{name: "the first deployment joins at the end", then: map[string][]step{isPending: {lastMinute}}},
		course{name: "the first deployment joins at the end, a little later", bake: time.Hour + 10*time.Second, then: map[string][]step{isPending: {lastMinute}}},
		course{name: "the first deployment joins at the end, later still", bake: time.Hour + 20*time.Second, then: map[string][]step{isPending: {lastMinute}}},
		course{name: "an item appears", then: map[string][]step{isPending: {itemAppears}}},
		course{name: "a long bake", bake: 24 * time.Hour, then: map[string][]step{isPending: {leaderDies, ownerDies, leaderStops}}},
		course{name: "INIT is undone while answers are lost", lossy: true, traps: []trap{{at: noStatus, how: muteAnswer}}, then: map[string][]step{isInit: {oldJoins, leaderDies}}},
		course{name: "the leader dies as it undoes INIT", traps: []trap{{at: noStatus, how: ghost}}, then: map[string][]step{isInit: {oldJoins, leaderStops}}},
		course{name: "the leader dies as it undoes PENDING", traps: []trap{{at: isDeployed, nth: 2, how: ghost}}, then: map[string][]step{isPending: {firstJoins, leaderStops}}},
	)
	return all
}

// drawLife returns the life of a seed: some of all that may befall it. Traps are
// only for the first write of their kind, so that each is sprung.
func drawLife(seed uint64) course {
	d := rand.New(rand.NewPCG(seed, 0))
	c := course{name: fmt.Sprint("seed ", seed), names: d.IntN(2) == 0, lossy: d.IntN(2) == 0, then: map[string][]step{}}
	tricks := []trick{killBefore, killAfter, ghost, loseAnswer, muteAnswer, cutOff, comeLate, killOther}
	for _, p := range points {
		if p.how = tricks[d.IntN(len(tricks))]; d.IntN(2) == 0 {
			c.traps = append(c.traps, p)
		}
	}
	for _, at := range []struct {
		status string
		may    []step
	}{
		{noStatus, []step{oldStays, leaderStops}},
		{isInit, []step{backToOld, oldJoins, leaderDies, leaderStops, ownerDies, tooEarly}},
		{isDeployed, []step{backToOld, firstStays, leaderDies, leaderStops, ownerDies}},
		{isPending, []step{backToFirst, halfBackToFirst, firstJoins, firstLeads, lastMinute, oldAppears, itemAppears, leaderDies, leaderStops, ownerDies}},
	} {
		for range d.IntN(3) {
			c.then[at.status] = append(c.then[at.status], at.may[d.IntN(len(at.may))])
		}
		// After it nobody may go back to 3.4.
		slices.SortStableFunc(c.then[at.status], func(x, y step) int { return strings.Compare(x.what, y.what) })
	}
	return c
}

// unmoved does something and lets time pass, by which the stored status, and since
// when it is, must not change.
func (l *life) unmoved(d time.Duration, do func()) {
	was, since := l.stored()
	do()
	l.pass(d)
	if s, at := l.stored(); s != was || !at.Equal(since) {
		l.fails(evidence, "it became %s", s)
	}
}
