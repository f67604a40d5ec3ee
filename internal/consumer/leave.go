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
func (l life) leave() Result {
	l.closeSource()
	if l.work.Err() == nil && l.initialized {
		l.say(StateLeaving, "ShutdownRequested is running")
		l.once(kcl.CallbackShutdownRequested, func() error {
			return l.processor.ShutdownRequested(l.work, l.checkpoint.Final())
		})
	}
	res := l.letGo()
	if l.processor != nil {
		l.say(StateLeaving, "LeaseLost is running")
		defer l.timed("ShutdownTask", "RecordProcessor.shutdown.Time", nil)()
		l.once(kcl.CallbackLeaseLost, func() error {
			l.processor.LeaseLost(l.base)
			return nil
		})
	}
	return res
}

// once calls a callback that is not repeated, whatever comes of it.
func (l life) once(cb kcl.Callback, f func() error) {
	p, err := guard(f)
	if err == nil || p == nil && l.outOfHands(err) {
		return
	}
	l.judge(kcl.Failure{Callback: cb, Err: err, Attempt: 1, Panic: p}, false)
}

// letGo gives the lease to whoever is to have it. The hard stop leaves it only
// leaveTimeout.
func (l life) letGo() Result {
	l.mu.Lock()
	lost, keep := l.lost, l.keep
	l.mu.Unlock()
	if lost {
		return Result{End: Lost}
	}
	l.say(StateLeaving, "gives up the lease")
	key, token := l.lease.Key, l.lease.Token
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.base), leaveTimeout)
	defer cancel()
	defer l.cfg.Leases.Drop(key, token)

	end := HandedOver
	err := l.cfg.Leases.Transfer(ctx, key, token)
	switch {
	case !errors.Is(err, lease.ErrNoHandOff):
	case keep:
		end, err = Kept, l.cfg.Leases.Flush(ctx, key, token)
	default:
		end, err = Released, l.cfg.Leases.Release(ctx, key, token)
	}
	switch {
	case errors.Is(err, kcl.ErrLeaseLost):
		return Result{End: Lost}
	case err != nil:
		err = fmt.Errorf("give up lease %s: %w", key, err)
		l.log.Warn("lease not given up, it will be found expired", "lease", key, "err", err)
		return Result{End: Kept, Err: err}
	}
	return Result{End: end}
}
