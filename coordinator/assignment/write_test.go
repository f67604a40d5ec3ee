package assignment

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWrites(t *testing.T) {
	v := View{Leases: []Lease{
		0: in(Unowned, "u", "", "", 0),
		1: in(Expired, "e", "A", "", 0),
		2: in(Abandoned, "a", "A", "", 0),
		3: in(Overdue, "o", "A", "B", 0),
		4: in(Pending, "p", "A", "B", 0),
		5: held("h", "A"),
		6: ended(held("x", "A")),
		7: in(Expired, "ep", "A", "B", 0),
	}}
	type want struct {
		to                 string
		handOff, ifCounter bool
	}
	one := func(lease int, to string, handOff bool) any {
		ws := writes(v, Plan{Assign: []Move{{lease, to}}}, handOff)
		if len(ws) == 0 {
			return nil
		}
		require.Len(t, ws, 1)
		require.Equal(t, *v.Leases[lease].Lease, ws[0].lease)
		return want{ws[0].to, ws[0].handOff, ws[0].ifCounter}
	}
	assert.Equal(t, want{"C", false, false}, one(0, "C", true), "unowned")
	assert.Equal(t, want{"C", false, true}, one(1, "C", true), "expired: ruling 4, do better 19; lease-assignment-and-worker-metrics#37")
	assert.Equal(t, want{"C", false, true}, one(2, "C", true), "abandoned: ruling 8")
	assert.Equal(t, want{"C", false, false}, one(3, "C", true), "overdue: lease-assignment-and-worker-metrics#36")
	assert.Nil(t, one(4, "C", true), "pending: lease-assignment-and-worker-metrics#35")
	assert.Equal(t, want{"C", true, false}, one(5, "C", true), "held: lease-assignment-and-worker-metrics#34")
	assert.Equal(t, want{"C", false, false}, one(5, "C", false), "without hand-offs: lease-assignment-and-worker-metrics#37")
	assert.Equal(t, want{"C", false, false}, one(6, "C", true), "ended: lease-assignment-and-worker-metrics#37")
	assert.Equal(t, want{"B", false, true}, one(7, "B", true), "expired in hand-off, to its owner: lease-assignment-and-worker-metrics#33")
	assert.Nil(t, one(5, "A", true), "it has it")

	// lease-assignment-and-worker-metrics#42
	ws := writes(v, Plan{Assign: []Move{{0, "C"}, {1, "C"}}, Balance: []Move{{0, "D"}, {5, "C"}}}, true)
	require.Len(t, ws, 3)
	assert.Equal(t, []string{"u", "D", "e", "C", "h", "C"}, []string{ws[0].lease.Key, ws[0].to, ws[1].lease.Key, ws[1].to, ws[2].lease.Key, ws[2].to})
}
