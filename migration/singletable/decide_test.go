package singletable

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/coordinator"
)

var t0 = time.UnixMilli(1796034074405)

// stored is an item that says s since at.
func stored(s Status, at time.Time) Read {
	return Read{Outcome: Found, State: coordinator.FreshTableMigration(s, "java", at), At: t0, Term: 1}
}

func none() Read { return Read{Outcome: None, At: t0, Term: 1} }

// Fleets, as an assignment run of the leader's term saw them a moment ago.
var (
	noFleet   = Summary{}
	allNew    = Summary{At: t0, Term: 1, Since: t0.Add(-time.Hour), Workers: []string{"a", "b"}, LegacyWorkers: []string{"a", "b"}, Owners: []string{"a", "b"}, Support: map[int]int{1: 2}}
	oneOld    = Summary{At: t0, Term: 1, Since: t0.Add(-time.Hour), Workers: []string{"a", "b"}, LegacyWorkers: []string{"a", "b"}, Owners: []string{"a", "b"}, Old: []string{"b"}, Support: map[int]int{0: 1, 1: 1}}
	departed  = Summary{At: t0, Term: 1, Since: t0.Add(-time.Hour), Workers: []string{"a"}, LeaseWorkers: []string{"a"}, Owners: []string{"a", "b"}, Silent: []string{"b"}, Support: map[int]int{0: 1, 1: 1}}
	ownerless = Summary{At: t0, Term: 1, Since: t0.Add(-time.Hour), Workers: []string{"a"}, LegacyWorkers: []string{"a"}, Support: map[int]int{}}
	drained   = Summary{At: t0, Term: 1, Since: t0.Add(-time.Hour), Workers: []string{"a", "b"}, LeaseWorkers: []string{"a", "b"}, Owners: []string{"a", "b"}, Support: map[int]int{1: 2}}
	oneLegacy = Summary{At: t0, Term: 1, Since: t0.Add(-time.Hour), Workers: []string{"a", "b"}, LeaseWorkers: []string{"a"}, LegacyWorkers: []string{"b"}, Owners: []string{"a"}, Support: map[int]int{1: 1}}
)

func ofTerm(s Summary, term uint64) Summary { s.Term = term; return s }
func aged(s Summary, age time.Duration) Summary {
	s.At = s.At.Add(-age)
	return s
}
func unwatched(s Summary) Summary   { s.Since = time.Time{}; return s }
func sinceTheRun(s Summary) Summary { s.Since = s.At; return s }

var (
	clean      = Look{At: t0, Term: 1, Clean: Yes, Drained: Yes}
	dirty      = Look{At: t0, Term: 1, Clean: No, Left: []string{"Migration3.0"}, Drained: Yes}
	straggler  = Look{At: t0, Term: 1, Clean: Yes, Drained: No, Alive: []string{"c"}}
	unreadable = Look{At: t0, Term: 1}
)

func lookAgo(l Look, age time.Duration) Look { l.At = l.At.Add(-age); return l }

func moveOf(p Phase, ended time.Duration) Move {
	return Move{Phase: p, Ended: t0.Add(-ended), Term: 1, Tries: 1, Why: "so"}
}

// decideCase is a row of the table in Decide. The zero fields of view are those
// of a leader in term 1 at t0.
type decideCase struct {
	name    string
	view    View
	migrate bool
	follow  bool
	term    uint64 // 1

	row    string
	do     Action
	stores Status // with do
	local  Status
	after  Status // local, if empty
	leads  bool
	frees  bool
	cancel bool
	next   time.Duration // after t0; 0: none
	why    string
	err    error
}

