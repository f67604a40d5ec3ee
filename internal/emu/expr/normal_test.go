package expr

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

func TestNormalForm(t *testing.T) {
	for src, want := range map[string]string{
		"a = :n5":                               `a = {"N":"5"}`,
		":n5 = a":                               `a = {"N":"5"}`,
		":n5 < a":                               `a > {"N":"5"}`,
		"b > a":                                 `a < b`,
		":n5 < size(a)":                         `size(a) > {"N":"5"}`,
		"size(a) = b":                           `b = size(a)`,
		"b = :n5 AND (c = :s AND a = :n6)":      `a = {"N":"6"} AND b = {"N":"5"} AND c = {"S":"s"}`,
		"a = b AND a = b AND b = a":             `a = b`,
		"(a = b OR c = d) AND (d = c OR b = a)": `a = b OR c = d`,
		"x = y OR a = b AND c = d":              `(a = b AND c = d) OR x = y`,
		"(x = y OR a = b) AND c = d":            `(a = b OR x = y) AND c = d`,
		"NOT a = :n5":                           `a <> {"N":"5"}`,
		"NOT NOT a = :n5":                       `a = {"N":"5"}`,
		"NOT a <> :n5":                          `a = {"N":"5"}`,
		"NOT a < :n5":                           `NOT a < {"N":"5"}`,
		"NOT attribute_exists(a)":               `attribute_not_exists(a)`,
		"NOT attribute_not_exists(a.b[1])":      `attribute_exists(a.b[1])`,
		"NOT (a = b AND NOT c = d)":             `a <> b OR c = d`,
		"NOT (a < b OR x = y)":                  `NOT a < b AND x <> y`,
		"NOT (a = b OR (c = d AND x = y))":      `(c <> d OR x <> y) AND a <> b`,
		"a IN (:n6, :n5, :n6)":                  `a IN ({"N":"5"}, {"N":"6"})`,
		"a IN (:n5)":                            `a = {"N":"5"}`,
		"NOT a IN (:n5)":                        `a <> {"N":"5"}`,
		"NOT a IN (:n5, :s)":                    `NOT a IN ({"N":"5"}, {"S":"s"})`,
		"a BETWEEN :n5 AND :n6":                 `a BETWEEN {"N":"5"} AND {"N":"6"}`,
		"begins_with(a, :s)":                    `begins_with(a, {"S":"s"})`,
		"contains(a, :l)":                       `contains(a, {"L":[{"N":"5"},{"SS":["x","y"]}]})`,
	} {
		c := condition(t, src)
		assert.Equal(t, want, c.String(), src)
	}
	assert.Empty(t, (*Condition)(nil).String())
	dotted := parse(t, OpPut, `{"ConditionExpression":"#a.#b = #c","ExpressionAttributeNames":{"#a":"a.b","#b":"x y","#c":"size"}}`).Condition
	assert.Equal(t, `"a.b"."x y" = size`, dotted.String())
}

func TestTerms(t *testing.T) {
	assert.Equal(t, []string{`(b = c OR d = x)`, `a = {"N":"5"}`}, condition(t, ":n5 = a AND (b = c OR d = x)").Terms())
	assert.Equal(t, []string{`b = c OR d = x`}, condition(t, "b = c OR d = x").Terms())
	assert.Equal(t, []string{`b = c`}, condition(t, "b = c").Terms())
	assert.Nil(t, (*Condition)(nil).Terms())
}

// write is one of the writes that Java workers send, and the same as
// expressions.
type write struct{ name, older, expressions string }

