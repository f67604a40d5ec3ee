package dynamodb

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// frequent are calls that workers make all the time.
var frequent = []struct{ operation, body string }{
	{"UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"shardId-000000000001"}},"UpdateExpression":"SET #c = :c","ConditionExpression":"#c = :was AND attribute_not_exists(#o)","ExpressionAttributeNames":{"#c":"leaseCounter","#o":"checkpointOwner"},"ExpressionAttributeValues":{":c":{"N":"8"},":was":{"N":"7"}},"ReturnValues":"ALL_NEW","ReturnValuesOnConditionCheckFailure":"ALL_OLD"}`},
	{"GetItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"Leader"}},"ConsistentRead":true}`},
	{"PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"w\u00e4rter"},"s":{"SS":["a","b"]},"l":{"L":[{"NULL":true},{"M":{"b":{"B":"AAE="}}}]}},"ConditionExpression":"attribute_not_exists(leaseKey)"}`},
	{"Query", `{"TableName":"leases","IndexName":"owners","KeyConditionExpression":"o = :o","ExpressionAttributeValues":{":o":{"S":"worker"}}}`},
	{"Scan", `{ "TableName": "leases", "Limit": 10, "ExclusiveStartKey": { "leaseKey": { "S": "a" } } }`},
}

func TestFrequentCallsAreDecodedQuickly(t *testing.T) {
	for _, f := range frequent {
		_, ok := operations[f.operation].decodeQuickly([]byte(f.body))
		assert.True(t, ok, "%s %s", f.operation, f.body)
	}
}

// What is decoded the quick way is what encoding/json makes of it, and nothing
// that encoding/json refuses.
func TestQuickDecoding(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	quick, checked := 0, 0
	check := func(operation string, body []byte) bool {
		checked++
		o := operations[operation]
		got, ok := o.decodeQuickly(body)
		if !ok {
			return false
		}
		quick++
		want := o.request()
		require.NoError(t, json.Unmarshal(body, want), "%s %s", operation, body)
		require.True(t, reflect.DeepEqual(want, got), "%s %s\n%#v\n%#v", operation, body, want, got)
		return true
	}
	const bits = "{}[]:,\"\\ \x00-019nutrefalsS\xffTN"
	try := func(operation string, body []byte) {
		if !check(operation, body) {
			return
		}
		for range 300 {
			b := slices.Clone(body)
			at := rng.IntN(len(b))
			switch rng.IntN(4) {
			case 0:
				b[at] = bits[rng.IntN(len(bits))]
			case 1:
				b = slices.Delete(b, at, at+1+rng.IntN(min(8, len(b)-at)))
			case 2:
				b = slices.Insert(b, at, bits[rng.IntN(len(bits))])
			default: // a piece twice
				b = slices.Insert(b, at, b[at:at+rng.IntN(len(b)-at)]...)
			}
			check(operation, b)
		}
	}
	for _, f := range frequent {
		try(f.operation, []byte(f.body))
	}
	for _, s := range recordedShapes(t) {
		try(s.Operation, s.Body)
	}
	assert.Greater(t, quick, 1000)
	assert.Greater(t, checked-quick, 1000)
	// Members that come twice are left to encoding/json, or mean the same.
	for _, twice := range []string{
		`{"TableName":"a","TableName":"b"}`, `{"ConsistentRead":true,"ConsistentRead":false}`,
		`{"Key":{"a":{"S":"b"}},"Key":{"c":{"S":"d"}}}`,
		`{"ExpressionAttributeNames":{"#a":"a"},"ExpressionAttributeNames":{"#b":"b"}}`,
	} {
		check("GetItem", []byte(twice))
	}
}
