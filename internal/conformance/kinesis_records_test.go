package conformance

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

var putCases = []kase{
	{name: "kinesis/puts/by key", run: putByKey},
	{name: "kinesis/puts/numbers", run: putNumbers},
	{name: "kinesis/puts/several", run: putSeveral},
	{name: "kinesis/puts/refused", run: putsRefused},
	{name: "kinesis/puts/size", run: putSize},
	{name: "kinesis/puts/throttled", run: putsThrottled, quotas: true},
}

var iteratorCases = []kase{
	{name: "kinesis/iterators/five types", run: iteratorTypes},
	{name: "kinesis/iterators/refused", run: iteratorsRefused},
	{name: "kinesis/iterators/life", run: iteratorLife, hours: true},
}

var recordCases = []kase{
	{name: "kinesis/records/pages", run: recordPages},
	{name: "kinesis/records/members", run: recordMembers},
	{name: "kinesis/records/refused", run: readsRefused},
	{name: "kinesis/records/open shard", run: openShard},
	{name: "kinesis/records/page of 10 MiB", run: largePage, hours: true},
	{name: "kinesis/records/five reads a second", run: fiveReads, quotas: true},
}

func putByKey(t *T) {
	name := t.stream(3)
	for key, shard := range sorted(map[string]int{"a": 0, "f": 1, "e": 2}) {
		t.Run(key, func(t *T) {
			out, err := t.kinesis.PutRecord(t.ctx, &kinesis.PutRecordInput{StreamName: name, PartitionKey: &key, Data: []byte("x")})
			t.OK(err)
			t.Equal(*shardID(shard), *out.ShardId)
		})
	}
	for hash, shard := range sorted(map[string]int{"0": 0, "113427455640312821154458202477256070484": 0, "113427455640312821154458202477256070485": 1, maxHashKey: 2}) {
		t.Run("explicit "+hash, func(t *T) {
			out, err := t.kinesis.PutRecord(t.ctx, &kinesis.PutRecordInput{StreamName: name, PartitionKey: aws.String("a"), ExplicitHashKey: &hash, Data: []byte("x")})
			t.OK(err)
			t.Equal(*shardID(shard), *out.ShardId)
		})
	}
}

func putNumbers(t *T) {
	name := t.stream(1)
	sequence := t.putTo(name, "0", "a", "b", "c")
	t.Run("grow", func(t *T) {
		for i := 1; i < len(sequence); i++ {
			t.Equal(1, integer(&sequence[i]).Cmp(integer(&sequence[i-1])))
		}
	})
	t.Run("are above the shard's first", func(t *T) {
		t.Equal(1, integer(&sequence[0]).Cmp(integer(t.shard(name, 0).SequenceNumberRange.StartingSequenceNumber)))
	})
	t.Run("for ordering", func(t *T) {
		out, err := t.kinesis.PutRecord(t.ctx, &kinesis.PutRecordInput{StreamName: name, PartitionKey: aws.String("a"), Data: []byte("x"), SequenceNumberForOrdering: &sequence[2]})
		t.OK(err)
		t.Equal(1, integer(out.SequenceNumber).Cmp(integer(&sequence[2])))
	})
	t.Run("for ordering, no number", func(t *T) {
		_, err := t.kinesis.PutRecord(t.ctx, &kinesis.PutRecordInput{StreamName: name, PartitionKey: aws.String("a"), Data: []byte("x"), SequenceNumberForOrdering: aws.String("x")})
		t.Refused("ValidationException", err)
	})
}

func entry(key, hash, text string) types.PutRecordsRequestEntry {
	e := types.PutRecordsRequestEntry{PartitionKey: &key, Data: []byte(text)}
	if hash != "" {
		e.ExplicitHashKey = &hash
	}
	return e
}

func putSeveral(t *T) {
	name := t.stream(2)
	out, err := t.kinesis.PutRecords(t.ctx, &kinesis.PutRecordsInput{StreamName: name, Records: []types.PutRecordsRequestEntry{
		entry("a", "0", "one"), entry("a", highHashKey, "two"), entry("a", "0", "three"), entry("a", "", ""),
	}})
	t.OK(err)
	t.Run("answer", func(t *T) {
		t.Equal(int32(0), aws.ToInt32(out.FailedRecordCount))
		t.Equal(4, len(out.Records))
		t.Equal(*shardID(0)+*shardID(1)+*shardID(0), *out.Records[0].ShardId+*out.Records[1].ShardId+*out.Records[2].ShardId, "shards, in order")
		for _, r := range out.Records {
			t.True(r.SequenceNumber != nil && r.ErrorCode == nil && r.ErrorMessage == nil, "a number and no error")
		}
		t.Equal(1, integer(out.Records[2].SequenceNumber).Cmp(integer(out.Records[0].SequenceNumber)), "third against first")
	})
	t.Run("stored", func(t *T) {
		texts, _ := t.drain(t.iterator(name, 1, types.ShardIteratorTypeTrimHorizon), 1)
		t.Equal("two", strings.Join(texts, " "))
	})
}

