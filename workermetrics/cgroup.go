package workermetrics

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

const cgroupRoot = "sys/fs/cgroup/"

// cgroupCPU compares the processor time that a container used with what it may
// use. The limit is read each time, for it can change while a container runs.
type cgroupCPU struct {
	kind
	read func() (used uint64, cores float64, err error)
	unit time.Duration // of used

	last uint64
	at   time.Time // when last was read; zero before the first capture
}

// NewCgroupV1CPU returns the metric [CPU] of a container under cgroup v1: the
// processor time used between two captures, as a share of the quota, or of the
// processors that the container may run on if there is none.
func NewCgroupV1CPU(h Host) Metric {
	return &cgroupCPU{kind: CPU, read: h.withDefaults().readCgroupV1, unit: time.Nanosecond}
}

// NewCgroupV2CPU returns the metric [CPU] of a container under cgroup v2; see
// [NewCgroupV1CPU].
func NewCgroupV2CPU(h Host) Metric {
	return &cgroupCPU{kind: CPU, read: h.withDefaults().readCgroupV2, unit: time.Microsecond}
}

func (m *cgroupCPU) Capture(context.Context) (float64, error) {
	used, cores, err := m.read()
	if err != nil {
		return 0, err
	}
	now := time.Now()
	last, elapsed := m.last, now.Sub(m.at)
	first := m.at.IsZero()
	m.last, m.at = used, now
	if first || elapsed <= 0 || used < last { // the counter began anew
		return 0, nil
	}
	busy := float64(used-last) * float64(m.unit) / float64(elapsed)
	return min(100, busy/cores*100), nil
}

func (h Host) readCgroupV1() (used uint64, cores float64, err error) {
	// The controllers cpu and cpuacct are one directory almost everywhere.
	used, err = h.readCount(cgroupRoot + "cpu/cpuacct.usage")
	if errors.Is(err, fs.ErrNotExist) {
		used, err = h.readCount(cgroupRoot + "cpuacct/cpuacct.usage")
	}
	if err != nil {
		return 0, 0, err
	}
	quota, err := h.read(cgroupRoot + "cpu/cpu.cfs_quota_us")
	if err != nil {
		return 0, 0, err
	}
	if quota = strings.TrimSpace(quota); quota == "-1" {
		cores, err = h.readCPUSet(cgroupRoot + "cpuset/cpuset.effective_cpus")
		return used, cores, err
	}
	period, err := h.read(cgroupRoot + "cpu/cpu.cfs_period_us")
	if err != nil {
		return 0, 0, err
	}
	if cores, err = parseQuota(quota, strings.TrimSpace(period)); err != nil {
		return 0, 0, fmt.Errorf("cpu.cfs_quota_us and cpu.cfs_period_us: %w", err)
	}
	return used, cores, nil
}

func (h Host) readCgroupV2() (used uint64, cores float64, err error) {
	stat, err := h.read(cgroupRoot + "cpu.stat")
	if err != nil {
		return 0, 0, err
	}
	if used, err = parseCPUStat(stat); err != nil {
		return 0, 0, fmt.Errorf("cpu.stat: %w", err)
	}
	limit, err := h.read(cgroupRoot + "cpu.max")
	if err != nil {
		return 0, 0, err
	}
	quota, period, _ := strings.Cut(strings.TrimSpace(limit), " ")
	if quota == "max" {
		cores, err = h.readCPUSet(cgroupRoot + "cpuset.cpus.effective")
		return used, cores, err
	}
	if cores, err = parseQuota(quota, period); err != nil {
		return 0, 0, fmt.Errorf("cpu.max: %w", err)
	}
	return used, cores, nil
}

// parseCPUStat reads the first line of a cgroup's cpu.stat, in microseconds.
func parseCPUStat(text string) (uint64, error) {
	line, _, _ := strings.Cut(text, "\n")
	usage, ok := strings.CutPrefix(line, "usage_usec ")
	if !ok {
		return 0, fmt.Errorf("unexpected first line %.80q", line)
	}
	return strconv.ParseUint(strings.TrimSpace(usage), 10, 64)
}

// parseQuota returns how many cores a quota of so many microseconds a period is.
func parseQuota(quota, period string) (float64, error) {
	q, err := strconv.ParseUint(quota, 10, 64)
	if err != nil {
		return 0, err
	}
	p, err := strconv.ParseUint(period, 10, 64)
	if err != nil {
		return 0, err
	}
	if q == 0 || p == 0 {
		return 0, fmt.Errorf("quota %d of period %d is no limit", q, p)
	}
	return float64(q) / float64(p), nil
}

func (h Host) readCPUSet(name string) (float64, error) {
	text, err := h.read(name)
	if err != nil {
		return 0, err
	}
	n, err := parseCPUSet(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return float64(n), nil
}

// parseCPUSet counts the processors of a list like 0-4,6.
func parseCPUSet(text string) (n uint64, err error) {
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err := strconv.ParseUint(from, 10, 32)
		if err != nil {
			return 0, err
		}
		last, err := strconv.ParseUint(to, 10, 32)
		if err != nil {
			return 0, err
		}
		if last < first {
			return 0, errors.New("range " + part + " runs backwards")
		}
		n += last - first + 1
	}
	return n, nil
}