func (c decideCase) run(t *testing.T) {
	v := c.view
	v.Worker, v.MigrateAllEntitiesToLeaseTable, v.Now = "go", c.migrate, t0
	if v.Term = 1; c.term != 0 {
		v.Term = c.term
	}
	if c.follow {
		v.Term = 0
	}
	d := Decide(v)
	assert.Equal(t, c.row, d.Row)
	assert.Equal(t, c.do, d.Do, "action")
	assert.Equal(t, c.local, d.Local, "local")
	if c.after == "" {
		c.after = c.local
	}
	assert.Equal(t, c.after, d.After, "after")
	assert.Equal(t, c.leads, d.Leads, "leads")
	assert.Equal(t, c.frees, d.Release, "frees the lock")
	assert.Equal(t, c.cancel, d.CancelMove, "cancels a move")
	if c.next == 0 {
		assert.Zero(t, d.Next)
	} else {
		assert.Equal(t, t0.Add(c.next), d.Next)
	}
	assert.Equal(t, c.why, d.Why)
	if c.err == nil {
		assert.NoError(t, d.Err)
	} else {
		assert.ErrorIs(t, d.Err, c.err)
	}
	switch c.do {
	case Create:
		assert.Equal(t, coordinator.FreshTableMigration(c.stores, "go", t0), d.State)
	case Update, Finalize:
		assert.Equal(t, v.Read.State.To(c.stores, "go", t0), d.State)
	default:
		assert.Zero(t, d.State)
	}
}

func runCases(t *testing.T, cases []decideCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, c.run)
	}
}

const (
	stateRead    = "the state is being read"
	unknownFleet = "the fleet is not known yet"
)

