package singletable

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// skip leaves out what takes long. Nothing runs beside anything in it, so the
// race detector has nothing to say.
func skip(t *testing.T) {
	t.Helper()
	if testing.Short() || raceDetector {
		t.Skip("visits all states")
	}
}

const mostStates = 20_000_000

// single-table-migration#61, and the properties that judge, land and guard hold.
func TestExplore(t *testing.T) {
	skip(t)
	x := &explorer{decide: Decide}
	n := x.explore(mostStates)
	require.Empty(t, x.broken, "after %d states: %s", n, x.trace())
	t.Logf("%d states, %d views, %d rows", n, len(x.memo), len(x.rows))
	var rows []string
	for r := range x.rows {
		rows = append(rows, r)
	}
	slices.Sort(rows)
	// Nobody starts without a status, deletes the item by hand, or the table.
	assert.Equal(t, strings.Fields("D1 D2 I0 I1 I1u I2 I3 I4 P1 P1u P2 P3 P4 P5 P5l P5r P6 P7 P7u P8 P8l P9 X3 X4 X8 X9"), rows)
}

// Whatever has happened, the migration can still be completed: no state is a trap.
func TestEveryStateLeadsToComplete(t *testing.T) {
	skip(t)
	x := &explorer{decide: Decide, calm: true, ways: [][2]int32{}}
	n := x.explore(mostStates)
	require.Empty(t, x.broken)
	back := make([][]int32, n)
	for _, w := range x.ways {
		back[w[1]] = append(back[w[1]], w[0])
	}
	var reached []int32
	leads := make([]bool, n)
	for i, v := range x.order {
		if statusOf[v.t[tItem]] == Complete {
			leads[i] = true
			reached = append(reached, int32(i))
		}
	}
	for len(reached) > 0 {
		last := reached[len(reached)-1]
		reached = reached[:len(reached)-1]
		for _, from := range back[last] {
			if !leads[from] {
				leads[from] = true
				reached = append(reached, from)
			}
		}
	}
	for i, ok := range leads {
		if !ok {
			x.at = int32(i)
			require.Fail(t, "a trap", "%s", x.trace())
		}
	}
	t.Logf("%d states, %d steps", n, len(x.ways))
}

// Each row that is spoilt breaks a property that all states have without.
func TestSpoiltRowsShow(t *testing.T) {
	skip(t)
	ago := time.Unix(0, 0)
	spoilt := func(spoil func(v *View), row string) func(View) Decision {
		return func(v View) Decision {
			if Decide(v).Row == row {
				spoil(&v)
			}
			return Decide(v)
		}
	}
	changed := func(row string, change func(View, *Decision)) func(View) Decision {
		return func(v View) Decision {
			d := Decide(v)
			if d.Row == row {
				change(v, &d)
			}
			return d
		}
	}
	all := Summary{At: time.Unix(1_000_000_000, 0), Term: 1, Owners: []string{"o"}}
	for _, tc := range []struct {
		name   string
		decide func(View) Decision
		keep   bool
		want   string
	}{
		{"X3 a read of before the term will do", spoilt(func(v *View) { v.Read.Term = v.Term }, "X3"), true, "two leaders act, each by another table"},
		{"X8 COMPLETE does not end the term", changed("X8", func(v View, d *Decision) { *d = Decision{Row: "X8", Local: v.Local, After: v.Local, Leads: true} }), false, "two leaders act, each by another table"},
		{"X9 a follower acts", spoilt(func(v *View) { v.Term, v.Read.Term, v.Summary = 1, 1, all }, "X9"), true, "a follower writes"},
		{"I0 INIT without knowledge of the fleet", spoilt(func(v *View) { v.Summary = all }, "I0"), false, "INIT although not every lease owner is known"},
		{"I1u what is not known undoes INIT", changed("I1u", func(_ View, d *Decision) { d.Do, d.After = Delete, Init }), false, "TABLE_MIGRATION_STATUS_INIT was undone although nobody old is there"},
		{"I1u what is not known lets the bake end", spoilt(func(v *View) { v.Summary = all }, "I1u"), false, "DEPLOYED too early"},
		{"I3 no bake", spoilt(func(v *View) { v.Read.State.At = ago }, "I3"), false, "DEPLOYED too early"},
		{"I4 the item is deleted", changed("I4", func(_ View, d *Decision) { d.Do, d.After = Delete, Init }), false, "TABLE_MIGRATION_STATUS_INIT was undone although nobody old is there"},
		{"D2 the first deployment goes on by itself", changed("D2", func(v View, d *Decision) { d.Do, d.State = Update, v.to(Pending) }), false, "PENDING too early"},
		{"P1 somebody who reports to the legacy table is no obstacle", changed("P1", func(v View, d *Decision) { d.Do, d.State = Update, v.to(Pending) }), false, "PENDING too early"},
		{"P5 what is left stays", changed("P5", func(v View, d *Decision) { d.Do, d.State = Update, v.to(Pending) }), false, "PENDING too early"},
		{"P5l no look after the move", changed("P5l", func(v View, d *Decision) { d.Do, d.State = Update, v.to(Pending) }), false, "PENDING too early"},
		{"P7u what is not known undoes PENDING", changed("P7u", func(v View, d *Decision) { d.Do, d.State = Update, v.to(Deployed) }), false, "TABLE_MIGRATION_STATUS_PENDING was undone although nobody old is there"},
		{"P7 COMPLETE although somebody is old", changed("P7", func(v View, d *Decision) { d.Do, d.State, d.After = Finalize, v.to(Complete), Complete }), false, "COMPLETE too early"},
		{"P8 no bake", spoilt(func(v *View) { v.Read.State.At = ago }, "P8"), false, "COMPLETE too early"},
		{"P8l no last look", changed("P8l", func(v View, d *Decision) { d.Do, d.State, d.After = Finalize, v.to(Complete), Complete }), false, "COMPLETE too early"},
		{"P9 COMPLETE before the answer", changed("P9", func(_ View, d *Decision) { d.Local = Complete }), false, "two leaders act, each by another table"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := &explorer{decide: tc.decide, keep: tc.keep, calm: true}
			n := x.explore(mostStates)
			assert.Contains(t, x.broken, tc.want)
			t.Logf("%d states, then: %s: %s", n, x.broken, x.trace())
		})
	}
}
