package lease

import (
	"sync"

	"github.com/go-kcl/kcl/metrics"
)

// figures keeps the last value of each sample, by operation and name.
type figures struct {
	mu sync.Mutex
	// guarded by mu
	last map[string]float64
}

func (f *figures) Record(s metrics.Sample) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == nil {
		f.last = map[string]float64{}
	}
	f.last[s.Operation+" "+s.Name] = s.Value
}

func (f *figures) get(name string) (float64, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, ok := f.last[name]
	return v, ok
}
