package dynamodb

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

// client sends JSON bodies to a service as the front does.
type client struct {
	*Service
	wire.Caller
}

// atOnce is a timing without delays.
var atOnce = &Timing{}

func newClient(cfg Config) client {
	return client{New(cfg), wire.Caller{Client: "test", Account: "123456789012", Region: "us-east-1"}}
}

func (c client) call(operation, body string) wire.Answer {
	return c.Prepare(&wire.Call{Caller: c.Caller, Service: "dynamodb", Operation: operation, Codec: wire.JSON10, Body: []byte(body)}).Run()
}

// ok sends a call that must succeed and returns its answer's body.
func (c client) ok(t *testing.T, operation, body string, args ...any) string {
	t.Helper()
	if len(args) > 0 {
		body = fmt.Sprintf(body, args...)
	}
	a := c.call(operation, body)
	require.Equal(t, 200, a.Status, "%s %s: %s", operation, body, a.Body)
	return string(a.Body)
}

// answers sends a call that must succeed with that body.
func (c client) answers(t *testing.T, want, operation, body string, args ...any) {
	t.Helper()
	assert.JSONEq(t, want, c.ok(t, operation, body, args...), "%s %s", operation, body)
}

// refused sends a call that must fail with that code, and a text that contains
// that part. It returns the body.
func (c client) refused(t *testing.T, code, text, operation, body string, args ...any) string {
	t.Helper()
	if len(args) > 0 {
		body = fmt.Sprintf(body, args...)
	}
	a := c.call(operation, body)
	if assert.NotNil(t, a.Err, "%s %s succeeded: %s", operation, body, a.Body) {
		assert.Equal(t, code, a.Err.Code(), "%s %s: %s", operation, body, a.Body)
		assert.Contains(t, a.Err.Message, text, "%s %s", operation, body)
	}
	return string(a.Body)
}

// get returns what a JSON text holds under a path such as "Table.TableStatus" or
// "Items.0.leaseKey", nil if there is nothing.
func get(t *testing.T, text, path string) any {
	t.Helper()
	var v any
	require.NoError(t, json.Unmarshal([]byte(text), &v))
	for _, step := range strings.Split(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[step]
		case []any:
			var i int
			if _, err := fmt.Sscan(step, &i); err != nil || i >= len(at) {
				return nil
			}
			v = at[i]
		default:
			return nil
		}
	}
	return v
}

const (
	validation  = "ValidationException"
	notFound    = "ResourceNotFoundException"
	resInUse    = "ResourceInUseException"
	limit       = "LimitExceededException"
	condFailed  = "ConditionalCheckFailedException"
	txCancelled = "TransactionCanceledException"
)

// createLeases creates an on-demand lease table, with the owner index if asked.
func (c client) createLeases(t *testing.T, name string, indexed bool) {
	t.Helper()
	if indexed {
		c.ok(t, "CreateTable", `{"TableName":%q,"BillingMode":"PAY_PER_REQUEST",
			"AttributeDefinitions":[{"AttributeName":"leaseKey","AttributeType":"S"},{"AttributeName":"leaseOwner","AttributeType":"S"}],
			"KeySchema":[{"AttributeName":"leaseKey","KeyType":"HASH"}],
			"GlobalSecondaryIndexes":[{"IndexName":"owners","KeySchema":[{"AttributeName":"leaseOwner","KeyType":"HASH"},{"AttributeName":"leaseKey","KeyType":"RANGE"}],"Projection":{"ProjectionType":"KEYS_ONLY"}}]}`, name)
		return
	}
	c.ok(t, "CreateTable", `{"TableName":%q,"BillingMode":"PAY_PER_REQUEST",
		"AttributeDefinitions":[{"AttributeName":"leaseKey","AttributeType":"S"}],
		"KeySchema":[{"AttributeName":"leaseKey","KeyType":"HASH"}]}`, name)
}

// putItem stores an item given as the inside of its JSON object.
func (c client) put(t *testing.T, table, item string, args ...any) {
	t.Helper()
	c.ok(t, "PutItem", `{"TableName":%q,"Item":{%s}}`, table, fmt.Sprintf(item, args...))
}

// item returns the stored item, consistently read, "" if there is none.
func (c client) item(t *testing.T, table, leaseKey string) string {
	t.Helper()
	item := get(t, c.ok(t, "GetItem", `{"TableName":%q,"ConsistentRead":true,"Key":{"leaseKey":{"S":%q}}}`, table, leaseKey), "Item")
	if item == nil {
		return ""
	}
	b, err := json.Marshal(item)
	require.NoError(t, err)
	return string(b)
}
