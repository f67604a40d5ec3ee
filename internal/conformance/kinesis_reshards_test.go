package conformance

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

var reshardCases = []kase{
	{name: "kinesis/reshards/split", run: shardSplit},
	{name: "kinesis/reshards/split bounds", run: splitBounds},
	{name: "kinesis/reshards/refused splits", run: splitsRefused},
	{name: "kinesis/reshards/merge", run: shardMerge},
	{name: "kinesis/reshards/refused merges", run: mergesRefused},
	{name: "kinesis/reshards/order of a key", run: keyOrderAcrossReshard},
	{name: "kinesis/reshards/shard count", run: shardCounts},
	{name: "kinesis/reshards/refused shard counts", run: shardCountsRefused},
}

func shardSplit(t *T) {
	name := t.stream(1)
	t.putTo(name, "0", "low")
	t.putTo(name, highHashKey, "high")
	_, err := t.kinesis.SplitShard(t.ctx, &kinesis.SplitShardInput{StreamName: name, ShardToSplit: shardID(0), NewStartingHashKey: aws.String("170141183460469231731687303715884105728")})
	t.OK(err)
	t.Run("UPDATING", func(t *T) {
		t.Equal(types.StreamStatusUpdating, t.summary(name).StreamStatus)
		t.Equal("0 of 0", numbers(open(t.shards(name, nil)))+" of "+numbers(t.shards(name, nil)), "the list is as it was")
		t.putTo(name, "0", "meanwhile")
	})
	t.Run("one at a time", func(t *T) {
		_, err := t.kinesis.SplitShard(t.ctx, &kinesis.SplitShardInput{StreamName: name, ShardToSplit: shardID(0), NewStartingHashKey: aws.String("10")})
		t.Refused("ResourceInUseException", err)
	})
	t.awaitStream(name)
	parent := t.shard(name, 0)
	t.Run("children", func(t *T) {
		all := t.shards(name, nil)
		t.Equal("0 1 2", numbers(all))
		for i, want := range []string{"0-170141183460469231731687303715884105727", "170141183460469231731687303715884105728-" + maxHashKey} {
			child := all[i+1]
			t.Equal(want, *child.HashKeyRange.StartingHashKey+"-"+*child.HashKeyRange.EndingHashKey)
			t.Equal(*shardID(0), aws.ToString(child.ParentShardId))
			t.True(child.AdjacentParentShardId == nil, "no second parent")
		}
	})
	t.Run("parent is closed", func(t *T) { t.True(parent.SequenceNumberRange.EndingSequenceNumber != nil, "ending number") })
	t.Run("children come after it", func(t *T) {
		for _, child := range open(t.shards(name, nil)) {
			t.Equal(1, integer(child.SequenceNumberRange.StartingSequenceNumber).Cmp(integer(parent.SequenceNumberRange.EndingSequenceNumber)))
		}
	})
	t.Run("records stay in the parent", func(t *T) {
		texts, last := t.drain(t.iterator(name, 0, types.ShardIteratorTypeTrimHorizon), -1)
		t.Equal("low high meanwhile", strings.Join(texts, " "))
		t.Equal("[0] 0-170141183460469231731687303715884105727 1, [0] 170141183460469231731687303715884105728-"+maxHashKey+" 2", children(last.ChildShards))
	})
	t.Run("its numbers are within its bounds", func(t *T) {
		it := t.iterator(name, 0, types.ShardIteratorTypeTrimHorizon)
		for _, r := range t.read(it).Records {
			n := integer(r.SequenceNumber)
			t.True(n.Cmp(integer(parent.SequenceNumberRange.StartingSequenceNumber)) > 0 && n.Cmp(integer(parent.SequenceNumberRange.EndingSequenceNumber)) < 0, "between start and end: ", n)
		}
	})
	t.Run("puts go to the children", func(t *T) {
		t.Await("a put in a child", func() bool {
			out, err := t.kinesis.PutRecord(t.ctx, &kinesis.PutRecordInput{StreamName: name, PartitionKey: aws.String("k"), ExplicitHashKey: aws.String(highHashKey), Data: []byte("x")})
			t.OK(err)
			return *out.ShardId == *shardID(2)
		})
	})
	t.Run("LATEST of the parent ends with the children", func(t *T) {
		texts, last := t.drain(t.iterator(name, 0, types.ShardIteratorTypeLatest), -1)
		t.Equal(0, len(texts))
		t.Equal(2, len(last.ChildShards))
	})
	t.Run("the end repeats", func(t *T) {
		it := t.iterator(name, 0, types.ShardIteratorTypeLatest)
		for range 2 {
			last := t.read(it)
			t.True(last.NextShardIterator == nil, "no next iterator")
			t.Equal(2, len(last.ChildShards))
		}
	})
	t.Run("an open shard has no children", func(t *T) {
		out := t.read(t.iterator(name, 1, types.ShardIteratorTypeTrimHorizon))
		t.True(out.NextShardIterator != nil, "next iterator")
		t.Equal(0, len(out.ChildShards))
	})
}

