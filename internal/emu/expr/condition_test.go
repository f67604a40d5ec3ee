package expr

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

// values are the request's in the tests of conditions.
const values = `":n5":{"N":"5.0"},":n6":{"N":"6"},":n2":{"N":"2"},":s":{"S":"s"},":b":{"B":"AQ=="},":ss":{"SS":["a","b"]},
	":bool":{"BOOL":true},":null":{"NULL":true},":l":{"L":[{"N":"5"},{"SS":["y","x"]}]},":m":{"M":{"x":{"N":"5"}}},
	":N":{"S":"N"},":NULL":{"S":"NULL"},":sub":{"S":"el"},":e":{"S":""}`

// condition parses a condition of attributes a, b, c and those values it uses.
func condition(t testing.TB, src string) *Condition {
	t.Helper()
	return parse(t, OpPut, conditionRequest(t, src)).Condition
}

func conditionRequest(t testing.TB, src string) string {
	t.Helper()
	return with(t, "ConditionExpression", src, values)
}

// cells are the states of the tested attribute, and what a condition says of each.
type cells struct {
	wrong, equal, unequal string // the stored value in these states
	// want is true (T) or false (F) of: no item, no attribute, a NULL, a value of
	// another type, an equal one, an unequal one.
	want string
}

func (c cells) check(t *testing.T, name string, holds func(attr.Item) bool) {
	t.Helper()
	states := []struct{ name, item string }{
		{"no item", ""},
		{"no attribute", `{"k":{"S":"x"}}`},
		{"NULL", `{"a":{"NULL":true}}`},
		{"wrong type", `{"a":` + c.wrong + `}`},
		{"equal", `{"a":` + c.equal + `}`},
		{"unequal", `{"a":` + c.unequal + `}`},
	}
	for i, s := range states {
		assert.Equal(t, c.want[i] == 'T', holds(item(t, s.item)), "%s: %s", name, s.name)
	}
}

const (
	n5    = `{"N":"5"}`
	n4    = `{"N":"4"}`
	n7    = `{"N":"7"}`
	s5    = `{"S":"5"}`
	hello = `{"S":"hello"}`
	other = `{"S":"other"}`
)

