package workermetrics

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGoMemory(t *testing.T) {
	const (
		v1      = "sys/fs/cgroup/memory/memory.limit_in_bytes"
		v2      = "sys/fs/cgroup/memory.max"
		meminfo = "MemTotal:        2000 kB\nMemFree:         100 kB\n" // 2,048,000 bytes
	)
	for _, c := range []struct {
		name string
		soft int64 // 0 means none
		all  files
		want float64 // of 512,000 bytes
	}{
		{"Go's own limit comes first", 1_024_000, files{v2: "5120000\n", memInfo: meminfo}, 50},
		{"a container's, v2", 0, files{v2: "5120000\n"}, 10},
		{"a container's, v1", 0, files{v1: "5120000\n"}, 10},
		{"a container's below the machine's", 0, files{v2: "1024000\n", memInfo: meminfo}, 50},
		{"a container's above the machine's", 0, files{v2: "5120000\n", memInfo: meminfo}, 25},
		{"none, v2", 0, files{v2: "max\n", memInfo: meminfo}, 25},
		{"none, v1", 0, files{v1: "9223372036854771712\n", memInfo: meminfo}, 25},
		{"neither", 0, files{memInfo: meminfo}, 25},
		{"more than there should be", 1000, files{}, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := NewGoMemory(c.all.host()).(*goMemory)
			m.live = func() uint64 { return 512_000 }
			m.soft = func() int64 { return c.soft }
			if c.soft == 0 {
				m.soft = func() int64 { return math.MaxInt64 }
			}
			assert.Equal(t, c.want, captured(t, m))
		})
	}
	for name, all := range map[string]files{
		"unknown":                     {},
		"no limit and no total":       {v1: "9223372036854771712\n"},
		"a limit that is no number":   {v2: "x", memInfo: meminfo},
		"a limit of nothing":          {v2: "0"},
		"a total that is no number":   {memInfo: "MemTotal: x kB"},
		"a total in other units":      {memInfo: "MemTotal: 5 MB"},
		"a total that makes no sense": {memInfo: "MemTotal: 18446744073709551615 kB"},
	} {
		t.Run(name, func(t *testing.T) {
			m := NewGoMemory(all.host()).(*goMemory)
			m.soft = func() int64 { return math.MaxInt64 }
			fails(t, m)
		})
	}
}

func FuzzParseMemory(f *testing.F) {
	f.Add("MemTotal:       24689764 kB\nMemFree: 1 kB")
	f.Add("max\n")
	f.Add("9223372036854771712")
	f.Fuzz(func(t *testing.T, text string) {
		if total, err := parseMemTotal(text); err == nil {
			require.Zero(t, total%1024)
		}
		if limit, limited, err := parseMemoryLimit(text); err == nil && limited {
			require.Less(t, limit, uint64(math.MaxInt64))
		}
	})
}
