package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-kcl/kcl"
)

// leases#6
func TestExpiredAndAvailable(t *testing.T) {
	const after = 10 * time.Second
	now := time.Now()
	for _, tc := range []struct {
		name               string
		owner              string
		moved              time.Time
		expired, available bool
	}{
		{"never seen to move", "A", time.Time{}, true, true},
		{"one tick younger", "A", now.Add(-after + 1), false, false},
		{"exactly as old", "A", now.Add(-after), false, false},
		{"one tick older", "A", now.Add(-after - 1), true, true},
		{"moved after the observer looked", "A", now.Add(time.Second), false, false},
		{"nobody's, young", "", now, false, true},
		{"nobody's, old", "", now.Add(-after - 1), true, true},
		{"nobody's, never seen to move", "", time.Time{}, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := Lease{Owner: tc.owner, Moved: tc.moved}
			assert.Equal(t, tc.expired, l.Expired(now, after), "expired")
			assert.Equal(t, tc.available, l.Available(now, after), "available")
		})
	}
}

// leases#7
func TestHandOffPredicates(t *testing.T) {
	now := time.Now()
	later := now.Add(1)
	for _, tc := range []struct {
		name            string
		lease           Lease
		deadline        time.Time
		vacant          bool
		blocked, mayOff bool
	}{
		{"pending, before the deadline", Lease{Owner: "B", CheckpointOwner: "A"}, later, false, true, false},
		{"pending, at the deadline", Lease{Owner: "B", CheckpointOwner: "A"}, now, false, false, false},
		{"pending, behind the deadline", Lease{Owner: "B", CheckpointOwner: "A"}, now.Add(-1), false, false, false},
		{"pending, no deadline known", Lease{Owner: "B", CheckpointOwner: "A"}, time.Time{}, false, false, false},
		{"pending, shard ended", Lease{Owner: "B", CheckpointOwner: "A", Checkpoint: kcl.ShardEnd}, later, false, false, false},
		{"pending, expired", Lease{Owner: "B", CheckpointOwner: "A"}, later, true, false, false},
		{"owned", Lease{Owner: "A"}, later, false, false, true},
		{"owned, expired", Lease{Owner: "A"}, later, true, false, false},
		{"owned, shard ended", Lease{Owner: "A", Checkpoint: kcl.ShardEnd}, later, false, false, false},
		{"nobody's", Lease{}, later, true, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.blocked, tc.lease.Blocked(now, tc.deadline, tc.vacant), "blocked")
			assert.Equal(t, tc.mayOff, tc.lease.MayHandOff(tc.vacant), "may hand off")
		})
	}
}

func TestActualOwner(t *testing.T) {
	assert.Equal(t, "A", Lease{Owner: "A"}.ActualOwner())
	assert.Equal(t, "A", Lease{Owner: "B", CheckpointOwner: "A"}.ActualOwner())
	assert.Equal(t, "", Lease{}.ActualOwner())
}

// leases#5
func TestCloneKeepsEverythingAndSharesNothing(t *testing.T) {
	for name, l := range map[string]Lease{"single stream": singleLease(), "multi-stream": multiLease()} {
		t.Run(name, func(t *testing.T) {
			l.Token, l.Moved = "token", time.Now()
			c := l.Clone()
			assert.Equal(t, l, c)
			assert.Equal(t, "A", c.CheckpointOwner)

			want := l.Clone()
			c.Parents[0], c.Children[0], c.PendingState[0] = "x", "x", 'x'
			assert.Equal(t, want, l)
		})
	}
}
