package singletable

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-kcl/kcl/coordinator"
)

const (
	defaultPeriod     = 30 * time.Second
	defaultSummaryAge = 90 * time.Second

	// followEvery is how often a worker that does not lead reads the item, and
	// rereadEvery how often a leader does without a reason: nobody else writes
	// it in the leader's term but a human.
	followEvery = 30 * time.Second
	rereadEvery = time.Minute
	// For unsettledFor after a write whose answer was lost it reads every
	// unsettledEvery: if it completed the migration after all, the lock that it
	// took with that is kept alive by nobody, and can be stolen.
	unsettledEvery = 5 * time.Second
	unsettledFor   = 2 * time.Minute
	// lookEvery is how often a leader looks at the legacy tables during the last
	// bake, and lookFresh how old a look may be on which the migration ends.
	lookEvery = 5 * time.Minute
	lookFresh = 10 * time.Second
	// readAgain is the leader's pause after a failed read, followAgain everybody
	// else's, and readPatience how long a new
	// leader keeps the lock whose reads fail: well below the lock's duration.
	readAgain    = time.Second
	followAgain  = 10 * time.Second
	readPatience = 15 * time.Second
	// A move that failed is tried again after moveAgain, doubled each time up to
	// moveRarely; one that met an item that it may not move, after moveRarely.
	moveAgain  = time.Second
	moveRarely = 5 * time.Minute
)

