package kinesis

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

// Do lets an SDK client call the service, without the care of a real front.
func (w *world) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	a := w.Prepare(&wire.Call{Caller: w.Caller, Operation: operation, Codec: wire.JSON11, Body: body}).Run()
	return &http.Response{
		StatusCode: a.Status,
		Header:     http.Header{"Content-Type": {a.ContentType}},
		Body:       io.NopCloser(bytes.NewReader(a.Body)),
		Request:    r,
	}, nil
}

// The SDK, which knows the service's model, finds each member under its name.
func TestTheSDKReadsEveryMember(t *testing.T) {
	bubble(t, Config{NoLimits: true}, func(t *testing.T, w *world) {
		ctx := t.Context()
		c := sdk.New(sdk.Options{
			Region: testRegion, HTTPClient: w, BaseEndpoint: aws.String("http://kinesis.test"),
			Credentials: credentials.NewStaticCredentialsProvider("key", "secret", ""),
		})
		name, arn := aws.String("s"), aws.String(testARN+"s")

		_, err := c.CreateStream(ctx, &sdk.CreateStreamInput{StreamName: name, ShardCount: aws.Int32(2), Tags: map[string]string{"a": "b"},
			StreamModeDetails: &types.StreamModeDetails{StreamMode: types.StreamModeProvisioned}})
		require.NoError(t, err)
		require.NoError(t, sdk.NewStreamExistsWaiter(c).Wait(ctx, &sdk.DescribeStreamInput{StreamName: name}, time.Minute))
		origin := bubbleStart.Unix()
		start := func(shard uint32, at int64) *types.SequenceNumberRange {
			return &types.SequenceNumberRange{StartingSequenceNumber: aws.String(sequence{created: at, second: at, shard: shard}.String())}
		}
		lower := types.HashKeyRange{StartingHashKey: aws.String("0"), EndingHashKey: aws.String("170141183460469231731687303715884105727")}
		upper := types.HashKeyRange{StartingHashKey: aws.String("170141183460469231731687303715884105728"), EndingHashKey: aws.String(maxKeyText)}

		described, err := c.DescribeStream(ctx, &sdk.DescribeStreamInput{StreamName: name, Limit: aws.Int32(1)})
		require.NoError(t, err)
		assert.Equal(t, &types.StreamDescription{
			StreamName: name, StreamARN: arn, StreamStatus: types.StreamStatusActive, EncryptionType: types.EncryptionTypeNone,
			RetentionPeriodHours: aws.Int32(24), StreamCreationTimestamp: aws.Time(bubbleStart), HasMoreShards: aws.Bool(true),
			StreamModeDetails:  &types.StreamModeDetails{StreamMode: types.StreamModeProvisioned},
			EnhancedMonitoring: []types.EnhancedMetrics{{ShardLevelMetrics: []types.MetricsName{}}},
			Shards:             []types.Shard{{ShardId: aws.String(shardID(0)), HashKeyRange: &lower, SequenceNumberRange: start(0, origin-3)}},
		}, described.StreamDescription)
		summary, err := c.DescribeStreamSummary(ctx, &sdk.DescribeStreamSummaryInput{StreamARN: arn})
		require.NoError(t, err)
		assert.Equal(t, &types.StreamDescriptionSummary{
			StreamName: name, StreamARN: arn, StreamStatus: types.StreamStatusActive, EncryptionType: types.EncryptionTypeNone,
			RetentionPeriodHours: aws.Int32(24), StreamCreationTimestamp: aws.Time(bubbleStart),
			StreamModeDetails:  &types.StreamModeDetails{StreamMode: types.StreamModeProvisioned},
			EnhancedMonitoring: []types.EnhancedMetrics{{ShardLevelMetrics: []types.MetricsName{}}},
			OpenShardCount:     aws.Int32(2), ConsumerCount: aws.Int32(0), MaxRecordSizeInKiB: aws.Int32(1024),
		}, summary.StreamDescriptionSummary)
		streams, err := c.ListStreams(ctx, &sdk.ListStreamsInput{})
		require.NoError(t, err)
		assert.Equal(t, []types.StreamSummary{{StreamName: name, StreamARN: arn, StreamStatus: types.StreamStatusActive,
			StreamCreationTimestamp: aws.Time(bubbleStart), StreamModeDetails: &types.StreamModeDetails{StreamMode: types.StreamModeProvisioned}}},
			streams.StreamSummaries)
		assert.Equal(t, []string{"s"}, streams.StreamNames)
		assert.False(t, *streams.HasMoreStreams)

		put, err := c.PutRecords(ctx, &sdk.PutRecordsInput{StreamARN: arn, Records: []types.PutRecordsRequestEntry{
			{PartitionKey: aws.String("a"), Data: []byte("one")},
			{PartitionKey: aws.String("b"), Data: []byte{}, ExplicitHashKey: aws.String("0")},
		}})
		require.NoError(t, err)
		assert.Zero(t, *put.FailedRecordCount)
		one, err := c.PutRecord(ctx, &sdk.PutRecordInput{StreamName: name, PartitionKey: aws.String("c"), Data: []byte("three"),
			ExplicitHashKey: aws.String("1"), SequenceNumberForOrdering: put.Records[1].SequenceNumber})
		require.NoError(t, err)
		assert.Equal(t, shardID(0), *one.ShardId)
		putAt := time.Now().UTC()

		_, err = c.SplitShard(ctx, &sdk.SplitShardInput{StreamName: name, ShardToSplit: aws.String(shardID(0)), NewStartingHashKey: aws.String("2")})
		require.NoError(t, err)
		w.awaitActive("s")
		ended := w.last.sec()
		time.Sleep(time.Second)
		_, err = c.MergeShards(ctx, &sdk.MergeShardsInput{StreamName: name, ShardToMerge: aws.String(shardID(3)), AdjacentShardToMerge: aws.String(shardID(1))})
		require.NoError(t, err)
		w.awaitActive("s")
		time.Sleep(time.Second)
		page, err := c.ListShards(ctx, &sdk.ListShardsInput{StreamName: name, MaxResults: aws.Int32(1), StreamCreationTimestamp: aws.Time(bubbleStart),
			ShardFilter: &types.ShardFilter{Type: types.ShardFilterTypeAfterShardId, ShardId: aws.String(shardID(3))}})
		require.NoError(t, err)
		assert.Equal(t, aws.String(shardID(3)), page.Shards[0].ParentShardId)
		assert.Equal(t, aws.String(shardID(1)), page.Shards[0].AdjacentParentShardId)
		assert.Nil(t, page.NextToken)
		first, err := c.ListShards(ctx, &sdk.ListShardsInput{StreamName: name, MaxResults: aws.Int32(1),
			ShardFilter: &types.ShardFilter{Type: types.ShardFilterTypeFromTimestamp, Timestamp: aws.Time(bubbleStart)}})
		require.NoError(t, err)
		next, err := c.ListShards(ctx, &sdk.ListShardsInput{NextToken: first.NextToken})
		require.NoError(t, err)
		assert.Len(t, next.Shards, 4)

		it, err := c.GetShardIterator(ctx, &sdk.GetShardIteratorInput{StreamName: name, ShardId: aws.String(shardID(0)),
			ShardIteratorType: types.ShardIteratorTypeAtSequenceNumber, StartingSequenceNumber: put.Records[0].SequenceNumber})
		require.NoError(t, err)
		records, err := c.GetRecords(ctx, &sdk.GetRecordsInput{ShardIterator: it.ShardIterator, Limit: aws.Int32(2), StreamARN: arn})
		require.NoError(t, err)
		assert.Equal(t, []types.Record{
			{PartitionKey: aws.String("a"), Data: []byte("one"), SequenceNumber: put.Records[0].SequenceNumber, ApproximateArrivalTimestamp: aws.Time(putAt)},
			{PartitionKey: aws.String("b"), Data: []byte{}, SequenceNumber: put.Records[1].SequenceNumber, ApproximateArrivalTimestamp: aws.Time(putAt)},
		}, records.Records)
		assert.Positive(t, *records.MillisBehindLatest)
		records, err = c.GetRecords(ctx, &sdk.GetRecordsInput{ShardIterator: records.NextShardIterator})
		require.NoError(t, err)
		assert.Len(t, records.Records, 1)
		assert.Nil(t, records.NextShardIterator)
		assert.Equal(t, []types.ChildShard{
			{ShardId: aws.String(shardID(2)), ParentShards: []string{shardID(0)},
				HashKeyRange: &types.HashKeyRange{StartingHashKey: aws.String("0"), EndingHashKey: aws.String("1")}},
			{ShardId: aws.String(shardID(3)), ParentShards: []string{shardID(0)},
				HashKeyRange: &types.HashKeyRange{StartingHashKey: aws.String("2"), EndingHashKey: lower.EndingHashKey}},
		}, records.ChildShards)
		shards, err := c.ListShards(ctx, &sdk.ListShardsInput{StreamARN: arn})
		require.NoError(t, err)
		closed := start(0, origin-3)
		closed.EndingSequenceNumber = aws.String(sequence{created: origin - 3, index: endIndex, second: ended}.String())
		assert.Equal(t, types.Shard{ShardId: aws.String(shardID(0)), HashKeyRange: &lower, SequenceNumberRange: closed}, shards.Shards[0])
		assert.Equal(t, &upper, shards.Shards[1].HashKeyRange)

		scaled, err := c.UpdateShardCount(ctx, &sdk.UpdateShardCountInput{StreamName: name, TargetShardCount: aws.Int32(2), ScalingType: types.ScalingTypeUniformScaling})
		require.NoError(t, err)
		assert.EqualValues(t, 2, *scaled.CurrentShardCount)
		assert.EqualValues(t, 2, *scaled.TargetShardCount)
		assert.Equal(t, "s", *scaled.StreamName)
		assert.Equal(t, testARN+"s", *scaled.StreamARN)
		w.awaitActive("s")
		_, err = c.IncreaseStreamRetentionPeriod(ctx, &sdk.IncreaseStreamRetentionPeriodInput{StreamName: name, RetentionPeriodHours: aws.Int32(48)})
		require.NoError(t, err)
		_, err = c.DecreaseStreamRetentionPeriod(ctx, &sdk.DecreaseStreamRetentionPeriodInput{StreamName: name, RetentionPeriodHours: aws.Int32(24)})
		require.NoError(t, err)
		_, err = c.UpdateMaxRecordSize(ctx, &sdk.UpdateMaxRecordSizeInput{StreamARN: arn, MaxRecordSizeInKiB: aws.Int32(2048)})
		require.NoError(t, err)
		w.awaitActive("s")
		_, err = c.UpdateStreamMode(ctx, &sdk.UpdateStreamModeInput{StreamARN: arn, StreamModeDetails: &types.StreamModeDetails{StreamMode: types.StreamModeOnDemand}})
		require.NoError(t, err)
		w.awaitActive("s")
		_, err = c.AddTagsToStream(ctx, &sdk.AddTagsToStreamInput{StreamName: name, Tags: map[string]string{"c": "d"}})
		require.NoError(t, err)
		_, err = c.RemoveTagsFromStream(ctx, &sdk.RemoveTagsFromStreamInput{StreamName: name, TagKeys: []string{"c"}})
		require.NoError(t, err)
		tags, err := c.ListTagsForStream(ctx, &sdk.ListTagsForStreamInput{StreamName: name})
		require.NoError(t, err)
		assert.Equal(t, []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}, tags.Tags)
		assert.False(t, *tags.HasMoreTags)
		limits, err := c.DescribeLimits(ctx, &sdk.DescribeLimitsInput{})
		require.NoError(t, err)
		assert.Equal(t, []int32{20_000, 0, 1, 50},
			[]int32{*limits.ShardLimit, *limits.OpenShardCount, *limits.OnDemandStreamCount, *limits.OnDemandStreamCountLimit})

		_, err = c.DeleteStream(ctx, &sdk.DeleteStreamInput{StreamName: name, EnforceConsumerDeletion: aws.Bool(true)})
		require.NoError(t, err)
		require.NoError(t, sdk.NewStreamNotExistsWaiter(c).Wait(ctx, &sdk.DescribeStreamInput{StreamName: name}, time.Minute))
		_, err = c.ListShards(ctx, &sdk.ListShardsInput{StreamName: name})
		var notFound *types.ResourceNotFoundException
		require.True(t, errors.As(err, &notFound))
		assert.Equal(t, "Stream s under account 012345678901 not found.", *notFound.Message)
		_, err = c.RegisterStreamConsumer(ctx, &sdk.RegisterStreamConsumerInput{StreamARN: arn, ConsumerName: aws.String("n")})
		assert.ErrorContains(t, err, "UnknownOperationException")
	})
}
