package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/expr"
	"github.com/go-kcl/kcl/internal/entity"
)

// javaDiffers is the members in which our requests deliberately differ from
// Java's, and why.
var javaDiffers = map[string]map[string]string{
	// The item that refused the write tells a lost race from a write of ours
	// whose answer was lost. Java takes both for a lost race, and its start fails.
	"create": {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"},
	"update": {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"},
}

// canonical brings a request into a form in which equal meaning is equal value.
func canonical(t *testing.T, op expr.Op, body []byte) map[string]any {
	t.Helper()
	var in expr.Request
	var members map[string]any
	require.NoError(t, json.Unmarshal(body, &in))
	require.NoError(t, json.Unmarshal(body, &members))
	parsed, err := in.Parse(op)
	require.NoError(t, err)
	for _, name := range []string{
		"ConditionExpression", "UpdateExpression", "ExpressionAttributeNames", "ExpressionAttributeValues", "Expected", "AttributeUpdates",
	} {
		delete(members, name)
	}
	members["condition"] = parsed.Condition.Terms()
	members["update"] = parsed.Update.Actions()
	return members
}

type doer func(*http.Request) (*http.Response, error)

func (f doer) Do(r *http.Request) (*http.Response, error) { return f(r) }

// recorder returns a client that answers every call with nothing, and the body
// of the last call.
func recorder() (*dynamodb.Client, *[]byte) {
	var last []byte
	return dynamodb.NewFromConfig(aws.Config{
		Region:      "us-east-1",
		Credentials: aws.AnonymousCredentials{},
		HTTPClient: doer(func(r *http.Request) (*http.Response, error) {
			last, _ = io.ReadAll(r.Body)
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewBufferString("{}"))}, nil
		}),
	}), &last
}

// Each of our requests has the key, attributes, types and conditions of Java's
// for the same act, and nothing else but what javaDiffers lists. As every term
// of a condition is compared, none can be taken out unnoticed.
func TestRequestsAreJavas(t *testing.T) {
	type recorded struct {
		Act, From, Operation string
		Request              json.RawMessage
	}
	acts := map[string]bool{}
	for _, j := range lines[recorded](t, "testdata/java-requests.jsonl") {
		t.Run(j.Act+" "+j.From, func(t *testing.T) {
			act, _, _ := strings.Cut(j.Act, "-")
			acts[act] = true
			var in struct {
				TableName        string
				Item             item
				AttributeUpdates map[string]struct{ Value attribute }
				Expected         map[string]struct{ Value attribute }
			}
			require.NoError(t, json.Unmarshal(j.Request, &in))
			client, last := recorder()
			s := NewStore(StoreConfig{Client: client, Table: in.TableName})
			op := expr.OpGet
			var err error
			switch ctx := context.Background(); act {
			case "GetItem":
				_, _, err = s.ClientVersion(ctx)
			case "create":
				op = expr.OpPut
				it, _ := itemOf(in.Item)
				var m ClientVersionState
				m, err = migrationOf[ClientVersion](it)
				require.NoError(t, err)
				_, err = s.CreateClientVersion(ctx, m)
			case "update":
				op = expr.OpUpdate
				it := Item{Key: ClientVersionKey, Type: entity.ClientVersionMigration, Attributes: map[string]types.AttributeValue{}}
				for name, u := range in.AttributeUpdates {
					it.Attributes[name] = u.Value.AttributeValue
				}
				var m ClientVersionState
				m, err = migrationOf[ClientVersion](it)
				require.NoError(t, err)
				from := in.Expected["cv"].Value.AttributeValue.(*types.AttributeValueMemberS).Value
				_, err = s.UpdateClientVersion(ctx, m, ClientVersion(from), nil)
			case "describe":
				_, err = s.tableFacts(ctx, StartConfig{LegacyTable: in.TableName})
			default:
				t.Fatal("no such act")
			}
			require.NoError(t, err)
			want, got := canonical(t, op, j.Request), canonical(t, op, *last)
			for name, v := range javaDiffers[act] {
				assert.NotContains(t, want, name)
				want[name] = v
			}
			assert.Equal(t, want, got)
		})
	}
	assert.Equal(t, map[string]bool{"GetItem": true, "create": true, "update": true, "describe": true}, acts)
}

// attribute is one attribute value in DynamoDB's JSON.
type attribute struct{ types.AttributeValue }

func (a *attribute) UnmarshalJSON(b []byte) (err error) {
	a.AttributeValue, err = decodeValue(b)
	return err
}
