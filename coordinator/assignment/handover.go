package assignment

import (
	"context"
	"fmt"
	"time"
)

// HandOver gives this worker's leases to other live workers, and returns how
// many: those that it holds by asking itself to hand them over, the others, which
// it was given and has not taken up, at once, for there is nobody to ask. It is
// for a leader that stops, before it frees the lock: the next leader need not
// find out. A worker that does not lead does nothing, nor does one configured not
// to hand over. It waits for a run that is under way. This worker gets no more
// leases from then on, and should take up none.
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
	for i, x := range v.Leases {
		if x.State == Held && x.Owner == l.cfg.Worker && !x.HandOffPending() && !l.cfg.Holds(x.Key) {
			v.Leases[i].State = Abandoned
		}
	}
	n, err = l.write(ctx, writes(v, handOver(v, l.cfg.Worker, l.decide), true))
	if err != nil {
		return n, fmt.Errorf("hand over leases: %w", err)
	}
	return n, nil
}

// handOver plans to give the leases that a worker holds, or was given in vain, to
// others, as if they were free. What else there is to assign is left to the next
// leader.
func handOver(v View, from string, decide Decider) (p Plan) {
	only := v
	only.Balance, only.Leases = false, make([]Lease, 0, len(v.Leases))
	var at []int // index in v of the leases of only
	for i, l := range v.Leases {
		switch {
		case (l.State == Held || l.State == Abandoned) && l.Owner == from && !l.Ended() && !l.HandOffPending():
			l.State = Abandoned
		case l.State.Free():
			continue
		case l.State == Overdue:
			l.State = Pending
		}
		only.Leases = append(only.Leases, l)
		at = append(at, i)
	}
	p = decide(only)
	for _, m := range p.Assign {
		p.Balance = append(p.Balance, Move{at[m.Lease], m.To})
	}
	p.Assign = nil
	return p
}