var leaseWrites = []write{
	{
		"renew",
		`{"AttributeUpdates":{"leaseCounter":{"Action":"PUT","Value":{"N":"8"}}},
		  "Expected":{"checkpointOwner":{"Exists":false},"leaseCounter":{"Value":{"N":"7"}}}}`,
		`{"UpdateExpression":"SET leaseCounter = :new","ConditionExpression":"leaseCounter = :old AND attribute_not_exists(checkpointOwner)",
		  "ExpressionAttributeValues":{":new":{"N":"8"},":old":{"N":"7"}}}`,
	},
	{
		"take",
		`{"AttributeUpdates":{"checkpointOwner":{"Action":"DELETE"},"leaseCounter":{"Action":"ADD","Value":{"N":"1"}},"leaseOwner":{"Action":"PUT","Value":{"S":"B"}},"ownerSwitchesSinceCheckpoint":{"Action":"ADD","Value":{"N":"1"}}},
		  "Expected":{"checkpointOwner":{"Exists":false},"leaseKey":{"Exists":true,"Value":{"S":"s1"}},"leaseOwner":{"Value":{"S":"A"}}}}`,
		`{"UpdateExpression":"ADD leaseCounter :one, ownerSwitchesSinceCheckpoint :one SET leaseOwner = :me REMOVE checkpointOwner",
		  "ConditionExpression":"attribute_not_exists(checkpointOwner) AND leaseKey = :key AND leaseOwner = :owner",
		  "ExpressionAttributeValues":{":one":{"N":"1"},":me":{"S":"B"},":key":{"S":"s1"},":owner":{"S":"A"}}}`,
	},
	{
		"evict",
		`{"AttributeUpdates":{"leaseCounter":{"Action":"ADD","Value":{"N":"1"}},"leaseOwner":{"Action":"DELETE"}},
		  "Expected":{"leaseKey":{"Exists":true,"Value":{"S":"s1"}},"leaseOwner":{"Value":{"S":"A"}}}}`,
		`{"UpdateExpression":"REMOVE #o ADD #c :one","ConditionExpression":"#o = :owner AND #k = :key",
		  "ExpressionAttributeNames":{"#o":"leaseOwner","#c":"leaseCounter","#k":"leaseKey"},
		  "ExpressionAttributeValues":{":one":{"N":"1"},":key":{"S":"s1"},":owner":{"S":"A"}}}`,
	},
	{
		"checkpoint",
		`{"AttributeUpdates":{"checkpoint":{"Action":"PUT","Value":{"S":"49590"}},"checkpointSubSequenceNumber":{"Action":"PUT","Value":{"N":"0"}},"leaseCounter":{"Action":"PUT","Value":{"N":"8"}},
		  "ownerSwitchesSinceCheckpoint":{"Action":"PUT","Value":{"N":"0"}},"pendingCheckpoint":{"Action":"DELETE"},"childShardIds":{"Action":"PUT","Value":{"SS":["s2","s3"]}}},
		  "Expected":{"leaseCounter":{"Value":{"N":"7"}}}}`,
		`{"UpdateExpression":"SET checkpoint = :cp, checkpointSubSequenceNumber = :zero, leaseCounter = :new, ownerSwitchesSinceCheckpoint = :zero, childShardIds = :children REMOVE pendingCheckpoint",
		  "ConditionExpression":"leaseCounter IN (:old)",
		  "ExpressionAttributeValues":{":cp":{"S":"49590"},":zero":{"N":"0.0"},":new":{"N":"8"},":old":{"N":"07"},":children":{"SS":["s3","s2"]}}}`,
	},
	{
		"transfer",
		`{"AttributeUpdates":{"checkpointOwner":{"Action":"PUT","Value":{"S":"A"}},"leaseOwner":{"Action":"PUT","Value":{"S":"B"}}},
		  "Expected":{"leaseOwner":{"ComparisonOperator":"NE","AttributeValueList":[{"S":"B"}]},"checkpointOwner":{"ComparisonOperator":"NULL"}}}`,
		`{"UpdateExpression":"SET leaseOwner = :next, checkpointOwner = :me","ConditionExpression":"NOT (leaseOwner = :next OR attribute_exists(checkpointOwner))",
		  "ExpressionAttributeValues":{":next":{"S":"B"},":me":{"S":"A"}}}`,
	},
}

// Both forms of a write are one tree, leave the same item and are refused alike.
// aws-dynamodb#13
func TestBothFormsAreOneTree(t *testing.T) {
	items := []string{
		``,
		`{"leaseKey":{"S":"s1"}}`,
		`{"leaseKey":{"S":"s1"},"leaseOwner":{"S":"A"},"leaseCounter":{"N":"7"},"pendingCheckpoint":{"S":"1"}}`,
		`{"leaseKey":{"S":"s1"},"leaseOwner":{"S":"A"},"leaseCounter":{"N":"8"},"checkpointOwner":{"S":"B"},"ownerSwitchesSinceCheckpoint":{"N":"2"}}`,
		`{"leaseKey":{"S":"s1"},"leaseOwner":{"S":"B"},"leaseCounter":{"N":"9"}}`,
	}
	held := 0
	for _, w := range leaseWrites {
		older, expressions := parse(t, OpUpdate, w.older), parse(t, OpUpdate, w.expressions)
		assert.Equal(t, expressions.Condition.String(), older.Condition.String(), w.name)
		assert.Equal(t, expressions.Condition.Terms(), older.Condition.Terms(), w.name)
		assert.Equal(t, expressions.Update.String(), older.Update.String(), w.name)
		assert.Equal(t, expressions.Update.Actions(), older.Update.Actions(), w.name)
		for _, text := range items {
			assert.Equal(t, expressions.Condition.Eval(item(t, text)), older.Condition.Eval(item(t, text)), "%s: %s", w.name, text)
			if older.Condition.Eval(item(t, text)) {
				held++
			}
			one, errOne := apply(t, expressions.Update, text)
			other, errOther := apply(t, older.Update, text)
			assert.Equal(t, one, other, w.name)
			assert.Equal(t, errOne, errOther, w.name)
		}
	}
	assert.Equal(t, 8, held)
	for i, w := range leaseWrites { // and no two acts are one
		for _, x := range leaseWrites[i+1:] {
			a, b := parse(t, OpUpdate, w.older), parse(t, OpUpdate, x.older)
			assert.NotEqual(t, a.Condition.String()+a.Update.String(), b.Condition.String()+b.Update.String())
		}
	}
}

