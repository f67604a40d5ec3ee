package shardsync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	ktypes "github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/ddb"
	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/lease"
)

// world is a stream and a lease table in a bubble.
type world struct {
	t   *testing.T
	aws *kcltest.AWS
	log *strings.Builder
}

const stream = "orders"

func inWorld(t *testing.T, shards int, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, aws: kcltest.New(kcltest.Options{Delays: kcltest.NoDelays, NoThrottling: true}), log: new(strings.Builder)}
		if shards > 0 {
			require.NoError(t, w.aws.CreateStream(stream, shards))
		}
		_, err := ddb.NewTable(ddb.TableConfig{Client: w.dynamodb("setup"), Table: "app", BillingMode: types.BillingModePayPerRequest}).Prepare(t.Context())
		require.NoError(t, err)
		f(t, w)
	})
}

func (w *world) dynamodb(client string) *dynamodb.Client {
	return dynamodb.NewFromConfig(w.aws.Config(client), func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
}

func (w *world) kinesis(client string) *kinesis.Client {
	return kinesis.NewFromConfig(w.aws.Config(client), func(o *kinesis.Options) { o.Retryer = aws.NopRetryer{} })
}

func (w *world) store(client string) *lease.Store {
	return lease.NewStore(lease.StoreConfig{Client: w.dynamodb(client), Table: "app"})
}

func (w *world) detector(client string) *Detector {
	return NewDetector(DetectorConfig{Client: w.kinesis(client), Stream: kcl.StreamIdentifier{Name: stream}, Logger: slog.New(slog.NewTextHandler(w.log, nil))})
}

func (w *world) syncer(client string, p kcl.InitialPosition) *Syncer {
	return NewSyncer(SyncerConfig{
		Detector: w.detector(client), Store: w.store(client),
		Settings: Settings{Stream: kcl.StreamIdentifier{Name: stream}, Position: p},
		Logger:   slog.New(slog.NewTextHandler(w.log, nil)),
	})
}

func (w *world) leases() []lease.Lease {
	w.t.Helper()
	ls, err := w.store("test").List(context.Background())
	require.NoError(w.t, err)
	return ls
}

func (w *world) split(shard, at string) {
	w.t.Helper()
	_, err := w.kinesis("test").SplitShard(w.t.Context(), &kinesis.SplitShardInput{
		StreamName: aws.String(stream), ShardToSplit: aws.String(shard), NewStartingHashKey: aws.String(at),
	})
	require.NoError(w.t, err)
	time.Sleep(3 * time.Second)
}

// refuse makes the operation fail with a code from its n-th call on.
func (w *world) refuse(operation string, from int, code string) (calls *atomic.Int64) {
	calls = new(atomic.Int64)
	w.aws.Intercept(func(ctx context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
		if i.Operation == operation && int(calls.Add(1)) >= from {
			codec := wire.JSON11
			if i.Service == "dynamodb" {
				codec = wire.JSON10
			}
			return (&wire.Error{Status: 400, Type: code, Message: "scripted"}).Answer(codec), nil
		}
		return run(), nil
	})
	return calls
}

// shard-sync#16: an application without leases lists with the filter that its
// position calls for, one with leases lists everything.
func TestSyncFilters(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		time.Sleep(time.Minute)
		before := time.Now()
		time.Sleep(time.Minute)
		w.split("shardId-000000000000", "100")
		time.Sleep(time.Minute)
		cases := []struct {
			p    kcl.InitialPosition
			want string
		}{
			{kcl.TrimHorizon, "shardId-000000000000"},
			{kcl.Latest, "shardId-000000000001 shardId-000000000002"},
			{kcl.AtTimestamp(before), "shardId-000000000000"},
			{kcl.AtTimestamp(time.Now()), "shardId-000000000001 shardId-000000000002"},
		}
		for _, c := range cases {
			res, err := w.syncer("c", c.p).Sync(t.Context())
			require.NoError(t, err)
			var got []string
			for _, l := range w.leases() {
				got = append(got, l.ShardID)
				assert.Equal(t, c.p.Sentinel(), l.Checkpoint)
				require.NoError(t, w.store("test").Delete(t.Context(), l.Key))
			}
			assert.ElementsMatch(t, strings.Fields(c.want), got, c.p.String())
			assert.Equal(t, Result{Performed: true, Initial: true, Listed: len(got), Created: len(got)}, res)
		}

		created, err := w.store("test").Create(t.Context(), lease.Lease{Key: "shardId-000000000001", ShardID: "shardId-000000000001", Checkpoint: kcl.AtLatest})
		require.NoError(t, err)
		require.True(t, created)
		res, err := w.syncer("c", kcl.Latest).Sync(t.Context())
		require.NoError(t, err)
		assert.Equal(t, Result{Performed: true, Listed: 3, Created: 1}, res)
	})
}

