package sim

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ktypes "github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/sim/javalike"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/scheduler"
)

// readPeriod is between two reads of a shard, for both sides.
const readPeriod = 2 * time.Second

// member is a worker of a mixed fleet: ours, or one that follows Java's rules.
type member struct {
	id, name string
	java     *javalike.Worker // nil for ours
	cut      func()           // cuts it off for good
	stop     func(cause error)
	done     chan struct{}
	err      error

	dead    atomic.Bool  // killed
	leaving bool         // killed or stopped; the driver's
	thawed  atomic.Int64 // when it was frozen last, the end of that
}

func (m *member) side() string {
	if m.java != nil {
		return "Java"
	}
	return "Go"
}

// sound reports whether a worker lives and was not frozen for a minute.
func (m *member) sound() bool {
	return !m.dead.Load() && time.Since(time.Unix(0, m.thawed.Load())) > time.Minute
}

// mixture is a fleet of both.
type mixture struct {
	*bed
	*ledger
	members  []*member
	evenOdds bool // ours look no more often for a dead leader than Java does
}

// join runs a worker of a side.
func (m *mixture) join(java bool) *member {
	side := "go"
	if java {
		side = "java"
	}
	w := &member{name: fmt.Sprintf("%s-%d", side, len(m.members)), done: make(chan struct{})}
	// One in four takes the name of a worker of its side that died.
	for _, old := range m.members {
		taken := slices.ContainsFunc(m.members, func(x *member) bool { return x.name == old.name && !x.dead.Load() })
		if old.dead.Load() && (old.java != nil) == java && !taken && m.rng.IntN(4) == 0 {
			w.name = old.name
			break
		}
	}
	m.members = append(m.members, w)
	if !java {
		ours := m.add(w.name, unsigned, func(c *scheduler.Config) {
			c.AWS.HTTPClient = pen{w, c.AWS.HTTPClient}
			c.Leases.WorkerUtilization.DisableWorkerMetrics = true // of this machine
			c.Polling.IdleTimeBetweenReads = readPeriod
			if m.evenOdds { // KCL's settings
				c.Leader.LeaseDuration, c.Leader.HeartbeatPeriod = lockExpiry, lockPoll
			}
			c.Handler = nil
			c.NewProcessor = func(context.Context, kcl.ShardInfo) (kcl.RecordProcessor, error) {
				return &mixedProcessor{m: m, w: w}, nil
			}
		})
		w.id, w.done, w.stop, w.cut = ours.id, ours.done, func(error) { ours.cancel() }, func() { m.kill(ours) }
		ours.run()
	} else {
		w.id = fmt.Sprintf("%s#%d", w.name, len(m.members))
		c := m.bed.aws.Config(w.id)
		c.Credentials, c.HTTPClient = aws.AnonymousCredentials{}, pen{w, c.HTTPClient}
		w.java = javalike.New(javalike.Config{
			Name: w.name, Application: simApp, Stream: simStream, AWS: c, Processor: javaProcessor{m, w}, ReadPeriod: readPeriod,
			Seed: m.rng.Uint64(), Tell: m.ledger.tell,
		})
		ctx, cancel := context.WithCancelCause(context.Background())
		w.stop, w.cut = cancel, func() {}
		go func() {
			defer close(w.done)
			w.err = w.java.Run(ctx)
		}()
	}
	m.ledger.tell("start %s", w.id)
	return w
}

// leave ends a worker, at once or in peace.
func (m *mixture) leave(w *member, kill bool) {
	m.ledger.tell("leave %s: killed %v, leads %v", w.id, kill, m.ledger.leader() == w.name)
	m.departs(w)
	w.leaving = true
	if kill {
		w.dead.Store(true)
		w.cut()
		w.stop(javalike.ErrKilled)
	} else {
		w.stop(nil)
	}
}

// up are the workers that neither died nor were asked to stop.
func (m *mixture) up(java bool) (up []*member) {
	for _, w := range m.members {
		if !w.leaving && (w.java != nil) == java {
			up = append(up, w)
		}
	}
	return up
}

// note books a record that was delivered. What the dead deliver is lost with them.
func (m *mixture) note(w *member, shard, token string, positions []kcl.Position) {
	if w.dead.Load() {
		return
	}
	m.delivers(w, shard, token)
	m.bed.mu.Lock()
	defer m.bed.mu.Unlock()
	for _, p := range positions {
		m.deliveries = append(m.deliveries, delivery{time.Now(), w.id, shard, p})
	}
}

