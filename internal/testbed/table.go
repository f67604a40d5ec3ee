// Package testbed is what the tests of several packages work with: a table and
// an operator's hand on it, items as nobody should write them, what was logged,
// and what was measured.
package testbed

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
)

// Table is a table whose keys are strings, and what others than the worker under
// test do to it.
type Table struct {
	T      *testing.T
	Client *dynamodb.Client
	Name   string
	Key    string // the partition key's attribute
}

// Create creates the table, without an index, and lets it become ACTIVE. It is
// to be called in a bubble.
func (tb *Table) Create() {
	tb.T.Helper()
	_, err := tb.Client.CreateTable(tb.T.Context(), &dynamodb.CreateTableInput{
		TableName:            &tb.Name,
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: &tb.Key, AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: &tb.Key, KeyType: types.KeyTypeHash}},
	})
	require.NoError(tb.T, err)
	time.Sleep(time.Minute)
}

// Put stores an item as it is.
func (tb *Table) Put(item map[string]types.AttributeValue) {
	tb.T.Helper()
	_, err := tb.Client.PutItem(tb.T.Context(), &dynamodb.PutItemInput{TableName: &tb.Name, Item: item})
	require.NoError(tb.T, err)
}

// Item returns the stored item, nil if there is none.
func (tb *Table) Item(key string) map[string]types.AttributeValue {
	tb.T.Helper()
	out, err := tb.Client.GetItem(tb.T.Context(), &dynamodb.GetItemInput{TableName: &tb.Name, Key: tb.key(key), ConsistentRead: aws.Bool(true)})
	require.NoError(tb.T, err)
	return out.Item
}

// Delete removes an item, if there is one.
func (tb *Table) Delete(key string) {
	tb.T.Helper()
	_, err := tb.Client.DeleteItem(tb.T.Context(), &dynamodb.DeleteItemInput{TableName: &tb.Name, Key: tb.key(key)})
	require.NoError(tb.T, err)
}

func (tb *Table) key(key string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{tb.Key: &types.AttributeValueMemberS{Value: key}}
}
