package kinesis

import (
	"cmp"
	"slices"
)

// shard is one shard. It is open until it has children; then it has an ending
// number, of second end, and its children start at end + 1.
type shard struct {
	number   uint32
	lo, hi   hashKey // both inclusive
	parent   int32   // −1: none
	adjacent int32
	start    int64 // the second of its creation and of its starting number
	end      int64
	child    uint32 // the first of its children
	children uint8  // 0, 1 after a merge, 2 after a split
	log      recordLog
	limits   *traffic // nil until used: streams with 100,000 shards are cheap
}

func (s *shard) open() bool { return s.children == 0 }

// handover is when a closed shard's children take over, in ms: it took puts
// until then, may end for its readers from then on, and expires when the horizon
// gets there.
func (s *shard) handover() int64 { return (s.end + 1) * 1000 }

// complete says that nothing can be added any more.
func (s *shard) complete(ms int64) bool { return !s.open() && ms >= s.handover() }

func (s *shard) holds(k hashKey) bool { return !k.less(s.lo) && !s.hi.less(k) }

func (s *shard) traffic() *traffic {
	if s.limits == nil {
		s.limits = new(traffic)
	}
	return s.limits
}

func (s *shard) startingNumber() sequence {
	return sequence{created: s.start, second: s.start, shard: s.number}
}

func (s *shard) endingNumber() sequence {
	return sequence{created: s.start, index: endIndex, second: s.end, shard: s.number}
}

// numberOf is a record's sequence number. Its second may lag behind the arrival,
// yet not behind the shard's start.
func (s *shard) numberOf(r *record, lag int64) sequence {
	return sequence{created: s.start, index: r.index, second: max(r.arrived/1000-lag, s.start), shard: s.number}
}

// uniform are n open shards of equal width, numbered from 0.
func uniform(n int, start int64) []*shard {
	slab := make([]shard, n)
	shards := make([]*shard, n)
	for i := range slab {
		hi := maxHashKey
		if i < n-1 {
			hi = uniformBound(i+1, n).minus(1)
		}
		slab[i] = shard{number: uint32(i), lo: uniformBound(i, n), hi: hi, parent: -1, adjacent: -1, start: start}
		shards[i] = &slab[i]
	}
	return shards
}

// indexOf finds the first shard of a list in order of number that is not below
// number.
func indexOf(shards []*shard, number uint32) (int, bool) {
	return slices.BinarySearchFunc(shards, number, func(s *shard, n uint32) int { return cmp.Compare(s.number, n) })
}

// covering finds the shard that holds k in a list in order of key without gaps.
func covering(open []*shard, k hashKey) int {
	i, found := slices.BinarySearchFunc(open, k, func(s *shard, k hashKey) int { return s.lo.compare(k) })
	if !found {
		i--
	}
	return i
}
