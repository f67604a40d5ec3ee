package dynamodb

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

func leases(t *testing.T) client {
	t.Helper()
	c := newClient(Config{Timing: atOnce})
	c.createLeases(t, "leases", true)
	return c
}

// aws-dynamodb#11: the worked examples of lease writes.
func TestWorkedLeaseWrites(t *testing.T) {
	const lease = `{"leaseCounter":{"N":"7"},"leaseKey":{"S":"s1"},"leaseOwner":{"S":"A"}}`
	begin := func(t *testing.T) client {
		c := leases(t)
		c.put(t, "leases", `"leaseKey":{"S":"s1"},"leaseOwner":{"S":"A"},"leaseCounter":{"N":"7"}`)
		return c
	}
	renew := func(key, counter string) string {
		return fmt.Sprintf(`{"TableName":"leases","Key":{"leaseKey":{"S":%q}},"ReturnValuesOnConditionCheckFailure":"ALL_OLD",
			"Expected":{"leaseCounter":{"Value":{"N":%q}},"checkpointOwner":{"Exists":false}},
			"AttributeUpdates":{"leaseCounter":{"Action":"PUT","Value":{"N":"8"}}}}`, key, counter)
	}
	t.Run("1 renew, and once more after a lost answer", func(t *testing.T) {
		c := begin(t)
		c.answers(t, `{}`, "UpdateItem", renew("s1", "7"))
		body := c.refused(t, condFailed, "The conditional request failed", "UpdateItem", renew("s1", "7"))
		assert.JSONEq(t, `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"The conditional request failed",
			"Item":{"leaseCounter":{"N":"8"},"leaseKey":{"S":"s1"},"leaseOwner":{"S":"A"}}}`, body)
	})
	t.Run("2 numbers compare by value", func(t *testing.T) {
		for _, counter := range []string{"7.0", "07"} {
			begin(t).ok(t, "UpdateItem", renew("s1", counter))
		}
	})
	t.Run("3 renew of a deleted lease", func(t *testing.T) {
		c := begin(t)
		body := c.refused(t, condFailed, "", "UpdateItem", renew("s2", "7"))
		assert.NotContains(t, body, "Item")
		assert.Empty(t, c.item(t, "leases", "s2"))
	})
	t.Run("4 comparisons with a missing owner", func(t *testing.T) {
		c := begin(t)
		c.put(t, "leases", `"leaseKey":{"S":"s2"}`)
		for condition, holds := range map[string]bool{"leaseOwner <> :me": true, "NOT leaseOwner = :me": true, "leaseOwner = :me": false} {
			body := fmt.Sprintf(`{"TableName":"leases","Item":{"leaseKey":{"S":"s2"}},"ConditionExpression":%q,"ExpressionAttributeValues":{":me":{"S":"A"}}}`, condition)
			if holds {
				c.ok(t, "PutItem", body)
			} else {
				c.refused(t, condFailed, "", "PutItem", body)
			}
		}
	})
	t.Run("5 evict an absent lease", func(t *testing.T) {
		c := begin(t)
		evict := `{"TableName":"leases","Key":{"leaseKey":{"S":"s2"}},"AttributeUpdates":{"leaseCounter":{"Action":"ADD","Value":{"N":"1"}},"x":{"Value":{"S":"y"}}}%s}`
		c.refused(t, condFailed, "", "UpdateItem", evict, `,"Expected":{"leaseKey":{"Exists":true,"Value":{"S":"s2"}}}`)
		assert.Empty(t, c.item(t, "leases", "s2"))
		c.ok(t, "UpdateItem", evict, "")
		assert.JSONEq(t, `{"leaseKey":{"S":"s2"},"leaseCounter":{"N":"1"},"x":{"S":"y"}}`, c.item(t, "leases", "s2"))
	})
	t.Run("6 two workers create one lease", func(t *testing.T) {
		c := begin(t)
		create := `{"TableName":"leases","Item":{"leaseKey":{"S":"s2"}},"Expected":{"leaseKey":{"Exists":false}}}`
		assert.Equal(t, 1, together(2, func() bool { return c.call("PutItem", create).Err == nil }))
	})
	t.Run("7 steal after a heartbeat", func(t *testing.T) {
		c := begin(t)
		c.put(t, "leases", `"leaseKey":{"S":"Leader"},"rvn":{"S":"new"}`)
		c.refused(t, condFailed, "", "UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"Leader"}},"UpdateExpression":"SET owner_ = :o",
			"ConditionExpression":"attribute_exists(#pk) AND #rvn = :old","ExpressionAttributeNames":{"#pk":"leaseKey","#rvn":"rvn"},"ExpressionAttributeValues":{":old":{"S":"old"},":o":{"S":"me"}}}`)
	})
	assert.JSONEq(t, lease, begin(t).item(t, "leases", "s1"))
}

// together calls f n times at once and returns how many calls returned true.
func together(n int, f func() bool) (won int) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range n {
		wg.Go(func() {
			ok := f()
			mu.Lock()
			defer mu.Unlock()
			if ok {
				won++
			}
		})
	}
	wg.Wait()
	return won
}

// aws-dynamodb#12
func TestItemOfAFailedCondition(t *testing.T) {
	const never = `"ConditionExpression":"leaseCounter = :c","ExpressionAttributeValues":{":c":{"N":"99"}}`
	const neverOld = `"Expected":{"leaseCounter":{"Value":{"N":"99"}}}`
	for _, condition := range []string{never, neverOld} {
		for operation, target := range map[string]string{
			"PutItem":    `"Item":{"leaseKey":{"S":%q}}`,
			"UpdateItem": `"Key":{"leaseKey":{"S":%q}}`,
			"DeleteItem": `"Key":{"leaseKey":{"S":%q}}`,
		} {
			c := leases(t)
			c.put(t, "leases", `"leaseKey":{"S":"s1"},"leaseCounter":{"N":"7"},"x":{"L":[{"SS":["b","a"]}]}`)
			body := func(key, more string) string {
				return `{"TableName":"leases",` + condition + more + `,` + fmt.Sprintf(target, key) + `}`
			}
			const tell = `,"ReturnValuesOnConditionCheckFailure":"ALL_OLD"`
			answer := c.refused(t, condFailed, "", operation, body("s1", tell))
			assert.Equal(t, map[string]any{
				"leaseKey": map[string]any{"S": "s1"}, "leaseCounter": map[string]any{"N": "7"},
				"x": map[string]any{"L": []any{map[string]any{"SS": []any{"a", "b"}}}},
			}, get(t, answer, "Item"), "%s %s", operation, condition)
			for _, quiet := range []string{"", `,"ReturnValuesOnConditionCheckFailure":"NONE"`, `,"ReturnValues":"ALL_OLD"`} {
				assert.NotContains(t, c.refused(t, condFailed, "", operation, body("s1", quiet)), "Item", "%s %s %s", operation, condition, quiet)
			}
			assert.NotContains(t, c.refused(t, condFailed, "", operation, body("s2", tell)), "Item")
			c.refused(t, validation, "returnValuesOnConditionCheckFailure", operation, body("s1", `,"ReturnValuesOnConditionCheckFailure":"ALL_NEW"`))
		}
	}
}

// aws-dynamodb#13: each lease write of the KCL in both forms.
func TestLegacyAndExpressionFormsDoTheSame(t *testing.T) {
	const item = `"leaseKey":{"S":"s1"},"leaseOwner":{"S":"A"},"leaseCounter":{"N":"7"},"checkpointOwner":{"S":"B"},"checkpoint":{"S":"1"},"childShardIds":{"SS":["x"]}`
	tests := []struct{ name, operation, older, newer string }{
		{"create", "PutItem",
			`"Item":{` + item + `},"Expected":{"leaseKey":{"Exists":false}}`,
			`"Item":{` + item + `},"ConditionExpression":"attribute_not_exists(leaseKey)"`},
		{"renew", "UpdateItem",
			`"Expected":{"leaseCounter":{"Value":{"N":"7"}},"checkpointOwner":{"Exists":false}},"AttributeUpdates":{"leaseCounter":{"Action":"PUT","Value":{"N":"8"}}}`,
			`"ConditionExpression":"leaseCounter = :old AND attribute_not_exists(checkpointOwner)","UpdateExpression":"SET leaseCounter = :new","ExpressionAttributeValues":{":old":{"N":"7"},":new":{"N":"8"}}`},
		{"take", "UpdateItem",
			`"Expected":{"leaseCounter":{"Value":{"N":"7"}}},"AttributeUpdates":{"leaseOwner":{"Value":{"S":"C"}},"leaseCounter":{"Value":{"N":"8"}},"checkpointOwner":{"Action":"DELETE"},"ownerSwitchesSinceCheckpoint":{"Action":"ADD","Value":{"N":"1"}}}`,
			`"ConditionExpression":"leaseCounter = :old","UpdateExpression":"SET leaseOwner = :o, leaseCounter = :new REMOVE checkpointOwner ADD ownerSwitchesSinceCheckpoint :one","ExpressionAttributeValues":{":old":{"N":"7"},":new":{"N":"8"},":o":{"S":"C"},":one":{"N":"1"}}`},
		{"assign", "UpdateItem",
			`"Expected":{"leaseKey":{"Exists":true,"Value":{"S":"s1"}},"leaseOwner":{"Exists":false}},"AttributeUpdates":{"leaseOwner":{"Action":"PUT","Value":{"S":"C"}},"leaseCounter":{"Action":"ADD","Value":{"N":"1"}},"checkpointOwner":{"Action":"DELETE"}},"ReturnValues":"ALL_NEW"`,
			`"ConditionExpression":"leaseKey = :k AND attribute_not_exists(leaseOwner)","UpdateExpression":"SET leaseOwner = :o REMOVE checkpointOwner ADD leaseCounter :one","ExpressionAttributeValues":{":k":{"S":"s1"},":o":{"S":"C"},":one":{"N":"1"}},"ReturnValues":"ALL_NEW"`},
		{"evict", "UpdateItem",
			`"Expected":{"leaseKey":{"Exists":true,"Value":{"S":"s1"}},"leaseOwner":{"Value":{"S":"A"}}},"AttributeUpdates":{"leaseOwner":{"Action":"DELETE"},"checkpointOwner":{"Action":"DELETE"},"leaseCounter":{"Action":"ADD","Value":{"N":"1"}}}`,
			`"ConditionExpression":"leaseKey = :k AND leaseOwner = :o","UpdateExpression":"REMOVE leaseOwner, checkpointOwner ADD leaseCounter :one","ExpressionAttributeValues":{":k":{"S":"s1"},":o":{"S":"A"},":one":{"N":"1"}}`},
		{"checkpoint", "UpdateItem",
			`"Expected":{"leaseOwner":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"A"}]}},"AttributeUpdates":{"checkpoint":{"Value":{"S":"2"}},"childShardIds":{"Action":"PUT","Value":{"SS":["a","b"]}},"pendingCheckpoint":{"Action":"DELETE"}},"ReturnValues":"ALL_OLD"`,
			`"ConditionExpression":"leaseOwner = :o","UpdateExpression":"SET checkpoint = :c, childShardIds = :s REMOVE pendingCheckpoint","ExpressionAttributeValues":{":o":{"S":"A"},":c":{"S":"2"},":s":{"SS":["b","a"]}},"ReturnValues":"ALL_OLD"`},
		{"delete", "DeleteItem",
			`"Expected":{"leaseCounter":{"Value":{"N":"7.0"}}},"ReturnValues":"ALL_OLD"`,
			`"ConditionExpression":"leaseCounter = :c","ExpressionAttributeValues":{":c":{"N":"7"}},"ReturnValues":"ALL_OLD"`},
	}
	states := map[string]string{
		"absent":              ``,
		"as expected":         item,
		"no hand-off":         `"leaseKey":{"S":"s1"},"leaseOwner":{"S":"A"},"leaseCounter":{"N":"7"}`,
		"without an owner":    `"leaseKey":{"S":"s1"},"leaseCounter":{"N":"7"}`,
		"another owner":       `"leaseKey":{"S":"s1"},"leaseOwner":{"S":"Z"},"leaseCounter":{"N":"9"}`,
		"counter of no value": `"leaseKey":{"S":"s1"},"leaseOwner":{"S":"A"},"leaseCounter":{"NULL":true}`,
	}
	for _, tt := range tests {
		won, lost := 0, 0
		for state, stored := range states {
			var answers, items []string
			for _, form := range []string{tt.older, tt.newer} {
				c := leases(t)
				if stored != "" {
					c.put(t, "leases", "%s", stored)
				}
				if tt.operation != "PutItem" {
					form += `,"Key":{"leaseKey":{"S":"s1"}}`
				}
				a := c.call(tt.operation, `{"TableName":"leases","ReturnValuesOnConditionCheckFailure":"ALL_OLD",`+form+`}`)
				if a.Err == nil {
					won++
				} else {
					lost++
				}
				answer := string(a.Body)
				if a.Err != nil { // the two forms' texts for a stored value of the wrong type differ
					answer = fmt.Sprint(a.Err.Code(), get(t, answer, "Item"))
				}
				answers = append(answers, answer)
				items = append(items, c.item(t, "leases", "s1"))
			}
			assert.Equal(t, answers[0], answers[1], "%s, item %s", tt.name, state)
			assert.Equal(t, items[0], items[1], "%s, item %s", tt.name, state)
		}
		assert.NotZero(t, won, tt.name)
		assert.NotZero(t, lost, tt.name)
	}
}

// aws-dynamodb#14
func TestWhatAnUpdateCreatesAndRemoves(t *testing.T) {
	update := func(key, more string) string {
		return fmt.Sprintf(`{"TableName":"leases","Key":{"leaseKey":{"S":%q}},%s}`, key, more)
	}
	const x = `"ExpressionAttributeValues":{":x":{"SS":["x"]}},`
	c := leases(t)
	c.put(t, "leases", `"leaseKey":{"S":"s1"},"set":{"SS":["x"]},"old":{"SS":["x"]}`)
	c.ok(t, "UpdateItem", update("s1", x+`"UpdateExpression":"DELETE #s :x","ExpressionAttributeNames":{"#s":"set"}`))
	c.ok(t, "UpdateItem", update("s1", `"AttributeUpdates":{"old":{"Action":"DELETE","Value":{"SS":["x"]}}}`))
	assert.JSONEq(t, `{"leaseKey":{"S":"s1"}}`, c.item(t, "leases", "s1"))

	for _, removes := range []string{
		x + `"UpdateExpression":"DELETE a :x"`, `"UpdateExpression":"REMOVE a, b"`,
		`"AttributeUpdates":{"a":{"Action":"DELETE"},"b":{"Action":"DELETE","Value":{"SS":["x"]}}}`,
	} {
		c.answers(t, `{}`, "UpdateItem", update("s2", removes+`,"ReturnValues":"ALL_NEW"`))
		assert.Empty(t, c.item(t, "leases", "s2"), removes)
	}
	for i, creates := range []string{
		`"UpdateExpression":"ADD a :n","ExpressionAttributeValues":{":n":{"N":"1"}}`,
		`"AttributeUpdates":{"a":{"Action":"ADD","Value":{"N":"1"}}}`,
		`"UpdateExpression":"SET a = :n REMOVE b","ExpressionAttributeValues":{":n":{"N":"1"}}`,
	} {
		key := fmt.Sprintf("new%d", i)
		c.ok(t, "UpdateItem", update(key, creates))
		assert.JSONEq(t, fmt.Sprintf(`{"leaseKey":{"S":%q},"a":{"N":"1"}}`, key), c.item(t, "leases", key))
	}
	c.ok(t, "UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"bare"}}}`)
	assert.JSONEq(t, `{"leaseKey":{"S":"bare"}}`, c.item(t, "leases", "bare"))
}

