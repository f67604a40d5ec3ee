package workermetrics

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/entity"
	"github.com/go-kcl/kcl/internal/interchange"
	"github.com/go-kcl/kcl/kcltest"
)

func noMetrics(updated time.Time) Record {
	return Record{Worker: "w", Updated: updated, Load: Load{map[string][]float64{}, map[string][]int64{}}}
}

func TestPut(t *testing.T) {
	now := func() time.Time { return time.Unix(time.Now().Unix(), 0) }
	// lease-assignment-and-worker-metrics#1
	t.Run("a fresh worker", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			r := Record{Worker: "w", Updated: now(), Load: Load{map[string][]float64{"C": {85, -1}}, map[string][]int64{"C": {100}}}, Support: 1, SupportUpdated: now()}
			require.NoError(t, w.store.Put(t.Context(), r))
			assert.Equal(t, interchange.Canonical(t, fromJSON(t, `{"leaseKey":{"S":"w"},"entityType":{"S":"WORKER_METRIC_STATS"},"lut":{"N":"946684800"},
				"sup":{"N":"1"},"slu":{"N":"946684800"},
				"sts":{"M":{"C":{"L":[{"N":"85"},{"N":"-1"}]}}},"opr":{"M":{"C":{"L":[{"N":"100"}]}}}}`)), w.item())
		})
	})
	t.Run("without metrics", func(t *testing.T) { // lease-assignment-and-worker-metrics#3
		inWorld(t, func(t *testing.T, w *world) {
			require.NoError(t, w.store.Put(t.Context(), noMetrics(now())))
			assert.Equal(t, interchange.Canonical(t, fromJSON(t, `{"leaseKey":{"S":"w"},"entityType":{"S":"WORKER_METRIC_STATS"},"lut":{"N":"946684800"},
				"sts":{"M":{}},"opr":{"M":{}}}`)), w.item())
		})
	})
	t.Run("over an older record", func(t *testing.T) { // lease-assignment-and-worker-metrics#2
		inWorld(t, func(t *testing.T, w *world) {
			before := item{
				attrKey: &str{Value: "w"}, entity.Attribute: entity.WorkerMetricStats.Attr(), attrUpdated: &number{Value: "1"},
				attrStats: &object{Value: item{"M": &list{}}}, attrOperatingRange: &object{Value: item{"M": &list{}}},
				attrSupport: &number{Value: "1"}, attrSupportUpdated: &number{Value: "1"},
			}
			maps.Copy(before, foreign())
			w.Put(before)
			require.NoError(t, w.store.Put(t.Context(), noMetrics(now())))
			want := maps.Clone(before)
			want[attrUpdated] = seconds(now())
			want[attrStats], want[attrOperatingRange] = &object{Value: item{}}, &object{Value: item{}}
			assert.Equal(t, interchange.Canonical(t, want), w.item(), "maps are replaced, all else survives")
		})
	})
	t.Run("never over an item of another kind", func(t *testing.T) { // single-table-migration, Do better 21
		inWorld(t, func(t *testing.T, w *world) {
			for _, other := range []item{
				{attrKey: &str{Value: "w"}, entity.Attribute: entity.Stream.Attr()},
				{attrKey: &str{Value: "w"}, "leaseCounter": &number{Value: "1"}}, // a lease before 3.5
			} {
				w.Put(other)
				err := w.store.Put(t.Context(), noMetrics(now()))
				require.ErrorIs(t, err, kcl.ErrInvalidState)
				assert.ErrorContains(t, err, "table app has an item w that is no worker's record")
				assert.Equal(t, interchange.Canonical(t, other), w.item())
			}
		})
	})
	t.Run("a record that must not be written", func(t *testing.T) { // lease-assignment-and-worker-metrics#7
		inWorld(t, func(t *testing.T, w *world) {
			for _, r := range []Record{
				noMetrics(time.Time{}),
				noMetrics(now().Add(-2 * DefaultPeriod)),
				{Worker: "w", Updated: now()},
				{Worker: "w", Updated: now(), Load: Load{map[string][]float64{"C": {}}, map[string][]int64{}}},
			} {
				assert.Error(t, w.store.Put(t.Context(), r))
			}
			assert.Zero(t, w.aws.Count("UpdateItem", "worker"))
		})
	})
	t.Run("no table", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.store.cfg.Table = "other"
			err := w.store.Put(t.Context(), noMetrics(now()))
			require.ErrorIs(t, err, kcl.ErrInvalidState)
			assert.ErrorContains(t, err, "put record of worker w in table other")
		})
	})
}

func TestDelete(t *testing.T) {
	stored := func(updated time.Time) item {
		it := encode(noMetrics(updated))
		it[attrKey] = &str{Value: "w"}
		return it
	}
	at := time.Unix(1000, 0)
	for _, c := range []struct {
		name    string
		item    item // nil: none
		updated time.Time
		want    bool
	}{
		{"as it was read", stored(at), at, true},
		{"written again since", stored(at.Add(time.Second)), at, false}, // lease-assignment-and-worker-metrics#8
		{"gone", nil, at, false},
		{"without a time", stored(time.Time{}), time.Time{}, true}, // do better 10
		{"without a time, written again since", stored(at), time.Time{}, false},
		{"without a time, gone", nil, time.Time{}, false},
		{"without a time, of another kind", item{attrKey: &str{Value: "w"}, entity.Attribute: entity.Lease.Attr()}, time.Time{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				if c.item != nil {
					w.Put(c.item)
				}
				ok, err := w.store.Delete(t.Context(), Record{Worker: "w", Updated: c.updated})
				require.NoError(t, err)
				assert.Equal(t, c.want, ok)
				assert.Equal(t, c.item == nil || c.want, w.item() == nil)
			})
		})
	}
	t.Run("the call fails", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.fail("DeleteItem", kcltest.Break)
			_, err := w.store.Delete(t.Context(), noMetrics(at))
			assert.ErrorIs(t, err, kcl.ErrDependency)
		})
	})
}
