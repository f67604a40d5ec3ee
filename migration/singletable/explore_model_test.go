package singletable

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-kcl/kcl/coordinator"
	"github.com/go-kcl/kcl/lease"
)

// The exploration visits every state that two workers can bring their tables
// into, one step at a time in any order: starts and stops of every deployment,
// crashes, locks won, lost and stolen, reports, rows that age, leases given
// and taken, reads, looks and moves that fail, and writes that land when their
// sender has long given up on the answer, or is dead. What a worker decides is
// decided by the package's own functions; what it does with that is what the
// package's writes do, in the small.
//
// Taken for granted, as the rulings on time and package leader have it: a worker
// no longer takes the lock for its own when another takes it over; a call has
// ended before the term in which it began, if not always its effect; nothing
// that a dead process sent lands after a process of the same name has won the
// lock, which takes the lock's duration; and a leader that waits for an answer,
// or that just lost one, looks at the item again (unsettledEvery) before the
// lock that the lost write took for it can be stolen.

// A worker's part of a state, by place.
const (
	wKind        = iota // down, old, first, second
	wLocal              // ordinal
	wLock               // what it takes for its own: free, legacyLock, leaseLock
	wLeads              // the last decision of this term let it act
	wRead               // an Outcome
	wReadStatus         // ordinal
	wReadBaked          // the bake that began with it is over
	wReadFresh          // the item was not changed since
	wReadTerm           // it is of this term
	wSupported          // 1 + Knowledge; 0: no summary
	wDrained            //
	wLook               // 1 + 3 × Knowledge of clean + Knowledge of drained; 0: none
	wLookSaw            // the other worker had reported by then, and has not started anew
	wMove               // a Phase
	wFlight             // an Action on its way
	wFlightTo           // ordinal of what it stores
	wAfter              // ordinal of the local status once it went through
	wFlightFresh        // the item is as its condition names it; once landed, as it left it
	wFlightSaw          // wLookSaw of its decision
	wLanded             // 0, landedDone, landedRefused
	wOwner              // owns a lease; outlives the process
	wReported           // by this process
	wRowLegacy          // a live row: 0, 1 + support code
	wRowLease           //
	wSize
)

const (
	down = iota
	old
	first
	second
)

const (
	free = iota
	legacyLock
	leaseLock
)

const (
	landedDone = 1 + iota
	landedRefused
)

// The tables' part of a state.
const (
	tItem       = iota // ordinal, 0: none
	tBaked             // the bake that began with it is over
	tCopy              // the lease table has the item
	tLockLegacy        // 0, or 1 + the owner
	tLockLease         //
	tEntry             // a coordinator's item: inLegacy, inLease, or both
	tSecond            // a worker of the second deployment ever ran
	tCause             // somebody old was about since the item says what it says
	tLate              // 0, or 1 + who sent a write that may still land
	tLateAction        // and the write, as wFlight and what follows
	tLateTo            //
	tLateFresh         //
	tLateSaw           //
	tLateDead          // its process is no more
	tSize
)

const (
	inLegacy = 1 << iota
	inLease
)

type state struct {
	w [2][wSize]uint8
	t [tSize]uint8
}

// swapped is the same state with the workers' names exchanged.
func (s state) swapped() state {
	s.w[0], s.w[1] = s.w[1], s.w[0]
	for _, i := range []int{tLockLegacy, tLockLease, tLate} {
		if s.t[i] != 0 {
			s.t[i] = 3 - s.t[i]
		}
	}
	return s
}

// canonical is one of the two states that differ by name only.
func (s state) canonical() state {
	if slices.Compare(s.w[0][:], s.w[1][:]) < 0 {
		return s.swapped()
	}
	return s
}

var statusOf = []Status{Unknown, Init, Deployed, Pending, Complete}

// explorer walks the states.
type explorer struct {
	decide func(View) Decision
	// keep says that what was read before a term is remembered in it. Without,
	// states are merged that differ by that only: [Decide] looks at no such read
	// (row X3), which the mutation shows that does without the row.
	keep bool
	// calm leaves out answers that are lost, and writes that land late.
	calm   bool
	memo   map[[10]uint8]Decision
	sums   map[[8]uint8]Summary
	seen   map[state]int32 // to its place in order
	order  []visited
	ways   [][2]int32 // each step, from and to; kept if not nil
	at     int32      // whose steps are taken
	skip   bool       // the next state to reach is out of scope
	broken string
	rows   map[string]bool
}

type visited struct {
	state
	from int32
	step step
}

// step is what happened, to which worker.
type step struct {
	who  int // -1: to none
	what string
}

