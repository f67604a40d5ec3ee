package lease

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// ifOwners asks that the lease exists and that both its owners are as in l.
// Without the first, a write that meets a deleted lease would make an item
// that is none.
func (w *write) ifOwners(l Lease) {
	w.ifEqual(attrKey, &str{Value: l.Key})
	w.ifText(attrOwner, l.Owner)
	w.ifText(attrCheckpointOwner, l.CheckpointOwner)
}

// Assign gives the lease to owner at once and ends a pending hand-off, provided
// both its owners are still as in l. The counter moves, so that a former
// owner's next write fails. That the former owner has renewed meanwhile does
// not matter unless ifCounter is set, as it must be for a lease that is taken
// to be expired. Assign also completes a hand-off and takes a free lease.
func (s *Store) Assign(ctx context.Context, l Lease, owner string, ifCounter bool) (Lease, bool, error) {
	start := time.Now()
	w := newWrite()
	w.set(attrOwner, &str{Value: owner})
	w.remove(attrCheckpointOwner)
	w.increment(attrCounter)
	if switches(l, owner) {
		w.increment(attrOwnerSwitches)
	}
	w.ifOwners(l)
	if ifCounter {
		w.ifEqual(attrCounter, integerValue(l.Counter))
	}
	now, old, done, err := s.update(ctx, "assign lease", l.Key, w, types.ReturnValueAllNew)
	if err != nil {
		return l, false, err
	}
	var next Lease
	if done {
		next, err = s.returned(l, now)
	} else {
		var found bool
		next, found, err = s.after(ctx, l.Key, old)
		if err == nil && (!found || !assigned(l, next, owner, ifCounter)) {
			return l, false, nil
		}
	}
	if err != nil {
		return l, false, err
	}
	next.Token, next.Moved = l.Token, start
	return next, true, nil
}

// switches reports whether giving l to owner counts as a change of owner. A
// hand-off that runs its course does not: its next owner is the owner already.
func switches(l Lease, owner string) bool {
	return (l.Owner != "" && l.Owner != owner) || l.CheckpointOwner == owner
}

// assigned reports whether met shows that the refused assignment of l to owner
// had been done before, by a write whose answer was lost: what it was to bring
// about is there. Without a condition on the counter the old owner may have
// moved it in between.
func assigned(l, met Lease, owner string, ifCounter bool) bool {
	if met.Owner != owner || met.HandOffPending() {
		return false
	}
	if ifCounter {
		return met.Counter == l.Counter+1
	}
	return met.Counter > l.Counter
}

// StartHandOff asks l's owner to hand the lease to worker to, provided l's
// owner is still as in l and no hand-off is pending. The counter stays, so that
// the owner goes on renewing, and learns of it by its next renewal.
func (s *Store) StartHandOff(ctx context.Context, l Lease, to string) (Lease, bool, error) {
	if l.Owner == "" {
		return l, false, nil // there is nobody to ask
	}
	w := newWrite()
	w.set(attrOwner, &str{Value: to})
	w.set(attrCheckpointOwner, &str{Value: l.Owner})
	w.ifEqual(attrKey, &str{Value: l.Key})
	w.ifEqual(attrOwner, &str{Value: l.Owner})
	w.ifAbsent(attrCheckpointOwner)
	now, _, done, err := s.update(ctx, "start hand-off of lease", l.Key, w, types.ReturnValueAllNew)
	if err != nil || !done {
		return l, false, err
	}
	next, err := s.returned(l, now)
	next.Moved = l.Moved
	return next, err == nil, err
}

// Evict takes the lease from its owner, provided both its owners are still as
// in l; of a lease in hand-off, from the worker that still renews it. The
// counter moves.
func (s *Store) Evict(ctx context.Context, l Lease) (Lease, bool, error) {
	start := time.Now()
	w := newWrite()
	if !l.HandOffPending() {
		w.remove(attrOwner)
	}
	w.remove(attrCheckpointOwner)
	w.increment(attrCounter)
	w.ifOwners(l)
	now, _, done, err := s.update(ctx, "evict lease", l.Key, w, types.ReturnValueAllNew)
	if err != nil || !done {
		return l, false, err
	}
	next, err := s.returned(l, now)
	next.Moved = start
	return next, err == nil, err
}
