package sim

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	ktypes "github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/sim/javalike"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/scheduler"
)

var completeBake = flag.Duration("complete-bake", time.Hour, "how long PENDING lasts in the lives of TestMigration, at least an hour")

// The fleet's times, so that an hour of it is cheap.
const (
	assignEvery = 30 * time.Second
	reportEvery = 30 * time.Second
	fleetSize   = 3
)

// deployment is what a worker of the fleet is deployed as.
type deployment int

const (
	of34     deployment = iota // KCL 3.4
	ofFirst                    // the first deployment
	ofSecond                   // the second
	ofLast                     // the second without its flag, after COMPLETE
)

func (s deployment) String() string {
	return [...]string{"of 3.4", "of the first deployment", "of the second deployment", "after the migration"}[s]
}

// hand is a worker of a fleet whose tables become one.
type hand struct {
	*member
	stage deployment
	ours  *worker // nil for one of 3.4
}

func (h *hand) up() bool { return !h.dead.Load() && !h.leaving }

// cause is the error with which a worker ended.
func (h *hand) cause() error {
	if h.ours != nil {
		return h.ours.err
	}
	return h.err
}

// life is a migration from its beginning to its end.
type life struct {
	*bed
	*chronicle
	course
	places [fleetSize]*hand // each has one, or had one that died
	vacant [fleetSize]time.Time
}

// course is what happens in a life: what befalls writes, and what is done when a
// status has lasted for a while.
type course struct {
	name  string
	bake  time.Duration // before COMPLETE; 0 means that of the flag
	names bool          // a worker that takes a place takes its name, too
	lossy bool          // half of all answers to the migration's transactions are lost
	traps []trap
	then  map[string][]step // by the status that is reached; noStatus: when one worker of 3.4 is left
}

// step is something that is done to the fleet.
type step struct {
	what string
	do   func(*life)
}

// run plays a life in a bubble.
func (c course) run(t *testing.T) {
	real := time.Now()
	if c.bake == 0 {
		c.bake = *completeBake
	}
	inBed(t, 1, 4, kcltest.Options{Latency: 5 * time.Millisecond}, func(b *bed) {
		var log []string
		began := time.Now()
		tell := func(format string, args ...any) {
			line := fmt.Sprintf("%9.3f ", time.Since(began).Seconds()) + strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
			if *follow {
				fmt.Println(line)
			}
			b.mu.Lock()
			log = append(log, line)
			b.mu.Unlock()
		}
		l := &life{bed: b, course: c, chronicle: newChronicle(dynamodb.NewFromConfig(b.config()), tell)}
		l.chronicle.kill, l.chronicle.bake, l.chronicle.traps = l.slay, c.bake, slices.Clone(c.traps)
		b.aws.Intercept(l.chronicle.watch)
		if c.lossy {
			b.aws.Inject(kcltest.Fault{Operations: []string{"TransactWriteItems"}, Effect: kcltest.LoseAnswer, Chance: 0.5})
		}
		b.t.Cleanup(func() {
			for _, h := range l.hands {
				h.stop(javalike.ErrKilled)
			}
			for _, h := range l.hands {
				<-h.done
			}
			l.loose.Wait()
			if b.t.Failed() {
				b.t.Logf("what happened:\n%s", strings.Join(log, "\n"))
			}
		})
		l.play()
		require.Empty(b.t, l.chronicle.traps, "sprung")
		b.t.Logf("%v, %d deliveries, %v", time.Since(began).Round(time.Second), len(b.deliveries), l.chronicle.counts)
	})
	t.Logf("%s: in %v", c.name, time.Since(real).Round(time.Millisecond))
}

