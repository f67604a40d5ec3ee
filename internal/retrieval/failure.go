package retrieval

import (
	"context"
	"errors"
	"log/slog"

	"github.com/aws/smithy-go"
)

// kind is what a failed call means for the fetcher.
type kind uint8

const (
	kindOther kind = iota
	// kindTimeout: no answer in time; the same call again.
	kindTimeout
	// kindInvalid: an answer that must not be believed; the same call again.
	kindInvalid
	// kindThrottled: too many calls or bytes; the same call again, later.
	kindThrottled
	// kindExpired: the iterator is too old; a new one.
	kindExpired
	// kindRefused: the iterator or its position is refused; a new one.
	kindRefused
	// kindNotFound: the service knows no such stream or shard, or says so; see
	// [Reader.gone].
	kindNotFound
)

// classify sorts an error of GetRecords or GetShardIterator.
func classify(err error) kind {
	if errors.Is(err, errInvalidResponse) {
		return kindInvalid
	}
	switch errorCode(err) {
	case "ExpiredIteratorException":
		return kindExpired
	case "InvalidArgumentException":
		return kindRefused
	case "ResourceNotFoundException":
		return kindNotFound
	case "ProvisionedThroughputExceededException", "LimitExceededException", "ThrottlingException", "KMSThrottlingException":
		return kindThrottled
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return kindTimeout
	}
	return kindOther
}

// String names k for Status and the log.
func (k kind) String() string {
	switch k {
	case kindTimeout:
		return "no answer from Kinesis"
	case kindInvalid:
		return "invalid answers from Kinesis"
	case kindThrottled:
		return "throttled by Kinesis"
	case kindExpired:
		return "iterator expired"
	case kindRefused:
		return "position refused by Kinesis"
	case kindNotFound:
		return "not found by Kinesis"
	default:
		return "calls to Kinesis fail"
	}
}

// throttlesBeforeError is how many throttled calls in a row are no error yet.
const throttlesBeforeError = 5

// level says how loud the n-th failure of one kind in a row is, with prev the
// kind of the failure before (of a different kind when n is 1). What repeats is
// for those who look; Status has it too.
func level(k kind, n, timeoutsToIgnore int) slog.Level {
	switch {
	case k == kindExpired && n == 1:
		return slog.LevelInfo // it happens whenever a processor takes five minutes
	case k == kindTimeout && n <= timeoutsToIgnore:
		return slog.LevelDebug
	case k == kindTimeout && n == timeoutsToIgnore+1:
		return slog.LevelWarn
	case k == kindThrottled && n == throttlesBeforeError+1:
		return slog.LevelError
	case n == 1:
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// errorCode returns the service's error code in err, or "".
func errorCode(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}
