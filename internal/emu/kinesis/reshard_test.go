package kinesis

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const maxKeyText = "340282366920938463463374607431768211455"

// aws-kinesis#14
func TestSplitBounds(t *testing.T) {
	refused := func(key, shard, lo, hi string) refusal {
		return bad("InvalidArgumentException", "NewStartingHashKey "+key+" used in SplitShard() on shard "+shard+" in stream s under account 012345678901"+
			" is not both greater than one plus the shard's StartingHashKey "+lo+" and less than the shard's EndingHashKey "+hi+".")
	}
	bubble(t, Config{NoLimits: true}, func(t *testing.T, w *world) {
		w.create("s", 1)
		try := func(shard, key string) refusal {
			return w.refused("SplitShard", m{"StreamName": "s", "ShardToSplit": shard, "NewStartingHashKey": key})
		}
		const first = "shardId-000000000000"
		assert.Equal(t, refused("0", first, "0", maxKeyText), try(first, "0"))
		assert.Equal(t, refused("1", first, "0", maxKeyText), try(first, "1"))
		assert.Equal(t, refused(maxKeyText, first, "0", maxKeyText), try(first, maxKeyText))
		beyond := "340282366920938463463374607431768211456"
		assert.Equal(t, refused(beyond, first, "0", maxKeyText), try(first, beyond))

		w.split("s", 0, "2")
		w.awaitActive("s")
		assert.Equal(t, hashKeyRange{"0", "1"}, w.shardOf("s", 1).HashKeyRange)
		assert.Equal(t, hashKeyRange{"2", maxKeyText}, w.shardOf("s", 2).HashKeyRange)
		for _, key := range []string{"0", "1", "2"} {
			assert.Equal(t, refused(key, shardID(1), "0", "1"), try("shard-1", key), "two keys wide")
		}
		w.split("s", 2, "6") // [2,5]: only 4 will do
		w.awaitActive("s")
		assert.Equal(t, refused("3", shardID(3), "2", "5"), try("3", "3"))
		assert.Equal(t, refused("5", shardID(3), "2", "5"), try("3", "5"))
		w.split("s", 4, "9") // [6,8]: nothing will do
		w.awaitActive("s")
		for _, key := range []string{"6", "7", "8"} {
			assert.Equal(t, refused(key, shardID(5), "6", "8"), try("5", key))
		}
		w.split("s", 3, "4")
		w.awaitActive("s")
		assert.Equal(t, hashKeyRange{"2", "3"}, w.shardOf("s", 7).HashKeyRange)
	})
}

