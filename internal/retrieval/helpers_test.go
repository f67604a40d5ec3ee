package retrieval

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
)

const shardID = "shardId-000000000007"

// shardServer is one shard, cut into pages, behind the client's interface. An
// iterator is the index of its page. Faults are scripted by the number of the
// call, from 0; a fault happens instead of the call.
type shardServer struct {
	pages    []page
	children []types.ChildShard // given with the last page when closed
	closed   bool
	behind   int64

	getFault      func(n int) error // nil error: no fault
	iteratorFault func(n int) error
	mangle        func(n int, out *kinesis.GetRecordsOutput)
	describe      func() (types.StreamStatus, error)
	shards        []string
	listErr       error

	mu        sync.Mutex
	gets      []getCall
	iterators []iteratorCall
	confirms  int // calls of DescribeStreamSummary and ListShards
}

type page []types.Record

type getCall struct {
	iterator string
	at       time.Time
}

type iteratorCall struct {
	in kinesis.GetShardIteratorInput
	at time.Time
}

func (s *shardServer) GetShardIterator(ctx context.Context, in *kinesis.GetShardIteratorInput, _ ...func(*kinesis.Options)) (*kinesis.GetShardIteratorOutput, error) {
	s.mu.Lock()
	n := len(s.iterators)
	s.iterators = append(s.iterators, iteratorCall{*in, time.Now()})
	s.mu.Unlock()
	if s.iteratorFault != nil {
		if err := s.iteratorFault(n); err != nil {
			return nil, hangOr(ctx, err)
		}
	}
	page := 0
	if in.StartingSequenceNumber != nil {
		page = s.pageOf(*in.StartingSequenceNumber)
		if in.ShardIteratorType == types.ShardIteratorTypeAfterSequenceNumber {
			page++
		}
	}
	return &kinesis.GetShardIteratorOutput{ShardIterator: aws.String(strconv.Itoa(page))}, nil
}

// pageOf returns the page whose last record has that number.
func (s *shardServer) pageOf(seq string) int {
	for i, p := range s.pages {
		if len(p) > 0 && *p[len(p)-1].SequenceNumber == seq {
			return i
		}
	}
	return 0
}

func (s *shardServer) GetRecords(ctx context.Context, in *kinesis.GetRecordsInput, _ ...func(*kinesis.Options)) (*kinesis.GetRecordsOutput, error) {
	s.mu.Lock()
	n := len(s.gets)
	s.gets = append(s.gets, getCall{*in.ShardIterator, time.Now()})
	s.mu.Unlock()
	if s.getFault != nil {
		if err := s.getFault(n); err != nil {
			return nil, hangOr(ctx, err)
		}
	}
	i, err := strconv.Atoi(*in.ShardIterator)
	if err != nil {
		return nil, apiError("InvalidArgumentException")
	}
	out := &kinesis.GetRecordsOutput{MillisBehindLatest: aws.Int64(s.behind)}
	next := i
	if i < len(s.pages) {
		out.Records = s.pages[i]
		next++
	}
	if s.closed && next >= len(s.pages) {
		out.ChildShards = s.children
	} else {
		out.NextShardIterator = aws.String(strconv.Itoa(next))
	}
	if s.mangle != nil {
		s.mangle(n, out)
	}
	return out, nil
}

func (s *shardServer) DescribeStreamSummary(context.Context, *kinesis.DescribeStreamSummaryInput, ...func(*kinesis.Options)) (*kinesis.DescribeStreamSummaryOutput, error) {
	s.mu.Lock()
	s.confirms++
	s.mu.Unlock()
	status, err := types.StreamStatusActive, error(nil)
	if s.describe != nil {
		status, err = s.describe()
	}
	if err != nil {
		return nil, err
	}
	return &kinesis.DescribeStreamSummaryOutput{
		StreamDescriptionSummary: &types.StreamDescriptionSummary{StreamStatus: status},
	}, nil
}

// ListShards gives out two shards a page.
func (s *shardServer) ListShards(_ context.Context, in *kinesis.ListShardsInput, _ ...func(*kinesis.Options)) (*kinesis.ListShardsOutput, error) {
	s.mu.Lock()
	s.confirms++
	s.mu.Unlock()
	if s.listErr != nil {
		return nil, s.listErr
	}
	if in.NextToken != nil && (in.StreamName != nil || in.ExclusiveStartShardId != nil) {
		return nil, apiError("InvalidArgumentException")
	}
	after := aws.ToString(in.ExclusiveStartShardId) + aws.ToString(in.NextToken)
	out := &kinesis.ListShardsOutput{}
	for _, id := range s.shards {
		if id <= after {
			continue
		}
		if len(out.Shards) == 2 {
			out.NextToken = out.Shards[1].ShardId
			break
		}
		out.Shards = append(out.Shards, types.Shard{ShardId: aws.String(id)})
	}
	return out, nil
}

