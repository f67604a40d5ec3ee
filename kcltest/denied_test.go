package kcltest_test

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/kcltest"
)

// aws-dynamodb#40: the refusal of a call without permission names the action and
// the resource, for each operation and for an index.
func TestDenied(t *testing.T) {
	a := kcltest.New(kcltest.Options{})
	a.Intercept(func(_ context.Context, i wire.Info, _ func() wire.Answer) (wire.Answer, error) {
		codec := wire.JSON10
		if i.Service == "kinesis" {
			codec = wire.JSON11
		}
		return i.Denied().Answer(codec), nil
	})
	d, k := dynamodb.NewFromConfig(a.Config("me")), kinesis.NewFromConfig(a.Config("me"))
	table := aws.String("leases")
	cases := map[string]struct {
		call     func() error
		resource string
	}{
		"dynamodb:UpdateItem": {func() error {
			_, err := d.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: table, Key: key("x")})
			return err
		}, "arn:aws:dynamodb:us-east-1:123456789012:table/leases"},
		"dynamodb:DescribeTable": {func() error {
			_, err := d.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: table})
			return err
		}, "arn:aws:dynamodb:us-east-1:123456789012:table/leases"},
		"dynamodb:Query": {func() error {
			_, err := d.Query(t.Context(), &dynamodb.QueryInput{
				TableName: table, IndexName: aws.String("by-owner"), KeyConditionExpression: aws.String("k = :k"),
				ExpressionAttributeValues: map[string]dtypes.AttributeValue{":k": &dtypes.AttributeValueMemberS{Value: "x"}},
			})
			return err
		}, "arn:aws:dynamodb:us-east-1:123456789012:table/leases/index/by-owner"},
		"dynamodb:ListTables": {func() error {
			_, err := d.ListTables(t.Context(), &dynamodb.ListTablesInput{})
			return err
		}, "*"},
		"kinesis:ListShards": {func() error {
			_, err := k.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: aws.String("orders")})
			return err
		}, "arn:aws:kinesis:us-east-1:123456789012:stream/orders"},
	}
	for action, c := range cases {
		t.Run(action, func(t *testing.T) {
			err := c.call()
			var api smithy.APIError
			require.ErrorAs(t, err, &api)
			assert.Equal(t, "AccessDeniedException", api.ErrorCode())
			assert.Equal(t, "User: arn:aws:sts::123456789012:assumed-role/kcltest/me is not authorized to perform: "+action+
				" on resource: "+c.resource+" because no identity-based policy allows the "+action+" action", api.ErrorMessage())
		})
	}
}
