package kcltest_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/scheduler"
)

// ordersOf returns an emulated AWS with a stream that holds records.
func ordersOf(records ...string) *kcltest.AWS {
	emulated := kcltest.New(kcltest.Options{Delays: kcltest.NoDelays})
	if err := emulated.CreateStream("orders", 2); err != nil {
		panic(err)
	}
	producer := kinesis.NewFromConfig(emulated.Config("producer"))
	for _, data := range records {
		_, err := producer.PutRecord(context.Background(), &kinesis.PutRecordInput{
			StreamName: aws.String("orders"), PartitionKey: aws.String("customer 7"), Data: []byte(data),
		})
		if err != nil {
			panic(err)
		}
	}
	return emulated
}

// A worker consumes a stream of the emulated AWS, to which it is a client like
// any other. In a test, run the same within [synctest.Test]: then the seconds that
// the worker waits take no time.
func Example() {
	emulated := ordersOf("an order", "another one")
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	worker, err := scheduler.New(scheduler.Config{
		Application: "billing",
		Streams:     kcl.SingleStream("orders", kcl.TrimHorizon),
		AWS:         emulated.Config("worker"),
		Logger:      slog.New(slog.DiscardHandler),
		Handler: func(_ context.Context, b *kcl.Batch) error {
			for _, r := range b.Records {
				fmt.Printf("%s\n", r.Data)
			}
			stop()
			return nil
		},
	})
	if err == nil {
		err = worker.Run(ctx)
	}
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println("ListShards calls:", emulated.Count("ListShards"))
	// Output:
	// an order
	// another one
	// ListShards calls: 1
}

// The same as a test: ten minutes of a fleet of three, with all its polls,
// in a moment.
func TestTenMinutesOfAFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		emulated := ordersOf("an order", "another one")
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
		defer stop()
		handled := make(chan string, 10)
		ended := make(chan error, 3)
		for n := range 3 {
			worker, err := scheduler.New(scheduler.Config{
				Application: "billing",
				Streams:     kcl.SingleStream("orders", kcl.TrimHorizon),
				AWS:         emulated.Config(fmt.Sprint("worker ", n)),
				Logger:      slog.New(slog.DiscardHandler),
				Handler: func(_ context.Context, b *kcl.Batch) error {
					for _, r := range b.Records {
						handled <- string(r.Data)
					}
					return nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			go func() { ended <- worker.Run(ctx) }()
		}
		for range 3 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		close(handled)
		var got []string
		for data := range handled {
			got = append(got, data)
		}
		if want := "[an order another one]"; fmt.Sprint(got) != want {
			t.Errorf("handled %v, want %s", got, want)
		}
	})
}
