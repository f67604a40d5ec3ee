package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/ddb"
	"github.com/go-kcl/kcl/internal/testbed"
	"github.com/go-kcl/kcl/kcltest"
)

// world is an emulated AWS with a lease table, within a synctest bubble.
type world struct {
	t    *testing.T
	aws  *kcltest.AWS
	look *Store // an observer's
}

// inWorld runs f in a bubble of its own.
func inWorld(t *testing.T, o kcltest.Options, f func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, aws: kcltest.New(o)}
		client := dynamodb.NewFromConfig(w.aws.Config("observer"))
		_, err := ddb.NewTable(ddb.TableConfig{Client: client, Table: "app"}).Prepare(t.Context())
		require.NoError(t, err)
		w.look = NewStore(StoreConfig{Client: client, Table: "app"})
		f(t, w)
	})
}

func (w *world) create(leases ...Lease) {
	w.t.Helper()
	for _, l := range leases {
		created, err := w.look.Create(w.t.Context(), l)
		require.NoError(w.t, err)
		require.True(w.t, created, l.Key)
	}
}

// item returns the lease as the table has it.
func (w *world) item(key string) Lease {
	w.t.Helper()
	l, found, err := w.look.GetConsistent(w.t.Context(), key)
	require.NoError(w.t, err)
	require.True(w.t, found, key)
	return l
}

func (w *world) exists(key string) bool {
	w.t.Helper()
	_, found, err := w.look.GetConsistent(w.t.Context(), key)
	require.NoError(w.t, err)
	return found
}

// assign is the leader's write, or, if the owner is expired or gone, anybody's.
func (w *world) assign(key, to string) {
	w.t.Helper()
	_, done, err := w.look.Assign(w.t.Context(), w.item(key), to, false)
	require.NoError(w.t, err)
	require.True(w.t, done)
}

func (w *world) startHandOff(key, to string) {
	w.t.Helper()
	_, done, err := w.look.StartHandOff(w.t.Context(), w.item(key), to)
	require.NoError(w.t, err)
	require.True(w.t, done)
}

// fault answers a request in the service's place; send passes it on.
type fault func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error)

var errCut = errors.New("connection cut")

// broken loses the request, unanswered its answer, hanging either.
func broken(*http.Request, func() (*http.Response, error)) (*http.Response, error) {
	return nil, errCut
}

func unanswered(_ *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
	if _, err := send(); err != nil {
		return nil, err
	}
	return nil, errCut
}

func hanging(r *http.Request, _ func() (*http.Response, error)) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// delayed sends after d.
func delayed(d time.Duration) fault {
	return func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		time.Sleep(d)
		return send()
	}
}

func throttled(*http.Request, func() (*http.Response, error)) (*http.Response, error) {
	return refused(http.StatusBadRequest, "ThrottlingException"), nil
}

func refused(status int, code string) *http.Response {
	body := fmt.Sprintf(`{"__type":"com.amazon.coral.availability#%s","message":"scripted"}`, code)
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body:   io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// sent is one request of a worker.
type sent struct{ op, key string }

// line is the connection of one worker to the service.
type line struct {
	next aws.HTTPClient

	mu sync.Mutex
	// guarded by mu
	rule func(op, key string) fault // nil: no faults
	sent []sent
}

var keyInBody = regexp.MustCompile(`"Key":\{"leaseKey":\{"S":"([^"]*)"`)

func (l *line) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s := sent{op: strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "DynamoDB_20120810.")}
	if m := keyInBody.FindSubmatch(body); m != nil {
		s.key = string(m[1])
	}
	l.mu.Lock()
	l.sent = append(l.sent, s)
	var f fault
	if l.rule != nil {
		f = l.rule(s.op, s.key)
	}
	l.mu.Unlock()
	send := func() (*http.Response, error) {
		r := r
		if r.Context().Err() != nil { // it arrives though its sender has gone
			r = r.WithContext(context.WithoutCancel(r.Context()))
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		return l.next.Do(r)
	}
	if f == nil {
		return send()
	}
	return f(r, send)
}

