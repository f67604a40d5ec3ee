package lease

import (
	"context"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/interchange"
)

// sentBy returns the one request that act sends.
func sentBy(t *testing.T, table string, multiStream bool, act func(context.Context, *Store)) interchange.Request {
	t.Helper()
	return interchange.Sent(t, func(c *dynamodb.Client) {
		act(t.Context(), NewStore(StoreConfig{Client: c, Table: table, MultiStream: multiStream, Segments: 1}))
	})
}

const (
	javaStream = "123456789012:ma:1"
	javaRange3 = "226854911280625642308916404954512140970"
	javaMax    = "340282366920938463463374607431768211455"
)

// acts are those that Java workers were recorded at, where that stands, and how
// a [Store] makes them, with the lease that the Java worker must have had in
// memory.
var acts = []struct {
	name        string
	scenario    string
	line        int
	multiStream bool
	do          func(context.Context, *Store)
}{
	{"create", "fresh-3.5-two-workers", 14, false, func(ctx context.Context, s *Store) {
		s.Create(ctx, newLease("shardId-000000000000", kcl.AtTrimHorizon, "0", "85070591730234615865843651857942052863"))
	}},
	{"create at a timestamp", "fresh-3.5-position-at-timestamp", 14, false, func(ctx context.Context, s *Store) {
		s.Create(ctx, newLease("shardId-000000000000", kcl.AtTimestampSentinel, "0", javaMax))
	}},
	{"create child", "reshard-and-hand-off-3.5", 24, false, func(ctx context.Context, s *Store) {
		l := newLease("shardId-000000000003", kcl.AtTrimHorizon, javaRange3, "283568639551172053557495388679933309211")
		l.Parents = []string{"shardId-000000000002"}
		s.Create(ctx, l)
	}},
	{"create, multi-stream", "fresh-3.5-multi-stream", 16, true, func(ctx context.Context, s *Store) {
		l := newLease("shardId-000000000000", kcl.AtTrimHorizon, "0", "170141183460469231731687303715884105727")
		l.Stream, l.Key = javaStream, javaStream+":"+l.ShardID
		s.Create(ctx, l)
	}},
	{"create, 2.7", "leases-2.7", 14, false, func(ctx context.Context, s *Store) {
		s.Create(ctx, newLease("shardId-000000000000", kcl.AtTrimHorizon, "0", "170141183460469231731687303715884105727"))
	}},
	{"renew", "reshard-and-hand-off-3.5", 18, false, func(ctx context.Context, s *Store) {
		s.Renew(ctx, Lease{Key: "shardId-000000000002", Owner: "H", Counter: 1})
	}},
	{"renew with throughput", "reshard-and-hand-off-3.5", 22, false, func(ctx context.Context, s *Store) {
		s.Renew(ctx, Lease{Key: "shardId-000000000002", Owner: "H", Counter: 4, ThroughputKBps: 0.0088564, HasThroughput: true})
	}},
	{"renew during a hand-off", "reshard-and-hand-off-3.5", 28, false, func(ctx context.Context, s *Store) {
		s.Renew(ctx, Lease{Key: "shardId-000000000003", Owner: "I", CheckpointOwner: "H", Counter: 13, ThroughputKBps: 1e-6, HasThroughput: true})
	}},
	{"assign free lease", "reshard-and-hand-off-3.5", 16, false, func(ctx context.Context, s *Store) {
		s.Assign(ctx, Lease{Key: "shardId-000000000001"}, "I", false)
	}},
	{"assign free lease, multi-stream", "fresh-3.5-multi-stream", 17, true, func(ctx context.Context, s *Store) {
		s.Assign(ctx, Lease{Key: javaStream + ":shardId-000000000001", Stream: javaStream, ShardID: "shardId-000000000001"}, "G", false)
	}},
	{"assign owned lease", "reshard-and-hand-off-3.5", 17, false, func(ctx context.Context, s *Store) {
		s.Assign(ctx, Lease{Key: "shardId-000000000000", Owner: "H"}, "I", false)
	}},
	{"complete hand-off", "reshard-and-hand-off-3.5", 29, false, func(ctx context.Context, s *Store) {
		s.Assign(ctx, Lease{Key: "shardId-000000000003", Owner: "I", CheckpointOwner: "H"}, "I", false)
	}},
	{"start hand-off", "reshard-and-hand-off-3.5", 26, false, func(ctx context.Context, s *Store) {
		s.StartHandOff(ctx, Lease{Key: "shardId-000000000003", Owner: "H"}, "I")
	}},
	{"checkpoint", "reshard-and-hand-off-3.5", 21, false, func(ctx context.Context, s *Store) {
		s.Checkpoint(ctx, Lease{
			Key: "shardId-000000000002", Owner: "H", Counter: 3,
			Checkpoint: kcl.Position{SequenceNumber: "49680703608781918548057079227748390711431008012854100002"},
			HashRange:  hashRange(javaRange3, javaMax),
		})
	}},
	{"checkpoint, multi-stream", "fresh-3.5-multi-stream", 21, true, func(ctx context.Context, s *Store) {
		s.Checkpoint(ctx, Lease{
			Key: "123456789012:mb:1:shardId-000000000000", Stream: "123456789012:mb:1", ShardID: "shardId-000000000000", Owner: "G", Counter: 3,
			Checkpoint: kcl.Position{SequenceNumber: "11"},
			HashRange:  hashRange("0", "170141183460469231731687303715884105727"),
		})
	}},
	{"prepare", "reshard-and-hand-off-3.5", 32, false, func(ctx context.Context, s *Store) {
		s.Checkpoint(ctx, Lease{
			Key: "shardId-000000000001", Owner: "I", Counter: 2,
			Checkpoint: kcl.AtTrimHorizon,
			Pending:    kcl.Position{SequenceNumber: "49680703608759617802858548604602019289879901134649294866"},
			HashRange:  hashRange("113427455640312821154458202477256070485", "226854911280625642308916404954512140969"),
		})
	}},
	{"set children", "reshard-and-hand-off-3.5", 25, false, func(ctx context.Context, s *Store) {
		s.SetChildren(ctx, "shardId-000000000002", []string{"shardId-000000000003", "shardId-000000000004"})
	}},
	{"delete", "reshard-and-hand-off-3.5", 31, false, func(ctx context.Context, s *Store) { s.Delete(ctx, "shardId-000000000002") }},
	{"get", "leases-2.7", 7, false, func(ctx context.Context, s *Store) { s.Get(ctx, "shardId-000000000000") }},
	{"list", "reshard-and-hand-off-3.5", 9, false, func(ctx context.Context, s *Store) { s.List(ctx) }},
	{"list stream", "fresh-3.5-multi-stream", 15, false, func(ctx context.Context, s *Store) { s.ListStream(ctx, javaStream) }},
	{"scan", "reshard-and-hand-off-3.5", 11, false, func(ctx context.Context, s *Store) { s.Scan(ctx) }},
	{"keys of owner", "reshard-and-hand-off-3.5", 23, false, func(ctx context.Context, s *Store) { s.KeysOwnedBy(ctx, "H") }},
}

