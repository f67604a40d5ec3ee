package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/workermetrics"
)

func validConfig() Config {
	return Config{
		Application: "orders", Streams: kcl.SingleStream("orders-stream", kcl.TrimHorizon),
		AWS:     kcltest.New(kcltest.Options{}).Config("c"),
		Handler: func(context.Context, *kcl.Batch) error { return nil },
		Logger:  slog.New(slog.DiscardHandler),
	}
}

// Every default, as documented. config-metrics-operations#2,6
func TestDefaults(t *testing.T) {
	s, err := New(validConfig())
	require.NoError(t, err)
	c := s.cfg
	assert.Equal(t, "orders", c.Table.Name)
	assert.Equal(t, 20*time.Second, c.StopTimeout)
	assert.Equal(t, int64(256<<20), c.MaxBufferedBytes)
	assert.Equal(t, 20, c.MaxInitializationAttempts)
	assert.Equal(t, time.Second, c.SchedulerInitializationBackoff)
	assert.Equal(t, "orders-CoordinatorState", c.CoordinatorStateTable)
	assert.Equal(t, "orders-WorkerMetricStats", c.WorkerMetricsTable)
	assert.False(t, c.MigrateAllEntitiesToLeaseTable)
	assert.Equal(t, 24*time.Hour, c.TableMigrationCompleteBakeTime)
	assert.Equal(t, TableConfig{Name: "orders", BillingMode: types.BillingModePayPerRequest, ReadCapacity: 10, WriteCapacity: 10}, c.Table)
	assert.Equal(t, LeaseConfig{
		FailoverTime: 10 * time.Second, MaxRenewals: 20, RequestTimeout: time.Minute, GracefulHandoffTimeout: 30 * time.Second,
		CleanupInterval: time.Minute, CompletedCleanupInterval: 5 * time.Minute, GarbageCleanupInterval: 30 * time.Minute,
		WorkerReportInterval: 30 * time.Second, StaleWorkerCleanup: 24 * time.Hour,
		AssignmentStrategy: "WORKER_UTILIZATION_AWARE",
		WorkerUtilization: WorkerUtilizationConfig{
			CaptureInterval: time.Second, PersistedMetrics: 10, EMAAlpha: 0.5,
			ReBalanceThresholdPercentage: 10, DampeningPercentage: 60, VarianceBalancingFrequency: 3,
		},
	}, c.Leases)
	assert.Equal(t, LeaderConfig{LeaseDuration: 30 * time.Second, HeartbeatPeriod: 10 * time.Second}, c.Leader)
	assert.Equal(t, PollingConfig{
		MaxRecords: 10_000, IdleTimeBetweenReads: 1500 * time.Millisecond, MaxPendingProcessRecordsInput: 4,
		MaxBytes: 8 << 20, MaxBufferedRecords: 30_000, RequestTimeout: 30 * time.Second,
	}, c.Polling)
	assert.Equal(t, ShardConfig{
		ListShardsBackoff: 1500 * time.Millisecond, MaxListShardsAttempts: 50, ListShardsTimeout: time.Minute,
		AuditorInterval: 2 * time.Minute, AuditorConfidence: 3,
	}, c.Shards)
	assert.NotEmpty(t, c.WorkerIdentifier)
	other, err := New(validConfig())
	require.NoError(t, err)
	assert.NotEqual(t, c.WorkerIdentifier, other.WorkerIdentifier())
}

