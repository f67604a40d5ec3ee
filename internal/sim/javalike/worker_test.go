package javalike

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	ktypes "github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/interchange"
	"github.com/go-kcl/kcl/kcltest"
)

// bench is an emulated AWS with a stream and some workers.
type bench struct {
	t       *testing.T
	aws     *kcltest.AWS
	release Release
	puts    int

	mu sync.Mutex
	// Guarded by mu.
	order []string          // "shard number", as delivered
	by    map[string]string // the same, by the worker that had it last
	ends  map[string]int    // tenures, by why they ended
}

func onBench(t *testing.T, release Release, shards int, f func(*bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, release: release, aws: kcltest.New(kcltest.Options{Latency: 5 * time.Millisecond}), by: map[string]string{}, ends: map[string]int{}}
		require.NoError(t, b.aws.CreateStream("s", shards))
		f(b)
	})
}

func (b *bench) Began(Tenure, string) {}
func (b *bench) Process(_ context.Context, t Tenure, records []ktypes.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range records {
		key := t.Shard + " " + *r.SequenceNumber
		b.order, b.by[key] = append(b.order, key), t.Worker
	}
}
func (b *bench) Ended(_ Tenure, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ends[why]++
}

func (b *bench) config(name string) Config {
	c := b.aws.Config(name)
	c.Credentials = aws.AnonymousCredentials{}
	return Config{Name: name, Application: "app", Stream: "s", Release: b.release, AWS: c, Processor: b, Seed: uint64(len(name)), Tell: func(format string, args ...any) {
		if testing.Verbose() {
			fmt.Println(time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
		}
	}}
}

// start runs a worker; end ends it, with a cause, and waits.
func (b *bench) start(name string) (w *Worker, end func(cause error) error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error, 1)
	w = New(b.config(name))
	go func() { done <- w.Run(ctx) }()
	var once sync.Once
	var err error
	end = func(cause error) error {
		once.Do(func() { cancel(cause); err = <-done })
		return err
	}
	b.t.Cleanup(func() { end(ErrKilled) })
	return w, end
}

func (b *bench) put(n int) {
	k := kinesis.NewFromConfig(b.aws.Config("producer"))
	for range n {
		b.puts++
		_, err := k.PutRecord(b.t.Context(), &kinesis.PutRecordInput{StreamName: aws.String("s"), PartitionKey: aws.String(strconv.Itoa(b.puts)), Data: []byte("x")})
		require.NoError(b.t, err)
	}
}

func (b *bench) items(table string) (all []item) {
	out, err := dynamodb.NewFromConfig(b.aws.Config("eyes")).Scan(b.t.Context(), &dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil // no table yet
	}
	return out.Items
}

func (b *bench) owners() map[string]int {
	n := map[string]int{}
	for _, it := range b.items("app") {
		if entityOf(it) == leaseEntity && it["leaseCounter"] != nil && text(it["checkpoint"]) != shardEnd {
			n[text(it["leaseOwner"])]++
		}
	}
	return n
}

func (b *bench) until(limit time.Duration, what string, ok func() bool) {
	b.t.Helper()
	for began := time.Now(); !ok(); time.Sleep(time.Second) {
		require.Less(b.t, time.Since(began), limit, what)
	}
}

func (b *bench) delivered() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.by)
}

// A fleet from its first minute to the death of its leader: leases are made,
// evened by hand-offs, and taken from the dead; a split is followed in order.
func TestLife(t *testing.T) {
	for name, release := range map[string]Release{"3.4": V34, "3.5": V35} {
		t.Run(name, func(t *testing.T) {
			onBench(t, release, 4, func(b *bench) {
				a, endA := b.start("a")
				b.put(20)
				b.until(3*time.Minute, "a delivers", func() bool { return b.delivered() == 20 })
				require.Equal(t, map[string]int{"a": 4}, b.owners())

				bb, endB := b.start("bb")
				b.until(4*time.Minute, "bb has its half", func() bool { return maps.Equal(b.owners(), map[string]int{"a": 2, "bb": 2}) })
				b.until(time.Minute, "a hands over", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.ends[EndedAsked] == 2 })
				b.put(40)
				b.until(time.Minute, "all are delivered", func() bool { return b.delivered() == 60 })
				assert.Len(t, b.order, 60, "nothing twice")
				assert.Empty(t, slices.Concat(a.Complaints(), bb.Complaints()))
				if release == V35 {
					b.forms("3.5-single-stream-after-graceful-stop", map[string]string{"app": "app1"})
				} else {
					b.forms("3.4-legacy-three-tables", map[string]string{"app": "app3", "app-CoordinatorState": "app3-CoordinatorState", "app-WorkerMetricStats": "app3-WorkerMetricStats"})
				}

				k := kinesis.NewFromConfig(b.aws.Config("producer"))
				_, err := k.SplitShard(b.t.Context(), &kinesis.SplitShardInput{
					StreamName: aws.String("s"), ShardToSplit: aws.String("shardId-000000000000"), NewStartingHashKey: aws.String("4000"),
				})
				require.NoError(t, err)
				time.Sleep(3 * time.Second)
				b.put(40)
				b.until(3*time.Minute, "all are delivered", func() bool { return b.delivered() == 100 })
				b.until(12*time.Minute, "the parent's lease is deleted", func() bool {
					_, err := k.PutRecord(b.t.Context(), &kinesis.PutRecordInput{StreamName: aws.String("s"), PartitionKey: aws.String("k"), ExplicitHashKey: aws.String("3999"), Data: []byte("x")})
					require.NoError(t, err)
					return !slices.ContainsFunc(b.items("app"), func(it item) bool { return text(it["leaseKey"]) == "shardId-000000000000" })
				})

				require.NoError(t, endA(ErrKilled)) // who led
				b.until(5*time.Minute, "bb has all", func() bool { return maps.Equal(b.owners(), map[string]int{"bb": 5}) })
				require.NoError(t, endB(nil))
				assert.Equal(t, map[string]int{"bb": 5}, b.owners(), "left to expire")
				assert.False(t, slices.ContainsFunc(slices.Concat(b.items("app"), b.items(b.stateTable())), func(it item) bool {
					return text(it["leaseKey"]) == leaderKey || text(it["key"]) == leaderKey
				}), "the lock is freed")
				assert.Empty(t, slices.Concat(a.Complaints(), bb.Complaints()))
			})
		})
	}
}

