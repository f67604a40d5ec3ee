package assignment

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
)

// ByCount gives each worker the same number of leases, give or take one. KCL:
// LEASE_COUNT_BASED.
//
// A free lease goes to the worker with the fewest, but to the one that let it
// expire only if no other has room. An overdue one goes to whom its hand-off was
// meant for, if that worker is still there. To balance, each worker above its
// share gives leases to workers below theirs, as few as will do. Ties go to the
// worker that had fewer at the start, then to the lesser id.
//
// Leases at SHARD_END cause no load: they are neither moved nor counted, also not
// against the limit. They stay until their children are being read, which would
// otherwise find no room, and never be.
func ByCount(v View) Plan {
	c := count(v)
	plan := c.assign(v, func(w *tally) bool { return w.live < v.Limit }, func(w *tally, i int) { w.add(v.Leases[i]) })
	if v.Balance {
		plan.Balance, plan.Uneven = c.balance(v)
	}
	return plan
}

// tally counts one worker's leases.
type tally struct {
	id      string
	index   int     // in View.Workers
	ratio   float64 // of load to the fleet's average, where the load is known
	live    int     // leases held or about to be, but those at SHARD_END
	before  int     // live before the run
	load    int     // live, and the ended ones given in this run, lest one worker get all of these
	quota   int     // what live is to become by balancing
	movable []int   // indexes of leases it can give away
}

func (t *tally) add(l Lease) {
	t.load++
	if !l.Ended() {
		t.live++
	}
}

// tallies are all workers', by worker id.
type tallies []*tally

func (t tallies) find(id string) *tally {
	i, ok := slices.BinarySearchFunc(t, id, func(w *tally, id string) int { return strings.Compare(w.id, id) })
	if !ok {
		return nil
	}
	return t[i]
}

func count(v View) tallies {
	t := make(tallies, len(v.Workers))
	for i, w := range v.Workers {
		t[i] = &tally{id: w.ID, index: i}
	}
	for i, l := range v.Leases {
		w := t.find(l.Holder())
		if w == nil {
			continue
		}
		if !l.Ended() {
			w.live++
		}
		if l.Movable {
			w.movable = append(w.movable, i)
		}
	}
	for _, w := range t {
		w.before, w.load = w.live, w.live
	}
	return t
}

// assign plans who gets the leases that are to be given away. room reports
// whether a worker may get a lease, give takes in that it gets the one of that
// index.
func (t tallies) assign(v View, room func(*tally) bool, give func(w *tally, lease int)) (p Plan) {
	var live, ended []int
	for _, i := range v.assignable() {
		if v.Leases[i].Ended() {
			ended = append(ended, i)
		} else {
			live = append(live, i)
		}
	}
	t.assignTo(v, live, room, give, &p)
	for _, w := range t {
		w.ratio = 0 // those at SHARD_END are spread by number
	}
	t.assignTo(v, ended, func(*tally) bool { return true }, give, &p)
	return p
}

func (t tallies) assignTo(v View, leases []int, room func(*tally) bool, give func(*tally, int), p *Plan) {
	q := t.having(room)
	for _, i := range leases {
		l := v.Leases[i]
		if l.State == Overdue && t.find(l.Owner) != nil {
			p.Assign = append(p.Assign, Move{i, l.Owner}) // counted there already
			continue
		}
		w := q.take(l.ActualOwner())
		if w == nil {
			p.Spill++
			continue
		}
		give(w, i)
		if room(w) {
			q.put(w)
		}
		// An expired lease stays with its owner, who will find it again, if
		// nobody else can have it. One in a hand-off must be written: as it is,
		// neither of the two workers goes on with it.
		if w.id != l.ActualOwner() || l.HandOffPending() {
			p.Assign = append(p.Assign, Move{i, w.id})
		}
	}
}

// having returns the workers that have room.
func (t tallies) having(room func(*tally) bool) queue {
	var q queue
	for _, w := range t {
		if room(w) {
			q = append(q, w)
		}
	}
	heap.Init(&q)
	return q
}

// balance moves what lies above the workers' quotas to those below theirs.
func (t tallies) balance(v View) (moves []Move, uneven bool) {
	givers := t.setQuotas(v.Limit)
	var takers queue
	wanted := 0
	for _, w := range t {
		if w.live < w.quota {
			w.load = w.live // ended leases are not balanced
			wanted += w.quota - w.live
			takers = append(takers, w)
		}
	}
	heap.Init(&takers)
	for _, g := range givers {
		n := min(g.live-g.quota, len(g.movable), wanted-len(moves))
		for k := range n {
			// Spread over the keys, which lie together by stream.
			i := g.movable[k*len(g.movable)/n]
			w := takers.take("")
			w.add(v.Leases[i])
			if w.live < w.quota {
				takers.put(w)
			}
			moves = append(moves, Move{i, w.id})
		}
	}
	return moves, len(moves) < wanted
}

// setQuotas shares the live leases out, to each worker as many, but to none more
// than it has or may get. What cannot be shared evenly stays with those that
// have most, so that as few leases as can be move. It returns the workers with
// the most loaded first.
func (t tallies) setQuotas(limit int) tallies {
	left := 0
	for _, w := range t {
		w.quota = max(w.live, limit) // the most it can have
		left += w.live
	}
	open := slices.Clone(t)
	slices.SortFunc(open, func(a, b *tally) int { return cmp.Compare(a.quota, b.quota) })
	for len(open) > 0 && open[0].quota <= left/len(open) {
		left -= open[0].quota
		open = open[1:]
	}
	slices.SortFunc(open, byLoad)
	for i, w := range open {
		w.quota = left / len(open)
		if i < left%len(open) {
			w.quota++
		}
	}
	all := slices.Clone(t)
	slices.SortFunc(all, byLoad)
	return all
}

// byLoad orders the most loaded first.
func byLoad(a, b *tally) int {
	return cmp.Or(cmp.Compare(b.live, a.live), strings.Compare(a.id, b.id))
}

// queue is a heap of workers with room, on top the one to get the next lease.
type queue []*tally

// take removes the worker to get the next lease and returns it: another than
// the one called not, if there is one; nil if there is none.
func (q *queue) take(not string) *tally {
	if len(*q) == 0 {
		return nil
	}
	w := heap.Pop(q).(*tally)
	if w.id == not && len(*q) > 0 {
		other := heap.Pop(q).(*tally)
		heap.Push(q, w)
		return other
	}
	return w
}

// put returns a worker, which may have got a lease meanwhile.
func (q *queue) put(w *tally) { heap.Push(q, w) }

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q queue) Less(i, j int) bool {
	a, b := q[i], q[j]
	switch {
	case a.ratio != b.ratio:
		return a.ratio < b.ratio
	case a.load != b.load:
		return a.load < b.load
	case a.before != b.before:
		return a.before < b.before
	}
	return a.id < b.id
}
func (q *queue) Push(x any) { *q = append(*q, x.(*tally)) }
func (q *queue) Pop() any {
	old := *q
	w := old[len(old)-1]
	*q = old[:len(old)-1]
	return w
}
