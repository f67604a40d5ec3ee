package leader

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"

	"github.com/go-kcl/kcl/metrics"
)

// Operation is the operation of the figures that a [Decider] reports, all of
// them Count:
//
//	LeaderDecider:IsLeader        1 or 0, at every look and heartbeat   Detailed
//	LeaderDecider:MalformedLock   1 at every look at a malformed item   Summary
//
// IsLeader is reported about every Heartbeat where KCL does at every question,
// at least once a second. KCL has no MalformedLock: its check fails instead.
const Operation = "LeaderDecider"

const (
	metricIsLeader  = "LeaderDecider:IsLeader"
	metricMalformed = "LeaderDecider:MalformedLock"
)

// Decider says whether this worker leads, and contends for the lock while it
// does not. All methods are safe for concurrent use.
type Decider struct {
	cfg     Config
	log     *slog.Logger
	metrics metrics.Scope

	kick chan struct{} // wakes Run to look at its term; holds one
	done chan struct{} // closed when Run has ended

	mu sync.Mutex
	// Guarded by mu.
	running   bool
	leading   bool
	denied    bool    // Leading has said no while leading was true, and Run has not looked since
	from      reading // before the call that won or last renewed the lock
	term      Term
	endTerm   context.CancelFunc
	resigning *resignation // not yet taken up by Run
	moving    *place       // likewise
	at        string       // the table of the lock that it contends for, or is about to
	seen      Sighting
	looked    bool          // at least once
	lookErr   error         // of the last look
	changed   chan struct{} // closed, and replaced, by signal
}

// place is where a lock is, and what this worker wrote there already.
type place struct {
	table
	claim string // the version of its claim there; "" if there is none
}

// resignation asks Run to free the lock.
type resignation struct {
	done chan struct{} // closed when err is set
	err  error
}

// New returns a Decider that does nothing before [Decider.Run]. It makes no
// call; an error names every fault of c.
func New(c Config) (*Decider, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Decider{
		cfg:     c,
		at:      c.Table,
		log:     c.Logger.With("worker", c.Worker),
		metrics: metrics.Scope{Recorder: c.Metrics, Operation: Operation},
		kick:    make(chan struct{}, 1),
		done:    make(chan struct{}),
		changed: make(chan struct{}),
	}, nil
}

// Leading reports whether this worker leads, and its term. It makes no call to
// AWS. A true answer holds until Term.Until at least, unless this worker itself
// ends the term; later answers tell. Before the first look, and once Run has
// ended, the answer is false.
func (d *Decider) Leading() (Term, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.leading {
		return Term{}, false
	}
	if d.stands(d.from) != certain {
		d.denied = true
		d.wake()
		return Term{}, false
	}
	return d.term, true
}

// stood tells those who were denied a term that it stands after all: the renewal
// was under way that they did not know of, or the clock was set back.
func (d *Decider) stood() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.denied {
		d.denied = false
		d.signal()
	}
}

// stands says how a term stands now that counts from then.
func (d *Decider) stands(from reading) standing {
	mono, wall := read().since(from)
	return judge(mono, wall, d.cfg.Duration)
}

// renewed returns when the call began that won or last renewed the lock.
func (d *Decider) renewed() reading {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.from
}

// Ask is [Decider.Leading] for a start: it waits until Run has looked at the
// lock for the first time. It returns the error of the last look if that failed,
// wrapping [ErrMalformedLock] or an error of package kcl. It returns false
// without an error once Run has ended. It makes no call to AWS itself.
func (d *Decider) Ask(ctx context.Context) (Term, bool, error) {
	for {
		changed := d.Changed()
		term, leading := d.Leading()
		d.mu.Lock()
		looked, err := d.looked, d.lookErr
		d.mu.Unlock()
		if leading {
			return term, true, nil
		}
		if looked {
			return Term{}, false, err
		}
		select {
		case <-changed:
		case <-d.done:
			return Term{}, false, nil
		case <-ctx.Done():
			return Term{}, false, context.Cause(ctx)
		}
	}
}

// Changed returns a channel that is closed when the answer of [Decider.Leading]
// changes, or what [Decider.Seen] says of who leads and whether to suspect it.
// It is closed once; take the next one before asking again.
func (d *Decider) Changed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

// Seen returns what this worker, while it contends, last saw of the lock. It is
// false while it leads or nobody does. The worker's own id may stand there: a
// former process had the lock.
func (d *Decider) Seen() (Sighting, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen, d.seen != Sighting{}
}

