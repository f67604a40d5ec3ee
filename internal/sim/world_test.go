package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/ddb"
)

const (
	retention = 24 * time.Hour
	maxShards = 16
)

// feed is what producers put, and how often.
type feed struct {
	pattern string
	every   time.Duration
	records int // at a time
}

// within returns how many records come within d, rounded up.
func (f feed) within(d time.Duration) int { return f.records * (1 + int(d/f.every)) }

func (f feed) String() string {
	return fmt.Sprintf("%d %s records every %s", f.records, f.pattern, f.every)
}

// patterns are how partition keys are chosen.
var patterns = map[string]func(d *rand.Rand, n int) string{
	"scattered":  func(_ *rand.Rand, n int) string { return fmt.Sprint(n) },
	"one key's":  func(*rand.Rand, int) string { return "the only key" },
	"mostly hot": func(d *rand.Rand, _ int) string { return fmt.Sprint("hot", max(0, d.IntN(30)-25)) },
	"few keys'":  func(d *rand.Rand, _ int) string { return fmt.Sprint("few", d.IntN(3)) },
}

func (d drawing) feed() feed {
	names := []string{"scattered", "scattered", "mostly hot", "few keys'", "one key's"}
	f := feed{pattern: names[d.IntN(len(names))], every: d.time(100*time.Millisecond, 500*time.Millisecond), records: d.between(1, 4)}
	if d.IntN(5) == 0 { // bursts
		f.every, f.records = d.seconds(5, 30), d.between(50, 200)
	}
	return f
}

// world is the stream and who puts records into it.
type world struct {
	b    *bed
	feed feed
	rng  *rand.Rand
	stop func()

	mu sync.Mutex
	// Guarded by mu.
	idle bool // nothing is put
	put  []record
}

// record is one that was put.
type record struct {
	shard, number string
	at            time.Time
}

// produce feeds the stream until stop is called.
func (w *world) produce() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	w.stop = func() { cancel(); <-done }
	go func() {
		defer close(done)
		k := w.b.kinesis()
		ticker := time.NewTicker(w.feed.every)
		defer ticker.Stop()
		for n := 0; ; n += w.feed.records {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			w.mu.Lock()
			idle := w.idle
			w.mu.Unlock()
			if idle {
				continue
			}
			in := &kinesis.PutRecordsInput{StreamName: aws.String(simStream)}
			for i := range w.feed.records {
				in.Records = append(in.Records, types.PutRecordsRequestEntry{
					PartitionKey: aws.String(patterns[w.feed.pattern](w.rng, n+i)), Data: fmt.Append(nil, n+i),
				})
			}
			out, err := k.PutRecords(ctx, in)
			if err != nil {
				if ctx.Err() == nil && ddb.Code(err) != "ResourceNotFoundException" {
					w.b.t.Errorf("put: %v", err)
				}
				continue
			}
			w.note(out.Records)
		}
	}()
}

func (w *world) note(records []types.PutRecordsResultEntry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range records {
		if r.ErrorCode == nil { // else throttled
			w.put = append(w.put, record{*r.ShardId, *r.SequenceNumber, time.Now()})
		}
	}
}

// pause keeps producers from putting anything, or lets them go on.
func (w *world) pause(idle bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle = idle
}

// records returns all that was put since the stream was made.
func (w *world) records() []record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.put)
}

// top puts a record into every open shard: one that never had any keeps its
// parents' leases from being deleted.
func (w *world) top() (shards int) {
	open := w.b.openShards()
	for _, s := range open {
		out, err := w.b.kinesis().PutRecord(w.b.t.Context(), &kinesis.PutRecordInput{
			StreamName: aws.String(simStream), PartitionKey: aws.String("top"), ExplicitHashKey: s.HashKeyRange.StartingHashKey, Data: []byte("top"),
		})
		require.NoError(w.b.t, err)
		w.note([]types.PutRecordsResultEntry{{ShardId: out.ShardId, SequenceNumber: out.SequenceNumber}})
	}
	return len(open)
}

// split, merge and rescale reshard the stream, and say what they did: nothing if
// it cannot be done now.
func (w *world) split(d *rand.Rand) string {
	open := w.b.openShards()
	s := open[d.IntN(len(open))]
	if len(open) >= maxShards {
		return ""
	}
	return w.resharded(w.b.split(s), "split "+*s.ShardId)
}

func (w *world) merge(d *rand.Rand) string {
	open := w.b.openShards()
	if len(open) < 3 {
		return ""
	}
	i := d.IntN(len(open) - 1)
	return w.resharded(w.b.merge(open[i], open[i+1]), fmt.Sprintf("merge %s and %s", *open[i].ShardId, *open[i+1].ShardId))
}

func (w *world) rescale(d *rand.Rand) string {
	open := len(w.b.openShards())
	target := min(maxShards, max((open+1)/2, 1+d.IntN(2*open)))
	_, err := w.b.kinesis().UpdateShardCount(w.b.t.Context(), &kinesis.UpdateShardCountInput{
		StreamName: aws.String(simStream), ScalingType: types.ScalingTypeUniformScaling, TargetShardCount: aws.Int32(int32(target)),
	})
	return w.resharded(err, fmt.Sprintf("go from %d shards to %d", open, target))
}

func (w *world) resharded(err error, what string) string {
	switch ddb.Code(err) {
	case "ResourceInUseException", "LimitExceededException", "InvalidArgumentException": // a reshard is under way
		return ""
	}
	require.NoError(w.b.t, err)
	return what
}

// quiet reports whether no reshard is under way.
func (w *world) quiet() bool {
	out, err := w.b.kinesis().DescribeStreamSummary(w.b.t.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: aws.String(simStream)})
	return err == nil && out.StreamDescriptionSummary.StreamStatus == types.StreamStatusActive
}

// remove deletes the stream; create makes one of that name.
func (w *world) remove() {
	_, err := w.b.kinesis().DeleteStream(w.b.t.Context(), &kinesis.DeleteStreamInput{StreamName: aws.String(simStream)})
	require.NoError(w.b.t, err)
}

func (w *world) create(shards int) {
	w.mu.Lock()
	w.put = nil
	w.mu.Unlock()
	require.NoError(w.b.t, w.b.aws.CreateStream(simStream, shards))
}
