package workermetrics

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/metrics"
)

func TestReporterRun(t *testing.T) {
	t.Run("reports at once and every period", func(t *testing.T) { // do better 25
		inWorld(t, func(t *testing.T, w *world) {
			stop := w.run(w.reporter(nil))
			synctest.Wait()
			assert.Equal(t, 1, w.aws.Count("UpdateItem", "worker"))
			began := w.record().Updated
			time.Sleep(DefaultPeriod - 1)
			synctest.Wait()
			assert.Equal(t, 1, w.aws.Count("UpdateItem", "worker"))
			time.Sleep(10*DefaultPeriod + 1)
			synctest.Wait()
			assert.Equal(t, 12, w.aws.Count("UpdateItem", "worker"), "an hour costs 120 write units")
			assert.Equal(t, began.Add(11*DefaultPeriod), w.record().Updated)
			stop()
			time.Sleep(time.Hour)
			assert.Equal(t, 12, w.aws.Count("UpdateItem", "worker"))
		})
	})
	t.Run("counts its period from a report before", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			r := w.reporter(nil)
			require.NoError(t, r.Report(t.Context()))
			time.Sleep(10 * time.Second)
			defer w.run(r)()
			time.Sleep(19 * time.Second)
			synctest.Wait()
			assert.Equal(t, 1, w.aws.Count("UpdateItem", "worker"))
			time.Sleep(time.Second)
			synctest.Wait()
			assert.Equal(t, 2, w.aws.Count("UpdateItem", "worker"))
		})
	})
	// lease-assignment-and-worker-metrics#13
	t.Run("goes on after a failure, and sooner", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			r := w.reporter(nil)
			require.NoError(t, r.Report(t.Context()))
			failing := w.fail("UpdateItem", kcltest.Break)
			defer w.run(r)()
			time.Sleep(DefaultPeriod + time.Second)
			failing.Remove()
			time.Sleep(DefaultPeriod / 2)
			synctest.Wait()
			assert.Less(t, time.Since(w.record().Updated), DefaultPeriod/2)
			ok := w.figures.Values(operation, "Success")
			assert.Equal(t, []float64{1, 0, 1}, ok)
		})
	})
	t.Run("a load that panics is one report less", func(t *testing.T) { // do better 14
		inWorld(t, func(t *testing.T, w *world) {
			bad := true
			defer w.run(w.reporter(func() Load {
				if bad {
					bad = false
					panic("no sample")
				}
				return Load{}
			}))()
			time.Sleep(DefaultPeriod)
			synctest.Wait()
			assert.Equal(t, []float64{0, 1}, w.figures.Values(operation, "Success"))
			assert.True(t, w.record().Valid())
		})
	})
}

func TestReport(t *testing.T) {
	t.Run("carries the load", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			load := Load{map[string][]float64{"C": {12.5}}, map[string][]int64{"C": {100}}}
			require.NoError(t, w.reporter(func() Load { return load }).Report(t.Context()))
			assert.Equal(t, load, w.record().Load)
			assert.False(t, w.record().Failing())
		})
	})
	t.Run("says what the worker knows, and when it said so", func(t *testing.T) { // lease-assignment-and-worker-metrics, section 2
		inWorld(t, func(t *testing.T, w *world) {
			r := NewReporter(ReporterConfig{Store: w.store, Worker: "w", Support: 1})
			for range 2 {
				require.NoError(t, r.Report(t.Context()))
				assert.Equal(t, 1, w.record().Support)
				assert.Equal(t, time.Now().Unix(), w.record().SupportUpdated.Unix())
				time.Sleep(DefaultPeriod)
			}
		})
	})
	t.Run("says when it was written, however long it waited for the load", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			r := w.reporter(func() Load { time.Sleep(5 * time.Second); return Load{} })
			require.NoError(t, r.Report(t.Context()))
			assert.Equal(t, time.Now().Unix(), w.record().Updated.Unix())
		})
	})
	t.Run("fails without the load", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			broken := errors.New("broken")
			r := NewReporter(ReporterConfig{Store: w.store, Worker: "w", Metrics: &w.figures, Load: func(context.Context) (Load, error) { return Load{}, broken }})
			require.ErrorIs(t, r.Report(t.Context()), broken)
			assert.Nil(t, w.item())
			assert.Equal(t, []float64{0}, w.figures.Values(operation, "Success"))
		})
	})
	t.Run("measures itself", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			require.NoError(t, w.reporter(nil).Report(t.Context()))
			dims := []metrics.Dimension{metrics.Worker("w")}
			assert.Equal(t, []metrics.Sample{
				{Operation: "WorkerMetricStatsReporter", Name: "Success", Value: 1, Unit: metrics.Count, Level: metrics.Summary, Dimensions: dims},
				{Operation: "WorkerMetricStatsReporter", Name: "Time", Value: 0, Unit: metrics.Milliseconds, Level: metrics.Summary, Dimensions: dims},
			}, w.figures.All())
		})
	})
	t.Run("ends within a period", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.fail("", kcltest.Hang)
			start := time.Now()
			require.ErrorIs(t, w.reporter(nil).Report(t.Context()), context.DeadlineExceeded)
			assert.Equal(t, DefaultPeriod, time.Since(start))
			assert.Equal(t, []float64{0}, w.figures.Values(operation, "Success"))
		})
	})
	t.Run("a stop is no failure", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.fail("", kcltest.Hang)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			canceled, end := context.WithCancel(ctx)
			time.AfterFunc(time.Millisecond, end)
			require.ErrorIs(t, w.reporter(nil).Report(canceled), context.Canceled)
			assert.Empty(t, w.figures.All())
		})
	})
}

