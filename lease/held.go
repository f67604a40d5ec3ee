package lease

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/go-kcl/kcl/metrics"
)

// Get returns a held lease. It is false when the lease is not held, or its term
// may be over; the latter does not end the tenure yet, see [Renewer.Confirm].
func (r *Renewer) Get(key string) (Lease, bool) {
	now := readClocks()
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.held[key]
	if t == nil || !r.usable(t, now) {
		return Lease{}, false
	}
	return t.view(), true
}

// Held returns every lease for which [Renewer.Get] is true, by key.
func (r *Renewer) Held() []Lease {
	now := readClocks()
	r.mu.Lock()
	out := make([]Lease, 0, len(r.held))
	for _, t := range r.held {
		if r.usable(t, now) {
			out = append(out, t.view())
		}
	}
	r.mu.Unlock()
	slices.SortFunc(out, func(a, b Lease) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

// Confirm returns nil once the tenure is known to go on: at once while its term
// lasts; when only the wall clock says that it is over, as after a suspend, by
// one renewal. Whoever hands out records calls it first. The error wraps
// [kcl.ErrLeaseLost] if the tenure is over.
func (r *Renewer) Confirm(ctx context.Context, key, token string) error {
	return r.inTurnIf(ctx, key, token, func(t *tenure) bool {
		return r.trustIn(t, readClocks()) != live
	}, func(ctx context.Context, t *tenure) error { return r.write(ctx, t, renewal) })
}

// Take assigns the lease to this worker, if it still is as in l, and begins a
// tenure of it. It is false if the lease has changed, is held already or about to
// be, or the worker drains.
func (r *Renewer) Take(ctx context.Context, l Lease) (taken bool, err error) {
	if !r.enter(l.Key) {
		return false, nil
	}
	defer r.leave(l.Key)
	mine, won, err := r.store.Assign(ctx, l, r.worker, true)
	if err != nil || !won {
		return false, err
	}
	_, taken = r.hold(mine, anyLoss)
	return taken, nil
}

// enter reports whether the lease may be acquired now: it is not held, and nobody
// else is at it, whose tenure would begin with a counter that is moved on at this
// moment. leave must follow.
func (r *Renewer) enter(key string) bool {
	now := readClocks()
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.held[key]; t != nil && r.trustIn(t, now) != over {
		return false
	}
	if _, busy := r.entered[key]; busy {
		return false
	}
	r.entered[key] = struct{}{}
	return true
}

func (r *Renewer) leave(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.entered, key)
}

// anyLoss is a number of losses that is never exceeded.
const anyLoss = math.MaxUint64

// hold begins a tenure, unless one of the lease has ended since there were
// `since` losses.
func (r *Renewer) hold(l Lease, since uint64) (Lease, bool) {
	if l.Moved.IsZero() {
		return Lease{}, false
	}
	now := readClocks()
	t := &tenure{key: l.Key, token: uuid.NewString(), turn: make(chan struct{}, 1), lease: l.Clone(), term: readingOf(l.Moved)}
	t.lease.Token = t.token
	if l.HasThroughput {
		t.throughput.seed(l.ThroughputKBps)
	}
	r.mu.Lock()
	if r.stopped || r.drain != takeAll || r.lostSeen[l.Key] > since || r.trustIn(t, now) != live {
		r.mu.Unlock()
		return Lease{}, false
	}
	if old := r.held[l.Key]; old != nil {
		if r.trustIn(old, now) != over {
			r.mu.Unlock()
			return Lease{}, false
		}
		r.endLocked(old, LossExpired)
	}
	r.held[l.Key] = t
	view := t.view()
	r.mailbox.post(func() {
		r.log.Info("lease acquired", "lease", l.Key)
		if r.events.Acquired != nil {
			r.events.Acquired(view)
		}
	})
	r.noteHandOffLocked(t)
	r.mu.Unlock()
	r.mailbox.deliver()
	return view, true
}

// acquire renews a lease that the table says is ours, and holds it. A refused
// renewal is no error: the lease has moved on since it was read.
func (r *Renewer) acquire(ctx context.Context, l Lease, since uint64) (held bool, err error) {
	if !r.enter(l.Key) {
		return false, nil
	}
	defer r.leave(l.Key)
	start := time.Now()
	ctx, cancel := context.WithDeadline(ctx, start.Add(r.failover))
	defer cancel()
	next, won, err := r.store.Renew(ctx, l)
	if err != nil || !won {
		return false, err
	}
	next.Moved = start
	_, held = r.hold(next, since)
	return held, nil
}

// Resume takes up the leases that the table says are this worker's: those of a
// former process with the same id. It reads the whole table. Where there is a
// [Discoverer], its first pass does the same for less; Resume is for workers
// without one. Failures are logged: the leases come back by assignment.
func (r *Renewer) Resume(ctx context.Context) {
	fault := metrics.Scope{Recorder: r.metrics.Recorder, Operation: "LeaseRenewerInitialize"}
	since := r.beginPass()
	defer r.endPass()
	found, err := r.store.Scan(ctx)
	if err != nil {
		r.log.WarnContext(ctx, "own leases not looked up", "err", err)
		fault.Count("Fault", 1, metrics.Detailed)
		return
	}
	var g errgroup.Group
	g.SetLimit(r.threads)
	var failed atomic.Bool
	for _, l := range found.Leases {
		if fateOf(l, r.worker) != acquired {
			continue
		}
		g.Go(func() error { // ends with its renewal, by its term's end
			if _, err := r.acquire(ctx, l, since); err != nil {
				failed.Store(true)
				r.log.WarnContext(ctx, "own lease not taken up", "lease", l.Key, "err", err)
			}
			return nil
		})
	}
	_ = g.Wait()
	if failed.Load() {
		fault.Count("Fault", 1, metrics.Detailed)
		return
	}
	fault.Count("Fault", 0, metrics.Detailed)
}

// beginPass begins a look at the table whose findings may be old when they are
// acted upon. Leases lost before endPass are not held on its account.
func (r *Renewer) beginPass() (since uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passes++
	return r.losses
}

func (r *Renewer) endPass() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.passes--; r.passes == 0 {
		clear(r.lostSeen)
	}
}

// Drop forgets the tenure and writes nothing: the lease stays assigned to this
// worker and is renewed no more. A later tenure of the lease is left alone.
func (r *Renewer) Drop(key, token string) {
	if t := r.find(key, token); t != nil {
		r.end(t, LossDropped)
	}
}

// Drain lets no further tenure begin. With release, a [Discoverer] gives leases
// that still arrive back to the fleet; without, it leaves them assigned to this
// worker.
func (r *Renewer) Drain(release bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drain = leaveAlone
	if release {
		r.drain = giveBack
	}
}

func (r *Renewer) draining() drain {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.drain
}

// find returns the tenure with that token, usable or not, or nil.
func (r *Renewer) find(key, token string) *tenure {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.held[key]; t != nil && t.token == token {
		return t
	}
	return nil
}

// isHeld reports whether a tenure of the lease, usable or not, has neither ended
// nor expired.
func (r *Renewer) isHeld(key string) bool {
	now := readClocks()
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.held[key]
	return t != nil && r.trustIn(t, now) != over
}
