package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
)

// leases#15: a take is an assignment to oneself that names the counter.
func TestTake(t *testing.T) {
	for _, tc := range []struct {
		name     string
		state    item
		lease    Lease
		ok       bool
		switches string // afterwards
	}{
		{"unowned", ownedItem().with(item{attrOwner: nil}), with(ownedLease(), "", ""), true, "2"},
		{"owned by another", ownedItem().with(nil), ownedLease(), true, "3"},
		{"owned by myself", ownedItem().with(item{attrOwner: &str{Value: "me"}}), with(ownedLease(), "me", ""), true, "2"},
		{"in hand-off to me", ownedItem().with(item{attrOwner: &str{Value: "me"}, attrCheckpointOwner: &str{Value: "A"}}), with(ownedLease(), "me", "A"), true, "2"},
		{"in hand-off between others", ownedItem().with(item{attrOwner: &str{Value: "B"}, attrCheckpointOwner: &str{Value: "A"}}), with(ownedLease(), "B", "A"), true, "3"},
		{"in hand-off from me", ownedItem().with(item{attrOwner: &str{Value: "B"}, attrCheckpointOwner: &str{Value: "me"}}), with(ownedLease(), "B", "me"), true, "3"},
		{"renewed meanwhile", ownedItem().with(item{attrCounter: &number{Value: "6"}}), ownedLease(), false, "2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newTableWorld(t, false)
			w.put(tc.state)
			got, ok, err := w.store.Assign(t.Context(), tc.lease, "me", true)
			require.NoError(t, err)
			assert.Equal(t, tc.ok, ok)
			if !tc.ok {
				assert.Equal(t, tc.state, w.item(testKey))
				return
			}
			want := testItem(tc.state).with(item{
				attrOwner: &str{Value: "me"}, attrCheckpointOwner: nil,
				attrCounter: &number{Value: "6"}, attrOwnerSwitches: &number{Value: tc.switches},
			})
			assert.Equal(t, want, w.item(testKey))
			stored, err := decode(want, false)
			require.NoError(t, err)
			got.Moved = time.Time{}
			assert.Equal(t, stored, got, "the lease is returned as it is now")
		})
	}
}

func with(l Lease, owner, checkpointOwner string) Lease {
	l.Owner, l.CheckpointOwner = owner, checkpointOwner
	return l
}

// leases#16
func TestAssignWinsOverALivingOwner(t *testing.T) {
	w := newTableWorld(t, false)
	w.put(ownedItem().with(nil))
	copied, _, err := w.store.GetConsistent(t.Context(), testKey)
	require.NoError(t, err)

	owned := copied
	for range 2 {
		var ok bool
		owned, ok, err = w.store.Renew(t.Context(), owned)
		require.NoError(t, err)
		require.True(t, ok)
		owned, ok, err = w.store.Checkpoint(t.Context(), owned)
		require.NoError(t, err)
		require.True(t, ok)
	}
	require.EqualValues(t, 9, owned.Counter)

	moved, ok, err := w.store.Assign(t.Context(), copied, "B", false)
	require.NoError(t, err)
	require.True(t, ok)
	assert.EqualValues(t, 10, moved.Counter)
	assert.Equal(t, "B", moved.Owner)

	_, ok, err = w.store.Renew(t.Context(), owned)
	require.NoError(t, err)
	assert.False(t, ok, "renewal of the old owner")
	_, ok, err = w.store.Checkpoint(t.Context(), owned)
	require.NoError(t, err)
	assert.False(t, ok, "checkpoint of the old owner")
	now, _, err := w.store.GetConsistent(t.Context(), testKey)
	require.NoError(t, err)
	assert.EqualValues(t, 10, now.Counter, "moved by exactly one")
}

