package kinesis

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// aws-kinesis#2: whole answers to a reader.
func TestAnswersToAReader(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 1)
		sleepUntil(1500 * time.Millisecond)
		put := w.do("PutRecord", m{"StreamName": "s", "PartitionKey": "a", "Data": []byte("hello")})
		number := sequence{created: bubbleStart.Unix() - 3, index: 1, second: bubbleStart.Unix() + 1}.String()
		assert.JSONEq(t, `{"ShardId":"shardId-000000000000","SequenceNumber":"`+number+`"}`, string(put))
		it := w.iterator("s", 0, "TRIM_HORIZON", nil)
		next := iterator{streamKey{testAccount, testRegion, "s"}, bubbleStart.UnixMilli() + 1500, bubbleStart.Unix(), 0, 2, 0, 0, 0}.String()
		assert.JSONEq(t, `{"Records":[{"SequenceNumber":"`+number+`","ApproximateArrivalTimestamp":946684801.500,"Data":"aGVsbG8=","PartitionKey":"a"}],
			"NextShardIterator":"`+next+`","MillisBehindLatest":0}`, string(w.do("GetRecords", m{"ShardIterator": it})))
		time.Sleep(time.Second)
		assert.Contains(t, string(w.do("GetRecords", m{"ShardIterator": next})), `"Records":[]`)
		batch := w.do("PutRecords", m{"StreamName": "s", "Records": []m{{"PartitionKey": "a", "Data": []byte("x")}}})
		number = sequence{created: bubbleStart.Unix() - 3, index: 2, second: bubbleStart.Unix() + 2}.String()
		assert.JSONEq(t, `{"FailedRecordCount":0,"Records":[{"ShardId":"shardId-000000000000","SequenceNumber":"`+number+`"}]}`, string(batch))
	})
}

// aws-kinesis#33,57
func TestGetRecordsRate(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 2)
		w.put("s", "a", "0")
		it := w.iterator("s", 0, "TRIM_HORIZON", nil)
		limited := bad("ProvisionedThroughputExceededException", "Rate exceeded for shard shardId-000000000000 in stream s under account 012345678901.")
		for range 5 {
			w.read(it)
			time.Sleep(10 * time.Millisecond)
		}
		assert.Equal(t, limited, w.refused("GetRecords", m{"ShardIterator": it}))
		assert.Equal(t, limited, w.as("999999999999").refused("GetRecords", m{"ShardIterator": it}), "of all consumers together")
		w.read(w.iterator("s", 1, "LATEST", nil))
		sleepUntil(time.Second - time.Nanosecond)
		assert.Equal(t, limited, w.refused("GetRecords", m{"ShardIterator": it}))
		sleepUntil(time.Second)
		assert.Equal(t, []string{"a"}, keysOf(w.read(it)), "the refused calls put nothing off")
		sleepUntil(1010*time.Millisecond - time.Nanosecond)
		assert.Equal(t, limited, w.refused("GetRecords", m{"ShardIterator": it}))
		sleepUntil(1010 * time.Millisecond)
		assert.Equal(t, []string{"a"}, keysOf(w.read(it)))
	})
}

// aws-kinesis#34
func TestGetRecordsThroughput(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.inCBOR()
		w.create("s", 1)
		for i := range 25 {
			key := strconv.Itoa(10 + i)
			w.do("PutRecord", m{"StreamName": "s", "PartitionKey": key, "Data": make([]byte, 1<<20-2)})
			time.Sleep(time.Second)
		}
		it := w.iterator("s", 0, "TRIM_HORIZON", nil)
		start := time.Now()
		out := w.read(it)
		assert.Len(t, out.Records, 10)
		for _, wait := range []time.Duration{0, time.Second, 5*time.Second - time.Nanosecond} {
			time.Sleep(time.Until(start.Add(wait)))
			assert.Equal(t, "ProvisionedThroughputExceededException", w.refused("GetRecords", m{"ShardIterator": out.NextShardIterator}).Code)
		}
		time.Sleep(time.Until(start.Add(5 * time.Second)))
		out = w.read(out.NextShardIterator)
		assert.Len(t, out.Records, 10)
		assert.Equal(t, "20", out.Records[0].PartitionKey)
		time.Sleep(time.Until(start.Add(10 * time.Second)))
		out = w.read(out.NextShardIterator)
		assert.Len(t, out.Records, 5)
		assert.Zero(t, out.MillisBehindLatest)
	})
}

