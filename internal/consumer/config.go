package consumer

import (
	"context"
	"log/slog"
	"time"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/chance"
	"github.com/go-kcl/kcl/internal/checkpoint"
	"github.com/go-kcl/kcl/internal/retrieval"
	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/metrics"
)

// Leases is what is asked of the worker's held leases.
type Leases interface {
	checkpoint.Leases
	// Get returns a held lease.
	Get(key string) (lease.Lease, bool)
	// Confirm makes sure that the tenure goes on.
	Confirm(ctx context.Context, key, token string) error
	// Delivered counts what is handed to the processor.
	Delivered(key, token string, bytes int)
	// Flush stores an accepted position.
	Flush(ctx context.Context, key, token string) error
	// Transfer completes a pending hand-off, with an error that wraps
	// [lease.ErrNoHandOff] if there is none; Release gives the lease back. Both
	// store an accepted position first and drop the lease in any case.
	Transfer(ctx context.Context, key, token string) error
	Release(ctx context.Context, key, token string) error
	// Drop forgets the lease and writes nothing.
	Drop(key, token string)
}

// Store is what is asked of the lease table.
type Store interface {
	Get(ctx context.Context, key string) (lease.Lease, bool, error)
	GetConsistent(ctx context.Context, key string) (lease.Lease, bool, error)
	Create(ctx context.Context, l lease.Lease) (created bool, err error)
	SetChildren(ctx context.Context, key string, children []string) error
}

// Source delivers a shard's batches in order. It goes on for ever, through
// failures, up to the batch that is the shard's End.
type Source interface {
	// Next fails only with ctx.
	Next(ctx context.Context) (*retrieval.Batch, error)
	// Close ends all calls to Kinesis before it returns. It may be called twice.
	Close()
	Status() retrieval.Status
}

// DefaultWarnAfter is what a Config's WarnAfter is by default.
const DefaultWarnAfter = time.Minute

const (
	defaultTaskBackoff = 500 * time.Millisecond
	// leaveTimeout bounds the writes that give a lease up.
	leaveTimeout = 5 * time.Second
)

// Config is what all consumers of a worker share. One of NewProcessor and
// Handler is set.
type Config struct {
	NewProcessor kcl.ProcessorFactory
	// Handler processes the batches of every shard; what it returns nil for is
	// checkpointed with the leases' renewals.
	Handler func(ctx context.Context, b *kcl.Batch) error

	// OnFailure says what a failed callback leads to. Default: the zero Action.
	OnFailure func(kcl.Failure) kcl.Action
	// CallWithEmptyBatches lets ProcessRecords be called without records too.
	CallWithEmptyBatches bool
	// WarnAfter is how long a shard may deliver nothing, for want of an answer
	// from Kinesis or from the processor, before [Consumer.Report] speaks of it.
	// Default 1 minute. KCL: logWarningForTaskAfterMillis.
	WarnAfter time.Duration

	Leases Leases
	Store  Store
	// Open starts to read a shard; ctx ending ends that.
	Open func(ctx context.Context, shard retrieval.Shard) Source
	// StopWorker is told when [kcl.StopWorker] was the answer to a failure. It
	// must return at once.
	StopWorker func(cause error)
	// ParentPollInterval is how often the leases of parents on other workers are
	// read. Default 0: every second, or what ParentPolls leaves of that. KCL:
	// parentShardPollIntervalMillis.
	ParentPollInterval time.Duration
	// ParentPolls paces those reads of all consumers, unless ParentPollInterval
	// is set. Default: one for each.
	ParentPolls *ParentPolls
	// TaskBackoff is the wait after a failed call to the lease table, doubled for
	// each further failure up to 8 s. Default 500 ms. KCL: taskBackoffTimeMillis.
	TaskBackoff time.Duration

	Logger  *slog.Logger
	Metrics metrics.Recorder
	// Random returns a number in [0, 1). Default [chance.Float64].
	Random func() float64
}

func (c Config) withDefaults() Config {
	if c.WarnAfter <= 0 {
		c.WarnAfter = DefaultWarnAfter
	}
	if c.TaskBackoff <= 0 {
		c.TaskBackoff = defaultTaskBackoff
	}
	if c.StopWorker == nil {
		c.StopWorker = func(error) {}
	}
	if c.ParentPolls == nil {
		c.ParentPolls = new(ParentPolls)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Random == nil {
		c.Random = chance.Float64
	}
	return c
}
