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
	"github.com/go-kcl/kcl/internal/interchange"
	"github.com/go-kcl/kcl/kcltest"
)

// leases#8
func TestPrepareCreatesTheTable(t *testing.T) {
	for _, tc := range []struct {
		name          string
		cfg           TableConfig
		read, write   int64
		provisioned   bool
		pitr          int // calls
		wantTags      map[string]string
		wantProtected bool
	}{
		{name: "on demand by default"},
		{
			name: "provisioned", cfg: TableConfig{BillingMode: types.BillingModeProvisioned, ReadCapacity: 100, WriteCapacity: 200},
			read: 100, write: 200, provisioned: true,
		},
		{
			name: "with everything", cfg: TableConfig{DeletionProtection: true, PITR: true, Tags: map[string]string{"team": "orders", "env": "test"}},
			pitr: 1, wantTags: map[string]string{"team": "orders", "env": "test"}, wantProtected: true,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, kcltest.NoDelays)
				info, err := w.table("a", tc.cfg).Prepare(t.Context())
				require.NoError(t, err)
				assert.Equal(t, TableInfo{
					ARN:         "arn:aws:dynamodb:us-east-1:123456789012:table/app",
					Provisioned: tc.provisioned, Created: true,
				}, info)

				d := w.describe()
				assert.Equal(t, "leaseKey (HASH, S)", describeKey(d.KeySchema, d.AttributeDefinitions))
				assert.Equal(t, tc.read, aws.ToInt64(d.ProvisionedThroughput.ReadCapacityUnits))
				assert.Equal(t, tc.write, aws.ToInt64(d.ProvisionedThroughput.WriteCapacityUnits))
				assert.Equal(t, tc.wantProtected, aws.ToBool(d.DeletionProtectionEnabled))
				require.Len(t, d.GlobalSecondaryIndexes, 1)
				ix := d.GlobalSecondaryIndexes[0]
				assert.Equal(t, "LeaseOwnerToLeaseKeyIndex", aws.ToString(ix.IndexName))
				assert.Equal(t, "leaseOwner (HASH, S) + leaseKey (RANGE, S)", describeKey(ix.KeySchema, d.AttributeDefinitions))
				assert.Equal(t, types.ProjectionTypeKeysOnly, ix.Projection.ProjectionType)
				assert.Equal(t, tc.read, aws.ToInt64(ix.ProvisionedThroughput.ReadCapacityUnits), "the index has what the table has")
				assert.Equal(t, tc.write, aws.ToInt64(ix.ProvisionedThroughput.WriteCapacityUnits))

				tags, err := w.client.ListTagsOfResource(t.Context(), &dynamodb.ListTagsOfResourceInput{ResourceArn: d.TableArn})
				require.NoError(t, err)
				got := map[string]string{}
				for _, tag := range tags.Tags {
					got[*tag.Key] = *tag.Value
				}
				if tc.wantTags == nil {
					tc.wantTags = map[string]string{}
				}
				assert.Equal(t, tc.wantTags, got)

				assert.Equal(t, tc.pitr, w.aws.Count("UpdateContinuousBackups"))
				on, err := w.table("other", TableConfig{}).backupsOn(t.Context())
				require.NoError(t, err)
				assert.Equal(t, tc.pitr > 0, on)
			})
		})
	}
}

func TestPrepareLeavesAnExistingTableAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kcltest.ShortDelays)
		w.create(nil)
		before := w.describe()
		info, err := w.table("a", TableConfig{
			BillingMode: types.BillingModeProvisioned, ReadCapacity: 5, WriteCapacity: 5, DeletionProtection: true, Tags: map[string]string{"a": "b"},
			Created: func(context.Context, *dynamodb.Client, string) error { panic("not created") },
		}).Prepare(t.Context())
		require.NoError(t, err)
		assert.Equal(t, TableInfo{ARN: "arn:aws:dynamodb:us-east-1:123456789012:table/app"}, info)
		assert.Equal(t, before, w.describe())
		assert.Zero(t, w.aws.Count("CreateTable", "a"))
	})
}

