package assignment

import (
	"context"
	"fmt"
	"time"
)

// HandOver gives this worker's leases to other live workers, by asking itself to
// hand them over, and returns how many. It is for a leader that stops, before it
// frees the lock: the next leader need not find out. A worker that does not lead
// does nothing, nor does one configured not to hand over. It waits for a run
// that is under way. This worker gets no more leases from then on.
//
// Leases that nobody has room for are left; so is everything when ctx or the
// term ends. An error tells of writes that failed.
func (l *Loop) HandOver(ctx context.Context) (n int, err error) {
	l.Leave()
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return 0, fmt.Errorf("hand over leases: %w", context.Cause(ctx))
	}
	term, leading := l.cfg.Leader.Leading()
	if !leading || l.cfg.NoHandOff {
		return 0, nil
	}
	ctx, cancel := term.Context(ctx)
	defer cancel()
	snap, err := l.load(ctx)
	if err != nil {
		return 0, fmt.Errorf("hand over leases: %w", err)
	}
	v, _, _ := l.look(ctx, snap, time.Now())
	n, err = l.write(ctx, writes(v, handOver(v, l.cfg.Worker), true))
	if err != nil {
		return n, fmt.Errorf("hand over leases: %w", err)
	}
	return n, nil
}

// handOver plans to give the leases that a worker holds to those who have the
// fewest.
func handOver(v View, from string) (p Plan) {
	t := count(v)
	room := t.room(v.Limit)
	for i, l := range v.Leases {
		if l.State != Held || l.Owner != from || l.Ended() || l.HandOffPending() {
			continue
		}
		w := room.take(from)
		if w == nil {
			p.Spill++
			continue
		}
		w.add(l)
		if w.all < v.Limit {
			room.put(w)
		}
		p.Balance = append(p.Balance, Move{i, w.id})
	}
	return p
}
