package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/wait"
)

const (
	// hardGrace is how long callbacks may take to notice the end of their
	// contexts, and last writes to land, after a hard stop.
	hardGrace = 5 * time.Second
	// settle is how long after its last report a worker that stops looks for
	// leases that were given to it meanwhile.
	settle = time.Second
	// lastCalls bounds each step of a stop that makes calls of its own.
	lastCalls = 5 * time.Second
)

// leave stops the worker: gracefully until it is told to stop hard, then at
// once. It returns an error if a shard was cut off or a lease not given back.
func (w *worker) leave() error {
	keep := w.cfg.KeepLeasesOnStop
	// A stop that Shutdown asked for ends with Shutdown's context; every other
	// one with StopTimeout.
	if !errors.Is(context.Cause(w.s.stopping), errShutdown) {
		timer := time.AfterFunc(w.cfg.StopTimeout, func() {
			w.s.stopHard(fmt.Errorf("%w: StopTimeout of %v is over", kcl.ErrStopping, w.cfg.StopTimeout))
		})
		defer timer.Stop()
	}
	defer func() {
		w.endLoops()
		w.migrating.Wait()
		w.duties.Wait()
		w.loops.Wait()
	}()

	ctx, cancel := context.WithCancelCause(w.values)
	defer cancel(nil)
	defer context.AfterFunc(w.s.hard, func() { cancel(context.Cause(w.s.hard)) })()

	w.mu.Lock()
	w.draining = true
	w.mu.Unlock()
	w.renewer.Drain(!keep)
	reported := w.handOver(ctx, keep)
	w.endMigrating()
	w.migrating.Wait() // what it does holds only while the lock is held
	w.endDuties()      // frees the lock

	for _, t := range w.list() {
		t.consumer.Stop(keep)
	}
	err := w.awaitConsumers()
	if keep {
		w.duties.Wait()
		return err
	}
	rest := w.releaseRest()
	w.duties.Wait()
	if w.s.hard.Err() == nil && err == nil && rest == nil {
		w.sayGoodbye(ctx, reported)
	}
	return errors.Join(err, rest)
}

// handOver makes the fleet give this worker no more leases, and gives its own to
// others while it still leads. It returns when the fleet was told.
func (w *worker) handOver(ctx context.Context, keep bool) (reported time.Time) {
	w.assigner.Leave()
	if keep {
		return time.Time{}
	}
	ctx, cancel := context.WithTimeout(ctx, lastCalls)
	defer cancel()
	if err := w.reporter.Drain(ctx); err != nil {
		w.log.Warn("fleet not told of the stop", "err", err)
	} else {
		reported = time.Now()
	}
	if _, leading := w.leads.Leading(); !leading {
		return reported
	}
	n, err := w.assigner.HandOver(ctx)
	if err != nil {
		w.log.Warn("leases not handed over, will be released", "handed_over", n, "err", err)
	}
	return reported
}

// awaitConsumers waits for all consumers, and after a hard stop not for long. It
// returns an error that names the shards that were cut off.
func (w *worker) awaitConsumers() error {
	hard := w.s.hard.Done()
	var (
		grace <-chan time.Time
		over  bool
	)
	for {
		t := w.undone()
		if t == nil || over {
			break
		}
		select {
		case <-t.done:
		case <-hard:
			hard = nil
			timer := time.NewTimer(hardGrace)
			defer timer.Stop()
			grace = timer.C
		case <-grace:
			over = true
		}
	}
	return w.verdict()
}

// undone returns a tenure whose consumer has not returned, nil if there is none.
func (w *worker) undone() *tenure {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.tenures {
		select {
		case <-t.done:
		default:
			return t
		}
	}
	return nil
}

// verdict tells of the shards that a stop did not leave as it should.
func (w *worker) verdict() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var cut, stuck []string
	for _, t := range w.tenures {
		select {
		case <-t.done:
		default:
			stuck = append(stuck, fmt.Sprintf("%s (%s)", t.lease.Key, t.consumer.Status().State))
		}
	}
	cut = append(cut, w.cut...)
	slices.Sort(cut)
	slices.Sort(stuck)
	slices.SortFunc(w.failed, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	cause := context.Cause(w.s.hard)
	var errs []error
	if len(cut) > 0 {
		errs = append(errs, fmt.Errorf("%w: shards cut off: %s", cause, strings.Join(cut, ", ")))
	}
	if len(stuck) > 0 {
		errs = append(errs, fmt.Errorf("%w: callbacks that ignore the end of their context: %s", cause, strings.Join(stuck, ", ")))
	}
	return errors.Join(append(errs, w.failed...)...)
}

// releaseRest releases what is still held: the leases of ended shards, and those
// whose consumers are stuck, at their last checkpoint.
func (w *worker) releaseRest() error {
	ctx, cancel := context.WithTimeout(w.values, lastCalls)
	defer cancel()
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs []error
		turn = make(chan struct{}, w.cfg.Leases.MaxRenewals)
	)
	for _, l := range w.renewer.Held() {
		turn <- struct{}{}
		wg.Go(func() {
			defer func() { <-turn }()
			if err := w.renewer.Release(ctx, l.Key, l.Token); err != nil && !errors.Is(err, kcl.ErrLeaseLost) {
				mu.Lock()
				errs = append(errs, fmt.Errorf("release lease %s: %w", l.Key, err))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// sayGoodbye waits until the table shows no lease of this worker, some time after
// the fleet was told, and then deletes the worker's record: a leader that had not
// read the last report yet may have given it leases.
func (w *worker) sayGoodbye(ctx context.Context, reported time.Time) {
	if reported.IsZero() {
		return // not told: the record shows a worker that will be found dead
	}
	ctx, cancel := context.WithTimeout(ctx, lastCalls)
	defer cancel()
	for wait.For(ctx, max(settle-time.Since(reported), 0)) {
		found, err := w.discoverer.Discover(ctx)
		if err == nil && found.Released == 0 && len(found.Waiting) == 0 {
			break
		}
		reported = time.Now()
	}
	if ctx.Err() != nil {
		w.log.Warn("worker's record is left, leases may still be assigned to it")
		return
	}
	if _, err := w.reporter.Delete(ctx); err != nil {
		w.log.Warn("worker's record not deleted", "err", err)
	}
}
