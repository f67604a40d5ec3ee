package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/go-kcl/kcl/coordinator/assignment"
	"github.com/go-kcl/kcl/internal/consumer"
	"github.com/go-kcl/kcl/internal/ddb"
	"github.com/go-kcl/kcl/internal/retrieval"
	"github.com/go-kcl/kcl/internal/wait"
	"github.com/go-kcl/kcl/leader"
	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/shardsync"
	"github.com/go-kcl/kcl/workermetrics"
)

// reportPause is the least time between two rounds of asking consumers whether
// they deliver.
const reportPause = time.Second

// balancingUnit is the pause between two assignment runs of KCL's leader, by
// which it counts the time between two balancings.
const balancingUnit = 20 * time.Second

// worker is a worker that has joined: its parts, and the consumers of the leases
// it holds.
type worker struct {
	s   *Scheduler
	cfg Config
	log *slog.Logger
	// values is what the callbacks' contexts descend from.
	values context.Context

	store      *lease.Store
	renewer    *lease.Renewer
	discoverer *lease.Discoverer
	cleaner    *lease.Cleaner
	leads      *leadership
	assigner   *assignment.Loop
	auditor    *shardsync.Auditor
	reporter   *workermetrics.Reporter
	budget     *retrieval.Budget
	consuming  consumer.Config

	// loops are ended by endLoops, the leader's duties before them by endDuties, and
	// the table migration before those by endMigrating.
	loops, duties, migrating          sync.WaitGroup
	loopsCtx, dutiesCtx, migratingCtx context.Context
	endLoops, endDuties, endMigrating context.CancelFunc

	mu sync.Mutex
	// Guarded by mu.
	tenures  map[string]*tenure // by token
	draining bool
	cut      []string // keys of leases whose consumers a hard stop has ended
	failed   []error  // leases that a stop could not leave as it should
}

// tenure is a lease that this worker holds and its consumer.
type tenure struct {
	lease    lease.Lease
	consumer *consumer.Consumer
	ended    bool          // SHARD_END is stored; the lease is held until it is cleaned up
	done     chan struct{} // closed when the consumer has returned
	handOff  *time.Timer   // guarded by worker's mu; nil unless the lease is to be handed over
}

