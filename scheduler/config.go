package scheduler

import (
	"context"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/coordinator/assignment"
	"github.com/go-kcl/kcl/metrics"
	"github.com/go-kcl/kcl/workermetrics"
)

// Config sets up a [Scheduler]. Application, Streams, AWS (or both clients) and
// one of Handler and NewProcessor are required; the zero value of every other
// field means its default. The names in parentheses are the Java KCL's options.
type Config struct {
	// Application names the application: all its workers, whatever their
	// language, give the same name. It is the lease table's name by default
	// (applicationName). 3 to 255 characters of a-z, A-Z, 0-9, _, - and . where
	// it names the table; else any but none.
	Application string

	// Streams says which streams to consume and where to begin:
	// kcl.SingleStream("orders", kcl.TrimHorizon), by name or ARN.
	Streams kcl.StreamTracker

	// AWS gives region, credentials and retry behaviour of the clients that are
	// not given.
	AWS aws.Config
	// Kinesis and DynamoDB replace the clients made from AWS.
	Kinesis  *kinesis.Client
	DynamoDB *dynamodb.Client

	// Handler is the shortest form of a consumer: it is called with each batch,
	// and returning nil accepts it. What was accepted is checkpointed by the
	// library with the next heartbeat of the lease, at no extra write, and at
	// once when the worker stops, hands the shard over or reaches its end.
	Handler func(ctx context.Context, b *kcl.Batch) error

	// NewProcessor makes a processor for each shard that this worker acquires,
	// in place of Handler (shardRecordProcessorFactory).
	NewProcessor kcl.ProcessorFactory

	// OnFailure decides what follows from a callback that failed or panicked.
	// Nil, or the zero Action it returns, means: again after 100 ms, doubling to
	// 30 s, for ever. KCL skips a failed batch instead; return kcl.Skip for that.
	OnFailure func(kcl.Failure) kcl.Action

	// WorkerIdentifier is this worker's name in the lease table (leaseOwner) and
	// must be unique among live workers. Default: the host's name and a random
	// suffix. With a stable one, a worker that restarts resumes its own leases;
	// see KeepLeasesOnStop (workerIdentifier; required by KCL). At most 1024
	// bytes; not the key of a lease or another item.
	WorkerIdentifier string

	// StopTimeout bounds a graceful stop that began with the end of Run's
	// context, or with StopWorker. After it, callbacks' contexts are cancelled
	// with kcl.ErrStopping, leases are released at their last checkpoint, and Run
	// returns an error that names the shards. Default 20 s; KCL has no bound.
	StopTimeout time.Duration

	// KeepLeasesOnStop leaves leases owned by this worker when it stops, so that
	// one that restarts under the same WorkerIdentifier within FailoverTime goes
	// on with them. Default: released after the last checkpoint, so that others
	// take them at once. KCL always keeps them.
	KeepLeasesOnStop bool

	// NoLegacyTables says that the application has no tables of KCL 3.0 to 3.4
	// (-CoordinatorState and -WorkerMetricStats), or no longer uses them. They are
	// then not looked for, which needs permission for DescribeTable on them. Said of
	// an application that does use them, it makes a second leader.
	NoLegacyTables bool
	// CoordinatorStateTable and WorkerMetricsTable name those tables
	// (coordinatorStateTableName, workerMetricsTableName). They are never created.
	// A wrong name looks as if there were none. Default: Application with
	// -CoordinatorState and with -WorkerMetricStats.
	CoordinatorStateTable, WorkerMetricsTable string
	// MigrateAllEntitiesToLeaseTable is the second of the two deployments that move
	// such an application into the lease table alone: this worker writes there what
	// is no lease, too, and as leader moves what is in the other tables
	// (migrateAllEntitiesToLeaseTable). A start fails while the first deployment,
	// without it, is not done: Status and the log say when it is. It means nothing
	// to an application without those tables, and once the migration is complete.
	// See docs/single-table-migration.md.
	MigrateAllEntitiesToLeaseTable bool
	// TableMigrationCompleteBakeTime is how long nobody may have used those tables
	// before the migration is completed, from when on there is no way back
	// (tableMigrationCompleteBakeTimeSeconds). Default 24 h; 1 h to 7 days, in whole
	// seconds. The leader's counts.
	TableMigrationCompleteBakeTime time.Duration

	// MaxBufferedBytes bounds the record data that this worker has fetched and
	// not yet processed, over all shards. A shard of which nothing is buffered
	// may always fetch one response of up to 10 MiB. Default 256 MiB; at least
	// 1 MiB. KCL bounds each shard only.
	MaxBufferedBytes int64

	// CallProcessRecordsEvenForEmptyRecordList delivers empty batches too.
	CallProcessRecordsEvenForEmptyRecordList bool

	// ParentShardPollInterval is how often a shard whose parents are not done looks
	// whether they are (parentShardPollIntervalMillis); an end reached by this
	// worker wakes it at once. Default 1 s for a first lot of looks, then fewer, so
	// that a worker with many waiting shards costs little; KCL 10 s. At least
	// 100 ms.
	ParentShardPollInterval time.Duration

	// TaskBackoff is the first pause after a failed call of the library's own to
	// the lease table (taskBackoffTimeMillis). Default 500 ms; at least 10 ms.
	TaskBackoff time.Duration

	// LogWarningForTaskAfter is how long a shard may deliver nothing, because a
	// callback runs or something fails, before the worker warns of it, once
	// (logWarningForTaskAfterMillis). Default 1 min; KCL never warns unless told to.
	LogWarningForTaskAfter time.Duration

	// Logger takes the worker's log. Info is for changes of state; a healthy
	// worker logs next to nothing. Record data and credentials are never logged.
	// Default slog.Default().
	Logger *slog.Logger

	// Metrics takes the worker's figures, under KCL's names. Default: none.
	Metrics metrics.Recorder

	// OnStateChange is told of each change of the worker's state, in order
	// (workerStateChangeListener). It must return at once.
	OnStateChange func(State)

	// MaxInitializationAttempts is how often a start is tried before Run gives up
	// (maxInitializationAttempts), SchedulerInitializationBackoff the pause
	// between two tries (schedulerInitializationBackoffTimeMillis). Defaults 20
	// and 1 s; neither may be negative. What another try cannot mend (wrong credentials, no permission, an
	// unknown stream, a table in another form) ends a start at once.
	MaxInitializationAttempts      int
	SchedulerInitializationBackoff time.Duration

	Table   TableConfig
	Leases  LeaseConfig
	Leader  LeaderConfig
	Polling PollingConfig
	Shards  ShardConfig
}

