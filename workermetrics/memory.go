package workermetrics

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"runtime/debug"
	rtmetrics "runtime/metrics"
	"strconv"
	"strings"
)

const (
	liveHeap = "/gc/heap/live:bytes"
	memInfo  = "proc/meminfo"
	// unlimited is what cgroup v1 says in place of no limit, or more.
	unlimited = math.MaxInt64 &^ 0xffff
)

type goMemory struct {
	kind
	host Host
	live func() uint64 // bytes
	soft func() int64  // bytes; MaxInt64 for none
}

// NewGoMemory returns the metric [Memory] of a Go program: the heap that the last
// garbage collection found alive, as a share of the memory that the program may
// use. That is Go's own soft limit (GOMEMLIMIT) if it is set, or else the
// container's limit or the machine's memory, whichever is less.
//
// The live heap grows only with what the program holds on to, where the size of
// the process goes up and down with the garbage. Yet the garbage takes room:
// with GOGC at 100 the heap gets twice as large as what is alive, so without a
// soft limit trouble begins at 50 %, and [WithOperatingRange] should say so. With
// one, the program gets slow before it gets too large, above some 80 %.
func NewGoMemory(h Host) Metric {
	return &goMemory{
		kind: Memory, host: h.withDefaults(),
		live: readLiveHeap,
		soft: func() int64 { return debug.SetMemoryLimit(-1) }, // a negative number only asks
	}
}

func readLiveHeap() uint64 {
	s := []rtmetrics.Sample{{Name: liveHeap}}
	rtmetrics.Read(s)
	return s[0].Value.Uint64()
}

func (m *goMemory) Capture(context.Context) (float64, error) {
	budget := float64(m.soft())
	if budget >= math.MaxInt64 {
		limit, err := m.host.memory()
		if err != nil {
			return 0, err
		}
		budget = float64(limit)
	}
	if budget <= 0 {
		return 0, errors.New("memory limit is 0")
	}
	return min(100, float64(m.live())/budget*100), nil
}

// memory returns how many bytes a process may use: the container's limit or the
// machine's memory.
func (h Host) memory() (uint64, error) {
	limit, limited, err := h.memoryLimit()
	if err != nil {
		return 0, err
	}
	text, err := h.read(memInfo)
	if err == nil {
		var total uint64
		if total, err = parseMemTotal(text); err == nil && (!limited || total < limit) {
			return total, nil
		}
	}
	if limited {
		return limit, nil
	}
	return 0, fmt.Errorf("%s: %w", memInfo, err)
}

// memoryLimit returns the limit of the container, if there is one.
func (h Host) memoryLimit() (limit uint64, limited bool, err error) {
	for _, name := range []string{"memory.max", "memory/memory.limit_in_bytes"} { // cgroup v2, v1
		text, err := h.read(cgroupRoot + name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, false, err
		}
		limit, limited, err := parseMemoryLimit(text)
		if err != nil {
			return 0, false, fmt.Errorf("%s: %w", name, err)
		}
		return limit, limited, nil
	}
	return 0, false, nil
}

func parseMemoryLimit(text string) (limit uint64, limited bool, err error) {
	if text = strings.TrimSpace(text); text == "max" {
		return 0, false, nil
	}
	limit, err = strconv.ParseUint(text, 10, 64)
	return limit, err == nil && limit < unlimited, err
}

// parseMemTotal returns the first line of /proc/meminfo, MemTotal, in bytes.
func parseMemTotal(text string) (uint64, error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) != 3 || fields[0] != "MemTotal:" || fields[2] != "kB" {
		return 0, fmt.Errorf("unexpected first line %.80q", line)
	}
	kb, err := strconv.ParseUint(fields[1], 10, 54) // so that it is a number of bytes, too
	return kb << 10, err
}
