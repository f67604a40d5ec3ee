package scheduler

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/workermetrics"
)

// record returns a worker's record, false if there is none or it cannot be read.
// It may be called from any goroutine.
func (f *fleet) record(worker string) (workermetrics.Record, bool) {
	out, err := dynamodb.NewFromConfig(f.aws.Config("test")).GetItem(context.Background(), &dynamodb.GetItemInput{
		TableName: aws.String(testApp), ConsistentRead: aws.Bool(true),
		Key: map[string]types.AttributeValue{"leaseKey": &types.AttributeValueMemberS{Value: worker}},
	})
	if err != nil || out.Item == nil {
		return workermetrics.Record{}, false
	}
	r, err := workermetrics.Decode(out.Item)
	return r, err == nil
}

// onCall has do called behind each call of a client from now on.
func (f *fleet) onCall(client string, do func(operation string)) {
	f.aws.Intercept(func(ctx context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
		ans, err := f.intercept(ctx, i, run)
		if i.Client == client {
			do(i.Operation)
		}
		return ans, err
	})
}

// onDraining has do called once, when a worker's record says that it drains.
func (f *fleet) onDraining(worker string, do func()) {
	var done atomic.Bool // no lock is held over do, which may take time
	f.onCall(worker, func(operation string) {
		if operation != "UpdateItem" || done.Load() {
			return
		}
		if r, ok := f.record(worker); ok && r.Failing() && !done.Swap(true) {
			do()
		}
	})
}

// A worker that stops tells the fleet, waits for a second, looks whether it was
// given a lease meanwhile, and deletes its record when it has none.
func TestGoodbye(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, f *fleet) {
		a := f.start("a")
		f.until(time.Minute, "a leads", func() bool { return a.Status().Leading })
		b := f.start("b")
		f.until(2*time.Minute, "b has one", func() bool { return len(b.Status().Leases) == 1 })
		type event struct {
			operation string
			at        time.Time
		}
		var mu sync.Mutex
		var events []event
		var told time.Time
		f.onCall("b", func(operation string) {
			r, ok := f.record("b")
			mu.Lock()
			defer mu.Unlock()
			if ok && r.Failing() && told.IsZero() {
				told = time.Now()
			}
			events = append(events, event{operation, time.Now()})
		})
		require.NoError(t, b.stop())
		mu.Lock()
		defer mu.Unlock()
		require.False(t, told.IsZero(), "the fleet was told")
		last := events[len(events)-1]
		assert.Equal(t, "DeleteItem", last.operation, "the record goes last")
		assert.Equal(t, "Query", events[len(events)-2].operation, "after a look for leases")
		assert.GreaterOrEqual(t, events[len(events)-2].at.Sub(told), 900*time.Millisecond)
		require.NoError(t, a.stop())
	})
}

// A lease that is given to a worker after it has said that it drains is given
// back before it goes.
func TestArrivalsAreGivenBack(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, f *fleet) {
		a := f.start("a", idle)
		f.until(time.Minute, "a has both", func() bool { return len(a.Status().Leases) == 2 })
		b := f.start("b")
		<-b.Ready()
		f.onDraining("b", func() {
			_, ok, err := f.store().Assign(t.Context(), f.lease(1), "b", false)
			assert.NoError(t, err)
			assert.True(t, ok)
		})
		require.NoError(t, b.stop())
		assert.NotEqual(t, "b", f.whoOwns(1))
		assert.Zero(t, len(b.Status().Leases))
		_, there := f.record("b")
		assert.False(t, there)
		require.NoError(t, a.stop())
	})
}

// A leader that stops gives itself nothing more, from the first moment.
func TestStoppingLeaderGivesItselfNothing(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet) {
		a := f.start("a")
		f.until(time.Minute, "a has it", func() bool { return len(a.Status().Leases) == 1 })
		b := f.start("b")
		time.Sleep(40 * time.Second) // both have reported
		_, ok, err := f.store().Assign(t.Context(), f.lease(0), "b", false)
		require.NoError(t, err)
		require.True(t, ok)
		f.until(10*time.Second, "b reads", func() bool { return len(b.Status().Leases) == 1 })
		f.onDraining("a", func() { // whose report takes long
			_, ok, err := f.store().Evict(t.Context(), f.lease(0))
			assert.NoError(t, err)
			assert.True(t, ok)
			time.Sleep(4 * time.Second) // the leader has run
			assert.Equal(t, "b", f.whoOwns(0))
		})
		require.NoError(t, a.stop())
		require.NoError(t, b.stop())
	})
}

// A worker whose leases could not be given back leaves its record: without it, a
// lease's owner looks like a worker of an old version.
func TestRecordStaysWithLeases(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet) {
		m := f.start("a")
		f.until(time.Minute, "the lease", func() bool { return len(m.Status().Leases) == 1 })
		f.onDraining("a", func() {
			f.refuse("UpdateItem", "com.amazonaws.dynamodb.v20120810#InternalServerError", 500, always)
		})
		require.ErrorContains(t, m.stop(), shardID(0))
		r, there := f.record("a")
		assert.True(t, there && r.Failing())
	})
}

// Run leaves no goroutine behind.
func TestNoGoroutineIsLeft(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, f *fleet) {
		f.put(10)
		m := f.start("a")
		f.until(time.Minute, "all records", func() bool { return f.delivered() == 10 })
		require.NoError(t, m.stop())
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		for _, of := range []string{"kcl/scheduler.(*worker)", "kcl/lease.(*", "kcl/leader.(*", "kcl/internal/consumer.(*", "kcl/internal/retrieval.(*", "kcl/shardsync.(*"} {
			assert.NotContains(t, string(stacks), of)
		}
	})
}
