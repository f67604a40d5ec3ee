package interchange

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/attr"
	"github.com/go-kcl/kcl/internal/emu/expr"
)

// ErrCaptured is how the call fails whose request [Sent] keeps.
var ErrCaptured = errors.New("captured")

// Sent returns the one request that act sends with the client. The call fails.
func Sent(t testing.TB, act func(*dynamodb.Client)) Request {
	t.Helper()
	c := new(capture)
	act(Client(c))
	require.NoError(t, c.err)
	require.Len(t, c.sent, 1, "requests")
	return c.sent[0]
}

// Client returns a client that tries each call once, through h.
func Client(h aws.HTTPClient) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String("http://test"),
		HTTPClient:   h,
		Credentials:  aws.AnonymousCredentials{},
		Retryer:      aws.NopRetryer{},
	})
}

// capture keeps requests, and sends none.
type capture struct {
	sent []Request
	err  error
}

func (c *capture) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	c.err = errors.Join(c.err, err)
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	c.sent = append(c.sent, Request{operation, body})
	return nil, ErrCaptured
}

// Sentence is what a request says, whichever form it says it in: equal meaning
// is an equal value, and what was left out of one of two requests shows.
type Sentence struct {
	Operation string
	Table     string
	Key, Item []string // sorted "attribute = value"
	Terms     []string // of the condition
	Actions   []string // of the update
	KeyTerms  string   // of a query
	Filter    string
	// Members are all others, as JSON decodes them.
	Members map[string]any
}

// operations are those that have expressions.
var operations = map[string]expr.Op{
	"PutItem": expr.OpPut, "UpdateItem": expr.OpUpdate, "DeleteItem": expr.OpDelete,
	"GetItem": expr.OpGet, "Query": expr.OpQuery, "Scan": expr.OpScan,
}

// Parse returns what a request says.
func Parse(t testing.TB, r Request) Sentence {
	t.Helper()
	var in struct {
		expr.Request
		TableName string
		Key, Item attr.Item
	}
	out := Sentence{Operation: r.Operation}
	require.NoError(t, json.Unmarshal(r.Body, &in))
	require.NoError(t, json.Unmarshal(r.Body, &out.Members))
	for _, name := range []string{"TableName", "Key", "Item"} {
		delete(out.Members, name)
	}
	out.Table, out.Key, out.Item = in.TableName, lines(t, in.Key), lines(t, in.Item)
	op, ok := operations[r.Operation]
	if !ok {
		return out
	}
	parsed, err := in.Parse(op)
	require.NoError(t, err, "%s %s", r.Operation, r.Body)
	for _, name := range []string{
		"ConditionExpression", "UpdateExpression", "KeyConditionExpression", "FilterExpression",
		"ExpressionAttributeNames", "ExpressionAttributeValues",
		"Expected", "ConditionalOperator", "AttributeUpdates", "KeyConditions", "ScanFilter", "QueryFilter",
	} {
		delete(out.Members, name)
	}
	out.Terms, out.Actions = parsed.Condition.Terms(), parsed.Update.Actions()
	out.Filter = parsed.Filter.String()
	if parsed.KeyCondition != nil {
		out.KeyTerms = parsed.KeyCondition.String()
	}
	return out
}

func lines(t testing.TB, it attr.Item) []string {
	t.Helper()
	require.NoError(t, it.Check())
	var out []string
	for name, v := range it {
		out = append(out, name+" = "+string(v.AppendJSON(nil)))
	}
	slices.Sort(out)
	return out
}
