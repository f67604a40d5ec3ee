package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/chance"
	"github.com/go-kcl/kcl/internal/wait"
	"github.com/go-kcl/kcl/metrics"
)

const (
	defaultFailoverTime      = 10 * time.Second
	defaultEpsilon           = 25 * time.Millisecond
	defaultMaxRenewalThreads = 20
	defaultHandOffTimeout    = 30 * time.Second

	// renewAttempts bounds the tries of one renewal in one run, firstRetry and
	// its doubles the waits between them. Only a throttled write is repeated:
	// for all else the next run is soon enough.
	renewAttempts = 4
	firstRetry    = 100 * time.Millisecond
)

// RenewerConfig sets up a [Renewer].
type RenewerConfig struct {
	Store *Store
	// Worker is this worker's id, leaseOwner in the table.
	Worker string
	// FailoverTime is the term of a lease. 0 means 10 s. KCL:
	// failoverTimeMillis.
	FailoverTime time.Duration
	// Epsilon is how much sooner than three times in a term leases are renewed.
	// 0 means 25 ms. KCL: epsilonMillis.
	Epsilon time.Duration
	// MaxRenewalThreads is how many renewals run at a time. 0 means 20. KCL:
	// maxLeaseRenewalThreads.
	MaxRenewalThreads int
	// HandOffTimeout is how long a consumer may take to stop for a hand-off
	// before the lease is transferred over its head. 0 means 30 s. KCL:
	// gracefulLeaseHandoffTimeoutMillis.
	HandOffTimeout time.Duration
	// Live reports whether the tenure has a consumer that will still transfer
	// the lease when asked to hand it over. A hand-off that nobody would answer
	// is completed at once. nil means that all have one. It must return at once.
	Live    func(key, token string) bool
	Events  Events
	Logger  *slog.Logger     // nil discards
	Metrics metrics.Recorder // nil discards
}

// Renewer holds the leases of one worker: it renews them, writes their
// checkpoints and gives them up. What it holds is a cache of the table: each
// write names the counter that it knows, and one that is refused ends the
// tenure.
//
// A tenure's writes are made one at a time, so that none makes another's
// counter stale. A term is counted from before the write that began it; when it
// is over, the lease is lost, whatever the table says. When only the wall clock
// says so, one write decides.
//
// Its methods may be called from any goroutine, before, during and after Run.
type Renewer struct {
	store          *Store
	worker         string
	failover       time.Duration
	period         time.Duration
	threads        int
	handOffTimeout time.Duration
	live           func(key, token string) bool
	events         Events
	log            *slog.Logger
	metrics        metrics.Scope

	mailbox     mailbox
	handOffWake chan struct{} // capacity 1

	mu sync.Mutex // taken before the mailbox's
	// guarded by mu
	held     map[string]*tenure
	entered  map[string]struct{} // keys of leases that are being acquired
	drain    drain
	stopped  bool
	passes   int               // discoveries under way
	losses   uint64            // tenures ended so far
	lostSeen map[string]uint64 // while passes > 0: key → losses when it was last lost
}

// drain says what becomes of leases that are still assigned to this worker.
type drain uint8

const (
	takeAll    drain = iota
	giveBack         // release them in the table
	leaveAlone       // neither hold nor release them
)

// NewRenewer does no I/O and starts nothing.
func NewRenewer(cfg RenewerConfig) *Renewer {
	r := &Renewer{
		store:          cfg.Store,
		worker:         cfg.Worker,
		failover:       cmp.Or(cfg.FailoverTime, defaultFailoverTime),
		threads:        cmp.Or(cfg.MaxRenewalThreads, defaultMaxRenewalThreads),
		handOffTimeout: cmp.Or(cfg.HandOffTimeout, defaultHandOffTimeout),
		live:           cfg.Live,
		events:         cfg.Events,
		log:            cfg.Logger,
		metrics: metrics.Scope{
			Recorder: cfg.Metrics, Operation: "RenewAllLeases",
			Dimensions: []metrics.Dimension{metrics.Worker(cfg.Worker)},
		},
		handOffWake: make(chan struct{}, 1),
		held:        map[string]*tenure{},
		entered:     map[string]struct{}{},
		lostSeen:    map[string]uint64{},
	}
	r.period = renewalPeriod(r.failover, cmp.Or(cfg.Epsilon, defaultEpsilon))
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.log = r.log.With("worker", cfg.Worker)
	return r
}

// Run renews the held leases until ctx ends, and watches over pending
// hand-offs. Then it forgets all leases and holds no more; the table still
// names this worker. Run is called at most once.
func (r *Renewer) Run(ctx context.Context) {
	var handOffs sync.WaitGroup
	handOffs.Go(func() { r.watchHandOffs(ctx) }) // ends with ctx
	defer r.stop()
	defer handOffs.Wait()

	tick := time.NewTicker(r.period)
	defer tick.Stop()
	level := slog.LevelWarn
	for {
		renewed := make(chan error, 1)
		go func() { renewed <- r.renewAll(ctx) }() // received below
		// Terms end while renewals hang, too.
		for running, waiting := true, true; running || waiting; {
			var expiry <-chan time.Time
			if next, ok := r.nextExpiry(time.Now().Add(r.period)); ok {
				expiry = time.After(time.Until(next))
			}
			select {
			case err := <-renewed:
				running = false
				if err != nil && ctx.Err() == nil {
					r.log.Log(ctx, level, "renewal failed, tried again next time", "err", err)
				}
				level = repeated(err)
			case <-ctx.Done():
				if running {
					<-renewed
				}
				return
			case <-tick.C:
				waiting = false
			case <-expiry:
				r.expire()
			}
		}
	}
}

