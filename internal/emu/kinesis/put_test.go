package kinesis

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// aws-kinesis#25
func TestPutRecordsPartlyThrottled(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 2)
		const low, high = "0", maxKeyText
		entryOf := func(hash string, size int) m {
			return m{"PartitionKey": "k", "ExplicitHashKey": hash, "Data": make([]byte, size)}
		}
		out := get[putRecordsOutput](w, "PutRecords", m{"StreamName": "s", "Records": []m{
			entryOf(low, 700_000), entryOf(low, 700_000), entryOf(high, 10), entryOf(low, 300_000), entryOf(low, 100_000),
		}})
		assert.Equal(t, 2, out.FailedRecordCount)
		throttled := putResult{ErrorCode: "ProvisionedThroughputExceededException",
			ErrorMessage: "Rate exceeded for shard shardId-000000000000 in stream s under account 012345678901."}
		number := func(index uint64, shard uint32) putResult {
			origin := bubbleStart.Unix()
			return putResult{ShardId: shardID(shard), SequenceNumber: sequence{created: origin - 3, index: index, second: origin, shard: shard}.String()}
		}
		assert.Equal(t, []putResult{number(1, 0), throttled, number(2, 1), number(3, 0), throttled}, out.Records)
		assert.Equal(t, "ProvisionedThroughputExceededException", w.refused("PutRecord",
			m{"StreamName": "s", "PartitionKey": "k", "ExplicitHashKey": low, "Data": make([]byte, 100_000)}).Code)
		time.Sleep(time.Second - time.Nanosecond)
		assert.NotZero(t, get[putRecordsOutput](w, "PutRecords", m{"StreamName": "s", "Records": []m{entryOf(low, 700_000)}}).FailedRecordCount)
		time.Sleep(time.Nanosecond)
		assert.Zero(t, get[putRecordsOutput](w, "PutRecords", m{"StreamName": "s", "Records": []m{entryOf(low, 700_000)}}).FailedRecordCount)
	})
}

func TestPutRates(t *testing.T) {
	record := func(size int) m { return m{"PartitionKey": "k", "Data": make([]byte, size-1)} } // size with the key
	// stored says how many of n records, one call each, a shard takes at once.
	stored := func(w *world, n, size int) int {
		for i := range n {
			in := record(size)
			in["StreamName"] = "s"
			if a := w.answer("PutRecord", in); a.Err != nil {
				require.Equal(w, "ProvisionedThroughputExceededException", a.Err.Code())
				return i
			}
		}
		return n
	}
	batch := func(w *world, n, size int) int {
		out := get[putRecordsOutput](w, "PutRecords", m{"StreamName": "s", "Records": slices.Repeat([]m{record(size)}, n)})
		return n - out.FailedRecordCount
	}
	large := func(w *world) {
		w.do("UpdateMaxRecordSize", m{"StreamARN": testARN + "s", "MaxRecordSizeInKiB": 10_240})
		w.awaitActive("s")
	}
	for name, run := range map[string]func(w *world){
		"1000 records a second": func(w *world) {
			assert.Equal(w, 1000, stored(w, 1100, 1))
		},
		"1000 records a second, batched": func(w *world) {
			assert.Equal(w, 500, batch(w, 500, 1))
			assert.Equal(w, 500, batch(w, 500, 1))
			assert.Equal(w, 0, batch(w, 500, 1))
		},
		"single records count by the whole KiB": func(w *world) {
			assert.Equal(w, 512, stored(w, 600, 1025))
		},
		"a batch counts by its sum": func(w *world) {
			assert.Equal(w, 500, batch(w, 500, 1025))
			assert.Equal(w, 500, batch(w, 500, 1025))
			assert.Equal(w, 0, batch(w, 500, 1025), "by records")
		},
		"a batch is rounded up": func(w *world) {
			assert.Equal(w, 1, batch(w, 1, 1023*1024+1), "takes the whole second")
			assert.Equal(w, 0, batch(w, 1, 1))
		},
		"five records of 1 MiB": func(w *world) {
			assert.Equal(w, 1, batch(w, 5, 1<<20))
		},
		"larger records come out of a tank of 10 MiB": func(w *world) {
			large(w)
			assert.Equal(w, 1, stored(w, 2, 8<<20))
			assert.Equal(w, 1, stored(w, 2, 2<<20))
			assert.Equal(w, 1, stored(w, 2, 1<<20), "smaller ones do not")
			time.Sleep(2*time.Second - time.Millisecond)
			assert.Equal(w, 0, stored(w, 1, 2<<20))
			time.Sleep(time.Millisecond)
			assert.Equal(w, 1, stored(w, 2, 2<<20), "it refills at 1 MiB a second")
			time.Sleep(time.Hour)
			assert.Equal(w, 1, stored(w, 2, 10<<20), "and never beyond 10 MiB")
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Config{}, func(t *testing.T, w *world) {
				w.inCBOR()
				w.create("s", 1)
				run(w)
			})
		})
	}
	bubble(t, Config{NoLimits: true}, func(t *testing.T, w *world) {
		w.inCBOR()
		w.create("s", 1)
		assert.Equal(t, 1500, stored(w, 1500, 2000))
	})
}

