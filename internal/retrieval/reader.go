package retrieval

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/chance"
	"github.com/go-kcl/kcl/metrics"
)

// Client is what is called of Kinesis.
type Client interface {
	GetShardIterator(context.Context, *kinesis.GetShardIteratorInput, ...func(*kinesis.Options)) (*kinesis.GetShardIteratorOutput, error)
	GetRecords(context.Context, *kinesis.GetRecordsInput, ...func(*kinesis.Options)) (*kinesis.GetRecordsOutput, error)
	DescribeStreamSummary(context.Context, *kinesis.DescribeStreamSummaryInput, ...func(*kinesis.Options)) (*kinesis.DescribeStreamSummaryOutput, error)
	ListShards(context.Context, *kinesis.ListShardsInput, ...func(*kinesis.Options)) (*kinesis.ListShardsOutput, error)
}

// NoPrefetch is the MaxPending of a reader that calls GetRecords only when its
// consumer waits for a batch.
const NoPrefetch = -1

const (
	defaultMaxRecords     = 10000
	defaultIdleTime       = 1500 * time.Millisecond
	defaultBytesPerSecond = 2 << 20
	defaultRequestTimeout = 30 * time.Second
	defaultMaxPending     = 4
	defaultMaxBytes       = 8 << 20
	defaultMaxRecordCount = 30000
)

// Config is what all shards of a worker share. Zero fields take KCL's defaults.
type Config struct {
	Client Client
	// Budget bounds the memory of all shards. Default: one of its own, of
	// [DefaultBudget].
	Budget *Budget

	// MaxRecords is the Limit of GetRecords: 1 to 10,000. Default 10,000.
	MaxRecords int
	// IdleTime is the least time between two GetRecords calls for a shard, 200 ms
	// or more. Default 1500 ms.
	IdleTime time.Duration
	// ReducedTPSThreshold makes calls at most this often while the shard's tip is
	// nearer than this. Default 0: off.
	ReducedTPSThreshold time.Duration
	// BytesPerSecond is how fast the service lets a shard be read; after a larger
	// response it refuses calls until the excess is paid off, so none is made
	// before. Default 2 MiB; negative: no such pause.
	BytesPerSecond int
	// RequestTimeout ends a call. Default 30 s.
	RequestTimeout time.Duration

	// MaxPending, MaxRecordCount and MaxBytes bound what is fetched ahead for a
	// shard: batches, records and bytes of data. A call is made when nothing is
	// queued or all three are below their bound, so one response may exceed them.
	// Defaults 4, 30,000 and 8 MiB. MaxPending may be [NoPrefetch].
	MaxPending     int
	MaxRecordCount int
	MaxBytes       int

	// TimeoutsToIgnore is how many calls in a row may get no answer in time
	// before that is worth a warning. Default 0.
	TimeoutsToIgnore int

	Logger  *slog.Logger
	Metrics metrics.Recorder

	// Random returns a number in [0, 1). Default [chance.Float64].
	Random func() float64
}

// Reader opens shards for reading.
type Reader struct {
	cfg Config
	// found has the streams that were found once, so that a later "not found"
	// tells of a deletion and not of a wrong name.
	found sync.Map // string of the StreamIdentifier → struct{}
}

// Found says that the stream exists, or did: "not found" then tells of its
// deletion. Reading a shard of it says so too.
func (r *Reader) Found(stream kcl.StreamIdentifier) { r.found.LoadOrStore(stream.String(), struct{}{}) }

// NewReader returns a Reader. It makes no call.
func NewReader(cfg Config) *Reader {
	cfg.MaxRecords = cmp.Or(cfg.MaxRecords, defaultMaxRecords)
	cfg.IdleTime = cmp.Or(cfg.IdleTime, defaultIdleTime)
	cfg.BytesPerSecond = cmp.Or(cfg.BytesPerSecond, defaultBytesPerSecond)
	cfg.RequestTimeout = cmp.Or(cfg.RequestTimeout, defaultRequestTimeout)
	cfg.MaxPending = cmp.Or(cfg.MaxPending, defaultMaxPending)
	cfg.MaxRecordCount = cmp.Or(cfg.MaxRecordCount, defaultMaxRecordCount)
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, defaultMaxBytes)
	if cfg.Budget == nil {
		cfg.Budget = NewBudget(0)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Random == nil {
		cfg.Random = chance.Float64
	}
	return &Reader{cfg: cfg}
}

// Shard says what to read and from where.
type Shard struct {
	Stream  kcl.StreamIdentifier
	ShardID string
	// Checkpoint is the lease's: a sequence number, to begin at (not behind) it,
	// or a sentinel.
	Checkpoint kcl.Position
	// Timestamp is where AT_TIMESTAMP begins: it is not stored in the lease. If
	// it is zero, reading begins at TRIM_HORIZON, lest records be lost.
	Timestamp time.Time
}

// Dimensions returns those that KCL splits the figures of a shard by.
func Dimensions(stream kcl.StreamIdentifier, shardID string) []metrics.Dimension {
	dims := []metrics.Dimension{metrics.Shard(shardID)}
	if stream.CreationEpoch != 0 {
		dims = append(dims, metrics.Stream(stream.String()))
	}
	return dims
}
