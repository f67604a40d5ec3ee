package workermetrics

import "time"

// Sighting is what this process saw of one worker's record. The zero Sighting
// is that of a record never seen. It is a value: [Sighting.Next] returns what it
// becomes with another look.
type Sighting struct {
	updated time.Time // the record's own time, as last read
	alive   time.Time // when the worker is known to have lived, by this host's clock; zero if unknown
	first   time.Time // first look, by this host's clock
	last    time.Time // last look
}

// Next returns the sighting after a look at the worker's record that ended at
// now.
//
//	before                                  with this look            alive since
//	never seen, or not for two periods      any                       the record's time, by this host's clock
//	seen                                    the record has changed    now
//	seen                                    unchanged                 as before
//
// After a pause in looking a change may be as old as the pause, hence the first
// row.
func (s Sighting) Next(r Record, now time.Time, period time.Duration) Sighting {
	n := Sighting{updated: r.Updated, alive: s.alive, first: s.first, last: now}
	if n.first.IsZero() {
		n.first = now
	}
	changed := !r.Updated.Equal(s.updated)
	switch {
	case r.Updated.IsZero():
		n.alive = time.Time{}
	case s.last.IsZero(), changed && now.Sub(s.last) > 2*period:
		n.alive = now.Add(-max(0, now.Sub(r.Updated))) // keeps now's monotonic reading
	case changed:
		n.alive = now
	}
	return n
}

// Alive reports whether the worker gave a sign of life within two periods
// before now.
func (s Sighting) Alive(now time.Time, period time.Duration) bool {
	return !s.alive.IsZero() && now.Sub(s.alive) <= 2*period
}

// LastSeen is the worker's last known sign of life, by this host's clock; zero
// if none is known.
func (s Sighting) LastSeen() time.Time { return s.alive }

// Updated is the record's own time as last read.
func (s Sighting) Updated() time.Time { return s.updated }

// Stale reports whether the record is to be deleted: it has not changed for
// longer than age, or does not say when it was written. This process must have
// watched it for two periods, lest a leader whose clock is wrong delete the
// records of the living.
func (s Sighting) Stale(now time.Time, age, period time.Duration) bool {
	if s.first.IsZero() || now.Sub(s.first) <= 2*period {
		return false
	}
	return s.updated.IsZero() || now.Sub(s.alive) > age
}
