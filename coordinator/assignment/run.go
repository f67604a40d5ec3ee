package assignment

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/go-kcl/kcl/internal/entity"
	"github.com/go-kcl/kcl/internal/wait"
	"github.com/go-kcl/kcl/leader"
	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/metrics"
	"github.com/go-kcl/kcl/workermetrics"
)

const (
	// loadTries is how often a run tries to scan a table, loadPause the pause
	// between two tries.
	loadTries = 2
	loadPause = 200 * time.Millisecond
	// maxStaleDeletes is how many records of vanished workers a run deletes.
	maxStaleDeletes = 25
)

// outcome is what a run learned that decides when the next one is.
type outcome struct {
	readUnits float64   // that the scan consumed; 0 if there was none
	expiry    time.Time // when the first lease expires that did not move; zero if none
}

// runOnce is one run of a leader.
func (l *Loop) runOnce(ctx context.Context, term leader.Term, c *course) (out outcome, err error) {
	ctx, cancel := term.Context(ctx)
	defer cancel()
	defer func() {
		if cause := context.Cause(ctx); cause != nil && err != nil {
			err = fmt.Errorf("%w: %w", cause, err)
		}
	}()

	start := time.Now()
	snap, err := l.load(ctx)
	if err != nil {
		return out, err
	}
	l.scope.Add("LeaseAndWorkerMetricsLoad.Time", milliseconds(start), metrics.Milliseconds, metrics.Detailed)
	out.readUnits = snap.ReadUnits

	now := time.Now()
	v, stale, expiry := l.look(ctx, snap, now)
	out.expiry = expiry
	if l.cfg.Scanned != nil {
		l.mu.Lock()
		workers, since := l.memory.seen(), l.memory.watching
		l.mu.Unlock()
		l.cfg.Scanned(term, Scanned{At: start, Leases: snap.Leases, Workers: workers, Since: since})
	}
	if c.warned != term.Number {
		c.warned = term.Number
		l.warnOfStrategies(ctx, v)
	}
	idle := v.idle()
	v.Balance = c.pace.due(now, idle)

	start = time.Now()
	plan := l.decide(v)
	if v.Balance {
		c.pace = c.pace.after(now, idle, plan)
	}
	l.countPlan(v, plan, start)

	_, err = l.write(ctx, writes(v, plan, !l.cfg.NoHandOff))
	l.forget(ctx, stale)
	return out, err
}

// snapshot is what a load found.
type snapshot struct {
	lease.Snapshot
	// legacy are the workers' records that are not in the lease table.
	legacy workermetrics.Found
}

// load scans the lease table and, at the same time, the legacy table of workers'
// records, if there is one to read.
func (l *Loop) load(ctx context.Context) (snap snapshot, err error) {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { // ends with its calls, as the other
		snap.Snapshot, err = try(ctx, l.cfg.Leases.Scan)
		return err
	})
	g.Go(func() (err error) {
		snap.legacy, err = try(ctx, l.cfg.Workers.ScanLegacy)
		return err
	})
	if err := g.Wait(); err != nil {
		return snapshot{}, err
	}
	snap.ReadUnits += snap.legacy.ReadUnits
	return snap, nil
}

// try calls f until it succeeds, loadTries times.
func try[T any](ctx context.Context, f func(context.Context) (T, error)) (out T, err error) {
	defer recovered(&err)
	for i := 1; ; i++ {
		if out, err = f(ctx); err == nil || i == loadTries || !wait.For(ctx, loadPause) {
			return out, err
		}
	}
}

