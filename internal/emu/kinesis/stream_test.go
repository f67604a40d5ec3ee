package kinesis

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

// aws-kinesis#1
func TestUnknownStream(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		notFound := bad("ResourceNotFoundException", "Stream X under account 012345678901 not found.")
		noShard := bad("ResourceNotFoundException", "Shard shardId-000000000007 in stream X under account 012345678901 does not exist")
		for _, c := range []struct {
			operation string
			in        m
			want      refusal
		}{
			{"DescribeStream", m{"StreamName": "X"}, notFound},
			{"DescribeStreamSummary", m{"StreamName": "X"}, notFound},
			{"DescribeStreamSummary", m{"StreamARN": testARN + "X"}, notFound},
			{"ListShards", m{"StreamName": "X"}, notFound},
			{"DeleteStream", m{"StreamName": "X"}, notFound},
			{"PutRecord", m{"StreamName": "X", "PartitionKey": "a", "Data": []byte{}}, notFound},
			{"PutRecords", m{"StreamName": "X", "Records": []m{{"PartitionKey": "a", "Data": []byte{}}}}, notFound},
			{"SplitShard", m{"StreamName": "X", "ShardToSplit": "shardId-0", "NewStartingHashKey": "5"}, notFound},
			{"UpdateShardCount", m{"StreamName": "X", "TargetShardCount": 2, "ScalingType": "UNIFORM_SCALING"}, notFound},
			{"IncreaseStreamRetentionPeriod", m{"StreamName": "X", "RetentionPeriodHours": 48}, notFound},
			{"GetShardIterator", m{"StreamName": "X", "ShardId": "shard-7", "ShardIteratorType": "LATEST"}, noShard},
		} {
			assert.Equal(w, c.want, w.refused(c.operation, c.in), c.operation)
		}
		a := w.answer("DescribeStream", m{"StreamName": "X"})
		assert.JSONEq(w, `{"__type":"ResourceNotFoundException","message":"Stream X under account 012345678901 not found."}`, string(a.Body))
	})
}

// aws-kinesis#2,4: whole answers, so that nothing more is in them.
func TestAnswersOfTheControlPlane(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		time.Sleep(1500 * time.Millisecond) // the creation time is cut to the second
		empty := wire.Answer{Status: http.StatusOK, ContentType: "application/x-amz-json-1.1"}
		assert.Equal(w, empty, w.answer("CreateStream", m{"StreamName": "s", "ShardCount": 1}))
		w.awaitActive("s")
		for _, c := range []struct {
			operation string
			in        m
		}{
			{"IncreaseStreamRetentionPeriod", m{"StreamName": "s", "RetentionPeriodHours": 25}},
			{"AddTagsToStream", m{"StreamName": "s", "Tags": m{"a": "b", "c": "d"}}},
			{"RemoveTagsFromStream", m{"StreamName": "s", "TagKeys": []string{"c"}}},
		} {
			assert.Equal(w, empty, w.answer(c.operation, c.in), c.operation)
		}
		const common = `"StreamName":"s","StreamARN":"arn:aws:kinesis:eu-west-1:012345678901:stream/s","StreamStatus":"ACTIVE",
			"StreamModeDetails":{"StreamMode":"PROVISIONED"},"RetentionPeriodHours":25,"StreamCreationTimestamp":946684801,
			"EnhancedMonitoring":[{"ShardLevelMetrics":[]}],"EncryptionType":"NONE"`
		start := sequence{created: 946684798, second: 946684798}.String()
		shard := `{"ShardId":"shardId-000000000000","HashKeyRange":{"StartingHashKey":"0","EndingHashKey":"340282366920938463463374607431768211455"},
			"SequenceNumberRange":{"StartingSequenceNumber":"` + start + `"}}`
		for _, c := range []struct {
			operation string
			in        m
			want      string
		}{
			{"DescribeStream", m{"StreamName": "s"},
				`{"StreamDescription":{` + common + `,"Shards":[` + shard + `],"HasMoreShards":false}}`},
			{"DescribeStreamSummary", m{"StreamARN": testARN + "s"},
				`{"StreamDescriptionSummary":{` + common + `,"OpenShardCount":1,"ConsumerCount":0,"MaxRecordSizeInKiB":1024}}`},
			{"ListShards", m{"StreamName": "s"}, `{"Shards":[` + shard + `]}`},
			{"ListStreams", m{}, `{"StreamNames":["s"],"HasMoreStreams":false,"StreamSummaries":[{"StreamName":"s",
				"StreamARN":"arn:aws:kinesis:eu-west-1:012345678901:stream/s","StreamStatus":"ACTIVE",
				"StreamModeDetails":{"StreamMode":"PROVISIONED"},"StreamCreationTimestamp":946684801}]}`},
			{"ListTagsForStream", m{"StreamName": "s"}, `{"Tags":[{"Key":"a","Value":"b"}],"HasMoreTags":false}`},
			{"DescribeLimits", m{}, `{"ShardLimit":20000,"OpenShardCount":1,"OnDemandStreamCount":0,"OnDemandStreamCountLimit":50}`},
		} {
			assert.JSONEq(w, c.want, string(w.do(c.operation, c.in)), c.operation)
		}
	})
}

