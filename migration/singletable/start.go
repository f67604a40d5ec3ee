package singletable

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-kcl/kcl/coordinator"
)

// ErrTooEarly says that a worker was started with [Config.MigrateAllEntitiesToLeaseTable]
// before all workers of the fleet had run for an hour without. A later start
// succeeds once the status is DEPLOYED.
var ErrTooEarly = errors.New("second deployment of the single-table migration before the first is done")

// ErrInconsistent says that the tables contradict each other, which no worker
// brings about. Trying again does not help.
var ErrInconsistent = errors.New("tables contradict each other")

// ErrNotStarted says that a check came before the start.
var ErrNotStarted = errors.New("single-table migration is not started")

// ErrDenied says that the worker may not look at the legacy table, and nothing
// else says whether it is in use. Trying again does not help.
var ErrDenied = errors.New("no permission for the legacy table")

// Legacy is what a look for the legacy table of the coordinator state came to.
type Legacy uint8

// The outcomes of that look. A look that failed for any other reason has none:
// nothing can be decided.
const (
	LegacyNotLooked Legacy = iota
	LegacyAbsent
	LegacyExists
	LegacyDenied // the caller may not describe, or not read it
)

// Facts is what a start is decided on.
type Facts struct {
	// NoLegacyTables is the operator's word that there are none.
	NoLegacyTables bool
	// Copy is the state in the lease table, which has one only at COMPLETE.
	Copy   State
	Copied bool
	// Table is the legacy table's name, for words.
	Table  string
	Legacy Legacy
	// Stored is the state in the legacy table.
	Stored State
	Found  bool
	// Migrate is [Config.MigrateAllEntitiesToLeaseTable].
	Migrate bool
}

// Begin returns the status that a worker starts with. Nothing is stored by a
// start. Rows are looked at from the top.
//
//	row  copy in lease table  legacy table  stored    Migrate  local
//	S1   COMPLETE             -             -         -        COMPLETE
//	S2   other                absent¹       -         -        error
//	S3   none                 absent¹       -         -        COMPLETE: a fresh application, or one that was never on 3.0 to 3.4
//	S4   -                    denied        -         -        error
//	S5   -                    exists        none      false    INIT
//	S6   -                    exists        none      true     error
//	S7   -                    exists        INIT      false    INIT
//	S8   -                    exists        INIT      true     error
//	S9   -                    exists        DEPLOYED  false    DEPLOYED
//	S10  -                    exists        DEPLOYED  true     PENDING
//	S11  -                    exists        PENDING   false    DEPLOYED
//	S12  -                    exists        PENDING   true     PENDING
//	S13  -                    exists        COMPLETE  -        COMPLETE
//
// ¹ or not looked for, at the operator's word.
//
// S1 goes before any look at the legacy table, so that a fleet that is through
// needs no permission on it. KCL never reads the copy.
func Begin(f Facts) (Status, error) {
	absent := f.Legacy == LegacyAbsent || f.NoLegacyTables
	switch {
	case f.Copied && f.Copy.Value == Complete: // S1
		return Complete, nil
	case absent && f.Copied: // S2
		return Unknown, fmt.Errorf("%w: the lease table's item %s says %s, last changed by %s at %s, but table %s, which is to hold that state until it is %s, does not exist or is not to be looked at: restore the table, or delete the item",
			ErrInconsistent, coordinator.TableMigrationKey, f.Copy.Value, f.Copy.By, clock(f.Copy.At), f.Table, Complete)
	case absent: // S3
		return Complete, nil
	case f.Legacy == LegacyDenied: // S4
		return Unknown, fmt.Errorf("%w: allow dynamodb:DescribeTable and dynamodb:GetItem on table %s of KCL 3.0 to 3.4, or set NoLegacyTables if the application never had it or no longer uses it", ErrDenied, f.Table)
	case f.Legacy != LegacyExists:
		return Unknown, fmt.Errorf("%w: nobody looked for table %s", ErrNotStarted, f.Table)
	}
	if local, ok := localFor(f.Stored.Value, f.Found, f.Migrate); ok { // S5, S7, S9 to S13
		return local, nil
	}
	said := "says nothing yet" // S6
	if f.Found {               // S8
		said = "says " + string(f.Stored.Value)
	}
	return Unknown, fmt.Errorf("%w: item %s of table %s %s: deploy all workers without MigrateAllEntitiesToLeaseTable first and wait until it says %s",
		ErrTooEarly, coordinator.TableMigrationKey, f.Table, said, Deployed)
}

// localFor is the status that a worker has by what is stored. ok is false if it
// must not have started.
func localFor(stored Status, found, migrate bool) (local Status, ok bool) {
	switch {
	case found && stored == Complete:
		return Complete, true
	case !found || stored == Init:
		return Init, !migrate
	case migrate:
		return Pending, true
	default:
		return Deployed, true
	}
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
