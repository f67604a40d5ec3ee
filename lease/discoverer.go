package lease

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/metrics"
)

// DiscovererConfig sets up a [Discoverer].
type DiscovererConfig struct {
	Store   *Store
	Renewer *Renewer
	// Worker is this worker's id, leaseOwner in the table.
	Worker string
	// FailoverTime and Epsilon are as in [RenewerConfig].
	FailoverTime, Epsilon time.Duration
	// AssignmentInterval is the leader's interval if it was set explicitly; the
	// discovery's then is half of it, less epsilon. 0 means that it was not:
	// discovery runs every 2 s, every second in the first minute without a
	// lease, and less often if the worker has hundreds of leases. KCL:
	// leaseAssignmentIntervalMillis.
	AssignmentInterval time.Duration
	// Provisioned says that the table's read units are rationed, so that KCL's
	// interval holds, the failover time less epsilon.
	Provisioned bool
	// MaxThreads is how many leases are read at a time. 0 means 20. KCL:
	// maxLeaseRenewalThreads.
	MaxThreads int
	Logger     *slog.Logger     // nil discards
	Metrics    metrics.Recorder // nil discards
}

// Discoverer finds the leases that the table says are this worker's and that
// its [Renewer] does not hold, and has them held: it asks the index of owners,
// which lags, reads each lease consistently, and renews it, so that its term
// has begun before anything is read. A lease that its former owner has not
// handed over yet is read every 300 ms for the first minute.
//
// While the renewer drains, what is found is released, or left alone, as
// [Renewer.Drain] was told.
type Discoverer struct {
	store   *Store
	renewer *Renewer
	worker  string
	pace    pace
	// patience bounds the query, and what is done about one lease: a call that
	// hangs must not keep the rest from being found for much longer than leases
	// last.
	patience time.Duration
	threads  int
	log      *slog.Logger
	metrics  metrics.Scope

	turn chan struct{} // full while a pass runs
	wake chan struct{} // capacity 1

	mu sync.Mutex
	// guarded by mu
	poked    map[string]struct{} // keys to look at out of turn
	pokedAll bool
	lastCost float64 // what the last query consumed, in read units
	level    slog.Level
	troubled map[string]struct{} // leases whose failure was told of
}

// minPatience is the least time that a discovery's calls may take.
const minPatience = 5 * time.Second

// maxPoked bounds the keys that are looked at out of turn. When there are more,
// the index is asked instead.
const maxPoked = 1000

// maxTroubled bounds the leases of which it is remembered that their failure was
// told of. The failures of others are logged at level Debug only.
const maxTroubled = 1000

