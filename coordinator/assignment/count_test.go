package assignment

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/lease"
)

// setup builds a view: workers W1, W2, … with so many held leases each, named
// W1-00, W1-01, …, besides further leases.
type setup struct {
	counts  []int
	unowned int // free leases u-00, u-01, …
	more    []Lease
	limit   int // 0: none
	balance bool
}

func workerName(i int) string { return fmt.Sprintf("W%d", i+1) }

func (s setup) view() View {
	v := View{Limit: s.limit, Balance: s.balance}
	if v.Limit == 0 {
		v.Limit = math.MaxInt
	}
	for w, n := range s.counts {
		v.Workers = append(v.Workers, Worker{ID: workerName(w)})
		for i := range n {
			v.Leases = append(v.Leases, held(fmt.Sprintf("%s-%02d", workerName(w), i), workerName(w)))
		}
	}
	v.Leases = append(v.Leases, s.more...)
	for i := range s.unowned {
		v.Leases = append(v.Leases, Lease{Lease: &lease.Lease{Key: fmt.Sprintf("u-%02d", i)}, State: Unowned})
	}
	return v
}

func held(key, owner string) Lease {
	return Lease{Lease: &lease.Lease{Key: key, Owner: owner}, State: Held, Movable: true}
}

func ended(l Lease) Lease {
	l.Checkpoint = kcl.ShardEnd
	l.Movable = false
	return l
}

func in(state State, key, owner, checkpointOwner string, since int) Lease {
	return Lease{
		Lease: &lease.Lease{Key: key, Owner: owner, CheckpointOwner: checkpointOwner},
		State: state, Since: time.Unix(int64(since), 0),
	}
}

// moved says in words what a plan does: "key→worker" for each move.
func moved(v View, moves []Move) string {
	var out []string
	for _, m := range moves {
		out = append(out, v.Leases[m.Lease].Key+"→"+m.To)
	}
	return strings.Join(out, " ")
}

// after returns how many leases each worker has once a plan is carried out.
func after(v View, p Plan) []int {
	holder := make([]string, len(v.Leases))
	for i, l := range v.Leases {
		holder[i] = l.Holder()
	}
	for _, moves := range [][]Move{p.Assign, p.Balance} {
		for _, m := range moves {
			holder[m.Lease] = m.To
		}
	}
	counts := make([]int, len(v.Workers))
	for w := range v.Workers {
		for _, h := range holder {
			if h == v.Workers[w].ID {
				counts[w]++
			}
		}
	}
	return counts
}

// Row LC of the worked examples, lease-assignment-and-worker-metrics#43, with
// ruling 13 in place of its last part.
func TestCountExamples(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup setup
		after []int
		moves int // to balance
		spill int
	}{
		{"2,0 and 7 unassigned", setup{counts: []int{2, 0}, unowned: 7}, []int{4, 5}, 0, 0},
		{"0 and 15, at most 10", setup{counts: []int{0}, unowned: 15, limit: 10}, []int{10}, 0, 5},
		{"2,0 and 3", setup{counts: []int{2, 0}, unowned: 3}, []int{2, 3}, 0, 0},
		{"5,1,0", setup{counts: []int{5, 1, 0}, balance: true}, []int{2, 2, 2}, 3, 0},
		{"7,0", setup{counts: []int{7, 0}, balance: true}, []int{4, 3}, 3, 0},
		{"12,12, at most 10", setup{counts: []int{12, 12}, limit: 10, balance: true}, []int{12, 12}, 0, 0},
		{"3,3,3,1", setup{counts: []int{3, 3, 3, 1}, balance: true}, []int{3, 3, 2, 2}, 1, 0},
		{"3,3,3,1, not yet time to balance", setup{counts: []int{3, 3, 3, 1}}, []int{3, 3, 3, 1}, 0, 0},

		{"9 unassigned, nobody has any", setup{counts: []int{0, 0, 0}, unowned: 9}, []int{3, 3, 3}, 0, 0}, // do better 1
		{"2,2 and 3, at most 2", setup{counts: []int{2, 2}, unowned: 3, limit: 2}, []int{2, 2}, 0, 3},     // do better 3, lease-assignment-and-worker-metrics#44
		{"4,0, at most 1", setup{counts: []int{4, 0, 0}, limit: 1, balance: true}, []int{2, 1, 1}, 2, 0},  // lease-assignment-and-worker-metrics#44
		{"9,0 and 1: never more than one write a lease", setup{counts: []int{9, 0}, unowned: 1, balance: true}, []int{5, 5}, 4, 0},
		{"more workers than leases", setup{counts: []int{1, 1, 0}, balance: true}, []int{1, 1, 0}, 0, 0},
		{"2,0,0", setup{counts: []int{2, 0, 0}, balance: true}, []int{1, 1, 0}, 1, 0},
		{"no workers", setup{unowned: 2, balance: true}, []int{}, 0, 2},             // lease-assignment-and-worker-metrics#45
		{"no leases", setup{counts: []int{0, 0}, balance: true}, []int{0, 0}, 0, 0}, // lease-assignment-and-worker-metrics#46
		{"nothing at all", setup{balance: true}, []int{}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := c.setup.view()
			p := ByCount(v)
			assert.Equal(t, c.after, after(v, p))
			assert.Len(t, p.Balance, c.moves)
			assert.Equal(t, c.spill, p.Spill)
			assert.False(t, p.Uneven)
		})
	}
}

