package shardsync

import (
	"context"
	"errors"
	"log/slog"
	"strings"
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
	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/metrics"
)

// figures keeps the samples of a test.
type figures struct {
	mu sync.Mutex
	// by is samples by operation and name. Guarded by mu.
	by map[string][]float64
}

func (f *figures) Record(s metrics.Sample) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.by == nil {
		f.by = make(map[string][]float64)
	}
	k := s.Operation + " " + s.Name
	f.by[k] = append(f.by[k], s.Value)
}

func (f *figures) of(operation, name string) []float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.by[operation+" "+name]
}

// audited is an Auditor that runs in a world.
type audited struct {
	*Auditor
	w       *world
	figures *figures
	leading bool // read by Term
	created int
	done    chan error
}

func (w *world) audit(p kcl.InitialPosition, change ...func(*AuditorConfig)) *audited {
	w.t.Helper()
	a := &audited{w: w, figures: new(figures), leading: true, done: make(chan error, 1)}
	s := w.syncer("leader", p)
	s.cfg.Metrics = a.figures
	s.scope.Recorder = a.figures
	c := AuditorConfig{
		Syncer: s, Detector: w.detector("leader"), Store: w.store("leader"), Settings: s.cfg.Settings,
		Term: func(ctx context.Context) (context.Context, context.CancelFunc, bool) {
			if !a.leading {
				return nil, nil, false
			}
			ctx, cancel := context.WithCancel(ctx)
			return ctx, cancel, true
		},
		Created: func() { a.created++ },
		Logger:  slog.New(slog.NewTextHandler(w.log, nil)), Metrics: a.figures,
	}
	for _, ch := range change {
		ch(&c)
	}
	a.Auditor = NewAuditor(c)
	ctx, cancel := context.WithCancel(w.t.Context())
	go func() { a.done <- a.Run(ctx) }()
	w.t.Cleanup(cancel)
	return a
}

// offer hands over what the table holds, as the leader's scan does, and waits
// until nothing more happens.
func (a *audited) offer(term uint64) {
	a.Offer(Snapshot{Term: term, Leases: a.w.leases()})
	synctest.Wait()
}

// An application without leases is synced at once; a snapshot that is only old
// does nothing. shard-sync#31
func TestAuditorFirstSync(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a := w.audit(kcl.Latest)
		start := time.Now()
		a.Offer(Snapshot{Term: 1})
		synctest.Wait()
		assert.Len(t, w.leases(), 3)
		assert.Zero(t, time.Since(start))
		assert.Equal(t, 1, a.created)

		w.aws.ResetCalls()
		a.Offer(Snapshot{Term: 1}) // a scan from before the puts
		synctest.Wait()
		assert.Zero(t, w.aws.Count("ListShards"))
		assert.Equal(t, 1, a.created)
	})
}

// A leader that has just begun, and whose scan was from before another's puts,
// lists nothing. shard-sync#31
func TestAuditorOldSnapshot(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		_, err := w.syncer("another", kcl.Latest).Sync(t.Context())
		require.NoError(t, err)
		w.aws.ResetCalls()
		a := w.audit(kcl.Latest)
		a.Offer(Snapshot{Term: 1})
		synctest.Wait()
		assert.Zero(t, w.aws.Count("ListShards"))
		assert.Zero(t, a.created)
	})
}

// Of the snapshots that come during a look the last one counts.
func TestAuditorTakesTheLatest(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		hold := make(chan struct{})
		a := w.audit(kcl.Latest, func(c *AuditorConfig) {
			inner := c.Term
			c.Term = func(ctx context.Context) (context.Context, context.CancelFunc, bool) {
				<-hold
				return inner(ctx)
			}
		})
		whole := ranged(t, "0-M")
		a.Offer(Snapshot{Term: 1, Leases: whole})
		synctest.Wait()
		a.Offer(Snapshot{Term: 2, Leases: whole})
		a.Offer(Snapshot{Term: 3, Leases: ranged(t, "0-5")})
		close(hold)
		synctest.Wait()
		assert.Equal(t, []float64{0, 1}, a.figures.of(operationAudit, "NumStreamsWithPartialLeases"))
	})
}