// Each row of the table of expression terms in each state of the attribute.
// aws-dynamodb#10
func TestConditionCells(t *testing.T) {
	for _, c := range []struct {
		condition string
		cells
	}{
		{"a = :n5", cells{s5, n5, n4, "FFFFTF"}},
		{":n5 = a", cells{s5, n5, n4, "FFFFTF"}},
		{"a = :s", cells{n5, `{"S":"s"}`, `{"S":"S"}`, "FFFFTF"}},
		{"a = :b", cells{`{"S":"AQ=="}`, `{"B":"AQ=="}`, `{"B":"Ag=="}`, "FFFFTF"}},
		{"a = :ss", cells{`{"L":[{"S":"a"},{"S":"b"}]}`, `{"SS":["b","a"]}`, `{"SS":["a"]}`, "FFFFTF"}},
		{"a = :bool", cells{`{"S":"true"}`, `{"BOOL":true}`, `{"BOOL":false}`, "FFFFTF"}},
		{"a = :null", cells{s5, `{"NULL":true}`, `{"BOOL":true}`, "FFTFTF"}},
		{"a = :l", cells{`{"NS":["5"]}`, `{"L":[{"N":"5.0"},{"SS":["x","y"]}]}`, `{"L":[{"SS":["x","y"]},{"N":"5"}]}`, "FFFFTF"}},
		{"a = :m", cells{`{"L":[]}`, `{"M":{"x":{"N":"05"}}}`, `{"M":{"x":{"N":"5"},"y":{"N":"5"}}}`, "FFFFTF"}},
		{"a <> :n5", cells{s5, n5, n4, "TTTTFT"}},
		{":n5 <> a", cells{s5, n5, n4, "TTTTFT"}},
		{"a < :n5", cells{s5, n5, n4, "FFFFFT"}},
		{"a < :n5", cells{s5, n5, n7, "FFFFFF"}},
		{"a <= :n5", cells{s5, n5, n4, "FFFFTT"}},
		{"a <= :n5", cells{s5, n5, n7, "FFFFTF"}},
		{"a > :n5", cells{s5, n5, n7, "FFFFFT"}},
		{"a > :n5", cells{s5, n5, n4, "FFFFFF"}},
		{"a >= :n5", cells{s5, n5, n7, "FFFFTT"}},
		{"a >= :n5", cells{s5, n5, n4, "FFFFTF"}},
		{":n5 < a", cells{s5, n5, n7, "FFFFFT"}},
		{":n5 >= a", cells{s5, n5, n4, "FFFFTT"}},
		{"a < :s", cells{n5, `{"S":"s"}`, `{"S":"S"}`, "FFFFFT"}},
		{"a > :s", cells{n5, `{"S":"s"}`, `{"S":"é"}`, "FFFFFT"}},
		{"a > :b", cells{`{"S":"\u0002"}`, `{"B":"AQ=="}`, `{"B":"/w=="}`, "FFFFFT"}},
		{"a BETWEEN :n5 AND :n6", cells{s5, n5, n4, "FFFFTF"}},
		{"a BETWEEN :n5 AND :n6", cells{s5, `{"N":"6"}`, n7, "FFFFTF"}},
		{"a between :n2 and :n6", cells{`{"SS":["5"]}`, n5, n7, "FFFFTF"}},
		{"a IN (:n5, :s)", cells{`{"NS":["5"]}`, n5, n4, "FFFFTF"}},
		{"a IN (:s, :n5)", cells{s5, `{"S":"s"}`, `{"S":"t"}`, "FFFFTF"}},
		{"a in (:null, :l)", cells{s5, `{"L":[{"N":"5"},{"SS":["y","x"]}]}`, n4, "FFTFTF"}},
		{"attribute_exists(a)", cells{s5, n5, n4, "FFTTTT"}},
		{"attribute_not_exists(a)", cells{s5, n5, n4, "TTFFFF"}},
		{"attribute_type(a, :N)", cells{s5, n5, `{"NS":["5"]}`, "FFFFTF"}},
		{"attribute_type(a, :NULL)", cells{s5, `{"NULL":true}`, n5, "FFTFTF"}},
		{"begins_with(a, :s)", cells{n5, `{"S":"s"}`, `{"S":"ts"}`, "FFFFTF"}},
		{"begins_with(a, :s)", cells{`{"B":"c3M="}`, `{"S":"ss"}`, `{"S":""}`, "FFFFTF"}},
		{"begins_with(a, :b)", cells{`{"S":"\u0001"}`, `{"B":"AQI="}`, `{"B":"AgE="}`, "FFFFTF"}},
		{"begins_with(a, :s)", cells{`{"SS":["s"]}`, `{"S":"s"}`, `{"S":"S"}`, "FFFFTF"}},
		{"contains(a, :sub)", cells{n5, hello, other, "FFFFTF"}},
		{"contains(a, :sub)", cells{`{"B":"aGVsbG8="}`, `{"SS":["el"]}`, `{"SS":["hello"]}`, "FFFFTF"}},
		{"contains(a, :sub)", cells{`{"M":{"el":{"S":"el"}}}`, `{"L":[{"S":"el"}]}`, `{"L":[{"S":"hello"}]}`, "FFFFTF"}},
		{"contains(a, :n5)", cells{s5, `{"NS":["5","6"]}`, `{"NS":["6"]}`, "FFFFTF"}},
		{"contains(a, :n5)", cells{n5, `{"L":[{"N":"05"}]}`, `{"L":[{"S":"5"}]}`, "FFFFTF"}},
		{"contains(a, :b)", cells{`{"S":"\u0001"}`, `{"B":"AAEA"}`, `{"B":"AA=="}`, "FFFFTF"}},
		{"contains(a, :b)", cells{`{"SS":["\u0001"]}`, `{"BS":["AQ=="]}`, `{"BS":["AA=="]}`, "FFFFTF"}},
		{"contains(a, :ss)", cells{`{"SS":["a","b"]}`, `{"L":[{"SS":["b","a"]}]}`, `{"L":[{"S":"a"},{"S":"b"}]}`, "FFFFTF"}},
		{"size(a) = :n5", cells{n5, hello, `{"S":"hell"}`, "FFFFTF"}},
		{"size(a) = :n5", cells{`{"BOOL":true}`, `{"S":"helli"}`, `{"S":"é𝄞"}`, "FFFFTF"}},
		{":n2 = size(a)", cells{n5, `{"S":"𝄞"}`, `{"S":"é"}`, "FFFFTF"}},
		{":n2 = size(a)", cells{n5, `{"B":"AAA="}`, `{"B":"AAAA"}`, "FFFFTF"}},
		{"size(a) = :n2", cells{n5, `{"SS":["a","b"]}`, `{"NS":["1"]}`, "FFFFTF"}},
		{"size(a) = :n2", cells{n5, `{"L":[{"N":"1"},{"N":"1"}]}`, `{"M":{"x":{"N":"2"}}}`, "FFFFTF"}},
		{"size(a) = :n2", cells{n5, `{"M":{"x":{"N":"2"},"y":{"N":"2"}}}`, `{"L":[]}`, "FFFFTF"}},
		{"size(a) > :n5", cells{n7, hello, `{"S":"longer"}`, "FFFFFT"}},
		{"size(a) <= :n5", cells{n4, hello, `{"S":"longer"}`, "FFFFTF"}},
		{"size(a) BETWEEN :n2 AND :n5", cells{n4, hello, `{"S":"x"}`, "FFFFTF"}},
		{"size(a) IN (:n2, :n5)", cells{n5, hello, `{"S":"x"}`, "FFFFTF"}},
		{"size(a) = :s", cells{n5, hello, `{"S":"s"}`, "FFFFFF"}},
		{"NOT a = :n5", cells{s5, n5, n4, "TTTTFT"}},
		{"NOT a <> :n5", cells{s5, n5, n4, "FFFFTF"}},
		{"NOT a < :n5", cells{s5, n5, n4, "TTTTTF"}},
		{"NOT a BETWEEN :n5 AND :n6", cells{s5, n5, n4, "TTTTFT"}},
		{"NOT begins_with(a, :s)", cells{n5, `{"S":"s"}`, `{"S":"t"}`, "TTTTFT"}},
		{"NOT NOT NOT a = :n5", cells{s5, n5, n4, "TTTTFT"}},
		{"attribute_not_exists(a) OR a = :n5", cells{s5, n5, n4, "TTFFTF"}},
		{"attribute_exists(a) AND NOT contains(a, :sub)", cells{n5, hello, other, "FFTTFT"}},
	} {
		c.check(t, c.condition, condition(t, c.condition).Eval)
	}
}

