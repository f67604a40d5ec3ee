package lease

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/ddb"
	"github.com/go-kcl/kcl/kcltest"
)

// discover runs the peer's discovery. The returned function ends it.
func (p *peer) discover() (stop func()) {
	ctx, cancel := context.WithCancel(p.w.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { p.finder.Run(ctx) })
	return func() { cancel(); wg.Wait() }
}

// leases#45
func TestDiscoveryTakesUpWhatIsAssigned(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"), lease("s2", "a"))
		a := w.peer("a").hold()
		require.Equal(t, []string{"s1", "s2"}, a.keys())
		w.create(lease("s3", "a"), lease("s4", "a"))
		reads := a.line.count("GetItem", "")
		found, err := a.finder.Discover(t.Context())
		require.NoError(t, err)
		assert.Equal(t, Discovery{Acquired: 2}, found)
		assert.Equal(t, []string{"s1", "s2", "s3", "s4"}, a.keys())
		assert.Equal(t, 2, a.line.count("GetItem", "")-reads, "what is held is not read")
		got, _ := a.metrics.get("LeaseDiscovery NewLeasesDiscovered")
		assert.Equal(t, 2.0, got)
	})
	t.Run("and skips what is not ours, or not yet", func(t *testing.T) {
		inWorld(t, kcltest.Options{IndexLag: time.Minute}, func(t *testing.T, w *world) {
			w.create(lease("gone", "a"), lease("moved", "a"), lease("pending", "b"), lease("unread", "a"), lease("fine", "a"))
			w.startHandOff("pending", "a")
			time.Sleep(2 * time.Minute) // the index has caught up
			a := w.peer("a")
			w.assign("moved", "b")
			require.NoError(t, w.look.Delete(t.Context(), "gone"))
			a.line.fail(1, "GetItem", "unread", throttled)

			found, err := a.finder.Discover(t.Context())
			require.NoError(t, err)
			assert.Equal(t, Discovery{Acquired: 1, Waiting: []string{"pending"}}, found)
			assert.Equal(t, []string{"fine"}, a.keys())
			for name, want := range map[string]float64{
				"OwnerMismatch": 1, "GetLease:Error": 1, "NewLeasesDiscovered": 1, "Success": 1, "Time": 0,
				"ListLeaseKeysForWorker.Time": 0, "FetchNewLeases.Time": 0,
			} {
				got, found := a.metrics.get("LeaseDiscovery " + name)
				assert.True(t, found, name)
				assert.Equal(t, want, got, name)
			}
			found, err = a.finder.Discover(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 1, found.Acquired, "the failed read is repeated")
		})
	})
	t.Run("over all pages of the index", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			const n = 1100 // at 1000 bytes a key, more than one page of 1 MB
			for i := range n {
				w.create(lease(fmt.Sprintf("%01000d", i), "a"))
			}
			a := w.peer("a").hold()
			assert.Len(t, a.Held(), n)
			assert.Greater(t, a.line.count("Query", ""), 1)
		})
	})
	t.Run("failing the pass when the query fails", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			a := w.peer("a")
			a.line.fail(1, "Query", "", broken)
			_, err := a.finder.Discover(t.Context())
			require.Error(t, err)
			got, _ := a.metrics.get("LeaseDiscovery Success")
			assert.Zero(t, got)
		})
	})
}

// A call that gets no answer holds up neither the other leases nor the next pass
// for long.
func TestDiscoveryOutlivesAHangingCall(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"), lease("s2", "a"))
		a := w.peer("a")
		a.line.fail(1, "GetItem", "s1", hanging)
		defer a.discover()()
		defer a.run()()
		time.Sleep(time.Second)
		assert.Equal(t, []string{"s2"}, a.keys())
		time.Sleep(defaultFailoverTime + discoverySlow)
		assert.Equal(t, []string{"s1", "s2"}, a.keys())

		a.line.fail(1, "Query", "", hanging)
		time.Sleep(discoverySlow)
		w.create(lease("s3", "a"))
		time.Sleep(defaultFailoverTime + discoverySlow)
		assert.Equal(t, []string{"s1", "s2", "s3"}, a.keys())
	})
}

// leases#66, and the pace after that: every second as long as there is nothing,
// for a minute, then every two.
func TestDiscoveryBeginsAtOnce(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		a := w.peer("a")
		defer a.discover()()
		synctest.Wait()
		require.Equal(t, 1, a.line.count("Query", ""))
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 61, a.line.count("Query", ""))
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 91, a.line.count("Query", ""))
	})
	t.Run("a lease slows it down", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a")
			defer a.run()()
			defer a.discover()()
			synctest.Wait()
			require.True(t, a.holds("s1"))
			time.Sleep(20 * time.Second)
			synctest.Wait()
			assert.Equal(t, 11, a.line.count("Query", ""))
		})
	})
}

