package assignment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/go-kcl/kcl/leader"
	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/metrics"
	"github.com/go-kcl/kcl/workermetrics"
)

const (
	defaultFailover = 10 * time.Second
	defaultHandOff  = 30 * time.Second
	defaultStaleAge = 24 * time.Hour
)

// Leadership is what a [Loop] asks of the leader's lock. [leader.Decider] is
// one.
type Leadership interface {
	Leading() (leader.Term, bool)
	Changed() <-chan struct{}
	Seen() (leader.Sighting, bool)
	Resign(context.Context, leader.Term) error
}

// Strategy names a [Decider], as KCL does.
type Strategy string

const (
	// WorkerUtilizationAware evens the load of the workers: [ByLoad].
	WorkerUtilizationAware Strategy = "WORKER_UTILIZATION_AWARE"
	// LeaseCountBased evens the number of their leases: [ByCount].
	LeaseCountBased Strategy = "LEASE_COUNT_BASED"
)

// decider returns what decides by a strategy.
func (s Strategy) decider(c Load) Decider {
	if s == LeaseCountBased {
		return ByCount
	}
	return ByLoad(c)
}

// Config sets up a [Loop]. A zero field means its default.
type Config struct {
	Leases *lease.Store
	// Workers must be ready to use: see [workermetrics.Store.Init].
	Workers *workermetrics.Store
	Leader  Leadership
	// Worker is this worker's id.
	Worker string

	// Strategy is what leases are assigned by. Default [WorkerUtilizationAware].
	// The leader's counts, so workers of one fleet should have the same. KCL:
	// leaseAssignmentStrategy.
	Strategy Strategy
	// Load sets up [WorkerUtilizationAware]. KCL:
	// workerUtilizationAwareAssignmentConfig.
	Load Load
	// FailoverTime is how long a counter may stand still before its lease is
	// expired. Default 10 s. KCL: failoverTimeMillis.
	FailoverTime time.Duration
	// Interval is the pause between two runs, obeyed as it stands. Default 0: it
	// follows from the cost of a scan. KCL: leaseAssignmentIntervalMillis.
	Interval time.Duration
	// Provisioned: the table's capacity is provisioned, and the pause, unless
	// given, twice FailoverTime, as KCL's.
	Provisioned bool
	// BalanceInterval is the time between two balancings. Default 60 s. KCL
	// counts runs of 20 s: varianceBalancingFrequency.
	BalanceInterval time.Duration
	// MaxLeases caps the leases of one worker, but for those at SHARD_END; the
	// leader's value counts for all. Default 0: no cap. KCL: maxLeasesForWorker.
	MaxLeases int
	// NoHandOff moves leases without asking their owner to finish first. KCL:
	// isGracefulLeaseHandoffEnabled = false.
	NoHandOff bool
	// HandOffTimeout is how long an owner may take to finish. Default 30 s. KCL:
	// gracefulLeaseHandoffTimeoutMillis.
	HandOffTimeout time.Duration
	// ReportPeriod is how often workers report. Default
	// [workermetrics.DefaultPeriod]. KCL: workerMetricsReporterFreqInMillis.
	ReportPeriod time.Duration
	// StaleAge is how old the record of a vanished worker becomes. Default 24 h.
	// KCL: staleWorkerMetricsEntryCleanupDuration.
	StaleAge time.Duration

	// Holds says whether this worker holds a lease that the table says is its own.
	// One that it has let expire, or has not taken up, it would not hand over if
	// asked. It must return at once. Default: it holds all of them.
	Holds func(key string) bool
	// Scanned, if set, is handed what each scan of a leader found, so that others
	// need not scan again. It is shared: not to be written to.
	Scanned func(leader.Term, Scanned)
	// Assigned, if set, is told of each lease that this worker, as leader, has
	// assigned to itself, so that it need not wait to find out. It may be called
	// by several goroutines at once. Both must return at once.
	Assigned func(key string)

	Logger  *slog.Logger     // nil discards
	Metrics metrics.Recorder // nil discards
}

// Scanned is what a leader's scan found.
type Scanned struct {
	// At is when it began.
	At     time.Time
	Leases []lease.Lease
	// Workers are all records that could be read, valid or not, sorted by worker.
	// In a fleet that moves the tables of KCL 3.0 to 3.4 a worker may have two.
	Workers []Seen
	// Since is when this process began to look at the records; since then every look
	// has shown which of their workers live, whatever their clocks say.
	Since time.Time
}

// Seen is a worker's record, and what this process saw of it.
type Seen struct {
	workermetrics.Record
	Sighting workermetrics.Sighting
}

// withDefaults fills in c, and returns an error that names each field that is
// missing or out of bounds.
func (c Config) withDefaults() (Config, error) {
	var faults []error
	need := func(ok bool, field string) {
		if !ok {
			faults = append(faults, fmt.Errorf("%s is missing", field))
		}
	}
	need(c.Leases != nil, "Leases")
	need(c.Workers != nil, "Workers")
	need(c.Leader != nil, "Leader")
	need(c.Worker != "", "Worker")
	duration := func(d *time.Duration, field string, fallback time.Duration) {
		switch {
		case *d < 0:
			faults = append(faults, fmt.Errorf("%s is %s, must not be negative", field, *d))
		case *d == 0:
			*d = fallback
		}
	}
	duration(&c.FailoverTime, "FailoverTime", defaultFailover)
	duration(&c.Interval, "Interval", 0)
	duration(&c.BalanceInterval, "BalanceInterval", defaultBalanceInterval)
	duration(&c.HandOffTimeout, "HandOffTimeout", defaultHandOff)
	duration(&c.ReportPeriod, "ReportPeriod", workermetrics.DefaultPeriod)
	duration(&c.StaleAge, "StaleAge", defaultStaleAge)
	switch {
	case c.MaxLeases < 0:
		faults = append(faults, fmt.Errorf("MaxLeases is %d, must not be negative", c.MaxLeases))
	case c.MaxLeases == 0:
		c.MaxLeases = math.MaxInt
	}
	switch c.Strategy {
	case "":
		c.Strategy = WorkerUtilizationAware
	case WorkerUtilizationAware, LeaseCountBased:
	default:
		faults = append(faults, fmt.Errorf("%s is %q, must be %s or %s", "Strategy", c.Strategy, WorkerUtilizationAware, LeaseCountBased))
	}
	var err error
	if c.Load, err = c.Load.withDefaults(); err != nil {
		faults = append(faults, err)
	}
	if len(faults) > 0 {
		return c, fmt.Errorf("lease assignment: %w", errors.Join(faults...))
	}
	if c.Holds == nil {
		c.Holds = func(string) bool { return true }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

func (c Config) timing() timing {
	return timing{
		failover: c.FailoverTime,
		grace:    max(2*c.FailoverTime, minGrace, c.Interval),
		handOff:  c.HandOffTimeout + c.FailoverTime,
		report:   c.ReportPeriod,
		stale:    c.StaleAge,
	}
}

func (c Config) intervals() intervals {
	return intervals{explicit: c.Interval, failover: c.FailoverTime, provisioned: c.Provisioned}
}
