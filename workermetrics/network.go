package workermetrics

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	procNetDev = "proc/net/dev"

	defaultInterface = "eth0"
	mebibyte         = 1 << 20
)

type network struct {
	kind
	host    Host
	device  string
	maxMBps float64
	column  int // of the counter in /proc/net/dev, behind the colon

	last uint64
	at   time.Time // when last was read; zero before the first capture
}

// The counters' columns in /proc/net/dev, behind the colon.
const (
	columnReceived = 0
	columnSent     = 8
)

// NewNetworkIn returns the metric [NetworkIn] of a Linux machine: the bytes that
// an interface received, as a share of maxMBps, in units of 1,048,576 bytes a
// second, which is what this kind of machine can do for long. "" means eth0.
func NewNetworkIn(h Host, device string, maxMBps float64) (Metric, error) {
	return newNetwork(NetworkIn, h, device, maxMBps, columnReceived)
}

// NewNetworkOut returns the metric [NetworkOut]; see [NewNetworkIn].
func NewNetworkOut(h Host, device string, maxMBps float64) (Metric, error) {
	return newNetwork(NetworkOut, h, device, maxMBps, columnSent)
}

func newNetwork(name kind, h Host, device string, maxMBps float64, column int) (Metric, error) {
	if !(maxMBps > 0) || math.IsInf(maxMBps, 0) {
		return nil, fmt.Errorf("metric %s: bandwidth is %v MB/s, must be above 0", name, maxMBps)
	}
	if device == "" {
		device = defaultInterface
	}
	return &network{kind: name, host: h.withDefaults(), device: device, maxMBps: maxMBps, column: column}, nil
}

func (m *network) Capture(context.Context) (float64, error) {
	text, err := m.host.read(procNetDev)
	if err != nil {
		return 0, err
	}
	now := time.Now()
	bytes, err := parseNetDev(text, m.device, m.column)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", procNetDev, err)
	}
	last, elapsed := m.last, now.Sub(m.at).Seconds()
	first := m.at.IsZero()
	if !first && elapsed <= 0 {
		return 0, errors.New("no time has passed since the last capture")
	}
	m.last, m.at = bytes, now
	if first || bytes < last { // the counter began anew
		return 0, nil
	}
	mbps := float64(bytes-last) / mebibyte / elapsed
	return min(100, mbps/m.maxMBps*100), nil
}

// parseNetDev returns an interface's counter from /proc/net/dev, which has two
// lines of heading.
func parseNetDev(text, device string, column int) (uint64, error) {
	lines := strings.Split(text, "\n")
	for _, line := range lines[min(2, len(lines)):] {
		name, counters, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(name) != device {
			continue
		}
		fields := strings.Fields(counters)
		if len(fields) <= column {
			return 0, fmt.Errorf("interface %s has %d counters, must have more than %d", device, len(fields), column)
		}
		return strconv.ParseUint(fields[column], 10, 64)
	}
	return 0, fmt.Errorf("no interface %s", device)
}
