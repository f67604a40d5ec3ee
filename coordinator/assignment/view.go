package assignment

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/workermetrics"
)

// State is what a lease's counter and owners mean to a leader.
type State uint8

// The states, in the order in which leases are assigned; see the package's
// comment. Held and Pending leases are not.
const (
	Unowned State = iota
	Abandoned
	Expired
	Overdue
	Pending
	Held
)

var stateNames = [...]string{"unowned", "abandoned", "expired", "overdue", "pending", "held"}

// String names the state.
func (s State) String() string { return stateNames[s] }

// Free reports whether a lease in this state is to be given to somebody at once.
func (s State) Free() bool { return s <= Expired }

// Lease is a lease as one run sees it.
type Lease struct {
	*lease.Lease
	// ThroughputKBps, if known, is the average of the last minute or so. The
	// lease's own field of that name is of its last few seconds.
	ThroughputKBps float64
	HasThroughput  bool

	State State
	// Since is when this process first saw the lease's counter and owners as
	// they are.
	Since time.Time
	// Movable: may be moved to balance. It is held, not ended, and its owner is
	// known to renew it.
	Movable bool
	// Came is when this process saw the lease come to its actual owner, and
	// Before whose it was until then, if anybody's; zero if it did not see that.
	Came   time.Time
	Before string
}

// Holder is the worker that the lease counts for: in a pending hand-off the next
// owner. A free lease counts for nobody.
func (l Lease) Holder() string {
	if l.State.Free() {
		return ""
	}
	return cmp.Or(l.Owner, l.CheckpointOwner)
}

// Worker is a worker that may be given leases.
type Worker struct {
	ID     string
	Record workermetrics.Record
	// Reported is when this process saw the record come.
	Reported time.Time
}

// View is what a [Decider] decides by.
type View struct {
	Leases  []Lease  // sorted by key
	Workers []Worker // sorted by id
	// Limit is how many leases a worker may have, at least 1.
	Limit int
	// Balance asks for held leases to be moved where that evens the load.
	Balance bool
	// ReportPeriod is how often workers report.
	ReportPeriod time.Duration
}

// Move gives a lease to a worker.
type Move struct {
	Lease int // index in View.Leases
	To    string
}

// Plan says what to write, at most one move a lease. A lease that is to stay
// where it is has no move.
type Plan struct {
	Assign  []Move // of unowned, abandoned, expired and overdue leases
	Balance []Move // of movable leases
	// Spill is how many leases nobody may take.
	Spill int
	// Uneven: load remains to be moved that the plan could not move.
	Uneven bool
}

// Decider plans a run. It is a pure function: the same view gives the same
// plan.
type Decider func(View) Plan

// assignable returns the indexes of the leases to be assigned, in order: unowned
// first, then by state, and the longest expired first.
func (v View) assignable() []int {
	var out []int
	for i, l := range v.Leases {
		if l.State <= Overdue {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, func(i, j int) int {
		a, b := v.Leases[i], v.Leases[j]
		if a.State != b.State {
			return cmp.Compare(a.State, b.State)
		}
		if a.State == Unowned {
			return cmp.Compare(i, j)
		}
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(i, j))
	})
	return out
}
