package conformance

import (
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

var wireCases = []kase{
	{name: "dynamodb/wire/errors", run: dynamodbErrors},
	{name: "dynamodb/wire/answers", run: dynamodbAnswers},
	{name: "kinesis/wire/errors", run: kinesisErrors},
	{name: "kinesis/wire/answers", run: kinesisAnswers},
}

func dynamodbErrors(t *T) {
	tb := t.create(t.leases())
	t.put(tb, lease("a"))
	rows := map[string]struct{ operation, body, kind string }{
		"not found":       {"GetItem", fmt.Sprintf(`{"TableName":%q,"Key":{"leaseKey":{"S":"a"}}}`, t.Unused()), "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException"},
		"failed":          {"PutItem", fmt.Sprintf(`{"TableName":%q,"Item":{"leaseKey":{"S":"a"}},"ConditionExpression":"attribute_not_exists(leaseKey)"}`, *tb.name), "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"},
		"invalid":         {"PutItem", fmt.Sprintf(`{"TableName":%q,"Item":{}}`, *tb.name), "com.amazon.coral.validate#ValidationException"},
		"no JSON":         {"PutItem", `{`, "com.amazon.coral.service#SerializationException"},
		"wrong JSON type": {"PutItem", `{"TableName":["a"]}`, "com.amazon.coral.service#SerializationException"},
		"unknown":         {"Nothing", `{}`, "com.amazon.coral.service#UnknownOperationException"},
	}
	for name, row := range sorted(rows) {
		a := t.send(row.operation, row.body)
		t.Run(name, func(t *T) {
			t.Equal(400, a.status)
			t.Equal(row.kind, a.get("__type"))
			t.Equal("application/x-amz-json-1.0", a.header.Get("Content-Type"))
		})
		t.Run(name+", id and checksum", func(t *T) { t.sealed(a) })
	}
	t.Run("text", func(t *T) {
		t.Equal("The conditional request failed", t.send("PutItem", rows["failed"].body).get("message"))
	})
	t.Run("cancelled transaction", func(t *T) {
		a := t.send("TransactWriteItems", fmt.Sprintf(`{"TransactItems":[{"ConditionCheck":{"TableName":%q,"Key":{"leaseKey":{"S":"b"}},"ConditionExpression":"attribute_exists(leaseKey)"}}]}`, *tb.name))
		t.RefusedRaw("TransactionCanceledException", a)
		text, _ := a.get("Message").(string)
		t.True(strings.HasSuffix(text, "[ConditionalCheckFailed]"), "its text is Message, and lists the codes: ", a.body)
	})
	t.Run("unknown members are ignored", func(t *T) {
		t.Accepted(t.send("GetItem", fmt.Sprintf(`{"TableName":%q,"Key":{"leaseKey":{"S":"a"}},"FutureMember":{"a":1}}`, *tb.name)))
	})
}

// sealed notes a fault unless an answer has a request id and a right checksum.
func (t *T) sealed(a answer) {
	t.True(len(a.header.Get("X-Amzn-Requestid")) == 52, "an id of 52 characters: ", a.header.Get("X-Amzn-Requestid"))
	t.Equal(strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(a.body))), 10), a.header.Get("X-Amz-Crc32"), "checksum")
}

func dynamodbAnswers(t *T) {
	tb := t.create(t.leases())
	rows := map[string]struct{ operation, body, want string }{
		"put":            {"PutItem", fmt.Sprintf(`{"TableName":%q,"Item":{"leaseKey":{"S":"a"}}}`, *tb.name), "{}"},
		"get of nothing": {"GetItem", fmt.Sprintf(`{"TableName":%q,"Key":{"leaseKey":{"S":"z"}}}`, *tb.name), "{}"},
		"delete":         {"DeleteItem", fmt.Sprintf(`{"TableName":%q,"Key":{"leaseKey":{"S":"z"}},"ReturnValues":"ALL_OLD"}`, *tb.name), "{}"},
		"transaction":    {"TransactWriteItems", fmt.Sprintf(`{"TransactItems":[{"Delete":{"TableName":%q,"Key":{"leaseKey":{"S":"b"}}}}]}`, *tb.name), "{}"},
		"batch":          {"BatchWriteItem", fmt.Sprintf(`{"RequestItems":{%q:[{"DeleteRequest":{"Key":{"leaseKey":{"S":"b"}}}}]}}`, *tb.name), `{"UnprocessedItems":{}}`},
	}
	for name, row := range sorted(rows) {
		a := t.send(row.operation, row.body)
		t.Run(name, func(t *T) {
			t.Equal(200, a.status)
			t.Equal(row.want, a.body)
		})
		t.Run(name+", id and checksum", func(t *T) { t.sealed(a) })
	}
}

