package processortest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/kcltest/processortest"
)

// totals adds up what it is given, and fails once.
type totals struct {
	kcl.NopProcessor
	bytes  int
	failed bool
}

func (p *totals) ProcessRecords(ctx context.Context, b *kcl.Batch) error {
	for i, r := range b.Records {
		if string(r.Data) == "bad" && !p.failed {
			p.failed = true
			return kcl.FailedAt(b.Records[i].Position, errors.New("try again"))
		}
		p.bytes += len(r.Data)
	}
	return b.Checkpoint(ctx)
}

// A processor is driven through a failure and a crash.
func Example() {
	ctx := context.Background()
	shard := processortest.NewShard()
	shard.Put("one", "bad", "three")

	first := &totals{}
	tenure := shard.Acquire(first)
	fmt.Println(tenure.Initialize(ctx))
	fmt.Println(tenure.Deliver(ctx, 2) != nil, first.bytes)
	fmt.Println(tenure.Deliver(ctx, 2), first.bytes) // from "bad" on
	fmt.Println(shard.DataAt(shard.Checkpoint()))

	second := &totals{} // on another worker, after a crash of the first
	tenure = shard.Acquire(second)
	fmt.Println(tenure.Initialize(ctx))
	fmt.Println(tenure.Deliver(ctx, 0), second.bytes)
	// Output:
	// <nil>
	// true 3
	// <nil> 6
	// bad
	// <nil>
	// <nil> 5
}
