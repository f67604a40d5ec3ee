package coordinator

import (
	"maps"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-kcl/kcl/internal/entity"
	"github.com/go-kcl/kcl/internal/testbed"
)

var (
	clientVersions = []ClientVersion{ClientVersionInit, ClientVersionUpgradeFrom2X, ClientVersion2X, ClientVersion3XWithRollback, ClientVersion3X}
	storedStatuses = []TableStatus{TableStatusInit, TableStatusDeployed, TableStatusPending, TableStatusComplete}
)

func anyExtra(t *rapid.T) map[string]types.AttributeValue {
	if rapid.Bool().Draw(t, "nothing else") {
		return nil
	}
	return testbed.Strange(t, map[string]types.AttributeValue{})
}

func anyChange[V stage](t *rapid.T, values []V) Change[V] {
	return Change[V]{
		Value: rapid.SampledFrom(values).Draw(t, "value"),
		By:    rapid.StringN(0, 6, -1).Draw(t, "by"),
		At:    time.UnixMilli(rapid.Int64().Draw(t, "at")),
	}
}

func anyMigration[V stage](t *rapid.T, values []V) Migration[V] {
	m := Migration[V]{Change: anyChange(t, values), Extra: anyExtra(t)}
	for range rapid.IntRange(0, 12).Draw(t, "history") {
		c := anyChange(t, values)
		c.Extra = anyExtra(t)
		m.History = append(m.History, c)
	}
	return m
}

func read[V stage](av map[string]types.AttributeValue) (Migration[V], error) {
	it, ok := itemOf(av)
	if !ok {
		return Migration[V]{}, ErrMalformed
	}
	return migrationOf[V](it)
}

func survives[V stage](t *rapid.T, values []V) {
	m := anyMigration(t, values)
	av := m.Item().encode()
	back, err := read[V](av)
	require.NoError(t, err)
	require.Equal(t, m, back)
	require.Equal(t, av, back.Item().encode())

	// A change keeps what another version wrote, now and in the history.
	next := back.To(rapid.SampledFrom(values).Draw(t, "next"), "w", time.UnixMilli(1))
	require.Equal(t, m.Extra, next.Extra)
	require.Equal(t, m.Change, next.History[0])
	require.ElementsMatch(t, m.History[:min(len(m.History), maxHistory-1)], next.History[1:])
	for name := range m.Extra {
		require.NotContains(t, next.values(), name, "an update leaves it alone")
	}
}

// leader-and-client-version-migration#36: what is written is read as it was, and
// written again as it was, with all that another version put there.
func TestEveryMigrationSurvives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { survives(t, clientVersions) })
	rapid.Check(t, func(t *rapid.T) { survives(t, storedStatuses) })
}

// Whatever an item holds, it is refused, or written again as it was.
func TestMigrationOfAnyItem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		av := testbed.Spoil(t, anyMigration(t, clientVersions).Item().encode())
		av[entity.LeaseTableKey] = str(ClientVersionKey) // it was read by it
		before := maps.Clone(av)
		m, err := read[ClientVersion](av)
		require.Equal(t, before, av, "the item was changed")
		_, other := read[TableStatus](av)
		require.Error(t, other)
		if err != nil {
			return
		}
		if h, ok := av[attrHistory].(*types.AttributeValueMemberL); ok && len(h.Value) == 0 {
			delete(av, attrHistory)
		}
		av[entity.Attribute] = entity.ClientVersionMigration.Attr()
		require.Equal(t, av, m.Item().encode())
	})
}
