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

// Each of our requests has the key, attributes, types and conditions of Java's
// for the same act, and nothing else but what javaExceptions adds. As every term
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
			javaExceptions(act, &want)
			assert.Equal(t, want, interchange.Parse(t, got))
		})
	}
}
