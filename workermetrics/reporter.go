package workermetrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-kcl/kcl/metrics"
)

const operation = "WorkerMetricStatsReporter"

// retryPart is the part of a period after which a failed report is repeated.
// Two missed reports make a worker look dead, so it does not wait for the next.
const retryPart = 6

var errDeleted = errors.New("worker's record has been deleted")

// ReporterConfig sets up a [Reporter].
type ReporterConfig struct {
	Store  *Store
	Worker string
	// Load is asked for the worker's load before each report: [Sampler.Load].
	// nil, or a zero Load, reports none, and the leader goes by throughput or by
	// number of leases. An error fails the report. ctx ends after a period.
	Load func(ctx context.Context) (Load, error)
	// Support is the highest entry of KCL's list of features that this worker
	// knows; every report says it, and when. 0 says nothing.
	Support int
	Logger  *slog.Logger     // nil discards
	Metrics metrics.Recorder // nil discards
}

// Reporter writes this worker's record. It is safe for concurrent use.
type Reporter struct {
	store  *Store
	period time.Duration
	worker string
	load   func(context.Context) (Load, error)
	code   int // support code
	log    *slog.Logger
	scope  metrics.Scope

	// turn holds one token, taken for the length of a write: a report of a
	// healthy worker must not land behind the one that says it drains, nor any
	// report behind the deletion.
	turn chan struct{}

	mu       sync.Mutex // guards what follows
	draining bool
	deleted  bool
	tried    time.Time // start of the last report; zero before the first
	failed   bool      // it failed
	// The times in the last report that succeeded and in a later one that may
	// have been written or not. Zero if none.
	confirmed, uncertain time.Time
}

// NewReporter does no I/O and starts nothing.
func NewReporter(cfg ReporterConfig) *Reporter {
	r := &Reporter{
		store:  cfg.Store,
		period: cfg.Store.cfg.Period,
		worker: cfg.Worker,
		load:   cfg.Load,
		code:   cfg.Support,
		log:    cfg.Logger,
		scope:  metrics.Scope{Recorder: cfg.Metrics, Operation: operation, Dimensions: []metrics.Dimension{metrics.Worker(cfg.Worker)}},
		turn:   make(chan struct{}, 1),
	}
	if r.load == nil {
		r.load = func(context.Context) (Load, error) { return Load{}, nil }
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.log = r.log.With("worker", cfg.Worker)
	return r
}

// Run reports every period until ctx ends: at once if there was no report yet,
// else a period after the last. A report that fails is repeated sooner.
func (r *Reporter) Run(ctx context.Context) {
	t := time.NewTimer(r.wait(time.Now()))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		_ = r.Report(ctx) // logged and counted there
		t.Reset(r.wait(time.Now()))
	}
}

// wait returns how long it is until the next report.
func (r *Reporter) wait(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	pause := r.period
	if r.failed {
		pause /= retryPart
	}
	if r.tried.IsZero() {
		pause = 0
	}
	return max(0, pause-now.Sub(r.tried))
}

// Report writes one report now. It takes at most one period. A worker calls it
// before its first assignment run as leader, which finds no worker otherwise.
func (r *Reporter) Report(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, r.period)
	defer cancel()
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return fmt.Errorf("report of worker %s: %w", r.worker, ctx.Err())
	}
	start := time.Now()
	r.mu.Lock()
	draining, deleted := r.draining, r.deleted
	r.tried = start
	r.mu.Unlock()
	if deleted {
		return errDeleted
	}
	rec, err := r.record(ctx, draining)
	if err == nil {
		r.mu.Lock()
		r.uncertain = rec.Updated
		r.mu.Unlock()
		err = r.store.Put(ctx, rec)
	}
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return err // the worker stops; nothing failed
	}
	r.scope.Done("", start, err, metrics.Summary)
	r.done(ctx, rec.Updated, err)
	return err
}

// record makes the record to write. The load comes from code that may panic, and
// may take its time.
func (r *Reporter) record(ctx context.Context, draining bool) (rec Record, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("load of worker %s: panic: %v", r.worker, p)
		}
	}()
	load, err := r.load(ctx)
	if err != nil {
		return Record{}, err
	}
	if load.Stats == nil {
		load.Stats = map[string][]float64{}
	}
	if load.OperatingRange == nil {
		load.OperatingRange = map[string][]int64{}
	}
	if draining {
		load = load.Draining()
	}
	rec = Record{Worker: r.worker, Updated: time.Unix(time.Now().Unix(), 0), Load: load}
	if r.code > 0 {
		rec.Support, rec.SupportUpdated = r.code, rec.Updated
	}
	return rec, nil
}

// done keeps the outcome of a report and logs when it differs from the last.
func (r *Reporter) done(ctx context.Context, updated time.Time, err error) {
	r.mu.Lock()
	before := r.failed
	r.failed = err != nil
	if err == nil {
		r.confirmed, r.uncertain = updated, time.Time{}
	}
	r.mu.Unlock()
	switch {
	case err == nil && before:
		r.log.InfoContext(ctx, "worker reports again")
	case err != nil && !before:
		r.log.WarnContext(ctx, "worker could not report, will be taken for dead after two periods", "err", err)
	case err != nil:
		r.log.DebugContext(ctx, "worker could not report", "err", err)
	}
}

// Drain makes this and all further reports say that the worker wants no more
// leases, and writes one now. The worker stays alive for the fleet.
func (r *Reporter) Drain(ctx context.Context) error {
	r.mu.Lock()
	r.draining = true
	r.mu.Unlock()
	return r.Report(ctx)
}

// Delete deletes the worker's record if it is the one last written, and reports
// whether it did. Nothing can be reported after it. The worker must hold no
// lease any more: a lease's owner without a record looks like one of an old
// version to the leader's migrations.
func (r *Reporter) Delete(ctx context.Context) (bool, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return false, fmt.Errorf("delete record of worker %s: %w", r.worker, ctx.Err())
	}
	r.mu.Lock()
	r.deleted = true
	times := []time.Time{r.confirmed, r.uncertain}
	r.mu.Unlock()
	for _, updated := range times {
		if updated.IsZero() {
			continue
		}
		ok, err := r.store.deleteOwn(ctx, Record{Worker: r.worker, Updated: updated})
		if ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}