// start runs a worker.
func (l *life) start(name string, s deployment) *hand {
	h := &hand{member: &member{name: name, done: make(chan struct{})}, stage: s}
	if s == of34 {
		h.id = fmt.Sprintf("%s-34#%d", name, len(l.hands))
		c := l.aws.Config(h.id)
		c.Credentials, c.HTTPClient = aws.AnonymousCredentials{}, quill{h, c.HTTPClient}
		h.java = javalike.New(javalike.Config{
			Name: name, Application: simApp, Stream: simStream, Release: javalike.V34, AWS: c, Processor: oldProcessor{l, h},
			Failover: time.Minute, AssignmentInterval: assignEvery, ReadPeriod: 30 * time.Second, Seed: l.rng.Uint64(), Tell: l.tell,
		})
		ctx, cancel := context.WithCancelCause(context.Background())
		h.stop = cancel
		go func() {
			defer close(h.done)
			h.err = h.java.Run(ctx)
		}()
	} else {
		h.ours = l.add(name, unsigned, func(c *scheduler.Config) {
			c.AWS.HTTPClient = quill{h, c.AWS.HTTPClient}
			c.Leases.FailoverTime, c.Leases.AssignmentInterval = time.Minute, assignEvery
			c.Leases.WorkerUtilization.DisableWorkerMetrics = true // of this machine
			c.Polling.IdleTimeBetweenReads = 30 * time.Second
			c.StopTimeout = 10 * time.Second
			if s == ofSecond {
				c.MigrateAllEntitiesToLeaseTable, c.TableMigrationCompleteBakeTime = true, l.course.bake
			}
			if *logFile != "" {
				c.Logger = slog.New(slog.NewTextHandler(&workerLog, &slog.HandlerOptions{Level: slog.LevelDebug}))
			}
			c.Handler = func(_ context.Context, batch *kcl.Batch) error {
				if !h.dead.Load() {
					l.note(h.id, batch)
				}
				return nil
			}
		})
		h.id, h.done, h.stop = h.ours.id, h.ours.done, func(error) { h.ours.cancel() }
		h.ours.run()
	}
	l.chronicle.mu.Lock()
	l.hands = append(l.hands, h)
	l.second = l.second || s >= ofSecond
	l.chronicle.mu.Unlock()
	l.tell("start %s, %s", h.id, s)
	return h
}

// oldProcessor is what a worker of 3.4 does with records.
type oldProcessor struct {
	l *life
	h *hand
}

func (oldProcessor) Began(javalike.Tenure, string) {}
func (oldProcessor) Ended(javalike.Tenure, string) {}
func (p oldProcessor) Process(_ context.Context, t javalike.Tenure, records []ktypes.Record) {
	if p.h.dead.Load() {
		return
	}
	p.l.bed.mu.Lock()
	defer p.l.bed.mu.Unlock()
	for _, r := range records {
		p.l.deliveries = append(p.l.deliveries, delivery{time.Now(), p.h.id, t.Shard, kcl.Position{SequenceNumber: *r.SequenceNumber}})
	}
}

// slay ends a worker at once: nothing that it does from now on reaches anybody.
func (l *life) slay(h *hand) {
	h.dead.Store(true)
	l.tell("%s is dead", h.id)
	l.chronicle.mu.Lock()
	l.chronicle.died = time.Now()
	l.chronicle.mu.Unlock()
	l.loose.Go(func() {
		if h.stop(javalike.ErrKilled); h.ours != nil {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = h.ours.Shutdown(ctx)
		}
	})
}

// dismiss stops a worker in peace.
func (l *life) dismiss(h *hand) {
	if !h.up() {
		return
	}
	l.tell("stop %s", h.id)
	h.leaving = true
	h.stop(nil)
	for until := time.Now().Add(2 * time.Minute); ; l.pass(time.Second) {
		select {
		case <-h.done:
			if !h.dead.Load() {
				require.NoError(l.t, h.cause(), h.id)
			}
			return
		default:
			require.True(l.t, time.Now().Before(until), "%s does not stop", h.id)
		}
	}
}

// pass lets time pass in which nothing may be wrong. Who has died is replaced.
func (l *life) pass(d time.Duration) {
	for end := time.Now().Add(d); ; {
		l.look()
		require.Empty(l.t, l.broken())
		for i, h := range l.places {
			switch {
			case h == nil || !h.dead.Load():
			case l.vacant[i].IsZero():
				l.vacant[i] = time.Now()
			case time.Since(l.vacant[i]) > 90*time.Second:
				l.take(i, h.stage)
			}
		}
		for _, h := range l.hands {
			if h.java != nil && !l.second {
				if all := h.java.Complaints(); len(all) > 0 {
					l.fails(soundListings, "%s", all[0])
				}
			}
		}
		left := time.Until(end)
		if left <= 0 {
			return
		}
		time.Sleep(min(left, time.Second))
	}
}

func (l *life) fails(what law, format string, args ...any) {
	l.t.Helper()
	l.chronicle.mu.Lock()
	l.breaks(what, format, args...)
	l.chronicle.mu.Unlock()
	require.Empty(l.t, l.broken())
}

// take fills a place.
func (l *life) take(i int, s deployment) {
	name := fmt.Sprint("w", len(l.hands))
	if l.names {
		name = fmt.Sprint("place-", i)
	}
	l.places[i], l.vacant[i] = l.start(name, s), time.Time{}
}

// roll replaces the workers of these places, one by one.
func (l *life) roll(s deployment, places ...int) {
	l.tell("roll %v to %s", places, s)
	for _, i := range places {
		if h := l.places[i]; h != nil {
			l.dismiss(h)
		}
		l.take(i, s)
		l.pass(45*time.Second + time.Duration(l.rng.Int64N(int64(30*time.Second))))
	}
}

