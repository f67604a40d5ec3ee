package scheduler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/emu/wire"
)

// process is one run of a worker, that can be frozen, cut off and killed.
type process struct {
	*member // the driver's
	c       *chaos
	name    string // the worker's
	client  string // its name to AWS: a worker that comes back has another one
	style   string // what its processors do about checkpoints
	keep    bool

	dead     atomic.Bool
	stopped  atomic.Bool                   // a stop was asked for
	gate     atomic.Pointer[chan struct{}] // nil unless frozen
	cutUntil [2]atomic.Int64               // from DynamoDB, from Kinesis: Unix nanoseconds
	trouble  atomic.Int64                  // when a fault befell it last
	frozen   atomic.Int64                  // when it was frozen last
	parked   atomic.Bool                   // a shard of it was stopped by the policy
}

func (p *process) freeze(d time.Duration) {
	g := make(chan struct{})
	if p.gate.CompareAndSwap(nil, &g) {
		time.AfterFunc(d, p.unfreeze)
	}
}

func (p *process) unfreeze() {
	if g := p.gate.Swap(nil); g != nil {
		close(*g)
	}
}

// thaw waits for as long as the process is frozen.
func (p *process) thaw() {
	for g := p.gate.Load(); g != nil; g = p.gate.Load() {
		<-*g
		p.hurt()
		p.frozen.Store(time.Now().UnixNano())
	}
}

// hurt notes that a fault befalls the process.
func (p *process) hurt() { p.trouble.Store(time.Now().UnixNano()) }

// sound reports whether no fault befell the process for a minute, awake whether
// it was not frozen for as long.
func (p *process) sound() bool { return time.Since(time.Unix(0, p.trouble.Load())) > time.Minute }
func (p *process) awake() bool { return time.Since(time.Unix(0, p.frozen.Load())) > time.Minute }

func (p *process) cutFor(service string) time.Duration {
	n := 0
	if service == "kinesis" {
		n = 1
	}
	return time.Until(time.Unix(0, p.cutUntil[n].Load()))
}

// dice returns what is random about the next event of that name. It depends on
// the seed and on how many there were, not on what else goes on.
func (c *chaos) dice(name string) *rand.Rand {
	c.mu.Lock()
	n := c.rolls[name]
	c.rolls[name]++
	c.mu.Unlock()
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(c.seed^h.Sum64(), n))
}

// storm makes calls fail: of a service or one operation, or all if both are
// empty.
type storm struct {
	service, operation string
	odds               int // of a thousand calls
	until              time.Time
}

func (s *storm) hits(i wire.Info) bool {
	return s != nil && time.Now().Before(s.until) &&
		(s.service == "" || s.service == i.Service) && (s.operation == "" || s.operation == i.Operation)
}

// The faults of single calls.
const (
	throttled = iota
	serverError
	broken  // the connection breaks, the call never arrives
	lost    // it is carried out, but its answer is lost
	slow    // it takes up to 5 s, before or after it is carried out
	unheard // there is no answer until the caller gives up
	late    // it fails for the caller, and is carried out up to 3 s later
	expired // of GetRecords: its iterator has expired
	kindsOfFault
)

var faultNames = [kindsOfFault]string{"throttled", "server error", "broken", "answer lost", "slow", "unheard", "late", "iterator expired"}

// calmOdds are the odds of a fault outside of storms, in a thousand.
const calmOdds = 4

// fault draws what befalls a call; ok is false if nothing does.
func (c *chaos) fault(d *rand.Rand, i wire.Info) (kind int, ok bool) {
	if c.healed.Load() {
		return 0, false
	}
	odds := calmOdds
	if s := c.storm.Load(); s.hits(i) {
		odds = s.odds
	}
	if d.IntN(1000) >= odds {
		return 0, false
	}
	kind = d.IntN(kindsOfFault)
	if kind == expired && i.Operation != "GetRecords" {
		kind = throttled
	}
	c.count(faultNames[kind])
	return kind, true
}

