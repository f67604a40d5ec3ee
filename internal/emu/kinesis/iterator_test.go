package kinesis

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// aws-kinesis#31
func TestLatestIsFixedAtIssue(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 1)
		w.put("s", "before")
		it := w.iterator("s", 0, "LATEST", nil)
		time.Sleep(time.Second)
		w.put("s", "after")
		time.Sleep(59 * time.Second)
		assert.Equal(t, []string{"after"}, keysOf(w.read(it)))
	})
}

// aws-kinesis#32,57
func TestIteratorsAreValues(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 1)
		w.put("s", "a")
		sleepUntil(1500 * time.Millisecond)
		it := w.iterator("s", 0, "TRIM_HORIZON", nil)
		first := w.read(it)
		assert.Equal(t, []string{"a"}, keysOf(first))
		sleepUntil(2 * time.Second)
		w.put("s", "b")
		assert.Equal(t, []string{"a", "b"}, keysOf(w.read(it)))

		sleepUntil(301500 * time.Millisecond)
		assert.Equal(t, []string{"a", "b"}, keysOf(w.read(it)), "300,000 ms old")
		sleepUntil(301501 * time.Millisecond)
		assert.Equal(t, bad("ExpiredIteratorException", "Iterator expired. The iterator was created at time Sat Jan 01 00:00:01 UTC 2000 "+
			"while right now it is Sat Jan 01 00:05:01 UTC 2000 which is further in the future than the tolerated delay of 300000 milliseconds."),
			w.refused("GetRecords", m{"ShardIterator": it}))
		assert.Equal(t, "ExpiredIteratorException", w.refused("GetRecords", m{"ShardIterator": first.NextShardIterator}).Code)
	})
	bubble(t, Config{}, func(t *testing.T, w *world) { // an idle poll loop never expires
		w.create("s", 1)
		it := w.iterator("s", 0, "LATEST", nil)
		for range 30 {
			time.Sleep(299 * time.Second)
			it = w.read(it).NextShardIterator
		}
		w.put("s", "a")
		assert.Equal(t, []string{"a"}, keysOf(w.read(it)))
	})
}

func TestGarbageIterators(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 1)
		it := w.iterator("s", 0, "LATEST", nil)
		tampered := []byte(it)
		tampered[20] ^= 1
		token := shardsToken{streamKey: streamKey{testAccount, testRegion, "s"}, issued: bubbleStart.UnixMilli(), created: bubbleStart.Unix()}
		for _, s := range []string{"x", "AAAA", it[:len(it)-4], string(tampered), it + "AAAA", token.String()} {
			assert.Equal(t, bad("InvalidArgumentException", "Invalid ShardIterator."), w.refused("GetRecords", m{"ShardIterator": s}), s)
		}
		assert.LessOrEqual(t, len(it), 512)
	})
}

// aws-kinesis#35
func TestIteratorAtATime(t *testing.T) {
	bubble(t, Config{NoLimits: true}, func(t *testing.T, w *world) {
		w.create("s", 1)
		from := func(at time.Duration) []string {
			return keysOf(w.read(w.iterator("s", 0, "AT_TIMESTAMP", m{"Timestamp": after0(at)})))
		}
		w.put("s", "0")
		sleepUntil(1000*time.Millisecond + 700*time.Microsecond)
		w.put("s", "1000")
		sleepUntil(1001*time.Millisecond + 200*time.Microsecond)
		w.put("s", "1001")
		assert.Equal(t, []string{"1000", "1001"}, from(time.Second), "found by its arrival, cut to the millisecond")
		assert.Equal(t, []string{"1001"}, from(1001*time.Millisecond), "a client's own now is not in the future")
		assert.Equal(t, bad("InvalidArgumentException", "The timestampInMillis parameter cannot be greater than the currentTimestampInMillis. "+
			"timestampInMillis: 946684801002, currentTimestampInMillis: 946684801001"),
			w.refused("GetShardIterator", iteratorInput("s", 0, "AT_TIMESTAMP", m{"Timestamp": after0(1002 * time.Millisecond)})))
		assert.Equal(t, bad("InvalidArgumentException", "Must specify timestampInMillis parameter for iterator of type AT_TIMESTAMP. "+
			"Current request has no timestamp parameter."), w.refused("GetShardIterator", iteratorInput("s", 0, "AT_TIMESTAMP", nil)))
		assert.Equal(t, []string{"0", "1000", "1001"}, from(-time.Hour))

		sleepUntil(24*time.Hour + time.Second)
		trim := w.iterator("s", 0, "TRIM_HORIZON", nil)
		assert.Equal(t, []string{"1000", "1001"}, keysOf(w.read(trim)))
		for _, at := range []time.Duration{-time.Hour, 0, time.Second} {
			assert.Equal(t, trim, w.iterator("s", 0, "AT_TIMESTAMP", m{"Timestamp": after0(at)}), "older than the horizon")
		}
	})
}