// aws-kinesis#6
func TestAccountsAndRegions(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		other := w.as("999999999999")
		w.create("s", 1)
		assert.Equal(t, bad("ResourceNotFoundException", "Stream s under account 999999999999 not found."),
			other.refused("DescribeStreamSummary", m{"StreamName": "s"}))
		other.create("s", 2)
		assert.Len(t, w.shards("s", nil), 1)
		assert.Len(t, other.shards("s", nil), 2)

		byARN := get[listShardsOutput](other, "ListShards", m{"StreamARN": testARN + "s"})
		assert.Len(t, byARN.Shards, 1, "the ARN of the other account")
		put := get[putRecordOutput](other, "PutRecord", m{"StreamARN": testARN + "s", "PartitionKey": "a", "Data": []byte("x")})
		it := get[getShardIteratorOutput](other, "GetShardIterator", m{"StreamARN": testARN + "s", "ShardId": put.ShardId, "ShardIteratorType": "TRIM_HORIZON"})
		out := get[getRecordsOutput](other, "GetRecords", m{"ShardIterator": it.ShardIterator, "StreamARN": testARN + "s"})
		assert.Equal(t, []string{"a"}, keysOf(out))
		assert.Equal(t, "InvalidArgumentException", other.refused("GetRecords", m{
			"ShardIterator": it.ShardIterator, "StreamARN": "arn:aws:kinesis:eu-west-1:999999999999:stream/s",
		}).Code)

		assert.Equal(t, "InvalidArgumentException", w.refused("ListShards", m{"StreamName": "s", "StreamARN": testARN + "t"}).Code)
		assert.Equal(t, "InvalidArgumentException", w.refused("PutRecord", m{"PartitionKey": "a", "Data": []byte("x")}).Code)

		elsewhere := *w
		elsewhere.Region = "us-east-1"
		assert.Equal(t, "ResourceNotFoundException", elsewhere.refused("DescribeStreamSummary", m{"StreamARN": testARN + "s"}).Code)
	})
}

// aws-kinesis#7
func TestCreating(t *testing.T) {
	bubble(t, Config{CreateDuration: 30 * time.Second}, func(t *testing.T, w *world) {
		w.do("CreateStream", m{"StreamName": "X", "ShardCount": 2})
		sleepUntil(29*time.Second + 999*time.Millisecond)
		assert.Equal(t, creating, w.status("X"))
		d := get[describeStreamOutput](w, "DescribeStream", m{"StreamName": "X"}).StreamDescription
		assert.Equal(t, []shardOutput{}, d.Shards)
		assert.False(t, d.HasMoreShards)
		for _, c := range []struct {
			operation string
			in        m
			want      refusal
		}{
			{"ListShards", m{"StreamName": "X"},
				bad("ResourceInUseException", "Stream X under account 012345678901 not ACTIVE or UPDATING, instead in state CREATING")},
			{"PutRecord", m{"StreamName": "X", "PartitionKey": "a", "Data": []byte{}},
				bad("ResourceNotFoundException", "Stream X under account 012345678901 not found.")},
			{"GetShardIterator", m{"StreamName": "X", "ShardId": "shardId-000000000000", "ShardIteratorType": "LATEST"},
				bad("ResourceNotFoundException", "Shard shardId-000000000000 in stream X under account 012345678901 does not exist")},
			{"SplitShard", m{"StreamName": "X", "ShardToSplit": "shardId-000000000009", "NewStartingHashKey": "5"}, // the state comes before the shard
				bad("ResourceInUseException", "Stream X under account 012345678901 not ACTIVE, instead in state CREATING")},
			{"SplitShard", m{"StreamName": "X", "ShardToSplit": "nonsense", "NewStartingHashKey": "5"}, // and its id before the stream
				bad("ResourceNotFoundException", "Could not find shard nonsense in stream X under account 012345678901.")},
			{"GetShardIterator", m{"StreamName": "none", "ShardId": "shardId-2147483648", "ShardIteratorType": "LATEST"},
				bad("ResourceNotFoundException", "Could not find shard shardId-2147483648 in stream none under account 012345678901.")},
			{"IncreaseStreamRetentionPeriod", m{"StreamName": "X", "RetentionPeriodHours": 48},
				bad("ResourceInUseException", "Stream X under account 012345678901 not ACTIVE, instead in state CREATING")},
		} {
			assert.Equal(w, c.want, w.refused(c.operation, c.in), c.operation)
		}
		sleepUntil(30 * time.Second)
		assert.Len(t, w.shards("X", nil), 2)
	})
}

