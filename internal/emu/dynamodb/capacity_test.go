package dynamodb

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// aws-dynamodb#48: the worked capacities.
func TestConsumedCapacity(t *testing.T) {
	const (
		owned  = `"leaseKey":{"S":"s1"},"leaseOwner":{"S":"A"},"leaseCounter":{"N":"1"}`
		update = `"Key":{"leaseKey":{"S":"s1"}},"UpdateExpression":"SET %s = :v","ExpressionAttributeValues":{":v":{"S":"x"}}`
	)
	kilobytes := func(n int) string { return strings.Repeat("x", n<<10) }
	tests := []struct {
		name, stored, operation, body string
		table, index                  float64
	}{
		{"create with owner", ``, "PutItem", `"Item":{` + owned + `}`, 1, 1},
		{"create without owner", ``, "PutItem", `"Item":{"leaseKey":{"S":"s1"}}`, 1, 0},
		{"renewal", owned, "UpdateItem", fmt.Sprintf(update, "rvn"), 1, 0},
		{"owner change", owned, "UpdateItem", fmt.Sprintf(update, "leaseOwner"), 1, 2},
		{"checkpoint", owned, "UpdateItem", fmt.Sprintf(update, "checkpoint"), 1, 0},
		{"delete of an owned lease", owned, "DeleteItem", `"Key":{"leaseKey":{"S":"s1"}}`, 1, 1},
		{"delete of an absent lease", ``, "DeleteItem", `"Key":{"leaseKey":{"S":"s1"}}`, 1, 0},
		{"large item", ``, "PutItem", `"Item":{"leaseKey":{"S":"s1"},"v":{"S":"` + kilobytes(3) + `"}}`, 4, 0},
		{"large item made small", `"leaseKey":{"S":"s1"},"v":{"S":"` + kilobytes(3) + `"}`, "PutItem", `"Item":{"leaseKey":{"S":"s1"}}`, 4, 0},
		{"consistent read", owned, "GetItem", `"ConsistentRead":true,"Key":{"leaseKey":{"S":"s1"}}`, 1, 0},
		{"read", owned, "GetItem", `"Key":{"leaseKey":{"S":"s1"}}`, 0.5, 0},
		{"read of nothing", ``, "GetItem", `"Key":{"leaseKey":{"S":"s1"}}`, 0.5, 0},
		{"read of 9 KB", `"leaseKey":{"S":"s1"},"v":{"S":"` + kilobytes(9) + `"}`, "GetItem", `"Key":{"leaseKey":{"S":"s1"}},"ProjectionExpression":"leaseKey"`, 1.5, 0},
		{"scan", owned, "Scan", `"Limit":10`, 2, 0},
		{"consistent scan", owned, "Scan", `"ConsistentRead":true`, 4, 0},
		{"scan of 20 KB", `"leaseKey":{"S":"s1"},"v":{"S":"` + kilobytes(20) + `"}`, "Scan", `"Select":"COUNT"`, 3, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			send := func(want string) any {
				c := leases(t)
				if tt.stored != "" {
					c.put(t, "leases", "%s", tt.stored)
				}
				return get(t, c.ok(t, tt.operation, "%s", `{"TableName":"leases",`+tt.body+want+`}`), "ConsumedCapacity")
			}
			assert.Nil(t, send(""))
			assert.Nil(t, send(`,"ReturnConsumedCapacity":"NONE"`))
			assert.Equal(t, map[string]any{"TableName": "leases", "CapacityUnits": tt.table + tt.index}, send(`,"ReturnConsumedCapacity":"TOTAL"`))
			want := map[string]any{"TableName": "leases", "CapacityUnits": tt.table + tt.index, "Table": map[string]any{"CapacityUnits": tt.table}}
			if tt.index > 0 {
				want["GlobalSecondaryIndexes"] = map[string]any{"owners": map[string]any{"CapacityUnits": tt.index}}
			}
			assert.Equal(t, want, send(`,"ReturnConsumedCapacity":"INDEXES"`))
		})
	}
	t.Run("query of 10 index entries", func(t *testing.T) {
		c := leases(t)
		for i := range 10 {
			c.put(t, "leases", `"leaseKey":{"S":"s%d"},"leaseOwner":{"S":"A"},"v":{"S":%q}`, i, kilobytes(3))
		}
		query := strings.TrimSuffix(ownerQuery("leases", "owners", "A"), "}")
		want := `{"TableName":"leases","CapacityUnits":0.5%s}`
		for detail, more := range map[string]string{"TOTAL": "", "INDEXES": `,"Table":{"CapacityUnits":0},"GlobalSecondaryIndexes":{"owners":{"CapacityUnits":0.5}}`} {
			answer := c.ok(t, "Query", "%s", query+`,"Select":"COUNT","ReturnConsumedCapacity":"`+detail+`"}`)
			assert.JSONEq(t, `{"Count":10,"ScannedCount":10,"ConsumedCapacity":`+fmt.Sprintf(want, more)+`}`, answer)
		}
	})
	t.Run("failed condition", func(t *testing.T) {
		c := leases(t)
		body := c.refused(t, condFailed, "", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"s1"}},"ReturnConsumedCapacity":"TOTAL","ConditionExpression":"attribute_exists(leaseKey)"}`)
		assert.NotContains(t, body, "Capacity")
	})
	t.Run("batches", func(t *testing.T) {
		c := leases(t)
		c.createLeases(t, "other", false)
		c.answers(t, `{"UnprocessedItems":{},"ConsumedCapacity":[{"TableName":"leases","CapacityUnits":3},{"TableName":"other","CapacityUnits":1}]}`, "BatchWriteItem",
			`{"ReturnConsumedCapacity":"TOTAL","RequestItems":{"leases":[{"PutRequest":{"Item":{"leaseKey":{"S":"a"},"leaseOwner":{"S":"A"}}}},{"PutRequest":{"Item":{"leaseKey":{"S":"b"}}}}],"other":[{"DeleteRequest":{"Key":{"leaseKey":{"S":"a"}}}}]}}`)
		c.answers(t, `{"Responses":{"leases":[{"leaseKey":{"S":"b"}}]},"UnprocessedKeys":{},"ConsumedCapacity":[{"TableName":"leases","CapacityUnits":1}]}`, "BatchGetItem",
			`{"ReturnConsumedCapacity":"TOTAL","RequestItems":{"leases":{"Keys":[{"leaseKey":{"S":"b"}},{"leaseKey":{"S":"none"}}]}}}`)
	})
	t.Run("transactions", func(t *testing.T) {
		c := leases(t)
		c.createLeases(t, "other", false)
		c.put(t, "other", `"leaseKey":{"S":"a"},"v":{"S":%q}`, kilobytes(2))
		transaction := `{"ClientRequestToken":"t","ReturnConsumedCapacity":%q,"TransactItems":[{"Put":{"TableName":"leases","Item":{"leaseKey":{"S":"a"}}}},{"ConditionCheck":{"TableName":"other","Key":{"leaseKey":{"S":"a"}},"ConditionExpression":"attribute_exists(v)"}}]}`
		c.answers(t, `{"ConsumedCapacity":[{"TableName":"leases","CapacityUnits":2,"WriteCapacityUnits":2},{"TableName":"other","CapacityUnits":6,"WriteCapacityUnits":6}]}`, "TransactWriteItems", transaction, "TOTAL")
		c.answers(t, `{"ConsumedCapacity":[{"TableName":"leases","CapacityUnits":2,"ReadCapacityUnits":2},{"TableName":"other","CapacityUnits":2,"ReadCapacityUnits":2}]}`, "TransactWriteItems", transaction, "TOTAL")
		c.answers(t, `{"ConsumedCapacity":[{"TableName":"leases","CapacityUnits":3,"WriteCapacityUnits":3,"Table":{"CapacityUnits":2,"WriteCapacityUnits":2},"GlobalSecondaryIndexes":{"owners":{"CapacityUnits":1,"WriteCapacityUnits":1}}}]}`, "TransactWriteItems",
			`{"ReturnConsumedCapacity":"INDEXES","TransactItems":[{"Put":{"TableName":"leases","Item":{"leaseKey":{"S":"b"},"leaseOwner":{"S":"A"}}}}]}`)
		c.answers(t, `{"Responses":[{},{"Item":{"leaseKey":{"S":"a"}}}],"ConsumedCapacity":[{"TableName":"other","CapacityUnits":2,"ReadCapacityUnits":2},{"TableName":"leases","CapacityUnits":2,"ReadCapacityUnits":2}]}`, "TransactGetItems",
			`{"ReturnConsumedCapacity":"TOTAL","TransactItems":[{"Get":{"TableName":"other","Key":{"leaseKey":{"S":"none"}}}},{"Get":{"TableName":"leases","Key":{"leaseKey":{"S":"a"}}}}]}`)
		body := c.refused(t, txCancelled, "", "TransactWriteItems", `{"ReturnConsumedCapacity":"TOTAL","TransactItems":[{"Delete":{"TableName":"other","Key":{"leaseKey":{"S":"a"}},"ConditionExpression":"attribute_not_exists(v)"}}]}`)
		assert.NotContains(t, body, "Capacity")
	})
	t.Run("a scan of a segment looks into fewer partitions", func(t *testing.T) {
		c := leases(t)
		for segment := range 4 {
			c.answers(t, `{"Count":0,"ScannedCount":0,"ConsumedCapacity":{"TableName":"leases","CapacityUnits":0.5}}`, "Scan", `{"TableName":"leases","Select":"COUNT","ReturnConsumedCapacity":"TOTAL","TotalSegments":4,"Segment":%d}`, segment)
		}
	})
}
