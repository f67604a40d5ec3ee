package coordinator

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/entity"
	"github.com/go-kcl/kcl/internal/testbed"
	"github.com/go-kcl/kcl/kcltest"
)

type av = map[string]types.AttributeValue

func stream(key, id string) Item {
	return Item{Key: key, Type: entity.Stream, Attributes: av{"streamId": str(id)}}
}

// routes is a worker's coordinator state over both tables.
type routes struct {
	*Routed
	*world
	legacy *testbed.Table
	now    TableStatus
}

func inBoth(t *testing.T, started TableStatus, f func(t *testing.T, r *routes)) {
	t.Helper()
	inWorld(t, func(t *testing.T, w *world) {
		r := &routes{world: w, now: started, legacy: w.table(t, "app-CoordinatorState", LegacyKey)}
		var err error
		r.Routed, err = NewRouted(RoutedConfig{
			Lease:   w.store("go"),
			Legacy:  NewStore(StoreConfig{Client: dynamodb.NewFromConfig(w.aws.Config("go")), Table: r.legacy.Name, KeyAttribute: LegacyKey}),
			Started: started, Status: func() TableStatus { return r.now },
		})
		require.NoError(t, err)
		f(t, r)
	})
}

func (r *routes) put(it Item, legacy, lease bool) {
	if legacy {
		r.legacy.Put(it.Encode(LegacyKey))
	}
	if lease {
		r.Put(it.encode())
	}
}

// where says which tables have an item.
func (r *routes) where(key string) string {
	s := ""
	if r.legacy.Item(key) != nil {
		s += "legacy "
	}
	if r.Item(key) != nil {
		s += "lease "
	}
	return s
}

// single-table-migration#51: reads by the status of now, creations by that of
// the start, and by COMPLETE at once (single-table-migration#53); a live PENDING
// does not change where a worker creates (single-table-migration#54).
func TestRoutes(t *testing.T) {
	for _, tc := range []struct {
		started, now TableStatus
		creates      string
		legacyRead   bool
	}{
		{TableStatusInit, TableStatusInit, "legacy ", true},
		{TableStatusInit, TableStatusDeployed, "legacy ", true},
		{TableStatusDeployed, TableStatusDeployed, "legacy ", true},
		{TableStatusDeployed, TableStatusPending, "legacy ", true},
		{TableStatusPending, TableStatusPending, "lease ", true},
		{TableStatusPending, TableStatusInit, "lease ", true},
		{TableStatusComplete, TableStatusComplete, "lease ", false},
		{TableStatusInit, TableStatusComplete, "lease ", false},
		{TableStatusDeployed, TableStatusComplete, "lease ", false},
		{TableStatusPending, TableStatusComplete, "lease ", false},
	} {
		t.Run(string(tc.started+" "+tc.now), func(t *testing.T) {
			inBoth(t, tc.started, func(t *testing.T, r *routes) {
				r.now = tc.now
				ctx := t.Context()
				created, err := r.Create(ctx, stream("new", "1"))
				require.NoError(t, err)
				assert.True(t, created)
				assert.Equal(t, tc.creates, r.where("new"))

				r.put(stream("old", "legacy"), true, false)
				r.put(stream("moved", "lease"), false, true)
				r.put(stream("both", "legacy"), true, false)
				r.put(stream("both", "lease"), false, true)
				r.aws.ResetCalls()
				for key, want := range map[string]string{"old": "legacy", "moved": "lease", "both": "legacy"} {
					it, found, err := r.Get(ctx, key)
					require.NoError(t, err)
					switch {
					case tc.legacyRead: // single-table-migration#52
						assert.Equal(t, stream(key, want), it)
					case key == "old":
						assert.False(t, found)
					default:
						assert.Equal(t, stream(key, "lease"), it)
					}
				}
				items, err := r.List(ctx, entity.Stream)
				require.NoError(t, err)
				want := []Item{stream("new", "1"), stream("old", "legacy"), stream("moved", "lease"), stream("both", "legacy")}
				if !tc.legacyRead {
					want = []Item{stream("new", "1"), stream("moved", "lease"), stream("both", "lease")}
				}
				assert.ElementsMatch(t, want, items)

				// Changes go where the item is.
				for _, key := range []string{"old", "moved"} {
					from := map[string]string{"old": "legacy", "moved": "lease"}[key]
					updated, err := r.Update(ctx, key, av{"streamId": str("x")}, av{"streamId": str(from)})
					require.NoError(t, err)
					assert.Equal(t, tc.legacyRead || key == "moved", updated, key)
				}
				updated, err := r.Update(ctx, "both", av{"streamId": str("x")}, av{"streamId": str("lease")})
				require.NoError(t, err)
				assert.Equal(t, !tc.legacyRead, updated, "what is in the lease table does not count while the legacy one has it")

				created, err = r.Create(ctx, stream("moved", "y"))
				require.NoError(t, err)
				assert.False(t, created)
				if tc.legacyRead {
					created, err = r.Create(ctx, stream("old", "y"))
					require.NoError(t, err)
					assert.False(t, created)
				}
				require.NoError(t, r.Delete(ctx, "both"))
				assert.Equal(t, map[bool]string{true: "", false: "legacy "}[tc.legacyRead], r.where("both"))
			})
		})
	}
}

