package scheduler

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
)

// The leader gives no worker more leases than MaxLeasesForWorker.
func TestMaxLeasesForWorker(t *testing.T) {
	inFleet(t, 4, func(t *testing.T, f *fleet) {
		m := f.start("a", func(c *Config) { c.Leases.MaxLeasesForWorker = 3 })
		time.Sleep(time.Minute)
		assert.Equal(t, map[string]int{"a": 3, "": 1}, f.owners())
		require.NoError(t, m.stop())
	})
}

// A lease is moved by asking its owner to hand it over, or, with
// NoGracefulHandoff, without.
func TestNoGracefulHandoff(t *testing.T) {
	for _, without := range []bool{false, true} {
		inFleet(t, 2, func(t *testing.T, f *fleet) {
			change := func(c *Config) { c.Leases.NoGracefulHandoff = without }
			a := f.start("a", change)
			f.until(time.Minute, "a has both", func() bool { return f.owners()["a"] == 2 })
			b := f.start("b", change)
			asked := false
			f.until(3*time.Minute, "b has one", func() bool {
				for _, l := range f.leases() {
					asked = asked || l.HandOffPending()
				}
				return len(b.Status().Leases) == 1
			})
			assert.Equal(t, !without, asked)
			require.NoError(t, a.stop())
			require.NoError(t, b.stop())
		})
	}
}

// While the processors are busy, no more is read ahead than is allowed.
func TestReadingAhead(t *testing.T) {
	const (
		shards, record = 4, 100_000
		limit          = 3 // records of a response
	)
	cases := []struct {
		name   string
		change func(*Config)
		reads  int // of each shard, before the processor is done
	}{
		{"two responses", func(c *Config) { c.Polling.MaxPendingProcessRecordsInput = 2 }, 3},
		{"no prefetch", func(c *Config) { c.Polling.NoPrefetch = true }, 1},
		{"bytes of a shard", func(c *Config) { c.Polling.MaxBytes = limit * record }, 2},
		{"records of a shard", func(c *Config) { c.Polling.MaxBufferedRecords = limit }, 2},
		{"bytes of the worker", func(c *Config) { c.MaxBufferedBytes = 1 << 20 }, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inFleet(t, shards, func(t *testing.T, f *fleet) {
				k := f.kinesis()
				for n := range shards {
					for range 4 * limit {
						_, err := k.PutRecord(t.Context(), &kinesis.PutRecordInput{
							StreamName: aws.String(testStream), PartitionKey: aws.String("k"), ExplicitHashKey: aws.String(middleOf(n, shards)),
							Data: []byte(strings.Repeat("x", record)),
						})
						require.NoError(t, err)
						time.Sleep(150 * time.Millisecond) // a shard takes a megabyte a second
					}
				}
				release := make(chan struct{})
				m := f.start("a", c.change, func(cfg *Config) {
					cfg.Polling.MaxRecords = limit
					cfg.Polling.IdleTimeBetweenReads = 500 * time.Millisecond
					inner := cfg.Handler
					cfg.Handler = func(ctx context.Context, b *kcl.Batch) error {
						<-release
						assert.LessOrEqual(t, len(b.Records), limit)
						return inner(ctx, b)
					}
				})
				time.Sleep(time.Minute)
				assert.Equal(t, shards*c.reads, f.aws.Count("GetRecords", "a"))
				assert.InEpsilon(t, shards*c.reads*limit*record, m.Status().BufferedBytes, 0.01)
				close(release)
				f.until(time.Minute, "all records", func() bool { return f.delivered() == shards*4*limit })
				require.NoError(t, m.stop())
				assert.Zero(t, f.requireAllProcessed())
			})
		})
	}
}

// Empty batches are delivered only when asked for.
func TestEmptyBatches(t *testing.T) {
	for _, asked := range []bool{false, true} {
		inFleet(t, 1, func(t *testing.T, f *fleet) {
			var empty atomic.Int64
			m := f.start("a", func(c *Config) {
				c.CallProcessRecordsEvenForEmptyRecordList = asked
				c.Handler = func(context.Context, *kcl.Batch) error { empty.Add(1); return nil }
			})
			time.Sleep(time.Minute)
			require.NoError(t, m.stop())
			assert.Equal(t, asked, empty.Load() > 10, "%d calls", empty.Load())
		})
	}
}

// A processor that takes long is warned of, once.
func TestSilentShardsAreToldOf(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet) {
		f.put(10)
		m := f.start("a", func(c *Config) {
			c.LogWarningForTaskAfter = 10 * time.Second
			inner := c.Handler
			c.Handler = func(ctx context.Context, b *kcl.Batch) error {
				time.Sleep(9500 * time.Millisecond)
				assert.Empty(t, f.log.warned("delivers nothing"))
				time.Sleep(20 * time.Second)
				return inner(ctx, b)
			}
		})
		f.until(2*time.Minute, "all records", func() bool { return f.delivered() == 10 })
		require.NoError(t, m.stop())
		warned := f.log.warned("delivers nothing")
		require.Len(t, warned, 1)
		assert.Contains(t, warned[0], "shard=shardId-000000000000")
	})
}

// warned returns the warnings that contain text.
func (l *testLog) warned(text string) (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.warnings {
		if strings.Contains(w, text) {
			out = append(out, w)
		}
	}
	return out
}

// A worker waits as long as it is told before it tries a table's call again, and
// for parents on other workers.
func TestOptionsOfConsumers(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet) {
		m := f.start("a", func(c *Config) { c.TaskBackoff, c.ParentShardPollInterval = time.Minute, time.Hour })
		<-m.Ready()
		assert.Equal(t, time.Minute, m.worker.consuming.TaskBackoff)
		assert.Equal(t, time.Hour, m.worker.consuming.ParentPollInterval)
		require.NoError(t, m.stop())
	})
}
