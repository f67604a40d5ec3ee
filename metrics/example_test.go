package metrics_test

import (
	"fmt"
	"sync"

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
