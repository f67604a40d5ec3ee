package shardsync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/chance"
	"github.com/go-kcl/kcl/internal/wait"
)

var (
	// ErrStreamNotFound says that the stream does not exist.
	ErrStreamNotFound = errors.New("stream not found")
	// ErrStreamNotActive says that the stream is being created or deleted and has
	// no list of shards at present.
	ErrStreamNotActive = errors.New("stream is not active")
)

const (
	// maxPages bounds a listing: ten million shards.
	maxPages = 10_000
	// maxRestarts is how often a listing begins anew because its token expired or
	// the service repeated a shard.
	maxRestarts = 3
	// maxChildTries is how often a closed shard is asked for its children: just
	// after the end the answer may lack them.
	maxChildTries = 10
	childPause    = time.Second
	// firstBackoff is the bound of the first pause after a throttled call.
	firstBackoff = 200 * time.Millisecond
)

// Client is what the Detector calls of a Kinesis client.
type Client interface {
	ListShards(context.Context, *kinesis.ListShardsInput, ...func(*kinesis.Options)) (*kinesis.ListShardsOutput, error)
	GetShardIterator(context.Context, *kinesis.GetShardIteratorInput, ...func(*kinesis.Options)) (*kinesis.GetShardIteratorOutput, error)
	GetRecords(context.Context, *kinesis.GetRecordsInput, ...func(*kinesis.Options)) (*kinesis.GetRecordsOutput, error)
}

// DetectorConfig sets up a [Detector]. Client, Stream and Logger are required.
type DetectorConfig struct {
	Client Client
	Stream kcl.StreamIdentifier
	// Attempts is the number of tries for one page; 0 means 50.
	Attempts int
	// Backoff is the mean pause after a throttled try once pauses have grown to
	// their full length; 0 means 1.5 s.
	Backoff time.Duration
	// Timeout bounds one call; 0 means 60 s.
	Timeout time.Duration
	Logger  *slog.Logger
}

// Detector lists the shards of one stream. One listing runs at a time.
type Detector struct {
	cfg DetectorConfig

	// turn is held for the length of a listing. It is a channel, for a wait
	// ends with its context.
	turn chan struct{}
}

// NewDetector returns a Detector.
func NewDetector(c DetectorConfig) *Detector {
	if c.Attempts == 0 {
		c.Attempts = 50
	}
	if c.Backoff == 0 {
		c.Backoff = 1500 * time.Millisecond
	}
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	return &Detector{cfg: c, turn: make(chan struct{}, 1)}
}

// filterFor returns the filter of a first listing for an initial position: the
// shards that were open then.
func filterFor(p kcl.InitialPosition) *types.ShardFilter {
	switch p.Sentinel() {
	case kcl.AtLatest:
		return &types.ShardFilter{Type: types.ShardFilterTypeAtLatest}
	case kcl.AtTimestampSentinel:
		return &types.ShardFilter{Type: types.ShardFilterTypeAtTimestamp, Timestamp: aws.Time(p.Timestamp())}
	default:
		return &types.ShardFilter{Type: types.ShardFilterTypeAtTrimHorizon}
	}
}

// List returns the stream's shards: all in retention, or those that filter,
// unless it is nil, lets pass. Its errors wrap [ErrStreamNotFound],
// [ErrStreamNotActive] or what the service said.
func (d *Detector) List(ctx context.Context, filter *types.ShardFilter) ([]Shard, error) {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	for restarts := 0; ; restarts++ {
		shards, err := d.list(ctx, filter)
		if !isExpiredToken(err) && !errors.Is(err, errRepeated) || restarts == maxRestarts {
			if err != nil {
				return nil, fmt.Errorf("list shards of stream %s: %w", d.cfg.Stream, err)
			}
			return shards, nil
		}
		d.cfg.Logger.Debug("listing begins anew", "stream", d.cfg.Stream.String(), "err", err)
	}
}

var (
	errRepeated  = errors.New("a shard is listed twice")
	errEmptyPage = errors.New("the client returned neither a page nor an error")
)