// Decide says what a worker does about the migration. It is asked by leaders and
// others alike, at the times that decisions name and whenever the View changes.
// Rows are looked at from the top.
//
//	row  local     lock  stored    guard                        does                        stored, local after
//	X1   UNKNOWN   -     -         -                            error
//	X2   COMPLETE  -     -         -                            nothing, for ever
//	X3   -         -     not read in this term, or long ago     reads it; a new leader does not lead before
//	X4   -         -     unknown   the read failed              reads again; does not lead, frees the lock after 15 s
//	X5   -         -     malformed -                            error; does not lead, writes nothing
//	X6   -         -     gone      lease table says COMPLETE    frees the lock              -, COMPLETE
//	X7   -         -     gone      it does not                  error; frees the lock
//	X8   -         -     COMPLETE  -                            frees the lock              -, COMPLETE
//	X9   -         no    other     -                            cancels a move; takes over the stored status
//
//	I0   INIT      yes   none      not known to be supported    waits
//	I2   INIT      yes   none      supported                    creates                     INIT, INIT
//	I1   INIT      yes   INIT      an owner is old              deletes                     none, INIT
//	I1u  INIT      yes   INIT      not known                    waits, the bake goes on
//	I3   INIT      yes   INIT      supported, bake not over     waits
//	I4   INIT      yes   INIT      supported, bake over         updates                     DEPLOYED, DEPLOYED or PENDING
//	I5   INIT      yes   DEPLOYED, PENDING                      as DEPLOYED or PENDING, which it then is
//
//	D1   DEPLOYED  yes   PENDING   -                            updates: this worker writes to the legacy tables
//	                                                                                        DEPLOYED, DEPLOYED
//	D2   DEPLOYED  yes   DEPLOYED  -                            waits for the second deployment
//	D3   DEPLOYED  yes   none      -                            as INIT: somebody deleted the item
//
//	P0   PENDING   yes   none      -                            creates: likewise           DEPLOYED, PENDING
//	P1   PENDING   yes   DEPLOYED  somebody is old              cancels a move
//	P1u  PENDING   yes   DEPLOYED  not known                    waits, a move goes on
//	P2   PENDING   yes   DEPLOYED  drained, no move             starts one
//	P3   PENDING   yes   DEPLOYED  drained, it runs             waits
//	P4   PENDING   yes   DEPLOYED  drained, it failed           starts one, after a pause
//	P5l  PENDING   yes   DEPLOYED  drained, moved, not looked   looks
//	P5   PENDING   yes   DEPLOYED  drained, moved, not clean    starts one, after a pause
//	P6   PENDING   yes   DEPLOYED  drained, moved, clean        updates                     PENDING, PENDING
//	P7   PENDING   yes   PENDING   somebody is old, or something is left
//	                                                            updates, cancels a move     DEPLOYED, PENDING
//	P7u  PENDING   yes   PENDING   not known                    waits, the bake goes on
//	P8l  PENDING   yes   PENDING   drained, not looked lately   looks
//	P8   PENDING   yes   PENDING   drained, bake not over       waits
//	P9   PENDING   yes   PENDING   drained, clean, bake over    finalizes                   COMPLETE, COMPLETE
//
// "Old" needs evidence: a lease owner that lives and does not know the
// migration, or for P1 and P7 anybody who lives by the legacy table: by the last
// summary, or by a look that is no older than that. A departed
// owner, a summary of another term, a failed read are no evidence; they only
// keep the next status from being entered.
func Decide(v View) Decision {
	d := Decision{Local: v.Local}
	leads := v.Term != 0
	switch v.Local {
	case Complete:
		return Decision{Row: "X2", Local: Complete, After: Complete, Leads: true, CancelMove: true}
	case Init, Deployed, Pending:
	default:
		d.Row, d.Err = "X1", ErrNotStarted
		return d.as(v.Local)
	}
	r := v.Read
	switch {
	case r.Outcome == NotRead, leads && r.Term != v.Term:
		d.Row, d.Do, d.Why = "X3", ReadItem, "the state is being read"
		d.CancelMove = true // one of another term
		return d.as(v.Local)
	case r.Outcome == Failed:
		d.Row, d.Why = "X4", "the state cannot be read"
		if !leads {
			return d.readAgain(v, followAgain)
		}
		d.Release = v.Now.Sub(r.Failing) >= readPatience
		return d.readAgain(v, readAgain)
	case r.Outcome == Malformed:
		d.Row, d.CancelMove = "X5", true
		d.Err = fmt.Errorf("item %s of the legacy table: %w: a later version or a hand wrote it: use that version, or restore the item", coordinator.TableMigrationKey, coordinator.ErrMalformed)
		return d.readAgain(v, rereadEvery)
	case r.Outcome == Gone && r.CopyComplete:
		d.Row, d.Release, d.CancelMove = "X6", true, true
		return d.as(Complete)
	case r.Outcome == Gone:
		d.Row, d.Release, d.CancelMove = "X7", true, true
		d.Err = fmt.Errorf("%w: the legacy table is gone, or may no longer be read, before the migration is %s: restore it", ErrInconsistent, Complete)
		return d.readAgain(v, rereadEvery)
	}
	stored, found := r.status()
	if found && stored == Complete {
		d.Row, d.Release, d.CancelMove = "X8", true, true
		return d.as(Complete)
	}
	if found {
		local, ok := localFor(stored, true, v.MigrateAllEntitiesToLeaseTable)
		if !ok {
			local = Init // the item was made anew since this worker started
		}
		d.Local = local
	}
	if !leads {
		d.Row, d.CancelMove, d.Why = "X9", true, "the leader decides"
		return d.as(d.Local).readAgain(v, followEvery)
	}
	if !found && d.Local == Deployed { // D3
		d.Local = Init
	}
	d.Leads = true
	if !v.Now.Before(r.due(v.reread())) {
		d.Row, d.Do, d.Why = "X3", ReadItem, "the state is being read"
		return d.as(d.Local)
	}
	switch d = d.as(d.Local); d.Local {
	case Init:
		d = d.initial(v, found)
	case Deployed:
		d = d.deployed(v, stored)
	case Pending:
		d = d.pending(v, stored, found)
	}
	if d.Do.writes() && v.Now.Before(v.HoldUntil) {
		d.Do, d.State, d.After = Wait, State{}, d.Local
		d.Why = "a write failed and is tried again"
		d = d.by(v.HoldUntil)
	}
	if d.Do == Wait {
		d = d.by(r.due(v.reread()))
	}
	return d
}

// initial is the rows I0 to I4.
func (d Decision) initial(v View, found bool) Decision {
	d.CancelMove = true // of a time before the item was made anew
	supported := v.known(v.Summary.Supported())
	over, at := v.baked(Deployed, v.Read.State.At, v.Now)
	switch {
	case !found && supported != Yes:
		d.Row, d.Why = "I0", v.unsupported(supported)
	case !found:
		d.Row, d.Do, d.State = "I2", Create, coordinator.FreshTableMigration(Init, v.Worker, v.Now)
		d.Why = "every lease owner knows the migration"
	case supported == No:
		d.Row, d.Do, d.After, d.Why = "I1", Delete, Init, v.unsupported(No)
	case supported == NotKnown:
		d.Row, d.Why = "I1u", v.unsupported(NotKnown)
	case !over:
		d.Row, d.Why = "I3", "every lease owner knows the migration; it is left so until "+clock(at)
		d = d.by(at)
	default:
		after, _ := localFor(Deployed, true, v.MigrateAllEntitiesToLeaseTable)
		d.Row, d.Do, d.After, d.Why = "I4", Update, after, "every lease owner has known the migration for long enough"
		d.State = v.to(Deployed)
	}
	return d
}

