package lease

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/emu/attr"
	"github.com/go-kcl/kcl/internal/emu/expr"
)

// capture is an HTTP client that keeps the requests and sends none: every call
// fails.
type capture struct {
	operations []string
	bodies     [][]byte
}

func (c *capture) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	c.operations = append(c.operations, op)
	c.bodies = append(c.bodies, body)
	return nil, errors.New("captured")
}

// sentBy returns the one request that act sends.
func sentBy(t *testing.T, multiStream bool, act func(context.Context, *Store)) (operation string, body []byte) {
	t.Helper()
	c := new(capture)
	act(t.Context(), NewStore(StoreConfig{Client: clientOf(c), Table: testTable, MultiStream: multiStream, Segments: 1}))
	require.Len(t, c.bodies, 1)
	return c.operations[0], c.bodies[0]
}

// sentence is what a request says, whichever form it says it in.
type sentence struct {
	Operation string
	Key       []string // as are Item: sorted "attribute = value"
	Item      []string
	Terms     []string // of the condition
	Actions   []string // of the update
	Filter    string
	KeyTerms  string
	// Members are all others but the table's name, as JSON.
	Members map[string]string
}

var ops = map[string]expr.Op{
	"PutItem": expr.OpPut, "UpdateItem": expr.OpUpdate, "DeleteItem": expr.OpDelete,
	"GetItem": expr.OpGet, "Query": expr.OpQuery, "Scan": expr.OpScan,
}

func parse(t *testing.T, operation string, body []byte) sentence {
	t.Helper()
	var in struct {
		expr.Request
		Key, Item attr.Item
	}
	require.NoError(t, json.Unmarshal(body, &in))
	parsed, err := in.Parse(ops[operation])
	require.NoError(t, err, "%s %s", operation, body)

	var raw map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(body, &raw))
	members := map[string]string{}
	for m, v := range raw {
		switch m {
		case "TableName", "Key", "Item", "ConditionExpression", "FilterExpression", "KeyConditionExpression",
			"UpdateExpression", "ExpressionAttributeNames", "ExpressionAttributeValues", "Expected", "AttributeUpdates":
		default:
			members[m] = string(v)
		}
	}
	out := sentence{
		Operation: operation,
		Key:       lines(in.Key), Item: lines(in.Item),
		Terms: parsed.Condition.Terms(), Actions: parsed.Update.Actions(),
		Filter:  parsed.Filter.String(),
		Members: members,
	}
	if parsed.KeyCondition != nil {
		out.KeyTerms = parsed.KeyCondition.String()
	}
	return out
}

func lines(it attr.Item) []string {
	var out []string
	for name, v := range it {
		if m := v.Members(); m != nil {
			v = attr.Set(v.Kind(), slices.Sorted(slices.Values(m))...)
		}
		out = append(out, name+" = "+string(v.AppendJSON(nil)))
	}
	slices.Sort(out)
	return out
}

// javaRequest is a recorded request of a Java worker.
type javaRequest struct {
	Act       string
	Operation string
	Request   json.RawMessage
}

func javaRequests(t *testing.T) []javaRequest {
	t.Helper()
	data, err := os.ReadFile("testdata/java-requests.jsonl")
	require.NoError(t, err)
	var out []javaRequest
	for s := bufio.NewScanner(bytes.NewReader(data)); s.Scan(); {
		var r javaRequest
		require.NoError(t, json.Unmarshal(s.Bytes(), &r))
		out = append(out, r)
	}
	return out
}

const (
	javaStream = "123456789012:ma:1"
	javaRange3 = "226854911280625642308916404954512140970"
	javaMax    = "340282366920938463463374607431768211455"
)

