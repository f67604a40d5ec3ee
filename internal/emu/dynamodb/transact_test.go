package dynamodb

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// move is a transaction as the KCL moves entities from one table to another: a
// check of the leader, then a put and a delete for each.
func move(entities int, leader string) string {
	actions := []string{fmt.Sprintf(`{"ConditionCheck":{"TableName":"state","Key":{"leaseKey":{"S":"Leader"}},"ConditionExpression":"ownerName = :o","ExpressionAttributeValues":{":o":{"S":%q}}}}`, leader)}
	for i := range entities {
		actions = append(actions,
			fmt.Sprintf(`{"Put":{"TableName":"leases","Item":{"leaseKey":{"S":"e%d"},"moved":{"BOOL":true}},"ConditionExpression":"attribute_not_exists(leaseKey)"}}`, i),
			fmt.Sprintf(`{"Delete":{"TableName":"state","Key":{"leaseKey":{"S":"e%d"}}}}`, i))
	}
	return `{"TransactItems":[` + strings.Join(actions, ",") + `]}`
}

func twoTables(t *testing.T, cfg Config) client {
	t.Helper()
	cfg.Timing = atOnce
	c := newClient(cfg)
	c.createLeases(t, "leases", true)
	c.createLeases(t, "state", false)
	c.put(t, "state", `"leaseKey":{"S":"Leader"},"ownerName":{"S":"A"}`)
	return c
}

func (c client) counts(t *testing.T) string {
	t.Helper()
	return fmt.Sprint(c.Count(c.Caller, "leases"), c.Count(c.Caller, "state"))
}

// aws-dynamodb#33
func TestTransactionIsAllOrNothing(t *testing.T) {
	c := twoTables(t, Config{})
	for i := range 25 {
		c.put(t, "state", `"leaseKey":{"S":"e%d"}`, i)
	}
	assert.Equal(t, "0 26", c.counts(t))
	c.refused(t, txCancelled, "[ConditionalCheckFailed, None, None", "TransactWriteItems", "%s", move(25, "B"))
	c.put(t, "leases", `"leaseKey":{"S":"e24"}`)
	c.refused(t, txCancelled, "None, ConditionalCheckFailed, None]", "TransactWriteItems", "%s", move(25, "A"))
	assert.Equal(t, "1 26", c.counts(t))
	c.ok(t, "DeleteItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"e24"}}}`)

	c.answers(t, `{}`, "TransactWriteItems", "%s", move(25, "A"))
	assert.Equal(t, "25 1", c.counts(t))
	c.refused(t, validation, "Member must have length less than or equal to 100", "TransactWriteItems", "%s", move(50, "A"))
	assert.Equal(t, "25 1", c.counts(t))
}

// aws-dynamodb#33: what refuses a transaction as a whole.
func TestTransactionRefused(t *testing.T) {
	put := func(more string) string {
		return `{"Put":{"TableName":"leases","Item":{"leaseKey":{"S":"s1"}` + more + `}}}`
	}
	check := func(key string) string {
		return fmt.Sprintf(`{"ConditionCheck":{"TableName":"leases","Key":{"leaseKey":{"S":%q}},"ConditionExpression":"attribute_not_exists(leaseKey)"}}`, key)
	}
	var large []string
	for i := range 12 {
		large = append(large, fmt.Sprintf(`{"Put":{"TableName":"leases","Item":{"leaseKey":{"S":"l%d"},"v":{"S":%q}}}}`, i, strings.Repeat("x", 400_000)))
	}
	for _, tt := range []struct{ name, items, code, text string }{
		{"put and check of one item", put("") + `,` + check("s1"), validation, "Transaction request cannot include multiple operations on one item"},
		{"the same beside a key that does not fit", `{"Delete":{"TableName":"leases","Key":{"x":{"S":"s1"}}}},` + put("") + `,` + check("s1"), validation, "Transaction request cannot include multiple operations on one item"},
		{"no actions", ``, validation, "greater than or equal to 1"},
		{"empty action", put("") + `,{}`, validation, "TransactItems can only contain one of"},
		{"two in one", `{"Put":{"TableName":"leases","Item":{"leaseKey":{"S":"a"}}},"Delete":{"TableName":"leases","Key":{"leaseKey":{"S":"b"}}}}`, validation, "TransactItems can only contain one of"},
		{"check without condition", put("") + `,{"ConditionCheck":{"TableName":"leases","Key":{"leaseKey":{"S":"a"}}}}`, validation, "conditionExpression"},
		{"unknown table", put("") + `,{"Delete":{"TableName":"none","Key":{"leaseKey":{"S":"a"}}}}`, notFound, "Requested resource not found"},
		{"syntax error before unknown table", `{"Delete":{"TableName":"none","Key":{"leaseKey":{"S":"a"}},"ConditionExpression":"x ="}}`, validation, "Syntax error"},
		{"unknown table before duplicates", put("") + `,` + check("s1") + `,{"Delete":{"TableName":"none","Key":{"leaseKey":{"S":"a"}}}}`, notFound, ""},
		{"unused value", `{"Delete":{"TableName":"leases","Key":{"leaseKey":{"S":"a"}},"ConditionExpression":"attribute_exists(x)","ExpressionAttributeValues":{":v":{"S":"a"}}}}`, validation, "unused in expressions"},
		{"empty index key", put(`,"leaseOwner":{"S":""}`), validation, "secondary index key"},
		{"payload of more than 4 MB", strings.Join(large, ","), validation, "4 MB"},
		{"update without expression", `{"Update":{"TableName":"leases","Key":{"leaseKey":{"S":"a"}}}}`, validation, "updateExpression"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := twoTables(t, Config{})
			c.refused(t, tt.code, tt.text, "TransactWriteItems", "%s", `{"TransactItems":[`+tt.items+`]}`)
			assert.Equal(t, "0 1", c.counts(t))
		})
	}
	c := twoTables(t, Config{})
	for i := range 11 {
		c.put(t, "leases", `"leaseKey":{"S":"l%d"},"v":{"S":%q}`, i, strings.Repeat("x", 400_000))
	}
	var deletes []string
	for i := range 11 {
		deletes = append(deletes, fmt.Sprintf(`{"Delete":{"TableName":"leases","Key":{"leaseKey":{"S":"l%d"}}}}`, i))
	}
	c.ok(t, "TransactWriteItems", `{"TransactItems":[%s]}`, strings.Join(deletes, ","))
	assert.Equal(t, "0 1", c.counts(t))
}

