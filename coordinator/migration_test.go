package coordinator

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/entity"
	"github.com/go-kcl/kcl/internal/interchange"
)

var t0 = time.UnixMilli(1796033728812)

// Every state that Java workers and the migration script left decodes, and
// encodes back to the same attributes and values.
//
// leader-and-client-version-migration#36
func TestJavaItems(t *testing.T) {
	seen, byTool := 0, 0
	for _, j := range interchange.Items(t) {
		av := j.Attributes
		if key, legacy := av["key"]; legacy { // the migration's business; here only the rest is looked at
			delete(av, "key")
			av[entity.LeaseTableKey] = key
		}
		it, ok := itemOf(av)
		if !ok || it.Key != ClientVersionKey && it.Key != TableMigrationKey {
			continue
		}
		seen++
		t.Run(j.State+" "+j.Table+" "+it.Key, func(t *testing.T) {
			var back Item
			if it.Key == ClientVersionKey {
				m, err := migrationOf[ClientVersion](it)
				require.NoError(t, err)
				assert.NotEmpty(t, m.History)
				assert.Nil(t, m.Extra)
				if m.By == "KclMigrationTool-rollback" || m.By == "KclMigrationTool-rollforward" {
					byTool++
				}
				back = m.Item()
			} else {
				m, err := migrationOf[TableStatus](it)
				require.NoError(t, err)
				back = m.Item()
			}
			av[entity.Attribute] = back.Type.Attr() // 3.4 wrote none
			assert.Equal(t, av, back.encode())
		})
	}
	assert.Equal(t, 20, seen)
	assert.Equal(t, 2, byTool)
}

func versionState(v ClientVersion, by string, at time.Time, history ...Change[ClientVersion]) ClientVersionState {
	return ClientVersionState{Change: Change[ClientVersion]{Value: v, By: by, At: at}, History: history}
}

// leader-and-client-version-migration#33: a fresh application's state says that
// INIT came before.
func TestFreshClientVersion(t *testing.T) {
	now := t0.Add(999 * time.Microsecond) // the item has milliseconds
	assert.Equal(t,
		versionState(ClientVersion3X, "go", t0, Change[ClientVersion]{Value: ClientVersionInit, By: "go", At: t0}),
		FreshClientVersion(ClientVersion3X, "go", now))
}

// leader-and-client-version-migration#34
func TestHistoryKeepsTheNewestTen(t *testing.T) {
	versions := []ClientVersion{ClientVersion2X, ClientVersionUpgradeFrom2X}
	m := FreshClientVersion(ClientVersion3X, "w0", t0)
	for i := 1; i <= 12; i++ {
		before := m
		m = m.To(versions[i%2], fmt.Sprint("w", i), t0.Add(time.Duration(i)*time.Second))
		assert.Equal(t, before.Change, m.History[0])
		assert.Len(t, before.History, min(i, 10), "the former state is not touched")
	}
	require.Len(t, m.History, 10)
	for i, c := range m.History {
		assert.Equal(t, fmt.Sprint("w", 11-i), c.By)
	}
}

// leader-and-client-version-migration#57: the script's lists only grow.
func TestLongHistoryIsReadAndCut(t *testing.T) {
	m := versionState(ClientVersion2X, "KclMigrationTool-rollback", t0)
	for i := range 12 {
		m.History = append(m.History, Change[ClientVersion]{Value: ClientVersion2X, By: fmt.Sprint("tool", i), At: t0})
	}
	read, err := migrationOf[ClientVersion](m.Item())
	require.NoError(t, err)
	assert.Equal(t, m, read)
	next := read.To(ClientVersionUpgradeFrom2X, "go", t0)
	require.Len(t, next.History, 10)
	assert.Equal(t, "tool8", next.History[9].By)
}

func TestMigrationKeepsWhatItDoesNotKnow(t *testing.T) {
	it := FreshClientVersion(ClientVersion3X, "go", t0).Item()
	it.Attributes["later"] = str("x")
	it.Attributes["h"].(*types.AttributeValueMemberL).Value[0].(*types.AttributeValueMemberM).Value["why"] = str("y")
	m, err := migrationOf[ClientVersion](it)
	require.NoError(t, err)
	assert.Equal(t, map[string]types.AttributeValue{"later": str("x")}, m.Extra)
	assert.Equal(t, it, m.Item())
	next := m.To(ClientVersion2X, "go", t0)
	assert.Equal(t, str("x"), next.Item().Attributes["later"])
	assert.Equal(t, map[string]types.AttributeValue{"why": str("y")}, next.History[1].Extra)
}

