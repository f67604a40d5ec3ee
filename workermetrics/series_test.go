package workermetrics

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// lease-assignment-and-worker-metrics#12
func TestMean(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{10.12345637}, 10.123456},
		{[]float64{10.1234565}, 10.123457}, // half up, of the number as it prints
		{[]float64{1.0000005}, 1.000001},   // less than half in binary
		{[]float64{0.00000049}, 0},
		{[]float64{100, 100, 100}, 100},
		{[]float64{0, 1, 1}, 0.666667},
		{[]float64{10, 20}, 15},
		{[]float64{5e-324}, 0},
	} {
		assert.Equal(t, c.want, mean(c.values), "%v", c.values)
	}
}

// The mean of percentages is one, and no further from them than its rounding.
func TestMeanOfAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 100), 1, maxSamples).Draw(t, "values")
		got, lowest, highest := mean(values), 100.0, 0.0
		for _, v := range values {
			lowest, highest = min(lowest, v), max(highest, v)
		}
		require.True(t, 0 <= got && got <= 100)
		require.True(t, lowest-1e-6 <= got && got <= highest+1e-6)
	})
}

// A worker that cannot report for long keeps the newest samples.
func TestSamplesAreBounded(t *testing.T) {
	s := newSeries(constant("C", 0))
	s.add(0) // not kept
	for range 1000 {
		s.add(0)
	}
	for range maxSamples {
		s.add(100)
	}
	assert.Len(t, s.samples, maxSamples)
	got, _ := s.report(10)
	assert.Equal(t, []float64{100}, got)
}
