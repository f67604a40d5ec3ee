package lease

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/entity"
	"github.com/go-kcl/kcl/internal/testbed"
)

var otherKinds = []entity.Type{entity.Stream, entity.Leader, entity.ClientVersionMigration, entity.TableMigration, entity.WorkerMetricStats}

// An item is a lease if it says so or does not say what it is. Of all others no
// reader of leases takes any notice, in either kind of application.
// single-table-migration#2,3,7,62 config-metrics-operations#34
func TestKindsInATable(t *testing.T) {
	for name, tc := range map[string]struct {
		multi bool
		lease func() item
	}{
		"single stream": {false, singleItem},
		"multi stream":  {true, func() item { return encode(multiLease()) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTableWorld(t, tc.multi)
			var log testbed.Log
			w.store.log = testbed.Logger(&log)
			snap, err := w.store.Scan(t.Context())
			require.NoError(t, err)
			assert.Empty(t, snap.Leases)
			for _, kind := range otherKinds {
				assert.Empty(t, snap.Others[kind], "of an empty table")
			}

			old := tc.lease()
			delete(old, entity.Attribute)
			old[attrKey] = &str{Value: keyOf(old) + "-old"}
			if tc.multi {
				old[attrShardID] = &str{Value: "shardId-000000000002-old"}
			}
			want := []string{keyOf(tc.lease()), keyOf(old)}
			w.put(tc.lease())
			w.put(old)
			for _, kind := range append([]entity.Type{"SOME_FUTURE_TYPE", "lease"}, otherKinds...) {
				other := tc.lease() // even if it looks like a lease
				other[entity.Attribute], other[attrKey] = kind.Attr(), &str{Value: "other " + string(kind)}
				w.put(other)
				w.put(item{attrKey: &str{Value: string(kind)}, entity.Attribute: kind.Attr()})
			}

			snap, err = w.store.Scan(t.Context())
			require.NoError(t, err)
			assert.Equal(t, want, keysOf(snap.Leases))
			assert.Empty(t, snap.BadLeases)
			assert.Len(t, snap.Others, len(otherKinds))
			for _, kind := range otherKinds {
				assert.Len(t, snap.Others[kind], 2, "%s", kind)
			}
			leases, err := w.store.List(t.Context())
			require.NoError(t, err)
			assert.Equal(t, want, keysOf(leases))
			_, found, err := w.store.Get(t.Context(), string(entity.Leader))
			require.NoError(t, err)
			assert.False(t, found, "nor as a single item")
			assert.Zero(t, log.Count("level=WARN")+log.Count("level=ERROR"), log.String())
		})
	}
}

// single-table-migration#66
func TestScanEndsBetweenPages(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := &pages{pages: [][]map[string]any{{leaseJSON("a")}, {leaseJSON("b")}, {leaseJSON("c")}}}
	s := scripted(func(inner context.Context, operation string, request map[string]any) (int, any) {
		cancel()
		return p.answer(inner, operation, request)
	}).store(StoreConfig{Segments: 1})
	_, err := s.Scan(ctx)
	require.ErrorIs(t, err, context.Canceled)
	assert.LessOrEqual(t, len(p.requests), 1, "no further page")
	_, err = s.List(ctx)
	require.ErrorIs(t, err, context.Canceled)
	assert.LessOrEqual(t, len(p.requests), 1)
}
