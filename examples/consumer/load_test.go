package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
)

func TestUneven(t *testing.T) {
	for _, c := range []struct {
		name   string
		leases []int
		load   []float64
		want   string
	}{
		{"as the speeds call for", []int{9, 6, 6, 3}, []float64{40, 40, 40, 40}, ""},
		{"a quarter above the average", []int{9, 6, 6, 3}, []float64{50, 40, 35, 35}, ""},
		{"more than that", []int{9, 6, 6, 3}, []float64{51, 40, 35, 34}, "w0 is at 51 % with 9 leases, the average is 40 %"},
		{"by number", []int{6, 6, 6, 6}, []float64{28, 40, 40, 75}, "w3 is at 75 % with 6 leases, the average is 46 %"},
		{"no lease to spare", []int{9, 7, 7, 1}, []float64{28, 40, 40, 75}, ""},
		{"one is under way", []int{9, 6, 5, 3}, []float64{40, 40, 40, 40}, "23 of 24 leases are held"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all []standing
			for i, n := range c.leases {
				all = append(all, standing{Worker: "w" + string(rune('0'+i)), Leases: n, Load: c.load[i]})
			}
			err := uneven(all)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.want)
		})
	}
}

// Its load is what it was handed, by its speed.
func TestCPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cpu{speed: 2, perKB: 4}
		after := func(kb int) (percent float64) {
			for range 100 { // far longer than loadMemory
				time.Sleep(200 * time.Millisecond)
				c.work(&kcl.Batch{Records: []kcl.Record{{Data: make([]byte, kb*1024/5)}}})
				percent, _ = c.Capture(t.Context())
			}
			return percent
		}
		first, err := c.Capture(t.Context())
		require.NoError(t, err)
		assert.Equal(t, idleLoad, first)
		assert.InDelta(t, idleLoad, after(0), 0.1)
		assert.InDelta(t, idleLoad+20, after(10), 0.1)
		c.slow(2)
		assert.InDelta(t, idleLoad+40, after(10), 0.1)
		assert.Equal(t, 100., after(30), "as much as a CPU can say")
	})
}

func TestMovesAreCounted(t *testing.T) {
	f := new(fleet)
	for _, look := range []map[string][]string{
		{"a": {"w1"}},
		{"a": {"w1"}, "b": {"w1"}},       // found
		{"a": {"w1"}, "b": {"w1", "w2"}}, // w1 does not know yet
		{"a": {"w1"}, "b": {"w2"}},       // moved
		{"b": {"w2"}},                    // under way
		{"a": {"w2"}, "b": {"w2"}},       // moved
	} {
		f.follow(look)
	}
	assert.Equal(t, 2, f.moved())
}

// Leases are shared as the workers' speeds call for, before and after one of them
// changes, and no record is lost, repeated or out of order on the way.
func TestLoadDemonstration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, demonstrate(t.Context(), mustParse(t, "-load", "-json"), &out, io.Discard))
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		var r report
		require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &r), "the last line is the outcome")
		assert.Positive(t, r.Put)
		assert.Equal(t, counts{Put: r.Put, Processed: r.Put}, r.counts)
		require.Len(t, r.Load, 2)
		for i, want := range [][]float64{{9, 6, 6, 3}, {5.5, 7.4, 7.4, 3.7}} {
			p := r.Load[i]
			assert.True(t, p.Settled, p.Name)
			assert.Positive(t, p.Moves, p.Name)
			for k, s := range p.Workers {
				assert.Equal(t, want[k], s.BySpeed, p.Name)
				assert.InDelta(t, s.BySpeed, s.Leases, 1.5, "%s: %s", p.Name, s.Worker)
			}
		}
		assert.Regexp(t, `moves +worker-1 \(3\) +worker-2 \(2\)`, out.String())
		assert.Regexp(t, `moves +worker-1 \(1.5\) `, out.String())
	})
}

// A signal ends it with an error and what there is to report.
func TestLoadDemonstrationCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("stopped by signal: interrupt")
		time.AfterFunc(6*time.Second, func() { cancel(stop) })
		var out bytes.Buffer
		require.ErrorIs(t, demonstrate(ctx, mustParse(t, "-load"), &out, io.Discard), stop)
		for _, line := range []string{`out of order +0`, `workers of unequal speed: not settled after \d+ s`, `worker-1 +3 +\d +9.0 +\d+ %`} {
			assert.Regexp(t, line, out.String())
		}
		assert.NotContains(t, out.String(), "at half its speed")
	})
}

// Load that does not settle is an error that says why.
func TestUnsettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &demo{fleet: new(fleet), screen: newScreen(io.Discard)}
		err := d.phase(t.Context(), "nobody there")
		require.EqualError(t, err, "nobody there: the load did not settle within 1m15s: 0 of 24 leases are held")
		require.Len(t, d.phases, 1)
		assert.False(t, d.phases[0].Settled)
	})
}