// An application that had leases and has none any more is looked at now and then,
// not with every snapshot, whether its stream is back or not; that ends nobody.
func TestAuditorLooksForALostStream(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		calls := w.refuse("ListShards", 1, "ResourceNotFoundException")
		a := w.audit(kcl.Latest, func(c *AuditorConfig) { c.Fatal = func(error) bool { return true } })
		a.Offer(Snapshot{Term: 1, Leases: ranged(t, "0-M")})
		synctest.Wait()
		for range 5 * 60 {
			a.Offer(Snapshot{Term: 1})
			time.Sleep(2 * time.Second)
		}
		assert.Equal(t, int64(4), calls.Load(), "every two minutes")
		assert.Contains(t, w.log.String(), "application has no leases any more")
		w.aws.Intercept(nil)
		time.Sleep(2 * time.Minute)
		a.Offer(Snapshot{Term: 1})
		synctest.Wait()
		assert.Len(t, w.leases(), 2)
		select {
		case err := <-a.done:
			t.Fatal("ended: ", err)
		default:
		}
	})
}

// shard-sync#36: who does not lead lists nothing and reports nothing.
func TestAuditorWithoutLeadership(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a := w.audit(kcl.Latest)
		a.leading = false
		a.Offer(Snapshot{Term: 1})
		synctest.Wait()
		a.Offer(Snapshot{Term: 1, Leases: ranged(t, "0-5")})
		synctest.Wait()
		assert.Zero(t, w.aws.Count("ListShards"))
		assert.Zero(t, w.aws.Count("Scan", "leader"))
		assert.Empty(t, a.figures.by)
	})
}

// shard-sync#37,38: a hole is closed when it has been seen three times, two
// minutes apart; a new leader counts anew.
func TestAuditorClosesAHole(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		_, err := w.syncer("c", kcl.TrimHorizon).Sync(t.Context())
		require.NoError(t, err)
		// Somebody reads, and a lease has vanished.
		ls := w.leases()
		ls[0].Checkpoint = kcl.Position{SequenceNumber: "77"}
		_, ok, err := w.store("test").Checkpoint(t.Context(), ls[0])
		require.NoError(t, err)
		require.True(t, ok)
		require.NoError(t, w.store("test").Delete(t.Context(), ls[1].Key))

		a := w.audit(kcl.TrimHorizon)
		a.offer(1)
		time.Sleep(2 * time.Minute)
		a.offer(1)
		a.offer(2) // another term: the count begins anew, and looks at once
		for range 2 {
			assert.Len(t, w.leases(), 3)
			time.Sleep(2*time.Minute - time.Second)
			a.offer(2) // too early
			time.Sleep(time.Second)
			a.offer(2)
		}
		assert.Len(t, w.leases(), 4)
		assert.Equal(t, []float64{1, 1, 1, 1, 1}, a.figures.of(operationAudit, "NumStreamsWithPartialLeases")[:5])
		assert.Equal(t, []float64{0, 0, 0, 0, 1}, a.figures.of(operationAudit, "NumStreamsToSync")[:5])
		time.Sleep(2 * time.Minute)
		a.offer(2)
		got := a.figures.of(operationAudit, "NumStreamsWithPartialLeases")
		assert.Zero(t, got[len(got)-1])
	})
}

