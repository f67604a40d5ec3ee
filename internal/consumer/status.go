package consumer

import (
	"context"
	"log/slog"
	"time"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/metrics"
)

// State is the phase that a consumer is in.
type State string

// The states.
const (
	StateNew        State = "new"                 // Run was not called yet
	StateWaiting    State = "waiting for parents" // parents' leases are not at SHARD_END
	StateStarting   State = "starting"            // reads the lease, makes and initializes the processor
	StateReading    State = "reading"             // waits for records
	StateProcessing State = "processing"          // a batch is with the processor
	StateRetrying   State = "retrying"            // a batch failed and will be delivered again
	StateStopped    State = "stopped"             // by the failure policy; the lease is kept
	StateEnding     State = "ending"              // the shard's end was read
	StateLeaving    State = "leaving"             // the lease is being given up
	StateDone       State = "done"                // Run has returned or is about to
)

// Status says what a consumer does.
type Status struct {
	Shard kcl.ShardInfo
	State State
	// Waiting says in words what the consumer waits for; Since is when that, or
	// the state, began.
	Waiting string
	Since   time.Time
	// Attempts counts what has failed in a row, Err is the last failure.
	Attempts int
	Err      error
	// Accepted is how far the shard has been processed, Checkpoint what is
	// stored of that. Both are zero until the lease was read.
	Accepted, Checkpoint kcl.Position
	// Behind is how far the last batch that was delivered lay behind the shard's
	// tip, if BehindKnown.
	Behind      time.Duration
	BehindKnown bool
}

// Status returns what the consumer does at present.
func (c *Consumer) Status() Status {
	c.mu.Lock()
	s, src, ckpt := c.status, c.source, c.checkpoint
	c.mu.Unlock()
	s.Shard = c.info
	if ckpt != nil {
		s.Accepted, s.Checkpoint = ckpt.Accepted(), ckpt.Last()
	}
	if src == nil || s.State != StateReading {
		return s
	}
	s.Waiting = "no new records"
	switch r := src.Status(); {
	case r.Waiting != "":
		s.Waiting, s.Since, s.Attempts, s.Err = r.Waiting, r.Since, r.Failures, r.Err
	case r.Fetched.IsZero():
		s.Waiting = "waits for the first answer from Kinesis"
	}
	return s
}

// say sets what the consumer does.
func (c *Consumer) say(s State, waiting string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status.State == s && c.status.Waiting == waiting && c.status.Attempts == 0 {
		return
	}
	c.status.State, c.status.Waiting, c.status.Since = s, waiting, time.Now()
	c.status.Attempts, c.status.Err = 0, nil
}

// sayFailing is say for what has failed so many times in a row.
func (c *Consumer) sayFailing(s State, waiting string, attempts int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status.State != s || c.status.Attempts == 0 {
		c.status.Since = time.Now()
	}
	c.status.State, c.status.Waiting = s, waiting
	c.status.Attempts, c.status.Err = attempts, err
}

// failing records that a call to the lease table failed, which is tried again
// for as long as it takes. The first failure in a row is worth a line. That ctx
// has ended is none.
func (c *Consumer) failing(ctx context.Context, s State, what string, attempts int, err error) {
	if ctx.Err() != nil {
		return
	}
	c.sayFailing(s, what, attempts, err)
	level := slog.LevelDebug
	if attempts == 1 {
		level = slog.LevelWarn
	}
	c.log.Log(ctx, level, "shard is held up, tried again", "what", what, "attempts", attempts, "err", err)
}

// Report speaks up when the shard has been delivering nothing for longer than
// WarnAfter, because the processor or Kinesis does not answer or something
// fails: by one line when that begins, and by the metric NotDelivering.Time,
// in milliseconds, each WarnAfter as long as it lasts. again is the earliest
// time at which there can be something to say again.
func (c *Consumer) Report(now time.Time) (again time.Time) {
	s := c.Status()
	due := overdueAt(s, now, c.cfg.WarnAfter)
	if now.Before(due) {
		return due
	}
	c.mu.Lock()
	first := c.reported.Before(s.Since)
	if next := c.reported.Add(c.cfg.WarnAfter); !first && now.Before(next) {
		c.mu.Unlock()
		return next
	}
	c.reported = now
	c.mu.Unlock()
	took := now.Sub(s.Since)
	scope := metrics.Scope{Recorder: c.cfg.Metrics, Operation: "ProcessTask", Dimensions: c.dims}
	scope.Add("NotDelivering.Time", float64(took)/float64(time.Millisecond), metrics.Milliseconds, metrics.Summary)
	if first {
		c.log.Warn("shard delivers nothing", "state", string(s.State), "waiting", s.Waiting,
			"for", took.Round(time.Second).String(), "attempts", s.Attempts, "err", s.Err)
	}
	return now.Add(c.cfg.WarnAfter)
}

// overdueAt returns when a shard in that state should have delivered, which may
// be long ago. Waiting for parents or for new records may take days, and what
// the failure policy has stopped was told then: such a state is overdue no
// earlier than one that might begin now.
func overdueAt(s Status, now time.Time, after time.Duration) time.Time {
	since := s.Since
	switch s.State {
	case StateWaiting, StateReading:
		if s.Attempts == 0 {
			since = now
		}
	case StateNew, StateStopped, StateDone:
		since = now
	}
	return since.Add(after)
}