func newWorker(values context.Context, s *Scheduler, k *kinesis.Client, d *dynamodb.Client, table ddb.TableInfo,
	leads *leadership, workers *workermetrics.Store, reporter *workermetrics.Reporter) (*worker, error) {
	c := s.cfg
	w := &worker{
		s: s, cfg: c, log: s.log, leads: leads, reporter: reporter,
		values:  context.WithValue(values, callback{}, s),
		tenures: make(map[string]*tenure),
		budget:  retrieval.NewBudget(c.MaxBufferedBytes),
	}
	w.loopsCtx, w.endLoops = context.WithCancel(values)
	w.dutiesCtx, w.endDuties = context.WithCancel(w.loopsCtx)
	w.migratingCtx, w.endMigrating = context.WithCancel(w.dutiesCtx)

	w.store = lease.NewStore(lease.StoreConfig{
		Client: d, Table: c.Table.Name, ConsistentReads: c.Leases.ConsistentReads,
		RequestTimeout: c.Leases.RequestTimeout, Segments: c.Leases.ScanSegments, Logger: s.log, Metrics: c.Metrics,
	})
	w.renewer = lease.NewRenewer(lease.RenewerConfig{
		Store: w.store, Worker: c.WorkerIdentifier, FailoverTime: c.Leases.FailoverTime,
		MaxRenewalThreads: c.Leases.MaxRenewals, HandOffTimeout: c.Leases.GracefulHandoffTimeout,
		Live:   w.live,
		Events: lease.Events{Acquired: w.acquired, Lost: w.lost, HandOffRequested: w.handOffRequested},
		Logger: c.Logger, Metrics: c.Metrics,
	})
	w.discoverer = lease.NewDiscoverer(lease.DiscovererConfig{
		Store: w.store, Renewer: w.renewer, Worker: c.WorkerIdentifier, FailoverTime: c.Leases.FailoverTime,
		AssignmentInterval: c.Leases.AssignmentInterval, Provisioned: table.Provisioned,
		MaxThreads: c.Leases.MaxRenewals, Logger: c.Logger, Metrics: c.Metrics,
	})

	detector := shardsync.NewDetector(shardsync.DetectorConfig{
		Client: k, Stream: s.stream.Stream, Attempts: c.Shards.MaxListShardsAttempts,
		Backoff: c.Shards.ListShardsBackoff, Timeout: c.Shards.ListShardsTimeout, Logger: s.log,
	})
	reader := retrieval.NewReader(readerConfig(c, k, w.budget))
	if s.found {
		reader.Found(s.stream.Stream)
	}
	w.cleaner = lease.NewCleaner(lease.CleanerConfig{
		Store: w.store, Worker: c.WorkerIdentifier, Children: childrenOf(detector), Drop: w.renewer.Drop,
		KeepCompleted: c.Leases.KeepFinished, Interval: c.Leases.CleanupInterval,
		CompletedInterval: c.Leases.CompletedCleanupInterval, GarbageInterval: c.Leases.GarbageCleanupInterval, Logger: c.Logger,
	})

	settings := shardsync.Settings{
		Stream: s.stream.Stream, Position: s.stream.Position, IgnoreUnexpectedChildren: c.Shards.IgnoreUnexpectedChildShards,
	}
	w.auditor = shardsync.NewAuditor(shardsync.AuditorConfig{
		Syncer: shardsync.NewSyncer(shardsync.SyncerConfig{
			Detector: detector, Store: w.store, Settings: settings, Logger: s.log, Metrics: c.Metrics,
		}),
		Detector: detector, Store: w.store, Settings: settings,
		Interval: c.Shards.AuditorInterval, Confidence: c.Shards.AuditorConfidence,
		Term: w.term, Created: func() { w.assigner.Poke("leases were created") },
		Attempts: c.MaxInitializationAttempts, Backoff: c.SchedulerInitializationBackoff, Fatal: isFatal,
		Logger: s.log, Metrics: c.Metrics,
	})
	u := c.Leases.WorkerUtilization
	var err error
	w.assigner, err = assignment.New(assignment.Config{
		Strategy: c.Leases.AssignmentStrategy,
		Load: assignment.Load{
			RebalanceThreshold: u.ReBalanceThresholdPercentage, Dampening: u.DampeningPercentage,
			NoThroughputOvershoot: u.NoThroughputOvershoot, MaxThroughput: u.MaxThroughputPerHostKBps, EMAAlpha: u.EMAAlpha,
		},
		BalanceInterval: time.Duration(u.VarianceBalancingFrequency) * balancingUnit,
		Leases:          w.store,
		Workers:         workers,
		Leader:          leads,
		Worker:          c.WorkerIdentifier, FailoverTime: c.Leases.FailoverTime, Interval: c.Leases.AssignmentInterval,
		Provisioned: table.Provisioned, MaxLeases: c.Leases.MaxLeasesForWorker, NoHandOff: c.Leases.NoGracefulHandoff,
		HandOffTimeout: c.Leases.GracefulHandoffTimeout, ReportPeriod: c.Leases.WorkerReportInterval, StaleAge: c.Leases.StaleWorkerCleanup,
		Scanned: func(t leader.Term, s assignment.Scanned) {
			w.auditor.Offer(shardsync.Snapshot{Term: t.Number, Leases: s.Leases})
			w.leads.know(t, s)
		},
		Holds:    func(key string) bool { _, held := w.renewer.Get(key); return held },
		Assigned: func(key string) { w.discoverer.Poke(key) },
		Logger:   c.Logger, Metrics: c.Metrics,
	})
	if err != nil {
		return nil, err
	}
	w.consuming = consumer.Config{
		NewProcessor: c.NewProcessor, Handler: c.Handler, OnFailure: c.OnFailure,
		CallWithEmptyBatches: c.CallProcessRecordsEvenForEmptyRecordList, WarnAfter: c.LogWarningForTaskAfter,
		ParentPollInterval: c.ParentShardPollInterval, TaskBackoff: c.TaskBackoff,
		Leases: w.renewer, Store: w.store,
		Open: func(ctx context.Context, shard retrieval.Shard) consumer.Source { return reader.Open(ctx, shard) },
		StopWorker: func(cause error) {
			s.stop(fmt.Errorf("%w: %w", errStopWorker, cause))
		},
		ParentPolls: new(consumer.ParentPolls),
		Logger:      s.log, Metrics: c.Metrics,
	}
	return w, nil
}