// aws-dynamodb#34
func TestCancellationReasons(t *testing.T) {
	begin := func(t *testing.T) client {
		c := twoTables(t, Config{})
		c.put(t, "leases", `"leaseKey":{"S":"s1"},"n":{"N":"1"}`)
		return c
	}
	const ok = `{"Put":{"TableName":"leases","Item":{"leaseKey":{"S":"new"}}}}`
	const fails = `{"Delete":{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}},"ConditionExpression":"attribute_not_exists(leaseKey)"}}`
	const failsTold = `{"Update":{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}},"UpdateExpression":"SET n = n","ReturnValuesOnConditionCheckFailure":"ALL_OLD","ConditionExpression":"attribute_not_exists(leaseKey)"}}`
	const failsAbsent = `{"ConditionCheck":{"TableName":"leases","Key":{"leaseKey":{"S":"none"}},"ReturnValuesOnConditionCheckFailure":"ALL_OLD","ConditionExpression":"attribute_exists(leaseKey)"}}`
	const noKey = `{"Delete":{"TableName":"leases","Key":{"other":{"S":"s1"}}}}`
	const noAttribute = `{"Update":{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}},"UpdateExpression":"SET n = x"}}`
	const tooMuch = `{"Update":{"TableName":"leases","Key":{"leaseKey":{"S":"s2"}},"UpdateExpression":"SET n = x"}}`
	const indexKey = `{"Put":{"TableName":"leases","Item":{"leaseKey":{"S":"bad"},"leaseOwner":{"N":"1"}}}}`
	const none = `{"Code":"None"}`
	const failed = `{"Code":"ConditionalCheckFailed","Message":"The conditional request failed"`
	for _, tt := range []struct {
		name    string
		actions []string
		codes   string
		reasons []string
	}{
		{"both failures are told", []string{ok, fails, failsAbsent}, "None, ConditionalCheckFailed, ConditionalCheckFailed", []string{none, failed + `}`, failed + `}`}},
		{"the item if it was asked for", []string{failsTold, ok}, "ConditionalCheckFailed, None", []string{failed + `,"Item":{"leaseKey":{"S":"s1"},"n":{"N":"1"}}}`, none}},
		{"a key that does not fit hides conditions", []string{fails, noKey}, "None, ValidationError", []string{none, `{"Code":"ValidationError","Message":"The provided key element does not match the schema"}`}},
		{"of two that do not fit, the first", []string{ok, indexKey, noKey}, "None, ValidationError, None", []string{none, `{"Code":"ValidationError","Message":"One or more parameter values were invalid: Type mismatch for Index Key leaseOwner Expected: S Actual: N IndexName: owners"}`, none}},
		{"an update that cannot be carried out", []string{ok, noAttribute}, "None, ValidationError", []string{none, `{"Code":"ValidationError","Message":"The provided expression refers to an attribute that does not exist in the item"}`}},
		{"of two such updates, the first", []string{noAttribute, ok, tooMuch}, "ValidationError, None, None", []string{`{"Code":"ValidationError","Message":"The provided expression refers to an attribute that does not exist in the item"}`, none, none}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := begin(t)
			body := c.refused(t, txCancelled, "", "TransactWriteItems", "%s", `{"TransactItems":[`+strings.Join(tt.actions, ",")+`]}`)
			assert.JSONEq(t, `{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
				"Message":"Transaction cancelled, please refer cancellation reasons for specific reasons [`+tt.codes+`]",
				"CancellationReasons":[`+strings.Join(tt.reasons, ",")+`]}`, body)
			assert.Equal(t, "1 1", c.counts(t))
		})
	}
}

