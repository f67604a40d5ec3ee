package assignment

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/workermetrics"
)

// loaded is a worker of a test: its metrics, as "C 70/100 M 50/100", none for one
// that reports none, and the KB/s of its leases.
type loaded struct {
	id      string
	metrics string
	kbps    []float64
}

func times(n int, kbps float64) []float64 { return slices.Repeat([]float64{kbps}, n) }

func metricsOf(t *testing.T, text string) workermetrics.Load {
	t.Helper()
	l := workermetrics.Load{Stats: map[string][]float64{}, OperatingRange: map[string][]int64{}}
	fields := strings.Fields(text)
	for i := 0; i+1 < len(fields); i += 2 {
		var value float64
		var limit int64
		_, err := fmt.Sscanf(fields[i+1], "%g/%d", &value, &limit)
		require.NoError(t, err, text)
		l.Stats[fields[i]] = []float64{value, value}
		l.OperatingRange[fields[i]] = []int64{limit}
	}
	return l
}

// loadSetup is a view in short. The leases of W1 are called W1-0, W1-1, …, those
// without owner u-0, u-1, ….
type loadSetup struct {
	load    Load
	workers []loaded
	unowned int // without KB/s
	rate    float64
	more    []Lease
	limit   int
}

func flowing(l Lease, kbps float64) Lease {
	l.ThroughputKBps, l.HasThroughput = kbps, true
	return l
}

func (s loadSetup) view(t *testing.T) View {
	t.Helper()
	v := View{Limit: s.limit, Balance: true, ReportPeriod: 30 * time.Second, Leases: s.more}
	if v.Limit == 0 {
		v.Limit = math.MaxInt
	}
	for _, w := range s.workers {
		r := workermetrics.Record{Worker: w.id, Updated: at(0), Load: metricsOf(t, w.metrics)}
		v.Workers = append(v.Workers, Worker{ID: w.id, Record: r, Reported: at(0)})
		for i, kbps := range w.kbps {
			v.Leases = append(v.Leases, flowing(held(fmt.Sprintf("%s-%d", w.id, i), w.id), kbps))
		}
	}
	for i := range s.unowned {
		l := Lease{Lease: &lease.Lease{Key: fmt.Sprintf("u-%d", i)}, State: Unowned}
		if s.rate > 0 {
			l = flowing(l, s.rate)
		}
		v.Leases = append(v.Leases, l)
	}
	slices.SortFunc(v.Leases, func(a, b Lease) int { return strings.Compare(a.Key, b.Key) })
	slices.SortFunc(v.Workers, func(a, b Worker) int { return strings.Compare(a.ID, b.ID) })
	return v
}