func kinesisErrors(t *T) {
	name := t.stream(1)
	rows := map[string]struct{ operation, body, kind string }{
		"not found":       {"DescribeStreamSummary", fmt.Sprintf(`{"StreamName":%q}`, t.Unused()), "ResourceNotFoundException"},
		"in use":          {"CreateStream", fmt.Sprintf(`{"StreamName":%q,"ShardCount":1}`, *name), "ResourceInUseException"},
		"invalid":         {"ListShards", `{}`, "InvalidArgumentException"},
		"constraint":      {"ListShards", `{"StreamName":""}`, "ValidationException"},
		"no JSON":         {"ListShards", `{`, "SerializationException"},
		"wrong JSON type": {"ListShards", `{"StreamName":["a"]}`, "SerializationException"},
		"unknown":         {"Nothing", `{}`, "UnknownOperationException"},
	}
	for label, row := range sorted(rows) {
		a := t.send(row.operation, row.body)
		t.Run(label, func(t *T) {
			t.Equal(400, a.status)
			t.Equal(row.kind, a.get("__type"))
		})
		t.Run(label+", ids", func(t *T) {
			t.True(a.header.Get("X-Amzn-Requestid") != "", "x-amzn-RequestId")
			t.True(a.header.Get("X-Amz-Id-2") != "", "x-amz-id-2")
		})
	}
	t.Run("text", func(t *T) {
		text, _ := t.send("DescribeStreamSummary", rows["not found"].body).get("message").(string)
		t.True(strings.HasPrefix(text, "Stream "), "its text is message: ", text)
	})
}

func kinesisAnswers(t *T) {
	name := t.stream(2)
	t.Run("no output, no body", func(t *T) {
		a := t.send("IncreaseStreamRetentionPeriod", fmt.Sprintf(`{"StreamName":%q,"RetentionPeriodHours":25}`, *name))
		t.Accepted(a)
		t.Equal("", a.body)
	})
	t.awaitStream(name)
	t.putTo(name, "0", "a")
	it := t.iterator(name, 0, types.ShardIteratorTypeTrimHorizon)
	answers := map[string]answer{
		"DescribeStream":        t.send("DescribeStream", fmt.Sprintf(`{"StreamName":%q}`, *name)),
		"DescribeStreamSummary": t.send("DescribeStreamSummary", fmt.Sprintf(`{"StreamName":%q}`, *name)),
		"ListShards":            t.send("ListShards", fmt.Sprintf(`{"StreamName":%q}`, *name)),
		"GetRecords":            t.send("GetRecords", fmt.Sprintf(`{"ShardIterator":%q}`, *it)),
		"PutRecord":             t.send("PutRecord", fmt.Sprintf(`{"StreamName":%q,"PartitionKey":"a","Data":"YQ=="}`, *name)),
	}
	for operation, a := range sorted(answers) {
		t.Run(operation+", nothing is null", func(t *T) {
			t.Accepted(a)
			t.True(!strings.Contains(a.body, "null"), a.body)
		})
		t.Run(operation+", no stream id", func(t *T) { // which would turn the Go SDK to another endpoint
			t.True(!strings.Contains(a.body, `"StreamId"`), a.body)
		})
	}
	t.Run("times are seconds", func(t *T) {
		at, ok := answers["DescribeStreamSummary"].get("StreamDescriptionSummary.StreamCreationTimestamp").(float64)
		t.True(ok && at > 9e8 && at < 1e10, answers["DescribeStreamSummary"].body)
	})
}
