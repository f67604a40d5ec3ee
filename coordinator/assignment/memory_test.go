package assignment

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/workermetrics"
)

var defaults = Config{FailoverTime: 10 * time.Second, HandOffTimeout: 30 * time.Second, ReportPeriod: 30 * time.Second, StaleAge: 24 * time.Hour}.timing()

func at(seconds float64) time.Time {
	return time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

// report is a record of a worker without metrics, written at that time.
func report(worker string, seconds float64) workermetrics.Record {
	return workermetrics.Record{Worker: worker, Updated: at(seconds), Load: workermetrics.Load{
		Stats: map[string][]float64{}, OperatingRange: map[string][]int64{},
	}}
}

func drains(r workermetrics.Record) workermetrics.Record {
	r.Load = r.Load.Draining()
	return r
}

func theLease(owner, checkpointOwner string, counter int64) lease.Lease {
	return lease.Lease{Key: "k", Owner: owner, CheckpointOwner: checkpointOwner, Counter: counter}
}

// Each case is the history of one lease as this process saw it, by looks and by
// its own writes, with the state after each look. A and B report all the time,
// D drains, V has no record.
func TestStates(t *testing.T) {
	type step struct {
		at    float64
		lease lease.Lease
		wrote bool // by this process; else it was seen
		want  State
	}
	look := func(at float64, l lease.Lease, want State) step { return step{at, l, false, want} }
	wrote := func(at float64, l lease.Lease) step { return step{at, l, true, 0} }
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"never had an owner", []step{look(0, theLease("", "", 0), Unowned)}},

		// Overrules lease-assignment-and-worker-metrics#20: first sight is no
		// change of owner, and what was seen counts from then, leader or not.
		{"first sight", []step{look(0, theLease("A", "", 5), Held), look(10, theLease("A", "", 5), Held), look(10.001, theLease("A", "", 5), Expired)}},
		{"exactly as old as the failover time", []step{look(0, theLease("A", "", 5), Held), look(2, theLease("A", "", 6), Held), look(12, theLease("A", "", 6), Held)}},                     // lease-assignment-and-worker-metrics#28
		{"older than the failover time", []step{look(0, theLease("A", "", 5), Held), look(2, theLease("A", "", 6), Held), look(12.001, theLease("A", "", 6), Expired)}},                     // lease-assignment-and-worker-metrics#28
		{"the counter moves between looks, however far apart", []step{look(0, theLease("A", "", 5), Held), look(1000, theLease("A", "", 6), Held), look(1010, theLease("A", "", 6), Held)}}, // lease-assignment-and-worker-metrics#29
		{"a counter that went down is progress", []step{look(0, theLease("A", "", 5), Held), look(9, theLease("A", "", 1), Held), look(19, theLease("A", "", 1), Held)}},                    // do better 20
		{"an expired lease that moves again", []step{look(0, theLease("A", "", 5), Held), look(11, theLease("A", "", 5), Expired), look(13, theLease("A", "", 6), Held), look(23, theLease("A", "", 6), Held)}},
		{"an expired lease stays so", []step{look(0, theLease("A", "", 5), Held), look(11, theLease("A", "", 5), Expired), look(13, theLease("A", "", 5), Expired)}},
		{"an ended lease expires too", []step{
			look(0, lease.Lease{Key: "k", Owner: "A", Counter: 5, Checkpoint: kcl.ShardEnd}, Held),
			look(11, lease.Lease{Key: "k", Owner: "A", Counter: 5, Checkpoint: kcl.ShardEnd}, Expired),
		}},

		// Ruling 3 overrules lease-assignment-and-worker-metrics#31.
		{"assigned by this process and never renewed", []step{
			look(0, theLease("", "", 0), Unowned), wrote(1, theLease("A", "", 1)),
			look(11.001, theLease("A", "", 1), Held), look(21, theLease("A", "", 1), Held), look(21.001, theLease("A", "", 1), Expired),
		}},
		{"assigned by another and never renewed", []step{
			look(0, theLease("B", "", 5), Held), look(2, theLease("A", "", 7), Held),
			look(22, theLease("A", "", 7), Held), look(22.001, theLease("A", "", 7), Expired),
		}},
		{"assigned and renewed once", []step{
			look(0, theLease("", "", 0), Unowned), wrote(1, theLease("A", "", 1)),
			look(3, theLease("A", "", 2), Held), look(13, theLease("A", "", 2), Held), look(13.001, theLease("A", "", 2), Expired),
		}},
		{"expired, and assigned again to the same worker", []step{
			look(0, theLease("B", "A", 5), Pending), look(11, theLease("B", "A", 5), Expired), wrote(11, theLease("A", "", 6)),
			look(31, theLease("A", "", 6), Held), look(31.001, theLease("A", "", 6), Expired),
		}},
		{"evicted", []step{look(0, theLease("A", "", 5), Held), look(2, theLease("", "", 6), Unowned), look(100, theLease("", "", 6), Unowned)}},

		{"hand-off seen to begin, owner silent since", []step{
			look(0, theLease("A", "", 5), Held), look(2, theLease("B", "A", 5), Pending),
			look(22, theLease("B", "A", 5), Pending), look(22.001, theLease("B", "A", 5), Expired),
		}},
		{"hand-off begun by this process", []step{
			look(0, theLease("A", "", 5), Held), wrote(1, theLease("B", "A", 5)),
			look(21, theLease("B", "A", 5), Pending), look(21.001, theLease("B", "A", 5), Expired),
		}},
		{"hand-off, owner renewed once", []step{
			look(0, theLease("A", "", 5), Held), look(2, theLease("B", "A", 5), Pending), look(4, theLease("B", "A", 6), Pending),
			look(14, theLease("B", "A", 6), Pending), look(14.001, theLease("B", "A", 6), Expired), // lease-assignment-and-worker-metrics#32
		}},
		{"hand-off at first sight, owner silent", []step{look(0, theLease("B", "A", 5), Pending), look(10.001, theLease("B", "A", 5), Expired)}},
		{"hand-off past its deadline, owner renews", []step{
			look(0, theLease("A", "", 5), Held), look(2, theLease("B", "A", 6), Pending), look(20, theLease("B", "A", 16), Pending),
			look(30, theLease("B", "A", 26), Pending), look(41, theLease("B", "A", 36), Pending), look(41.999, theLease("B", "A", 36), Pending),
			look(42, theLease("B", "A", 36), Overdue),
		}},
		{"another hand-off of the same lease has its own deadline", []step{
			look(0, theLease("B", "A", 5), Pending), look(30, theLease("B", "", 9), Held), look(35, theLease("A", "B", 12), Pending), look(44, theLease("A", "B", 15), Pending), look(75, theLease("A", "B", 30), Overdue),
		}},
		{"a hand-off completed", []step{
			look(0, theLease("A", "", 5), Held), look(2, theLease("B", "A", 5), Pending), look(6, theLease("B", "", 8), Held),
			look(26, theLease("B", "", 8), Held), look(26.001, theLease("B", "", 8), Expired),
		}},
		{"a hand-off of an ended shard is nothing to force", []step{
			look(0, lease.Lease{Key: "k", Owner: "B", CheckpointOwner: "A", Counter: 5, Checkpoint: kcl.ShardEnd}, Held),
			look(50, lease.Lease{Key: "k", Owner: "B", CheckpointOwner: "A", Counter: 25, Checkpoint: kcl.ShardEnd}, Held),
		}},

		// Ruling 8.
		{"given to a worker that drains", []step{look(0, theLease("", "", 0), Unowned), wrote(0, theLease("D", "", 1)), look(2, theLease("D", "", 1), Abandoned)}},
		{"given to a worker without a record", []step{look(0, theLease("", "", 0), Unowned), wrote(0, theLease("V", "", 1)), look(2, theLease("V", "", 1), Abandoned)}},
		{"given by another to a worker that drains", []step{look(0, theLease("A", "", 0), Held), look(2, theLease("D", "", 1), Abandoned)}},
		{"renewed by a worker that drains", []step{look(0, theLease("", "", 0), Unowned), wrote(0, theLease("D", "", 1)), look(2, theLease("D", "", 2), Held)}},
		{"given by another, and perhaps renewed by a worker that drains now", []step{
			look(0, theLease("A", "", 0), Held), look(60, theLease("D", "", 9), Held), look(62, theLease("D", "", 9), Held),
			look(80.001, theLease("D", "", 9), Expired),
		}},
		{"given by this process, as a late answer tells, and perhaps renewed", []step{
			look(0, theLease("", "", 0), Unowned), wrote(5, theLease("D", "", 2)), look(6, theLease("D", "", 2), Held),
		}},
		{"a draining worker's at first sight", []step{look(0, theLease("D", "", 1), Held)}},
		{"handed to a worker that drains", []step{look(0, theLease("A", "", 1), Held), look(2, theLease("D", "A", 1), Pending), look(4, theLease("D", "", 2), Abandoned)}},
		{"given to a worker whose record cannot be read", []step{look(0, theLease("", "", 0), Unowned), wrote(0, theLease("U", "", 1)), look(2, theLease("U", "", 1), Held)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMemory()
			for i, s := range c.steps {
				if s.wrote {
					m.wrote(s.lease, at(s.at))
					continue
				}
				records := []workermetrics.Record{report("A", s.at), report("B", s.at), drains(report("D", s.at))}
				m.look([]lease.Lease{s.lease}, records, map[string]string{"U": "unreadable"}, at(s.at), defaults)
				st, _, _ := m.state(&s.lease, at(s.at), defaults)
				require.Equal(t, s.want.String(), st.String(), "step %d at %gs", i, s.at)
			}
		})
	}
}

