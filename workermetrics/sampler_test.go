package workermetrics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/testbed"
	"github.com/go-kcl/kcl/metrics"
)

func typeName(v any) string { return fmt.Sprintf("%T", v) }

// sampling is a sampler at work, in a bubble.
type sampling struct {
	*Sampler
	t       *testing.T
	figures testbed.Figures
	logs    bytes.Buffer // what is worth a line
	stop    func()
}

func sample(t *testing.T, cfg SamplerConfig) *sampling {
	t.Helper()
	s := &sampling{t: t}
	cfg.Recorder = &s.figures
	cfg.Logger = slog.New(slog.NewTextHandler(&s.logs, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	var err error
	s.Sampler, err = NewSampler(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { s.Run(ctx) })
	s.stop = func() { cancel(); done.Wait() }
	return s
}

func (s *sampling) load() Load {
	s.t.Helper()
	l, err := s.Load(s.t.Context())
	require.NoError(s.t, err)
	return l
}

// afterPeriod is the load at the end of one more period of reports.
func (s *sampling) afterPeriod() Load {
	s.t.Helper()
	time.Sleep(DefaultPeriod)
	synctest.Wait()
	return s.load()
}

func (s *sampling) failures() int {
	return len(s.figures.Values("WorkerMetricStatsReporter", "InMemoryMetricStatsReporterFailure"))
}

func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func TestSampler(t *testing.T) {
	bubble(t, "means", func(t *testing.T) {
		n := 0.0
		s := sample(t, SamplerConfig{Metrics: []Metric{
			WithOperatingRange(constant("C", 12.5), 80),
			metric{name: "mine", capture: func(context.Context) (float64, error) { n++; return n, nil }},
		}})
		defer s.stop()
		// Ruling 9: one real sample, and not the first capture.
		assert.Equal(t, Load{
			map[string][]float64{"C": {12.5}, "mine": {2}},
			map[string][]int64{"C": {80}, "mine": {100}},
		}, s.load())
		// 30 captures: 3 to 32.
		assert.Equal(t, Load{
			map[string][]float64{"C": {12.5, 12.5}, "mine": {2, 17.5}},
			map[string][]int64{"C": {80}, "mine": {100}},
		}, s.afterPeriod())
	})
	// lease-assignment-and-worker-metrics#10
	for name, bad := range map[string]func(context.Context) (float64, error){
		"an error":    func(context.Context) (float64, error) { return 50, errors.New("broken") },
		"NaN":         func(context.Context) (float64, error) { return math.NaN(), nil },
		"infinity":    func(context.Context) (float64, error) { return math.Inf(1), nil },
		"-10":         func(context.Context) (float64, error) { return -10, nil },
		"101":         func(context.Context) (float64, error) { return 101, nil },
		"a panic":     func(context.Context) (float64, error) { panic("no") },
		"a nil error": func(context.Context) (float64, error) { panic(error(nil)) },
		"a time-out":  func(ctx context.Context) (float64, error) { <-ctx.Done(); return 0, ctx.Err() },
	} {
		bubble(t, "no sample of "+name, func(t *testing.T) {
			var broken atomic.Int32 // so many captures
			s := sample(t, SamplerConfig{Metrics: []Metric{
				metric{name: "C", capture: func(ctx context.Context) (float64, error) {
					if broken.Add(-1) >= 0 {
						return bad(ctx)
					}
					return 40, nil
				}},
				constant("M", 20),
			}})
			defer s.stop()
			s.load()
			s.afterPeriod()
			broken.Store(1)
			got := s.afterPeriod()
			assert.Equal(t, map[string][]float64{"C": {40, 40, 40}, "M": {20, 20, 20}}, got.Stats)
			assert.Equal(t, 1, s.failures())
			assert.Equal(t, metrics.Sample{
				Operation: "WorkerMetricStatsReporter", Name: "InMemoryMetricStatsReporterFailure", Value: 1, Unit: metrics.Count, Level: metrics.Summary,
			}, s.figures.All()[0])
		})
	}
	bubble(t, "the bounds are valid", func(t *testing.T) {
		s := sample(t, SamplerConfig{Metrics: []Metric{constant("C", 0), constant("M", 100)}})
		defer s.stop()
		assert.Equal(t, map[string][]float64{"C": {0}, "M": {100}}, s.load().Stats)
		assert.Zero(t, s.failures())
	})
	// lease-assignment-and-worker-metrics#11
	bubble(t, "a period without samples", func(t *testing.T) {
		var broken atomic.Bool
		s := sample(t, SamplerConfig{Metrics: []Metric{metric{name: "C", capture: func(context.Context) (float64, error) {
			if broken.Load() {
				return 0, errors.New("broken")
			}
			return 40, nil
		}}}})
		defer s.stop()
		assert.Equal(t, []float64{40}, s.load().Stats["C"])
		broken.Store(true)
		bad := s.afterPeriod()
		assert.Equal(t, []float64{40, NoSample}, bad.Stats["C"])
		assert.True(t, bad.Failing())
		assert.Equal(t, []float64{40, NoSample, NoSample}, s.afterPeriod().Stats["C"])
		broken.Store(false)
		good := s.afterPeriod()
		assert.Equal(t, []float64{40, NoSample, NoSample, 40}, good.Stats["C"])
		assert.False(t, good.Failing())
		for range 20 {
			good = s.afterPeriod()
		}
		assert.Equal(t, slices.Repeat([]float64{40}, 10), good.Stats["C"])
	})
	bubble(t, "as many values as asked for", func(t *testing.T) {
		s := sample(t, SamplerConfig{Metrics: []Metric{constant("C", 1)}, PersistedMetrics: 2})
		defer s.stop()
		s.load()
		s.afterPeriod()
		assert.Len(t, s.afterPeriod().Stats["C"], 2)
	})
	// lease-assignment-and-worker-metrics#14
	bubble(t, "workers started together do not capture together", func(t *testing.T) {
		for _, period := range []time.Duration{DefaultCaptureInterval, 100 * time.Millisecond, 10 * time.Second} {
			var delays []time.Duration
			start := time.Now()
			var mu sync.Mutex
			for range 50 {
				first := sync.OnceFunc(func() {
					mu.Lock()
					defer mu.Unlock()
					delays = append(delays, time.Since(start))
				})
				s := sample(t, SamplerConfig{CaptureInterval: period, Metrics: []Metric{metric{name: "C", capture: func(context.Context) (float64, error) {
					first()
					return 1, nil
				}}}})
				defer s.stop()
			}
			within := min(period, time.Second) // a long period must not hold up the start
			time.Sleep(within)
			synctest.Wait()
			require.Len(t, delays, 50)
			slices.Sort(delays)
			assert.Less(t, delays[49], within)
			assert.Len(t, slices.Compact(slices.Clone(delays)), 50)
			assert.Greater(t, delays[49]-delays[0], within/2)
		}
	})
	bubble(t, "a report right after another one adds nothing", func(t *testing.T) {
		s := sample(t, SamplerConfig{Metrics: []Metric{constant("C", 40)}})
		defer s.stop()
		first := s.load()
		assert.Equal(t, first, s.load())
		assert.Len(t, first.Stats["C"], 1)
	})
	bubble(t, "the caller may keep a load", func(t *testing.T) {
		s := sample(t, SamplerConfig{Metrics: []Metric{constant("C", 40)}})
		defer s.stop()
		l := s.load()
		l.Stats["C"][0], l.OperatingRange["C"][0] = 7, 7
		l = s.load()
		assert.Equal(t, Load{map[string][]float64{"C": {40}}, map[string][]int64{"C": {100}}}, l)
	})
}

// What is wrong with a metric is said once, and once more that it is over.
func TestFailuresAreToldOnce(t *testing.T) {
	bubble(t, "broken for a while", func(t *testing.T) {
		var broken atomic.Bool
		s := sample(t, SamplerConfig{Metrics: []Metric{metric{name: "C", capture: func(context.Context) (float64, error) {
			if broken.Load() {
				return 0, errors.New("broken")
			}
			return 40, nil
		}}}})
		s.load()
		broken.Store(true)
		s.afterPeriod()
		s.afterPeriod()
		broken.Store(false)
		s.afterPeriod()
		s.afterPeriod()
		s.stop()
		assert.Equal(t, "level=WARN msg=\"worker metric not captured\" metric=C err=broken\n"+
			"level=INFO msg=\"worker metric is captured again\" metric=C\n", s.logs.String())
	})
	bubble(t, "every other capture", func(t *testing.T) {
		n := 0
		s := sample(t, SamplerConfig{Metrics: []Metric{metric{name: "C", capture: func(context.Context) (float64, error) {
			if n++; n%2 == 0 {
				return 0, fmt.Errorf("broken for time %d", n)
			}
			return 40, nil
		}}}})
		s.load()
		for range 10 {
			s.afterPeriod()
		}
		s.stop()
		assert.Equal(t, 1, bytes.Count(s.logs.Bytes(), []byte("\n")), s.logs.String())
		assert.Greater(t, s.failures(), 100)
	})
}

// Ruling 9: the first report waits for a sample, but not for ever.
func TestFirstLoad(t *testing.T) {
	bubble(t, "waits", func(t *testing.T) {
		start := time.Now()
		s := sample(t, SamplerConfig{Metrics: []Metric{constant("C", 40)}})
		defer s.stop()
		s.load()
		assert.LessOrEqual(t, time.Since(start), DefaultCaptureInterval+firstPause)
	})
	bubble(t, "tries again", func(t *testing.T) {
		n := 0
		s := sample(t, SamplerConfig{Metrics: []Metric{constant("M", 20), metric{name: "C", capture: func(context.Context) (float64, error) {
			if n++; n < 3 {
				return 0, errors.New("broken")
			}
			return 40, nil
		}}}})
		defer s.stop()
		assert.Equal(t, map[string][]float64{"C": {40}, "M": {20}}, s.load().Stats)
	})
	bubble(t, "gives up", func(t *testing.T) {
		start := time.Now()
		s := sample(t, SamplerConfig{Metrics: []Metric{metric{name: "C", capture: func(ctx context.Context) (float64, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}}}})
		defer s.stop()
		assert.Equal(t, []float64{NoSample}, s.load().Stats["C"])
		assert.Less(t, time.Since(start), 7*time.Second)
	})
	bubble(t, "ends with its context", func(t *testing.T) {
		s, err := NewSampler(SamplerConfig{Metrics: []Metric{constant("C", 40)}})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // for ever: it does not run
		defer cancel()
		_, err = s.Load(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
	bubble(t, "of a worker that stops at once", func(t *testing.T) {
		s := sample(t, SamplerConfig{Metrics: []Metric{constant("C", 40)}})
		s.stop()
		l := s.load()
		assert.Equal(t, []float64{NoSample}, l.Stats["C"])
		assert.Zero(t, s.failures())
	})
}

func TestAutomaticChoice(t *testing.T) {
	ec2 := files{procStat: "cpu 1 1 1 100 1"}.host()
	ec2.HTTP = instance{without: 200}
	bubble(t, "the platform's CPU", func(t *testing.T) {
		s := sample(t, SamplerConfig{Host: ec2})
		defer s.stop()
		assert.Equal(t, Load{map[string][]float64{"C": {0}}, map[string][]int64{"C": {100}}}, s.load())
		assert.Equal(t, "level=INFO msg=\"worker reports its CPU\" platform=EC2\n", s.logs.String())
	})
	bubble(t, "none", func(t *testing.T) {
		s := sample(t, SamplerConfig{Host: files{}.host()})
		defer s.stop()
		assert.True(t, s.load().Throughput())
		assert.Equal(t, "level=INFO msg=\"worker reports no metrics\" platform=\"\" err=\"neither ECS, Kubernetes nor EC2\"\n", s.logs.String())
	})
	bubble(t, "a stop ends the search", func(t *testing.T) {
		h := files{}.host()
		h.HTTP = doer(func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() })
		s := sample(t, SamplerConfig{Host: h})
		start := time.Now()
		synctest.Wait()
		s.stop()
		assert.Zero(t, time.Since(start))
		assert.Empty(t, s.logs.String(), "nothing was found out")
	})
	bubble(t, "not if turned off", func(t *testing.T) {
		s := sample(t, SamplerConfig{Host: ec2, Disable: true})
		defer s.stop()
		assert.Equal(t, Load{map[string][]float64{}, map[string][]int64{}}, s.load())
		assert.Empty(t, s.logs.String())
	})
	bubble(t, "what is given counts even if turned off", func(t *testing.T) {
		s := sample(t, SamplerConfig{Host: ec2, Disable: true, Metrics: []Metric{constant("M", 7)}})
		defer s.stop()
		assert.Equal(t, map[string][]float64{"M": {7}}, s.load().Stats)
	})
}

func TestSamplerStops(t *testing.T) {
	bubble(t, "captures no more", func(t *testing.T) {
		n := 0
		s := sample(t, SamplerConfig{Metrics: []Metric{metric{name: "C", capture: func(context.Context) (float64, error) { n++; return 1, nil }}}})
		s.load()
		s.stop()
		before := n
		time.Sleep(time.Hour)
		assert.Equal(t, before, n)
		assert.Equal(t, []float64{1}, s.load().Stats["C"], "the last figures stay")
	})
	bubble(t, "waits for a capture under way, which is no failure", func(t *testing.T) {
		calls, returned := 0, false
		s := sample(t, SamplerConfig{CaptureInterval: 10 * time.Second, Metrics: []Metric{metric{name: "C", capture: func(ctx context.Context) (float64, error) {
			if calls++; calls > 2 {
				<-ctx.Done()
				time.Sleep(time.Millisecond)
				returned = true
			}
			return 1, ctx.Err()
		}}}})
		s.load()
		time.Sleep(10*time.Second + time.Millisecond)
		s.stop()
		assert.True(t, returned)
		assert.Zero(t, s.failures())
		assert.Empty(t, s.logs.String())
	})
	bubble(t, "but not for one that never returns", func(t *testing.T) {
		calls, release := 0, make(chan struct{})
		s := sample(t, SamplerConfig{Metrics: []Metric{
			constant("M", 20),
			metric{name: "C", capture: func(context.Context) (float64, error) { calls++; <-release; return 1, nil }},
		}})
		s.load()
		l := s.afterPeriod()
		assert.Equal(t, map[string][]float64{"C": {NoSample, NoSample}, "M": {20, 20}}, l.Stats)
		assert.Equal(t, 1, calls, "and never called twice at once")
		start := time.Now()
		s.stop()
		assert.Equal(t, DefaultCaptureInterval, time.Since(start))
		assert.Contains(t, s.logs.String(), "level=WARN msg=\"worker metric's Capture does not return\" metric=C\n")
		close(release)
	})
}

func TestNewSamplerRefuses(t *testing.T) {
	for _, c := range []struct {
		message string
		cfg     SamplerConfig
	}{
		{"CaptureInterval is 99ms, must be at least 100ms", SamplerConfig{CaptureInterval: 99 * time.Millisecond}},
		{"CaptureInterval is -1ns, must be at least 100ms", SamplerConfig{CaptureInterval: -1}},
		{"PersistedMetrics is -1, must be from 1 to 100", SamplerConfig{PersistedMetrics: -1}},
		{"PersistedMetrics is 101, must be from 1 to 100", SamplerConfig{PersistedMetrics: 101}},
		{"Metrics[0] is nil", SamplerConfig{Metrics: []Metric{nil}}},
		{`Metrics[0] has the name "", which must not be used`, SamplerConfig{Metrics: []Metric{constant("", 1)}}},
		{`Metrics[0] has the name "T", which must not be used`, SamplerConfig{Metrics: []Metric{constant("T", 1)}}},
		{`Metrics[0] has the name "THROUGHPUT", which must not be used`, SamplerConfig{Metrics: []Metric{constant("THROUGHPUT", 1)}}},
		{`Metrics[1] has the name "C" of another`, SamplerConfig{Metrics: []Metric{constant("C", 1), constant("C", 1)}}},
		{"metric C has the operating range 101, must be from 1 to 100", SamplerConfig{Metrics: []Metric{WithOperatingRange(constant("C", 1), 101)}}},
		{"metric C has the operating range -1, must be from 1 to 100", SamplerConfig{Metrics: []Metric{WithOperatingRange(constant("C", 1), -1)}}},
	} {
		_, err := NewSampler(c.cfg)
		assert.EqualError(t, err, "worker metrics: "+c.message)
	}
	_, err := NewSampler(SamplerConfig{CaptureInterval: -1, PersistedMetrics: -1})
	assert.EqualError(t, err, "worker metrics: CaptureInterval is -1ns, must be at least 100ms\nPersistedMetrics is -1, must be from 1 to 100")
	_, err = NewSampler(SamplerConfig{CaptureInterval: 100 * time.Millisecond, PersistedMetrics: 100, Metrics: []Metric{WithOperatingRange(constant("C", 1), 1)}})
	assert.NoError(t, err)
}

// A worker with metrics sends what its sampler says, and a draining one what
// ruling 8 makes of it.
func TestReportsOfASampler(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := 0.0
		s := sample(t, SamplerConfig{Metrics: []Metric{metric{name: "C", capture: func(context.Context) (float64, error) { n++; return n, nil }}}})
		defer s.stop()
		r := NewReporter(ReporterConfig{Store: w.store, Worker: "w", Load: s.Load})
		require.NoError(t, r.Report(t.Context()))
		assert.Equal(t, Load{map[string][]float64{"C": {2}}, map[string][]int64{"C": {100}}}, w.record().Load)
		defer w.run(r)()
		time.Sleep(DefaultPeriod + time.Second)
		synctest.Wait()
		assert.Len(t, w.record().Stats["C"], 2)
		require.NoError(t, r.Drain(t.Context()))
		assert.Equal(t, float64(NoSample), w.record().Stats["C"][3])
		assert.True(t, w.record().Failing())
	})
}