func (b *bench) stateTable() string { return tablesOf(b.release, "app").state }

// forms compares the items' attributes and their types with those of recorded
// tables, each of ours with any of the same kind.
func (b *bench) forms(state string, names map[string]string) {
	var recorded map[string]struct{ Items []json.RawMessage }
	require.NoError(b.t, json.Unmarshal(interchange.State(b.t, state), &recorded))
	form := func(raw json.RawMessage) string {
		var it map[string]map[string]any
		require.NoError(b.t, json.Unmarshal(raw, &it))
		delete(it, "throughputKBps") // if there was any
		var parts []string
		for name, v := range it {
			parts = append(parts, name+" "+slices.Collect(maps.Keys(v))[0])
		}
		slices.Sort(parts)
		return fmt.Sprint(parts)
	}
	var buf bytes.Buffer
	require.NoError(b.t, b.aws.DumpTables(&buf))
	var ours map[string]struct{ Items []json.RawMessage }
	require.NoError(b.t, json.Unmarshal(buf.Bytes(), &ours))
	assert.Len(b.t, ours, len(names))
	for mine, java := range names {
		forms := func(items []json.RawMessage) []string {
			var all []string
			for _, it := range items {
				all = append(all, form(it))
			}
			slices.Sort(all)
			return slices.Compact(all)
		}
		assert.Equal(b.t, forms(recorded[java].Items), forms(ours[mine].Items), mine)
	}
}

// A worker of 3.4 fails to list leases where a row of 3.5 lies, and so does not
// start; one that runs goes on assigning.
func TestLegacyMeetsTaggedRows(t *testing.T) {
	onBench(t, V34, 2, func(b *bench) {
		a, endA := b.start("a")
		b.put(10)
		b.until(3*time.Minute, "a delivers", func() bool { return b.delivered() == 10 })
		require.Empty(t, a.Complaints())

		db := dynamodb.NewFromConfig(b.aws.Config("newcomer"))
		_, err := db.UpdateItem(b.t.Context(), tablesOf(V35, "app").report("newcomer", time.Now()))
		require.NoError(t, err)
		time.Sleep(5 * time.Minute)
		acts := map[string]bool{}
		for _, c := range a.Complaints() {
			assert.Equal(t, "newcomer", c.Key)
			acts[c.Act] = true
		}
		assert.Equal(t, map[string]bool{"audit": true, "assignment scan": true}, acts)
		require.NoError(t, endA(ErrKilled))
	})
	onBench(t, V34, 2, func(b *bench) {
		db := dynamodb.NewFromConfig(b.aws.Config("newcomer"))
		_, err := db.CreateTable(b.t.Context(), createTable("app", "leaseKey"))
		require.NoError(t, err)
		time.Sleep(time.Second)
		_, err = db.UpdateItem(b.t.Context(), tablesOf(V35, "app").report("newcomer", time.Now()))
		require.NoError(t, err)
		w := New(b.config("a"))
		assert.ErrorContains(t, w.Run(b.t.Context()), "all attempts failed: look for leases")
		assert.Len(t, w.Complaints(), startAttempts)
	})
}

// A lock that Java cannot read keeps a worker from leading, and is complained of.
func TestUnreadableLock(t *testing.T) {
	onBench(t, V35, 1, func(b *bench) {
		a, _ := b.start("a")
		b.until(3*time.Minute, "a leads", func() bool { return b.owners()["a"] == 1 })
		db := dynamodb.NewFromConfig(b.aws.Config("other"))
		bad := tablesOf(V35, "app").acquire("other", "v", time.Minute, nil)
		bad.Item["leaseDuration"] = str("1m0s")
		bad.ConditionExpression, bad.ExpressionAttributeNames = nil, nil
		_, err := db.PutItem(b.t.Context(), bad)
		require.NoError(t, err)
		time.Sleep(3 * time.Minute)
		require.NotEmpty(t, a.Complaints())
		assert.Contains(t, slices.Collect(func(yield func(string) bool) {
			for _, c := range a.Complaints() {
				if !yield(c.Act + " " + c.Key) {
					return
				}
			}
		}), "leader check Leader")
	})
}