// intercept is the network and the services' bad days.
func (c *chaos) intercept(ctx context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
	p := c.process(i.Client)
	if p == nil {
		return run(), nil // the test's own call
	}
	item, _ := ctx.Value(itemKey{}).(string)
	do := func() wire.Answer { return c.book.watch(p, i, item, run) }
	d := c.dice(i.Client + " " + i.Operation)
	p.thaw()
	if p.dead.Load() {
		return wire.Answer{}, errCut
	}
	if left := p.cutFor(i.Service); left > 0 {
		p.hurt()
		if d.IntN(2) == 0 { // packets vanish, or are refused
			sleep(ctx, left)
		}
		return wire.Answer{}, errCut
	}
	kind, any := c.fault(d, i)
	if any {
		p.hurt()
	}
	wait := time.Duration(d.Int64N(int64(5 * time.Second)))
	switch {
	case !any:
	case kind == throttled:
		return refusal(i, 400, throttleCode(i)), nil
	case kind == serverError && d.IntN(2) == 0:
		return refusal(i, 503, "ServiceUnavailable"), nil
	case kind == serverError:
		return refusal(i, 500, "InternalServerError"), nil
	case kind == broken:
		return wire.Answer{}, errCut
	case kind == lost:
		do()
		return wire.Answer{}, errCut
	case kind == slow && d.IntN(2) == 0:
		if !sleep(ctx, wait) {
			return wire.Answer{}, ctx.Err()
		}
	case kind == slow:
		ans := do()
		sleep(ctx, wait)
		return ans, nil
	case kind == unheard:
		if d.IntN(2) == 0 {
			do()
		}
		sleep(ctx, time.Hour)
		return wire.Answer{}, errCut
	case kind == late:
		c.loose.Go(func() { time.Sleep(wait * 3 / 5); do() })
		return wire.Answer{}, errCut
	case kind == expired:
		return refusal(i, 400, "ExpiredIteratorException"), nil
	}
	ans := do()
	p.thaw()
	if p.dead.Load() {
		return wire.Answer{}, errCut
	}
	return ans, nil
}

func throttleCode(i wire.Info) string {
	switch {
	case i.Operation == "ListShards", i.Operation == "DescribeStreamSummary":
		return "LimitExceededException"
	case i.Operation == "DescribeTable":
		return "ThrottlingException"
	}
	return "ProvisionedThroughputExceededException"
}

func refusal(i wire.Info, status int, code string) wire.Answer {
	codec := wire.JSON11
	if i.Service == "dynamodb" {
		codec = wire.JSON10
		code = "com.amazonaws.dynamodb.v20120810#" + code
	}
	return (&wire.Error{Status: status, Type: code, Message: "chaos"}).Answer(codec)
}

// itemKey is the key under which a call's context carries that of the item it
// names.
type itemKey struct{}

// tap reads off which item a call is about.
type tap struct{ next aws.HTTPClient }

func (t tap) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var in struct {
		Key, Item map[string]struct{ S string }
	}
	_ = json.Unmarshal(body, &in) // Kinesis has no such thing
	r = r.WithContext(context.WithValue(r.Context(), itemKey{}, in.Key["leaseKey"].S+in.Item["leaseKey"].S))
	r.Body = io.NopCloser(bytes.NewReader(body))
	return t.next.Do(r)
}

// direct calls the services at once, in no time at all.
type direct struct{ http.Handler }

func (d direct) Do(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Result(), nil
}

// errChaos is what failing callbacks return.
var errChaos = errors.New("chaos")

// styles are what processors do about checkpoints; the handler's is none.
var styles = []string{"handler", "every", "fourth", "middle", "prepare", "late", "never", "failed"}

// processor is one of a random temper.
type processor struct {
	kcl.NopProcessor
	p       *process
	shard   string
	batches int
	failed  *kcl.Batch // the last one that failed
	busy    atomic.Bool
	last    string // callback that returned without an error
}

// enter notes that a callback begins, and checks that it may.
func (r *processor) enter(callback string, after ...string) (leave func()) {
	if r.p.style == "handler" {
		return func() {}
	}
	if !r.busy.CompareAndSwap(false, true) {
		r.p.c.book.wrongly("%s: %s of %s during another callback", r.p.client, callback, r.shard)
	}
	if !slices.Contains(after, r.last) {
		r.p.c.book.wrongly("%s: %s of %s after %q", r.p.client, callback, r.shard, r.last)
	}
	if r.last = callback; callback == "Initialize" {
		r.last = "" // until it succeeds
	}
	return func() { r.busy.Store(false) }
}

func (r *processor) dice(callback string) *rand.Rand {
	return r.p.c.dice(r.p.client + r.shard + callback)
}

// fails returns what a callback fails with, if it does: with these odds of a
// hundred.
func (r *processor) fails(d *rand.Rand, odds int) error {
	n := d.IntN(100)
	if r.p.c.healed.Load() || n >= odds {
		return nil
	}
	r.p.c.count("callback failed")
	if n < odds/4 {
		panic(errChaos)
	}
	return errChaos
}

func (r *processor) Initialize(_ context.Context, in *kcl.Initialization) error {
	defer r.enter("Initialize", "")()
	r.p.thaw()
	r.p.c.book.begins(r.p, in)
	err := r.fails(r.dice("Initialize"), 8)
	if err == nil {
		r.last = "Initialize"
	}
	return err
}

