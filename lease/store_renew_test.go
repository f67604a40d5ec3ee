package lease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
)

func TestAfterRenewal(t *testing.T) {
	at := func(owner, checkpointOwner string, counter int64) Lease {
		l := with(ownedLease(), owner, checkpointOwner)
		l.Counter = counter
		return l
	}
	for _, tc := range []struct {
		name string
		ours Lease
		met  Lease
		want refusal
	}{
		// Our memory is (A, –) at counter 5.
		{"hand-off begun", at("A", "", 5), at("B", "A", 5), refusedHandOff},
		{"answer lost", at("A", "", 5), at("A", "", 6), refusedRenewed},
		{"answer lost, hand-off begun", at("A", "", 5), at("B", "A", 6), refusedRenewed},
		{"taken", at("A", "", 5), at("B", "", 6), refusedLost},
		{"evicted", at("A", "", 5), at("", "", 6), refusedLost},
		{"given back to us, moved twice", at("A", "", 5), at("A", "", 7), refusedLost},
		{"another's hand-off", at("A", "", 5), at("C", "B", 5), refusedLost},
		{"another's hand-off to us", at("A", "", 5), at("A", "B", 6), refusedLost},
		{"owner is checkpoint owner", at("A", "", 5), at("A", "A", 5), refusedLost},
		{"owner is checkpoint owner, one ahead", at("A", "", 5), at("A", "A", 6), refusedLost},
		{"hand-off begun, counter elsewhere", at("A", "", 5), at("B", "A", 8), refusedLost},
		{"made anew", at("A", "", 5), at("A", "", 0), refusedLost},
		{"as we know it", at("A", "", 5), at("A", "", 5), refusedLost},
		// Our memory is (B, A).
		{"hand-off known, answer lost", at("B", "A", 5), at("B", "A", 6), refusedRenewed},
		{"hand-off done", at("B", "A", 5), at("B", "", 6), refusedLost},
		{"hand-off called off", at("B", "A", 5), at("A", "", 6), refusedRenewed},
		{"hand-off known, counter as ours", at("B", "A", 5), at("B", "A", 5), refusedLost},
		// Nobody renews a lease that nobody owns.
		{"no owner", at("", "", 5), at("", "", 6), refusedLost},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.want, afterRenewal(tc.ours, tc.met, true))
			assert.Equal(t, refusedLost, afterRenewal(tc.ours, tc.met, false), "gone")
		})
	}
}

// leases#23: the store's part.
func TestRenew(t *testing.T) {
	w := newTableWorld(t, false)
	w.put(ownedItem().with(nil))
	l := ownedLease()
	l.ThroughputKBps, l.HasThroughput, l.Token = 1.5, true, "token"
	next, ok, err := w.store.Renew(t.Context(), l)
	require.NoError(t, err)
	require.True(t, ok)
	assert.EqualValues(t, 6, next.Counter)
	assert.EqualValues(t, 5, l.Counter, "the caller's copy is left alone")
	next.Counter, next.Moved = 5, time.Time{}
	assert.Equal(t, l, next)
	assert.Equal(t, ownedItem().with(item{attrCounter: &number{Value: "6"}, attrThroughput: &number{Value: "1.5"}}), w.item(testKey))
	assert.Equal(t, 1, w.aws.Count("UpdateItem", "store"))

	next.Counter = 6
	_, ok, err = w.store.Assign(t.Context(), next, "B", true)
	require.NoError(t, err)
	require.True(t, ok)
	_, ok, err = w.store.Renew(t.Context(), next)
	require.NoError(t, err)
	assert.False(t, ok, "taken by another worker")
}

// leases#24: the store's part.
func TestRenewLearnsOfAHandOff(t *testing.T) {
	w := newTableWorld(t, false)
	w.put(ownedItem().with(nil))
	leader, _, err := w.store.GetConsistent(t.Context(), testKey)
	require.NoError(t, err)
	leader, ok, err := w.store.StartHandOff(t.Context(), leader, "B")
	require.NoError(t, err)
	require.True(t, ok)

	w.aws.ResetCalls()
	l, ok, err := w.store.Renew(t.Context(), ownedLease())
	require.NoError(t, err)
	require.True(t, ok)
	assert.Equal(t, 2, w.aws.Count("UpdateItem", "store"), "two writes")
	assert.Zero(t, w.aws.Count("GetItem", "store"))
	assert.Equal(t, "B", l.Owner)
	assert.Equal(t, "A", l.CheckpointOwner)
	assert.EqualValues(t, 6, l.Counter)

	w.aws.ResetCalls()
	l, ok, err = w.store.Renew(t.Context(), l)
	require.NoError(t, err)
	require.True(t, ok)
	assert.Equal(t, 1, w.aws.Count("UpdateItem", "store"), "one write from now on")

	_, ok, err = w.store.Assign(t.Context(), leader, "B", false)
	require.NoError(t, err)
	require.True(t, ok)
	_, ok, err = w.store.Renew(t.Context(), l)
	require.NoError(t, err)
	assert.False(t, ok)
}

