package kinesis

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

func TestConstraints(t *testing.T) {
	const null = "failed to satisfy constraint: Member must not be null"
	long := strings.Repeat("a", 129)
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 1)
		for _, c := range []struct {
			operation string
			in        m
			want      string
		}{
			{"CreateStream", m{}, "2 validation errors detected: Value null at 'shardCount' " + null + "; Value null at 'streamName' " + null},
			{"CreateStream", m{"StreamName": "s", "ShardCount": 0, "MaxRecordSizeInKiB": 1023},
				"2 validation errors detected: Value '0' at 'shardCount' failed to satisfy constraint: Member must have value greater than or equal to 1; " +
					"Value '1023' at 'maxRecordSizeInKiB' failed to satisfy constraint: Member must have value greater than or equal to 1024"},
			{"DescribeStreamSummary", m{"StreamName": ""},
				"2 validation errors detected: Value '' at 'streamName' failed to satisfy constraint: Member must satisfy regular expression pattern: " +
					"[a-zA-Z0-9_.-]+; Value '' at 'streamName' failed to satisfy constraint: Member must have length greater than or equal to 1"},
			{"DescribeStreamSummary", m{"StreamName": long}, "1 validation error detected: Value '" + long +
				"' at 'streamName' failed to satisfy constraint: Member must have length less than or equal to 128"},
			{"ListShards", m{"StreamARN": "arn:aws:kinesis:eu-west-1:12345:stream/s"}, "1 validation error detected: Value " +
				"'arn:aws:kinesis:eu-west-1:12345:stream/s' at 'streamARN' failed to satisfy constraint: Member must satisfy regular expression pattern: " +
				`arn:aws.*:kinesis:.*:\d{12}:stream/\S+`},
			{"ListShards", m{"StreamName": "s", "MaxResults": 10_001}, "1 validation error detected: Value '10001' at 'maxResults' " +
				"failed to satisfy constraint: Member must have value less than or equal to 10000"},
			{"ListShards", m{"StreamName": "s", "ShardFilter": m{}}, "1 validation error detected: Value null at 'shardFilter.type' " + null},
			{"ListShards", m{"StreamName": "s", "ShardFilter": m{"Type": "ALL"}}, "1 validation error detected: Value 'ALL' at 'shardFilter.type' " +
				"failed to satisfy constraint: Member must satisfy enum value set: [FROM_TRIM_HORIZON, AT_TRIM_HORIZON, AT_LATEST, AT_TIMESTAMP, " +
				"FROM_TIMESTAMP, AFTER_SHARD_ID]"},
			{"PutRecord", m{}, "2 validation errors detected: Value null at 'partitionKey' " + null + "; Value null at 'data' " + null},
			{"PutRecord", m{"StreamName": "s", "PartitionKey": strings.Repeat("ü", 257), "Data": []byte{}, "ExplicitHashKey": "007", "SequenceNumberForOrdering": "x"},
				"3 validation errors detected: Value 'x' at 'sequenceNumberForOrdering' failed to satisfy constraint: Member must satisfy regular expression " +
					`pattern: 0|([1-9]\d{0,128}); Value '` + strings.Repeat("ü", 257) + "' at 'partitionKey' failed to satisfy constraint: Member must have " +
					"length less than or equal to 256; Value '007' at 'explicitHashKey' failed to satisfy constraint: Member must satisfy regular expression " +
					`pattern: 0|([1-9]\d{0,38})`},
			{"PutRecord", m{"StreamName": "s", "PartitionKey": "a", "Data": make([]byte, 10_485_761)}, "1 validation error detected: Value " +
				"'java.nio.HeapByteBuffer[pos=0 lim=10485761 cap=10485761]' at 'data' failed to satisfy constraint: Member must have length less than or equal to 10485760"},
			{"PutRecords", m{"StreamName": "s"}, "1 validation error detected: Value null at 'records' " + null},
			{"PutRecords", m{"StreamName": "s", "Records": []m{}}, "1 validation error detected: Value '[]' at 'records' failed to satisfy constraint: " +
				"Member must have length greater than or equal to 1"},
			{"PutRecords", m{"StreamName": "s", "Records": slices.Repeat([]m{{"PartitionKey": "a", "Data": []byte{}}}, 501)},
				"1 validation error detected: Value '[...]' at 'records' failed to satisfy constraint: Member must have length less than or equal to 500"},
			{"PutRecords", m{"StreamName": "s", "Records": []m{{"PartitionKey": "a", "Data": []byte{}}, {"Data": []byte{}}}},
				"1 validation error detected: Value null at 'records.2.member.partitionKey' " + null},
			{"GetShardIterator", m{"StreamName": "s", "ShardId": "", "ShardIteratorType": "AT_END"},
				"3 validation errors detected: Value '' at 'shardId' failed to satisfy constraint: Member must satisfy regular expression pattern: " +
					"[a-zA-Z0-9_.-]+; Value '' at 'shardId' failed to satisfy constraint: Member must have length greater than or equal to 1; " +
					"Value 'AT_END' at 'shardIteratorType' failed to satisfy constraint: Member must satisfy enum value set: " +
					"[AFTER_SEQUENCE_NUMBER, LATEST, AT_TIMESTAMP, AT_SEQUENCE_NUMBER, TRIM_HORIZON]"},
			{"GetRecords", m{}, "1 validation error detected: Value null at 'shardIterator' " + null},
			{"GetRecords", m{"ShardIterator": "", "Limit": 10_001}, "2 validation errors detected: Value '10001' at 'limit' failed to satisfy constraint: " +
				"Member must have value less than or equal to 10000; Value '' at 'shardIterator' failed to satisfy constraint: " +
				"Member must have length greater than or equal to 1"},
			{"SplitShard", m{"StreamName": "s", "ShardToSplit": "shardId-0"}, "1 validation error detected: Value null at 'newStartingHashKey' " + null},
			{"UpdateShardCount", m{"StreamName": "s", "TargetShardCount": 2, "ScalingType": "OTHER"}, "1 validation error detected: Value 'OTHER' at " +
				"'scalingType' failed to satisfy constraint: Member must satisfy enum value set: [UNIFORM_SCALING]"},
			{"UpdateStreamMode", m{"StreamARN": testARN + "s"}, "1 validation error detected: Value null at 'streamModeDetails' " + null},
			{"UpdateMaxRecordSize", m{"MaxRecordSizeInKiB": 10_241}, "2 validation errors detected: Value '10241' at 'maxRecordSizeInKiB' failed to satisfy " +
				"constraint: Member must have value less than or equal to 10240; Value null at 'streamARN' " + null},
		} {
			assert.Equal(w, bad("ValidationException", c.want), w.refused(c.operation, c.in), "%s %s", c.operation, c.want)
		}
		many := w.refused("PutRecords", m{"StreamName": "s", "Records": slices.Repeat([]m{{}}, 20)})
		assert.Equal(t, 10, strings.Count(many.Message, null), "at most ten are listed")
		assert.Contains(t, many.Message, "10 validation errors detected: ")
	})
}

