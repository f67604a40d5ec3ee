package scheduler

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/coordinator"
	"github.com/go-kcl/kcl/coordinator/assignment"
	"github.com/go-kcl/kcl/migration/singletable"
	"github.com/go-kcl/kcl/workermetrics"
)

// The defaults, in the order of the fields.
const (
	defaultStopTimeout        = 20 * time.Second
	defaultMaxBufferedBytes   = 256 << 20
	defaultInitAttempts       = 20
	defaultInitBackoff        = time.Second
	defaultCompleteBake       = 24 * time.Hour
	defaultCapacity           = 10
	defaultFailoverTime       = 10 * time.Second
	defaultMaxRenewals        = 20
	defaultRequestTimeout     = time.Minute
	defaultHandoffTimeout     = 30 * time.Second
	defaultCleanup            = time.Minute
	defaultCompletedCleanup   = 5 * time.Minute
	defaultGarbageCleanup     = 30 * time.Minute
	defaultWorkerReport       = 30 * time.Second
	defaultStaleWorker        = 24 * time.Hour
	defaultPersistedMetrics   = 10
	defaultEMAAlpha           = 0.5
	defaultRebalanceThreshold = 10
	defaultDampening          = 60
	defaultBalancingFrequency = 3
	maxBalancingFrequency     = 24 * 60 * 3
	defaultLeaderLease        = 30 * time.Second
	defaultLeaderHeartbeat    = 10 * time.Second
	defaultMaxRecords         = 10_000
	defaultIdle               = 1500 * time.Millisecond
	minIdle                   = 200 * time.Millisecond
	defaultMaxPending         = 4
	defaultMaxBytes           = 8 << 20
	defaultMaxBuffered        = 30_000
	defaultKinesisTimeout     = 30 * time.Second
	defaultListBackoff        = 1500 * time.Millisecond
	defaultListAttempts       = 50
	defaultListTimeout        = time.Minute
	defaultAuditorInterval    = 2 * time.Minute
	defaultAuditorConfidence  = 3
)

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// withDefaults returns c with every zero field filled in.
func (c Config) withDefaults() Config {
	if c.WorkerIdentifier == "" {
		c.WorkerIdentifier = randomWorker()
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	setDefault(&c.StopTimeout, defaultStopTimeout)
	setDefault(&c.MaxBufferedBytes, defaultMaxBufferedBytes)
	setDefault(&c.MaxInitializationAttempts, defaultInitAttempts)
	setDefault(&c.SchedulerInitializationBackoff, defaultInitBackoff)

	setDefault(&c.CoordinatorStateTable, coordinator.LegacyTableName(c.Application))
	setDefault(&c.WorkerMetricsTable, workermetrics.LegacyTableName(c.Application))
	setDefault(&c.TableMigrationCompleteBakeTime, defaultCompleteBake)

	setDefault(&c.Table.Name, c.Application)
	setDefault(&c.Table.BillingMode, types.BillingModePayPerRequest)
	setDefault(&c.Table.ReadCapacity, defaultCapacity)
	setDefault(&c.Table.WriteCapacity, defaultCapacity)

	setDefault(&c.Leases.FailoverTime, defaultFailoverTime)
	setDefault(&c.Leases.MaxRenewals, defaultMaxRenewals)
	setDefault(&c.Leases.RequestTimeout, defaultRequestTimeout)
	setDefault(&c.Leases.GracefulHandoffTimeout, defaultHandoffTimeout)
	setDefault(&c.Leases.CleanupInterval, defaultCleanup)
	setDefault(&c.Leases.CompletedCleanupInterval, defaultCompletedCleanup)
	setDefault(&c.Leases.GarbageCleanupInterval, defaultGarbageCleanup)
	setDefault(&c.Leases.WorkerReportInterval, defaultWorkerReport)
	setDefault(&c.Leases.StaleWorkerCleanup, defaultStaleWorker)
	setDefault(&c.Leases.AssignmentStrategy, assignment.WorkerUtilizationAware)
	u := &c.Leases.WorkerUtilization
	setDefault(&u.CaptureInterval, workermetrics.DefaultCaptureInterval)
	setDefault(&u.PersistedMetrics, defaultPersistedMetrics)
	setDefault(&u.EMAAlpha, defaultEMAAlpha)
	setDefault(&u.ReBalanceThresholdPercentage, defaultRebalanceThreshold)
	setDefault(&u.DampeningPercentage, defaultDampening)
	setDefault(&u.VarianceBalancingFrequency, defaultBalancingFrequency)

	setDefault(&c.Leader.LeaseDuration, defaultLeaderLease)
	setDefault(&c.Leader.HeartbeatPeriod, defaultLeaderHeartbeat)

	setDefault(&c.Polling.MaxRecords, defaultMaxRecords)
	setDefault(&c.Polling.IdleTimeBetweenReads, defaultIdle)
	if idle := c.Polling.IdleTimeBetweenReads; idle > 0 && idle < minIdle {
		c.Logger.Warn("Polling.IdleTimeBetweenReads is too short, raised", "given", idle, "used", minIdle)
		c.Polling.IdleTimeBetweenReads = minIdle
	}
	if !c.Polling.NoPrefetch {
		setDefault(&c.Polling.MaxPendingProcessRecordsInput, defaultMaxPending)
	}
	setDefault(&c.Polling.MaxBytes, defaultMaxBytes)
	setDefault(&c.Polling.MaxBufferedRecords, defaultMaxBuffered)
	setDefault(&c.Polling.RequestTimeout, defaultKinesisTimeout)

	setDefault(&c.Shards.ListShardsBackoff, defaultListBackoff)
	setDefault(&c.Shards.MaxListShardsAttempts, defaultListAttempts)
	setDefault(&c.Shards.ListShardsTimeout, defaultListTimeout)
	setDefault(&c.Shards.AuditorInterval, defaultAuditorInterval)
	setDefault(&c.Shards.AuditorConfidence, defaultAuditorConfidence)
	return c
}

// randomWorker names a worker that was given no name. The suffix tells workers
// of one host apart, and a worker from the one that ran before it.
func randomWorker() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return host + "-" + hex.EncodeToString(b[:])
}

