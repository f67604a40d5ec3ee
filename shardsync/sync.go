package shardsync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"golang.org/x/sync/errgroup"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/wait"
	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/metrics"
)

// ErrIncomplete says that the shards listed for a new application do not cover
// the hash key space.
var ErrIncomplete = errors.New("shards listed do not cover the hash key space")

const (
	// listings is how often an incomplete first listing is made, listingPause
	// the time between two.
	listings     = 3
	listingPause = time.Second
	// parallelPuts is how many leases are created at a time.
	parallelPuts = 16

	operationSync = "ShardSyncTask"
)

// Store is what Sync and the Auditor call of the lease table.
type Store interface {
	Empty(ctx context.Context, consistent bool) (bool, error)
	List(ctx context.Context) ([]lease.Lease, error)
	ListStream(ctx context.Context, stream string) ([]lease.Lease, error)
	Create(ctx context.Context, l lease.Lease) (bool, error)
	SetHashRange(ctx context.Context, key string, r kcl.HashRange) error
}

// SyncerConfig sets up a [Syncer]. Detector, Store, Settings and Logger are
// required.
type SyncerConfig struct {
	Detector *Detector
	Store    Store
	Settings Settings
	Logger   *slog.Logger
	Metrics  metrics.Recorder
}

// Syncer creates the leases that a stream lacks. One sync runs at a time.
type Syncer struct {
	cfg   SyncerConfig
	scope metrics.Scope

	running sync.Mutex // only ever tried
}

// NewSyncer returns a Syncer.
func NewSyncer(c SyncerConfig) *Syncer {
	return &Syncer{cfg: c, scope: metrics.Scope{Recorder: c.Metrics, Operation: operationSync}}
}

// Result is what a sync did.
type Result struct {
	// Performed is false when the stream showed no shards, or when another sync
	// was running.
	Performed bool
	// Busy: another sync was running; nothing was done.
	Busy bool
	// Initial: the stream had no leases.
	Initial bool
	// Listed is the number of shards listed, Created that of leases created;
	// leases that somebody else created meanwhile do not count.
	Listed, Created int
}

// Sync lists the stream's shards and creates the leases it lacks. Leases are
// never deleted or changed. After an error, what was created stays, and the next
// sync creates the rest.
func (s *Syncer) Sync(ctx context.Context) (res Result, err error) {
	if !s.running.TryLock() {
		return Result{Busy: true}, nil
	}
	defer s.running.Unlock()
	start := time.Now()
	defer func() {
		ok := 0.0
		if err == nil {
			ok = 1
		}
		s.scope.Count("SyncShards.Success", ok, metrics.Detailed)
		s.scope.Done("", start, err, metrics.Summary)
	}()

	none, err := s.noLeases(ctx)
	if err != nil {
		return Result{}, err
	}
	if none {
		return s.initial(ctx)
	}
	return s.missing(ctx)
}

// noLeases reports whether the stream has no lease. Items of other kinds and,
// with several streams in the table, leases of others do not count.
func (s *Syncer) noLeases(ctx context.Context) (bool, error) {
	if s.cfg.Settings.Stream.CreationEpoch == 0 {
		return s.cfg.Store.Empty(ctx, true)
	}
	leases, err := s.leases(ctx)
	return len(leases) == 0, err
}

func (s *Syncer) leases(ctx context.Context) ([]lease.Lease, error) {
	if stream := s.cfg.Settings.Stream; stream.CreationEpoch != 0 {
		return s.cfg.Store.ListStream(ctx, stream.String())
	}
	return s.cfg.Store.List(ctx)
}

func (s *Syncer) initial(ctx context.Context) (Result, error) {
	shards, err := s.firstListing(ctx)
	if err != nil {
		return Result{}, err
	}
	plan, err := PlanInitial(shards, s.cfg.Settings)
	if err != nil {
		return Result{}, err
	}
	res := Result{Performed: true, Initial: true, Listed: len(shards)}
	res.Created, err = s.create(ctx, shards, plan)
	return res, err
}

