package assignment

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-kcl/kcl/lease"
)

// loadWorld is a world whose leases have a throughput, and of whose workers all,
// some or none measure their load.
func loadWorld(t *rapid.T) *world {
	return &world{
		t: t, leases: map[string]*lease.Lease{}, fleet: map[string]*member{}, balanced: map[string]int{},
		limit: math.MaxInt, memory: newMemory(), pace: pace{interval: time.Minute},
		order:  rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0)),
		decide: ByLoad(Load{}), often: 3, rates: map[string]float64{},
		noise: rapid.SampledFrom([]float64{0, 0.03}).Draw(t, "noise"),
	}
}

// joinLoaded adds a worker. A fair share of the load makes 20 to 60 % of one of
// speed 1, share being the KB/s of it.
func (w *world) joinLoaded(measures bool, share float64) {
	m := w.join()
	m.measures = measures
	m.base = float64(rapid.IntRange(0, 8).Draw(w.t, "base"))
	m.speed = share / float64(rapid.IntRange(25, 50).Draw(w.t, "percent at a fair share"))
}

func (w *world) runs(n int) (writes int) {
	for range n {
		w.work()
		w.lead()
		writes += w.writes
	}
	return writes
}

// A fleet whose workers' load follows their leases, at unequal speeds, comes to
// rest with their load even, or, where they do not measure it, their throughput:
// from a cold start, and when a worker joins or the load of some leases takes a
// step. No lease moves more than a few times on the way.
func TestFleetByLoadProperties(t *testing.T) {
	if racing {
		t.Skip("a pure function, and many runs of it")
	}
	rapid.Check(t, func(t *rapid.T) {
		w := loadWorld(t)
		const perWorker, rate = 6, 100.
		n := rapid.IntRange(2, 5).Draw(t, "workers")
		kind := rapid.SampledFrom([]string{"all measure", "none", "half"}).Draw(t, "kind")
		measures := func(i int) bool { return kind == "all measure" || kind == "half" && i%2 == 0 }
		for i := range n {
			w.joinLoaded(measures(i), perWorker*rate)
		}
		w.add(n * perWorker)
		for key := range w.leases {
			w.rates[key] = 0
		}
		for _, key := range slices.Sorted(maps.Keys(w.leases)) {
			w.rates[key] = float64(rapid.IntRange(50, 150).Draw(t, "rate"))
		}
		settle := func(what string) {
			clear(w.balanced)
			w.runs(300)
			// A load may end right at the band, and cross it late; what moves to and
			// fro moves more often than checkPlan allows.
			require.LessOrEqual(t, w.runs(45), 1+int(w.noise*100), "%s: it goes on writing", what)
			w.checkLoads(what)
		}
		w.runs(150) // from a cold start
		if rapid.Bool().Draw(t, "one joins") {
			w.joinLoaded(measures(n), perWorker*rate)
			settle("one joined")
			return
		}
		if rapid.Bool().Draw(t, "nothing else happens") {
			settle("cold start")
			return
		}
		// All of one worker's leases get half as much load again.
		id := slices.Sorted(maps.Keys(w.fleet))[0]
		for key, l := range w.leases {
			if l.Owner == id {
				w.rates[key] *= 1.5
			}
		}
		settle("step")
	})
}

// checkLoads requires that no worker has more load, or throughput, than the
// average of its kind, but for the band and what its least lease is too great for
// the others, nor less, but for what a lease would make it too much.
func (w *world) checkLoads(what string) {
	total, kinds := 0., map[bool]float64{}
	kbps, least, loads := map[string]float64{}, map[string]float64{}, map[bool]float64{}
	heaviest := 0.
	for id, m := range w.fleet {
		least[id] = math.Inf(1)
		for key, l := range w.leases {
			if l.Owner == id {
				kbps[id] += w.rates[key]
				least[id] = min(least[id], w.rates[key])
				heaviest = max(heaviest, w.rates[key])
			}
		}
		total += kbps[id]
		kinds[m.measures]++
		loads[m.measures] += w.load(m)
	}
	n := float64(len(w.fleet))
	fair := total / n
	for id, m := range w.fleet {
		value, average := kbps[id], fair
		if m.measures {
			value, average = w.load(m), loads[true]/kinds[true]
		}
		require.LessOrEqual(w.t, value, average*(1.13+(n-1)*least[id]/fair), "%s: %s", what, id)
		require.GreaterOrEqual(w.t, value, average*(0.87-heaviest/fair), "%s: %s", what, id)
		if len(kinds) < 2 {
			continue
		}
		// Half to twice the fair share, as near as whole leases come to that.
		require.LessOrEqual(w.t, kbps[id], 2*fair+heaviest/2, "%s: %s, average %g", what, id, fair)
		require.GreaterOrEqual(w.t, kbps[id], fair/2-heaviest/2, "%s: %s, average %g", what, id, fair)
	}
}

