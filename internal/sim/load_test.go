package sim

import (
	"context"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/scheduler"
	"github.com/go-kcl/kcl/workermetrics"
)

// engine is a made-up CPU: so busy when idle, and more for each KB a second that
// its worker processes.
type engine struct {
	mu          sync.Mutex
	idle, perKB float64
	kb          float64 // since last
	last        time.Time
}

func (*engine) Name() string        { return workermetrics.CPU }
func (*engine) OperatingRange() int { return 100 }

func (e *engine) Capture(context.Context) (float64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	elapsed := now.Sub(e.last).Seconds()
	percent := e.idle
	if !e.last.IsZero() && elapsed > 0 {
		percent += e.perKB * e.kb / elapsed
	}
	e.kb, e.last = 0, now
	return min(100, percent), nil
}

func (e *engine) work(b *kcl.Batch) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range b.Records {
		e.kb += float64(len(r.Data)) / 1024
	}
}

// set makes the engine so busy when idle.
func (e *engine) set(idle float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.idle = idle
}

// measured starts a worker that reports what its engine says.
func (b *bed) measured(name string, e *engine, change ...func(*scheduler.Config)) *worker {
	return b.start(name, append([]func(*scheduler.Config){func(c *scheduler.Config) {
		c.Leases.WorkerUtilization.WorkerMetrics = []workermetrics.Metric{e}
		handle := c.Handler
		c.Handler = func(ctx context.Context, batch *kcl.Batch) error {
			e.work(batch)
			return handle(ctx, batch)
		}
	}}, change...)...)
}

// flow is what producers put into the first shards: KB a second, by shard.
type flow struct {
	mu    sync.Mutex
	rates []float64
	put   int // records
}

func (f *flow) set(shard int, kbps float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rates[shard] = kbps
}

// flowing puts a record a second into each half of each shard until the test ends
// or stop is called. It returns when all have had their first.
func (b *bed) flowing(shards int, kbps float64) (f *flow, stop func()) {
	f = &flow{rates: slices.Repeat([]float64{kbps}, shards)}
	space := new(big.Int).Lsh(big.NewInt(1), 128)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	k := b.kinesis()
	put := func() {
		in := &kinesis.PutRecordsInput{StreamName: aws.String(simStream)}
		f.mu.Lock()
		for i := range 2 * shards {
			// The middle of each half of a shard.
			key := new(big.Int).Div(new(big.Int).Mul(space, big.NewInt(int64(2*i+1))), big.NewInt(int64(4*shards)))
			if n := int(f.rates[i/2] * 512); n > 0 {
				in.Records = append(in.Records, types.PutRecordsRequestEntry{PartitionKey: aws.String("k"), ExplicitHashKey: aws.String(key.String()), Data: make([]byte, n)})
			}
		}
		f.put += len(in.Records)
		f.mu.Unlock()
		if len(in.Records) == 0 {
			return
		}
		if _, err := k.PutRecords(context.Background(), in); err != nil {
			b.t.Errorf("put: %v", err)
		}
	}
	put()
	go func() {
		defer close(done)
		t := time.NewTicker(time.Second)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				put()
			case <-ctx.Done():
				return
			}
		}
	}()
	stop = func() { cancel(); <-done }
	b.t.Cleanup(stop)
	return f, stop
}

// distinct returns how many records have been handed out, each counted once.
func (b *bed) distinct() int {
	b.mu.Lock()
	n := len(b.deliveries)
	b.mu.Unlock()
	return n - b.repeated()
}

// moves counts the changes of owner while ctx lives: by lease, what it ended with.
type moves struct {
	mu  sync.Mutex
	all []string
}

// so returns the changes so far.
func (m *moves) so() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.all)
}

func (m *moves) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.all
	m.all = nil
	return all
}

// watchMoves notes each lease that gets another owner than it had.
func (b *bed) watchMoves() *moves {
	m := new(moves)
	owner := func(l lease.Lease) string {
		if l.HandOffPending() {
			return l.CheckpointOwner
		}
		return l.Owner
	}
	before := b.leases()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(5 * time.Second)
		defer t.Stop()
		for {
			select {
			case <-t.C:
			case <-ctx.Done():
				return
			}
			now := b.leases()
			for _, k := range slices.Sorted(maps.Keys(now)) {
				if was, known := before[k]; known && owner(was) != owner(now[k]) {
					m.mu.Lock()
					m.all = append(m.all, fmt.Sprintf("%s %s %s→%s", time.Now().Format("15:04:05"), k, owner(was), owner(now[k])))
					m.mu.Unlock()
				}
			}
			before = now
		}
	}()
	b.t.Cleanup(func() { cancel(); <-done })
	return m
}

