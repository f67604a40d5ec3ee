package assignment

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/metrics"
	"github.com/go-kcl/kcl/workermetrics"
)

// maxWrites is how many writes of a run go on at a time.
const maxWrites = 20

// write is one change of a lease.
type write struct {
	lease lease.Lease
	from  State
	to    string
	// handOff asks the owner to finish first. Else the lease is assigned at once
	// and, if ifCounter, only if its counter still stands where it stood.
	handOff, ifCounter bool
}

// writes says how to write a plan, one write a lease; of two moves of one lease
// the later counts.
//
//	state of the lease   write
//	unowned              assign
//	abandoned, expired   assign, if the counter still stands
//	overdue              assign
//	pending              none: its owner is asked already
//	held                 hand-off, if that is wanted and the shard has not ended;
//	                     else assign
func writes(v View, p Plan, handOff bool) []write {
	to := make(map[int]string, len(p.Assign)+len(p.Balance))
	order := make([]int, 0, len(p.Assign)+len(p.Balance))
	for _, moves := range [][]Move{p.Assign, p.Balance} {
		for _, m := range moves {
			if _, twice := to[m.Lease]; !twice {
				order = append(order, m.Lease)
			}
			to[m.Lease] = m.To
		}
	}
	out := make([]write, 0, len(order))
	for _, i := range order {
		l := v.Leases[i]
		w := write{lease: *l.Lease, from: l.State, to: to[i]}
		switch l.State {
		case Pending:
			continue
		case Abandoned, Expired:
			w.ifCounter = true
		case Held:
			if w.to == l.Owner && !l.HandOffPending() {
				continue
			}
			w.handOff = handOff && !l.Ended() && !l.HandOffPending()
		}
		out = append(out, w)
	}
	return out
}

// result counts a run's writes.
type result struct {
	done    map[State]int // writes that were made, by the lease's state before
	refused int           // the lease had changed meanwhile
	failed  int
	first   error // of those that failed
}

// write makes the writes, not more than maxWrites at a time, and waits for all.
// done is how many were made. A refused one is no error; an error tells how many
// failed and why the first did.
func (l *Loop) write(ctx context.Context, ws []write) (done int, err error) {
	if len(ws) == 0 {
		return 0, nil
	}
	start := time.Now()
	var (
		mu  sync.Mutex
		res = result{done: map[State]int{}}
		g   errgroup.Group
	)
	g.SetLimit(maxWrites)
	for _, w := range ws {
		g.Go(func() error { // ends with its write
			ok, err := l.writeOne(ctx, w)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				res.failed++
				if res.first == nil {
					res.first = err
				}
			case ok:
				res.done[w.from]++
				done++
			default:
				res.refused++
			}
			return nil
		})
	}
	_ = g.Wait() // its functions return nil
	if res.failed > 0 {
		err = fmt.Errorf("%d of %d assignments failed, the first: %w", res.failed, len(ws), res.first)
	}
	l.scope.Done("ParallelyAssignLeases", start, err, metrics.Detailed)
	if res.refused > 0 {
		l.scope.Count("FailedAssignmentCount", float64(res.refused), metrics.Detailed)
	}
	l.log.InfoContext(ctx, "leases assigned",
		"unowned", res.done[Unowned], "expired", res.done[Expired], "abandoned", res.done[Abandoned],
		"overdue", res.done[Overdue], "moved", res.done[Held], "refused", res.refused, "failed", res.failed)
	return done, err
}

func (l *Loop) writeOne(ctx context.Context, w write) (ok bool, err error) {
	defer recovered(&err)
	if ctx.Err() != nil {
		return false, context.Cause(ctx) // the term or the worker ends: leave the rest to the next run
	}
	var now lease.Lease
	if w.handOff {
		now, ok, err = l.cfg.Leases.StartHandOff(ctx, w.lease, w.to)
	} else {
		now, ok, err = l.cfg.Leases.Assign(ctx, w.lease, w.to, w.ifCounter)
	}
	if err != nil {
		return false, err
	}
	if !ok {
		l.log.DebugContext(ctx, "lease changed meanwhile, not assigned", "lease", w.lease.Key, "to", w.to)
		return false, nil
	}
	l.log.DebugContext(ctx, "lease assigned", "lease", w.lease.Key, "was", w.from.String(), "from", w.lease.ActualOwner(), "to", w.to, "hand_off", w.handOff)
	l.wrote(now)
	if l.cfg.Assigned != nil && now.Owner == l.cfg.Worker && !now.HandOffPending() {
		l.cfg.Assigned(now.Key)
	}
	return true, nil
}

func (l *Loop) wrote(now lease.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.memory.wrote(now, time.Now())
}

// forget deletes records of workers that vanished long ago. A failure is no
// reason to fail a run.
func (l *Loop) forget(ctx context.Context, stale []workermetrics.Record) {
	var g errgroup.Group
	g.SetLimit(maxWrites)
	for _, r := range stale {
		g.Go(func() error { // ends with its call
			ok, err := l.cfg.Workers.Delete(ctx, r)
			switch {
			case err != nil:
				l.log.WarnContext(ctx, "stale worker record could not be deleted", "owner", r.Worker, "err", err)
			case ok:
				l.log.InfoContext(ctx, "stale worker record deleted", "owner", r.Worker, "updated", r.Updated)
			default:
				l.log.DebugContext(ctx, "worker is back, its record stays", "owner", r.Worker)
			}
			return nil
		})
	}
	_ = g.Wait() // its functions return nil
}
