package assignment

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/attr"
	"github.com/go-kcl/kcl/internal/emu/expr"
	"github.com/go-kcl/kcl/lease"
)

// capture keeps the last request, and sends none.
type capture struct{ body []byte }

func (c *capture) Do(r *http.Request) (_ *http.Response, err error) {
	if c.body, err = io.ReadAll(r.Body); err != nil {
		return nil, err
	}
	return nil, errors.New("captured")
}

func parse(t *testing.T, body []byte) (key attr.Item, terms, actions []string) {
	t.Helper()
	var in struct {
		expr.Request
		Key attr.Item
	}
	require.NoError(t, json.Unmarshal(body, &in))
	parsed, err := in.Parse(expr.OpUpdate)
	require.NoError(t, err, "%s", body)
	return in.Key, parsed.Condition.Terms(), parsed.Update.Actions()
}

// What a leader of ours writes for a lease in each state has the key, the
// attributes, types and conditions of what a Java leader writes, but for
// javaException.
func TestWritesAreJavas(t *testing.T) {
	java := map[string]json.RawMessage{}
	f, err := os.Open("testdata/requests.jsonl")
	require.NoError(t, err)
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var line struct {
			Act     string
			Request json.RawMessage
		}
		require.NoError(t, json.Unmarshal(sc.Bytes(), &line))
		java[line.Act] = line.Request
	}
	const unowned, owned, moving = "shardId-000000000001", "shardId-000000000000", "shardId-000000000003"
	for _, tc := range []struct {
		name    string
		act     string
		state   State
		lease   lease.Lease
		handOff bool
	}{
		{"unowned", "unowned", Unowned, lease.Lease{Key: unowned}, true},
		{"expired", "owned", Expired, lease.Lease{Key: owned, Owner: "H", Counter: 5}, true},
		{"abandoned", "owned", Abandoned, lease.Lease{Key: owned, Owner: "H", Counter: 5}, true},
		{"held", "hand-off", Held, lease.Lease{Key: moving, Owner: "H", Counter: 5}, true},
		{"held, without hand-offs", "owned", Held, lease.Lease{Key: owned, Owner: "H", Counter: 5}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := new(capture)
			store := lease.NewStore(lease.StoreConfig{Table: "t", Client: dynamodb.New(dynamodb.Options{
				Region: "us-east-1", BaseEndpoint: aws.String("http://capture"), HTTPClient: c,
				Credentials: credentials.NewStaticCredentialsProvider("key", "secret", ""), Retryer: aws.NopRetryer{},
			})})
			l := &Loop{cfg: Config{Leases: store}}
			ws := writes(View{Leases: []Lease{{Lease: &tc.lease, State: tc.state}}}, Plan{Assign: []Move{{0, "I"}}}, tc.handOff)
			require.Len(t, ws, 1)
			_, err := l.writeOne(t.Context(), ws[0])
			require.ErrorContains(t, err, "captured")

			key, terms, actions := parse(t, c.body)
			wantKey, wantTerms, wantActions := parse(t, java[tc.act])
			assert.Equal(t, wantKey, key)
			assert.Equal(t, javaException(tc.state, wantTerms), terms)
			assert.Equal(t, wantActions, actions)
		})
	}
}
