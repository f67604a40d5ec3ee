package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/chance"
	"github.com/go-kcl/kcl/internal/wait"
)

// ErrRefused says that this version must not serve the application as its
// tables are. The error that wraps it says what was found and what to do.
// Trying again does not help.
var ErrRefused = errors.New("start refused")

// LegacyTableName is the default name of the table that held an application's
// coordinator state before KCL 3.5.
func LegacyTableName(application string) string { return application + "-CoordinatorState" }

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
// fresh application as a 3.x one, in worker's name. It returns nil to go ahead, an
// error that wraps [ErrRefused] if the worker must not start, and any other error
// if it could not find out; Start may then be called again.
func (r *Routed) Start(ctx context.Context, worker string) error {
	for try := range startTries {
		if try > 1 {
			if !wait.For(ctx, startPause+chance.Below(startJitter)) {
				return fmt.Errorf("start: %w", context.Cause(ctx))
			}
		}
		version, stored, err := r.ClientVersion(ctx)
		if err != nil {
			return refuseMalformed(err)
		}
		create, err := decideStart(version, stored)
		if err != nil {
			return err
		}
		if !create {
			return nil
		}
		created, err := r.CreateClientVersion(ctx, FreshClientVersion(ClientVersion3X, worker, time.Now()))
		if err != nil {
			return err
		}
		if created {
			r.cfg.Lease.log.LogAttrs(ctx, slog.LevelInfo, "marked a fresh application as 3.x", slog.String("worker", worker))
			return nil
		}
	}
	return fmt.Errorf("start: %w: %s was created by others and was gone again, %d times", kcl.ErrDependency, ClientVersionKey, startTries)
}

// decideStart says whether the worker may start, and whether it must first
// mark the application as a 3.x one.
//
//	client version  outcome
//	none            create, then go
//	3X              go
//	any other       refuse
func decideStart(version ClientVersionState, stored bool) (create bool, err error) {
	switch {
	case !stored:
		return true, nil
	case version.Value == ClientVersion3X:
		return false, nil
	default:
		return false, fmt.Errorf("%w: item %s says %s, last changed by %s at %s, so the application's migration from KCL 2.x has not ended, and this version serves only applications at %s; %s",
			ErrRefused, ClientVersionKey, version.Value, version.By, version.At.UTC().Format(time.RFC3339), ClientVersion3X, remedy(version.Value))
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

// refuseMalformed makes a refusal of the error for an item that is no
// migration's state: it will not mend itself.
func refuseMalformed(err error) error {
	if errors.Is(err, ErrMalformed) {
		return fmt.Errorf("%w: %w; a later version of the library or a hand wrote it: use that version, or restore the item", ErrRefused, err)
	}
	return err
}
