package main

import (
	"sync"

	"github.com/go-kcl/kcl"
)

// ledger holds what was put and what was processed, and judges it. A record is
// known by its shard and sequence number.
type ledger struct {
	mu     sync.Mutex
	shards map[string]*shardLedger
	events int // first deliveries so far
	twice  int // deliveries of records that had been delivered before
}

// shardLedger is one shard's part.
type shardLedger struct {
	parents []string
	put     map[string]struct{}
	seen    map[string]int // by sequence number: which first delivery of all it was
	last    kcl.Position   // of the latest first delivery
	swapped int            // first deliveries that came before an earlier one
	ended   bool
}

func newLedger() *ledger { return &ledger{shards: make(map[string]*shardLedger)} }

// shard returns a shard's part. The caller holds mu.
func (l *ledger) shard(id string) *shardLedger {
	s := l.shards[id]
	if s == nil {
		s = &shardLedger{put: make(map[string]struct{}), seen: make(map[string]int)}
		l.shards[id] = s
	}
	return s
}

// stored notes a record that the service has acknowledged.
func (l *ledger) stored(shard, sequence string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shard(shard).put[sequence] = struct{}{}
}

// processed notes the records of a batch.
func (l *ledger) processed(b *kcl.Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.shard(b.Shard.ShardID)
	s.parents = b.Shard.Parents
	for _, r := range b.Records {
		if _, again := s.seen[r.Position.SequenceNumber]; again {
			l.twice++
			continue
		}
		s.seen[r.Position.SequenceNumber] = l.events
		l.events++
		if !s.last.IsZero() && r.Position.Compare(s.last) < 0 {
			s.swapped++
		} else {
			s.last = r.Position
		}
	}
}

func (l *ledger) shardEnded(shard kcl.ShardInfo) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.shard(shard.ShardID)
	s.parents, s.ended = shard.Parents, true
}

// counts is a ledger's verdict.
type counts struct {
	Put          int `json:"records_put"`
	Processed    int `json:"records_processed"`
	Duplicates   int `json:"duplicates"`
	Missing      int `json:"missing"`
	OutOfOrder   int `json:"out_of_order"`
	BeforeParent int `json:"before_parent"`
	ShardsEnded  int `json:"shards_ended"`
}

func (l *ledger) counts() counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := counts{Processed: l.events, Duplicates: l.twice}
	for _, s := range l.shards {
		c.Put += len(s.put)
		for seq := range s.put {
			if _, ok := s.seen[seq]; !ok {
				c.Missing++
			}
		}
		c.OutOfOrder += s.swapped
		if s.ended {
			c.ShardsEnded++
		}
		c.BeforeParent += s.before(l.lastOf(s.parents))
	}
	return c
}

// lastOf returns which first delivery was the last one of the shards or of those
// they came from, -1 if there was none. The caller holds mu.
func (l *ledger) lastOf(shards []string) (last int) {
	last = -1
	for _, id := range shards {
		s := l.shards[id]
		if s == nil {
			continue
		}
		for _, event := range s.seen {
			last = max(last, event)
		}
		last = max(last, l.lastOf(s.parents))
	}
	return last
}

// before counts the shard's first deliveries before that one.
func (s *shardLedger) before(event int) (n int) {
	for _, e := range s.seen {
		if e < event {
			n++
		}
	}
	return n
}
