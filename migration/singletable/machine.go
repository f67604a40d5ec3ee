package singletable

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/go-kcl/kcl/metrics"
)

const (
	holdFirst = time.Second // after a failed write; doubled by each further one
	holdMost  = time.Minute

	// guardEvery is how often a fresh application's leader looks for the legacy
	// table.
	guardEvery = 10 * time.Minute
)

// MachineConfig sets up a [Machine].
type MachineConfig struct {
	Config
	Tables *Tables
	// SummaryAge is how long what [Machine.Know] was told is good for: a few
	// assignment intervals. 0 means 90 s.
	SummaryAge time.Duration
	// Patience is how long this worker keeps the lock that it has just won while it
	// cannot read the state: half of the lock's duration, or less. 0 means 15 s.
	Patience time.Duration
	// NewLock returns the content of the lease table's lock as this worker would
	// take it. It is asked for when the migration is about to be completed. Nil
	// leaves the lock to be contended for.
	NewLock func() map[string]types.AttributeValue
	// Release is told to free the legacy table's lock. completed says that the
	// migration is complete and the worker contends for the lease table's lock
	// from now on; took is the content of that lock if this worker's transaction
	// put it there, or may have. It is called from Run, perhaps more than once for
	// a term, or when no lock is held, and must not wait for Run.
	Release func(completed bool, took map[string]types.AttributeValue)
	// Logger is told of changes and of what goes wrong. Nil means none.
	Logger *slog.Logger
	// Metrics is given the figures listed at [Operation]. Nil means none.
	Metrics metrics.Recorder
}

// Machine brings a worker's part of the migration about: it keeps what decisions
// need, asks [Decide], and does what that says. All methods are safe for
// concurrent use.
type Machine struct {
	cfg  MachineConfig
	log  *slog.Logger
	wake chan struct{} // something of the view has changed; holds one

	// What Run alone touches.
	read    Read
	look    Look
	move    Move
	running *run // the move, while it runs
	hold    time.Time
	fails   int
	blocked string
	lock    map[string]types.AttributeValue // of a transaction whose answer was lost

	mu sync.Mutex
	// Guarded by mu.
	started, local Status
	number         uint64 // of the term, 0 for none
	term           context.Context
	summary        Summary
	leads          uint64 // the term in which the worker may act
	report         Report
	changed        chan struct{} // closed, and replaced, when Status or Leads may answer otherwise
	fresh          bool          // the worker started without a legacy table
}

// run is a move on its way.
type run struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when err is set
	err    error
}

// Report is where a worker's part of the migration stands.
type Report struct {
	// Stored is the status in the migration's item as last read, Local the
	// worker's own. Stored is empty if nothing is stored or known.
	Stored, Local Status
	// Waits says in words what the migration waits for, Since since when.
	Waits string
	Since time.Time
	// Row is the row of the table in [Decide].
	Row string
	// Err is for a human to see to; nil if nothing is.
	Err error
}

var errNotWanted = errors.New("the move is not wanted any more")

// NewMachine makes no call.
func NewMachine(c MachineConfig) (*Machine, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Machine{cfg: c, log: c.Logger.With("worker", c.Worker), wake: make(chan struct{}, 1), started: Unknown, local: Unknown, changed: make(chan struct{})}, nil
}

// Start finds out the worker's status. It may be called again after an error;
// after a success it is a no-op. [ErrTooEarly] may pass, [ErrDenied] and
// [ErrInconsistent] will not.
func (m *Machine) Start(ctx context.Context, noLegacyTables bool) (_ Status, err error) {
	if s := m.Started(); s != Unknown {
		return s, nil
	}
	began := time.Now()
	defer func() { m.measureStart(began, err) }()
	f, err := m.cfg.Tables.Facts(ctx, m.cfg.MigrateAllEntitiesToLeaseTable, noLegacyTables)
	if err != nil {
		return Unknown, err
	}
	s, err := Begin(f)
	if err != nil {
		return Unknown, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.started == Unknown {
		m.started, m.local, m.fresh = s, s, s == Complete && !f.Copied && f.Legacy == LegacyAbsent
		m.report = Report{Stored: f.Stored.Value, Local: s, Since: time.Now()}
		if f.Copied {
			m.report.Stored = f.Copy.Value
		}
	}
	return m.started, nil
}

// Status is the worker's status now; [Unknown] before its start.
func (m *Machine) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.local
}