// The worked examples, lease-assignment-and-worker-metrics#43,53 in the settings
// of KCL. Where KCL does badly, the case's name says what is better.
func TestLoadExamples(t *testing.T) {
	var (
		d60    = Load{Dampening: 60}
		d80    = Load{Dampening: 80}
		d80t20 = Load{Dampening: 80, RebalanceThreshold: 20}
		none   = Load{Dampening: 60, NoThroughputOvershoot: true}
	)
	unknown := func(state State, key, owner string, since int) Lease { return in(state, key, owner, "", since) }
	a := []loaded{{"W1", "C 70/100", times(7, 100)}, {"W2", "C 40/100", times(4, 100)}}
	b := []loaded{{"T", "C 50/80", []float64{3000}}, {"Y", "C 90/80", []float64{300, 299, 301}}}
	for _, c := range []struct {
		name    string
		setup   loadSetup
		assign  string
		balance string
		spill   int
	}{
		{"A", loadSetup{load: d60, workers: a}, "", "W1-0→W2", 0},
		{"A without overshoot", loadSetup{load: none, workers: a}, "", "", 0},
		{"A, W2 has as many leases as it may", loadSetup{load: d60, workers: a, limit: 4}, "", "", 0},
		{"A, W2 has as much throughput as it may", loadSetup{load: Load{MaxThroughput: 399}, workers: a}, "", "", 0},
		{"A, W2 is near the end of its range", loadSetup{load: d60, workers: []loaded{a[0], {"W2", "C 40/49", times(4, 100)}}}, "", "", 0},
		{"A3", loadSetup{load: d60, workers: []loaded{{"W1", "C 70/100", times(14, 50)}, {"W2", "C 40/100", times(8, 50)}}}, "", "W1-0→W2", 0},
		{"B", loadSetup{load: d80, workers: b}, "", "Y-1→T", 0},
		{"B without overshoot", loadSetup{load: Load{Dampening: 80, NoThroughputOvershoot: true}, workers: b}, "", "", 0},
		{"C", loadSetup{load: d80, workers: []loaded{{"T", "C 50/80", nil}, {"Y", "C 90/80", []float64{100, 200, 300, 400}}}}, "", "Y-0→T", 0},
		{"D", loadSetup{load: d80, unowned: 1, workers: []loaded{{"T", "C 50/80", nil}, {"Y", "C 90/80", append([]float64{1000}, times(7, 10)...)}}},
			"u-0→T", "Y-1→T Y-2→T Y-3→T", 0},
		{"E", loadSetup{load: d80, workers: []loaded{{"T", "C 50/80", []float64{10}}, {"Y1", "C 90/80", []float64{10, 1000}}, {"Y2", "C 90/80", []float64{10, 1000}}}},
			"", "Y1-0→T Y2-0→T", 0},
		{"F", loadSetup{load: d80t20, workers: []loaded{{"H", "C 90/50", times(6, 10)}, {"T", "C 40/80", nil}}}, "", "H-0→T", 0},
		{"G", loadSetup{load: d80t20, workers: []loaded{{"W1", "C 41/50", nil}, {"W2", "C 59/50", []float64{1000, 1}}}}, "", "W2-1→W1", 0},
		{"H, better: a worker that reports no load fills up to its share, and no further",
			loadSetup{load: d80t20, unowned: 3, workers: []loaded{{"W1", "", nil}, {"W2", "C 50/80", []float64{10}}}}, "u-0→W1 u-1→W1 u-2→W2", "", 0},
		{"I", loadSetup{load: d80t20, workers: []loaded{{"W1", "", []float64{100, 200}}, {"W2", "C 50/80", []float64{300, 400}}}}, "", "", 0},
		{"J", loadSetup{load: d60, workers: []loaded{
			{"W1", "C 80/100 M 50/100", times(16, 25)}, {"W2", "C 40/100 M 45/100", times(8, 25)}, {"W3", "C 30/100 M 80/100", times(12, 25)},
		}}, "", "W1-0→W2 W1-1→W2", 0},
		{"K", loadSetup{load: d60, limit: 2, unowned: 5, workers: []loaded{{"W1", "C 20/100", nil}, {"W2", "C 60/100", nil}}},
			"u-0→W1 u-1→W1 u-2→W2 u-3→W2", "", 1},
		{"L", loadSetup{load: Load{MaxThroughput: 250}, unowned: 5, rate: 100, workers: []loaded{{"W1", "C 20/100", nil}}}, "u-0→W1 u-1→W1 u-2→W1", "", 2},
		{"M", loadSetup{load: d60, workers: []loaded{{"W1", "", times(6, 100)}, {"W2", "", times(6, 100)}, {"W3", "", nil}}}, "", "W1-0→W3 W2-0→W3", 0},
		{"N, better: a lease too great for anybody costs nobody its turn, the coldest gets the one that fits",
			loadSetup{load: d60, workers: []loaded{
				{"G1", "C 90/100", times(4, 200)}, {"G2", "C 80/100", times(10, 20)}, {"T1", "C 50/100", []float64{100}}, {"T2", "C 60/100", []float64{100}},
			}}, "", "G2-0→T1", 0},
		{"O", loadSetup{load: d80t20, workers: []loaded{{"T", "C 50/80", nil}, {"Y", "C 90/80", times(10, 0)}}}, "", "Y-0→T", 0},
		{"P", loadSetup{load: d60, workers: []loaded{
			{"W1", "C 52/100", times(4, 100)}, {"W2", "C 51/100", times(4, 100)}, {"W3", "C 40/100", times(2, 100)}, {"W4", "C 50/100", times(4, 100)},
		}}, "", "", 0},
		{"P, in finer leases", loadSetup{load: d60, workers: []loaded{
			{"W1", "C 52/100", times(40, 10)}, {"W2", "C 51/100", times(40, 10)}, {"W3", "C 40/100", times(20, 10)}, {"W4", "C 50/100", times(40, 10)},
		}}, "", "W1-0→W3", 0},
		{"Q", loadSetup{load: d60, workers: []loaded{{"W1", "C 52/100", times(4, 100)}, {"W2", "C 48/100", times(4, 100)}}}, "", "", 0},
		// lease-assignment-and-worker-metrics#33,55
		{"R, better: an expired lease does not stay with a worker that let it expire",
			loadSetup{more: []Lease{unknown(Expired, "x", "W1", 1)}, workers: []loaded{{"W1", "C 10/100", nil}, {"W2", "C 50/100", nil}}}, "x→W2", "", 0},
		{"R2, better: nor in a hand-off with its next owner",
			loadSetup{more: []Lease{in(Expired, "x", "W2", "W1", 1)}, workers: []loaded{{"W1", "C 10/100", nil}, {"W2", "C 50/100", nil}}}, "x→W2", "", 0},
		{"R2, with nobody else", loadSetup{more: []Lease{in(Expired, "x", "X", "W1", 1)}, workers: []loaded{{"W1", "C 10/100", nil}}}, "x→W1", "", 0},
		{"S", loadSetup{workers: []loaded{{"W1", "C 30/100", []float64{100}}, {"W2", "C 10/100", nil}}, more: []Lease{
			unknown(Expired, "e1", "X", 500), unknown(Expired, "e2", "X", 300), unknown(Unowned, "n1", "", 0),
		}}, "n1→W2 e2→W2 e1→W1", "", 0},
		{"U, better: idle leases, which do not make the load, even out in number at most, and not all at once",
			loadSetup{load: d60, workers: []loaded{{"G", "C 90/100", append([]float64{100}, times(5, 0)...)}, {"T", "C 50/100", []float64{50}}}}, "", "G-1→T", 0},
		{"V, better: spread from a cold start", loadSetup{unowned: 9, workers: []loaded{{"W1", "", nil}, {"W2", "", nil}, {"W3", "", nil}}},
			"u-0→W1 u-1→W2 u-2→W3 u-3→W1 u-4→W2 u-5→W3 u-6→W1 u-7→W2 u-8→W3", "", 0},
		{"X1", loadSetup{load: d60, unowned: 4, workers: []loaded{{"J", "C 85/100", nil}, {"K", "C 15/100", nil}}}, "u-0→K u-1→K u-2→K u-3→J", "", 0},
		{"X2, better: what H let expire goes to I, all of it",
			loadSetup{load: d60, workers: []loaded{{"I", "", []float64{0.001402}}}, more: []Lease{unknown(Expired, "x0", "H", 1), unknown(Expired, "x2", "H", 1)}},
			"x0→I x2→I", "", 0},
		{"X3, better: what ended is not moved, nor what is as good as idle from where there are fewer",
			loadSetup{load: d60, workers: []loaded{{"H", "", []float64{0.000002, 0.000011}}, {"I", "", []float64{0.000005, 0, 0}}}, more: []Lease{
				flowing(ended(held("e", "H")), 0),
			}}, "", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := c.setup.view(t)
			p := ByLoad(c.setup.load)(v)
			assert.Equal(t, c.assign, moved(v, p.Assign))
			assert.Equal(t, c.balance, moved(v, p.Balance))
			assert.Equal(t, c.spill, p.Spill)
			assert.False(t, p.Uneven)
		})
	}
}

