package leader

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/go-kcl/kcl/internal/entity"
	"github.com/go-kcl/kcl/metrics"
)

const (
	defaultDuration  = 30 * time.Second
	defaultHeartbeat = 10 * time.Second
)

// Config sets up a [Decider].
type Config struct {
	Client *dynamodb.Client
	// Table holds the lock's item: the lease table.
	Table string
	// KeyAttribute is Table's partition key. Empty means leaseKey, the lease
	// table's.
	KeyAttribute string
	// Worker is this worker's id. No other live worker may have it.
	Worker string

	// Duration is how long this worker's lock is valid after its last renewal,
	// so how long a dead leader is at least not replaced. Whole milliseconds (a
	// fraction is cut off), at least 2 × Heartbeat; 3 × is sound. 0 means 30 s.
	// KCL: dynamoDbLockBasedLeaderLeaseDurationInMillis, 120 s.
	Duration time.Duration
	// Heartbeat is how often a leader renews its lock and a contender looks at
	// it. At least 1 ms. 0 means 10 s. KCL:
	// dynamoDbLockBasedLeaderHeartbeatPeriodInMillis, 30 s.
	Heartbeat time.Duration

	// Logger is told of changes and of what goes wrong. Nil means none.
	Logger *slog.Logger
	// Metrics is given the figures listed at [Operation]. Nil means none.
	Metrics metrics.Recorder
}

// withDefaults returns c with its zero fields filled in, or an error that names
// all of its faults.
func (c Config) withDefaults() (Config, error) {
	if c.KeyAttribute == "" {
		c.KeyAttribute = entity.LeaseTableKey
	}
	if c.Duration == 0 {
		c.Duration = defaultDuration
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = defaultHeartbeat
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Duration = c.Duration.Truncate(time.Millisecond) // what the item can say

	var faults []error
	for _, f := range []struct {
		wrong bool
		fault error
	}{
		{c.Client == nil, errors.New("leader: Client is nil")},
		{c.Table == "", errors.New("leader: Table is empty")},
		{c.Worker == "", errors.New("leader: Worker is empty")},
		{c.Heartbeat < time.Millisecond, fmt.Errorf("leader: Heartbeat is %v, must be at least 1ms", c.Heartbeat)},
		{c.Duration < 2*c.Heartbeat, fmt.Errorf("leader: Duration is %v, must be at least 2 × Heartbeat = %v", c.Duration, 2*c.Heartbeat)},
		{c.Duration > maxDuration, fmt.Errorf("leader: Duration is %v, must be at most %v", c.Duration, maxDuration)},
	} {
		if f.wrong {
			faults = append(faults, f.fault)
		}
	}
	return c, errors.Join(faults...)
}