// children shows parents, range and number of each.
func children(list []types.ChildShard) string {
	var out []string
	for _, c := range list {
		var parents []types.Shard
		for i := range c.ParentShards {
			parents = append(parents, types.Shard{ShardId: &c.ParentShards[i]})
		}
		out = append(out, fmt.Sprintf("[%s] %s-%s %s", numbers(parents), *c.HashKeyRange.StartingHashKey, *c.HashKeyRange.EndingHashKey, numbers([]types.Shard{{ShardId: c.ShardId}})))
	}
	return strings.Join(out, ", ")
}

func splitBounds(t *T) {
	var name *string
	try := func(n int, key string) error {
		_, err := t.kinesis.SplitShard(t.ctx, &kinesis.SplitShardInput{StreamName: name, ShardToSplit: shardID(n), NewStartingHashKey: &key})
		if err == nil {
			t.awaitStream(name)
		}
		return err
	}
	for _, key := range []string{maxHashKey, "1", "0"} {
		t.Run("not at "+key, func(t *T) {
			name = t.stream(1)
			t.Refused("InvalidArgumentException", try(0, key))
		})
	}
	name = t.stream(1)
	t.Run("at 4", func(t *T) {
		t.OK(try(0, "4"))
		t.Equal("0-3", *t.shard(name, 1).HashKeyRange.StartingHashKey+"-"+*t.shard(name, 1).HashKeyRange.EndingHashKey)
	})
	for _, key := range []string{"1", "3"} {
		t.Run("0-3 not at "+key, func(t *T) { t.Refused("InvalidArgumentException", try(1, key)) })
	}
}

func splitsRefused(t *T) {
	name := t.stream(1)
	t.split(name, 0)
	rows := map[string]struct{ code, shard, key string }{
		"closed shard":         {"InvalidArgumentException", *shardID(0), "100"},
		"unknown shard":        {"ResourceNotFoundException", *shardID(9), "100"},
		"key of another shard": {"InvalidArgumentException", *shardID(2), "100"},
		"no key":               {"ValidationException", *shardID(1), "x"},
		"leading zero":         {"ValidationException", *shardID(1), "0100"},
		"no shard id":          {"ResourceNotFoundException", "shard", "100"},
	}
	for label, row := range sorted(rows) {
		t.Run(label, func(t *T) {
			_, err := t.kinesis.SplitShard(t.ctx, &kinesis.SplitShardInput{StreamName: name, ShardToSplit: &row.shard, NewStartingHashKey: &row.key})
			t.Refused(row.code, err)
		})
	}
}

func shardMerge(t *T) {
	name := t.stream(3)
	shards := t.shards(name, nil)
	t.putTo(name, *shards[1].HashKeyRange.StartingHashKey, "lower")
	t.putTo(name, *shards[2].HashKeyRange.StartingHashKey, "upper")
	_, err := t.kinesis.MergeShards(t.ctx, &kinesis.MergeShardsInput{StreamName: name, ShardToMerge: shardID(1), AdjacentShardToMerge: shardID(2)})
	t.OK(err)
	t.Run("UPDATING", func(t *T) {
		t.Equal(types.StreamStatusUpdating, t.summary(name).StreamStatus)
		t.Equal("0 1 2", numbers(t.shards(name, nil)))
	})
	t.awaitStream(name)
	t.Run("child", func(t *T) {
		all := t.shards(name, nil)
		t.Equal("0 1 2 3", numbers(all))
		child := all[3]
		t.Equal(*shardID(1), aws.ToString(child.ParentShardId), "parent")
		t.Equal(*shardID(2), aws.ToString(child.AdjacentParentShardId), "adjacent parent")
		t.Equal(*shards[1].HashKeyRange.StartingHashKey+"-"+maxHashKey, *child.HashKeyRange.StartingHashKey+"-"+*child.HashKeyRange.EndingHashKey)
	})
	t.Run("parents are closed", func(t *T) {
		t.Equal("0 3", numbers(open(t.shards(name, nil))))
	})
	for n, text := range map[int]string{1: "lower", 2: "upper"} {
		t.Run(text+" parent's end", func(t *T) {
			texts, last := t.drain(t.iterator(name, n, types.ShardIteratorTypeTrimHorizon), -1)
			t.Equal(text, strings.Join(texts, " "))
			t.Equal("[1 2] "+*shards[1].HashKeyRange.StartingHashKey+"-"+maxHashKey+" 3", children(last.ChildShards))
		})
	}
	t.Run("not again", func(t *T) {
		_, err := t.kinesis.MergeShards(t.ctx, &kinesis.MergeShardsInput{StreamName: name, ShardToMerge: shardID(1), AdjacentShardToMerge: shardID(2)})
		t.Refused("InvalidArgumentException", err)
	})
}