// leases#25
func TestRenewRefused(t *testing.T) {
	for _, tc := range []struct {
		name  string
		state item
		reads int
	}{
		{"missing", nil, 1},
		{"another owner's hand-off", ownedItem().with(item{attrOwner: &str{Value: "C"}, attrCheckpointOwner: &str{Value: "B"}}), 0},
		{"owner is checkpoint owner", ownedItem().with(item{attrCheckpointOwner: &str{Value: "A"}}), 0},
		{"another kind of item", ownedItem().with(item{attrCounter: nil, "entityType": &str{Value: "STREAM"}}), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newTableWorld(t, false)
			w.put(tc.state)
			before := w.item(testKey)
			l := ownedLease()
			got, ok, err := w.store.Renew(t.Context(), l)
			require.NoError(t, err)
			assert.False(t, ok)
			assert.Equal(t, l, got)
			assert.Equal(t, before, w.item(testKey))
			assert.Equal(t, 1, w.aws.Count("UpdateItem", "store"), "no second write")
			assert.Equal(t, tc.reads, w.aws.Count("GetItem", "store"))
		})
	}
}

// leases#26: the write took effect, its answer was lost, the SDK sent it again.
func TestRenewWhoseAnswerWasLost(t *testing.T) {
	handOff := func(w *tableWorld) func() {
		other := NewStore(StoreConfig{Client: w.Client, Table: testTable})
		return func() {
			now, _, err := other.GetConsistent(w.T.Context(), testKey)
			require.NoError(w.T, err)
			_, ok, err := other.StartHandOff(w.T.Context(), now, "B")
			require.NoError(w.T, err)
			require.True(w.T, ok)
		}
	}
	pending := item{attrOwner: &str{Value: "B"}, attrCheckpointOwner: &str{Value: "A"}}
	for _, tc := range []struct {
		name      string
		state     item
		lease     Lease
		meanwhile func(*tableWorld) func()
		want      Lease
	}{
		{"owned", ownedItem().with(nil), ownedLease(), nil, ownedLease()},
		{"during a hand-off", ownedItem().with(pending), with(ownedLease(), "B", "A"), nil, with(ownedLease(), "B", "A")},
		{"a hand-off begins before the repetition", ownedItem().with(nil), ownedLease(), handOff, with(ownedLease(), "B", "A")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTableWorld(t, false)
				w.put(tc.state)
				var meanwhile func()
				if tc.meanwhile != nil {
					meanwhile = tc.meanwhile(w)
				}
				w.loseAnswer("UpdateItem", meanwhile)
				start := time.Now()
				got, ok, err := w.store.Renew(t.Context(), tc.lease)
				require.NoError(t, err)
				require.True(t, ok)
				tc.want.Counter, tc.want.Moved = 6, start
				assert.Equal(t, tc.want, got)
				assert.Equal(t, &number{Value: "6"}, w.item(testKey)[attrCounter], "written once")
				assert.Equal(t, 2, w.aws.Count("UpdateItem", "store"))
			})
		})
	}
	t.Run("an emulator that never returns the item", func(t *testing.T) {
		var consistent any
		s := scripted(func(_ context.Context, operation string, request map[string]any) (int, any) {
			if operation == "UpdateItem" {
				return 400, awsError("ConditionalCheckFailedException", "The conditional request failed")
			}
			consistent = request["ConsistentRead"]
			return 200, map[string]any{"Item": map[string]any{
				attrKey: map[string]any{"S": testKey}, attrOwner: map[string]any{"S": "A"},
				attrCounter: map[string]any{"N": "6"}, attrOwnerSwitches: map[string]any{"N": "0"},
			}}
		}).store(StoreConfig{})
		got, ok, err := s.Renew(t.Context(), ownedLease())
		require.NoError(t, err)
		assert.True(t, ok)
		assert.EqualValues(t, 6, got.Counter)
		assert.Equal(t, true, consistent, "a stale read would say that nothing was written")
	})
}