// mixedProcessor is ours, javaProcessor the other's. Both checkpoint each batch.
type mixedProcessor struct {
	m            *mixture
	w            *member
	shard, token string
}

func (p *mixedProcessor) Initialize(_ context.Context, in *kcl.Initialization) error {
	if p.shard, p.token = in.Shard.ShardID, in.Shard.LeaseToken; !p.w.dead.Load() {
		p.m.begins(p.w, p.shard, p.token)
	}
	return nil
}

func (p *mixedProcessor) ProcessRecords(ctx context.Context, b *kcl.Batch) error {
	var all []kcl.Position
	for _, r := range b.Records {
		all = append(all, r.Position)
	}
	p.m.note(p.w, p.shard, p.token, all)
	return b.Checkpoint(ctx)
}

func (p *mixedProcessor) LeaseLost(context.Context) { p.m.ends(p.shard, p.token) }
func (p *mixedProcessor) ShardEnded(context.Context) error {
	p.m.ends(p.shard, p.token)
	return nil
}
func (p *mixedProcessor) ShutdownRequested(ctx context.Context, cp kcl.Checkpointer) error {
	p.m.ends(p.shard, p.token)
	return cp.Checkpoint(ctx)
}

type javaProcessor struct {
	m *mixture
	w *member
}

func (p javaProcessor) Began(t javalike.Tenure, _ string) { p.m.begins(p.w, t.Shard, t.Token) }
func (p javaProcessor) Ended(t javalike.Tenure, _ string) { p.m.ends(t.Shard, t.Token) }
func (p javaProcessor) Process(_ context.Context, t javalike.Tenure, records []ktypes.Record) {
	var all []kcl.Position
	for _, r := range records {
		all = append(all, kcl.Position{SequenceNumber: *r.SequenceNumber})
	}
	p.m.note(p.w, t.Shard, t.Token, all)
}

// happen lets something befall the fleet, and says what. Each side keeps a worker.
func (m *mixture) happen() string {
	goes, javas := m.up(false), m.up(true)
	all := slices.Concat(goes, javas)
	spare := slices.DeleteFunc(slices.Clone(all), func(w *member) bool {
		return w.java == nil && len(goes) == 1 || w.java != nil && len(javas) == 1
	})
	open := m.openShards()
	switch n := m.rng.IntN(18); {
	case n < 4 && len(all) < 6, len(spare) == 0:
		m.join(len(javas) < len(goes) || len(javas) == len(goes) && m.rng.IntN(2) == 0)
		return "join"
	case n < 8:
		victim := spare[m.rng.IntN(len(spare))]
		if i := slices.IndexFunc(spare, func(w *member) bool { return w.name == m.ledger.leader() }); i >= 0 && m.rng.IntN(2) == 0 {
			victim = spare[i]
		}
		m.leave(victim, true)
		return "kill " + victim.side()
	case n < 10:
		victim := spare[m.rng.IntN(len(spare))]
		m.leave(victim, false)
		return "stop " + victim.side()
	case n < 14:
		return m.freeze(all[m.rng.IntN(len(all))])
	case n < 16 && len(open) < 10, len(open) < 3:
		if m.split(open[m.rng.IntN(len(open))]) != nil {
			return "no reshard"
		}
		return "split"
	default:
		i := m.rng.IntN(len(open) - 1)
		if m.merge(open[i], open[i+1]) != nil {
			return "no reshard"
		}
		// One parent's end may come long after the other's.
		owner := m.ownerOf(*open[i].ShardId)
		if j := slices.IndexFunc(spare, func(w *member) bool { return w.name == owner }); j >= 0 && m.rng.IntN(2) == 0 {
			m.leave(spare[j], true)
			return "merge and kill " + spare[j].side()
		}
		return "merge"
	}
}

// freeze lets nothing that a worker sends arrive for a while, or nothing of what it
// sends to the table: it reads on, and its checkpoints arrive when the leases are
// another's.
func (m *mixture) freeze(victim *member) string {
	lasts := time.Duration(10+m.rng.IntN(60)) * time.Second
	f := kcltest.Fault{Clients: []string{victim.id}, Effect: kcltest.Freeze, For: lasts}
	if m.rng.IntN(3) > 0 {
		f.Services = []string{dynamoDB}
	}
	m.departs(victim)
	victim.thawed.Store(time.Now().Add(lasts).UnixNano())
	m.bed.aws.Inject(f)
	m.ledger.tell("freeze %s %v for %v", victim.id, f.Services, lasts)
	return "freeze " + victim.side()
}

