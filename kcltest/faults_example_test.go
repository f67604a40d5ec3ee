package kcltest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/scheduler"
)

// bill runs a worker until process, which is what is under test, calls stop.
func bill(cfg aws.Config, process func(ctx context.Context, b *kcl.Batch, stop func()) error) {
	ctx, stop := context.WithTimeout(context.Background(), 8*time.Minute)
	defer stop()
	worker, err := scheduler.New(scheduler.Config{
		Application: "billing",
		Streams:     kcl.SingleStream("orders", kcl.TrimHorizon),
		AWS:         cfg,
		Logger:      slog.New(slog.DiscardHandler),
		Leases:      scheduler.LeaseConfig{FailoverTime: time.Second}, // to lose a lease soon
		Handler:     func(ctx context.Context, b *kcl.Batch) error { return process(ctx, b, stop) },
	})
	if err == nil {
		err = worker.Run(ctx)
	}
	if err != nil {
		fmt.Println(err)
	}
}

// A read is throttled, and an iterator expires: records come all the same. Other
// errors are had in the same way, by their Code.
func ExampleAWS_Inject() {
	emulated := ordersOf("an order")
	throttled := emulated.Inject(kcltest.Fault{
		Operations: []string{"GetRecords"}, Times: 1,
		Effect: kcltest.Refuse, Code: "ProvisionedThroughputExceededException",
	})
	expired := emulated.Inject(kcltest.Fault{
		Operations: []string{"GetRecords"}, Times: 1,
		Effect: kcltest.Refuse, Code: "ExpiredIteratorException",
	})
	bill(emulated.Config("worker"), func(_ context.Context, b *kcl.Batch, stop func()) error {
		fmt.Printf("%s\n", b.Records[0].Data)
		stop()
		return nil
	})
	fmt.Println("throttled:", throttled.Hits(), "expired:", expired.Hits())
	// Output:
	// an order
	// throttled: 1 expired: 1
}

// A checkpoint is stored, but the worker does not hear of it.
func ExampleAWS_Inject_lostAnswer() {
	emulated := ordersOf("an order")
	bill(emulated.Config("worker"), func(ctx context.Context, b *kcl.Batch, stop func()) error {
		defer stop()
		lost := emulated.Inject(kcltest.Fault{
			Resources: []string{"billing"}, Operations: []string{"UpdateItem"}, Times: 1,
			Effect: kcltest.LoseAnswer,
		})
		err := b.Checkpoint(ctx)
		fmt.Println("answers lost:", lost.Hits(), "error:", err)
		return err
	})
	// Output:
	// answers lost: 1 error: <nil>
}

// A worker is cut off from its leases while it processes: the batch's context ends,
// and nothing is checkpointed. When the worker is back, it gets the batch again.
func ExampleAWS_Inject_cutOff() {
	emulated := ordersOf("an order")
	attempt := 0
	bill(emulated.Config("worker"), func(ctx context.Context, b *kcl.Batch, stop func()) error {
		attempt++
		fmt.Printf("%s, attempt %d\n", b.Records[0].Data, attempt)
		if attempt > 1 {
			stop()
			return nil
		}
		cut := emulated.Inject(kcltest.Fault{Clients: []string{"worker"}, Services: []string{"dynamodb"}, Effect: kcltest.Break})
		<-ctx.Done()
		cut.Remove()
		fmt.Println(errors.Is(context.Cause(ctx), kcl.ErrLeaseLost), errors.Is(b.Checkpoint(context.WithoutCancel(ctx)), kcl.ErrLeaseLost))
		return ctx.Err()
	})
	// Output:
	// an order, attempt 1
	// true true
	// an order, attempt 2
}

// A client is frozen: of its calls one has been carried out, the others have not.
// When it thaws they go on, though one caller has given up meanwhile.
func ExampleAWS_Inject_frozen() {
	emulated := ordersOf()
	frozen := []*kcltest.Injection{
		emulated.Inject(kcltest.Fault{Clients: []string{"worker"}, Effect: kcltest.FreezeAnswer, Times: 1}),
		emulated.Inject(kcltest.Fault{Clients: []string{"worker"}, Effect: kcltest.Freeze}),
	}
	client := kinesis.NewFromConfig(emulated.Config("worker"), func(o *kinesis.Options) { o.Retryer = aws.NopRetryer{} })
	put := func(ctx context.Context, data string) error {
		_, err := client.PutRecord(ctx, &kinesis.PutRecordInput{StreamName: aws.String("orders"), PartitionKey: aws.String("customer 7"), Data: []byte(data)})
		return err
	}
	stored := func() (n int) {
		for _, s := range emulated.Shards("orders") {
			n += len(s.Records)
		}
		return n
	}

	first := make(chan error)
	go func() { first <- put(context.Background(), "an order") }()
	for frozen[0].Hits() == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	err := put(ctx, "another one")
	fmt.Println("stored:", stored(), "gave up:", errors.Is(err, context.DeadlineExceeded))

	for _, f := range frozen {
		f.Remove()
	}
	fmt.Println("answered:", <-first)
	for stored() < 2 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("stored:", stored())
	// Output:
	// stored: 1 gave up: true
	// answered: <nil>
	// stored: 2
}

