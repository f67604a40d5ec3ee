package lease

import "time"

// reading is one look at both clocks. The monotonic clock stands still while a
// machine is suspended, the wall clock may be set: neither alone can be trusted
// to say how long ago something was.
type reading struct {
	mono time.Time // compared by its monotonic reading
	wall time.Time // without one
}

func readClocks() reading { return readingOf(time.Now()) }

// readingOf takes t apart; t must come from [time.Now].
func readingOf(t time.Time) reading { return reading{mono: t, wall: t.Round(0)} }

func (r reading) isZero() bool { return r.mono.IsZero() }

// since returns the time from r to now by each clock.
func (r reading) since(now reading) (mono, wall time.Duration) {
	return now.mono.Sub(r.mono), now.wall.Sub(r.wall)
}

// trust is what an owner's term is worth.
type trust uint8

const (
	live     trust = iota // ours
	doubtful              // ours only if one conditional write says so
	over                  // lost
)

// judge says what is left of a term of the given length, mono and wall being
// its age by each clock. An age of exactly the length is still in time.
//
//	monotonic  wall      trust
//	over       any       over
//	in time    over      doubtful (suspended, or the clock was set)
//	in time    in time   live (also when the wall clock went back)
func judge(mono, wall, length time.Duration) trust {
	switch {
	case mono > length:
		return over
	case wall > length:
		return doubtful
	default:
		return live
	}
}

// step is what a run of renewals does about one held lease.
type step uint8

const (
	skip     step = iota
	renewIt       // write the counter
	storeIt       // write the accepted position, and with it the counter
	giveItUp      // write nothing; the lease is lost
)

// nextStep decides about a lease whose term is worth t and began age ago.
//
//	trust     owners     position     age            step
//	over      any        any          any            giveItUp
//	any       impossible any          any            giveItUp
//	any       possible   unsaved      any            storeIt
//	doubtful  possible   saved        any            renewIt
//	live      possible   saved        < period / 2   skip
//	live      possible   saved        ≥ period / 2   renewIt
//
// A lease is skipped when a checkpoint has moved its counter so recently that
// its next heartbeat, one period from now, still comes within one and a half.
func nextStep(t trust, possible, unsaved bool, age, period time.Duration) step {
	switch {
	case t == over, !possible:
		return giveItUp
	case unsaved:
		return storeIt
	case t == doubtful, age >= period/2:
		return renewIt
	default:
		return skip
	}
}

// renewalPeriod is how often a lease is renewed: three times in its term, less
// epsilon, in whole milliseconds as KCL counts.
func renewalPeriod(failover, epsilon time.Duration) time.Duration {
	return max((failover/3).Truncate(time.Millisecond)-epsilon, time.Millisecond)
}
