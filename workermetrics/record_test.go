package workermetrics

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

var aTime = time.Unix(1796033650, 0)

func TestValid(t *testing.T) {
	stats := map[string][]float64{"C": {50}}
	for _, c := range []struct {
		name string
		rec  Record
		want bool
	}{
		// lease-assignment-and-worker-metrics#15
		{"operating range missing", Record{Updated: aTime, Load: Load{Stats: stats}}, false},
		{"operating range of another metric", Record{Updated: aTime, Load: Load{stats, map[string][]int64{"M": {80}}}}, false},
		{"empty operating range", Record{Updated: aTime, Load: Load{stats, map[string][]int64{"C": {}}}}, false},
		{"operating range of 0", Record{Updated: aTime, Load: Load{stats, map[string][]int64{"C": {0}}}}, false},
		{"no stats beside an operating range", Record{Updated: aTime, Load: Load{map[string][]float64{}, map[string][]int64{"C": {80}}}}, true},
		{"stats absent beside an operating range", Record{Updated: aTime, Load: Load{nil, map[string][]int64{"C": {80}}}}, false},
		{"more than one value in the operating range", Record{Updated: aTime, Load: Load{stats, map[string][]int64{"C": {80, 10}}}}, true},

		// lease-assignment-and-worker-metrics#3
		{"two empty maps", Record{Updated: aTime, Load: Load{map[string][]float64{}, map[string][]int64{}}}, true},
		{"neither map", Record{Updated: aTime}, true},
		{"throughput asked for by name", Record{Updated: aTime, Load: Load{map[string][]float64{"THROUGHPUT": {1}}, nil}}, true},
		{"operating range of 0 of a metric without stats", Record{Updated: aTime, Load: Load{stats, map[string][]int64{"C": {80}, "M": {0}}}}, false},
		{"a metric's list of stats is empty", Record{Updated: aTime, Load: Load{map[string][]float64{"C": {}}, map[string][]int64{"C": {80}}}}, true},
		{"no time", Record{Load: Load{stats, map[string][]int64{"C": {80}}}}, false},
		{"no time in throughput mode", Record{}, false},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.want, c.rec.Valid()) })
	}
}

func TestThroughput(t *testing.T) {
	// lease-assignment-and-worker-metrics#3
	assert.True(t, Load{map[string][]float64{}, map[string][]int64{}}.Throughput())
	assert.True(t, Load{}.Throughput())
	assert.True(t, Load{map[string][]float64{"THROUGHPUT": {1}}, map[string][]int64{"C": {100}}}.Throughput())
	assert.False(t, Load{map[string][]float64{}, map[string][]int64{"C": {100}}}.Throughput())
	assert.False(t, Load{map[string][]float64{"T": {1}}, nil}.Throughput(), "the short name does not ask for it")
}

func TestFailing(t *testing.T) {
	limits := map[string][]int64{"C": {100}, "M": {100}}
	for _, c := range []struct {
		name  string
		stats map[string][]float64
		want  bool
	}{
		// lease-assignment-and-worker-metrics#16
		{"newest sample missing", map[string][]float64{"C": {50, -1}}, true},
		{"newest sample of one metric missing", map[string][]float64{"C": {50, 50}, "M": {-1}}, true},
		{"an earlier sample missing", map[string][]float64{"C": {-1, 50, 50}}, false},
		{"no values", map[string][]float64{"C": {}}, false},
		{"throughput mode", map[string][]float64{"THROUGHPUT": {-1}}, false},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.want, Load{c.stats, limits}.Failing()) })
	}
}

// lease-assignment-and-worker-metrics#43: the row EMA.
func TestAverage(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{10, 20, -1, 30}, 22.5},
		{[]float64{90, 30}, 60},
		{[]float64{0, 80, 80}, 60},
		{[]float64{-1, 50, 50}, 50},
		{[]float64{50, -1}, 50},
		{[]float64{-1, -1}, 0},
		{nil, 0},
	} {
		l := Load{Stats: map[string][]float64{"C": c.values, "M": {7}}}
		average, ok := l.Average("C", DefaultAlpha)
		assert.Equal(t, c.want, average, "%v", c.values)
		assert.Equal(t, slices.ContainsFunc(c.values, func(v float64) bool { return v != NoSample }), ok, "%v", c.values)
	}
	average, _ := Load{Stats: map[string][]float64{"C": {90, 30}}}.Average("C", 1)
	assert.Equal(t, 30.0, average, "only the newest")
	_, ok := Load{}.Average("C", DefaultAlpha)
	assert.False(t, ok)
}

// Ruling 8: what a draining worker says must exclude it in every leader's eyes,
// and yet be a valid record of a living worker.
func TestDraining(t *testing.T) {
	for _, c := range []struct {
		name string
		load Load
		want Load
	}{
		{"no metrics", Load{}, Load{map[string][]float64{"C": {-1}}, map[string][]int64{"C": {100}}}},
		{
			"CPU", Load{map[string][]float64{"C": {10, 20}}, map[string][]int64{"C": {80}}},
			Load{map[string][]float64{"C": {10, 20, -1}}, map[string][]int64{"C": {80}}},
		},
		{
			"as many values as a record keeps", Load{map[string][]float64{"C": {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}, map[string][]int64{"C": {80}}},
			Load{map[string][]float64{"C": {2, 3, 4, 5, 6, 7, 8, 9, 10, -1}}, map[string][]int64{"C": {80}}},
		},
		{
			"another metric", Load{map[string][]float64{"M": {10}}, map[string][]int64{"M": {90}}},
			Load{map[string][]float64{"M": {10}, "C": {-1}}, map[string][]int64{"M": {90}, "C": {100}}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.load.Draining()
			assert.Equal(t, c.want, got)
			assert.True(t, got.Failing())
			assert.True(t, Record{Updated: aTime, Load: got}.Valid())
		})
	}
	t.Run("leaves its operand alone", func(t *testing.T) {
		l := Load{map[string][]float64{"C": append(make([]float64, 0, 8), 10)}, map[string][]int64{"C": {80}}}
		l.Draining()
		assert.Equal(t, []float64{10, 0}, l.Stats["C"][:2])
	})
}
