package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing/cryptotest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/go-kcl/kcl/internal/wait"
	"github.com/go-kcl/kcl/scheduler"
)

// process is one run of a worker, that can be frozen and killed.
type process struct {
	*worker
	play     *play
	temper   string // what its processors do about checkpoints
	settings scheduler.Config

	dead    atomic.Bool
	stopped atomic.Bool                   // a stop was asked for
	parked  atomic.Bool                   // a shard of it was stopped by the policy
	gate    atomic.Pointer[chan struct{}] // nil unless frozen
	trouble atomic.Int64                  // when a fault befell it last, in Unix nanoseconds
	frozen  atomic.Int64                  // when it was frozen last
	lockOut atomic.Pointer[lockedOut]
}

// lockedOut says until when a process gets no answer to calls about the leader's
// lock, and until when after that they do not arrive.
type lockedOut struct{ answers, calls time.Time }

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
func (p *process) awake() bool {
	return p.gate.Load() == nil && time.Since(time.Unix(0, p.frozen.Load())) > time.Minute
}

// kill ends the process at once: nothing that it does from now on reaches
// anybody, but for the calls that are under way.
func (p *process) kill() {
	p.dead.Store(true)
	p.unfreeze()
	p.play.loose.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.Shutdown(ctx)
	})
}

// attempt is one try of a call, as it leaves a process.
type attempt struct {
	p     *process
	start time.Time
	key   string // of the item that it names
}

type attemptKey struct{}

// boundary is where a process ends and the network begins.
type boundary struct {
	p    *process
	next aws.HTTPClient
}

var (
	errDead      = errors.New("the process is dead")
	errLockedOut = errors.New("the lock cannot be reached")
)

// flight is how long a call of a process that was killed may still be under way.
const flight = time.Second

func (b boundary) Do(r *http.Request) (*http.Response, error) {
	b.p.thaw()
	if b.p.dead.Load() {
		return nil, errDead
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var in struct {
		Key, Item map[string]struct{ S string }
	}
	_ = json.Unmarshal(body, &in) // Kinesis has no such thing
	a := attempt{b.p, time.Now(), in.Key["leaseKey"].S + in.Item["leaseKey"].S}

	var answers time.Time // when the call is answered, at the earliest
	if out := b.p.lockOut.Load(); out != nil && a.key == leaderKey && !b.p.play.healed.Load() {
		if answers = out.answers; time.Now().After(answers) && time.Now().Before(out.calls) {
			b.p.hurt()
			wait.For(r.Context(), time.Until(out.calls))
			return nil, errLockedOut
		}
	}

	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	defer context.AfterFunc(r.Context(), func() {
		if b.p.dead.Load() {
			time.AfterFunc(flight, cancel)
			return
		}
		cancel()
	})()
	r = r.WithContext(context.WithValue(ctx, attemptKey{}, a))
	body = b.p.play.paged(r.Header.Get("X-Amz-Target"), body)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp, err := b.next.Do(r)
	if late := time.Until(answers); late > 0 && err == nil {
		wait.For(ctx, late)
		err = ctx.Err()
	}
	b.p.thaw()
	b.p.play.reseed(a, r.Header.Get("X-Amz-Target"))
	if b.p.dead.Load() {
		return nil, errDead
	}
	if err != nil || resp.StatusCode >= 400 && !conditionFailed(resp) || time.Since(a.start) > time.Second {
		b.p.hurt()
	}
	return resp, err
}

// paged makes the services' pages small, as those of large tables and streams
// are in comparison: what is listed comes in several.
func (s *scenario) paged(target string, body []byte) []byte {
	_, operation, _ := strings.Cut(target, ".")
	limit := map[string]string{"Scan": "Limit", "Query": "Limit", "ListShards": "MaxResults"}[operation]
	if s.page == 0 || limit == "" {
		return body
	}
	return append(fmt.Appendf(nil, "{%q:%d,", limit, s.page), body[1:]...)
}

// reseed makes what is drawn from crypto/rand after a call, for pauses and tokens,
// follow from that call: not from what others have drawn before, at an instant in
// an order that only the Go scheduler knows.
func (p *play) reseed(a attempt, target string) {
	if racing { // the detector sees a race for the source
		return
	}
	h := fnv.New64a()
	fmt.Fprint(h, p.seed, a.p.id, target, a.key, time.Now().UnixNano())
	cryptotest.SetGlobalRandom(p.t, h.Sum64())
}

// conditionFailed reports whether a refusal is part of life.
func conditionFailed(resp *http.Response) bool {
	body, err := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return err == nil && bytes.Contains(body, []byte("ConditionalCheckFailedException"))
}