// Each fault is named with its value and bound. consumption#63 and
// config-metrics-operations#3,37, less what is clamped there.
func TestFaults(t *testing.T) {
	cases := []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Application = "" }, `Application is ""`},
		{func(c *Config) { c.Application = "no/slash" }, `Table.Name is "no/slash"`},
		{func(c *Config) { c.Table.Name = "ab" }, `Table.Name is "ab"`},
		{func(c *Config) { c.Streams = nil }, "Streams is nil"},
		{func(c *Config) { c.Streams = kcl.SingleStream("", kcl.Latest) }, "stream name is empty"},
		{func(c *Config) { c.Streams = kcl.SingleStream("s", kcl.InitialPosition{}) }, "initial position must be given"},
		{func(c *Config) {
			c.Streams = kcl.SingleStream("arn:aws:kinesis:eu-west-1:123456789012:stream/s", kcl.Latest)
		}, "in the Kinesis client's region"},
		{func(c *Config) { c.Streams = kcl.SingleStream("a stream", kcl.Latest) }, `Streams is a stream called "a stream", must be 1 to 128 characters`},
		{func(c *Config) { c.Streams = kcl.SingleStream(strings.Repeat("s", 129), kcl.Latest) }, "must be 1 to 128 characters"},
		{func(c *Config) { c.Streams = multi{} }, "multi-stream"},
		{func(c *Config) { c.Streams = tracker{err: errors.New("out of streams")} }, "out of streams"},
		{func(c *Config) { c.Streams = tracker{} }, "Streams is 0 streams, must be exactly one"},
		{func(c *Config) { c.Streams = tracker{}.of("s", kcl.InitialPosition{}) }, "Streams is a stream without an initial position"},
		{func(c *Config) { c.Streams = tracker{}.of("s", kcl.AtTimestamp(time.Time{})) }, "Streams is a stream without an initial position"},
		{func(c *Config) { c.AWS.Region = "" }, "AWS.Region"},
		{func(c *Config) { c.AWS.Credentials = nil }, "AWS.Credentials"},
		{func(c *Config) { c.Handler = nil }, "Handler and NewProcessor"},
		{func(c *Config) {
			c.NewProcessor = func(context.Context, kcl.ShardInfo) (kcl.RecordProcessor, error) { return nil, nil }
		}, "Handler and NewProcessor"},
		{func(c *Config) { c.WorkerIdentifier = " \t" }, "WorkerIdentifier"},
		{func(c *Config) { c.WorkerIdentifier = strings.Repeat("x", 1025) }, "WorkerIdentifier is 1025 bytes long"},
		{func(c *Config) { c.WorkerIdentifier = "Leader" }, `"Leader"`},
		{func(c *Config) { c.WorkerIdentifier = "shardId-000000000000" }, `"shardId-000000000000"`},
		{func(c *Config) { c.WorkerIdentifier = "orders-stream" }, `"orders-stream"`},
		{func(c *Config) { c.StopTimeout = -1 }, "StopTimeout is -1ns"},
		{func(c *Config) { c.MaxBufferedBytes = 1000 }, "MaxBufferedBytes is 1000"},
		{func(c *Config) { c.ParentShardPollInterval = 1 }, "ParentShardPollInterval is 1ns"},
		{func(c *Config) { c.TaskBackoff = 1 }, "TaskBackoff is 1ns"},
		{func(c *Config) { c.LogWarningForTaskAfter = -1 }, "LogWarningForTaskAfter"},
		{func(c *Config) { c.MaxInitializationAttempts = -1 }, "MaxInitializationAttempts is -1"},
		{func(c *Config) { c.SchedulerInitializationBackoff = -1 }, "SchedulerInitializationBackoff"},
		{func(c *Config) { c.TableMigrationCompleteBakeTime = 59 * time.Minute }, "TableMigrationCompleteBakeTime is 59m0s, must be 1h0m0s to 168h0m0s"},
		{func(c *Config) { c.TableMigrationCompleteBakeTime = 7*24*time.Hour + time.Second }, "TableMigrationCompleteBakeTime is 168h0m1s"},
		{func(c *Config) { c.TableMigrationCompleteBakeTime = 2*time.Hour + time.Millisecond }, "TableMigrationCompleteBakeTime is 2h0m0.001s, must be whole seconds"},
		{func(c *Config) { c.CoordinatorStateTable = "a state" }, `CoordinatorStateTable is "a state", must be 3 to 255 characters`},
		{func(c *Config) { c.WorkerMetricsTable = "ab" }, `WorkerMetricsTable is "ab", must be 3 to 255 characters`},
		{func(c *Config) { c.WorkerMetricsTable = "orders" }, `Table.Name, CoordinatorStateTable and WorkerMetricsTable is "orders", "orders-CoordinatorState" and "orders", must be three names`},
		// The one that is given would be ignored.
		{func(c *Config) {
			c.Application, c.Table.Name, c.CoordinatorStateTable = "an application", "orders", "orders-state"
		}, `WorkerMetricsTable is "an application-WorkerMetricStats", must be 3 to 255 characters`},
		{func(c *Config) {
			c.Application, c.Table.Name, c.WorkerMetricsTable = "an application", "orders", "orders-workers"
		}, `CoordinatorStateTable is "an application-CoordinatorState", must be 3 to 255 characters`},
		{func(c *Config) { c.Table.BillingMode = "FREE" }, `Table.BillingMode is "FREE"`},
		{func(c *Config) { c.Table.ReadCapacity = -1 }, "Table.ReadCapacity is -1"},
		{func(c *Config) { c.Table.WriteCapacity = -1 }, "Table.WriteCapacity is -1"},
		{func(c *Config) { c.Table.Tags = make(map[string]string); fill(c.Table.Tags, 51) }, "Table.Tags is 51 tags"},
		{func(c *Config) { c.Leases.FailoverTime = 999 * time.Millisecond }, "Leases.FailoverTime is 999ms"},
		{func(c *Config) { c.Leases.AssignmentInterval = time.Millisecond }, "Leases.AssignmentInterval is 1ms"},
		{func(c *Config) { c.Leases.MaxLeasesForWorker = -1 }, "Leases.MaxLeasesForWorker is -1"},
		{func(c *Config) { c.Leases.MaxRenewals = 1001 }, "Leases.MaxRenewals is 1001"},
		{func(c *Config) { c.Leases.ScanSegments = -1 }, "Leases.ScanSegments is -1"},
		{func(c *Config) { c.Leases.RequestTimeout = 1 }, "Leases.RequestTimeout"},
		{func(c *Config) { c.Leases.GracefulHandoffTimeout = 1 }, "Leases.GracefulHandoffTimeout"},
		{func(c *Config) { c.Leases.CleanupInterval = 1 }, "Leases.CleanupInterval"},
		{func(c *Config) { c.Leases.CompletedCleanupInterval = 1 }, "Leases.CompletedCleanupInterval"},
		{func(c *Config) { c.Leases.GarbageCleanupInterval = 1 }, "Leases.GarbageCleanupInterval"},
		{func(c *Config) { c.Leases.WorkerReportInterval = 6 * time.Minute }, "Leases.WorkerReportInterval is 6m"},
		{func(c *Config) { c.Leases.StaleWorkerCleanup = time.Minute }, "Leases.StaleWorkerCleanup is 1m"},
		{func(c *Config) { c.Leases.AssignmentStrategy = "BEST" }, `Leases.AssignmentStrategy is "BEST", must be WORKER_UTILIZATION_AWARE or LEASE_COUNT_BASED`},
		{func(c *Config) { c.Leases.WorkerUtilization.CaptureInterval = 99 * time.Millisecond }, "Leases.WorkerUtilization: worker metrics: CaptureInterval is 99ms"},
		{func(c *Config) { c.Leases.WorkerUtilization.CaptureInterval = 11 * time.Second }, "Leases.WorkerUtilization.CaptureInterval is 11s, must be at most a third of Leases.WorkerReportInterval (30s)"},
		{func(c *Config) { c.Leases.WorkerUtilization.PersistedMetrics = 101 }, "PersistedMetrics is 101"},
		{func(c *Config) { c.Leases.WorkerUtilization.WorkerMetrics = []workermetrics.Metric{nil} }, "Metrics[0] is nil"},
		{func(c *Config) { c.Leases.WorkerUtilization.EMAAlpha = 1.5 }, "Leases.WorkerUtilization.EMAAlpha is 1.5, must be above 0 and at most 1"},
		{func(c *Config) { c.Leases.WorkerUtilization.ReBalanceThresholdPercentage = -1 }, "ReBalanceThresholdPercentage is -1"},
		{func(c *Config) { c.Leases.WorkerUtilization.DampeningPercentage = math.NaN() }, "DampeningPercentage is NaN"},
		{func(c *Config) { c.Leases.WorkerUtilization.MaxThroughputPerHostKBps = -1 }, "MaxThroughputPerHostKBps is -1"},
		{func(c *Config) { c.Leases.WorkerUtilization.VarianceBalancingFrequency = -1 }, "VarianceBalancingFrequency is -1, must be 1 to 4320"},
		{func(c *Config) { c.Leader.LeaseDuration = time.Millisecond }, "Leader.LeaseDuration is 1ms"},
		{func(c *Config) {
			c.Leader.LeaseDuration, c.Leader.HeartbeatPeriod = 59999*time.Millisecond, 30*time.Second
		}, "Leader.HeartbeatPeriod is 30s, must be 100ms to half of Leader.LeaseDuration (29.9995s)"},
		{func(c *Config) { c.Leader.HeartbeatPeriod = time.Nanosecond }, "Leader.HeartbeatPeriod is 1ns"},
		{func(c *Config) {
			c.Leader.LeaseDuration, c.Leader.HeartbeatPeriod = 2000900*time.Microsecond, 1000450*time.Microsecond
		}, "half of Leader.LeaseDuration (1s)"},
		{func(c *Config) { c.Polling.MaxRecords = 10_001 }, "Polling.MaxRecords is 10001"},
		{func(c *Config) { c.Polling.MaxRecords = -1 }, "Polling.MaxRecords is -1"},
		{func(c *Config) { c.Polling.MaxPendingProcessRecordsInput = 6 }, "Polling.MaxPendingProcessRecordsInput is 6"},
		{func(c *Config) { c.Polling.NoPrefetch, c.Polling.MaxPendingProcessRecordsInput = true, 2 }, "0 with NoPrefetch"},
		{func(c *Config) { c.Polling.IdleTimeBetweenReads = -1 }, "Polling.IdleTimeBetweenReads"},
		{func(c *Config) { c.Polling.MillisBehindLatestThresholdForReducedTPS = -1 }, "Polling.MillisBehindLatestThresholdForReducedTPS"},
		{func(c *Config) { c.Polling.MaxBytes = -1 }, "Polling.MaxBytes is -1"},
		{func(c *Config) { c.Polling.MaxBufferedRecords = -1 }, "Polling.MaxBufferedRecords is -1"},
		{func(c *Config) { c.Polling.RequestTimeout = 1 }, "Polling.RequestTimeout"},
		{func(c *Config) { c.Shards.ListShardsBackoff = -1 }, "Shards.ListShardsBackoff"},
		{func(c *Config) { c.Shards.MaxListShardsAttempts = -1 }, "Shards.MaxListShardsAttempts is -1"},
		{func(c *Config) { c.Shards.ListShardsTimeout = 1 }, "Shards.ListShardsTimeout"},
		{func(c *Config) { c.Shards.AuditorInterval = 1 }, "Shards.AuditorInterval"},
		{func(c *Config) { c.Shards.AuditorConfidence = -1 }, "Shards.AuditorConfidence is -1"},
	}
	for _, fc := range cases {
		t.Run(fc.want, func(t *testing.T) {
			c := validConfig()
			fc.change(&c)
			_, err := New(c)
			require.ErrorContains(t, err, fc.want)
		})
	}
	c := validConfig()
	c.Leases.MaxRenewals, c.Polling.MaxRecords, c.StopTimeout = -1, -1, -1
	c.WorkerIdentifier, c.Streams = "Leader", kcl.SingleStream("", kcl.InitialPosition{})
	_, err := New(c)
	for _, fault := range []string{
		"Leases.MaxRenewals", "Polling.MaxRecords", "StopTimeout", "WorkerIdentifier", "stream name is empty", "initial position must be given",
	} {
		assert.ErrorContains(t, err, fault, "all faults are named at once")
	}
}

