package consumer

import (
	"context"
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
	"github.com/go-kcl/kcl/internal/entity"
	"github.com/go-kcl/kcl/internal/interchange"
	"github.com/go-kcl/kcl/internal/retrieval"
)

// consumption#46: what was prepared and never committed reaches the next owner's
// Initialize; a checkpoint clears it.
func TestPendingCheckpointReachesTheNextOwner(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		id := w.shardID(0)
		var prepared *kcl.Prepared
		a := w.worker("a", func(ctx context.Context, b *kcl.Batch) (err error) {
			prepared, err = b.Prepare(ctx, b.Records[0].Position, []byte("state"))
			return err
		})
		a.take(id)
		w.put(0, 1)
		settle(time.Second)
		require.NotNil(t, prepared)
		assert.Equal(t, kcl.AtTrimHorizon, w.item(id).Checkpoint)
		a.stop()
		settle(time.Second)

		var in *kcl.Initialization
		b := w.worker("b", checkpointEach, initialized(&in))
		b.take(id)
		synctest.Wait()
		require.NotNil(t, in)
		assert.Equal(t, kcl.AtTrimHorizon, in.Position)
		assert.Equal(t, &kcl.PendingCheckpoint{Position: prepared.Position, State: []byte("state")}, in.Pending)
		settle(time.Second)
		l := w.item(id)
		assert.Equal(t, prepared.Position, l.Checkpoint)
		assert.Zero(t, l.Pending)
		assert.Nil(t, l.PendingState)
	})
}

// initialized keeps what the processor is initialized with.
func initialized(in **kcl.Initialization) func(*Config) {
	return func(c *Config) {
		makes := c.NewProcessor
		c.NewProcessor = func(ctx context.Context, s kcl.ShardInfo) (kcl.RecordProcessor, error) {
			p, err := makes(ctx, s)
			return &keepsInit{p, in}, err
		}
	}
}

type keepsInit struct {
	kcl.RecordProcessor
	in **kcl.Initialization
}

func (k *keepsInit) Initialize(_ context.Context, in *kcl.Initialization) error {
	*k.in = in
	return nil
}

// consumption#47: a checkpoint that the item no longer allows leaves the row as
// it is and ends the tenure; a throttled one changes nothing and may be tried
// again.
func TestCheckpointErrors(t *testing.T) {
	// begin has worker a hold the shard and a batch in hand.
	begin := func(w *world) (*worker, *kcl.Batch, string) {
		id := w.shardID(0)
		var batch *kcl.Batch
		a := w.worker("a", func(_ context.Context, b *kcl.Batch) error { batch = b; return nil })
		a.take(id)
		w.put(0, 1)
		settle(time.Second)
		require.NotNil(w.t, batch)
		return a, batch, id
	}
	gone := func(t *testing.T, w *world, a *worker, id string, err error) {
		t.Helper()
		assert.ErrorIs(t, err, kcl.ErrLeaseLost)
		assert.Equal(t, kcl.AtTrimHorizon, w.item(id).Checkpoint)
	}
	t.Run("counter changed", func(t *testing.T) {
		inWorld(t, 1, func(t *testing.T, w *world) {
			a, b, id := begin(w)
			_, done, err := w.look.Assign(t.Context(), w.item(id), "b", false)
			require.NoError(t, err)
			require.True(t, done)
			gone(t, w, a, id, b.Checkpoint(t.Context()))
			_, held := a.renewer.Get(id)
			assert.False(t, held)
			assert.Equal(t, []Result{{End: Lost}}, a.result(id))
		})
	})
	t.Run("lease not held", func(t *testing.T) {
		inWorld(t, 1, func(t *testing.T, w *world) {
			a, b, id := begin(w)
			l, _ := a.renewer.Get(id)
			a.renewer.Drop(id, l.Token)
			gone(t, w, a, id, b.Checkpoint(t.Context()))
		})
	})
	t.Run("token of an earlier tenure", func(t *testing.T) {
		inWorld(t, 1, func(t *testing.T, w *world) {
			a, b, id := begin(w)
			l, _ := a.renewer.Get(id)
			a.renewer.Drop(id, l.Token)
			a.take(id)
			gone(t, w, a, id, b.Checkpoint(t.Context()))
			_, held := a.renewer.Get(id)
			assert.True(t, held, "the later tenure goes on")
		})
	})
	t.Run("throttled", func(t *testing.T) {
		inWorld(t, 1, func(t *testing.T, w *world) {
			a, b, id := begin(w)
			before, _ := a.renewer.Get(id)
			w.aws.Intercept(func(_ context.Context, i wire.Info, _ func() wire.Answer) (wire.Answer, error) {
				e := &wire.Error{Status: 400, Type: "com.amazonaws.dynamodb.v20120810#ThrottlingException", Message: "scripted"}
				return e.Answer(wire.JSON10), nil
			})
			err := b.Checkpoint(t.Context())
			w.aws.Intercept(nil)
			assert.ErrorIs(t, err, kcl.ErrThrottled)
			after, held := a.renewer.Get(id)
			assert.True(t, held)
			assert.Equal(t, before.Checkpoint, after.Checkpoint)
			require.NoError(t, b.Checkpoint(t.Context()))
			assert.Equal(t, b.Records[0].Position, w.item(id).Checkpoint)
		})
	})
}

