package workermetrics

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

const procStat = "proc/stat"

type linuxCPU struct {
	kind
	host Host
	last *cpuTimes // nil before the first capture
}

// NewLinuxCPU returns the metric [CPU] of a Linux machine that the worker has to
// itself, from /proc/stat: the share of the time between two captures in which
// a processor did not idle. As in KCL, waiting for a disk counts as busy, and
// interrupts and stolen time count neither way.
func NewLinuxCPU(h Host) Metric { return &linuxCPU{kind: CPU, host: h.withDefaults()} }

func (m *linuxCPU) Capture(context.Context) (float64, error) {
	text, err := m.host.read(procStat)
	if err != nil {
		return 0, err
	}
	now, err := parseCPUTimes(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", procStat, err)
	}
	last := m.last
	m.last = &now
	if last == nil {
		return 0, nil
	}
	return now.busySince(*last), nil
}

// cpuTimes are counters of all processors together, in clock ticks.
type cpuTimes struct{ total, idle, iowait uint64 }

// parseCPUTimes reads the first line of /proc/stat:
//
//	cpu  user nice system idle iowait …
func parseCPUTimes(text string) (t cpuTimes, err error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 6 || fields[0] != "cpu" {
		return t, fmt.Errorf("unexpected first line %.80q", line)
	}
	var n [5]uint64
	for i := range n {
		// 63 bits leave room for the sum of any that make sense.
		if n[i], err = strconv.ParseUint(fields[i+1], 10, 63); err != nil {
			return t, err
		}
		t.total += n[i]
	}
	t.idle, t.iowait = n[3], n[4]
	return t, nil
}

// busySince returns the busy share of the time since last, in percent.
func (t cpuTimes) busySince(last cpuTimes) float64 {
	if t.total <= last.total || t.idle < last.idle {
		return 0 // nothing that counts has moved, or the counters began anew
	}
	total, idle := t.total-last.total, t.idle-last.idle
	if total < idle && t.iowait < last.iowait {
		return 0 // the kernel takes some waiting time back at times
	}
	return (float64(total) - float64(idle)) / float64(total) * 100
}