// shard-sync#17: shards that leave holes are listed three times, a second apart,
// before the sync fails; it succeeds if a later listing is whole.
func TestSyncIncomplete(t *testing.T) {
	ranged := func(ranges ...string) *kinesis.ListShardsOutput {
		out := new(kinesis.ListShardsOutput)
		for i, r := range ranges {
			from, to, _ := strings.Cut(r, "-")
			if to == "M" {
				to = kcl.MaxHashKey.String()
			}
			out.Shards = append(out.Shards, ktypes.Shard{
				ShardId:             aws.String(shardName(i)),
				HashKeyRange:        &ktypes.HashKeyRange{StartingHashKey: aws.String(from), EndingHashKey: aws.String(to)},
				SequenceNumberRange: &ktypes.SequenceNumberRange{StartingSequenceNumber: aws.String("1")},
			})
		}
		return out
	}
	cases := []struct {
		name     string
		answers  []*kinesis.ListShardsOutput
		listings int
		leases   int
	}{
		{"never whole", []*kinesis.ListShardsOutput{ranged("0-1", "2-3")}, 3, 0},
		{"whole at the third", []*kinesis.ListShardsOutput{ranged("0-69", "71-M"), ranged("0-69", "71-M"), ranged("0-420", "421-M")}, 3, 2},
		{"whole at once", []*kinesis.ListShardsOutput{ranged("0-420", "421-M")}, 1, 2},
		{"overlap", []*kinesis.ListShardsOutput{ranged("0-500", "400-M")}, 3, 0},
		{"nothing", []*kinesis.ListShardsOutput{ranged()}, 3, 0},
		{"the same range twice", []*kinesis.ListShardsOutput{ranged("0-M", "0-M")}, 3, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				client := &script{list: func(n int, _ *kinesis.ListShardsInput) (*kinesis.ListShardsOutput, error) {
					return c.answers[min(n, len(c.answers))-1], nil
				}}
				s := w.syncer("c", kcl.Latest)
				s.cfg.Detector = detector(client)
				_, err := s.Sync(t.Context())
				if c.leases == 0 {
					require.ErrorIs(t, err, ErrIncomplete)
				} else {
					require.NoError(t, err)
				}
				assert.Len(t, client.calls, c.listings)
				for i := 1; i < len(client.at); i++ {
					assert.Equal(t, time.Second, client.at[i].Sub(client.at[i-1]))
				}
				assert.Len(t, w.leases(), c.leases)
			})
		})
	}
}

// A timestamp from before the horizon, or within the second between a parent and
// its children, or one that the service refuses, begins at the horizon.
func TestSyncTimestampWithoutShards(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		s := w.syncer("c", kcl.AtTimestamp(time.Now().Add(-time.Hour)))
		res, err := s.Sync(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 2, res.Created)
		for _, l := range w.leases() {
			assert.Equal(t, kcl.AtTimestampSentinel, l.Checkpoint)
		}
	})
	inWorld(t, 2, func(t *testing.T, w *world) {
		s := w.syncer("c", kcl.AtTimestamp(time.Now()))
		real := s.cfg.Detector.cfg.Client
		s.cfg.Detector = detector(&script{list: func(_ int, in *kinesis.ListShardsInput) (*kinesis.ListShardsOutput, error) {
			if in.ShardFilter.Type == ktypes.ShardFilterTypeAtTimestamp {
				return nil, &ktypes.InvalidArgumentException{Message: aws.String("too old")}
			}
			in.StreamARN = nil
			in.StreamName = aws.String(stream)
			return real.ListShards(t.Context(), in)
		}})
		res, err := s.Sync(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 2, res.Created)
	})
	inWorld(t, 2, func(t *testing.T, w *world) {
		s := w.syncer("c", kcl.AtTimestamp(time.Now()))
		s.cfg.Detector = detector(&script{list: func(_ int, in *kinesis.ListShardsInput) (*kinesis.ListShardsOutput, error) {
			if in.ShardFilter.Type == ktypes.ShardFilterTypeAtTimestamp {
				return nil, &ktypes.InvalidArgumentException{Message: aws.String("too old")}
			}
			return page("", "a"), nil
		}})
		_, err := s.Sync(t.Context())
		require.ErrorIs(t, err, ErrIncomplete, "the horizon's shards may leave no hole")
		assert.Empty(t, w.leases())
	})
}

