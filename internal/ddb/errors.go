package ddb

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/go-kcl/kcl"
)

// ErrUnsuitable says that a table, or its index, has the right name but cannot
// serve. It wraps kcl.ErrInvalidState. Trying again does not help.
var ErrUnsuitable = fmt.Errorf("unsuitable: %w", kcl.ErrInvalidState)

// Error adds the class of a failed call to err: kcl.ErrThrottled,
// kcl.ErrInvalidState or kcl.ErrDependency, besides what (an operation and the
// table or item it was for). The SDK's error stays reachable. A failed
// condition is an answer, not a failure: see [ConditionFailed].
func Error(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %w", what, class(err), err)
}

func class(err error) error {
	switch Code(err) {
	case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded", "Throttling", "LimitExceededException":
		return kcl.ErrThrottled
	case "ResourceNotFoundException", "TableNotFoundException":
		return kcl.ErrInvalidState
	}
	return kcl.ErrDependency
}

// Code returns the service's error code in err, or "".
func Code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// ConditionFailed reports whether err says that a conditional write met an item
// that does not fulfil its condition, and returns that item if the call asked
// for it and it exists.
func ConditionFailed(err error) (old map[string]types.AttributeValue, failed bool) {
	var ccf *types.ConditionalCheckFailedException
	if errors.As(err, &ccf) {
		return ccf.Item, true
	}
	return nil, false
}

// Denied reports whether err says that the caller has no permission for the
// call.
func Denied(err error) bool { return Code(err) == "AccessDeniedException" }

func notFound(err error) bool { return Code(err) == "ResourceNotFoundException" }
