package dynamodb

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// everyWrite stores the item given by the inside of its JSON object, key "s1",
// by each of the calls that can, and hands the answer over.
func everyWrite(t *testing.T, item string, f func(t *testing.T, c client, code, text string)) {
	t.Helper()
	whole := `{"leaseKey":{"S":"s1"},` + item + `}`
	name, value, _ := strings.Cut(item, ":")
	for operation, body := range map[string]string{
		"PutItem":            `{"TableName":"leases","Item":` + whole + `}`,
		"UpdateItem":         `{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}},"UpdateExpression":"SET #n = :v","ExpressionAttributeNames":{"#n":` + name + `},"ExpressionAttributeValues":{":v":` + value + `}}`,
		"BatchWriteItem":     `{"RequestItems":{"leases":[{"PutRequest":{"Item":` + whole + `}}]}}`,
		"TransactWriteItems": `{"TransactItems":[{"Put":{"TableName":"leases","Item":` + whole + `}}]}`,
	} {
		c := leases(t)
		a := c.call(operation, body)
		code, text := "", ""
		if a.Err != nil {
			code, text = a.Err.Code(), a.Err.Message
		}
		t.Run(operation, func(t *testing.T) { f(t, c, code, text) })
	}
	t.Run("AttributeUpdates", func(t *testing.T) {
		c := leases(t)
		a := c.call("UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}},"AttributeUpdates":{`+name+`:{"Value":`+value+`}}}`)
		code, text := "", ""
		if a.Err != nil {
			code, text = a.Err.Code(), a.Err.Message
		}
		f(t, c, code, text)
	})
}

// aws-dynamodb#2: the table of numbers, by every write.
func TestNumbersAsReturned(t *testing.T) {
	zeros := strings.Repeat("0", 125)
	for sent, returned := range map[string]string{
		"1.0E-6": "0.000001", "85.0": "85", "0.0": "0", "-0": "0", "1e3": "1000", "9.23E-4": "0.000923",
		"00012": "12", "1.10": "1.1", "+3": "3", "3.": "3", ".5": "0.5", "-0015.789e6": "-15789000", "1E125": "1" + zeros,
	} {
		t.Run(sent, func(t *testing.T) {
			for _, form := range []string{`{"N":%q}`, `{"NS":[%q]}`, `{"L":[{"N":%q}]}`, `{"M":{"n":{"N":%q}}}`} {
				everyWrite(t, `"v":`+fmt.Sprintf(form, sent), func(t *testing.T, c client, code, text string) {
					assert.Empty(t, code, text)
					assert.JSONEq(t, `{"leaseKey":{"S":"s1"},"v":`+fmt.Sprintf(form, returned)+`}`, c.item(t, "leases", "s1"))
				})
			}
		})
	}
}

// aws-dynamodb#3,46: numbers that are refused, by every write, and exact sums.
func TestNumbersRefused(t *testing.T) {
	digits := strings.Repeat("1234567890", 4)
	for _, sent := range []string{digits[:39], "1E126", "1E-131", "NaN", " 1", "", "0e126", "0e-131", ".", "1e+", "1e99999999999"} {
		t.Run(sent, func(t *testing.T) {
			everyWrite(t, `"v":`+fmt.Sprintf(`{"N":%q}`, sent), func(t *testing.T, c client, code, text string) {
				assert.Equal(t, validation, code)
				assert.Empty(t, c.item(t, "leases", "s1"))
			})
		})
	}
	for _, sent := range []string{digits[:38], "1.e5", "0e125", "0.0e126"} {
		everyWrite(t, `"v":`+fmt.Sprintf(`{"N":%q}`, sent), func(t *testing.T, c client, code, text string) { assert.Empty(t, code, text) })
	}
	c := leases(t)
	c.put(t, "leases", `"leaseKey":{"S":"s1"},"v":{"N":"0.1"},"w":{"N":"1e50"}`)
	c.answers(t, `{"Attributes":{"v":{"N":"0.3"}}}`, "UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}},"ReturnValues":"UPDATED_NEW","UpdateExpression":"ADD v :n","ExpressionAttributeValues":{":n":{"N":"0.2"}}}`)
	before := c.item(t, "leases", "s1")
	for _, update := range []string{`"UpdateExpression":"SET v = :n, w = w + :n","ExpressionAttributeValues":{":n":{"N":"1"}}`, `"AttributeUpdates":{"w":{"Action":"ADD","Value":{"N":"1"}}}`} {
		c.refused(t, validation, "Number overflow", "UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}},%s}`, update)
		assert.Equal(t, before, c.item(t, "leases", "s1"))
	}
}

// aws-dynamodb#4
func TestNumberKeysGoByValue(t *testing.T) {
	c := newClient(Config{Timing: atOnce})
	c.ok(t, "CreateTable", `{"TableName":"ttt","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"k","KeyType":"HASH"}],"AttributeDefinitions":[{"AttributeName":"k","AttributeType":"N"}]}`)
	c.put(t, "ttt", `"k":{"N":"1e3"},"v":{"S":"a"}`)
	c.answers(t, `{"Item":{"k":{"N":"1000"},"v":{"S":"a"}}}`, "GetItem", `{"TableName":"ttt","Key":{"k":{"N":"1000.0"}}}`)
	c.put(t, "ttt", `"k":{"N":"1000"},"v":{"S":"b"}`)
	c.answers(t, `{"Count":1,"ScannedCount":1}`, "Scan", `{"TableName":"ttt","Select":"COUNT"}`)
	c.refused(t, validation, "Provided list of item keys contains duplicates", "BatchWriteItem", `{"RequestItems":{"ttt":[{"PutRequest":{"Item":{"k":{"N":"1e3"}}}},{"DeleteRequest":{"Key":{"k":{"N":"1000"}}}}]}}`)
	c.answers(t, `{"Responses":{"ttt":[{"v":{"S":"b"}},{"v":{"S":"b"}}]},"UnprocessedKeys":{}}`, "BatchGetItem", `{"RequestItems":{"ttt":{"ProjectionExpression":"v","Keys":[{"k":{"N":"1e3"}},{"k":{"N":"1000"}}]}}}`)
}

// aws-dynamodb#5,6
func TestEmptyValues(t *testing.T) {
	accepted := []string{`"v":{"S":""}`, `"v":{"B":""}`, `"v":{"SS":["","a"]}`, `"v":{"L":[{"S":""}]}`, `"v":{"M":{}}`, `"v":{"L":[]}`, `"v":{"M":{"a":{"L":[]}}}`}
	for _, item := range accepted {
		everyWrite(t, item, func(t *testing.T, c client, code, text string) {
			assert.Empty(t, code, text)
			assert.JSONEq(t, `{"leaseKey":{"S":"s1"},`+item+`}`, c.item(t, "leases", "s1"))
		})
	}
	for _, item := range []string{`"v":{"SS":[]}`, `"v":{"NS":[]}`, `"v":{"BS":[]}`, `"v":{"L":[{"SS":[]}]}`, `"v":{"NULL":false}`, `"v":{}`, `"v":{"S":"a","N":"1"}`, `"leaseOwner":{"S":""}`} {
		everyWrite(t, item, func(t *testing.T, c client, code, text string) {
			assert.Equal(t, validation, code, item)
			assert.Empty(t, c.item(t, "leases", "s1"))
		})
	}
	c := leases(t)
	const emptyKey = "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: leaseKey"
	for operation, body := range map[string]string{
		"PutItem":            `{"TableName":"leases","Item":{"leaseKey":{"S":""}}}`,
		"UpdateItem":         `{"TableName":"leases","Key":{"leaseKey":{"S":""}}}`,
		"DeleteItem":         `{"TableName":"leases","Key":{"leaseKey":{"S":""}}}`,
		"GetItem":            `{"TableName":"leases","Key":{"leaseKey":{"S":""}}}`,
		"BatchWriteItem":     `{"RequestItems":{"leases":[{"PutRequest":{"Item":{"leaseKey":{"S":""}}}}]}}`,
		"BatchGetItem":       `{"RequestItems":{"leases":{"Keys":[{"leaseKey":{"S":""}}]}}}`,
		"TransactWriteItems": `{"TransactItems":[{"Put":{"TableName":"leases","Item":{"leaseKey":{"S":""}}}}]}`,
		"TransactGetItems":   `{"TransactItems":[{"Get":{"TableName":"leases","Key":{"leaseKey":{"S":""}}}}]}`,
	} {
		c.refused(t, validation, emptyKey, operation, body)
	}
}

// aws-dynamodb#7
func TestItemSize(t *testing.T) {
	const atMost, room = 409_600, len("leaseKey") + len("s1") + len("v")
	filler := func(n int) string { return strings.Repeat("x", n-room) }
	put := func(n int) string {
		return `{"TableName":"leases","Item":{"leaseKey":{"S":"s1"},"v":{"S":"` + filler(n) + `"}}}`
	}
	update := func(n int) string {
		return `{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}},"UpdateExpression":"SET v = :v","ExpressionAttributeValues":{":v":{"S":"` + filler(n) + `"}}}`
	}
	batch := func(n int) string {
		return `{"RequestItems":{"leases":[{"PutRequest":{"Item":{"leaseKey":{"S":"s1"},"v":{"S":"` + filler(n) + `"}}}}]}}`
	}
	for _, tt := range []struct {
		operation string
		body      func(int) string
		text      string
	}{
		{"PutItem", put, "Item size has exceeded the maximum allowed size"},
		{"UpdateItem", update, "Item size to update has exceeded the maximum allowed size"},
		{"BatchWriteItem", batch, "Item size has exceeded the maximum allowed size"},
	} {
		c := leases(t)
		c.refused(t, validation, tt.text, tt.operation, tt.body(atMost+1))
		assert.Empty(t, c.item(t, "leases", "s1"))
		c.ok(t, tt.operation, tt.body(atMost))
		assert.NotEmpty(t, c.item(t, "leases", "s1"))
	}
	c := leases(t)
	c.ok(t, "PutItem", put(atMost))
	c.refused(t, validation, "Item size to update has exceeded", "UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}},"AttributeUpdates":{"w":{"Value":{"BOOL":true}}}}`)
	c.refused(t, validation, "Item size has exceeded the maximum allowed size", "TransactWriteItems", `{"TransactItems":[{"Put":%s}]}`, put(atMost+1))
	body := c.refused(t, txCancelled, "[None, ValidationError]", "TransactWriteItems", `{"TransactItems":[
		{"Put":{"TableName":"leases","Item":{"leaseKey":{"S":"s2"}}}},
		{"Update":{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}},"UpdateExpression":"SET w = :w","ExpressionAttributeValues":{":w":{"S":"x"}}}}]}`)
	assert.Equal(t, "Item size to update has exceeded the maximum allowed size", get(t, body, "CancellationReasons.1.Message"))
}