func (r *processor) ShardEnded(context.Context) error {
	defer r.enter("ShardEnded", "Initialize", "ProcessRecords", "ShardEnded")()
	r.p.thaw()
	err := r.fails(r.dice("ShardEnded"), 20)
	if err == nil {
		r.last = "ended"
	}
	return err
}

func (r *processor) LeaseLost(context.Context) {
	defer r.enter("LeaseLost", "", "Initialize", "ProcessRecords", "ShardEnded", "ShutdownRequested", "ended")()
	r.p.thaw()
	_ = r.fails(r.dice("LeaseLost"), 8)
}

func (r *processor) ShutdownRequested(ctx context.Context, cp kcl.Checkpointer) error {
	defer r.enter("ShutdownRequested", "Initialize", "ProcessRecords", "ShardEnded")()
	r.p.thaw()
	d := r.dice("ShutdownRequested")
	if err := r.fails(d, 8); err != nil || r.p.style == "never" {
		return err
	}
	return cp.Checkpoint(ctx)
}

func (r *processor) ProcessRecords(ctx context.Context, b *kcl.Batch) (err error) {
	p, c := r.p, r.p.c
	defer r.enter("ProcessRecords", "Initialize", "ProcessRecords")()
	defer func() {
		if r.failed = nil; err != nil {
			r.failed = b
		}
	}()
	p.thaw()
	if p.dead.Load() { // nobody sees what a dead process does
		<-ctx.Done()
		return ctx.Err()
	}
	c.book.delivered(p, b)
	d := r.dice("ProcessRecords")
	middle := b.Records[len(b.Records)/2].Position
	if !c.healed.Load() {
		switch n := d.IntN(100); {
		case n < 2: // busy, and deaf
			c.count("callback blocked")
			time.Sleep(time.Duration(d.Int64N(int64(8 * time.Second))))
		case n < 5:
			c.count("callback blocked")
			sleep(ctx, time.Duration(d.Int64N(int64(30*time.Second))))
		case n < 7 && len(b.Records) > 1:
			c.book.vouch(b.Shard.ShardID, b.Records[:len(b.Records)/2]...)
			c.count("callback failed")
			return kcl.FailedAt(middle, errChaos)
		}
		if err := r.fails(d, 6); err != nil {
			return err
		}
	}
	p.thaw()
	if p.dead.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	style := p.style
	if c.healed.Load() && style != "handler" {
		style = "every"
	}
	if r.batches++; style == "fourth" && r.batches%4 == 0 {
		style = "every"
	}
	half := b.Records[:len(b.Records)/2+1]
	switch style {
	case "every":
		c.book.vouch(b.Shard.ShardID, b.Records...)
		err = b.Checkpoint(ctx)
	case "middle":
		c.book.vouch(b.Shard.ShardID, half...)
		err = b.CheckpointAt(ctx, middle)
	case "prepare":
		c.book.vouch(b.Shard.ShardID, half...)
		var prepared *kcl.Prepared
		if prepared, err = b.Prepare(ctx, middle, []byte("state")); err == nil && d.IntN(3) > 0 {
			err = prepared.Commit(ctx)
		}
	case "late":
		c.book.vouch(b.Shard.ShardID, b.Records...)
		c.loose.Go(func() {
			time.Sleep(time.Duration(d.Int64N(int64(6 * time.Second))))
			p.thaw()
			_ = b.Checkpoint(context.Background()) // the lease may be lost
		})
	case "failed": // a batch that failed must not be covered, whatever the processor tries
		if r.failed != nil && r.failed.Checkpoint(ctx) == nil {
			c.count("checkpoint of a batch redelivered")
		}
	}
	if err != nil && d.IntN(2) == 0 {
		return fmt.Errorf("%w: %w", errChaos, err)
	}
	c.book.vouch(b.Shard.ShardID, b.Records...)
	return nil
}

// onFailure is a policy of every colour.
func (p *process) onFailure(f kcl.Failure) kcl.Action {
	d := p.c.dice(p.client + f.Shard.ShardID + "policy")
	switch n := d.IntN(100); {
	case p.c.healed.Load():
		return kcl.RetryAfter(100 * time.Millisecond)
	case n < 6 && f.Callback == kcl.CallbackProcessRecords:
		p.c.count("batch skipped")
		p.c.book.skip(f)
		return kcl.Skip
	case n < 8:
		p.c.count("stopped by policy")
		p.hurt()
		return kcl.StopWorker
	case n < 9:
		p.c.count("shard stopped by policy")
		p.parked.Store(true)
		return kcl.StopShard
	case n < 30:
		return kcl.RetryAfter(time.Duration(d.Int64N(int64(2 * time.Second))))
	}
	return kcl.Action{}
}
