package assignment

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/workermetrics"
)

// seen is one look at a lease, or a write of this process's own.
type seen struct {
	at    time.Time
	lease lease.Lease
	wrote bool
}

// history is all that a process ever saw of one lease, the oldest first.
type history []seen

// began reports whether the i-th entry shows what starts the clock anew with
// the longer time: another who renews the lease, another hand-off, or an own
// write, which is either.
func (h history) began(i int) bool {
	if h[i].wrote {
		return true
	}
	if i == 0 {
		return false
	}
	l, before := h[i].lease, h[i-1].lease
	return l.ActualOwner() != before.ActualOwner() ||
		l.HandOffPending() && (l.Owner != before.Owner || l.CheckpointOwner != before.CheckpointOwner)
}

// still is since when the lease's counter has stood still under its owner, and
// whether it never moved under it.
func (h history) still() (since time.Time, fresh bool) {
	i := len(h) - 1
	for i > 0 && !h.began(i) && h[i].lease.Counter == h[i-1].lease.Counter {
		i--
	}
	return h[i].at, h.began(i)
}

// handOff is when the pending hand-off was first seen.
func (h history) handOff() time.Time {
	i := len(h) - 1
	for i > 0 && h[i-1].lease.Owner == h[i].lease.Owner && h[i-1].lease.CheckpointOwner == h[i].lease.CheckpointOwner {
		i--
	}
	return h[i].at
}

// change draws what became of a lease since the last look.
func change(t *rapid.T, l lease.Lease) lease.Lease {
	worker := rapid.SampledFrom([]string{"A", "B", "D"})
	switch rapid.IntRange(0, 9).Draw(t, "change") {
	case 0, 1, 2, 3: // stands still
	case 4, 5:
		l.Counter += int64(rapid.IntRange(1, 5).Draw(t, "renewals"))
	case 6:
		l.Owner, l.CheckpointOwner = worker.Draw(t, "owner"), ""
		l.Counter += int64(rapid.IntRange(1, 2).Draw(t, "moves"))
	case 7:
		if l.Owner != "" && !l.HandOffPending() {
			l.CheckpointOwner, l.Owner = l.Owner, worker.Draw(t, "next owner")
		}
	case 8:
		l.Owner, l.CheckpointOwner = "", ""
		l.Counter++
	case 9: // made anew, or written by something odd
		l.Counter = int64(rapid.IntRange(0, 3).Draw(t, "counter"))
		l.Owner = rapid.SampledFrom([]string{"", "A", "B"}).Draw(t, "owner")
		l.CheckpointOwner = rapid.SampledFrom([]string{"", "", "A", "B"}).Draw(t, "checkpoint owner")
	}
	return l
}

var pause = rapid.SampledFrom([]time.Duration{
	0, time.Millisecond, 2 * time.Second, 5 * time.Second, 9 * time.Second, 10 * time.Second, 10*time.Second + 1,
	20 * time.Second, 20*time.Second + 1, 40 * time.Second, time.Hour,
})

