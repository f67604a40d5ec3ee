package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/scheduler"
)

const (
	demoStream = "orders"
	demoApp    = "orders-app"
)

// worker is one worker of the demonstration. In real life each is a process.
type worker struct {
	name string
	*scheduler.Scheduler
	wire *wire
	cpu  *cpu          // with -load
	done chan struct{} // closed when Run has returned
	err  error         // what it returned; after done
}

// dead reports whether the worker was killed.
func (w *worker) dead() bool { return w.wire.cut.Load() }

// newWorker makes a worker that notes all it is handed in the ledger. Given a
// CPU, it assigns by load and reports that of the CPU.
func newWorker(name string, aws *kcltest.AWS, l *ledger, lists *listings, log io.Writer, c *cpu) (*worker, error) {
	awscfg := aws.Config(name)
	w := &worker{name: name, wire: &wire{worker: name, next: awscfg.HTTPClient, lists: lists}, cpu: c, done: make(chan struct{})}
	awscfg.HTTPClient = w.wire
	cfg := scheduler.Config{
		Application:      demoApp,
		Streams:          kcl.SingleStream(demoStream, kcl.TrimHorizon),
		AWS:              awscfg,
		WorkerIdentifier: name,
		Logger:           slog.New(slog.NewTextHandler(log, nil)),
		NewProcessor: func(_ context.Context, shard kcl.ShardInfo) (kcl.RecordProcessor, error) {
			return &processor{worker: w, ledger: l, shard: shard}, nil
		},
	}
	if c != nil {
		byLoad(&cfg, c)
	}
	s, err := scheduler.New(cfg)
	w.Scheduler = s
	return w, err
}

func (w *worker) run(ctx context.Context) {
	defer close(w.done)
	w.err = w.Run(ctx)
}

// processor is the demonstration's record processor: a user's would do its work
// where this one notes the records.
type processor struct {
	kcl.NopProcessor
	worker *worker
	ledger *ledger
	shard  kcl.ShardInfo
}

func (p *processor) ProcessRecords(ctx context.Context, b *kcl.Batch) error {
	if p.worker.dead() {
		<-ctx.Done() // a dead process does nothing more
		return context.Cause(ctx)
	}
	if p.worker.cpu != nil {
		p.worker.cpu.work(b)
	}
	p.ledger.processed(b)
	return b.Checkpoint(ctx)
}

func (p *processor) ShardEnded(ctx context.Context) error {
	if p.worker.dead() {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	p.ledger.shardEnded(p.shard)
	return nil
}

// fleet is the workers and what is seen of them over time.
type fleet struct {
	workers []*worker

	mu sync.Mutex
	// Guarded by mu.
	leader  string
	leaders int // changes of leader, the first one not counted
	samples []sample
	holders map[string]string // of leases, the last ones seen
	moves   int               // of leases from one worker to another
}

// sample is how many leases each worker held at one time.
type sample struct {
	at     time.Duration
	leases []int
}

// look notes who leads, what moved and, on full seconds, who holds how many
// leases.
func (f *fleet) look(at time.Duration) {
	s := sample{at: at}
	leader, holders := "", make(map[string][]string)
	for _, w := range f.workers {
		st := w.Status()
		if w.dead() {
			st.Leases, st.Leading = nil, false
		}
		if st.Leading {
			leader = w.name
		}
		s.leases = append(s.leases, len(st.Leases))
		for _, l := range st.Leases {
			holders[l.Lease] = append(holders[l.Lease], w.name)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.follow(holders)
	if leader != "" && leader != f.leader {
		if f.leader != "" {
			f.leaders++
		}
		f.leader = leader
	}
	if n := len(f.samples); n == 0 || at-f.samples[n-1].at >= time.Second {
		f.samples = append(f.samples, s)
	}
}

// follow counts moves, given who believes to hold each lease. The caller holds
// mu.
func (f *fleet) follow(holders map[string][]string) {
	if f.holders == nil {
		f.holders = make(map[string]string)
	}
	for lease, by := range holders {
		if len(by) > 1 {
			continue // one of them does not know yet
		}
		if before, known := f.holders[lease]; known && before != by[0] {
			f.moves++
		}
		f.holders[lease] = by[0]
	}
}

// moved is how many leases have moved so far.
func (f *fleet) moved() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.moves
}

func (f *fleet) now() (leader string, leases []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.samples); n > 0 {
		leases = f.samples[n-1].leases
	}
	return f.leader, leases
}

// victim is a worker that holds leases and does not lead.
func (f *fleet) victim() *worker {
	for _, w := range f.workers {
		if st := w.Status(); !w.dead() && !st.Leading && len(st.Leases) > 0 {
			return w
		}
	}
	return nil
}

// stop ends all workers, the dead ones hard, and returns the first error of a
// live one.
func (f *fleet) stop(ctx context.Context) error {
	gone, cancel := context.WithCancel(ctx)
	cancel()
	var wg sync.WaitGroup
	for _, w := range f.workers {
		wg.Go(func() {
			if w.dead() {
				_ = w.Shutdown(gone) // cannot say goodbye to anybody
				return
			}
			_ = w.Shutdown(ctx) // Run returns the same
		})
	}
	wg.Wait()
	for _, w := range f.workers {
		<-w.done
		if w.err != nil && !w.dead() {
			return fmt.Errorf("worker %s: %w", w.name, w.err)
		}
	}
	return nil
}