// leases#17: also in TestEveryConditionCounts, state by state.
func TestAssignNeverMakesALease(t *testing.T) {
	for _, owner := range []string{"", "A"} {
		w := newTableWorld(t, false)
		_, ok, err := w.store.Assign(t.Context(), with(ownedLease(), owner, ""), "B", false)
		require.NoError(t, err)
		assert.False(t, ok)
		assert.Nil(t, w.item(testKey), "owner was %q", owner)
	}
	w := newTableWorld(t, false)
	w.put(ownedItem().with(nil))
	_, ok, err := w.store.Assign(t.Context(), with(ownedLease(), "A", "Z"), "B", false)
	require.NoError(t, err)
	assert.False(t, ok, "wrong checkpoint owner")
}

// leases#18
func TestStartHandOff(t *testing.T) {
	w := newTableWorld(t, false)
	w.put(ownedItem().with(nil))
	got, ok, err := w.store.StartHandOff(t.Context(), ownedLease(), "B")
	require.NoError(t, err)
	require.True(t, ok)
	assert.Equal(t, with(ownedLease(), "B", "A"), got)
	pending := ownedItem().with(item{attrOwner: &str{Value: "B"}, attrCheckpointOwner: &str{Value: "A"}})
	assert.Equal(t, pending, w.item(testKey), "the counter has not moved")

	for name, l := range map[string]Lease{"with the old copy": ownedLease(), "with what is stored": got} {
		_, ok, err = w.store.StartHandOff(t.Context(), l, "C")
		require.NoError(t, err, name)
		assert.False(t, ok, name)
		assert.Equal(t, pending, w.item(testKey), name)
	}

	calls := w.aws.Count("UpdateItem")
	_, ok, err = w.store.StartHandOff(t.Context(), with(ownedLease(), "", ""), "C")
	require.NoError(t, err)
	assert.False(t, ok, "nobody to ask")
	assert.Equal(t, calls, w.aws.Count("UpdateItem"))
}

// leases#19
func TestEvict(t *testing.T) {
	for _, tc := range []struct {
		name  string
		state item
		lease Lease
		ok    bool
		want  item // changes
	}{
		{"owned", ownedItem().with(nil), ownedLease(), true, item{attrOwner: nil, attrCounter: &number{Value: "6"}}},
		{
			"in hand-off", ownedItem().with(item{attrOwner: &str{Value: "B"}, attrCheckpointOwner: &str{Value: "A"}}), with(ownedLease(), "B", "A"),
			true, item{attrCheckpointOwner: nil, attrCounter: &number{Value: "6"}},
		},
		{"renewed meanwhile", ownedItem().with(item{attrCounter: &number{Value: "9"}}), ownedLease(), true, item{attrOwner: nil, attrCounter: &number{Value: "10"}}},
		{"another's", ownedItem().with(item{attrOwner: &str{Value: "C"}}), ownedLease(), false, nil},
		{"hand-off begun meanwhile", ownedItem().with(item{attrOwner: &str{Value: "B"}, attrCheckpointOwner: &str{Value: "A"}}), ownedLease(), false, nil},
		{"missing", nil, ownedLease(), false, nil},
		{"missing, was nobody's", nil, with(ownedLease(), "", ""), false, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newTableWorld(t, false)
			w.put(tc.state)
			got, ok, err := w.store.Evict(t.Context(), tc.lease)
			require.NoError(t, err)
			assert.Equal(t, tc.ok, ok)
			if !tc.ok {
				assert.Equal(t, tc.state, w.item(testKey))
				return
			}
			want := testItem(tc.state).with(tc.want)
			assert.Equal(t, want, w.item(testKey))
			stored, err := decode(want, false)
			require.NoError(t, err)
			got.Moved = time.Time{}
			assert.Equal(t, stored, got)
		})
	}
}