func putsRefused(t *T) {
	name := t.stream(1)
	put := func(in kinesis.PutRecordInput) error {
		in.StreamName = name
		_, err := t.kinesis.PutRecord(t.ctx, &in)
		return err
	}
	several := func(entries ...types.PutRecordsRequestEntry) error {
		_, err := t.kinesis.PutRecords(t.ctx, &kinesis.PutRecordsInput{StreamName: name, Records: entries})
		return err
	}
	many := make([]types.PutRecordsRequestEntry, 501)
	for i := range many {
		many[i] = entry("a", "", "x")
	}
	tooHigh := "340282366920938463463374607431768211456"
	rows := map[string]struct {
		code string
		call func() error
	}{
		"empty key": {"ValidationException", func() error { return put(kinesis.PutRecordInput{PartitionKey: aws.String(""), Data: []byte("x")}) }},
		"long key": {"ValidationException", func() error {
			return put(kinesis.PutRecordInput{PartitionKey: aws.String(strings.Repeat("k", 257)), Data: []byte("x")})
		}},
		"hash out of range": {"InvalidArgumentException", func() error {
			return put(kinesis.PutRecordInput{PartitionKey: aws.String("a"), ExplicitHashKey: &tooHigh, Data: []byte("x")})
		}},
		"no hash": {"ValidationException", func() error {
			return put(kinesis.PutRecordInput{PartitionKey: aws.String("a"), ExplicitHashKey: aws.String("x"), Data: []byte("x")})
		}},
		"several, none":              {"ValidationException", func() error { return several([]types.PutRecordsRequestEntry{}...) }},
		"several, 501":               {"ValidationException", func() error { return several(many...) }},
		"several, empty key":         {"ValidationException", func() error { return several(entry("a", "", "x"), entry("", "", "x")) }},
		"several, hash out of range": {"InvalidArgumentException", func() error { return several(entry("a", "", "x"), entry("a", tooHigh, "x")) }},
	}
	for label, row := range sorted(rows) {
		t.Run(label, func(t *T) { t.Refused(row.code, row.call()) })
	}
	t.Run("nothing was stored", func(t *T) {
		texts, _ := t.drain(t.iterator(name, 0, types.ShardIteratorTypeTrimHorizon), 0)
		t.Equal(0, len(texts))
	})
}

func putSize(t *T) {
	name := t.stream(1)
	put := func(n int) error {
		_, err := t.kinesis.PutRecord(t.ctx, &kinesis.PutRecordInput{StreamName: name, PartitionKey: aws.String("abcd"), Data: make([]byte, n)})
		return err
	}
	t.Run("nothing", func(t *T) { t.OK(put(0)) })
	t.Run("1 MiB with its key", func(t *T) { t.OK(put(1<<20 - 4)) })
	t.Run("a byte more", func(t *T) { t.True(put(1<<20-3) != nil, "refused") }) // with which code is not known
}

func putsThrottled(t *T) {
	name := t.stream(1)
	var entries []types.PutRecordsRequestEntry
	for range 5 {
		entries = append(entries, types.PutRecordsRequestEntry{PartitionKey: aws.String("a"), Data: make([]byte, 1_000_000)})
	}
	out, err := t.kinesis.PutRecords(t.ctx, &kinesis.PutRecordsInput{StreamName: name, Records: entries})
	t.OK(err)
	t.Run("first is stored, the rest are not", func(t *T) {
		t.Equal(int32(4), aws.ToInt32(out.FailedRecordCount))
		t.True(out.Records[0].SequenceNumber != nil, "the first has a number")
		for _, r := range out.Records[1:] {
			t.Equal("ProvisionedThroughputExceededException", aws.ToString(r.ErrorCode))
		}
	})
	t.Run("one alone is refused", func(t *T) {
		_, err := t.kinesis.PutRecord(t.ctx, &kinesis.PutRecordInput{StreamName: name, PartitionKey: aws.String("a"), Data: make([]byte, 1_000_000)})
		t.Refused("ProvisionedThroughputExceededException", err)
	})
}