func TestLoadAssigns(t *testing.T) {
	for _, c := range []struct {
		name   string
		setup  loadSetup
		assign string
		spill  int
	}{
		// lease-assignment-and-worker-metrics#47
		{"a worker without a metric is judged by what it has", loadSetup{unowned: 2, workers: []loaded{
			{"W1", "C 50/100 M 80/100", nil}, {"W2", "C 40/100", nil}, {"W3", "C 60/100 M 40/100", nil},
		}}, "u-0→W2 u-1→W3", 0},
		{"a worker at rest comes first", loadSetup{unowned: 1, workers: []loaded{{"W1", "C 4/100", nil}, {"W2", "C 0/100", []float64{1}}, {"W3", "C 90/100", nil}}}, "u-0→W2", 0}, // do better 2
		{"all at rest: by number", loadSetup{unowned: 4, workers: []loaded{{"W1", "C 0/100", nil}, {"W2", "C 0/100", nil}}}, "u-0→W1 u-1→W2 u-2→W1 u-3→W2", 0},
		{"no workers", loadSetup{unowned: 2}, "", 2},                               // lease-assignment-and-worker-metrics#45
		{"no leases", loadSetup{workers: []loaded{{"W1", "C 50/80", nil}}}, "", 0}, // lease-assignment-and-worker-metrics#46
		// lease-assignment-and-worker-metrics#44
		{"nobody gets more than the limit", loadSetup{limit: 2, unowned: 3, workers: []loaded{{"W1", "C 10/100", times(2, 1)}, {"W2", "C 50/100", times(1, 1)}}}, "u-0→W2", 2},
		{"the cold start of a mixed fleet is even", loadSetup{unowned: 8, workers: []loaded{{"W1", "C 1/100", nil}, {"W2", "", nil}, {"W3", "C 2/100", nil}, {"W4", "", nil}}},
			"u-0→W2 u-1→W4 u-2→W1 u-3→W3 u-4→W2 u-5→W4 u-6→W1 u-7→W3", 0},
		{"so is one at rest", loadSetup{unowned: 4, workers: []loaded{{"W1", "C 0/100", nil}, {"W2", "", nil}}}, "u-0→W1 u-1→W2 u-2→W1 u-3→W2", 0},
		{"ended leases are spread by number and take no room", loadSetup{limit: 1, workers: []loaded{{"W1", "C 10/100", nil}, {"W2", "C 90/100", nil}}, more: []Lease{
			ended(in(Unowned, "e1", "", "", 0)), ended(in(Unowned, "e2", "", "", 0)), ended(in(Unowned, "e3", "", "", 0)),
		}}, "e1→W1 e2→W2 e3→W1", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := c.setup.view(t)
			v.Balance = false
			p := ByLoad(c.setup.load)(v)
			assert.Equal(t, c.assign, moved(v, p.Assign))
			assert.Empty(t, p.Balance)
			assert.Equal(t, c.spill, p.Spill)
		})
	}
}

