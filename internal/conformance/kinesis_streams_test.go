package conformance

import (
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

var streamCases = []kase{
	{name: "kinesis/streams/creation", run: streamCreation},
	{name: "kinesis/streams/description", run: streamDescription},
	{name: "kinesis/streams/unknown", run: unknownStream},
	{name: "kinesis/streams/refused names", run: refusedStreamNames},
	{name: "kinesis/streams/deletion", run: streamDeletion},
	{name: "kinesis/streams/list", run: streamList},
	{name: "kinesis/streams/by ARN", run: streamByARN},
	{name: "kinesis/streams/retention", run: retention},
	{name: "kinesis/streams/records expire", run: recordsExpire, hours: true},
	{name: "kinesis/streams/mode", run: streamMode},
}

func streamARN(name *string) *string {
	return aws.String("arn:aws:kinesis:us-east-1:" + account + ":stream/" + *name)
}

func streamCreation(t *T) {
	name := aws.String(t.Unused())
	create := func(shards int32) error {
		_, err := t.kinesis.CreateStream(t.ctx, &kinesis.CreateStreamInput{StreamName: name, ShardCount: &shards})
		return err
	}
	t.OK(create(2))
	t.Run("CREATING", func(t *T) {
		out, err := t.kinesis.DescribeStream(t.ctx, &kinesis.DescribeStreamInput{StreamName: name})
		t.OK(err)
		t.Equal(types.StreamStatusCreating, out.StreamDescription.StreamStatus)
		t.Equal(0, len(out.StreamDescription.Shards), "shards")
		t.Equal(false, aws.ToBool(out.StreamDescription.HasMoreShards), "more shards")
	})
	t.Run("no list while CREATING", func(t *T) {
		_, err := t.kinesis.ListShards(t.ctx, &kinesis.ListShardsInput{StreamName: name})
		t.Refused("ResourceInUseException", err)
	})
	t.Run("no put while CREATING", func(t *T) {
		_, err := t.kinesis.PutRecord(t.ctx, &kinesis.PutRecordInput{StreamName: name, PartitionKey: aws.String("a"), Data: []byte("x")})
		t.Refused("ResourceNotFoundException", err)
	})
	t.Run("no iterator while CREATING", func(t *T) {
		_, err := t.kinesis.GetShardIterator(t.ctx, &kinesis.GetShardIteratorInput{StreamName: name, ShardId: shardID(0), ShardIteratorType: types.ShardIteratorTypeLatest})
		t.Refused("ResourceNotFoundException", err)
	})
	t.Run("no split while CREATING", func(t *T) {
		another := aws.String(t.Unused())
		_, err := t.kinesis.CreateStream(t.ctx, &kinesis.CreateStreamInput{StreamName: another, ShardCount: aws.Int32(1)})
		t.OK(err)
		_, err = t.kinesis.SplitShard(t.ctx, &kinesis.SplitShardInput{StreamName: another, ShardToSplit: shardID(0), NewStartingHashKey: aws.String("10")})
		t.Refused("ResourceInUseException", err)
	})
	t.Run("name taken while CREATING", func(t *T) { t.Refused("ResourceInUseException", create(1)) })
	t.awaitStream(name)
	t.Run("name taken", func(t *T) {
		t.Refused("ResourceInUseException", create(1))
		t.Equal("0 1", numbers(t.shards(name, nil)))
	})
	t.Run("shards", func(t *T) {
		for _, s := range t.shards(name, nil) {
			t.True(s.ParentShardId == nil && s.AdjacentParentShardId == nil, "initial shards have no parents")
			t.True(s.SequenceNumberRange.EndingSequenceNumber == nil, "and are open")
		}
	})
	t.Run("no shards", func(t *T) {
		name = aws.String(t.Unused())
		t.Refused("ValidationException", create(0))
	})
}

func streamDescription(t *T) {
	name := t.stream(3)
	s := t.summary(name)
	t.Run("summary", func(t *T) {
		t.Equal(*streamARN(name), aws.ToString(s.StreamARN))
		t.Equal("24 3 0 NONE", fmt.Sprint(aws.ToInt32(s.RetentionPeriodHours), " ", aws.ToInt32(s.OpenShardCount), " ", aws.ToInt32(s.ConsumerCount), " ", s.EncryptionType))
		t.True(s.StreamModeDetails != nil && s.StreamModeDetails.StreamMode == types.StreamModeProvisioned, "provisioned")
	})
	t.Run("creation is a whole second", func(t *T) {
		t.Equal(0, s.StreamCreationTimestamp.Nanosecond())
	})
	t.Run("largest record", func(t *T) { t.Equal(int32(1024), aws.ToInt32(s.MaxRecordSizeInKiB)) })
	t.Run("three ranges", func(t *T) {
		var ranges []string
		for _, s := range open(t.shards(name, nil)) {
			ranges = append(ranges, *s.HashKeyRange.StartingHashKey+"-"+*s.HashKeyRange.EndingHashKey)
		}
		t.Equal([]string{
			"0-113427455640312821154458202477256070484", "113427455640312821154458202477256070485-226854911280625642308916404954512140969",
			"226854911280625642308916404954512140970-" + maxHashKey,
		}, ranges)
	})
	t.Run("pages", func(t *T) {
		var all []types.Shard
		in := &kinesis.DescribeStreamInput{StreamName: name, Limit: aws.Int32(2)}
		for range 5 {
			out, err := t.kinesis.DescribeStream(t.ctx, in)
			t.OK(err)
			d := out.StreamDescription
			all = append(all, d.Shards...)
			t.Equal(len(all) < 3, aws.ToBool(d.HasMoreShards), "more shards")
			if !aws.ToBool(d.HasMoreShards) {
				break
			}
			in.ExclusiveStartShardId = d.Shards[len(d.Shards)-1].ShardId
		}
		t.Equal("0 1 2", numbers(all))
	})
	t.Run("open shards are counted", func(t *T) {
		t.split(name, 1)
		t.Equal(int32(4), aws.ToInt32(t.summary(name).OpenShardCount))
	})
	t.Run("sequence numbers", func(t *T) {
		for _, s := range t.shards(name, nil) {
			t.Equal(56, len(*s.SequenceNumberRange.StartingSequenceNumber), "digits")
		}
	})
}

// onStream are the calls that name a stream.
func (t *T) onStream(name, arn *string) map[string]func() error {
	return map[string]func() error{
		"DescribeStream": func() error {
			_, err := t.kinesis.DescribeStream(t.ctx, &kinesis.DescribeStreamInput{StreamName: name, StreamARN: arn})
			return err
		},
		"DescribeStreamSummary": func() error {
			_, err := t.kinesis.DescribeStreamSummary(t.ctx, &kinesis.DescribeStreamSummaryInput{StreamName: name, StreamARN: arn})
			return err
		},
		"ListShards": func() error {
			_, err := t.kinesis.ListShards(t.ctx, &kinesis.ListShardsInput{StreamName: name, StreamARN: arn})
			return err
		},
		"GetShardIterator": func() error {
			_, err := t.kinesis.GetShardIterator(t.ctx, &kinesis.GetShardIteratorInput{StreamName: name, StreamARN: arn, ShardId: shardID(0), ShardIteratorType: types.ShardIteratorTypeLatest})
			return err
		},
		"PutRecord": func() error {
			_, err := t.kinesis.PutRecord(t.ctx, &kinesis.PutRecordInput{StreamName: name, StreamARN: arn, PartitionKey: aws.String("a"), Data: []byte("x")})
			return err
		},
		"PutRecords": func() error {
			_, err := t.kinesis.PutRecords(t.ctx, &kinesis.PutRecordsInput{StreamName: name, StreamARN: arn, Records: []types.PutRecordsRequestEntry{{PartitionKey: aws.String("a"), Data: []byte("x")}}})
			return err
		},
		"IncreaseStreamRetentionPeriod": func() error {
			_, err := t.kinesis.IncreaseStreamRetentionPeriod(t.ctx, &kinesis.IncreaseStreamRetentionPeriodInput{StreamName: name, StreamARN: arn, RetentionPeriodHours: aws.Int32(25)})
			return err
		},
		"SplitShard": func() error {
			_, err := t.kinesis.SplitShard(t.ctx, &kinesis.SplitShardInput{StreamName: name, StreamARN: arn, ShardToSplit: shardID(0), NewStartingHashKey: aws.String("10")})
			return err
		},
		"MergeShards": func() error {
			_, err := t.kinesis.MergeShards(t.ctx, &kinesis.MergeShardsInput{StreamName: name, StreamARN: arn, ShardToMerge: shardID(0), AdjacentShardToMerge: shardID(1)})
			return err
		},
		"UpdateShardCount": func() error {
			_, err := t.kinesis.UpdateShardCount(t.ctx, &kinesis.UpdateShardCountInput{StreamName: name, StreamARN: arn, TargetShardCount: aws.Int32(2), ScalingType: types.ScalingTypeUniformScaling})
			return err
		},
		"DeleteStream": func() error {
			_, err := t.kinesis.DeleteStream(t.ctx, &kinesis.DeleteStreamInput{StreamName: name, StreamARN: arn})
			return err
		},
	}
}

func unknownStream(t *T) {
	name := aws.String(t.Unused())
	for operation, call := range sorted(t.onStream(name, nil)) {
		t.Run(operation, func(t *T) { t.Refused("ResourceNotFoundException", call()) })
	}
	for operation, call := range sorted(t.onStream(nil, streamARN(name))) {
		t.Run(operation+" by ARN", func(t *T) { t.Refused("ResourceNotFoundException", call()) })
	}
	t.Run("text", func(t *T) { // which says whose stream was looked for
		_, err := t.kinesis.DescribeStreamSummary(t.ctx, &kinesis.DescribeStreamSummaryInput{StreamName: name})
		t.True(err != nil && contains(err, fmt.Sprintf("Stream %s under account %s not found", *name, account)), brief(err))
	})
}

func refusedStreamNames(t *T) {
	for label, name := range sorted(map[string]string{"empty": "", "odd": "a b", "slash": "a/b", "too long": strings.Repeat("s", 129)}) {
		t.Run("create/"+label, func(t *T) {
			_, err := t.kinesis.CreateStream(t.ctx, &kinesis.CreateStreamInput{StreamName: &name, ShardCount: aws.Int32(1)})
			t.Refused("ValidationException", err)
		})
		t.Run("list/"+label, func(t *T) {
			_, err := t.kinesis.ListShards(t.ctx, &kinesis.ListShardsInput{StreamName: &name})
			t.Refused("ValidationException", err)
		})
	}
	t.Run("no ARN", func(t *T) {
		_, err := t.kinesis.ListShards(t.ctx, &kinesis.ListShardsInput{StreamARN: aws.String("stream/s")})
		t.Refused("ValidationException", err)
	})
}

func streamDeletion(t *T) {
	name := t.stream(1)
	t.putTo(name, "0", "old")
	before := t.summary(name)
	old := t.iterator(name, 0, types.ShardIteratorTypeTrimHorizon)
	_, err := t.kinesis.DeleteStream(t.ctx, &kinesis.DeleteStreamInput{StreamName: name})
	t.OK(err)
	t.Run("DELETING", func(t *T) {
		out, err := t.kinesis.DescribeStream(t.ctx, &kinesis.DescribeStreamInput{StreamName: name})
		t.OK(err)
		t.Equal(types.StreamStatusDeleting, out.StreamDescription.StreamStatus)
		t.Equal(0, len(out.StreamDescription.Shards), "shards")
	})
	t.Run("name taken while DELETING", func(t *T) {
		_, err := t.kinesis.CreateStream(t.ctx, &kinesis.CreateStreamInput{StreamName: name, ShardCount: aws.Int32(1)})
		t.Refused("ResourceInUseException", err)
		if err == nil { // so that the rest makes sense
			_, _ = t.kinesis.DeleteStream(t.ctx, &kinesis.DeleteStreamInput{StreamName: name})
		}
	})
	t.Await("stream gone", func() bool {
		_, err := t.kinesis.DescribeStreamSummary(t.ctx, &kinesis.DescribeStreamSummaryInput{StreamName: name})
		return codeOf(err) == "ResourceNotFoundException"
	})
	t.Run("iterator of a deleted stream", func(t *T) {
		_, err := t.kinesis.GetRecords(t.ctx, &kinesis.GetRecordsInput{ShardIterator: old})
		t.Refused("ResourceNotFoundException", err)
	})
	t.Run("the next of that name is another", func(t *T) {
		_, err := t.kinesis.CreateStream(t.ctx, &kinesis.CreateStreamInput{StreamName: name, ShardCount: aws.Int32(1)})
		t.OK(err)
		t.awaitStream(name)
		after := t.summary(name)
		t.True(after.StreamCreationTimestamp.After(*before.StreamCreationTimestamp), "created later: ", before.StreamCreationTimestamp, after.StreamCreationTimestamp)
		texts, _ := t.drain(t.iterator(name, 0, types.ShardIteratorTypeTrimHorizon), 0)
		t.Equal(0, len(texts), "records")
	})
	t.Run("an old iterator finds nothing in it", func(t *T) {
		t.putTo(name, "0", "new")
		out, err := t.kinesis.GetRecords(t.ctx, &kinesis.GetRecordsInput{ShardIterator: old})
		t.True(err != nil || len(out.Records) == 0, "never records of another stream")
	})
}

func streamList(t *T) {
	want := map[string]bool{}
	for range 3 {
		want[*t.stream(1)] = true
	}
	t.Run("by token", func(t *T) {
		left := map[string]bool{}
		for name := range want {
			left[name] = true
		}
		in := &kinesis.ListStreamsInput{Limit: aws.Int32(2)}
		for range 1000 {
			out, err := t.kinesis.ListStreams(t.ctx, in)
			t.OK(err)
			t.True(len(out.StreamNames) <= 2, "a page holds no more than asked for")
			t.Equal(len(out.StreamNames), len(out.StreamSummaries), "summaries")
			for _, name := range out.StreamNames {
				delete(left, name)
			}
			t.Equal(out.NextToken != nil, aws.ToBool(out.HasMoreStreams))
			if out.NextToken == nil {
				break
			}
			in = &kinesis.ListStreamsInput{NextToken: out.NextToken, Limit: aws.Int32(2)}
		}
		t.Equal(0, len(left), "streams not listed")
	})
	t.Run("by name", func(t *T) {
		left := map[string]bool{}
		for name := range want {
			left[name] = true
		}
		in := &kinesis.ListStreamsInput{Limit: aws.Int32(2)}
		for range 1000 {
			out, err := t.kinesis.ListStreams(t.ctx, in)
			t.OK(err)
			for _, name := range out.StreamNames {
				delete(left, name)
			}
			if !aws.ToBool(out.HasMoreStreams) {
				break
			}
			in.ExclusiveStartStreamName = &out.StreamNames[len(out.StreamNames)-1]
		}
		t.Equal(0, len(left), "streams not listed")
	})
}

func streamByARN(t *T) {
	name := t.stream(2)
	arn := streamARN(name)
	calls := t.onStream(nil, arn)
	for _, operation := range []string{"DescribeStream", "DescribeStreamSummary", "ListShards", "GetShardIterator", "PutRecord", "PutRecords", "IncreaseStreamRetentionPeriod"} {
		t.Run(operation, func(t *T) { t.OK(calls[operation]()) })
	}
	t.Run("GetRecords", func(t *T) {
		out, err := t.kinesis.GetRecords(t.ctx, &kinesis.GetRecordsInput{StreamARN: arn, ShardIterator: t.iterator(name, 0, types.ShardIteratorTypeTrimHorizon)})
		t.OK(err)
		t.True(out.NextShardIterator != nil, "next iterator")
	})
	t.Run("name and ARN", func(t *T) {
		_, err := t.kinesis.ListShards(t.ctx, &kinesis.ListShardsInput{StreamName: name, StreamARN: arn})
		t.OK(err)
	})
	t.Run("MergeShards", func(t *T) {
		t.OK(calls["MergeShards"]())
		t.awaitStream(name)
		t.Equal("0 1 2", numbers(t.shards(name, nil)))
	})
}

func retention(t *T) {
	name := t.stream(1)
	hours := func() int32 { return aws.ToInt32(t.summary(name).RetentionPeriodHours) }
	increase := func(to int32) error {
		_, err := t.kinesis.IncreaseStreamRetentionPeriod(t.ctx, &kinesis.IncreaseStreamRetentionPeriodInput{StreamName: name, RetentionPeriodHours: &to})
		if err == nil {
			t.awaitStream(name)
		}
		return err
	}
	decrease := func(to int32) error {
		_, err := t.kinesis.DecreaseStreamRetentionPeriod(t.ctx, &kinesis.DecreaseStreamRetentionPeriodInput{StreamName: name, RetentionPeriodHours: &to})
		if err == nil {
			t.awaitStream(name)
		}
		return err
	}
	steps := []struct {
		name  string
		call  func(int32) error
		to    int32
		code  string
		after int32
	}{
		{"longer", increase, 48, "", 48},
		{"longer, to the same", increase, 48, "", 48},
		{"longer, to less", increase, 47, "InvalidArgumentException", 48},
		{"shorter, to more", decrease, 49, "InvalidArgumentException", 48},
		{"shorter", decrease, 24, "", 24},
		{"shorter than a day", decrease, 23, "InvalidArgumentException", 24},
		{"longer than a year", increase, 8761, "InvalidArgumentException", 24},
		{"a year", increase, 8760, "", 8760},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *T) {
			err := step.call(step.to)
			if step.code == "" {
				t.OK(err)
			} else {
				t.Refused(step.code, err)
			}
			t.Equal(step.after, hours())
		})
	}
}