// Resign gives up a term: Leading is false at once, the lock is freed, and this
// worker stands back from it for one Duration, so that another gets it. A term
// that is over already is no error. An error says that the lock could not be
// freed; it then lapses by itself, one Duration after its last renewal.
//
// If ctx ends first, its cause is returned and the lock is freed all the same.
func (d *Decider) Resign(ctx context.Context, t Term) error {
	r := &resignation{done: make(chan struct{})}
	if !d.end(t.Number, "resigned", r) {
		return nil
	}
	d.wake()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Claim returns the content of a lock that this worker would take anew, for
// somebody who writes it into another table in a transaction of its own; key and
// kind are not in it. [Decider.Move] is then told of it.
func (d *Decider) Claim() map[string]types.AttributeValue {
	return lock{owner: d.cfg.Worker, version: uuid.NewString(), duration: d.cfg.Duration}.content()
}

// Move makes this worker contend for the lock of another table from now on: its
// term is over at once, and its present lock is freed. claim, of
// [Decider.Claim], is what it may have written there; if that is still so, it
// leads again as soon as it has renewed it. Nil means none. Move does not wait. It
// does nothing if the lock is in that table already.
func (d *Decider) Move(table, keyAttribute string, claim map[string]types.AttributeValue) {
	to := &place{table: d.place(table, keyAttribute)}
	if s, ok := claim[attrVersion].(*types.AttributeValueMemberS); ok {
		to.claim = s.Value
	}
	d.mu.Lock()
	if d.at == table {
		d.mu.Unlock()
		return
	}
	d.at, d.moving = table, to
	number := d.term.Number
	ended := d.over(number, nil)
	d.mu.Unlock()
	if ended {
		d.tellEnded(number, "the lock is kept in another table from now on")
	}
	d.wake()
}

// place is the lock's item in a table.
func (d *Decider) place(name, keyAttribute string) table {
	return table{client: d.cfg.Client, name: name, keyAttribute: keyAttribute}
}

// takeMove returns what [Decider.Move] left to Run, once.
func (d *Decider) takeMove() *place {
	d.mu.Lock()
	defer d.mu.Unlock()
	to := d.moving
	d.moving = nil
	return to
}

// wake makes Run look at its term now.
func (d *Decider) wake() {
	select {
	case d.kick <- struct{}{}:
	default: // it will look anyway
	}
}

// begin starts a term that counts from then on, by the lock of that table. It is
// false if the lock is to be kept in another meanwhile.
func (d *Decider) begin(from reading, table string) (number uint64, began bool) {
	ended, end := context.WithCancel(context.Background())
	d.mu.Lock()
	if d.moving != nil {
		number = d.term.Number
		d.mu.Unlock()
		end()
		return number, false
	}
	d.leading, d.from, d.endTerm = true, from, end
	d.term = Term{
		Number:   d.term.Number + 1,
		Table:    table,
		Began:    time.Now(),
		Until:    from.mono.Add(d.cfg.Duration),
		Duration: d.cfg.Duration,
		ended:    ended,
	}
	d.seen = Sighting{}
	number = d.term.Number
	d.signal()
	d.mu.Unlock()
	d.log.Info("leadership won", "term", number)
	return number, true
}

// extend moves the end of the last term. One that was resigned meanwhile stays
// over.
func (d *Decider) extend(from reading) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.from, d.term.Until = from, from.mono.Add(d.cfg.Duration)
}

// end ends the term of that number, and leaves r, if any, to Run. It is false if
// the term is over already.
func (d *Decider) end(number uint64, reason string, r *resignation) bool {
	d.mu.Lock()
	ended := d.over(number, r)
	d.mu.Unlock()
	if ended {
		d.tellEnded(number, reason)
	}
	return ended
}

// over is end by who holds mu and tells.
func (d *Decider) over(number uint64, r *resignation) bool {
	if !d.leading || d.term.Number != number {
		return false
	}
	d.leading, d.denied, d.resigning = false, false, r
	d.endTerm()
	d.signal()
	return true
}

func (d *Decider) tellEnded(number uint64, reason string) {
	d.log.Info("leadership ended", "term", number, "reason", reason)
	d.countLeading(false)
}

// takeResignation returns what [Decider.Resign] left to Run, once.
func (d *Decider) takeResignation() *resignation {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.resigning
	d.resigning = nil
	return r
}

// looks stores what came of a look at the lock.
func (d *Decider) looks(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lookErr = err
	if !d.looked && !d.leading { // else begin has told
		d.signal()
	}
	d.looked = true
}

// publish stores what Seen returns, and reports whether another leader is seen.
func (d *Decider) publish(s Sighting) (another bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	another = s.Leader != d.seen.Leader && s != Sighting{}
	if s.Leader != d.seen.Leader || s.Suspect() != d.seen.Suspect() {
		d.signal()
	}
	d.seen = s
	return another
}

func (d *Decider) countLeading(leading bool) {
	n := 0.0
	if leading {
		n = 1
	}
	d.metrics.Count(metricIsLeader, n, metrics.Detailed)
}

// signal closes the present channel of Changed. The caller holds mu.
func (d *Decider) signal() {
	close(d.changed)
	d.changed = make(chan struct{})
}