// Ruling 8.
func TestDrain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		r := w.reporter(nil)
		defer w.run(r)()
		time.Sleep(time.Second)
		require.NoError(t, r.Drain(t.Context()))
		assert.Equal(t, Load{map[string][]float64{"C": {-1}}, map[string][]int64{"C": {100}}}, w.record().Load)
		assert.Equal(t, time.Now().Unix(), w.record().Updated.Unix(), "at once")
		time.Sleep(DefaultPeriod)
		synctest.Wait()
		assert.True(t, w.record().Failing(), "in all further reports")
		assert.Less(t, time.Since(w.record().Updated), 2*time.Second, "and it lives on")
	})
}

// A report under way when the worker begins to drain must not land last.
func TestDrainWaitsForAReportUnderWay(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		r := w.reporter(nil)
		w.aws.Inject(kcltest.Fault{Clients: []string{"worker"}, Times: 1, Effect: kcltest.Slow, Delay: time.Second})
		var both sync.WaitGroup
		both.Go(func() { assert.NoError(t, r.Report(t.Context())) })
		synctest.Wait()
		both.Go(func() { assert.NoError(t, r.Drain(t.Context())) })
		both.Wait()
		assert.True(t, w.record().Failing())
	})
}

func TestReporterDelete(t *testing.T) {
	t.Run("its own record", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			r := w.reporter(nil)
			require.NoError(t, r.Report(t.Context()))
			ok, err := r.Delete(t.Context())
			require.NoError(t, err)
			assert.True(t, ok)
			assert.Nil(t, w.item())
			assert.Error(t, r.Report(t.Context()))
			assert.Nil(t, w.item(), "nothing is reported after it")
		})
	})
	t.Run("not that of another process", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			r := w.reporter(nil)
			require.NoError(t, r.Report(t.Context()))
			time.Sleep(time.Second)
			require.NoError(t, w.reporter(nil).Report(t.Context()))
			ok, err := r.Delete(t.Context())
			require.NoError(t, err)
			assert.False(t, ok)
			assert.NotNil(t, w.item())
		})
	})
	for name, effect := range map[string]kcltest.Effect{"a last report that was lost": kcltest.Break, "a last report whose answer was lost": kcltest.LoseAnswer} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				r := w.reporter(nil)
				require.NoError(t, r.Report(t.Context()))
				time.Sleep(time.Second)
				failing := w.fail("UpdateItem", effect)
				require.Error(t, r.Report(t.Context()))
				failing.Remove()
				ok, err := r.Delete(t.Context())
				require.NoError(t, err)
				assert.True(t, ok)
				assert.Nil(t, w.item())
			})
		})
	}
	t.Run("of a worker that never reported", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			ok, err := w.reporter(nil).Delete(t.Context())
			require.NoError(t, err)
			assert.False(t, ok)
			assert.Zero(t, w.aws.Count("DeleteItem", "worker"))
		})
	})
}
