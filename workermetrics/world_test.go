package workermetrics

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/ddb"
	"github.com/go-kcl/kcl/internal/emu/attr"
	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/metrics"
)

const testTable = "app"

// world is a lease table in a bubble, and what a worker did to it.
type world struct {
	t       *testing.T
	aws     *kcltest.AWS
	client  *dynamodb.Client // another's
	store   *Store
	samples *samples
}

func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		emu := kcltest.New(kcltest.Options{Delays: kcltest.NoDelays})
		w := &world{t: t, aws: emu, client: dynamodb.NewFromConfig(emu.Config("other")), samples: &samples{}}
		_, err := ddb.NewTable(ddb.TableConfig{Client: w.client, Table: testTable}).Prepare(t.Context())
		require.NoError(t, err)
		w.store = NewStore(StoreConfig{Client: dynamodb.NewFromConfig(emu.Config("worker")), Table: testTable})
		f(t, w)
	})
}

func (w *world) reporter(load func() Load) *Reporter {
	return NewReporter(ReporterConfig{
		Store: w.store, Worker: "w", Load: load, Metrics: w.samples,
		Logger: slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
}

// run runs r until the returned function is called, which waits for its end.
func (w *world) run(r *Reporter) (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var done sync.WaitGroup
	done.Go(func() { r.Run(ctx) })
	return func() { cancel(); done.Wait() }
}

func (w *world) put(it item) {
	w.t.Helper()
	_, err := w.client.PutItem(w.t.Context(), &dynamodb.PutItemInput{TableName: aws.String(testTable), Item: it})
	require.NoError(w.t, err)
}

// item returns the stored item of worker w, in canonical form; nil if there is
// none.
func (w *world) item() attr.Item {
	w.t.Helper()
	out, err := w.client.GetItem(w.t.Context(), &dynamodb.GetItemInput{
		TableName: aws.String(testTable), Key: item{attrKey: &str{Value: "w"}}, ConsistentRead: aws.Bool(true),
	})
	require.NoError(w.t, err)
	if out.Item == nil {
		return nil
	}
	return canonical(w.t, out.Item)
}

func (w *world) record() Record {
	w.t.Helper()
	out, err := w.client.GetItem(w.t.Context(), &dynamodb.GetItemInput{
		TableName: aws.String(testTable), Key: item{attrKey: &str{Value: "w"}}, ConsistentRead: aws.Bool(true),
	})
	require.NoError(w.t, err)
	r, err := Decode(out.Item)
	require.NoError(w.t, err)
	return r
}

// refuse makes the worker's calls of an operation fail until the returned
// function is called; landed ones are carried out, and their answer is lost.
func (w *world) refuse(operation string, landed bool) (stop func()) {
	w.aws.Intercept(func(_ context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
		if i.Client != "worker" || i.Operation != operation {
			return run(), nil
		}
		if landed {
			run()
		}
		return wire.Answer{}, errors.New("connection reset by test")
	})
	return func() { w.aws.Intercept(nil) }
}

// hang makes the worker's calls wait until the returned function is called or
// they are given up.
func (w *world) hang() (release func()) {
	released := make(chan struct{})
	w.aws.Intercept(func(ctx context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
		if i.Client == "worker" {
			select {
			case <-released:
			case <-ctx.Done():
				return wire.Answer{}, ctx.Err()
			}
		}
		return run(), nil
	})
	return func() { close(released) }
}

// samples keeps the figures that were reported.
type samples struct {
	mu  sync.Mutex
	all []metrics.Sample
}

func (s *samples) Record(m metrics.Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.Dimensions = slices.Clone(m.Dimensions)
	s.all = append(s.all, m)
}

func (s *samples) values(name string) (out []float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.all {
		if m.Name == name {
			out = append(out, m.Value)
		}
	}
	return out
}

// foreign are attributes of every type that no version known to us writes, and
// the one that KCL reads and never writes.
func foreign() item {
	return item{
		"properties":     &object{Value: item{"versionHash": &str{Value: "x"}}},
		"futureString":   &str{Value: ""},
		"futureNumber":   &number{Value: "12345678901234567890123456789012345678"},
		"futureBinary":   &types.AttributeValueMemberB{Value: []byte{0, 255}},
		"futureBool":     &types.AttributeValueMemberBOOL{Value: true},
		"futureNull":     &null{Value: true},
		"futureStrings":  &types.AttributeValueMemberSS{Value: []string{"a", "b"}},
		"futureNumbers":  &types.AttributeValueMemberNS{Value: []string{"1", "2.5"}},
		"futureBinaries": &types.AttributeValueMemberBS{Value: [][]byte{{1}, {2}}},
		"futureList":     &list{Value: []types.AttributeValue{&str{Value: "x"}, &number{Value: "1"}}},
		"futureMap":      &object{Value: item{"lut": &str{Value: "no time"}}},
		"sts.C":          &str{Value: "dots are no path"},
	}
}

func seconds(t time.Time) types.AttributeValue { return timeValue(t) }