// aws-kinesis#15,16,17,23: the timeline of a split.
func TestSplitTimeline(t *testing.T) {
	bubble(t, Config{ReshardDuration: 30 * time.Second}, func(t *testing.T, w *world) {
		w.create("s", 1)
		sleepUntil(2500 * time.Millisecond)
		before := w.put("s", "k")
		w.split("s", 0)

		// Under way: nothing shows but the state.
		for _, at := range []time.Duration{2500 * time.Millisecond, 32*time.Second + 499*time.Millisecond} {
			sleepUntil(at)
			assert.Equal(t, updating, w.status("s"))
			assert.Equal(t, []int{0}, w.numbers("s", nil))
			assert.Empty(t, w.shardOf("s", 0).SequenceNumberRange.EndingSequenceNumber)
			assert.Equal(t, shardID(0), w.put("s", "k").ShardId)
		}
		inUse := bad("ResourceInUseException", "Stream s under account 012345678901 not ACTIVE, instead in state UPDATING")
		assert.Equal(t, inUse, w.refused("SplitShard", m{"StreamName": "s", "ShardToSplit": "0", "NewStartingHashKey": "5"}))
		assert.Equal(t, inUse, w.refused("MergeShards", m{"StreamName": "s", "ShardToMerge": "0", "AdjacentShardToMerge": "1"}))
		assert.Equal(t, inUse, w.refused("UpdateShardCount", m{"StreamName": "s", "TargetShardCount": 2, "ScalingType": "UNIFORM_SCALING"}))

		// Complete at 32.5 s: t is second 32, the children start with second 33.
		sleepUntil(32500 * time.Millisecond)
		assert.Equal(t, active, w.status("s"))
		origin := bubbleStart.Unix()
		end := sequence{created: origin - 3, index: 1<<63 - 1, second: origin + 32}
		all := w.shards("s", nil)
		assert.Equal(t, shardOutput{
			ShardId: shardID(0), HashKeyRange: hashKeyRange{"0", maxKeyText},
			SequenceNumberRange: sequenceRange{sequence{created: origin - 3, second: origin - 3}.String(), end.String()},
		}, all[0])
		for i, keys := range []hashKeyRange{
			{"0", "170141183460469231731687303715884105727"}, {"170141183460469231731687303715884105728", maxKeyText},
		} {
			assert.Equal(t, shardOutput{
				ShardId: shardID(uint32(i + 1)), ParentShardId: shardID(0), HashKeyRange: keys,
				SequenceNumberRange: sequenceRange{StartingSequenceNumber: sequence{created: origin + 33, second: origin + 33, shard: uint32(i + 1)}.String()},
			}, all[i+1])
		}
		assert.Equal(t, all, get[describeStreamOutput](w, "DescribeStream", m{"StreamName": "s"}).StreamDescription.Shards)

		// Until second 33 the parent takes the puts, below its published end.
		sleepUntil(33*time.Second - time.Millisecond)
		late := w.put("s", "k")
		assert.Equal(t, shardID(0), late.ShardId)
		q, ok := parseSequence(late.SequenceNumber)
		require.True(t, ok)
		assert.Less(t, q.index, end.index)
		assert.Equal(t, end.created, q.created)
		numbers := []string{before.SequenceNumber, late.SequenceNumber}

		sleepUntil(33 * time.Second)
		child := w.put("s", "k")
		assert.NotEqual(t, shardID(0), child.ShardId)
		numbers = append(numbers, all[0].SequenceNumberRange.EndingSequenceNumber, child.SequenceNumber)
		assertAscending(t, numbers)
	})
}

func assertAscending(t *testing.T, numbers []string) {
	t.Helper()
	for i := 1; i < len(numbers); i++ {
		a, ok := parseUint192(numbers[i-1])
		require.True(t, ok)
		b, ok := parseUint192(numbers[i])
		require.True(t, ok)
		assert.True(t, a.hi < b.hi || a.hi == b.hi && (a.mid < b.mid || a.mid == b.mid && a.lo < b.lo), "%s < %s", numbers[i-1], numbers[i])
	}
}

// aws-kinesis#23: of one key, the second number is the greater, whether or not a
// reshard lies between, and whatever order is asked for.
func TestNumbersOfOneKeyAscend(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 2)
		var numbers []string
		for range 8 {
			in := m{"StreamName": "s", "PartitionKey": "k", "Data": []byte("x")}
			if n := len(numbers); n > 0 {
				in["SequenceNumberForOrdering"] = numbers[n-1]
			}
			numbers = append(numbers, get[putRecordOutput](w, "PutRecord", in).SequenceNumber)
			w.put("s", "another")
			time.Sleep(400 * time.Millisecond)
			if len(numbers) == 3 {
				w.merge("s", 0, 1)
			}
		}
		assertAscending(t, numbers)
	})
}

