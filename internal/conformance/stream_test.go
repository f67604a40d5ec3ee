package conformance

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// stream makes a stream and waits until it is ACTIVE.
func (t *T) stream(shards int32) *string {
	name := aws.String(t.Unused())
	_, err := t.kinesis.CreateStream(t.ctx, &kinesis.CreateStreamInput{StreamName: name, ShardCount: &shards})
	t.OK(err, "create stream")
	t.awaitStream(name)
	return name
}

func (t *T) awaitStream(name *string) {
	t.Await("stream ACTIVE", func() bool { return t.summary(name).StreamStatus == types.StreamStatusActive })
}

func (t *T) summary(name *string) *types.StreamDescriptionSummary {
	out, err := t.kinesis.DescribeStreamSummary(t.ctx, &kinesis.DescribeStreamSummaryInput{StreamName: name})
	t.OK(err, "describe stream")
	return out.StreamDescriptionSummary
}

func shardID(n int) *string { return aws.String(fmt.Sprintf("shardId-%012d", n)) }

// shards lists all pages of a filter.
func (t *T) shards(name *string, filter *types.ShardFilter) (all []types.Shard) {
	in := &kinesis.ListShardsInput{StreamName: name, ShardFilter: filter}
	for range 100 {
		out, err := t.kinesis.ListShards(t.ctx, in)
		t.OK(err, "list shards")
		all = append(all, out.Shards...)
		if out.NextToken == nil {
			return all
		}
		in = &kinesis.ListShardsInput{NextToken: out.NextToken}
	}
	t.Fatalf("the list of shards does not end")
	return nil
}

// numbers are the numbers in the ids of shards, as they were listed.
func numbers(shards []types.Shard) string {
	out := make([]string, len(shards))
	for i, s := range shards {
		out[i] = strings.TrimLeft(strings.TrimPrefix(*s.ShardId, "shardId-"), "0")
		if out[i] == "" {
			out[i] = "0"
		}
	}
	return strings.Join(out, " ")
}

// open are the shards without an ending number, in the order of their keys.
func open(shards []types.Shard) (out []types.Shard) {
	for _, s := range shards {
		if s.SequenceNumberRange.EndingSequenceNumber == nil {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b types.Shard) int {
		return integer(a.HashKeyRange.StartingHashKey).Cmp(integer(b.HashKeyRange.StartingHashKey))
	})
	return out
}

// integer reads a hash key or a sequence number.
func integer(s *string) *big.Int {
	n, ok := new(big.Int).SetString(aws.ToString(s), 10)
	if !ok {
		return big.NewInt(-1)
	}
	return n
}

const (
	maxHashKey  = "340282366920938463463374607431768211455"
	highHashKey = "340282366920938463463374607431768000000" // well within the last shard
)

// middle is where a shard is split in halves.
func middle(s types.Shard) string {
	sum := new(big.Int).Add(integer(s.HashKeyRange.StartingHashKey), integer(s.HashKeyRange.EndingHashKey))
	return sum.Add(sum, big.NewInt(1)).Rsh(sum, 1).String()
}

// split splits a shard in halves and waits until it is done.
func (t *T) split(name *string, n int) {
	_, err := t.kinesis.SplitShard(t.ctx, &kinesis.SplitShardInput{StreamName: name, ShardToSplit: shardID(n), NewStartingHashKey: aws.String(middle(t.shard(name, n)))})
	t.OK(err, "split")
	t.awaitStream(name)
}

// merge merges two shards, the lower one first, and waits until it is done.
func (t *T) merge(name *string, lower, upper int) {
	_, err := t.kinesis.MergeShards(t.ctx, &kinesis.MergeShardsInput{StreamName: name, ShardToMerge: shardID(lower), AdjacentShardToMerge: shardID(upper)})
	t.OK(err, "merge")
	t.awaitStream(name)
}

func (t *T) shard(name *string, n int) types.Shard {
	all := t.shards(name, nil)
	i := slices.IndexFunc(all, func(s types.Shard) bool { return *s.ShardId == *shardID(n) })
	if i < 0 {
		t.Fatalf("no shard %d among %s", n, numbers(all))
	}
	return all[i]
}

// putTo stores records with these texts in the shard that owns a hash key, and
// returns their sequence numbers.
func (t *T) putTo(name *string, hashKey string, texts ...string) (sequence []string) {
	for _, text := range texts {
		out, err := t.kinesis.PutRecord(t.ctx, &kinesis.PutRecordInput{StreamName: name, PartitionKey: aws.String("key of " + text), ExplicitHashKey: &hashKey, Data: []byte(text)})
		t.OK(err, "put")
		sequence = append(sequence, *out.SequenceNumber)
	}
	return sequence
}

// iterator gets one; more sets what its type needs.
func (t *T) iterator(name *string, n int, kind types.ShardIteratorType, more ...func(*kinesis.GetShardIteratorInput)) *string {
	in := &kinesis.GetShardIteratorInput{StreamName: name, ShardId: shardID(n), ShardIteratorType: kind}
	for _, m := range more {
		m(in)
	}
	out, err := t.kinesis.GetShardIterator(t.ctx, in)
	t.OK(err, "iterator")
	return out.ShardIterator
}

func startingAt(sequence string) func(*kinesis.GetShardIteratorInput) {
	return func(in *kinesis.GetShardIteratorInput) { in.StartingSequenceNumber = &sequence }
}

func since(at time.Time) func(*kinesis.GetShardIteratorInput) {
	return func(in *kinesis.GetShardIteratorInput) { in.Timestamp = &at }
}

func (t *T) read(iterator *string) *kinesis.GetRecordsOutput {
	out, err := t.kinesis.GetRecords(t.ctx, &kinesis.GetRecordsInput{ShardIterator: iterator})
	t.OK(err, "read")
	return out
}

// drain reads until the shard's end, or until want records have come, and returns
// their texts, and the last answer.
func (t *T) drain(iterator *string, want int) (texts []string, last *kinesis.GetRecordsOutput) {
	t.Await(fmt.Sprintf("%d records or the end", want), func() bool {
		last = t.read(iterator)
		for _, r := range last.Records {
			texts = append(texts, string(r.Data))
		}
		iterator = last.NextShardIterator
		return iterator == nil || want >= 0 && len(texts) >= want
	})
	return texts, last
}
