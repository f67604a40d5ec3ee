package kinesis

import (
	"fmt"
	"strconv"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

type getShardIteratorInput struct {
	streamRef
	ShardId                *string
	ShardIteratorType      *string
	StartingSequenceNumber *string
	Timestamp              *wire.Time
	DryRun                 bool
}

func (in *getShardIteratorInput) check(v *violations) {
	if v.require("shardId", in.ShardId != nil) {
		v.text("shardId", in.ShardId, nameText)
	}
	if v.require("shardIteratorType", in.ShardIteratorType != nil) {
		v.enum("shardIteratorType", in.ShardIteratorType,
			"AFTER_SEQUENCE_NUMBER", "LATEST", "AT_TIMESTAMP", "AT_SEQUENCE_NUMBER", "TRIM_HORIZON")
	}
	v.text("startingSequenceNumber", in.StartingSequenceNumber, sequenceText)
	in.streamRef.check(v)
}

type getShardIteratorOutput struct{ ShardIterator string }

func getShardIterator(t *turn, in *getShardIteratorInput) (any, *wire.Error) {
	key, err := in.resolve(t.Caller)
	if err != nil {
		return nil, err
	}
	number, ok := parseShardID(*in.ShardId)
	if !ok {
		return nil, noSuchShard(key, *in.ShardId)
	}
	st, s, err := t.readable(key, number)
	if err != nil {
		return nil, err
	}
	s.log.trim(st.horizon(t.now))
	next, err := t.position(st, s, in)
	if err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, t.dryRun(st)
	}
	if !t.cfg.NoLimits && s.open() && !s.traffic().iterator(t.now, t.Account) {
		return nil, shardRateExceeded(st.key, s.number)
	}
	return getShardIteratorOutput{iterator{
		streamKey: st.key, issued: t.now.ms(), created: st.created, shard: s.number, next: next,
	}.String()}, nil
}

// readable finds a shard that can be read. To a reader, a stream that is not
// there, or still being created, is a shard that does not exist.
func (t *turn) readable(key streamKey, number uint32) (*stream, *shard, *wire.Error) {
	st, ok := t.settled(key)
	if !ok || t.seen(st) == creating {
		return nil, nil, shardNotFound(key, number)
	}
	s, ok := st.shard(number)
	if !ok {
		return nil, nil, shardNotFound(key, number)
	}
	return st, s, nil
}

// position is the index an iterator starts at.
func (t *turn) position(st *stream, s *shard, in *getShardIteratorInput) (uint64, *wire.Error) {
	kind := *in.ShardIteratorType
	const rule = "Must either specify (1) AT_SEQUENCE_NUMBER or AFTER_SEQUENCE_NUMBER and StartingSequenceNumber or " +
		"(2) TRIM_HORIZON or LATEST and no StartingSequenceNumber. Request specified %s and %s StartingSequenceNumber."
	switch kind {
	case "TRIM_HORIZON", "LATEST":
		if in.StartingSequenceNumber != nil {
			return 0, invalidArgument(rule, kind, "also a")
		}
	case "AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER":
		if in.StartingSequenceNumber == nil {
			return 0, invalidArgument(rule, kind, "no")
		}
	}
	switch kind {
	case "TRIM_HORIZON":
		return s.log.from(0), nil
	case "LATEST":
		return s.log.last + 1, nil // fixed here and now, or what is put before the first read would be lost
	case "AT_TIMESTAMP":
		if in.Timestamp == nil {
			return 0, invalidArgument("Must specify timestampInMillis parameter for iterator of type AT_TIMESTAMP. Current request has no timestamp parameter.")
		}
		ms, now := in.Timestamp.UnixMilli(), t.now.ms()
		if ms > now {
			return 0, invalidArgument("The timestampInMillis parameter cannot be greater than the currentTimestampInMillis. "+
				"timestampInMillis: %d, currentTimestampInMillis: %d", ms, now)
		}
		return s.log.from(s.log.since(ms)), nil
	default:
		q, err := numberOf(st, s, *in.StartingSequenceNumber)
		if err != nil {
			return 0, err
		}
		return t.resume(s, q, kind == "AFTER_SEQUENCE_NUMBER"), nil
	}
}

// numberOf reads a sequence number that has to come from a shard.
func numberOf(st *stream, s *shard, text string) (sequence, *wire.Error) {
	used := fmt.Sprintf("StartingSequenceNumber %s used in GetShardIterator on shard %s in stream %s under account %s",
		text, shardID(s.number), st.key.name, st.key.account)
	q, ok := parseSequence(text)
	if !ok {
		if text == "0" {
			return q, internalFailure()
		}
		small, err := strconv.ParseUint(text, 10, 31) // read as of an old version
		if err != nil {
			return q, invalidArgument("%s is invalid.", used)
		}
		q.shard = uint32(small)
	}
	switch {
	case q.shard != s.number:
		return q, invalidArgument("Invalid StartingSequenceNumber. It encodes %s, while it was used in a call to a shard with %s",
			shardID(q.shard), shardID(s.number))
	case q.created != s.start:
		return q, invalidArgument("%s is invalid because it did not come from this stream.", used)
	}
	return q, nil
}

// resume is the first index at or after a number, which need not be a record's:
// of two numbers with one index the later second is the greater.
func (t *turn) resume(s *shard, q sequence, after bool) uint64 {
	if i := s.log.at(q.index); i < len(s.log.live()) {
		if r := &s.log.live()[i]; r.index == q.index {
			own := s.numberOf(r, t.numberLag()).second
			if own < q.second || (after && own == q.second) {
				return q.index + 1
			}
			return q.index
		}
	}
	if after {
		return q.index + 1
	}
	return q.index
}
