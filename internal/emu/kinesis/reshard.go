package kinesis

import "slices"

// step is one split or merge, told by the key at which it happens: the shard
// that holds the key is cut there, or the shards that meet there become one.
type step struct {
	at    hashKey
	merge bool
	due   instant // when it is complete
}

// apply completes a step. The parents end with the present second, the children
// start with the next.
func (st *stream) apply(p step) {
	t := p.due.sec()
	i := covering(st.open, p.at)
	upper := st.open[i]
	if p.merge {
		lower := st.open[i-1]
		child := st.addShard(shard{lo: lower.lo, hi: upper.hi, parent: int32(lower.number), adjacent: int32(upper.number), start: t + 1})
		st.close(lower, t, child.number, 1)
		st.close(upper, t, child.number, 1)
		st.open = slices.Replace(st.open, i-1, i+1, child)
		return
	}
	left := st.addShard(shard{lo: upper.lo, hi: p.at.minus(1), parent: int32(upper.number), adjacent: -1, start: t + 1})
	right := st.addShard(shard{lo: p.at, hi: upper.hi, parent: int32(upper.number), adjacent: -1, start: t + 1})
	st.close(upper, t, left.number, 2)
	st.open = slices.Replace(st.open, i, i+1, left, right)
}

func (st *stream) addShard(s shard) *shard {
	s.number = st.nextShard
	st.nextShard++
	st.shards = append(st.shards, &s)
	return &s
}

func (st *stream) close(s *shard, t int64, child uint32, children uint8) {
	s.end, s.child, s.children = t, child, children
	st.closed = append(st.closed, s)
}

// uniformSteps says how the open shards, in order of key, become n equal ones: a
// sweep in key order that cuts where a wanted bound is missing and merges as soon
// as two neighbours lie within one wanted range. A bound that differs from the
// wanted one only by rounding is left as it is; so doubling makes no shard that
// is gone again at the end.
func uniformSteps(open []*shard, n int) []step {
	var steps []step
	wanted := 1
	begun := false // whether the piece to the left belongs to the same range
	for i, s := range open {
		endsAt := func(bound hashKey) bool { return i+1 < len(open) && bound.near(open[i+1].lo) }
		for ; wanted < n; wanted++ {
			bound := uniformBound(wanted, n)
			if endsAt(bound) || s.hi.less(bound) {
				break
			}
			steps = append(steps, step{at: bound})
			if begun {
				steps = append(steps, step{at: s.lo, merge: true})
				begun = false
			}
		}
		if begun {
			steps = append(steps, step{at: s.lo, merge: true})
		}
		begun = true
		if wanted < n && endsAt(uniformBound(wanted, n)) {
			wanted++
			begun = false
		}
	}
	return steps
}