func TestChecksBeforeTheState(t *testing.T) {
	runCases(t, []decideCase{
		{name: "before the start single-table-migration#41", view: View{Local: Unknown, Read: none()}, row: "X1", local: Unknown, err: ErrNotStarted},
		{name: "no status at all", view: View{Read: none()}, row: "X1", err: ErrNotStarted},
		{name: "complete: no reads, no writes, no error single-table-migration#39", view: View{Local: Complete}, row: "X2", local: Complete, leads: true, cancel: true},
		{name: "complete follower", follow: true, view: View{Local: Complete, Read: Read{Outcome: Gone}}, row: "X2", local: Complete, leads: true, cancel: true},
		{name: "nothing read", view: View{Local: Pending}, migrate: true, row: "X3", do: ReadItem, local: Pending, cancel: true, why: stateRead},
		{name: "read before the term: the winner of a freed lock may have missed COMPLETE", term: 2, view: View{Local: Pending, Read: stored(Pending, t0), Summary: ofTerm(drained, 2)}, migrate: true, row: "X3", do: ReadItem, local: Pending, cancel: true, why: stateRead},
		{name: "read as a follower", term: 2, view: View{Local: Pending, Read: Read{Outcome: None, At: t0}}, migrate: true, row: "X3", do: ReadItem, local: Pending, cancel: true, why: stateRead},
		{name: "read a minute ago", view: View{Local: Init, Read: Read{Outcome: None, At: t0.Add(-time.Minute), Term: 1}, Summary: allNew}, row: "X3", do: ReadItem, local: Init, leads: true, why: stateRead},
		{name: "read a minute ago, a later read just failed", view: View{Local: Deployed, Read: Read{Outcome: Found, State: stored(Deployed, t0).State, At: t0.Add(-time.Minute), Tried: t0, Failing: t0, Term: 1}}, row: "D2", local: Deployed, leads: true, cancel: true, next: time.Minute, why: "all workers can be deployed with MigrateAllEntitiesToLeaseTable"},
		{name: "a lost answer may still come true", view: View{Local: Deployed, Read: Read{Outcome: Found, State: stored(Deployed, t0).State, At: t0, Term: 1, Unsettled: t0.Add(-119 * time.Second)}}, row: "D2", local: Deployed, leads: true, cancel: true, next: 5 * time.Second, why: "all workers can be deployed with MigrateAllEntitiesToLeaseTable"},
		{name: "a lost answer, long ago", view: View{Local: Deployed, Read: Read{Outcome: Found, State: stored(Deployed, t0).State, At: t0, Term: 1, Unsettled: t0.Add(-2 * time.Minute)}}, row: "D2", local: Deployed, leads: true, cancel: true, next: time.Minute, why: "all workers can be deployed with MigrateAllEntitiesToLeaseTable"},
		{name: "read fails single-table-migration#40", view: View{Local: Init, Read: Read{Outcome: Failed, At: t0, Tried: t0, Failing: t0, Term: 1}, Summary: allNew}, row: "X4", local: Init, next: time.Second, why: "the state cannot be read"},
		{name: "read failed a second ago single-table-migration#40", view: View{Local: Init, Read: Read{Outcome: Failed, Tried: t0.Add(-time.Second), Failing: t0.Add(-time.Second), Term: 1}}, row: "X4", do: ReadItem, local: Init, why: "the state cannot be read"},
		{name: "read has failed for 14.9 s", view: View{Local: Init, Read: Read{Outcome: Failed, Tried: t0, Failing: t0.Add(-14900 * time.Millisecond), Term: 1}}, row: "X4", local: Init, next: time.Second, why: "the state cannot be read"},
		{name: "read has failed for 15 s single-table-migration#40", view: View{Local: Init, Read: Read{Outcome: Failed, Tried: t0, Failing: t0.Add(-15 * time.Second), Term: 1}}, row: "X4", local: Init, frees: true, next: time.Second, why: "the state cannot be read"},
		{name: "a follower's read fails", follow: true, view: View{Local: Init, Read: Read{Outcome: Failed, Tried: t0, Failing: t0.Add(-time.Hour)}}, row: "X4", local: Init, next: 10 * time.Second, why: "the state cannot be read"},
		{name: "unreadable item single-table-migration#85", view: View{Local: Init, Read: Read{Outcome: Malformed, At: t0, Term: 1}, Summary: allNew}, row: "X5", local: Init, cancel: true, next: time.Minute, err: coordinator.ErrMalformed},
		{name: "table gone, the copy says COMPLETE single-table-migration#86", view: View{Local: Pending, Read: Read{Outcome: Gone, CopyComplete: true, At: t0, Term: 1}}, migrate: true, row: "X6", local: Complete, frees: true, cancel: true},
		{name: "follower, table gone, the copy says COMPLETE single-table-migration#86", follow: true, view: View{Local: Init, Read: Read{Outcome: Gone, CopyComplete: true, At: t0}}, row: "X6", local: Complete, frees: true, cancel: true},
		{name: "table gone before COMPLETE single-table-migration#86", view: View{Local: Pending, Read: Read{Outcome: Gone, At: t0, Term: 1}, Summary: drained}, migrate: true, row: "X7", local: Pending, frees: true, cancel: true, next: time.Minute, err: ErrInconsistent},
		{name: "COMPLETE by another leader single-table-migration#38", view: View{Local: Pending, Read: stored(Complete, t0)}, migrate: true, row: "X8", local: Complete, frees: true, cancel: true},
		{name: "COMPLETE, config false single-table-migration#38", view: View{Local: Deployed, Read: stored(Complete, t0)}, row: "X8", local: Complete, frees: true, cancel: true},
		{name: "follower sees COMPLETE single-table-migration#27,38", follow: true, view: View{Local: Init, Read: stored(Complete, t0)}, row: "X8", local: Complete, frees: true, cancel: true},
		{name: "follower sees DEPLOYED single-table-migration#27", follow: true, view: View{Local: Init, Read: stored(Deployed, t0), Summary: allNew}, row: "X9", local: Deployed, cancel: true, next: 30 * time.Second, why: "the leader decides"},
		{name: "follower sees PENDING single-table-migration#27", follow: true, view: View{Local: Deployed, Read: stored(Pending, t0), Summary: allNew}, row: "X9", local: Deployed, cancel: true, next: 30 * time.Second, why: "the leader decides"},
		{name: "follower of the second deployment sees PENDING single-table-migration#27", follow: true, migrate: true, view: View{Local: Pending, Read: stored(Pending, time.Unix(0, 0)), Summary: drained, Look: clean}, row: "X9", local: Pending, cancel: true, next: 30 * time.Second, why: "the leader decides"},
		{name: "follower sees nothing, and all are new single-table-migration#27", follow: true, view: View{Local: Init, Read: none(), Summary: ofTerm(allNew, 0)}, row: "X9", local: Init, cancel: true, next: 30 * time.Second, why: "the leader decides"},
		{name: "follower read half a minute ago", follow: true, view: View{Local: Init, Read: Read{Outcome: None, At: t0.Add(-30 * time.Second)}}, row: "X9", do: ReadItem, local: Init, cancel: true, why: "the leader decides"},
	})
}