func TestGetRecordsPages(t *testing.T) {
	bubble(t, Config{NoLimits: true}, func(t *testing.T, w *world) {
		w.inCBOR()
		w.create("s", 1)
		for range 21 {
			w.do("PutRecords", m{"StreamName": "s", "Records": slices.Repeat([]m{{"PartitionKey": "k", "Data": []byte("x")}}, 500)})
			time.Sleep(time.Second)
		}
		it := w.iterator("s", 0, "TRIM_HORIZON", nil)
		out := w.read(it)
		assert.Len(t, out.Records, 10_000)
		assert.EqualValues(t, 2000, out.MillisBehindLatest, "the age of the last one returned")
		out = w.read(out.NextShardIterator)
		assert.Len(t, out.Records, 500)
		assert.Zero(t, out.MillisBehindLatest)
		limited := get[getRecordsOutput](w, "GetRecords", m{"ShardIterator": it, "Limit": 3})
		assert.Len(t, limited.Records, 3)
		assert.EqualValues(t, 21_000, limited.MillisBehindLatest)

		// A record beyond what is left of 10 MiB ends the page before it.
		w.create("t", 1)
		w.do("UpdateMaxRecordSize", m{"StreamARN": testARN + "t", "MaxRecordSizeInKiB": 10_240})
		w.awaitActive("t")
		for _, size := range []int{1, 10<<20 - 2, 1, 10<<20 - 1} {
			w.do("PutRecord", m{"StreamName": "t", "PartitionKey": "k", "Data": make([]byte, size)})
		}
		it = w.iterator("t", 0, "TRIM_HORIZON", nil)
		var pages []int
		for range 4 {
			out := w.read(it)
			pages = append(pages, len(out.Records))
			it = out.NextShardIterator
		}
		assert.Equal(t, []int{1, 1, 1, 1}, pages)
	})
}

// aws-kinesis#37
func TestTrimmedPosition(t *testing.T) {
	bubble(t, Config{TrimmedPages: 3, NoLimits: true}, func(t *testing.T, w *world) {
		w.create("s", 1)
		old := w.put("s", "old")
		live := w.iterator("s", 0, "TRIM_HORIZON", nil)
		sleepUntil(23 * time.Hour)
		w.put("s", "new")
		sleepUntil(24*time.Hour + time.Minute)
		for name, it := range map[string]string{
			"AT the trimmed number": w.iterator("s", 0, "AT_SEQUENCE_NUMBER", m{"StartingSequenceNumber": old.SequenceNumber}),
			"AFTER the shard's start": w.iterator("s", 0, "AFTER_SEQUENCE_NUMBER",
				m{"StartingSequenceNumber": w.shardOf("s", 0).SequenceNumberRange.StartingSequenceNumber}),
		} {
			for range 3 {
				out := w.read(it)
				assert.Empty(t, out.Records, name)
				assert.EqualValues(t, 86_400_000, out.MillisBehindLatest, name)
				it = out.NextShardIterator
			}
			assert.Equal(t, []string{"new"}, keysOf(w.read(it)), name)
		}
		after := w.iterator("s", 0, "AFTER_SEQUENCE_NUMBER", m{"StartingSequenceNumber": old.SequenceNumber})
		assert.Equal(t, []string{"new"}, keysOf(w.read(after)), "nothing that it wants is trimmed")
		assert.Equal(t, []string{"new"}, keysOf(w.read(w.iterator("s", 0, "TRIM_HORIZON", nil))))
		assert.Equal(t, "ExpiredIteratorException", w.refused("GetRecords", m{"ShardIterator": live}).Code)
	})
	bubble(t, Config{TrimmedPages: 1, NoLimits: true}, func(t *testing.T, w *world) { // trimmed while the iterator is held
		w.create("s", 1)
		w.put("s", "old")
		sleepUntil(24 * time.Hour)
		it := w.iterator("s", 0, "TRIM_HORIZON", nil)
		w.put("s", "new")
		sleepUntil(24*time.Hour + time.Second)
		out := w.read(it)
		assert.Empty(t, out.Records)
		assert.Equal(t, []string{"new"}, keysOf(w.read(out.NextShardIterator)))
	})
	bubble(t, Config{NoLimits: true}, func(t *testing.T, w *world) { // off unless asked for
		w.create("s", 1)
		old := w.put("s", "old")
		sleepUntil(25 * time.Hour)
		w.put("s", "new")
		assert.Equal(t, []string{"new"}, keysOf(w.read(w.iterator("s", 0, "AT_SEQUENCE_NUMBER", m{"StartingSequenceNumber": old.SequenceNumber}))))
	})
}

// aws-kinesis#38
func TestEndOfASplitShard(t *testing.T) {
	bubble(t, Config{NoLimits: true}, func(t *testing.T, w *world) {
		w.create("s", 1)
		w.put("s", "a")
		w.split("s", 0)
		sleepUntil(2 * time.Second)
		it := w.iterator("s", 0, "TRIM_HORIZON", nil)
		body := string(w.do("GetRecords", m{"ShardIterator": it}))
		assert.NotContains(t, body, "NextShardIterator")
		out := w.read(it)
		assert.Equal(t, []string{"a"}, keysOf(out))
		children := []childOutput{
			{shardID(1), []string{shardID(0)}, hashKeyRange{"0", "170141183460469231731687303715884105727"}},
			{shardID(2), []string{shardID(0)}, hashKeyRange{"170141183460469231731687303715884105728", maxKeyText}},
		}
		assert.Equal(t, children, out.ChildShards)
		assert.Equal(t, out, w.read(it), "and again")
		limited := get[getRecordsOutput](w, "GetRecords", m{"ShardIterator": it, "Limit": 1})
		assert.Equal(t, children, limited.ChildShards, "with the last record")
	})
	bubble(t, Config{LateEnd: 3, NoLimits: true}, func(t *testing.T, w *world) {
		w.create("s", 1)
		w.put("s", "a")
		w.split("s", 0)
		sleepUntil(2 * time.Second)
		it := w.iterator("s", 0, "TRIM_HORIZON", nil)
		for i := range 3 {
			out := w.read(it)
			assert.Len(t, out.Records, map[int]int{0: 1}[i])
			require.NotEmpty(t, out.NextShardIterator, "late")
			assert.Empty(t, out.ChildShards)
			it = out.NextShardIterator
		}
		out := w.read(it)
		assert.Empty(t, out.NextShardIterator)
		assert.Len(t, out.ChildShards, 2)
	})
}

