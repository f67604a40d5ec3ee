package assignment

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/workermetrics"
)

// world is a fleet in the small: leases, workers that renew and hand over, and a
// leader that sees everything every 2 s. There is no I/O in it.
type world struct {
	t      *rapid.T
	now    float64
	leases map[string]*lease.Lease
	fleet  map[string]*member
	names  int
	keys   int
	limit  int
	memory memory
	pace   pace
	// balanced counts moves to balance, by lease, since the last event, or change
	// of the targets, which may come much later.
	balanced map[string]int
	targets  []string
	writes   int // in the last run
	order    *rand.Rand
	decide   Decider
	band     float64            // by which workers' shares may differ, relative
	often    int                // how often a lease may be moved without cause
	rates    map[string]float64 // KB/s, by lease; nil: load does not matter
	noise    float64            // of the load of workers, relative
}

type member struct {
	dead, draining bool
	reported       float64
	slow           float64 // seconds to find a lease, and to hand one over
	found          map[string]float64
	// If it measures its load: what it has without leases, how many KB/s are a
	// percent, samples since the last report, and what it reported.
	measures      bool
	base, speed   float64
	busy, samples float64
	averages      []float64
}

func (w *world) join() *member {
	w.names++
	m := &member{reported: w.now, slow: float64(rapid.IntRange(0, 12).Draw(w.t, "slow")), found: map[string]float64{}}
	w.fleet[fmt.Sprintf("w%02d", w.names)] = m
	return m
}

func (w *world) add(n int) {
	for range n {
		w.keys++
		key := fmt.Sprintf("k%03d", w.keys)
		w.leases[key] = &lease.Lease{Key: key}
	}
}

// load is what a worker's leases make of it, in percent.
func (w *world) load(m *member) float64 {
	load := m.base
	for _, key := range slices.Sorted(maps.Keys(m.found)) {
		load += w.rates[key] / m.speed
	}
	return min(100, load)
}

func (w *world) sample(m *member) {
	m.busy += min(100, w.load(m)*(1+w.noise*(2*w.order.Float64()-1)))
	m.samples++
	if m.reported == w.now || len(m.averages) == 0 {
		m.averages = append(m.averages, m.busy/m.samples)
		m.averages = m.averages[max(0, len(m.averages)-10):]
		m.busy, m.samples = 0, 0
	}
}

func (w *world) record(id string, m *member) workermetrics.Record {
	r := report(id, m.reported)
	if len(m.averages) > 0 {
		r.Stats = map[string][]float64{workermetrics.CPU: m.averages}
		r.OperatingRange = map[string][]int64{workermetrics.CPU: {100}}
	}
	if m.draining {
		r = drains(r)
	}
	return r
}

