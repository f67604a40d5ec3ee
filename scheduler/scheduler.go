package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/workermetrics"
)

// State is the phase of a worker's life.
type State string

// The states, in order.
const (
	StateNew          State = "NEW"               // Run was not called yet
	StateInitializing State = "INITIALIZING"      // joins the fleet
	StateStarted      State = "STARTED"           // consumes
	StateStopping     State = "SHUT_DOWN_STARTED" // stops
	StateStopped      State = "SHUT_DOWN"         // Run has returned, or is about to
)

// Scheduler is one worker. Its methods may be called from any goroutine.
type Scheduler struct {
	cfg     Config
	stream  kcl.StreamConfig
	sampler *workermetrics.Sampler // runs for as long as Run
	log     *slog.Logger
	found   bool // the stream, by the start

	ready chan struct{} // closed when the worker has joined
	done  chan struct{} // closed when Run has returned

	// stopping is done when a graceful stop has been asked for, hard when the
	// worker is to drop everything; the causes tell by what.
	stopping context.Context
	stop     context.CancelCauseFunc
	hard     context.Context
	stopHard context.CancelCauseFunc

	mu sync.Mutex
	// Guarded by mu.
	state  State
	worker *worker // nil until the worker has joined
	result error   // what Run returned
}

// The causes of stops that were asked for.
var (
	// errShutdown: whoever called Shutdown says how long it may take.
	errShutdown = errors.New("shutdown was called")
	// errFromCallback: a callback called Shutdown, and cannot wait.
	errFromCallback = errors.New("shutdown was called from a callback")
)

// New returns a Scheduler for a valid c, and otherwise one error that names each
// field, its value and its bound. It makes no call and starts nothing.
func New(c Config) (*Scheduler, error) {
	c = c.withDefaults()
	stream, sampler, err := c.validate()
	if err != nil {
		return nil, err
	}
	s := &Scheduler{
		cfg:     c,
		stream:  stream,
		sampler: sampler,
		log:     c.Logger.With("worker", c.WorkerIdentifier),
		ready:   make(chan struct{}),
		done:    make(chan struct{}),
		state:   StateNew,
	}
	s.stopping, s.stop = context.WithCancelCause(context.Background())
	s.hard, s.stopHard = context.WithCancelCause(context.Background())
	return s, nil
}

// WorkerIdentifier returns this worker's name in the lease table.
func (s *Scheduler) WorkerIdentifier() string { return s.cfg.WorkerIdentifier }

// Ready is closed once the worker has joined the fleet: it is known to be alive
// and looks for leases. It is never closed if the start fails.
func (s *Scheduler) Ready() <-chan struct{} { return s.ready }

// Run joins the fleet and consumes. It returns nil after a graceful stop, which
// the end of ctx or [Scheduler.Shutdown] begins. Otherwise the error says why
// the worker could not start, why it stopped, or, if it was stopped hard, which
// shards were cut off. Values of ctx reach the callbacks.
//
// Run is called once. It leaves no goroutine behind, but for a callback that
// ignores the end of its context; the error then names its shard.
func (s *Scheduler) Run(ctx context.Context) (err error) {
	s.mu.Lock()
	if s.state != StateNew {
		s.mu.Unlock()
		return errors.New("scheduler: Run was called before")
	}
	if s.stopping.Err() != nil { // stopped before it began
		s.state = StateStopped
		s.mu.Unlock()
		s.tell(StateStopped)
		close(s.done)
		return nil
	}
	s.state = StateInitializing
	s.mu.Unlock()
	defer func() {
		s.setState(StateStopped)
		s.mu.Lock()
		s.result = err
		s.mu.Unlock()
		s.stop(errShutdown)
		s.stopHard(errShutdown)
		close(s.done)
	}()
	s.tell(StateInitializing)

	// The end of ctx begins the graceful stop; what is needed for that lives on.
	values := context.WithoutCancel(ctx)
	defer context.AfterFunc(ctx, func() { s.stop(context.Cause(ctx)) })()

	sampling, stopSampling := context.WithCancel(values)
	var sampler sync.WaitGroup
	sampler.Go(func() { s.sampler.Run(sampling) }) // until Run returns, for the worker reports to its end
	defer sampler.Wait()
	defer stopSampling()

	w, err := s.join(values)
	if err != nil {
		if s.stopping.Err() != nil {
			return nil // stopped while starting; there is no lease to hand back
		}
		return fmt.Errorf("scheduler: %w", err)
	}
	s.mu.Lock()
	s.worker = w
	s.mu.Unlock()
	s.setState(StateStarted)
	close(s.ready)

	fatal := w.serve()
	s.setState(StateStopping)
	if err := errors.Join(fatal, w.leave()); err != nil {
		return fmt.Errorf("scheduler: %w", err)
	}
	return nil
}

// Shutdown stops the worker gracefully and returns what Run returns, or nil if
// Run was not called; then it never does anything. When ctx ends first, the
// worker drops everything, as after StopTimeout; the error names the shards that
// were cut off, and wraps ctx's cause. Called from a callback, with the
// callback's context, it only starts the stop, which StopTimeout then bounds,
// and returns nil; with another context it would wait for the callback itself.
func (s *Scheduler) Shutdown(ctx context.Context) error {
	if ctx.Value(callback{}) == s {
		s.stop(errFromCallback)
		return nil
	}
	s.stop(errShutdown)
	s.mu.Lock()
	state := s.state
	s.mu.Unlock()
	if state == StateNew {
		return nil
	}
	select {
	case <-s.done:
		return s.outcome()
	case <-ctx.Done():
	}
	s.stopHard(fmt.Errorf("%w: %w", kcl.ErrStopping, context.Cause(ctx)))
	<-s.done // bounded: see worker.leave
	return s.outcome()
}

func (s *Scheduler) outcome() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.result
}

// callback is the key under which a callback's context carries its Scheduler.
type callback struct{}

func (s *Scheduler) setState(state State) {
	s.mu.Lock()
	changed := s.state != state
	s.state = state
	s.mu.Unlock()
	if changed {
		s.tell(state)
	}
}

func (s *Scheduler) tell(state State) {
	s.log.Info("worker state changed", "state", string(state))
	if s.cfg.OnStateChange != nil {
		s.cfg.OnStateChange(state)
	}
}