// anyLoadedView draws a view as a look may find it, with loads and throughputs.
func anyLoadedView(t *rapid.T) View {
	v := anyView(t)
	v.ReportPeriod = 30 * time.Second
	value := rapid.SampledFrom([]float64{-1, 0, 0.3, 10, 40, 49, 60, 100})
	for i := range v.Workers {
		w := &v.Workers[i]
		w.Reported = at(float64(rapid.IntRange(-60, 0).Draw(t, "reported")))
		w.Record = report(w.ID, 0)
		for _, name := range rapid.SampledFrom([][]string{nil, {"C"}, {"C", "M"}, {"M"}}).Draw(t, "metrics") {
			w.Record.Stats[name] = rapid.SliceOfN(value, 0, 3).Draw(t, name)
			w.Record.OperatingRange[name] = []int64{rapid.SampledFrom([]int64{100, 80, 30}).Draw(t, "limit")}
		}
	}
	for i := range v.Leases {
		l := &v.Leases[i]
		if kbps := rapid.SampledFrom([]float64{-1, 0, 0.01, 10, 11, 100, 1e6, math.NaN(), math.Inf(1), -5}).Draw(t, "kbps"); kbps != -1 {
			l.ThroughputKBps, l.HasThroughput = kbps, true
		}
		if rapid.Bool().Draw(t, "came lately") {
			l.Came = at(float64(rapid.IntRange(-120, 10).Draw(t, "came")))
			l.Before = rapid.SampledFrom([]string{"", "X0", "W1", "W2"}).Draw(t, "before")
		}
	}
	return v
}

// Rulings 8, 12, 13: whatever is reported, who is no target gets nothing, no one
// gets more than the limits, nothing is left while there is room, and what cannot
// move, has ended or is in hand-off is not balanced. Every plan can be made a
// second time from the same view.
func TestLoadOfAnyView(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := anyLoadedView(t)
		c := Load{MaxThroughput: rapid.SampledFrom([]float64{0, 1, 100}).Draw(t, "most"), NoThroughputOvershoot: rapid.Bool().Draw(t, "no overshoot")}
		p := ByLoad(c)(v)
		require.Equal(t, p, ByLoad(c)(v))
		before := load(v, Plan{}, false)
		moved := map[int]bool{}
		for _, m := range slices.Concat(p.Assign, p.Balance) {
			require.False(t, moved[m.Lease], "two moves of one lease")
			moved[m.Lease] = true
			require.Contains(t, before, m.To, "no target")
		}
		for _, m := range p.Assign {
			require.LessOrEqual(t, v.Leases[m.Lease].State, Overdue)
		}
		require.True(t, v.Balance || len(p.Balance) == 0)
		for _, m := range p.Balance {
			l := v.Leases[m.Lease]
			require.True(t, l.Movable && !l.Ended() && l.State == Held, "lease %s in state %s is balanced", l.Key, l.State)
			require.NotEqual(t, l.Owner, m.To)
		}
		for id, n := range load(v, p, false) {
			require.LessOrEqual(t, n, max(before[id], v.Limit), "%s is given too many", id)
		}
		if c.MaxThroughput == 0 {
			least := math.MaxInt
			for _, n := range load(v, Plan{Assign: p.Assign}, true) {
				least = min(least, n)
			}
			require.True(t, p.Spill == 0 || len(v.Workers) == 0 || least >= v.Limit, "leases are left, and there is room")
		}
	})
}

// Workers that report no load come to rest, in few steps, at shares that no
// single move makes more even, and no lease moves twice.
func TestThroughputComesToRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := View{Limit: math.MaxInt, Balance: true}
		n := rapid.IntRange(2, 6).Draw(t, "workers")
		for i := range n {
			v.Workers = append(v.Workers, Worker{ID: workerName(i), Record: report(workerName(i), 0)})
		}
		for i := range rapid.IntRange(0, 40).Draw(t, "leases") {
			l := held(fmt.Sprintf("k%02d", i), workerName(rapid.IntRange(0, n-1).Draw(t, "owner")))
			v.Leases = append(v.Leases, flowing(l, rapid.Float64Range(50, 150).Draw(t, "kbps")))
		}
		moves := 0
		for steps := 0; ; steps++ {
			p := ByLoad(Load{})(v)
			if len(p.Balance) == 0 {
				break
			}
			require.False(t, p.Uneven)
			moves += len(p.Balance)
			v = done(v, p)
			require.Less(t, steps, 20, "no rest")
		}
		require.LessOrEqual(t, moves, 2*len(v.Leases))
		kbps, least, total := map[string]float64{}, map[string]float64{}, 0.
		for _, l := range v.Leases {
			kbps[l.Owner] += l.ThroughputKBps
			if o, ok := least[l.Owner]; !ok || l.ThroughputKBps < o {
				least[l.Owner] = l.ThroughputKBps
			}
			total += l.ThroughputKBps
		}
		for _, giver := range v.Workers {
			for _, taker := range v.Workers {
				if total > 0 && kbps[giver.ID] >= 1.1*total/float64(n) {
					require.Greater(t, kbps[taker.ID]+least[giver.ID], kbps[giver.ID]-least[giver.ID], "%s could give to %s: %v", giver.ID, taker.ID, kbps)
				}
			}
		}
	})
}
