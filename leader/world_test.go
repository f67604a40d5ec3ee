package leader

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/internal/testbed"
	"github.com/go-kcl/kcl/kcltest"
)

// world is a lease table, "app", and the workers that contend for its lock, in
// one bubble.
type world struct {
	*testbed.Table
	aws *kcltest.AWS
}

func inWorld(t *testing.T, o kcltest.Options, f func(t *testing.T, w *world)) {
	t.Helper()
	inWorldOf(t, o, "leaseKey", f)
}

func inWorldOf(t *testing.T, o kcltest.Options, key string, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := kcltest.New(o)
		w := &world{&testbed.Table{T: t, Client: dynamodb.NewFromConfig(a.Config("operator")), Name: "app", Key: key}, a}
		w.Create()
		f(t, w)
	})
}

// worker is a Decider that runs.
type worker struct {
	*Decider
	name string
	stop func() error // gracefully, and waits; may be called again
	log  testbed.Log
	seen testbed.Figures
}

// start runs a Decider until the test ends or stop is called.
func (w *world) start(name string, change ...func(*Config)) *worker {
	w.T.Helper()
	x := w.idle(name, change...)
	ctx, cancel := context.WithCancel(context.Background())
	var err error
	var done sync.WaitGroup
	done.Go(func() { err = x.Run(ctx) })
	x.stop = func() error {
		cancel()
		done.Wait()
		return err
	}
	w.T.Cleanup(func() { _ = x.stop() })
	return x
}

// idle makes a Decider that does not run.
func (w *world) idle(name string, change ...func(*Config)) *worker {
	w.T.Helper()
	x := &worker{name: name}
	c := Config{
		Client:       dynamodb.NewFromConfig(w.aws.Config(name)),
		Table:        w.Name,
		KeyAttribute: w.Key,
		Worker:       name,
		Logger:       testbed.Logger(&x.log),
		Metrics:      &x.seen,
	}
	for _, f := range change {
		f(&c)
	}
	var err error
	x.Decider, err = New(c)
	require.NoError(w.T, err)
	return x
}

func times(duration, heartbeat time.Duration) func(*Config) {
	return func(c *Config) { c.Duration, c.Heartbeat = duration, heartbeat }
}

func (x *worker) leads() bool {
	_, ok := x.Leading()
	return ok
}

// awaitLead sleeps, second by second, until x leads.
func (w *world) awaitLead(x *worker, limit time.Duration) (after time.Duration) {
	w.T.Helper()
	for began := time.Now(); ; time.Sleep(time.Second) {
		synctest.Wait()
		if after = time.Since(began); x.leads() {
			return after
		}
		require.LessOrEqual(w.T, after, limit, "%s does not lead", x.name)
	}
}

// item returns the lock's item, nil if there is none.
func (w *world) item() map[string]types.AttributeValue {
	w.T.Helper()
	return w.Item(lockKey)
}

// javaLock is what a Java worker writes.
func (w *world) javaLock(owner, version, duration string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		w.Key: str("Leader"), "ownerName": str(owner), "leaseDuration": str(duration), "recordVersionNumber": str(version),
	}
}

func text(item map[string]types.AttributeValue, name string) string {
	s, _ := item[name].(*types.AttributeValueMemberS)
	if s == nil {
		return ""
	}
	return s.Value
}

var errBroken = errors.New("connection broken")

// The faults that an interceptor may choose for a call. Each answers it.
type fault func(ctx context.Context, run func() wire.Answer) (wire.Answer, error)

func lost(_ context.Context, _ func() wire.Answer) (wire.Answer, error) {
	return wire.Answer{}, errBroken
}

func unanswered(ctx context.Context, _ func() wire.Answer) (wire.Answer, error) {
	<-ctx.Done()
	return wire.Answer{}, ctx.Err()
}

// landed carries the call out, but its answer is lost.
func landed(_ context.Context, run func() wire.Answer) (wire.Answer, error) {
	run()
	return wire.Answer{}, errBroken
}

// landedSilently carries the call out and never answers.
func landedSilently(ctx context.Context, run func() wire.Answer) (wire.Answer, error) {
	run()
	<-ctx.Done()
	return wire.Answer{}, ctx.Err()
}

func unavailable(_ context.Context, _ func() wire.Answer) (wire.Answer, error) {
	e := &wire.Error{Status: 503, Type: "com.amazonaws.dynamodb.v20120810#ServiceUnavailable", Message: "try later"}
	return e.Answer(wire.JSON10), nil
}

// faults lets choose name the fault of each call of a client; nil is none.
func (w *world) faults(choose func(client, operation string) fault) {
	w.aws.Intercept(func(ctx context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
		if f := choose(i.Client, i.Operation); f != nil {
			return f(ctx, run)
		}
		return run(), nil
	})
}

// fail has all calls meet a fault, of a client and of an operation unless "".
func (w *world) fail(client, operation string, f fault) {
	w.faults(func(c, o string) fault {
		if client != "" && c != client || operation != "" && o != operation {
			return nil
		}
		return f
	})
}

func (w *world) heal() { w.aws.Intercept(nil) }

// cut breaks every call of a client from now on, as a killed worker's.
func (w *world) cut(client string) { w.fail(client, "", lost) }