// leases#9
func TestTwoWorkersCreateTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kcltest.ShortDelays)
		var mu sync.Mutex
		called, created := 0, 0
		var wg sync.WaitGroup
		for _, worker := range []string{"a", "b", "c"} {
			wg.Go(func() {
				info, err := w.table(worker, TableConfig{
					Created: func(ctx context.Context, client *dynamodb.Client, table string) error {
						out, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
						assert.NoError(t, err)
						assert.Equal(t, types.TableStatusActive, out.Table.TableStatus, "not before the table exists")
						mu.Lock()
						defer mu.Unlock()
						called++
						return nil
					},
				}).Prepare(t.Context())
				assert.NoError(t, err)
				mu.Lock()
				defer mu.Unlock()
				if info.Created {
					created++
				}
			})
		}
		wg.Wait()
		assert.Equal(t, 1, created)
		assert.Equal(t, 1, called, "by the creator alone")
	})
	t.Run("another was quicker between look and creation", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, kcltest.ShortDelays)
			w.answer("CreateTable", func(int) *wire.Error {
				w.create(nil)
				return nil
			})
			info, err := w.table("a", TableConfig{Created: func(context.Context, *dynamodb.Client, string) error { panic("not created") }}).Prepare(t.Context())
			require.NoError(t, err)
			assert.False(t, info.Created)
		})
	})
}

// A preparation that failed can be repeated by the same worker, and the
// callback is not forgotten over it.
func TestPrepareIsRepeatable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kcltest.ShortDelays)
		called := 0
		table := w.table("a", TableConfig{PITR: true, Created: func(context.Context, *dynamodb.Client, string) error {
			if called++; called == 1 {
				return errors.New("not yet")
			}
			return nil
		}})
		_, err := table.Prepare(t.Context())
		require.ErrorContains(t, err, "not yet")

		w.answer("DescribeContinuousBackups", func(int) *wire.Error { return failure("InternalServerError", "oops") })
		_, err = table.Prepare(t.Context())
		require.ErrorIs(t, err, kcl.ErrDependency)
		assert.Equal(t, 2, called)

		w.aws.Intercept(nil)
		time.Sleep(time.Second) // a new table's backups are refused for a while
		for range 2 {
			info, err := table.Prepare(t.Context())
			require.NoError(t, err)
			assert.True(t, info.Created)
			require.NoError(t, table.PrepareIndex(t.Context()))
		}
		assert.Equal(t, 2, called, "once it has returned nil, never again")
		assert.Equal(t, 1, w.aws.Count("CreateTable"))
		assert.Equal(t, 1, w.aws.Count("UpdateContinuousBackups"))
	})
}

func TestPrepareRefusesAForeignTable(t *testing.T) {
	hash := func(name string) types.KeySchemaElement {
		return types.KeySchemaElement{AttributeName: aws.String(name), KeyType: types.KeyTypeHash}
	}
	def := func(name string, kind types.ScalarAttributeType) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: aws.String(name), AttributeType: kind}
	}
	for name, f := range map[string]func(*dynamodb.CreateTableInput){
		"id (HASH, S)": func(in *dynamodb.CreateTableInput) {
			in.KeySchema, in.AttributeDefinitions = []types.KeySchemaElement{hash("id")}, []types.AttributeDefinition{def("id", "S")}
		},
		"leaseKey (HASH, N)": func(in *dynamodb.CreateTableInput) {
			in.AttributeDefinitions = []types.AttributeDefinition{def("leaseKey", "N")}
		},
		"leaseKey (HASH, S) + at (RANGE, N)": func(in *dynamodb.CreateTableInput) {
			in.KeySchema = append(in.KeySchema, types.KeySchemaElement{AttributeName: aws.String("at"), KeyType: types.KeyTypeRange})
			in.AttributeDefinitions = append(in.AttributeDefinitions, def("at", "N"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, kcltest.NoDelays)
			w.create(f)
			_, err := w.table("a", TableConfig{}).Prepare(t.Context())
			require.ErrorIs(t, err, kcl.ErrInvalidState)
			require.ErrorIs(t, err, ErrUnsuitable)
			assert.ErrorContains(t, err, "table app")
			assert.ErrorContains(t, err, name, "says what the key is")
			assert.ErrorContains(t, err, "not leaseKey (HASH, S)", "and what it should be")
		})
	}
}

func TestTableState(t *testing.T) {
	for status, want := range map[types.TableStatus]tableState{
		types.TableStatusActive:                            usable,
		types.TableStatusUpdating:                          usable,
		types.TableStatusCreating:                          changing,
		types.TableStatusDeleting:                          changing,
		types.TableStatusArchived:                          unusable,
		types.TableStatusArchiving:                         unusable,
		types.TableStatusInaccessibleEncryptionCredentials: unusable,
	} {
		assert.Equal(t, want, state(&types.TableDescription{TableStatus: status}), status)
	}
	assert.Equal(t, changing, state(nil))
}

func TestPrepareWaitsForADeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kcltest.RealDelays)
		w.create(nil)
		_, err := w.client.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: aws.String(testTable)})
		require.NoError(t, err)
		info, err := w.table("a", TableConfig{}).Prepare(t.Context())
		require.NoError(t, err)
		assert.True(t, info.Created, "then creates it anew")
	})
}

func TestPrepareGivesUp(t *testing.T) {
	t.Run("after 600 s", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, kcltest.NoDelays)
			w.answer("DescribeTable", func(int) *wire.Error { return failure("ResourceNotFoundException", "no table") })
			start := time.Now()
			_, err := w.table("a", TableConfig{}).Prepare(t.Context())
			require.ErrorIs(t, err, kcl.ErrDependency)
			assert.ErrorContains(t, err, "table app is not ACTIVE after 10m0s")
			assert.Equal(t, 600*time.Second, time.Since(start))
		})
	})
	t.Run("when its context ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, kcltest.RealDelays)
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(1200*time.Millisecond, func() { cancel(errors.New("enough")) })
			start := time.Now()
			_, err := w.table("a", TableConfig{}).Prepare(ctx)
			require.ErrorContains(t, err, "enough")
			assert.Equal(t, 1200*time.Millisecond, time.Since(start))
		})
	})
	t.Run("at once without permission", func(t *testing.T) {
		for _, action := range []string{"DescribeTable", "CreateTable", "UpdateContinuousBackups"} {
			w := newWorld(t, kcltest.NoDelays)
			w.answer(action, func(int) *wire.Error { return denied(action) })
			_, err := w.table("a", TableConfig{PITR: true}).Prepare(t.Context())
			assert.True(t, Denied(err), action)
			require.ErrorContains(t, err, "dynamodb:"+action)
			require.ErrorContains(t, err, "table app")
			assert.Equal(t, 1, w.aws.Count(action))
		}
	})
	t.Run("too many tables", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, kcltest.NoDelays)
			w.answer("CreateTable", func(int) *wire.Error { return failure("LimitExceededException", "too many tables") })
			_, err := w.table("a", TableConfig{}).Prepare(t.Context())
			require.ErrorIs(t, err, kcl.ErrThrottled)
		})
	})
}

// leases#10
func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, checks := time.Now(), 0
		done, err := poll(t.Context(), time.Second, steadily(2*time.Second), func(context.Context) (bool, error) {
			checks++
			return false, nil
		})
		require.NoError(t, err)
		assert.False(t, done)
		assert.Equal(t, time.Second, time.Since(start), "one pause, cut short")
		assert.Equal(t, 2, checks)
	})
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		done, err := poll(t.Context(), 2500*time.Millisecond, steadily(time.Second), func(context.Context) (bool, error) { return false, nil })
		require.NoError(t, err)
		assert.False(t, done)
		assert.Equal(t, 2500*time.Millisecond, time.Since(start), "the last pause, cut short")
	})
	synctest.Test(t, func(t *testing.T) {
		start, checks := time.Now(), 0
		done, err := poll(t.Context(), time.Minute, steadily(time.Second), func(context.Context) (bool, error) {
			checks++
			return checks == 3, nil
		})
		require.NoError(t, err)
		assert.True(t, done)
		assert.Equal(t, 2*time.Second, time.Since(start))
	})
	t.Run("an error ends it", func(t *testing.T) {
		oops := errors.New("oops")
		_, err := poll(t.Context(), time.Minute, steadily(time.Second), func(context.Context) (bool, error) { return false, oops })
		require.ErrorIs(t, err, oops)
	})
}