// aws-dynamodb#35
func TestRequestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := twoTables(t, Config{})
		transaction := `{"ClientRequestToken":"t1","TransactItems":[{"Update":{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}},"UpdateExpression":"ADD n :one","ExpressionAttributeValues":{":one":{"N":"1"}}}}]}`
		sameContent := `{"TransactItems":[{"Update":{"ExpressionAttributeValues":{":one":{"N":"1"}},"UpdateExpression":"ADD n :one","Key":{"leaseKey":{"S":"s1"}},"TableName":"leases"}}], "ClientRequestToken":"t1"}`
		n := func(want string) {
			t.Helper()
			assert.JSONEq(t, `{"leaseKey":{"S":"s1"},"n":{"N":"`+want+`"}}`, c.item(t, "leases", "s1"))
		}
		c.answers(t, `{}`, "TransactWriteItems", transaction)
		c.answers(t, `{}`, "TransactWriteItems", sameContent)
		n("1")
		c.put(t, "leases", `"leaseKey":{"S":"s1"},"n":{"N":"50"}`)
		c.answers(t, `{}`, "TransactWriteItems", transaction)
		n("50")
		body := c.refused(t, "IdempotentParameterMismatchException", "", "TransactWriteItems", "%s", strings.Replace(transaction, `"N":"1"`, `"N":"2"`, 1))
		assert.NotEmpty(t, get(t, body, "Message"))
		assert.Equal(t, "com.amazonaws.dynamodb.v20120810#IdempotentParameterMismatchException", get(t, body, "__type"))
		n("50")
		time.Sleep(10*time.Minute - 1)
		c.ok(t, "TransactWriteItems", transaction)
		n("50")
		time.Sleep(time.Nanosecond)
		c.ok(t, "TransactWriteItems", transaction)
		n("51")

		// A cancelled transaction does not use its token up.
		create := `{"ClientRequestToken":"t2","TransactItems":[{"Put":{"TableName":"leases","Item":{"leaseKey":{"S":"s1"}},"ConditionExpression":"attribute_not_exists(leaseKey)"}}]}`
		c.refused(t, txCancelled, "", "TransactWriteItems", create)
		c.ok(t, "DeleteItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}}}`)
		c.ok(t, "TransactWriteItems", create)
		c.ok(t, "TransactWriteItems", create)

		c.refused(t, validation, "clientRequestToken", "TransactWriteItems", `{"ClientRequestToken":"%037d","TransactItems":[{"Delete":{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}}}}]}`, 0)
	})
}