// Whoever comes from Java finds every option on one page.
func TestOptionsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/migrate-from-java.md")
	require.NoError(t, err)
	var check func(group string, of reflect.Type)
	check = func(group string, of reflect.Type) {
		for f := range of.Fields() {
			if f.Type.Kind() == reflect.Struct && f.Type.PkgPath() == of.PkgPath() {
				check(group+f.Name+".", f.Type)
				continue
			}
			assert.Regexp(t, "`[^`]*\\b"+f.Name+"\\b[^`]*`", string(page), group+f.Name)
		}
	}
	check("", reflect.TypeFor[Config]())
}

// A name of which no table can be made says that there never were other tables:
// KCL 3.4 could not have made them.
func TestNoTableCanHaveTheName(t *testing.T) {
	c := validConfig()
	c.Application, c.Table.Name = "an application", "orders"
	s, err := New(c)
	require.NoError(t, err)
	assert.True(t, s.cfg.noLegacyTables())
	c.CoordinatorStateTable, c.WorkerMetricsTable = "orders-state", "orders-workers"
	s, err = New(c)
	require.NoError(t, err)
	assert.False(t, s.cfg.noLegacyTables())
}

func fill(m map[string]string, n int) {
	for i := range n {
		m[string(rune('a'+i/26))+string(rune('a'+i%26))] = ""
	}
}