// A fault is a plain value: one is made of another, and a list of them is a bad day.
func ExampleFault() {
	emulated := ordersOf("an order")
	worker := kcltest.Fault{Clients: []string{"worker"}, Skip: 2, Times: 2}
	refused, lost, slow := worker, worker, worker
	refused.Effect, refused.Code = kcltest.Refuse, "InternalFailure"
	lost.Effect = kcltest.LoseAnswer
	slow.Effect, slow.Delay, slow.Times = kcltest.Slow, 20*time.Millisecond, 0
	for _, f := range []kcltest.Fault{refused, lost, slow} {
		emulated.Inject(f)
	}
	bill(emulated.Config("worker"), func(_ context.Context, b *kcl.Batch, stop func()) error {
		fmt.Printf("%s\n", b.Records[0].Data)
		stop()
		return nil
	})
	// Output:
	// an order
}

// A worker of two freezes for two minutes, some of its calls carried out and some not:
// the other one takes over, and no record is lost, whatever lands when it thaws.
func TestFrozenWorkerOfAFleet(t *testing.T) {
	for name, connect := range map[string]func(*testing.T, *kcltest.AWS) func(string) aws.Config{
		"in memory": func(_ *testing.T, emulated *kcltest.AWS) func(string) aws.Config { return emulated.Config },
		"over HTTP": overHTTP,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				emulated := ordersOf()
				config := connect(t, emulated)
				ctx, stop := context.WithCancel(t.Context())
				var mu sync.Mutex
				handled := map[string][]string{} // workers, by record
				ended := make(chan error, 2)
				for n := range 2 {
					name := fmt.Sprint("worker ", n)
					worker, err := scheduler.New(scheduler.Config{
						Application: "billing",
						Streams:     kcl.SingleStream("orders", kcl.TrimHorizon),
						AWS:         config(name),
						Logger:      slog.New(slog.DiscardHandler),
						Handler: func(_ context.Context, b *kcl.Batch) error {
							mu.Lock()
							defer mu.Unlock()
							for _, r := range b.Records {
								handled[string(r.Data)] = append(handled[string(r.Data)], name)
							}
							return nil
						},
					})
					require.NoError(t, err)
					go func() { ended <- worker.Run(ctx) }()
				}
				producer := kinesis.NewFromConfig(emulated.Config("producer"))
				var frozen *kcltest.Injection
				const seconds = 300
				for n := range seconds {
					if n == 60 {
						f := kcltest.Fault{Clients: []string{"worker 0"}, For: 2 * time.Minute, Effect: kcltest.FreezeAnswer, Chance: 0.5}
						emulated.Inject(f)
						f.Effect, f.Chance = kcltest.Freeze, 0
						frozen = emulated.Inject(f)
					}
					_, err := producer.PutRecord(t.Context(), &kinesis.PutRecordInput{StreamName: aws.String("orders"), PartitionKey: aws.String(fmt.Sprint(n)), Data: []byte(fmt.Sprint(n))})
					require.NoError(t, err)
					time.Sleep(time.Second)
				}
				time.Sleep(10 * time.Second)
				stop()
				assert.NoError(t, <-ended)
				assert.NoError(t, <-ended)
				assert.Positive(t, frozen.Hits())
				assert.Len(t, handled, seconds)
				for n := 100; n < 170; n++ {
					assert.Contains(t, handled[fmt.Sprint(n)], "worker 1", n)
				}
				both := 0
				for n := 250; n < seconds; n++ {
					both |= map[string]int{"worker 0": 1, "worker 1": 2}[handled[fmt.Sprint(n)][0]]
				}
				assert.Equal(t, 3, both, "the thawed worker works again")
			})
		})
	}
}

// What time brings about needs no fault in a bubble: here the first order is trimmed
// before a worker comes, and the worker's iterators expire while its reads hang.
func TestTrimmedRecordsAndExpiredIterators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var expired atomic.Int64
		emulated := kcltest.New(kcltest.Options{OnCall: func(c kcltest.Call) {
			if c.Code == "ExpiredIteratorException" {
				expired.Add(1)
			}
		}})
		require.NoError(t, emulated.CreateStream("orders", 1))
		producer := kinesis.NewFromConfig(emulated.Config("producer"))
		put := func(data string) {
			_, err := producer.PutRecord(t.Context(), &kinesis.PutRecordInput{StreamName: aws.String("orders"), PartitionKey: aws.String("customer 7"), Data: []byte(data)})
			assert.NoError(t, err)
		}
		put("trimmed")
		time.Sleep(25 * time.Hour)
		put("an order")
		var handled []string
		bill(emulated.Config("worker"), func(_ context.Context, b *kcl.Batch, stop func()) error {
			for _, r := range b.Records {
				handled = append(handled, string(r.Data))
			}
			if len(handled) > 1 {
				stop()
				return nil
			}
			emulated.Inject(kcltest.Fault{Clients: []string{"worker"}, Operations: []string{"GetRecords"}, Effect: kcltest.Freeze, For: 6 * time.Minute})
			put("another one")
			return nil
		})
		assert.Equal(t, []string{"an order", "another one"}, handled)
		assert.Positive(t, expired.Load())
	})
}
