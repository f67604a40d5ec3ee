package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/wait"
)

const (
	// A failed callback is called again after firstRetry, then twice as long as
	// before, up to maxRetry.
	firstRetry = 100 * time.Millisecond
	maxRetry   = 30 * time.Second
	// A failed call to the lease table is made again after Config.TaskBackoff,
	// then twice as long as before, up to maxTableRetry.
	maxTableRetry = 8 * time.Second
)

// retryDelay is the wait after the n-th failure in a row, counted from 1.
func retryDelay(n int, first, limit time.Duration) time.Duration {
	d, limit := first, max(first, limit)
	for range n - 1 {
		if d *= 2; d >= limit {
			return limit
		}
	}
	return d
}

// tableRetry is the wait after the n-th failed call to the lease table; whole
// fleets fail together, so it differs.
func (c *Consumer) tableRetry(n int) time.Duration {
	d := retryDelay(n, c.cfg.TaskBackoff, maxTableRetry)
	return d + time.Duration(c.cfg.Random()*float64(d)/2)
}

// guard calls f and makes a panic an error.
func guard(f func() error) (p *kcl.Panic, err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		p = &kcl.Panic{Value: v, Stack: debug.Stack()}
		if e, ok := v.(error); ok {
			err = fmt.Errorf("panic: %w", e)
			return
		}
		err = fmt.Errorf("panic: %v", v)
	}()
	return nil, f()
}

// verdict is what a failed callback leads to.
type verdict uint8

const (
	again verdict = iota // after a delay
	skipped
	stopped // the shard; perhaps with it the worker
)

// judge asks the failure policy, logs, and acts upon StopWorker. Of a callback
// that is not repeatable, the answer matters for nothing else.
func (c *Consumer) judge(f kcl.Failure, repeatable bool) (verdict, time.Duration) {
	f.Shard = c.info
	action := c.ask(f)
	v, delay := again, retryDelay(f.Attempt, firstRetry, maxRetry)
	switch {
	case action == kcl.StopShard, action == kcl.StopWorker:
		v = stopped
	case action == kcl.Skip && f.Callback != kcl.CallbackNew: // without a processor there is no going on
		v = skipped
	default:
		if d, given := action.Delay(); given {
			delay = d
		}
	}
	level, message := slog.LevelError, "processor failed"
	switch {
	case !repeatable:
	case v == again && f.Attempt > 1:
		level, message = slog.LevelDebug, "processor failed again, tried again"
	case v == again:
		level, message = slog.LevelWarn, "processor failed, tried again"
	}
	attrs := []any{"callback", string(f.Callback), "action", action.String(), "attempt", f.Attempt, "err", f.Err}
	if !f.First.IsZero() {
		attrs = append(attrs, "first", f.First.String(), "last", f.Last.String())
	}
	if f.Panic != nil {
		attrs = append(attrs, "stack", string(f.Panic.Stack))
	}
	c.log.Log(context.Background(), level, message, attrs...)
	if action == kcl.StopWorker {
		c.cfg.StopWorker(fmt.Errorf("shard %s: %s: %w", c.info.LeaseKey, f.Callback, f.Err))
	}
	return v, delay
}

// ask returns what OnFailure says; if that panics, the default.
func (c *Consumer) ask(f kcl.Failure) (action kcl.Action) {
	if c.cfg.OnFailure == nil {
		return kcl.Action{}
	}
	_, err := guard(func() error {
		action = c.cfg.OnFailure(f)
		return nil
	})
	if err != nil {
		c.log.Error("OnFailure panicked, the default action is taken", "err", err)
		return kcl.Action{}
	}
	return action
}

// until calls a callback until it returns nil, or the failure policy says to go
// on without that. It is false when the consumer is to leave: because patience has
// ended, the lease is lost, or the shard was stopped, which it waits out here.
func (c *Consumer) until(work, patience, stay context.Context, cb kcl.Callback, s State, f func(context.Context) error) bool {
	for attempt := 1; work.Err() == nil; attempt++ {
		if attempt == 1 {
			c.say(s, string(cb)+" is running")
		}
		p, err := guard(func() error { return f(work) })
		switch {
		case err == nil:
			return true
		case c.outOfHands(work, err):
			return false
		}
		v, delay := c.judge(kcl.Failure{Callback: cb, Err: err, Attempt: attempt, Panic: p}, true)
		switch v {
		case skipped:
			return true
		case stopped:
			c.park(stay, cb, err)
			return false
		}
		c.sayFailing(s, string(cb)+" failed and is tried again", attempt, err)
		if !wait.For(patience, delay) {
			return false
		}
	}
	return false
}

// outOfHands reports whether a callback's error is nobody's concern: its
// context was cancelled, or it has met the loss of the lease before we did.
func (c *Consumer) outOfHands(work context.Context, err error) bool {
	if work.Err() != nil {
		return true
	}
	if errors.Is(err, kcl.ErrLeaseLost) {
		c.giveUp()
		return true
	}
	return false
}

// park waits until the consumer is to leave. The lease stays held, so that no
// other worker meets the same failure.
func (c *Consumer) park(stay context.Context, cb kcl.Callback, err error) {
	c.closeSource()
	c.sayFailing(StateStopped, "stopped by OnFailure after "+string(cb)+" failed", 1, err)
	<-stay.Done()
}
