package metrics_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-kcl/kcl/metrics"
)

// sums adds up what is reported by operation and name. It holds its lock for no
// longer than that takes.
type sums struct {
	mu sync.Mutex
	by map[string]float64
}

func (s *sums) Record(m metrics.Sample) {
	if m.Level > metrics.Summary {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by[m.Operation+"."+m.Name] += m.Value
}

// A program hands a Recorder of its own to scheduler.Config.Metrics.
func ExampleRecorder() {
	s := &sums{by: make(map[string]float64)}
	processing := metrics.Scope{Recorder: s, Operation: "ProcessTask", Dimensions: []metrics.Dimension{metrics.Shard("shardId-000000000000")}}
	processing.Count("RecordsProcessed", 10, metrics.Summary)
	processing.Count("RecordsProcessed", 5, metrics.Summary)
	processing.Count("Trifle", 1, metrics.Detailed)
	fmt.Println(s.by)
	// Output: map[ProcessTask.RecordsProcessed:15]
}

type samples []metrics.Sample

func (s *samples) Record(m metrics.Sample) { *s = append(*s, m) }

func TestScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got samples
		dims := []metrics.Dimension{metrics.Worker("w"), metrics.Stream("s")}
		s := metrics.Scope{Recorder: &got, Operation: "Op", Dimensions: dims}
		start := time.Now()
		time.Sleep(1500 * time.Microsecond)
		s.Done("", start, nil, metrics.Summary)
		s.Done("X", start, errors.New("failed"), metrics.Detailed)
		s.Add("Size", 7, metrics.Bytes, metrics.Summary)
		want := func(name string, value float64, u metrics.Unit, l metrics.Level) metrics.Sample {
			return metrics.Sample{Operation: "Op", Name: name, Value: value, Unit: u, Level: l, Dimensions: dims}
		}
		assert.Equal(t, samples{
			want("Success", 1, metrics.Count, metrics.Summary), want("Time", 1.5, metrics.Milliseconds, metrics.Summary),
			want("X.Success", 0, metrics.Count, metrics.Detailed), want("X.Time", 1.5, metrics.Milliseconds, metrics.Detailed),
			want("Size", 7, metrics.Bytes, metrics.Summary),
		}, got)
		assert.Equal(t, []metrics.Dimension{{Name: "WorkerIdentifier", Value: "w"}, {Name: "StreamId", Value: "s"}}, dims)

		var zero metrics.Scope
		zero.Done("", start, nil, metrics.Summary)
		zero.Count("Nothing", 1, metrics.Summary)
		metrics.Discard.Record(metrics.Sample{})
	})
}