func TestBodies(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 1)
		for _, body := range []string{
			"", "{", "[]", `"s"`, "{}}", `{"StreamName":7}`, `{"StreamName":{}}`, `{"PartitionKey":"a","Data":"***","StreamName":"s"}`,
			`{"PartitionKey":["a"]}`, `{"Data":5}`,
		} {
			a := w.raw("PutRecord", []byte(body))
			assert.Contains(t, string(a.Body), `"Message":`, "with a capital, in this one error")
			r := w.refusal(a)
			assert.Equal(t, http.StatusBadRequest, r.Status, body)
			assert.Equal(t, "SerializationException", r.Code, body)
			assert.NotEmpty(t, r.Message, body)
		}
		assert.Equal(t, bad("UnknownOperationException", ""), w.refusal(w.raw("Frobnicate", []byte("{}"))))
		assert.Equal(t, bad("UnknownOperationException", ""), w.refusal(w.raw("SubscribeToShard", []byte("{}"))))
		assert.Equal(t, "SerializationException", w.refusal(w.raw("Frobnicate", []byte("{"))).Code, "the body comes before the target")

		// Unknown members are ignored, a null is no value, an empty blob is one.
		a := w.raw("PutRecord", []byte(`{"StreamName":"s","PartitionKey":"a","Data":"","ExplicitHashKey":null,"StreamId":"x","More":{"a":[1]}}`))
		require.Nil(t, a.Err)
		out := w.do("GetRecords", m{"ShardIterator": w.iterator("s", 0, "TRIM_HORIZON", nil)})
		assert.Contains(t, string(out), `"Data":""`)
	})
}