// aws-kinesis#53
func TestYoungStream(t *testing.T) {
	for _, offset := range []time.Duration{0, 999 * time.Millisecond} {
		t.Run(offset.String(), func(t *testing.T) {
			bubble(t, Config{CreateDuration: time.Nanosecond}, func(t *testing.T, w *world) {
				time.Sleep(offset)
				w.do("CreateStream", m{"StreamName": "s", "ShardCount": 3})
				w.awaitActive("s")
				d := get[describeStreamSummaryOutput](w, "DescribeStreamSummary", m{"StreamName": "s"})
				assert.True(t, bubbleStart.Equal(d.StreamDescriptionSummary.StreamCreationTimestamp.Time))
				for _, s := range w.shards("s", nil) {
					q, ok := parseSequence(s.SequenceNumberRange.StartingSequenceNumber)
					require.True(t, ok)
					assert.Equal(t, bubbleStart.Unix()-3, q.created)
					assert.Equal(t, q.created, q.second)
				}
				assert.Equal(t, []int{0, 1, 2}, w.numbers("s", m{"Type": "AT_TRIM_HORIZON"}))
			})
		})
	}
}

// aws-kinesis#8,56
func TestDeleteAndCreateAgain(t *testing.T) {
	bubble(t, Config{DeleteDuration: 2 * time.Second}, func(t *testing.T, w *world) {
		w.create("s", 2)
		first := w.shardOf("s", 0)
		exists := bad("ResourceInUseException", "Stream s under account 012345678901 already exists.")
		assert.Equal(t, exists, w.refused("CreateStream", m{"StreamName": "s", "ShardCount": 1}))

		require.Empty(t, w.do("DeleteStream", m{"StreamName": "s"}))
		sleepUntil(1999 * time.Millisecond)
		assert.Equal(t, deleting, w.status("s"))
		assert.Equal(t, exists, w.refused("CreateStream", m{"StreamName": "s", "ShardCount": 1}))
		d := get[describeStreamOutput](w, "DescribeStream", m{"StreamName": "s"}).StreamDescription
		assert.Empty(t, d.Shards)
		assert.Equal(t, "ResourceInUseException", w.refused("ListShards", m{"StreamName": "s"}).Code)
		w.put("s", "still taken")
		assert.Equal(t, "ResourceInUseException", w.refused("DeleteStream", m{"StreamName": "s"}).Code)

		sleepUntil(2 * time.Second)
		assert.Equal(t, "ResourceNotFoundException", w.refused("DescribeStreamSummary", m{"StreamName": "s"}).Code)
		w.do("CreateStream", m{"StreamName": "s", "ShardCount": 1})
		w.awaitActive("s")
		sum := get[describeStreamSummaryOutput](w, "DescribeStreamSummary", m{"StreamName": "s"}).StreamDescriptionSummary
		assert.True(t, bubbleStart.Add(2*time.Second).Equal(sum.StreamCreationTimestamp.Time))
		assert.NotEqual(t, first.SequenceNumberRange, w.shardOf("s", 0).SequenceNumberRange)

		// The creation time picks the incarnation.
		assert.Len(t, get[listShardsOutput](w, "ListShards", m{"StreamName": "s", "StreamCreationTimestamp": after0(2 * time.Second)}).Shards, 1)
		assert.Equal(t, "ResourceNotFoundException",
			w.refused("ListShards", m{"StreamName": "s", "StreamCreationTimestamp": after0(0)}).Code)
	})
}

