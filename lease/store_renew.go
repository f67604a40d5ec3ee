package lease

import (
	"context"
	"time"
)

// Renew moves the counter of a lease that this process owns, and stores its
// throughput if it has one. A pending hand-off that l does not know yet is
// taken over into the returned lease, at the cost of a second write: that is
// how an owner learns of it. False means that the lease is lost.
func (s *Store) Renew(ctx context.Context, l Lease) (Lease, bool, error) {
	// One write, and one more when the first meets a hand-off.
	for range 2 {
		start := time.Now()
		w := newWrite()
		w.set(attrCounter, integerValue(l.Counter+1))
		if v := throughputValue(l); v != nil {
			w.set(attrThroughput, v)
		}
		w.ifEqual(attrCounter, integerValue(l.Counter))
		if !l.HandOffPending() {
			w.ifAbsent(attrCheckpointOwner)
		}
		_, old, done, err := s.update(ctx, "renew lease", l.Key, w, "")
		if err != nil {
			return l, false, err
		}
		if done {
			next := l.Clone()
			next.Counter++
			next.Moved = start
			return next, true, nil
		}
		met, found, err := s.after(ctx, l.Key, old)
		if err != nil {
			return l, false, err
		}
		switch afterRenewal(l, met, found) {
		case refusedRenewed:
			s.log.InfoContext(ctx, "renewal had succeeded, its answer was lost", "lease", l.Key)
			next := l.Clone()
			next.Counter, next.Owner, next.CheckpointOwner = met.Counter, met.Owner, met.CheckpointOwner
			next.Moved = start
			return next, true, nil
		case refusedHandOff:
			l = l.Clone()
			l.Owner, l.CheckpointOwner = met.Owner, met.CheckpointOwner
		default:
			return l, false, nil
		}
	}
	return l, false, nil
}

// refusal is what the refusal of a renewal turns out to mean.
type refusal uint8

const (
	refusedLost    refusal = iota
	refusedRenewed         // our own write had taken effect, its answer was lost
	refusedHandOff         // the lease is ours, but a hand-off has begun
)

// afterRenewal says what it means that the renewal of l was refused by the item
// met.
//
//	met                                          meaning
//	nothing                                      lost
//	owner and checkpoint owner are the same      lost (no rule makes such an item)
//	another worker renews it                     lost
//	counter one ahead of ours                    renewed
//	counter as ours, a hand-off we don't know    handOff
//	anything else                                lost
func afterRenewal(l, met Lease, found bool) refusal {
	switch {
	case !found:
		return refusedLost
	case met.HandOffPending() && met.CheckpointOwner == met.Owner:
		return refusedLost
	case met.ActualOwner() == "" || met.ActualOwner() != l.ActualOwner():
		return refusedLost
	case met.Counter == l.Counter+1:
		return refusedRenewed
	case met.Counter == l.Counter && met.HandOffPending() && !l.HandOffPending():
		return refusedHandOff
	default:
		return refusedLost
	}
}
