package testbed

import (
	"slices"
	"sync"

	"github.com/go-kcl/kcl/metrics"
)

// Figures keeps what was measured. It is a [metrics.Recorder].
type Figures struct {
	mu  sync.Mutex
	all []metrics.Sample // guarded by mu
}

// Record implements [metrics.Recorder].
func (f *Figures) Record(s metrics.Sample) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.Dimensions = slices.Clone(s.Dimensions)
	f.all = append(f.all, s)
}

// All returns every sample, in order.
func (f *Figures) All() []metrics.Sample {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.all)
}

// Values returns the values of one figure of an operation, in order.
func (f *Figures) Values(operation, name string) (values []float64) {
	for _, s := range f.All() {
		if s.Operation == operation && s.Name == name {
			values = append(values, s.Value)
		}
	}
	return values
}

// Reset forgets all samples.
func (f *Figures) Reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = nil
}