// ourActs makes each recorded act by a [Store], with the lease that the Java
// worker must have had in memory.
var ourActs = map[string]struct {
	multiStream bool
	do          func(context.Context, *Store)
}{
	"create": {do: func(ctx context.Context, s *Store) {
		s.Create(ctx, newLease("shardId-000000000000", kcl.AtTrimHorizon, "0", "85070591730234615865843651857942052863"))
	}},
	"create at a timestamp": {do: func(ctx context.Context, s *Store) {
		s.Create(ctx, newLease("shardId-000000000000", kcl.AtTimestampSentinel, "0", javaMax))
	}},
	"create child": {do: func(ctx context.Context, s *Store) {
		l := newLease("shardId-000000000003", kcl.AtTrimHorizon, javaRange3, "283568639551172053557495388679933309211")
		l.Parents = []string{"shardId-000000000002"}
		s.Create(ctx, l)
	}},
	"create, multi-stream": {multiStream: true, do: func(ctx context.Context, s *Store) {
		l := newLease("shardId-000000000000", kcl.AtTrimHorizon, "0", "170141183460469231731687303715884105727")
		l.Stream, l.Key = javaStream, javaStream+":"+l.ShardID
		s.Create(ctx, l)
	}},
	"create, 2.7": {do: func(ctx context.Context, s *Store) {
		s.Create(ctx, newLease("shardId-000000000000", kcl.AtTrimHorizon, "0", "170141183460469231731687303715884105727"))
	}},
	"renew": {do: func(ctx context.Context, s *Store) {
		s.Renew(ctx, Lease{Key: "shardId-000000000002", Owner: "H", Counter: 1})
	}},
	"renew with throughput": {do: func(ctx context.Context, s *Store) {
		s.Renew(ctx, Lease{Key: "shardId-000000000002", Owner: "H", Counter: 4, ThroughputKBps: 0.0088564, HasThroughput: true})
	}},
	"renew during a hand-off": {do: func(ctx context.Context, s *Store) {
		s.Renew(ctx, Lease{Key: "shardId-000000000003", Owner: "I", CheckpointOwner: "H", Counter: 13, ThroughputKBps: 1e-6, HasThroughput: true})
	}},
	"assign free lease": {do: func(ctx context.Context, s *Store) {
		s.Assign(ctx, Lease{Key: "shardId-000000000001"}, "I", false)
	}},
	"assign free lease, multi-stream": {multiStream: true, do: func(ctx context.Context, s *Store) {
		s.Assign(ctx, Lease{Key: javaStream + ":shardId-000000000001", Stream: javaStream, ShardID: "shardId-000000000001"}, "G", false)
	}},
	"assign owned lease": {do: func(ctx context.Context, s *Store) {
		s.Assign(ctx, Lease{Key: "shardId-000000000000", Owner: "H"}, "I", false)
	}},
	"complete hand-off": {do: func(ctx context.Context, s *Store) {
		s.Assign(ctx, Lease{Key: "shardId-000000000003", Owner: "I", CheckpointOwner: "H"}, "I", false)
	}},
	"start hand-off": {do: func(ctx context.Context, s *Store) {
		s.StartHandOff(ctx, Lease{Key: "shardId-000000000003", Owner: "H"}, "I")
	}},
	"checkpoint": {do: func(ctx context.Context, s *Store) {
		s.Checkpoint(ctx, Lease{
			Key: "shardId-000000000002", Owner: "H", Counter: 3,
			Checkpoint: kcl.Position{SequenceNumber: "49680703608781918548057079227748390711431008012854100002"},
			HashRange:  hashRange(javaRange3, javaMax),
		})
	}},
	"checkpoint, multi-stream": {multiStream: true, do: func(ctx context.Context, s *Store) {
		s.Checkpoint(ctx, Lease{
			Key: "123456789012:mb:1:shardId-000000000000", Stream: "123456789012:mb:1", ShardID: "shardId-000000000000", Owner: "G", Counter: 3,
			Checkpoint: kcl.Position{SequenceNumber: "11"},
			HashRange:  hashRange("0", "170141183460469231731687303715884105727"),
		})
	}},
	"prepare": {do: func(ctx context.Context, s *Store) {
		s.Checkpoint(ctx, Lease{
			Key: "shardId-000000000001", Owner: "I", Counter: 2,
			Checkpoint: kcl.AtTrimHorizon,
			Pending:    kcl.Position{SequenceNumber: "49680703608759617802858548604602019289879901134649294866"},
			HashRange:  hashRange("113427455640312821154458202477256070485", "226854911280625642308916404954512140969"),
		})
	}},
	"set children": {do: func(ctx context.Context, s *Store) {
		s.SetChildren(ctx, "shardId-000000000002", []string{"shardId-000000000003", "shardId-000000000004"})
	}},
	"delete":        {do: func(ctx context.Context, s *Store) { s.Delete(ctx, "shardId-000000000002") }},
	"get":           {do: func(ctx context.Context, s *Store) { s.Get(ctx, "shardId-000000000000") }},
	"list":          {do: func(ctx context.Context, s *Store) { s.List(ctx) }},
	"list stream":   {do: func(ctx context.Context, s *Store) { s.ListStream(ctx, javaStream) }},
	"scan":          {do: func(ctx context.Context, s *Store) { s.Scan(ctx) }},
	"keys of owner": {do: func(ctx context.Context, s *Store) { s.KeysOwnedBy(ctx, "H") }},
}