func TestCountAssigns(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup setup
		want  string
		spill int
	}{
		{
			"unowned first, then abandoned, then the longest expired", setup{counts: []int{0}, unowned: 1, limit: 3, more: []Lease{
				in(Expired, "e1", "X", "", 300), in(Expired, "e2", "X", "", 200), in(Abandoned, "a1", "Y", "", 400),
			}}, "u-00→W1 a1→W1 e2→W1", 1,
		},
		// lease-assignment-and-worker-metrics#30
		{"room for one", setup{counts: []int{0}, limit: 1, more: []Lease{in(Expired, "e", "X", "", 1)}, unowned: 1}, "u-00→W1", 1},
		{"equally long expired by key", setup{counts: []int{0}, more: []Lease{in(Expired, "a", "X", "", 1), in(Expired, "b", "X", "", 1)}}, "a→W1 b→W1", 0},

		{"an expired lease goes to another than its owner", setup{counts: []int{0, 5}, more: []Lease{in(Expired, "e", "W1", "", 1)}}, "e→W2", 0},
		{"an expired lease stays with its owner if no other has room", setup{counts: []int{0, 2}, limit: 2, more: []Lease{in(Expired, "e", "W1", "", 1)}}, "", 0},
		{"an expired lease in hand-off is written even to its owner", setup{counts: []int{0}, more: []Lease{in(Expired, "e", "X", "W1", 1)}}, "e→W1", 0}, // lease-assignment-and-worker-metrics#33
		{"an expired lease in hand-off goes to a living next owner", setup{counts: []int{0}, more: []Lease{in(Expired, "e", "W1", "X", 1)}}, "e→W1", 0},  // lease-assignment-and-worker-metrics#32

		{"a lease left by its owner counts for it no more", setup{counts: []int{1, 1, 0}, more: []Lease{in(Expired, "e1", "W3", "", 1), in(Expired, "e2", "W3", "", 1)}}, "e1→W1 e2→W2", 0},

		// lease-assignment-and-worker-metrics#49, do better 17
		{"a hand-off under way is left alone", setup{counts: []int{0, 0}, more: []Lease{in(Pending, "p", "W1", "W2", 1)}}, "", 0},
		{"an overdue hand-off is forced, to whom it was meant for", setup{counts: []int{5, 0, 0}, more: []Lease{in(Overdue, "o", "W1", "W2", 1)}}, "o→W1", 0},
		{"an overdue hand-off to a dead worker goes elsewhere", setup{counts: []int{1, 0}, more: []Lease{in(Overdue, "o", "X", "W1", 1)}}, "o→W2", 0},
		{"an overdue hand-off to a dead worker goes back if no other has room", setup{counts: []int{1}, more: []Lease{in(Overdue, "o", "X", "W1", 1)}}, "o→W1", 0},
		{"a hand-off counts at its next owner", setup{counts: []int{1, 1}, more: []Lease{in(Pending, "p", "W1", "W2", 1)}, unowned: 1}, "u-00→W2", 0},
		{"an overdue one too", setup{counts: []int{1, 1}, more: []Lease{in(Overdue, "o", "W1", "W2", 1)}, unowned: 1}, "u-00→W2 o→W1", 0},

		{"ended leases are spread", setup{counts: []int{1, 0}, more: []Lease{
			ended(in(Unowned, "e1", "", "", 0)), ended(in(Unowned, "e2", "", "", 0)), ended(in(Unowned, "e3", "", "", 0)),
		}}, "e1→W2 e2→W2 e3→W1", 0},
		{"ended leases use up no room: they stay until their children are read", setup{counts: []int{0}, limit: 2, unowned: 3, more: []Lease{
			ended(held("e", "W1")), ended(in(Unowned, "f", "", "", 0)),
		}}, "u-00→W1 u-01→W1 f→W1", 1},
		{"ended leases are no load", setup{counts: []int{1, 2}, unowned: 1, more: []Lease{ended(held("e1", "W1")), ended(held("e2", "W1"))}}, "u-00→W1", 0},
		{"a worker that is no target is not counted", setup{counts: []int{1}, more: []Lease{held("x", "X")}, unowned: 1}, "u-00→W1", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := c.setup.view()
			p := ByCount(v)
			assert.Equal(t, c.want, moved(v, p.Assign))
			assert.Empty(t, p.Balance)
			assert.Equal(t, c.spill, p.Spill)
		})
	}
}