func newLease(shard string, p kcl.Position, start, end string) Lease {
	return Lease{Key: shard, ShardID: shard, Checkpoint: p, HashRange: hashRange(start, end)}
}

// Each request of ours has the keys, attributes, types and conditions of
// Java's for the same act, but for javaExceptions.
func TestRequestsAreJavas(t *testing.T) {
	for _, act := range acts {
		t.Run(act.name, func(t *testing.T) {
			want := interchange.Parse(t, interchange.Java(t, act.scenario, act.line).Request)
			for _, e := range javaExceptions {
				if slices.Contains(e.acts, act.name) {
					e.apply(&want)
				}
			}
			assert.Equal(t, want, interchange.Parse(t, sentBy(t, want.Table, act.multiStream, act.do)))
		})
	}
}

// The acts that no Java worker was recorded at.
func TestOurOwnRequests(t *testing.T) {
	owned := Lease{Key: "k", ShardID: "k", Owner: "A", Counter: 5, Checkpoint: kcl.ShardEnd}
	handOff := Lease{Key: "k", ShardID: "k", Owner: "B", CheckpointOwner: "A", Counter: 5}
	key := []string{`leaseKey = {"S":"k"}`}
	returns := map[string]any{"ReturnValues": "ALL_NEW", "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
	for _, tc := range []struct {
		name string
		do   func(context.Context, *Store)
		want interchange.Sentence
	}{
		{"assign an expired lease", func(ctx context.Context, s *Store) { s.Assign(ctx, owned, "B", true) }, interchange.Sentence{
			Operation: "UpdateItem", Key: key, Members: returns,
			Terms:   []string{"attribute_not_exists(checkpointOwner)", `leaseCounter = {"N":"5"}`, `leaseKey = {"S":"k"}`, `leaseOwner = {"S":"A"}`},
			Actions: []string{`ADD leaseCounter {"N":"1"}`, `ADD ownerSwitchesSinceCheckpoint {"N":"1"}`, "REMOVE checkpointOwner", `SET leaseOwner = {"S":"B"}`},
		}},
		{"take a lease back during a hand-off", func(ctx context.Context, s *Store) { s.Assign(ctx, handOff, "A", true) }, interchange.Sentence{
			Operation: "UpdateItem", Key: key, Members: returns,
			Terms:   []string{`checkpointOwner = {"S":"A"}`, `leaseCounter = {"N":"5"}`, `leaseKey = {"S":"k"}`, `leaseOwner = {"S":"B"}`},
			Actions: []string{`ADD leaseCounter {"N":"1"}`, `ADD ownerSwitchesSinceCheckpoint {"N":"1"}`, "REMOVE checkpointOwner", `SET leaseOwner = {"S":"A"}`},
		}},
		{"rewrite to the same owner", func(ctx context.Context, s *Store) { s.Assign(ctx, owned, "A", false) }, interchange.Sentence{
			Operation: "UpdateItem", Key: key, Members: returns,
			Terms:   []string{"attribute_not_exists(checkpointOwner)", `leaseKey = {"S":"k"}`, `leaseOwner = {"S":"A"}`},
			Actions: []string{`ADD leaseCounter {"N":"1"}`, "REMOVE checkpointOwner", `SET leaseOwner = {"S":"A"}`},
		}},
		{"evict", func(ctx context.Context, s *Store) { s.Evict(ctx, owned) }, interchange.Sentence{
			Operation: "UpdateItem", Key: key, Members: returns,
			Terms:   []string{"attribute_not_exists(checkpointOwner)", `leaseKey = {"S":"k"}`, `leaseOwner = {"S":"A"}`},
			Actions: []string{`ADD leaseCounter {"N":"1"}`, "REMOVE checkpointOwner", "REMOVE leaseOwner"},
		}},
		{"evict during a hand-off", func(ctx context.Context, s *Store) { s.Evict(ctx, handOff) }, interchange.Sentence{
			Operation: "UpdateItem", Key: key, Members: returns,
			Terms:   []string{`checkpointOwner = {"S":"A"}`, `leaseKey = {"S":"k"}`, `leaseOwner = {"S":"B"}`},
			Actions: []string{`ADD leaseCounter {"N":"1"}`, "REMOVE checkpointOwner"},
		}},
		{"checkpoint with everything", func(ctx context.Context, s *Store) { s.Checkpoint(ctx, singleLease()) }, interchange.Sentence{
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
		{"set hash range", func(ctx context.Context, s *Store) { s.SetHashRange(ctx, "k", hashRange("0", "9")) }, interchange.Sentence{
			Operation: "UpdateItem", Key: key,
			Members: map[string]any{"ReturnValuesOnConditionCheckFailure": "ALL_OLD"},
			Terms:   []string{`leaseKey = {"S":"k"}`},
			Actions: []string{`SET endingHashKey = {"S":"9"}`, `SET startingHashKey = {"S":"0"}`},
		}},
		{"delete if nobody wrote", func(ctx context.Context, s *Store) { s.DeleteIf(ctx, owned, IfCounter) }, interchange.Sentence{
			Operation: "DeleteItem", Key: key,
			Members: map[string]any{"ReturnValuesOnConditionCheckFailure": "ALL_OLD"},
			Terms:   []string{`leaseCounter = {"N":"5"}`},
		}},
		{"delete if ended", func(ctx context.Context, s *Store) { s.DeleteIf(ctx, owned, IfCounter|IfCheckpoint) }, interchange.Sentence{
			Operation: "DeleteItem", Key: key,
			Members: map[string]any{"ReturnValuesOnConditionCheckFailure": "ALL_OLD"},
			Terms: []string{
				`(attribute_not_exists(checkpointSubSequenceNumber) OR checkpointSubSequenceNumber = {"N":"0"})`,
				`checkpoint = {"S":"SHARD_END"}`, `leaseCounter = {"N":"5"}`,
			},
		}},
		{"get consistently", func(ctx context.Context, s *Store) { s.GetConsistent(ctx, "k") }, interchange.Sentence{
			Operation: "GetItem", Key: key, Members: map[string]any{"ConsistentRead": true},
		}},
		{"empty", func(ctx context.Context, s *Store) { s.Empty(ctx, true) }, interchange.Sentence{
			Operation: "Scan", Members: map[string]any{"ConsistentRead": true},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.want.Table = testTable
			assert.Equal(t, tc.want, interchange.Parse(t, sentBy(t, testTable, false, tc.do)))
		})
	}
}