func TestInit(t *testing.T) {
	const bake = "every lease owner knows the migration; it is left so until "
	young := stored(Init, t0.Add(-59*time.Minute-59*time.Second))
	runCases(t, []decideCase{
		{name: "no summary, no item single-table-migration#21", view: View{Local: Init, Read: none(), Summary: noFleet}, row: "I0", local: Init, leads: true, cancel: true, next: time.Minute, why: unknownFleet},
		{name: "summary of another term", view: View{Local: Init, Read: none(), Summary: ofTerm(allNew, 7)}, row: "I0", local: Init, leads: true, cancel: true, next: time.Minute, why: unknownFleet},
		{name: "old summary", view: View{Local: Init, Read: none(), Summary: aged(allNew, 91*time.Second)}, row: "I0", local: Init, leads: true, cancel: true, next: time.Minute, why: unknownFleet},
		{name: "an old owner, no item", view: View{Local: Init, Read: none(), Summary: oneOld}, row: "I0", local: Init, leads: true, cancel: true, next: time.Minute, why: "lease owners of a version before 3.5: b"},
		{name: "a silent owner, no item", view: View{Local: Init, Read: none(), Summary: departed}, row: "I0", local: Init, leads: true, cancel: true, next: time.Minute, why: "lease owners that do not report: b"},
		{name: "no owner, no item", view: View{Local: Init, Read: none(), Summary: ownerless}, row: "I0", local: Init, leads: true, cancel: true, next: time.Minute, why: "no worker has a lease yet"},
		{name: "all are new, no item single-table-migration#10,22", view: View{Local: Init, Read: none(), Summary: allNew}, row: "I2", do: Create, stores: Init, local: Init, leads: true, cancel: true, why: "every lease owner knows the migration"},
		{name: "all are new, no item, a write just failed", view: View{Local: Init, Read: none(), Summary: allNew, HoldUntil: t0.Add(time.Second)}, row: "I2", local: Init, leads: true, cancel: true, next: time.Second, why: "a write failed and is tried again"},

		{name: "an old owner that lives single-table-migration#25", view: View{Local: Init, Read: young, Summary: oneOld}, row: "I1", do: Delete, local: Init, leads: true, cancel: true, why: "lease owners of a version before 3.5: b"},
		{name: "a departed owner is no evidence single-table-migration#87", view: View{Local: Init, Read: young, Summary: departed}, row: "I1u", local: Init, leads: true, cancel: true, next: time.Minute, why: "lease owners that do not report: b"},
		{name: "a departed owner when the bake is over single-table-migration#87", view: View{Local: Init, Read: stored(Init, time.Unix(0, 0)), Summary: departed}, row: "I1u", local: Init, leads: true, cancel: true, next: time.Minute, why: "lease owners that do not report: b"},
		{name: "new leader without a summary single-table-migration#87", view: View{Local: Init, Read: young}, row: "I1u", local: Init, leads: true, cancel: true, next: time.Minute, why: unknownFleet},
		{name: "old evidence", view: View{Local: Init, Read: young, Summary: aged(oneOld, 91*time.Second)}, row: "I1u", local: Init, leads: true, cancel: true, next: time.Minute, why: unknownFleet},
		{name: "evidence of another term", view: View{Local: Init, Read: young, Summary: ofTerm(oneOld, 9)}, row: "I1u", local: Init, leads: true, cancel: true, next: time.Minute, why: unknownFleet},

		{name: "younger than the bake single-table-migration#24", view: View{Local: Init, Read: young, Summary: allNew}, row: "I3", local: Init, leads: true, cancel: true, next: time.Unix(t0.Unix()+1, 0).Sub(t0), why: bake + "2026-11-30T10:21:15Z"},
		{name: "as old as the bake, by whole seconds single-table-migration#24", view: View{Local: Init, Read: stored(Init, t0.Add(-time.Hour+400*time.Millisecond)), Summary: allNew}, row: "I4", do: Update, stores: Deployed, local: Init, after: Deployed, leads: true, cancel: true, why: "every lease owner has known the migration for long enough"},
		{name: "since 1970 single-table-migration#14,23", view: View{Local: Init, Read: stored(Init, time.Unix(0, 0)), Summary: allNew}, row: "I4", do: Update, stores: Deployed, local: Init, after: Deployed, leads: true, cancel: true, why: "every lease owner has known the migration for long enough"},
		{name: "the longer bake is not this one's single-table-migration#13", view: View{Config: Config{CompleteBake: 2 * time.Hour}, Local: Init, Read: stored(Init, t0.Add(-time.Hour)), Summary: allNew}, row: "I4", do: Update, stores: Deployed, local: Init, after: Deployed, leads: true, cancel: true, why: "every lease owner has known the migration for long enough"},
		{name: "by a worker of the second deployment, after the item was made anew", view: View{Local: Pending, Read: stored(Init, time.Unix(0, 0)), Summary: allNew}, migrate: true, row: "I4", do: Update, stores: Deployed, local: Init, after: Pending, leads: true, cancel: true, why: "every lease owner has known the migration for long enough"},

		{name: "DEPLOYED while local is INIT: its time begins no bake single-table-migration#26", view: View{Local: Init, Read: stored(Deployed, time.Unix(0, 0)), Summary: allNew}, row: "D2", local: Deployed, leads: true, cancel: true, next: time.Minute, why: "all workers can be deployed with MigrateAllEntitiesToLeaseTable"},
	})
}

