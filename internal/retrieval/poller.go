package retrieval

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-kcl/kcl/internal/wait"
	"github.com/go-kcl/kcl/metrics"
)

// Poller reads one shard by GetRecords. Next is for one goroutine at a time;
// Status and Close may be called from any.
type Poller struct {
	r     *Reader
	shard Shard
	log   *slog.Logger
	scope metrics.Scope

	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended

	// out holds what was fetched ahead. Only the goroutine sends, and only when
	// hasRoom said so, so that it never blocks.
	out     chan *Batch
	records atomic.Int64  // queued in out
	bytes   atomic.Int64  // queued in out
	room    chan struct{} // a batch left out
	wanted  chan struct{} // with NoPrefetch: Next waits
	account *account

	// What follows belongs to the goroutine.
	iterator string    // "" when a new one is needed
	last     string    // the last sequence number read
	since    time.Time // when the first iterator was given
	reserved int64     // of the budget, for the next response
	history  history
	failed   kind // of the last failure
	repeated int  // how often in a row

	mu     sync.Mutex
	status Status
}

// Status says what a Poller does.
type Status struct {
	// Waiting says in words why nothing is fetched, or fails to be; empty while
	// a call goes on or the next one is only a matter of pace.
	Waiting string
	// Since is when that began.
	Since time.Time
	// Failures counts the failed calls in a row; Err is the last one's error.
	Failures int
	Err      error
	// Fetched is when the last response came; zero if none did.
	Fetched time.Time
}

// Open starts to read a shard. The context ends it, as Close does.
func (r *Reader) Open(ctx context.Context, shard Shard) *Poller {
	ctx, cancel := context.WithCancel(ctx)
	p := &Poller{
		r:     r,
		shard: shard,
		log:   r.cfg.Logger.With("stream", shard.Stream.String(), "shard", shard.ShardID),
		scope: metrics.Scope{
			Recorder: r.cfg.Metrics, Operation: "ProcessTask", Dimensions: Dimensions(shard.Stream, shard.ShardID),
		},
		cancel:  cancel,
		done:    make(chan struct{}),
		out:     make(chan *Batch, max(1, r.cfg.MaxPending)),
		room:    make(chan struct{}, 1),
		wanted:  make(chan struct{}, 1),
		account: &account{b: r.cfg.Budget},
	}
	go p.run(ctx) // until ctx ends or the shard does; Close waits
	return p
}

// Next returns the next batch, in order. It fails only with ctx. Behind the
// batch that is the shard's End there is none: Next then waits for ctx.
func (p *Poller) Next(ctx context.Context) (*Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	signal(p.wanted)
	select {
	case b := <-p.out:
		p.records.Add(-int64(len(b.Records)))
		p.bytes.Add(-int64(b.Bytes))
		signal(p.room)
		return b, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close ends the reading, a call under way included, and drops what was fetched
// ahead. When it returns, no call will be made any more. It may be called twice.
func (p *Poller) Close() {
	p.cancel()
	<-p.done
	for {
		select {
		case b := <-p.out:
			b.Release()
		default:
			return
		}
	}
}

// Status returns what the Poller does.
func (p *Poller) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

func (p *Poller) run(ctx context.Context) {
	defer close(p.done)
	for {
		if !p.awaitRoom(ctx) || !p.pace(ctx) || !p.awaitBudget(ctx) {
			return
		}
		b, ok := p.fetch(ctx)
		if !ok {
			if ctx.Err() != nil {
				return
			}
			continue
		}
		p.records.Add(int64(len(b.Records)))
		p.bytes.Add(int64(b.Bytes))
		p.out <- b
		if b.End {
			return
		}
	}
}

// awaitRoom waits until a further batch may be queued.
func (p *Poller) awaitRoom(ctx context.Context) bool {
	if p.r.cfg.MaxPending == NoPrefetch {
		if p.history.failures > 0 {
			return ctx.Err() == nil // Next still waits
		}
		select {
		case <-p.wanted:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for !p.hasRoom() {
		select {
		case <-p.room:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func (p *Poller) hasRoom() bool {
	n, cfg := len(p.out), &p.r.cfg
	return n == 0 || n < cfg.MaxPending &&
		p.records.Load() < int64(cfg.MaxRecordCount) && p.bytes.Load() < int64(cfg.MaxBytes)
}

// pace waits until the next call is due.
func (p *Poller) pace(ctx context.Context) bool {
	d := pause(p.history, time.Now(), &p.r.cfg, p.r.cfg.Random())
	p.history.called = true
	return wait.For(ctx, d)
}

// awaitBudget waits for the memory that a response as large as the last one
// takes.
func (p *Poller) awaitBudget(ctx context.Context) bool {
	admitted := p.account.reserve(p.reserved)
	if admitted == nil {
		return true
	}
	p.say("the worker's shards hold MaxBufferedBytes of records: waits for processors to finish some")
	if p.account.wait(ctx, admitted) != nil {
		return false
	}
	p.say("")
	return true
}

// say sets what Status says of a wait.
func (p *Poller) say(waiting string) {
	p.mu.Lock()
	p.status.Waiting, p.status.Since = waiting, time.Now()
	p.mu.Unlock()
}

// signal wakes whoever waits for c, now or next.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