// consumption#48: many checkpoints and renewals at once: none is lost, and the
// lease stays held.
func TestCheckpointsBesideRenewals(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		id := w.shardID(0)
		a := w.worker("a", func(ctx context.Context, b *kcl.Batch) error {
			var wg sync.WaitGroup
			errs := make([]error, len(b.Records))
			for i, r := range b.Records {
				wg.Go(func() {
					p, err := b.Prepare(ctx, r.Position, nil)
					if err == nil {
						err = p.Commit(ctx)
					}
					errs[i] = err
				})
			}
			wg.Wait()
			for _, err := range errs {
				if err != nil {
					assert.ErrorIs(t, err, kcl.ErrInvalidPosition, "overtaken by a later one at worst")
				}
			}
			time.Sleep(700 * time.Millisecond)
			return b.Checkpoint(ctx)
		})
		a.take(id)
		for i := range 30 {
			w.put(i*5, 5)
			time.Sleep(time.Second)
		}
		settle(10 * time.Second)
		assert.Empty(t, a.result(id))
		stored := w.aws.Shards(streamName)[0].Records
		assert.Equal(t, stored[149].SequenceNumber, w.item(id).Checkpoint.SequenceNumber)
		_, held := a.renewer.Get(id)
		assert.True(t, held)
	})
}

// javaItems are leases as a Java worker left them in a table.
func javaItems(t *testing.T) map[string]map[string]types.AttributeValue {
	t.Helper()
	out := map[string]map[string]types.AttributeValue{}
	for _, it := range interchange.Items(t) {
		if it.State == "3.5-reshard-pending-and-sub-sequence-checkpoints" && entity.Of(it.Attributes) == entity.Lease {
			out[it.Attributes[entity.LeaseTableKey].(*types.AttributeValueMemberS).Value] = it.Attributes
		}
	}
	require.Len(t, out, 4)
	return out
}