func TestDeployed(t *testing.T) {
	runCases(t, []decideCase{
		{name: "PENDING, config false single-table-migration#28", view: View{Local: Deployed, Read: stored(Pending, t0), Summary: drained}, row: "D1", do: Update, stores: Deployed, local: Deployed, leads: true, cancel: true, why: "the leader writes to the legacy tables: the second deployment was taken back"},
		{name: "PENDING, config false, nothing known: this worker is the evidence", view: View{Local: Init, Read: stored(Pending, t0)}, row: "D1", do: Update, stores: Deployed, local: Deployed, leads: true, cancel: true, why: "the leader writes to the legacy tables: the second deployment was taken back"},
		{name: "an old owner does not undo it", view: View{Local: Deployed, Read: stored(Deployed, t0), Summary: oneOld}, row: "D2", local: Deployed, leads: true, cancel: true, next: time.Minute, why: "all workers can be deployed with MigrateAllEntitiesToLeaseTable"},
		{name: "item deleted by hand: begins anew", view: View{Local: Deployed, Read: none(), Summary: allNew}, row: "I2", do: Create, stores: Init, local: Init, leads: true, cancel: true, why: "every lease owner knows the migration"},
	})
}

func TestPendingLocal(t *testing.T) {
	const (
		legacy  = "workers that report to the legacy table: b"
		beMoved = "the coordinator's items are being moved into the lease table"
		left    = "left in the legacy table: Migration3.0"
	)
	dep := stored(Deployed, time.Unix(0, 0))
	runCases(t, []decideCase{
		{name: "item deleted by hand single-table-migration#42", migrate: true, view: View{Local: Pending, Read: none(), Summary: drained}, row: "P0", do: Create, stores: Deployed, local: Pending, leads: true, cancel: true, why: "the state was deleted by hand"},
		{name: "not drained: no move, one that runs is cancelled single-table-migration#29", migrate: true, view: View{Local: Pending, Read: dep, Summary: oneLegacy, Move: moveOf(Moving, 0)}, row: "P1", local: Pending, leads: true, cancel: true, next: time.Minute, why: legacy},
		{name: "not drained after the move", migrate: true, view: View{Local: Pending, Read: dep, Summary: oneLegacy, Move: moveOf(Moved, 0), Look: clean}, row: "P1", local: Pending, leads: true, cancel: true, next: time.Minute, why: legacy},
		{name: "drained at the summary, and not at a look since single-table-migration#33", migrate: true, view: View{Local: Pending, Read: dep, Summary: drained, Look: straggler}, row: "P1", local: Pending, leads: true, cancel: true, next: time.Minute, why: "workers that report to the legacy table: c"},
		{name: "drained at the summary, and not at the look after the move", migrate: true, view: View{Local: Pending, Read: dep, Summary: aged(drained, time.Second), Move: moveOf(Moved, 0), Look: straggler}, row: "P1", local: Pending, leads: true, cancel: true, next: time.Minute, why: "workers that report to the legacy table: c"},
		{name: "not drained at a look, and drained since", migrate: true, view: View{Local: Pending, Read: dep, Summary: drained, Look: lookAgo(straggler, 1)}, row: "P2", do: StartMove, local: Pending, leads: true, why: beMoved},
		{name: "a silent owner single-table-migration#31", migrate: true, view: View{Local: Pending, Read: dep, Summary: departed}, row: "P1u", local: Pending, leads: true, next: time.Minute, why: "lease owners that do not report: b"},
		{name: "nothing known: a move goes on", migrate: true, view: View{Local: Pending, Read: dep, Move: moveOf(Moving, 0)}, row: "P1u", local: Pending, leads: true, next: time.Minute, why: unknownFleet},
		{name: "not watched for long enough", migrate: true, view: View{Local: Pending, Read: dep, Summary: sinceTheRun(drained)}, row: "P1u", local: Pending, leads: true, next: time.Minute, why: "the leader has not watched the fleet for long enough"},
		{name: "not watched at all", migrate: true, view: View{Local: Pending, Read: dep, Summary: unwatched(drained)}, row: "P1u", local: Pending, leads: true, next: time.Minute, why: "the leader has not watched the fleet for long enough"},
		{name: "drained single-table-migration#29", migrate: true, view: View{Local: Pending, Read: dep, Summary: drained}, row: "P2", do: StartMove, local: Pending, leads: true, why: beMoved},
		{name: "drained, a move of another term", migrate: true, view: View{Local: Pending, Read: dep, Summary: drained, Move: Move{Phase: Moved, Term: 3, Ended: t0}, Look: clean}, row: "P2", do: StartMove, local: Pending, leads: true, why: beMoved},
		{name: "local INIT, which was missed", migrate: true, view: View{Local: Init, Read: dep, Summary: drained}, row: "P2", do: StartMove, local: Pending, leads: true, why: beMoved},
		{name: "drained, it runs", migrate: true, view: View{Local: Pending, Read: dep, Summary: drained, Move: moveOf(Moving, 0)}, row: "P3", local: Pending, leads: true, next: time.Minute, why: beMoved},
		{name: "it failed just now", migrate: true, view: View{Local: Pending, Read: dep, Summary: drained, Move: moveOf(MoveFailed, 0)}, row: "P4", local: Pending, leads: true, next: time.Second, why: "the move of the coordinator's items failed: so"},
		{name: "it failed a second ago", migrate: true, view: View{Local: Pending, Read: dep, Summary: drained, Move: moveOf(MoveFailed, time.Second)}, row: "P4", do: StartMove, local: Pending, leads: true, why: "the move of the coordinator's items failed: so"},
		{name: "moved, not looked since single-table-migration#32", migrate: true, view: View{Local: Pending, Read: dep, Summary: drained, Move: moveOf(Moved, 0), Look: lookAgo(clean, 1)}, row: "P5l", do: LookLeft, local: Pending, leads: true, why: beMoved},
		{name: "moved, looked in another term", migrate: true, view: View{Local: Pending, Read: dep, Summary: drained, Move: moveOf(Moved, 0), Look: Look{At: t0, Term: 5, Clean: Yes, Drained: Yes}}, row: "P5l", do: LookLeft, local: Pending, leads: true, why: beMoved},
		{name: "moved, and who was seen at the look has gone", migrate: true, view: View{Local: Pending, Read: dep, Summary: drained, Move: moveOf(Moved, time.Minute), Look: lookAgo(straggler, time.Second)}, row: "P5l", do: LookLeft, local: Pending, leads: true, why: beMoved},
		{name: "moved, and who was seen at the look has gone just now", migrate: true, view: View{Local: Pending, Read: dep, Summary: drained, Move: moveOf(Moved, time.Minute), Look: lookAgo(straggler, time.Millisecond)}, row: "P5l", local: Pending, leads: true, next: time.Second - time.Millisecond, why: beMoved},
		{name: "moved, the look failed just now", migrate: true, view: View{Local: Pending, Read: dep, Summary: drained, Move: moveOf(Moved, 0), Look: unreadable}, row: "P5l", local: Pending, leads: true, next: time.Second, why: beMoved},
		{name: "moved, the look failed a second ago", migrate: true, view: View{Local: Pending, Read: dep, Summary: drained, Move: moveOf(Moved, time.Minute), Look: lookAgo(unreadable, time.Second)}, row: "P5l", do: LookLeft, local: Pending, leads: true, why: beMoved},
		{name: "moved, something is left single-table-migration#32", migrate: true, view: View{Local: Pending, Read: dep, Summary: drained, Move: moveOf(Moved, time.Second), Look: dirty}, row: "P5", do: StartMove, local: Pending, leads: true, why: left},
		{name: "moved, something is left, looked at once", migrate: true, view: View{Local: Pending, Read: dep, Summary: drained, Move: moveOf(Moved, 0), Look: dirty}, row: "P5", local: Pending, leads: true, next: time.Second, why: left},
		{name: "moved, clean single-table-migration#32", migrate: true, view: View{Local: Pending, Read: dep, Summary: drained, Move: moveOf(Moved, 0), Look: clean}, row: "P6", do: Update, stores: Pending, local: Pending, leads: true, cancel: true, why: "nothing is left in the legacy tables"},
	})
}

