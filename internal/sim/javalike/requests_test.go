package javalike

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/interchange"
)

// send makes the call of a request.
func send(c *dynamodb.Client, in any) {
	ctx := context.Background()
	switch in := in.(type) {
	case *dynamodb.PutItemInput:
		c.PutItem(ctx, in)
	case *dynamodb.UpdateItemInput:
		c.UpdateItem(ctx, in)
	case *dynamodb.DeleteItemInput:
		c.DeleteItem(ctx, in)
	case *dynamodb.GetItemInput:
		c.GetItem(ctx, in)
	case *dynamodb.QueryInput:
		c.Query(ctx, in)
	case *dynamodb.ScanInput:
		c.Scan(ctx, in)
	case *dynamodb.CreateTableInput:
		c.CreateTable(ctx, in)
	case *dynamodb.UpdateTableInput:
		c.UpdateTable(ctx, in)
	}
}

const (
	from3 = "226854911280625642308916404954512140970"
	top   = "340282366920938463463374607431768211455"
)

// millis is a time as it was written.
func millis(ms int64) time.Time { return time.UnixMilli(ms) }

// Every request is the one that a Java worker was recorded to send at the same act,
// to the letter.
func TestRequestsAreJavas(t *testing.T) {
	one, five, three := tablesOf(V35, "app1"), tablesOf(V35, "app5"), tablesOf(V34, "app3")
	const term = 2 * time.Minute
	version := func(s string) *lock { return &lock{version: s} }
	mine := func(owner, version string) lock { return lock{owner: owner, version: version, lasts: term} }
	for _, tc := range []struct {
		name     string
		scenario string
		line     int
		in       any
	}{
		{"lease table", "fresh-3.5-two-workers", 2, createTable("app1", "leaseKey")},
		{"index", "fresh-3.5-two-workers", 7, one.createIndex()},
		{"state table, 3.4", "legacy-tables-3.4", 5, createTable(three.state, three.stateKey)},
		{"reports' table, 3.4", "legacy-tables-3.4", 19, createTable(three.stats, three.statsKey)},

		{"look at the version", "fresh-3.5-two-workers", 5, one.getState(versionKey)},
		{"look at the version, 3.4", "legacy-tables-3.4", 11, three.getState(versionKey)},
		{"version", "fresh-3.5-two-workers", 6, one.createVersion("A", millis(1796033648433))},
		{"version, 3.4", "legacy-tables-3.4", 16, three.createVersion("D", millis(1796033740081))},

		{"acquire", "fresh-3.5-two-workers", 10, one.acquire("A", "12e8e4f1-62f6-4ad0-9cfe-de533b6866bf", term, nil)},
		{"acquire, 3.4", "legacy-tables-3.4", 20, three.acquire("D", "3de18caa-00e8-43cf-bb6a-e00c0b395b2f", term, nil)},
		{"steal", "fresh-3.5-two-workers", 26, one.acquire("A", "28d84ad2-e346-405c-829f-9e093b795fb0", term, version("f2cf763b-430a-476c-9d15-1a862cb060fa"))},
		{"beat", "fresh-3.5-two-workers", 15, one.beat(mine("A", "12e8e4f1-62f6-4ad0-9cfe-de533b6866bf"), "bfa25e6a-bccb-4407-9f03-65af577c6ff9")},
		{"beat, 3.4", "legacy-tables-3.4", 23, three.beat(mine("D", "3de18caa-00e8-43cf-bb6a-e00c0b395b2f"), "47e78212-4f6a-4942-9319-8d6e06c2a43a")},
		{"release", "fresh-3.5-two-workers", 23, one.release(mine("A", "4a003ebb-3ef1-4175-bf43-2476cce5ff27"))},
		{"release, 3.4", "legacy-tables-3.4", 30, three.release(mine("D", "ab4d8087-2fff-4876-8ec6-0bfa7a3b3a3a"))},

		{"report", "fresh-3.5-two-workers", 12, one.report("A", time.Unix(1796033650, 0))},
		{"report, 3.4", "legacy-tables-3.4", 14, three.report("C", time.Unix(1796033800, 0))},

		{"create", "fresh-3.5-two-workers", 14, one.create(lease{key: "shardId-000000000000", checkpoint: trimHorizon, start: "0", end: "85070591730234615865843651857942052863"})},
		{"create, 3.4", "legacy-tables-3.4", 9, three.create(lease{key: "shardId-000000000000", checkpoint: trimHorizon, start: "0", end: "170141183460469231731687303715884105727"})},
		{"create child", "reshard-and-hand-off-3.5", 24, five.create(lease{
			key: "shardId-000000000003", checkpoint: trimHorizon, parents: []string{"shardId-000000000002"}, start: from3, end: "283568639551172053557495388679933309211",
		})},
		{"children", "reshard-and-hand-off-3.5", 25, five.setChildren("shardId-000000000002", []string{"shardId-000000000004", "shardId-000000000003"})},
		{"get, 3.4", "legacy-tables-3.4", 24, three.get("shardId-000000000001")},
		{"renew", "fresh-3.5-two-workers", 17, one.renew(lease{key: "shardId-000000000000", owner: "A", counter: 1})},
		{"renew with throughput", "fresh-3.5-two-workers", 21, one.renew(lease{key: "shardId-000000000003", owner: "A", counter: 4, throughput: 0.008266, hasThroughput: true})},
		{"renew, refused", "reshard-and-hand-off-3.5", 27, five.renew(lease{key: "shardId-000000000003", owner: "H", counter: 13, throughput: 1e-6, hasThroughput: true})},
		{"renew during a hand-off", "reshard-and-hand-off-3.5", 28, five.renew(lease{key: "shardId-000000000003", owner: "I", checkpointOwner: "H", counter: 13, throughput: 1e-6, hasThroughput: true})},
		{"assign nobody's", "fresh-3.5-two-workers", 16, one.assign(lease{key: "shardId-000000000001"}, "A")},
		{"assign another's", "fresh-3.5-two-workers", 24, one.assign(lease{key: "shardId-000000000002", owner: "A"}, "B")},
		{"start hand-off", "reshard-and-hand-off-3.5", 26, five.startHandOff(lease{key: "shardId-000000000003", owner: "H"}, "I")},
		{"complete hand-off", "reshard-and-hand-off-3.5", 29, five.assign(lease{key: "shardId-000000000003", owner: "I", checkpointOwner: "H"}, "I")},
		{"checkpoint", "reshard-and-hand-off-3.5", 21, five.checkpoint(lease{
			key: "shardId-000000000002", owner: "H", counter: 3, checkpoint: "49680703608781918548057079227748390711431008012854100002", start: from3, end: top,
		})},
		{"prepared checkpoint", "reshard-and-hand-off-3.5", 32, five.checkpoint(lease{
			key: "shardId-000000000001", owner: "I", counter: 2, checkpoint: trimHorizon, pending: "49680703608759617802858548604602019289879901134649294866",
			start: "113427455640312821154458202477256070485", end: "226854911280625642308916404954512140969",
		})},
		{"delete", "reshard-and-hand-off-3.5", 31, five.delete("shardId-000000000002")},
		{"owned", "fresh-3.5-two-workers", 22, one.owned("A")},
		{"look for leases, 3.4", "legacy-tables-3.4", 6, &dynamodb.ScanInput{TableName: aws.String("app3"), Limit: aws.Int32(1)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := interchange.Java(t, tc.scenario, tc.line).Request
			got := interchange.Sent(t, func(c *dynamodb.Client) { send(c, tc.in) })
			assert.Equal(t, want.Operation, got.Operation)
			assert.JSONEq(t, letter(t, want.Body), letter(t, got.Body))
		})
	}
}

