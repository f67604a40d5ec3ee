package kcl_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-kcl/kcl"
)

// batchOf makes a batch as a worker hands it out.
func batchOf(data ...string) *kcl.Batch {
	b := new(kcl.Batch)
	for i, d := range data {
		b.Records = append(b.Records, kcl.Record{Position: kcl.Position{SequenceNumber: fmt.Sprint(101 + i)}, Data: []byte(d)})
	}
	return b
}

// A handler that could not do the whole batch says how far it came: what lies
// before is done, and a retry begins with the record that failed.
func ExampleFailedAt() {
	handle := func(_ context.Context, b *kcl.Batch) error {
		for _, r := range b.Records {
			if string(r.Data) == "?" {
				return kcl.FailedAt(r.Position, errors.New("cannot parse"))
			}
		}
		return nil
	}
	err := handle(context.Background(), batchOf("a", "b", "?", "d"))
	fmt.Println(err)
	at, known := kcl.FailurePosition(err)
	fmt.Println(at, known)
	// Output:
	// at 103: cannot parse
	// 103 true
}

// A position can be kept as text, beside what was made of the record.
func ExampleParsePosition() {
	stored := kcl.Position{SequenceNumber: "49546986683135544286507457936321625675700192471156785154", SubSequenceNumber: 3}.String()
	fmt.Println(stored)
	p, err := kcl.ParsePosition(stored)
	fmt.Println(p.SubSequenceNumber, err)
	_, err = kcl.ParsePosition("yesterday")
	fmt.Println(err)
	// Output:
	// 49546986683135544286507457936321625675700192471156785154:3
	// 3 <nil>
	// invalid position: "yesterday" is neither a sequence number nor a sentinel
}

// Positions of one shard have an order, in which the sentinels have a place.
func ExamplePosition_Compare() {
	first := kcl.Position{SequenceNumber: "99"}
	next := kcl.Position{SequenceNumber: "100"}
	fmt.Println(first.Compare(next), next.Compare(next), kcl.ShardEnd.Compare(next), kcl.AtTrimHorizon.Compare(first))
	// Output: -1 0 1 -1
}

// What Config.OnFailure may answer: a record that cannot be parsed never can be,
// anything else may pass.
func ExampleFailure() {
	errParse := errors.New("cannot parse")
	onFailure := func(f kcl.Failure) kcl.Action {
		switch {
		case errors.Is(f.Err, errParse):
			return kcl.Skip
		case f.Attempt < 10:
			return kcl.RetryAfter(time.Second)
		default:
			return kcl.StopWorker
		}
	}
	fmt.Println(onFailure(kcl.Failure{Err: kcl.FailedAt(kcl.Position{SequenceNumber: "103"}, errParse), Attempt: 1}))
	fmt.Println(onFailure(kcl.Failure{Err: errors.New("database is down"), Attempt: 1}))
	fmt.Println(onFailure(kcl.Failure{Err: errors.New("database is down"), Attempt: 10}))
	// Output:
	// skip
	// retry after 1s
	// stop worker
}

// counter needs but one callback.
type counter struct {
	kcl.NopProcessor
	records int
}

func (c *counter) ProcessRecords(ctx context.Context, b *kcl.Batch) error {
	c.records += len(b.Records)
	return b.Checkpoint(ctx)
}

// A processor embeds NopProcessor for the callbacks that it doesn't need.
func ExampleNopProcessor() {
	var factory kcl.ProcessorFactory = func(context.Context, kcl.ShardInfo) (kcl.RecordProcessor, error) {
		return new(counter), nil
	}
	p, err := factory(context.Background(), kcl.ShardInfo{ShardID: "shardId-000000000000"})
	fmt.Println(p.ShardEnded(context.Background()), err)
	// Output: <nil> <nil>
}

// A stream is given by its name or its ARN; one of another account needs its ARN.
func ExampleSingleStream() {
	for _, name := range []string{"orders", "arn:aws:kinesis:us-east-1:123456789012:stream/orders", ""} {
		streams, err := kcl.SingleStream(name, kcl.TrimHorizon).Streams(context.Background())
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(streams[0].Stream, "of", streams[0].Stream.AccountID, "from", streams[0].Position)
	}
	// Output:
	// orders of  from TRIM_HORIZON
	// orders of 123456789012 from TRIM_HORIZON
	// stream "": stream name is empty
}
