package ddb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Call runs one request, the SDK's retries included, within timeout. A failed
// condition comes back as the SDK's error, to be read with [ConditionFailed];
// any other error is classed by [Error], and says so when the timeout ended
// the request.
func Call[T any](ctx context.Context, timeout time.Duration, what string, f func(context.Context) (T, error)) (T, error) {
	timed, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out, err := f(timed)
	if err == nil {
		return out, nil
	}
	if _, failed := ConditionFailed(err); failed {
		return out, err
	}
	if errors.Is(timed.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
		what = fmt.Sprintf("%s: no answer within %s", what, timeout)
	}
	return out, Error(what, err)
}

// IndexNotReady reports whether err is DynamoDB's answer to a query of an index
// that does not exist, is being built, or was built so recently that it is not
// served yet: for minutes after DescribeTable calls an index ACTIVE, a query of
// it may still meet this error.
func IndexNotReady(err error) bool {
	if Code(err) != "ValidationException" {
		return false
	}
	msg := err.Error()
	return strings.Contains(msg, "does not have the specified index") ||
		strings.Contains(msg, "backfilling global secondary index")
}