// look takes in a scan that ended at now and says how things stand, which
// workers' records are to be deleted, and when the first lease expires that did
// not move since the look before.
func (l *Loop) look(ctx context.Context, snap snapshot, now time.Time) (v View, stale []workermetrics.Record, expiry time.Time) {
	items := snap.Others[entity.WorkerMetricStats]
	records := make([]workermetrics.Record, 0, len(items))
	unreadable := map[string]string{}
	for _, it := range items {
		r, err := workermetrics.Decode(it)
		if err != nil {
			unreadable[r.Worker] = err.Error()
			continue
		}
		records = append(records, r)
	}
	records = append(records, snap.legacy.Records...)
	for _, u := range snap.legacy.Unreadable {
		if _, twice := unreadable[u.Worker]; !twice {
			unreadable[u.Worker] = u.Err.Error()
		}
	}

	var before, after memory
	func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		before = l.memory
		l.memory.look(snap.Leases, records, unreadable, now, l.timing)
		after = l.memory
		leaving := ""
		if l.leaving {
			leaving = l.cfg.Worker
		}
		v = l.memory.view(snap.Leases, now, l.timing, leaving)
		expiry = l.memory.expiry(now, l.timing)
		l.looked = now
	}()
	v.Limit = l.cfg.MaxLeases
	for i, x := range v.Leases {
		if x.Movable && x.Owner == l.cfg.Worker && !l.cfg.Holds(x.Key) {
			v.Leases[i].Movable = false
		}
	}
	l.logWorkers(ctx, before, after)
	l.countView(v, after, len(snap.BadLeases))
	return v, after.stale(now, l.timing, l.cfg.Worker, maxStaleDeletes), expiry
}

// logWorkers tells of workers that came, went or changed, not of those that were
// there at the first look. The maps of a memory are replaced, not changed, by a
// look.
func (l *Loop) logWorkers(ctx context.Context, before, after memory) {
	for id, text := range after.unreadable {
		if before.unreadable[id] != text {
			l.log.WarnContext(ctx, "worker's record cannot be read, skipped", "owner", id, "err", text)
		}
	}
	if before.workers == nil {
		return
	}
	for id, w := range after.workers {
		if b, known := before.workers[id]; !known || b.stand != w.stand {
			l.log.InfoContext(ctx, "worker's standing changed", "owner", id, "standing", w.stand.String(), "seen", w.seen.LastSeen())
		}
	}
	for id := range before.workers {
		if _, still := after.workers[id]; !still {
			l.log.InfoContext(ctx, "worker's record is gone", "owner", id)
		}
	}
}

// warnOfStrategies tells that the fleet seems to be set up for assignment by
// load while this leader goes by number: the strategy then changes, unnoticed,
// whenever leadership does.
func (l *Loop) warnOfStrategies(ctx context.Context, v View) {
	if l.cfg.Strategy != LeaseCountBased {
		return
	}
	for _, w := range v.Workers {
		if !w.Record.Throughput() {
			l.log.WarnContext(ctx, "a worker reports its load, but this leader assigns by number of leases", "owner", w.ID)
			return
		}
	}
}

// countView reports what a look found.
func (l *Loop) countView(v View, m memory, badLeases int) {
	free, failing, invalid := 0, 0, len(m.unreadable)
	for _, x := range v.Leases {
		if x.State.Free() {
			free++
		}
	}
	for _, w := range m.workers {
		switch w.stand {
		case draining:
			failing++
		case invalidRecord:
			invalid++
		}
	}
	l.scope.Count("TotalLeases", float64(len(v.Leases)), metrics.Summary)
	l.scope.Count("NumWorkers", float64(len(v.Workers)), metrics.Summary)
	l.scope.Count("ExpiredLeases", float64(free), metrics.Summary)
	l.countSome("NumWorkersWithInvalidEntry", invalid)
	l.countSome("NumWorkersWithFailingWorkerMetric", failing)
	l.countSome("LeaseDeserializationFailureCount", badLeases)
}

// countPlan reports what a run is about to do, planned since start.
func (l *Loop) countPlan(v View, p Plan, start time.Time) {
	l.scope.Add("AssignExpiredOrUnassignedLeases.Time", milliseconds(start), metrics.Milliseconds, metrics.Detailed)
	l.countSome("LeaseSpillover", p.Spill)
	if v.Balance {
		l.scope.Add("BalanceWorkerVariance.Time", milliseconds(start), metrics.Milliseconds, metrics.Detailed)
		l.scope.Count("NumOfLeasesReassignment", float64(len(p.Balance)), metrics.Summary)
	}
}

func (l *Loop) countSome(name string, n int) {
	if n > 0 {
		l.scope.Count(name, float64(n), metrics.Summary)
	}
}

func milliseconds(since time.Time) float64 {
	return float64(time.Since(since)) / float64(time.Millisecond)
}
