package workermetrics

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lease-assignment-and-worker-metrics#52
func TestLinuxCPU(t *testing.T) {
	for _, c := range []struct {
		name, before, after string
		want                float64
	}{
		{"KCL's first fixture", "cpu  20000 200 2000 1500000 1000", "cpu  30000 3000 30000 2000000 2000", 7.715024},
		{"KCL's second fixture: the kernel takes waiting time back", "cpu  5469899 773829 2079951 2814572566 52048", "cpu  5469899 773829 2079951 2814575765 52047", 0},
		{"all idle", "cpu 1 1 1 100 1", "cpu 1 1 1 200 1", 0},
		{"all busy", "cpu 1 1 1 100 1", "cpu 51 1 51 100 1", 100},
		{"waiting for a disk is busy", "cpu 1 1 1 100 1", "cpu 1 1 1 150 51", 50},
		{"interrupts and stolen time are neither", "cpu 1 1 1 100 1 0 0 0", "cpu 51 1 1 150 1 900 900 900", 50},
		{"nothing has moved", "cpu 1 1 1 100 1", "cpu 1 1 1 100 1", 0},
		{"only what is left out has moved", "cpu 1 1 1 100 1 5", "cpu 1 1 1 100 1 6", 0}, // do better 13
		{"counters began anew", "cpu 10000 1 1 100000 1", "cpu 1 1 1 10 1", 0},
		{"one of the counters began anew", "cpu 1 1 1 100 1", "cpu 11 1 1 99 1", 0},
		{"more processors' lines and other facts follow", "cpu 1 1 1 100 1\ncpu0 7 7 7 7 7\nintr 5\n", "cpu 51 1 1 150 1\ncpu0 9 9 9 9 9\n", 50},
		{"a machine just started", "cpu 0 0 0 0 0", "cpu 5 0 0 5 0", 50},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := files{procStat: c.before}.host()
			m := NewLinuxCPU(h)
			assert.Zero(t, captured(t, m), "the first capture")
			h.write(procStat, c.after)
			assert.InDelta(t, c.want, captured(t, m), 0.000001)
		})
	}
	t.Run("time that runs backwards is no sample", func(t *testing.T) {
		h := files{procStat: "cpu 100 1 1 100 1"}.host()
		m := NewLinuxCPU(h)
		captured(t, m)
		h.write(procStat, "cpu 50 1 1 200 1")
		_, err := capture(t.Context(), m)
		assert.Error(t, err)
	})
	for name, text := range map[string]string{
		"empty": "", "another line": "intr 1 2 3 4 5 6", "too short": "cpu 1 2 3 4", "no number": "cpu 1 2 3 x 5", "negative": "cpu 1 2 3 -4 5",
	} {
		t.Run(name, func(t *testing.T) { fails(t, NewLinuxCPU(files{procStat: text}.host())) })
	}
	t.Run("missing file", func(t *testing.T) { fails(t, NewLinuxCPU(files{}.host())) })
	t.Run("goes on after a failure", func(t *testing.T) {
		h := files{procStat: "cpu 1 1 1 100 1"}.host()
		m := NewLinuxCPU(h)
		captured(t, m)
		h.write(procStat, "")
		fails(t, m)
		h.write(procStat, "cpu 51 1 1 150 1")
		assert.Equal(t, 50.0, captured(t, m))
	})
}

func FuzzParseCPUTimes(f *testing.F) {
	f.Add("cpu  20000 200 2000 1500000 1000", "cpu  30000 3000 30000 2000000 2000 9 9\ncpu0 1")
	f.Add("cpu 0 0 0 0 0", "cpu 9223372036854775807 9223372036854775807 9223372036854775807 1 0")
	f.Fuzz(func(t *testing.T, before, after string) {
		a, err := parseCPUTimes(before)
		if err != nil {
			return
		}
		b, err := parseCPUTimes(after)
		if err != nil {
			return
		}
		busy := b.busySince(a)
		require.False(t, math.IsNaN(busy) || busy > 100, busy)
	})
}
