package metrics_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-kcl/kcl/metrics"
)

type kept []metrics.Sample

func (k *kept) Record(s metrics.Sample) { *k = append(*k, s) }

func TestScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got kept
		dims := []metrics.Dimension{metrics.Worker("w"), metrics.Shard("s"), metrics.Stream("a:s:1")}
		s := metrics.Scope{Recorder: &got, Operation: "ProcessTask", Dimensions: dims}
		start := time.Now()
		time.Sleep(1500 * time.Microsecond)
		s.Count("RecordsProcessed", 3, metrics.Summary)
		s.Done("", start, nil, metrics.Summary)
		s.Done("UpdateLease", start, errors.New("no"), metrics.Detailed)
		sample := func(name string, v float64, u metrics.Unit, l metrics.Level) metrics.Sample {
			return metrics.Sample{Operation: "ProcessTask", Name: name, Value: v, Unit: u, Level: l, Dimensions: dims}
		}
		assert.Equal(t, kept{
			sample("RecordsProcessed", 3, metrics.Count, metrics.Summary),
			sample("Success", 1, metrics.Count, metrics.Summary),
			sample("Time", 1.5, metrics.Milliseconds, metrics.Summary),
			sample("UpdateLease.Success", 0, metrics.Count, metrics.Detailed),
			sample("UpdateLease.Time", 1.5, metrics.Milliseconds, metrics.Detailed),
		}, got)
		assert.Equal(t, []metrics.Dimension{
			{Name: "WorkerIdentifier", Value: "w"}, {Name: "ShardId", Value: "s"}, {Name: "StreamId", Value: "a:s:1"},
		}, dims, "KCL's names")
	})
	assert.NotPanics(t, func() {
		var none metrics.Scope
		none.Count("x", 1, metrics.Summary)
		none.Done("", time.Now(), nil, metrics.Summary)
		metrics.Discard.Record(metrics.Sample{})
	})
}
