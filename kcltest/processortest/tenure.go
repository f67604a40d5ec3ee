package processortest

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/go-kcl/kcl"
)

// Errors of a Tenure whose methods are called out of order.
var (
	ErrNotInitialized = errors.New("processortest: the processor is not initialized")
	ErrOver           = errors.New("processortest: the tenure is over")
	ErrNotAtEnd       = errors.New("processortest: the shard is open, or has records that were not processed")
)

// PanicError is the error of a callback that panicked.
type PanicError struct{ kcl.Panic }

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value of the panic if it was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Tenure is a processor's time with a shard.
type Tenure struct {
	shard     *Shard
	id        int
	info      kcl.ShardInfo
	processor kcl.RecordProcessor
	auto      bool
	turn      chan struct{} // capacity 1: full while a callback runs

	// Guarded by shard.mu.
	initialized               bool
	lost                      bool                    // checkpoints are refused
	over                      bool                    // no callback but LeaseLost is called any more
	told                      bool                    // nor that
	running                   context.CancelCauseFunc // of the callback under way, or nil
	last, accepted, permitted kcl.Position
	read                      kcl.Position // the end of what was taken from the shard
	failed                    []kcl.Record // is to be delivered again; the last batch of all if atEnd
	atEnd                     bool
	inHand                    *checkpointer
}

// Initialize calls the processor's Initialize with the stored checkpoint, and
// with what was prepared.
func (t *Tenure) Initialize(ctx context.Context) error {
	return t.call(ctx, func(ctx context.Context) error {
		err := t.processor.Initialize(ctx, &kcl.Initialization{
			Shard: t.info, Position: t.shard.Checkpoint(), Pending: t.shard.Pending(),
		})
		t.shard.mu.Lock()
		defer t.shard.mu.Unlock()
		t.initialized = t.initialized || err == nil
		return err
	})
}

// Deliver calls ProcessRecords with the next limit records, or with all there
// are if limit is 0. If there are none, it calls nothing and returns nil.
//
// After an error it returns that; the next call delivers what the failed batch
// held behind the last checkpoint, or from where kcl.FailedAt says, whatever its
// limit: unless [Tenure.Skip] gives that up.
func (t *Tenure) Deliver(ctx context.Context, limit int) error {
	return t.deliver(ctx, func() []kcl.Record { return t.take(limit) }, false)
}

// DeliverEmpty calls ProcessRecords without records, as the library does if
// scheduler.Config.CallProcessRecordsEvenForEmptyRecordList is set.
func (t *Tenure) DeliverEmpty(ctx context.Context) error {
	return t.deliver(ctx, func() []kcl.Record { return nil }, true)
}

func (t *Tenure) deliver(ctx context.Context, take func() []kcl.Record, empty bool) error {
	return t.call(ctx, func(ctx context.Context) error {
		t.shard.mu.Lock()
		if !t.initialized {
			t.shard.mu.Unlock()
			return ErrNotInitialized
		}
		records := take()
		if len(records) == 0 && !empty {
			t.shard.mu.Unlock()
			return nil
		}
		cp := t.begin(records)
		batch := &kcl.Batch{Shard: t.info, Records: records, ReceivedAt: time.Now(), Checkpointer: cp}
		if rest := behind(t.shard.records, t.read); len(rest) > 0 {
			batch.Behind = max(0, time.Since(rest[0].ArrivedAt))
		}
		if t.atEnd && !empty {
			batch.AtShardEnd, batch.ChildShards = true, t.shard.children
		}
		t.shard.mu.Unlock()

		err := guard(func() error { return t.processor.ProcessRecords(ctx, batch) })

		t.shard.mu.Lock()
		defer t.shard.mu.Unlock()
		t.settle(cp, records, err)
		return err
	})
}

// take returns the next batch. It needs shard.mu.
func (t *Tenure) take(limit int) []kcl.Record {
	if len(t.failed) > 0 {
		return t.failed
	}
	rest := behind(t.shard.records, t.read)
	if limit > 0 && limit < len(rest) {
		rest = rest[:limit]
	}
	if len(rest) > 0 {
		t.read = rest[len(rest)-1].Position
	}
	t.atEnd = t.shard.closed && len(behind(t.shard.records, t.read)) == 0
	return rest
}

// settle takes down what came of a delivery. It needs shard.mu.
func (t *Tenure) settle(cp *checkpointer, records []kcl.Record, err error) {
	t.inHand = nil
	done := cp.end
	if err != nil {
		done = doneBefore(records, err)
	}
	t.accept(done)
	t.failed = nil
	if err != nil {
		t.failed = behind(behind(records, t.last), done)
	}
}

// accept takes down that the shard is processed up to p. It needs shard.mu.
func (t *Tenure) accept(p kcl.Position) {
	if p.Compare(t.accepted) <= 0 {
		return
	}
	t.accepted = p
	if t.auto {
		_ = t.shard.store(t, p, false, nil) // with a renewal, which the processor hears nothing of
	}
}

