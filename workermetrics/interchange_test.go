package workermetrics

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/attr"
	"github.com/go-kcl/kcl/internal/emu/expr"
)

// capture keeps the one request that is sent, which fails.
type capture struct {
	operation string
	body      []byte
}

func (c *capture) Do(r *http.Request) (*http.Response, error) {
	var err error
	if c.body, err = io.ReadAll(r.Body); err != nil {
		return nil, err
	}
	_, c.operation, _ = strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	return nil, errors.New("captured")
}

func sentBy(t *testing.T, act func(context.Context, *Store)) sentence {
	t.Helper()
	c := new(capture)
	client := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://capture"), HTTPClient: c,
		Credentials: credentials.NewStaticCredentialsProvider("key", "secret", ""), Retryer: aws.NopRetryer{},
	})
	act(t.Context(), NewStore(StoreConfig{Client: client, Table: "t"}))
	require.NotEmpty(t, c.body)
	return parse(t, c.operation, c.body)
}

// sentence is what a request says, whichever form it says it in.
type sentence struct {
	Operation string
	Key       attr.Item
	Terms     []string // of the condition
	Actions   []string // of the update
	Members   map[string]string
	lut       string
}

func parse(t *testing.T, operation string, body []byte) sentence {
	t.Helper()
	var in struct {
		expr.Request
		Key attr.Item
	}
	require.NoError(t, json.Unmarshal(body, &in))
	op := expr.OpUpdate
	if operation == "DeleteItem" {
		op = expr.OpDelete
	}
	parsed, err := in.Parse(op)
	require.NoError(t, err, "%s", body)
	out := sentence{Operation: operation, Key: in.Key, Terms: parsed.Condition.Terms(), Actions: parsed.Update.Actions(), Members: map[string]string{}}
	var raw map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(body, &raw))
	for m, v := range raw {
		switch m {
		case "TableName", "Key", "ConditionExpression", "UpdateExpression", "ExpressionAttributeNames", "ExpressionAttributeValues":
		default:
			out.Members[m] = string(v)
		}
	}
	return out
}

// Our reports have the keys, attributes and types of those that Java workers
// sent, but for javaExceptions, and no condition, like theirs.
func TestReportsAreJavas(t *testing.T) {
	for _, java := range readLines[struct {
		Scenario, Worker string
		Request          json.RawMessage
	}](t, "testdata/requests.jsonl") {
		t.Run(java.Scenario, func(t *testing.T) {
			want := parse(t, "UpdateItem", java.Request)
			i := slices.IndexFunc(want.Actions, func(s string) bool { return strings.HasPrefix(s, "SET lut = ") })
			require.GreaterOrEqual(t, i, 0)
			_, want.lut, _ = strings.Cut(want.Actions[i], " = ")
			javaExceptions(&want)

			var lut struct{ N json.Number }
			require.NoError(t, json.Unmarshal([]byte(want.lut), &lut))
			sec, err := lut.N.Int64()
			require.NoError(t, err)
			rec := Record{Worker: java.Worker, Updated: time.Unix(sec, 0), Load: Load{map[string][]float64{}, map[string][]int64{}}}
			if java.Worker == "J" {
				rec.Load = Load{map[string][]float64{"C": {85}}, map[string][]int64{"C": {100}}}
			}
			synctest.Test(t, func(t *testing.T) { // in the year 2000, so that the record is not too old to be sent
				ours := sentBy(t, func(ctx context.Context, s *Store) { s.Put(ctx, rec) })
				ours.lut = want.lut
				assert.Equal(t, want, ours)
				assert.Empty(t, ours.Terms)
			})
		})
	}
}

func TestDeleteRequests(t *testing.T) {
	key := attr.Item{"leaseKey": attr.String("w")}
	assert.Equal(t, sentence{
		Operation: "DeleteItem", Key: key, Members: map[string]string{},
		Terms: []string{"attribute_exists(leaseKey)", `lut = {"N":"1000"}`},
	}, sentBy(t, func(ctx context.Context, s *Store) { s.Delete(ctx, Record{Worker: "w", Updated: time.Unix(1000, 0)}) }))
	assert.Equal(t, sentence{
		Operation: "DeleteItem", Key: key, Members: map[string]string{},
		Terms: []string{"attribute_exists(leaseKey)", "attribute_not_exists(lut)", `entityType = {"S":"WORKER_METRIC_STATS"}`},
	}, sentBy(t, func(ctx context.Context, s *Store) { s.Delete(ctx, Record{Worker: "w"}) }))
}
