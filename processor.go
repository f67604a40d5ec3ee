package kcl

import (
	"context"
	"time"
)

// RecordProcessor handles one shard for as long as this worker holds its
// lease. The library never calls two of its methods at a time, and never uses
// one processor for two tenures. The order is
//
//	Initialize → ProcessRecords* → [ShutdownRequested] → LeaseLost or ShardEnded
//
// where Initialize and ProcessRecords are repeated after an error, as
// scheduler.Config.OnFailure says. LeaseLost may follow ShardEnded when the
// lease is lost before SHARD_END could be stored.
//
// A callback's context carries the values of the context given to Run. It is
// cancelled when the work has become pointless; [context.Cause] then is
// [ErrLeaseLost] or [ErrStopping]. A panic in a callback counts as an error.
//
// Embed [NopProcessor] for the callbacks that are not needed.
type RecordProcessor interface {
	// Initialize is called before the first batch. An error is retried.
	Initialize(ctx context.Context, in *Initialization) error

	// ProcessRecords is called with each batch, never with an empty one unless
	// scheduler.Config.CallProcessRecordsEvenForEmptyRecordList is set. Nothing is
	// checkpointed unless the processor does it. On an error the batch, less what
	// lies before the last checkpoint, is delivered again by default.
	ProcessRecords(ctx context.Context, b *Batch) error

	// LeaseLost tells that another worker has, or may have, the shard: nothing
	// can be checkpointed any more. It is called once.
	LeaseLost(ctx context.Context)

	// ShardEnded is called when the last record of a closed shard has been
	// processed. Returning nil acknowledges the end: SHARD_END is stored and the
	// shard's children can start. After an error it is called again.
	ShardEnded(ctx context.Context) error

	// ShutdownRequested is the last chance to checkpoint before the worker stops
	// or hands the shard over. It is called once; an error is logged, and the
	// shard goes on from its last checkpoint.
	ShutdownRequested(ctx context.Context, cp Checkpointer) error
}

// NopProcessor does nothing in every callback. Embed it to write only the
// callbacks that matter.
type NopProcessor struct{}

var _ RecordProcessor = NopProcessor{}

// Initialize implements [RecordProcessor].
func (NopProcessor) Initialize(context.Context, *Initialization) error { return nil }

// ProcessRecords implements [RecordProcessor].
func (NopProcessor) ProcessRecords(context.Context, *Batch) error { return nil }

// LeaseLost implements [RecordProcessor].
func (NopProcessor) LeaseLost(context.Context) {}

// ShardEnded implements [RecordProcessor].
func (NopProcessor) ShardEnded(context.Context) error { return nil }

// ShutdownRequested implements [RecordProcessor].
func (NopProcessor) ShutdownRequested(context.Context, Checkpointer) error { return nil }

// ProcessorFactory makes the processor for a shard whose lease this worker has
// just acquired. An error counts as a failed Initialize.
type ProcessorFactory func(ctx context.Context, shard ShardInfo) (RecordProcessor, error)

// Initialization is what a processor learns before its first batch.
type Initialization struct {
	Shard ShardInfo
	// Position is the stored checkpoint: the first batch begins behind it, or
	// where the sentinel says.
	Position Position
	// Pending is the checkpoint that an earlier owner prepared but did not
	// commit, if any.
	Pending *PendingCheckpoint
}

// PendingCheckpoint is a prepared checkpoint as found in the lease table.
type PendingCheckpoint struct {
	Position Position
	State    []byte // nil if none was given
}

// Batch is a run of records of one shard, in order.
//
// Its Checkpoint stores the end of this batch, even when called later, from
// another goroutine, or after further batches were delivered; then it stores
// nothing if a later checkpoint is already stored. It never covers a batch
// that failed before this one, unless the policy skipped that one.
type Batch struct {
	Shard   ShardInfo
	Records []Record
	// Behind is how far the batch's end is from the shard's tip
	// (MillisBehindLatest); 0 means caught up.
	Behind time.Duration
	// ReceivedAt is when the batch came from Kinesis; it may have waited since
	// for the processor.
	ReceivedAt time.Time
	// AtShardEnd is set on the last batch of a closed shard: ShardEnded comes
	// next. An empty last batch is not delivered.
	AtShardEnd bool
	// ChildShards are the shards that follow this one, on its last batch only.
	ChildShards []string
	Checkpointer
}

// Checkpointer stores how far a shard has been processed. All methods may be
// called from any goroutine. Their errors wrap [ErrLeaseLost], [ErrThrottled],
// [ErrInvalidState], [ErrDependency] or [ErrInvalidPosition].
type Checkpointer interface {
	// Checkpoint stores the end of the batch it belongs to; of the Checkpointer
	// handed to ShutdownRequested, the end of the last accepted batch. Storing
	// what is stored already makes no call.
	Checkpoint(ctx context.Context) error

	// CheckpointAt stores p, which must be a delivered record's position, not
	// before the last checkpoint.
	CheckpointAt(ctx context.Context, p Position) error

	// Prepare stores p and state as a pending checkpoint, which the next owner
	// is told of if it is never committed. The checkpoint stays where it is.
	// Any checkpoint stored afterwards clears it. State may be nil.
	Prepare(ctx context.Context, p Position, state []byte) (*Prepared, error)
}

// Prepared is a checkpoint stored as pending.
type Prepared struct {
	// Position is what Commit will store.
	Position Position
	commit   func(ctx context.Context) error
}

// NewPrepared returns a Prepared whose Commit calls commit. It serves those who
// write a [Checkpointer] of their own, for tests.
func NewPrepared(p Position, commit func(ctx context.Context) error) *Prepared {
	return &Prepared{Position: p, commit: commit}
}

// Commit makes the pending position the checkpoint. Of several prepared
// checkpoints, committing an earlier one after a later one returns an error
// that wraps [ErrInvalidPosition].
func (p *Prepared) Commit(ctx context.Context) error { return p.commit(ctx) }