func iteratorTypes(t *T) {
	name := t.stream(1)
	latestOfEmpty := t.iterator(name, 0, types.ShardIteratorTypeLatest)
	sequence := t.putTo(name, "0", "a", "b", "c")
	var arrived []time.Time
	it := t.iterator(name, 0, types.ShardIteratorTypeTrimHorizon)
	t.Await("three records", func() bool {
		out := t.read(it)
		arrived = nil
		for _, r := range out.Records {
			arrived = append(arrived, *r.ApproximateArrivalTimestamp)
		}
		return len(arrived) == 3
	})
	time.Sleep(1100 * time.Millisecond) // arrivals before and after are a second apart
	between := time.Now()
	time.Sleep(1100 * time.Millisecond)
	latest := t.iterator(name, 0, types.ShardIteratorTypeLatest)
	sequence = append(sequence, t.putTo(name, "0", "d")...)
	const at, after = types.ShardIteratorTypeAtSequenceNumber, types.ShardIteratorTypeAfterSequenceNumber
	rows := map[string]struct {
		it   func() *string
		want string
	}{
		"TRIM_HORIZON":                      {func() *string { return t.iterator(name, 0, types.ShardIteratorTypeTrimHorizon) }, "a b c d"},
		"LATEST, fixed when it was issued":  {func() *string { return latest }, "d"},
		"LATEST of an empty shard":          {func() *string { return latestOfEmpty }, "a b c d"},
		"LATEST now":                        {func() *string { return t.iterator(name, 0, types.ShardIteratorTypeLatest) }, ""},
		"AT_SEQUENCE_NUMBER":                {func() *string { return t.iterator(name, 0, at, startingAt(sequence[1])) }, "b c d"},
		"AFTER_SEQUENCE_NUMBER":             {func() *string { return t.iterator(name, 0, after, startingAt(sequence[1])) }, "c d"},
		"AFTER_SEQUENCE_NUMBER of the last": {func() *string { return t.iterator(name, 0, after, startingAt(sequence[3])) }, ""},
		"AT_SEQUENCE_NUMBER of the shard's start": {func() *string {
			return t.iterator(name, 0, at, startingAt(*t.shard(name, 0).SequenceNumberRange.StartingSequenceNumber))
		}, "a b c d"},
		"AFTER_SEQUENCE_NUMBER of the shard's start": {func() *string {
			return t.iterator(name, 0, after, startingAt(*t.shard(name, 0).SequenceNumberRange.StartingSequenceNumber))
		}, "a b c d"},
		"AT_TIMESTAMP before the stream": {func() *string {
			return t.iterator(name, 0, types.ShardIteratorTypeAtTimestamp, since(between.Add(-48*time.Hour)))
		}, "a b c d"},
		"AT_TIMESTAMP between":                     {func() *string { return t.iterator(name, 0, types.ShardIteratorTypeAtTimestamp, since(between)) }, "d"},
		"AT_TIMESTAMP of the arrival of the first": {func() *string { return t.iterator(name, 0, types.ShardIteratorTypeAtTimestamp, since(arrived[0])) }, "a b c d"},
	}
	for label, row := range sorted(rows) {
		t.Run(label, func(t *T) {
			texts, _ := t.drain(row.it(), len(strings.Fields(row.want)))
			t.Equal(row.want, strings.Join(texts, " "))
		})
	}
}