// aws-kinesis#36,58
func TestStartingSequenceNumbers(t *testing.T) {
	bubble(t, Config{NoLimits: true}, func(t *testing.T, w *world) {
		w.create("s", 2)
		a, b := w.put("s", "a", "0"), w.put("s", "b", "0")
		const at, after = "AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"
		from := func(kind, number string) []string {
			return keysOf(w.read(w.iterator("s", 0, kind, m{"StartingSequenceNumber": number})))
		}
		origin := bubbleStart.Unix()
		start := w.shardOf("s", 0).SequenceNumberRange.StartingSequenceNumber
		assert.Equal(t, []string{"a", "b"}, from(at, a.SequenceNumber))
		assert.Equal(t, []string{"b"}, from(after, a.SequenceNumber))
		assert.Equal(t, []string{"b"}, from(at, b.SequenceNumber))
		assert.Equal(t, []string{}, from(after, b.SequenceNumber))
		assert.Equal(t, []string{"a", "b"}, from(at, start), "no record's, yet in the range")
		assert.Equal(t, []string{"a", "b"}, from(after, start))
		continuation := sequence{created: origin - 3, index: 1, second: origin + 5}.String()
		assert.Equal(t, []string{"b"}, from(at, continuation), "above the record with its index")
		assert.Equal(t, []string{"b"}, from(after, continuation))

		const used = " used in GetShardIterator on shard shardId-000000000000 in stream s under account 012345678901 is invalid"
		other := sequence{created: origin - 4, index: 1, second: origin}.String()
		beyond := sequence{created: origin - 3, index: 1 << 63, second: origin}.String()
		for number, want := range map[string]refusal{
			sequence{created: origin - 3, index: 1, second: origin, shard: 1}.String(): bad("InvalidArgumentException",
				"Invalid StartingSequenceNumber. It encodes shardId-000000000001, while it was used in a call to a shard with shardId-000000000000"),
			"5": bad("InvalidArgumentException",
				"Invalid StartingSequenceNumber. It encodes shardId-000000000005, while it was used in a call to a shard with shardId-000000000000"),
			other:  bad("InvalidArgumentException", "StartingSequenceNumber "+other+used+" because it did not come from this stream."),
			beyond: bad("InvalidArgumentException", "StartingSequenceNumber "+beyond+used+"."),
			"0":    {http.StatusInternalServerError, "InternalFailure", ""},
		} {
			assert.Equal(t, want, w.refused("GetShardIterator", iteratorInput("s", 0, at, m{"StartingSequenceNumber": number})), number)
		}

		rule := func(kind, how string) refusal {
			return bad("InvalidArgumentException", "Must either specify (1) AT_SEQUENCE_NUMBER or AFTER_SEQUENCE_NUMBER and StartingSequenceNumber or "+
				"(2) TRIM_HORIZON or LATEST and no StartingSequenceNumber. Request specified "+kind+" and "+how+" StartingSequenceNumber.")
		}
		for _, kind := range []string{at, after} {
			assert.Equal(t, rule(kind, "no"), w.refused("GetShardIterator", iteratorInput("s", 0, kind, nil)))
		}
		for _, kind := range []string{"TRIM_HORIZON", "LATEST"} {
			assert.Equal(t, rule(kind, "also a"), w.refused("GetShardIterator", iteratorInput("s", 0, kind, m{"StartingSequenceNumber": start})))
		}
	})
}

// aws-kinesis#58: what a checkpoint of a deleted stream of the same name meets.
func TestNumberOfAnEarlierStream(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 1)
		kept := w.put("s", "a").SequenceNumber
		w.do("DeleteStream", m{"StreamName": "s"})
		time.Sleep(time.Second)
		w.create("s", 1)
		assert.Equal(t, bad("InvalidArgumentException", "StartingSequenceNumber "+kept+" used in GetShardIterator on shard shardId-000000000000 "+
			"in stream s under account 012345678901 is invalid because it did not come from this stream."),
			w.refused("GetShardIterator", iteratorInput("s", 0, "AFTER_SEQUENCE_NUMBER", m{"StartingSequenceNumber": kept})))
	})
}

func TestLooseShardIDs(t *testing.T) {
	bubble(t, Config{NoLimits: true}, func(t *testing.T, w *world) {
		w.create("s", 2)
		want := w.iterator("s", 1, "LATEST", nil)
		for _, id := range []string{"shard-1", "x-00001", "1", "-1", "a-1-7"} {
			in := iteratorInput("s", 0, "LATEST", m{"ShardId": id})
			assert.Equal(t, want, get[getShardIteratorOutput](w, "GetShardIterator", in).ShardIterator, id)
		}
		for _, id := range []string{"ABKLFD8", "2.14E4", "2147483648", "shardId-"} {
			assert.Equal(t, bad("ResourceNotFoundException", "Could not find shard "+id+" in stream s under account 012345678901."),
				w.refused("GetShardIterator", iteratorInput("s", 0, "LATEST", m{"ShardId": id})))
		}
		assert.Equal(t, bad("ResourceNotFoundException", "Shard shardId-002147483647 in stream s under account 012345678901 does not exist"),
			w.refused("GetShardIterator", iteratorInput("s", 0, "LATEST", m{"ShardId": "2147483647"})))
	})
}

func TestGetShardIteratorRate(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 2)
		in := iteratorInput("s", 0, "LATEST", m{"StreamName": nil, "StreamARN": testARN + "s"})
		for range 5 {
			w.do("GetShardIterator", in)
		}
		assert.Equal(t, bad("ProvisionedThroughputExceededException", "Rate exceeded for shard shardId-000000000000 in stream s under account 012345678901."),
			w.refused("GetShardIterator", in))
		w.iterator("s", 1, "LATEST", nil)
		w.as("999999999999").do("GetShardIterator", in)
		time.Sleep(time.Second)
		w.do("GetShardIterator", in)
	})
}

func TestTokensRoundTrip(t *testing.T) {
	key := streamKey{testAccount, testRegion, "s"}
	it := iterator{key, 1, 2, 3, 1 << 63, 5, 6, 7}
	got, ok := parseIterator(it.String())
	require.True(t, ok)
	assert.Equal(t, it, got)
	token := shardsToken{key, 1, 2, 3, shardFilter{fromTimestamp, -4}}
	gotToken, ok := parseShardsToken(token.String())
	require.True(t, ok)
	assert.Equal(t, token, gotToken)
	streams := streamsToken{key, 9}
	gotStreams, ok := parseStreamsToken(streams.String())
	require.True(t, ok)
	assert.Equal(t, streams, gotStreams)
}