// A pass reads consistently: with reads and index lagging by seconds, the
// renewal that follows meets the counter that was read.
func TestDiscoveryReadsConsistently(t *testing.T) {
	inWorld(t, kcltest.Options{StaleReads: 5 * time.Second}, func(t *testing.T, w *world) {
		w.create(lease("s1", "b"))
		time.Sleep(10 * time.Second)
		w.assign("s1", "a")
		a := w.peer("a").hold()
		assert.Equal(t, []string{"acquired s1"}, a.heard())
		assert.EqualValues(t, 2, w.item("s1").Counter, "renewed at discovery")
	})
}

func TestPokeBringsALeaseBeforeTheIndexDoes(t *testing.T) {
	inWorld(t, kcltest.Options{IndexLag: time.Hour}, func(t *testing.T, w *world) {
		w.create(lease("s1", ""), lease("s2", ""))
		a := w.peer("a")
		defer a.discover()()
		time.Sleep(100 * time.Millisecond)
		w.assign("s1", "a")
		a.finder.Poke("s1", "s2", "unknown")
		synctest.Wait()
		assert.Equal(t, []string{"s1"}, a.keys())
		assert.Equal(t, 1, a.line.count("Query", ""), "the index is not asked")

		a.finder.Poke()
		synctest.Wait()
		assert.Equal(t, 2, a.line.count("Query", ""))
	})
	t.Run("too many at a time ask the index", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a")
			a.finder.Poke(make([]string, maxPoked+1)...)
			keys, all := a.finder.takePoked()
			assert.Empty(t, keys)
			assert.True(t, all)
		})
	})
}

// What is lost while a pass is under way is not taken up again on the strength
// of what the pass had read before.
func TestLeaseLostDuringAPassStaysLost(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"))
		a := w.peer("a").hold()
		old, _ := a.Get("s1")
		a.Drop("s1", old.Token)

		// The pass reads the lease; before it renews it, the lease is taken up and
		// dropped by somebody else.
		var once sync.Once
		a.line.fail(-1, "UpdateItem", "s1", func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			once.Do(func() {
				l := old
				l.Moved = time.Now()
				held, ok := a.Renewer.hold(l, anyLoss)
				require.True(t, ok)
				a.Drop("s1", held.Token)
			})
			return send()
		})
		found, err := a.finder.Discover(t.Context())
		require.NoError(t, err)
		assert.Zero(t, found.Acquired)
		assert.Empty(t, a.Held())

		found, err = a.finder.Discover(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, found.Acquired, "the next pass knows better")
		assert.Empty(t, a.lostSeen)
	})
}

func TestIndexThatIsNotReadyIsNothingYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, aws: kcltest.New(kcltest.Options{Delays: kcltest.RealDelays})}
		client := dynamodb.NewFromConfig(w.aws.Config("observer"))
		name, key := "app", attrKey
		_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: &name, BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: &key, AttributeType: types.ScalarAttributeTypeS}},
			KeySchema:            []types.KeySchemaElement{{AttributeName: &key, KeyType: types.KeyTypeHash}},
		})
		require.NoError(t, err)
		table := ddb.NewTable(ddb.TableConfig{Client: client, Table: name})
		_, err = table.Prepare(t.Context())
		require.NoError(t, err)
		w.look = NewStore(StoreConfig{Client: client, Table: name})
		w.create(lease("s1", "a"))

		a := w.peer("a")
		found, err := a.finder.Discover(t.Context())
		require.NoError(t, err)
		require.Equal(t, Discovery{}, found)

		require.NoError(t, table.PrepareIndex(t.Context()))
		_, err = a.finder.Discover(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{"s1"}, a.keys())
	})
}

