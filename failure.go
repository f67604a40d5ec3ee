package kcl

import "time"

// Callback names the method of a [RecordProcessor] that failed.
type Callback string

// The callbacks. CallbackNew is the making of the processor.
const (
	CallbackNew               Callback = "NewProcessor"
	CallbackInitialize        Callback = "Initialize"
	CallbackProcessRecords    Callback = "ProcessRecords"
	CallbackShardEnded        Callback = "ShardEnded"
	CallbackShutdownRequested Callback = "ShutdownRequested"
	CallbackLeaseLost         Callback = "LeaseLost"
)

// Failure tells of a callback that returned an error or panicked.
type Failure struct {
	Shard    ShardInfo
	Callback Callback
	Err      error
	// Attempt counts the tries of this call so far, from 1.
	Attempt int
	// First and Last are the positions of the batch's first and last record;
	// zero unless Callback is ProcessRecords.
	First, Last Position
	// Panic is set when the callback panicked; Err then says so too.
	Panic *Panic
}

// Panic is a recovered panic.
type Panic struct {
	Value any
	Stack []byte
}

// Action is what a failed callback leads to. The zero Action is the default:
// the call is repeated after a delay that doubles from 100 ms to 30 s, for
// ever.
type Action struct {
	kind  actionKind
	delay time.Duration
}

type actionKind uint8

const (
	actionDefault actionKind = iota
	actionRetry
	actionSkip
	actionStopShard
	actionStopWorker
)

var (
	// Skip gives the batch up: its records count as processed, and a later
	// checkpoint covers them. Of a failed Initialize or ShardEnded it means to
	// go on as if it had returned nil.
	Skip = Action{kind: actionSkip}

	// StopShard delivers nothing more of the shard to this processor. The lease
	// stays held and renewed, so that no other worker meets the same failure,
	// until this worker stops; Status shows it.
	StopShard = Action{kind: actionStopShard}

	// StopWorker stops the worker gracefully; Run returns an error that wraps
	// the failure's.
	StopWorker = Action{kind: actionStopWorker}
)

// RetryAfter repeats the call after d. A batch is repeated without what lies
// before the last checkpoint.
func RetryAfter(d time.Duration) Action { return Action{kind: actionRetry, delay: max(d, 0)} }

// Delay returns the delay of [RetryAfter] and true, or false for another
// action.
func (a Action) Delay() (time.Duration, bool) { return a.delay, a.kind == actionRetry }

// String names the action.
func (a Action) String() string {
	switch a.kind {
	case actionRetry:
		return "retry after " + a.delay.String()
	case actionSkip:
		return "skip"
	case actionStopShard:
		return "stop shard"
	case actionStopWorker:
		return "stop worker"
	default:
		return "default"
	}
}