// NewDiscoverer does no I/O and starts nothing.
func NewDiscoverer(cfg DiscovererConfig) *Discoverer {
	d := &Discoverer{
		store:   cfg.Store,
		renewer: cfg.Renewer,
		worker:  cfg.Worker,
		pace: pace{
			failover:    cmp.Or(cfg.FailoverTime, defaultFailoverTime),
			epsilon:     cmp.Or(cfg.Epsilon, defaultEpsilon),
			assignment:  cfg.AssignmentInterval,
			provisioned: cfg.Provisioned,
		},
		patience: max(cmp.Or(cfg.FailoverTime, defaultFailoverTime), minPatience),
		threads:  cmp.Or(cfg.MaxThreads, defaultMaxRenewalThreads),
		log:      cfg.Logger,
		metrics: metrics.Scope{
			Recorder: cfg.Metrics, Operation: "LeaseDiscovery",
			Dimensions: []metrics.Dimension{metrics.Worker(cfg.Worker)},
		},
		turn:  make(chan struct{}, 1),
		wake:  make(chan struct{}, 1),
		poked: map[string]struct{}{},

		level:    slog.LevelWarn,
		troubled: map[string]struct{}{},
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	d.log = d.log.With("worker", cfg.Worker)
	return d
}

// Discovery is what one pass found.
type Discovery struct {
	Acquired int // leases that are held now
	Released int // leases given back, because the worker drains
	// Waiting are the leases assigned to this worker whose former owner has yet
	// to hand them over, by key.
	Waiting []string
}

// Run discovers at once, and then again and again until ctx ends.
func (d *Discoverer) Run(ctx context.Context) {
	idleSince := time.Now()
	var watched vigil
	look := func(keys []string) {
		found, err := d.pass(ctx, keys)
		d.report(ctx, err)
		if err == nil {
			watched = watched.after(time.Now(), keys, found.Waiting)
		}
	}
	for {
		look(nil)
		idle := time.Duration(-1)
		if d.renewer.count() == 0 {
			idle = time.Since(idleSince)
		}
		next := time.NewTimer(d.pace.interval(d.cost(), idle))
		for waiting := true; waiting; {
			watch, awaited := d.watch(watched)
			woken := false
			select {
			case <-d.wake: // first: what is known to be assigned the index may not have
				woken = true
			default:
				select {
				case <-ctx.Done():
					next.Stop()
					return
				case <-next.C:
					waiting = false
				case <-watch:
					look(awaited)
				case <-d.wake:
					woken = true
				}
			}
			if woken {
				keys, all := d.takePoked()
				waiting = !all
				if len(keys) > 0 && !all {
					look(keys)
				}
			}
			if d.renewer.count() > 0 {
				idleSince = time.Now()
			}
		}
		next.Stop()
	}
}

// watch returns when to look at the leases that are to be handed over to this
// worker; never, if there are none, or the table's read units are rationed.
func (d *Discoverer) watch(v vigil) (<-chan time.Time, []string) {
	keys, pause := v.next(time.Now())
	if len(keys) == 0 || d.pace.provisioned {
		return nil, nil
	}
	return time.After(pause), keys
}

// Poke makes Run look at once: at these leases, which the caller knows to be
// assigned to this worker before the index does, or, without keys, at all. It
// never blocks.
func (d *Discoverer) Poke(keys ...string) {
	d.mu.Lock()
	d.pokedAll = d.pokedAll || len(keys) == 0 || len(d.poked)+len(keys) > maxPoked
	if !d.pokedAll {
		for _, k := range keys {
			d.poked[k] = struct{}{}
		}
	}
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *Discoverer) takePoked() (keys []string, all bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k := range d.poked {
		keys = append(keys, k)
	}
	clear(d.poked)
	all, d.pokedAll = d.pokedAll, false
	slices.Sort(keys)
	return keys, all
}

// Discover makes one pass. An index that is not ready, and a lease that cannot
// be read, are nothing found yet rather than an error; other failures of the
// query are errors. Passes run one at a time.
func (d *Discoverer) Discover(ctx context.Context) (Discovery, error) { return d.pass(ctx, nil) }

// pass looks at the given keys, or at what the index names if there are none.
func (d *Discoverer) pass(ctx context.Context, keys []string) (found Discovery, err error) {
	select {
	case d.turn <- struct{}{}:
	case <-ctx.Done():
		return Discovery{}, context.Cause(ctx)
	}
	defer func() { <-d.turn }()

	start := time.Now()
	defer func() { d.metrics.Done("", start, err, metrics.Summary) }()
	since := d.renewer.beginPass()
	defer d.renewer.endPass()
	if len(keys) == 0 {
		keys, err = d.query(ctx)
		if err != nil {
			return Discovery{}, err
		}
	}
	return d.fetch(ctx, keys, since), nil
}

func (d *Discoverer) query(ctx context.Context) ([]string, error) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	keys, err := d.store.KeysOwnedBy(ctx, d.worker)
	d.elapsed("ListLeaseKeysForWorker.Time", start)
	switch {
	case errors.Is(err, ErrIndexNotReady), errors.Is(err, kcl.ErrInvalidState):
		d.log.DebugContext(ctx, "index of lease owners not ready", "err", err)
		return nil, nil
	case err != nil:
		return nil, err
	}
	d.mu.Lock()
	d.lastCost = queryUnits(keys, d.worker)
	d.mu.Unlock()
	return keys, nil
}

func (d *Discoverer) cost() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lastCost
}

