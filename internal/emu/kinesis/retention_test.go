package kinesis

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func retain(w *world, hours int) {
	w.Helper()
	operation := "IncreaseStreamRetentionPeriod"
	if int64(hours) < w.peek("s").retention {
		operation = "DecreaseStreamRetentionPeriod"
	}
	assert.Empty(w, w.do(operation, m{"StreamName": "s", "RetentionPeriodHours": hours}))
}

func (w *world) stored(name string) []string {
	w.Helper()
	shards, ok := w.Shards(w.Account, w.Region, name)
	assert.True(w, ok)
	keys := []string{}
	for _, s := range shards {
		for _, r := range s.Records {
			keys = append(keys, r.PartitionKey)
		}
	}
	return keys
}

// aws-kinesis#11
func TestRetentionOfRecords(t *testing.T) {
	bubble(t, Config{NoLimits: true}, func(t *testing.T, w *world) {
		w.create("s", 1)
		all := func() []string { return keysOf(w.read(w.iterator("s", 0, "TRIM_HORIZON", nil))) }
		w.put("s", "0 h")
		sleepUntil(2 * time.Hour)
		w.put("s", "2 h")
		sleepUntil(25 * time.Hour)
		assert.Equal(t, []string{"2 h"}, all())
		retain(w, 48)
		assert.Equal(t, []string{"2 h"}, all(), "what is 25 hours old does not come back")
		w.put("s", "25 h")
		sleepUntil(27 * time.Hour)
		assert.Equal(t, []string{"2 h", "25 h"}, all(), "25 hours old, and kept")
		retain(w, 24)
		assert.Equal(t, []string{"25 h"}, all(), "hidden at once")
		retain(w, 48)
		assert.Equal(t, []string{"25 h"}, all())
	})
}

// aws-kinesis#52
func TestHorizonStandsStillThenMovesOn(t *testing.T) {
	bubble(t, Config{NoLimits: true}, func(t *testing.T, w *world) {
		w.create("s", 1)
		w.put("s", "a")
		w.split("s", 0) // expires at 24 h 2 s
		sleepUntil(30 * time.Hour)
		w.put("s", "b")
		horizon := w.peek("s").horizon(w.last)
		assert.Equal(t, bubbleStart.Add(6*time.Hour).UnixMilli(), horizon)
		assert.Equal(t, []int{1, 2}, w.numbers("s", nil))
		retain(w, 48)
		for _, at := range []time.Duration{30 * time.Hour, 54 * time.Hour} {
			sleepUntil(at)
			assert.Equal(t, horizon, w.peek("s").horizon(w.last))
			assert.Equal(t, []int{1, 2}, w.numbers("s", nil))
			assert.Equal(t, []string{"b"}, w.stored("s"))
		}
		sleepUntil(54*time.Hour + time.Millisecond)
		assert.Equal(t, horizon+1, w.peek("s").horizon(w.last))
	})
	bubble(t, Config{}, func(t *testing.T, w *world) { // raised in time, it keeps the shard
		w.create("s", 1)
		w.split("s", 0)
		sleepUntil(24 * time.Hour)
		retain(w, 48)
		sleepUntil(48*time.Hour + 2*time.Second - time.Millisecond)
		assert.Equal(t, []int{0, 1, 2}, w.numbers("s", nil))
		sleepUntil(48*time.Hour + 2*time.Second)
		assert.Equal(t, []int{1, 2}, w.numbers("s", nil))
	})
}

// aws-kinesis#57: a record that arrived at the horizon is readable.
func TestRecordAtTheHorizon(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 1)
		sleepUntil(time.Second + 999*time.Microsecond)
		w.put("s", "a")
		sleepUntil(24*time.Hour + time.Second + 999*time.Microsecond)
		assert.Equal(t, []string{"a"}, w.stored("s"))
		sleepUntil(24*time.Hour + time.Second + time.Millisecond)
		assert.Empty(t, w.stored("s"))
	})
}

// A reader that was away until all that it had not read was trimmed finds the end
// of a shard that has one.
func TestEndBehindWhatWasTrimmed(t *testing.T) {
	bubble(t, Config{NoLimits: true}, func(t *testing.T, w *world) {
		w.create("s", 1)
		first := w.put("s", "a")
		w.put("s", "b")
		sleepUntil(12 * time.Hour)
		w.split("s", 0)
		sleepUntil(25 * time.Hour)
		out := w.read(w.iterator("s", 0, "AT_SEQUENCE_NUMBER", m{"StartingSequenceNumber": first.SequenceNumber}))
		assert.Empty(t, out.Records)
		assert.Len(t, out.ChildShards, 2)
	})
}

func TestRetentionBounds(t *testing.T) {
	bubble(t, Config{NoLimits: true}, func(t *testing.T, w *world) {
		w.create("X", 1)
		try := func(operation string, hours int) refusal {
			return w.refused(operation, m{"StreamName": "X", "RetentionPeriodHours": hours})
		}
		const up, down = "IncreaseStreamRetentionPeriod", "DecreaseStreamRetentionPeriod"
		invalid := func(text string) refusal { return bad("InvalidArgumentException", text) }
		w.do(up, m{"StreamName": "X", "RetentionPeriodHours": 25})
		w.do(up, m{"StreamName": "X", "RetentionPeriodHours": 25})
		assert.Equal(t, invalid("Minimum allowed retention period is 24 hours. Requested retention period (23 hours) is too short."), try(down, 23))
		assert.Equal(t, invalid("Maximum allowed retention period is 8760 hours. Requested retention period (8761 hours) is too long."), try(up, 8761))
		assert.Equal(t, invalid("Requested retention period (24 hours) for stream X can not be shorter than existing retention period (25 hours). "+
			"Use DecreaseRetentionPeriod API."), try(up, 24))
		assert.Equal(t, invalid("Requested retention period (26 hours) for stream X can not be longer than existing retention period (25 hours). "+
			"Use IncreaseRetentionPeriod API."), try(down, 26))
		w.do(up, m{"StreamName": "X", "RetentionPeriodHours": 8760})
		w.do(down, m{"StreamName": "X", "RetentionPeriodHours": 24})
	})
}

// What nobody reads or writes past is trimmed all the same.
func TestIdleShardsAreTrimmed(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 1)
		w.put("s", "a")
		sleepUntil(26 * time.Hour)
		assert.Equal(t, active, w.status("s"))
		st := w.streams[streamKey{w.Account, w.Region, "s"}]
		assert.Nil(t, st.shards[0].log.records)
	})
}
