package leader

import "time"

// action is what a contender does about the lock item it has just read.
type action uint8

const (
	wait    action = iota // write nothing
	observe               // write nothing; remember version and time
	acquire               // put if absent
	reclaim               // put if still marked as released
	steal                 // put if the version is unchanged
	adopt                 // renew if version and owner are unchanged
)

// sighting is the version of the lock that a contender sees, and since when.
// The zero sighting has seen nothing.
type sighting struct {
	lock
	at time.Time // after the read that first showed the version
}

// next returns the sighting after a read, or a refused write, that showed this
// at now.
func (s sighting) next(item lock, found bool, now time.Time) sighting {
	switch {
	case !found || item.released:
		return sighting{}
	case item.version != s.version:
		return sighting{lock: item, at: now}
	}
	return s
}

// outlived reports whether the owner has been silent for longer than its item
// allows.
func (s sighting) outlived(now time.Time) bool { return now.Sub(s.at) > s.duration }

// own is the versions that only this process can have written: that of its last
// write that is known to have landed, and that of one whose answer was lost.
type own struct{ known, unsure string }

func (o own) has(l lock, worker string) bool {
	return l.owner == worker && (l.version == o.known || l.version == o.unsure)
}

// renewed returns what o becomes by the answer to a renewal that wrote the version
// unsure, and whether to renew again: the item carries one of the versions, by a
// write that is only now known to have landed.
func (o own) renewed(ans answer, worker string) (next own, again bool) {
	switch {
	case ans.done:
		return own{known: o.unsure}, false
	case !ans.found || !o.has(ans.old, worker):
		return own{}, false
	}
	return own{known: ans.old.version}, true
}

// next decides on the item read last.
//
//	item      seen before          action
//	absent    -                    acquire
//	released  -                    reclaim
//	live      written by us        adopt
//	live      other version        observe
//	live      same, still in time  wait
//	live      same, outlived       steal
//
// A worker that stands back observes and waits, and writes nothing.
func next(item lock, found bool, seen sighting, mine bool, now time.Time, standBack bool) action {
	a := contend(item, found, seen, mine, now)
	if standBack && a != observe {
		return wait
	}
	return a
}

func contend(item lock, found bool, seen sighting, mine bool, now time.Time) action {
	switch {
	case !found:
		return acquire
	case item.released:
		return reclaim
	case mine:
		return adopt
	case item.version != seen.version:
		return observe
	case !seen.outlived(now):
		return wait
	default:
		return steal
	}
}

// nextLook is when a contender that has seen this looks again: after a
// heartbeat, or earlier if the lock can expire or its own standing back ends
// before that.
func nextLook(seen sighting, now time.Time, heartbeat time.Duration, standBackUntil time.Time) time.Time {
	look := now.Add(heartbeat)
	for _, t := range []time.Time{seen.at.Add(seen.duration + 1), standBackUntil} {
		if t.After(now) && t.Before(look) {
			look = t
		}
	}
	return look
}

// reading is one instant by both clocks.
type reading struct {
	mono time.Time // compared by its monotonic part
	wall time.Time // has none
}

func read() reading {
	now := time.Now()
	return reading{now, now.Round(0)}
}

// since returns what has passed since r by each clock.
func (now reading) since(r reading) (mono, wall time.Duration) {
	return now.mono.Sub(r.mono), now.wall.Sub(r.wall)
}

// standing is what an owner makes of its term.
type standing uint8

const (
	certain  standing = iota
	doubtful          // only the wall clock says that it is over
	over
)

// judge says how a term stands of which so much has passed by each clock since
// before the call that won or last renewed it. At exactly its duration a term is
// not over: a contender waits for longer than that.
func judge(mono, wall, duration time.Duration) standing {
	switch {
	case mono > duration:
		return over
	case wall > duration:
		return doubtful
	default:
		return certain
	}
}
