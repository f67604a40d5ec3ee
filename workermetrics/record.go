package workermetrics

import (
	"slices"
	"time"
)

// The short names of metrics, as they stand in records.
const (
	CPU        = "C"
	Memory     = "M"
	NetworkIn  = "NI"
	NetworkOut = "NO"
)

// NoSample stands in [Load.Stats] for a period in which a metric gave no
// sample. As the newest value it makes every leader pass the worker over.
const NoSample = -1

// DefaultAlpha is the weight of the newest value in [Load.Average] unless
// configured. KCL: workerMetricsEMAAlpha.
const DefaultAlpha = 0.5

// maxValues is how many values a record keeps of each metric unless configured.
// KCL: noOfPersistedMetricsPerWorkerMetrics.
const maxValues = 10

// throughput is the short name by which leaders call the throughput of leases.
const throughput = "T"

// throughputKey in a record's stats asks for the throughput mode. It is the
// name of a KCL constant, not a metric's short name.
const throughputKey = "THROUGHPUT"

// Record is a worker's record.
type Record struct {
	Worker string
	// Legacy: it is in the table of KCL 3.0 to 3.4, not in the lease table. Set by
	// what reads it; [Store.Put] does not look at it.
	Legacy bool
	// Updated is when the worker wrote the record, by its own clock, in whole
	// seconds; zero if the record does not say.
	Updated time.Time
	Load
	// Support is the highest entry of KCL's list of features that the worker
	// knows, 0 for none, and SupportUpdated when it last said so, in whole
	// seconds; zero if the record does not say.
	Support        int
	SupportUpdated time.Time
}

// Load is how busy a worker is. The zero Load has neither map, which is not the
// same on the wire as two empty maps.
type Load struct {
	// Stats holds, by a metric's short name, its averages over the last periods
	// in percent, oldest first, or [NoSample].
	Stats map[string][]float64
	// OperatingRange holds, by a metric's short name, the utilization in percent
	// that the worker is to stay below. Only the first value counts.
	OperatingRange map[string][]int64
}

// Throughput reports whether the worker has no metrics, so that a leader that
// goes by load has only the throughput of its leases to go by.
func (l Load) Throughput() bool {
	if _, asked := l.Stats[throughputKey]; asked {
		return true
	}
	return len(l.Stats) == 0 && len(l.OperatingRange) == 0
}

// Valid reports whether a leader can use the record: it says when it was
// written, and every metric has an operating range.
func (r Record) Valid() bool {
	if r.Updated.IsZero() {
		return false
	}
	if r.Throughput() {
		return true
	}
	if r.Stats == nil || r.OperatingRange == nil {
		return false
	}
	for name := range r.Stats {
		if _, ok := r.OperatingRange[name]; !ok {
			return false
		}
	}
	for _, limits := range r.OperatingRange {
		if len(limits) == 0 || limits[0] == 0 {
			return false
		}
	}
	return true
}

// Failing reports whether the newest value of some metric is missing. A worker
// that drains says so of itself; nobody gives it leases.
func (l Load) Failing() bool {
	if l.Throughput() {
		return false
	}
	for _, values := range l.Stats {
		if n := len(values); n > 0 && values[n-1] == NoSample {
			return true
		}
	}
	return false
}

// Average returns the moving average of a metric's values in percent, in which the
// newest counts alpha, above 0 and at most 1, and all before it the rest. Values
// of [NoSample] are left out. It is false if there are no others.
func (l Load) Average(metric string, alpha float64) (average float64, ok bool) {
	for _, v := range l.Stats[metric] {
		switch {
		case v == NoSample:
		case !ok:
			average, ok = v, true
		default:
			average = alpha*v + (1-alpha)*average
		}
	}
	return average, ok
}

// Draining returns l as a worker reports it that wants no more leases: with
// [NoSample] as the newest value of [CPU]. It is all that a worker can say so
// that leaders of every KCL 3.x take it as alive and yet give it nothing.
func (l Load) Draining() Load {
	d := Load{
		Stats:          make(map[string][]float64, len(l.Stats)+1),
		OperatingRange: make(map[string][]int64, len(l.OperatingRange)+1),
	}
	for name, values := range l.Stats {
		d.Stats[name] = slices.Clone(values)
	}
	for name, limits := range l.OperatingRange {
		d.OperatingRange[name] = slices.Clone(limits)
	}
	values := append(d.Stats[CPU], NoSample)
	d.Stats[CPU] = values[max(0, len(values)-maxValues):]
	if len(d.OperatingRange[CPU]) == 0 {
		d.OperatingRange[CPU] = []int64{100}
	}
	return d
}
