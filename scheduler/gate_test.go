package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/coordinator"
	"github.com/go-kcl/kcl/internal/ddb"
	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/internal/testbed"
	"github.com/go-kcl/kcl/internal/wait"
	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/shardsync"
)

const (
	gateWorkers = 50
	gateShards  = 2100 // three pages
	gatePage    = 2 * time.Second
)

// listWatch makes each page of ListShards take a while, and notes who lists.
type listWatch struct {
	f *fleet

	mu sync.Mutex
	// Guarded by mu.
	calls    int
	callers  map[string]int
	busy     map[string]bool
	together int // the most clients that were listing at one time
	outsider []string
	onPage   func(client string, n int)
}

func (l *listWatch) install() {
	l.callers, l.busy = make(map[string]int), make(map[string]bool)
	l.f.aws.Intercept(func(ctx context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
		if i.Operation != "ListShards" {
			return l.f.intercept(ctx, i, run)
		}
		if l.f.isCut(i.Client) {
			return wire.Answer{}, errCut
		}
		leader := l.f.lockOwner()
		l.mu.Lock()
		l.calls++
		l.callers[i.Client]++
		l.busy[i.Client] = true
		l.together = max(l.together, len(l.busy))
		if leader != i.Client {
			l.outsider = append(l.outsider, fmt.Sprintf("%s while %q led", i.Client, leader))
		}
		n, onPage := l.callers[i.Client], l.onPage
		l.mu.Unlock()
		if onPage != nil {
			onPage(i.Client, n)
		}
		time.Sleep(gatePage)
		l.mu.Lock()
		delete(l.busy, i.Client)
		l.mu.Unlock()
		return l.f.intercept(ctx, i, run)
	})
}

// lockOwner returns the worker that has the leader's lock.
func (f *fleet) lockOwner() string {
	out, err := dynamodb.NewFromConfig(f.aws.Config("test")).GetItem(context.Background(), &dynamodb.GetItemInput{
		TableName: aws.String(testApp), ConsistentRead: aws.Bool(true),
		Key: map[string]types.AttributeValue{"leaseKey": &types.AttributeValueMemberS{Value: "Leader"}},
	})
	if err != nil {
		return ""
	}
	owner, _ := out.Item["ownerName"].(*types.AttributeValueMemberS)
	if owner == nil {
		return ""
	}
	return owner.Value
}

// Fifty workers start at one instant on a fresh table, and the leader dies while
// it pages: one worker at a time lists shards, and never one that does not lead.
// Everyone else starts, waits and lists nothing. shard-sync#28,29,30;
// leader-and-client-version-migration#53
func TestOnlyTheLeaderLists(t *testing.T) {
	inFleet(t, gateShards, func(t *testing.T, f *fleet) {
		w := &listWatch{f: f}
		members := make(map[string]*member)
		var killed string
		w.onPage = func(client string, n int) {
			if n == 2 && killed == "" {
				killed = client
				f.kill(members[client])
			}
		}
		w.install()
		for i := range gateWorkers {
			name := fmt.Sprintf("worker-%02d", i)
			members[name] = f.start(name, func(c *Config) { c.Leases.AssignmentInterval = time.Hour })
		}
		f.until(3*time.Minute, "a lease for every shard", func() bool {
			time.Sleep(5 * time.Second)
			return len(f.leases()) == gateShards
		})
		for name, m := range members {
			if name == killed {
				continue
			}
			select {
			case <-m.Ready():
			default:
				t.Errorf("%s is not ready", name)
			}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		require.NotEmpty(t, killed)
		assert.Equal(t, 1, w.together, "workers that listed at one time")
		assert.Empty(t, w.outsider)
		assert.Len(t, w.callers, 2, "the leader that died and the one after it")
		assert.Equal(t, 2, w.callers[killed])
		assert.Equal(t, 5, w.calls, "two pages of the first, three of the second")
	})
}

// A leader that can reach Kinesis but not the table loses the lock. The listing
// that it was about ends before another worker may lead. shard-sync#30
func TestLeaderWithoutLockStopsListing(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, f *fleet) {
		var mu sync.Mutex
		first := "" // the leader that loses the lock
		listing := make(map[string]bool)
		calls := make(map[string]int)
		together := 0
		f.aws.Intercept(func(ctx context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
			mu.Lock()
			cut := first == i.Client && i.Service == "dynamodb"
			mu.Unlock()
			if cut {
				return wire.Answer{}, errCut
			}
			if i.Operation != "ListShards" {
				return f.intercept(ctx, i, run)
			}
			mu.Lock()
			first = cmp.Or(first, i.Client)
			listing[i.Client] = true
			calls[i.Client]++
			together = max(together, len(listing))
			mu.Unlock()
			wait.For(ctx, 55*time.Second) // longer than the lock lasts
			mu.Lock()
			delete(listing, i.Client)
			mu.Unlock()
			return run(), ctx.Err()
		})
		f.start("a")
		f.start("b")
		f.until(5*time.Minute, "leases", func() bool { return len(f.leases()) == 2 })
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, 1, together, "workers that listed at one time")
		assert.Equal(t, map[string]int{"a": 1, "b": 1}, calls)
	})
}