func newLease(shard string, p kcl.Position, start, end string) Lease {
	return Lease{Key: shard, ShardID: shard, Checkpoint: p, HashRange: hashRange(start, end)}
}

// Each request of ours has the keys, attributes, types and conditions of
// Java's for the same act, but for javaExceptions.
func TestRequestsAreJavas(t *testing.T) {
	acts := map[string]bool{}
	for _, java := range javaRequests(t) {
		acts[java.Act] = true
		t.Run(java.Act, func(t *testing.T) {
			act, ok := ourActs[java.Act]
			require.True(t, ok, "nothing makes this request")
			operation, body := sentBy(t, act.multiStream, act.do)
			ours := parse(t, operation, body)
			want := parse(t, java.Operation, java.Request)
			for _, e := range javaExceptions {
				if slices.Contains(e.acts, java.Act) {
					e.apply(&want)
				}
			}
			assert.Equal(t, want, ours)
		})
	}
	assert.Equal(t, slices.Sorted(maps.Keys(acts)), slices.Sorted(maps.Keys(ourActs)), "every act has a recording")
}

// The acts that no Java worker was recorded at.
func TestOurOwnRequests(t *testing.T) {
	owned := Lease{Key: "k", ShardID: "k", Owner: "A", Counter: 5, Checkpoint: kcl.ShardEnd}
	handOff := Lease{Key: "k", ShardID: "k", Owner: "B", CheckpointOwner: "A", Counter: 5}
	key := []string{`leaseKey = {"S":"k"}`}
	returns := map[string]string{"ReturnValues": `"ALL_NEW"`, "ReturnValuesOnConditionCheckFailure": `"ALL_OLD"`}
	for _, tc := range []struct {
		name string
		do   func(context.Context, *Store)
		want sentence
	}{
		{"assign an expired lease", func(ctx context.Context, s *Store) { s.Assign(ctx, owned, "B", true) }, sentence{
			Operation: "UpdateItem", Key: key, Members: returns,
			Terms:   []string{"attribute_not_exists(checkpointOwner)", `leaseCounter = {"N":"5"}`, `leaseKey = {"S":"k"}`, `leaseOwner = {"S":"A"}`},
			Actions: []string{`ADD leaseCounter {"N":"1"}`, `ADD ownerSwitchesSinceCheckpoint {"N":"1"}`, "REMOVE checkpointOwner", `SET leaseOwner = {"S":"B"}`},
		}},
		{"take a lease back during a hand-off", func(ctx context.Context, s *Store) { s.Assign(ctx, handOff, "A", true) }, sentence{
			Operation: "UpdateItem", Key: key, Members: returns,
			Terms:   []string{`checkpointOwner = {"S":"A"}`, `leaseCounter = {"N":"5"}`, `leaseKey = {"S":"k"}`, `leaseOwner = {"S":"B"}`},
			Actions: []string{`ADD leaseCounter {"N":"1"}`, `ADD ownerSwitchesSinceCheckpoint {"N":"1"}`, "REMOVE checkpointOwner", `SET leaseOwner = {"S":"A"}`},
		}},
		{"rewrite to the same owner", func(ctx context.Context, s *Store) { s.Assign(ctx, owned, "A", false) }, sentence{
			Operation: "UpdateItem", Key: key, Members: returns,
			Terms:   []string{"attribute_not_exists(checkpointOwner)", `leaseKey = {"S":"k"}`, `leaseOwner = {"S":"A"}`},
			Actions: []string{`ADD leaseCounter {"N":"1"}`, "REMOVE checkpointOwner", `SET leaseOwner = {"S":"A"}`},
		}},
		{"evict", func(ctx context.Context, s *Store) { s.Evict(ctx, owned) }, sentence{
			Operation: "UpdateItem", Key: key, Members: returns,
			Terms:   []string{"attribute_not_exists(checkpointOwner)", `leaseKey = {"S":"k"}`, `leaseOwner = {"S":"A"}`},
			Actions: []string{`ADD leaseCounter {"N":"1"}`, "REMOVE checkpointOwner", "REMOVE leaseOwner"},
		}},
		{"evict during a hand-off", func(ctx context.Context, s *Store) { s.Evict(ctx, handOff) }, sentence{
			Operation: "UpdateItem", Key: key, Members: returns,
			Terms:   []string{`checkpointOwner = {"S":"A"}`, `leaseKey = {"S":"k"}`, `leaseOwner = {"S":"B"}`},
			Actions: []string{`ADD leaseCounter {"N":"1"}`, "REMOVE checkpointOwner"},
		}},
		{"checkpoint with everything", func(ctx context.Context, s *Store) { s.Checkpoint(ctx, singleLease()) }, sentence{
			Operation: "UpdateItem", Key: []string{`leaseKey = {"S":"shardId-000000000002"}`}, Members: returns,
			Terms: []string{`leaseCounter = {"N":"42"}`},
			Actions: []string{
				`SET checkpoint = {"S":"49680703608781918548057079227748390711431008012854100002"}`,
				`SET checkpointSubSequenceNumber = {"N":"7"}`,
				`SET childShardIds = {"SS":["shardId-000000000003","shardId-000000000004"]}`,
				`SET endingHashKey = {"S":"340282366920938463463374607431768211455"}`,
				`SET leaseCounter = {"N":"43"}`,
				`SET ownerSwitchesSinceCheckpoint = {"N":"3"}`,
				`SET pendingCheckpoint = {"S":"49680703608781918548057079227748390711431008012854100003"}`,
				`SET pendingCheckpointState = {"B":"c3RhdGU="}`,
				`SET pendingCheckpointSubSequenceNumber = {"N":"1"}`,
				`SET startingHashKey = {"S":"0"}`,
				`SET throughputKBps = {"N":"0.000923"}`,
			},
		}},
		{"set hash range", func(ctx context.Context, s *Store) { s.SetHashRange(ctx, "k", hashRange("0", "9")) }, sentence{
			Operation: "UpdateItem", Key: key,
			Members: map[string]string{"ReturnValuesOnConditionCheckFailure": `"ALL_OLD"`},
			Terms:   []string{`leaseKey = {"S":"k"}`},
			Actions: []string{`SET endingHashKey = {"S":"9"}`, `SET startingHashKey = {"S":"0"}`},
		}},
		{"delete if nobody wrote", func(ctx context.Context, s *Store) { s.DeleteIf(ctx, owned, IfCounter) }, sentence{
			Operation: "DeleteItem", Key: key,
			Members: map[string]string{"ReturnValuesOnConditionCheckFailure": `"ALL_OLD"`},
			Terms:   []string{`leaseCounter = {"N":"5"}`},
		}},
		{"delete if ended", func(ctx context.Context, s *Store) { s.DeleteIf(ctx, owned, IfCounter|IfCheckpoint) }, sentence{
			Operation: "DeleteItem", Key: key,
			Members: map[string]string{"ReturnValuesOnConditionCheckFailure": `"ALL_OLD"`},
			Terms: []string{
				`(attribute_not_exists(checkpointSubSequenceNumber) OR checkpointSubSequenceNumber = {"N":"0"})`,
				`checkpoint = {"S":"SHARD_END"}`, `leaseCounter = {"N":"5"}`,
			},
		}},
		{"get consistently", func(ctx context.Context, s *Store) { s.GetConsistent(ctx, "k") }, sentence{
			Operation: "GetItem", Key: key, Members: map[string]string{"ConsistentRead": "true"},
		}},
		{"empty", func(ctx context.Context, s *Store) { s.Empty(ctx, true) }, sentence{
			Operation: "Scan", Members: map[string]string{"ConsistentRead": "true"},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			operation, body := sentBy(t, false, tc.do)
			got := parse(t, operation, body)
			if tc.want.Members == nil {
				tc.want.Members = map[string]string{}
			}
			assert.Equal(t, tc.want, got)
		})
	}
}
