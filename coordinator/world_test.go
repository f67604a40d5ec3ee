package coordinator

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/go-kcl/kcl/internal/entity"
	"github.com/go-kcl/kcl/internal/testbed"
	"github.com/go-kcl/kcl/kcltest"
)

// world is a lease table, "app", in a bubble.
type world struct {
	*testbed.Table
	aws *kcltest.AWS
}

func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{aws: kcltest.New(kcltest.Options{Latency: 10 * time.Millisecond})}
		w.Table = w.table(t, "app", entity.LeaseTableKey)
		f(t, w)
	})
}

// table creates a table.
func (w *world) table(t *testing.T, name, key string) *testbed.Table {
	t.Helper()
	tb := &testbed.Table{T: t, Client: dynamodb.NewFromConfig(w.aws.Config("operator")), Name: name, Key: key}
	tb.Create()
	return tb
}

func (w *world) store(worker string) *Store {
	return NewStore(StoreConfig{Client: dynamodb.NewFromConfig(w.aws.Config(worker)), Table: w.Name})
}

// refuse answers worker go's calls of an operation with an error code.
func (w *world) refuse(operation, code string) *kcltest.Injection {
	return w.aws.Inject(kcltest.Fault{Clients: []string{"go"}, Operations: []string{operation}, Effect: kcltest.Refuse, Code: code})
}

// loseAnswer carries worker go's next call of an operation out, but its answer
// is lost.
func (w *world) loseAnswer(operation string) {
	w.aws.Inject(kcltest.Fault{Clients: []string{"go"}, Operations: []string{operation}, Times: 1, Effect: kcltest.LoseAnswer})
}