func TestPendingStored(t *testing.T) {
	const (
		until = "nothing is left in the legacy tables; it is left so until "
		left  = "left in the legacy table: Migration3.0"
	)
	over := stored(Pending, t0.Add(-24*time.Hour))
	young := stored(Pending, t0.Add(-24*time.Hour+10*time.Second))
	pending := func(c decideCase) decideCase {
		c.migrate, c.leads, c.local = true, true, Pending
		c.view.Local = Pending
		return c
	}
	cases := []decideCase{
		{name: "a row in the legacy table is active single-table-migration#33", view: View{Read: over, Summary: oneLegacy, Look: clean}, row: "P7", do: Update, stores: Deployed, cancel: true, why: "workers that report to the legacy table: b"},
		{name: "something is left single-table-migration#34", view: View{Read: young, Summary: drained, Look: dirty}, row: "P7", do: Update, stores: Deployed, cancel: true, why: left},
		{name: "something is left, and nothing is known of the fleet single-table-migration#34", view: View{Read: young, Look: dirty}, row: "P7", do: Update, stores: Deployed, cancel: true, why: left},
		{name: "somebody lives by the legacy table at the last look", view: View{Read: over, Summary: drained, Look: straggler}, row: "P7", do: Update, stores: Deployed, cancel: true, why: "workers that report to the legacy table: c"},
		{name: "a departed owner is no evidence single-table-migration#87", view: View{Read: young, Summary: departed, Look: clean}, row: "P7u", next: time.Minute, why: "lease owners that do not report: b"},
		{name: "a departed owner when the bake is over single-table-migration#31,87", view: View{Read: over, Summary: departed, Look: clean}, row: "P7u", next: time.Minute, why: "lease owners that do not report: b"},
		{name: "new leader without a summary single-table-migration#87", view: View{Read: over}, row: "P7u", next: time.Minute, why: unknownFleet},
		{name: "old evidence", view: View{Read: over, Summary: aged(oneLegacy, 91*time.Second)}, row: "P7u", next: time.Minute, why: unknownFleet},
		{name: "a look of another term is none", view: View{Read: young, Summary: drained, Look: Look{At: t0, Term: 4, Clean: No}}, row: "P8l", do: LookLeft, why: until + "2026-11-30T10:21:24Z"},
		{name: "looked five minutes ago", view: View{Read: young, Summary: drained, Look: lookAgo(clean, 5*time.Minute)}, row: "P8l", do: LookLeft, why: until + "2026-11-30T10:21:24Z"},
		{name: "a failed look is no evidence", view: View{Read: young, Summary: drained, Look: unreadable}, row: "P8", next: time.Second, why: until + "2026-11-30T10:21:24Z"},
		{name: "a failed look a second ago", view: View{Read: young, Summary: drained, Look: lookAgo(unreadable, time.Second)}, row: "P8l", do: LookLeft, why: until + "2026-11-30T10:21:24Z"},
		{name: "a failed look when the bake is over", view: View{Read: over, Summary: drained, Look: unreadable}, row: "P8l", next: time.Second, why: "the legacy tables cannot be read"},
		{name: "the bake is not over", view: View{Read: young, Summary: drained, Look: clean}, row: "P8", next: time.Unix(t0.Unix()+10, 0).Sub(t0), why: until + "2026-11-30T10:21:24Z"},
		{name: "the bake is over, looked ten seconds ago", view: View{Read: over, Summary: drained, Look: lookAgo(clean, 10*time.Second)}, row: "P8l", do: LookLeft, why: until + "2026-11-30T10:21:14Z"},
		{name: "the bake is over single-table-migration#35", view: View{Read: over, Summary: drained, Look: clean}, row: "P9", do: Finalize, stores: Complete, after: Complete, why: "the migration is being completed"},
		{name: "the configured bake is over single-table-migration#13", view: View{Config: Config{CompleteBake: 2 * time.Hour}, Read: stored(Pending, t0.Add(-2*time.Hour)), Summary: drained, Look: clean}, row: "P9", do: Finalize, stores: Complete, after: Complete, why: "the migration is being completed"},
		{name: "a write just failed", view: View{Read: over, Summary: drained, Look: clean, HoldUntil: t0.Add(2 * time.Second)}, row: "P9", next: 2 * time.Second, why: "a write failed and is tried again"},
	}
	for i := range cases {
		cases[i] = pending(cases[i])
	}
	runCases(t, cases)
}

