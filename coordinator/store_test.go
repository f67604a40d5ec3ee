package coordinator

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/entity"
	"github.com/go-kcl/kcl/internal/interchange"
	"github.com/go-kcl/kcl/kcltest"
)

// leader-and-client-version-migration#33
func TestCreate(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		s := w.store("go")
		m := FreshClientVersion(ClientVersion3X, "go", t0)
		created, err := s.CreateClientVersion(t.Context(), m)
		require.NoError(t, err)
		require.True(t, created)
		first := w.Item(ClientVersionKey)
		ms := &types.AttributeValueMemberN{Value: "1796033728812"}
		assert.Equal(t, map[string]types.AttributeValue{
			"leaseKey": str("Migration3.0"), "entityType": str("CLIENT_VERSION_MIGRATION"),
			"cv": str("CLIENT_VERSION_3X"), "mb": str("go"), "mts": ms,
			"h": &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
				"cv": str("CLIENT_VERSION_INIT"), "mb": str("go"), "mts": ms,
			}}}},
		}, first)

		created, err = s.CreateClientVersion(t.Context(), FreshClientVersion(ClientVersion3X, "other", t0))
		require.NoError(t, err)
		assert.False(t, created)
		assert.Equal(t, first, w.Item(ClientVersionKey))

		read, found, err := s.ClientVersion(t.Context())
		require.NoError(t, err)
		require.True(t, found)
		assert.Equal(t, m, read)
	})
}

func TestCreateNeedsAType(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		created, err := w.store("go").Create(t.Context(), Item{Key: "x"})
		assert.False(t, created)
		require.ErrorIs(t, err, errNoType)
		assert.Zero(t, w.aws.Count("PutItem", "go"))
	})
}

// leader-and-client-version-migration#36: a change leaves what it does not know,
// and adds no entityType, which an item of 3.4 lacks.
func TestUpdateKeepsTheRest(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		s := w.store("go")
		before := FreshClientVersion(ClientVersionUpgradeFrom2X, "java", t0).Item().encode()
		delete(before, entity.Attribute)
		foreign := interchange.Foreign()
		maps.Copy(before, foreign)
		w.Put(before)
		m, found, err := s.ClientVersion(t.Context())
		require.NoError(t, err)
		require.True(t, found)
		assert.Equal(t, foreign, m.Extra)
		next := m.To(ClientVersion3XWithRollback, "go", t0.Add(time.Second))
		updated, err := s.UpdateClientVersion(t.Context(), next, m.Value, nil)
		require.NoError(t, err)
		require.True(t, updated)
		want := next.Item().encode()
		delete(want, entity.Attribute)
		assert.Equal(t, want, w.Item(ClientVersionKey))
		for name, v := range foreign {
			assert.Equal(t, v, want[name])
		}
	})
}

// leader-and-client-version-migration#34
func TestTwelveUpdates(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		s := w.store("go")
		m := FreshClientVersion(ClientVersion2X, "w0", t0)
		_, err := s.CreateClientVersion(t.Context(), m)
		require.NoError(t, err)
		versions := []ClientVersion{ClientVersion2X, ClientVersionUpgradeFrom2X}
		for i := 1; i <= 12; i++ {
			next := m.To(versions[i%2], fmt.Sprint("w", i), t0.Add(time.Duration(i)))
			updated, err := s.UpdateClientVersion(t.Context(), next, m.Value, nil)
			require.NoError(t, err)
			require.True(t, updated)
			m = next
		}
		read, _, err := s.ClientVersion(t.Context())
		require.NoError(t, err)
		require.Len(t, read.History, 10)
		assert.Equal(t, "w12", read.By)
		assert.Equal(t, "w11", read.History[0].By)
		assert.Equal(t, "w2", read.History[9].By)
	})
}

// Each condition of an update refuses it by itself.
//
// leader-and-client-version-migration#35
func TestUpdateConditions(t *testing.T) {
	stored := FreshClientVersion(ClientVersionUpgradeFrom2X, "java", t0)
	next := stored.To(ClientVersion3XWithRollback, "go", t0.Add(time.Second))
	for _, tc := range []struct {
		name   string
		absent bool
		from   ClientVersion
		expect map[string]types.AttributeValue
		want   bool
	}{
		{"as expected", false, ClientVersionUpgradeFrom2X, map[string]types.AttributeValue{"mb": str("java")}, true},
		{"stale version", false, ClientVersion2X, nil, false},
		{"another modifier", false, ClientVersionUpgradeFrom2X, map[string]types.AttributeValue{"mb": str("other")}, false},
		{"missing key", true, ClientVersionUpgradeFrom2X, nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				if !tc.absent {
					w.Put(stored.Item().encode())
				}
				before := w.Item(ClientVersionKey)
				updated, err := w.store("go").UpdateClientVersion(t.Context(), next, tc.from, tc.expect)
				require.NoError(t, err)
				assert.Equal(t, tc.want, updated)
				if !tc.want {
					assert.Equal(t, before, w.Item(ClientVersionKey))
				}
			})
		})
	}
}

