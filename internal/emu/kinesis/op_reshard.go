package kinesis

import (
	"github.com/go-kcl/kcl/internal/emu/wire"
)

type splitShardInput struct {
	streamRef
	ShardToSplit       *string
	NewStartingHashKey *string
}

func (in *splitShardInput) check(v *violations) {
	if v.require("shardToSplit", in.ShardToSplit != nil) {
		v.text("shardToSplit", in.ShardToSplit, nameText)
	}
	if v.require("newStartingHashKey", in.NewStartingHashKey != nil) {
		v.text("newStartingHashKey", in.NewStartingHashKey, hashKeyText)
	}
	in.streamRef.check(v)
}

func splitShard(t *turn, in *splitShardInput) (any, *wire.Error) {
	st, shards, err := t.reshardable(&in.streamRef, *in.ShardToSplit)
	if err != nil {
		return nil, err
	}
	s := shards[0]
	if !s.open() {
		return nil, reshardedAlready(st.key, s)
	}
	k, ok := parseHashKey(*in.NewStartingHashKey)
	if !ok || !splits(s, k) {
		return nil, invalidArgument("NewStartingHashKey %s used in SplitShard() on shard %s in stream %s under account %s is not both "+
			"greater than one plus the shard's StartingHashKey %s and less than the shard's EndingHashKey %s.",
			*in.NewStartingHashKey, shardID(s.number), st.key.name, st.key.account, s.lo, s.hi)
	}
	if err := t.shardQuota(1); err != nil {
		return nil, err
	}
	t.reshard(st, []step{{at: k}})
	return nil, nil
}

// splits says whether both children would be two keys wide or more.
func splits(s *shard, k hashKey) bool {
	return s.lo.less(k) && s.lo.plus(1).less(k) && k.less(s.hi)
}

func reshardedAlready(key streamKey, s *shard) *wire.Error {
	return invalidArgument("Shard %s in stream %s under account %s has already been merged or split, "+
		"and thus is not eligible for merging or splitting.", shardID(s.number), key.name, key.account)
}

type mergeShardsInput struct {
	streamRef
	ShardToMerge         *string
	AdjacentShardToMerge *string
}

func (in *mergeShardsInput) check(v *violations) {
	if v.require("shardToMerge", in.ShardToMerge != nil) {
		v.text("shardToMerge", in.ShardToMerge, nameText)
	}
	if v.require("adjacentShardToMerge", in.AdjacentShardToMerge != nil) {
		v.text("adjacentShardToMerge", in.AdjacentShardToMerge, nameText)
	}
	in.streamRef.check(v)
}

func mergeShards(t *turn, in *mergeShardsInput) (any, *wire.Error) {
	st, shards, err := t.reshardable(&in.streamRef, *in.ShardToMerge, *in.AdjacentShardToMerge)
	if err != nil {
		return nil, err
	}
	lower, upper := shards[0], shards[1]
	for _, s := range shards {
		if !s.open() {
			return nil, reshardedAlready(st.key, s)
		}
	}
	if lower.hi == maxHashKey || lower.hi.plus(1) != upper.lo { // the wrong way round included
		return nil, invalidArgument("Shards %s and %s in stream %s under account %s are not an adjacent pair of shards eligible for merging",
			shardID(lower.number), shardID(upper.number), st.key.name, st.key.account)
	}
	t.reshard(st, []step{{at: upper.lo, merge: true}})
	return nil, nil
}

// reshardable finds an ACTIVE provisioned stream and shards of it. A shard id
// that is none is refused before the stream is looked up.
func (t *turn) reshardable(r *streamRef, ids ...string) (*stream, []*shard, *wire.Error) {
	if err := t.throttle(r.stream()); err != nil {
		return nil, nil, err
	}
	key, err := r.resolve(t.Caller)
	if err != nil {
		return nil, nil, err
	}
	numbers := make([]uint32, len(ids))
	for i, id := range ids {
		n, ok := parseShardID(id)
		if !ok {
			return nil, nil, noSuchShard(key, id)
		}
		numbers[i] = n
	}
	st, ok := t.settled(key)
	if !ok {
		return nil, nil, streamNotFound(key)
	}
	if state := t.seen(st); state != active {
		return nil, nil, notActive(key, state)
	}
	if st.onDemand {
		return nil, nil, validation("Request is invalid. Stream %s under account %s is in On-Demand mode.", key.name, key.account)
	}
	shards := make([]*shard, len(ids))
	for i, n := range numbers {
		s, ok := st.shard(n)
		if !ok {
			return nil, nil, noSuchShard(key, shardID(n))
		}
		shards[i] = s
	}
	return st, shards, nil
}

// reshard begins steps, one after another.
func (t *turn) reshard(st *stream, steps []step) {
	due := t.now
	for i := range steps {
		due += instant(t.cfg.ReshardDuration)
		steps[i].due = due
	}
	st.pending, st.updated = steps, due
}

// maxUniformShards is the most that UpdateShardCount scales to.
const maxUniformShards = 10_000

type updateShardCountInput struct {
	streamRef
	TargetShardCount *int64
	ScalingType      *string
}

func (in *updateShardCountInput) check(v *violations) {
	if v.require("targetShardCount", in.TargetShardCount != nil) {
		v.integer("targetShardCount", in.TargetShardCount, 1, maxShardNumber)
	}
	if v.require("scalingType", in.ScalingType != nil) {
		v.enum("scalingType", in.ScalingType, "UNIFORM_SCALING")
	}
	in.streamRef.check(v)
}

type updateShardCountOutput struct {
	StreamName        string
	StreamARN         string
	CurrentShardCount int
	TargetShardCount  int
}

func updateShardCount(t *turn, in *updateShardCountInput) (any, *wire.Error) {
	st, _, err := t.reshardable(&in.streamRef)
	if err != nil {
		return nil, err
	}
	target, count := int(*in.TargetShardCount), len(st.open)
	const counts = " Current open shard count: %d Target shard count: %d"
	switch { // the code for these is assumed
	case target > maxUniformShards:
		return nil, limitExceeded("UpdateShardCount cannot scale a stream to more than %d shards."+counts, maxUniformShards, count, target)
	case target > 2*count:
		return nil, limitExceeded("UpdateShardCount cannot scale up over double your current open shard count."+counts, count, target)
	case 2*target < count:
		return nil, limitExceeded("UpdateShardCount cannot scale down below half your current open shard count."+counts, count, target)
	}
	if target > count {
		if err := t.shardQuota(target - count); err != nil {
			return nil, err
		}
	}
	if !t.cfg.NoLimits && !st.scaled.allow(t.now, day, shardCountsADay) {
		return nil, limitExceeded("Stream %s under account %s has been scaled %d times within 24 hours.", st.key.name, st.key.account, shardCountsADay)
	}
	t.reshard(st, uniformSteps(st.open, target))
	return updateShardCountOutput{
		StreamName: st.key.name, StreamARN: st.key.arn(), CurrentShardCount: count, TargetShardCount: target,
	}, nil
}