// letter leaves out the one thing that the recordings have by the chance of a clock
// that was read twice: the time of the first entry of a history.
func letter(t *testing.T, body []byte) string {
	var in map[string]any
	require.NoError(t, json.Unmarshal(body, &in))
	if it, ok := in["Item"].(map[string]any); ok && it["h"] != nil {
		past := it["h"].(map[string]any)["L"].([]any)[0].(map[string]any)["M"].(map[string]any)
		require.Contains(t, past, "mts")
		past["mts"] = nil
	}
	out, err := json.Marshal(in)
	require.NoError(t, err)
	return string(out)
}

// What Java workers left in their tables can be read, and what breaks a Java worker
// cannot.
func TestDecode(t *testing.T) {
	n := 0
	for _, it := range interchange.Items(t) {
		if it.Attributes["leaseKey"] == nil {
			continue
		}
		n++
		assert.NoError(t, decode(entityOf(it.Attributes), it.Attributes), "%s %v", it.State, it.Attributes["leaseKey"])
	}
	require.Greater(t, n, 50)

	l := func(change func(item)) item {
		it := item{
			"leaseKey": str("shardId-0"), "entityType": str("LEASE"), "leaseCounter": num(1), "ownerSwitchesSinceCheckpoint": num(0),
			"checkpoint": str(trimHorizon), "checkpointSubSequenceNumber": num(0), "startingHashKey": str("0"), "endingHashKey": str("9"), "leaseOwner": str("a"),
		}
		change(it)
		return it
	}
	lockItem := item{"leaseKey": str(leaderKey), "entityType": str(leaderEntity), "ownerName": str("a"), "leaseDuration": str("2m0s"), "recordVersionNumber": str("v")}
	for want, it := range map[string]item{
		"leaseCounter is missing":                      l(func(it item) { delete(it, "leaseCounter") }),
		"leaseOwner is a *types.AttributeValueMemberN": l(func(it item) { it["leaseOwner"] = num(1) }),
		"leaseOwner is empty":                          l(func(it item) { it["leaseOwner"] = str("") }),
		`checkpoint is "HERE", no position`:            l(func(it item) { it["checkpoint"] = str("HERE") }),
		"hash range from 9 to 9":                       l(func(it item) { it["startingHashKey"] = str("9") }),
		"leaseDuration is no number of milliseconds":   lockItem,
		"lut is missing":                               {"leaseKey": str("a"), "entityType": str(reportEntity)},
		"cv is missing":                                {"leaseKey": str(versionKey), "entityType": str(versionEntity), "mb": str("a"), "mts": num(1)},
		"tm is missing":                                {"leaseKey": str("TableMigration3.5"), "entityType": str(tableEntity), "mb": str("a"), "mts": num(1)},
	} {
		assert.ErrorContains(t, decode(entityOf(it), it), want)
	}
}