// The client version's item is read and changed wherever it is, also while it
// is on its way.
func TestRoutedClientVersion(t *testing.T) {
	inBoth(t, TableStatusPending, func(t *testing.T, r *routes) {
		m := FreshClientVersion(ClientVersion3XWithRollback, "go", t0)
		old := m.Item().Encode(LegacyKey)
		delete(old, "entityType") // as 3.4 left it
		r.legacy.Put(old)
		got, found, err := r.ClientVersion(t.Context())
		require.NoError(t, err)
		assert.True(t, found)
		assert.Equal(t, m, got)
		next := m.To(ClientVersion3X, "go", t0)
		updated, err := r.UpdateClientVersion(t.Context(), next, ClientVersion3XWithRollback, nil)
		require.NoError(t, err)
		assert.True(t, updated)
		assert.Equal(t, "legacy ", r.where(ClientVersionKey))

		r.legacy.Delete(ClientVersionKey)
		r.Put(m.Item().encode())
		updated, err = r.UpdateClientVersion(t.Context(), next, ClientVersion3XWithRollback, av{"mb": str("go")})
		require.NoError(t, err)
		assert.True(t, updated)
		created, err := r.CreateClientVersion(t.Context(), m)
		require.NoError(t, err)
		assert.False(t, created)
		got, _, err = r.ClientVersion(t.Context())
		require.NoError(t, err)
		assert.Equal(t, next, got)
	})
}

// single-table-migration#17
func TestRoutedBeforeTheStart(t *testing.T) {
	for _, s := range []TableStatus{"", TableStatusUnknown} {
		_, err := NewRouted(RoutedConfig{Started: s})
		assert.ErrorIs(t, err, kcl.ErrInvalidState)
	}
}

func TestRoutedWithoutALegacyTable(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		now := TableStatusInit
		r, err := NewRouted(RoutedConfig{Lease: w.store("go"), Started: now, Status: func() TableStatus { return now }})
		require.NoError(t, err)
		_, found, err := r.Get(t.Context(), "s")
		require.NoError(t, err)
		assert.False(t, found)
		_, err = r.Create(t.Context(), stream("s", "1"))
		assert.ErrorIs(t, err, kcl.ErrInvalidState)
		now = TableStatusComplete
		created, err := r.Create(t.Context(), stream("s", "1"))
		require.NoError(t, err)
		assert.True(t, created)
	})
}

func TestRoutedFailures(t *testing.T) {
	inBoth(t, TableStatusInit, func(t *testing.T, r *routes) {
		ctx := t.Context()
		for _, table := range []string{"app-CoordinatorState", "app"} {
			fault := r.aws.Inject(kcltest.Fault{Clients: []string{"go"}, Resources: []string{table}, Effect: kcltest.Refuse, Code: "ResourceNotFoundException"})
			_, _, err := r.Get(ctx, "s")
			assert.ErrorIs(t, err, kcl.ErrInvalidState, table)
			_, err = r.List(ctx, entity.Stream)
			assert.ErrorIs(t, err, kcl.ErrInvalidState, table)
			_, err = r.Create(ctx, stream("s", "1"))
			assert.ErrorIs(t, err, kcl.ErrInvalidState, table)
			_, err = r.Update(ctx, "s", av{"a": str("b")}, nil)
			assert.ErrorIs(t, err, kcl.ErrInvalidState, table)
			assert.ErrorIs(t, r.Delete(ctx, "s"), kcl.ErrInvalidState, table)
			_, _, err = r.ClientVersion(ctx)
			assert.ErrorIs(t, err, kcl.ErrInvalidState, table)
			fault.Remove()
		}
	})
}

