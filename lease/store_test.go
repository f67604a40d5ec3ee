package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/interchange"
)

// leases#14
func TestCreateTwice(t *testing.T) {
	for name, l := range map[string]Lease{"single stream": singleLease(), "multi-stream": multiLease()} {
		t.Run(name, func(t *testing.T) {
			w := newTableWorld(t, l.Stream != "")
			created, err := w.store.Create(t.Context(), l)
			require.NoError(t, err)
			assert.True(t, created)
			stored := w.item(l.Key)
			assert.Equal(t, encode(l), stored)

			other := l.Clone()
			other.Owner, other.Counter, other.Parents = "Z", 99, nil
			created, err = w.store.Create(t.Context(), other)
			require.NoError(t, err)
			assert.False(t, created)
			assert.Equal(t, stored, w.item(l.Key))
		})
	}
}

func TestGet(t *testing.T) {
	w := newTableWorld(t, false)
	w.put(singleItem())
	w.put(testItem(singleItem()).with(item{attrKey: &str{Value: "worker"}, "entityType": &str{Value: "WORKER_METRIC_STATS"}}))
	w.put(item{attrKey: &str{Value: "broken"}})
	for name, get := range map[string]func(context.Context, string) (Lease, bool, error){"Get": w.store.Get, "GetConsistent": w.store.GetConsistent} {
		t.Run(name, func(t *testing.T) {
			l, found, err := get(t.Context(), singleLease().Key)
			require.NoError(t, err)
			assert.True(t, found)
			assert.Equal(t, singleLease(), l)

			_, found, err = get(t.Context(), "nothing")
			require.NoError(t, err)
			assert.False(t, found)

			_, found, err = get(t.Context(), "worker")
			require.NoError(t, err)
			assert.False(t, found, "another kind of item")

			_, _, err = get(t.Context(), "broken")
			require.ErrorContains(t, err, `"broken"`, "unlike in a listing, an unreadable item is an error")
		})
	}
}

func TestGetReadsConsistentlyWhenConfigured(t *testing.T) {
	for _, configured := range []bool{false, true} {
		var asked []any
		s := scripted(func(_ context.Context, _ string, request map[string]any) (int, any) {
			asked = append(asked, request["ConsistentRead"])
			return 200, map[string]any{}
		}).store(StoreConfig{ConsistentReads: configured})
		_, _, err := s.Get(t.Context(), "k")
		require.NoError(t, err)
		_, _, err = s.GetConsistent(t.Context(), "k")
		require.NoError(t, err)
		if configured {
			assert.Equal(t, []any{true, true}, asked)
		} else {
			assert.Equal(t, []any{nil, true}, asked)
		}
	}
}

// leases#20
func TestMetadataTouchesOnlyItsField(t *testing.T) {
	w := newTableWorld(t, false)
	w.put(ownedItem().with(foreign()))
	before := w.item(testKey)

	require.NoError(t, w.store.SetChildren(t.Context(), testKey, []string{"c2", "c1"}))
	want := testItem(before).with(item{attrChildren: &stringSet{Value: []string{"c1", "c2"}}})
	assert.Equal(t, want, w.item(testKey))

	require.NoError(t, w.store.SetHashRange(t.Context(), testKey, hashRange("5", "10")))
	want[attrHashStart], want[attrHashEnd] = &str{Value: "5"}, &str{Value: "10"}
	assert.Equal(t, want, w.item(testKey))

	t.Run("nothing to write", func(t *testing.T) {
		calls := w.aws.Count("UpdateItem")
		require.NoError(t, w.store.SetChildren(t.Context(), testKey, nil))
		require.NoError(t, w.store.SetHashRange(t.Context(), testKey, kcl.HashRange{}))
		require.NoError(t, w.store.SetHashRange(t.Context(), testKey, hashRange("7", "7")), "Java could not read the item")
		assert.Equal(t, calls, w.aws.Count("UpdateItem"))
		assert.Equal(t, want, w.item(testKey))
	})
	t.Run("lease is gone", func(t *testing.T) {
		w.Delete(testKey)
		require.NoError(t, w.store.SetChildren(t.Context(), testKey, []string{"c"}))
		require.NoError(t, w.store.SetHashRange(t.Context(), testKey, hashRange("5", "10")))
		assert.Nil(t, w.item(testKey))
	})
}