// aws-dynamodb#36
func TestConflicts(t *testing.T) {
	const (
		conflict = "TransactionConflictException"
		update   = `{"TableName":"state","Key":{"leaseKey":{"S":"Leader"}},"UpdateExpression":"SET rvn = :v","ExpressionAttributeValues":{":v":{"S":"2"}}}`
		get      = `{"TransactItems":[{"Get":{"TableName":"leases","Key":{"leaseKey":{"S":"e0"}}}},{"Get":{"TableName":"state","Key":{"leaseKey":{"S":"Leader"}}}}]}`
	)
	reads := func(t *testing.T, c client) {
		t.Helper()
		c.ok(t, "GetItem", `{"TableName":"state","Key":{"leaseKey":{"S":"Leader"}}}`)
		c.ok(t, "Scan", `{"TableName":"state"}`)
		c.ok(t, "BatchGetItem", `{"RequestItems":{"state":{"Keys":[{"leaseKey":{"S":"Leader"}}]}}}`)
		c.ok(t, "Query", `{"TableName":"state","KeyConditionExpression":"leaseKey = :k","ExpressionAttributeValues":{":k":{"S":"Leader"}}}`)
	}
	writes := func(t *testing.T, c client) {
		t.Helper()
		body := c.refused(t, conflict, "Transaction is ongoing for the item", "UpdateItem", update)
		assert.JSONEq(t, `{"__type":"com.amazonaws.dynamodb.v20120810#TransactionConflictException","message":"Transaction is ongoing for the item"}`, body)
		c.refused(t, conflict, "", "PutItem", `{"TableName":"state","Item":{"leaseKey":{"S":"Leader"}}}`)
		c.refused(t, conflict, "", "DeleteItem", `{"TableName":"state","Key":{"leaseKey":{"S":"Leader"}}}`)
		body = c.refused(t, txCancelled, "[TransactionConflict, None, None]", "TransactWriteItems", "%s", move(1, "A"))
		assert.Contains(t, body, `{"Code":"TransactionConflict","Message":"Transaction is ongoing for the item"}`)
		c.refused(t, txCancelled, "[None, TransactionConflict]", "TransactGetItems", get)
		assert.Contains(t, c.ok(t, "BatchWriteItem", `{"RequestItems":{"state":[{"DeleteRequest":{"Key":{"leaseKey":{"S":"Leader"}}}}]}}`), "Leader")
	}
	t.Run("by script", func(t *testing.T) {
		var touches []Touch
		on := false
		c := twoTables(t, Config{Conflict: func(touch Touch) bool {
			touches = append(touches, touch)
			return on && touch.Table == "state" && touch.Key["leaseKey"].Text() == "Leader"
		}})
		on = true
		writes(t, c)
		reads(t, c)
		touches = nil
		c.call("UpdateItem", update)
		if assert.Len(t, touches, 1) {
			assert.Equal(t, "test UpdateItem state Leader", fmt.Sprint(touches[0].Client, " ", touches[0].Operation, " ", touches[0].Table, " ", touches[0].Key["leaseKey"].Text()))
		}
		on = false
		c.ok(t, "UpdateItem", update)
		c.ok(t, "TransactWriteItems", "%s", move(1, "A"))
	})
	t.Run("by transactions that take their time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := twoTables(t, Config{Lag: Lag{Transaction: 20 * time.Millisecond}})
			check := strings.Replace(move(0, "A"), "{", `{"ClientRequestToken":"t1",`, 1)
			c.ok(t, "TransactWriteItems", "%s", check)
			writes(t, c) // the leader was only checked, and belongs to it all the same
			reads(t, c)
			c.refused(t, "TransactionInProgressException", "", "TransactWriteItems", "%s", check)
			time.Sleep(20 * time.Millisecond)
			c.ok(t, "TransactWriteItems", "%s", check)
			c.ok(t, "UpdateItem", update)
			c.ok(t, "TransactGetItems", get)
		})
	})
}

func TestTransactGetItems(t *testing.T) {
	c := twoTables(t, Config{})
	c.put(t, "leases", `"leaseKey":{"S":"s1"},"a":{"S":"b"}`)
	one := func(table, key, more string) string {
		return fmt.Sprintf(`{"Get":{"TableName":%q,"Key":{"leaseKey":{"S":%q}}%s}}`, table, key, more)
	}
	c.answers(t, `{"Responses":[{"Item":{"leaseKey":{"S":"s1"},"a":{"S":"b"}}},{},{"Item":{"ownerName":{"S":"A"}}},{}]}`, "TransactGetItems",
		`{"TransactItems":[%s,%s,%s,%s]}`, one("leases", "s1", ""), one("leases", "none", ""), one("state", "Leader", `,"ProjectionExpression":"ownerName"`), one("state", "none", `,"ProjectionExpression":"x"`))
	c.answers(t, `{"Responses":[{}]}`, "TransactGetItems", `{"TransactItems":[%s]}`, one("leases", "s1", `,"ProjectionExpression":"x"`))
	c.refused(t, validation, "multiple operations on one item", "TransactGetItems", `{"TransactItems":[%s,%s]}`, one("leases", "s1", ""), one("leases", "s1", ""))
	c.refused(t, txCancelled, "[None, ValidationError]", "TransactGetItems", `{"TransactItems":[%s,{"Get":{"TableName":"leases","Key":{"x":{"S":"a"}}}}]}`, one("leases", "s1", ""))
	c.refused(t, notFound, "", "TransactGetItems", `{"TransactItems":[%s]}`, one("none", "s1", ""))
}