// aws-kinesis#18
func TestMerge(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 3)
		try := func(a, b int) refusal {
			return w.refused("MergeShards", m{"StreamName": "s", "ShardToMerge": shardID(uint32(a)), "AdjacentShardToMerge": shardID(uint32(b))})
		}
		not := func(a, b uint32) refusal {
			return bad("InvalidArgumentException", "Shards "+shardID(a)+" and "+shardID(b)+
				" in stream s under account 012345678901 are not an adjacent pair of shards eligible for merging")
		}
		assert.Equal(t, not(1, 0), try(1, 0))
		assert.Equal(t, not(0, 2), try(0, 2))
		assert.Equal(t, not(2, 0), try(2, 0), "the key space is no ring")
		assert.Equal(t, not(1, 1), try(1, 1))
		assert.Equal(t, bad("ResourceNotFoundException", "Could not find shard shardId-000000000009 in stream s under account 012345678901."), try(0, 9))
		time.Sleep(time.Second)

		w.merge("s", 1, 2)
		w.awaitActive("s")
		child := w.shardOf("s", 3)
		assert.Equal(t, shardID(1), child.ParentShardId)
		assert.Equal(t, shardID(2), child.AdjacentParentShardId)
		assert.Equal(t, hashKeyRange{"113427455640312821154458202477256070485", maxKeyText}, child.HashKeyRange)
		for _, parent := range []int{1, 2} {
			assert.NotEmpty(t, w.shardOf("s", parent).SequenceNumberRange.EndingSequenceNumber)
		}
		assert.Contains(t, try(1, 2).Message, "has already been merged or split")
	})
}

// aws-kinesis#19
func TestSplitOfClosedOrUnknown(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 1)
		w.split("s", 0)
		w.awaitActive("s")
		assert.Equal(t, bad("InvalidArgumentException", "Shard shardId-000000000000 in stream s under account 012345678901 has already been merged or split, "+
			"and thus is not eligible for merging or splitting."),
			w.refused("SplitShard", m{"StreamName": "s", "ShardToSplit": "shardId-000000000000", "NewStartingHashKey": "5"}))
		assert.Equal(t, bad("ResourceNotFoundException", "Could not find shard shardId-000000000003 in stream s under account 012345678901."),
			w.refused("SplitShard", m{"StreamName": "s", "ShardToSplit": "x-3", "NewStartingHashKey": "5"}))
	})
}

// aws-kinesis#20,21
func TestExpiryOfClosedShards(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 1)
		w.split("s", 0) // complete at 1 s; the children start at 2 s
		w.awaitActive("s")
		it := w.iterator("s", 0, "TRIM_HORIZON", nil)
		sleepUntil(24*time.Hour + 2*time.Second - time.Millisecond)
		assert.Equal(t, []int{0, 1, 2}, w.numbers("s", nil), "empty, and listed to the last")
		w.iterator("s", 0, "LATEST", nil)

		sleepUntil(24*time.Hour + 2*time.Second)
		assert.Equal(t, []int{1, 2}, w.numbers("s", nil))
		assert.Len(t, get[describeStreamOutput](w, "DescribeStream", m{"StreamName": "s"}).StreamDescription.Shards, 2)
		assert.Equal(t, shardID(0), w.shardOf("s", 1).ParentShardId)
		gone := bad("ResourceNotFoundException", "Shard shardId-000000000000 in stream s under account 012345678901 does not exist")
		assert.Equal(t, gone, w.refused("GetShardIterator", iteratorInput("s", 0, "TRIM_HORIZON", nil)))
		assert.Equal(t, "ExpiredIteratorException", w.refused("GetRecords", m{"ShardIterator": it}).Code)

		w.merge("s", 1, 2)
		w.awaitActive("s")
		w.split("s", 3)
		time.Sleep(25 * time.Hour)
		assert.Equal(t, []int{4, 5}, w.numbers("s", nil), "numbers are never used again")
		w.split("s", 5)
		w.awaitActive("s")
		assert.Equal(t, []int{4, 5, 6, 7}, w.numbers("s", nil))
	})
}

