package workermetrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/go-kcl/kcl/internal/chance"
	"github.com/go-kcl/kcl/internal/wait"
	"github.com/go-kcl/kcl/metrics"
)

const (
	// DefaultCaptureInterval is how often metrics are captured unless configured.
	DefaultCaptureInterval = time.Second

	// minCaptureInterval is ten of the ticks in which the kernel counts.
	minCaptureInterval = 100 * time.Millisecond

	// maxPersisted keeps a record with a few metrics within a KB or two: each KB
	// is one more write unit a report.
	maxPersisted = 100

	// maxStep bounds what goes by the capture period but must not hold up the
	// worker's start, other metrics or its stop: the first delay, and what a
	// capture may take.
	maxStep = time.Second

	// firstPause lies between the first captures, and so is the time that the
	// first report is about.
	firstPause = 250 * time.Millisecond
	// firstTries is how many captures follow the first one at that pace for want
	// of a sample. Without one the worker gets no lease before its next report.
	firstTries = 4
)

// SamplerConfig sets up a [Sampler]. The zero SamplerConfig is KCL's default.
type SamplerConfig struct {
	// Metrics is what the worker reports of itself. Empty means the CPU, by the
	// metric that fits the platform (ECS, Kubernetes or EC2, on Linux); where
	// none does, the worker has no metrics, and a leader goes by the throughput
	// of its leases. KCL: workerMetricList.
	Metrics []Metric
	// Disable turns that choice off: no Metrics means none. It changes nothing
	// where Metrics are given. KCL: disableWorkerMetrics.
	Disable bool
	// CaptureInterval is the pause between two captures, at least 100 ms; it should
	// be well below the period of reports. 0 means [DefaultCaptureInterval], 1 s.
	// KCL: inMemoryWorkerMetricsCaptureFrequencyMillis.
	CaptureInterval time.Duration
	// PersistedMetrics is how many of its last averages a record keeps of each metric, 1
	// to 100. 0 means 10. KCL: noOfPersistedMetricsPerWorkerMetrics.
	PersistedMetrics int
	// Host is where the platform is looked for if that is to be done.
	Host Host

	Logger   *slog.Logger     // nil discards
	Recorder metrics.Recorder // nil discards
}

// Sampler captures a worker's metrics again and again, and averages them for
// each report. Run must be running, once, for Load to return; Load is for one
// [Reporter], as [ReporterConfig] wants it.
type Sampler struct {
	cfg   SamplerConfig
	log   *slog.Logger
	scope metrics.Scope

	series []*series     // written by Run before ready is closed
	ready  chan struct{} // closed once the first sample has been tried
}

// NewSampler does no I/O and starts nothing. Its error names each field that is
// out of bounds.
func NewSampler(cfg SamplerConfig) (*Sampler, error) {
	cfg, all, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Sampler{
		cfg:    cfg,
		log:    cfg.Logger,
		scope:  metrics.Scope{Recorder: cfg.Recorder, Operation: operation},
		series: all,
		ready:  make(chan struct{}),
	}, nil
}