func (s *shardServer) getTimes() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	var at []time.Time
	for _, c := range s.gets {
		at = append(at, c.at)
	}
	return at
}

func (s *shardServer) getIterators() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var its []string
	for _, c := range s.gets {
		its = append(its, c.iterator)
	}
	return its
}

// starts returns how each iterator was asked for: "AT_SEQUENCE_NUMBER 5".
func (s *shardServer) starts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, c := range s.iterators {
		out = append(out, startOf(&c.in))
	}
	return out
}

func startOf(in *kinesis.GetShardIteratorInput) string {
	words := []string{string(in.ShardIteratorType)}
	if in.StartingSequenceNumber != nil {
		words = append(words, *in.StartingSequenceNumber)
	}
	if in.Timestamp != nil {
		words = append(words, in.Timestamp.UTC().Format(time.RFC3339))
	}
	return strings.Join(words, " ")
}

var errHang = errors.New("hang")

// hangOr is err, or for errHang what the SDK gives once ctx has ended.
func hangOr(ctx context.Context, err error) error {
	if !errors.Is(err, errHang) {
		return err
	}
	<-ctx.Done()
	return &smithy.OperationError{ServiceID: "Kinesis", OperationName: "GetRecords", Err: &aws.RequestCanceledError{Err: ctx.Err()}}
}

func apiError(code string) error {
	return &smithy.OperationError{ServiceID: "Kinesis", OperationName: "GetRecords",
		Err: &smithy.GenericAPIError{Code: code, Message: "scripted"}}
}

// onCall scripts errors by call number.
func onCall(faults map[int]error) func(int) error {
	return func(n int) error { return faults[n] }
}

// pagesOf returns n pages of size records each, numbered from 1 on, with bytes
// of data each.
func pagesOf(n, size, bytes int) []page {
	pages := make([]page, n)
	seq := 0
	for i := range pages {
		for range size {
			seq++
			pages[i] = append(pages[i], types.Record{
				SequenceNumber: aws.String(strconv.Itoa(seq)), PartitionKey: aws.String("k"), Data: make([]byte, bytes),
			})
		}
	}
	return pages
}

func split() []types.ChildShard {
	return []types.ChildShard{
		{ShardId: aws.String("shardId-000000000008"), ParentShards: []string{shardID},
			HashKeyRange: &types.HashKeyRange{StartingHashKey: aws.String("0"), EndingHashKey: aws.String("9")}},
		{ShardId: aws.String("shardId-000000000009"), ParentShards: []string{shardID},
			HashKeyRange: &types.HashKeyRange{StartingHashKey: aws.String("10"), EndingHashKey: aws.String("19")}},
	}
}

func shardAt(checkpoint kcl.Position) Shard {
	return Shard{Stream: kcl.StreamIdentifier{Name: "orders"}, ShardID: shardID, Checkpoint: checkpoint}
}

// open opens the shard at TRIM_HORIZON and closes it with the test.
func open(t *testing.T, cfg Config, s *shardServer) *Poller {
	t.Helper()
	cfg.Client = s
	if cfg.Random == nil {
		cfg.Random = func() float64 { return 0 }
	}
	p := NewReader(cfg).Open(context.Background(), shardAt(kcl.AtTrimHorizon))
	t.Cleanup(p.Close)
	return p
}

func next(t *testing.T, p *Poller) *Batch {
	t.Helper()
	b, err := p.Next(context.Background())
	require.NoError(t, err)
	return b
}

// seqs returns the sequence numbers of a batch.
func seqs(b *Batch) []string {
	var out []string
	for _, r := range b.Records {
		out = append(out, r.Position.SequenceNumber)
	}
	return out
}

// drain takes batches until the shard's end and returns all sequence numbers.
func drain(t *testing.T, p *Poller) []string {
	t.Helper()
	var out []string
	for {
		b := next(t, p)
		out = append(out, seqs(b)...)
		b.Release()
		if b.End {
			return out
		}
	}
}

func upTo(n int) []string {
	var out []string
	for i := 1; i <= n; i++ {
		out = append(out, strconv.Itoa(i))
	}
	return out
}

// levels is a slog.Handler that keeps the level and reason of each line.
type levels struct {
	mu    sync.Mutex
	lines []string
}

func (l *levels) Enabled(context.Context, slog.Level) bool { return true }
func (l *levels) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *levels) WithGroup(string) slog.Handler            { return l }

func (l *levels) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "reason" {
			l.lines = append(l.lines, fmt.Sprintf("%s %s", r.Level, a.Value))
		}
		return true
	})
	return nil
}
