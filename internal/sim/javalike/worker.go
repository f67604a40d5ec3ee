package javalike

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	ktypes "github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/google/uuid"
)

// Release is whose rules a worker follows.
type Release int

const (
	V35 Release = iota // 3.5 on a fresh application: one table
	V34                // 3.0 to 3.4: three tables, nothing tagged
)

// Config sets up a [Worker]. Name, Application, Stream, AWS and Processor are
// required; of durations zero means Java's default.
type Config struct {
	Name        string // the worker's, unique among those that live
	Application string // names the lease table
	Stream      string
	Release     Release
	AWS         aws.Config
	Processor   Processor

	Failover           time.Duration // of a lease; default 10 s
	AssignmentInterval time.Duration // between two runs of the leader; default twice Failover
	HandOffTimeout     time.Duration // default 30 s
	LockDuration       time.Duration // default 120 s
	LockHeartbeat      time.Duration // default 30 s
	ReadPeriod         time.Duration // between two reads of a shard; default 1 s
	StopTimeout        time.Duration // for which a stop waits for consumers; default 30 s, Java's has no end

	Seed uint64                           // of what is random
	Tell func(format string, args ...any) // is told what happens; may be nil
}

// Processor is what an application does. Calls for one tenure come one at a time.
type Processor interface {
	// Began comes before the first Process of a tenure.
	Began(t Tenure, checkpoint string)
	// Process has records, at least one, which are checkpointed when it returns.
	Process(ctx context.Context, t Tenure, records []ktypes.Record)
	// Ended comes after the last Process of a tenure that Began.
	Ended(t Tenure, why string)
}

// Tenure is the time for which a worker has a lease.
type Tenure struct {
	Worker, Shard string
	Token         string // new for each tenure
}

// Complaint is about something that a Java worker cannot read, or must not meet.
type Complaint struct {
	At     time.Time
	Worker string
	Act    string // in which it was met, such as "lease listing"
	Key    string // of the item
	Err    error
}

func (c Complaint) String() string {
	return fmt.Sprintf("%s, in %s, of %q: %s", c.Worker, c.Act, c.Key, strings.ReplaceAll(c.Err.Error(), "\n", "; "))
}

// ErrKilled, as the cause of the end of Run's context, is a death: no further call
// is made.
var ErrKilled = errors.New("javalike: killed")

// Java's settings that are not worth a choice.
const (
	epsilon          = 25 * time.Millisecond
	reportPeriod     = 30 * time.Second
	firstReport      = 2 * time.Second
	handOffCheck     = 2 * time.Second
	mainPeriod       = time.Second
	parentPoll       = 10 * time.Second
	taskBackoff      = 500 * time.Millisecond
	cleanupPeriod    = time.Minute
	cleanupCompleted = 5 * time.Minute
	auditFirst       = time.Minute
	auditPeriod      = 2 * time.Minute
	auditConfidence  = 3
	syncIdle         = time.Minute
	startAttempts    = 20
	startBackoff     = time.Second
	tablePoll        = 10 * time.Second
	requestTimeout   = time.Minute
)

// Worker is one worker. Use it once.
type Worker struct {
	Config
	wire    tables
	db      *dynamodb.Client
	streams *kinesis.Client

	decider   decider
	assigner  assigner
	audit     audit
	reporting bool           // and what begins with that
	jobs      sync.WaitGroup // every goroutine but Run's

	mu sync.Mutex // held over no call, no sleep and no turn of a lease
	// Guarded by mu.
	rng        *rand.Rand
	held       map[string]*held     // by lease
	consumers  map[string]*consumer // by token
	handOffs   map[string]*handOff  // by token
	volumes    map[string]*volume   // by lease
	done       []lease              // to be cleaned up
	cleaned    time.Time            // when a lease was last cleaned up
	complaints []Complaint
}

// New returns a worker that has made no call yet.
func New(c Config) *Worker {
	c.Failover = cmp.Or(c.Failover, 10*time.Second)
	c.AssignmentInterval = cmp.Or(c.AssignmentInterval, 2*c.Failover)
	c.HandOffTimeout = cmp.Or(c.HandOffTimeout, 30*time.Second)
	c.LockDuration = cmp.Or(c.LockDuration, 2*time.Minute)
	c.LockHeartbeat = cmp.Or(c.LockHeartbeat, 30*time.Second)
	c.ReadPeriod = cmp.Or(c.ReadPeriod, time.Second)
	c.StopTimeout = cmp.Or(c.StopTimeout, 30*time.Second)
	if c.Tell == nil {
		c.Tell = func(string, ...any) {}
	}
	w := &Worker{
		Config: c, wire: tablesOf(c.Release, c.Application),
		db: dynamodb.NewFromConfig(c.AWS), streams: kinesis.NewFromConfig(c.AWS),
		rng: rand.New(rand.NewPCG(c.Seed, 1)), held: map[string]*held{}, consumers: map[string]*consumer{},
		handOffs: map[string]*handOff{}, volumes: map[string]*volume{}, cleaned: time.Now(),
	}
	w.decider.turn, w.assigner.seen = make(chan struct{}, 1), map[string]*sighting{}
	return w
}