// counts returns the number of leases by owner.
func (b *bed) counts() map[string]int {
	n := make(map[string]int)
	for _, l := range b.leases() {
		n[l.Owner]++
	}
	return n
}

// A worker's load takes a step, because its shards have more traffic or because
// the machine has something else to do: at least one lease leaves it, no more than
// its excess calls for, and then none moves for a quarter of an hour, with
// -full-day for an hour.
func TestStepInLoad(t *testing.T) {
	notWhileRacing(t)
	const shards, rate = 12, 1.
	for _, c := range []struct {
		name string
		step func(b *bed, f *flow, e *engine, mine []string)
		most int
	}{
		// 20 % each, of which 5 are the idle machine's: 41 % beside 20 %. The average
		// is 25, and a lease is 7 on average.
		{"more than twice the traffic of its shards", func(b *bed, f *flow, _ *engine, mine []string) {
			for _, key := range mine {
				var i int
				_, err := fmt.Sscanf(key, "shardId-%d", &i)
				require.NoError(b.t, err)
				f.set(i, 2.4*rate)
			}
		}, 3},
		// 60 % beside 20 %: the average is 30, and a lease is 5, though it looks as if
		// it were 20. Without any the worker is at 45 %, the others at 25 %.
		{"something else to do", func(_ *bed, _ *flow, e *engine, _ []string) { e.set(45) }, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBed(t, 1, shards, gapWorld, func(b *bed) {
				f, _ := b.flowing(shards, rate)
				engines := make(map[string]*engine)
				for _, name := range []string{"a", "b", "c", "d"} {
					engines[name] = &engine{idle: 5, perKB: 5}
					b.measured(name, engines[name])
				}
				b.until(gapLimit, "an even spread", func() bool { return b.spread() <= 1 })
				time.Sleep(5 * time.Minute)
				m := b.watchMoves()
				time.Sleep(5 * time.Minute)
				require.Empty(t, m.take(), "moves before the step")
				c.step(b, f, engines["a"], b.owned("a"))
				time.Sleep(10 * time.Minute)
				moved := m.take()
				assert.NotEmpty(t, moved)
				assert.LessOrEqual(t, len(moved), c.most, moved)
				rest := 15 * time.Minute
				if *fullDay {
					rest = time.Hour
				}
				time.Sleep(rest)
				assert.Empty(t, m.take(), "moves after it")
				assert.Zero(t, b.repeated(), "records delivered again")
			})
		})
	}
}

// Half of a fleet reports its CPU, the other half nothing: every worker gets half
// to twice its fair share, whoever came first.
func TestMixedFleet(t *testing.T) {
	notWhileRacing(t)
	const shards, workers = 16, 4
	for _, first := range []string{"those that measure", "those that do not"} {
		t.Run(first+" first", func(t *testing.T) {
			inBed(t, 1, shards, gapWorld, func(b *bed) {
				b.flowing(shards, 1)
				for i := range workers {
					name := fmt.Sprintf("w%d", i)
					if (i < workers/2) == (first == "those that measure") {
						b.measured(name, &engine{idle: 5, perKB: 5})
					} else {
						b.start(name)
					}
					time.Sleep(20 * time.Second)
				}
				time.Sleep(10 * time.Minute)
				for name, n := range b.counts() {
					assert.GreaterOrEqual(t, n, shards/workers/2, name)
					assert.LessOrEqual(t, n, shards/workers*2, name)
				}
				assert.Len(t, b.counts(), workers)
				assert.Zero(t, b.repeated(), "records delivered again")
			})
		})
	}
}

// A fleet that measures its load is spread evenly at a cold start, when nothing is
// known of the shards, and when a worker joins it while it is idle.
func TestIdleMeasuredFleet(t *testing.T) {
	notWhileRacing(t)
	const shards = 16
	inBed(t, 1, shards, gapWorld, func(b *bed) {
		var workers []*worker
		for _, name := range []string{"a", "b", "c"} {
			workers = append(workers, b.measured(name, &engine{idle: 5, perKB: 5}))
		}
		for _, w := range workers {
			<-w.Ready()
		}
		b.until(20*time.Second, "an even spread", func() bool { return b.spread() <= 1 })
		time.Sleep(time.Second) // what is read may be stale
		m := b.watchMoves()
		time.Sleep(5 * time.Minute)
		assert.Empty(t, m.take())
		<-b.measured("d", &engine{idle: 4, perKB: 5}).Ready()
		b.until(90*time.Second, "an even spread with one more", func() bool { return b.spread() <= 1 })
		time.Sleep(10 * time.Second) // for the last hand-off
		m.take()
		time.Sleep(5 * time.Minute)
		assert.Empty(t, m.take())
	})
}
