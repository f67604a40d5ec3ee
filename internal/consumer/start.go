package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/checkpoint"
	"github.com/go-kcl/kcl/internal/retrieval"
	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/metrics"
)

// readLease reads where the shard is to be taken up. It is false when the
// consumer is to leave.
func (l life) readLease() (lease.Lease, bool) {
	l.say(StateStarting, "reads its lease")
	for attempt := 1; ; attempt++ {
		row, found, err := l.cfg.Store.GetConsistent(l.stay, l.lease.Key)
		switch {
		case l.stay.Err() != nil:
			return lease.Lease{}, false
		case err == nil && found:
			return row, true
		case err == nil:
			l.log.Warn("lease is gone from the table, dropped", "lease", l.lease.Key)
			l.giveUp()
			return lease.Lease{}, false
		}
		l.failing(StateStarting, "cannot read its lease", attempt, err)
		if !pause(l.stay, l.tableRetry(attempt)) {
			return lease.Lease{}, false
		}
	}
}

// open starts to read the shard, ahead of the processor's start, so that what
// arrives meanwhile at a shard read from LATEST is not missed.
func (l life) open(row lease.Lease) Source {
	at := l.stream.Position.Timestamp()
	if row.Checkpoint == kcl.AtTimestampSentinel && at.IsZero() {
		l.log.Warn("lease begins at a timestamp that this worker was not given: it begins at TRIM_HORIZON",
			"lease", l.lease.Key)
	}
	ckpt := checkpoint.New(checkpoint.Config{
		Leases: l.cfg.Leases, Key: l.lease.Key, Token: l.lease.Token,
		Last: row.Checkpoint, Auto: l.cfg.Handler != nil,
		Metrics: l.cfg.Metrics, Dimensions: l.dims,
	})
	src := l.cfg.Open(l.stay, retrieval.Shard{
		Stream: l.info.Stream, ShardID: l.info.ShardID, Checkpoint: row.Checkpoint, Timestamp: at,
	})
	l.mu.Lock()
	l.source, l.checkpoint = src, ckpt
	l.mu.Unlock()
	return src
}

func (c *Consumer) closeSource() {
	c.mu.Lock()
	src := c.source
	c.mu.Unlock()
	if src != nil {
		src.Close()
	}
}

// initialize makes the processor and initializes it.
func (l life) initialize(row lease.Lease) bool {
	if !l.until(l.stay, kcl.CallbackNew, StateStarting, l.newProcessor) {
		return false
	}
	if l.stay.Err() != nil {
		return false
	}
	in := &kcl.Initialization{Shard: l.info, Position: row.Checkpoint}
	if !row.Pending.IsZero() {
		in.Pending = &kcl.PendingCheckpoint{Position: row.Pending, State: row.PendingState}
	}
	l.initialized = l.until(l.stay, kcl.CallbackInitialize, StateStarting, func(ctx context.Context) error {
		defer l.timed("InitializeTask", "RecordProcessor.initialize.Time", nil)()
		return l.processor.Initialize(ctx, in)
	})
	return l.initialized
}

func (l life) newProcessor(ctx context.Context) error {
	if l.cfg.Handler != nil {
		l.processor = handler{process: l.cfg.Handler}
		return nil
	}
	p, err := l.cfg.NewProcessor(ctx, l.info)
	if err == nil && p == nil {
		err = errors.New("it returned no processor")
	}
	if err == nil {
		l.processor = p
	}
	return err
}

// handler is the processor of those who gave just a function.
type handler struct {
	kcl.NopProcessor
	process func(context.Context, *kcl.Batch) error
}

func (h handler) ProcessRecords(ctx context.Context, b *kcl.Batch) error { return h.process(ctx, b) }

// timed returns a function that reports the time since it was made.
func (c *Consumer) timed(operation, name string, dims []metrics.Dimension) func() {
	start := time.Now()
	return func() {
		metrics.Scope{Recorder: c.cfg.Metrics, Operation: operation, Dimensions: dims}.
			Add(name, float64(time.Since(start))/float64(time.Millisecond), metrics.Milliseconds, metrics.Summary)
	}
}
