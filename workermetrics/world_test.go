package workermetrics

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/ddb"
	"github.com/go-kcl/kcl/internal/emu/attr"
	"github.com/go-kcl/kcl/internal/interchange"
	"github.com/go-kcl/kcl/internal/testbed"
	"github.com/go-kcl/kcl/kcltest"
)

// world is a lease table in a bubble, and what a worker did to it.
type world struct {
	*testbed.Table // another's hand on it
	aws            *kcltest.AWS
	store          *Store
	figures        testbed.Figures
}

func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{aws: kcltest.New(kcltest.Options{Delays: kcltest.NoDelays})}
		w.Table = &testbed.Table{T: t, Client: dynamodb.NewFromConfig(w.aws.Config("other")), Name: "app", Key: attrKey}
		_, err := ddb.NewTable(ddb.TableConfig{Client: w.Client, Table: w.Name}).Prepare(t.Context())
		require.NoError(t, err)
		w.store = NewStore(StoreConfig{Client: dynamodb.NewFromConfig(w.aws.Config("worker")), Table: w.Name})
		f(t, w)
	})
}

func (w *world) reporter(load func() Load) *Reporter {
	cfg := ReporterConfig{Store: w.store, Worker: "w", Metrics: &w.figures, Logger: testbed.Logger(w.T.Output())}
	if load != nil {
		cfg.Load = func(context.Context) (Load, error) { return load(), nil }
	}
	return NewReporter(cfg)
}

// run runs r until the returned function is called, which waits for its end.
func (w *world) run(r *Reporter) (stop func()) {
	ctx, cancel := context.WithCancel(w.T.Context())
	var done sync.WaitGroup
	done.Go(func() { r.Run(ctx) })
	return func() { cancel(); done.Wait() }
}

// item returns the stored item of worker w, in canonical form; nil if there is
// none.
func (w *world) item() attr.Item {
	w.T.Helper()
	if it := w.Item("w"); it != nil {
		return interchange.Canonical(w.T, it)
	}
	return nil
}

func (w *world) record() Record {
	w.T.Helper()
	r, err := Decode(w.Item("w"))
	require.NoError(w.T, err)
	return r
}

// fail does that to the worker's calls of an operation; to all of its calls if
// that is "".
func (w *world) fail(operation string, e kcltest.Effect) *kcltest.Injection {
	f := kcltest.Fault{Clients: []string{"worker"}, Effect: e}
	if operation != "" {
		f.Operations = []string{operation}
	}
	return w.aws.Inject(f)
}

// foreign are attributes that no version known to us writes, and the one that
// KCL reads and never writes.
func foreign() item {
	it := interchange.Foreign()
	it["properties"] = &object{Value: item{"versionHash": &str{Value: "x"}}}
	it["sts.C"] = &str{Value: "dots are no path"}
	return it
}

func seconds(t time.Time) types.AttributeValue { return timeValue(t) }