// older is an entry of the older forms: the operator and its operands.
type older struct{ operator, values string }

// Each row of the table of the older forms' operators in each state of the
// attribute, in each of the members that know them; and the expression that says
// the same is the same tree. aws-dynamodb#10,47
func TestOlderCells(t *testing.T) {
	for _, c := range []struct {
		older
		expression string
		cells
	}{
		{older{"EQ", `{"N":"5.0"}`}, "a = :n5", cells{s5, n5, n4, "FFFFTF"}},
		{older{"EQ", `{"SS":["b","a"]}`}, "a = :ss", cells{s5, `{"SS":["a","b"]}`, `{"SS":["a"]}`, "FFFFTF"}},
		{older{"EQ", `{"M":{"x":{"N":"5"}}}`}, "a = :m", cells{s5, `{"M":{"x":{"N":"5"}}}`, `{"M":{}}`, "FFFFTF"}},
		{older{"EQ", `{"NULL":true}`}, "a = :null", cells{s5, `{"NULL":true}`, n4, "FFTFTF"}},
		{older{"NE", `{"N":"5"}`}, "a <> :n5", cells{s5, n5, n4, "TTTTFT"}},
		{older{"NULL", ``}, "attribute_not_exists(a)", cells{s5, n5, n4, "TTFFFF"}},
		{older{"NOT_NULL", ``}, "attribute_exists(a)", cells{s5, n5, n4, "FFTTTT"}},
		{older{"LT", `{"N":"5"}`}, "a < :n5", cells{s5, n5, n4, "FFFFFT"}},
		{older{"LE", `{"N":"5"}`}, "a <= :n5", cells{s5, n5, n4, "FFFFTT"}},
		{older{"GT", `{"N":"5"}`}, "a > :n5", cells{s5, n5, n7, "FFFFFT"}},
		{older{"GE", `{"N":"5"}`}, "a >= :n5", cells{s5, n5, n7, "FFFFTT"}},
		{older{"LT", `{"S":"s"}`}, "a < :s", cells{n5, `{"S":"s"}`, `{"S":"a"}`, "FFFFFT"}},
		{older{"GE", `{"B":"AQ=="}`}, "a >= :b", cells{`{"SS":["x"]}`, `{"B":"AQ=="}`, `{"B":"/w=="}`, "FFFFTT"}},
		{older{"BETWEEN", `{"N":"2"},{"N":"6"}`}, "a BETWEEN :n2 AND :n6", cells{s5, n5, n7, "FFFFTF"}},
		{older{"IN", `{"N":"6"},{"N":"5"}`}, "a IN (:n5, :n6)", cells{`{"NS":["5"]}`, n5, n4, "FFFFTF"}},
		{older{"IN", `{"N":"5"}`}, "a = :n5", cells{`{"NS":["5"]}`, n5, n4, "FFFFTF"}},
		{older{"CONTAINS", `{"S":"el"}`}, "contains(a, :sub)", cells{n5, hello, other, "FFFFTF"}},
		{older{"CONTAINS", `{"S":"el"}`}, "contains(a, :sub)", cells{`{"NS":["1"]}`, `{"SS":["el"]}`, `{"L":[]}`, "FFFFTF"}},
		{older{"CONTAINS", `{"N":"5"}`}, "contains(a, :n5)", cells{n5, `{"L":[{"N":"5"}]}`, `{"NS":["4"]}`, "FFFFTF"}},
		{older{"CONTAINS", `{"B":"AQ=="}`}, "contains(a, :b)", cells{s5, `{"B":"AAEA"}`, `{"B":""}`, "FFFFTF"}},
		{older{"NOT_CONTAINS", `{"S":"el"}`}, "attribute_exists(a) AND NOT contains(a, :sub)", cells{n5, hello, other, "FFTTFT"}},
		{older{"NOT_CONTAINS", `{"N":"5"}`}, "NOT contains(a, :n5) AND attribute_exists(a)", cells{s5, `{"NS":["5"]}`, `{"NS":["4"]}`, "FFTTFT"}},
		{older{"BEGINS_WITH", `{"S":"s"}`}, "begins_with(a, :s)", cells{n5, `{"S":"ss"}`, `{"S":"t"}`, "FFFFTF"}},
		{older{"BEGINS_WITH", `{"B":"AQ=="}`}, "begins_with(a, :b)", cells{s5, `{"B":"AQE="}`, `{"B":"AA=="}`, "FFFFTF"}},
	} {
		entry := fmt.Sprintf(`{"a":{"ComparisonOperator":%q,"AttributeValueList":[%s]}}`, c.operator, c.values)
		want := condition(t, c.expression).String()
		for _, form := range []struct {
			op     Op
			member string
		}{{OpPut, "Expected"}, {OpDelete, "Expected"}, {OpUpdate, "Expected"}, {OpScan, "ScanFilter"}, {OpQuery, "QueryFilter"}} {
			p := parse(t, form.op, fmt.Sprintf(`{%q:%s}`, form.member, entry))
			got := p.Condition
			if form.member != "Expected" {
				got = p.Filter
			}
			c.check(t, form.member+" "+c.operator, got.Eval)
			assert.Equal(t, want, got.String(), form.member)
		}
	}
}