func TestUpdateNormalForm(t *testing.T) {
	u := parse(t, OpUpdate, expression(t, "SET c = if_not_exists(a, :one) - b, a.b[1] = list_append(:l2, x) REMOVE z ADD b :one DELETE d :ss")).Update
	assert.Equal(t, []string{
		`ADD b {"N":"1"}`,
		`DELETE d {"SS":["a","b"]}`,
		`REMOVE z`,
		`SET a.b[1] = list_append({"L":[{"S":"r"}]}, x)`,
		`SET c = if_not_exists(a, {"N":"1"}) - b`,
	}, u.Actions())
	assert.Equal(t, fmt.Sprintf("%s, %s, %s, %s, %s", anys(u.Actions())...), u.String())
}

func anys(s []string) []any {
	var a []any
	for _, x := range s {
		a = append(a, x)
	}
	return a
}

// The worked examples of leases, as far as they do not need a table.
// aws-dynamodb#11
func TestWorkedExamples(t *testing.T) {
	const stored = `{"leaseKey":{"S":"s1"},"leaseOwner":{"S":"A"},"leaseCounter":{"N":"7"}}`
	// 1: a renewal succeeds, and finds its own effect when it is sent again.
	renew := parse(t, OpUpdate, leaseWrites[0].older)
	require.True(t, renew.Condition.Eval(item(t, stored)))
	after, err := apply(t, renew.Update, stored)
	require.NoError(t, err)
	assert.Equal(t, `{"leaseCounter":{"N":"8"},"leaseKey":{"S":"s1"},"leaseOwner":{"S":"A"}}`, text(after))
	assert.False(t, renew.Condition.Eval(after))
	// 2: numbers compare by value.
	for _, counter := range []string{"7.0", "07", "0.7e1"} {
		c := parse(t, OpUpdate, `{"Expected":{"leaseCounter":{"Value":{"N":"`+counter+`"}}}}`).Condition
		assert.True(t, c.Eval(item(t, stored)), counter)
	}
	// 3: a deleted item fails the renewal.
	assert.False(t, renew.Condition.Eval(nil))
	// 4: an absent owner.
	const me = `"ExpressionAttributeValues":{":me":{"S":"A"}}}`
	for src, want := range map[string]bool{"leaseOwner <> :me": true, "NOT leaseOwner = :me": true, "leaseOwner = :me": false} {
		c := parse(t, OpPut, `{"ConditionExpression":"`+src+`",`+me).Condition
		assert.Equal(t, want, c.Eval(item(t, `{"leaseKey":{"S":"s1"}}`)), src)
	}
	// 5: without its condition on the key an eviction would create an item.
	evict := parse(t, OpUpdate, leaseWrites[2].older)
	assert.False(t, evict.Condition.Eval(nil))
	made, err := evict.Update.Apply(nil, attr.Item{"leaseKey": attr.String("s1")})
	require.NoError(t, err)
	assert.Equal(t, `{"leaseCounter":{"N":"1"},"leaseKey":{"S":"s1"}}`, text(made))
	// 6: of two creations the second finds the first.
	create := parse(t, OpPut, `{"Expected":{"leaseKey":{"Exists":false}}}`).Condition
	assert.True(t, create.Eval(nil))
	assert.False(t, create.Eval(item(t, stored)))
	// 7: a steal of the lock after a heartbeat.
	steal := parse(t, OpPut, `{"ConditionExpression":"attribute_exists(#pk) AND #rvn = :old","ExpressionAttributeNames":{"#pk":"leaseKey","#rvn":"recordVersionNumber"},"ExpressionAttributeValues":{":old":{"S":"v1"}}}`).Condition
	assert.True(t, steal.Eval(item(t, `{"leaseKey":{"S":"Leader"},"recordVersionNumber":{"S":"v1"}}`)))
	assert.False(t, steal.Eval(item(t, `{"leaseKey":{"S":"Leader"},"recordVersionNumber":{"S":"v2"}}`)))
	assert.False(t, steal.Eval(nil))
}
