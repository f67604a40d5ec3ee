package expr

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

const keyValues = `":p":{"S":"x"},":n":{"N":"5"},":m":{"N":"7"},":s":{"S":"ab"},":e":{"S":""},":b":{"B":"AQ=="},":eb":{"B":""}`

// keyExpression is a request with a condition on the partition key p and that
// one.
func keyExpression(t testing.TB, src string) string {
	t.Helper()
	return with(t, "KeyConditionExpression", src+" AND p = :p", keyValues)
}

func TestKeyCondition(t *testing.T) {
	hash := KeyAttr{"p", attr.S}
	five, seven := attr.Int(5), attr.Int(7)
	x := attr.String("x")
	for _, c := range []struct {
		expression, older string // on the sort key; "" for none
		kind              attr.Kind
		want              KeyRange
	}{
		{"", ``, attr.N, KeyRange{Partition: x}},
		{"c = :n", `{"ComparisonOperator":"EQ","AttributeValueList":[{"N":"5"}]}`, attr.N, KeyRange{Partition: x, Low: five, High: five}},
		{":n = c", `{"ComparisonOperator":"EQ","AttributeValueList":[{"N":"5.0"}]}`, attr.N, KeyRange{Partition: x, Low: five, High: five}},
		{"c < :n", `{"ComparisonOperator":"LT","AttributeValueList":[{"N":"5"}]}`, attr.N, KeyRange{Partition: x, High: five, HighOpen: true}},
		{":n > c", `{"ComparisonOperator":"LT","AttributeValueList":[{"N":"5"}]}`, attr.N, KeyRange{Partition: x, High: five, HighOpen: true}},
		{"c <= :n", `{"ComparisonOperator":"LE","AttributeValueList":[{"N":"5"}]}`, attr.N, KeyRange{Partition: x, High: five}},
		{"c > :n", `{"ComparisonOperator":"GT","AttributeValueList":[{"N":"5"}]}`, attr.N, KeyRange{Partition: x, Low: five, LowOpen: true}},
		{":n < c", `{"ComparisonOperator":"GT","AttributeValueList":[{"N":"5"}]}`, attr.N, KeyRange{Partition: x, Low: five, LowOpen: true}},
		{":n <= c", `{"ComparisonOperator":"GE","AttributeValueList":[{"N":"5"}]}`, attr.N, KeyRange{Partition: x, Low: five}},
		{"(c between :n and :m)", `{"ComparisonOperator":"BETWEEN","AttributeValueList":[{"N":"5"},{"N":"7"}]}`, attr.N, KeyRange{Partition: x, Low: five, High: seven}},
		{"begins_with(c, :s)", `{"ComparisonOperator":"BEGINS_WITH","AttributeValueList":[{"S":"ab"}]}`, attr.S, KeyRange{Partition: x, Low: attr.String("ab"), ByPrefix: true}},
		{"begins_with(c, :e)", `{"ComparisonOperator":"BEGINS_WITH","AttributeValueList":[{"S":""}]}`, attr.S, KeyRange{Partition: x, Low: attr.String(""), ByPrefix: true}},
		{"begins_with(c, :b)", `{"ComparisonOperator":"BEGINS_WITH","AttributeValueList":[{"B":"AQ=="}]}`, attr.B, KeyRange{Partition: x, Low: attr.Binary("\x01"), ByPrefix: true}},
	} {
		const onHash = `"p":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"x"}]}`
		request, older := keyExpression(t, c.expression), `{"KeyConditions":{`+onHash+`,"c":`+c.older+`}}`
		if c.expression == "" {
			request, older = `{"KeyConditionExpression":"p = :p","ExpressionAttributeValues":{":p":{"S":"x"}}}`, `{"KeyConditions":{`+onHash+`}}`
		}
		one, other := parse(t, OpQuery, request).KeyCondition, parse(t, OpQuery, older).KeyCondition
		assert.Equal(t, one.String(), other.String(), c.expression)
		for _, k := range []*KeyCondition{one, other} {
			got, err := k.Bind(hash, KeyAttr{"c", c.kind})
			require.NoError(t, err, c.expression)
			assert.Equal(t, c.want, got, c.expression)
		}
	}
}

