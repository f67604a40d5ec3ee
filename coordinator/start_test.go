package coordinator

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/ddb"
)

func tableState(s TableStatus) TableMigrationState {
	return TableMigrationState{Change: Change[TableStatus]{Value: s, By: "java", At: t0}}
}

// The cells of leader-and-client-version-migration#38 that the rulings leave:
// a fresh application and one at 3X start, and every other is refused.
func TestDecideStart(t *testing.T) {
	const notEnded = "start refused: item Migration3.0 says %s, last changed by java at 2026-11-30T10:15:28Z, so the application's migration from KCL 2.x has not ended, and this version serves only applications at CLIENT_VERSION_3X; "
	legacy := startFacts{legacyName: "app-CoordinatorState", legacyTable: true}
	at := func(v ClientVersion) startFacts {
		return startFacts{version: versionState(v, "java", t0), versionStored: true}
	}
	status := func(s TableStatus, f startFacts) startFacts {
		f.status, f.statusStored = tableState(s), true
		return f
	}
	for _, tc := range []struct {
		name   string
		facts  startFacts
		create bool
		refuse string
	}{
		{"fresh", startFacts{}, true, ""},
		{"3X", at(ClientVersion3X), false, ""},
		{"2X", at(ClientVersion2X), false, fmt.Sprintf(notEnded, ClientVersion2X) +
			"it was rolled back: roll it forward with KclMigrationTool.py and let Java KCL 3.5 workers finish the migration"},
		{"upgrading", at(ClientVersionUpgradeFrom2X), false, fmt.Sprintf(notEnded, ClientVersionUpgradeFrom2X) +
			"let Java KCL 3.5 workers finish the migration: they reach CLIENT_VERSION_3X_WITH_ROLLBACK by themselves, and a deployment with CLIENT_VERSION_CONFIG_3X ends it"},
		{"3X with rollback, which Java would end", at(ClientVersion3XWithRollback), false, fmt.Sprintf(notEnded, ClientVersion3XWithRollback) +
			"deploy Java KCL 3.5 workers with CLIENT_VERSION_CONFIG_3X, which ends the migration, before this version"},
		{"INIT, which nobody stores", at(ClientVersionInit), false, fmt.Sprintf(notEnded, ClientVersionInit) +
			"let Java KCL 3.5 workers finish the migration: they reach CLIENT_VERSION_3X_WITH_ROLLBACK by themselves, and a deployment with CLIENT_VERSION_CONFIG_3X ends it"},
		{"legacy table", legacy, false, "start refused: table app-CoordinatorState exists, so the application keeps its state as KCL 3.0 to 3.4 did, and this version cannot move it; let Java KCL 3.5 workers finish the single-table migration (TABLE_MIGRATION_STATUS_COMPLETE in item TableMigration3.5 of the lease table); or, if no worker of the application uses that table any more, delete it or set NoLegacyTables"},
		{"legacy table beside 3X", startFacts{legacyName: "x", legacyTable: true, version: versionState(ClientVersion3X, "java", t0), versionStored: true}, false,
			"start refused: table x exists, so the application keeps its state as KCL 3.0 to 3.4 did, and this version cannot move it; let Java KCL 3.5 workers finish the single-table migration (TABLE_MIGRATION_STATUS_COMPLETE in item TableMigration3.5 of the lease table); or, if no worker of the application uses that table any more, delete it or set NoLegacyTables"},
		{"moved, 3X", status(TableStatusComplete, at(ClientVersion3X)), false, ""},
		{"moved, no version", status(TableStatusComplete, startFacts{}), true, ""},
		{"moved, upgrading", status(TableStatusComplete, at(ClientVersion2X)), false, fmt.Sprintf(notEnded, ClientVersion2X) +
			"it was rolled back: roll it forward with KclMigrationTool.py and let Java KCL 3.5 workers finish the migration"},
		{"being moved", status(TableStatusPending, at(ClientVersion3X)), false, "start refused: item TableMigration3.5 says TABLE_MIGRATION_STATUS_PENDING, last changed by java at 2026-11-30T10:15:28Z, so the application's state is still being moved into the lease table, which this version cannot take part in; let Java KCL 3.5 workers finish the single-table migration (TABLE_MIGRATION_STATUS_COMPLETE)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			create, err := decideStart(tc.facts)
			assert.Equal(t, tc.create, create)
			if tc.refuse == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrRefused)
			assert.EqualError(t, err, tc.refuse)
		})
	}
}

func start(t *testing.T, w *world, worker string, change ...func(*StartConfig)) error {
	t.Helper()
	c := StartConfig{Worker: worker, LegacyTable: LegacyTableName("app")}
	for _, f := range change {
		f(&c)
	}
	return w.store(worker).Start(t.Context(), c)
}

func noLegacyTables(c *StartConfig) { c.NoLegacyTables = true }

func TestFreshStart(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		require.NoError(t, start(t, w, "go"))
		m, found, err := w.store("go").ClientVersion(t.Context())
		require.NoError(t, err)
		require.True(t, found)
		assert.Equal(t, FreshClientVersion(ClientVersion3X, "go", m.At), m)
		assert.WithinDuration(t, time.Now(), m.At, time.Second)
		first := w.Item(ClientVersionKey)

		require.NoError(t, start(t, w, "go"), "again")
		require.NoError(t, start(t, w, "go2"))
		assert.Equal(t, first, w.Item(ClientVersionKey))
		assert.Equal(t, 1, w.aws.Count("PutItem", "go"))
		assert.Zero(t, w.aws.Count("PutItem", "go2"))
	})
}