func (c SamplerConfig) withDefaults() (SamplerConfig, []*series, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	switch {
	case c.CaptureInterval == 0:
		c.CaptureInterval = DefaultCaptureInterval
	case c.CaptureInterval < minCaptureInterval:
		fault("CaptureInterval is %s, must be at least %s", c.CaptureInterval, minCaptureInterval)
	}
	switch {
	case c.PersistedMetrics == 0:
		c.PersistedMetrics = maxValues
	case c.PersistedMetrics < 1 || c.PersistedMetrics > maxPersisted:
		fault("PersistedMetrics is %d, must be from 1 to %d", c.PersistedMetrics, maxPersisted)
	}
	var all []*series
	names := map[string]bool{}
	for i, m := range c.Metrics {
		if m == nil {
			fault("Metrics[%d] is nil", i)
			continue
		}
		s := newSeries(m)
		switch {
		case s.name == "" || s.name == throughput || s.name == throughputKey:
			fault("Metrics[%d] has the name %q, which must not be used", i, s.name)
		case names[s.name]:
			fault("Metrics[%d] has the name %q of another", i, s.name)
		}
		if s.limit < 1 || s.limit > 100 {
			fault("metric %s has the operating range %d, must be from 1 to 100", s.name, s.limit)
		}
		names[s.name] = true
		all = append(all, s)
	}
	if len(faults) > 0 {
		return c, nil, fmt.Errorf("worker metrics: %w", errors.Join(faults...))
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, all, nil
}

// Run captures until ctx ends, or returns at once if there is nothing to
// capture. Workers that were started together do not capture together. When ctx
// ends it waits a second at most for captures under way, and leaves a goroutine
// behind only where a Capture does not return.
func (s *Sampler) Run(ctx context.Context) {
	defer s.leave()
	s.begin(ctx)
	close(s.ready)
	for len(s.series) > 0 && wait.For(ctx, s.cfg.CaptureInterval) {
		s.tick(ctx)
	}
}

// begin takes the first sample of each metric, which needs two captures that do
// not fail.
func (s *Sampler) begin(ctx context.Context) {
	if len(s.series) == 0 && !s.cfg.Disable {
		s.choose(ctx)
	}
	if len(s.series) == 0 || !wait.For(ctx, chance.Below(s.step())) {
		return
	}
	s.tick(ctx)
	for range firstTries {
		if !slices.ContainsFunc(s.series, (*series).empty) || !wait.For(ctx, min(firstPause, s.step())) {
			return
		}
		s.tick(ctx)
	}
}

// choose finds the metric for the platform.
func (s *Sampler) choose(ctx context.Context) {
	platform, m, err := s.cfg.Host.choose(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.log.InfoContext(ctx, "worker reports no metrics", "platform", platform, "err", err)
	default:
		s.log.InfoContext(ctx, "worker reports its CPU", "platform", platform)
		s.series = []*series{newSeries(m)}
	}
}

func (s *Sampler) step() time.Duration { return min(s.cfg.CaptureInterval, maxStep) }

// tick captures each metric once. One that is slow does not hold up the others
// for long: Capture has half a step, and a little more in which to say that it
// was too slow.
func (s *Sampler) tick(ctx context.Context) {
	capturing, cancel := context.WithTimeout(ctx, s.step()/2)
	defer cancel()
	waiting, cancel := context.WithTimeout(ctx, s.step()*3/4)
	defer cancel()
	for _, m := range s.series {
		m.start(capturing)
	}
	for _, m := range s.series {
		percent, err := m.await(waiting)
		if ctx.Err() != nil {
			return // the worker stops; nothing failed
		}
		if err == nil {
			m.add(percent)
			continue
		}
		level := slog.LevelDebug
		if m.fail() {
			level = slog.LevelWarn
		}
		s.scope.Count("InMemoryMetricStatsReporterFailure", 1, metrics.Summary)
		s.log.Log(ctx, level, "worker metric not captured", "metric", m.name, "err", err)
	}
}

// leave waits for captures under way, whose context has ended.
func (s *Sampler) leave() {
	patience, cancel := context.WithTimeout(context.Background(), s.step())
	defer cancel()
	for _, m := range s.series {
		if !m.idle(patience) {
			s.log.Warn("worker metric's Capture does not return", "metric", m.name)
		}
	}
}

// Load returns what is to be reported now, and begins a new period: of each
// metric the mean of its samples since the last call, after those of the calls
// before. It waits for the first sample, a second as a rule and seven at most, and
// then returns what there is. Its error is that of ctx.
func (s *Sampler) Load(ctx context.Context) (Load, error) {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return Load{}, fmt.Errorf("wait for the first sample of the worker's metrics: %w", ctx.Err())
	}
	l := Load{Stats: make(map[string][]float64), OperatingRange: make(map[string][]int64)}
	for _, m := range s.series {
		values, recovered := m.report(s.cfg.PersistedMetrics)
		if recovered {
			s.log.InfoContext(ctx, "worker metric is captured again", "metric", m.name)
		}
		l.Stats[m.name] = values
		l.OperatingRange[m.name] = []int64{m.limit}
	}
	return l, nil
}
