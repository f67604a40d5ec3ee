package consumer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/retrieval"
	"github.com/go-kcl/kcl/lease"
)

// canned answers GetRecords with what answer says.
type canned struct {
	retrieval.Client
	answer func(context.Context) (*kinesis.GetRecordsOutput, error)
}

func (canned) GetShardIterator(context.Context, *kinesis.GetShardIteratorInput, ...func(*kinesis.Options)) (*kinesis.GetShardIteratorOutput, error) {
	return &kinesis.GetShardIteratorOutput{ShardIterator: aws.String("iterator")}, nil
}

func (c canned) GetRecords(ctx context.Context, _ *kinesis.GetRecordsInput, _ ...func(*kinesis.Options)) (*kinesis.GetRecordsOutput, error) {
	return c.answer(ctx)
}

// quiet is a lease table and a set of held leases that agree to everything.
type quiet struct{}

func (quiet) Confirm(context.Context, string, string) error                       { return nil }
func (quiet) Delivered(string, string, int)                                       {}
func (quiet) Checkpoint(context.Context, string, string, kcl.Position) error      { return nil }
func (quiet) Prepare(context.Context, string, string, kcl.Position, []byte) error { return nil }
func (quiet) Accept(string, string, kcl.Position)                                 {}
func (quiet) Flush(context.Context, string, string) error                         { return nil }
func (quiet) Transfer(context.Context, string, string) error                      { return lease.ErrNoHandOff }
func (quiet) Release(context.Context, string, string) error                       { return nil }
func (quiet) Drop(string, string)                                                 {}
func (quiet) Create(context.Context, lease.Lease) (bool, error)                   { return true, nil }
func (quiet) SetChildren(context.Context, string, []string) error                 { return nil }
func (quiet) GetConsistent(_ context.Context, key string) (lease.Lease, bool, error) {
	return lease.Lease{Key: key, ShardID: key, Checkpoint: kcl.AtTrimHorizon}, true, nil
}

type quietLeases struct{ quiet }

func (quietLeases) Get(string) (lease.Lease, bool) { return lease.Lease{}, false }

type quietStore struct{ quiet }

func (quietStore) Get(context.Context, string) (lease.Lease, bool, error) {
	return lease.Lease{}, false, nil
}

func quietConfig(c retrieval.Client, handle func(context.Context, *kcl.Batch) error) Config {
	reader := retrieval.NewReader(retrieval.Config{Client: c, IdleTime: 1, BytesPerSecond: -1})
	return Config{
		Leases: quietLeases{}, Store: quietStore{}, Handler: handle,
		Open: func(ctx context.Context, s retrieval.Shard) Source { return reader.Open(ctx, s) },
	}
}

func quietConsumer(cfg Config, key string) *Consumer {
	return New(cfg, kcl.StreamConfig{Stream: kcl.StreamIdentifier{Name: "orders"}}, lease.Lease{Key: key, ShardID: key, Token: key})
}

// One operation is one record of 1 KiB, in responses of 1,000, from the SDK's
// answer to the processor.
func BenchmarkRecordToProcessor(b *testing.B) {
	const perResponse = 1000
	n := 0
	client := canned{answer: func(ctx context.Context) (*kinesis.GetRecordsOutput, error) {
		out := &kinesis.GetRecordsOutput{NextShardIterator: aws.String("next"), MillisBehindLatest: aws.Int64(0)}
		for range perResponse {
			n++
			out.Records = append(out.Records, types.Record{
				SequenceNumber: aws.String("4959033827149025660855969253836157109592157598" + strconv.Itoa(1e9+n)),
				PartitionKey:   aws.String("key"), Data: payload, ApproximateArrivalTimestamp: aws.Time(time.Now()),
			})
		}
		return out, nil
	}}
	// What making the SDK's answer costs is measured first and taken off.
	start := time.Now()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		_, _ = client.answer(b.Context())
	}
	runtime.ReadMemStats(&after)
	setUp := time.Since(start) / (100 * perResponse)
	setUpBytes := float64(after.TotalAlloc-before.TotalAlloc) / (100 * perResponse)

	handled := 0
	done := make(chan struct{})
	c := quietConsumer(quietConfig(client, func(_ context.Context, batch *kcl.Batch) error {
		if handled < b.N && handled+len(batch.Records) >= b.N {
			close(done)
		}
		handled += len(batch.Records)
		return nil
	}), "shardId-000000000000")
	b.SetBytes(1024)
	runtime.ReadMemStats(&before)
	b.ResetTimer()
	ctx, stop := context.WithCancel(b.Context())
	finished := make(chan Result)
	go func() { finished <- c.Run(ctx) }()
	<-done
	b.StopTimer()
	stop()
	<-finished
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(setUp), "sdk-ns/op")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(handled)-setUpBytes, "own-B/op")
}

var payload = make([]byte, 1024)

// What a thousand idle consumers cost, each waiting for the answer to a call.
func BenchmarkIdleConsumer(b *testing.B) {
	client := canned{answer: func(ctx context.Context) (*kinesis.GetRecordsOutput, error) {
		<-ctx.Done()
		return nil, errors.New("cancelled")
	}}
	cfg := quietConfig(client, func(context.Context, *kcl.Batch) error { return nil })
	for range b.N {
		const consumers = 1000
		goroutines, bytes := usage()
		ctx, stop := context.WithCancel(b.Context())
		var running sync.WaitGroup
		all := make([]*Consumer, consumers)
		for i := range all {
			all[i] = quietConsumer(cfg, fmt.Sprintf("shardId-%012d", i))
			running.Go(func() { all[i].Run(ctx) })
		}
		for _, c := range all {
			for c.Status().State != StateReading {
				runtime.Gosched()
			}
		}
		g, m := usage()
		stop()
		running.Wait()
		require.LessOrEqual(b, g-goroutines, 2*consumers+100)
		b.ReportMetric(float64(g-goroutines)/consumers, "goroutines/consumer")
		b.ReportMetric(float64(m-bytes)/consumers, "B/consumer")
	}
}

// usage returns the number of goroutines and the bytes of heap and stacks in
// use.
func usage() (goroutines int, bytes int64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), int64(m.HeapAlloc + m.StackInuse)
}