// A first sync that fails half-way is tried again at once, although what it has
// created is read meanwhile. If it fails for good, that is no reason to stop: what
// there is is consumed, and the audit sees to the rest.
func TestAuditorFirstSyncInParts(t *testing.T) {
	const throttled = "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"
	inWorld(t, 100, func(t *testing.T, w *world) {
		w.refuse("PutItem", 41, throttled)
		a := w.audit(kcl.Latest)
		a.Offer(Snapshot{Term: 1})
		synctest.Wait()
		some := w.leases()
		assert.Len(t, some, 40)
		assert.Equal(t, 1, a.created, "they can be assigned")
		some[0].Checkpoint = kcl.Position{SequenceNumber: "77"}
		_, ok, err := w.store("test").Checkpoint(t.Context(), some[0])
		require.NoError(t, err)
		require.True(t, ok)
		time.Sleep(1500 * time.Millisecond)
		w.aws.Intercept(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Len(t, w.leases(), 100)
		assert.Equal(t, 2, a.created)
	})
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.refuse("PutItem", 3, throttled)
		a := w.audit(kcl.TrimHorizon, func(c *AuditorConfig) { c.Attempts = 5 })
		a.Offer(Snapshot{Term: 1})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Len(t, w.leases(), 2)
		assert.Contains(t, w.log.String(), "first shard sync not finished")
		w.aws.Intercept(nil)
		time.Sleep(2 * time.Minute)
		a.offer(1)
		assert.Len(t, w.leases(), 4)
	})
}

// An audit that finds a sync under way counts as skipped.
func TestAuditorSkips(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		_, err := w.syncer("c", kcl.TrimHorizon).Sync(t.Context())
		require.NoError(t, err)
		require.NoError(t, w.store("test").Delete(t.Context(), w.leases()[2].Key))
		a := w.audit(kcl.TrimHorizon)
		a.cfg.Syncer.running.Lock()
		a.offer(1)
		a.cfg.Syncer.running.Unlock()
		assert.Equal(t, []float64{1}, a.figures.of(operationAudit, "NumSkippedShardSyncTask"))
		assert.Len(t, w.leases(), 3)
	})
}

// A first sync that its leader did not live to finish is finished by the next
// one at once: nobody has read from any lease yet.
func TestAuditorFinishesAFirstSync(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		_, err := w.syncer("c", kcl.TrimHorizon).Sync(t.Context())
		require.NoError(t, err)
		require.NoError(t, w.store("test").Delete(t.Context(), w.leases()[2].Key))
		a := w.audit(kcl.TrimHorizon)
		a.offer(7)
		assert.Len(t, w.leases(), 4)
		assert.Equal(t, 1, a.created)
	})
}

// shard-sync#39: missing hash ranges are filled in, in the table nothing else
// changes, and a write that fails harms nobody.
func TestAuditorFillsInHashRanges(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		_, err := w.syncer("c", kcl.TrimHorizon).Sync(t.Context())
		require.NoError(t, err)
		whole := w.items()
		d := w.dynamodb("test")
		for _, l := range w.leases() {
			_, err := d.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
				TableName: aws.String("app"), Key: map[string]types.AttributeValue{"leaseKey": &types.AttributeValueMemberS{Value: l.Key}},
				UpdateExpression: aws.String("REMOVE startingHashKey, endingHashKey"),
			})
			require.NoError(t, err)
		}
		w.refuse("UpdateItem", 2, "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException")
		a := w.audit(kcl.TrimHorizon)
		a.offer(1)
		w.aws.Intercept(nil)
		assert.Equal(t, []float64{0}, a.figures.of(operationAudit, "NumStreamsWithPartialLeases"), "both ranges are known now")
		assert.Contains(t, w.log.String(), "hash range not stored")
		assert.Equal(t, 1, w.aws.Count("ListShards", "leader"))

		time.Sleep(2 * time.Minute)
		a.offer(1)
		assert.Equal(t, whole, w.items())
		time.Sleep(2 * time.Minute)
		a.offer(1)
		assert.Equal(t, 2, w.aws.Count("ListShards", "leader"), "nothing to fill in, nothing to list")
	})
}