// fetch reads those of the leases that are not held, and acts upon each.
func (d *Discoverer) fetch(ctx context.Context, keys []string, since uint64) Discovery {
	start := time.Now()
	var (
		g  errgroup.Group
		mu sync.Mutex
		// guarded by mu
		found            Discovery
		failed, mismatch int
	)
	g.SetLimit(d.threads)
	for _, key := range keys {
		if d.renewer.isHeld(key) {
			continue
		}
		g.Go(func() error { // ends with its calls, each bounded by the store
			got, err := d.one(ctx, key, since)
			d.reportLease(ctx, key, err)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				failed++
			case got == acquired:
				found.Acquired++
			case got == released:
				found.Released++
			case got == waiting:
				found.Waiting = append(found.Waiting, key)
			case got == notOurs:
				mismatch++
			}
			return nil
		})
	}
	_ = g.Wait()
	slices.Sort(found.Waiting)
	d.elapsed("FetchNewLeases.Time", start)
	d.metrics.Count("NewLeasesDiscovered", float64(found.Acquired), metrics.Detailed)
	d.metrics.Count("OwnerMismatch", float64(mismatch), metrics.Detailed)
	d.metrics.Count("GetLease:Error", float64(failed), metrics.Summary)
	return found
}

// one reads one lease, and has it held if it is ours.
func (d *Discoverer) one(ctx context.Context, key string, since uint64) (fate, error) {
	ctx, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	l, exists, err := d.store.GetConsistent(ctx, key)
	if err != nil {
		return passedBy, err
	}
	if !exists {
		return passedBy, nil
	}
	f := fateOf(l, d.worker)
	if f != acquired {
		return f, nil
	}
	if d.renewer.draining() == takeAll {
		held, err := d.renewer.acquire(ctx, l, since)
		if held || err != nil {
			return acquired, err
		}
	}
	switch d.renewer.draining() {
	case giveBack: // also if that was decided during the renewal
		if d.renewer.isHeld(key) {
			return passedBy, nil
		}
		_, done, err := d.store.Evict(ctx, l)
		if done {
			return released, nil
		}
		return passedBy, err
	default:
		return passedBy, nil
	}
}

// fate is what becomes of a lease that the index says is ours.
type fate uint8

const (
	passedBy fate = iota // gone, or lost again meanwhile
	notOurs              // the index lags
	waiting              // its former owner has not handed it over yet
	acquired
	released
)

// fateOf says what is to become of l, just read, which worker does not hold.
//
//	owner   checkpoint owner  fate
//	other   any               notOurs
//	worker  set               waiting
//	worker  none              acquired
//
// That the second row also covers the worker's own name is on purpose: no rule
// makes such an item, and the leader resolves it.
func fateOf(l Lease, worker string) fate {
	switch {
	case l.Owner != worker:
		return notOurs
	case l.HandOffPending():
		return waiting
	default:
		return acquired
	}
}

func (d *Discoverer) elapsed(name string, start time.Time) {
	d.metrics.Add(name, float64(time.Since(start))/float64(time.Millisecond), metrics.Milliseconds, metrics.Detailed)
}

// report logs a failed pass, at a lower level if it is not the first in a row.
func (d *Discoverer) report(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	d.mu.Lock()
	level := d.level
	d.level = repeated(err)
	d.mu.Unlock()
	if err != nil {
		d.log.Log(ctx, level, "discovery of leases failed, tried again", "err", err)
	}
}

// reportLease is report for one lease.
func (d *Discoverer) reportLease(ctx context.Context, key string, err error) {
	if ctx.Err() != nil {
		return
	}
	d.mu.Lock()
	level := slog.LevelWarn
	if _, known := d.troubled[key]; known || len(d.troubled) >= maxTroubled {
		level = slog.LevelDebug
	} else if err != nil {
		d.troubled[key] = struct{}{}
	}
	if err == nil {
		delete(d.troubled, key)
	}
	d.mu.Unlock()
	if err != nil {
		d.log.Log(ctx, level, "assigned lease not taken up, tried again", "lease", key, "err", err)
	}
}
