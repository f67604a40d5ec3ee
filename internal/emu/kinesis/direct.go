package kinesis

import (
	"fmt"
	"time"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

// StreamSpec describes a stream for [Service.Create].
type StreamSpec struct {
	Account, Region, Name string
	// Shards is how many shards the stream begins with, 1 to 1,048,576.
	Shards int
	// OnDemand is its capacity mode; otherwise it is provisioned.
	OnDemand bool
	// Retention is in whole hours, 24 h (the default) to 8760 h.
	Retention time.Duration
}

// Create makes a stream that is ACTIVE at once, whatever the quotas say. The
// error is the service's when the name is taken, and otherwise names what is out
// of bounds.
func (s *Service) Create(spec StreamSpec) error {
	hours := int64(spec.Retention / time.Hour)
	if spec.Retention == 0 {
		hours = defaultRetention
	}
	switch {
	case !isName(spec.Name) || len(spec.Name) > nameText.max:
		return fmt.Errorf("stream name %q: 1 to %d of %s are allowed", spec.Name, nameText.max, nameText.pattern)
	case spec.Shards < 1 || spec.Shards > maxShards:
		return fmt.Errorf("stream %s: %d shards; 1 to %d are allowed", spec.Name, spec.Shards, maxShards)
	case hours < minRetention || hours > maxRetention || spec.Retention%time.Hour != 0:
		return fmt.Errorf("stream %s: retention %v; %d to %d whole hours are allowed", spec.Name, spec.Retention, minRetention, maxRetention)
	}
	_, err := s.take(wire.Caller{Account: spec.Account, Region: spec.Region}, "", func(t *turn) (any, *wire.Error) {
		key := streamKey{spec.Account, spec.Region, spec.Name}
		if _, taken := t.settled(key); taken {
			return nil, streamExists(key)
		}
		st := t.create(key, spec.Shards)
		st.onDemand, st.retention = spec.OnDemand, hours
		return nil, nil
	})
	if err != nil {
		return err
	}
	return nil
}

// Shard is one shard with all that it holds.
type Shard struct {
	ID      string
	Parents []string // none, one after a split, two after a merge
	Closed  bool
	Records []Record // in the order of their sequence numbers
}

// Record is one stored record.
type Record struct {
	SequenceNumber string
	PartitionKey   string
	Data           []byte // shared with the service: not to be written to
	Arrived        time.Time
}

// Shards returns what a stream holds at present: the shards that have not
// expired, by number, with the records that have not been trimmed. It reports
// false for a stream that does not exist.
func (s *Service) Shards(account, region, name string) ([]Shard, bool) {
	var out []Shard
	_, err := s.take(wire.Caller{Account: account, Region: region}, "", func(t *turn) (any, *wire.Error) {
		key := streamKey{account, region, name}
		st, ok := t.settled(key)
		if !ok {
			return nil, streamNotFound(key)
		}
		out = make([]Shard, len(st.shards))
		for i, sh := range st.shards {
			sh.log.trim(st.horizon(t.now))
			out[i] = sh.export(t.numberLag())
		}
		return nil, nil
	})
	return out, err == nil
}

func (s *shard) export(lag int64) Shard {
	out := Shard{ID: shardID(s.number), Closed: !s.open(), Records: make([]Record, len(s.log.live()))}
	for _, p := range []int32{s.parent, s.adjacent} {
		if p >= 0 {
			out.Parents = append(out.Parents, shardID(uint32(p)))
		}
	}
	for i := range out.Records {
		r := &s.log.live()[i]
		out.Records[i] = Record{
			SequenceNumber: s.numberOf(r, lag).String(),
			PartitionKey:   r.key,
			Data:           r.data,
			Arrived:        time.UnixMilli(r.arrived).UTC(),
		}
	}
	return out
}