// shard-sync#18: a listing from before and after a reshard fails before the
// leases are read.
func TestSyncInconsistentListing(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		_, err := w.store("test").Create(t.Context(), lease.Lease{Key: "shardId-000000000000", ShardID: "shardId-000000000000", Checkpoint: kcl.AtLatest})
		require.NoError(t, err)
		out := page("", "shardId-000000000000", "shardId-000000000001")
		out.Shards[1].ParentShardId = aws.String("shardId-000000000000")
		s := w.syncer("c", kcl.Latest)
		s.cfg.Detector = detector(&script{list: func(int, *kinesis.ListShardsInput) (*kinesis.ListShardsOutput, error) { return out, nil }})
		w.aws.ResetCalls()
		_, err = s.Sync(t.Context())
		require.ErrorIs(t, err, ErrInconsistent)
		assert.Equal(t, 1, w.aws.Count("Scan", "c"), "only the look whether there are leases")
	})
}

// shard-sync#19: leases that cannot be read end the sync without a put; the next
// sync creates all.
func TestSyncCannotReadLeases(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		_, err := w.store("test").Create(t.Context(), lease.Lease{Key: "shardId-000000000000", ShardID: "shardId-000000000000", Checkpoint: kcl.AtLatest})
		require.NoError(t, err)
		w.aws.ResetCalls()
		w.refuse("Scan", 2, "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException")
		_, err = w.syncer("c", kcl.Latest).Sync(t.Context())
		require.ErrorIs(t, err, kcl.ErrThrottled)
		assert.Zero(t, w.aws.Count("PutItem", "c"))

		w.aws.Intercept(nil)
		res, err := w.syncer("c", kcl.Latest).Sync(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 2, res.Created)
	})
}

// shard-sync#20: after a put has failed no further ones begin than were under
// way; the next sync creates the rest, and no row is ever deleted.
func TestSyncPutFails(t *testing.T) {
	inWorld(t, 100, func(t *testing.T, w *world) {
		calls := w.refuse("PutItem", 1, "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException")
		_, err := w.syncer("c", kcl.Latest).Sync(t.Context())
		require.ErrorIs(t, err, kcl.ErrThrottled)
		assert.LessOrEqual(t, calls.Load(), int64(parallelPuts))
		w.aws.Intercept(nil)

		w.refuse("PutItem", 41, "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException")
		_, err = w.syncer("c", kcl.Latest).Sync(t.Context())
		require.Error(t, err)
		some := len(w.leases())
		assert.Equal(t, 40, some)
		w.aws.Intercept(nil)

		res, err := w.syncer("c", kcl.Latest).Sync(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 100-some, res.Created)
		assert.Len(t, w.leases(), 100)
		assert.Zero(t, w.aws.Count("DeleteItem"))
	})
}

// A sync whose context ends between two generations of shards is not taken for a
// whole one, though every put that was made has succeeded.
func TestSyncEndsBetweenPuts(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		_, err := w.kinesis("test").MergeShards(t.Context(), &kinesis.MergeShardsInput{
			StreamName: aws.String(stream), ShardToMerge: aws.String("shardId-000000000000"), AdjacentShardToMerge: aws.String("shardId-000000000001"),
		})
		require.NoError(t, err)
		time.Sleep(3 * time.Second)
		// The merge's child and its other parent are missing.
		_, err = w.store("test").Create(t.Context(), lease.Lease{Key: "shardId-000000000000", ShardID: "shardId-000000000000", Checkpoint: kcl.ShardEnd})
		require.NoError(t, err)
		ctx, cancel := context.WithCancelCause(t.Context())
		over := errors.New("term is over")
		s := w.syncer("c", kcl.TrimHorizon)
		s.cfg.Store = &endingStore{Store: s.cfg.Store, end: func() { cancel(over) }}
		res, err := s.Sync(ctx)
		require.ErrorIs(t, err, over)
		assert.Equal(t, 1, res.Created)
		assert.Len(t, w.leases(), 2)
	})
}

// endingStore calls end with a put, which it finishes.
type endingStore struct {
	Store
	end func()
}

func (s *endingStore) Create(ctx context.Context, l lease.Lease) (bool, error) {
	s.end()
	return s.Store.Create(context.WithoutCancel(ctx), l)
}

// shard-sync#21,22: two syncs at once create each row once, and what exists
// stays as it is.
func TestSyncRaces(t *testing.T) {
	inWorld(t, 50, func(t *testing.T, w *world) {
		had := lease.Lease{Key: "shardId-000000000007", ShardID: "shardId-000000000007", Checkpoint: kcl.Position{SequenceNumber: "77"}, Counter: 5}
		store := w.store("test")
		slow := make(chan struct{})
		// The first listing waits until a row exists that it did not know of.
		var listed atomic.Bool
		w.aws.Intercept(func(ctx context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
			ans := run()
			if i.Operation == "ListShards" && !listed.Swap(true) {
				<-slow
			}
			return ans, nil
		})
		var (
			wg      sync.WaitGroup
			created atomic.Int64
		)
		for n := range 2 {
			wg.Go(func() {
				res, err := w.syncer(fmt.Sprint("c", n), kcl.Latest).Sync(t.Context())
				assert.NoError(t, err)
				created.Add(int64(res.Created))
			})
		}
		synctest.Wait()
		_, err := store.Create(t.Context(), had)
		require.NoError(t, err)
		close(slow)
		wg.Wait()
		assert.Len(t, w.leases(), 50)
		assert.LessOrEqual(t, created.Load(), int64(50))
		for _, l := range w.leases() {
			if l.Key == had.Key && l.Checkpoint == had.Checkpoint {
				assert.Equal(t, int64(5), l.Counter)
			}
		}
	})
}

