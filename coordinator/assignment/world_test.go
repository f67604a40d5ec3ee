package assignment

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/ddb"
	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/leader"
	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/metrics"
	"github.com/go-kcl/kcl/workermetrics"
)

const testTable = "app"

// cloud is a lease table in a bubble and the workers that use it.
type cloud struct {
	t      *testing.T
	aws    *kcltest.AWS
	client *dynamodb.Client // the operator's
	leases *lease.Store     // the operator's

	mu sync.Mutex // guards what follows
	// fault, if set, answers a call or lets it run; see [cloud.onCall].
	fault func(ctx context.Context, client, operation string, run func() wire.Answer) (wire.Answer, error)
	cut   []string // workers without a network
}

var errBroken = errors.New("connection broken by test")

func inCloud(t *testing.T, f func(t *testing.T, c *cloud)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		emu := kcltest.New(kcltest.Options{Delays: kcltest.NoDelays})
		c := &cloud{t: t, aws: emu, client: dynamodb.NewFromConfig(emu.Config("operator"))}
		_, err := ddb.NewTable(ddb.TableConfig{Client: c.client, Table: testTable}).Prepare(t.Context())
		require.NoError(t, err)
		c.leases = lease.NewStore(lease.StoreConfig{Client: c.client, Table: testTable})
		emu.Intercept(func(ctx context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
			name, _, _ := strings.Cut(i.Client, "/")
			c.mu.Lock()
			cut, fault := slices.Contains(c.cut, name), c.fault
			c.mu.Unlock()
			switch {
			case cut:
				return wire.Answer{}, errBroken
			case fault != nil:
				return fault(ctx, i.Client, i.Operation, run)
			}
			return run(), nil
		})
		f(t, c)
	})
}

