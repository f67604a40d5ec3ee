package lease

import (
	"bytes"
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Checkpoint stores l's checkpoint, pending checkpoint, owner switches and
// whatever of children, hash range, throughput and stream it has, and moves the
// counter, provided the counter is still as in l. It returns the lease as the
// item says now, so that a hand-off begun meanwhile is seen. False means that
// the lease is lost.
func (s *Store) Checkpoint(ctx context.Context, l Lease) (Lease, bool, error) {
	start := time.Now()
	w := newWrite()
	attrs := item{attrCounter: integerValue(l.Counter + 1)}
	putMutable(attrs, l)
	if l.PendingState != nil {
		attrs[attrPendingState] = &binary{Value: l.PendingState}
	} else {
		w.remove(attrPendingState)
	}
	if l.Pending.IsZero() {
		w.remove(attrPending)
		w.remove(attrPendingSub)
	}
	w.setAll(attrs)
	w.ifEqual(attrCounter, integerValue(l.Counter))
	now, old, done, err := s.update(ctx, "checkpoint lease", l.Key, w, types.ReturnValueAllNew)
	if err != nil {
		return l, false, err
	}
	if done {
		next, err := s.returned(l, now)
		next.Moved = start
		return next, err == nil, err
	}
	met, found, err := s.after(ctx, l.Key, old)
	if err != nil || !found || !checkpointed(l, met) {
		return l, false, err
	}
	s.log.InfoContext(ctx, "checkpoint had been stored, its answer was lost", "lease", l.Key)
	met.Token, met.Moved = l.Token, start
	return met, true, nil
}

// checkpointed reports whether met shows that the refused checkpoint l had been
// stored before, by a write whose answer was lost.
func checkpointed(l, met Lease) bool {
	return l.ActualOwner() != "" && met.ActualOwner() == l.ActualOwner() &&
		met.Counter == l.Counter+1 &&
		met.Checkpoint == l.Checkpoint &&
		met.Pending == l.Pending && bytes.Equal(met.PendingState, l.PendingState)
}