// aws-kinesis#26
func TestRecordSize(t *testing.T) {
	bubble(t, Config{NoLimits: true}, func(t *testing.T, w *world) {
		w.inCBOR()
		w.create("s", 1)
		// The key has two characters and four bytes.
		in := func(size int) m { return m{"StreamName": "s", "PartitionKey": "üü", "Data": make([]byte, size-4)} }
		w.do("PutRecord", in(1<<20))
		assert.Equal(t, "InvalidArgumentException", w.refused("PutRecord", in(1<<20+1)).Code)
		assert.Equal(t, "InvalidArgumentException", w.refused("PutRecords", m{"StreamName": "s", "Records": []m{
			{"PartitionKey": "a", "Data": []byte("x")}, {"PartitionKey": "üü", "Data": make([]byte, 1<<20-3)},
		}}).Code)
		w.do("UpdateMaxRecordSize", m{"StreamARN": testARN + "s", "MaxRecordSizeInKiB": 2048})
		w.awaitActive("s")
		w.do("PutRecord", in(1<<20+1))
		w.do("PutRecord", in(2<<20))
		assert.Equal(t, "InvalidArgumentException", w.refused("PutRecord", in(2<<20+1)).Code)
		assert.Equal(t, 2048, get[describeStreamSummaryOutput](w, "DescribeStreamSummary", m{"StreamName": "s"}).StreamDescriptionSummary.MaxRecordSizeInKiB)
		assert.Len(t, w.stored("s"), 3)
	})
}

func TestPutRecordsTotal(t *testing.T) {
	bubble(t, Config{NoLimits: true}, func(t *testing.T, w *world) {
		w.inCBOR()
		w.create("s", 1)
		full := slices.Repeat([]m{{"PartitionKey": "k", "Data": make([]byte, 1<<20-1)}}, 10)
		w.do("PutRecords", m{"StreamName": "s", "Records": full})
		over := append(full, m{"PartitionKey": "k", "Data": []byte{}})
		assert.Equal(t, bad("InvalidArgumentException", "Records size exceeds 10 MB limit"), w.refused("PutRecords", m{"StreamName": "s", "Records": over}))
	})
}

func TestExplicitHashKey(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 4)
		for hash, want := range map[string]uint32{
			"0": 0, "85070591730234615865843651857942052863": 0, "85070591730234615865843651857942052864": 1, maxKeyText: 3,
		} {
			assert.Equal(t, shardID(want), w.put("s", "k", hash).ShardId, hash)
		}
		beyond := "340282366920938463463374607431768211456"
		want := bad("InvalidArgumentException", "Invalid ExplicitHashKey. ExplicitHashKey must be in the range: [0, 2^128-1]. Specified value was "+beyond)
		assert.Equal(t, want, w.refused("PutRecord", m{"StreamName": "s", "PartitionKey": "k", "Data": []byte{}, "ExplicitHashKey": beyond}))
		assert.Equal(t, want, w.refused("PutRecords", m{"StreamName": "s", "Records": []m{
			{"PartitionKey": "k", "Data": []byte{}}, {"PartitionKey": "k", "Data": []byte{}, "ExplicitHashKey": beyond},
		}}))
		assert.Len(t, w.stored("s"), 4, "the whole call failed")
	})
}