// Do better 2: a worker whose record has an operating range but no values gets
// its share, as one that reports nothing.
func TestLoadWithoutValues(t *testing.T) {
	for _, stats := range []map[string][]float64{{}, {"C": {}}, {"C": {-1, -1}}} {
		v := loadSetup{unowned: 6, workers: []loaded{{"W1", "", nil}, {"W2", "", nil}, {"W3", "C 5/100", nil}}}.view(t)
		v.Workers[1].Record.Load = workermetrics.Load{Stats: stats, OperatingRange: map[string][]int64{"C": {100}}}
		p := ByLoad(Load{})(v)
		assert.Equal(t, []int{2, 2, 2}, after(v, p), "%v", stats)
	}
}

// lease-assignment-and-worker-metrics#50
func TestStrategies(t *testing.T) {
	v := loadSetup{unowned: 1, workers: []loaded{{"Take", "C 50/80", []float64{10}}, {"Yield", "C 90/80", nil}}}.view(t)
	v.Balance = false
	assert.Equal(t, "u-0→Take", moved(v, ByLoad(Load{})(v).Assign))
	assert.Equal(t, "u-0→Yield", moved(v, ByCount(v).Assign))
}

// lease-assignment-and-worker-metrics#48: of metrics with the same excess the
// first by name is picked, whatever the order of the maps.
func TestTiedMetrics(t *testing.T) {
	v := loadSetup{workers: []loaded{
		{"W1", "C 70/100 M 50/100", times(10, 10)}, {"W2", "C 50/100 M 70/100", times(10, 10)}, {"W3", "C 30/100 M 30/100", times(10, 10)},
	}}.view(t)
	want := moved(v, ByLoad(Load{})(v).Balance)
	assert.Regexp(t, "^W1-0→W3( W1-.→W3)*$", want)
	for range 100 {
		assert.Equal(t, want, moved(v, ByLoad(Load{})(v).Balance))
	}
}