// leases#64: what a metadata update wrote survives the renewals and checkpoints
// of an owner whose memory lacks it.
func TestMetadataSurvivesItsOwner(t *testing.T) {
	w := newTableWorld(t, false)
	w.put(ownedItem())
	l := ownedLease()
	require.NoError(t, w.store.SetChildren(t.Context(), testKey, []string{"c1", "c2"}))
	require.NoError(t, w.store.SetHashRange(t.Context(), testKey, hashRange("5", "10")))

	l, ok, err := w.store.Renew(t.Context(), l)
	require.NoError(t, err)
	require.True(t, ok)
	l.Checkpoint = kcl.Position{SequenceNumber: "101"}
	l.Children, l.HashRange = nil, kcl.HashRange{}
	_, ok, err = w.store.Checkpoint(t.Context(), l)
	require.NoError(t, err)
	require.True(t, ok)

	it := w.item(testKey)
	assert.Equal(t, &stringSet{Value: []string{"c1", "c2"}}, it[attrChildren])
	assert.Equal(t, &str{Value: "5"}, it[attrHashStart])
	assert.Equal(t, &str{Value: "10"}, it[attrHashEnd])
	assert.Equal(t, &str{Value: "101"}, it[attrCheckpoint])
}

// leases#21
func TestDelete(t *testing.T) {
	w := newTableWorld(t, false)
	w.put(ownedItem().with(nil))
	require.NoError(t, w.store.Delete(t.Context(), testKey))
	assert.Nil(t, w.item(testKey))
	require.NoError(t, w.store.Delete(t.Context(), testKey), "missing")
}

func TestDeleteIf(t *testing.T) {
	ended := ownedLease()
	ended.Checkpoint = kcl.ShardEnd
	endedItem := testItem(ownedItem().with(item{attrCheckpoint: &str{Value: "SHARD_END"}, attrCheckpointSub: &number{Value: "0"}}))
	for _, tc := range []struct {
		name  string
		state item // nil: gone
		lease Lease
		cond  DeleteCondition
		gone  bool
	}{
		{"as read", ownedItem().with(nil), ownedLease(), IfCounter | IfCheckpoint, true},
		{"renewed meanwhile", ownedItem().with(item{attrCounter: &number{Value: "6"}}), ownedLease(), IfCounter, false},
		{"renewed meanwhile, not asked", ownedItem().with(item{attrCounter: &number{Value: "6"}}), ownedLease(), IfCheckpoint, true},
		{"checkpointed meanwhile", ownedItem().with(item{attrCheckpoint: &str{Value: "101"}}), ownedLease(), IfCheckpoint, false},
		{"within the same aggregate", ownedItem().with(item{attrCheckpointSub: &number{Value: "4"}}), ownedLease(), IfCheckpoint, false},
		{"ended", endedItem, ended, IfCheckpoint, true},
		{"ended, without a sub-sequence number", endedItem.with(item{attrCheckpointSub: nil}), ended, IfCheckpoint, true},
		{"ended when read, not now", ownedItem().with(nil), ended, IfCheckpoint, false},
		{"gone already", nil, ownedLease(), IfCounter | IfCheckpoint, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newTableWorld(t, false)
			w.put(tc.state)
			gone, err := w.store.DeleteIf(t.Context(), tc.lease, tc.cond)
			require.NoError(t, err)
			assert.Equal(t, tc.gone, gone)
			if tc.gone {
				assert.Nil(t, w.item(testKey))
			} else {
				assert.Equal(t, tc.state, w.item(testKey))
			}
		})
	}
	_, err := newTableWorld(t, false).store.DeleteIf(t.Context(), ownedLease(), 0)
	require.Error(t, err, "no condition at all is a mistake of the caller")
}

