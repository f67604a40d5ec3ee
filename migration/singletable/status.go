package singletable

import (
	"fmt"
	"time"

	"github.com/go-kcl/kcl/coordinator"
)

// Status is how far the migration is, as its item says it and as a worker has
// it in mind.
type Status = coordinator.TableStatus

// State is what the migration's item holds.
type State = coordinator.TableMigrationState

// The statuses, in their order.
const (
	Unknown  = coordinator.TableStatusUnknown  // before a start has decided; never stored
	Init     = coordinator.TableStatusInit     // writes go to the legacy tables, not every lease owner knows the lease table's part yet
	Deployed = coordinator.TableStatusDeployed // writes go to the legacy tables, every lease owner did know for an hour
	Pending  = coordinator.TableStatusPending  // writes go to the lease table, nothing is left in the legacy ones
	Complete = coordinator.TableStatusComplete // the lease table alone is read; there is no way back
)

// The bounds of [Config.CompleteBake], and the times that a status must last
// before the next is entered.
const (
	MinCompleteBake     = time.Hour
	MaxCompleteBake     = 7 * 24 * time.Hour
	defaultCompleteBake = 24 * time.Hour
	deployedBake        = time.Hour // not configurable
)

// Config is what a worker is told of the migration.
type Config struct {
	// Worker is this worker's id: the owner in the leader's lock, and the writer
	// in the migration's item.
	Worker string
	// MigrateAllEntitiesToLeaseTable makes this worker write all that is not a lease to the
	// lease table, too: the second of the two deployments of the migration. Set
	// it only once the status is DEPLOYED: a start before that fails. It is
	// ignored once the migration is complete. KCL:
	// migrateAllEntitiesToLeaseTable.
	MigrateAllEntitiesToLeaseTable bool
	// CompleteBake is how long nobody may have used the legacy tables before
	// they are given up for good. From 1 hour to 7 days, in whole seconds; 0
	// means 24 hours. KCL: tableMigrationCompleteBakeTimeSeconds, which is
	// clamped to the bounds in silence.
	CompleteBake time.Duration
}

// Validate returns an error that names the field, its value and its bound.
func (c Config) Validate() error {
	switch c.Worker {
	case lockKey, coordinator.ClientVersionKey, coordinator.TableMigrationKey:
		return fmt.Errorf("singletable: Worker is %q, which is the key of another item of the lease table", c.Worker)
	}
	if b := c.CompleteBake; b != 0 && (b < MinCompleteBake || b > MaxCompleteBake) {
		return fmt.Errorf("singletable: CompleteBake is %v, must be from %v to %v", b, MinCompleteBake, MaxCompleteBake)
	}
	return nil
}

// bake is how long the status before s must have lasted for s to be entered.
func (c Config) bake(s Status) time.Duration {
	switch s {
	case Deployed:
		return deployedBake
	case Complete:
		if c.CompleteBake == 0 {
			return defaultCompleteBake
		}
		return c.CompleteBake
	}
	return 0
}

// baked reports whether the time for s is over that began when the stored state
// was written, and when it is. Like Java's, whole seconds are compared: the item
// has the clock of whoever wrote it.
func (c Config) baked(s Status, since, now time.Time) (over bool, at time.Time) {
	at = time.Unix(floorSeconds(since), 0).Add(c.bake(s).Truncate(time.Second))
	return floorSeconds(now) >= at.Unix(), at
}

func floorSeconds(t time.Time) int64 { return t.Unix() } // Unix rounds down, also before 1970