func TestMalformedMigration(t *testing.T) {
	entry := func(av map[string]types.AttributeValue) types.AttributeValue {
		return &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberM{Value: av}}}
	}
	for _, tc := range []struct {
		name  string
		spoil func(map[string]types.AttributeValue)
		want  string
	}{
		{"no version", func(av map[string]types.AttributeValue) { delete(av, "cv") }, "cv is missing or no string"},
		{"unknown version", func(av map[string]types.AttributeValue) { av["cv"] = str("CLIENT_VERSION_4X") }, `cv is "CLIENT_VERSION_4X", which this version does not know`},
		{"no modifier", func(av map[string]types.AttributeValue) { delete(av, "mb") }, "mb is missing or no string"},
		{"no time", func(av map[string]types.AttributeValue) { delete(av, "mts") }, "mts is missing or no number"},
		{"time as a string", func(av map[string]types.AttributeValue) { av["mts"] = str("1") }, "mts is missing or no number"},
		{"fractional time", func(av map[string]types.AttributeValue) { av["mts"] = &types.AttributeValueMemberN{Value: "1.5"} }, `mts: strconv.ParseInt: parsing "1.5": invalid syntax`},
		{"history is no list", func(av map[string]types.AttributeValue) { av["h"] = str("x") }, "h is no list"},
		{"history of strings", func(av map[string]types.AttributeValue) {
			av["h"] = &types.AttributeValueMemberL{Value: []types.AttributeValue{str("x")}}
		}, "h[0] is no map"},
		{"unknown version in history", func(av map[string]types.AttributeValue) {
			av["h"] = entry(map[string]types.AttributeValue{"cv": str("X"), "mb": str("w"), "mts": &types.AttributeValueMemberN{Value: "1"}})
		}, `h[0]: cv is "X", which this version does not know`},
		{"another kind", func(av map[string]types.AttributeValue) { av["entityType"] = str("LEASE") }, `entityType is "LEASE", not "CLIENT_VERSION_MIGRATION"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			av := FreshClientVersion(ClientVersion3X, "go", t0).Item().encode()
			tc.spoil(av)
			it, ok := itemOf(av)
			require.True(t, ok)
			_, err := migrationOf[ClientVersion](it)
			assert.EqualError(t, err, "item Migration3.0: "+tc.want)
		})
	}
}

// single-table-migration#5,6,84: the kind is no part of the attributes, and the
// key tells it where the item does not.
func TestItemType(t *testing.T) {
	for _, tc := range []struct {
		key    string
		stored types.AttributeValue
		want   entity.Type
	}{
		{"Migration3.0", str("CLIENT_VERSION_MIGRATION"), entity.ClientVersionMigration},
		{"Migration3.0", nil, entity.ClientVersionMigration},
		{"Migration3.0", str("LATER"), entity.ClientVersionMigration},
		{"TableMigration3.5", nil, entity.TableMigration},
		{"TableMigration3.5", str("table_migration"), entity.TableMigration},
		{"Leader", str("LEADER"), entity.Leader},
		{"Leader", nil, ""},
		{"orders", str("STREAM"), entity.Stream},
		{"orders", str("LATER"), ""},
		{"orders", &types.AttributeValueMemberN{Value: "1"}, ""},
		{"Migration3.0", str("STREAM"), entity.Stream},
	} {
		av := map[string]types.AttributeValue{"leaseKey": str(tc.key), "x": str("y")}
		if tc.stored != nil {
			av["entityType"] = tc.stored
		}
		it, ok := itemOf(av)
		require.True(t, ok)
		assert.Equal(t, Item{Key: tc.key, Type: tc.want, Attributes: map[string]types.AttributeValue{"x": str("y")}}, it)
	}
	_, ok := itemOf(map[string]types.AttributeValue{"leaseKey": &types.AttributeValueMemberN{Value: "1"}})
	assert.False(t, ok)
}

func FuzzMigration(f *testing.F) {
	f.Add("CLIENT_VERSION_3X", "go", "1796033728812", "CLIENT_VERSION_INIT")
	f.Add("", "", "", "")
	f.Add("CLIENT_VERSION_2X", "go", "-1", "CLIENT_VERSION_9")
	f.Fuzz(func(t *testing.T, cv, by, at, before string) {
		change := func(v string) map[string]types.AttributeValue {
			return map[string]types.AttributeValue{"cv": str(v), "mb": str(by), "mts": &types.AttributeValueMemberN{Value: at}}
		}
		it := Item{Key: ClientVersionKey, Type: entity.ClientVersionMigration, Attributes: change(cv)}
		it.Attributes["h"] = &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberM{Value: change(before)}}}
		m, err := migrationOf[ClientVersion](it)
		if err != nil {
			return
		}
		again, err := migrationOf[ClientVersion](m.Item())
		require.NoError(t, err)
		require.Equal(t, m, again)
	})
}