func TestGraceFollowsTheInterval(t *testing.T) {
	for _, c := range []struct {
		failover, interval, want time.Duration
	}{
		{10 * time.Second, 0, 20 * time.Second},
		{5 * time.Second, 0, 20 * time.Second},
		{30 * time.Second, 0, time.Minute},
		{10 * time.Second, 45 * time.Second, 45 * time.Second},
		{10 * time.Second, 5 * time.Second, 20 * time.Second},
	} {
		assert.Equal(t, c.want, Config{FailoverTime: c.failover, Interval: c.interval}.timing().grace)
	}
}

func TestMovable(t *testing.T) {
	movable := func(m *memory, l lease.Lease, sec float64) bool {
		m.look([]lease.Lease{l}, []workermetrics.Record{report("A", sec), report("B", sec)}, nil, at(sec), defaults)
		_, _, ok := m.state(&l, at(sec), defaults)
		return ok
	}
	m := newMemory()
	assert.False(t, movable(&m, theLease("A", "", 0), 0), "first sight: it may have been assigned just now")
	assert.False(t, movable(&m, theLease("A", "", 0), 1))
	assert.True(t, movable(&m, theLease("A", "", 1), 2))
	assert.True(t, movable(&m, theLease("A", "", 1), 7))
	assert.False(t, movable(&m, theLease("A", "", 1), 7.001), "its owner may be dead")
	assert.True(t, movable(&m, theLease("A", "", 2), 7.5))
	assert.False(t, movable(&m, theLease("B", "", 3), 8), "its new owner may not have found it")
	assert.True(t, movable(&m, theLease("B", "", 4), 9))
	assert.False(t, movable(&m, lease.Lease{Key: "k", Owner: "B", Counter: 5, Checkpoint: kcl.ShardEnd}, 10))
	assert.False(t, movable(&m, theLease("A", "B", 6), 11))
	assert.False(t, movable(&m, theLease("", "", 7), 12))
}

