package main

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

const (
	putBatch = 100
	// putTime is how long records are put for, at least: enough for a killed
	// worker's shards to be taken over while they still flow.
	putTime = 24 * time.Second
	// shardRate keeps well below the 1000 records a second that a shard takes.
	shardRate = 600
)

// producer puts records at a steady rate, with keys that spread over all shards.
type producer struct {
	client  *kinesis.Client
	ledger  *ledger
	records int
	size    int
	rng     *rand.Rand
	put     atomic.Int64
}

// run puts all records, or as many as ctx allows.
func (p *producer) run(ctx context.Context, shards int) error {
	rate := min(float64(p.records)/putTime.Seconds(), float64(shards*shardRate))
	every := time.Duration(float64(putBatch) / max(rate, 1) * float64(time.Second))
	tick := time.NewTicker(every)
	defer tick.Stop()
	for left := p.records; left > 0; {
		n := min(left, putBatch)
		entries := make([]types.PutRecordsRequestEntry, n)
		for i := range entries {
			entries[i] = p.entry()
		}
		if err := p.store(ctx, entries); err != nil {
			return err
		}
		left -= n
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// steady puts a record into each of the shards, loadRate times a second, until
// enough is closed.
func (p *producer) steady(ctx context.Context, shards int, enough <-chan struct{}) error {
	width := new(big.Int).Div(new(big.Int).Lsh(big.NewInt(1), 128), big.NewInt(int64(shards)))
	tick := time.NewTicker(time.Second / loadRate)
	defer tick.Stop()
	for {
		entries := make([]types.PutRecordsRequestEntry, shards)
		hash := new(big.Int).Rsh(width, 1) // the middle of a shard
		for i := range entries {
			entries[i] = p.entry()
			entries[i].ExplicitHashKey = aws.String(hash.String())
			hash.Add(hash, width)
		}
		if err := p.store(ctx, entries); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-enough:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (p *producer) entry() types.PutRecordsRequestEntry {
	data := make([]byte, p.size)
	for i := range data {
		data[i] = byte('a' + p.rng.IntN(26))
	}
	return types.PutRecordsRequestEntry{PartitionKey: aws.String(fmt.Sprintf("key-%d", p.rng.Uint32())), Data: data}
}

// store puts entries, those that a shard throttles again and again.
func (p *producer) store(ctx context.Context, entries []types.PutRecordsRequestEntry) error {
	for {
		out, err := p.client.PutRecords(ctx, &kinesis.PutRecordsInput{StreamName: aws.String(demoStream), Records: entries})
		if err != nil {
			return fmt.Errorf("put records: %w", err)
		}
		var again []types.PutRecordsRequestEntry
		for i, r := range out.Records {
			if r.ErrorCode != nil {
				again = append(again, entries[i])
				continue
			}
			p.ledger.stored(aws.ToString(r.ShardId), aws.ToString(r.SequenceNumber))
			p.put.Add(1)
		}
		if len(again) == 0 {
			return nil
		}
		entries = again
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
