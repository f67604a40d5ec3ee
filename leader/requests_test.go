package leader

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/attr"
	"github.com/go-kcl/kcl/internal/interchange"
)

// javaDiffers is the members in which our requests deliberately differ from
// Java's, and why.
var javaDiffers = map[string]map[string]any{
	// The item that refused the write tells a lock that was taken from a write
	// of ours whose answer was lost. Java takes both for a lost lock.
	"acquire": {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"},
	"reclaim": {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"},
	"steal":   {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"},
	"renew":   {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"},
}

// neverSeen is what no recording holds: no Java worker released a lock without
// deleting it. The request is written down from the lock client's source.
const neverSeen = `{
	"TableName": "app1",
	"ConditionExpression": "attribute_exists(#pk) AND #ir = :ir",
	"ExpressionAttributeNames": {"#pk": "leaseKey", "#ir": "isReleased"},
	"ExpressionAttributeValues": {":ir": {"S": "1"}},
	"Item": {"entityType": {"S": "LEADER"}, "leaseDuration": {"S": "120000"}, "leaseKey": {"S": "Leader"},
		"ownerName": {"S": "A"}, "recordVersionNumber": {"S": "28d84ad2-e346-405c-829f-9e093b795fb0"}}}`

// Each of our requests has the key, attributes, types and conditions of Java's
// for the same act, and nothing else but what javaDiffers lists. As every term
// of a condition is compared, none can be taken out unnoticed.
//
// leader-and-client-version-migration#4,11
func TestRequestsAreJavas(t *testing.T) {
	for _, j := range []struct {
		act      string
		scenario string
		line     int
	}{
		{"read", "single-table-phase-2-3.5", 17},
		{"acquire", "client-version-phase-2-3.5", 15},
		{"reclaim", "", 0},
		{"steal", "fresh-3.5-two-workers", 26},
		{"renew", "client-version-phase-2-3.5", 17},
		{"free", "client-version-phase-2-3.5", 18},
		{"legacy acquire", "single-table-phase-1-3.5", 9},
		{"legacy renew", "legacy-tables-3.4", 23},
		{"legacy free", "legacy-tables-3.4", 30},
	} {
		t.Run(j.act, func(t *testing.T) {
			java := interchange.Request{Operation: "PutItem", Body: json.RawMessage(neverSeen)}
			if j.scenario != "" {
				java = interchange.Java(t, j.scenario, j.line).Request
			}
			var in struct {
				TableName                 string
				Item                      attr.Item
				ExpressionAttributeValues attr.Item
			}
			require.NoError(t, json.Unmarshal(java.Body, &in))
			item := func(name string) string { return in.Item[name].Text() }
			value := func(name string) string { return in.ExpressionAttributeValues[name].Text() }
			put := lock{owner: item("ownerName"), version: item("recordVersionNumber"), duration: 2 * time.Minute}
			act, legacy := strings.CutPrefix(j.act, "legacy ")
			got := interchange.Sent(t, func(client *dynamodb.Client) {
				tab := table{client: client, name: in.TableName, keyAttribute: "leaseKey"}
				if legacy {
					tab.keyAttribute = "key"
				}
				var err error
				switch ctx := context.Background(); act {
				case "read":
					_, _, err = tab.read(ctx)
				case "acquire":
					_, err = tab.take(ctx, acquire, put, "")
				case "reclaim":
					_, err = tab.take(ctx, reclaim, put, "")
				case "steal":
					_, err = tab.take(ctx, steal, put, value(":rvn"))
				case "renew":
					_, err = tab.renew(ctx, lock{owner: value(":on"), version: value(":newRvn"), duration: 2 * time.Minute}, value(":rvn"))
				case "free":
					_, err = tab.free(ctx, value(":on"), value(":rvn"))
				}
				require.ErrorIs(t, err, interchange.ErrCaptured)
			})
			want := interchange.Parse(t, java)
			for name, v := range javaDiffers[act] {
				assert.NotContains(t, want.Members, name)
				want.Members[name] = v
			}
			assert.Equal(t, want, interchange.Parse(t, got))
		})
	}
}
