package sim

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/go-kcl/kcl/coordinator/assignment"
	"github.com/go-kcl/kcl/lease"
)

// bounds say how soon the leases of a worker that is gone have owners again, by
// the configuration: the formula is in the names of the terms.
type bounds struct {
	failover, interval, discovery, lock, heartbeat, report, handOff, calls time.Duration
}

// settled returns the bounds for all settings of a scenario together.
func (s *scenario) settled() (b bounds) {
	for _, c := range s.settings {
		interval, discovery := 2*time.Second, 2*time.Second
		if set := c.Leases.AssignmentInterval; set > 0 {
			interval, discovery = set, set/2
		}
		b.failover, b.interval = max(b.failover, c.Leases.FailoverTime), max(b.interval, interval)
		b.discovery = max(b.discovery, discovery)
		b.lock, b.heartbeat = max(b.lock, c.Leader.LeaseDuration), max(b.heartbeat, c.Leader.HeartbeatPeriod)
		b.report, b.handOff = max(b.report, c.Leases.WorkerReportInterval), max(b.handOff, c.Leases.GracefulHandoffTimeout)
	}
	b.calls = 20*s.latency + time.Second
	return b
}

const (
	ownerFormula   = "failover + interval + discovery + calls"
	arrivalFormula = " + hand-off + max(2 failover, 20 s, interval)"
	leaderFormula  = "lock + heartbeat + failover + interval + discovery + calls"
	releaseFormula = "interval + discovery + calls"
)

func (b bounds) owner() time.Duration  { return b.failover + b.release() }
func (b bounds) leader() time.Duration { return b.lock + b.heartbeat + b.owner() }

// grace is how long an owner may take to renew for the first time.
func (b bounds) grace() time.Duration { return max(2*b.failover, 20*time.Second, b.interval) }

func (b bounds) release() time.Duration { return b.interval + b.discovery + b.calls }

// settle heals everything, waits for the fleet to be as it should, and puts it
// to the test.
func (p *play) settle() {
	p.tell("heal")
	p.heal()
	b := p.settled()
	if !p.wait(everyRecord, time.Minute, "the last reshard", p.world.quiet) {
		return
	}
	time.Sleep(2 * time.Second) // a parent takes records for another second
	open := p.world.top()
	if !p.wait(ownedAgain, b.leader()+b.grace()+b.failover+2*b.report+b.handOff, "every lease to be a live worker's", func() bool {
		return p.ownedBy(p.running())
	}) {
		return
	}
	if !p.spread(open) {
		return
	}
	before := p.holders()
	time.Sleep(time.Minute)
	if after := p.holders(); p.counted() && !maps.Equal(before, after) {
		p.book.breaks(peace, "owners were %v and are %v", before, after)
	}
	if n, most := runtime.NumGoroutine(), 60+30*len(p.live)+4*open; n > most {
		p.book.breaks(bounded, "%d goroutines, for %d workers and %d leases", n, len(p.live), open)
	}
	if p.check() || !p.part(b, open) {
		return
	}

	p.world.stop()
	p.book.mu.Lock()
	p.auditGaps(p.byShard())
	p.book.mu.Unlock()
	if p.check() {
		return
	}
	if !p.wait(everyRecord, time.Minute, "all records", func() bool { return len(p.missing()) == 0 }) {
		return
	}
	p.tell("stop all")
	for _, x := range p.live {
		p.dismiss(x)
	}
	p.live = nil
	p.loose.Wait()
	p.audit()
}

// counted reports whether the number of its leases is what a worker's share is
// measured by. Else it goes with the load and the traffic, which change.
func (s *scenario) counted() bool { return s.strategy == assignment.LeaseCountBased }

// running makes sure that at least two workers run and returns their names.
func (p *play) running() map[string]bool {
	for {
		p.reap()
		names := map[string]bool{}
		for _, x := range p.up() {
			names[x.name] = true
		}
		if len(names) > 1 {
			return names
		}
		p.start()
	}
}

// ownedBy reports whether every lease belongs to one of these workers.
func (p *play) ownedBy(live map[string]bool) bool {
	return !slices.ContainsFunc(p.table(), func(l lease.Lease) bool { return !live[l.ActualOwner()] })
}