// lease-assignment-and-worker-metrics#54
func TestIdleFleetEvensOut(t *testing.T) {
	for _, metrics := range []string{"", "C 0.4/100"} {
		for _, n := range []int{2, 3, 4, 10, 25} {
			t.Run(fmt.Sprintf("%d leases, metrics %q", n, metrics), func(t *testing.T) {
				v := loadSetup{workers: []loaded{{"A", metrics, times(n, 0)}, {"B", metrics, nil}}}.view(t)
				moves := 0
				for range 20 {
					p := ByLoad(Load{})(v)
					moves += len(p.Balance)
					v = done(v, p)
				}
				assert.Equal(t, []int{n - n/2, n / 2}, after(v, Plan{}))
				assert.Equal(t, n/2, moves)
			})
		}
	}
}

func TestUnreported(t *testing.T) {
	for _, c := range []struct{ after, want float64 }{
		{-10, 1}, {0, 1}, {15, 0.75}, {30, 0.5}, {45, 0.375}, {60, 0.25}, {90, 0.125},
	} {
		assert.InDelta(t, c.want, unreported(at(0), at(c.after), 30*time.Second, 0.5), 1e-9, "%g s after", c.after)
	}
}

func TestLoadLag(t *testing.T) {
	// W1 gave W1's lease m to W2 ten seconds before their last reports.
	lately := func(kbps float64) Lease {
		l := flowing(held("m", "W2"), kbps)
		l.Before, l.Came = "W1", at(-10)
		return l
	}
	t.Run("what came counts before it is reported", func(t *testing.T) {
		v := loadSetup{unowned: 1, workers: []loaded{{"W1", "C 60/100", times(4, 100)}, {"W2", "C 40/100", nil}, {"W3", "C 45/100", nil}}, more: []Lease{lately(200)}}.view(t)
		v.Balance = false
		assert.Equal(t, "u-0→W3", moved(v, ByLoad(Load{})(v).Assign))
	})
	t.Run("what is on its way is not moved once more in another's place", func(t *testing.T) {
		p := flowing(in(Pending, "p", "W2", "W1", 0), 100)
		setup := loadSetup{workers: []loaded{{"W1", "C 65/100", times(5, 100)}, {"W2", "C 35/100", times(4, 100)}}}
		assert.NotEmpty(t, ByLoad(Load{})(setup.view(t)).Balance)
		setup.more = []Lease{p}
		v := setup.view(t)
		assert.Empty(t, moved(v, ByLoad(Load{})(v).Balance))
	})
	// A fleet in which W2 is too hot, and W3 can take one lease.
	hot := func(more ...Lease) string {
		v := loadSetup{workers: []loaded{{"W1", "C 55/100", times(4, 100)}, {"W2", "C 90/100", nil}, {"W3", "C 20/100", times(2, 100)}}, more: more}.view(t)
		return moved(v, ByLoad(Load{})(v).Balance)
	}
	aged := func(l Lease, seconds float64) Lease { l.Came = at(-seconds); return l }
	t.Run("what has just come stays, until it is known what it costs here", func(t *testing.T) {
		assert.Empty(t, hot(aged(lately(100), 89)))
		assert.Equal(t, "m→W3", hot(aged(lately(100), 90)))
	})
	t.Run("what came from nobody may go", func(t *testing.T) {
		l := lately(100)
		l.Before = ""
		assert.Equal(t, "m→W3", hot(l))
	})
	t.Run("a worker that has just given gets nothing, until it is known how much room that made", func(t *testing.T) {
		gone := func(before string, ago float64) Lease {
			l := aged(flowing(held("x", "W4"), 1), ago)
			l.Before = before
			return l
		}
		for _, c := range []struct {
			gone Lease
			want string
		}{{gone("", 10), "W2-0→W3"}, {gone("W3", 10), ""}, {gone("W3", 90), "W2-0→W3"}} {
			v := loadSetup{workers: []loaded{
				{"W1", "C 55/100", times(4, 100)}, {"W2", "C 90/100", times(1, 100)}, {"W3", "C 20/100", times(2, 100)}, {"W4", "C 54/100", times(4, 100)},
			}, more: []Lease{c.gone}}.view(t)
			assert.Equal(t, c.want, moved(v, ByLoad(Load{})(v).Balance))
		}
	})
	t.Run("but for one that has none, as one that was restarted", func(t *testing.T) {
		l := aged(flowing(held("x", "W1"), 1), 10)
		l.Before = "W3"
		v := loadSetup{workers: []loaded{{"W1", "C 55/100", times(4, 100)}, {"W2", "C 90/100", times(1, 100)}, {"W3", "C 5/100", nil}}, more: []Lease{l}}.view(t)
		assert.Equal(t, "W2-0→W3", moved(v, ByLoad(Load{})(v).Balance))
	})
	t.Run("what has left is not made up for once more", func(t *testing.T) {
		l := lately(200)
		l.Owner = "W3"
		for ago, want := range map[float64]string{10: "", 300: "W1-0→W3"} {
			v := loadSetup{workers: []loaded{{"W1", "C 60/100", times(8, 50)}, {"W2", "C 40/100", times(8, 50)}, {"W3", "C 25/100", times(8, 50)}}, more: []Lease{aged(l, ago)}}.view(t)
			assert.Equal(t, want, moved(v, ByLoad(Load{})(v).Balance), "%g s ago", ago)
		}
	})
}