// The forms of Expected without an operator, and an operator with Value.
// aws-dynamodb#10
func TestExpectedWithoutOperator(t *testing.T) {
	for _, c := range []struct {
		entry, expression string
		cells
	}{
		{`{"Value":{"N":"5.0"}}`, "a = :n5", cells{s5, n5, n4, "FFFFTF"}},
		{`{"Exists":true,"Value":{"N":"5"}}`, "a = :n5", cells{s5, n5, n4, "FFFFTF"}},
		{`{"Exists":false}`, "attribute_not_exists(a)", cells{s5, n5, n4, "TTFFFF"}},
		{`{"ComparisonOperator":"NE","Value":{"N":"5"}}`, "a <> :n5", cells{s5, n5, n4, "TTTTFT"}},
		{`{"ComparisonOperator":"NULL"}`, "attribute_not_exists(a)", cells{s5, n5, n4, "TTFFFF"}},
		{`{"ComparisonOperator":"NOT_NULL"}`, "attribute_exists(a)", cells{s5, n5, n4, "FFTTTT"}},
	} {
		got := parse(t, OpPut, `{"Expected":{"a":`+c.entry+`}}`).Condition
		c.check(t, c.entry, got.Eval)
		assert.Equal(t, condition(t, c.expression).String(), got.String(), c.entry)
	}
}