func (s step) String() string {
	if s.who < 0 {
		return s.what
	}
	return string(rune('a'+s.who)) + " " + s.what
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// reach adds a state, unless it is known.
func (x *explorer) reach(s state, from int32, step step) {
	if x.skip {
		x.skip = false
		return
	}
	if x.broken != "" {
		return
	}
	x.judge(&s, step)
	s = s.canonical()
	to, known := x.seen[s]
	if !known {
		to = int32(len(x.order))
	}
	if x.ways != nil && from >= 0 {
		x.ways = append(x.ways, [2]int32{from, to})
	}
	if known && x.broken == "" {
		return
	}
	x.seen[s] = to
	x.order = append(x.order, visited{s, from, step})
}

// judge holds the properties that every state must have, and keeps the books.
func (x *explorer) judge(s *state, step step) {
	for i := range s.w {
		w := &s.w[i]
		if !x.keep && (w[wLock] != legacyLock || w[wReadTerm] == 0) {
			s.unread(i)
		}
		if w[wKind] == first && w[wLocal] >= 2 {
			w[wSupported] = 0 // it needs it no more
		}
	}
	if create := Action(s.t[tLateAction]) == Create; !create && s.t[tLateFresh] == 0 || create && s.t[tItem] > 1 {
		s.dropLate() // its condition can't hold any more
	}
	if s.t[tEntry] == 0 {
		x.fail("a coordinator's item is lost", step)
	}
	for i := range s.w {
		if x.acts(s, i, legacyLock) && x.acts(s, 1-i, leaseLock) {
			x.fail("two leaders act, each by another table", step)
		}
		if x.acts(s, i, legacyLock) && x.acts(s, 1-i, legacyLock) || x.acts(s, i, leaseLock) && x.acts(s, 1-i, leaseLock) {
			x.fail("two leaders act", step)
		}
		w := &s.w[i]
		someOld := w[wKind] == old || w[wRowLegacy] == 1
		switch statusOf[s.t[tItem]] {
		case Init:
			s.t[tCause] |= bit(someOld)
		case Pending:
			s.t[tCause] |= bit(someOld || w[wKind] == first || w[wRowLegacy] != 0 || s.t[tEntry]&inLegacy != 0)
		default:
			s.t[tCause] = 0
		}
	}
}

func (x *explorer) fail(what string, step step) {
	if x.broken == "" {
		x.broken = what + " (by " + step.String() + ")"
	}
}

// acts reports whether a worker does a leader's work by that lock.
func (x *explorer) acts(s *state, i int, lock uint8) bool {
	w := &s.w[i]
	if w[wKind] == down || w[wLock] != lock {
		return false
	}
	return w[wKind] == old || lock == leaseLock || w[wLeads] == 1
}

// view is what a worker decides on.
func (x *explorer) view(s *state, i int) View {
	w := &s.w[i]
	now := time.Unix(1_000_000_000, 0)
	v := View{Config: Config{Worker: string(rune('a' + i)), MigrateAllEntitiesToLeaseTable: w[wKind] == second}, Now: now, Local: statusOf[w[wLocal]]}
	if w[wLock] == legacyLock {
		v.Term = 1
	}
	v.Read = Read{Outcome: Outcome(w[wRead]), At: now, Term: 9}
	if w[wReadTerm] == 1 {
		v.Read.Term = 1
	}
	if v.Read.Outcome == Failed {
		v.Read.Failing = now
	}
	if v.Read.Outcome == Found {
		at := now.Add(-time.Second)
		if w[wReadBaked] == 1 {
			at = now.Add(-30 * 24 * time.Hour)
		}
		v.Read.State = coordinator.FreshTableMigration(statusOf[w[wReadStatus]], "x", at)
	}
	if w[wSupported] != 0 || w[wDrained] != 0 {
		// Summaries that have these answers.
		v.Summary = Summary{At: now, Term: 1, Since: now.Add(-time.Hour), Owners: []string{"o"}}
		switch Knowledge(w[wSupported] - 1) {
		case No:
			v.Summary.Old = []string{"o"}
		case NotKnown:
			v.Summary.Silent = []string{"o"}
		}
		switch Knowledge(w[wDrained] - 1) {
		case No:
			v.Summary.LegacyWorkers = []string{"o"}
		case NotKnown:
			v.Summary.Silent = []string{"o"}
		}
	}
	if w[wLook] != 0 {
		v.Look = Look{At: now, Term: 1, Clean: Knowledge((w[wLook] - 1) / 3), Drained: Knowledge((w[wLook] - 1) % 3)}
	}
	v.Move = Move{Phase: Phase(w[wMove]), Term: 1, Ended: now.Add(-time.Hour), Tries: 1}
	if w[wLook] != 0 {
		v.Move.Ended = now
	}
	return v
}

func (x *explorer) decision(s *state, i int) Decision {
	w := &s.w[i]
	key := [10]uint8{w[wKind], w[wLocal], w[wLock], w[wRead]<<1 | w[wReadBaked], w[wReadStatus], w[wReadTerm], w[wSupported], w[wDrained], w[wLook], w[wMove]}
	d, ok := x.memo[key]
	if !ok {
		d = x.decide(x.view(s, i))
		x.memo[key] = d
		x.rows[d.Row] = true
	}
	return d
}

// summarize runs the production code over the rows and leases of a state.
func (x *explorer) summarize(s *state) Summary {
	a, b := &s.w[0], &s.w[1]
	key := [8]uint8{a[wOwner], a[wRowLegacy], a[wRowLease], b[wOwner], b[wRowLegacy], b[wRowLease]}
	sum, ok := x.sums[key]
	if ok {
		return sum
	}
	now := time.Unix(1_000_000_000, 0)
	var leases []lease.Lease
	var rows []Row
	for i := range s.w {
		name, w := string(rune('a'+i)), &s.w[i]
		if w[wOwner] == 1 {
			leases = append(leases, lease.Lease{Owner: name})
		}
		add := func(legacy bool, code uint8) {
			r := Row{}
			r.Legacy = legacy
			r.Worker, r.Updated = name, now
			if code > 0 {
				r.Support, r.SupportUpdated = int(code), now
			}
			rows = append(rows, r)
		}
		if w[wRowLegacy] != 0 {
			add(true, w[wRowLegacy]-1)
		}
		if w[wRowLease] != 0 {
			add(false, 1)
		}
	}
	sum = Summarize(leases, rows, now, 30*time.Second)
	x.sums[key] = sum
	return sum
}

// change stores another status in the item; 0 removes it. Whatever anybody knew
// of it is outdated.
func change(s *state, to uint8) {
	s.t[tItem], s.t[tBaked], s.t[tCause] = to, 0, 0
	for i := range s.w {
		// Evidence found while the write was on its way counts.
		w := &s.w[i]
		for _, k := range []uint8{w[wSupported], w[wDrained], 1 + (max(1, w[wLook])-1)/3, 1 + (max(1, w[wLook])-1)%3} {
			s.t[tCause] |= bit(k == 1+uint8(No))
		}
		s.w[i][wReadFresh], s.w[i][wFlightFresh] = 0, 0
	}
	s.t[tLateFresh] = 0
}

// land carries a write out whose conditions hold.
func (x *explorer) land(s *state, who int, action Action, to, fresh, saw uint8, step step) (done bool) {
	if s.t[tLockLegacy] != uint8(1+who) {
		return false // the fence
	}
	was := statusOf[s.t[tItem]]
	switch action {
	case Create:
		if s.t[tItem] != 0 {
			return false
		}
	case Finalize:
		if fresh == 0 || s.t[tCopy] == 1 {
			return false
		}
		other := &s.w[1-who]
		if other[wKind] != down && other[wOwner] == 1 && saw == 1 && other[wKind] != second {
			x.fail("COMPLETE although a lease owner writes to the legacy tables", step)
		}
		if mine := &s.w[who]; s.t[tLateDead] == 0 && mine[wKind] != down && mine[wOwner] == 1 && mine[wKind] != second {
			x.fail("COMPLETE by a worker that writes to the legacy tables", step)
		}
		s.t[tCopy] = 1
		if s.t[tLockLease] == 0 {
			s.t[tLockLease] = uint8(1 + who)
		}
		if other[wKind] == old && saw == 0 {
			x.skip = true // nobody can know of it: out of scope, as is a later start of one
		}
	default:
		if fresh == 0 {
			return false
		}
	}
	if s.t[tItem] == 0 {
		was = Unknown
	}
	is := statusOf[to]
	switch was.Ordinal()*10 + is.Ordinal() {
	case 01, 12, 23, 34:
	case 10, 32:
		if s.t[tCause] == 0 {
			x.fail(fmt.Sprintf("%s was undone although nobody old is there", was), step)
		}
	default:
		x.fail(fmt.Sprintf("from %s to %s", was, is), step)
	}
	change(s, to)
	return true
}

// explore visits every state and returns how many there are.
func (x *explorer) explore(most int) int {
	x.order = nil
	x.memo, x.sums, x.seen, x.rows = map[[10]uint8]Decision{}, map[[8]uint8]Summary{}, map[state]int32{}, map[string]bool{}
	var s state
	s.t[tEntry] = inLegacy
	x.reach(s, -1, step{-1, "begin"})
	for n := 0; n < len(x.order) && x.broken == ""; n++ {
		if n > most {
			x.broken = "too many states"
		}
		x.at = int32(n)
		x.steps(x.order[n].state, x.at)
	}
	return len(x.order)
}

// trace is how the state was reached that a step from broke a property.
func (x *explorer) trace() string {
	var steps []string
	for n := x.at; n >= 0; n = x.order[n].from {
		steps = append(steps, x.order[n].step.String())
	}
	slices.Reverse(steps)
	return strings.Join(steps, "; ")
}