// TableConfig sets up the lease table. All but Name and PointInTimeRecovery
// matter only to the worker that creates it.
type TableConfig struct {
	// Name is the lease table's name. Default: Application (tableName).
	Name string
	// BillingMode is types.BillingModePayPerRequest, the default, or
	// types.BillingModeProvisioned (billingMode).
	BillingMode types.BillingMode
	// ReadCapacity and WriteCapacity are the units of a provisioned table and of
	// its index (initialLeaseTableReadCapacity, …WriteCapacity). Default 10 each;
	// at least 1.
	ReadCapacity, WriteCapacity int64
	// DeletionProtection protects the table (leaseTableDeletionProtectionEnabled).
	DeletionProtection bool
	// PointInTimeRecovery is switched on at every start if it is off, for an
	// existing table too (leaseTablePitrEnabled).
	PointInTimeRecovery bool
	// Tags of the table; at most 50.
	Tags map[string]string
	// Created is called once, by the worker that created the table, when the
	// table is active (tableCreatorCallback). An error fails that try of the
	// start, and the next one calls it again. ctx ends when the worker is stopped.
	Created func(ctx context.Context, client *dynamodb.Client, table string) error
}

// LeaseConfig is KCL's LeaseManagementConfig.
type LeaseConfig struct {
	// FailoverTime is how long a lease lasts without being renewed; it is renewed
	// every third of it. Shorter means that a dead worker's shards are taken over
	// sooner, at the price of more writes, and that a worker which cannot write
	// for that long loses its shards (failoverTimeMillis). Default 10 s; 1 s to
	// 24 h.
	FailoverTime time.Duration
	// AssignmentInterval is the pause between two assignment runs of the leader
	// (leaseAssignmentIntervalMillis). Default 0: what the last scan of the lease
	// table cost, at 50 read units a second, but at least 2 s and at most twice
	// FailoverTime; on a provisioned table, twice FailoverTime. Given, it is
	// obeyed as it stands. At least 100 ms.
	AssignmentInterval time.Duration
	// MaxLeasesForWorker caps the leases that the leader gives to one worker; the
	// leader's value counts for all. Leases of shards that are read to their end,
	// and wait to be deleted, do not count (maxLeasesForWorker; in KCL they do).
	// Default 0: no cap. If the workers together may have fewer than there are
	// shards, some shards are not read.
	MaxLeasesForWorker int
	// MaxRenewals is how many leases are renewed, and how many found leases are
	// read, at a time (maxLeaseRenewalThreads). Default 20; 1 to 1000.
	MaxRenewals int
	// ScanSegments is the number of segments in which the lease table is scanned
	// (leaseTableScanTotalSegments). Default 0: one for every 0.2 GiB, at most 32.
	// At most 1,000,000.
	ScanSegments int
	// ConsistentReads makes reads of single leases strongly consistent where
	// KCL's are not (consistentReads). Where it matters they always are.
	ConsistentReads bool
	// RequestTimeout bounds each DynamoDB call, its retries included
	// (dynamoDbRequestTimeout). Default 60 s; at least 100 ms.
	RequestTimeout time.Duration
	// NoGracefulHandoff makes the leader move leases without asking their owner
	// to finish first (isGracefulLeaseHandoffEnabled = false). What others ask of
	// this worker is honoured all the same.
	NoGracefulHandoff bool
	// GracefulHandoffTimeout is how long an owner may take to finish before the
	// lease is moved by force (gracefulLeaseHandoffTimeoutMillis). For 3 s, but a
	// quarter of it at most, the owner goes on as before, so that the next one can
	// find out. All workers should have the same: where the leader's is
	// shorter, it takes leases from owners that think they have time. Default 30 s;
	// at least 100 ms.
	GracefulHandoffTimeout time.Duration
	// KeepFinished keeps the leases of shards that were processed to their end
	// after their children have begun, until Kinesis forgets the shard
	// (cleanupLeasesUponShardCompletion = false).
	KeepFinished bool
	// CleanupInterval is the pace of the cleanup; a finished lease is considered
	// every CompletedCleanupInterval, and its shard's existence every
	// GarbageCleanupInterval (leaseCleanupConfig). Defaults 1, 5 and 30 minutes;
	// at least 100 ms each.
	CleanupInterval          time.Duration
	CompletedCleanupInterval time.Duration
	GarbageCleanupInterval   time.Duration
	// WorkerReportInterval is how often this worker writes its own record, which
	// shows that it lives (workerMetricsReporterFreqInMillis). A worker without a
	// report for twice as long gets no leases. Default 30 s, which is what other
	// workers assume; 1 s to 5 min.
	WorkerReportInterval time.Duration
	// StaleWorkerCleanup is how old a vanished worker's record becomes before the
	// leader deletes it (staleWorkerMetricsEntryCleanupDuration). Default 24 h; at
	// least ten times WorkerReportInterval.
	StaleWorkerCleanup time.Duration
	// AssignmentStrategy is what the leader assigns leases by
	// (leaseAssignmentStrategy): assignment.WorkerUtilizationAware, the default,
	// evens the load that workers measure, see WorkerUtilization;
	// assignment.LeaseCountBased evens the number of their leases. The leader's
	// counts, so all workers should have the same.
	AssignmentStrategy assignment.Strategy
	// WorkerUtilization sets up what this worker measures of itself, and what it
	// makes of all workers' figures as leader.
	WorkerUtilization WorkerUtilizationConfig
}

