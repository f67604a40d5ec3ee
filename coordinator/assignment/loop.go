package assignment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-kcl/kcl/leader"
	"github.com/go-kcl/kcl/metrics"
)

const operation = "LeaseAssignmentManager"

// followerReport is how often a worker that does not lead reports Success.
const followerReport = time.Minute

// Loop assigns leases while this worker leads. Its methods may be called from
// any goroutine.
type Loop struct {
	cfg    Config
	decide Decider
	timing timing
	every  intervals
	log    *slog.Logger
	scope  metrics.Scope
	poke   chan string // holds one

	// turn holds one token, taken for the length of a run or a hand-over.
	turn chan struct{}

	mu sync.Mutex // guards what follows; held for no call
	// memory is what this process saw of the table.
	memory memory
	// leaving: this worker is to get no more leases.
	leaving bool
	// looked is when the table was last scanned; zero if memory is not of a scan.
	looked time.Time
}

// New returns a Loop that does nothing before [Loop.Run]. It makes no call; an
// error names every fault of c.
func New(c Config) (*Loop, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Loop{
		cfg:    c,
		decide: c.Strategy.decider(c.Load),
		timing: c.timing(),
		every:  c.intervals(),
		log:    c.Logger.With("worker", c.Worker),
		scope:  metrics.Scope{Recorder: c.Metrics, Operation: operation},
		poke:   make(chan string, 1),
		turn:   make(chan struct{}, 1),
		memory: newMemory(),
	}, nil
}

// Poke has the next run come at once, if this worker leads: there are new leases
// to assign, or some were released. The reason is logged. It does not wait, and
// of several pokes before a run one counts.
func (l *Loop) Poke(reason string) {
	select {
	case l.poke <- reason:
	default: // one is waiting
	}
}

// Leave makes this worker get no more leases from itself as leader.
func (l *Loop) Leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaving = true
}

// course is what [Loop.Run] keeps from one run to the next.
type course struct {
	term      uint64 // number of the term of the last run; 0 before the first
	agenda    agenda
	ended     time.Time // end of the last run
	readUnits float64   // of the last scan
	pace      pace
	failures  leader.Failures
	failing   bool      // the last run failed
	reported  time.Time // last Success as a follower
	watch     watch
	warned    uint64 // number of the term in which strategies were compared
}

// Run runs while ctx lives: at once when this worker becomes leader, and then as
// the package's comment says. After it has returned it may be called again.
func (l *Loop) Run(ctx context.Context) {
	var c course
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		changed := l.cfg.Leader.Changed()
		next := l.step(ctx, &c)
		timer.Reset(time.Until(next))
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case reason := <-l.poke:
			l.log.DebugContext(ctx, "assignment run brought forward", "reason", reason)
			c.agenda = c.agenda.hasten(time.Now(), c.ended, l.every, c.readUnits)
		case <-timer.C:
		}
	}
}

// step does what is due and returns when there is something to do again, if
// nothing happens before.
func (l *Loop) step(ctx context.Context, c *course) time.Time {
	term, leading := l.cfg.Leader.Leading()
	if !leading {
		return l.follow(ctx, c)
	}
	if term.Number != c.term {
		c.term = term.Number
		c.agenda = agenda{next: time.Now()}
		c.pace = pace{interval: l.cfg.BalanceInterval}
		c.watch = watch{}
		c.reported = time.Time{}
	}
	if time.Now().Before(c.agenda.next) {
		return c.agenda.next
	}
	start := time.Now()
	out, err := l.run(ctx, term, c)
	if ctx.Err() != nil {
		return time.Now() // stopped: neither a success nor a failure
	}
	if out.readUnits > 0 {
		c.readUnits = out.readUnits
	}
	if !errors.Is(err, leader.ErrTermOver) {
		l.scope.Done("", start, err, metrics.Summary)
	}
	l.judge(ctx, c, term, start, err)
	c.ended = time.Now()
	c.agenda = c.agenda.after(c.ended, l.every, c.readUnits, out.expiry)
	return c.agenda.next
}

// judge logs a run's outcome, and gives up leadership after failures for which
// another worker had better have a try.
func (l *Loop) judge(ctx context.Context, c *course, term leader.Term, start time.Time, err error) {
	switch {
	case err == nil && c.failing:
		l.log.InfoContext(ctx, "assignment run succeeded again")
	case errors.Is(err, leader.ErrTermOver):
		l.log.DebugContext(ctx, "assignment run ended with the term")
	case err != nil && !c.failing:
		l.log.WarnContext(ctx, "assignment run failed", "err", err)
	case err != nil:
		l.log.DebugContext(ctx, "assignment run failed", "err", err)
	}
	c.failing = err != nil
	if !c.failures.Count(term, start, time.Now(), err) {
		return
	}
	l.log.WarnContext(ctx, "leadership given up after failed assignment runs", "failures", c.failures.Failed())
	l.scope.Count("ForceLeaderRelease", 1, metrics.Summary)
	if err := l.cfg.Leader.Resign(ctx, term); err != nil {
		l.log.WarnContext(ctx, "leader's lock could not be freed, will lapse", "err", err)
	}
}

// follow is the part of a worker that does not lead: it tells that it is well,
// and watches a leader that seems to be gone.
func (l *Loop) follow(ctx context.Context, c *course) time.Time {
	now := time.Now()
	c.failing = false
	if now.Sub(c.reported) >= followerReport {
		l.scope.Done("", now, nil, metrics.Summary)
		c.reported = now
	}
	next := c.reported.Add(followerReport)
	c.watch = c.watch.next(l.cfg.Leader.Seen, now, l.cfg.FailoverTime)
	switch at := c.watch.at; {
	case at.IsZero():
	case at.After(now):
		next = earlier(next, at)
	default:
		c.watch.at = time.Time{}
		l.observe(ctx, c.watch.leader)
	}
	return next
}

// run is [Loop.runOnce] that turns a panic into an error, so that a run can't
// take the loop with it and leave a leader that does not assign.
func (l *Loop) run(ctx context.Context, term leader.Term, c *course) (out outcome, err error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return outcome{}, ctx.Err()
	}
	defer recovered(&err)
	return l.runOnce(ctx, term, c)
}

// recovered turns a panic into an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("assignment run: %w: %v\n%s", leader.ErrPanic, p, debug.Stack())
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
