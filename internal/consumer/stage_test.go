package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/retrieval"
	"github.com/go-kcl/kcl/internal/testbed"
	"github.com/go-kcl/kcl/lease"
)

const (
	shard  = "shardId-000000000003"
	childA = "shardId-000000000004"
	childB = "shardId-000000000005"
	parent = "shardId-000000000001"
	other  = "shardId-000000000002"
)

// trace is what happened, in order. All parts of a stage write to one.
type trace struct {
	mu    sync.Mutex
	lines []string
}

func (t *trace) add(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}

// took returns what happened since the last call.
func (t *trace) took() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines
	t.lines = nil
	return l
}

// stage is a consumer with scripted surroundings, in a bubble. Its parts write
// what they are asked to one trace.
type stage struct {
	t *testing.T
	*trace
	cfg    Config
	stream kcl.StreamConfig
	lease  lease.Lease
	held   *held
	rows   *rows
	feed   *feed
	actor  *actor
	log    *lines
	rec    testbed.Figures

	c      *Consumer
	stop   context.CancelFunc // the hard stop
	result chan Result
}

func newStage(t *testing.T) *stage {
	t.Helper()
	tr := &trace{}
	l := lease.Lease{Key: shard, ShardID: shard, Owner: "me", Token: "token", Counter: 7, Checkpoint: kcl.AtTrimHorizon}
	s := &stage{
		t: t, trace: tr, lease: l,
		stream: kcl.StreamConfig{Stream: kcl.StreamIdentifier{Name: "orders"}, Position: kcl.TrimHorizon},
		held:   &held{trace: tr, leases: map[string]lease.Lease{}, errs: map[string]error{}},
		rows:   &rows{trace: tr, leases: map[string]lease.Lease{shard: l}},
		feed:   &feed{trace: tr, batches: make(chan *retrieval.Batch, 1000)},
		actor:  &actor{trace: tr},
		log:    &lines{},
		result: make(chan Result, 1),
	}
	s.cfg = Config{
		Leases: s.held, Store: s.rows, Logger: slog.New(s.log), Metrics: &s.rec,
		Random: func() float64 { return 0.5 },
		Open: func(ctx context.Context, sh retrieval.Shard) Source {
			s.feed.ctx, s.feed.shard = ctx, sh
			return s.feed
		},
		NewProcessor: func(context.Context, kcl.ShardInfo) (kcl.RecordProcessor, error) {
			tr.add("new")
			return s.actor, nil
		},
	}
	return s
}

// start runs the consumer and waits until it has nothing to do.
func (s *stage) start() {
	s.t.Helper()
	s.held.leases[s.lease.Key] = s.lease
	s.c = New(s.cfg, s.stream, s.lease)
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), ctxKey{}, "value"))
	s.stop = cancel
	s.t.Cleanup(cancel)
	go func() { s.result <- s.c.Run(ctx) }()
	synctest.Wait()
}

type ctxKey struct{}

// ended returns the result; the consumer must be done.
func (s *stage) ended() Result {
	s.t.Helper()
	synctest.Wait()
	select {
	case r := <-s.result:
		return r
	default:
		s.t.Fatalf("the consumer goes on: %+v", s.c.Status())
		return Result{}
	}
}

func (s *stage) goesOn() {
	s.t.Helper()
	synctest.Wait()
	assert.Empty(s.t, s.result)
}

// deliver feeds batches and waits until they are done with.
func (s *stage) deliver(batches ...*retrieval.Batch) {
	for _, b := range batches {
		s.feed.batches <- b
	}
	synctest.Wait()
}

// batch returns records with the numbers from first to last.
func batch(first, last int) *retrieval.Batch {
	b := &retrieval.Batch{ReceivedAt: time.Now()}
	for i := first; i <= last; i++ {
		b.Records = append(b.Records, kcl.Record{Position: at(i), Data: []byte("data")})
	}
	return b
}

// endOf makes b the shard's last batch, split into two children unless others
// are given.
func endOf(b *retrieval.Batch, children ...retrieval.Child) *retrieval.Batch {
	b.End = true
	b.Children = children
	if children == nil {
		b.Children = []retrieval.Child{
			{ShardID: childA, Parents: []string{shard}, HashRange: hashes(0, 9)},
			{ShardID: childB, Parents: []string{shard}, HashRange: hashes(10, 19)},
		}
	}
	return b
}

func hashes(start, end uint64) kcl.HashRange {
	return kcl.HashRange{Start: kcl.HashKey{Lo: start}, End: kcl.HashKey{Lo: end}}
}

func at(n int) kcl.Position { return kcl.Position{SequenceNumber: strconv.Itoa(n)} }

// held is the worker's held leases. Scripted errors are by method.
type held struct {
	*trace
	mu      sync.Mutex
	leases  map[string]lease.Lease
	errs    map[string]error
	handOff bool // a hand-off is pending
	bytes   int
}

func (h *held) fails(method string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.errs[method]
}

func (h *held) setErr(method string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errs[method] = err
}

func (h *held) Get(key string) (lease.Lease, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l, ok := h.leases[key]
	return l, ok
}

func (h *held) Confirm(context.Context, string, string) error { return h.fails("Confirm") }

func (h *held) Delivered(_, _ string, bytes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bytes += bytes
}

func (h *held) did(what, method string) error {
	if err := h.fails(method); err != nil {
		h.add("%s fails", what)
		return err
	}
	h.add("%s", what)
	return nil
}