// repeated is the level at which a loop that has just met err tells of the next
// failure: one that goes on is told of once.
func repeated(err error) slog.Level {
	if err != nil {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// nextExpiry returns the instant just after the first term that ends before
// limit, if there is one. Terms do so only when renewals fail.
func (r *Renewer) nextExpiry(limit time.Time) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := false
	for _, t := range r.held {
		if end := t.term.mono.Add(r.failover + 1); end.Before(limit) {
			limit, found = end, true
		}
	}
	return limit, found
}

// expire gives up every lease whose term is over.
func (r *Renewer) expire() {
	now := readClocks()
	r.mu.Lock()
	for _, t := range r.held {
		if r.trustIn(t, now) == over {
			r.endLocked(t, LossExpired)
		}
	}
	r.mu.Unlock()
	r.mailbox.deliver()
}

func (r *Renewer) trustIn(t *tenure, now reading) trust {
	mono, wall := t.term.since(now)
	return judge(mono, wall, r.failover)
}

// renewAll is one run: it brings every lease forward that needs it, and ends by
// the time of the next run, so that one slow call does not hold up the others.
// Leases that it did not get to come first in the next run. The error counts
// those whose renewal failed; they stay held.
func (r *Renewer) renewAll(ctx context.Context) error {
	start := time.Now()
	runCtx, cancel := context.WithDeadline(ctx, start.Add(r.period))
	defer cancel()

	var g errgroup.Group
	g.SetLimit(r.threads)
	var lost, failed atomic.Int64
	var first error
	var once sync.Once
	for _, t := range r.beginRun(start) {
		g.Go(func() error { // ends with the run
			err := r.bringForward(runCtx, t)
			switch {
			case err == nil:
			case errors.Is(err, kcl.ErrLeaseLost):
				lost.Add(1)
			default:
				failed.Add(1)
				once.Do(func() { first = err })
			}
			return nil
		})
	}
	_ = g.Wait()

	var err error
	if n := failed.Load(); n > 0 {
		err = fmt.Errorf("%d leases not renewed, one of them: %w", n, first)
	}
	r.metrics.Count("LostLeases", float64(lost.Load()), metrics.Summary)
	r.metrics.Count("CurrentLeases", float64(r.count()), metrics.Summary)
	r.metrics.Done("", start, err, metrics.Summary)
	return err
}

func (r *Renewer) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.held)
}

// beginRun measures every lease's throughput and returns the leases, the one
// with the oldest term first.
func (r *Renewer) beginRun(now time.Time) []*tenure {
	type due struct {
		tenure *tenure
		term   time.Time
	}
	r.mu.Lock()
	all := make([]due, 0, len(r.held))
	for _, t := range r.held {
		t.throughput.advance(now, r.period)
		all = append(all, due{t, t.term.mono})
	}
	r.mu.Unlock()
	slices.SortFunc(all, func(a, b due) int {
		return cmp.Or(a.term.Compare(b.term), cmp.Compare(a.tenure.key, b.tenure.key))
	})
	out := make([]*tenure, len(all))
	for i, d := range all {
		out[i] = d.tenure
	}
	return out
}

// bringForward does what one run does about one lease. The error wraps
// [kcl.ErrLeaseLost] if that ended the tenure.
func (r *Renewer) bringForward(ctx context.Context, t *tenure) error {
	for attempt := 0; ; attempt++ {
		err := r.bringForwardOnce(ctx, t)
		if !errors.Is(err, kcl.ErrThrottled) || errors.Is(err, kcl.ErrLeaseLost) ||
			attempt+1 == renewAttempts || !pause(ctx, attempt) {
			return err
		}
	}
}

func (r *Renewer) bringForwardOnce(ctx context.Context, t *tenure) error {
	if err := t.take(ctx); err != nil {
		return err
	}
	defer t.give()
	todo, held := r.decide(t)
	if !held || todo == skip {
		return nil
	}
	if todo == giveItUp {
		return r.giveUp(t)
	}
	start := time.Now()
	change := renewal
	if todo == storeIt {
		change = r.storeAccepted(t)
	}
	err := r.write(ctx, t, change)
	if errors.Is(err, errUnread) && !errors.Is(err, kcl.ErrLeaseLost) {
		err = r.write(ctx, t, renewal) // the position can wait, the heartbeat cannot
	}
	if err == nil && r.age(t) > r.period {
		// The term may have begun with an earlier call, whose answer was lost,
		// and be half over.
		err = r.write(ctx, t, renewal)
	}
	failure := err
	if errors.Is(err, kcl.ErrLeaseLost) {
		failure = nil
	}
	r.metrics.Done("RenewLease", start, failure, metrics.Detailed)
	return err
}

// decide reads the clocks and says what is to be done about t.
func (r *Renewer) decide(t *tenure) (todo step, held bool) {
	now := readClocks()
	r.mu.Lock()
	defer r.mu.Unlock()
	mono, _ := t.term.since(now)
	return nextStep(r.trustIn(t, now), ownedBy(t.lease, r.worker), t.unsaved(), mono, r.period), r.held[t.key] == t
}

func (r *Renewer) age(t *tenure) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(t.term.mono)
}

// pause waits before the attempt after the given one, counted from 0: firstRetry
// doubled for each, less up to half of it. It is false when ctx ends first.
func pause(ctx context.Context, attempt int) bool {
	d := firstRetry << attempt
	return wait.For(ctx, d-chance.Below(d/2))
}

// stop forgets every lease.
func (r *Renewer) stop() {
	r.mu.Lock()
	r.stopped = true
	for _, t := range r.held {
		r.endLocked(t, LossStopped)
	}
	r.mu.Unlock()
	r.mailbox.deliver()
}
