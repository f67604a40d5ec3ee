package sim

import (
	"slices"
	"strconv"
	"time"

	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/scheduler"
)

const leaderKey = "Leader"

// reign is what is known of a process as a leader.
type reign struct {
	until time.Time            // its term ends, counted from when the call left that won or renewed it
	read  map[string][]reading // lease → what it has read of it, or written
}

// reading is what a decision about a lease rests on.
type reading struct{ owner, checkpointOwner, counter string }

func (b *book) reign(process string) *reign {
	if b.leaders[process] == nil {
		b.leaders[process] = &reign{read: map[string][]reading{}}
	}
	return b.leaders[process]
}

// leads reports whether a call left its process within a term.
func (b *book) leads(a attempt) bool { return a.start.Before(b.reign(a.p.id).until) }

// locked looks at the leader's lock after a write.
func (b *book) locked(a attempt, operation string) {
	if operation == "DeleteItem" {
		b.tell("the lock is freed by %s", a.p.id)
		b.reign(a.p.id).until = time.Now()
		for id, other := range b.leaders {
			if other.until.After(time.Now()) && time.Now().After(b.lockless) {
				b.breaksLocked(term, "%s frees the lock, while the term of %s lasts for another %s", a.p.id, id, time.Until(other.until))
			}
		}
		return
	}
	it, err := b.raw(leaderKey)
	ms, numErr := strconv.Atoi(it["leaseDuration"].S)
	if err != nil || numErr != nil || it["ownerName"].S != a.p.name {
		b.breaksLocked(soundTable, "%s wrote the lock: %v, %v", a.p.id, it, err)
		return
	}
	r := b.reign(a.p.id)
	if time.Now().After(r.until) {
		b.tell("%s leads", a.p.id)
	}
	r.until = a.start.Add(time.Duration(ms) * time.Millisecond)
	for id, other := range b.leaders {
		if id != a.p.id && other.until.After(time.Now()) && time.Now().After(b.lockless) {
			b.breaksLocked(term, "%s has the lock, while the term of %s lasts for another %s", a.p.id, id, time.Until(other.until))
		}
	}
}

// unlock says that somebody took the lock away from whoever has it, who may go on
// for the rest of its term.
func (b *book) unlock() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.leaders {
		if r.until.After(b.lockless) {
			b.lockless = r.until
		}
	}
}

// lists looks at a ListShards that was answered. Who finds its shard gone may look
// whether that is so.
func (b *book) lists(a attempt) {
	if !b.leads(a) && !a.p.play.vanished.Load() {
		b.breaksLocked(gate, "%s lists shards, and does not lead", a.p.id)
	}
}

// moved looks at a lease that changes hands.
func (b *book) moved(a attempt, was, is lease.Lease) {
	if was.ActualOwner() == a.p.name {
		return // what is one's own one may give
	}
	for _, parent := range is.Parents {
		l := b.leases[parent]
		if was.Owner == "" && is.Owner == a.p.name && (b.ended[parent] == a.p.id || l.Ended() && l.ActualOwner() == a.p.name) {
			return // who owns a parent, and ended it, takes a child
		}
	}
	if !b.leads(a) {
		b.breaksLocked(term, "%s moved %s from %s to %s at %s, and its term ended at %s", a.p.id, is.Key, owners(was), owners(is), a.start, b.reign(a.p.id).until)
	}
	taken := was.Owner != "" && !is.HandOffPending() && b.askFirst && !b.overdue(a, was)
	for _, saw := range b.reign(a.p.id).read[is.Key] {
		if saw.owner == was.Owner && saw.checkpointOwner == was.CheckpointOwner && (!taken || saw.counter == strconv.FormatInt(was.Counter, 10)) {
			return
		}
	}
	b.breaksLocked(conditions, "%s moved %s from %s, counter %d, to %s, but had read %v", a.p.id, is.Key, owners(was), was.Counter, owners(is), b.reign(a.p.id).read[is.Key])
}

// heard notes what a write tells of a lease's owner.
func (b *book) heard(was, is lease.Lease) {
	heard, same := b.beats[is.Key], is.ActualOwner() == was.ActualOwner()
	if is.Counter != was.Counter || !same {
		heard.at, heard.renewed = time.Now(), same
	}
	if is.HandOffPending() && !was.HandOffPending() {
		heard.asked = time.Now()
	}
	b.beats[is.Key] = heard
}

// taken looks at a lease that its owner loses to another's write. One that never
// renewed it may lose it sooner, should it stop.
func (b *book) taken(a attempt, was, is lease.Lease) {
	owner, s, heard := was.ActualOwner(), a.p.settings.Leases, b.beats[was.Key]
	if owner == "" || owner == a.p.name || is.ActualOwner() == owner || !b.askFirst {
		return
	}
	if a.p.play.profile == gentle && a.p.play.works(owner, heard.at) {
		b.breaksLocked(patience, "%s took %s from %s, who was not asked and is well", a.p.id, was.Key, owners(was))
	}
	if !heard.renewed {
		return
	}
	silent := time.Since(heard.at)
	if silent <= s.FailoverTime && !b.overdue(a, was) {
		b.breaksLocked(patience, "%s took %s from %s, silent for %s of %s", a.p.id, was.Key, owners(was), silent, s.FailoverTime)
	}
}

// overdue reports whether a leader may force a hand-off, though the owner renews.
func (b *book) overdue(a attempt, was lease.Lease) bool {
	return was.HandOffPending() && time.Since(b.beats[was.Key].asked) > handOffLimit(a.p)
}

// quits looks at the worker that a lease is no longer of: it must know by then,
// unless it may lose leases without having been asked, or has more time to hand
// one over by its own settings than by the leader's.
func (b *book) quits(a attempt, was, is lease.Lease) {
	t := b.latest[is.ShardID]
	if t == nil || t.worker.name != was.ActualOwner() || is.ActualOwner() == was.ActualOwner() || t.worker.dead.Load() || !t.worker.awake() || !b.askFirst {
		return
	}
	if was.HandOffPending() && handOffLimit(a.p) < handOffLimit(t.worker) {
		return
	}
	waits := slices.ContainsFunc(t.worker.Status().Leases, func(s scheduler.LeaseStatus) bool { return s.Lease == is.Key && s.State == "reading" })
	if waits || t.work != nil && t.work.Err() == nil {
		b.breaksLocked(workEnds, "%s is now %s, and %s works on it", is.Key, owners(is), t.process)
	}
}

// works reports whether a worker of that name has run since then, and is not to
// stop.
func (b *bed) works(name string, since time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.workers, func(w *worker) bool { return w.name == name && w.ctx.Err() == nil && w.began.Before(since) })
}

// noteWrite notes what a process knows of a lease by having written it.
func (b *book) noteWrite(a attempt, l lease.Lease) {
	b.reign(a.p.id).note(l.Key, reading{l.Owner, l.CheckpointOwner, strconv.FormatInt(l.Counter, 10)})
}

// noted is how many readings of a lease are kept: those that are answered late
// or stale do not come in order.
const noted = 16

func (r *reign) note(key string, saw reading) {
	if list := r.read[key]; !slices.Contains(list, saw) {
		r.read[key] = append(list[max(0, len(list)+1-noted):], saw)
	}
}

// handOffLimit is when a worker as leader forces a hand-off, and not before which
// as owner.
func handOffLimit(p *process) time.Duration {
	return p.settings.Leases.GracefulHandoffTimeout + p.settings.Leases.FailoverTime
}