// single-table-migration#33: what was undone goes through the whole bake again.
func TestBakeBeginsAnew(t *testing.T) {
	v := View{Config: Config{Worker: "go", MigrateAllEntitiesToLeaseTable: true}, Now: t0, Local: Pending, Term: 1, Read: stored(Pending, t0.Add(-23*time.Hour)), Summary: oneLegacy, Look: clean}
	d := Decide(v)
	require.Equal(t, Update, d.Do)
	v.Read.State, v.Summary, v.Local = d.State, drained, d.After
	v.Move = moveOf(Moved, 0)
	d = Decide(v)
	require.Equal(t, "P6", d.Row)
	v.Read.State, v.Move = d.State, Move{}
	for _, h := range []time.Duration{0, 23 * time.Hour, 24*time.Hour - time.Second, 24 * time.Hour} {
		v.Now = t0.Add(h)
		v.Read.At, v.Summary.At, v.Look.At = v.Now, v.Now, v.Now
		want := "P8"
		if h == 24*time.Hour {
			want = "P9"
		}
		assert.Equal(t, want, Decide(v).Row, h)
	}
	assert.Len(t, v.Read.State.History, 3)
}

func TestSomeNames(t *testing.T) {
	assert.Equal(t, "a, b, c, d, e", some([]string{"a", "b", "c", "d", "e"}))
	assert.Equal(t, "a, b, c, d, e and 2 more", some([]string{"a", "b", "c", "d", "e", "f", "g"}))
}

func TestPauseOfMoves(t *testing.T) {
	assert.Equal(t, time.Second, pause(Move{Phase: MoveFailed, Tries: 1}))
	assert.Equal(t, 8*time.Second, pause(Move{Phase: MoveFailed, Tries: 4}))
	assert.Equal(t, 5*time.Minute, pause(Move{Phase: MoveFailed, Tries: 40}))
	assert.Equal(t, 5*time.Minute, pause(Move{Phase: MoveStuck, Tries: 1}))
}