// deployed is the rows D1 and D2.
func (d Decision) deployed(v View, stored Status) Decision {
	d.CancelMove = true
	if stored == Pending {
		d.Row, d.Do, d.State = "D1", Update, v.to(Deployed)
		d.Why = "the leader writes to the legacy tables: the second deployment was taken back"
		return d
	}
	d.Row, d.Why = "D2", "all workers can be deployed with MigrateAllEntitiesToLeaseTable"
	return d
}

// pending is the rows P0 to P9.
func (d Decision) pending(v View, stored Status, found bool) Decision {
	drained := v.known(v.Summary.Drained())
	if s := v.Summary; drained == Yes && (s.Since.IsZero() || s.At.Sub(s.Since) < 2*v.period()) {
		drained = NotKnown // a worker whose clock is slow shows only to who has watched
	}
	if l := v.Look; drained == Yes && l.Term == v.Term && l.Drained == No && !v.Summary.At.After(l.At) {
		drained = No // the look has seen somebody who has come since
	}
	switch {
	case !found:
		d.Row, d.Do, d.CancelMove = "P0", Create, true
		d.State = coordinator.FreshTableMigration(Deployed, v.Worker, v.Now)
		d.Why = "the state was deleted by hand"
	case stored == Pending:
		return d.baking(v, drained)
	case drained == No:
		d.Row, d.CancelMove, d.Why = "P1", true, v.undrained(No)
	case drained == NotKnown:
		d.Row, d.Why = "P1u", v.undrained(NotKnown)
	default:
		return d.moving(v)
	}
	return d
}

// moving is the rows P2 to P6.
func (d Decision) moving(v View) Decision {
	d.Why = "the coordinator's items are being moved into the lease table"
	m := v.Move
	if m.Term != v.Term {
		m = Move{}
	}
	retry := m.Ended.Add(pause(m))
	looked := v.Look.Term == v.Term && !v.Look.At.Before(m.Ended)
	again := v.Look.Clean == NotKnown || v.Look.Clean == Yes && v.Look.Drained == No // who was seen has gone since
	switch {
	case m.Phase == NoMove:
		d.Row, d.Do = "P2", StartMove
		return d
	case m.Phase == Moving:
		d.Row = "P3"
		return d
	case m.Phase != Moved:
		d.Row = "P4"
		d.Why = "the move of the coordinator's items failed: " + m.Why
		if m.Phase == MoveStuck {
			d.Err = fmt.Errorf("table migration: %s", m.Why)
		}
	case !looked || again && !v.Now.Before(v.Look.At.Add(readAgain)):
		d.Row, d.Do = "P5l", LookLeft
		return d
	case again:
		d.Row = "P5l"
		return d.by(v.Look.At.Add(readAgain))
	case v.Look.Clean == No:
		d.Row, d.Why = "P5", "left in the legacy table: "+strings.Join(v.Look.Left, ", ")
	default:
		d.Row, d.Do, d.CancelMove, d.State = "P6", Update, true, v.to(Pending)
		d.Why = "nothing is left in the legacy tables"
		return d
	}
	if v.Now.Before(retry) {
		return d.by(retry)
	}
	d.Do = StartMove
	return d
}

