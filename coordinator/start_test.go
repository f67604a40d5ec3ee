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
)

// The cells of leader-and-client-version-migration#38 that the rulings leave:
// a fresh application and one at 3X start, and every other is refused.
func TestDecideStart(t *testing.T) {
	const notEnded = "start refused: item Migration3.0 says %s, last changed by java at 2026-11-30T10:15:28Z, so the application's migration from KCL 2.x has not ended, and this version serves only applications at CLIENT_VERSION_3X; "
	for _, tc := range []struct {
		name   string
		value  ClientVersion // "": none is stored
		create bool
		refuse string
	}{
		{"fresh", "", true, ""},
		{"3X", ClientVersion3X, false, ""},
		{"2X", ClientVersion2X, false, "it was rolled back: roll it forward with KclMigrationTool.py and let Java KCL 3.5 workers finish the migration"},
		{"upgrading", ClientVersionUpgradeFrom2X, false,
			"let Java KCL 3.5 workers finish the migration: they reach CLIENT_VERSION_3X_WITH_ROLLBACK by themselves, and a deployment with CLIENT_VERSION_CONFIG_3X ends it"},
		{"3X with rollback, which Java would end", ClientVersion3XWithRollback, false,
			"deploy Java KCL 3.5 workers with CLIENT_VERSION_CONFIG_3X, which ends the migration, before this version"},
		{"INIT, which nobody stores", ClientVersionInit, false,
			"let Java KCL 3.5 workers finish the migration: they reach CLIENT_VERSION_3X_WITH_ROLLBACK by themselves, and a deployment with CLIENT_VERSION_CONFIG_3X ends it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			create, err := decideStart(versionState(tc.value, "java", t0), tc.value != "")
			assert.Equal(t, tc.create, create)
			if tc.refuse == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrRefused)
			assert.EqualError(t, err, fmt.Sprintf(notEnded, tc.value)+tc.refuse)
		})
	}
}

// start starts a worker of a fresh application, or of one that is through with
// the move from its legacy tables.
func start(t *testing.T, w *world, worker string) error {
	t.Helper()
	return startAt(t.Context(), t, w, worker)
}

func startAt(ctx context.Context, t *testing.T, w *world, worker string) error {
	t.Helper()
	r, err := NewRouted(RoutedConfig{Lease: w.store(worker), Started: TableStatusComplete, Status: func() TableStatus { return TableStatusComplete }})
	require.NoError(t, err)
	return r.Start(ctx, worker)
}

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
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		require.ErrorIs(t, startAt(ctx, t, w, "go"), context.DeadlineExceeded)
	})
}

// A lost answer is no lost race.
func TestStartWithALostAnswer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.loseAnswer("PutItem")
		require.NoError(t, start(t, w, "go"))
		assert.Equal(t, 2, w.aws.Count("PutItem", "go"))
		assert.Equal(t, 1, w.aws.Count("GetItem", "go"), "not read again")
	})
}

// leader-and-client-version-migration#41
func TestStartAfterAFailedRead(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		failing := w.refuse("GetItem", "InternalFailure")
		err := start(t, w, "go")
		require.ErrorIs(t, err, kcl.ErrDependency)
		require.NotErrorIs(t, err, ErrRefused)
		assert.Zero(t, w.aws.Count("PutItem", "go"))
		failing.Remove()
		require.NoError(t, start(t, w, "go"))
		assert.Equal(t, 1, w.aws.Count("PutItem", "go"))
	})
}

func TestStartWithMalformedState(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		bad := map[string]types.AttributeValue{"leaseKey": str(ClientVersionKey), "cv": str("CLIENT_VERSION_4X")}
		w.Put(bad)
		err := start(t, w, "go")
		require.ErrorIs(t, err, ErrRefused)
		assert.ErrorContains(t, err, "item "+ClientVersionKey)
		assert.Equal(t, bad, w.Item(ClientVersionKey))
	})
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