func recordsExpire(t *T) {
	name := t.stream(1)
	first := t.putTo(name, "0", "first")[0]
	time.Sleep(23 * time.Hour)
	t.putTo(name, "0", "second")
	texts := func() string {
		texts, _ := t.drain(t.iterator(name, 0, types.ShardIteratorTypeTrimHorizon), 1)
		return strings.Join(texts, " ")
	}
	t.Run("within a day", func(t *T) { t.Equal("first second", texts()) })
	time.Sleep(2 * time.Hour)
	t.Run("after a day", func(t *T) { t.Equal("second", texts()) })
	t.Run("longer retention brings nothing back", func(t *T) {
		_, err := t.kinesis.IncreaseStreamRetentionPeriod(t.ctx, &kinesis.IncreaseStreamRetentionPeriodInput{StreamName: name, RetentionPeriodHours: aws.Int32(48)})
		t.OK(err)
		t.awaitStream(name)
		t.Equal("second", texts())
	})
	t.Run("it keeps what is there", func(t *T) {
		time.Sleep(40 * time.Hour)
		t.Equal("second", texts())
	})
	t.Run("shorter retention takes it away", func(t *T) {
		_, err := t.kinesis.DecreaseStreamRetentionPeriod(t.ctx, &kinesis.DecreaseStreamRetentionPeriodInput{StreamName: name, RetentionPeriodHours: aws.Int32(24)})
		t.OK(err)
		t.awaitStream(name)
		out := t.read(t.iterator(name, 0, types.ShardIteratorTypeTrimHorizon))
		t.Equal(0, len(out.Records))
		t.True(out.NextShardIterator != nil, "the shard goes on")
	})
	t.Run("a number that was trimmed is a place", func(t *T) {
		t.putTo(name, "0", "third")
		texts, _ := t.drain(t.iterator(name, 0, types.ShardIteratorTypeAtSequenceNumber, startingAt(first)), 1)
		t.Equal([]string{"third"}, texts)
	})
}