func TestSequenceNumberForOrdering(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 1)
		origin := bubbleStart.Unix()
		in := func(number string) m {
			return m{"StreamName": "s", "PartitionKey": "k", "Data": []byte{}, "SequenceNumberForOrdering": number}
		}
		w.do("PutRecord", in(sequence{created: origin - 3, second: origin}.String()))
		for _, number := range []string{"12345", "0", sequence{created: origin - 3, second: origin + 1}.String()} {
			assert.Equal(t, bad("InvalidArgumentException", "ExclusiveMinimumSequenceNumber "+number+
				" used in PutRecord on stream s under account 012345678901 is invalid."), w.refused("PutRecord", in(number)))
		}
	})
}

func TestNumberLag(t *testing.T) {
	bubble(t, Config{NumberLag: 2 * time.Second}, func(t *testing.T, w *world) {
		w.create("s", 1)
		time.Sleep(10 * time.Second)
		w.split("s", 0)
		second := func(p putRecordOutput) int64 {
			q, ok := parseSequence(p.SequenceNumber)
			require.True(t, ok)
			return q.second - bubbleStart.Unix()
		}
		assert.EqualValues(t, 8, second(w.put("s", "k")))
		time.Sleep(2 * time.Second)
		child := w.put("s", "k")
		assert.EqualValues(t, 12, second(child), "not before the shard's start")
		n, _ := parseShardID(child.ShardId)
		out := w.read(w.iterator("s", int(n), "AT_SEQUENCE_NUMBER", m{"StartingSequenceNumber": child.SequenceNumber}))
		require.Len(t, out.Records, 1)
		assert.Equal(t, child.SequenceNumber, out.Records[0].SequenceNumber)
		assert.True(t, bubbleStart.Add(12*time.Second).Equal(out.Records[0].ApproximateArrivalTimestamp.Time))
	})
}

func TestDryRun(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 1)
		w.put("s", "a")
		it := w.iterator("s", 0, "TRIM_HORIZON", nil)
		for i, c := range []struct {
			operation string
			in        m
		}{
			{"PutRecord", m{"StreamName": "s", "PartitionKey": "k", "Data": []byte{}}},
			{"PutRecords", m{"StreamName": "s", "Records": []m{{"PartitionKey": "k", "Data": []byte{}}}}},
			{"GetShardIterator", iteratorInput("s", 0, "LATEST", nil)},
			{"GetRecords", m{"ShardIterator": it}},
		} {
			time.Sleep(time.Second)
			c.in["DryRun"] = true
			assert.Equal(t, "DryRunOperationException", w.codeOf(c.operation, c.in), "%d", i)
			assert.Equal(t, "ThrottlingException", w.codeOf(c.operation, c.in), "one a second")
		}
		assert.Equal(t, []string{"a"}, w.stored("s"))
	})
}

func TestCreateDirectly(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		spec := StreamSpec{Account: testAccount, Region: testRegion, Name: "s", Shards: 2, Retention: 48 * time.Hour, OnDemand: true}
		require.NoError(t, w.Create(spec))
		assert.ErrorContains(t, w.Create(spec), "Stream s under account 012345678901 already exists.")
		d := get[describeStreamSummaryOutput](w, "DescribeStreamSummary", m{"StreamName": "s"}).StreamDescriptionSummary
		assert.Equal(t, "ACTIVE ON_DEMAND 48 2", fmt.Sprint(d.StreamStatus, " ", d.StreamModeDetails.StreamMode, " ", d.RetentionPeriodHours, " ", d.OpenShardCount))
		for _, wrong := range []StreamSpec{
			{Name: "a b", Shards: 1}, {Name: "t"}, {Name: "t", Shards: 1, Retention: time.Hour}, {Name: "t", Shards: 1, Retention: 24*time.Hour + 1},
		} {
			assert.Error(t, w.Create(wrong), wrong)
		}

		put := w.put("s", "a")
		w.put("s", "f")
		shards, ok := w.Shards(testAccount, testRegion, "s")
		require.True(t, ok)
		assert.Equal(t, Shard{ID: shardID(0), Records: []Record{
			{SequenceNumber: put.SequenceNumber, PartitionKey: "a", Data: []byte("data of a"), Arrived: bubbleStart},
		}}, shards[0])
		_, ok = w.Shards(testAccount, testRegion, "none")
		assert.False(t, ok)
	})
}