// WorkerUtilizationConfig is KCL's WorkerUtilizationAwareAssignmentConfig. Its
// report period and clean-up are LeaseConfig's WorkerReportInterval and
// StaleWorkerCleanup, which count for every strategy.
type WorkerUtilizationConfig struct {
	// WorkerMetrics is what this worker measures of itself, and reports
	// (workerMetricList). Default: its CPU, on ECS, Kubernetes and EC2, and
	// nothing elsewhere; then it is judged by the throughput of its leases.
	// Package workermetrics has more, and takes a metric of your own. A Metric
	// belongs to one worker.
	WorkerMetrics []workermetrics.Metric
	// DisableWorkerMetrics turns that default off: without WorkerMetrics nothing
	// is measured (disableWorkerMetrics). The platform is then not looked for,
	// which asks the metadata service of EC2 for at most a second, with
	// AWS.HTTPClient if that is not the SDK's own.
	DisableWorkerMetrics bool
	// CaptureInterval is the pause between two captures
	// (inMemoryWorkerMetricsCaptureFrequencyMillis). Default 1 s; 100 ms to a
	// third of LeaseConfig.WorkerReportInterval.
	CaptureInterval time.Duration
	// PersistedMetrics is how many averages of each metric a record keeps
	// (noOfPersistedMetricsPerWorkerMetrics). Default 10; 1 to 100.
	PersistedMetrics int

	// What follows counts for all workers while this one leads.

	// EMAAlpha is the weight of a report's newest value in the moving average
	// that counts as a worker's load (workerMetricsEMAAlpha). Default 0.5; above
	// 0, at most 1.
	EMAAlpha float64
	// ReBalanceThresholdPercentage is how far from the fleet's average a worker's
	// load may be, in percent of that, before leases are moved
	// (reBalanceThresholdPercentage). Default 10; above 0, at most 100.
	ReBalanceThresholdPercentage float64
	// DampeningPercentage is the share of a worker's excess that one balancing
	// moves (dampeningPercentage). Default 60; above 0, at most 100.
	DampeningPercentage float64
	// NoThroughputOvershoot leaves an excess where it is if each of the worker's
	// leases is more than what is to be moved (allowThroughputOvershoot = false).
	NoThroughputOvershoot bool
	// MaxThroughputPerHostKBps is the throughput of a worker's leases, in KB/s,
	// above which it gets no more (maxThroughputPerHostKBps). Default 0: no bound.
	// If the workers together may carry less than the stream has, some shards are
	// not read.
	MaxThroughputPerHostKBps float64
	// VarianceBalancingFrequency is how often leases are moved for balance, in
	// units of 20 s (varianceBalancingFrequency, which counts assignment runs, 20 s
	// apart by default). Default 3; 1 to 4320, a day.
	VarianceBalancingFrequency int
}