// What is filled in is seen by nobody else who has the snapshot; of a lease at
// SHARD_END nobody needs the range.
func TestAuditorLeavesTheSnapshot(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		_, err := w.syncer("c", kcl.TrimHorizon).Sync(t.Context())
		require.NoError(t, err)
		a := w.audit(kcl.TrimHorizon)
		whole := w.leases()
		ended := append(w.leases(), lease.Lease{Key: "shardId-000000000009", ShardID: "shardId-000000000009", Checkpoint: kcl.ShardEnd})
		a.Offer(Snapshot{Term: 1, Leases: ended})
		synctest.Wait()
		assert.Zero(t, w.aws.Count("ListShards", "leader"))

		lacking := w.leases()
		lacking[1].HashRange = kcl.HashRange{}
		a.Offer(Snapshot{Term: 2, Leases: lacking})
		synctest.Wait()
		assert.Equal(t, 1, w.aws.Count("ListShards", "leader"))
		assert.True(t, lacking[1].HashRange.IsZero())
		assert.Equal(t, whole, w.leases())
	})
}

func TestAuditorDefaults(t *testing.T) {
	got := NewAuditor(AuditorConfig{}).cfg
	assert.Equal(t, AuditorConfig{Interval: 2 * time.Minute, Confidence: 3, Attempts: 20, Backoff: time.Second}, got)
	set := AuditorConfig{Interval: 1, Confidence: 2, Attempts: 3, Backoff: 4}
	assert.Equal(t, set, NewAuditor(set).cfg)
}

// items returns the whole table by key.
func (w *world) items() map[string]map[string]types.AttributeValue {
	w.t.Helper()
	out, err := w.dynamodb("test").Scan(w.t.Context(), &dynamodb.ScanInput{TableName: aws.String("app"), ConsistentRead: aws.Bool(true)})
	require.NoError(w.t, err)
	items := make(map[string]map[string]types.AttributeValue)
	for _, i := range out.Items {
		items[i["leaseKey"].(*types.AttributeValueMemberS).Value] = i
	}
	return items
}

// shard-sync#27,41: an error or a panic in one look does not end the next ones;
// it is logged and counted.
func TestAuditorSurvives(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		_, err := w.syncer("c", kcl.TrimHorizon).Sync(t.Context())
		require.NoError(t, err)
		require.NoError(t, w.store("test").Delete(t.Context(), w.leases()[0].Key))
		looks := 0
		a := w.audit(kcl.TrimHorizon, func(c *AuditorConfig) {
			inner := c.Term
			c.Term = func(ctx context.Context) (context.Context, context.CancelFunc, bool) {
				if looks++; looks == 1 {
					panic("a bug")
				}
				return inner(ctx)
			}
		})
		a.offer(1)
		a.offer(1) // not at every snapshot
		assert.Equal(t, 1, strings.Count(w.log.String(), "audit of leases panicked"))

		time.Sleep(2 * time.Minute)
		w.refuse("ListShards", 1, "InternalFailure")
		a.offer(1)
		w.aws.Intercept(nil)
		assert.Contains(t, w.log.String(), "audit of leases failed")
		assert.Equal(t, []float64{0}, a.figures.of(operationSync, "SyncShards.Success"))
		assert.Equal(t, []float64{0}, a.figures.of(operationSync, "Success"))
		assert.Equal(t, []float64{0}, a.figures.of(operationAudit, "Success"))
		assert.Len(t, w.leases(), 1)

		time.Sleep(2 * time.Minute)
		a.offer(1)
		assert.Len(t, w.leases(), 2)
		assert.Equal(t, []float64{0, 1}, a.figures.of(operationSync, "SyncShards.Success"))
	})
}

// shard-sync#34: a stop ends a first sync at once, wherever it is.
func TestAuditorStops(t *testing.T) {
	for _, where := range []string{"listing", "pause", "puts"} {
		t.Run(where, func(t *testing.T) {
			inWorld(t, 2, func(t *testing.T, w *world) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := w.syncer("leader", kcl.Latest)
				a := NewAuditor(AuditorConfig{
					Syncer: s, Detector: s.cfg.Detector, Store: s.cfg.Store, Settings: s.cfg.Settings, Created: func() {}, Logger: s.cfg.Logger,
					Term: func(ctx context.Context) (context.Context, context.CancelFunc, bool) {
						ctx, cancel := context.WithCancel(ctx)
						return ctx, cancel, true
					},
				})
				switch where {
				case "listing":
					s.cfg.Detector = detector(hanging{})
				case "pause":
					w.refuse("ListShards", 1, "InternalFailure")
				case "puts":
					s.cfg.Store = slowPuts{s.cfg.Store}
				}
				done := make(chan error)
				go func() { done <- a.Run(ctx) }()
				a.Offer(Snapshot{Term: 1})
				synctest.Wait()
				start := time.Now()
				cancel()
				require.NoError(t, <-done)
				assert.Zero(t, time.Since(start))
			})
		})
	}
}