func iteratorsRefused(t *T) {
	name := t.stream(2)
	other := t.stream(1)
	sequence := t.putTo(name, "0", "a")[0]
	foreign := t.putTo(name, highHashKey, "b")[0]
	rows := map[string]struct {
		code string
		in   kinesis.GetShardIteratorInput
	}{
		"AT without a number":         {"InvalidArgumentException", kinesis.GetShardIteratorInput{ShardIteratorType: types.ShardIteratorTypeAtSequenceNumber}},
		"AFTER without a number":      {"InvalidArgumentException", kinesis.GetShardIteratorInput{ShardIteratorType: types.ShardIteratorTypeAfterSequenceNumber}},
		"TRIM_HORIZON with a number":  {"InvalidArgumentException", kinesis.GetShardIteratorInput{ShardIteratorType: types.ShardIteratorTypeTrimHorizon, StartingSequenceNumber: &sequence}},
		"LATEST with a number":        {"InvalidArgumentException", kinesis.GetShardIteratorInput{ShardIteratorType: types.ShardIteratorTypeLatest, StartingSequenceNumber: &sequence}},
		"AT_TIMESTAMP without a time": {"InvalidArgumentException", kinesis.GetShardIteratorInput{ShardIteratorType: types.ShardIteratorTypeAtTimestamp}},
		"AT_TIMESTAMP in the future":  {"InvalidArgumentException", kinesis.GetShardIteratorInput{ShardIteratorType: types.ShardIteratorTypeAtTimestamp, Timestamp: aws.Time(time.Now().Add(time.Hour))}},
		"number of another shard":     {"InvalidArgumentException", kinesis.GetShardIteratorInput{ShardIteratorType: types.ShardIteratorTypeAtSequenceNumber, StartingSequenceNumber: &foreign}},
		"unknown type":                {"ValidationException", kinesis.GetShardIteratorInput{ShardIteratorType: "SOMEWHERE"}},
		"no number":                   {"ValidationException", kinesis.GetShardIteratorInput{ShardIteratorType: types.ShardIteratorTypeAtSequenceNumber, StartingSequenceNumber: aws.String("x")}},
		"unknown shard":               {"ResourceNotFoundException", kinesis.GetShardIteratorInput{ShardId: shardID(7), ShardIteratorType: types.ShardIteratorTypeLatest}},
		"no shard id":                 {"ResourceNotFoundException", kinesis.GetShardIteratorInput{ShardId: aws.String("shard"), ShardIteratorType: types.ShardIteratorTypeLatest}},
		"unknown stream":              {"ResourceNotFoundException", kinesis.GetShardIteratorInput{StreamName: aws.String(t.Unused()), ShardIteratorType: types.ShardIteratorTypeLatest}},
		"number of another stream":    {"InvalidArgumentException", kinesis.GetShardIteratorInput{StreamName: other, ShardIteratorType: types.ShardIteratorTypeAtSequenceNumber, StartingSequenceNumber: &foreign}},
	}
	for label, row := range sorted(rows) {
		t.Run(label, func(t *T) {
			if row.in.StreamName == nil {
				row.in.StreamName = name
			}
			if row.in.ShardId == nil {
				row.in.ShardId = shardID(0)
			}
			_, err := t.kinesis.GetShardIterator(t.ctx, &row.in)
			t.Refused(row.code, err)
		})
	}
}

func iteratorLife(t *T) {
	name := t.stream(1)
	t.putTo(name, "0", "a")
	it := t.iterator(name, 0, types.ShardIteratorTypeTrimHorizon)
	time.Sleep(299 * time.Second)
	t.Run("five minutes", func(t *T) { t.Equal(1, len(t.read(it).Records)) })
	next := t.read(it).NextShardIterator
	time.Sleep(2 * time.Second)
	t.Run("not longer", func(t *T) {
		_, err := t.kinesis.GetRecords(t.ctx, &kinesis.GetRecordsInput{ShardIterator: it})
		t.Refused("ExpiredIteratorException", err)
	})
	t.Run("the next has its own", func(t *T) {
		for range 5 {
			time.Sleep(4 * time.Minute)
			next = t.read(next).NextShardIterator
		}
	})
}

func recordPages(t *T) {
	name := t.stream(1)
	t.putTo(name, "0", "a", "b", "c", "d", "e")
	first := t.iterator(name, 0, types.ShardIteratorTypeTrimHorizon)
	page := func(it *string, limit int32) (string, *kinesis.GetRecordsOutput) {
		var texts []string
		var out *kinesis.GetRecordsOutput
		t.Await("records", func() bool {
			var err error
			out, err = t.kinesis.GetRecords(t.ctx, &kinesis.GetRecordsInput{ShardIterator: it, Limit: &limit})
			t.OK(err)
			return len(out.Records) > 0
		})
		for _, r := range out.Records {
			texts = append(texts, string(r.Data))
		}
		return strings.Join(texts, " "), out
	}
	t.Run("limit", func(t *T) {
		texts, out := page(first, 2)
		t.Equal("a b", texts)
		texts, out = page(out.NextShardIterator, 2)
		t.Equal("c d", texts)
		texts, out = page(out.NextShardIterator, 2)
		t.Equal("e", texts)
		t.Equal(0, len(t.read(out.NextShardIterator).Records))
	})
	t.Run("an iterator used twice", func(t *T) {
		one, _ := page(first, 3)
		two, _ := page(first, 3)
		t.Equal("a b c, a b c", one+", "+two)
	})
	t.Run("and again after a put", func(t *T) {
		t.putTo(name, "0", "f")
		t.Await("all", func() bool { return len(t.read(first).Records) == 6 })
	})
}

