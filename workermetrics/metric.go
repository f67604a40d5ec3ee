package workermetrics

import "context"

// Metric is one figure of how busy this worker is. A program may bring its own,
// say the fill of a queue that its processors share. It belongs to one worker,
// and its methods are never called by two goroutines at once.
type Metric interface {
	// Name is its short name in the worker's record: [CPU], [Memory], [NetworkIn]
	// or [NetworkOut] for what these stand for, any other for a metric of one's
	// own, but not "", "T" or "THROUGHPUT". A leader compares each metric of a
	// worker with its average over the workers that have it, and goes by the
	// worst. The name must not change.
	Name() string
	// OperatingRange is the utilization in percent that the worker is to stay
	// below, from 1 to 100. 0 means 100. It must not change.
	OperatingRange() int
	// Capture returns the utilization now, in percent, from 0 to 100. An error,
	// a panic and any other number make no sample. A period without a sample
	// keeps leases away from the worker. ctx ends after half a capture period,
	// and half a second at most; a Capture that goes on is not called again
	// before it returns.
	//
	// The first value is not reported, for one that says how busy the worker was
	// since the call before has nothing to say yet.
	Capture(ctx context.Context) (percent float64, err error)
}

// WithOperatingRange returns m with another operating range, in percent, from 1
// to 100.
func WithOperatingRange(m Metric, percent int) Metric { return ranged{m, percent} }

type ranged struct {
	Metric
	percent int
}

func (r ranged) OperatingRange() int { return r.percent }

// kind is what this package's metrics have in common.
type kind string

func (k kind) Name() string      { return string(k) }
func (kind) OperatingRange() int { return 100 }