// leases#60: Go workers and workers that follow Java's rules, on one table, through
// kills, freezes, stops, reshards and hand-offs. For twenty minutes each of two seeds
// that find what they are to find; with -full-day an hour of eight.
func TestFleetWithJava(t *testing.T) {
	list, lasts := []uint64{9, 4}, 20*time.Minute
	switch {
	case racing:
		lasts = 5 * time.Minute
	case *fullDay:
		list, lasts = []uint64{1, 2, 3, 4, 5, 6, 7, 8}, time.Hour
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // as repeatable as can be
	for _, seed := range toPlay(list) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, seed)
			playMixed(t, seed, lasts)
		})
	}
}

func playMixed(t *testing.T, seed uint64, lasts time.Duration) {
	world := kcltest.Options{Latency: 5 * time.Millisecond, IndexLag: 500 * time.Millisecond, StaleReads: 200 * time.Millisecond}
	real := time.Now()
	inBed(t, seed, 4, world, func(b *bed) {
		var log []string
		began := time.Now()
		tell := func(format string, args ...any) {
			line := fmt.Sprintf("%8.3f ", time.Since(began).Seconds()) + strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
			if *follow {
				fmt.Println(line)
			}
			b.mu.Lock()
			log = append(log, line)
			b.mu.Unlock()
		}
		m := &mixture{bed: b, ledger: newLedger(b.aws, dynamodb.NewFromConfig(b.config()), tell)}
		b.aws.Intercept(m.watch)
		b.t.Cleanup(func() {
			for _, w := range m.members {
				w.stop(javalike.ErrKilled)
			}
			for _, w := range m.members {
				<-w.done
			}
			if b.t.Failed() {
				b.t.Logf("the last of what happened:\n%s", strings.Join(log[max(0, len(log)-150):], "\n"))
			}
		})
		// wait lets time pass in which nothing may be wrong.
		wait := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
				m.everySilence()
				require.Empty(b.t, m.broken())
			}
		}
		stopPutting := b.produceSlowly(8, time.Second)
		if m.evenOdds = seed%2 == 1; m.evenOdds { // and Java begins
			m.join(true)
			m.join(true)
			wait(3 * time.Minute)
		}
		for len(m.members) < 4 {
			m.join(len(m.up(true)) < 2)
		}
		for start := time.Now(); !m.attended(); wait(time.Second) {
			require.Less(b.t, time.Since(start), 5*time.Minute, "every lease is read")
		}
		wait(time.Minute)
		settled := time.Now()
		m.ledger.mu.Lock()
		m.ledger.begun = true
		m.ledger.mu.Unlock()
		events := map[string]int{}
		for end := time.Now().Add(lasts); time.Now().Before(end); wait(time.Duration(20+b.rng.IntN(100)) * time.Second) {
			events[m.happen()]++
		}
		wait(5 * time.Minute) // for what is still under way
		stopPutting()
		wait(2 * time.Minute)
		repeated := b.requireAll()
		first := map[string]time.Time{}
		for _, d := range b.deliveries {
			if key := d.shard + " " + d.position.SequenceNumber; first[key].IsZero() {
				first[key] = d.at
			}
		}
		late, record := m.overdue(settled, first)
		assert.LessOrEqual(b.t, late, time.Duration(0), record)

		for _, w := range m.up(false) {
			w.stop(nil)
		}
		for _, w := range m.up(true) {
			w.stop(nil)
		}
		for _, w := range m.members {
			<-w.done
			assert.NoError(b.t, w.err, w.id)
			if w.java != nil {
				assert.Empty(b.t, w.java.Complaints(), w.id)
			}
		}
		require.Empty(b.t, m.broken())
		b.t.Logf("%d deliveries, %d repeated; events %v; %v; worst idle %v; %v to spare of %s", len(b.deliveries), repeated, events, m.ledger.counts, m.worst, -late, record)
	})
	t.Logf("in %v", time.Since(real).Round(time.Millisecond))
}