// aws-kinesis#56: a deleted stream's latest shard may have started when its
// successor's would, three seconds before the successor.
func TestSuccessorsShardsAreOthers(t *testing.T) {
	for delay := range 6 {
		t.Run(fmt.Sprintf("made %d s after the reshard", delay), func(t *testing.T) {
			bubble(t, Config{NoLimits: true}, func(t *testing.T, w *world) {
				w.create("s", 1)
				w.split("s", 0)
				w.awaitActive("s")
				former := w.shardOf("s", 1).SequenceNumberRange.StartingSequenceNumber
				w.do("DeleteStream", m{"StreamName": "s"})
				for w.answer("DescribeStreamSummary", m{"StreamName": "s"}).Err == nil {
					time.Sleep(time.Millisecond)
				}
				time.Sleep(time.Duration(delay) * time.Second)
				w.create("s", 2)
				assert.NotEqual(t, former, w.shardOf("s", 1).SequenceNumberRange.StartingSequenceNumber)
				assert.Equal(t, []int{0, 1}, w.numbers("s", m{"Type": "AT_TRIM_HORIZON"}))
				assert.Equal(t, "StartingSequenceNumber "+former+" used in GetShardIterator on shard shardId-000000000001 in stream s"+
					" under account 012345678901 is invalid because it did not come from this stream.",
					w.refused("GetShardIterator", iteratorInput("s", 1, "AT_SEQUENCE_NUMBER", m{"StartingSequenceNumber": former})).Message)
			})
		})
	}
}

// aws-kinesis#5,10: a fault carries the name that the service uses, and no text.
func TestIteratorOfADeletedStream(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 2)
		w.put("s", "a")
		its := []string{w.iterator("s", 0, "TRIM_HORIZON", nil), w.iterator("s", 1, "TRIM_HORIZON", nil)}
		w.do("DeleteStream", m{"StreamName": "s"})
		assert.Equal(t, []string{"a"}, keysOf(w.read(its[0])), "reads go on")
		time.Sleep(time.Second)
		assert.Equal(t, bad("ResourceNotFoundException", "Shard shardId-000000000000 in stream s under account 012345678901 does not exist"),
			w.refused("GetRecords", m{"ShardIterator": its[0]}))
		w.create("s", 1)
		w.put("s", "b")
		assert.Equal(t, refusal{http.StatusInternalServerError, "InternalFailure", ""}, w.refused("GetRecords", m{"ShardIterator": its[0]}))
		assert.Equal(t, `{"__type":"InternalFailure"}`, string(w.answer("GetRecords", m{"ShardIterator": its[0]}).Body))
		assert.Equal(t, "ResourceNotFoundException", w.refused("GetRecords", m{"ShardIterator": its[1]}).Code)
	})
}

// aws-kinesis#12: DescribeStream's half; ListShards has its own.
func TestDescribePages(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 250)
		for _, c := range []struct {
			in        m
			from, len int
			more      bool
		}{
			{m{}, 0, 100, true},
			{m{"Limit": 10_000}, 0, 100, true},
			{m{"Limit": 30}, 0, 30, true},
			{m{"ExclusiveStartShardId": "shardId-000000000099"}, 100, 100, true},
			{m{"ExclusiveStartShardId": "shardId-000000000149"}, 150, 100, false},
			{m{"ExclusiveStartShardId": "shardId-000000000249"}, 250, 0, false},
		} {
			c.in["StreamName"] = "s"
			d := get[describeStreamOutput](w, "DescribeStream", c.in).StreamDescription
			require.Len(t, d.Shards, c.len, c.in)
			assert.Equal(t, c.more, d.HasMoreShards, c.in)
			if c.len > 0 {
				assert.Equal(t, shardID(uint32(c.from)), d.Shards[0].ShardId, c.in)
			}
		}
	})
}

