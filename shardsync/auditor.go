package shardsync

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/wait"
	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/metrics"
)

const operationAudit = "PeriodicShardSyncManager"

// AuditorConfig sets up an [Auditor]. Syncer, Detector, Store, Settings, Term,
// Created and Logger are required.
type AuditorConfig struct {
	Syncer   *Syncer
	Detector *Detector
	Store    Store
	Settings Settings
	// Interval is the time between two looks; 0 means 2 minutes.
	Interval time.Duration
	// Confidence is how often in a row the same holes must be seen; 0 means 3.
	Confidence int
	// Term returns a context that ends before this worker's leadership does, or
	// false if it does not lead.
	Term func(context.Context) (context.Context, context.CancelFunc, bool)
	// Created is told that leases were created, so that they can be assigned. It
	// must return at once.
	Created func()
	// Attempts and Backoff are for the first sync of an application: how often it
	// may fail, and the pause after a failure. 0 means 20 and 1 s.
	Attempts int
	Backoff  time.Duration
	// Fatal says of a first sync's error that trying again is useless.
	Fatal   func(error) bool
	Logger  *slog.Logger
	Metrics metrics.Recorder
}

// Auditor has the leader create what leases are missing: at once if there are
// none, and otherwise when it has seen the same hole in the hash key space
// several times. It reads no leases by itself but looks at the snapshots that
// the leader makes anyway; without leadership there are none.
type Auditor struct {
	cfg    AuditorConfig
	scope  metrics.Scope
	offers chan Snapshot

	// The rest belongs to Run.
	term     uint64
	seen     tracker
	next     time.Time // when the next look is due
	failures int       // of first syncs
	leased   bool      // there have been leases in this process's time
}

// Snapshot is what the leader has just read.
type Snapshot struct {
	// Term tells one time of leading from the next.
	Term   uint64
	Leases []lease.Lease
}

// NewAuditor returns an Auditor.
func NewAuditor(c AuditorConfig) *Auditor {
	if c.Interval == 0 {
		c.Interval = 2 * time.Minute
	}
	if c.Confidence == 0 {
		c.Confidence = 3
	}
	if c.Attempts == 0 {
		c.Attempts = 20
	}
	if c.Backoff == 0 {
		c.Backoff = time.Second
	}
	return &Auditor{
		cfg: c, scope: metrics.Scope{Recorder: c.Metrics, Operation: operationAudit},
		offers: make(chan Snapshot, 1),
	}
}

// Offer hands over the latest snapshot. It returns at once; a snapshot that was
// not looked at yet is replaced.
func (a *Auditor) Offer(s Snapshot) {
	for {
		select {
		case a.offers <- s:
			return
		default:
		}
		select {
		case <-a.offers:
		default:
		}
	}
}

// Run looks at snapshots until ctx ends. It returns an error only if the first
// sync of an application cannot succeed.
func (a *Auditor) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case s := <-a.offers:
			if err := a.look(ctx, s); err != nil {
				return err
			}
		}
	}
}

// look does what a snapshot calls for.
func (a *Auditor) look(ctx context.Context, s Snapshot) (err error) {
	defer func() {
		if v := recover(); v != nil {
			a.cfg.Logger.Error("audit of leases panicked", "panic", v, "stack", string(debug.Stack()))
			a.after() // what panics once may panic again: not at every snapshot
		}
	}()
	if s.Term != a.term {
		a.term, a.seen, a.next = s.Term, tracker{}, time.Time{}
	}
	if len(s.Leases) == 0 {
		return a.first(ctx)
	}
	a.leased = true
	if time.Now().Before(a.next) {
		return nil
	}
	term, cancel, leading := a.cfg.Term(ctx)
	if !leading {
		return nil
	}
	defer cancel()
	if err := a.audit(term, s.Leases); err != nil && ctx.Err() == nil {
		a.cfg.Logger.Warn("audit of leases failed", "stream", a.cfg.Settings.Stream.String(), "err", err)
	}
	a.after()
	return nil
}

// after is called when a look or a sync is over. What was offered meanwhile is
// from before, and comes too early.
func (a *Auditor) after() { a.next = time.Now().Add(a.cfg.Interval) }