// firstListing lists by the initial position until the shards cover the hash key
// space.
func (s *Syncer) firstListing(ctx context.Context) ([]Shard, error) {
	pos := s.cfg.Settings.Position
	timestamp := pos.Sentinel() == kcl.AtTimestampSentinel
	for n := 1; ; n++ {
		shards, err := s.cfg.Detector.List(ctx, filterFor(pos))
		var invalid *types.InvalidArgumentException
		switch {
		case err != nil && timestamp && errors.As(err, &invalid):
			return s.fromHorizon(ctx)
		case err != nil:
			return nil, err
		case complete(shards):
			return shards, nil
		case n < listings:
		case timestamp:
			return s.fromHorizon(ctx)
		default:
			return nil, fmt.Errorf("stream %s: %w (%d shards)", s.cfg.Settings.Stream, ErrIncomplete, len(shards))
		}
		if !wait.For(ctx, listingPause) {
			return nil, context.Cause(ctx)
		}
	}
}

// fromHorizon lists the shards open at the horizon. An instant before it, or
// within the second between a parent's end and its children's start, lists
// shards that leave holes, or is refused; shards that end before the instant
// drain at once.
func (s *Syncer) fromHorizon(ctx context.Context) ([]Shard, error) {
	shards, err := s.cfg.Detector.List(ctx, filterFor(kcl.TrimHorizon))
	if err != nil {
		return nil, err
	}
	if !complete(shards) {
		return nil, fmt.Errorf("stream %s: %w (%d shards, at the trim horizon)", s.cfg.Settings.Stream, ErrIncomplete, len(shards))
	}
	return shards, nil
}

// complete reports whether the shards partition the hash key space.
func complete(shards []Shard) bool {
	ranges := make([]kcl.HashRange, len(shards))
	for i, s := range shards {
		ranges[i] = s.HashRange
	}
	slices.SortFunc(ranges, func(a, b kcl.HashRange) int { return a.Start.Compare(b.Start) })
	next := kcl.HashKey{}
	for i, r := range ranges {
		if r.Start != next || i > 0 && next == (kcl.HashKey{}) {
			return false
		}
		next = r.End.Next()
	}
	return len(ranges) > 0 && next == (kcl.HashKey{})
}

func (s *Syncer) missing(ctx context.Context) (Result, error) {
	shards, err := s.cfg.Detector.List(ctx, nil)
	if errors.Is(err, ErrStreamNotFound) {
		s.cfg.Logger.Warn("stream is gone", "stream", s.cfg.Settings.Stream.String(), "err", err)
		return Result{}, nil
	}
	if err != nil {
		return Result{}, err
	}
	if len(shards) == 0 {
		s.cfg.Logger.Warn("stream shows no shards", "stream", s.cfg.Settings.Stream.String())
		return Result{}, nil
	}
	if err := index(shards).check(s.cfg.Settings); err != nil {
		return Result{}, err
	}
	leases, err := s.leases(ctx)
	if err != nil {
		return Result{}, err
	}
	plan, err := Plan(shards, leases, s.cfg.Settings)
	if err != nil {
		return Result{}, err
	}
	res := Result{Performed: true, Listed: len(shards)}
	res.Created, err = s.create(ctx, shards, plan)
	return res, err
}

// create puts the planned leases, one generation of shards after the other. The
// first failure ends it.
func (s *Syncer) create(ctx context.Context, shards []Shard, plan []lease.Lease) (created int, err error) {
	var n atomic.Int64
	for _, wave := range waves(shards, plan) {
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(parallelPuts)
		for _, l := range wave {
			g.Go(func() error { // ends with its put
				if gctx.Err() != nil {
					return context.Cause(gctx) // so that an unfinished sync never looks like a whole one
				}
				ok, err := s.createLease(gctx, l)
				if ok {
					n.Add(1)
				}
				return err
			})
		}
		if err = g.Wait(); err != nil {
			break
		}
	}
	created = int(n.Load())
	if created > 0 {
		s.cfg.Logger.Info("leases created", "stream", s.cfg.Settings.Stream.String(),
			"created", created, "planned", len(plan), "shards", len(shards))
	}
	return created, err
}

// createLease creates one lease if there is none of that key. Of its figures the
// last one counts failures too, as KCL's does.
func (s *Syncer) createLease(ctx context.Context, l lease.Lease) (created bool, err error) {
	start := time.Now()
	created, err = s.cfg.Store.Create(ctx, l)
	s.scope.Done("CreateLease", start, err, metrics.Detailed)
	at := "SEQUENCE_NUMBER"
	if l.Checkpoint.IsSentinel() {
		at = l.Checkpoint.SequenceNumber
	}
	s.scope.Count("CreateLease_"+at+".Success", 1, metrics.Detailed)
	if err != nil {
		return false, fmt.Errorf("create lease %s: %w", l.Key, err)
	}
	return created, nil
}