// spread waits for all ended shards' leases to be deleted and the others, one a
// shard, to be spread evenly, or at rest if they are not spread by number.
func (p *play) spread(open int) bool {
	var since time.Time
	ok := p.wait(even, 4*time.Minute, "leases to be spread evenly, and those of ended shards deleted", func() bool {
		counts := map[string]int{}
		for name := range p.running() {
			counts[name] = 0
		}
		all := p.table()
		good := len(all) == open
		for _, l := range all {
			if _, live := counts[l.Owner]; !live || l.Ended() || l.HandOffPending() {
				good = false
			}
			counts[l.Owner]++
		}
		n := slices.Sorted(maps.Values(counts))
		if !good || p.counted() && n[len(n)-1]-n[0] > 1 {
			since = time.Time{}
		} else if since.IsZero() {
			since = time.Now()
		}
		return !since.IsZero() && time.Since(since) > 30*time.Second
	})
	return ok && p.wait(cleanEnd, time.Minute, "stopping workers to be gone", func() bool { p.reap(); return len(p.up()) == len(p.live) })
}

// holders returns who owns which lease.
func (p *play) holders() map[string]string {
	out := map[string]string{}
	for _, l := range p.table() {
		out[l.Key] = owners(l)
	}
	return out
}

// part lets a worker be killed, unless all is gentle, and another one stop, and
// holds the fleet to what its configuration promises then.
func (p *play) part(b bounds, open int) bool {
	d := drawing{p.dice("part")}
	for len(p.up()) < 3 {
		p.start()
		if !p.spread(open) {
			return false
		}
	}
	pick := func() *process {
		time.Sleep(d.time(0, 30*time.Second)) // meet the loops of the workers in any phase
		up := p.up()
		if i := slices.IndexFunc(up, func(x *process) bool { return x.Status().Leading }); i >= 0 && d.IntN(2) == 0 {
			return up[i]
		}
		return up[d.IntN(len(up))]
	}
	if p.profile != gentle {
		x := pick()
		limit, formula := b.owner(), ownerFormula
		if x.Status().Leading {
			limit, formula = b.leader(), leaderFormula
		}
		if !p.counted() { // a lease may be on its way to that worker
			limit, formula = limit+b.handOff+b.grace(), formula+arrivalFormula
		}
		p.tell("kill %s, leading: %v", x.id, x.Status().Leading)
		x.kill()
		live := p.running()
		if !p.wait(ownedAgain, limit, fmt.Sprintf("others to own what it owned: %s = %s", formula, limit), func() bool { return p.ownedBy(live) }) {
			return false
		}
	}
	time.Sleep(2 * b.report) // a new leader takes workers for alive that reported so long ago
	x := pick()
	leads := x.Status().Leading
	p.tell("stop %s, leading: %v", x.id, leads)
	p.live = slices.DeleteFunc(p.live, func(y *process) bool { return x == y })
	p.dismiss(x)
	limit, formula := b.release(), releaseFormula
	if leads && x.settings.Leases.NoGracefulHandoff { // and so hands nothing over before the next leader looks
		limit, formula = limit+b.heartbeat, formula+" + heartbeat"
	}
	if !x.settings.KeepLeasesOnStop {
		live := p.running()
		return p.wait(released, limit, fmt.Sprintf("others to own what it owned: %s = %s", formula, limit), func() bool { return p.ownedBy(live) })
	}
	return p.spread(open)
}

// dismiss stops a worker, which leaves nothing behind.
func (p *play) dismiss(x *process) {
	x.stopped.Store(true)
	asked := time.Now()
	x.cancel()
	<-x.done
	if took := time.Since(asked); x.err != nil || took >= x.settings.StopTimeout {
		p.book.breaks(cleanEnd, "%s stopped after %s of %s: %v", x.id, took, x.settings.StopTimeout, x.err)
	}
	for _, l := range p.table() {
		if !x.settings.KeepLeasesOnStop && l.ActualOwner() == x.name {
			p.book.breaks(released, "%s has stopped and still owns %s", x.id, l.Key)
		}
		p.book.parts(x, l)
	}
}