func TestLoadUneven(t *testing.T) {
	v := loadSetup{workers: []loaded{{"W1", "C 80/100", times(8, 100)}, {"W2", "C 20/100", times(2, 100)}}}.view(t)
	for i := range v.Leases {
		v.Leases[i].Movable = false
	}
	p := ByLoad(Load{})(v)
	assert.Empty(t, p.Balance)
	assert.True(t, p.Uneven)
}

func TestLoadNamesAllFaults(t *testing.T) {
	_, err := Load{RebalanceThreshold: -1, Dampening: 101, EMAAlpha: math.NaN(), MaxThroughput: -1}.withDefaults()
	for _, want := range []string{
		"Load.RebalanceThreshold is -1, must be above 0 and at most 100", "Load.Dampening is 101, must be above 0 and at most 100",
		"Load.EMAAlpha is NaN, must be above 0 and at most 1", "Load.MaxThroughput is -1, must be above 0",
	} {
		assert.ErrorContains(t, err, want)
	}
	assert.Panics(t, func() { ByLoad(Load{EMAAlpha: 2}) })
}

// A worker without leases gets one though the load of the others says nothing,
// but not if it has no room for it.
func TestWorkerWithoutLeases(t *testing.T) {
	for _, c := range []struct {
		name, metrics, want string
	}{
		{"room", "C 49/100", "W1-0→W2"},
		{"room within noise", "C 52/100", "W1-0→W2"},
		{"no room", "C 63/100", ""},
		{"over its own range", "C 49.5/49", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			setup := loadSetup{workers: []loaded{{"W1", "C 51/100", times(100, 10)}, {"W2", c.metrics, nil}}}
			v := setup.view(t)
			p := ByLoad(Load{})(v)
			assert.Equal(t, c.want, moved(v, p.Balance))
			assert.False(t, p.Uneven)
			for i := range v.Leases {
				v.Leases[i].Movable = false
			}
			p = ByLoad(Load{})(v)
			assert.Empty(t, p.Balance)
			assert.Equal(t, c.want != "", p.Uneven)
		})
	}
}