func streamMode(t *T) {
	name := aws.String(t.Unused())
	_, err := t.kinesis.CreateStream(t.ctx, &kinesis.CreateStreamInput{StreamName: name, StreamModeDetails: &types.StreamModeDetails{StreamMode: types.StreamModeOnDemand}})
	t.OK(err)
	t.awaitStream(name)
	t.Run("four shards", func(t *T) { t.Equal("0 1 2 3", numbers(t.shards(name, nil))) })
	t.Run("says so", func(t *T) { t.Equal(types.StreamModeOnDemand, t.summary(name).StreamModeDetails.StreamMode) })
	calls := t.onStream(name, nil)
	for _, operation := range []string{"SplitShard", "MergeShards", "UpdateShardCount"} {
		t.Run(operation, func(t *T) {
			t.awaitStream(name)
			t.Refused("ValidationException", calls[operation]())
		})
	}
	t.awaitStream(name)
	t.Run("to provisioned", func(t *T) {
		_, err := t.kinesis.UpdateStreamMode(t.ctx, &kinesis.UpdateStreamModeInput{StreamARN: streamARN(name), StreamModeDetails: &types.StreamModeDetails{StreamMode: types.StreamModeProvisioned}})
		t.OK(err)
		t.Equal(types.StreamStatusUpdating, t.summary(name).StreamStatus)
		t.awaitStream(name)
		t.Equal(types.StreamModeProvisioned, t.summary(name).StreamModeDetails.StreamMode)
	})
}
