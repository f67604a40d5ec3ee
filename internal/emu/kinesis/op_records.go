package kinesis

import (
	"github.com/go-kcl/kcl/internal/emu/wire"
)

// maxReadRecords bounds one GetRecords.
const maxReadRecords = 10_000

type getRecordsInput struct {
	ShardIterator *string
	StreamARN     *string
	Limit         *int64
	DryRun        bool

	it iterator
	ok bool // whether it could be read
}

func (in *getRecordsInput) check(v *violations) {
	v.integer("limit", in.Limit, 1, maxReadRecords)
	v.text("streamARN", in.StreamARN, arnText)
	if v.require("shardIterator", in.ShardIterator != nil) {
		v.text("shardIterator", in.ShardIterator, iteratorText)
		in.it, in.ok = parseIterator(*in.ShardIterator)
	}
}

func (in *getRecordsInput) stream() string { return in.it.name }

type recordOutput struct {
	SequenceNumber              string
	ApproximateArrivalTimestamp wire.Time
	Data                        []byte
	PartitionKey                string
}

type childOutput struct {
	ShardId      string
	ParentShards []string
	HashKeyRange hashKeyRange
}

type getRecordsOutput struct {
	Records            []recordOutput
	NextShardIterator  string `json:",omitempty"`
	MillisBehindLatest int64
	ChildShards        []childOutput `json:",omitempty"`
}

func getRecords(t *turn, in *getRecordsInput) (any, *wire.Error) {
	it := in.it
	if !in.ok {
		return nil, invalidArgument("Invalid ShardIterator.")
	}
	if in.StreamARN != nil {
		if key, ok := parseARN(*in.StreamARN); !ok || key != it.streamKey { // code and text assumed
			return nil, invalidArgument("StreamARN %s is not that of the ShardIterator.", *in.StreamARN)
		}
	}
	if now := t.now.ms(); now-it.issued > tokenLife {
		return nil, refuse("ExpiredIteratorException", "Iterator expired. The iterator was created at time %s while right now it is %s "+
			"which is further in the future than the tolerated delay of %d milliseconds.", clockText(it.issued), clockText(now), tokenLife)
	}
	st, s, err := t.readable(it.streamKey, it.shard)
	if err != nil {
		return nil, err
	}
	if st.created != it.created {
		return nil, internalFailure() // another stream of that name; this was seen
	}
	if in.DryRun {
		return nil, t.dryRun(st)
	}
	if !t.cfg.NoLimits && !s.traffic().read(t.now) {
		return nil, shardRateExceeded(st.key, s.number)
	}
	limit := maxReadRecords
	if in.Limit != nil {
		limit = int(*in.Limit)
	}
	s.log.trim(st.horizon(t.now))
	p := s.read(it, limit, moment{now: t.now.ms(), horizon: st.horizon(t.now)}, &t.cfg)
	if !t.cfg.NoLimits {
		s.traffic().owe(t.now, p.bytes)
	}

	out := getRecordsOutput{Records: make([]recordOutput, len(p.records)), MillisBehindLatest: p.behind}
	for i := range p.records {
		r := &p.records[i]
		out.Records[i] = recordOutput{
			SequenceNumber:              s.numberOf(r, t.numberLag()).String(),
			ApproximateArrivalTimestamp: wireTime(r.arrived),
			Data:                        r.data,
			PartitionKey:                r.key,
		}
	}
	if p.end {
		out.ChildShards = st.childrenOf(s)
	} else {
		out.NextShardIterator = p.next.String()
	}
	return out, nil
}

func (st *stream) childrenOf(s *shard) []childOutput {
	var out []childOutput
	for n := s.child; n < s.child+uint32(s.children); n++ {
		c, _ := st.shard(n) // it cannot expire before its parent
		parents := []string{shardID(uint32(c.parent))}
		if c.adjacent >= 0 {
			parents = append(parents, shardID(uint32(c.adjacent)))
		}
		out = append(out, childOutput{ShardId: shardID(n), ParentShards: parents, HashKeyRange: c.keyRange()})
	}
	return out
}