// LeaderConfig sets up the lock that makes one worker the leader.
type LeaderConfig struct {
	// LeaseDuration is how long a leader that died is waited for. Every contender
	// honours what it reads in the lock
	// (dynamoDbLockBasedLeaderLeaseDurationInMillis). Default 30 s; KCL 120 s. 1 s
	// to 1 h.
	LeaseDuration time.Duration
	// HeartbeatPeriod is how often the leader renews the lock
	// (dynamoDbLockBasedLeaderHeartbeatPeriodInMillis), and half of it how long
	// each of its calls may take; two of them are made to free the lock when the
	// leader stops. Default 10 s; KCL 30 s. 100 ms to half of LeaseDuration.
	HeartbeatPeriod time.Duration
}

// PollingConfig is KCL's PollingConfig: how shards are read with GetRecords.
type PollingConfig struct {
	// MaxRecords is the limit of a GetRecords call (maxRecords). Default 10,000,
	// which is the API's maximum; at least 1.
	MaxRecords int
	// IdleTimeBetweenReads is the pause between two reads of a shard
	// (idleTimeBetweenReadsInMillis). Default 1.5 s. Less than 200 ms is raised to
	// that with a warning, as in KCL: a shard serves 5 reads a second to all its
	// readers together.
	IdleTimeBetweenReads time.Duration
	// MillisBehindLatestThresholdForReducedTPS saves reads near the tip: while a
	// shard's lag is below it, this much time passes between two reads
	// (millisBehindLatestThresholdForReducedTps). Default 0: off.
	MillisBehindLatestThresholdForReducedTPS time.Duration
	// MaxPendingProcessRecordsInput is how many responses of a shard are fetched
	// ahead of the processor (maxPendingProcessRecordsInput). Default 4; at most 5.
	MaxPendingProcessRecordsInput int
	// NoPrefetch fetches only when the processor is idle, and nothing ahead
	// (maxPendingProcessRecordsInput = 0).
	NoPrefetch bool
	// MaxBytes and MaxBufferedRecords bound what is fetched ahead of one shard's
	// processor (maxByteSize, maxRecordsCount). One response may exceed them.
	// Defaults 8 MiB and 30,000; at least 1 each.
	MaxBytes           int64
	MaxBufferedRecords int
	// RequestTimeout bounds GetRecords and GetShardIterator, retries included
	// (kinesisRequestTimeout). Default 30 s; at least 100 ms.
	RequestTimeout time.Duration
}

// ShardConfig sets up the listing of shards and the care for missing leases.
type ShardConfig struct {
	// ListShardsBackoff is the mean pause after a throttled ListShards call
	// (listShardsBackoffTimeInMillis), MaxListShardsAttempts the number of tries
	// for one page (maxListShardsRetryAttempts). Defaults 1.5 s and 50; neither may
	// be negative.
	ListShardsBackoff     time.Duration
	MaxListShardsAttempts int
	// ListShardsTimeout bounds one ListShards call, retries included. Default
	// 60 s; at least 100 ms.
	ListShardsTimeout time.Duration
	// IgnoreUnexpectedChildShards tolerates open children of open parents, as
	// DynamoDB Streams show them (ignoreUnexpectedChildShards).
	IgnoreUnexpectedChildShards bool
	// AuditorInterval is how often the leader checks that leases cover the hash
	// key space (leasesRecoveryAuditorExecutionFrequencyMillis), and
	// AuditorConfidence how often in a row it must see the same hole before it
	// creates leases (leasesRecoveryAuditorInconsistencyConfidenceThreshold).
	// Defaults 2 min and 3; at least 1 s and 1.
	AuditorInterval   time.Duration
	AuditorConfidence int
}
