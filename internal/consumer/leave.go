package consumer

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/lease"
)

// leave gives the shard up before its end: the processor's last chance, if it
// is a graceful matter, then the lease, then LeaseLost.
func (c *Consumer) leave(base, work context.Context) Result {
	c.closeSource()
	if work.Err() == nil && c.initialized {
		c.say(StateLeaving, "ShutdownRequested is running")
		c.once(work, kcl.CallbackShutdownRequested, func() error {
			return c.processor.ShutdownRequested(work, c.checkpoint.Final())
		})
	}
	res := c.letGo(base)
	if c.processor != nil {
		c.say(StateLeaving, "LeaseLost is running")
		defer c.timed("ShutdownTask", "RecordProcessor.shutdown.Time", nil)()
		c.once(work, kcl.CallbackLeaseLost, func() error {
			c.processor.LeaseLost(base)
			return nil
		})
	}
	return res
}

// once calls a callback that is not repeated, whatever comes of it.
func (c *Consumer) once(work context.Context, cb kcl.Callback, f func() error) {
	p, err := guard(f)
	if err == nil || p == nil && c.outOfHands(work, err) {
		return
	}
	c.judge(kcl.Failure{Callback: cb, Err: err, Attempt: 1, Panic: p}, false)
}

// letGo gives the lease to whoever is to have it. The hard stop leaves it only
// leaveTimeout.
func (c *Consumer) letGo(base context.Context) Result {
	c.mu.Lock()
	lost, keep := c.lost, c.keep
	c.mu.Unlock()
	if lost {
		return Result{End: Lost}
	}
	c.say(StateLeaving, "gives up the lease")
	key, token := c.lease.Key, c.lease.Token
	ctx, cancel := context.WithTimeout(context.WithoutCancel(base), leaveTimeout)
	defer cancel()
	defer c.cfg.Leases.Drop(key, token)

	end := HandedOver
	err := c.cfg.Leases.Transfer(ctx, key, token)
	switch {
	case !errors.Is(err, lease.ErrNoHandOff):
	case keep:
		end, err = Kept, c.cfg.Leases.Flush(ctx, key, token)
	default:
		end, err = Released, c.cfg.Leases.Release(ctx, key, token)
	}
	switch {
	case errors.Is(err, kcl.ErrLeaseLost):
		return Result{End: Lost}
	case err != nil:
		err = fmt.Errorf("give up lease %s: %w", key, err)
		c.log.Warn("lease not given up, it will be found expired", "lease", key, "err", err)
		return Result{End: Kept, Err: err}
	}
	return Result{End: end}
}