type slowPuts struct{ Store }

func (slowPuts) Create(ctx context.Context, _ lease.Lease) (bool, error) {
	<-ctx.Done()
	return false, ctx.Err()
}

// What ends the first sync for good: a fatal error at once, others after so many
// attempts in a row; a lost term ends it without blame.
func TestAuditorGivesUp(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		calls := w.refuse("ListShards", 1, "InternalFailure")
		a := w.audit(kcl.Latest, func(c *AuditorConfig) { c.Attempts = 5 })
		start := time.Now()
		a.Offer(Snapshot{Term: 1})
		err := <-a.done
		require.ErrorContains(t, err, "first shard sync of stream orders")
		assert.Equal(t, int64(5), calls.Load())
		assert.Equal(t, 4*time.Second, time.Since(start))
		assert.Equal(t, 1, strings.Count(w.log.String(), "level=WARN"), "what repeats is told of once")
	})
	inWorld(t, 2, func(t *testing.T, w *world) {
		calls := w.refuse("ListShards", 1, "AccessDeniedException")
		a := w.audit(kcl.Latest, func(c *AuditorConfig) {
			c.Fatal = func(err error) bool { return strings.Contains(err.Error(), "AccessDenied") }
		})
		a.Offer(Snapshot{Term: 1})
		require.Error(t, <-a.done)
		assert.Equal(t, int64(1), calls.Load())
	})
	inWorld(t, 2, func(t *testing.T, w *world) {
		over := errors.New("term is over")
		a := w.audit(kcl.Latest, func(c *AuditorConfig) {
			c.Attempts = 1
			c.Term = func(ctx context.Context) (context.Context, context.CancelFunc, bool) {
				ctx, cancel := context.WithTimeoutCause(ctx, 500*time.Millisecond, over)
				return ctx, cancel, true
			}
		})
		a.cfg.Syncer.cfg.Detector = detector(hanging{})
		a.Offer(Snapshot{Term: 1})
		time.Sleep(time.Second)
		select {
		case err := <-a.done:
			t.Fatal("ended with its term: ", err)
		default:
		}
	})
}

// shard-sync#14,61,62: leases of another stream, and items of other kinds, are not
// this stream's, although the shard ids are equal.
func TestSyncOneOfSeveralStreams(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		store := lease.NewStore(lease.StoreConfig{Client: w.dynamodb("c"), Table: "app", MultiStream: true})
		sync := func(epoch int64) Result {
			id := kcl.StreamIdentifier{AccountID: "123456789012", Name: stream, CreationEpoch: epoch}
			s := NewSyncer(SyncerConfig{
				Detector: w.detector("c"), Store: store, Settings: Settings{Stream: id, Position: kcl.AtTimestamp(time.Now())},
				Logger: slog.New(slog.DiscardHandler),
			})
			res, err := s.Sync(t.Context())
			require.NoError(t, err)
			return res
		}
		assert.Equal(t, Result{Performed: true, Initial: true, Listed: 2, Created: 2}, sync(1))
		assert.Equal(t, Result{Performed: true, Initial: true, Listed: 2, Created: 2}, sync(2), "the first stream's leases do not count")
		assert.Equal(t, Result{Performed: true, Listed: 2}, sync(1))
		all, err := store.List(t.Context())
		require.NoError(t, err)
		assert.Len(t, all, 4)
	})
}