func TestListStreams(t *testing.T) {
	bubble(t, Config{NoLimits: true}, func(t *testing.T, w *world) {
		var all []string
		for i := range 130 {
			name := fmt.Sprintf("s%03d", 129-i)
			w.create(name, 1)
			all = append([]string{name}, all...)
		}
		w.as("999999999999").create("theirs", 1)
		first := get[listStreamsOutput](w, "ListStreams", m{"Limit": 1000})
		assert.Equal(t, all[:100], first.StreamNames)
		assert.True(t, first.HasMoreStreams)
		rest := get[listStreamsOutput](w, "ListStreams", m{"NextToken": first.NextToken})
		assert.Equal(t, all[100:], rest.StreamNames)
		assert.Equal(t, listStreamsOutput{StreamNames: all[128:], StreamSummaries: rest.StreamSummaries[28:]},
			get[listStreamsOutput](w, "ListStreams", m{"ExclusiveStartStreamName": all[127]}))

		assert.Equal(t, "InvalidArgumentException", w.as("999999999999").refused("ListStreams", m{"NextToken": first.NextToken}).Code)
		time.Sleep(300*time.Second + time.Millisecond)
		assert.Equal(t, "ExpiredNextTokenException", w.refused("ListStreams", m{"NextToken": first.NextToken}).Code)
	})
}

func TestQuotasOfAnAccount(t *testing.T) {
	bubble(t, Config{CreateDuration: time.Minute, ShardQuota: 11}, func(t *testing.T, w *world) {
		for i := range 5 {
			w.do("CreateStream", m{"StreamName": fmt.Sprintf("s%d", i), "ShardCount": 2})
		}
		time.Sleep(time.Second)
		assert.Equal(t, bad("LimitExceededException", "This request would have exceed the limit on the number  of streams that can "+
			"simultaneously be in CREATING or DELETING for the account 012345678901. Limit: 5."),
			w.refused("CreateStream", m{"StreamName": "s5", "ShardCount": 1}))
		time.Sleep(time.Minute)
		want := "This request would exceed the shard limit for the account 012345678901 in eu-west-1. Current shard count for the account: 10. " +
			"Limit: 11. Number of additional shards that would have resulted from this request: 2. Refer to the AWS Service Limits page " +
			"(http://docs.aws.amazon.com/general/latest/gr/aws_service_limits.html) for current limits and how to request higher limits."
		assert.Equal(t, bad("LimitExceededException", want), w.refused("CreateStream", m{"StreamName": "s5", "ShardCount": 2}))
		w.do("CreateStream", m{"StreamName": "s5", "ShardCount": 1})
		assert.Equal(t, "LimitExceededException", w.refused("SplitShard", m{"StreamName": "s0", "ShardToSplit": "shardId-0", "NewStartingHashKey": "5"}).Code)
		w.as("999999999999").do("CreateStream", m{"StreamName": "s", "ShardCount": 11})
		w.do("CreateStream", m{"StreamName": "demand", "StreamModeDetails": m{"StreamMode": "ON_DEMAND"}}) // not of that quota
	})
	bubble(t, Config{ShardQuota: 1, NoLimits: true}, func(t *testing.T, w *world) {
		for i := range 9 {
			w.do("CreateStream", m{"StreamName": fmt.Sprintf("s%d", i), "ShardCount": 100})
		}
		assert.Equal(t, "LimitExceededException", w.refused("CreateStream", m{"StreamName": "huge", "ShardCount": 1 << 20}).Code)
	})
}

func TestCallsOfAnAccount(t *testing.T) {
	for operation, want := range map[string]int{
		"DescribeLimits": 1, "ListStreams": 5, "DescribeStream": 10, "DescribeStreamSummary": 20, "ListTagsForStream": 5,
		"UpdateShardCount": 10, "SplitShard": 5, "MergeShards": 5, "DeleteStream": 5, "CreateStream": 5,
		"IncreaseStreamRetentionPeriod": 5, "DecreaseStreamRetentionPeriod": 5, "AddTagsToStream": 5, "RemoveTagsFromStream": 5,
	} {
		t.Run(operation, func(t *testing.T) {
			bubble(t, Config{}, func(t *testing.T, w *world) {
				in := m{
					"StreamName": "s", "TargetShardCount": 1, "ScalingType": "UNIFORM_SCALING", "RetentionPeriodHours": 24, "ShardCount": 1,
					"ShardToSplit": "0", "NewStartingHashKey": "1", "ShardToMerge": "0", "AdjacentShardToMerge": "1",
					"Tags": m{"a": "b"}, "TagKeys": []string{"a"},
				}
				passed := 0
				for range want + 3 {
					if a := w.answer(operation, in); a.Err == nil || a.Err.Code() != "LimitExceededException" {
						passed++
					}
				}
				assert.Equal(t, want, passed)
				assert.NotEqual(t, "LimitExceededException", w.as("999999999999").codeOf(operation, in))
				time.Sleep(time.Second - time.Nanosecond)
				assert.Equal(t, "LimitExceededException", w.codeOf(operation, in))
				time.Sleep(time.Nanosecond)
				assert.NotEqual(t, "LimitExceededException", w.codeOf(operation, in))
			})
		})
	}
}