func (w *world) some(what string, ok func(*member) bool) *member {
	var ids []string
	for id, m := range w.fleet {
		if ok(m) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	return w.fleet[rapid.SampledFrom(ids).Draw(w.t, what)]
}

// work is what the workers do in 2 s.
func (w *world) work() {
	w.now += 2
	for _, id := range slices.Sorted(maps.Keys(w.fleet)) {
		m := w.fleet[id]
		if m.dead {
			continue
		}
		if w.now-m.reported >= 30 {
			m.reported = w.now
		}
		for key, l := range w.leases {
			if l.ActualOwner() != id {
				delete(m.found, key)
				continue
			}
			since, known := m.found[key]
			switch {
			case !known:
				m.found[key] = w.now
			case w.now-since < m.slow:
			case l.HandOffPending() && w.now-since >= 2*m.slow+4:
				l.CheckpointOwner = ""
				l.Counter++
				delete(m.found, key)
			case m.draining && !l.HandOffPending():
				l.Owner = ""
				l.Counter++
			default:
				l.Counter++
				l.ThroughputKBps, l.HasThroughput = w.rates[key], w.rates != nil
			}
		}
		if m.measures {
			w.sample(m)
		}
	}
}

// lead is a run of the leader.
func (w *world) lead() {
	var leases []lease.Lease
	for _, key := range slices.Sorted(maps.Keys(w.leases)) {
		leases = append(leases, *w.leases[key])
	}
	var records []workermetrics.Record
	for id, m := range w.fleet {
		records = append(records, w.record(id, m))
	}
	now := at(w.now)
	w.memory.look(leases, records, nil, now, defaults)
	v := w.memory.view(leases, now, defaults, "")
	v.Limit = w.limit
	idle := v.idle()
	v.Balance = w.pace.due(now, idle)
	p := w.decide(v)
	require.True(w.t, reflect.DeepEqual(p, w.decide(w.shuffled(leases, now, v))), "the order of the input matters")
	if v.Balance {
		w.pace = w.pace.after(now, idle, p)
	}
	w.checkPlan(v, p)
	ws := writes(v, p, true)
	w.writes = len(ws)
	for _, x := range ws {
		w.carryOut(x)
	}
}

// shuffled is the same view made from the same leases in another order.
func (w *world) shuffled(leases []lease.Lease, now time.Time, v View) View {
	leases = slices.Clone(leases) // the view points into them
	w.order.Shuffle(len(leases), func(i, j int) { leases[i], leases[j] = leases[j], leases[i] })
	again := w.memory.view(leases, now, defaults, "")
	again.Limit, again.Balance = v.Limit, v.Balance
	return again
}

func (w *world) checkPlan(v View, p Plan) {
	targets := map[string]int{}
	var ids []string
	for _, x := range v.Workers {
		ids = append(ids, x.ID)
		targets[x.ID] = 0
		m := w.fleet[x.ID]
		require.False(w.t, m.draining, "a draining worker is a target")
	}
	if !slices.Equal(ids, w.targets) {
		clear(w.balanced)
		w.targets = ids
	}
	before := map[string]int{}
	for _, l := range v.Leases {
		if !l.Ended() {
			before[l.Holder()]++
		}
	}
	after := map[string]int{}
	for id, n := range before {
		after[id] = n
	}
	seen := map[int]bool{}
	for _, moves := range [][]Move{p.Assign, p.Balance} {
		for _, m := range moves {
			require.NotContains(w.t, seen, m.Lease, "two moves of one lease")
			seen[m.Lease] = true
			require.Contains(w.t, targets, m.To)
			if l := v.Leases[m.Lease]; !l.Ended() {
				after[l.Holder()]--
				after[m.To]++
			}
		}
	}
	for id := range targets {
		require.LessOrEqual(w.t, after[id], max(w.limit, before[id]), "worker %s is above the limit", id)
	}
	for _, m := range p.Balance {
		l := v.Leases[m.Lease]
		require.True(w.t, l.Movable, "lease %s in state %s", l.Key, l.State)
		w.balanced[l.Key]++
		require.LessOrEqual(w.t, w.balanced[l.Key], w.often, "lease %s was moved too often, and nothing had happened", l.Key)
	}
}

// carryOut does what the store's conditional writes do. Nobody comes in between.
func (w *world) carryOut(x write) {
	l := w.leases[x.lease.Key]
	require.Equal(w.t, l.Counter, x.lease.Counter)
	if x.handOff {
		l.CheckpointOwner, l.Owner = l.Owner, x.to
	} else {
		l.Owner, l.CheckpointOwner = x.to, ""
		l.Counter++
	}
	w.memory.wrote(*l, at(w.now))
}

func (w *world) event() {
	clear(w.balanced)
	switch rapid.IntRange(0, 6).Draw(w.t, "event") {
	case 0:
		w.join()
	case 1:
		w.add(rapid.IntRange(1, 5).Draw(w.t, "shards"))
	case 2:
		if m := w.some("killed", func(m *member) bool { return !m.dead }); m != nil {
			m.dead = true
		}
	case 3:
		if m := w.some("drained", func(m *member) bool { return !m.dead && !m.draining }); m != nil {
			m.draining, m.reported = true, w.now
		}
	case 4: // a drained worker has gone
		for id, m := range w.fleet {
			if m.draining && len(m.found) == 0 {
				delete(w.fleet, id)
			}
		}
	case 5: // a shard has ended
		for _, key := range slices.Sorted(maps.Keys(w.leases)) {
			if l := w.leases[key]; l.Owner != "" && !l.Ended() {
				l.Checkpoint = kcl.ShardEnd
				l.Counter++
				break
			}
		}
	case 6: // a paused worker comes back
		if m := w.some("revived", func(m *member) bool { return m.dead }); m != nil {
			m.dead, m.reported = false, w.now
		}
	}
}

// Whatever happens to a fleet, no worker is given more than the limit, no lease
// is moved twice without cause, the order of the input does not matter, and,
// once nothing happens any more, every lease comes to a live worker, the live
// workers' shares are even, and nothing more is written.
func TestFleetProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		byLoad := rapid.Bool().Draw(t, "by load")
		w := &world{
			t: t, leases: map[string]*lease.Lease{}, fleet: map[string]*member{}, balanced: map[string]int{},
			limit:  rapid.SampledFrom([]int{math.MaxInt, 8, 3}).Draw(t, "limit"),
			memory: newMemory(), pace: pace{interval: time.Minute},
			order:  rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0)),
			decide: ByCount, often: 1,
		}
		if byLoad {
			w.decide, w.often, w.band = ByLoad(Load{}), 2, 0.25
		}
		for range rapid.IntRange(1, 5).Draw(t, "workers") {
			w.join()
		}
		w.add(rapid.IntRange(0, 20).Draw(t, "leases"))
		for range rapid.IntRange(0, 15).Draw(t, "events") {
			w.event()
			for range rapid.IntRange(1, 15).Draw(t, "runs") {
				w.work()
				w.lead()
			}
		}
		clear(w.balanced)
		// A dead worker's leases expire, hand-offs run into their deadline, a
		// balancing comes a minute after the last, and what it moves takes time.
		for range 150 {
			w.work()
			w.lead()
		}
		for range 60 {
			w.work()
			w.lead()
			require.Zero(t, w.writes, "it goes on writing")
		}
		w.checkRest()
	})
}

func (w *world) checkRest() {
	counts, total, unowned := map[string]int{}, 0, 0
	live := 0
	for id, m := range w.fleet {
		if !m.dead && !m.draining {
			counts[id] = 0
			live++
		}
	}
	for _, l := range w.leases {
		if _, ok := counts[l.ActualOwner()]; ok {
			require.False(w.t, l.HandOffPending(), "lease %s is in hand-off still", l.Key)
			if !l.Ended() {
				counts[l.Owner]++
				total++
			}
			continue
		}
		unowned++
	}
	if live == 0 {
		return
	}
	least, most := math.MaxInt, 0
	room := false
	for _, n := range counts {
		if n < w.limit {
			least = min(least, n)
			room = true
		}
		most = max(most, n)
	}
	if room {
		require.Zero(w.t, unowned, "leases without a live owner, and there is room")
		require.LessOrEqual(w.t, most-least, max(1, int(w.band*float64(total)/float64(live))), "uneven: %v", counts)
	}
}
