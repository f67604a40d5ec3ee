package kinesis

import (
	"slices"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

// maxShardsListed bounds a page of ListShards, whatever a caller asks for.
const maxShardsListed = 1000

type shardOutput struct {
	ShardId               string
	ParentShardId         string `json:",omitempty"`
	AdjacentParentShardId string `json:",omitempty"`
	HashKeyRange          hashKeyRange
	SequenceNumberRange   sequenceRange
}

type hashKeyRange struct{ StartingHashKey, EndingHashKey string }

type sequenceRange struct {
	StartingSequenceNumber string
	EndingSequenceNumber   string `json:",omitempty"`
}

func (s *shard) keyRange() hashKeyRange { return hashKeyRange{s.lo.String(), s.hi.String()} }

func (s *shard) output() shardOutput {
	out := shardOutput{
		ShardId:             shardID(s.number),
		HashKeyRange:        s.keyRange(),
		SequenceNumberRange: sequenceRange{StartingSequenceNumber: s.startingNumber().String()},
	}
	if s.parent >= 0 {
		out.ParentShardId = shardID(uint32(s.parent))
	}
	if s.adjacent >= 0 {
		out.AdjacentParentShardId = shardID(uint32(s.adjacent))
	}
	if !s.open() {
		out.SequenceNumberRange.EndingSequenceNumber = s.endingNumber().String()
	}
	return out
}

func shardOutputs(shards []*shard) []shardOutput {
	out := make([]shardOutput, len(shards))
	for i, s := range shards {
		out[i] = s.output()
	}
	return out
}

func pageSize(asked *int64, most int) int {
	if asked == nil {
		return most
	}
	return min(int(*asked), most)
}

// page lists up to n shards that match, from a number on, and says whether there
// are more.
func (st *stream) page(from uint32, n int, match func(*shard) bool) (page []*shard, more bool) {
	i, _ := indexOf(st.shards, from)
	for _, s := range st.shards[i:] {
		if !match(s) {
			continue
		}
		if len(page) == n {
			return page, true
		}
		page = append(page, s)
	}
	return page, false
}

// filterKind is a type of shard filter; its text is filterKinds[kind].
type filterKind uint8

const (
	everyShard filterKind = iota
	fromTrimHorizon
	atTrimHorizon
	atLatest
	atTimestamp
	fromTimestamp
	afterShardID
)

var filterKinds = []string{"", "FROM_TRIM_HORIZON", "AT_TRIM_HORIZON", "AT_LATEST", "AT_TIMESTAMP", "FROM_TIMESTAMP", "AFTER_SHARD_ID"}

type shardFilter struct {
	kind filterKind
	ms   int64 // of the two that take a time
}

// matches decides whether a filter lists an unexpired shard, by the horizon of
// that moment. A shard's times are whole seconds: it starts with the second of
// its starting number and ends with that of its ending number, its children
// starting a second later. fill closes the gap between the two.
//
//	every, FROM_TRIM_HORIZON  yes
//	AFTER_SHARD_ID            yes (paging leaves out what comes before)
//	AT_TRIM_HORIZON           started by the horizon, and has not handed over by it
//	AT_LATEST                 has no ending number
//	AT_TIMESTAMP              started by then, and not ended before
//	FROM_TIMESTAMP            not ended before that time or the horizon
func (f shardFilter) matches(s *shard, horizon int64, fill bool) bool {
	endsBefore := func(ms int64) bool {
		switch {
		case s.open():
			return false
		case fill:
			return s.handover() <= ms
		default:
			return s.end*1000 < ms
		}
	}
	switch f.kind {
	case atTrimHorizon:
		return s.start*1000 <= horizon && (s.open() || horizon < s.handover())
	case atLatest:
		return s.open()
	case atTimestamp:
		return s.start*1000 <= f.ms && !endsBefore(f.ms)
	case fromTimestamp:
		return !endsBefore(max(f.ms, horizon))
	default:
		return true
	}
}

type listShardsInput struct {
	streamRef
	NextToken               *string
	ExclusiveStartShardId   *string
	MaxResults              *int64
	StreamCreationTimestamp *wire.Time
	ShardFilter             *struct {
		Type      *string
		ShardId   *string
		Timestamp *wire.Time
	}

	token   shardsToken // of NextToken
	tokenOK bool
}

func (in *listShardsInput) check(v *violations) {
	v.text("nextToken", in.NextToken, tokenText)
	v.text("exclusiveStartShardId", in.ExclusiveStartShardId, nameText)
	v.integer("maxResults", in.MaxResults, 1, 10_000)
	if f := in.ShardFilter; f != nil {
		if v.require("shardFilter.type", f.Type != nil) {
			v.enum("shardFilter.type", f.Type, filterKinds[1:]...)
		}
		v.text("shardFilter.shardId", f.ShardId, nameText)
	}
	in.streamRef.check(v)
	if in.NextToken != nil {
		in.token, in.tokenOK = parseShardsToken(*in.NextToken)
	}
}

func (in *listShardsInput) stream() string {
	if in.tokenOK {
		return in.token.name
	}
	return in.streamRef.stream()
}

type listShardsOutput struct {
	Shards    []shardOutput
	NextToken string `json:",omitempty"`
}

func listShards(t *turn, in *listShardsInput) (any, *wire.Error) {
	at, err := in.start(t)
	if err != nil {
		return nil, err
	}
	st, ok := t.settled(at.streamKey)
	if !ok || (at.created != 0 && at.created != st.created) {
		return nil, streamNotFound(at.streamKey)
	}
	if state := t.seen(st); state != active && state != updating {
		return nil, notListable(st.key, state)
	}
	if !t.cfg.NoLimits && !st.listed.allow(t.now, second, listShardsASecond) {
		return nil, streamRateExceeded(st.key.name, st.key.account)
	}
	h := st.horizon(t.now)
	if at.filter.kind == atTimestamp && at.filter.ms < h && t.cfg.RefuseEarlyTimestamp { // text assumed
		return nil, invalidArgument("The Timestamp of the ShardFilter lies before the trim horizon of stream %s under account %s.", st.key.name, st.key.account)
	}
	page, more := st.page(at.next, pageSize(in.MaxResults, maxShardsListed), func(s *shard) bool {
		return at.filter.matches(s, h, t.cfg.FillReshardGap)
	})
	out := listShardsOutput{Shards: shardOutputs(page)}
	if more {
		at.issued, at.created, at.next = t.now.ms(), st.created, page[len(page)-1].number+1
		out.NextToken = at.String()
	}
	return out, nil
}

// start is where a page begins and what it filters: what the token says, or the
// request. A created of 0 takes the stream as it comes.
func (in *listShardsInput) start(t *turn) (at shardsToken, err *wire.Error) {
	if in.NextToken != nil {
		for _, other := range []struct {
			name  string
			given bool
		}{
			{"StreamName", in.StreamName != nil},
			{"StreamARN", in.StreamARN != nil},
			{"ShardFilter", in.ShardFilter != nil},
			{"ExclusiveStartShardId", in.ExclusiveStartShardId != nil},
			{"StreamCreationTimestamp", in.StreamCreationTimestamp != nil},
		} {
			if other.given {
				return at, invalidArgument("NextToken and %s cannot be provided together.", other.name)
			}
		}
		if !in.tokenOK {
			return at, invalidArgument("Invalid NextToken.") // text assumed
		}
		return in.token, t.tokenAge(in.token.issued)
	}
	if in.StreamName == nil && in.StreamARN == nil {
		return at, invalidArgument("Either NextToken or StreamName should be provided.")
	}
	if at.streamKey, err = in.resolve(t.Caller); err != nil {
		return at, err
	}
	if in.StreamCreationTimestamp != nil {
		at.created = in.StreamCreationTimestamp.Unix()
	}
	if at.next, err = after(at.streamKey, in.ExclusiveStartShardId); err != nil {
		return at, err
	}
	if f := in.ShardFilter; f != nil {
		at.filter.kind = filterKind(slices.Index(filterKinds, *f.Type))
		// Which code a missing or a surplus member gets is assumed.
		timed := at.filter.kind == atTimestamp || at.filter.kind == fromTimestamp
		if timed != (f.Timestamp != nil) {
			return at, invalidArgument("A ShardFilter of type %s %s have a Timestamp.", *f.Type, mustOrNot(timed))
		}
		if (at.filter.kind == afterShardID) != (f.ShardId != nil) {
			return at, invalidArgument("A ShardFilter of type %s %s have a ShardId.", *f.Type, mustOrNot(at.filter.kind == afterShardID))
		}
		if timed {
			at.filter.ms = f.Timestamp.UnixMilli()
		}
		next, err := after(at.streamKey, f.ShardId)
		if err != nil {
			return at, err
		}
		at.next = max(at.next, next)
	}
	return at, nil
}

func mustOrNot(must bool) string {
	if must {
		return "must"
	}
	return "must not"
}

// after is the number that follows an exclusive start, 0 without one. The shard
// need not exist any more.
func after(key streamKey, id *string) (uint32, *wire.Error) {
	if id == nil {
		return 0, nil
	}
	n, ok := parseShardID(*id)
	if !ok {
		return 0, noSuchShard(key, *id)
	}
	return n + 1, nil
}