func (d *Detector) list(ctx context.Context, filter *types.ShardFilter) ([]Shard, error) {
	// A page after the first is named by its token alone: name and filter beside
	// it are refused.
	in := &kinesis.ListShardsInput{StreamName: aws.String(d.cfg.Stream.Name), ShardFilter: filter}
	if d.cfg.Stream.ARN != "" {
		in.StreamARN = aws.String(d.cfg.Stream.ARN)
	}
	var (
		shards []Shard
		seen   = make(map[string]bool)
	)
	for range maxPages {
		out, err := d.page(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, s := range out.Shards {
			shard, err := fromSDK(s)
			if shard.ID == "" {
				return nil, err
			}
			if err != nil {
				d.warnOfRange(err)
			}
			if seen[shard.ID] {
				return nil, fmt.Errorf("%w: %s", errRepeated, shard.ID)
			}
			seen[shard.ID] = true
			shards = append(shards, shard)
		}
		if aws.ToString(out.NextToken) == "" {
			return shards, nil
		}
		in = &kinesis.ListShardsInput{NextToken: out.NextToken}
	}
	return nil, fmt.Errorf("more than %d pages", maxPages)
}

// page fetches one page and waits out throttling.
func (d *Detector) page(ctx context.Context, in *kinesis.ListShardsInput) (*kinesis.ListShardsOutput, error) {
	err := errEmptyPage
	for attempt := range d.cfg.Attempts {
		if attempt > 0 && !errors.Is(err, errEmptyPage) {
			if !wait.For(ctx, backoff(attempt, d.cfg.Backoff)) {
				return nil, context.Cause(ctx)
			}
		}
		var out *kinesis.ListShardsOutput
		if out, err = d.call(ctx, in); err == nil {
			if out != nil {
				return out, nil
			}
			err = errEmptyPage
			continue
		}
		var (
			limited  *types.LimitExceededException
			inUse    *types.ResourceInUseException
			notFound *types.ResourceNotFoundException
		)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.As(err, &limited):
		case errors.As(err, &inUse):
			return nil, fmt.Errorf("%w: %w", ErrStreamNotActive, err)
		case errors.As(err, &notFound):
			return nil, fmt.Errorf("%w: %w", ErrStreamNotFound, err)
		default:
			return nil, err
		}
	}
	return nil, fmt.Errorf("after %d attempts: %w", d.cfg.Attempts, err)
}

func (d *Detector) call(ctx context.Context, in *kinesis.ListShardsInput) (*kinesis.ListShardsOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	return d.cfg.Client.ListShards(ctx, in)
}

func isExpiredToken(err error) bool {
	var expired *types.ExpiredNextTokenException
	return errors.As(err, &expired)
}

// backoff returns the pause before a try: anything up to a bound that doubles,
// until it is twice mean.
func backoff(attempt int, mean time.Duration) time.Duration {
	bound := 2 * mean
	if attempt < 16 {
		bound = min(bound, firstBackoff<<attempt)
	}
	return chance.Below(bound) + 1
}

// Child is a shard that a closed shard's last answer names.
type Child struct {
	ID        string
	Parents   []string
	HashRange kcl.HashRange
}

// Children asks a closed shard for the shards it was split or merged into. The
// service's ResourceNotFoundException, which stays reachable, says that the
// shard or its stream is gone. No child at all means that the shard is still
// open, or that the service did not say.
func (d *Detector) Children(ctx context.Context, shardID string) ([]Child, error) {
	in := &kinesis.GetShardIteratorInput{
		StreamName: aws.String(d.cfg.Stream.Name), ShardId: aws.String(shardID),
		ShardIteratorType: types.ShardIteratorTypeLatest,
	}
	var arn *string
	if d.cfg.Stream.ARN != "" {
		arn = aws.String(d.cfg.Stream.ARN)
		in.StreamARN = arn
	}
	it, err := d.iterator(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("children of shard %s: %w", shardID, err)
	}
	for attempt := range maxChildTries {
		if attempt > 0 {
			if !wait.For(ctx, childPause) {
				return nil, context.Cause(ctx)
			}
		}
		out, err := d.records(ctx, &kinesis.GetRecordsInput{ShardIterator: it, StreamARN: arn, Limit: aws.Int32(1)})
		if err != nil {
			return nil, fmt.Errorf("children of shard %s: %w", shardID, err)
		}
		if len(out.ChildShards) > 0 || out.NextShardIterator == nil {
			return d.children(out.ChildShards), nil
		}
		it = out.NextShardIterator
	}
	return nil, nil
}

func (d *Detector) iterator(ctx context.Context, in *kinesis.GetShardIteratorInput) (*string, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	out, err := d.cfg.Client.GetShardIterator(ctx, in)
	if err != nil {
		return nil, err
	}
	return out.ShardIterator, nil
}

func (d *Detector) records(ctx context.Context, in *kinesis.GetRecordsInput) (*kinesis.GetRecordsOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	return d.cfg.Client.GetRecords(ctx, in)
}

func (d *Detector) children(in []types.ChildShard) []Child {
	out := make([]Child, 0, len(in))
	for _, c := range in {
		id := aws.ToString(c.ShardId)
		r, err := rangeFromSDK(c.HashKeyRange)
		if err != nil {
			d.warnOfRange(fmt.Errorf("shard %s: %w", id, err))
		}
		out = append(out, Child{ID: id, Parents: c.ParentShards, HashRange: r})
	}
	return out
}

// warnOfRange tells of a hash range that is taken for not known: one shard's must
// not keep the others from being consumed.
func (d *Detector) warnOfRange(err error) {
	d.cfg.Logger.Warn("hash range of a shard cannot be read", "stream", d.cfg.Stream.String(), "err", err)
}