// await waits for a status.
func (l *life) await(status string, limit time.Duration) {
	l.t.Helper()
	for began := time.Now(); ; l.pass(time.Second) {
		s, _ := l.stored()
		if s == status {
			return
		}
		if time.Since(began) > limit {
			for _, h := range l.hands {
				if h.ours != nil && h.up() {
					st := h.ours.Status()
					l.tell("%s: leading %v, %+v", h.id, st.Leading, st.TableMigration)
				}
			}
			l.fails(inTime, "waited %v for %s, and it is %s", limit, status, s)
		}
	}
}

// stays lets time pass in which the status must not change.
func (l *life) stays(status string, d time.Duration) {
	l.t.Helper()
	was, since := l.stored()
	if was != status {
		l.fails(staysPut, "it is %s, not %s", was, status)
	}
	for end := time.Now().Add(d); time.Now().Before(end); l.pass(time.Second) {
		if s, at := l.stored(); s != was || !at.Equal(since) {
			l.fails(staysPut, "it became %s, and was %s since %v", s, was, since)
		}
	}
}

// reached does what the course says of a status that has been reached.
func (l *life) reached(status string) {
	for _, s := range l.then[status] {
		l.tell("%s", s.what)
		s.do(l)
		l.chronicle.counts[s.what]++
	}
}

// slack is how long the migration may take for a step beyond what the step
// needs: a leader's death and two more runs of the next, with its watch.
func (l *life) slack() time.Duration {
	d := 5 * time.Minute
	if l.lossy {
		d += 10 * time.Minute
	}
	return d
}

// leader returns the place of who has the lock that counts.
func (l *life) leader() (i int) {
	for start := time.Now(); ; l.pass(time.Second) {
		l.chronicle.mu.Lock()
		leads, inTerm := l.holder()
		l.chronicle.mu.Unlock()
		i = slices.IndexFunc(l.places[:], func(h *hand) bool { return h.name == leads && h.up() })
		if i >= 0 && inTerm {
			return i
		}
		require.Less(l.t, time.Since(start), 5*time.Minute, "a leader")
	}
}

