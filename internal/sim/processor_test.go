package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/wait"
)

// errCallback is what failing callbacks return.
var errCallback = errors.New("callback failed on purpose")

// tempers are what processors do about checkpoints; the handler's is none.
var tempers = []string{"handler", "every", "fourth", "middle", "prepare", "late", "never", "failed"}

// processor is one of a random temper.
type processor struct {
	kcl.NopProcessor
	p       *process
	shard   string
	batches int
	failed  *kcl.Batch // the last one that failed
	busy    atomic.Bool
	last    string // callback that returned without an error
}

// enter notes that a callback begins, and checks that it may.
func (r *processor) enter(callback string, after ...string) (leave func()) {
	if r.p.temper == "handler" {
		return func() {}
	}
	if !r.busy.CompareAndSwap(false, true) {
		r.p.play.book.breaks(callbackOrder, "%s: %s of %s during another callback", r.p.id, callback, r.shard)
	}
	if !slices.Contains(after, r.last) {
		r.p.play.book.breaks(callbackOrder, "%s: %s of %s after %q", r.p.id, callback, r.shard, r.last)
	}
	if r.last = callback; callback == "Initialize" {
		r.last = "" // until it succeeds
	}
	return func() { r.busy.Store(false) }
}

func (r *processor) dice(callback string) *rand.Rand {
	return r.p.play.dice(r.p.id + r.shard + callback)
}

// fails returns what a callback fails with, if it does: with these odds of a
// hundred.
func (r *processor) fails(d *rand.Rand, odds int) error {
	n := d.IntN(100)
	switch {
	case r.p.play.healed.Load() || n >= odds:
		return nil
	case n < odds/4:
		r.p.play.count("callback panicked")
		panic(errCallback)
	}
	r.p.play.count("callback failed")
	return errCallback
}

func (r *processor) Initialize(_ context.Context, in *kcl.Initialization) error {
	defer r.enter("Initialize", "")()
	r.p.thaw()
	r.p.play.book.begins(r.p, in)
	err := r.fails(r.dice("Initialize"), 8)
	if err == nil {
		r.last = "Initialize"
	}
	return err
}

func (r *processor) ShardEnded(context.Context) error {
	defer r.enter("ShardEnded", "Initialize", "ProcessRecords", "ShardEnded")()
	r.p.thaw()
	err := r.fails(r.dice("ShardEnded"), 20)
	if err == nil {
		r.last = "ended"
	}
	return err
}

func (r *processor) LeaseLost(context.Context) {
	defer r.enter("LeaseLost", "", "Initialize", "ProcessRecords", "ShardEnded", "ShutdownRequested", "ended")()
	r.p.thaw()
	_ = r.fails(r.dice("LeaseLost"), 8)
}

func (r *processor) ShutdownRequested(ctx context.Context, cp kcl.Checkpointer) error {
	defer r.enter("ShutdownRequested", "Initialize", "ProcessRecords", "ShardEnded")()
	r.p.thaw()
	d := r.dice("ShutdownRequested")
	if err := r.fails(d, 8); err != nil || r.p.temper == "never" {
		return err
	}
	return cp.Checkpoint(ctx)
}

func (r *processor) ProcessRecords(ctx context.Context, b *kcl.Batch) (err error) {
	p, l := r.p, r.p.play
	defer r.enter("ProcessRecords", "Initialize", "ProcessRecords")()
	defer func() {
		if r.failed = nil; err != nil {
			r.failed = b
		}
	}()
	if !r.alive(ctx) {
		return ctx.Err()
	}
	l.book.delivered(ctx, p, b)
	defer l.book.rests(b.Shard)
	d := r.dice("ProcessRecords")
	middle := b.Records[len(b.Records)/2].Position
	if !l.healed.Load() {
		switch n := d.IntN(100); {
		case n < 2: // busy, and deaf
			l.count("callback blocked, deaf to its context")
			time.Sleep(time.Duration(d.Int64N(int64(8 * time.Second))))
		case n < 5:
			l.count("callback blocked")
			wait.For(ctx, time.Duration(d.Int64N(int64(30*time.Second))))
		case n < 7 && len(b.Records) > 1:
			l.book.vouch(b.Shard.ShardID, b.Records[:len(b.Records)/2]...)
			l.book.took(b.Shard, b.Records[:len(b.Records)/2])
			l.count("callback failed in the middle of a batch")
			return kcl.FailedAt(middle, errCallback)
		}
		if err := r.fails(d, 6); err != nil {
			return err
		}
	}
	if !r.alive(ctx) {
		return ctx.Err()
	}
	err = r.checkpoint(ctx, b, d)
	if err != nil && d.IntN(2) == 0 {
		return fmt.Errorf("%w: %w", errCallback, err)
	}
	l.book.vouch(b.Shard.ShardID, b.Records...)
	l.book.took(b.Shard, b.Records)
	return nil
}