// consumption#64: leases as a real Java worker left them are gone on with, and
// what is stored then has Java's form.
func TestInterchangeWithJava(t *testing.T) {
	const (
		s3  = "49680703685161970853024463487498554388694743431090536498" // checkpoints of the recording
		p3  = "49680703685161970853024463487499763314514455848080638002"
		p4  = "49680703685184271598222994110647343661885177355460149314"
		s5  = "49680703686277008112950994644599518818719551877699076178"
		new = "49680703686277008112950994644599518818719551877699079999"
	)
	pos := func(seq string, sub int64) kcl.Position {
		return kcl.Position{SequenceNumber: seq, SubSequenceNumber: sub}
	}
	for key, tc := range map[string]struct {
		position kcl.Position
		pending  *kcl.PendingCheckpoint
		first    kcl.Position // the first record delivered of those read
		read     []kcl.Position
	}{
		"shardId-000000000003": {pos(s3, 0), &kcl.PendingCheckpoint{Position: pos(p3, 2)}, pos(p3, 0), []kcl.Position{pos(s3, 0), pos(p3, 0), pos(p3, 1), pos(new, 0)}},
		"shardId-000000000004": {kcl.AtTrimHorizon, &kcl.PendingCheckpoint{Position: pos(p4, 2)}, pos(p4, 0), []kcl.Position{pos(p4, 0), pos(new, 0)}},
		"shardId-000000000005": {pos(s5, 2), nil, pos(s5, 3), []kcl.Position{pos(s5, 0), pos(s5, 1), pos(s5, 2), pos(s5, 3), pos(new, 0)}},
	} {
		t.Run(key, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				require.NoError(t, w.look.Delete(t.Context(), w.shardID(0))) // of another stream than the recording's
				client := dynamodb.NewFromConfig(w.aws.Config("java"))
				java := javaItems(t)
				for _, item := range java {
					_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(tableName), Item: item})
					require.NoError(t, err)
				}
				item := func() map[string]types.AttributeValue {
					out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{
						TableName: aws.String(tableName), ConsistentRead: aws.Bool(true),
						Key: map[string]types.AttributeValue{"leaseKey": &types.AttributeValueMemberS{Value: key}},
					})
					require.NoError(t, err)
					interchange.SortSets(out.Item)
					return out.Item
				}
				s := &feed{trace: &trace{}, batches: make(chan *retrieval.Batch, 10)}
				var in *kcl.Initialization
				var delivered []kcl.Position
				a := w.worker("go", func(ctx context.Context, b *kcl.Batch) error {
					for _, r := range b.Records {
						delivered = append(delivered, r.Position)
					}
					_, err := b.Prepare(ctx, delivered[len(delivered)-1], []byte{1, 2})
					return err
				}, initialized(&in), func(c *Config) {
					c.Open = func(_ context.Context, sh retrieval.Shard) Source { s.shard = sh; return s }
				})
				a.take(key)
				batch := &retrieval.Batch{}
				for _, p := range tc.read {
					batch.Records = append(batch.Records, kcl.Record{Position: p})
				}
				s.batches <- batch
				synctest.Wait()
				require.NotNil(t, in)
				assert.Equal(t, tc.position, in.Position)
				assert.Equal(t, tc.pending, in.Pending)
				assert.Equal(t, tc.position, s.shard.Checkpoint, "reading begins at the checkpoint's own record")
				require.NotEmpty(t, delivered)
				assert.Equal(t, tc.first, delivered[0])

				want := java[key]
				now := item()
				str := func(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }
				num := func(v string) types.AttributeValue { return &types.AttributeValueMemberN{Value: v} }
				want["leaseOwner"], want["leaseCounter"] = str("go"), now["leaseCounter"]
				want["ownerSwitchesSinceCheckpoint"] = now["ownerSwitchesSinceCheckpoint"]
				want["throughputKBps"] = now["throughputKBps"]
				want["pendingCheckpoint"], want["pendingCheckpointSubSequenceNumber"] = str(new), num("0")
				want["pendingCheckpointState"] = &types.AttributeValueMemberB{Value: []byte{1, 2}}
				assert.Equal(t, want, now, "prepared")

				end := &retrieval.Batch{End: true}
				s.batches <- end
				synctest.Wait()
				assert.Equal(t, []Result{{End: Ended}}, a.result(key))
				now = item()
				for _, name := range []string{"pendingCheckpoint", "pendingCheckpointSubSequenceNumber", "pendingCheckpointState"} {
					delete(want, name)
				}
				want["leaseCounter"], want["throughputKBps"] = now["leaseCounter"], now["throughputKBps"]
				want["checkpoint"], want["checkpointSubSequenceNumber"] = str("SHARD_END"), num("0")
				want["ownerSwitchesSinceCheckpoint"] = num("0")
				assert.Equal(t, want, now, "ended")
			})
		})
	}
	t.Run("ended by Java", func(t *testing.T) {
		inWorld(t, 1, func(t *testing.T, w *world) {
			const key = "shardId-000000000002"
			client := dynamodb.NewFromConfig(w.aws.Config("java"))
			_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(tableName), Item: javaItems(t)[key]})
			require.NoError(t, err)
			a := w.worker("go", checkpointEach)
			a.take(key)
			results := a.result(key)
			require.Len(t, results, 1)
			assert.Equal(t, Ended, results[0].End)
			assert.ElementsMatch(t, []string{"shardId-000000000003", "shardId-000000000004"}, results[0].Children)
		})
	})
}
