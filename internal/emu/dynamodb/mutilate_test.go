package dynamodb

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fullRequests have as many members as an operation knows, more than fit together.
var fullRequests = []struct{ operation, body string }{
	{"CreateTable", `{"TableName":"ttt","BillingMode":"PAY_PER_REQUEST","Tags":[{"Key":"a","Value":"b"}],"ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1},"DeletionProtectionEnabled":true,"AttributeDefinitions":[{"AttributeName":"leaseKey","AttributeType":"S"},{"AttributeName":"leaseOwner","AttributeType":"S"}],"KeySchema":[{"AttributeName":"leaseKey","KeyType":"HASH"}],"GlobalSecondaryIndexes":[{"IndexName":"owners","KeySchema":[{"AttributeName":"leaseOwner","KeyType":"HASH"},{"AttributeName":"leaseKey","KeyType":"RANGE"}],"Projection":{"ProjectionType":"KEYS_ONLY"},"ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1}}]}`},
	{"UpdateTable", `{"TableName":"leases","BillingMode":"PROVISIONED","ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1},"DeletionProtectionEnabled":true,"AttributeDefinitions":[{"AttributeName":"leaseKey","AttributeType":"S"},{"AttributeName":"leaseOwner","AttributeType":"S"}],"GlobalSecondaryIndexUpdates":[{"Create":{"IndexName":"owners2","KeySchema":[{"AttributeName":"leaseOwner","KeyType":"HASH"},{"AttributeName":"leaseKey","KeyType":"RANGE"}],"Projection":{"ProjectionType":"KEYS_ONLY"}}},{"Update":{"IndexName":"owners","ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1}}},{"Delete":{"IndexName":"owners"}}]}`},
	{"Query", `{"TableName":"leases","IndexName":"owners","Limit":1,"Select":"COUNT","ConsistentRead":false,"ScanIndexForward":false,"ReturnConsumedCapacity":"INDEXES","ExclusiveStartKey":{"leaseKey":{"S":"a"},"leaseOwner":{"S":"A"}},"KeyConditionExpression":"leaseOwner = :a","FilterExpression":"attribute_exists(#b)","ProjectionExpression":"leaseKey","ExpressionAttributeValues":{":a":{"S":"A"}},"ExpressionAttributeNames":{"#b":"b"}}`},
	{"Query", `{"TableName":"leases","IndexName":"owners","AttributesToGet":["leaseKey"],"ConditionalOperator":"OR","KeyConditions":{"leaseOwner":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"a"}]},"leaseKey":{"ComparisonOperator":"BETWEEN","AttributeValueList":[{"S":"a"},{"S":"b"}]}},"QueryFilter":{"a":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"a"}]},"b":{"ComparisonOperator":"NULL"}}}`},
	{"Scan", `{"TableName":"leases","IndexName":"owners","Segment":0,"TotalSegments":2,"Limit":1,"Select":"SPECIFIC_ATTRIBUTES","ExclusiveStartKey":{"leaseKey":{"S":"a"},"leaseOwner":{"S":"A"}},"FilterExpression":"attribute_exists(#b) AND leaseOwner = :a","ProjectionExpression":"leaseKey","ExpressionAttributeValues":{":a":{"S":"A"}},"ExpressionAttributeNames":{"#b":"b"}}`},
	{"Scan", `{"TableName":"leases","ConditionalOperator":"OR","ScanFilter":{"a":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"a"}]},"b":{"ComparisonOperator":"NULL"}}}`},
	{"GetItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"a"}},"AttributesToGet":["leaseKey"],"ProjectionExpression":"a[0].#b","ExpressionAttributeNames":{"#b":"b"},"ConsistentRead":true,"ReturnConsumedCapacity":"TOTAL"}`},
	{"PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"a"},"x":{"L":[{"M":{"a":{"SS":["a"]}}}]}},"ConditionalOperator":"OR","Expected":{"a":{"Exists":false,"Value":{"S":"a"},"ComparisonOperator":"EQ","AttributeValueList":[{"S":"a"}]},"b":{"Exists":false}},"ReturnValues":"ALL_OLD","ReturnValuesOnConditionCheckFailure":"ALL_OLD"}`},
	{"UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"a"}},"ConditionalOperator":"OR","AttributeUpdates":{"a":{"Action":"ADD","Value":{"N":"1"}},"b":{"Action":"DELETE"}},"Expected":{"a":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"a"}]},"b":{"Exists":false}},"ReturnValues":"ALL_OLD","ReturnValuesOnConditionCheckFailure":"ALL_OLD"}`},
	{"UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"a"}},"UpdateExpression":"SET a = :a, #b = list_append(b, :c) REMOVE d[0] ADD e :n DELETE f :s","ConditionExpression":"size(a) > :n AND NOT contains(x, :a)","ExpressionAttributeValues":{":a":{"S":"A"},":c":{"L":[{"S":"A"}]},":n":{"N":"1"},":s":{"SS":["A"]}},"ExpressionAttributeNames":{"#b":"b"},"ReturnItemCollectionMetrics":"SIZE"}`},
	{"BatchGetItem", `{"RequestItems":{"leases":{"Keys":[{"leaseKey":{"S":"a"}},{"leaseKey":{"S":"b"}}],"ConsistentRead":true,"ProjectionExpression":"#b","ExpressionAttributeNames":{"#b":"b"},"AttributesToGet":["a"]}},"ReturnConsumedCapacity":"INDEXES"}`},
	{"BatchWriteItem", `{"RequestItems":{"leases":[{"PutRequest":{"Item":{"leaseKey":{"S":"a"}}}},{"DeleteRequest":{"Key":{"leaseKey":{"S":"b"}}}}]},"ReturnConsumedCapacity":"INDEXES"}`},
	{"TransactWriteItems", `{"ClientRequestToken":"x","ReturnConsumedCapacity":"INDEXES","TransactItems":[{"Put":{"TableName":"leases","Item":{"leaseKey":{"S":"a"}},"ConditionExpression":"attribute_exists(a)"}},{"Update":{"TableName":"leases","Key":{"leaseKey":{"S":"b"}},"UpdateExpression":"SET a = :a","ExpressionAttributeValues":{":a":{"S":"A"}}}},{"Delete":{"TableName":"leases","Key":{"leaseKey":{"S":"c"}}}},{"ConditionCheck":{"TableName":"leases","Key":{"leaseKey":{"S":"d"}},"ConditionExpression":"attribute_exists(#a)","ExpressionAttributeNames":{"#a":"a"},"ReturnValuesOnConditionCheckFailure":"ALL_OLD"}}]}`},
	{"TransactGetItems", `{"TransactItems":[{"Get":{"TableName":"leases","Key":{"leaseKey":{"S":"a"}},"ProjectionExpression":"#a","ExpressionAttributeNames":{"#a":"a"}}}]}`},
	{"UpdateContinuousBackups", `{"TableName":"leases","PointInTimeRecoverySpecification":{"PointInTimeRecoveryEnabled":true}}`},
	{"TagResource", `{"ResourceArn":"arn:aws:dynamodb:us-east-1:123456789012:table/leases","Tags":[{"Key":"a","Value":"b"}]}`},
	{"ListTagsOfResource", `{"ResourceArn":"arn:aws:dynamodb:us-east-1:123456789012:table/leases","NextToken":"x"}`},
}

// A request with members left out, doubled or replaced is refused or carried
// out, but never brings the service down.
func TestMutilatedRequests(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	c := newClient(Config{Timing: atOnce})
	c.createLeases(t, "leases", true)
	for range 1000 {
		for _, r := range fullRequests {
			var v any
			require.NoError(t, json.Unmarshal([]byte(r.body), &v))
			body, err := json.Marshal(mutilated(rnd, v))
			require.NoError(t, err)
			require.NotPanics(t, func() {
				a := c.call(r.operation, string(body))
				assert.Contains(t, []int{200, 400}, a.Status, "%s %s: %s", r.operation, body, a.Body)
			}, "%s %s", r.operation, body)
		}
	}
}

var strangeValues = []any{nil, "", "x", 0.0, -1.0, 1e18, true, []any{}, []any{nil}, map[string]any{}, map[string]any{"a": nil}, "#a", ":a"}

func mutilated(rnd *rand.Rand, v any) any {
	if rnd.IntN(12) == 0 {
		return strangeValues[rnd.IntN(len(strangeValues))]
	}
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if rnd.IntN(8) > 0 {
				out[k] = mutilated(rnd, v[k])
			}
		}
		return out
	case []any:
		out := []any{}
		for _, e := range v {
			for range []int{1, 1, 1, 1, 1, 0, 2}[rnd.IntN(7)] {
				out = append(out, mutilated(rnd, e))
			}
		}
		return out
	default:
		return v
	}
}