// aws-kinesis#49
func TestReaderInTheSecondAfterAReshard(t *testing.T) {
	bubble(t, Config{NoLimits: true}, func(t *testing.T, w *world) {
		w.create("s", 1)
		sleepUntil(300 * time.Millisecond)
		w.put("s", "a")
		w.split("s", 0) // complete at 1.3 s
		sleepUntil(1300 * time.Millisecond)
		assert.NotEmpty(t, w.shardOf("s", 0).SequenceNumberRange.EndingSequenceNumber)
		out := w.read(w.iterator("s", 0, "TRIM_HORIZON", nil))
		assert.Equal(t, []string{"a"}, keysOf(out))
		require.NotEmpty(t, out.NextShardIterator, "no end before the children start")
		out = w.read(out.NextShardIterator)
		require.NotEmpty(t, out.NextShardIterator)
		assert.Empty(t, out.ChildShards)
		w.iterator("s", 1, "TRIM_HORIZON", nil) // one on the children works already

		sleepUntil(2*time.Second - time.Millisecond)
		w.put("s", "b")
		out = w.read(out.NextShardIterator)
		assert.Equal(t, []string{"b"}, keysOf(out))
		require.NotEmpty(t, out.NextShardIterator)
		sleepUntil(2 * time.Second)
		assert.Len(t, w.read(out.NextShardIterator).ChildShards, 2)
	})
}

func scale(w *world, target int) {
	w.Helper()
	w.do("UpdateShardCount", m{"StreamName": "s", "TargetShardCount": target, "ScalingType": "UNIFORM_SCALING"})
}

// aws-kinesis#54
func TestUpdateShardCount(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 4)
		a := w.do("UpdateShardCount", m{"StreamName": "s", "TargetShardCount": 3, "ScalingType": "UNIFORM_SCALING"})
		assert.JSONEq(t, `{"StreamName":"s","StreamARN":"`+testARN+`s","CurrentShardCount":4,"TargetShardCount":3}`, string(a))
		sleepUntil(5*time.Second - time.Nanosecond)
		assert.Equal(t, updating, w.status("s"), "five steps of a second")
		sleepUntil(5 * time.Second)
		assert.Equal(t, active, w.status("s"))
		assert.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, w.numbers("s", nil))
		assert.Equal(t, []int{6, 9, 10}, w.numbers("s", m{"Type": "AT_LATEST"}))
		want := uniform(3, 0)
		for i, n := range []int{6, 9, 10} {
			assert.Equal(t, want[i].keyRange(), w.shardOf("s", n).HashKeyRange)
		}
		for n, parents := range map[int][2]string{
			4: {shardID(1)}, 5: {shardID(1)}, 6: {shardID(0), shardID(4)}, 7: {shardID(2)}, 8: {shardID(2)},
			9: {shardID(5), shardID(7)}, 10: {shardID(8), shardID(3)},
		} {
			s := w.shardOf("s", n)
			assert.Equal(t, parents, [2]string{s.ParentShardId, s.AdjacentParentShardId}, "shard %d", n)
		}
	})
}

// aws-kinesis#54: how many rows the list has afterwards, and that the open shards
// are those of a new stream.
func TestUpdateShardCountRows(t *testing.T) {
	for _, c := range []struct{ from, to, rows int }{
		{2, 4, 6}, {4, 2, 6}, {2, 3, 7}, {4, 3, 11}, {5, 3, 13}, {4, 5, 15}, {10, 13, 43},
		{3, 6, 9}, {6, 3, 9}, {7, 14, 21}, {1, 2, 3}, {1, 1, 1}, {999, 1998, 2997},
	} {
		st := newStream(streamKey{}, 0, uniform(c.from, 0))
		for i, p := range uniformSteps(st.open, c.to) {
			p.due = instant(i+1) * second
			st.apply(p)
		}
		assert.Len(t, st.shards, c.rows, "%d to %d", c.from, c.to)
		require.Len(t, st.open, c.to)
		for i, want := range uniform(c.to, 0) {
			assert.True(t, st.open[i].lo.near(want.lo) && st.open[i].hi.near(want.hi), "%d to %d: %v and %v", c.from, c.to, st.open[i].keyRange(), want.keyRange())
		}
	}
}