// codeOf is the code of a call's error, if it has one.
func (w *world) codeOf(operation string, in m) string {
	w.Helper()
	if a := w.answer(operation, in); a.Err != nil {
		return a.Err.Code()
	}
	return ""
}

func TestOnDemand(t *testing.T) {
	bubble(t, Config{UpdateDuration: 3 * time.Second}, func(t *testing.T, w *world) {
		demand := m{"StreamMode": "ON_DEMAND"}
		assert.Equal(t, "ValidationException", w.refused("CreateStream", m{"StreamName": "s", "ShardCount": 1, "StreamModeDetails": demand}).Code)
		w.do("CreateStream", m{"StreamName": "s", "StreamModeDetails": demand})
		w.awaitActive("s")
		assert.Len(t, w.shards("s", nil), 4)
		want := bad("ValidationException", "Request is invalid. Stream s under account 012345678901 is in On-Demand mode.")
		assert.Equal(t, want, w.refused("SplitShard", m{"StreamName": "s", "ShardToSplit": "0", "NewStartingHashKey": "5"}))
		assert.Equal(t, want, w.refused("MergeShards", m{"StreamName": "s", "ShardToMerge": "0", "AdjacentShardToMerge": "1"}))
		assert.Equal(t, want, w.refused("UpdateShardCount", m{"StreamName": "s", "TargetShardCount": 2, "ScalingType": "UNIFORM_SCALING"}))

		provisioned := m{"StreamARN": testARN + "s", "StreamModeDetails": m{"StreamMode": "PROVISIONED"}}
		w.do("UpdateStreamMode", provisioned)
		assert.Equal(t, updating, w.status("s"))
		assert.Equal(t, "ResourceInUseException", w.refused("UpdateStreamMode", provisioned).Code)
		time.Sleep(3 * time.Second)
		w.split("s", 0)
		w.awaitActive("s")
		w.do("UpdateStreamMode", m{"StreamARN": testARN + "s", "StreamModeDetails": demand})
		w.awaitActive("s")
		assert.Equal(t, "LimitExceededException", w.refused("UpdateStreamMode", provisioned).Code)
	})
}

// The state that a stream has just left is what all but Describe still see.
func TestStaleControlPlane(t *testing.T) {
	bubble(t, Config{CreateDuration: time.Second, StaleControlPlane: 5 * time.Second}, func(t *testing.T, w *world) {
		w.do("CreateStream", m{"StreamName": "s", "ShardCount": 1})
		sleepUntil(time.Second)
		assert.Equal(t, active, w.status("s"))
		sleepUntil(6*time.Second - time.Nanosecond)
		assert.Equal(t, bad("ResourceInUseException", "Stream s under account 012345678901 not ACTIVE or UPDATING, instead in state CREATING"),
			w.refused("ListShards", m{"StreamName": "s"}))
		sleepUntil(6 * time.Second)
		w.split("s", 0)
		sleepUntil(7 * time.Second)
		assert.Equal(t, active, w.status("s"))
		assert.Equal(t, []int{0, 1, 2}, w.numbers("s", nil))
		assert.Equal(t, bad("ResourceInUseException", "Stream s under account 012345678901 not ACTIVE, instead in state UPDATING"),
			w.refused("SplitShard", m{"StreamName": "s", "ShardToSplit": "1", "NewStartingHashKey": "5"}))
	})
}

func TestConfigBounds(t *testing.T) {
	_, err := New(Config{
		DeleteDuration: time.Millisecond, ReshardDuration: 999 * time.Millisecond, LateEnd: -1, NumberLag: time.Minute, ShardQuota: -5,
	})
	for _, want := range []string{
		"DeleteDuration is 1ms; it must lie between 1s and 24h0m0s",
		"ReshardDuration is 999ms; it must lie between 1s and 24h0m0s",
		"LateEnd is -1; it must lie between 0 and 65536",
		"NumberLag is 1m0s; it must lie between 0s and 3s",
		"ShardQuota is -5; it must lie between 1 and 1048576",
	} {
		assert.ErrorContains(t, err, want)
	}
}