// Complaints returns what was complained of so far.
func (w *Worker) Complaints() []Complaint {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.complaints)
}

func (w *Worker) complain(act, key string, err error) {
	w.mu.Lock()
	c := Complaint{time.Now(), w.Name, act, key, err}
	w.complaints = append(w.complaints, c)
	w.mu.Unlock()
	w.Tell("COMPLAINT %s", c)
}

func (w *Worker) token() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b [16]byte
	for i := range b {
		b[i] = byte(w.rng.UintN(256))
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return uuid.UUID(b).String()
}

// random returns a time from low up to high.
func (w *Worker) random(low, high time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return low + time.Duration(w.rng.Int64N(int64(high-low)))
}

// Run works until ctx ends. Then it stops as Java does: consumers finish what they
// have in hand and checkpoint, the lock is freed, and leases are left as they are,
// owned. If the cause is [ErrKilled] it is gone at once.
func (w *Worker) Run(ctx context.Context) error {
	// life outlasts ctx for as long as a stop takes; work ends with ctx.
	life, die := context.WithCancelCause(context.WithoutCancel(ctx))
	work, stop := context.WithCancel(life)
	defer w.jobs.Wait()
	defer die(nil)
	context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), ErrKilled) {
			die(ErrKilled)
		}
		stop()
	})
	if err := w.start(life, work); err != nil {
		stopped := work.Err() != nil
		stop()
		w.decider.shutdown(life, w)
		if stopped {
			return nil
		}
		return err
	}
	w.Tell("%s has started", w.Name)
	w.initialRenewals(life)
	w.every(life, 0, w.Failover/3-epsilon, w.renewAll)
	w.every(work, w.AssignmentInterval/2-epsilon, w.AssignmentInterval/2-epsilon, w.discover) // Java's first is in vain
	w.every(work, handOffCheck, handOffCheck, w.checkHandOffs)
	w.every(work, 0, cleanupPeriod, w.cleanUp)
	w.every(work, auditFirst, auditPeriod, w.auditRun)

	for sleep(work, mainPeriod) {
		w.dispatch(life)
		w.decider.isLeader(work, w)
	}
	for deadline := time.Now().Add(w.StopTimeout); w.parting() && time.Now().Before(deadline) && sleep(life, mainPeriod/10); {
		w.lookAfter(life)
	}
	w.decider.shutdown(life, w)
	return nil
}

// start makes everything ready, as often as Java tries.
func (w *Worker) start(life, work context.Context) (err error) {
	for range startAttempts {
		if err = w.attempt(life, work); err == nil {
			return nil
		}
		w.Tell("%s cannot start: %v", w.Name, err)
		if !sleep(work, startBackoff) {
			return work.Err()
		}
	}
	return fmt.Errorf("all attempts failed: %w", err)
}

func (w *Worker) attempt(life, work context.Context) error {
	if err := w.makeTable(work, w.wire.lease, "leaseKey"); err != nil {
		return err
	}
	if w.wire.legacy { // 3.4.3 is the first that asks who leads before it syncs
		if err := w.makeTable(work, w.wire.state, w.wire.stateKey); err != nil {
			return err
		}
		if err := w.firstSync(work, func() bool { return true }); err != nil {
			return err
		}
	} else if found, err := w.tableStatus(work, w.Application+"-CoordinatorState"); err != nil || found != "" {
		return fmt.Errorf("the application has tables of 3.4, which this worker knows nothing of: %q, %v", found, err)
	}
	if err := w.persistVersion(work); err != nil {
		return err
	}
	if w.wire.legacy {
		if err := w.makeTable(work, w.wire.stats, w.wire.statsKey); err != nil {
			return err
		}
	}
	if err := w.makeIndex(work); err != nil {
		return err
	}
	if !w.reporting {
		w.reporting = true
		w.every(life, 0, w.LockHeartbeat, func(ctx context.Context) { w.decider.beat(ctx, w) })
		w.every(work, firstReport, reportPeriod, w.sendReport)
		w.every(work, 0, w.AssignmentInterval, w.assign)
	}
	if w.wire.legacy {
		return nil
	}
	return w.firstSync(work, func() bool { return w.decider.isLeader(work, w) })
}

// every does something now and then until ctx ends.
func (w *Worker) every(ctx context.Context, first, period time.Duration, do func(context.Context)) {
	w.jobs.Go(func() {
		for d := first; sleep(ctx, d); d = period {
			do(ctx)
		}
	})
}

// sleep waits, and reports whether it did so to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