var (
	tableName  = regexp.MustCompile(`^[a-zA-Z0-9_.-]{3,255}$`)
	streamName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,128}$`)
)

// maxWorkerID is the longest worker id in bytes: leaseOwner is a key of the
// index.
const maxWorkerID = 1024

// fault is one thing wrong with a Config.
func fault(field string, value any, bound string) error {
	return fmt.Errorf("%s is %v, must be %s", field, value, bound)
}

// in says which field an error is about.
func in(field string, err error) error { return fmt.Errorf("%s: %w", field, err) }

// validate checks a Config that has its defaults. It returns the stream to
// consume and what measures the worker's load, or all faults, joined.
func (c Config) validate() (kcl.StreamConfig, *workermetrics.Sampler, error) {
	var faults []error
	check := func(ok bool, field string, value any, bound string) {
		if !ok {
			faults = append(faults, fault(field, value, bound))
		}
	}
	atLeast := func(field string, d, least time.Duration) {
		check(d >= least, field, d, "at least "+least.String())
	}
	between := func(field string, d, least, most time.Duration) {
		check(d >= least && d <= most, field, d, least.String()+" to "+most.String())
	}

	check(c.Application != "", "Application", `""`, "given")
	if c.Table.Name != "" {
		check(tableName.MatchString(c.Table.Name), "Table.Name", fmt.Sprintf("%q", c.Table.Name), "3 to 255 characters of a-z, A-Z, 0-9, _, - and . (it is Application by default)")
	}
	stream, bad := c.validateStreams()
	faults = append(faults, bad...)
	if c.Kinesis == nil || c.DynamoDB == nil {
		check(c.AWS.Region != "", "AWS.Region", `""`, "given, unless both clients are")
		check(c.AWS.Credentials != nil, "AWS.Credentials", "nil", "given, unless both clients are: use config.LoadDefaultConfig")
	}
	check((c.Handler == nil) != (c.NewProcessor == nil), "Handler and NewProcessor", "both given or both nil", "exactly one of them")

	check(len(c.WorkerIdentifier) <= maxWorkerID, "WorkerIdentifier", fmt.Sprintf("%d bytes long", len(c.WorkerIdentifier)), "at most 1024 bytes")
	if err := workermetrics.CheckWorkerID(c.WorkerIdentifier, stream.Stream.String()); err != nil {
		faults = append(faults, in("WorkerIdentifier", err))
	}

	check(c.StopTimeout > 0, "StopTimeout", c.StopTimeout, "above 0")
	check(c.MaxBufferedBytes >= 1<<20, "MaxBufferedBytes", c.MaxBufferedBytes, "at least 1 MiB (1048576)")
	if c.ParentShardPollInterval != 0 {
		atLeast("ParentShardPollInterval", c.ParentShardPollInterval, 100*time.Millisecond)
	}
	if c.TaskBackoff != 0 {
		atLeast("TaskBackoff", c.TaskBackoff, 10*time.Millisecond)
	}
	check(c.LogWarningForTaskAfter >= 0, "LogWarningForTaskAfter", c.LogWarningForTaskAfter, "0 (the default) or more")
	check(c.MaxInitializationAttempts > 0, "MaxInitializationAttempts", c.MaxInitializationAttempts, "at least 1")
	check(c.SchedulerInitializationBackoff >= 0, "SchedulerInitializationBackoff", c.SchedulerInitializationBackoff, "0 or more")

	between("TableMigrationCompleteBakeTime", c.TableMigrationCompleteBakeTime, singletable.MinCompleteBake, singletable.MaxCompleteBake)
	check(c.TableMigrationCompleteBakeTime%time.Second == 0, "TableMigrationCompleteBakeTime", c.TableMigrationCompleteBakeTime, "whole seconds")
	// Two standard names that no table can have say that there are none; one of the
	// two would be ignored without a word.
	if c.CoordinatorStateTable != coordinator.LegacyTableName(c.Application) || c.WorkerMetricsTable != workermetrics.LegacyTableName(c.Application) {
		const bound = "3 to 255 characters of a-z, A-Z, 0-9, _, - and ."
		check(tableName.MatchString(c.CoordinatorStateTable), "CoordinatorStateTable", fmt.Sprintf("%q", c.CoordinatorStateTable), bound)
		check(tableName.MatchString(c.WorkerMetricsTable), "WorkerMetricsTable", fmt.Sprintf("%q", c.WorkerMetricsTable), bound)
	}
	check(distinct(c.Table.Name, c.CoordinatorStateTable, c.WorkerMetricsTable), "Table.Name, CoordinatorStateTable and WorkerMetricsTable",
		fmt.Sprintf("%q, %q and %q", c.Table.Name, c.CoordinatorStateTable, c.WorkerMetricsTable), "three names")

	check(c.Table.BillingMode == types.BillingModePayPerRequest || c.Table.BillingMode == types.BillingModeProvisioned,
		"Table.BillingMode", fmt.Sprintf("%q", c.Table.BillingMode), "PAY_PER_REQUEST or PROVISIONED")
	check(c.Table.ReadCapacity > 0, "Table.ReadCapacity", c.Table.ReadCapacity, "at least 1")
	check(c.Table.WriteCapacity > 0, "Table.WriteCapacity", c.Table.WriteCapacity, "at least 1")
	check(len(c.Table.Tags) <= 50, "Table.Tags", fmt.Sprintf("%d tags", len(c.Table.Tags)), "at most 50")

	l := c.Leases
	between("Leases.FailoverTime", l.FailoverTime, time.Second, 24*time.Hour)
	if l.AssignmentInterval != 0 {
		atLeast("Leases.AssignmentInterval", l.AssignmentInterval, 100*time.Millisecond)
	}
	check(l.MaxLeasesForWorker >= 0, "Leases.MaxLeasesForWorker", l.MaxLeasesForWorker, "0 (no cap) or more")
	check(l.MaxRenewals >= 1 && l.MaxRenewals <= 1000, "Leases.MaxRenewals", l.MaxRenewals, "1 to 1000")
	check(l.ScanSegments >= 0 && l.ScanSegments <= 1_000_000, "Leases.ScanSegments", l.ScanSegments, "0 (automatic) to 1000000")
	atLeast("Leases.RequestTimeout", l.RequestTimeout, 100*time.Millisecond)
	atLeast("Leases.GracefulHandoffTimeout", l.GracefulHandoffTimeout, 100*time.Millisecond)
	atLeast("Leases.CleanupInterval", l.CleanupInterval, 100*time.Millisecond)
	atLeast("Leases.CompletedCleanupInterval", l.CompletedCleanupInterval, 100*time.Millisecond)
	atLeast("Leases.GarbageCleanupInterval", l.GarbageCleanupInterval, 100*time.Millisecond)
	between("Leases.WorkerReportInterval", l.WorkerReportInterval, time.Second, 5*time.Minute)
	check(l.StaleWorkerCleanup >= 10*l.WorkerReportInterval, "Leases.StaleWorkerCleanup", l.StaleWorkerCleanup,
		fmt.Sprintf("at least ten times Leases.WorkerReportInterval (%v)", l.WorkerReportInterval))
	check(l.AssignmentStrategy == assignment.WorkerUtilizationAware || l.AssignmentStrategy == assignment.LeaseCountBased,
		"Leases.AssignmentStrategy", fmt.Sprintf("%q", l.AssignmentStrategy), "WORKER_UTILIZATION_AWARE or LEASE_COUNT_BASED")

	u := l.WorkerUtilization
	check(u.CaptureInterval <= l.WorkerReportInterval/3, "Leases.WorkerUtilization.CaptureInterval", u.CaptureInterval,
		fmt.Sprintf("at most a third of Leases.WorkerReportInterval (%v)", l.WorkerReportInterval))
	percent := func(field string, x, most float64) {
		check(x > 0 && x <= most, "Leases.WorkerUtilization."+field, x, fmt.Sprintf("above 0 and at most %v", most))
	}
	percent("EMAAlpha", u.EMAAlpha, 1)
	percent("ReBalanceThresholdPercentage", u.ReBalanceThresholdPercentage, 100)
	percent("DampeningPercentage", u.DampeningPercentage, 100)
	check(u.MaxThroughputPerHostKBps >= 0, "Leases.WorkerUtilization.MaxThroughputPerHostKBps", u.MaxThroughputPerHostKBps, "0 (no bound) or more")
	check(u.VarianceBalancingFrequency >= 1 && u.VarianceBalancingFrequency <= maxBalancingFrequency,
		"Leases.WorkerUtilization.VarianceBalancingFrequency", u.VarianceBalancingFrequency, fmt.Sprintf("1 to %d", maxBalancingFrequency))
	sampler, err := workermetrics.NewSampler(c.samplerConfig())
	if err != nil {
		faults = append(faults, in("Leases.WorkerUtilization", err))
	}

	between("Leader.LeaseDuration", c.Leader.LeaseDuration, time.Second, time.Hour)
	// The lock's item holds whole milliseconds.
	half := c.Leader.LeaseDuration.Truncate(time.Millisecond) / 2
	check(c.Leader.HeartbeatPeriod >= 100*time.Millisecond && c.Leader.HeartbeatPeriod <= half, "Leader.HeartbeatPeriod", c.Leader.HeartbeatPeriod,
		fmt.Sprintf("100ms to half of Leader.LeaseDuration (%v)", half))

	p := c.Polling
	check(p.MaxRecords >= 1 && p.MaxRecords <= 10_000, "Polling.MaxRecords", p.MaxRecords, "1 to 10000")
	atLeast("Polling.IdleTimeBetweenReads", p.IdleTimeBetweenReads, minIdle)
	check(p.MillisBehindLatestThresholdForReducedTPS >= 0, "Polling.MillisBehindLatestThresholdForReducedTPS", p.MillisBehindLatestThresholdForReducedTPS, "0 (off) or more")
	if p.NoPrefetch {
		check(p.MaxPendingProcessRecordsInput == 0, "Polling.MaxPendingProcessRecordsInput", p.MaxPendingProcessRecordsInput, "0 with NoPrefetch")
	} else {
		check(p.MaxPendingProcessRecordsInput >= 1 && p.MaxPendingProcessRecordsInput <= 5, "Polling.MaxPendingProcessRecordsInput", p.MaxPendingProcessRecordsInput, "1 to 5; set NoPrefetch to fetch nothing ahead")
	}
	check(p.MaxBytes > 0, "Polling.MaxBytes", p.MaxBytes, "at least 1")
	check(p.MaxBufferedRecords > 0, "Polling.MaxBufferedRecords", p.MaxBufferedRecords, "at least 1")
	atLeast("Polling.RequestTimeout", p.RequestTimeout, 100*time.Millisecond)

	s := c.Shards
	check(s.ListShardsBackoff > 0, "Shards.ListShardsBackoff", s.ListShardsBackoff, "above 0")
	check(s.MaxListShardsAttempts > 0, "Shards.MaxListShardsAttempts", s.MaxListShardsAttempts, "at least 1")
	atLeast("Shards.ListShardsTimeout", s.ListShardsTimeout, 100*time.Millisecond)
	atLeast("Shards.AuditorInterval", s.AuditorInterval, time.Second)
	check(s.AuditorConfidence > 0, "Shards.AuditorConfidence", s.AuditorConfidence, "at least 1")

	if len(faults) == 0 {
		return stream, sampler, nil
	}
	return kcl.StreamConfig{}, nil, fmt.Errorf("scheduler: bad configuration: %w", errors.Join(faults...))
}

func distinct(a, b, c string) bool { return a != b && b != c && a != c }

// samplerConfig sets up what measures this worker's load.
func (c Config) samplerConfig() workermetrics.SamplerConfig {
	u := c.Leases.WorkerUtilization
	host := workermetrics.Host{}
	// As the SDK's own client of the instance's metadata, but not the client that
	// the SDK makes, which goes through proxies.
	if _, own := c.AWS.HTTPClient.(*awshttp.BuildableClient); c.AWS.HTTPClient != nil && !own {
		host.HTTP = c.AWS.HTTPClient
	}
	return workermetrics.SamplerConfig{
		Metrics: u.WorkerMetrics, Disable: u.DisableWorkerMetrics, CaptureInterval: u.CaptureInterval, PersistedMetrics: u.PersistedMetrics,
		Host: host, Logger: c.Logger, Recorder: c.Metrics,
	}
}

func (c Config) validateStreams() (stream kcl.StreamConfig, faults []error) {
	if c.Streams == nil {
		return stream, []error{fault("Streams", "nil", "given: kcl.SingleStream(name, position)")}
	}
	if c.Streams.MultiStream() {
		return stream, []error{fault("Streams", "a multi-stream tracker", "kcl.SingleStream: several streams in one application are not supported yet")}
	}
	configs, err := c.Streams.Streams(context.Background())
	if err != nil {
		return stream, []error{in("Streams", err)}
	}
	if len(configs) != 1 {
		return stream, []error{fault("Streams", fmt.Sprintf("%d streams", len(configs)), "exactly one")}
	}
	return configs[0], c.validateStream(configs[0])
}

func (c Config) validateStream(s kcl.StreamConfig) (faults []error) {
	if !streamName.MatchString(s.Stream.Name) {
		faults = append(faults, fault("Streams", fmt.Sprintf("a stream called %q", s.Stream.Name), "1 to 128 characters of a-z, A-Z, 0-9, _, - and ."))
	}
	region := c.AWS.Region
	if c.Kinesis != nil {
		region = c.Kinesis.Options().Region
	}
	if r := s.Stream.Region(); r != "" && region != "" && r != region {
		faults = append(faults, fault("Streams", "a stream in "+r, "in the Kinesis client's region, "+region))
	}
	if s.Position.IsZero() || s.Position.Sentinel() == kcl.AtTimestampSentinel && s.Position.Timestamp().IsZero() {
		faults = append(faults, fault("Streams", "a stream without an initial position", "given one: kcl.TrimHorizon, kcl.Latest or kcl.AtTimestamp with a time"))
	}
	return faults
}
