package workermetrics

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	v1Usage  = "sys/fs/cgroup/cpu/cpuacct.usage"
	v1Apart  = "sys/fs/cgroup/cpuacct/cpuacct.usage"
	v1Quota  = "sys/fs/cgroup/cpu/cpu.cfs_quota_us"
	v1Period = "sys/fs/cgroup/cpu/cpu.cfs_period_us"
	v1Set    = "sys/fs/cgroup/cpuset/cpuset.effective_cpus"
	v2Stat   = "sys/fs/cgroup/cpu.stat"
	v2Max    = "sys/fs/cgroup/cpu.max"
	v2Set    = "sys/fs/cgroup/cpuset.cpus.effective"
)

// lease-assignment-and-worker-metrics#52
func TestCgroupCPU(t *testing.T) {
	v1 := func(usage, quota, period, set string) files {
		return files{v1Usage: usage, v1Quota: quota, v1Period: period, v1Set: set}
	}
	v2 := func(usage, limit, set string) files {
		return files{v2Stat: "usage_usec " + usage + "\nuser_usec 1\n", v2Max: limit, v2Set: set}
	}
	for _, c := range []struct {
		name          string
		before, after files
		elapsed       time.Duration
		want          float64
	}{
		{"v1: half a core of two", v1("1000\n", "20000\n", "10000\n", "0-7"), v1("500001000\n", "20000\n", "10000\n", "0-7"), time.Second, 25},
		{"v1: half a core of eight", v1("1000\n", "-1\n", "10000\n", "0-7"), v1("500001000\n", "-1\n", "10000\n", "0-7"), time.Second, 6.25},
		{"v1: cpu and cpuacct are mounted apart", files{v1Apart: "0", v1Quota: "-1", v1Set: "0-7"}, files{v1Apart: "500000000", v1Quota: "-1", v1Set: "0-7"}, time.Second, 6.25},
		{"v1: more than the limit", v1("0", "10000", "10000", ""), v1("9000000000", "10000", "10000", ""), time.Second, 100},
		{"v1: the counter began anew", v1("1000000", "20000", "10000", ""), v1("5", "20000", "10000", ""), time.Second, 0},
		{"v2: half a core of two", v2("7", "20000 10000\n", "0-7\n"), v2("500007", "20000 10000\n", "0-7\n"), time.Second, 25},
		{"v2: half a core of eight", v2("7", "max 100000\n", "0-7\n"), v2("500007", "max 100000\n", "0-7\n"), time.Second, 6.25},
		{"v2: in half a second", v2("7", "20000 10000", ""), v2("500007", "20000 10000", ""), time.Second / 2, 50},
		{"v2: no time has passed", v2("7", "20000 10000", ""), v2("500007", "20000 10000", ""), 0, 0}, // do better 13
		{"v2: the limit is raised while the container runs", v2("7", "20000 10000", ""), v2("500007", "40000 10000", ""), time.Second, 12.5},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := c.before.host()
				m := NewCgroupV2CPU(h)
				if strings.HasPrefix(c.name, "v1") {
					m = NewCgroupV1CPU(h)
				}
				assert.Zero(t, captured(t, m), "the first capture")
				time.Sleep(c.elapsed)
				for name, text := range c.after {
					h.write(name, text)
				}
				assert.Equal(t, c.want, captured(t, m))
			})
		})
	}
	for _, c := range []struct {
		name string
		m    func(Host) Metric
		all  files
		// without any one of them it fails
		needed []string
	}{
		{"v1 with a quota", NewCgroupV1CPU, v1("1", "20000", "10000", "0-7"), []string{v1Usage, v1Quota, v1Period}},
		{"v1 without a quota", NewCgroupV1CPU, v1("1", "-1", "10000", "0-7"), []string{v1Usage, v1Quota, v1Set}},
		{"v2 with a quota", NewCgroupV2CPU, v2("1", "20000 10000", "0-7"), []string{v2Stat, v2Max}},
		{"v2 without a quota", NewCgroupV2CPU, v2("1", "max 10000", "0-7"), []string{v2Stat, v2Max, v2Set}},
	} {
		for _, name := range c.needed {
			t.Run(c.name+", "+name, func(t *testing.T) {
				h := c.all.host()
				captured(t, c.m(h))
				h.write(name, "nonsense")
				fails(t, c.m(h))
				h.write(name, "")
				fails(t, c.m(h))
				h.remove(name)
				fails(t, c.m(h))
			})
		}
	}
	t.Run("no quota to speak of", func(t *testing.T) {
		fails(t, NewCgroupV1CPU(v1("1", "20000", "0", "").host()))
		fails(t, NewCgroupV2CPU(v2("1", "0 10000", "").host()))
		fails(t, NewCgroupV2CPU(v2("1", "20000", "").host()))
	})
}

// lease-assignment-and-worker-metrics#52
func TestParseCPUSet(t *testing.T) {
	for text, want := range map[string]uint64{"0-7": 8, "0-4,6,8-10": 9, "3\n": 1} {
		got, err := parseCPUSet(text)
		require.NoError(t, err)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "a", "1-", "-1", "3-1", "0-7,", "1-2-3"} {
		_, err := parseCPUSet(text)
		assert.Error(t, err, text)
	}
}

func FuzzParseCPUSet(f *testing.F) {
	f.Add("0-4,6,8-10")
	f.Add("0-4294967295,5")
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := parseCPUSet(text); err == nil {
			require.Positive(t, n)
		}
	})
}

func FuzzParseQuota(f *testing.F) {
	f.Add("20000", "10000")
	f.Add("18446744073709551615", "1")
	f.Fuzz(func(t *testing.T, quota, period string) {
		if cores, err := parseQuota(quota, period); err == nil {
			require.True(t, cores > 0 && !math.IsInf(cores, 0), cores)
		}
	})
}

func FuzzParseCPUStat(f *testing.F) {
	f.Add("usage_usec 12\nuser_usec 3")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := parseCPUStat(text); err == nil {
			require.True(t, strings.HasPrefix(text, "usage_usec "))
		}
	})
}
