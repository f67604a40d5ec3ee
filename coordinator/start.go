package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/chance"
	"github.com/go-kcl/kcl/internal/ddb"
	"github.com/go-kcl/kcl/internal/wait"
)

// ErrRefused says that this version must not serve the application as its
// tables are. The error that wraps it says what was found and what to do.
// Trying again does not help.
var ErrRefused = errors.New("start refused")

// LegacyTableName is the default name of the table that held an application's
// coordinator state before KCL 3.5.
func LegacyTableName(application string) string { return application + "-CoordinatorState" }

// StartConfig says who starts and what it may look at.
type StartConfig struct {
	// Worker is the worker's id; it is stored as the creator of a fresh
	// application's state.
	Worker string
	// LegacyTable is the name of the table that KCL 3.0 to 3.4 kept this state
	// in; see [LegacyTableName].
	LegacyTable string
	// NoLegacyTables promises that there is no such table, which is then not
	// looked for: for roles that may not describe it.
	NoLegacyTables bool
}

const (
	// startTries is how often a worker that lost the creation of the state to
	// another decides anew.
	startTries = 10
	// startPause and startJitter space those tries but the first, which finds
	// the winner's item: 1.0 to 1.1 s.
	startPause  = time.Second
	startJitter = 100 * time.Millisecond
)

// Start decides whether this version may serve the application, and marks a
// fresh application as a 3.x one. It returns nil to go ahead, an error that
// wraps [ErrRefused] if the worker must not start, and any other error if it
// could not find out; Start may then be called again.
func (s *Store) Start(ctx context.Context, c StartConfig) error {
	facts, err := s.tableFacts(ctx, c)
	if err != nil {
		return err
	}
	for try := range startTries {
		if try > 1 {
			if !wait.For(ctx, startPause+chance.Below(startJitter)) {
				return fmt.Errorf("start in table %s: %w", s.table, context.Cause(ctx))
			}
		}
		// The legacy table alone refuses: nothing else needs to be read then.
		if !facts.legacyTable {
			if facts.version, facts.versionStored, err = s.ClientVersion(ctx); err != nil {
				return refuseMalformed(err)
			}
		}
		create, err := decideStart(facts)
		if err != nil {
			return fmt.Errorf("start in table %s: %w", s.table, err)
		}
		if !create {
			return nil
		}
		created, err := s.CreateClientVersion(ctx, FreshClientVersion(ClientVersion3X, c.Worker, time.Now()))
		if err != nil {
			return err
		}
		if created {
			s.log.LogAttrs(ctx, slog.LevelInfo, "marked a fresh application as 3.x", slog.String("worker", c.Worker))
			return nil
		}
	}
	return fmt.Errorf("start in table %s: %w: %s was created by others and was gone again, %d times", s.table, kcl.ErrDependency, ClientVersionKey, startTries)
}

// startFacts is what a start is decided on.
type startFacts struct {
	legacyName  string
	legacyTable bool // it exists

	status       TableMigrationState // of the lease table
	statusStored bool

	version       ClientVersionState
	versionStored bool
}

// decideStart says whether the worker may start, and whether it must first
// mark the application as a 3.x one. Rows are looked at from the top.
//
//	legacy table  status (lease table)  client version    outcome
//	-             other than COMPLETE   -                 refuse
//	exists        -                     -                 refuse
//	none¹         COMPLETE or none      none              create, then go
//	none¹         COMPLETE or none      3X                go
//	none¹         COMPLETE or none      any other         refuse
//
// ¹ or not looked for.
func decideStart(f startFacts) (create bool, err error) {
	switch {
	case f.statusStored && f.status.Value != TableStatusComplete:
		return false, fmt.Errorf("%w: item %s says %s, last changed by %s at %s, so the application's state is still being moved into the lease table, which this version cannot take part in; let Java KCL 3.5 workers finish the single-table migration (%s)",
			ErrRefused, TableMigrationKey, f.status.Value, f.status.By, f.status.At.UTC().Format(time.RFC3339), TableStatusComplete)
	case f.legacyTable:
		return false, fmt.Errorf("%w: table %s exists, so the application keeps its state as KCL 3.0 to 3.4 did, and this version cannot move it; let Java KCL 3.5 workers finish the single-table migration (%s in item %s of the lease table); or, if no worker of the application uses that table any more, delete it or set NoLegacyTables",
			ErrRefused, f.legacyName, TableStatusComplete, TableMigrationKey)
	case !f.versionStored:
		return true, nil
	case f.version.Value == ClientVersion3X:
		return false, nil
	default:
		return false, fmt.Errorf("%w: item %s says %s, last changed by %s at %s, so the application's migration from KCL 2.x has not ended, and this version serves only applications at %s; %s",
			ErrRefused, ClientVersionKey, f.version.Value, f.version.By, f.version.At.UTC().Format(time.RFC3339), ClientVersion3X, remedy(f.version.Value))
	}
}

// remedy says how an application gets from v to 3.x with Java workers.
func remedy(v ClientVersion) string {
	switch v {
	case ClientVersion2X:
		return "it was rolled back: roll it forward with KclMigrationTool.py and let Java KCL 3.5 workers finish the migration"
	case ClientVersion3XWithRollback:
		return "deploy Java KCL 3.5 workers with CLIENT_VERSION_CONFIG_3X, which ends the migration, before this version"
	default:
		return "let Java KCL 3.5 workers finish the migration: they reach " + string(ClientVersion3XWithRollback) + " by themselves, and a deployment with CLIENT_VERSION_CONFIG_3X ends it"
	}
}

// tableFacts finds out whether there are legacy tables to care for. A stored
// COMPLETE answers that without a look at them.
func (s *Store) tableFacts(ctx context.Context, c StartConfig) (f startFacts, err error) {
	f.legacyName = c.LegacyTable
	if f.status, f.statusStored, err = s.TableMigration(ctx); err != nil || f.statusStored || c.NoLegacyTables {
		return f, refuseMalformed(err)
	}
	f.legacyTable, err = s.legacyTableExists(ctx, c.LegacyTable)
	return f, err
}

func (s *Store) legacyTableExists(ctx context.Context, table string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	_, err := s.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
	switch ddb.Code(err) {
	case "ResourceNotFoundException":
		return false, nil
	case "AccessDeniedException":
		return false, fmt.Errorf("%w: no permission to look for table %s of KCL 3.0 to 3.4: allow dynamodb:DescribeTable on it, or set NoLegacyTables if the application never had it or no longer uses it: %w",
			ErrRefused, table, err)
	}
	return err == nil, ddb.Error("describe table "+table, err)
}

// refuseMalformed makes a refusal of the error for an item that is no
// migration's state: it will not mend itself.
func refuseMalformed(err error) error {
	if errors.Is(err, ErrMalformed) {
		return fmt.Errorf("%w: %w; a later version of the library or a hand wrote it: use that version, or restore the item", ErrRefused, err)
	}
	return err
}