// aws-dynamodb#15
func TestUpdateReadsTheItemBefore(t *testing.T) {
	c := leases(t)
	const item = `{"leaseKey":{"S":"s1"},"a":{"S":"1"},"b":{"S":"2"}}`
	c.ok(t, "PutItem", `{"TableName":"leases","Item":%s}`, item)
	for _, tt := range []struct{ update, text string }{
		{`"UpdateExpression":"SET a = b, a.c = b"`, "Two document paths overlap with each other"},
		{`"UpdateExpression":"SET a = b REMOVE a"`, "Two document paths overlap with each other"},
		{`"UpdateExpression":"SET leaseKey = b"`, "Cannot update attribute leaseKey. This attribute is part of the key"},
		{`"AttributeUpdates":{"leaseKey":{"Action":"PUT","Value":{"S":"s1"}}}`, "Cannot update attribute leaseKey. This attribute is part of the key"},
		{`"UpdateExpression":"SET leaseOwner = :n","ExpressionAttributeValues":{":n":{"N":"1"}}`, "Type mismatch for Index Key leaseOwner Expected: S Actual: N IndexName: owners"},
		{`"UpdateExpression":"SET leaseOwner = :n","ExpressionAttributeValues":{":n":{"NULL":true}}`, "Type mismatch for Index Key leaseOwner Expected: S Actual: NULL IndexName: owners"},
		{`"UpdateExpression":"SET leaseOwner = nokey","ExpressionAttributeValues":{}`, ""},
		{`"UpdateExpression":"ADD leaseOwner :n","ExpressionAttributeValues":{":n":{"N":"1"}}`, "The update expression attempted to update the secondary index key to unsupported type"},
		{`"AttributeUpdates":{"leaseOwner":{"Action":"PUT","Value":{"N":"1"}}}`, "Type mismatch for Index Key leaseOwner"},
	} {
		c.refused(t, validation, tt.text, "UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}},%s}`, tt.update)
		assert.JSONEq(t, item, c.item(t, "leases", "s1"), tt.update)
	}
	c.ok(t, "UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}},"UpdateExpression":"SET a = b, b = a"}`)
	assert.JSONEq(t, `{"leaseKey":{"S":"s1"},"a":{"S":"2"},"b":{"S":"1"}}`, c.item(t, "leases", "s1"))

	c.put(t, "leases", `"leaseKey":{"S":"s2"},"m":{"M":{}}`)
	c.refused(t, validation, "secondary index key to unsupported type", "UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"s2"}},"UpdateExpression":"SET leaseOwner = m"}`)
}

// aws-dynamodb#16: every cell of the table of ReturnValues.
func TestReturnValues(t *testing.T) {
	const old = `"leaseKey":{"S":"s1"},"a":{"N":"1"},"gone":{"S":"g"},"same":{"S":"s"},"m":{"M":{"x":{"N":"1"},"y":{"N":"2"}}}`
	const changes = `"UpdateExpression":"SET a = :two, #n = :two, same = :s, m.x = :two REMOVE gone","ExpressionAttributeNames":{"#n":"new"},"ExpressionAttributeValues":{":two":{"N":"2"},":s":{"S":"s"}}`
	const creation = `"UpdateExpression":"SET a = :two REMOVE gone","ExpressionAttributeValues":{":two":{"N":"2"}}`
	const removal = `"UpdateExpression":"REMOVE gone"`
	const removalOlder = `"AttributeUpdates":{"gone":{"Action":"DELETE"}}`
	tests := []struct{ name, key, update, values, want string }{
		{"existing", "s1", changes, "NONE", ``},
		{"existing", "s1", changes, "ALL_OLD", old},
		{"existing", "s1", changes, "ALL_NEW", `"leaseKey":{"S":"s1"},"a":{"N":"2"},"new":{"N":"2"},"same":{"S":"s"},"m":{"M":{"x":{"N":"2"},"y":{"N":"2"}}}`},
		{"existing", "s1", changes, "UPDATED_OLD", `"a":{"N":"1"},"gone":{"S":"g"},"same":{"S":"s"},"m":{"M":{"x":{"N":"1"}}}`},
		{"existing", "s1", changes, "UPDATED_NEW", `"a":{"N":"2"},"new":{"N":"2"},"same":{"S":"s"},"m":{"M":{"x":{"N":"2"}}}`},
		{"created", "s2", creation, "NONE", ``},
		{"created", "s2", creation, "ALL_OLD", ``},
		{"created", "s2", creation, "ALL_NEW", `"leaseKey":{"S":"s2"},"a":{"N":"2"}`},
		{"created", "s2", creation, "UPDATED_OLD", ``},
		{"created", "s2", creation, "UPDATED_NEW", `"a":{"N":"2"}`},
		{"only removed", "s1", removal, "UPDATED_NEW", ``},
		{"only removed", "s1", removal, "UPDATED_OLD", `"gone":{"S":"g"}`},
		{"only removed, older form", "s1", removalOlder, "UPDATED_NEW", ``},
		{"only removed, older form", "s1", removalOlder, "UPDATED_OLD", `"gone":{"S":"g"}`},
		{"nothing created", "s2", removal, "ALL_NEW", ``},
		{"nothing created", "s2", removal, "ALL_OLD", ``},
		{"nothing created", "s2", removal, "UPDATED_OLD", ``},
		{"nothing created", "s2", removal, "UPDATED_NEW", ``},
	}
	for _, tt := range tests {
		t.Run(tt.name+" "+tt.values, func(t *testing.T) {
			c := leases(t)
			c.put(t, "leases", "%s", old)
			want := `{}`
			if tt.want != "" {
				want = `{"Attributes":{` + tt.want + `}}`
			}
			c.answers(t, want, "UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":%q}},"ReturnValues":%q,%s}`, tt.key, tt.values, tt.update)
		})
	}
	t.Run("put and delete", func(t *testing.T) {
		for operation, target := range map[string]string{"PutItem": `"Item":{"leaseKey":{"S":%q},"n":{"N":"1"}}`, "DeleteItem": `"Key":{"leaseKey":{"S":%q}}`} {
			c := leases(t)
			c.put(t, "leases", "%s", old)
			body := `{"TableName":"leases","ReturnValues":%q,` + target + `}`
			for _, values := range []string{"ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"} {
				c.refused(t, validation, "ReturnValues can only be ALL_OLD or NONE", operation, body, values, "s1")
			}
			c.refused(t, validation, "returnValues", operation, body, "SOME", "s1")
			c.answers(t, `{}`, operation, body, "ALL_OLD", "s2")
			c.answers(t, `{"Attributes":{`+old+`}}`, operation, body, "ALL_OLD", "s1")
			c.answers(t, `{}`, operation, body, "NONE", "s1")
		}
	})
}

// aws-dynamodb#17
func TestConcurrentIncrements(t *testing.T) {
	c := leases(t)
	c.put(t, "leases", `"leaseKey":{"S":"s1"},"a":{"N":"5"},"b":{"N":"0"}`)
	won := together(100, func() bool {
		return c.call("UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}},"UpdateExpression":"SET a = a + :one","ConditionExpression":"a = :five","ExpressionAttributeValues":{":one":{"N":"1"},":five":{"N":"5"}}}`).Err == nil
	})
	assert.Equal(t, 1, won)
	added := together(100, func() bool {
		return c.call("UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}},"UpdateExpression":"ADD b :one","ExpressionAttributeValues":{":one":{"N":"1"}}}`).Err == nil
	})
	assert.Equal(t, 100, added)
	assert.JSONEq(t, `{"leaseKey":{"S":"s1"},"a":{"N":"6"},"b":{"N":"100"}}`, c.item(t, "leases", "s1"))
}

// aws-dynamodb#8: mistakes in expressions come before the table is looked up.
func TestExpressionMistakesComeFirst(t *testing.T) {
	const values = `"ExpressionAttributeValues":{":v":{"S":"a"}}`
	mistakes := []struct{ condition, text string }{
		{`"ConditionExpression":"a = :v","ExpressionAttributeNames":{"#n":"x"},` + values, "Value provided in ExpressionAttributeNames unused in expressions: keys: {#n}"},
		{`"ConditionExpression":"attribute_exists(a)",` + values, "Value provided in ExpressionAttributeValues unused in expressions: keys: {:v}"},
		{`"ConditionExpression":"#n = :v",` + values, "An expression attribute name used in the document path is not defined; attribute name: #n"},
		{`"ConditionExpression":"a = :w",` + values, "An expression attribute value used in expression is not defined; attribute value: :w"},
		{`"ConditionExpression":"counter = :v",` + values, "Attribute name is a reserved keyword; reserved keyword: counter"},
		{`"ConditionExpression":""`, "Invalid ConditionExpression: The expression can not be empty;"},
		{`"ConditionExpression":"((a = :v))",` + values, "The expression has redundant parentheses;"},
		{`"ConditionExpression":"a = = :v",` + values, "Syntax error"},
		{values, "ExpressionAttributeValues can only be specified when using expressions"},
	}
	for _, m := range mistakes {
		for _, table := range []string{"leases", "none"} {
			c := leases(t)
			c.refused(t, validation, m.text, "PutItem", `{"TableName":%q,"Item":{"leaseKey":{"S":"s1"}},%s}`, table, m.condition)
			c.refused(t, validation, m.text, "DeleteItem", `{"TableName":%q,"Key":{"leaseKey":{"S":"s1"}},%s}`, table, m.condition)
			c.refused(t, validation, m.text, "TransactWriteItems", `{"TransactItems":[{"Put":{"TableName":%q,"Item":{"leaseKey":{"S":"s1"}},%s}}]}`, table, m.condition)
		}
	}
	c := leases(t)
	for operation, body := range map[string]string{
		"UpdateItem": `{"TableName":"none","Key":{"nokey":{"S":"s1"}},"UpdateExpression":""}`,
		"Scan":       `{"TableName":"none","FilterExpression":""}`,
		"GetItem":    `{"TableName":"none","Key":{"nokey":{"S":"s1"}},"ProjectionExpression":""}`,
	} {
		c.refused(t, validation, "The expression can not be empty;", operation, body)
	}
	c.refused(t, notFound, "", "GetItem", `{"TableName":"none","Key":{"nokey":{"S":"s1"}}}`)
	c.refused(t, notFound, "", "PutItem", `{"TableName":"none","Item":{"nokey":{"S":"s1"}}}`)
}

// aws-dynamodb#9
func TestMixedForms(t *testing.T) {
	c := leases(t)
	const u, e = `"UpdateExpression":"SET a = :v"`, `"ExpressionAttributeValues":{":v":{"S":"a"}}`
	const text = "Can not use both expression and non-expression parameters in the same request: Non-expression parameters: {%s} Expression parameters: {%s}"
	for _, tt := range []struct{ operation, body, older, newer string }{
		{"UpdateItem", `"Key":{"leaseKey":{"S":"s1"}},` + u + `,` + e + `,"Expected":{"a":{"Exists":false}}`, "Expected", "UpdateExpression"},
		{"UpdateItem", `"Key":{"leaseKey":{"S":"s1"}},"ConditionExpression":"a = :v",` + e + `,"AttributeUpdates":{"a":{"Value":{"S":"b"}}}`, "AttributeUpdates", "ConditionExpression"},
		{"Scan", `"FilterExpression":"a = :v",` + e + `,"ScanFilter":{"a":{"ComparisonOperator":"NOT_NULL"}}`, "ScanFilter", "FilterExpression"},
	} {
		for _, table := range []string{"leases", "none"} {
			c.refused(t, validation, fmt.Sprintf(text, tt.older, tt.newer), tt.operation, `{"TableName":%q,%s}`, table, tt.body)
		}
	}
	c.ok(t, "UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}},"AttributeUpdates":{"a":{"Value":{"S":"b"}}},"Expected":{"a":{"Exists":false}},"ReturnValues":"ALL_OLD","ReturnValuesOnConditionCheckFailure":"ALL_OLD"}`)
}

// aws-dynamodb#47: what is wrong with an older operand shows without an item.
func TestLegacyOperandMistakes(t *testing.T) {
	c := leases(t)
	for _, expected := range []string{
		`{"a":{"ComparisonOperator":"EQ","AttributeValueList":[]}}`,
		`{"a":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"a"},{"S":"b"}]}}`,
		`{"a":{"ComparisonOperator":"LE","AttributeValueList":[{"L":[]}]}}`,
		`{"a":{"ComparisonOperator":"BEGINS_WITH","AttributeValueList":[{"N":"1"}]}}`,
		`{"a":{"Exists":true}}`,
		`{"a":{"Exists":false,"Value":{"S":"a"}}}`,
	} {
		c.refused(t, validation, "", "DeleteItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}},"Expected":%s}`, expected)
	}
	c.refused(t, validation, "", "DeleteItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}},"Expected":{},"ConditionalOperator":"OR"}`)
	c.put(t, "leases", `"leaseKey":{"S":"s1"},"n":{"N":"1"}`)
	for expected, holds := range map[string]bool{
		`{"n":{"ComparisonOperator":"LE","AttributeValueList":[{"S":"z"}]}}`:           false,
		`{"n":{"ComparisonOperator":"NE","AttributeValueList":[{"S":"1"}]}}`:           true,
		`{"x":{"ComparisonOperator":"NULL","AttributeValueList":[]}}`:                  true,
		`{"x":{"ComparisonOperator":"NULL"}}`:                                          true,
		`{"x":{"ComparisonOperator":"NOT_CONTAINS","AttributeValueList":[{"S":"a"}]}}`: false,
		`{"n":{"ComparisonOperator":"BEGINS_WITH","AttributeValueList":[{"S":"1"}]}}`:  false,
		`{"n":{"ComparisonOperator":"NOT_CONTAINS","AttributeValueList":[{"S":"1"}]}}`: true,
	} {
		body := fmt.Sprintf(`{"TableName":"leases","Item":{"leaseKey":{"S":"s1"},"n":{"N":"1"}},"Expected":%s}`, expected)
		if holds {
			c.ok(t, "PutItem", body)
		} else {
			c.refused(t, condFailed, "", "PutItem", body)
		}
	}
	either := `{"TableName":"leases","Item":{"leaseKey":{"S":"s1"},"n":{"N":"1"}},"Expected":{"n":{"Value":{"N":"2"}},"x":{"Exists":false}},"ConditionalOperator":%q}`
	c.ok(t, "PutItem", either, "OR")
	c.refused(t, condFailed, "", "PutItem", either, "AND")
	c.refused(t, validation, "conditionalOperator", "PutItem", either, "XOR")
}

// aws-dynamodb#10: a sample of the tables of conditions, through the service;
// every cell is tested where conditions are evaluated.
func TestConditionsThroughTheService(t *testing.T) {
	items := []string{``, `"leaseKey":{"S":"s1"}`, `"leaseKey":{"S":"s1"},"a":{"NULL":true}`, `"leaseKey":{"S":"s1"},"a":{"S":"5"}`, `"leaseKey":{"S":"s1"},"a":{"N":"5.0"}`, `"leaseKey":{"S":"s1"},"a":{"N":"6"}`}
	for _, tt := range []struct {
		newer, older string
		holds        string // by item: absent, attribute missing, NULL, other type, equal, unequal
	}{
		{"a = :v", "EQ", "----x-"},
		{"a <> :v", "NE", "xxxx-x"},
		{"a < :v", "LT", "------"},
		{"a >= :v", "GE", "----xx"},
		{"attribute_exists(a)", "NOT_NULL", "--xxxx"},
		{"attribute_not_exists(a)", "NULL", "xx----"},
	} {
		for i, item := range items {
			needs := `,"ExpressionAttributeValues":{":v":{"N":"5"}}`
			list := `,"AttributeValueList":[{"N":"5"}]`
			if !strings.Contains(tt.newer, ":v") {
				needs, list = "", ""
			}
			for _, condition := range []string{
				fmt.Sprintf(`"ConditionExpression":%q%s`, tt.newer, needs),
				fmt.Sprintf(`"Expected":{"a":{"ComparisonOperator":%q%s}}`, tt.older, list),
			} {
				c := leases(t)
				if item != "" {
					c.put(t, "leases", "%s", item)
				}
				a := c.call("DeleteItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}},`+condition+`}`)
				assert.Equal(t, tt.holds[i] == 'x', a.Err == nil, "%s on {%s}: %s", condition, item, a.Body)
			}
		}
	}
}

func TestKeysThatDoNotFit(t *testing.T) {
	c := newClient(Config{Timing: atOnce})
	c.ok(t, "CreateTable", `{"TableName":"ttt","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"h","KeyType":"HASH"},{"AttributeName":"r","KeyType":"RANGE"}],"AttributeDefinitions":[{"AttributeName":"h","AttributeType":"S"},{"AttributeName":"r","AttributeType":"N"}]}`)
	for _, item := range []struct{ item, text string }{
		{`{"h":{"S":"a"}}`, "Missing the key r in the item"},
		{`{"h":{"N":"1"},"r":{"N":"1"}}`, "Type mismatch for key h expected: S actual: N"},
		{fmt.Sprintf(`{"h":{"S":"%02049d"},"r":{"N":"1"}}`, 0), "Size of hashkey has exceeded the maximum size limit of2048 bytes"},
	} {
		c.refused(t, validation, item.text, "PutItem", `{"TableName":"ttt","Item":%s}`, item.item)
	}
	for _, key := range []string{`{"h":{"S":"a"}}`, `{"h":{"S":"a"},"r":{"S":"1"}}`, `{"h":{"S":"a"},"r":{"N":"1"},"x":{"N":"1"}}`} {
		for _, operation := range []string{"GetItem", "UpdateItem", "DeleteItem"} {
			c.refused(t, validation, "The provided key element does not match the schema", operation, `{"TableName":"ttt","Key":%s}`, key)
		}
	}
	c.refused(t, validation, "Value null at 'key'", "GetItem", `{"TableName":"ttt"}`)
}

func TestGetItem(t *testing.T) {
	c := leases(t)
	c.put(t, "leases", `"leaseKey":{"S":"s1"},"a":{"M":{"x":{"N":"1"},"y":{"N":"2"}}},"b":{"S":"b"}`)
	get := `{"TableName":"leases","Key":{"leaseKey":{"S":%q}}%s}`
	c.answers(t, `{}`, "GetItem", get, "s2", "")
	c.answers(t, `{}`, "GetItem", get, "s2", `,"ProjectionExpression":"b"`)
	c.answers(t, `{"Item":{}}`, "GetItem", get, "s1", `,"ProjectionExpression":"nothing"`)
	c.answers(t, `{"Item":{}}`, "GetItem", get, "s1", `,"AttributesToGet":["nothing"]`)
	c.answers(t, `{"Item":{"a":{"M":{"x":{"N":"1"}}}}}`, "GetItem", get, "s1", `,"ProjectionExpression":"a.x"`)
	c.answers(t, `{"Item":{"b":{"S":"b"},"leaseKey":{"S":"s1"}}}`, "GetItem", get, "s1", `,"AttributesToGet":["b","leaseKey"]`)
	c.refused(t, validation, "", "GetItem", get, "s1", `,"AttributesToGet":["b","b"]`)
}
