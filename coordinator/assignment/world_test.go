package assignment

import (
	"context"
	"errors"
	"slices"
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
	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/internal/entity"
	"github.com/go-kcl/kcl/internal/testbed"
	"github.com/go-kcl/kcl/internal/wait"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/leader"
	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/workermetrics"
)

// cloud is a lease table in a bubble and the workers that use it.
type cloud struct {
	*testbed.Table // the operator's hand on it
	aws            *kcltest.AWS
	leases         *lease.Store         // the operator's
	records        *workermetrics.Store // the operator's
}

var errBroken = errors.New("connection broken by test")

func inCloud(t *testing.T, f func(t *testing.T, c *cloud)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cloud{aws: kcltest.New(kcltest.Options{Delays: kcltest.NoDelays})}
		c.Table = &testbed.Table{T: t, Client: c.dynamo("operator"), Name: "app", Key: entity.LeaseTableKey}
		_, err := ddb.NewTable(ddb.TableConfig{Client: c.Client, Table: c.Name}).Prepare(t.Context())
		require.NoError(t, err)
		c.leases = lease.NewStore(lease.StoreConfig{Client: c.Client, Table: c.Name})
		c.records = workermetrics.NewStore(workermetrics.StoreConfig{Client: c.Client, Table: c.Name})
		f(t, c)
	})
}

// before runs f once, before the next call of that client and operation.
func (c *cloud) before(client, operation string, f func()) {
	var once sync.Once
	c.aws.Intercept(func(_ context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
		if i.Client == client && i.Operation == operation {
			once.Do(f)
		}
		return run(), nil
	})
}

// failing breaks n calls of that client and operation.
func (c *cloud) failing(client, operation string, n int) {
	c.aws.Inject(kcltest.Fault{Clients: []string{client}, Operations: []string{operation}, Times: n, Effect: kcltest.Break})
}

// kill cuts a worker off.
func (c *cloud) kill(worker string) {
	var clients []string
	for _, part := range []string{"lock", "loop", "owner", "report"} {
		clients = append(clients, worker+"/"+part)
	}
	c.aws.Inject(kcltest.Fault{Clients: clients, Effect: kcltest.Break})
}

// create adds a lease, as far as given.
func (c *cloud) create(l lease.Lease) {
	c.T.Helper()
	if l.Checkpoint.IsZero() {
		l.Checkpoint = kcl.AtTrimHorizon
	}
	l.ShardID = l.Key
	ok, err := c.leases.Create(c.T.Context(), l)
	require.NoError(c.T, err)
	require.True(c.T, ok)
}

func (c *cloud) get(key string) lease.Lease {
	c.T.Helper()
	l, ok, err := c.leases.GetConsistent(c.T.Context(), key)
	require.NoError(c.T, err)
	require.True(c.T, ok, "lease %s is gone", key)
	return l
}

// owners says who owns which lease: "k1:A k2:B<A", the latter in hand-off from A.
func (c *cloud) owners() string {
	c.T.Helper()
	all, err := c.leases.List(c.T.Context())
	require.NoError(c.T, err)
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
	c.T.Helper()
	_, ok, err := c.leases.Renew(c.T.Context(), c.get(key))
	require.NoError(c.T, err)
	require.True(c.T, ok)
}

func (c *cloud) dynamo(client string) *dynamodb.Client {
	cfg := c.aws.Config(client)
	cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} } // a test's fault is one failed call
	return dynamodb.NewFromConfig(cfg)
}

// reports writes a record for each worker now.
func (c *cloud) reports(workers ...string) {
	c.T.Helper()
	for _, id := range workers {
		r := report(id, 0)
		r.Updated = time.Unix(time.Now().Unix(), 0)
		require.NoError(c.T, c.records.Put(c.T.Context(), r))
	}
}

// peer is a worker: a decider, a loop, and, once it works, a stand-in for its
// reporter and its renewer.
type peer struct {
	*Loop
	c        *cloud
	name     string
	decider  *leader.Decider
	measured testbed.Figures
	course   course // of runs made by hand
	stops    []func()
}

// worker makes a worker of which nothing runs. Its calls as leader are those of
// client NAME/loop.
func (c *cloud) worker(name string, change ...func(*Config)) *peer {
	c.T.Helper()
	log := testbed.Logger(c.T.Output())
	p := &peer{c: c, name: name}
	p.course.pace.interval = time.Minute
	var err error
	p.decider, err = leader.New(leader.Config{Client: c.dynamo(name + "/lock"), Table: c.Name, Worker: name, Logger: log})
	require.NoError(c.T, err)
	client := c.dynamo(name + "/loop")
	cfg := Config{
		Leases:  lease.NewStore(lease.StoreConfig{Client: client, Table: c.Name, Segments: 1, Logger: log}),
		Workers: workermetrics.NewStore(workermetrics.StoreConfig{Client: client, Table: c.Name}),
		Leader:  p.decider, Worker: name, Logger: log, Metrics: &p.measured,
	}
	for _, f := range change {
		f(&cfg)
	}
	p.Loop, err = New(cfg)
	require.NoError(c.T, err)
	c.T.Cleanup(p.stop)
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
	p.c.T.Helper()
	p.contends()
	for range 60 {
		if _, ok := p.decider.Leading(); ok {
			return p
		}
		time.Sleep(time.Second)
	}
	p.c.T.Fatalf("%s does not lead", p.name)
	return nil
}

// assigns makes one run by hand.
func (p *peer) assigns() error {
	p.c.T.Helper()
	term, ok := p.decider.Leading()
	require.True(p.c.T, ok, "%s does not lead", p.name)
	_, err := p.run(p.c.T.Context(), term, &p.course)
	return err
}

// lives reports every 30 s, and every second finds and renews what it owns and
// hands over what it is asked for.
func (p *peer) lives() *peer {
	store := lease.NewStore(lease.StoreConfig{Client: p.c.dynamo(p.name + "/owner"), Table: p.c.Name})
	reporter := workermetrics.NewReporter(workermetrics.ReporterConfig{
		Store:  workermetrics.NewStore(workermetrics.StoreConfig{Client: p.c.dynamo(p.name + "/report"), Table: p.c.Name}),
		Worker: p.name,
	})
	_ = reporter.Report(p.c.T.Context())
	p.goes(reporter.Run)
	p.goes(func(ctx context.Context) {
		held := map[string]bool{}
		for ; ctx.Err() == nil; wait.For(ctx, time.Second) {
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

// works is a whole worker.
func (p *peer) works() *peer {
	p.lives()
	p.contends()
	p.goes(p.Loop.Run)
	return p
}

// figures returns the values of one figure.
func (p *peer) figures(name string) []float64 { return p.measured.Values(operation, name) }