// Who may get leases.
func TestTargets(t *testing.T) {
	targets := func(m *memory, sec float64, leaving string, leases []lease.Lease, records ...workermetrics.Record) (ids []string) {
		m.look(leases, records, nil, at(sec), defaults)
		for _, w := range m.view(leases, at(sec), defaults, leaving).Workers {
			ids = append(ids, w.ID)
		}
		return ids
	}
	invalid := report("I", 0)
	invalid.Stats = map[string][]float64{"C": {1}}
	m := newMemory()
	assert.Equal(t, []string{"A", "B"}, targets(&m, 60, "", nil, report("B", 0), report("A", 60), report("C", -1), drains(report("D", 60)), invalid),
		"60 s old is alive, 61 s is not; a worker that drains and an invalid record are no targets") // lease-assignment-and-worker-metrics#16
	assert.Equal(t, []string{"A"}, targets(&m, 62, "", nil, report("B", 0), report("A", 60), report("C", -1)))
	assert.Equal(t, []string{"A", "C"}, targets(&m, 70, "", nil, report("A", 60), report("C", 2)), "a slow clock, but it reports")
	assert.Equal(t, []string{"C"}, targets(&m, 80, "A", nil, report("A", 60), report("C", 2)), "a worker that is about to stop")
}

// Ruling 12: a worker whose leases expired is no target until it has reported
// since, though its record looks fresh. lease-assignment-and-worker-metrics#17
// overruled.
func TestSilentWorker(t *testing.T) {
	k := func(key, owner string, counter int64) lease.Lease {
		return lease.Lease{Key: key, Owner: owner, Counter: counter}
	}
	m := newMemory()
	plan := func(sec float64, records []workermetrics.Record, leases ...lease.Lease) string {
		m.look(leases, records, nil, at(sec), defaults)
		v := m.view(leases, at(sec), defaults, "")
		v.Limit = 100
		return moved(v, ByCount(v).Assign)
	}
	both := func(a, b float64) []workermetrics.Record {
		return []workermetrics.Record{report("A", a), report("B", b)}
	}
	assert.Empty(t, plan(0, both(0, 0), k("1", "A", 1), k("2", "A", 1), k("3", "B", 1)))
	assert.Empty(t, plan(2, both(0, 0), k("1", "A", 1), k("2", "A", 2), k("3", "B", 2)))
	// A has crashed. The first of its leases is expired, the second moved later;
	// A has the fewest leases and a fresh record, and gets nothing.
	// lease-assignment-and-worker-metrics#55
	assert.Equal(t, "1→B", plan(11, both(0, 0), k("1", "A", 1), k("2", "A", 2), k("3", "B", 4)))
	assert.Equal(t, "1→B 2→B", plan(12.1, both(0, 0), k("1", "A", 1), k("2", "A", 2), k("3", "B", 4)))
	// It was only slow, and reports again.
	assert.Equal(t, "4→A", plan(14, both(14, 0), k("1", "B", 2), k("2", "B", 3), k("3", "B", 5), k("4", "", 0)))
}