// single-table-migration#1: what is stored, and nothing else, is a status, in
// this order.
func TestTableStatus(t *testing.T) {
	for i, s := range []TableStatus{"TABLE_MIGRATION_STATUS_UNKNOWN", "TABLE_MIGRATION_STATUS_INIT", "TABLE_MIGRATION_STATUS_DEPLOYED", "TABLE_MIGRATION_STATUS_PENDING", "TABLE_MIGRATION_STATUS_COMPLETE"} {
		assert.Equal(t, i, s.Ordinal())
		got, ok := ParseTableStatus(string(s))
		assert.Equal(t, i > 0, ok, s)
		if ok {
			assert.Equal(t, s, got)
		}
	}
	for _, s := range []string{"", "INIT", "table_migration_status_init"} {
		_, ok := ParseTableStatus(s)
		assert.False(t, ok, s)
		assert.Zero(t, TableStatus(s).Ordinal())
	}
}

// single-table-migration#8,9,10,42
func TestFreshTableMigration(t *testing.T) {
	m := FreshTableMigration(TableStatusInit, "go", t0)
	assert.Equal(t, TableMigrationState{Change: Change[TableStatus]{Value: TableStatusInit, By: "go", At: t0},
		History: []Change[TableStatus]{{Value: TableStatusInit, By: "go", At: t0}}}, m)
	for _, key := range []string{LegacyKey, entity.LeaseTableKey} {
		it, ok := DecodeItem(m.Item().Encode(key), key)
		require.True(t, ok)
		back, err := TableMigrationOf(it)
		require.NoError(t, err)
		assert.Equal(t, m, back)
	}
	for _, s := range []TableStatus{TableStatusDeployed, TableStatusPending, TableStatusComplete} {
		m = m.To(s, "w", t0)
	}
	var before []TableStatus
	for _, c := range m.History {
		before = append(before, c.Value)
	}
	assert.Equal(t, []TableStatus{TableStatusPending, TableStatusDeployed, TableStatusInit, TableStatusInit}, before)
	for range 12 {
		m = m.To(TableStatusPending, "w", t0)
	}
	assert.Len(t, m.History, 10)
	assert.Equal(t, TableStatusDeployed, FreshTableMigration(TableStatusDeployed, "go", t0).Value)
}

// single-table-migration#8,84,85: not a state, which is not the same as none.
func TestTableMigrationOfOtherItems(t *testing.T) {
	whole := FreshTableMigration(TableStatusInit, "go", t0).Item().Encode(LegacyKey)
	for name, spoil := range map[string]func(av){
		"another key":     func(it av) { it["key"] = str("other") },
		"no status":       func(it av) { delete(it, "tm") },
		"unknown status":  func(it av) { it["tm"] = str("TABLE_MIGRATION_STATUS_UNKNOWN") },
		"no time":         func(it av) { delete(it, "mts") },
		"no modifier":     func(it av) { delete(it, "mb") },
		"broken history":  func(it av) { it["h"].(*types.AttributeValueMemberL).Value[0] = str("x") },
		"another kind":    func(it av) { it["entityType"] = str("STREAM") },
		"a later status":  func(it av) { it["tm"] = str("TABLE_MIGRATION_STATUS_LATER") },
		"history is text": func(it av) { it["h"] = str("x") },
	} {
		it := FreshTableMigration(TableStatusInit, "go", t0).Item().Encode(LegacyKey)
		spoil(it)
		d, ok := DecodeItem(it, LegacyKey)
		require.True(t, ok)
		_, err := TableMigrationOf(d)
		assert.ErrorIs(t, err, ErrMalformed, name)
	}
	whole["entityType"] = str("LATER") // then the key tells
	d, _ := DecodeItem(whole, LegacyKey)
	_, err := TableMigrationOf(d)
	assert.NoError(t, err)
}

// An application of KCL 3.0 to 3.4 has its mark in the legacy table, and one
// without a mark is marked where the worker writes.
func TestRoutedStart(t *testing.T) {
	for _, tc := range []struct {
		started TableStatus
		legacy  bool
	}{{TableStatusInit, true}, {TableStatusDeployed, true}, {TableStatusPending, false}, {TableStatusComplete, false}} {
		inBoth(t, tc.started, func(t *testing.T, r *routes) {
			require.NoError(t, r.Start(t.Context(), "go"))
			assert.Equal(t, tc.legacy, r.legacy.Item(ClientVersionKey) != nil, "%s", tc.started)
			assert.Equal(t, !tc.legacy, r.Item(ClientVersionKey) != nil, "%s", tc.started)
		})
	}
	inBoth(t, TableStatusPending, func(t *testing.T, r *routes) {
		r.legacy.Put(FreshClientVersion(ClientVersion3X, "java", t0).Item().Encode(LegacyKey))
		require.NoError(t, r.Start(t.Context(), "go"))
		assert.Nil(t, r.Item(ClientVersionKey), "marked already")
		r.legacy.Put(FreshClientVersion(ClientVersion2X, "java", t0).Item().Encode(LegacyKey))
		require.ErrorIs(t, r.Start(t.Context(), "go"), ErrRefused)
	})
}