func TestPITR(t *testing.T) {
	prepared := func(t *testing.T, delays kcltest.Delays) *world {
		w := newWorld(t, delays)
		w.create(nil)
		return w
	}
	t.Run("of an existing table, only if it is off", func(t *testing.T) {
		w := prepared(t, kcltest.NoDelays)
		for range 3 {
			_, err := w.table("a", TableConfig{PITR: true}).Prepare(t.Context())
			require.NoError(t, err)
		}
		assert.Equal(t, 1, w.aws.Count("UpdateContinuousBackups"))
		assert.Equal(t, 3, w.aws.Count("DescribeContinuousBackups"))
	})
	t.Run("without permission to look", func(t *testing.T) {
		w := prepared(t, kcltest.NoDelays)
		w.answer("DescribeContinuousBackups", func(int) *wire.Error { return denied("DescribeContinuousBackups") })
		_, err := w.table("a", TableConfig{PITR: true}).Prepare(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, w.aws.Count("UpdateContinuousBackups"))
	})
	t.Run("refused for a while after the table is ACTIVE", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, kcltest.RealDelays)
			_, err := w.table("a", TableConfig{PITR: true}).Prepare(t.Context())
			require.NoError(t, err)
			assert.Greater(t, w.aws.Count("UpdateContinuousBackups"), 1)
			on, err := w.table("other", TableConfig{}).backupsOn(t.Context())
			require.NoError(t, err)
			assert.True(t, on)
		})
	})
	t.Run("refused for good", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := prepared(t, kcltest.NoDelays)
			w.answer("UpdateContinuousBackups", func(int) *wire.Error {
				return failure("ContinuousBackupsUnavailableException", "Backups are being enabled")
			})
			_, err := w.table("a", TableConfig{PITR: true}).Prepare(t.Context())
			require.ErrorContains(t, err, "refused for 2m0s")
			require.ErrorContains(t, err, "point-in-time recovery of table app")
		})
	})
}

func TestConsumerID(t *testing.T) {
	assert.Equal(t, "KCL-ConsumerId-mNchmBJGIbgpaygQ", ConsumerID("arn:aws:dynamodb:us-east-1:123456789012:table/TestTable"))
	assert.Empty(t, ConsumerID(""))
}

func TestProvisionedOrNot(t *testing.T) {
	units := func(n int64) *types.ProvisionedThroughputDescription {
		return &types.ProvisionedThroughputDescription{ReadCapacityUnits: &n, WriteCapacityUnits: &n, NumberOfDecreasesToday: aws.Int64(1)}
	}
	want := &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(7), WriteCapacityUnits: aws.Int64(7)}
	assert.Equal(t, want, throughput(&types.TableDescription{ProvisionedThroughput: units(7)}), "no summary: always provisioned")
	assert.Equal(t, want, throughput(&types.TableDescription{
		ProvisionedThroughput: units(7), BillingModeSummary: &types.BillingModeSummary{BillingMode: types.BillingModeProvisioned},
	}))
	assert.Nil(t, throughput(&types.TableDescription{
		ProvisionedThroughput: units(0), BillingModeSummary: &types.BillingModeSummary{BillingMode: types.BillingModePayPerRequest},
	}))
	assert.Nil(t, throughput(&types.TableDescription{ProvisionedThroughput: units(0)}), "an emulator without billing modes")
	assert.Nil(t, throughput(&types.TableDescription{}))
}

// Our requests are those of a Java worker, but for one: the table is created
// with its index, because an index added later takes DynamoDB minutes. Java
// finds the index there and leaves it alone.
func TestRequestsAreJavas(t *testing.T) {
	const scenario = "reshard-and-hand-off-3.5"
	create, addIndex := interchange.Java(t, scenario, 2), interchange.Java(t, scenario, 7)
	table := NewTable(TableConfig{Table: "app5"})

	want := interchange.Parse(t, addIndex.Request)
	assert.Equal(t, want, interchange.Parse(t, interchange.Sent(t, func(c *dynamodb.Client) {
		_, err := c.UpdateTable(t.Context(), table.indexInput(&types.TableDescription{}))
		require.ErrorIs(t, err, interchange.ErrCaptured)
	})))

	added := want.Members["GlobalSecondaryIndexUpdates"].([]any)[0].(map[string]any)["Create"]
	want = interchange.Parse(t, create.Request)
	want.Members["GlobalSecondaryIndexes"] = []any{added}
	want.Members["AttributeDefinitions"] = append(want.Members["AttributeDefinitions"].([]any),
		map[string]any{"AttributeName": "leaseOwner", "AttributeType": "S"})
	assert.Equal(t, want, interchange.Parse(t, interchange.Sent(t, func(c *dynamodb.Client) {
		_, err := c.CreateTable(t.Context(), table.createInput())
		require.ErrorIs(t, err, interchange.ErrCaptured)
	})))
}