// everyCall makes each call of a store once.
var everyCall = map[string]func(context.Context, *Store) error{
	"Create":        func(ctx context.Context, s *Store) error { _, err := s.Create(ctx, ownedLease()); return err },
	"Get":           func(ctx context.Context, s *Store) error { _, _, err := s.Get(ctx, "k"); return err },
	"GetConsistent": func(ctx context.Context, s *Store) error { _, _, err := s.GetConsistent(ctx, "k"); return err },
	"Renew":         func(ctx context.Context, s *Store) error { _, _, err := s.Renew(ctx, ownedLease()); return err },
	"Assign": func(ctx context.Context, s *Store) error {
		_, _, err := s.Assign(ctx, ownedLease(), "B", true)
		return err
	},
	"StartHandOff": func(ctx context.Context, s *Store) error {
		_, _, err := s.StartHandOff(ctx, ownedLease(), "B")
		return err
	},
	"Evict":        func(ctx context.Context, s *Store) error { _, _, err := s.Evict(ctx, ownedLease()); return err },
	"Checkpoint":   func(ctx context.Context, s *Store) error { _, _, err := s.Checkpoint(ctx, ownedLease()); return err },
	"SetChildren":  func(ctx context.Context, s *Store) error { return s.SetChildren(ctx, "k", []string{"c"}) },
	"SetHashRange": func(ctx context.Context, s *Store) error { return s.SetHashRange(ctx, "k", hashRange("0", "1")) },
	"Delete":       func(ctx context.Context, s *Store) error { return s.Delete(ctx, "k") },
	"DeleteIf": func(ctx context.Context, s *Store) error {
		_, err := s.DeleteIf(ctx, ownedLease(), IfCounter)
		return err
	},
	"List":        func(ctx context.Context, s *Store) error { _, err := s.List(ctx); return err },
	"ListStream":  func(ctx context.Context, s *Store) error { _, err := s.ListStream(ctx, "1:s:1"); return err },
	"Empty":       func(ctx context.Context, s *Store) error { _, err := s.Empty(ctx, false); return err },
	"Scan":        func(ctx context.Context, s *Store) error { _, err := s.Scan(ctx); return err },
	"KeysOwnedBy": func(ctx context.Context, s *Store) error { _, err := s.KeysOwnedBy(ctx, "A"); return err },
}

// leases#39: throttled is Throttled, of every call, whatever DynamoDB calls it.
func TestErrorClasses(t *testing.T) {
	for code, class := range map[string]error{
		"ProvisionedThroughputExceededException": kcl.ErrThrottled,
		"ThrottlingException":                    kcl.ErrThrottled,
		"RequestLimitExceeded":                   kcl.ErrThrottled,
		"ResourceNotFoundException":              kcl.ErrInvalidState,
		"InternalServerError":                    kcl.ErrDependency,
		"AccessDeniedException":                  kcl.ErrDependency,
		"ValidationException":                    kcl.ErrDependency,
	} {
		s := scripted(func(context.Context, string, map[string]any) (int, any) {
			return 400, awsError(code, "no")
		}).store(StoreConfig{Segments: 3})
		for name, call := range everyCall {
			err := call(t.Context(), s)
			require.ErrorIs(t, err, class, "%s, %s", name, code)
			assert.ErrorContains(t, err, testTable, "%s names the table", name)
			assert.ErrorContains(t, err, code, "%s keeps the answer", name)
			for _, other := range []error{kcl.ErrThrottled, kcl.ErrInvalidState, kcl.ErrDependency} {
				assert.Equal(t, other == class, errors.Is(err, other), "%s, %s: one class", name, code)
			}
		}
	}
}

// A failure without an answer of the service is a Dependency too.
func TestBrokenConnection(t *testing.T) {
	for name, call := range everyCall {
		interchange.Sent(t, func(c *dynamodb.Client) {
			err := call(t.Context(), NewStore(StoreConfig{Client: c, Table: testTable, Segments: 1}))
			require.ErrorIs(t, err, kcl.ErrDependency, name)
			require.ErrorIs(t, err, interchange.ErrCaptured, name)
		})
	}
}

func TestRequestTimeout(t *testing.T) {
	for name, call := range everyCall {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hangs := scripted(func(ctx context.Context, _ string, _ map[string]any) (int, any) {
					<-ctx.Done()
					return 0, nil
				})
				start := time.Now()
				err := call(t.Context(), hangs.store(StoreConfig{Segments: 2}))
				assert.Equal(t, 60*time.Second, time.Since(start), "the default")
				require.ErrorIs(t, err, kcl.ErrDependency)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.ErrorContains(t, err, "no answer within 1m0s")

				start = time.Now()
				err = call(t.Context(), hangs.store(StoreConfig{Segments: 2, RequestTimeout: time.Second}))
				assert.Equal(t, time.Second, time.Since(start))
				require.ErrorIs(t, err, context.DeadlineExceeded)

				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				defer cancel()
				err = call(ctx, hangs.store(StoreConfig{Segments: 2}))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.NotContains(t, err.Error(), "no answer within", "the caller's own deadline")
			})
		})
	}
}