func recordMembers(t *T) {
	name := t.stream(1)
	before := time.Now().Add(-5 * time.Second)
	data := []byte{0, 1, 254, 255}
	put, err := t.kinesis.PutRecord(t.ctx, &kinesis.PutRecordInput{StreamName: name, PartitionKey: aws.String("ключ 🔑"), Data: data})
	t.OK(err)
	t.putTo(name, "0", "")
	it := t.iterator(name, 0, types.ShardIteratorTypeTrimHorizon)
	var out *kinesis.GetRecordsOutput
	t.Await("records", func() bool { out = t.read(it); return len(out.Records) == 2 })
	r := out.Records[0]
	t.Run("number", func(t *T) { t.Equal(*put.SequenceNumber, *r.SequenceNumber) })
	t.Run("key", func(t *T) { t.Equal("ключ 🔑", *r.PartitionKey) })
	t.Run("data", func(t *T) { t.True(bytes.Equal(data, r.Data), r.Data) })
	t.Run("empty data", func(t *T) { t.Equal(0, len(out.Records[1].Data)) })
	t.Run("arrival", func(t *T) {
		t.True(r.ApproximateArrivalTimestamp.After(before) && r.ApproximateArrivalTimestamp.Before(time.Now().Add(5*time.Second)), r.ApproximateArrivalTimestamp)
	})
	t.Run("encryption is not told of", func(t *T) { t.Equal(types.EncryptionType(""), r.EncryptionType) })
	t.Run("distance", func(t *T) {
		t.True(out.MillisBehindLatest != nil, "told")
		t.Equal(int64(0), aws.ToInt64(out.MillisBehindLatest)/60_000, "minutes behind at the tip")
	})
}

func readsRefused(t *T) {
	name := t.stream(1)
	it := t.iterator(name, 0, types.ShardIteratorTypeTrimHorizon)
	rows := map[string]struct {
		code string
		in   kinesis.GetRecordsInput
	}{
		"no iterator":       {"InvalidArgumentException", kinesis.GetRecordsInput{ShardIterator: aws.String("AAAA")}},
		"empty iterator":    {"ValidationException", kinesis.GetRecordsInput{ShardIterator: aws.String("")}},
		"long iterator":     {"ValidationException", kinesis.GetRecordsInput{ShardIterator: aws.String(strings.Repeat("A", 513))}},
		"limit 0":           {"ValidationException", kinesis.GetRecordsInput{ShardIterator: it, Limit: aws.Int32(0)}},
		"limit above 10000": {"ValidationException", kinesis.GetRecordsInput{ShardIterator: it, Limit: aws.Int32(10_001)}},
	}
	for label, row := range sorted(rows) {
		t.Run(label, func(t *T) {
			_, err := t.kinesis.GetRecords(t.ctx, &row.in)
			t.Refused(row.code, err)
		})
	}
	t.Run("limit 10000", func(t *T) {
		_, err := t.kinesis.GetRecords(t.ctx, &kinesis.GetRecordsInput{ShardIterator: it, Limit: aws.Int32(10_000)})
		t.OK(err)
	})
}

func openShard(t *T) {
	name := t.stream(1)
	it := t.iterator(name, 0, types.ShardIteratorTypeTrimHorizon)
	t.Run("goes on when it is empty", func(t *T) {
		for range 3 {
			out := t.read(it)
			t.Equal(0, len(out.Records))
			if it = out.NextShardIterator; it == nil {
				t.Fatalf("no next iterator")
			}
			time.Sleep(pollPause)
		}
		t.putTo(name, "0", "a")
		texts, _ := t.drain(it, 1)
		t.Equal([]string{"a"}, texts)
	})
}

// 25 records of a MiB: ten at once, none for five seconds, ten, five.
func largePage(t *T) {
	name := t.stream(1)
	for range 25 {
		_, err := t.kinesis.PutRecord(t.ctx, &kinesis.PutRecordInput{StreamName: name, PartitionKey: aws.String("a"), Data: make([]byte, 1<<20-1)})
		t.OK(err)
	}
	it := t.iterator(name, 0, types.ShardIteratorTypeTrimHorizon)
	for i, want := range []int{10, 10, 5} {
		out := t.read(it)
		t.Equal(want, len(out.Records), "page ", i)
		it = out.NextShardIterator
	}
}

func fiveReads(t *T) {
	name := t.stream(1)
	it := t.iterator(name, 0, types.ShardIteratorTypeTrimHorizon)
	var codes []string
	for range 6 {
		_, err := t.kinesis.GetRecords(t.ctx, &kinesis.GetRecordsInput{ShardIterator: it})
		codes = append(codes, codeOf(err))
	}
	t.Run("the sixth is refused", func(t *T) {
		t.Equal(fmt.Sprint([]string{"", "", "", "", "", "ProvisionedThroughputExceededException"}), fmt.Sprint(codes))
	})
	t.Run("and does no harm", func(t *T) {
		time.Sleep(1100 * time.Millisecond)
		t.read(it)
	})
}