func TestKeyConditionsRefused(t *testing.T) {
	operator := func(op string) string { return "Invalid operator used in KeyConditionExpression: " + op }
	for src, want := range map[string]string{
		"(c = :n OR c = :m)":  operator("OR"),
		"NOT c = :n":          operator("NOT"),
		"c IN (:n)":           operator("IN"),
		"c <> :n":             operator("<>"),
		"attribute_exists(c)": operator("attribute_exists"),
		"contains(c, :s)":     operator("contains"),
		"size(c) = :n":        "KeyConditionExpressions cannot contain nested operations",
		"c.x = :n":            "KeyConditionExpressions cannot have conditions on nested attributes",
		"c = d":               "Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition",
		":n = :m":             "Invalid condition in KeyConditionExpression: No key attribute specified",
		":n BETWEEN c AND :m": "Invalid condition in KeyConditionExpression: BETWEEN operator must have the key attribute as its first operand",
		"begins_with(:s, c)":  "Invalid condition in KeyConditionExpression: begins_with operator must have the key attribute as its first operand",
		"c >= :n AND c <= :m": "KeyConditionExpressions must only contain one condition per key",
		"p = :p":              "KeyConditionExpressions must only contain one condition per key",
		"c = :n AND d = :m":   "Conditions can be of length 1 or 2 only",
		"begins_with(c, :n)":  "Invalid KeyConditionExpression: Incorrect operand type for operator or function; operator or function: begins_with, operand type: N",
		"c != :n":             `Invalid KeyConditionExpression: Syntax error; token: "!", near: "c !="`,
		"((c = :n))":          "Invalid KeyConditionExpression: The expression has redundant parentheses;",
		"dog(c, :n)":          "Invalid KeyConditionExpression: Invalid function name; function: dog",
	} {
		assert.Equal(t, want, refusal(t, OpQuery, keyExpression(t, src)), src)
	}
	for _, op := range []string{"NE", "NULL", "NOT_NULL", "CONTAINS", "NOT_CONTAINS", "IN"} {
		operands := `{"S":"x"}`
		if op == "NULL" || op == "NOT_NULL" {
			operands = ""
		}
		if op == "IN" {
			operands += `,{"S":"y"}`
		}
		assert.Equal(t, "Attempted conditional constraint is not an indexable operation",
			refusal(t, OpQuery, `{"KeyConditions":{"p":{"ComparisonOperator":"`+op+`","AttributeValueList":[`+operands+`]}}}`), op)
	}
	assert.Equal(t, "Conditions can be of length 1 or 2 only", refusal(t, OpQuery, `{"KeyConditions":{}}`))
}

func TestBindRefuses(t *testing.T) {
	p, c := KeyAttr{"p", attr.S}, KeyAttr{"c", attr.N}
	for _, r := range []struct {
		src        string
		hash, sort KeyAttr
		want       string
	}{
		{"c = :n", p, KeyAttr{"d", attr.N}, "Query condition missed key schema element: d"},
		{"c = :n", p, KeyAttr{}, "Query key condition not supported"},
		{"c = :n", KeyAttr{"leaseOwner", attr.S}, c, "Query condition missed key schema element: leaseOwner"},
		{"c > :n", c, p, "Query key condition not supported"}, // the partition key takes = only
		{"c = :s", p, c, "One or more parameter values were invalid: Condition parameter type does not match schema type"},
		{"c = :n", KeyAttr{"p", attr.N}, c, "One or more parameter values were invalid: Condition parameter type does not match schema type"},
		{"c = :e", p, KeyAttr{"c", attr.S}, "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: c"},
		{"c = :eb", KeyAttr{"c", attr.B}, p, "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty binary value. Key: c"},
	} {
		_, err := parse(t, OpQuery, keyExpression(t, r.src)).KeyCondition.Bind(r.hash, r.sort)
		assert.Equal(t, r.want, validation(t, err), r.src)
	}
}
