package ddb

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/kcltest"
)

// addIndex adds an index to the table as another program would.
func (w *world) addIndex(name string, hash, rang string) {
	w.t.Helper()
	in := w.table("other", TableConfig{}).indexInput(w.describe())
	create := in.GlobalSecondaryIndexUpdates[0].Create
	create.IndexName = &name
	create.KeySchema[0].AttributeName, create.KeySchema[1].AttributeName = &hash, &rang
	in.AttributeDefinitions[0].AttributeName, in.AttributeDefinitions[1].AttributeName = &hash, &rang
	_, err := w.client.UpdateTable(w.t.Context(), in)
	require.NoError(w.t, err)
}

// leases#11
func TestIndexOfAnExistingTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kcltest.ShortDelays)
		table := w.table("a", TableConfig{})
		active := func() bool {
			t.Helper()
			ok, err := table.IndexActive(t.Context())
			require.NoError(t, err)
			return ok
		}
		assert.False(t, active(), "no table")

		w.create(nil)
		assert.False(t, active(), "no index")

		w.addIndex("AnotherIndex", "team", "leaseKey")
		time.Sleep(10 * time.Second)
		assert.False(t, active(), "only another index")

		done := make(chan error)
		go func() { done <- table.PrepareIndex(t.Context()) }() // ends with the index
		time.Sleep(100 * time.Millisecond)
		var ours types.GlobalSecondaryIndexDescription
		for _, ix := range w.describe().GlobalSecondaryIndexes {
			if *ix.IndexName == OwnerIndex {
				ours = ix
			}
		}
		assert.Equal(t, types.IndexStatusCreating, ours.IndexStatus)
		assert.Equal(t, types.ProjectionTypeKeysOnly, ours.Projection.ProjectionType)
		assert.False(t, active(), "being created")
		require.NoError(t, <-done)
		assert.True(t, active())

		calls := w.aws.Count("UpdateTable")
		require.NoError(t, table.PrepareIndex(t.Context()), "once more")
		assert.Equal(t, calls, w.aws.Count("UpdateTable"))
	})
}

func TestIndexOfANewTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kcltest.RealDelays)
		table := w.table("a", TableConfig{})
		start := time.Now()
		_, err := table.Prepare(t.Context())
		require.NoError(t, err)
		require.NoError(t, table.PrepareIndex(t.Context()))
		assert.Less(t, time.Since(start), 20*time.Second, "an index added later takes 9 minutes")
		assert.Zero(t, w.aws.Count("UpdateTable"))
	})
}

// leases#12
func TestIndexThroughput(t *testing.T) {
	for _, provisioned := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, kcltest.ShortDelays)
			w.create(func(in *dynamodb.CreateTableInput) {
				if provisioned {
					in.BillingMode = types.BillingModeProvisioned
					in.ProvisionedThroughput = &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(100), WriteCapacityUnits: aws.Int64(200)}
				}
			})
			table := w.table("a", TableConfig{ReadCapacity: 1, WriteCapacity: 1})
			info, err := table.Prepare(t.Context())
			require.NoError(t, err)
			assert.Equal(t, provisioned, info.Provisioned)
			sent := table.indexInput(w.describe()).GlobalSecondaryIndexUpdates[0].Create.ProvisionedThroughput
			require.NoError(t, table.PrepareIndex(t.Context()))
			ix := w.describe().GlobalSecondaryIndexes[0].ProvisionedThroughput
			if provisioned {
				assert.EqualValues(t, 100, *ix.ReadCapacityUnits, "what the table has, not what the configuration says")
				assert.EqualValues(t, 200, *ix.WriteCapacityUnits)
			} else {
				assert.Nil(t, sent)
			}
		})
	}
}

// leases#13
func TestManyWorkersAddTheIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kcltest.ShortDelays)
		w.create(nil)
		var wg sync.WaitGroup
		for _, worker := range []string{"a", "b", "c", "d"} {
			wg.Go(func() { assert.NoError(t, w.table(worker, TableConfig{}).PrepareIndex(t.Context())) })
		}
		wg.Wait()
		assert.Len(t, w.describe().GlobalSecondaryIndexes, 1)
	})
	// The service is not known to give one answer for sure: each means that
	// somebody is about it, or that the table is busy.
	for code, message := range map[string]string{
		"ResourceInUseException": "Attempt to change a resource which is still in use: Index is being created.  Table: app Index: " + OwnerIndex,
		"LimitExceededException": "Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table",
		"ValidationException":    "Attempting to create an index which already exists",
		"ThrottlingException":    "Rate exceeded",
	} {
		t.Run(code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, kcltest.ShortDelays)
				w.create(nil)
				w.answer("UpdateTable", func(int) *wire.Error { return failure(code, message) })
				time.AfterFunc(45*time.Second, func() { w.addIndex(OwnerIndex, "leaseOwner", "leaseKey") })
				require.NoError(t, w.table("a", TableConfig{}).PrepareIndex(t.Context()))
			})
		})
	}
	t.Run("behind another index that takes its time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, kcltest.RealDelays)
			w.create(nil)
			w.addIndex("AnotherIndex", "team", "leaseKey")
			start := time.Now()
			require.NoError(t, w.table("a", TableConfig{}).PrepareIndex(t.Context()))
			assert.Greater(t, time.Since(start), 16*time.Minute, "two builds")
		})
	})
}

func TestIndexThatIsInvalidForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kcltest.NoDelays)
		w.create(nil)
		w.answer("UpdateTable", func(int) *wire.Error { return failure("ValidationException", "no such thing") })
		start := time.Now()
		err := w.table("a", TableConfig{}).PrepareIndex(t.Context())
		require.ErrorContains(t, err, "no such thing")
		assert.InDelta(t, 60, time.Since(start).Seconds(), 10)
	})
}

// DescribeTable says ACTIVE for minutes before queries are answered.
func TestIndexThatIsNotServedYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kcltest.NoDelays)
		start := time.Now()
		w.answer("Query", func(int) *wire.Error {
			if time.Since(start) < 4*time.Minute {
				return failure("ValidationException", "The table does not have the specified index: "+OwnerIndex)
			}
			return nil
		})
		table := w.table("a", TableConfig{})
		_, err := table.Prepare(t.Context())
		require.NoError(t, err)
		require.NoError(t, table.PrepareIndex(t.Context()))
		assert.InDelta(t, 240, time.Since(start).Seconds(), 5)
	})
	t.Run("a throttled query proves that it is", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, kcltest.NoDelays)
			w.answer("Query", func(int) *wire.Error { return failure("ProvisionedThroughputExceededException", "slow down") })
			table := w.table("a", TableConfig{})
			_, err := table.Prepare(t.Context())
			require.NoError(t, err)
			require.NoError(t, table.PrepareIndex(t.Context()))
		})
	})
}

func TestForeignIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kcltest.ShortDelays)
		w.create(nil)
		w.addIndex(OwnerIndex, "team", "leaseKey")
		table := w.table("a", TableConfig{})
		for _, err := range []error{table.PrepareIndex(t.Context()), second(table.IndexActive(t.Context()))} {
			require.ErrorIs(t, err, kcl.ErrInvalidState)
			require.ErrorIs(t, err, ErrUnsuitable)
			require.ErrorContains(t, err, OwnerIndex)
			require.ErrorContains(t, err, "table app")
			require.ErrorContains(t, err, "team (HASH, S) + leaseKey (RANGE, S)", "what it is")
			require.ErrorContains(t, err, "leaseOwner (HASH, S) + leaseKey (RANGE, S)", "what it should be")
		}
	})
}

func second[T any](_ T, err error) error { return err }

func TestPrepareIndexGivesUp(t *testing.T) {
	t.Run("after 3600 s", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, kcltest.NoDelays)
			w.create(nil)
			w.answer("UpdateTable", func(int) *wire.Error { return failure("ResourceInUseException", "busy for ever") })
			start := time.Now()
			table := w.table("a", TableConfig{})
			err := table.PrepareIndex(t.Context())
			require.ErrorIs(t, err, kcl.ErrDependency)
			require.ErrorContains(t, err, "not ready after 1h0m0s")
			require.ErrorContains(t, err, "busy for ever", "says why")
			assert.Equal(t, time.Hour, time.Since(start))

			w.aws.Intercept(nil)
			require.NoError(t, table.PrepareIndex(t.Context()), "and can be repeated")
		})
	})
	t.Run("when its context ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, kcltest.RealDelays)
			w.create(nil)
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(91*time.Second, func() { cancel(errors.New("enough")) })
			start := time.Now()
			err := w.table("a", TableConfig{}).PrepareIndex(ctx)
			require.ErrorContains(t, err, "enough")
			assert.Equal(t, 91*time.Second, time.Since(start))
		})
	})
	t.Run("at once without permission, or without a table", func(t *testing.T) {
		for _, action := range []string{"DescribeTable", "UpdateTable", "Query"} {
			w := newWorld(t, kcltest.NoDelays)
			w.create(nil)
			if action == "Query" {
				w.addIndex(OwnerIndex, "leaseOwner", "leaseKey")
			}
			w.answer(action, func(int) *wire.Error { return denied(action) })
			err := w.table("a", TableConfig{}).PrepareIndex(t.Context())
			assert.True(t, Denied(err), action)
		}
		err := newWorld(t, kcltest.NoDelays).table("a", TableConfig{}).PrepareIndex(t.Context())
		require.ErrorIs(t, err, kcl.ErrInvalidState)
	})
	t.Run("not over failing looks", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, kcltest.ShortDelays)
			w.create(nil)
			w.answer("DescribeTable", func(n int) *wire.Error {
				if n%2 == 1 {
					return failure("InternalServerError", "oops")
				}
				return nil
			})
			require.NoError(t, w.table("a", TableConfig{}).PrepareIndex(t.Context()))
		})
	})
}