// aws-kinesis#39
func TestEndOfMergedShards(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 2)
		w.merge("s", 0, 1)
		sleepUntil(2 * time.Second)
		for parent := range 2 {
			out := w.read(w.iterator("s", parent, "TRIM_HORIZON", nil))
			assert.Empty(t, out.NextShardIterator)
			assert.Equal(t, []childOutput{{shardID(2), []string{shardID(0), shardID(1)}, hashKeyRange{"0", maxKeyText}}}, out.ChildShards)
		}
	})
}

// aws-kinesis#40
func TestLatestOnAClosedShard(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 1)
		w.put("s", "a")
		w.split("s", 0)
		sleepUntil(time.Hour)
		out := w.read(w.iterator("s", 0, "LATEST", nil))
		assert.Empty(t, out.Records)
		assert.Empty(t, out.NextShardIterator)
		assert.Len(t, out.ChildShards, 2)
		time.Sleep(time.Second)
		end := w.shardOf("s", 0).SequenceNumberRange.EndingSequenceNumber
		out = w.read(w.iterator("s", 0, "AFTER_SEQUENCE_NUMBER", m{"StartingSequenceNumber": end}))
		assert.Len(t, out.ChildShards, 2)
	})
}

func TestReadDelay(t *testing.T) {
	bubble(t, Config{ReadDelay: 500 * time.Millisecond, NoLimits: true}, func(t *testing.T, w *world) {
		w.create("s", 1)
		it := w.iterator("s", 0, "LATEST", nil)
		w.put("s", "a")
		sleepUntil(499 * time.Millisecond)
		latest := w.iterator("s", 0, "LATEST", nil)
		out := w.read(it)
		assert.Empty(t, out.Records)
		sleepUntil(500 * time.Millisecond)
		assert.Equal(t, []string{"a"}, keysOf(w.read(out.NextShardIterator)))
		assert.Empty(t, w.read(latest).Records, "it had been put before")

		sleepUntil(1800 * time.Millisecond)
		w.split("s", 0) // the children start at 3 s
		sleepUntil(2999 * time.Millisecond)
		w.put("s", "b")
		sleepUntil(3 * time.Second)
		out = w.read(latest)
		assert.Empty(t, out.Records)
		assert.NotEmpty(t, out.NextShardIterator, "no end before the last record is readable")
		sleepUntil(3499 * time.Millisecond)
		out = w.read(out.NextShardIterator)
		assert.Equal(t, []string{"b"}, keysOf(out))
		assert.Len(t, out.ChildShards, 2)
	})
}

func TestEmptyPagesBeforeData(t *testing.T) {
	bubble(t, Config{EmptyPages: 3, NoLimits: true}, func(t *testing.T, w *world) {
		w.create("s", 1)
		w.put("s", "a")
		sleepUntil(time.Hour)
		w.put("s", "b")
		it := w.iterator("s", 0, "TRIM_HORIZON", nil)
		var behind []int64
		for range 3 {
			out := w.read(it)
			require.Empty(t, out.Records)
			behind = append(behind, out.MillisBehindLatest)
			it = out.NextShardIterator
		}
		hour := time.Hour.Milliseconds()
		assert.Equal(t, []int64{hour, hour, hour}, behind, "the record is as old as the horizon")
		out := get[getRecordsOutput](w, "GetRecords", m{"ShardIterator": it, "Limit": 1})
		assert.Equal(t, []string{"a"}, keysOf(out))
		assert.Equal(t, []string{"b"}, keysOf(w.read(out.NextShardIterator)), "once for an iterator and its successors")

		out = w.read(w.iterator("s", 0, "LATEST", nil))
		assert.Zero(t, out.MillisBehindLatest, "there is nothing ahead")
		sleepUntil(2 * time.Hour)
		behind = nil
		it = w.iterator("s", 0, "AT_TIMESTAMP", m{"Timestamp": after0(time.Hour)})
		for range 3 {
			out := w.read(it)
			behind = append(behind, out.MillisBehindLatest)
			it = out.NextShardIterator
		}
		assert.Equal(t, []int64{2 * hour, 2*hour - hour/3, 2*hour - 2*hour/3}, behind)
		assert.Equal(t, []string{"b"}, keysOf(w.read(it)))
	})
}