// leases#26, ruling 16
func TestCheckpoint(t *testing.T) {
	position := kcl.Position{SequenceNumber: "101", SubSequenceNumber: 4}
	t.Run("returns what the item says now", func(t *testing.T) {
		w := newTableWorld(t, false)
		w.put(ownedItem().with(item{attrOwner: &str{Value: "B"}, attrCheckpointOwner: &str{Value: "A"}}))
		l := ownedLease() // does not know of the hand-off
		l.Checkpoint, l.Token = position, "token"
		l.ThroughputKBps, l.HasThroughput = 2, true
		got, ok, err := w.store.Checkpoint(t.Context(), l)
		require.NoError(t, err)
		require.True(t, ok)
		want := with(l, "B", "A")
		want.Counter, want.Moved = 6, got.Moved
		assert.Equal(t, want, got)
		assert.Equal(t, &number{Value: "2"}, w.item(testKey)[attrThroughput])
	})
	for _, tc := range []struct {
		name      string
		meanwhile func(*tableWorld)
		ok        bool
	}{
		{"answer lost", func(*tableWorld) {}, true},
		{"answer lost, taken since", func(w *tableWorld) {
			w.put(testItem(w.item(testKey)).with(item{attrOwner: &str{Value: "B"}, attrCounter: &number{Value: "7"}}))
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTableWorld(t, false)
				w.put(ownedItem().with(nil))
				w.loseAnswer("UpdateItem", func() { tc.meanwhile(w) })
				l := ownedLease()
				l.Checkpoint, l.Token, l.Pending, l.PendingState = position, "token", kcl.Position{SequenceNumber: "105"}, []byte("s")
				start := time.Now()
				got, ok, err := w.store.Checkpoint(t.Context(), l)
				require.NoError(t, err)
				assert.Equal(t, tc.ok, ok)
				if tc.ok {
					l.Counter, l.Moved = 6, start
					assert.Equal(t, l, got)
					assert.Equal(t, &number{Value: "6"}, w.item(testKey)[attrCounter], "written once")
				}
			})
		})
	}
}

func TestCheckpointed(t *testing.T) {
	ours := ownedLease()
	ours.Pending, ours.PendingState = kcl.Position{SequenceNumber: "105"}, []byte("s")
	stored := ours.Clone()
	stored.Counter = 6
	for _, tc := range []struct {
		name   string
		change func(*Lease)
		want   bool
	}{
		{"as we wrote it", func(*Lease) {}, true},
		{"hand-off begun since", func(l *Lease) { l.Owner, l.CheckpointOwner = "B", "A" }, true},
		{"taken", func(l *Lease) { l.Owner = "B" }, false},
		{"counter further", func(l *Lease) { l.Counter = 7 }, false},
		{"counter as before", func(l *Lease) { l.Counter = 5 }, false},
		{"another checkpoint: only a renewal took effect", func(l *Lease) { l.Checkpoint.SequenceNumber = "99" }, false},
		{"another record of the aggregate", func(l *Lease) { l.Checkpoint.SubSequenceNumber++ }, false},
		{"another pending checkpoint", func(l *Lease) { l.Pending = kcl.Position{} }, false},
		{"another pending state", func(l *Lease) { l.PendingState = []byte("t") }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			met := stored.Clone()
			tc.change(&met)
			assert.Equal(t, tc.want, checkpointed(ours, met))
		})
	}
	assert.False(t, checkpointed(with(ours, "", ""), with(stored, "", "")), "nobody's")
}

// leases#22
func TestCheckpointAndPending(t *testing.T) {
	w := newTableWorld(t, false)
	w.put(ownedItem().with(nil))
	l := ownedLease()
	l.Pending, l.PendingState = kcl.Position{SequenceNumber: "105", SubSequenceNumber: 1}, []byte{1, 2}
	l, ok, err := w.store.Checkpoint(t.Context(), l)
	require.NoError(t, err)
	require.True(t, ok)
	assert.Equal(t, ownedItem().with(item{
		attrCounter: &number{Value: "6"},
		attrPending: &str{Value: "105"}, attrPendingSub: &number{Value: "1"}, attrPendingState: &binary{Value: []byte{1, 2}},
	}), w.item(testKey))

	l.Checkpoint, l.Pending, l.PendingState = l.Pending, kcl.Position{}, nil
	_, ok, err = w.store.Checkpoint(t.Context(), l)
	require.NoError(t, err)
	require.True(t, ok)
	assert.Equal(t, ownedItem().with(item{
		attrCounter:    &number{Value: "7"},
		attrCheckpoint: &str{Value: "105"}, attrCheckpointSub: &number{Value: "1"},
	}), w.item(testKey), "all three are gone")
}
