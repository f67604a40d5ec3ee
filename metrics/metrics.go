// Package metrics is what the library's packages report figures to, and what a
// program implements to receive them. Names, units, levels and dimensions are
// those of the Java KCL, so that dashboards made for it go on working.
//
// A [Recorder] must not block: it is called from renewals and deliveries.
package metrics

import "time"

// Unit is a figure's unit, spelled as CloudWatch does.
type Unit string

// The units in use.
const (
	Count        Unit = "Count"
	Milliseconds Unit = "Milliseconds"
	Bytes        Unit = "Bytes"
)

// Level says how much a figure matters. KCL's metricsLevel drops what lies
// below it.
type Level uint8

// The levels, as in KCL.
const (
	Summary Level = iota
	Detailed
)

// Dimension is a name and value that a figure is split by, besides its
// operation.
type Dimension struct{ Name, Value string }

// The names of dimensions.
const (
	DimensionWorker = "WorkerIdentifier"
	DimensionShard  = "ShardId"
	DimensionStream = "StreamId"
)

// Worker, Shard and Stream make the dimensions in use.
func Worker(id string) Dimension { return Dimension{DimensionWorker, id} }

// Shard splits by shard id.
func Shard(id string) Dimension { return Dimension{DimensionShard, id} }

// Stream splits by serialized stream identifier.
func Stream(id string) Dimension { return Dimension{DimensionStream, id} }

// Sample is one figure.
type Sample struct {
	Operation  string // KCL's Operation dimension
	Name       string
	Value      float64
	Unit       Unit
	Level      Level
	Dimensions []Dimension // not to be kept or changed by the recorder
}

// Recorder takes samples. It must be safe for concurrent use and must return
// at once.
type Recorder interface {
	Record(Sample)
}

// Discard drops every sample.
var Discard Recorder = discard{}

type discard struct{}

func (discard) Record(Sample) {}

// Scope reports figures of one operation with the same dimensions. The zero
// Scope discards.
type Scope struct {
	Recorder   Recorder
	Operation  string
	Dimensions []Dimension
}

// Count reports a number of things.
func (s Scope) Count(name string, n float64, l Level) { s.Add(name, n, Count, l) }

// Add reports a figure.
func (s Scope) Add(name string, value float64, u Unit, l Level) {
	if s.Recorder == nil {
		return
	}
	s.Recorder.Record(Sample{Operation: s.Operation, Name: name, Value: value, Unit: u, Level: l, Dimensions: s.Dimensions})
}

// Done reports Success (1 or 0) and Time, in milliseconds since start, under
// prefix: "" gives "Success" and "Time", "X" gives "X.Success" and "X.Time".
func (s Scope) Done(prefix string, start time.Time, err error, l Level) {
	if s.Recorder == nil {
		return
	}
	if prefix != "" {
		prefix += "."
	}
	ok := 1.0
	if err != nil {
		ok = 0
	}
	s.Add(prefix+"Success", ok, Count, l)
	s.Add(prefix+"Time", float64(time.Since(start))/float64(time.Millisecond), Milliseconds, l)
}