// leader-and-client-version-migration#39: the losers re-read, at once.
func TestStartTogether(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		errs := make([]error, 10)
		began := time.Now()
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() { errs[i] = start(t, w, fmt.Sprint("w", i)) })
		}
		all.Wait()
		for _, err := range errs {
			assert.NoError(t, err)
		}
		assert.Less(t, time.Since(began), time.Second)
		assert.Greater(t, w.aws.Count("PutItem"), 1, "some lost")
	})
}

// Whoever loses to an item that is then gone decides anew, 10 times, a second
// apart.
func TestStartGivesUpAfterTenTries(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.refuse("PutItem", "ConditionalCheckFailedException")
		began := time.Now()
		err := start(t, w, "go")
		require.ErrorIs(t, err, kcl.ErrDependency)
		require.NotErrorIs(t, err, ErrRefused)
		assert.Equal(t, 10, w.aws.Count("PutItem", "go"))
		assert.GreaterOrEqual(t, time.Since(began), 8*time.Second)
		assert.Less(t, time.Since(began), 8*(startPause+startJitter)+time.Second)
		assert.Equal(t, 1, w.aws.Count("DescribeTable", "go"), "asked once")

		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		err = w.store("go").Start(ctx, StartConfig{Worker: "go", NoLegacyTables: true})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// A lost answer is no lost race.
func TestStartWithALostAnswer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.loseAnswer("PutItem")
		require.NoError(t, start(t, w, "go"))
		assert.Equal(t, 2, w.aws.Count("PutItem", "go"))
		assert.Equal(t, 2, w.aws.Count("GetItem", "go"), "not read again")
	})
}

// leader-and-client-version-migration#41
func TestStartAfterAFailedRead(t *testing.T) {
	for _, operation := range []string{"GetItem", "DescribeTable"} {
		t.Run(operation, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				failing := w.refuse(operation, "InternalFailure")
				err := start(t, w, "go")
				require.ErrorIs(t, err, kcl.ErrDependency)
				require.NotErrorIs(t, err, ErrRefused)
				assert.Zero(t, w.aws.Count("PutItem", "go"))
				failing.Remove()
				require.NoError(t, start(t, w, "go"))
				assert.Equal(t, 1, w.aws.Count("PutItem", "go"))
			})
		})
	}
}

func TestStartBesideALegacyTable(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.table(t, "app-CoordinatorState", "key")
		err := start(t, w, "go")
		require.ErrorIs(t, err, ErrRefused)
		assert.ErrorContains(t, err, "start in table app: start refused: table app-CoordinatorState exists")
		assert.Zero(t, w.aws.Count("PutItem", "go"), "nothing is written")

		// Either promise lets it go: the operator's, or a finished migration.
		describes := w.aws.Count("DescribeTable", "go")
		require.NoError(t, start(t, w, "go", noLegacyTables))
		assert.Equal(t, describes, w.aws.Count("DescribeTable", "go"), "never looked at")
		require.ErrorIs(t, start(t, w, "go"), ErrRefused)
		w.Put(tableState(TableStatusComplete).Item().encode())
		describes = w.aws.Count("DescribeTable", "go")
		require.NoError(t, start(t, w, "go"))
		assert.Equal(t, describes, w.aws.Count("DescribeTable", "go"))
	})
}

// A role that may not look is told what to do.
func TestStartMayNotLookForTheLegacyTable(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.refuse("DescribeTable", "AccessDeniedException")
		err := start(t, w, "go")
		require.ErrorIs(t, err, ErrRefused)
		assert.ErrorContains(t, err, "allow dynamodb:DescribeTable on it, or set NoLegacyTables")
		assert.Equal(t, "AccessDeniedException", ddb.Code(err))
		require.NoError(t, start(t, w, "go", noLegacyTables))
	})
}

func TestStartWithMalformedState(t *testing.T) {
	for _, key := range []string{ClientVersionKey, TableMigrationKey} {
		t.Run(key, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				bad := map[string]types.AttributeValue{"leaseKey": str(key), "cv": str("CLIENT_VERSION_4X")}
				w.Put(bad)
				err := start(t, w, "go")
				require.ErrorIs(t, err, ErrRefused)
				assert.ErrorContains(t, err, "item "+key)
				assert.Equal(t, bad, w.Item(key))
			})
		})
	}
}

// A refused start leaves the state alone.
func TestRefusedStartWritesNothing(t *testing.T) {
	for _, v := range []ClientVersion{ClientVersion2X, ClientVersionUpgradeFrom2X, ClientVersion3XWithRollback} {
		t.Run(string(v), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				before := FreshClientVersion(v, "java", t0).Item().encode()
				w.Put(before)
				require.ErrorIs(t, start(t, w, "go"), ErrRefused)
				assert.Equal(t, before, w.Item(ClientVersionKey))
				assert.Zero(t, w.aws.Count("PutItem", "go")+w.aws.Count("UpdateItem", "go"))
				out, err := w.Client.Scan(t.Context(), &dynamodb.ScanInput{TableName: &w.Name})
				require.NoError(t, err)
				assert.Len(t, out.Items, 1)
			})
		})
	}
}