// Started is the status that the worker started with.
func (m *Machine) Started() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.started
}

// Report says where the migration stands.
func (m *Machine) Report() Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.report
}

// Lead says that the worker has won the legacy table's lock; number is above 0
// and new for each term, and ctx ends with the term. The worker must not act as
// leader before [Machine.Leads] says so.
func (m *Machine) Lead(ctx context.Context, number uint64) { m.setTerm(ctx, number) }

// Follow says that the term is over.
func (m *Machine) Follow() { m.setTerm(context.Background(), 0) }

func (m *Machine) setTerm(ctx context.Context, number uint64) {
	m.mu.Lock()
	m.term, m.number = ctx, number
	if m.leads != number {
		m.become(m.local, 0)
	}
	m.mu.Unlock()
	m.nudge()
}

// Leads reports whether the worker may act as leader in that term. It makes no
// call.
func (m *Machine) Leads(number uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return number != 0 && m.leads == number
}

// Changed returns a channel that is closed when [Machine.Status] or
// [Machine.Leads] may answer otherwise. It is closed once; take the next one
// before asking again.
func (m *Machine) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// become sets the worker's status and the term in which it may act. The caller
// holds mu.
func (m *Machine) become(local Status, leads uint64) {
	if m.local == local && m.leads == leads {
		return
	}
	m.local, m.leads = local, leads
	close(m.changed)
	m.changed = make(chan struct{})
}

// Know gives the Machine what an assignment run of the leader's saw. Summary.Term
// is the number that [Machine.Lead] was told.
func (m *Machine) Know(s Summary) {
	m.mu.Lock()
	m.summary = s
	complete := m.local == Complete
	m.mu.Unlock()
	m.measureFleet(s, complete)
	m.nudge()
}

