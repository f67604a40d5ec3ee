package workermetrics

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"sync"
)

// maxSamples is how many samples of one period are kept, the newest: five
// minutes' with the default period.
const maxSamples = 300

// decimals is how exact averages are in records.
const decimals = 6

// series is what was captured of one metric.
type series struct {
	metric Metric
	name   string
	limit  int64 // the operating range

	// Used by the sampler's loop only.
	primed  bool         // the first capture has been made
	pending chan outcome // of the capture under way; nil if there is none

	mu       sync.Mutex // guards what follows
	samples  []float64  // since the last report
	failures int        // since the last report
	failing  bool       // there were failures in this or the last period
	averages []float64  // one a report, oldest first
}

type outcome struct {
	percent float64
	err     error
}

func newSeries(m Metric) *series {
	s := &series{metric: m, name: m.Name(), limit: int64(m.OperatingRange())}
	if s.limit == 0 {
		s.limit = 100
	}
	return s
}

// start begins a capture unless the last one has not returned yet. It is made by
// a goroutine of its own, so that one that hangs does not hold up the loop; it
// ends when Capture returns.
func (s *series) start(ctx context.Context) {
	if s.pending != nil {
		return
	}
	result := make(chan outcome, 1)
	s.pending = result
	go func() {
		percent, err := capture(ctx, s.metric)
		result <- outcome{percent, err}
	}()
}

// await returns what the capture under way returns, or an error if it does not
// before ctx ends.
func (s *series) await(ctx context.Context) (float64, error) {
	select {
	case o := <-s.pending:
		s.pending = nil
		return o.percent, o.err
	case <-ctx.Done():
		return 0, errors.New("capture has not returned")
	}
}

// idle reports whether no capture is under way, or the last one ends before ctx
// does.
func (s *series) idle(ctx context.Context) bool {
	if s.pending == nil {
		return true
	}
	select {
	case <-s.pending:
		s.pending = nil
		return true
	case <-ctx.Done():
		return false
	}
}

// capture calls code that may panic, and may return anything.
func capture(ctx context.Context, m Metric) (percent float64, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	percent, err = m.Capture(ctx)
	if err == nil && !(percent >= 0 && percent <= 100) {
		err = fmt.Errorf("captured %v, must be from 0 to 100", percent)
	}
	return percent, err
}

// add keeps a capture, but for the first, which for most metrics only begins a
// measurement and would say that the worker is idle.
func (s *series) add(percent float64) {
	if !s.primed {
		s.primed = true
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.samples = last(maxSamples, append(s.samples, percent))
}

// empty reports whether there is no sample since the last report.
func (s *series) empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.samples) == 0
}

// fail counts a failed capture, and reports whether it is the first for a while.
func (s *series) fail() (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = !s.failing
	s.failures++
	s.failing = true
	return first
}

// report ends a period and returns the averages of the last ones, at most n, and
// whether the metric failed before and has not in this period. A period in which
// all captures failed has [NoSample] as its average. One too short for a capture
// has none, so that a report made twice in a row does no harm.
func (s *series) report(n int) (averages []float64, recovered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(s.samples) > 0:
		s.averages = append(s.averages, mean(s.samples))
	case s.failures > 0, len(s.averages) == 0:
		s.averages = append(s.averages, NoSample)
	}
	s.averages = last(n, s.averages)
	recovered = s.failing && s.failures == 0 && len(s.samples) > 0
	if recovered {
		s.failing = false
	}
	s.samples, s.failures = nil, 0
	return slices.Clone(s.averages), recovered
}

// last returns the newest n of some values.
func last(n int, values []float64) []float64 {
	return values[max(0, len(values)-n):]
}

// mean rounds as KCL does: the decimal number that prints as the mean, half away
// from 0.
func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	exact, _ := new(big.Rat).SetString(strconv.FormatFloat(sum/float64(len(values)), 'f', -1, 64))
	rounded, _ := strconv.ParseFloat(exact.FloatString(decimals), 64)
	return rounded
}
