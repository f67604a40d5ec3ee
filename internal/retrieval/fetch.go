package retrieval

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/metrics"
)

// fetch makes one GetRecords call, and the calls it needs first. After a
// failure it has recorded that and returns false.
func (p *Poller) fetch(ctx context.Context) (*Batch, bool) {
	b, err := p.read(ctx)
	if err != nil {
		p.account.settle(p.reserved, 0)
		if ctx.Err() == nil {
			p.failure(ctx, err)
		}
		return nil, false
	}
	p.account.settle(p.reserved, b.footprint)
	b.account, p.reserved = p.account, b.footprint
	if n := len(b.Records); n > 0 {
		p.last = b.Records[n-1].Position.SequenceNumber
	}
	p.success(b)
	return b, true
}

func (p *Poller) read(ctx context.Context) (*Batch, error) {
	out, err := p.getRecords(ctx)
	if err == nil {
		p.r.Found(p.shard.Stream)
		if err = validate(out); err == nil {
			p.iterator = aws.ToString(out.NextShardIterator)
			return newBatch(out), nil
		}
	}
	switch classify(err) {
	case kindExpired, kindRefused:
		p.iterator = ""
	case kindNotFound:
		p.iterator = ""
		gone, goneErr := p.r.gone(ctx, p.shard.Stream, p.shard.ShardID)
		if gone {
			return &Batch{End: true, ReceivedAt: time.Now()}, nil
		}
		if goneErr != nil {
			return nil, fmt.Errorf("%w; %w", err, goneErr)
		}
	}
	return nil, err
}

// getRecords calls GetRecords, with a new iterator if it has none.
func (p *Poller) getRecords(ctx context.Context) (*kinesis.GetRecordsOutput, error) {
	if p.iterator == "" {
		if err := p.newIterator(ctx); err != nil {
			return nil, err
		}
	}
	return call(ctx, p, "getRecords", func(ctx context.Context) (*kinesis.GetRecordsOutput, error) {
		return p.r.cfg.Client.GetRecords(ctx, &kinesis.GetRecordsInput{
			ShardIterator: &p.iterator,
			StreamARN:     optional(p.shard.Stream.ARN),
			Limit:         aws.Int32(int32(p.r.cfg.MaxRecords)),
		}, withoutRetries)
	})
}

func (p *Poller) newIterator(ctx context.Context) error {
	in := startAt(p.shard, p.last, p.since)
	in.StreamName, in.StreamARN = &p.shard.Stream.Name, optional(p.shard.Stream.ARN)
	in.ShardId = &p.shard.ShardID
	asked := time.Now()
	out, err := call(ctx, p, "getShardIterator", func(ctx context.Context) (*kinesis.GetShardIteratorOutput, error) {
		return p.r.cfg.Client.GetShardIterator(ctx, in, withoutRetries)
	})
	if err != nil {
		return err
	}
	p.iterator = aws.ToString(out.ShardIterator)
	if p.since.IsZero() {
		// The earlier of the two clocks: a time in the service's future would be
		// refused, and one too late would lose records.
		p.since = asked
		if t, ok := awsmiddleware.GetServerTime(out.ResultMetadata); ok && t.Before(asked) {
			p.since = t
		}
	}
	return nil
}

// startAt says where an iterator is to begin, given the last sequence number
// read and the time of the first iterator, if any.
//
//	last read       AFTER_SEQUENCE_NUMBER last
//	else checkpoint
//	  number        AT_SEQUENCE_NUMBER number
//	  TRIM_HORIZON  TRIM_HORIZON
//	  AT_TIMESTAMP  AT_TIMESTAMP, or TRIM_HORIZON if the timestamp is not known
//	  LATEST        LATEST; later AT_TIMESTAMP of the first iterator
//	  SHARD_END     LATEST, whose first answer is the end
func startAt(s Shard, last string, since time.Time) *kinesis.GetShardIteratorInput {
	if last != "" {
		return &kinesis.GetShardIteratorInput{
			ShardIteratorType: types.ShardIteratorTypeAfterSequenceNumber, StartingSequenceNumber: &last,
		}
	}
	atTimestamp := func(t time.Time) *kinesis.GetShardIteratorInput {
		return &kinesis.GetShardIteratorInput{ShardIteratorType: types.ShardIteratorTypeAtTimestamp, Timestamp: &t}
	}
	at := s.Checkpoint.SequenceNumber
	switch {
	case at == kcl.AtTimestampSentinel.SequenceNumber && !s.Timestamp.IsZero():
		return atTimestamp(s.Timestamp)
	case at == kcl.AtLatest.SequenceNumber && !since.IsZero():
		return atTimestamp(since)
	case at == kcl.AtLatest.SequenceNumber, at == kcl.ShardEnd.SequenceNumber:
		return &kinesis.GetShardIteratorInput{ShardIteratorType: types.ShardIteratorTypeLatest}
	case s.Checkpoint.IsSentinel():
		return &kinesis.GetShardIteratorInput{ShardIteratorType: types.ShardIteratorTypeTrimHorizon}
	}
	return &kinesis.GetShardIteratorInput{
		ShardIteratorType: types.ShardIteratorTypeAtSequenceNumber, StartingSequenceNumber: &at,
	}
}

// call makes one call with its timeout and reports its outcome and time.
func call[T any](ctx context.Context, p *Poller, name string, f func(context.Context) (T, error)) (T, error) {
	timeout := p.r.cfg.RequestTimeout
	callCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	start := time.Now()
	out, err := f(callCtx)
	if err != nil && callCtx.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w after %v: %w", context.DeadlineExceeded, timeout, err)
	}
	if ctx.Err() == nil {
		p.scope.Done("KinesisDataFetcher."+name, start, err, metrics.Detailed)
	}
	return out, err
}

// withoutRetries leaves repeating a call to the poller, whose pace the SDK does
// not know.
func withoutRetries(o *kinesis.Options) { o.Retryer = aws.NopRetryer{} }

func (p *Poller) success(b *Batch) {
	if p.history.failures > 0 {
		p.log.Debug("reading goes on", "failures", p.history.failures)
	}
	p.history.failures, p.repeated = 0, 0
	p.history.lastOK = time.Now()
	p.history.behind, p.history.behindKnown, p.history.bytes = b.Behind, b.BehindKnown, b.Bytes
	p.mu.Lock()
	p.status = Status{Fetched: b.ReceivedAt}
	p.mu.Unlock()
}

func (p *Poller) failure(ctx context.Context, err error) {
	k := classify(err)
	if k != p.failed {
		p.repeated = 0
	}
	p.failed = k
	p.repeated++
	p.history.failures++
	if k == kindExpired {
		scope := p.scope
		scope.Dimensions = scope.Dimensions[1:] // KCL counts these by stream only
		scope.Count("ExpiredIterator", 1, metrics.Summary)
	}
	p.log.Log(ctx, level(k, p.repeated, p.r.cfg.TimeoutsToIgnore), "reading the shard failed; it is tried again",
		"reason", k.String(), "failures", p.history.failures, "err", err)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status.Failures == 0 {
		p.status.Since = time.Now()
	}
	p.status.Waiting, p.status.Failures, p.status.Err = k.String(), p.history.failures, err
}
