package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/scheduler"
	"github.com/go-kcl/kcl/workermetrics"
)

// The shortest consumer: a function that is called with each batch. What it
// accepts, the library checkpoints.
func Example() {
	awscfg := exampleAWS("first", "second", "third")
	ctx, cancel := context.WithCancel(context.Background())

	s, err := scheduler.New(scheduler.Config{
		Application: "orders",                                           // names the lease table
		Streams:     kcl.SingleStream("orders-stream", kcl.TrimHorizon), // by name or ARN
		AWS:         awscfg,
		Handler: func(ctx context.Context, b *kcl.Batch) error {
			for _, r := range b.Records {
				fmt.Printf("%s\n", r.Data)
			}
			cancel() // enough for an example; a real consumer goes on
			return nil
		},
	})
	if err != nil {
		report(err)
		return
	}
	report(s.Run(ctx)) // blocks; cancelling ctx stops gracefully
	// Output:
	// first
	// second
	// third
}

// orders processes one shard and checkpoints by itself.
type orders struct {
	kcl.NopProcessor // for the callbacks that are not needed
	done             func()
}

func (o *orders) ProcessRecords(ctx context.Context, b *kcl.Batch) error {
	for _, r := range b.Records {
		fmt.Printf("%s\n", r.Data)
	}
	defer o.done()
	return b.Checkpoint(ctx) // the end of this batch
}

func (o *orders) ShutdownRequested(ctx context.Context, cp kcl.Checkpointer) error {
	fmt.Println("last chance to checkpoint")
	return cp.Checkpoint(ctx) // the last accepted batch's end
}

// A processor has the whole life of a shard in hand.
func Example_processor() {
	ctx, cancel := context.WithCancel(context.Background())
	s, err := scheduler.New(scheduler.Config{
		Application: "orders",
		Streams:     kcl.SingleStream("orders-stream", kcl.TrimHorizon),
		AWS:         exampleAWS("first", "second"),
		NewProcessor: func(ctx context.Context, shard kcl.ShardInfo) (kcl.RecordProcessor, error) {
			fmt.Println("acquired", shard.ShardID)
			return &orders{done: cancel}, nil
		},
	})
	if err != nil {
		report(err)
		return
	}
	report(s.Run(ctx))
	// Output:
	// acquired shardId-000000000000
	// first
	// second
	// last chance to checkpoint
}

// By default a batch that fails is delivered again, after a growing pause, for
// ever. OnFailure decides otherwise, here: three tries, then the batch is given
// up.
func Example_failurePolicy() {
	ctx, cancel := context.WithCancel(context.Background())
	s, err := scheduler.New(scheduler.Config{
		Application: "orders",
		Streams:     kcl.SingleStream("orders-stream", kcl.TrimHorizon),
		AWS:         exampleAWS("poison"),
		Handler: func(ctx context.Context, b *kcl.Batch) error {
			return errors.New("cannot parse")
		},
		OnFailure: func(f kcl.Failure) kcl.Action {
			fmt.Printf("attempt %d of %s: %v\n", f.Attempt, f.Callback, f.Err)
			if f.Attempt < 3 {
				return kcl.RetryAfter(10 * time.Millisecond)
			}
			cancel()
			return kcl.Skip
		},
	})
	if err != nil {
		report(err)
		return
	}
	report(s.Run(ctx))
	// Output:
	// attempt 1 of ProcessRecords: cannot parse
	// attempt 2 of ProcessRecords: cannot parse
	// attempt 3 of ProcessRecords: cannot parse
}

// kcl.FailedAt says how far a batch was processed, so that a retry starts there.
func Example_partialFailure() {
	ctx, cancel := context.WithCancel(context.Background())
	broken := true
	s, err := scheduler.New(scheduler.Config{
		Application: "orders",
		Streams:     kcl.SingleStream("orders-stream", kcl.TrimHorizon),
		AWS:         exampleAWS("first", "second", "third"),
		Handler: func(ctx context.Context, b *kcl.Batch) error {
			for _, r := range b.Records {
				if string(r.Data) == "second" && broken {
					broken = false
					return kcl.FailedAt(r.Position, errors.New("database is down"))
				}
				fmt.Printf("%s\n", r.Data)
			}
			cancel()
			return nil
		},
	})
	if err != nil {
		report(err)
		return
	}
	report(s.Run(ctx))
	// Output:
	// first
	// second
	// third
}