// The sweep merges what lies left of a cut before it cuts the same shard again.
func TestUniformStepsSweepInKeyOrder(t *testing.T) {
	bound := func(i, n int, merge bool) step { return step{at: uniformBound(i, n), merge: merge} }
	assert.Equal(t, []step{
		bound(1, 9, false),
		bound(2, 9, false), bound(1, 5, true), bound(3, 9, false),
		bound(4, 9, false), bound(2, 5, true), bound(5, 9, false),
		bound(6, 9, false), bound(3, 5, true), bound(7, 9, false),
		bound(8, 9, false), bound(4, 5, true),
	}, uniformSteps(uniform(5, 0), 9))
}

// A stream that is deleted while it is resharded stays as it was.
func TestDeleteDuringAReshard(t *testing.T) {
	bubble(t, Config{DeleteDuration: time.Minute}, func(t *testing.T, w *world) {
		w.create("s", 1)
		it := w.iterator("s", 0, "LATEST", nil)
		w.split("s", 0)
		w.do("DeleteStream", m{"StreamName": "s"})
		sleepUntil(30 * time.Second)
		assert.Equal(t, shardID(0), w.put("s", "a").ShardId)
		out := w.read(it)
		assert.Equal(t, []string{"a"}, keysOf(out))
		assert.NotEmpty(t, out.NextShardIterator)
	})
}

func TestUpdateShardCountLimits(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 4)
		try := func(n int) refusal {
			return w.refused("UpdateShardCount", m{"StreamName": "s", "TargetShardCount": n, "ScalingType": "UNIFORM_SCALING"})
		}
		assert.Equal(t, bad("LimitExceededException", "UpdateShardCount cannot scale up over double your current open shard count."+
			" Current open shard count: 4 Target shard count: 9"), try(9))
		assert.Equal(t, bad("LimitExceededException", "UpdateShardCount cannot scale down below half your current open shard count."+
			" Current open shard count: 4 Target shard count: 1"), try(1))
		assert.Equal(t, "LimitExceededException", try(10_001).Code)
		for i := range 10 {
			scale(w, []int{2, 4}[i%2])
			w.awaitActive("s")
		}
		assert.Equal(t, bad("LimitExceededException", "Stream s under account 012345678901 has been scaled 10 times within 24 hours."), try(2))
		sleepUntil(24 * time.Hour)
		scale(w, 2)
	})
}

// aws-kinesis#50: no shard ends before it starts, and children start the second
// after their parents' end, in a chain of shortest reshards.
func TestNoShardEndsBeforeItStarts(t *testing.T) {
	for _, offset := range []time.Duration{0, time.Millisecond, 500 * time.Millisecond, 999 * time.Millisecond} {
		t.Run(offset.String(), func(t *testing.T) {
			bubble(t, Config{NoLimits: true}, func(t *testing.T, w *world) {
				w.create("s", 4)
				time.Sleep(offset)
				for i := range 6 {
					w.split("s", int(w.peek("s").open[i%3].number))
					w.awaitActive("s") // and at once the next
				}
				for _, n := range []int{7, 11, 6} {
					scale(w, n)
					w.awaitActive("s")
				}
				assertFamily(t, w.peek("s"))
			})
		})
	}
}

func assertFamily(t require.TestingT, st *stream) {
	for _, s := range st.shards {
		if !s.open() {
			require.GreaterOrEqual(t, s.end, s.start, "shard %d", s.number)
		}
		for _, p := range []int32{s.parent, s.adjacent} {
			if p < 0 {
				continue
			}
			if parent, ok := st.shard(uint32(p)); ok {
				require.Equal(t, parent.end+1, s.start, "shard %d of %d", s.number, p)
			}
		}
	}
	require.True(t, slices.IsSortedFunc(st.closed, func(a, b *shard) int { return int(a.end - b.end) }))
}