func TestResources(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 2)
		resources := func(operation string, in m) []string {
			body, err := json.Marshal(in)
			require.NoError(t, err)
			return w.Prepare(&wire.Call{Caller: w.Caller, Operation: operation, Codec: wire.JSON11, Body: body}).Resources
		}
		token := get[listShardsOutput](w, "ListShards", m{"StreamName": "s", "MaxResults": 1}).NextToken
		for _, c := range []struct {
			operation string
			in        m
			want      []string
		}{
			{"DescribeStream", m{"StreamName": "s"}, []string{"s"}},
			{"DescribeStream", m{"StreamARN": testARN + "t"}, []string{"t"}},
			{"DescribeStream", m{"StreamName": "s", "StreamARN": testARN + "s"}, []string{"s"}},
			{"ListShards", m{"NextToken": token}, []string{"s"}},
			{"ListShards", m{"NextToken": "garbage"}, nil},
			{"GetRecords", m{"ShardIterator": w.iterator("s", 0, "LATEST", nil)}, []string{"s"}},
			{"GetRecords", m{"ShardIterator": "garbage"}, nil},
			{"UpdateStreamMode", m{"StreamARN": testARN + "s", "StreamModeDetails": m{"StreamMode": "ON_DEMAND"}}, []string{"s"}},
			{"CreateStream", m{"StreamName": "new", "ShardCount": 1}, []string{"new"}},
			{"ListStreams", m{}, nil},
			{"PutRecord", m{"StreamName": "s"}, []string{"s"}},
			{"CreateStream", m{}, nil},
			{"Frobnicate", m{"StreamName": "s"}, nil},
		} {
			assert.Equal(t, c.want, resources(c.operation, c.in), "%s %v", c.operation, c.in)
		}
	})
}

// aws-kinesis#3: the refusal of a time in the future shows what was decoded.
func TestTimesOnTheWire(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 1)
		const want = "timestampInMillis: 1506440188749, currentTimestampInMillis: 946684800000"
		for _, number := range []string{"1506440188.749", "1.506440188749E9"} {
			body := `{"StreamName":"s","ShardId":"0","ShardIteratorType":"AT_TIMESTAMP","Timestamp":` + number + `}`
			assert.Contains(t, w.refusal(w.raw("GetShardIterator", []byte(body))).Message, want)
		}
		stamp, err := hex.DecodeString("c11b0000015ebed5134d")
		require.NoError(t, err)
		body := []byte{0xbf} // a map of indefinite length
		for _, s := range []string{"StreamName", "s", "ShardId", "0", "ShardIteratorType", "AT_TIMESTAMP", "Timestamp"} {
			text, err := wire.CBOR.Marshal(s)
			require.NoError(t, err)
			body = append(body, text...)
		}
		body = append(append(body, stamp...), 0xff)
		w.codec = wire.CBOR
		assert.Contains(t, w.refusal(w.raw("GetShardIterator", body)).Message, want)
	})
}

func TestCBOR(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.codec = wire.CBOR
		w.do("CreateStream", m{"StreamName": "s", "ShardCount": 2})
		w.awaitActive("s")
		d := get[describeStreamOutput](w, "DescribeStream", m{"StreamName": "s"}).StreamDescription
		assert.Equal(t, "s", d.StreamName)
		assert.Len(t, d.Shards, 2)
		assert.True(t, bubbleStart.Equal(d.StreamCreationTimestamp.Time))
		assert.Len(t, w.shards("s", m{"Type": "AT_TIMESTAMP", "Timestamp": wireTime(bubbleStart.UnixMilli())}), 2)

		data := []byte{0, 255, 128}
		put := get[putRecordsOutput](w, "PutRecords", m{"StreamName": "s", "Records": []m{
			{"PartitionKey": "a", "Data": data}, {"PartitionKey": "a", "Data": []byte{}},
		}})
		assert.Zero(t, put.FailedRecordCount)
		body := w.do("GetRecords", m{"ShardIterator": w.iterator("s", 0, "TRIM_HORIZON", nil)})
		var out getRecordsOutput
		require.NoError(t, wire.CBOR.Unmarshal(body, &out))
		require.Len(t, out.Records, 2)
		assert.Equal(t, data, out.Records[0].Data)
		assert.Equal(t, []byte{}, out.Records[1].Data)
		assert.Contains(t, string(body), "\x43\x00\xff\x80", "a byte string, not base64")
		stamp, err := wire.CBOR.Marshal(out.Records[0].ApproximateArrivalTimestamp)
		require.NoError(t, err)
		assert.Equal(t, []byte{0xc1, 0x1b}, stamp[:2])
		assert.Contains(t, string(body), string(stamp))

		assert.Equal(t, bad("ResourceNotFoundException", "Stream none under account 012345678901 not found."),
			w.refused("DescribeStream", m{"StreamName": "none"}))
		assert.Equal(t, "SerializationException", w.refusal(w.raw("DescribeStream", []byte{0xbf, 0x61})).Code)
	})
}