func TestCountBalances(t *testing.T) {
	still := func(key, owner string) Lease { l := held(key, owner); l.Movable = false; return l }
	for _, c := range []struct {
		name   string
		setup  setup
		want   string
		uneven bool
	}{
		{"leases are picked evenly over the keys", setup{counts: []int{8, 0}}, "W1-00→W2 W1-02→W2 W1-04→W2 W1-06→W2", false},
		{"the most loaded give first, the least loaded get first", setup{counts: []int{3, 6, 0, 1}}, "W2-00→W3 W2-02→W3 W2-04→W4", false},
		{"what is on its way counts", setup{counts: []int{2, 0}, more: []Lease{in(Pending, "p1", "W2", "W1", 1), in(Pending, "p2", "W2", "W1", 1)}}, "", false}, // ruling 12
		{"leases that cannot move now do not", setup{counts: []int{0, 0}, more: []Lease{still("a", "W1"), still("b", "W1"), still("c", "W1")}}, "", true},
		{"others are not moved in their place", setup{counts: []int{0, 3, 0}, more: []Lease{still("a", "W1"), still("b", "W1"), still("c", "W1"), still("d", "W1"), still("e", "W1"), still("f", "W1")}}, "", true},
		{"some can move", setup{counts: []int{1, 0}, more: []Lease{still("a", "W1"), still("b", "W1"), still("c", "W1")}}, "W1-00→W2", true},
		// ruling 13, do better 22
		{"ended leases are neither moved nor counted", setup{counts: []int{2, 2}, more: []Lease{ended(held("e1", "W1")), ended(held("e2", "W1")), ended(held("e3", "W1"))}}, "", false},
		{"ended leases fill up no worker", setup{counts: []int{6, 8, 7, 6}, limit: 8, more: []Lease{
			ended(held("e1", "W1")), ended(held("e2", "W1")), ended(held("e3", "W3")),
		}}, "W2-00→W1", false},
		{"ended leases do not stand for others", setup{counts: []int{1, 3}, more: []Lease{ended(held("e1", "W1")), ended(held("e2", "W1"))}}, "W2-00→W1", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.setup.balance = true
			v := c.setup.view()
			p := ByCount(v)
			assert.Equal(t, c.want, moved(v, p.Balance))
			assert.Equal(t, c.uneven, p.Uneven)
		})
	}
}
