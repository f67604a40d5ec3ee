package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/checkpoint"
	"github.com/go-kcl/kcl/internal/retrieval"
	"github.com/go-kcl/kcl/internal/wait"
	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/metrics"
)

// readLease reads where the shard is to be taken up. It is false when the
// consumer is to leave.
func (c *Consumer) readLease(stay context.Context) (lease.Lease, bool) {
	c.say(StateStarting, "reads its lease")
	for attempt := 1; ; attempt++ {
		row, found, err := c.cfg.Store.GetConsistent(stay, c.lease.Key)
		switch {
		case stay.Err() != nil:
			return lease.Lease{}, false
		case err == nil && found:
			return row, true
		case err == nil:
			c.log.Warn("lease is gone from the table, dropped", "lease", c.lease.Key)
			c.giveUp()
			return lease.Lease{}, false
		}
		c.failing(stay, StateStarting, "cannot read its lease", attempt, err)
		if !wait.For(stay, c.tableRetry(attempt)) {
			return lease.Lease{}, false
		}
	}
}

// open starts to read the shard, ahead of the processor's start, so that what
// arrives meanwhile at a shard read from LATEST is not missed.
func (c *Consumer) open(stay context.Context, row lease.Lease) {
	at := c.stream.Position.Timestamp()
	if row.Checkpoint == kcl.AtTimestampSentinel && at.IsZero() {
		c.log.Warn("lease begins at a timestamp that this worker was not given: it begins at TRIM_HORIZON",
			"lease", c.lease.Key)
	}
	ckpt := checkpoint.New(checkpoint.Config{
		Leases: c.cfg.Leases, Key: c.lease.Key, Token: c.lease.Token,
		Last: row.Checkpoint, Auto: c.cfg.Handler != nil,
		Metrics: c.cfg.Metrics, Dimensions: c.dims,
	})
	src := c.cfg.Open(stay, retrieval.Shard{
		Stream: c.info.Stream, ShardID: c.info.ShardID, Checkpoint: row.Checkpoint, Timestamp: at,
	})
	c.mu.Lock()
	c.source, c.checkpoint = src, ckpt
	c.mu.Unlock()
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
func (c *Consumer) initialize(work, stay context.Context, row lease.Lease) bool {
	if !c.until(work, stay, stay, kcl.CallbackNew, StateStarting, c.newProcessor) {
		return false
	}
	if stay.Err() != nil {
		return false
	}
	in := &kcl.Initialization{Shard: c.info, Position: row.Checkpoint}
	if !row.Pending.IsZero() {
		in.Pending = &kcl.PendingCheckpoint{Position: row.Pending, State: row.PendingState}
	}
	c.initialized = c.until(work, stay, stay, kcl.CallbackInitialize, StateStarting, func(ctx context.Context) error {
		defer c.timed("InitializeTask", "RecordProcessor.initialize.Time", nil)()
		return c.processor.Initialize(ctx, in)
	})
	return c.initialized
}

func (c *Consumer) newProcessor(ctx context.Context) error {
	if c.cfg.Handler != nil {
		c.processor = handler{process: c.cfg.Handler}
		return nil
	}
	p, err := c.cfg.NewProcessor(ctx, c.info)
	if err == nil && p == nil {
		err = errors.New("it returned no processor")
	}
	if err == nil {
		c.processor = p
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
