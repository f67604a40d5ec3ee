package assignment

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Overrules lease-assignment-and-worker-metrics#24: balancing has its pace in
// time, whatever the pace of runs. Ruling 12.
func TestBalancePace(t *testing.T) {
	moves := Plan{Balance: []Move{{0, "W"}}}
	stuck := Plan{Uneven: true}
	even := Plan{}
	type run struct {
		at   float64
		idle bool
		due  bool
		plan Plan // if due
	}
	for _, c := range []struct {
		name string
		runs []run
	}{
		{"every 60 s", []run{{0, false, true, even}, {2, false, false, even}, {59.9, false, false, even}, {60, false, true, moves}, {119, false, false, even}, {121, false, true, even}}},
		{"a worker without leases makes it due at once", []run{{0, false, true, even}, {4, true, true, moves}}},
		{"then every 20 s until even", []run{
			{0, false, true, even}, {4, true, true, moves}, {6, true, false, even}, {23.9, true, false, even},
			{24, false, true, moves}, {43, false, false, even}, {44, false, true, even}, {64, false, false, even}, {104, false, true, even},
		}},
		{"a second one, once it is even again", []run{{0, false, true, even}, {4, true, true, moves}, {24, false, true, even}, {26, true, true, moves}}},
		{"what could not be moved is tried again with the next run", []run{{0, false, true, stuck}, {2, false, true, stuck}, {4, false, true, moves}, {6, false, false, even}}},
		{"a worker without leases that is to get none is no reason to try with every run", []run{
			{0, true, true, even}, {2, true, false, even}, {19.9, true, false, even}, {20, true, true, even}, {40, false, false, even}, {60, true, true, moves}, {80, false, true, even}, {82, true, true, moves},
		}},
		{"a plain imbalance does not hurry", []run{{0, false, true, even}, {60, false, true, moves}, {80, false, false, even}, {120, false, true, moves}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := pace{interval: time.Minute}
			for _, r := range c.runs {
				require.Equal(t, r.due, p.due(at(r.at), r.idle), "at %gs", r.at)
				if r.due {
					p = p.after(at(r.at), r.idle, r.plan)
				}
			}
		})
	}
}

func TestIdle(t *testing.T) {
	assert.True(t, setup{counts: []int{2, 0}}.view().idle())
	assert.False(t, setup{counts: []int{1, 0}}.view().idle(), "nothing to give")
	assert.False(t, setup{counts: []int{5, 1}}.view().idle())
	assert.False(t, setup{counts: []int{2, 0}, more: []Lease{in(Pending, "p", "W2", "W1", 0)}}.view().idle(), "one is on its way")
	assert.False(t, setup{counts: []int{0, 0}, unowned: 5}.view().idle())
	assert.True(t, setup{counts: []int{2, 0}, more: []Lease{ended(held("e", "W2"))}}.view().idle(), "an ended one is no work")
	assert.False(t, setup{counts: []int{0}, more: []Lease{held("a", "X"), held("b", "X")}}.view().idle(), "of no target")
}

// Overrules lease-assignment-and-worker-metrics#27. The table of defaults in the
// rulings.
func TestPause(t *testing.T) {
	for _, c := range []struct {
		name      string
		intervals intervals
		readUnits float64
		want      time.Duration
	}{
		{"a small table", intervals{failover: 10 * time.Second}, 2, 2 * time.Second},
		{"by its cost", intervals{failover: 10 * time.Second}, 250, 5 * time.Second},
		{"a large table", intervals{failover: 10 * time.Second}, 5000, 20 * time.Second},
		{"with another failover time", intervals{failover: 30 * time.Second}, 5000, time.Minute},
		{"explicit, short", intervals{failover: 10 * time.Second, explicit: time.Second}, 5000, time.Second},
		{"explicit, long", intervals{failover: 10 * time.Second, explicit: time.Hour}, 2, time.Hour},
		{"provisioned", intervals{failover: 10 * time.Second, provisioned: true}, 2, 20 * time.Second},
		{"provisioned and explicit", intervals{failover: 10 * time.Second, provisioned: true, explicit: time.Second}, 2, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.want, c.intervals.pause(c.readUnits)) })
	}
}

func TestAgenda(t *testing.T) {
	plain := intervals{failover: 10 * time.Second}
	t.Run("the next run", func(t *testing.T) {
		assert.Equal(t, at(5), agenda{}.after(at(0), plain, 250, time.Time{}).next)
	})
	t.Run("an expiry between two runs has one of its own", func(t *testing.T) {
		a := agenda{}.after(at(0), plain, 250, at(3))
		assert.Equal(t, at(3).Add(time.Millisecond), a.next)
		a = a.after(at(3.01), plain, 50, at(4))
		assert.Equal(t, at(5), a.next, "and no second one, and the regular one stays")
		a = a.after(at(5), plain, 250, at(9))
		assert.Equal(t, at(9).Add(time.Millisecond), a.next)
	})
	t.Run("an expiry behind the next run has none", func(t *testing.T) {
		assert.Equal(t, at(5), agenda{}.after(at(0), plain, 250, at(5)).next)
	})
	t.Run("an expiry that is over leaves the table its rest", func(t *testing.T) {
		assert.Equal(t, at(12), agenda{}.after(at(10), intervals{failover: 10 * time.Second}, 500, at(3)).next)
	})
	t.Run("an explicit interval is obeyed", func(t *testing.T) {
		assert.Equal(t, at(60), agenda{}.after(at(0), intervals{failover: 10 * time.Second, explicit: time.Minute}, 2, at(3)).next)
	})
	t.Run("a provisioned table is spared", func(t *testing.T) {
		assert.Equal(t, at(20), agenda{}.after(at(0), intervals{failover: 10 * time.Second, provisioned: true}, 2, at(3)).next)
	})
	t.Run("a late extra run puts the regular one off", func(t *testing.T) {
		a := agenda{}.after(at(0), plain, 250, at(4.9))
		assert.Equal(t, at(7), a.after(at(5), plain, 250, time.Time{}).next)
	})
	t.Run("an event", func(t *testing.T) {
		a := agenda{}.after(at(0), plain, 250, time.Time{})
		assert.Equal(t, at(3), a.hasten(at(3), at(0), plain, 250).next)
		assert.Equal(t, at(2), a.hasten(at(1), at(0), plain, 250).next, "scans of this table take their time")
		assert.Equal(t, at(1), a.hasten(at(1), at(0), plain, 2).next, "of a small one not")
		assert.Equal(t, at(0.1), a.hasten(at(0), at(0), plain, 2).next)
		assert.Equal(t, at(5), a.hasten(at(6), at(0), plain, 250).next, "it is due anyway")
	})
}