// While a worker drains, what is still assigned to it goes back at once.
func TestDrainingWorkerGivesArrivalsBack(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(lease("s1", "a"), lease("pending", "b"))
		a := w.peer("a").hold()
		a.Drain(true)
		w.create(lease("s2", "a"))
		w.startHandOff("pending", "a")
		found, err := a.finder.Discover(t.Context())
		require.NoError(t, err)
		assert.Equal(t, Discovery{Released: 1, Waiting: []string{"pending"}}, found)
		assert.Equal(t, []string{"s1"}, a.keys(), "what is held stays held")
		s2 := w.item("s2")
		assert.Empty(t, s2.Owner)
		assert.EqualValues(t, 1, s2.Counter)

		found, err = a.finder.Discover(t.Context())
		require.NoError(t, err)
		assert.Zero(t, found.Released+found.Acquired, "an empty discovery")
		_, ok := a.Renewer.hold(Lease{Key: "s3", Owner: "a", Moved: time.Now()}, anyLoss)
		assert.False(t, ok)
	})
	t.Run("also what arrived just before", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a")
			a.line.fail(1, "UpdateItem", "s1", func(_ *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
				a.Drain(true)
				return send()
			})
			found, err := a.finder.Discover(t.Context())
			require.NoError(t, err)
			assert.Equal(t, Discovery{Released: 1}, found)
			assert.Empty(t, w.item("s1").Owner)
			assert.Empty(t, a.heard())
		})
	})
	t.Run("unless the leases are kept", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a")
			a.Drain(false)
			found, err := a.finder.Discover(t.Context())
			require.NoError(t, err)
			assert.Equal(t, Discovery{}, found)
			assert.Equal(t, "a", w.item("s1").Owner)
			assert.Zero(t, w.item("s1").Counter)
		})
	})
}

// leases#33
func TestResumeTakesUpTheLeasesOfAFormerProcess(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.create(
			lease("s1", "a"), lease("s2", "a"), lease("s3", "a"), lease("s4", "a"),
			lease("s5", "b"), lease("s6", ""), lease("pending", "b"),
		)
		w.startHandOff("pending", "a")
		w.putRaw(map[string]types.AttributeValue{attrKey: &str{Value: "bad"}, attrOwner: &str{Value: "a"}})
		a := w.peer("a")
		a.Resume(t.Context())
		assert.Equal(t, []string{"s1", "s2", "s3", "s4"}, a.keys())
		assert.EqualValues(t, 1, w.item("s1").Counter)
		fault, found := a.metrics.get("LeaseRenewerInitialize Fault")
		assert.True(t, found)
		assert.Zero(t, fault)
		assert.Zero(t, w.item("pending").Counter)
	})
	t.Run("no lease, and no harm, when the scan fails", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a")
			a.line.fail(-1, "Scan", "", broken)
			a.Resume(t.Context())
			assert.Empty(t, a.Held())
			fault, _ := a.metrics.get("LeaseRenewerInitialize Fault")
			assert.Equal(t, 1.0, fault)
		})
	})
	t.Run("discovery does the same", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"), lease("s5", "b"), lease("pending", "b"))
			w.startHandOff("pending", "a")
			w.putRaw(map[string]types.AttributeValue{attrKey: &str{Value: "bad"}, attrOwner: &str{Value: "a"}})
			a := w.peer("a").hold()
			assert.Equal(t, []string{"s1"}, a.keys())
		})
	})
}

// putRaw stores an item as it is.
func (w *world) putRaw(it map[string]types.AttributeValue) {
	w.t.Helper()
	name := "app"
	client := dynamodb.NewFromConfig(w.aws.Config("observer"))
	_, err := client.PutItem(w.t.Context(), &dynamodb.PutItemInput{TableName: &name, Item: it})
	require.NoError(w.t, err)
}

// A lease that cannot be read is told of once, not every two seconds, and does
// not keep others from being found.
func TestUnreadableLeaseIsToldOfOnce(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.putRaw(map[string]types.AttributeValue{attrKey: &str{Value: "bad"}, attrOwner: &str{Value: "a"}})
		w.create(lease("s1", "a"))
		a := w.peer("a")
		stop := a.discover()
		time.Sleep(30 * time.Second)
		stop()
		assert.Equal(t, []string{"s1"}, a.keys())
		assert.Equal(t, 1, a.warned("assigned lease not taken up"))
		failed, _ := a.metrics.get("LeaseDiscovery GetLease:Error")
		assert.Equal(t, 1.0, failed)
	})
	t.Run("so is a query that fails, until it works again", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			a := w.peer("a")
			defer a.discover()()
			for range 2 {
				a.line.fail(5, "Query", "", broken)
				time.Sleep(20 * time.Second)
			}
			synctest.Wait()
			assert.Equal(t, 2, a.warned("discovery of leases failed"))
		})
	})
	t.Run("and a renewal", func(t *testing.T) {
		inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
			w.create(lease("s1", "a"))
			a := w.peer("a").hold()
			defer a.run()()
			synctest.Wait()
			a.line.fail(2, "UpdateItem", "", broken)
			time.Sleep(20 * time.Second)
			synctest.Wait()
			assert.Equal(t, 1, a.warned("renewal failed"))
		})
	})
}