// onCall has f answer every call from now on; nil lets all run.
func (c *cloud) onCall(f func(ctx context.Context, client, operation string, run func() wire.Answer) (wire.Answer, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = f
}

// before runs f once, before the next call of that client and operation.
func (c *cloud) before(client, operation string, f func()) {
	var once sync.Once
	c.onCall(func(_ context.Context, cl, op string, run func() wire.Answer) (wire.Answer, error) {
		if cl == client && op == operation {
			once.Do(f)
		}
		return run(), nil
	})
}

// failing breaks n calls of that client and operation.
func (c *cloud) failing(client, operation string, n int) {
	var mu sync.Mutex
	c.onCall(func(_ context.Context, cl, op string, run func() wire.Answer) (wire.Answer, error) {
		mu.Lock()
		defer mu.Unlock()
		if cl == client && op == operation && n > 0 {
			n--
			return wire.Answer{}, errBroken
		}
		return run(), nil
	})
}

// kill cuts a worker off.
func (c *cloud) kill(worker string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = append(c.cut, worker)
}

// create adds a lease, as far as given.
func (c *cloud) create(l lease.Lease) {
	c.t.Helper()
	if l.Checkpoint.IsZero() {
		l.Checkpoint = kcl.AtTrimHorizon
	}
	l.ShardID = l.Key
	ok, err := c.leases.Create(c.t.Context(), l)
	require.NoError(c.t, err)
	require.True(c.t, ok)
}

func (c *cloud) get(key string) lease.Lease {
	c.t.Helper()
	l, ok, err := c.leases.GetConsistent(c.t.Context(), key)
	require.NoError(c.t, err)
	require.True(c.t, ok, "lease %s is gone", key)
	return l
}

// owners says who owns which lease: "k1:A k2:B<A", the latter in hand-off from A.
func (c *cloud) owners() string {
	c.t.Helper()
	all, err := c.leases.List(c.t.Context())
	require.NoError(c.t, err)
	slices.SortFunc(all, func(a, b lease.Lease) int { return strings.Compare(a.Key, b.Key) })
	var out []string
	for _, l := range all {
		s := l.Key + ":" + l.Owner
		if l.HandOffPending() {
			s += "<" + l.CheckpointOwner
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

// renew moves the counter as its owner would.
func (c *cloud) renew(key string) {
	c.t.Helper()
	_, ok, err := c.leases.Renew(c.t.Context(), c.get(key))
	require.NoError(c.t, err)
	require.True(c.t, ok)
}

func (c *cloud) dynamo(client string) *dynamodb.Client {
	cfg := c.aws.Config(client)
	cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} } // a test's fault is one failed call
	return dynamodb.NewFromConfig(cfg)
}

func (c *cloud) records() *workermetrics.Store {
	return workermetrics.NewStore(workermetrics.StoreConfig{Client: c.client, Table: testTable})
}

// reports writes a record for each worker now.
func (c *cloud) reports(workers ...string) {
	c.t.Helper()
	for _, id := range workers {
		r := report(id, 0)
		r.Updated = time.Unix(time.Now().Unix(), 0)
		require.NoError(c.t, c.records().Put(c.t.Context(), r))
	}
}

func (c *cloud) hasRecord(worker string) bool {
	c.t.Helper()
	out, err := c.client.GetItem(c.t.Context(), &dynamodb.GetItemInput{
		TableName: aws.String(testTable), Key: map[string]types.AttributeValue{"leaseKey": &types.AttributeValueMemberS{Value: worker}},
	})
	require.NoError(c.t, err)
	return out.Item != nil
}

// peer is a worker: a decider, a loop, and, once it works, a stand-in for its
// reporter and its renewer.
type peer struct {
	*Loop
	c       *cloud
	name    string
	decider *leader.Decider
	samples *samples
	course  course // of runs made by hand
	stops   []func()
}

// worker makes a worker of which nothing runs. Its calls as leader are those of
// client NAME/loop.
func (c *cloud) worker(name string, change ...func(*Config)) *peer {
	c.t.Helper()
	log := slog.New(slog.NewTextHandler(c.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	p := &peer{c: c, name: name, samples: &samples{}}
	p.course.pace.interval = time.Minute
	var err error
	p.decider, err = leader.New(leader.Config{Client: c.dynamo(name + "/lock"), Table: testTable, Worker: name, Logger: log})
	require.NoError(c.t, err)
	client := c.dynamo(name + "/loop")
	cfg := Config{
		Leases:  lease.NewStore(lease.StoreConfig{Client: client, Table: testTable, Segments: 1, Logger: log}),
		Workers: workermetrics.NewStore(workermetrics.StoreConfig{Client: client, Table: testTable}),
		Leader:  p.decider, Worker: name, Logger: log, Metrics: p.samples,
	}
	for _, f := range change {
		f(&cfg)
	}
	p.Loop, err = New(cfg)
	require.NoError(c.t, err)
	c.t.Cleanup(p.stop)
	return p
}

// goes runs f until the worker is stopped.
func (p *peer) goes(f func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { f(ctx) })
	p.stops = append(p.stops, func() { cancel(); done.Wait() })
}

func (p *peer) stop() {
	for _, f := range slices.Backward(p.stops) {
		f()
	}
	p.stops = nil
}

// contends runs the decider.
func (p *peer) contends() *peer {
	p.goes(func(ctx context.Context) { _ = p.decider.Run(ctx) })
	return p
}

// leads runs the decider until it leads.
func (p *peer) leads() *peer {
	p.c.t.Helper()
	p.contends()
	for range 60 {
		if _, ok := p.decider.Leading(); ok {
			return p
		}
		time.Sleep(time.Second)
	}
	p.c.t.Fatalf("%s does not lead", p.name)
	return nil
}

// assigns makes one run by hand.
func (p *peer) assigns() error {
	p.c.t.Helper()
	term, ok := p.decider.Leading()
	require.True(p.c.t, ok, "%s does not lead", p.name)
	_, err := p.run(p.c.t.Context(), term, &p.course)
	return err
}

// lives reports every 30 s, and every second finds and renews what it owns and
// hands over what it is asked for.
func (p *peer) lives() *peer {
	store := lease.NewStore(lease.StoreConfig{Client: p.c.dynamo(p.name + "/owner"), Table: testTable})
	reporter := workermetrics.NewReporter(workermetrics.ReporterConfig{
		Store:  workermetrics.NewStore(workermetrics.StoreConfig{Client: p.c.dynamo(p.name + "/report"), Table: testTable}),
		Worker: p.name,
	})
	_ = reporter.Report(p.c.t.Context())
	p.goes(reporter.Run)
	p.goes(func(ctx context.Context) {
		held := map[string]bool{}
		for ; ctx.Err() == nil; sleep(ctx, time.Second) {
			keys, _ := store.KeysOwnedBy(ctx, p.name)
			for _, key := range keys {
				held[key] = true
			}
			for key := range held {
				l, ok, err := store.GetConsistent(ctx, key)
				switch {
				case err != nil:
				case !ok || l.ActualOwner() != p.name:
					delete(held, key)
				case l.HandOffPending():
					_, _, _ = store.Assign(ctx, l, l.Owner, false)
				default:
					_, _, _ = store.Renew(ctx, l)
				}
			}
		}
	})
	return p
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// works is a whole worker.
func (p *peer) works() *peer {
	p.lives()
	p.contends()
	p.goes(p.Loop.Run)
	return p
}

// samples keeps the figures that were reported.
type samples struct {
	mu  sync.Mutex
	all []metrics.Sample
}

func (s *samples) Record(m metrics.Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, m)
}

// take returns the values of a figure since the last call of reset.
func (s *samples) take(name string) (out []float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.all {
		if m.Name == name {
			out = append(out, m.Value)
		}
	}
	return out
}

func (s *samples) names() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.all {
		if !slices.Contains(out, m.Name) {
			out = append(out, m.Name)
		}
	}
	slices.Sort(out)
	return out
}

func (s *samples) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = nil
}