// A write that landed, but whose answer was lost, is repeated by the SDK and
// refused by its own effect.
func TestLostAnswers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		s := w.store("go")
		m := FreshClientVersion(ClientVersion3X, "go", t0)
		w.loseAnswer("PutItem")
		created, err := s.CreateClientVersion(t.Context(), m)
		require.NoError(t, err)
		assert.True(t, created)
		assert.Equal(t, 2, w.aws.Count("PutItem", "go"))

		next := m.To(ClientVersion2X, "go", t0.Add(time.Second))
		w.loseAnswer("UpdateItem")
		updated, err := s.UpdateClientVersion(t.Context(), next, m.Value, nil)
		require.NoError(t, err)
		assert.True(t, updated)
		assert.Equal(t, 2, w.aws.Count("UpdateItem", "go"))
		read, _, err := s.ClientVersion(t.Context())
		require.NoError(t, err)
		assert.Equal(t, next, read)
	})
}

func TestGetAndDelete(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		s := w.store("go")
		_, found, err := s.Get(t.Context(), "x")
		require.NoError(t, err)
		assert.False(t, found)
		it := Item{Key: "x", Type: entity.Stream, Attributes: map[string]types.AttributeValue{"streamId": str("id")}}
		created, err := s.Create(t.Context(), it)
		require.NoError(t, err)
		require.True(t, created)
		read, found, err := s.Get(t.Context(), "x")
		require.NoError(t, err)
		assert.True(t, found)
		assert.Equal(t, it, read)
		require.NoError(t, s.Delete(t.Context(), "x"))
		assert.Nil(t, w.Item("x"))
		require.NoError(t, s.Delete(t.Context(), "x"), "is gone already")
	})
}

// A scan of several pages finds all items of a kind and no others.
func TestList(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		s := w.store("go")
		filler := str(strings.Repeat("x", 300_000))
		for i := range 8 {
			w.Put(map[string]types.AttributeValue{"leaseKey": str(fmt.Sprint("shardId-", i)), "filler": filler})
			w.Put(Item{Key: fmt.Sprint("stream", i), Type: entity.Stream}.encode())
			w.Put(Item{Key: fmt.Sprint("worker", i), Type: entity.WorkerMetricStats}.encode())
		}
		items, err := s.List(t.Context(), entity.Stream)
		require.NoError(t, err)
		keys := map[string]bool{}
		for _, it := range items {
			assert.Equal(t, entity.Stream, it.Type)
			keys[it.Key] = true
		}
		assert.Len(t, items, 8)
		assert.Len(t, keys, 8)
		assert.Greater(t, w.aws.Count("Scan", "go"), 2)
	})
}

func TestErrors(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		s := w.store("go")
		s.table = "missing"
		_, _, err := s.Get(t.Context(), "x")
		require.ErrorIs(t, err, kcl.ErrInvalidState)
		assert.ErrorContains(t, err, "get x in table missing: ")
		_, err = s.List(t.Context(), entity.Stream)
		require.ErrorIs(t, err, kcl.ErrInvalidState)
		_, err = s.Create(t.Context(), Item{Key: "x", Type: entity.Stream})
		require.ErrorIs(t, err, kcl.ErrInvalidState)
		require.ErrorIs(t, s.Delete(t.Context(), "x"), kcl.ErrInvalidState)

		s.table = "app"
		denied := w.refuse("GetItem", "AccessDeniedException")
		_, _, err = s.Get(t.Context(), "x")
		require.ErrorIs(t, err, kcl.ErrDependency)
		denied.Remove()
		_, err = s.Update(t.Context(), "x", map[string]types.AttributeValue{"": str("a")}, nil)
		require.ErrorIs(t, err, kcl.ErrDependency)

		w.Put(map[string]types.AttributeValue{"leaseKey": str("Migration3.0"), "cv": str("CLIENT_VERSION_4X")})
		_, found, err := s.ClientVersion(t.Context())
		require.ErrorIs(t, err, kcl.ErrDependency)
		require.ErrorIs(t, err, ErrMalformed)
		assert.False(t, found)
		it, found, err := s.Get(t.Context(), "Migration3.0")
		require.NoError(t, err, "untyped, it can be read")
		assert.True(t, found)
		assert.Equal(t, entity.ClientVersionMigration, it.Type)
	})
}

// A call that is never answered ends.
func TestRequestTimeout(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.aws.Inject(kcltest.Fault{Effect: kcltest.Hang})
		began := time.Now()
		_, _, err := w.store("go").Get(t.Context(), "x")
		require.ErrorIs(t, err, kcl.ErrDependency)
		assert.Equal(t, time.Minute, time.Since(began))
	})
}