func mergesRefused(t *T) {
	name := t.stream(4)
	rows := map[string]struct{ code, lower, upper string }{
		"not adjacent":  {"InvalidArgumentException", *shardID(0), *shardID(2)},
		"reverse order": {"InvalidArgumentException", *shardID(1), *shardID(0)},
		"with itself":   {"InvalidArgumentException", *shardID(1), *shardID(1)},
		"unknown":       {"ResourceNotFoundException", *shardID(0), *shardID(9)},
	}
	for label, row := range sorted(rows) {
		t.Run(label, func(t *T) {
			_, err := t.kinesis.MergeShards(t.ctx, &kinesis.MergeShardsInput{StreamName: name, ShardToMerge: &row.lower, AdjacentShardToMerge: &row.upper})
			t.Refused(row.code, err)
			t.awaitStream(name)
		})
	}
}

// A key's records keep their order over a split and a merge.
func keyOrderAcrossReshard(t *T) {
	name := t.stream(2)
	var sequence []string
	put := func(text string) { sequence = append(sequence, t.putTo(name, "5", text)...) }
	put("a")
	put("b")
	t.split(name, 0)
	put("c")
	t.merge(name, 2, 3)
	put("d")
	for i := 1; i < len(sequence); i++ {
		t.Equal(1, integer(&sequence[i]).Cmp(integer(&sequence[i-1])), "number ", i, " against the one before")
	}
}

func shardCounts(t *T) {
	rows := []struct {
		from, to int32
		want     []int // shares of the key space in 1/12, by key
	}{
		{2, 4, []int{3, 3, 3, 3}}, {4, 2, []int{6, 6}}, {4, 3, []int{4, 4, 4}}, {2, 3, []int{4, 4, 4}}, {1, 2, []int{6, 6}},
	}
	for _, row := range rows {
		t.Run(fmt.Sprint(row.from, " to ", row.to), func(t *T) {
			name := t.stream(row.from)
			out, err := t.kinesis.UpdateShardCount(t.ctx, &kinesis.UpdateShardCountInput{StreamName: name, TargetShardCount: &row.to, ScalingType: types.ScalingTypeUniformScaling})
			t.OK(err)
			t.Equal(fmt.Sprint(row.from, row.to), fmt.Sprint(aws.ToInt32(out.CurrentShardCount), aws.ToInt32(out.TargetShardCount)))
			t.Equal(types.StreamStatusUpdating, t.summary(name).StreamStatus)
			t.awaitStream(name)
			all := t.shards(name, nil)
			shares := []int{}
			for _, s := range open(all) {
				shares = append(shares, share(s))
			}
			t.Equal(row.want, shares, "shares in 1/12")
			t.familyHolds(all)
		})
	}
}

// share is a shard's part of the key space, in twelfths, rounded.
func share(s types.Shard) int {
	width := integer(s.HashKeyRange.EndingHashKey)
	width.Sub(width, integer(s.HashKeyRange.StartingHashKey))
	width.Mul(width, integer(aws.String("24")))
	width.Div(width, integer(aws.String(maxHashKey)))
	return int(width.Int64()+1) / 2
}

// familyHolds checks that closed shards have children, which name them and begin
// after their end, and that open ones cover the keys.
func (t *T) familyHolds(all []types.Shard) {
	byID := map[string]types.Shard{}
	parents := map[string]bool{}
	for _, s := range all {
		byID[*s.ShardId] = s
	}
	for _, s := range all {
		for _, id := range []*string{s.ParentShardId, s.AdjacentParentShardId} {
			if id == nil {
				continue
			}
			parents[*id] = true
			if parent, listed := byID[*id]; listed {
				t.True(integer(s.SequenceNumberRange.StartingSequenceNumber).Cmp(integer(parent.SequenceNumberRange.EndingSequenceNumber)) > 0, *s.ShardId, " starts after its parent's end")
			}
		}
	}
	for _, s := range all {
		t.Equal(s.SequenceNumberRange.EndingSequenceNumber != nil, parents[*s.ShardId], *s.ShardId, " has children")
	}
	next := integer(aws.String("0"))
	for _, s := range open(all) {
		t.Equal(next.String(), *s.HashKeyRange.StartingHashKey, "no gap before ", *s.ShardId)
		next = integer(s.HashKeyRange.EndingHashKey)
		next.Add(next, integer(aws.String("1")))
	}
}

func shardCountsRefused(t *T) {
	name := t.stream(4)
	update := func(to int32, kind types.ScalingType) error {
		t.awaitStream(name)
		_, err := t.kinesis.UpdateShardCount(t.ctx, &kinesis.UpdateShardCountInput{StreamName: name, TargetShardCount: &to, ScalingType: kind})
		return err
	}
	t.Run("more than double", func(t *T) { t.True(update(9, types.ScalingTypeUniformScaling) != nil, "refused") })
	t.Run("less than half", func(t *T) { t.True(update(1, types.ScalingTypeUniformScaling) != nil, "refused") })
	t.Run("another way", func(t *T) { t.Refused("ValidationException", update(2, "SOME_SCALING")) })
	t.Run("nothing happened", func(t *T) {
		t.awaitStream(name)
		t.Equal("0 1 2 3", numbers(t.shards(name, nil)))
	})
}