func TestAssigned(t *testing.T) {
	read := ownedLease() // (A, –), counter 5
	met := func(owner, checkpointOwner string, counter int64) Lease {
		l := with(ownedLease(), owner, checkpointOwner)
		l.Counter = counter
		return l
	}
	for _, tc := range []struct {
		name             string
		met              Lease
		named, mayBeMore bool // with the counter named, and without
	}{
		{"done", met("B", "", 6), true, true},
		{"done after the old owner's renewal", met("B", "", 7), false, true},
		{"not done", met("A", "", 6), false, false},
		{"another was quicker", met("C", "", 6), false, false},
		{"done, and moved on since", met("C", "B", 6), false, false},
		{"a hand-off to the same owner", met("B", "A", 5), false, false},
		{"the counter went back: made anew", met("B", "", 1), false, false},
		{"counter as read", met("B", "", 5), false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.named, assigned(read, tc.met, "B", true))
			assert.Equal(t, tc.mayBeMore, assigned(read, tc.met, "B", false))
		})
	}
}

// A write whose answer was lost, and which the SDK therefore sent twice.
func TestAssignWhoseAnswerWasLost(t *testing.T) {
	for _, ifCounter := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newTableWorld(t, false)
			w.put(ownedItem().with(nil))
			w.loseAnswer("UpdateItem", nil)
			start := time.Now()
			l := ownedLease()
			l.Token = "token"
			got, ok, err := w.store.Assign(t.Context(), l, "B", ifCounter)
			require.NoError(t, err)
			require.True(t, ok)
			assert.Equal(t, 2, w.aws.Count("UpdateItem", "store"))
			want := with(l, "B", "")
			want.Counter, want.OwnerSwitches, want.Moved = 6, 3, start
			assert.Equal(t, want, got)
			assert.Equal(t, &number{Value: "6"}, w.item(testKey)[attrCounter], "written once")
		})
	}
	t.Run("and somebody moved the lease meanwhile", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newTableWorld(t, false)
			w.put(ownedItem().with(nil))
			other := NewStore(StoreConfig{Client: w.Client, Table: testTable})
			w.loseAnswer("UpdateItem", func() {
				now, _, err := other.GetConsistent(t.Context(), testKey)
				require.NoError(t, err)
				_, ok, err := other.Assign(t.Context(), now, "C", true)
				require.NoError(t, err)
				require.True(t, ok)
			})
			_, ok, err := w.store.Assign(t.Context(), ownedLease(), "B", true)
			require.NoError(t, err)
			assert.False(t, ok)
		})
	})
}

func TestMovedIsReadBeforeTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTableWorld(t, false)
		w.put(ownedItem().with(nil))
		w.delay(3 * time.Second)
		l := ownedLease()
		l.Checkpoint = kcl.Position{SequenceNumber: "100"}
		for name, write := range map[string]func(Lease) (Lease, bool, error){
			"Renew":      func(l Lease) (Lease, bool, error) { return w.store.Renew(t.Context(), l) },
			"Checkpoint": func(l Lease) (Lease, bool, error) { return w.store.Checkpoint(t.Context(), l) },
			"Assign":     func(l Lease) (Lease, bool, error) { return w.store.Assign(t.Context(), l, "A", true) },
		} {
			start := time.Now()
			next, ok, err := write(l)
			require.NoError(t, err)
			require.True(t, ok, name)
			assert.Equal(t, start, next.Moved, name)
			assert.Equal(t, 3*time.Second, time.Since(start), name)
			l = next
		}
		read, _, err := w.store.GetConsistent(t.Context(), testKey)
		require.NoError(t, err)
		assert.True(t, read.Moved.IsZero(), "a read does not know")
	})
}

func TestSwitches(t *testing.T) {
	for _, tc := range []struct {
		owner, checkpointOwner string // before the lease is given to B
		want                   bool
	}{
		{"", "", false},
		{"A", "", true},
		{"B", "", false},
		{"B", "A", false}, // a hand-off that runs its course
		{"C", "A", true},
		{"A", "B", true},
		{"", "B", true},
		{"B", "B", true},
	} {
		assert.Equal(t, tc.want, switches(with(ownedLease(), tc.owner, tc.checkpointOwner), "B"), "(%s, %s)", tc.owner, tc.checkpointOwner)
	}
}
