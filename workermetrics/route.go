package workermetrics

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/ddb"
)

// Status says how far the move from the tables of KCL 3.0 to 3.4 into the lease
// table is, spelled as on the wire.
type Status string

// The statuses. StatusUnknown, and any other value, is that of a worker that
// has not found out.
const (
	StatusUnknown  Status = ""
	StatusInit     Status = "TABLE_MIGRATION_STATUS_INIT"
	StatusDeployed Status = "TABLE_MIGRATION_STATUS_DEPLOYED"
	StatusPending  Status = "TABLE_MIGRATION_STATUS_PENDING"
	StatusComplete Status = "TABLE_MIGRATION_STATUS_COMPLETE"
)

// LegacyTableName is the default name of the table that held the records of an
// application's workers before KCL 3.5.
func LegacyTableName(application string) string { return application + "-WorkerMetricStats" }

// legacyKey is that table's partition key.
const legacyKey = "wid"

var (
	errNotInitialized = fmt.Errorf("store of workers' records is not initialized: %w", kcl.ErrInvalidState)
	errUnknownStatus  = errors.New("status of the table migration is not known")
)

// table is one that holds records.
type table struct{ name, key string }

func (s *Store) table(legacy bool) table {
	if legacy {
		return table{s.cfg.LegacyTable, legacyKey}
	}
	return table{s.cfg.Table, attrKey}
}

// route is what [Store.Init] found, for good.
type route struct {
	writesLegacy bool // until the move is complete, this worker's record belongs into the legacy table
	legacyExists bool // as far as known: it may be deleted later
}

// writesLegacy says which table a worker writes to that initializes its store
// at this status.
func writesLegacy(s Status) (bool, error) {
	switch s {
	case StatusInit, StatusDeployed:
		return true, nil
	case StatusPending, StatusComplete:
		return false, nil
	default:
		return false, fmt.Errorf("%w (%q)", errUnknownStatus, s)
	}
}

// Init decides to which table this worker's record is written from now on, and
// looks whether the legacy table exists. A worker changes its table only by
// starting anew, so that a rollout moves the fleet and not a change of status;
// but for [StatusComplete], from which on nobody looks at the legacy table.
// An error leaves nothing decided: Init may be called again. After a success it
// does nothing. Without a LegacyTable there is nothing to decide, and no need
// for Init.
func (s *Store) Init(ctx context.Context) error {
	if s.route.Load() != nil {
		return nil
	}
	status := s.status()
	legacy, err := writesLegacy(status)
	if err != nil {
		return fmt.Errorf("worker records: %w: %w", kcl.ErrInvalidState, err)
	}
	r := &route{writesLegacy: legacy}
	if status != StatusComplete { // which is final: nothing looks at the legacy table any more
		if r.legacyExists, err = s.findLegacy(ctx); err != nil {
			return err
		}
	}
	if !s.route.CompareAndSwap(nil, r) {
		return nil // another call was first
	}
	switch {
	case !legacy:
	case r.legacyExists:
		s.log.InfoContext(ctx, "worker's record is written to the legacy table", "table", s.cfg.LegacyTable, "status", string(status))
	default:
		s.log.WarnContext(ctx, "worker cannot report and will get no leases: the table that its record belongs into does not exist", "table", s.cfg.LegacyTable, "status", string(status))
	}
	return nil
}

// findLegacy reports whether the legacy table exists.
func (s *Store) findLegacy(ctx context.Context) (bool, error) {
	_, err := call(ctx, s, "describe table "+s.cfg.LegacyTable, func(ctx context.Context) (*dynamodb.DescribeTableOutput, error) {
		return s.cfg.Client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &s.cfg.LegacyTable})
	})
	switch {
	case missing(err):
		return false, nil
	case ddb.Denied(err):
		return false, fmt.Errorf("no permission to look for the table of KCL 3.0 to 3.4: allow dynamodb:DescribeTable on it, or set NoLegacyTables if the application never had it or no longer uses it: %w", err)
	}
	return err == nil, err
}

// missing reports whether err says that there is no such table.
func missing(err error) bool { return ddb.Code(err) == "ResourceNotFoundException" }

func (s *Store) status() Status {
	if s.cfg.Status == nil {
		return StatusUnknown
	}
	return s.cfg.Status()
}

// routed returns what Init decided.
func (s *Store) routed() (route, error) {
	r := s.route.Load()
	if r == nil {
		return route{}, errNotInitialized
	}
	return *r, nil
}

// ownLegacy reports whether this worker's record belongs into the legacy table
// now.
func (s *Store) ownLegacy(r route) bool { return r.writesLegacy && s.status() != StatusComplete }

// writable returns a table that a record is to be written to, or deleted from.
func (s *Store) writable(r route, legacy bool) (table, error) {
	switch {
	case !legacy || r.legacyExists:
		return s.table(legacy), nil
	case s.cfg.LegacyTable == "":
		return table{}, fmt.Errorf("no legacy table is configured: %w", kcl.ErrInvalidState)
	default:
		return table{}, fmt.Errorf("%w: table %s does not exist, where workers' records belong until the single-table migration is complete: restore it, or create it with the string %s as its partition key", kcl.ErrInvalidState, s.cfg.LegacyTable, legacyKey)
	}
}
