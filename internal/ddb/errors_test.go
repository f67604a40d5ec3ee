package ddb

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
)

func TestErrorClass(t *testing.T) {
	api := func(code string) error {
		return fmt.Errorf("operation error: %w", &smithy.GenericAPIError{Code: code, Message: "m"})
	}
	for _, tc := range []struct {
		err  error
		want error
	}{
		{api("ProvisionedThroughputExceededException"), kcl.ErrThrottled},
		{&types.ProvisionedThroughputExceededException{}, kcl.ErrThrottled},
		{api("ThrottlingException"), kcl.ErrThrottled},
		{api("RequestLimitExceeded"), kcl.ErrThrottled},
		{api("LimitExceededException"), kcl.ErrThrottled},
		{api("ResourceNotFoundException"), kcl.ErrInvalidState},
		{&types.ResourceNotFoundException{}, kcl.ErrInvalidState},
		{&types.TableNotFoundException{}, kcl.ErrInvalidState},
		{api("AccessDeniedException"), kcl.ErrDependency},
		{api("ValidationException"), kcl.ErrDependency},
		{&types.InternalServerError{}, kcl.ErrDependency},
		{errors.New("connection reset"), kcl.ErrDependency},
		{context.DeadlineExceeded, kcl.ErrDependency},
		{context.Canceled, kcl.ErrDependency},
	} {
		err := Error("get lease x", tc.err)
		require.ErrorIs(t, err, tc.want)
		require.ErrorIs(t, err, tc.err, "stays reachable")
		assert.ErrorContains(t, err, "get lease x: ")
	}
	assert.NoError(t, Error("x", nil))
}

func TestConditionFailed(t *testing.T) {
	item := map[string]types.AttributeValue{"a": &types.AttributeValueMemberS{Value: "b"}}
	old, failed := ConditionFailed(fmt.Errorf("operation error: %w", &types.ConditionalCheckFailedException{Item: item}))
	assert.True(t, failed)
	assert.Equal(t, item, old)
	_, failed = ConditionFailed(errors.New("other"))
	assert.False(t, failed)
	_, failed = ConditionFailed(nil)
	assert.False(t, failed)
}