// fail applies f to the next n requests of that operation and lease; n < 0 means
// all from now on. It takes the place of an earlier rule.
func (l *line) fail(n int, op, key string, f fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rule = func(o, k string) fault {
		if n == 0 || o != op || (key != "" && k != key) {
			return nil
		}
		n--
		return f
	}
}

func (l *line) heal() { l.fail(0, "", "", nil) }

// count returns how many requests of that operation, for that lease, were sent.
func (l *line) count(op, key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, s := range l.sent {
		if s.op == op && (key == "" || s.key == key) {
			n++
		}
	}
	return n
}

// peer is one worker's part of this package, and what it told of.
type peer struct {
	*Renewer
	w       *world
	name    string
	line    *line
	store   *Store
	finder  *Discoverer
	metrics figures
	log     testbed.Log

	mu sync.Mutex
	// guarded by mu
	told []string // "acquired KEY", "lost KEY REASON", "hand-off KEY"
}

// peer makes a worker; nothing of it runs yet. Its SDK does not retry.
func (w *world) peer(name string, options ...func(*RenewerConfig)) *peer {
	cfg := w.aws.Config(name)
	cfg.RetryMaxAttempts = 1
	return w.peerWith(name, cfg, options...)
}

func (w *world) peerWith(name string, cfg aws.Config, options ...func(*RenewerConfig)) *peer {
	p := &peer{w: w, name: name, line: &line{next: cfg.HTTPClient}}
	cfg.HTTPClient = p.line
	log := testbed.Logger(io.MultiWriter(w.t.Output(), &p.log))
	p.store = NewStore(StoreConfig{Client: dynamodb.NewFromConfig(cfg), Table: "app", Logger: log})
	rc := RenewerConfig{
		Store: p.store, Worker: name, Logger: log, Metrics: &p.metrics,
		Events: Events{
			Acquired:         func(l Lease) { p.tell("acquired " + l.Key) },
			Lost:             func(l Lease, why Loss) { p.tell("lost " + l.Key + " " + string(why)) },
			HandOffRequested: func(l Lease) { p.tell("hand-off " + l.Key) },
		},
	}
	for _, o := range options {
		o(&rc)
	}
	p.Renewer = NewRenewer(rc)
	p.finder = NewDiscoverer(DiscovererConfig{
		Store: p.store, Renewer: p.Renewer, Worker: name, Logger: log, Metrics: &p.metrics,
	})
	return p
}

func (p *peer) tell(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, what)
}

// heard returns what was told since the last call.
func (p *peer) heard() []string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	told := p.told
	p.told = nil
	return told
}

// hold has the peer take up the leases that the table says are its own.
func (p *peer) hold() *peer {
	p.w.t.Helper()
	_, err := p.finder.Discover(p.w.t.Context())
	require.NoError(p.w.t, err)
	return p
}

// run starts the renewer. The returned function ends it.
func (p *peer) run() (stop func()) {
	ctx, cancel := context.WithCancel(p.w.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { p.Run(ctx) })
	return func() { cancel(); wg.Wait() }
}

// token returns the token of a held lease.
func (p *peer) token(key string) string {
	p.w.t.Helper()
	l, held := p.Get(key)
	require.True(p.w.t, held, key)
	return l.Token
}

func (p *peer) holds(key string) bool {
	_, held := p.Get(key)
	return held
}

func (p *peer) keys() []string {
	var keys []string
	for _, l := range p.Held() {
		keys = append(keys, l.Key)
	}
	return keys
}

func lease(key, owner string) Lease {
	return Lease{Key: key, ShardID: key, Owner: owner, Checkpoint: kcl.AtTrimHorizon}
}

func at(sequence string) kcl.Position { return kcl.Position{SequenceNumber: sequence} }

// warned returns how many warnings were logged whose message begins so.
func (p *peer) warned(message string) int { return p.log.Count(`level=WARN msg="` + message) }