// Skip gives up what a failed delivery has left, as kcl.Skip does: it counts as
// processed.
func (t *Tenure) Skip() {
	t.shard.mu.Lock()
	defer t.shard.mu.Unlock()
	if n := len(t.failed); n > 0 {
		t.accept(t.failed[n-1].Position)
		t.failed = nil
	}
}

// End calls ShardEnded, if the shard is closed and everything was processed, and
// stores SHARD_END once that returns nil. After an error it may be called again.
func (t *Tenure) End(ctx context.Context) error {
	return t.call(ctx, func(ctx context.Context) error {
		s := t.shard
		s.mu.Lock()
		switch {
		case !t.initialized:
			s.mu.Unlock()
			return ErrNotInitialized
		case !s.closed, len(t.failed) > 0, len(behind(s.records, t.read)) > 0:
			s.mu.Unlock()
			return ErrNotAtEnd
		}
		t.permitted = kcl.ShardEnd
		s.mu.Unlock()

		if err := guard(func() error { return t.processor.ShardEnded(ctx) }); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.last != kcl.ShardEnd {
			if err := s.store(t, kcl.ShardEnd, false, nil); err != nil {
				return err
			}
			t.last = kcl.ShardEnd
		}
		t.over, t.told = true, true
		return nil
	})
}

// Shutdown calls ShutdownRequested, as before a stop or a hand-off, if the
// processor is initialized, then LeaseLost. It returns what ShutdownRequested
// returned; the tenure is over in any case.
func (t *Tenure) Shutdown(ctx context.Context) error {
	err := t.call(ctx, func(ctx context.Context) error {
		t.shard.mu.Lock()
		initialized := t.initialized
		t.shard.mu.Unlock()
		if !initialized {
			return nil
		}
		return t.processor.ShutdownRequested(ctx, &checkpointer{tenure: t, final: true})
	})
	if errors.Is(err, ErrOver) {
		return err
	}
	return errors.Join(err, t.LoseLease(ctx))
}

// Revoke takes the lease away and returns at once: the context of the callback
// that is running is cancelled with kcl.ErrLeaseLost, and checkpoints are
// refused. It may be called from a callback; [Tenure.LoseLease] then tells the
// processor.
func (t *Tenure) Revoke() { t.revoke(kcl.ErrLeaseLost) }

func (t *Tenure) revoke(cause error) {
	t.shard.mu.Lock()
	defer t.shard.mu.Unlock()
	t.over, t.lost = true, true
	if t.running != nil {
		t.running(cause)
	}
}

// LoseLease is Revoke, and calls LeaseLost once the callback that is running has
// returned. So it must not be called from one. The error is that of a panic, or
// ErrOver if the tenure had ended before.
func (t *Tenure) LoseLease(ctx context.Context) error { return t.quit(ctx, kcl.ErrLeaseLost) }

// Stop is the worker's hard stop: as LoseLease, but the cause is
// kcl.ErrStopping, and LeaseLost's context is cancelled with it too.
func (t *Tenure) Stop(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	cancel(kcl.ErrStopping)
	return t.quit(ctx, kcl.ErrStopping)
}

func (t *Tenure) quit(ctx context.Context, cause error) error {
	t.shard.mu.Lock()
	told := t.told
	t.told = true
	t.shard.mu.Unlock()
	if told {
		return ErrOver
	}
	t.revoke(cause)
	t.turn <- struct{}{} // once the callback under way has returned
	defer func() { <-t.turn }()
	return guard(func() error {
		t.processor.LeaseLost(ctx)
		return nil
	})
}

// call runs f, one at a time, with a context that ends with ctx or the tenure.
func (t *Tenure) call(ctx context.Context, f func(context.Context) error) error {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.shard.mu.Lock()
	over := t.over
	if !over {
		t.running = cancel
	}
	t.shard.mu.Unlock()
	if over {
		return ErrOver
	}
	defer func() {
		t.shard.mu.Lock()
		t.running = nil
		t.shard.mu.Unlock()
	}()
	return guard(func() error { return f(ctx) })
}

func guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{kcl.Panic{Value: v, Stack: debug.Stack()}}
		}
	}()
	return f()
}

// behind returns the records behind p.
func behind(records []kcl.Record, p kcl.Position) []kcl.Record {
	for len(records) > 0 && records[0].Position.Compare(p) <= 0 {
		records = records[1:]
	}
	return records
}

// doneBefore returns the last position before the one that kcl.FailedAt gave.
func doneBefore(records []kcl.Record, err error) kcl.Position {
	p, given := kcl.FailurePosition(err)
	if !given || len(records) == 0 || p.Compare(records[len(records)-1].Position) > 0 {
		return kcl.Position{}
	}
	var done kcl.Position
	for _, r := range records {
		if r.Position.Compare(p) < 0 {
			done = r.Position
		}
	}
	return done
}

func latest(p, q kcl.Position) kcl.Position {
	if p.Compare(q) > 0 {
		return p
	}
	return q
}