// Do better 4: though idle leases are no relief, and so could be moved for ever,
// they move only as long as that evens their number.
func TestIdleLeasesComeToRest(t *testing.T) {
	v := loadSetup{workers: []loaded{{"G", "C 90/100", append([]float64{100}, times(5, 0)...)}, {"T", "C 50/100", []float64{50}}}}.view(t)
	moves := 0
	for range 20 {
		p := ByLoad(Load{})(v)
		moves += len(p.Balance)
		v = done(v, p)
	}
	assert.Equal(t, []int{4, 3}, after(v, Plan{}))
	assert.Equal(t, 2, moves)
}

// Noise in the load of an idle fleet moves nothing.
func TestIdleFleetRests(t *testing.T) {
	v := loadSetup{workers: []loaded{{"W1", "C 2.4/100", times(3, 5)}, {"W2", "C 0.5/100", times(3, 5)}, {"W3", "C 0.9/100", times(3, 5)}}}.view(t)
	assert.Empty(t, ByLoad(Load{})(v).Balance)
}

// In a mixed fleet the workers that measure their load neither keep what is more
// than their share nor are kept from it.
func TestMixedFleetEvensOut(t *testing.T) {
	for name, workers := range map[string][]loaded{
		"those that measure have all":   {{"W1", "C 50/100", times(10, 50)}, {"W2", "", nil}, {"W3", "C 50/100", times(10, 50)}, {"W4", "", nil}},
		"those that do not have all":    {{"W1", "C 5/100", nil}, {"W2", "", times(10, 50)}, {"W3", "C 5/100", nil}, {"W4", "", times(10, 50)}},
		"those that measure have a lot": {{"W1", "C 30/100", times(7, 50)}, {"W2", "", times(3, 50)}, {"W3", "C 30/100", times(7, 50)}, {"W4", "", times(3, 50)}},
	} {
		t.Run(name, func(t *testing.T) {
			v := loadSetup{workers: workers}.view(t)
			for range 20 {
				p := ByLoad(Load{})(v)
				v = done(v, p)
				for w, n := range after(v, Plan{}) {
					if stats := v.Workers[w].Record.Stats; len(stats) > 0 {
						stats["C"] = []float64{5 + 4.5*float64(n)}
					}
				}
			}
			for _, n := range after(v, Plan{}) {
				assert.InDelta(t, 5, n, 1)
			}
		})
	}
}

// A worker gets out of its excess though each of its leases is more than the
// others, below the average, have room for up to it; and no more than that.
func TestStepInLoadOfFewLeases(t *testing.T) {
	setup := func(mine int, c string, others string) loadSetup {
		return loadSetup{workers: []loaded{{"W1", c, times(mine, 100)}, {"W2", others, times(3, 100)}, {"W3", others, times(3, 100)}, {"W4", others, times(3, 100)}}}
	}
	for _, c := range []struct {
		name string
		loadSetup
		want string
	}{
		{"room up to the average", setup(3, "C 60/100", "C 20/100"), "W1-0→W2"},
		{"to less than the giver has", setup(3, "C 62/100", "C 21/100"), "W1-0→W2"},
		{"not to more than the giver has", setup(1, "C 45/100", "C 30/100"), ""},
		{"nor where there is little to gain", setup(2, "C 31/100", "C 24/100"), ""},
		{"nor above the receiver's operating range", setup(3, "C 62/100", "C 21/30"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := c.view(t)
			assert.Equal(t, c.want, moved(v, ByLoad(Load{})(v).Balance))
		})
	}
}