func readerConfig(c Config, k *kinesis.Client, budget *retrieval.Budget) retrieval.Config {
	pending := c.Polling.MaxPendingProcessRecordsInput
	if c.Polling.NoPrefetch {
		pending = retrieval.NoPrefetch
	}
	return retrieval.Config{
		Client: k, Budget: budget, MaxRecords: c.Polling.MaxRecords, IdleTime: c.Polling.IdleTimeBetweenReads,
		ReducedTPSThreshold: c.Polling.MillisBehindLatestThresholdForReducedTPS, RequestTimeout: c.Polling.RequestTimeout,
		MaxPending: pending, MaxRecordCount: c.Polling.MaxBufferedRecords, MaxBytes: int(c.Polling.MaxBytes),
		Logger: c.Logger, Metrics: c.Metrics,
	}
}

func childrenOf(d *shardsync.Detector) func(context.Context, lease.Lease) ([]lease.Child, error) {
	return func(ctx context.Context, l lease.Lease) ([]lease.Child, error) {
		found, err := d.Children(ctx, l.ShardID)
		children := make([]lease.Child, len(found))
		for i, c := range found {
			children[i] = lease.Child{ShardID: c.ID, Parents: c.Parents, HashRange: c.HashRange}
		}
		return children, err
	}
}

// term returns a context for work as leader.
func (w *worker) term(ctx context.Context) (context.Context, context.CancelFunc, bool) {
	t, leading := w.leads.Leading()
	if !leading {
		return nil, nil, false
	}
	ctx, cancel := t.Context(ctx)
	return ctx, cancel, true
}

// errStopWorker is in the cause of a stop that the failure policy asked for.
var errStopWorker = errors.New("a failed callback stopped the worker")

// serve runs the worker's loops until it is told to stop. It returns an error if
// the worker stops by itself.
func (w *worker) serve() error {
	fatal := make(chan error, 2) // one from each that sends
	loop := func(wg *sync.WaitGroup, ctx context.Context, run func(context.Context)) {
		wg.Go(func() { run(ctx) }) // ends with ctx; leave waits
	}
	loop(&w.loops, w.loopsCtx, w.renewer.Run)
	loop(&w.loops, w.loopsCtx, w.discoverer.Run)
	loop(&w.loops, w.loopsCtx, w.reporter.Run)
	loop(&w.loops, w.loopsCtx, w.cleaner.Run)
	loop(&w.loops, w.loopsCtx, w.watchConsumers)
	loop(&w.duties, w.dutiesCtx, w.assigner.Run)
	loop(&w.duties, w.dutiesCtx, w.leads.watch)
	loop(&w.migrating, w.migratingCtx, func(ctx context.Context) {
		if err := w.leads.machine.Run(ctx); err != nil {
			fatal <- err
		}
	})
	loop(&w.duties, w.dutiesCtx, func(ctx context.Context) {
		if err := w.leads.Run(ctx); err != nil {
			w.log.Warn("leader's lock could not be freed, will lapse", "err", err)
		}
	})
	loop(&w.duties, w.dutiesCtx, func(ctx context.Context) {
		if err := w.auditor.Run(ctx); err != nil {
			fatal <- err
		}
	})
	select {
	case err := <-fatal:
		return err
	case <-w.s.stopping.Done():
		if cause := context.Cause(w.s.stopping); errors.Is(cause, errStopWorker) {
			return cause
		}
		return nil
	}
}

// watchConsumers has consumers that deliver nothing say so.
func (w *worker) watchConsumers(ctx context.Context) {
	after := cmp.Or(w.cfg.LogWarningForTaskAfter, consumer.DefaultWarnAfter)
	for pause := after; wait.For(ctx, max(pause, reportPause)); {
		now := time.Now()
		again := now.Add(after) // for a consumer that begins now
		for _, t := range w.list() {
			if at := t.consumer.Report(now); at.Before(again) {
				again = at
			}
		}
		pause = again.Sub(now)
	}
}

// list returns the present tenures.
func (w *worker) list() []*tenure {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]*tenure, 0, len(w.tenures))
	for _, t := range w.tenures {
		out = append(out, t)
	}
	return out
}
