//go:build interop

package interop

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// attr returns an attribute of a lease, as text.
func (f *fleet) attr(key, name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return text(f.items[key][name])
}

// put puts n records.
func (f *fleet) put(n int) {
	for i := range n {
		_, err := f.admin.PutRecord(context.Background(), &kinesis.PutRecordInput{
			StreamName: aws.String(stream), PartitionKey: aws.String("key-" + strconv.Itoa(i)), Data: []byte("x"),
		})
		require.NoError(f, err)
	}
}

// initialized returns the worker's first initialize event.
func (f *fleet) initialized(name string) (event, bool) {
	for _, e := range f.seen() {
		if e.Worker == name && e.Event == "initialize" {
			return e, true
		}
	}
	return event{}, false
}

// TestPrepared has each side begin with a checkpoint that the other has prepared
// and not committed.
func TestPrepared(t *testing.T) {
	f := newFleet(t, 1)
	f.produce(5)
	var shard string
	limit := 200 * time.Second
	for _, c := range [][2]string{{"java-1", "go-1"}, {"go-2", "java-2"}} {
		preparer, next := c[0], c[1]
		f.run(preparer, "--checkpoint=prepare")
		shard = *f.open()[0].ShardId
		f.until(limit, preparer+" prepares", func() bool {
			return f.attr(shard, "leaseOwner") == preparer && f.attr(shard, "pendingCheckpoint") != "" && f.delivered(preparer) > 10
		})
		f.kill(preparer)
		at, pending := f.attr(shard, "checkpoint"), f.attr(shard, "pendingCheckpoint")
		f.run(next)
		f.until(120*time.Second, next+" begins", func() bool { _, ok := f.initialized(next); return ok })
		e, _ := f.initialized(next)
		assert.Equal(t, at, e.At, "%s begins", next)
		assert.Contains(t, e.Pending, pending, "what %s has prepared", preparer)
		f.until(30*time.Second, next+" checkpoints, and nothing is pending", func() bool { return f.attr(shard, "pendingCheckpoint") == "" })
		f.stop(next)
		limit = 90 * time.Second
	}
	f.rest()
	f.run("go-3")
	f.drained(60 * time.Second)
	f.stop("go-3")
	f.conclude(time.Time{})
}

// TestShardPositions has both sides read leases at LATEST and AT_TIMESTAMP, that
// the other has made.
func TestShardPositions(t *testing.T) {
	for _, maker := range []string{"go", "java"} {
		for _, position := range []string{"LATEST", "AT_TIMESTAMP"} {
			t.Run(maker+" "+position, func(t *testing.T) {
				f := newFleet(t, 1)
				shard := *f.open()[0].ShardId
				f.put(10)
				time.Sleep(50 * time.Millisecond)
				since := time.Now()
				arg := "--position=LATEST"
				if position == "AT_TIMESTAMP" {
					arg = fmt.Sprintf("--position=%d", since.UnixMilli())
					f.put(10)
				}
				reads := func(name string) []string {
					var all []string
					for _, e := range f.seen() {
						if e.Event == "record" && e.Worker == name {
							all = append(all, e.Seq)
						}
					}
					return all
				}
				other := map[string]string{"go": "java", "java": "go"}[maker]
				for i, name := range []string{maker + "-1", other + "-2"} {
					f.run(name, arg, "--checkpoint=none")
					f.until(200*time.Second, name+" begins", func() bool { _, ok := f.initialized(name); return ok })
					e, _ := f.initialized(name)
					assert.Equal(t, position, e.At)
					assert.Equal(t, position, f.attr(shard, "checkpoint"))
					if position == "LATEST" {
						time.Sleep(5 * time.Second) // it has its iterator
						since = time.Now()
						f.put(10)
					}
					f.until(30*time.Second, name+" delivers", func() bool { return len(reads(name)) >= 10 })
					time.Sleep(2 * time.Second)
					var want []string
					for _, r := range f.aws.Shards(stream)[0].Records {
						if !r.Arrived.Truncate(time.Millisecond).Before(since.Truncate(time.Millisecond)) {
							want = append(want, r.SequenceNumber)
						}
					}
					got := reads(name)
					assert.Equal(t, want, slices.Compact(got), name)
					if i == 0 {
						f.kill(name)
					}
				}
				f.stop(f.live()...)
				f.conclude(since.Truncate(time.Millisecond)) // arrival is told in milliseconds
			})
		}
	}
}
