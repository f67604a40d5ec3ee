package kcltest

import (
	"fmt"
	"io"
	"time"

	"github.com/go-kcl/kcl/internal/emu/dynamodb"
	"github.com/go-kcl/kcl/internal/emu/kinesis"
	"github.com/go-kcl/kcl/internal/emu/wire"
)

func dynamoConfig(o Options) dynamodb.Config {
	c := dynamodb.Config{Seed: o.Seed, Lag: dynamodb.Lag{Read: o.StaleReads, Index: o.IndexLag}}
	switch o.Delays {
	case NoDelays:
		c.Timing = &dynamodb.Timing{}
	case RealDelays:
		t := dynamodb.RealTiming()
		c.Timing = &t
	}
	return c
}

func kinesisConfig(o Options) kinesis.Config {
	c := kinesis.Config{NoLimits: o.NoThrottling}
	switch o.Delays {
	case NoDelays:
		c.CreateDuration, c.UpdateDuration = time.Nanosecond, time.Nanosecond
	case RealDelays:
		c.CreateDuration, c.DeleteDuration = 20*time.Second, 20*time.Second
		c.ReshardDuration, c.UpdateDuration = 30*time.Second, 10*time.Second
	}
	return c
}

// newKinesis makes the service from one of our own presets, which are valid.
func newKinesis(c kinesis.Config) *kinesis.Service {
	s, err := kinesis.New(c)
	if err != nil {
		panic(fmt.Sprintf("kcltest: %v", err))
	}
	return s
}

// SetLag changes StaleReads and IndexLag of the running service.
func (a *AWS) SetLag(staleReads, index time.Duration) {
	a.dynamodb.SetLag(dynamodb.Lag{Read: staleReads, Index: index})
}

// CreateStream makes a provisioned stream, ACTIVE at once, in the default
// account and region, whatever the quotas say. The error names what is out of
// bounds, or says that the name is taken.
func (a *AWS) CreateStream(name string, shards int) error {
	return a.kinesis.Create(kinesis.StreamSpec{
		Account: a.opts.Account, Region: a.opts.Region, Name: name, Shards: shards,
	})
}

// StoredShard is a shard and what it holds.
type StoredShard struct {
	ID string
	// Parents are none, the one after a split, or the two after a merge.
	Parents []string
	Closed  bool
	// Records are in the order of their sequence numbers.
	Records []StoredRecord
}

// StoredRecord is a record as a stream holds it.
type StoredRecord struct {
	SequenceNumber string
	PartitionKey   string
	// Data must not be written to.
	Data    []byte
	Arrived time.Time
}

// Shards returns what a stream of the default account and region holds: shards
// that have not expired, records that have not been trimmed. It is nil for a
// stream that does not exist. It is no call, and so not counted.
func (a *AWS) Shards(stream string) []StoredShard {
	shards, ok := a.kinesis.Shards(a.opts.Account, a.opts.Region, stream)
	if !ok {
		return nil
	}
	out := make([]StoredShard, len(shards))
	for i, s := range shards {
		out[i] = StoredShard{ID: s.ID, Parents: s.Parents, Closed: s.Closed, Records: make([]StoredRecord, len(s.Records))}
		for j, r := range s.Records {
			out[i].Records[j] = StoredRecord(r)
		}
	}
	return out
}

// LoadTables puts tables, written by [AWS.DumpTables], in place of those of the
// same names in the default account and region.
func (a *AWS) LoadTables(r io.Reader) error { return a.dynamodb.Load(a.home(), r) }

// DumpTables writes the named tables of the default account and region, or all
// of them, as one JSON object: for each table its description and its items.
func (a *AWS) DumpTables(w io.Writer, names ...string) error {
	return a.dynamodb.Dump(a.home(), w, names...)
}

func (a *AWS) home() wire.Caller {
	return wire.Caller{Account: a.opts.Account, Region: a.opts.Region}
}
