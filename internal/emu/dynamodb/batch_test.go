package dynamodb

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// aws-dynamodb#32
func TestBatches(t *testing.T) {
	entries := func(n int, form string) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(form, i))
		}
		return strings.Join(all, ",")
	}
	const put, del, key = `{"PutRequest":{"Item":{"leaseKey":{"S":"s%d"}}}}`, `{"DeleteRequest":{"Key":{"leaseKey":{"S":"s%d"}}}}`, `{"leaseKey":{"S":"s%d"}}`
	const count = `{"TableName":"leases","Select":"COUNT"}`

	t.Run("writes", func(t *testing.T) {
		c := leases(t)
		c.answers(t, `{"UnprocessedItems":{}}`, "BatchWriteItem", `{"RequestItems":{"leases":[%s]}}`, entries(25, put))
		c.answers(t, `{"Count":25,"ScannedCount":25}`, "Scan", count)
		c.answers(t, `{"UnprocessedItems":{}}`, "BatchWriteItem", `{"RequestItems":{"leases":[%s]}}`, entries(20, del))
		c.answers(t, `{"Count":5,"ScannedCount":5}`, "Scan", count)
	})
	t.Run("writes refused as a whole", func(t *testing.T) {
		c := leases(t)
		c.createLeases(t, "other", false)
		one := fmt.Sprintf(put, 1)
		for _, tt := range []struct{ body, code, text string }{
			{`{"RequestItems":{"leases":[` + entries(26, put) + `]}}`, validation, "Member must have length less than or equal to 25"},
			{`{"RequestItems":{"leases":[` + entries(15, put) + `],"other":[` + entries(15, put) + `]}}`, validation, "Too many items requested for the BatchWriteItem call"},
			{`{"RequestItems":{}}`, validation, "requestItems"},
			{`{"RequestItems":{"leases":[]}}`, validation, "greater than or equal to 1"},
			{`{"RequestItems":{"leases":[` + one + `,` + one + `]}}`, validation, "Provided list of item keys contains duplicates"},
			{`{"RequestItems":{"leases":[` + one + `,` + fmt.Sprintf(del, 1) + `]}}`, validation, "Provided list of item keys contains duplicates"},
			{`{"RequestItems":{"leases":[` + one + `,{"PutRequest":{"Item":{"x":{"S":"a"}}}}]}}`, validation, "Missing the key leaseKey in the item"},
			{`{"RequestItems":{"leases":[` + one + `,{"PutRequest":{"Item":{"leaseKey":{"S":"a"},"leaseOwner":{"N":"1"}}}}]}}`, validation, "Type mismatch for Index Key"},
			{`{"RequestItems":{"leases":[` + one + `,{}]}}`, validation, ""},
			{`{"RequestItems":{"leases":[` + one + `],"none":[` + one + `]}}`, notFound, ""},
		} {
			c.refused(t, tt.code, tt.text, "BatchWriteItem", "%s", tt.body)
			c.answers(t, `{"Count":0,"ScannedCount":0}`, "Scan", count)
		}
		c.ok(t, "BatchWriteItem", `{"RequestItems":{"leases":[%s],"other":[%s]}}`, one, one)
	})
	t.Run("gets", func(t *testing.T) {
		c := leases(t)
		c.put(t, "leases", `"leaseKey":{"S":"s0"},"x":{"S":"y"}`)
		c.createLeases(t, "other", false)
		c.answers(t, `{"Responses":{"leases":[{"leaseKey":{"S":"s0"},"x":{"S":"y"}}],"other":[]},"UnprocessedKeys":{}}`, "BatchGetItem",
			`{"RequestItems":{"leases":{"Keys":[%s]},"other":{"Keys":[%s]}}}`, entries(99, key), entries(1, key))
		c.answers(t, `{"Responses":{"leases":[{"x":{"S":"y"}}]},"UnprocessedKeys":{}}`, "BatchGetItem", `{"RequestItems":{"leases":{"Keys":[%s],"AttributesToGet":["x"],"ConsistentRead":true}}}`, entries(1, key))
		for _, tt := range []struct{ body, code, text string }{
			{`{"RequestItems":{"leases":{"Keys":[` + entries(101, key) + `]}}}`, validation, "Member must have length less than or equal to 100"},
			{`{"RequestItems":{"leases":{"Keys":[` + entries(60, key) + `]},"other":{"Keys":[` + entries(60, key) + `]}}}`, validation, "Too many items requested for the BatchGetItem call"},
			{`{"RequestItems":{}}`, validation, ""},
			{`{"RequestItems":{"leases":{"Keys":[` + fmt.Sprintf(key+","+key, 1, 1) + `]}}}`, validation, "Provided list of item keys contains duplicates"},
			{`{"RequestItems":{"leases":{"Keys":[{"x":{"S":"y"}}]}}}`, validation, "The provided key element does not match the schema"},
			{`{"RequestItems":{"leases":{"Keys":[` + entries(1, key) + `]},"none":{"Keys":[` + entries(1, key) + `]}}}`, notFound, ""},
		} {
			c.refused(t, tt.code, tt.text, "BatchGetItem", "%s", tt.body)
		}
	})
	t.Run("left-overs can be sent again", func(t *testing.T) {
		c := leases(t)
		large := strings.Repeat("x", 400_000)
		for i := range 50 {
			c.put(t, "leases", `"leaseKey":{"S":"s%d"},"v":{"S":%q}`, i, large)
		}
		request := fmt.Sprintf(`{"leases":{"Keys":[%s],"ConsistentRead":true,"ProjectionExpression":"#k","ExpressionAttributeNames":{"#k":"leaseKey"}}}`, entries(50, key))
		seen, calls := map[any]bool{}, 0
		for {
			answer := c.ok(t, "BatchGetItem", `{"RequestItems":%s}`, request)
			for _, item := range get(t, answer, "Responses.leases").([]any) {
				assert.Len(t, item, 1, "the projection is kept")
				seen[fmt.Sprint(item)] = true
			}
			calls++
			left := get(t, answer, "UnprocessedKeys").(map[string]any)
			if len(left) == 0 {
				break
			}
			assert.Equal(t, true, left["leases"].(map[string]any)["ConsistentRead"])
			b, err := json.Marshal(left)
			require.NoError(t, err)
			request = string(b)
		}
		assert.Len(t, seen, 50)
		assert.Equal(t, 2, calls)
	})
	t.Run("left-over writes can be sent again", func(t *testing.T) {
		busy := true
		c := newClient(Config{Timing: atOnce, Conflict: func(touch Touch) bool {
			return busy && strings.HasSuffix(touch.Key["leaseKey"].Text(), "1")
		}})
		c.createLeases(t, "leases", false)
		c.put(t, "leases", `"leaseKey":{"S":"old2"}`)
		answer := c.ok(t, "BatchWriteItem", `{"RequestItems":{"leases":[{"PutRequest":{"Item":{"leaseKey":{"S":"new1"},"x":{"N":"1.0"}}}},{"PutRequest":{"Item":{"leaseKey":{"S":"new2"}}}},{"DeleteRequest":{"Key":{"leaseKey":{"S":"old1"}}}},{"DeleteRequest":{"Key":{"leaseKey":{"S":"old2"}}}}]}}`)
		assert.JSONEq(t, `{"UnprocessedItems":{"leases":[{"PutRequest":{"Item":{"leaseKey":{"S":"new1"},"x":{"N":"1"}}}},{"DeleteRequest":{"Key":{"leaseKey":{"S":"old1"}}}}]}}`, answer)
		busy = false
		left, err := json.Marshal(get(t, answer, "UnprocessedItems"))
		require.NoError(t, err)
		c.answers(t, `{"UnprocessedItems":{}}`, "BatchWriteItem", `{"RequestItems":%s}`, left)
		c.answers(t, `{"Count":2,"ScannedCount":2}`, "Scan", `{"TableName":"leases","Select":"COUNT"}`)
	})
}