// baking is the rows P7 to P9.
func (d Decision) baking(v View, drained Knowledge) Decision {
	look := v.Look
	if look.Term != v.Term {
		look = Look{}
	}
	over, at := v.baked(Complete, v.Read.State.At, v.Now)
	every := lookEvery
	switch {
	case look.Clean == NotKnown || look.Drained == NotKnown:
		every = readAgain
	case over:
		every = lookFresh
	}
	due := look.At.Add(every)
	d.Why = "nothing is left in the legacy tables; it is left so until " + clock(at)
	switch {
	case drained == No || look.Clean == No || look.Drained == No:
		d.Row, d.Do, d.State, d.CancelMove = "P7", Update, v.to(Deployed), true
		d.Why = v.undrained(No)
		if drained != No && look.Clean == No {
			d.Why = "left in the legacy table: " + strings.Join(look.Left, ", ")
		}
	case drained == NotKnown:
		d.Row, d.Why = "P7u", v.undrained(NotKnown)
	case look.At.IsZero() || !v.Now.Before(due):
		d.Row, d.Do = "P8l", LookLeft
	case !over:
		d.Row = "P8"
		d = d.by(at).by(due)
	case look.Clean == NotKnown || look.Drained == NotKnown:
		d.Row, d.Why = "P8l", "the legacy tables cannot be read"
		d = d.by(due)
	default:
		d.Row, d.Do, d.After, d.State = "P9", Finalize, Complete, v.to(Complete)
		d.Why = "the migration is being completed"
		if v.Blocked != "" {
			d.Why = v.Blocked
			d.Err = fmt.Errorf("table migration: %s", v.Blocked)
		}
	}
	return d
}

// as sets the status from now on.
func (d Decision) as(local Status) Decision {
	d.Local, d.After = local, local
	return d
}

// by moves the next decision up to t, unless it is due before.
func (d Decision) by(t time.Time) Decision {
	if d.Next.IsZero() || t.Before(d.Next) {
		d.Next = t
	}
	return d
}

// readAgain reads the item if it was last tried that long ago, or says when it
// will have been.
func (d Decision) readAgain(v View, every time.Duration) Decision {
	if d.After == "" {
		d.After = d.Local
	}
	due := v.Read.due(every)
	if !v.Now.Before(due) {
		d.Do = ReadItem
		return d
	}
	return d.by(due)
}

// reread is how often a leader reads the item without a reason.
func (v View) reread() time.Duration {
	if u := v.Read.Unsettled; !u.IsZero() && v.Now.Sub(u) < unsettledFor {
		return unsettledEvery
	}
	return rereadEvery
}

// due is when the item is to be read again that is read that often.
func (r Read) due(every time.Duration) time.Time {
	if r.Tried.After(r.At) {
		return r.Tried.Add(every)
	}
	return r.At.Add(every)
}

// pause is how long a move waits after one that did not do it.
func pause(m Move) time.Duration {
	if m.Phase == MoveStuck {
		return moveRarely
	}
	d := moveAgain
	for range m.Tries - 1 {
		if d *= 2; d >= moveRarely {
			return moveRarely
		}
	}
	return d
}

// to is the stored state changed to s by this worker now.
func (v View) to(s Status) State { return v.Read.State.To(s, v.Worker, v.Now) }

func (v View) period() time.Duration {
	if v.Period == 0 {
		return defaultPeriod
	}
	return v.Period
}

// known leaves the summary's answer only if it is of this term, and not old.
func (v View) known(k Knowledge) Knowledge {
	age := v.SummaryAge
	if age == 0 {
		age = defaultSummaryAge
	}
	if v.Summary.Term != v.Term || v.Now.Sub(v.Summary.At) > age {
		return NotKnown
	}
	return k
}

func (v View) unsupported(k Knowledge) string {
	switch {
	case k == No:
		return "lease owners of a version before 3.5: " + some(v.Summary.Old)
	case v.known(Yes) != Yes:
		return "the fleet is not known yet"
	case len(v.Summary.Owners) == 0:
		return "no worker has a lease yet"
	default:
		return "lease owners that do not report: " + some(v.Summary.Silent)
	}
}

func (v View) undrained(k Knowledge) string {
	switch {
	case k == No && len(v.Summary.LegacyWorkers) > 0:
		return "workers that report to the legacy table: " + some(v.Summary.LegacyWorkers)
	case k == No:
		return "workers that report to the legacy table: " + some(v.Look.Alive)
	case v.known(Yes) != Yes:
		return "the fleet is not known yet"
	case len(v.Summary.Silent) > 0:
		return "lease owners that do not report: " + some(v.Summary.Silent)
	default:
		return "the leader has not watched the fleet for long enough"
	}
}

// maxNames bounds a list in words.
const maxNames = 5

func some(names []string) string {
	if len(names) <= maxNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
}