func (m *Machine) nudge() {
	select {
	case m.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// Run decides and acts until ctx ends or the migration is complete. For the leader
// of a fresh application it looks now and then whether somebody has made the
// legacy table, and tells. Before it returns, a move has ended, and no write of
// its is begun afterwards. It is to end before the legacy table's lock is freed. It
// returns [ErrNotStarted] if there was no start.
func (m *Machine) Run(ctx context.Context) error {
	defer m.endMove()
	for {
		v, term := m.view()
		d := Decide(v)
		if d.Row == "X1" {
			return d.Err
		}
		if d.CancelMove {
			m.endMove()
		}
		m.take(v, d)
		m.measure(v, d)
		if d.Release {
			m.release(d.Local == Complete)
		}
		if d.Local == Complete {
			m.guard(ctx)
			return nil
		}
		if ctx.Err() != nil {
			m.settle()
			return nil
		}
		if d.Do == Wait {
			m.pause(ctx, term, d.Next)
			continue
		}
		m.act(ctx, term, v, d)
	}
}

// settle finds out, at a stop, what became of a last transaction whose answer was
// lost: the lock that it may have taken would be freed by nobody.
func (m *Machine) settle() {
	if m.lock == nil {
		return
	}
	r, err := m.cfg.Tables.Read(context.Background(), 0) // bounded by its own timeout
	if stored, _ := r.status(); stored != Complete && !r.CopyComplete {
		if err != nil {
			m.log.Warn("cannot read whether the table migration is complete; the lock that was taken for that may have to lapse", "err", err)
		}
		return
	}
	m.mu.Lock()
	m.become(Complete, 0)
	m.report = Report{Stored: Complete, Local: Complete, Row: m.report.Row, Since: time.Now()}
	m.mu.Unlock()
	m.release(true)
}

// guard tells if workers of KCL 3.0 to 3.4 join an application that never had
// their tables: they would make them, have a leader of their own, and see none of
// its workers.
func (m *Machine) guard(ctx context.Context) {
	m.mu.Lock()
	fresh := m.fresh
	m.mu.Unlock()
	for looked := time.Now(); fresh; {
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		}
		if time.Since(looked) < guardEvery {
			continue
		}
		looked = time.Now()
		if _, err := m.cfg.Tables.describe(ctx); err == nil {
			m.log.Error("a worker of KCL 3.0 to 3.4 has joined, which has a leader of its own: stop it, and delete the tables that it has made", "table", m.cfg.Tables.Legacy)
			m.fault("LegacyTableAppeared", true)
			return
		}
	}
}

// view gathers what is known.
func (m *Machine) view() (View, context.Context) {
	if r := m.running; r != nil {
		select {
		case <-r.done:
			m.running = nil
			r.cancel(nil)
			m.move.Ended, m.move.Phase, m.move.Why = time.Now(), Moved, ""
			if r.err != nil {
				m.move.Phase, m.move.Why = MoveFailed, r.err.Error()
				m.log.Warn("coordinator's items were not all moved", "err", r.err)
			}
			if errors.Is(r.err, ErrStuck) {
				m.move.Phase = MoveStuck
			}
		default:
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	term, number := m.term, m.number
	if number == 0 || term.Err() != nil { // Follow was, or is about to be called
		term, number = nil, 0
	}
	return View{
		Config: m.cfg.Config, Now: time.Now(), Local: m.local, Term: number, Read: m.read, Summary: m.summary, Look: m.look, Move: m.move,
		HoldUntil: m.hold, Blocked: m.blocked, Period: m.cfg.Tables.Period, SummaryAge: m.cfg.SummaryAge, Patience: m.cfg.Patience,
	}, term
}

// take publishes a decision, but for what depends on its action.
func (m *Machine) take(v View, d Decision) {
	stored, _ := m.read.status()
	m.mu.Lock()
	before := m.report
	if d.Local == Complete && stored == "" { // by what the start found, or the lease table's copy
		stored = before.Stored
		if m.read.CopyComplete {
			stored = Complete
		}
	}
	leads := uint64(0)
	if d.Leads && m.number == v.Term && d.Local != Complete {
		leads = v.Term
	}
	m.become(d.Local, leads)
	m.report = Report{Stored: stored, Local: d.Local, Waits: d.Why, Since: before.Since, Row: d.Row, Err: d.Err}
	if d.Leads && d.Do != Wait { // on the way to what it waits for next
		m.report.Waits, m.report.Row = before.Waits, before.Row
	}
	now := m.report
	if now.Waits != before.Waits {
		m.report.Since = v.Now
	}
	m.mu.Unlock()
	if d.Local != before.Local {
		m.log.Info("table migration", "status", string(d.Local))
	}
	if d.Err != nil && (before.Err == nil || before.Err.Error() != d.Err.Error()) {
		m.log.Error("table migration needs a human", "err", d.Err)
	}
	switch {
	case !d.Leads || now.Waits == before.Waits:
	case now.Row != before.Row:
		m.log.Info("table migration waits", "row", now.Row, "for", now.Waits)
	default: // for others of the same kind
		m.log.Debug("table migration waits", "row", now.Row, "for", now.Waits)
	}
}

func (m *Machine) release(completed bool) {
	if m.cfg.Release == nil {
		return
	}
	lock := m.lock
	if !completed {
		lock = nil
	}
	m.cfg.Release(completed, lock)
}

// pause waits for a change of the view, or until then.
func (m *Machine) pause(ctx, term context.Context, until time.Time) {
	var over <-chan struct{}
	if term != nil {
		over = term.Done()
	}
	var timeout <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		timeout = timer.C
	}
	var moved <-chan struct{}
	if m.running != nil {
		moved = m.running.done
	}
	select {
	case <-m.wake:
	case <-timeout:
	case <-moved:
	case <-over:
	case <-ctx.Done():
	}
}

// act does what a decision says. Writes end with the leader's term.
func (m *Machine) act(ctx, term context.Context, v View, d Decision) {
	if d.Do == Finalize {
		// Not cut short by a stop: it may take a lock that is then to be freed.
		ctx = context.WithoutCancel(ctx)
	}
	if term != nil {
		var end context.CancelCauseFunc
		ctx, end = both(ctx, term)
		defer end(nil)
	}
	switch d.Do {
	case ReadItem:
		if r, err := m.cfg.Tables.Read(ctx, v.Term); ctx.Err() == nil {
			m.haveRead(r, err)
		}
	case LookLeft:
		l, err := m.cfg.Tables.Look(ctx, v.Term)
		m.looked(l, err)
	case StartMove:
		m.startMove(term, v.Term)
	case Create, Update, Delete:
		began := time.Now()
		a, err := m.cfg.Tables.Write(ctx, d, v.Read.State)
		m.wrote(v, d, began, a, err)
	case Finalize:
		var lock map[string]types.AttributeValue
		if m.cfg.NewLock != nil {
			lock = m.cfg.NewLock()
		}
		began := time.Now()
		a, took, err := m.cfg.Tables.Finalize(ctx, d, v.Read.State, lock)
		switch {
		case a == Uncertain && lock != nil:
			m.lock = lock
		case took:
			m.lock = lock
		case a == Done:
			m.lock = nil
		}
		m.wrote(v, d, began, a, err)
		if a == Done {
			m.release(true)
		}
	}
}

// both returns a context that ends with either.
func both(a, b context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(a)
	stop := context.AfterFunc(b, func() { cancel(context.Cause(b)) })
	return ctx, func(err error) {
		stop()
		cancel(err)
	}
}

// haveRead takes over a read. One that failed leaves what was read before in the
// same term.
func (m *Machine) haveRead(r Read, err error) {
	before := m.read
	r.Unsettled = before.Unsettled
	m.fault("ReadFault", err != nil)
	if r.Outcome != Failed {
		if err != nil && before.Outcome != r.Outcome {
			m.log.Warn("cannot make out how far the table migration is", "err", err)
		}
		m.read = r
		return
	}
	if before.Failing.IsZero() || before.Term != r.Term {
		m.log.Warn("cannot read how far the table migration is", "err", err)
		before.Failing = r.At
	}
	if before.Term == r.Term && (before.Outcome == Found || before.Outcome == None) {
		before.Tried = r.At
		m.read = before
		return
	}
	r.Tried, r.Failing = r.At, before.Failing
	m.read = r
}

// looked takes over a look at the legacy tables. It warns of the first of those
// in a row that fail.
func (m *Machine) looked(l Look, err error) {
	if l.unknown() {
		l.Failed = m.look.Failed + 1
	}
	m.look = l
	if err != nil {
		level := slog.LevelDebug
		if l.Failed <= 1 {
			level = slog.LevelWarn
		}
		m.log.Log(context.Background(), level, "cannot look at the legacy tables", "err", err)
	}
}

// wrote takes over what came of a write.
func (m *Machine) wrote(v View, d Decision, began time.Time, a Answer, err error) {
	m.blocked = ""
	m.measureWrite(d.Do, a)
	if a == Done {
		m.hold, m.fails = time.Time{}, 0
		m.read = Read{Outcome: Found, State: d.State, At: began, Term: v.Term, Unsettled: m.read.Unsettled}
		if d.Do == Delete {
			m.read.Outcome = None
		}
		m.mu.Lock()
		leads := m.leads
		if d.After == Complete { // the lease table's lock counts now
			leads = 0
		}
		m.become(d.After, leads)
		m.report.Local, m.report.Stored = d.After, d.State.Value
		m.mu.Unlock()
		m.log.Info("table migration goes on", "row", d.Row, "stored", string(d.State.Value), "status", string(d.After), "reason", d.Why)
		return
	}
	m.fails++
	m.hold = time.Now().Add(backoff(holdFirst, holdMost, m.fails))
	unsettled := m.read.Unsettled
	switch a {
	case Obstacle:
		m.blocked = err.Error()
		m.hold = time.Now().Add(holdMost)
	case Uncertain:
		unsettled = began
	}
	m.log.Warn("table migration could not go on", "row", d.Row, "err", err)
	// Whatever the item says now must be read before anything else is done.
	m.read = Read{Unsettled: unsettled}
	m.mu.Lock()
	m.become(m.local, 0)
	m.mu.Unlock()
}

// startMove moves the coordinator's items in a goroutine that ends with the
// term, or by endMove.
func (m *Machine) startMove(term context.Context, number uint64) {
	m.stopMove()
	ctx, cancel := context.WithCancelCause(term)
	r := &run{cancel: cancel, done: make(chan struct{})}
	if m.move.Term != number {
		m.move = Move{}
	}
	m.running, m.move = r, Move{Phase: Moving, Term: number, Tries: m.move.Tries + 1}
	go func() {
		defer close(r.done)
		began := time.Now()
		batches, err := m.cfg.Tables.Move(ctx)
		m.measureMove(began, batches, err)
		if err != nil {
			err = fmt.Errorf("after %d batches: %w", batches, err)
		}
		r.err = err
	}()
}

// endMove cancels a move, waits for its end, and forgets what came of it.
func (m *Machine) endMove() {
	m.stopMove()
	m.move = Move{}
}

func (m *Machine) stopMove() {
	if r := m.running; r != nil {
		r.cancel(errNotWanted)
		<-r.done
		m.running = nil
	}
}
