package singletable

import "time"

// View is all that a check is decided on: values, gathered by whoever asks.
type View struct {
	Config
	// Now is this host's clock.
	Now time.Time
	// Local is the worker's status as of the last decision.
	Local Status
	// Term is the number of the leader's term, 0 for a worker that does not hold
	// the lock of the table that Local names.
	Term uint64
	// Read is what is known of the migration's item, Summary of the fleet, Look
	// of what is left in the legacy tables, Move of the move of those items.
	Read    Read
	Summary Summary
	Look    Look
	Move    Move
	// HoldUntil is when a write may be tried again after one that failed; zero
	// if none did.
	HoldUntil time.Time
	// Blocked is why the last transaction that was to complete the migration
	// could not be; empty if there was none.
	Blocked string
	// Period is how often workers report, SummaryAge how long a summary is good
	// for, Patience how long a new leader, which does not lead yet, keeps the lock
	// while its reads fail. 0 means 30 s, 90 s and 15 s.
	Period, SummaryAge, Patience time.Duration
}

// Outcome is what a read of the migration's item came to.
type Outcome uint8

// The outcomes.
const (
	NotRead   Outcome = iota
	None              // there is no item
	Found             // State holds it
	Malformed         // there is one that this version cannot read
	Gone              // the table is not there any more, or may no longer be read
	Failed            // nothing is known
)

// Read is the last read of the migration's item, strongly consistent, or what a
// write of this worker left there.
type Read struct {
	Outcome Outcome
	State   State
	// At is when it began, Term the term in which it did, 0 if in none.
	At   time.Time
	Term uint64
	// Tried is when a later read, that failed, began; Failing is when the first
	// of the reads in a row began that failed. Zero if none.
	Tried, Failing time.Time
	// Unsettled is when a write began whose answer was lost; zero if none was.
	// It may still land.
	Unsettled time.Time
	// CopyComplete, after Gone, says that the lease table has the item and that
	// it says COMPLETE.
	CopyComplete bool
}

// found returns the stored status.
func (r Read) status() (s Status, found bool) {
	return r.State.Value, r.Outcome == Found
}

// Look is a look at what is left in the legacy tables, by consistent scans.
type Look struct {
	// At is when it began, Took how long it took, Term the term in which it began.
	At   time.Time
	Took time.Duration
	Term uint64
	// Clean says whether the coordinator state's table holds nothing but the
	// leader's lock and the migration's item; Left is the first other keys.
	Clean Knowledge
	Left  []string
	// Drained says whether nobody lives by the table of the workers' records;
	// Alive is the first who do.
	Drained Knowledge
	Alive   []string
	// Failed is how many looks in a row, this one included, left something unknown.
	Failed int
}

// ended is when it ended.
func (l Look) ended() time.Time { return l.At.Add(l.Took) }

// unknown reports whether a table could not be read.
func (l Look) unknown() bool { return l.Clean == NotKnown || l.Drained == NotKnown }

// Phase is how far the move of the coordinator's items is.
type Phase uint8

// The phases of a move.
const (
	NoMove Phase = iota
	Moving
	Moved
	MoveFailed
	MoveStuck // on an item that it may not move; Why says which
)

// Move is the move of the coordinator's items into the lease table.
type Move struct {
	Phase Phase
	// Ended is when it ended; Term is the term in which it ran.
	Ended time.Time
	Term  uint64
	// Tries is how many moves in a row did not leave the table clean.
	Tries int
	Why   string
}

// Action is the one thing to do after a decision.
type Action uint8

// The actions. Each but Wait is followed by another decision.
const (
	Wait     Action = iota // nothing, until Next or until something of the View changes
	ReadItem               // read the migration's item
	LookLeft               // look at what is left in the legacy tables
	Create                 // put State if there is no item
	Update                 // change the item to State if it is as read
	Delete                 // delete the item if it is as read
	StartMove
	Finalize // store State in both tables, and take the lease table's lock
)

// writes reports whether the action changes the migration's item.
func (a Action) writes() bool { return a == Create || a == Update || a == Delete || a == Finalize }

// Decision is what a check comes to.
type Decision struct {
	// Row names the row of the table in [Decide].
	Row string
	Do  Action
	// State is what Create, Update and Finalize store.
	State State
	// Local is the worker's status from now on, After the one once Do has gone
	// through, which only the answer to that very write can tell.
	Local, After Status
	// Leads says whether the worker, if it holds the lock, may act as leader.
	Leads bool
	// Release says that the lock in the legacy table is to be freed, if held.
	Release bool
	// CancelMove says that a move that runs is to be cancelled and awaited, and
	// the outcome of one forgotten.
	CancelMove bool
	// Why says in words what the migration waits for.
	Why string
	// Next is when to decide again at the latest; zero if only what changes
	// matters.
	Next time.Time
	// Err is for a human to see to.
	Err error
}
