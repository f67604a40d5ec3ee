package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-kcl/kcl/internal/consumer"
	"github.com/go-kcl/kcl/lease"
)

// acquired starts the consumer of a lease that this worker holds from now on.
// Once the worker drains there is none: leave, which waits for consumers, would
// not know of it. Leave gives such a lease back with the rest.
func (w *worker) acquired(l lease.Lease) {
	t := &tenure{
		lease:    l,
		consumer: consumer.New(w.consuming, w.s.stream, l),
		done:     make(chan struct{}),
	}
	w.mu.Lock()
	draining := w.draining
	if !draining {
		w.tenures[l.Token] = t
	}
	w.mu.Unlock()
	if !draining {
		go w.consume(t) // ends when its consumer does; leave waits for done
	}
}

// consume runs a consumer to its end and sees to what follows from that.
func (w *worker) consume(t *tenure) {
	defer close(t.done)
	defer w.calm(t)
	ctx, cancel := context.WithCancelCause(w.values)
	defer cancel(nil)
	defer context.AfterFunc(w.s.hard, func() { cancel(context.Cause(w.s.hard)) })()

	res := t.consumer.Run(ctx)
	w.mu.Lock()
	if ctx.Err() != nil {
		w.cut = append(w.cut, t.lease.Key)
	}
	if res.Err != nil && w.draining {
		w.failed = append(w.failed, fmt.Errorf("lease %s: %w", t.lease.Key, res.Err))
	}
	w.mu.Unlock()
	if res.End == consumer.Ended {
		w.shardEnded(ctx, t, res.Children)
		return
	}
	w.forget(t)
}

// calm stops what would ask a consumer that has ended to hand its lease over.
func (w *worker) calm(t *tenure) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.handOff != nil {
		t.handOff.Stop()
	}
}

func (w *worker) forget(t *tenure) {
	w.mu.Lock()
	delete(w.tenures, t.lease.Token)
	w.mu.Unlock()
}

// shardEnded keeps the lease until it can be deleted, lets consumers that wait
// for a parent look, and takes up the children that nobody has.
func (w *worker) shardEnded(ctx context.Context, t *tenure, children []string) {
	w.mu.Lock()
	t.ended = true
	w.mu.Unlock()
	if l, ok := w.renewer.Get(t.lease.Key); ok && l.Token == t.lease.Token {
		w.cleaner.Add(l)
	} else {
		w.forget(t)
	}
	for _, other := range w.list() {
		other.consumer.Poke()
	}
	w.takeChildren(ctx, children)
	w.assigner.Poke("a shard has ended")
}

// takeChildren assigns the children of an ended shard to this worker, so far as
// nobody has them and there is room: they are read without a gap, and the leader
// balances later. What fails here, the leader does.
func (w *worker) takeChildren(ctx context.Context, children []string) {
	stream := w.s.stream.Stream
	for _, id := range children {
		w.mu.Lock()
		draining := w.draining
		w.mu.Unlock()
		if draining || !w.room() {
			return
		}
		key := stream.LeaseKey(id)
		l, found, err := w.store.GetConsistent(ctx, key)
		if err != nil || !found || l.Owner != "" || l.HandOffPending() || l.Ended() {
			continue
		}
		if _, err := w.renewer.Take(ctx, l); err != nil {
			w.log.Debug("child not taken, is left to the leader", "lease", key, "err", err)
		}
	}
}

// room reports whether this worker may take another lease.
func (w *worker) room() bool {
	limit := w.cfg.Leases.MaxLeasesForWorker
	held := slices.DeleteFunc(w.renewer.Held(), lease.Lease.Ended)
	return limit == 0 || len(held) < limit
}

// lost ends a tenure whose lease is no longer held.
func (w *worker) lost(l lease.Lease, _ lease.Loss) {
	w.mu.Lock()
	t := w.tenures[l.Token]
	ended := t != nil && t.ended
	if ended {
		delete(w.tenures, l.Token)
	}
	w.mu.Unlock()
	if t != nil && !ended {
		t.consumer.LeaseLost()
	}
}

// handOffPatience is how long a consumer goes on after it was asked to hand its
// lease over. By then the next owner has found out, and waits for the transfer;
// else the shard would be read by nobody until it finds out.
const handOffPatience = 3 * time.Second

// handOffRequested has the consumer finish and transfer the lease, before long.
func (w *worker) handOffRequested(l lease.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.tenures[l.Token]; t != nil {
		t.handOff = time.AfterFunc(min(handOffPatience, w.cfg.Leases.GracefulHandoffTimeout/4), t.consumer.HandOff)
	}
}

// live reports whether a tenure's consumer can still answer a hand-off. One that
// has ended its shard needs not: the lease stays until it is cleaned up.
func (w *worker) live(_, token string) bool {
	w.mu.Lock()
	t := w.tenures[token]
	w.mu.Unlock()
	if t == nil {
		return false
	}
	select {
	case <-t.done:
		return t.ended
	default:
		return true
	}
}
