package singletable

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/coordinator"
	"github.com/go-kcl/kcl/internal/entity"
	"github.com/go-kcl/kcl/internal/interchange"
	"github.com/go-kcl/kcl/internal/testbed"
	"github.com/go-kcl/kcl/kcltest"
)

// world is the three tables of an application, app3, in a bubble.
type world struct {
	t                     *testing.T
	aws                   *kcltest.AWS
	lease, legacy, record *testbed.Table
}

// inWorld begins with what Java workers left at that status, or with empty
// tables.
func inWorld(t *testing.T, status string, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, aws: kcltest.New(kcltest.Options{Latency: 10 * time.Millisecond})}
		table := func(name, key string) *testbed.Table {
			return &testbed.Table{T: t, Client: dynamodb.NewFromConfig(w.aws.Config("operator")), Name: name, Key: key}
		}
		w.lease, w.legacy, w.record = table("app3", entity.LeaseTableKey), table("app3-CoordinatorState", coordinator.LegacyKey), table("app3-WorkerMetricStats", legacyRecordKey)
		if status == "" {
			w.lease.Create()
		} else {
			require.NoError(t, w.aws.LoadTables(bytes.NewReader(interchange.State(t, "3.5-table-migration-"+status))))
		}
		f(t, w)
	})
}

func (w *world) tables(worker string) *Tables {
	return testTables(dynamodb.NewFromConfig(w.aws.Config(worker)), worker)
}

// dump is every item of the three tables.
func (w *world) dump() string {
	w.t.Helper()
	var b bytes.Buffer
	require.NoError(w.t, w.aws.DumpTables(&b))
	return b.String()
}

func (w *world) inject(worker string, f kcltest.Fault) *kcltest.Injection {
	f.Clients = []string{worker}
	return w.aws.Inject(f)
}

// stored is the migration's state in the legacy table.
func (w *world) stored() State {
	w.t.Helper()
	it, ok := coordinator.DecodeItem(w.legacy.Item(coordinator.TableMigrationKey), coordinator.LegacyKey)
	require.True(w.t, ok)
	m, err := coordinator.TableMigrationOf(it)
	require.NoError(w.t, err)
	return m
}

// setStored stores another state there, by an operator's hand.
func (w *world) setStored(s State) { w.legacy.Put(s.Item().Encode(coordinator.LegacyKey)) }

func (w *world) leader(owner string) {
	w.legacy.Put(item{"key": str(lockKey), "ownerName": str(owner), "leaseDuration": str("30000"), "recordVersionNumber": str("1")})
}

// drop deletes the legacy tables.
func (w *world) drop() {
	w.t.Helper()
	for _, tb := range []*testbed.Table{w.legacy, w.record} {
		_, err := tb.Client.DeleteTable(w.t.Context(), &dynamodb.DeleteTableInput{TableName: &tb.Name})
		require.NoError(w.t, err)
	}
	time.Sleep(10 * time.Second)
}
