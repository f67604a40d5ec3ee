package javalike

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

// held is a lease that the worker has.
type held struct {
	key, token string
	turn       chan struct{} // whose value is in it may use the rest
	// Guarded by turn.
	lease lease
	moved time.Time // when this worker last knew the counter to move
}

// expired reports whether the lease ran out by this worker's clock.
func (h *held) expired(failover time.Duration) bool { return time.Since(h.moved) > failover }

func (w *Worker) hold(l lease, moved time.Time) {
	h := &held{key: l.key, token: w.token(), turn: make(chan struct{}, 1), lease: l, moved: moved}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held[l.key] = h
	if l.hasThroughput {
		w.volumes[l.key] = &volume{entries: []entry{{time.Now(), int(math.Round(l.throughput * 1024))}}}
	}
}

func (w *Worker) heldOf(key string) *held {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held[key]
}

// holding returns a copy of a lease that is held and has not expired.
func (w *Worker) holding(key string) (l lease, token string, ok bool) {
	h := w.heldOf(key)
	if h == nil {
		return lease{}, "", false
	}
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	return h.lease, h.token, !h.expired(w.Failover)
}

func (w *Worker) heldKeys() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.held))
}

// drop forgets a lease, and writes nothing; loses forgets it if it still is the
// same.
func (w *Worker) drop(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.held, key)
	delete(w.volumes, key)
}

func (w *Worker) loses(h *held) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held[h.key] == h {
		delete(w.held, h.key)
	}
}

// initialRenewals takes up what an earlier worker of this name left.
func (w *Worker) initialRenewals(ctx context.Context) {
	leases, _, err := w.scanAll(ctx, "scan of own leases")
	if err != nil {
		w.Tell("%s cannot look for its leases: %v", w.Name, err)
		return
	}
	for _, l := range leases {
		if l.owner != w.Name || l.handOff() {
			continue
		}
		if done, err := w.renewLease(ctx, &l); err == nil && done {
			w.hold(l, time.Now())
		}
	}
}

func (w *Worker) renewAll(ctx context.Context) {
	var all sync.WaitGroup
	for _, key := range slices.Backward(w.heldKeys()) {
		if h := w.heldOf(key); h != nil {
			all.Go(func() { w.renewHeld(ctx, h) })
		}
	}
	all.Wait()
}

func (w *Worker) renewHeld(ctx context.Context, h *held) {
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	l := &h.lease
	if l.handOff() && (l.checkpointOwner != w.Name || l.owner == w.Name) || h.expired(w.Failover) {
		w.Tell("%s gives %s up unrenewed", w.Name, h.key)
		w.loses(h)
		return
	}
	l.throughput, l.hasThroughput = w.throughput(h.key)
	done, err := w.renewLease(ctx, l)
	if err != nil {
		w.Tell("%s cannot renew %s: %v", w.Name, h.key, err)
		return
	}
	if done {
		h.moved = time.Now()
	}
	if l.handOff() {
		w.asked(h.key, h.token)
	}
	if !done {
		w.Tell("%s has lost %s", w.Name, h.key)
		w.loses(h)
	}
}

// renewLease moves the counter. That is how an owner learns of a hand-off.
func (w *Worker) renewLease(ctx context.Context, l *lease) (bool, error) {
	old, done, err := w.update(ctx, w.wire.renew(*l))
	if err == nil && !done && !l.handOff() {
		var is lease
		found := old != nil
		if found {
			is, err = decodeLease(old)
		} else {
			is, found, err = w.getLease(ctx, l.key)
		}
		if err != nil {
			w.complain("renewal", l.key, err)
			return false, err
		}
		if found && is.handOff() {
			if is.actualOwner() != l.actualOwner() || is.owner == is.checkpointOwner {
				return false, nil
			}
			l.owner, l.checkpointOwner = is.owner, is.checkpointOwner
			_, done, err = w.update(ctx, w.wire.renew(*l))
		}
	}
	if err == nil && !done { // a retry of a write that had come through?
		var is lease
		var found bool
		is, found, err = w.getLease(ctx, l.key)
		done = found && is.owner == l.actualOwner() && is.counter == l.counter+1
	}
	if done {
		l.counter++
	}
	return done, err
}

// storeCheckpoint moves the checkpoint, and with it the counter. False means that
// the lease is lost.
func (w *Worker) storeCheckpoint(ctx context.Context, t Tenure, position string, sub int64) (bool, error) {
	h := w.heldOf(t.Shard)
	if h == nil || h.token != t.Token {
		return false, nil
	}
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	if h.expired(w.Failover) {
		return false, nil
	}
	next := h.lease
	next.checkpoint, next.sub, next.switches = position, sub, 0
	next.pending, next.pendingSub, next.pendingState = "", 0, nil
	_, done, err := w.update(ctx, w.wire.checkpoint(next))
	if err != nil {
		return false, err
	}
	if !done {
		w.Tell("%s cannot checkpoint %s: it is lost", w.Name, t.Shard)
		w.loses(h)
		return false, nil
	}
	next.counter++
	h.lease, h.moved = next, time.Now()
	return true, nil
}

// discover takes up what the leader has assigned to this worker.
func (w *Worker) discover(ctx context.Context) {
	in := w.wire.owned(w.Name)
	var fresh []string
	for {
		out, err := w.db.Query(ctx, in)
		if err != nil {
			w.Tell("%s cannot discover leases: %v", w.Name, err)
			return
		}
		for _, it := range out.Items {
			key := text(it["leaseKey"])
			if _, _, ok := w.holding(key); !ok {
				fresh = append(fresh, key)
			}
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
			break
		}
	}
	for _, key := range fresh {
		l, found, err := w.getLease(ctx, key)
		switch {
		case err != nil:
			w.Tell("%s cannot read %s: %v", w.Name, key, err)
		case found && l.owner == w.Name && !l.handOff():
			w.Tell("%s finds %s", w.Name, key)
			w.hold(l, time.Now())
		}
	}
}

// volume measures what was read of a shard.
type volume struct {
	entries []entry
	average float64
	begun   bool
}

type entry struct {
	at    time.Time
	bytes int
}

func (w *Worker) measure(key string, bytes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.volumes[key] == nil {
		w.volumes[key] = &volume{}
	}
	w.volumes[key].entries = append(w.volumes[key].entries, entry{time.Now(), bytes})
}

// throughput is what a renewal writes, in KB a second: what came since the last,
// evened out.
func (w *Worker) throughput(key string) (float64, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v, period := w.volumes[key], w.Failover/3-epsilon
	if v == nil {
		return 0, false
	}
	v.entries = slices.DeleteFunc(v.entries, func(e entry) bool { return time.Since(e.at) >= period })
	sum := 0
	for _, e := range v.entries {
		sum += e.bytes
	}
	sample := float64(sum) / 1024 / period.Seconds()
	if !v.begun {
		v.average, v.begun = sample, true
	}
	v.average = (v.average + sample) / 2
	return math.Round(v.average*1e6) / 1e6, true
}