// Rulings 2 and 3: whatever is seen of a lease when, it is expired just if its
// counter stood still, as far as this process saw, for longer than the failover
// time, or than the longer time after its owner changed or a hand-off began. A
// hand-off has its deadline. The leader's next run is timed by the first expiry.
func TestExpiryOfAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tm := defaults
		tm.grace = rapid.SampledFrom([]time.Duration{20 * time.Second, 40 * time.Second}).Draw(t, "grace")
		m := newMemory()
		histories := map[string]history{}
		leases := map[string]lease.Lease{"k0": {Key: "k0"}, "k1": {Key: "k1", Owner: "A", Counter: 7}}
		now := at(0)
		observe := func(key string, wrote bool) {
			histories[key] = append(histories[key], seen{now, leases[key], wrote})
		}
		look := func() (v View) {
			list := []lease.Lease{leases["k0"], leases["k1"]}
			m.look(list, []workermetrics.Record{report("A", now.Sub(at(0)).Seconds()), report("B", now.Sub(at(0)).Seconds()), drains(report("D", 0))}, nil, now, tm)
			return m.view(list, now, tm, "")
		}
		for range rapid.IntRange(1, 30).Draw(t, "looks") {
			now = now.Add(pause.Draw(t, "pause"))
			for _, key := range []string{"k0", "k1"} {
				if h := histories[key]; len(h) > 0 && rapid.IntRange(0, 7).Draw(t, "own write") == 0 {
					l := h[len(h)-1].lease // it was refused if the lease had changed since
					if rapid.Bool().Draw(t, "hand off") && l.MayHandOff(l.Owner == "") {
						l.Owner, l.CheckpointOwner = "B", l.Owner
					} else {
						l.Owner, l.CheckpointOwner = rapid.SampledFrom([]string{"A", "B"}).Draw(t, "to"), ""
						l.Counter++
					}
					leases[key] = l
					m.wrote(l, now)
					observe(key, true)
					now = now.Add(pause.Draw(t, "until the next look"))
				}
				l := change(t, leases[key])
				if rapid.IntRange(0, 19).Draw(t, "shard ends") == 0 {
					l.Checkpoint = kcl.ShardEnd
				}
				leases[key] = l
				observe(key, false)
			}
			// Both are read at the same moment.
			for key, h := range histories {
				h[len(h)-1].at = now
				histories[key] = h
			}
			v := look()
			var first time.Time // expiry, of those that did not move since the last look
			for _, l := range v.Leases {
				h := histories[l.Key]
				since, fresh := h.still()
				limit := tm.failover
				if fresh {
					limit = tm.grace
				}
				expired := l.ActualOwner() != "" && now.Sub(since) > limit
				require.Equal(t, expired, l.State == Expired, "%s is %s after %v: %v", l.Key, l.State, now.Sub(since), h)
				require.Equal(t, l.ActualOwner() == "", l.State == Unowned)
				require.Equal(t, since, l.Since)
				if l.HandOffPending() && !expired && !l.Ended() {
					late := now.Sub(h.handOff()) >= tm.handOff
					require.Equal(t, late, l.State == Overdue, "%s is %s", l.Key, l.State)
					require.Equal(t, !late, l.State == Pending, "%s is %s", l.Key, l.State)
				}
				if l.ActualOwner() != "" && !expired && since.Before(now) && (first.IsZero() || since.Add(limit).Before(first)) {
					first = since.Add(limit)
				}
				require.False(t, l.Movable && (fresh || l.Ended() || l.HandOffPending() || now.Sub(since) > tm.failover/2), "%s is movable", l.Key)
			}
			require.Equal(t, first, m.expiry(now, tm))
		}
	})
}

// Ruling 12: a worker is a target while it is alive and wants leases, unless a
// lease of it has expired since its record last changed.
func TestTargetsOfAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type worker struct {
			updated float64 // by its own clock
			wrong   float64 // that clock
			fails   bool
			counter int64
			silent  bool // a lease has expired since its last report
			expired bool // the lease is known to be
			sight   workermetrics.Sighting
		}
		workers := map[string]*worker{}
		for i := range 3 {
			workers[fmt.Sprint("W", i)] = &worker{wrong: float64(rapid.IntRange(-500, 500).Draw(t, "clock is wrong by"))}
		}
		m := newMemory()
		since := map[string]time.Time{}
		now := 0.0
		for range rapid.IntRange(1, 30).Draw(t, "looks") {
			now += float64(rapid.SampledFrom([]int{1, 2, 5, 9, 11, 30, 61}).Draw(t, "pause"))
			var leases []lease.Lease
			var records []workermetrics.Record
			for i := range 3 {
				id := fmt.Sprint("W", i)
				w := workers[id]
				_, known := since[id]
				if rapid.Bool().Draw(t, "renews") || !known {
					w.counter++
					since[id] = at(now)
					w.expired = false
				}
				if rapid.IntRange(0, 2).Draw(t, "reports") == 0 || !known {
					if rapid.IntRange(0, 4).Draw(t, "clock is set") == 0 {
						w.wrong = float64(rapid.IntRange(-500, 500).Draw(t, "clock is wrong by"))
					}
					if w.updated != now+w.wrong {
						w.updated, w.silent = now+w.wrong, false
					}
					w.fails = rapid.IntRange(0, 5).Draw(t, "fails") == 0
				}
				leases = append(leases, lease.Lease{Key: "of " + id, Owner: id, Counter: w.counter})
				r := report(id, w.updated)
				if w.fails {
					r = drains(r)
				}
				records = append(records, r)
				w.sight = w.sight.Next(r, at(now), defaults.report)
				if at(now).Sub(since[id]) > defaults.failover && !w.expired {
					w.expired, w.silent = true, true
				}
			}
			m.look(leases, records, nil, at(now), defaults)
			targets := map[string]bool{}
			for _, x := range m.view(leases, at(now), defaults, "").Workers {
				targets[x.ID] = true
			}
			for id, w := range workers {
				want := w.sight.Alive(at(now), defaults.report) && !w.fails && !w.silent
				require.Equal(t, want, targets[id], "%s at %v: %+v", id, now, *w)
			}
		}
	})
}
