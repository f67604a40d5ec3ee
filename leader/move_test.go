package leader

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/internal/entity"
	"github.com/go-kcl/kcl/internal/testbed"
	"github.com/go-kcl/kcl/kcltest"
)

// inMove is a world whose lock is kept in a legacy table, "app-CoordinatorState",
// and is to be in the lease table, to.
func inMove(t *testing.T, f func(t *testing.T, w *world, to *testbed.Table)) {
	t.Helper()
	inWorldOf(t, kcltest.Options{}, "key", func(t *testing.T, w *world) {
		to := &testbed.Table{T: t, Client: w.Client, Name: "app-leases", Key: entity.LeaseTableKey}
		to.Create()
		f(t, w, to)
	})
}

// claimed puts a worker's claim as the transaction does that completes the
// single-table migration.
func claimed(to *testbed.Table, claim map[string]types.AttributeValue) {
	item := map[string]types.AttributeValue{to.Key: str(lockKey), entity.Attribute: entity.Leader.Attr()}
	for name, v := range claim {
		item[name] = v
	}
	to.Put(item)
}

// single-table-migration#59: the same process goes over to the lock of the lease
// table, and leads on at once.
func TestMove(t *testing.T) {
	inMove(t, func(t *testing.T, w *world, to *testbed.Table) {
		a := w.start("a")
		w.awaitLead(a, time.Second)
		b := w.start("b")
		before, _ := a.Leading()
		assert.Equal(t, "app", before.Table)
		claim := a.Claim()
		claimed(to, claim)

		a.Move(to.Name, to.Key, claim)
		assert.False(t, a.leads(), "the former lock counts no more")
		assert.True(t, before.Over())
		b.Move(to.Name, to.Key, nil)
		time.Sleep(200 * time.Millisecond)
		now, ok := a.Leading()
		require.True(t, ok, "without a pause")
		assert.Greater(t, now.Number, before.Number)
		assert.Equal(t, to.Name, now.Table)
		assert.Nil(t, w.item(), "the former lock is free")
		item := to.Item(lockKey)
		assert.Equal(t, "a", text(item, attrOwner))
		assert.Equal(t, "LEADER", text(item, entity.Attribute))
		assert.Equal(t, "30000", text(item, attrDuration))
		assert.NotEqual(t, text(claim, attrVersion), text(item, attrVersion), "renewed")

		a.Move(to.Name, to.Key, claim)
		assert.True(t, a.leads(), "told again, it is there already")
		time.Sleep(time.Minute)
		assert.True(t, a.leads(), "it renews the lock there")
		seen, ok := b.Seen()
		assert.True(t, ok)
		assert.Equal(t, "a", seen.Leader)
		require.NoError(t, a.stop())
		assert.LessOrEqual(t, w.awaitLead(b, time.Minute), 10*time.Second)
		assert.Equal(t, "b", text(to.Item(lockKey), attrOwner))
	})
}

// Who completes the migration may find the lock of the lease table taken, or may
// not know whether its claim came there.
func TestMoveWithoutClaim(t *testing.T) {
	inMove(t, func(t *testing.T, w *world, to *testbed.Table) {
		a := w.start("a")
		w.awaitLead(a, time.Second)
		to.Put(map[string]types.AttributeValue{
			to.Key: str(lockKey), attrOwner: str("java"), attrDuration: str("20000"), attrVersion: str("v"), entity.Attribute: entity.Leader.Attr(),
		})
		a.Move(to.Name, to.Key, a.Claim()) // which never came there
		time.Sleep(15 * time.Second)
		assert.False(t, a.leads())
		assert.Nil(t, w.item())
		assert.Less(t, w.awaitLead(a, time.Minute), 10*time.Second, "java is dead")
	})
	inMove(t, func(t *testing.T, w *world, to *testbed.Table) {
		a := w.start("a")
		w.awaitLead(a, time.Second)
		a.Move(to.Name, to.Key, nil)
		time.Sleep(200 * time.Millisecond)
		assert.True(t, a.leads(), "nobody has the lock there")
	})
}

// A stop frees a claim that was never renewed.
func TestMoveAndStop(t *testing.T) {
	inMove(t, func(t *testing.T, w *world, to *testbed.Table) {
		a := w.start("a")
		w.awaitLead(a, time.Second)
		w.aws.Inject(kcltest.Fault{Clients: []string{"a"}, Operations: []string{"GetItem", "UpdateItem"}, Effect: kcltest.Break})
		claim := a.Claim()
		claimed(to, claim)
		a.Move(to.Name, to.Key, claim)
		require.NoError(t, a.stop())
		assert.Nil(t, w.item())
		assert.Nil(t, to.Item(lockKey))
	})
	inMove(t, func(t *testing.T, w *world, to *testbed.Table) {
		a := w.idle("a")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		claim := a.Claim()
		claimed(to, claim)
		a.Move(to.Name, to.Key, claim)
		require.NoError(t, a.Run(ctx))
		assert.Nil(t, to.Item(lockKey))
	})
}

// single-table-migration#60: a move while the lock is being taken frees that lock,
// and no term begins by it.
func TestMoveDuringTake(t *testing.T) {
	inMove(t, func(t *testing.T, w *world, to *testbed.Table) {
		w.aws.Intercept(func(ctx context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
			answer := run()
			if i.Operation == "PutItem" && i.Client == "a" {
				time.Sleep(time.Second)
			}
			return answer, nil
		})
		a := w.start("a")
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, "a", text(w.item(), attrOwner))
		a.Move(to.Name, to.Key, nil)
		for range 20 {
			time.Sleep(100 * time.Millisecond)
			if term, ok := a.Leading(); ok {
				assert.Equal(t, to.Name, term.Table)
			}
		}
		assert.True(t, a.leads())
		assert.Nil(t, w.item())
	})
}

// single-table-migration, section 5.2: a heartbeat that meets one of the move's
// transactions is repeated at once.
func TestHeartbeatMeetsTransaction(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		a := w.start("a")
		w.awaitLead(a, time.Second)
		w.aws.Inject(kcltest.Fault{
			Clients: []string{"a"}, Operations: []string{"UpdateItem"}, Effect: kcltest.Refuse, Code: "TransactionConflictException", Times: conflictTries - 1,
		})
		version := text(w.item(), attrVersion)
		time.Sleep(10*time.Second + conflictTries*conflictPause)
		assert.NotEqual(t, version, text(w.item(), attrVersion))
		assert.True(t, a.leads())
		assert.NotContains(t, a.log.String(), "cannot reach")
	})
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.aws.Inject(kcltest.Fault{Clients: []string{"a"}, Operations: []string{"UpdateItem"}, Effect: kcltest.Refuse, Code: "TransactionConflictException"})
		a := w.start("a")
		w.awaitLead(a, time.Second)
		time.Sleep(20 * time.Second)
		assert.LessOrEqual(t, w.aws.Count("UpdateItem", "a"), 12*conflictTries, "but not for ever")
	})
}