// A lease table that holds all but leases is as good as an empty one: one worker
// is elected, and lists. single-table-migration#78
func TestGateBesideOtherItems(t *testing.T) {
	const shards = 20 // one page
	inFleet(t, shards, func(t *testing.T, f *fleet) {
		w := &listWatch{f: f}
		w.install()
		d := dynamodb.NewFromConfig(f.aws.Config("test"))
		_, err := ddb.NewTable(ddb.TableConfig{Client: d, Table: testApp, BillingMode: types.BillingModePayPerRequest}).Prepare(t.Context())
		require.NoError(t, err)
		tb := &testbed.Table{T: t, Client: d, Name: testApp, Key: "leaseKey"}
		str := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
		tb.Put(map[string]types.AttributeValue{"leaseKey": str("Leader"), "entityType": str("LEADER"), "ownerName": str("gone"), "leaseDuration": str("20000"), "recordVersionNumber": str("v")})
		tb.Put(map[string]types.AttributeValue{"leaseKey": str("gone"), "entityType": str("WORKER_METRIC_STATS"), "lut": &types.AttributeValueMemberN{Value: "1"}})
		tb.Put(coordinator.FreshClientVersion(coordinator.ClientVersion3X, "gone", time.Now()).Item().Encode("leaseKey"))

		for i := range 10 {
			f.start(fmt.Sprintf("worker-%02d", i))
		}
		f.until(2*time.Minute, "leases", func() bool { return len(f.leases()) == shards })
		for i := range 2 { // with leases in the table nobody lists
			f.start(fmt.Sprintf("late-%02d", i))
		}
		time.Sleep(time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		assert.Len(t, w.callers, 1)
		assert.Equal(t, 1, w.calls)
		assert.Empty(t, w.outsider)
	})
}

// The measure is sound: the same workers with the gate taken out all list.
func TestWithoutTheGateAllList(t *testing.T) {
	inFleet(t, gateShards, func(t *testing.T, f *fleet) {
		w := &listWatch{f: f}
		w.install()
		table := ddb.NewTable(ddb.TableConfig{Client: dynamodb.NewFromConfig(f.aws.Config("test")), Table: testApp, BillingMode: types.BillingModePayPerRequest})
		_, err := table.Prepare(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range gateWorkers {
			cfg := f.aws.Config(fmt.Sprintf("worker-%02d", i))
			stream := kcl.StreamIdentifier{Name: testStream}
			log := slog.New(slog.DiscardHandler)
			detector := shardsync.NewDetector(shardsync.DetectorConfig{Client: kinesis.NewFromConfig(cfg), Stream: stream, Logger: log})
			store := lease.NewStore(lease.StoreConfig{Client: dynamodb.NewFromConfig(cfg), Table: testApp})
			settings := shardsync.Settings{Stream: stream, Position: kcl.TrimHorizon}
			a := shardsync.NewAuditor(shardsync.AuditorConfig{
				Syncer:   shardsync.NewSyncer(shardsync.SyncerConfig{Detector: detector, Store: store, Settings: settings, Logger: log}),
				Detector: detector, Store: store, Settings: settings, Logger: log, Created: func() {},
				Term: func(ctx context.Context) (context.Context, context.CancelFunc, bool) {
					ctx, cancel := context.WithCancel(ctx)
					return ctx, cancel, true
				},
			})
			a.Offer(shardsync.Snapshot{Term: 1})
			wg.Go(func() { _ = a.Run(ctx) })
		}
		time.Sleep(2 * gatePage)
		cancel()
		wg.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		assert.Equal(t, gateWorkers, w.together)
		assert.Len(t, w.callers, gateWorkers)
		assert.NotEmpty(t, w.outsider)
	})
}