func TestConditionsOfTwoAttributes(t *testing.T) {
	const listed = `{"a":{"N":"1"},"b":{"N":"2"},"c":{"N":"3"},"m":{"M":{"x":{"N":"1"},"l":{"L":[{"N":"0"},{"N":"2"}]}}},"a.b":{"N":"9"}}`
	for src, want := range map[string]bool{
		"a < b AND b < c":                  true,
		"a < b AND c < b":                  false,
		"b < a OR b < c":                   true,
		"b < a OR c < b":                   false,
		"a < b OR c < b AND b < a":         true, // AND binds before OR
		"(a < b OR c < b) AND b < a":       false,
		"NOT a < b AND c < b":              false, // NOT binds before AND
		"NOT (a < b AND c < b)":            true,
		"b BETWEEN a AND c AND a < b":      true,
		"b BETWEEN c AND a":                false, // stored bounds in reverse
		"a IN (b, c)":                      false,
		"a = x":                            false,
		"x = y":                            false, // both missing
		"x <> y":                           true,
		"x < y":                            false,
		"x BETWEEN y AND z":                false,
		"m.x < m.l[1]":                     true,
		"m.x = m.l[0]":                     false,
		"attribute_exists(m.l[1])":         true,
		"attribute_exists(m.l[2])":         false, // past the end
		"attribute_exists(m.y)":            false,
		"attribute_exists(m.x.y)":          false, // through a number
		"attribute_exists(m[0])":           false, // a map is no list
		"attribute_exists(m.l.x)":          false,
		"attribute_exists(a.b)":            false, // the name with a dot is another
		"(a) = m.x":                        true,
		"(a < b) AND ((b < c) OR (c < b))": true,
		"a < b aNd nOt c < b":              true,
		" a<b\tAND\n( b<c ) ":              true,
		"size(m) = size(m.l)":              true,
		"begins_with(a, b)":                false,
		"contains(m.l, b)":                 true,
	} {
		assert.Equal(t, want, condition(t, src).Eval(item(t, listed)), src)
	}
	named := parse(t, OpPut, `{"ConditionExpression":"#d = :v AND #m.#x = a","ExpressionAttributeNames":{"#d":"a.b","#m":"m","#x":"x"},"ExpressionAttributeValues":{":v":{"N":"9"}}}`)
	assert.True(t, named.Condition.Eval(item(t, listed)), "a dot in a name is a dot")
	assert.True(t, (*Condition)(nil).Eval(nil))
}

// ConditionalOperator joins the entries; an empty map is no condition.
func TestConditionalOperator(t *testing.T) {
	const entries = `"Expected":{"a":{"Value":{"N":"1"}},"b":{"Value":{"N":"2"}},"c":{"Exists":false}}`
	and := parse(t, OpPut, `{`+entries+`}`).Condition
	andToo := parse(t, OpPut, `{`+entries+`,"ConditionalOperator":"AND"}`).Condition
	or := parse(t, OpPut, `{`+entries+`,"ConditionalOperator":"OR"}`).Condition
	one := item(t, `{"b":{"N":"2"},"c":{"N":"1"}}`)
	whole := item(t, `{"a":{"N":"1"},"b":{"N":"2"}}`)
	none := item(t, `{"c":{"N":"1"}}`)
	for _, c := range []*Condition{and, andToo} {
		assert.True(t, c.Eval(whole))
		assert.False(t, c.Eval(one))
	}
	assert.True(t, or.Eval(whole))
	assert.True(t, or.Eval(one))
	assert.False(t, or.Eval(none))
	assert.Nil(t, parse(t, OpPut, `{"Expected":{}}`).Condition)

	dotted := parse(t, OpPut, `{"Expected":{"a.b":{"Value":{"N":"1"}}}}`).Condition
	assert.True(t, dotted.Eval(item(t, `{"a.b":{"N":"1"}}`)), "names of the older forms are top-level")
	assert.False(t, dotted.Eval(item(t, `{"a":{"M":{"b":{"N":"1"}}}}`)))
}

func TestCheckNoKeys(t *testing.T) {
	filter := parse(t, OpQuery, `{"KeyConditionExpression":"p = :p","FilterExpression":"x = :p OR NOT contains(y, size(s.t))","ExpressionAttributeValues":{":p":{"S":"x"}}}`).Filter
	assert.NoError(t, filter.CheckNoKeys("p"))
	assert.Equal(t, "Filter Expression can only contain non-primary key attributes: Primary key attribute: s",
		validation(t, filter.CheckNoKeys("p", "s")))
	older := parse(t, OpQuery, `{"QueryFilter":{"p":{"ComparisonOperator":"NOT_NULL"}}}`).Filter
	assert.Equal(t, "QueryFilter can only contain non-primary key attributes: Primary key attribute: p", validation(t, older.CheckNoKeys("p")))
	assert.NoError(t, (*Condition)(nil).CheckNoKeys("p"))
}