// alive waits while the process is frozen. It is false if the process is dead,
// at the end of ctx: nobody sees what a dead process does.
func (r *processor) alive(ctx context.Context) bool {
	r.p.thaw()
	if r.p.dead.Load() {
		<-ctx.Done()
		return false
	}
	return true
}

// checkpoint does what the processor's temper is. It vouches for records before
// it tries to store their position.
func (r *processor) checkpoint(ctx context.Context, b *kcl.Batch, d *rand.Rand) (err error) {
	p, book := r.p, r.p.play.book
	temper := p.temper
	if p.play.healed.Load() && temper != "handler" {
		temper = "every"
	}
	if r.batches++; temper == "fourth" && r.batches%4 == 0 {
		temper = "every"
	}
	middle, half := b.Records[len(b.Records)/2].Position, b.Records[:len(b.Records)/2+1]
	store := func(ctx context.Context, at kcl.Position, what func(context.Context) error) error {
		asked := time.Now()
		err := what(ctx)
		if err == nil {
			book.accepted(p, b.Shard, at, asked)
		}
		return err
	}
	last := b.Records[len(b.Records)-1].Position
	switch temper {
	case "every":
		book.vouch(b.Shard.ShardID, b.Records...)
		return store(ctx, last, b.Checkpoint)
	case "middle":
		book.vouch(b.Shard.ShardID, half...)
		return store(ctx, middle, func(ctx context.Context) error { return b.CheckpointAt(ctx, middle) })
	case "prepare":
		book.vouch(b.Shard.ShardID, half...)
		prepared, err := b.Prepare(ctx, middle, []byte("state"))
		if err == nil && d.IntN(3) > 0 {
			err = store(ctx, middle, prepared.Commit)
		}
		return err
	case "late":
		book.vouch(b.Shard.ShardID, b.Records...)
		p.play.count("checkpoint after the callback")
		p.play.loose.Go(func() {
			time.Sleep(time.Duration(d.Int64N(int64(20 * time.Second))))
			p.thaw()
			_ = store(context.Background(), last, b.Checkpoint) // the lease may be lost
		})
	case "failed": // a batch that failed must not be covered, whatever the processor tries
		if r.failed != nil && r.failed.Checkpoint(ctx) == nil {
			p.play.count("checkpoint of a batch redelivered")
		}
	}
	return nil
}

// onFailure is a policy of every colour.
func (p *process) onFailure(f kcl.Failure) kcl.Action {
	d := p.play.dice(p.id + f.Shard.ShardID + "policy")
	switch n := d.IntN(100); {
	case p.play.healed.Load():
		return kcl.RetryAfter(100 * time.Millisecond)
	case n < 6 && f.Callback == kcl.CallbackProcessRecords:
		p.play.count("batch skipped by policy")
		p.play.book.skip(f)
		return kcl.Skip
	case n < 8:
		p.play.count("worker stopped by policy")
		p.hurt()
		return kcl.StopWorker
	case n < 9:
		p.play.count("shard stopped by policy")
		p.parked.Store(true)
		return kcl.StopShard
	case n < 30:
		return kcl.RetryAfter(time.Duration(d.Int64N(int64(2 * time.Second))))
	}
	return kcl.Action{}
}