// A lease that stays expired does not make its owner silent again and again,
// else one in a hand-off would stay for ever where nobody works on it.
func TestSilenceEnds(t *testing.T) {
	l := theLease("X", "A", 5)
	m := newMemory()
	plan := func(sec, reported float64) string {
		m.look([]lease.Lease{l}, []workermetrics.Record{report("A", reported)}, nil, at(sec), defaults)
		v := m.view([]lease.Lease{l}, at(sec), defaults, "")
		v.Limit = 100
		return moved(v, ByCount(v).Assign)
	}
	assert.Empty(t, plan(0, 0))
	assert.Empty(t, plan(11, 0), "no report since")
	assert.Equal(t, "k→A", plan(31, 30), "leases#55: the next owner is gone, the former one lives")
}

func TestWhatIsGoneIsForgotten(t *testing.T) {
	m := newMemory()
	l := theLease("A", "", 5)
	m.look([]lease.Lease{l}, []workermetrics.Record{report("A", 0)}, nil, at(0), defaults)
	m.look(nil, nil, nil, at(5), defaults)
	assert.Empty(t, m.leases)
	assert.Empty(t, m.workers)
	m.look([]lease.Lease{l}, nil, nil, at(12), defaults)
	st, since, _ := m.state(&l, at(12), defaults)
	assert.Equal(t, Held, st)
	assert.Equal(t, at(12), since)
}