// put stores an item of the coordinator as a worker of 3.4 would have.
func (l *life) put(it row) {
	_, err := l.eyes.PutItem(l.t.Context(), &dynamodb.PutItemInput{TableName: aws.String(stateTable), Item: it})
	require.NoError(l.t, err)
	l.chronicle.mu.Lock()
	defer l.chronicle.mu.Unlock()
	key := attribute(it, "key")
	l.items[stateTable][key], l.kept[key], l.keptAt[key] = it, content(stateTable, it), time.Now()
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// streamItems are so many that they are moved in two batches.
const streamItems = 30

func (l *life) play() {
	stopPutting := l.produceSlowly(8, time.Minute)
	for i := range l.places {
		l.take(i, of34)
		l.pass(20 * time.Second)
	}
	for start := time.Now(); !l.attended(); l.pass(time.Second) {
		require.Less(l.t, time.Since(start), 5*time.Minute, "every lease is read")
	}
	l.pass(time.Minute)
	for i := range streamItems {
		l.put(row{"key": text(fmt.Sprint("stream-", i)), "entityType": text("STREAM"), "streamId": text(fmt.Sprint("id-", i))})
	}
	l.put(row{"key": text("Feature9.9"), "entityType": text("FEATURE_OF_ANOTHER_DAY"), "what": text("of a later version")})

	l.roll(ofFirst, 0, 1)
	l.reached(noStatus)
	l.roll(ofFirst, 2)
	l.await(isInit, l.slack())
	l.pass(20 * time.Minute)
	l.reshard()
	l.reached(isInit)
	_, since := l.stored()
	l.await(isDeployed, time.Until(since.Add(time.Hour))+l.slack())
	l.pass(5 * time.Minute)
	l.reached(isDeployed)
	l.roll(ofSecond, 0, 1, 2)
	l.await(isPending, 2*time.Minute+l.slack())
	l.pass(20 * time.Minute)
	l.reshard()
	l.reached(isPending)
	l.await(isPending, l.slack())
	l.vigil()
	l.finish(stopPutting)
}

// attended reports whether every lease has an owner that has begun.
func (l *life) attended() bool {
	l.chronicle.mu.Lock()
	defer l.chronicle.mu.Unlock()
	n := 0
	for _, it := range l.items[simApp] {
		if it["leaseCounter"] == nil {
			continue
		}
		if n++; attribute(it, "leaseOwner") == "" || attribute(it, "checkpoint") == "TRIM_HORIZON" {
			return false
		}
	}
	return n > 0
}

// vigil watches the end of the last bake closely.
func (l *life) vigil() {
	_, since := l.stored()
	due := since.Add(l.course.bake)
	l.pass(time.Until(due.Add(-2 * time.Second)))
	limit := due.Add(l.slack())
	gap, last, died, left := time.Duration(0), time.Now(), false, 20*time.Second
	for left > 0 {
		if l.look() {
			gap, last = max(gap, time.Since(last)), time.Now()
		}
		require.Empty(l.t, l.broken())
		l.chronicle.mu.Lock()
		died = died || time.Since(l.chronicle.died) < time.Minute
		complete := !l.complete.IsZero()
		l.chronicle.mu.Unlock()
		switch {
		case complete && (!died || time.Since(last) < time.Second):
			left -= 20 * time.Millisecond
		case time.Now().After(limit) && !complete:
			l.await(isComplete, 0)
		case time.Now().After(limit):
			left = 0
		}
		time.Sleep(20 * time.Millisecond)
	}
	gap = max(gap, time.Since(last))
	bound := time.Second
	if died { // the others read the status every 30 s, and the lock's term is 30 s
		bound = 65 * time.Second
	}
	if l.tell("without a leader for %v", gap); gap > bound {
		l.fails(noPause, "for %v, not %v", gap, bound)
	}
	l.chronicle.counts["ms without a leader at COMPLETE"] = int(gap.Milliseconds())
}

// finish restarts the fleet, deletes the legacy tables, and looks at what is left.
func (l *life) finish(stopPutting func()) {
	l.pass(2 * time.Minute)
	for _, h := range l.hands {
		if !h.up() || h.ours == nil {
			continue
		}
		if st := h.ours.Status().TableMigration; st == nil || st.Status != isComplete || st.Error != "" {
			l.fails(inTime, "%s does not know of COMPLETE: %+v", h.id, st)
		}
	}
	l.roll(ofLast, 0, 1, 2)
	l.chronicle.mu.Lock()
	for key := range l.items[stateTable] {
		if key != leaderKey && key != stateKey {
			l.breaks(cleanLegacy, "%s is left", key)
		}
	}
	for name, r := range l.items[reportTable] {
		if at := time.Unix(int64(whole(r, "lut")), 0); at.After(l.complete.Add(-rowLives)) {
			l.breaks(cleanLegacy, "%s reported last at %v, and COMPLETE is of %v", name, at, l.complete)
		}
	}
	for key := range l.kept {
		it, kinds := l.items[simApp][key], map[string]string{versionKey: "CLIENT_VERSION_MIGRATION", "Feature9.9": "FEATURE_OF_ANOTHER_DAY"}
		want := kinds[key]
		if want == "" {
			want = "STREAM"
		}
		if attribute(it, "entityType") != want {
			l.breaks(nothingLost, "%s is in the lease table as %v", key, it)
		}
	}
	if len(l.kept) < streamItems+2 || attribute(l.items[simApp][stateKey], "entityType") != "TABLE_MIGRATION" {
		l.breaks(nothingLost, "%d items were kept, the migration's is %v", len(l.kept), l.items[simApp][stateKey])
	}
	l.chronicle.mu.Unlock()
	for _, table := range []string{stateTable, reportTable} {
		_, err := l.eyes.DeleteTable(l.t.Context(), &dynamodb.DeleteTableInput{TableName: &table})
		require.NoError(l.t, err)
	}
	l.pass(5 * time.Minute)
	l.roll(ofLast, 0)
	stopPutting()
	l.pass(3 * time.Minute)
	for _, h := range l.hands {
		l.dismiss(h)
	}
	last := map[string]bool{}
	for _, h := range l.hands {
		last[h.id] = h.stage == ofLast
	}
	for _, call := range l.aws.Calls() {
		if last[call.Client] && (call.Resource == stateTable || call.Resource == reportTable) {
			l.fails(noLegacyCalls, "%+v", call)
		}
	}
	require.Empty(l.t, l.broken())
	l.chronicle.counts["repeated"] = l.requireAll()
}

// The whole life of the single-table migration: a fleet of 3.4 is deployed twice,
// one worker after the other, with both bakes in full, and ends with one table; with
// crashes, lost answers, stragglers and ways back. -full-day plays all lives, -seed
// those that are drawn.
// single-table-migration#36,45,46,48,59,61,87
func TestMigration(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // as repeatable as can be
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	lives := fewLives()
	switch {
	case *firstSeed > 0:
		lives = nil
		for i := range *seeds {
			lives = append(lives, drawLife(*firstSeed+uint64(i)))
		}
	case *fullDay:
		lives = allLives()
		for seed := range uint64(30) {
			lives = append(lives, drawLife(seed+1))
		}
	case racing:
		lives = lives[:1]
	}
	for i, c := range lives {
		t.Run(strings.ReplaceAll(c.name, "/", "_"), func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, uint64(i))
			workerLog.text = nil
			c.run(t)
		})
	}
}