func (h *held) Checkpoint(_ context.Context, key, token string, p kcl.Position) error {
	err := h.did("checkpoint "+p.String(), "Checkpoint")
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.leases[key]; err == nil {
		l.Checkpoint = p
		h.leases[key] = l
	}
	return err
}

func (h *held) Prepare(_ context.Context, _, _ string, p kcl.Position, state []byte) error {
	return h.did(fmt.Sprintf("prepare %s %q", p, state), "Prepare")
}

func (h *held) Accept(_, _ string, p kcl.Position) { h.add("accept %s", p) }

func (h *held) Flush(context.Context, string, string) error { return h.did("flush", "Flush") }

func (h *held) Transfer(context.Context, string, string) error {
	h.mu.Lock()
	pending := h.handOff
	h.mu.Unlock()
	if !pending {
		return fmt.Errorf("lease: %w", lease.ErrNoHandOff)
	}
	return h.did("transfer", "Transfer")
}

func (h *held) Release(context.Context, string, string) error { return h.did("release", "Release") }

func (h *held) Drop(key, token string) {
	h.add("drop")
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leases[key].Token == token {
		delete(h.leases, key)
	}
}

// rows is the lease table.
type rows struct {
	*trace
	mu     sync.Mutex
	leases map[string]lease.Lease
	err    error           // of all calls
	gets   int             // calls of Get
	stale  map[string]bool // keys that only a consistent read finds
}

func (r *rows) put(l lease.Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leases[l.Key] = l
}

func (r *rows) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func (r *rows) Get(_ context.Context, key string) (lease.Lease, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gets++
	l, ok := r.leases[key]
	return l, ok && !r.stale[key], r.err
}

func (r *rows) GetConsistent(_ context.Context, key string) (lease.Lease, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gets++
	l, ok := r.leases[key]
	return l, ok, r.err
}

func (r *rows) Create(_ context.Context, l lease.Lease) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return false, r.err
	}
	if _, ok := r.leases[l.Key]; ok {
		return false, nil
	}
	r.leases[l.Key] = l
	r.add("create %s", l.Key)
	return true, nil
}

func (r *rows) SetChildren(_ context.Context, key string, children []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	if l, ok := r.leases[key]; ok {
		l.Children = children
		r.leases[key] = l
	}
	r.add("children %s", strings.Join(children, " "))
	return nil
}

// feed is a Source.
type feed struct {
	*trace
	ctx     context.Context
	shard   retrieval.Shard
	batches chan *retrieval.Batch
	mu      sync.Mutex
	status  retrieval.Status
	closed  bool
}

func (f *feed) Next(ctx context.Context) (*retrieval.Batch, error) {
	select {
	case b := <-f.batches:
		return b, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *feed) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.closed = true
		f.add("close")
	}
}

func (f *feed) Status() retrieval.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

// actor is a processor. Its hooks, where set, are what its callbacks do.
type actor struct {
	*trace
	onInitialize func(context.Context, *kcl.Initialization) error
	onProcess    func(context.Context, *kcl.Batch) error
	onLost       func(context.Context)
	onEnded      func(context.Context) error
	onShutdown   func(context.Context, kcl.Checkpointer) error
	recovered    atomic.Bool // for hooks that fail until then
}

func (a *actor) Initialize(ctx context.Context, in *kcl.Initialization) error {
	a.add("initialize %s", in.Position)
	if a.onInitialize != nil {
		return a.onInitialize(ctx, in)
	}
	return nil
}

func (a *actor) ProcessRecords(ctx context.Context, b *kcl.Batch) error {
	a.add("process %s", span(b.Records))
	if a.onProcess != nil {
		return a.onProcess(ctx, b)
	}
	return nil
}

func (a *actor) LeaseLost(ctx context.Context) {
	a.add("lease lost")
	if a.onLost != nil {
		a.onLost(ctx)
	}
}

func (a *actor) ShardEnded(ctx context.Context) error {
	a.add("shard ended")
	if a.onEnded != nil {
		return a.onEnded(ctx)
	}
	return nil
}

func (a *actor) ShutdownRequested(ctx context.Context, cp kcl.Checkpointer) error {
	a.add("shutdown requested")
	if a.onShutdown != nil {
		return a.onShutdown(ctx, cp)
	}
	return nil
}

// span names a run of records: "1-3", "none".
func span(records []kcl.Record) string {
	if len(records) == 0 {
		return "none"
	}
	return records[0].Position.String() + "-" + records[len(records)-1].Position.String()
}

// failing returns errors one after another, then nil.
func failing(errs ...error) func() error {
	return func() error {
		if len(errs) == 0 {
			return nil
		}
		err := errs[0]
		errs = errs[1:]
		return err
	}
}

// lines is a slog.Handler that keeps level, message and some attributes.
type lines struct {
	mu  sync.Mutex
	got []string
}

func (l *lines) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l *lines) WithGroup(string) slog.Handler                    { return l }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		if slices.Contains([]string{"callback", "what", "state", "first", "last"}, a.Key) {
			line += " " + a.Key + "=" + a.Value.String()
		}
		return true
	})
	l.got = append(l.got, line)
	return nil
}

func (l *lines) took() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	got := l.got
	l.got = nil
	return got
}

// settle lets d pass, and what is due then happen.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

var errTest = errors.New("scripted failure")

// bubble runs f as a subtest in a bubble, with a stage.
func bubble(t *testing.T, name string, f func(*testing.T, *stage)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(t, newStage(t)) })
	})
}