// Observation of single leases begins before leading, and counts.
func TestSee(t *testing.T) {
	m := newMemory()
	l := theLease("A", "", 5)
	other := lease.Lease{Key: "other", Owner: "A", Counter: 1}
	m.see([]lease.Lease{l}, at(0))
	m.look([]lease.Lease{l, other}, nil, nil, at(11), defaults)
	st, _, _ := m.state(&l, at(11), defaults)
	assert.Equal(t, Expired, st)
	st, _, _ = m.state(&other, at(11), defaults)
	assert.Equal(t, Held, st)
}

// A change of owner since an observation of long ago is none that was seen: the
// present owner's leases expire after the failover time, not the grace of a new
// one.
func TestGlimpse(t *testing.T) {
	for gap, want := range map[float64]State{19: Held, 21: Expired} {
		m := newMemory()
		pending, l := theLease("A", "B", 5), theLease("A", "", 9)
		m.glimpse([]lease.Lease{pending}, at(0), defaults.grace)
		m.glimpse([]lease.Lease{l}, at(gap), defaults.grace)
		m.look([]lease.Lease{l}, nil, nil, at(gap+11), defaults)
		st, _, _ := m.state(&l, at(gap+11), defaults)
		assert.Equal(t, want, st, "%v s later", gap)
	}
}

func TestEarliestExpiry(t *testing.T) {
	k := func(key, owner string, counter int64) lease.Lease {
		return lease.Lease{Key: key, Owner: owner, Counter: counter}
	}
	m := newMemory()
	look := func(sec float64, leases ...lease.Lease) time.Time {
		m.look(leases, nil, nil, at(sec), defaults)
		return m.expiry(at(sec), defaults)
	}
	assert.Zero(t, look(0, k("1", "A", 1), k("2", "B", 1), k("3", "", 1)), "all moved, or belong to nobody")
	assert.Equal(t, at(10), look(4, k("1", "A", 1), k("2", "B", 2), k("3", "", 1)))
	assert.Equal(t, at(10), look(6, k("1", "A", 1), k("2", "B", 2), k("3", "", 1)), "the earlier of two")
	assert.Equal(t, at(14), look(11, k("1", "A", 1), k("2", "B", 2), k("3", "", 1)), "the first is expired")
	assert.Zero(t, look(12, k("2", "B", 3)))
}

// Owners write the throughput of a few seconds, which goes up and down; that of a
// lease is averaged, and what is no throughput changes nothing.
func TestFlow(t *testing.T) {
	l := func(kbps float64) lease.Lease {
		return lease.Lease{Key: "k", ThroughputKBps: kbps, HasThroughput: true}
	}
	var f flow
	f = f.next(lease.Lease{Key: "k"}, at(0))
	assert.False(t, f.known)
	f = f.next(l(100), at(10))
	assert.Equal(t, flow{100, true, at(10)}, f, "the first is all there is")
	for _, bad := range []float64{-1, math.NaN(), math.Inf(1)} {
		assert.Equal(t, f, f.next(l(bad), at(20)))
	}
	assert.Equal(t, f, f.next(lease.Lease{Key: "k"}, at(20)))
	after := f.next(l(200), at(40))
	assert.InDelta(t, 100+100*(1-1/math.E), after.kbps, 1e-9, "after one time constant")
	halves := f.next(l(200), at(25)).next(l(200), at(40))
	assert.InDelta(t, after.kbps, halves.kbps, 1e-9, "it does not depend on how often one looks")

	f = flow{100, true, at(0)}
	for s := range 100 { // by turns 50 and 150, every 3 s
		f = f.next(l(50+100*float64(s%2)), at(float64(3*s)))
	}
	assert.InDelta(t, 100, f.kbps, 5)
}
