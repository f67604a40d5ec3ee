package kcl

import (
	"slices"
	"time"
)

// Record is one user record. Records that a producer had aggregated into one
// Kinesis record are handed out singly.
type Record struct {
	// Position is the record's place in its shard.
	Position Position
	// PartitionKey is what the producer gave; it may be empty on streams that
	// distribute records by themselves.
	PartitionKey string
	// ExplicitHashKey is known only for records from inside an aggregate.
	ExplicitHashKey string
	// Data stays valid, and must not be written to. It may keep the whole
	// response it came with in memory for as long as it is held: see
	// [Record.Clone].
	Data []byte
	// ArrivedAt is the service's approximate arrival time, to the millisecond.
	// It may go backwards from one record to the next.
	ArrivedAt time.Time
	// EncryptionType is "KMS", or empty for none.
	EncryptionType string
	// Aggregated reports whether the record came inside an aggregate.
	Aggregated bool
}

// Clone returns a copy of r that shares no memory with the response r came
// with. Use it for the few records that are kept for long.
func (r Record) Clone() Record {
	r.Data = slices.Clone(r.Data)
	return r
}

// ShardInfo describes a shard for as long as this worker holds its lease.
type ShardInfo struct {
	Stream  StreamIdentifier
	ShardID string
	// Parents are the shards this one was made of, sorted: none, the one that
	// was split, or the two that were merged. They may be gone by now.
	Parents []string
	// HashRange is the shard's part of the hash key space; zero if not known.
	HashRange HashRange
	// LeaseKey is the key of the lease in the lease table.
	LeaseKey string
	// LeaseToken is new each time the lease is acquired, and tells one
	// processor's tenure from the next one's of the same shard. It is known to
	// this worker only.
	LeaseToken string
}