// Shutdown stops a worker and bounds how long that may take.
func ExampleScheduler_Shutdown() {
	s, err := scheduler.New(scheduler.Config{
		Application: "orders",
		Streams:     kcl.SingleStream("orders-stream", kcl.TrimHorizon),
		AWS:         exampleAWS(),
		Handler:     func(context.Context, *kcl.Batch) error { return nil },
	})
	if err != nil {
		report(err)
		return
	}
	ran := make(chan error, 1)
	go func() { ran <- s.Run(context.Background()) }()
	<-s.Ready()
	fmt.Println("ready")

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	report(s.Shutdown(ctx))
	report(<-ran)
	fmt.Println(s.Status().State)
	// Output:
	// ready
	// SHUT_DOWN
}

// Status says what a worker does and, for each lease, why nothing is delivered.
func ExampleScheduler_Status() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	processed := make(chan struct{}, 1)
	s, err := scheduler.New(scheduler.Config{
		Application: "orders", WorkerIdentifier: "worker-1",
		Streams: kcl.SingleStream("orders-stream", kcl.TrimHorizon),
		AWS:     exampleAWS("only one"),
		Handler: func(context.Context, *kcl.Batch) error { processed <- struct{}{}; return nil },
	})
	if err != nil {
		report(err)
		return
	}
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	<-processed
	st := s.Status()
	for len(st.Leases) == 1 && st.Leases[0].State != "reading" {
		time.Sleep(time.Millisecond)
		st = s.Status()
	}
	fmt.Println(st.Worker, st.State, "leading:", st.Leading)
	for _, l := range st.Leases {
		fmt.Println(l.Shard, l.State+":", l.Waiting)
	}
	cancel()
	report(<-ran)
	// Output:
	// worker-1 STARTED leading: true
	// shardId-000000000000 reading: no new records
}

// The first of the two deployments that move an application of KCL 3.0 to 3.4 into
// one table, and what there is to watch. The second, once the status is
// TABLE_MIGRATION_STATUS_DEPLOYED, has MigrateAllEntitiesToLeaseTable set. See
// docs/single-table-migration.md.
func ExampleTableMigrationStatus() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	awscfg := exampleAWS("a record")
	exampleLegacyTables(awscfg, "orders")
	s, err := scheduler.New(scheduler.Config{
		Application: "orders",
		Streams:     kcl.SingleStream("orders-stream", kcl.TrimHorizon),
		AWS:         awscfg,
		Handler:     func(context.Context, *kcl.Batch) error { return nil },
	})
	if err != nil {
		report(err)
		return
	}
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	<-s.Ready()
	m := s.Status().TableMigration
	for ; m.Stored == "" || m.Waiting == ""; m = s.Status().TableMigration {
		time.Sleep(10 * time.Millisecond)
	}
	waiting, _, _ := strings.Cut(m.Waiting, " until ") // a time
	fmt.Println(m.Stored)
	fmt.Println(waiting)
	cancel()
	report(<-ran)
	// Output:
	// TABLE_MIGRATION_STATUS_INIT
	// every lease owner knows the migration; it is left so
}

// queueFill measures a worker by the fill of the queue that its processors put
// work into, beside its CPU.
type queueFill chan []byte

func (queueFill) Name() string        { return "Q" }
func (queueFill) OperatingRange() int { return 80 } // more than this, and leases go elsewhere

func (q queueFill) Capture(context.Context) (float64, error) {
	return 100 * float64(len(q)) / float64(cap(q)), nil
}

// What a worker is measured by. The leader evens each metric over the workers
// that report it, and goes by the worst.
func ExampleWorkerUtilizationConfig() {
	awscfg := exampleAWS("first")
	ctx, cancel := context.WithCancel(context.Background())
	queue := make(queueFill, 100)

	s, err := scheduler.New(scheduler.Config{
		Application: "orders",
		Streams:     kcl.SingleStream("orders-stream", kcl.TrimHorizon),
		AWS:         awscfg,
		Handler: func(ctx context.Context, b *kcl.Batch) error {
			for _, r := range b.Records {
				queue <- r.Data
			}
			fmt.Println(len(queue), "queued")
			cancel()
			return nil
		},
		Leases: scheduler.LeaseConfig{
			WorkerUtilization: scheduler.WorkerUtilizationConfig{
				WorkerMetrics: []workermetrics.Metric{
					workermetrics.NewLinuxCPU(workermetrics.Host{}),
					queue,
				},
			},
		},
	})
	if err != nil {
		report(err)
		return
	}
	report(s.Run(ctx))
	// Output: 1 queued
}