// One hot worker among many that are even gives up leases, one at a time, though
// each makes another worker one above the average; and comes to rest.
func TestHotWorkerInAnEvenFleet(t *testing.T) {
	for _, n := range []int{2, 4, 6, 8, 10, 20, 100} {
		for _, leases := range []int{4, 6, 8, 20} {
			t.Run(fmt.Sprintf("%d workers, %d leases each", n, leases), func(t *testing.T) {
				var setup loadSetup
				for i := range n {
					setup.workers = append(setup.workers, loaded{fmt.Sprintf("W%03d", i), "C 40/100", times(leases, 8)})
				}
				v := setup.view(t)
				load := func() (hot float64) {
					for i, k := range after(v, Plan{}) {
						perLease := 40 / float64(leases)
						if i == 0 {
							perLease *= 2 // the first is half as fast
						}
						v.Workers[i].Record.Stats["C"] = []float64{perLease * float64(k), perLease * float64(k)}
						hot = max(hot, perLease*float64(k))
					}
					return hot
				}
				require.Equal(t, 80., load())
				moves := 0
				for range 30 {
					p := ByLoad(Load{})(v)
					moves += len(p.Balance)
					v = done(v, p)
					load()
				}
				assert.Empty(t, ByLoad(Load{})(v).Balance)
				average := 0.
				for _, w := range v.Workers {
					average += w.Record.Stats["C"][0] / float64(n)
				}
				assert.LessOrEqual(t, load(), average*1.1+2*40/float64(leases), "the band, and a lease of the slow one")
				assert.Positive(t, moves)
				assert.LessOrEqual(t, moves, leases/2+1)
			})
		}
	}
}

// Where a lease is a worker's fair share, as in a small fleet, the second worker
// gets one of the first's two, whatever they are busy with.
func TestSmallFleet(t *testing.T) {
	for _, c := range []struct{ first, second, want string }{
		{"C 60/100", "C 20/100", "A-0→B"},
		{"C 5/100", "C 5/100", "A-0→B"},
		{"C 5/100", "C 1/100", "A-0→B"},
		{"C 90/100", "C 0/100", "A-0→B"},
		{"C 20/100", "C 60/100", ""},
		{"C 60/100", "C 20/30", ""},
		{"C 60/100", "", "A-0→B"},
		{"", "C 20/100", "A-0→B"},
		{"", "", "A-0→B"},
	} {
		t.Run(c.first+" beside "+c.second, func(t *testing.T) {
			v := loadSetup{workers: []loaded{{"A", c.first, times(2, 10)}, {"B", c.second, nil}}}.view(t)
			assert.Equal(t, c.want, moved(v, ByLoad(Load{})(v).Balance))
		})
	}
}

// In a fleet whose leases hardly show in its load a worker that joined gets half
// of its fair share at least, one lease at a time, and then nothing moves; where
// they do show it gets no more than its load allows for.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		name    string
		workers []loaded
		want    []int
	}{
		{"hardly any load", []loaded{{"A", "C 3/100", times(6, 20)}, {"B", "C 3/100", times(6, 20)}, {"C", "C 2/100", nil}}, []int{5, 5, 2}},
		{"much of it due to something else", []loaded{{"A", "C 50/100", times(40, 20)}, {"B", "C 50/100", times(40, 20)}, {"C", "C 48/100", nil}}, []int{33, 33, 14}},
		{"a slow worker", []loaded{{"A", "C 40/100", times(9, 20)}, {"B", "C 40/100", times(9, 20)}, {"C", "C 39/100", times(1, 20)}}, []int{9, 9, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := loadSetup{workers: c.workers}.view(t)
			for range 30 {
				p := ByLoad(Load{})(v)
				assert.LessOrEqual(t, len(p.Balance), 1)
				v = done(v, p)
			}
			assert.Equal(t, c.want, after(v, Plan{}))
			assert.Empty(t, ByLoad(Load{})(v).Balance)
		})
	}
}