type multi struct{ kcl.StreamTracker }

func (multi) MultiStream() bool { return true }

// tracker is a user's own.
type tracker struct {
	streams []kcl.StreamConfig
	err     error
}

func (tracker) MultiStream() bool                                     { return false }
func (r tracker) Streams(context.Context) ([]kcl.StreamConfig, error) { return r.streams, r.err }

func (tracker) of(name string, p kcl.InitialPosition) tracker {
	return tracker{streams: []kcl.StreamConfig{{Stream: kcl.StreamIdentifier{Name: name}, Position: p}}}
}

// config-metrics-operations#3: what KCL raises with a warning, so that a shared
// configuration loads, is raised here too, with one warning.
func TestShortIdleTimeIsRaised(t *testing.T) {
	log := &testLog{t: t}
	c := validConfig()
	c.Logger = slog.New(log)
	c.Polling.IdleTimeBetweenReads = 199 * time.Millisecond
	s, err := New(c)
	require.NoError(t, err)
	assert.Equal(t, 200*time.Millisecond, s.cfg.Polling.IdleTimeBetweenReads)
	assert.Len(t, log.warnings, 1)
}

// shard-sync#51: the region that counts is that of the client in use.
func TestStreamRegion(t *testing.T) {
	c := validConfig()
	c.Streams = kcl.SingleStream("arn:aws:kinesis:eu-west-1:123456789012:stream/s", kcl.Latest)
	c.Kinesis = kinesis.New(kinesis.Options{Region: "eu-west-1"})
	_, err := New(c)
	require.NoError(t, err)
	c.Kinesis = kinesis.New(kinesis.Options{Region: "us-west-2"})
	_, err = New(c)
	require.ErrorContains(t, err, "us-west-2")
}

// New makes no call.
func TestNewMakesNoCall(t *testing.T) {
	sdk := kcltest.New(kcltest.Options{})
	c := validConfig()
	c.AWS = sdk.Config("c")
	_, err := New(c)
	require.NoError(t, err)
	assert.Empty(t, sdk.Calls())
}
