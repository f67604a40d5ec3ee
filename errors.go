package kcl

import "errors"

// The errors a program may meet, to be tested with [errors.Is]. What AWS
// answered stays reachable with [errors.As].
var (
	// ErrLeaseLost: this worker no longer owns the shard's lease, so nothing
	// can be stored for it. It is also the cause ([context.Cause]) of a
	// callback's context that was cancelled for this reason. Stop working on
	// the shard; its new owner starts at the last stored checkpoint. KCL:
	// ShutdownException.
	ErrLeaseLost = errors.New("lease lost")

	// ErrStopping is the cause of a callback's context when the worker stops
	// hard: StopTimeout is over, or Shutdown's context ended.
	ErrStopping = errors.New("worker is stopping")

	// ErrThrottled: DynamoDB refused the write for want of capacity. It may be
	// tried again, less often. KCL: ThrottlingException.
	ErrThrottled = errors.New("throttled by DynamoDB")

	// ErrInvalidState: the lease table or its index is missing or unusable.
	// Trying again does not help. KCL: InvalidStateException.
	ErrInvalidState = errors.New("lease table is missing or unusable")

	// ErrDependency: any other failure of a call to AWS, timeouts included. It
	// may be tried again. KCL: KinesisClientLibDependencyException.
	ErrDependency = errors.New("a call to AWS failed")

	// ErrInvalidPosition: a checkpoint that is no position, lies before the
	// last one, or lies behind what was delivered. Nothing was stored. KCL:
	// IllegalArgumentException.
	ErrInvalidPosition = errors.New("invalid position")
)

// FailedAt wraps err to say how far processing of a batch came: every record
// before p is done, the one at p and those behind it are not. The library may
// store a checkpoint before p, and a retry starts at p. FailedAt(p, nil) is nil.
func FailedAt(p Position, err error) error {
	if err == nil {
		return nil
	}
	return &failedAt{position: p, err: err}
}

type failedAt struct {
	position Position
	err      error
}

func (e *failedAt) Error() string { return "at " + e.position.String() + ": " + e.err.Error() }
func (e *failedAt) Unwrap() error { return e.err }

// FailurePosition returns the position given to [FailedAt], if err has one.
func FailurePosition(err error) (Position, bool) {
	var f *failedAt
	if errors.As(err, &f) {
		return f.position, true
	}
	return Position{}, false
}
