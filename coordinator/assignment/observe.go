package assignment

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/go-kcl/kcl/internal/chance"
	"github.com/go-kcl/kcl/leader"
	"github.com/go-kcl/kcl/lease"
)

const (
	// maxObserved is how many of a silent leader's leases are looked at.
	maxObserved = 100
	// maxReads is how many of them are read at a time.
	maxReads = 10
	// Contenders spread their looks over what time there is to the end of the
	// lock, within these bounds.
	minJitter, maxJitter = time.Second, 10 * time.Second
)

// watch says when to look at the leases of a leader that seems to be gone.
type watch struct {
	leader string    // observed, or to be; empty if none
	since  time.Time // of the sighting that raised the suspicion
	at     time.Time // when to look; zero once looked
}

// next returns the watch at now. A leader is looked at once in a silence, at a
// moment that leaves its leases the failover time to expire before the lock
// does.
func (w watch) next(seen func() (leader.Sighting, bool), now time.Time, failover time.Duration) watch {
	s, ok := seen()
	if !ok || !s.Suspect() {
		return watch{}
	}
	if s.Leader == w.leader && s.Since.Equal(w.since) {
		return w
	}
	left := s.Since.Add(s.Duration).Sub(now) - failover
	return watch{s.Leader, s.Since, now.Add(chance.Below(min(max(left, minJitter), maxJitter)))}
}

// observe reads the leases of a worker that may be dead, so that, should this
// worker lead soon, those that never moved are known to be expired in its first
// run. It never reads the whole table, and takes at most the failover time, for
// the lock may be won meanwhile. What was seen of other leases is forgotten.
func (l *Loop) observe(ctx context.Context, owner string) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.FailoverTime)
	defer cancel()
	keys, err := l.cfg.Leases.KeysOwnedBy(ctx, owner)
	if err != nil {
		l.log.DebugContext(ctx, "leases of the silent leader could not be listed", "owner", owner, "err", err)
		return
	}
	slices.Sort(keys)
	keys = keys[:min(len(keys), maxObserved)]

	var (
		mu  sync.Mutex
		got []lease.Lease
		g   errgroup.Group
	)
	g.SetLimit(maxReads)
	for _, key := range keys {
		g.Go(func() error { // ends with its call
			x, ok, err := l.cfg.Leases.Get(ctx, key)
			if err == nil && ok {
				mu.Lock()
				got = append(got, x)
				mu.Unlock()
			}
			return nil // a lease that could not be read is first seen by the first run
		})
	}
	_ = g.Wait() // its functions return nil
	now := time.Now()
	l.log.InfoContext(ctx, "leader is silent, its leases are watched", "owner", owner, "leases", len(got))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.memory.glimpse(got, now, l.timing.grace)
	l.looked = time.Time{}
}