// first creates the leases of an application that has none. It tries until it
// succeeds, somebody else leads, or the attempts are used up; then, if it could
// create some leases, they are consumed, and the audit sees to the rest. An
// application that had leases before has lost its stream; whether that comes back
// is looked at now and then.
func (a *Auditor) first(ctx context.Context) error {
	if a.leased && time.Now().Before(a.next) {
		return nil
	}
	begun := false // this has created some leases, but not all
	for {
		term, cancel, leading := a.cfg.Term(ctx)
		if !leading {
			return nil
		}
		var res Result
		none, err := a.cfg.Syncer.noLeases(term)
		if err == nil && (none || begun) {
			res, err = a.cfg.Syncer.Sync(term)
		}
		cancelled := term.Err() != nil
		cancel()
		if res.Created > 0 {
			begun = true
			a.cfg.Created()
		}
		switch {
		case err == nil && !none && !begun:
			return nil // the snapshot was old; the next one tells
		case err == nil:
			a.leased = true
			a.after()
			return nil
		case cancelled:
			return nil // stopping, or not leading any more: not the stream's fault
		}
		stream := a.cfg.Settings.Stream.String()
		if a.leased {
			a.cfg.Logger.Warn("application has no leases any more, and none could be created", "stream", stream, "err", err)
			a.after()
			return nil
		}
		a.failures++
		if a.failures >= a.cfg.Attempts || a.cfg.Fatal != nil && a.cfg.Fatal(err) {
			if begun {
				a.cfg.Logger.Error("first shard sync not finished", "stream", stream, "err", err)
				a.leased = true
				a.after()
				return nil
			}
			return fmt.Errorf("first shard sync of stream %s: %w", stream, err)
		}
		level := slog.LevelDebug
		if a.failures == 1 {
			level = slog.LevelWarn
		}
		a.cfg.Logger.Log(ctx, level, "first shard sync failed, tried again", "stream", stream, "attempt", a.failures, "err", err)
		if !wait.For(ctx, a.cfg.Backoff) {
			return nil
		}
	}
}

// audit looks for holes and closes them.
func (a *Auditor) audit(ctx context.Context, leases []lease.Lease) (err error) {
	start := time.Now()
	var partial, toSync, skipped float64
	defer func() {
		a.scope.Count("NumStreamsWithPartialLeases", partial, metrics.Summary)
		a.scope.Count("NumStreamsToSync", toSync, metrics.Summary)
		a.scope.Count("NumSkippedShardSyncTask", skipped, metrics.Summary)
		a.scope.Done("", start, err, metrics.Summary)
	}()
	leases, err = a.fillIn(ctx, leases)
	if err != nil {
		return err
	}
	found := holes(leases)
	if len(found) > 0 {
		partial = 1
	}
	if !a.seen.observe(found, a.cfg.Confidence) && (len(found) == 0 || !untouched(leases, a.cfg.Settings.Position)) {
		return nil
	}
	toSync = 1
	a.cfg.Logger.Warn("leases do not cover the hash key space", "stream", a.cfg.Settings.Stream.String(),
		"holes", len(found), "first", found[0].String(), "seen", a.seen.times)
	res, err := a.cfg.Syncer.Sync(ctx)
	if res.Busy {
		skipped = 1
	}
	if res.Created > 0 {
		a.cfg.Created()
	}
	return err
}

// fillIn completes the hash ranges of leases that an old version created without
// one, in the table and in the returned copy.
func (a *Auditor) fillIn(ctx context.Context, leases []lease.Lease) ([]lease.Lease, error) {
	var lacking []int
	for i, l := range leases {
		if !l.Ended() && l.HashRange.IsZero() {
			lacking = append(lacking, i)
		}
	}
	if len(lacking) == 0 {
		return leases, nil
	}
	leases = slices.Clone(leases)
	shards, err := a.cfg.Detector.List(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("hash ranges of %d leases: %w", len(lacking), err)
	}
	ranges := make(map[string]kcl.HashRange, len(shards))
	for _, s := range shards {
		ranges[s.ID] = s.HashRange
	}
	for _, i := range lacking {
		r, listed := ranges[leases[i].ShardID]
		if !listed {
			continue
		}
		leases[i].HashRange = r
		if err := a.cfg.Store.SetHashRange(ctx, leases[i].Key, r); err != nil {
			a.cfg.Logger.Warn("hash range not stored", "lease", leases[i].Key, "err", err)
		}
	}
	return leases, nil
}