// shard-sync#23,4: a stream that is being created is an error that may pass, with
// leases and without.
func TestSyncStreamNotActive(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		_, err := w.store("test").Create(t.Context(), lease.Lease{Key: "shardId-000000000000", ShardID: "shardId-000000000000", Checkpoint: kcl.AtLatest})
		require.NoError(t, err)
		s := w.syncer("c", kcl.Latest)
		s.cfg.Detector = detector(&script{list: func(int, *kinesis.ListShardsInput) (*kinesis.ListShardsOutput, error) {
			return nil, &ktypes.ResourceInUseException{}
		}})
		_, err = s.Sync(t.Context())
		require.ErrorIs(t, err, ErrStreamNotActive)
	})
}

// shard-sync#13,5: a stream that is gone while leases exist is no error, and
// nothing is written; without leases it is one.
func TestSyncStreamGone(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		_, err := w.syncer("c", kcl.Latest).Sync(t.Context())
		require.ErrorIs(t, err, ErrStreamNotFound)

		_, err = w.store("test").Create(t.Context(), lease.Lease{Key: "shardId-000000000000", ShardID: "shardId-000000000000", Checkpoint: kcl.AtLatest})
		require.NoError(t, err)
		w.aws.ResetCalls()
		res, err := w.syncer("c", kcl.Latest).Sync(t.Context())
		require.NoError(t, err)
		assert.Equal(t, Result{}, res)
		assert.Zero(t, w.aws.Count("PutItem"))
		assert.Contains(t, w.log.String(), "stream is gone")

		s := w.syncer("c", kcl.Latest)
		s.cfg.Detector = detector(&script{list: func(int, *kinesis.ListShardsInput) (*kinesis.ListShardsOutput, error) { return page(""), nil }})
		res, err = s.Sync(t.Context())
		require.NoError(t, err)
		assert.Equal(t, Result{}, res, "nor is one that shows no shards")
	})
}

// Whether there are leases is asked of the table as it is, not as it was.
func TestSyncLooksConsistently(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.aws.SetLag(time.Minute, 0)
		_, err := w.store("test").Create(t.Context(), lease.Lease{Key: "shardId-000000000000", ShardID: "shardId-000000000000", Checkpoint: kcl.AtLatest})
		require.NoError(t, err)
		res, err := w.syncer("c", kcl.Latest).Sync(t.Context())
		require.NoError(t, err)
		assert.False(t, res.Initial)
	})
}

// shard-sync#26: a second sync while one runs is refused; after it, whatever its
// end, the next one runs.
func TestSyncOneAtATime(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		s := w.syncer("c", kcl.Latest)
		hold := make(chan struct{})
		w.aws.Intercept(func(ctx context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
			if i.Operation == "ListShards" {
				<-hold
				return wire.Answer{}, fmt.Errorf("broken")
			}
			return run(), nil
		})
		first := make(chan error)
		go func() { _, err := s.Sync(t.Context()); first <- err }()
		synctest.Wait()
		res, err := s.Sync(t.Context())
		require.NoError(t, err)
		assert.True(t, res.Busy)
		close(hold)
		require.Error(t, <-first)
		assert.Equal(t, 1, w.aws.Count("ListShards"))

		w.aws.Intercept(nil)
		res, err = s.Sync(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 4, res.Created)
	})
}

// shard-sync#32: items of other kinds are no leases, over several pages of a
// scan.
func TestSyncTableWithoutLeases(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		d := w.dynamodb("test")
		pad := strings.Repeat("x", 300_000)
		for i, kind := range []string{"LEADER", "STREAM", "WORKER_METRIC_STATS", "CLIENT_VERSION_MIGRATION", "TABLE_MIGRATION", "LATER"} {
			_, err := d.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("app"), Item: map[string]types.AttributeValue{
				"leaseKey": &types.AttributeValueMemberS{Value: fmt.Sprint("other", i)}, "entityType": &types.AttributeValueMemberS{Value: kind},
				"pad": &types.AttributeValueMemberS{Value: pad},
			}})
			require.NoError(t, err)
		}
		res, err := w.syncer("c", kcl.Latest).Sync(t.Context())
		require.NoError(t, err)
		assert.True(t, res.Initial)
		assert.Equal(t, 2, res.Created)
	})
}
