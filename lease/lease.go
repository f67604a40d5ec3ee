package lease

import (
	"slices"
	"time"

	"github.com/go-kcl/kcl"
)

// Lease is one shard's item in the lease table, and what this process knows
// besides.
type Lease struct {
	// Key is the shard id, or "account:stream:epoch:shard" in a multi-stream
	// application.
	Key string
	// Stream is the serialized stream identifier; empty in a single-stream
	// application.
	Stream string
	// ShardID is the bare shard id.
	ShardID string

	// Owner is the worker that owns the lease, or is to own it once a pending
	// hand-off is done; empty if nobody does.
	Owner string
	// CheckpointOwner is set while a hand-off is pending: the worker that still
	// renews and checkpoints.
	CheckpointOwner string
	// Counter moves with every write of an owner: heartbeat and fencing token.
	Counter int64
	// OwnerSwitches counts owner changes since the last checkpoint. It decides
	// nothing.
	OwnerSwitches int64

	Checkpoint kcl.Position
	// Pending is the prepared checkpoint; zero if there is none.
	Pending      kcl.Position
	PendingState []byte // nil if none was given

	// Parents and Children are bare shard ids.
	Parents  []string
	Children []string
	// HashRange is zero if not known.
	HashRange kcl.HashRange

	// ThroughputKBps is the owner's reading rate, if HasThroughput.
	ThroughputKBps float64
	HasThroughput  bool

	// Token is given each time the lease enters this worker's held set; empty
	// elsewhere. It is never stored.
	Token string
	// Moved is when this process last saw or made Counter move, read before the
	// call when this process made it, after the read when it saw it; zero if
	// never. It is never stored. A [Store] sets it on what a write of its own
	// returns, and leaves it zero on what it reads.
	Moved time.Time
}

// Clone returns a copy that shares no memory with l.
func (l Lease) Clone() Lease {
	l.PendingState = slices.Clone(l.PendingState)
	l.Parents = slices.Clone(l.Parents)
	l.Children = slices.Clone(l.Children)
	return l
}

// ActualOwner is the worker that renews and checkpoints the lease at present.
func (l Lease) ActualOwner() string {
	if l.CheckpointOwner != "" {
		return l.CheckpointOwner
	}
	return l.Owner
}

// HandOffPending reports whether the owner is asked to hand the lease over.
func (l Lease) HandOffPending() bool { return l.CheckpointOwner != "" }

// Ended reports whether the shard has been processed to its end.
func (l Lease) Ended() bool { return l.Checkpoint.SequenceNumber == kcl.ShardEnd.SequenceNumber }

// Expired reports whether the counter has stood still for longer than after, as
// an observer counts it. A lease whose counter was never seen to move is
// expired.
func (l Lease) Expired(now time.Time, after time.Duration) bool {
	return l.Moved.IsZero() || now.Sub(l.Moved) > after
}

// Available reports whether any worker may take the lease: nobody owns it, or
// its owner is silent.
func (l Lease) Available(now time.Time, after time.Duration) bool {
	return l.Owner == "" || l.Expired(now, after)
}

// MayHandOff reports whether the lease can be moved gracefully: its owner is
// there to be asked (vacant is false), has something left to do, and is not
// being asked already. vacant is the caller's word that the lease is expired or
// has no owner.
func (l Lease) MayHandOff(vacant bool) bool {
	return !vacant && !l.Ended() && !l.HandOffPending()
}

// Blocked reports whether a pending hand-off still has time, so that the lease
// is not to be moved. deadline is the observer's, see vacant in
// [Lease.MayHandOff].
func (l Lease) Blocked(now, deadline time.Time, vacant bool) bool {
	return !vacant && !l.Ended() && l.HandOffPending() && now.Before(deadline)
}
