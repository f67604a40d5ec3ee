package expr

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

const (
	noAttribute  = "The provided expression refers to an attribute that does not exist in the item"
	badType      = "An operand in the update expression has an incorrect data type"
	badPath      = "The document path provided in the update expression is invalid for update"
	tooLarge     = "Number overflow. Attempting to store a number with magnitude larger than supported range"
	updateValues = `":one":{"N":"1"},":big":{"N":"1e50"},":s":{"S":"x"},":t":{"S":"y"},":l":{"L":[{"S":"p"},{"S":"q"}]},
		":l2":{"L":[{"S":"r"}]},":ss":{"SS":["a","b"]},":ns":{"NS":["1","2"]},":m":{"M":{}},":bool":{"BOOL":true}`
)

// expression is a request with an UpdateExpression and those values it uses.
func expression(t testing.TB, src string) string {
	t.Helper()
	return with(t, "UpdateExpression", src, updateValues)
}

// apply applies an update to an item and checks that the item is as it was.
func apply(t testing.TB, u *Update, old string) (attr.Item, error) {
	t.Helper()
	before := item(t, old)
	after, err := u.Apply(before, item(t, `{"k":{"S":"key"}}`))
	require.Equal(t, item(t, old), before, "the old item is not modified")
	return after, err
}

// aws-dynamodb#14,15
func TestUpdateExpression(t *testing.T) {
	for _, c := range []struct{ old, update, want string }{
		// Right-hand sides read the old item.
		{`{"a":{"N":"1"},"b":{"N":"2"}}`, "SET a = b, b = a", `{"a":{"N":"2"},"b":{"N":"1"}}`},
		{`{"a":{"S":"x"}}`, "REMOVE a SET b = a", `{"b":{"S":"x"}}`},
		{`{"a":{"N":"1"}}`, "SET a = a + :one, b = a + :one", `{"a":{"N":"2"},"b":{"N":"2"}}`},
		{`{"a":{"N":"1"}}`, "ADD a :one SET b = a", `{"a":{"N":"2"},"b":{"N":"1"}}`},
		// Clauses, in any order and case.
		{`{"a":{"N":"1"},"b":{"N":"1"},"c":{"SS":["a","z"]}}`, "delete c :ss remove b Add a :one sEt d = :s", `{"a":{"N":"2"},"c":{"SS":["z"]},"d":{"S":"x"}}`},
		// Arithmetic.
		{`{"a":{"N":"0.1"}}`, "SET a = :one - a", `{"a":{"N":"0.9"}}`},
		{`{"a":{"N":"5"}}`, "SET a = (a - :one)", `{"a":{"N":"4"}}`},
		{`{"a":{"N":"5"}}`, "SET a = (a) + (:one)", `{"a":{"N":"6"}}`},
		{`{"a":{"N":"5"}}`, "SET a = ((a) + :one)", `{"a":{"N":"6"}}`},
		{`{}`, "SET a = if_not_exists(a, :one) + :one", `{"a":{"N":"2"}}`},
		// Functions.
		{`{"a":{"N":"5"}}`, "SET a = if_not_exists(a, :one), b = if_not_exists(b, :one)", `{"a":{"N":"5"},"b":{"N":"1"}}`},
		{`{"a":{"N":"5"}}`, "SET b = if_not_exists(x, if_not_exists(y, a))", `{"a":{"N":"5"},"b":{"N":"5"}}`},
		{`{"a":{"L":[{"S":"o"}]}}`, "SET a = list_append(a, :l)", `{"a":{"L":[{"S":"o"},{"S":"p"},{"S":"q"}]}}`},
		{`{"a":{"L":[{"S":"o"}]}}`, "SET a = list_append(:l, a)", `{"a":{"L":[{"S":"p"},{"S":"q"},{"S":"o"}]}}`},
		{`{}`, "SET a = list_append(if_not_exists(a, :l2), :l)", `{"a":{"L":[{"S":"r"},{"S":"p"},{"S":"q"}]}}`},
		// ADD.
		{`{"a":{"N":"5"}}`, "ADD a :one, b :one", `{"a":{"N":"6"},"b":{"N":"1"}}`},
		{`{"a":{"SS":["b","c"]}}`, "ADD a :ss, b :ns", `{"a":{"SS":["a","b","c"]},"b":{"NS":["1","2"]}}`},
		// DELETE.
		{`{"a":{"SS":["b","c"]}}`, "DELETE a :ss", `{"a":{"SS":["c"]}}`},
		{`{"a":{"SS":["b","a"]},"z":{"N":"1"}}`, "DELETE a :ss", `{"z":{"N":"1"}}`}, // the last member takes the attribute along
		{`{"a":{"SS":["c"]}}`, "DELETE a :ss, b :ns", `{"a":{"SS":["c"]}}`},
		// REMOVE.
		{`{"a":{"N":"1"},"b":{"N":"2"}}`, "REMOVE a, x", `{"b":{"N":"2"}}`},
		{`{"a":{"M":{"x":{"N":"1"}}},"l":{"L":[{"N":"1"}]}}`, "REMOVE a.x, a.y, l[0], l[7]", `{"a":{"M":{}},"l":{"L":[]}}`},
		// Documents.
		{`{"a":{"M":{"x":{"N":"3"},"y":{"N":"4"},"c":{"M":{"y":{"N":"3"}}}}},"b":{"M":{"x":{"N":"1"},"y":{"N":"2"}}}}`,
			"SET a.b = :one, a.c.d = :s, b.x = :t REMOVE a.x, b.y",
			`{"a":{"M":{"b":{"N":"1"},"c":{"M":{"d":{"S":"x"},"y":{"N":"3"}}},"y":{"N":"4"}}},"b":{"M":{"x":{"S":"y"}}}}`},
		{`{"a":{"L":[{"N":"1"},{"M":{"x":{"L":[{"N":"3"}]}}}]}}`, "SET a[1].x[0] = :s", `{"a":{"L":[{"N":"1"},{"M":{"x":{"L":[{"S":"x"}]}}}]}}`},
		{`{"a":{"M":{"x":{"N":"3"}}}}`, "SET a = :one", `{"a":{"N":"1"}}`},
		{`{"a":{"M":{"n":{"N":"10"}}}}`, "SET a.n = a.n + :one, b = a.n", `{"a":{"M":{"n":{"N":"11"}}},"b":{"N":"10"}}`},
		{`{"a":{"M":{"n":{"N":"10"}}}}`, "ADD a.n :one, a.m :ss", `{"a":{"M":{"m":{"SS":["a","b"]},"n":{"N":"11"}}}}`},
		{`{"a":{"M":{"n":{"SS":["a"]}}}}`, "DELETE a.n :ss, a.m :ss", `{"a":{"M":{}}}`},
		// Indexes mean the list before the update, past its end they append in order.
		{`{"a":{"L":[{"N":"2"},{"N":"3"},{"N":"4"},{"N":"5"},{"N":"6"},{"N":"7"}]}}`, "REMOVE a[1] SET a[3] = :s", `{"a":{"L":[{"N":"2"},{"N":"4"},{"S":"x"},{"N":"6"},{"N":"7"}]}}`},
		{`{"a":{"L":[{"N":"1"}]}}`, "SET a[84] = :s, a[37] = :t, a[17] = :one, a[0] = :bool", `{"a":{"L":[{"BOOL":true},{"N":"1"},{"S":"y"},{"S":"x"}]}}`},
		{`{"a":{"L":[]}}`, "SET a[0] = :s", `{"a":{"L":[{"S":"x"}]}}`},
		{`{"a":{"L":[{"N":"1"},{"N":"2"}]}}`, "REMOVE a[0], a[5] SET a[9] = a[0]", `{"a":{"L":[{"N":"2"},{"N":"1"}]}}`},
		// No item.
		{``, "SET a = :s", `{"a":{"S":"x"},"k":{"S":"key"}}`},
		{``, "ADD a :one", `{"a":{"N":"1"},"k":{"S":"key"}}`},
		{``, "ADD a :ss DELETE b :ss REMOVE c.d", `{"a":{"SS":["a","b"]},"k":{"S":"key"}}`},
		{``, "SET a = if_not_exists(a, :s)", `{"a":{"S":"x"},"k":{"S":"key"}}`},
		{``, "REMOVE a", ``},
		{``, "REMOVE a.b, c[0]", ``},
		{``, "DELETE a :ss", ``},
		{``, "REMOVE a DELETE b :ss", ``},
	} {
		u := parse(t, OpUpdate, expression(t, c.update)).Update
		after, err := apply(t, u, c.old)
		require.NoError(t, err, c.update)
		assert.Equal(t, c.want, text(after), "%s on %s", c.update, c.old)
	}
}

// Errors that show only on the stored item. aws-dynamodb#46
func TestUpdateRefusedByItem(t *testing.T) {
	for _, c := range []struct{ old, update, message string }{
		{`{"a":{"N":"1"}}`, "SET a = b", noAttribute},
		{``, "SET a = b", noAttribute},
		{``, "SET a = k", noAttribute}, // an absent item has no key to read
		{`{}`, "SET c = c + :one", noAttribute},
		{`{}`, "SET c = list_append(c, :l)", noAttribute},
		{`{}`, "SET c = if_not_exists(c, d)", noAttribute},
		{`{"a":{"M":{}}}`, "SET c = a.x", noAttribute},
		{`{"a":{"S":"x"}}`, "SET a = a + :one", badType},
		{`{"a":{"S":"x"}}`, "SET a = :one - a", badType},
		{`{"a":{"S":"x"}}`, "SET a = list_append(a, :l)", badType},
		{`{}`, "SET a = list_append(:l, if_not_exists(a, :s))", badType},
		{`{"a":{"S":"x"}}`, "ADD a :one", badType},
		{`{"a":{"N":"1"}}`, "ADD a :ss", badType},
		{`{"a":{"L":[]}}`, "ADD a :ss", badType},
		{`{"a":{"NS":["1"]}}`, "ADD a :ss", badType},
		{`{"a":{"NS":["1"]}}`, "DELETE a :ss", badType},
		{`{"a":{"N":"1"}}`, "DELETE a :ss", badType},
		{`{"a":{"N":"1"}}`, "SET b = :big + a", tooLarge},
		{`{"a":{"N":"1"}}`, "ADD a :big", tooLarge},
		{`{"a":{"S":"x"}}`, "SET a.b = :one", badPath},
		{`{"a":{"L":[]}}`, "SET a.b = :one", badPath},
		{`{}`, "SET a.b = :one", badPath},
		{``, "SET a.b = :one", badPath},
		{``, "ADD a.b :one", badPath},
		{`{"a":{"M":{}}}`, "SET a.b.c = :one", badPath},
		{`{"a":{"M":{}}}`, "SET a[0] = :one", badPath},
		{`{}`, "SET a[0] = :one", badPath},
		{``, "SET a[0] = :one", badPath},
		{`{"a":{"L":[]}}`, "SET a[0].b = :one", badPath},
		{`{"a":{"S":"x"}}`, "REMOVE a.b", badPath},
		{`{}`, "REMOVE a.b", badPath},
		{`{}`, "REMOVE a[0]", badPath},
		{`{"a":{"M":{}}}`, "REMOVE a[0]", badPath},
		{`{"a":{"S":"x"}}`, "DELETE a.b :ss", badPath},
		{`{"a":` + strings.Repeat(`{"L":[`, 30) + `{"M":{}}` + strings.Repeat(`]}`, 30) + `}`, "SET a" + strings.Repeat("[0]", 30) + ".x = :m",
			"Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond supported limit"},
	} {
		u := parse(t, OpUpdate, expression(t, c.update)).Update
		after, err := apply(t, u, c.old)
		require.Error(t, err, c.update)
		assert.Equal(t, c.message, validation(t, err), "%s on %s", c.update, c.old)
		assert.Nil(t, after, c.update)
	}
}

// What is wrong with an update shows from the request alone. aws-dynamodb#8,15
func TestUpdatesRefused(t *testing.T) {
	overlap := func(one, two string) string {
		return "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: " + one + ", path two: " + two
	}
	conflict := func(one, two string) string {
		return strings.Replace(overlap(one, two), "overlap", "conflict", 1)
	}
	operand := func(op, kind string) string {
		return "Incorrect operand type for operator or function; operator or function: " + op + ", operand type: " + kind
	}
	action := func(op, kind string) string {
		return "Incorrect operand type for operator or function; operator: " + op + ", operand type: " + kind
	}
	misuse := "The function is not allowed to be used this way in an expression; function: "
	for src, want := range map[string]string{
		"INVALID SYNTAX HERE":             `Syntax error; token: "INVALID", near: "INVALID SYNTAX"`,
		" ":                               `Syntax error; token: "<EOF>", near: " "`,
		"SET":                             `Syntax error; token: "<EOF>", near: "SET"`,
		"SET a":                           `Syntax error; token: "<EOF>", near: "a"`,
		"SET a = ":                        `Syntax error; token: "<EOF>", near: "= "`,
		"SET a = :s,":                     `Syntax error; token: "<EOF>", near: ","`,
		"SET a = :s b = :s":               `Syntax error; token: "b", near: ":s b ="`,
		"SET a = :one + :one + :one":      `Syntax error; token: "+", near: ":one + :one"`,
		"SET a = if_not_exists(a, b + c)": `Syntax error; token: "+", near: "b + c"`,
		"SET a + b = :one":                `Syntax error; token: "+", near: "a + b"`,
		"SET :s = a":                      `Syntax error; token: ":s", near: "SET :s ="`,
		"SET a = _f(b)":                   `Syntax error; token: "_", near: "= _f"`,
		"SET a = f@(b)":                   `Syntax error; token: "@", near: "f@("`,
		"SET a = :s, set = :s":            `Syntax error; token: "set", near: ", set ="`,
		"REMOVE a = b":                    `Syntax error; token: "=", near: "a = b"`,
		"REMOVE":                          `Syntax error; token: "<EOF>", near: "REMOVE"`,
		"ADD a = :one":                    `Syntax error; token: "=", near: "a = :one"`,
		"ADD a b":                         `Syntax error; token: "b", near: "a b"`,
		"DELETE a":                        `Syntax error; token: "<EOF>", near: "a"`,
		"SET a = :one SET b = :one":       `The "SET" section can only be used once in an update expression;`,
		"ADD a :one REMOVE b ADD c :one":  `The "ADD" section can only be used once in an update expression;`,
		"remove a DELETE c :ss REMOVE b":  `The "REMOVE" section can only be used once in an update expression;`,
		"SET a = :s, a = :t":              overlap("[a]", "[a]"),
		"SET a = :s REMOVE a":             overlap("[a]", "[a]"),
		"SET a = :s, b = :s, a.b = :t":    overlap("[a]", "[a, b]"),
		"SET a.b.c.d = :s, a.b = :t":      overlap("[a, b, c, d]", "[a, b]"),
		"SET a[1] = :s ADD a :one":        overlap("[a, [1]]", "[a]"),
		"SET a[1][1] = :s, a[1] = :t":     overlap("[a, [1], [1]]", "[a, [1]]"),
		"SET a.b = :s, a[1] = :t":         conflict("[a, b]", "[a, [1]]"),
		"SET a.b.c = :s, a.b[2] = :t":     conflict("[a, b, c]", "[a, b, [2]]"),
		"SET a = f(b, c)":                 "Invalid function name; function: f",
		"SET a = LIST_APPEND(b, c)":       "Invalid function name; function: LIST_APPEND",
		"SET a = list_append(:l)":         "Incorrect number of operands for operator or function; operator or function: list_append, number of operands: 1",
		"SET a = if_not_exists(a, b, c)":  "Incorrect number of operands for operator or function; operator or function: if_not_exists, number of operands: 3",
		"SET a = size(b)":                 misuse + "size",
		"SET a = attribute_exists(b)":     misuse + "attribute_exists",
		"SET a = list_append(list_append(:l, :l2), b)":   misuse + "list_append",
		"SET a = if_not_exists(:one, :s)":                "Operator or function requires a document path; operator or function: if_not_exists",
		"SET a = if_not_exists(if_not_exists(a, b), :s)": "Operator or function requires a document path; operator or function: if_not_exists",
		"SET a = :s + :one":                              operand("+", "S"),
		"SET a = :one - :l":                              operand("-", "L"),
		"SET a = b + :ss":                                operand("+", "SS"),
		"SET a = :one + list_append(:l, b)":              operand("+", "L"),
		"SET a = list_append(:l, :s)":                    operand("list_append", "S"),
		"SET a = list_append(:ss, b)":                    operand("list_append", "SS"),
		"ADD a :s":                                       action("ADD", "STRING"),
		"ADD a :l":                                       action("ADD", "LIST"),
		"ADD a :m":                                       action("ADD", "MAP"),
		"ADD a :bool":                                    action("ADD", "BOOLEAN"),
		"DELETE a :one":                                  action("DELETE", "NUMBER"),
		"DELETE a :s":                                    action("DELETE", "STRING"),
		"SET a = :x":                                     "An expression attribute value used in expression is not defined; attribute value: :x",
		"SET #a = :one":                                  "An expression attribute name used in the document path is not defined; attribute name: #a",
		// The weightiest mistake is told.
		"ADD a :s, a :one, counter :one": "Attribute name is a reserved keyword; reserved keyword: counter",
		"ADD a :s, a :one":               overlap("[a]", "[a]"),
	} {
		assert.Equal(t, "Invalid UpdateExpression: "+want, refusal(t, OpUpdate, expression(t, src)), src)
	}
	many := "SET a1 = :one + :one"
	for i := 2; i <= 180; i++ {
		many += fmt.Sprintf(",a%d=:one+:one", i)
	}
	parse(t, OpUpdate, expression(t, many)) // an assignment is no operator
}

func TestAttributeUpdates(t *testing.T) {
	for _, c := range []struct{ old, updates, want string }{
		{`{"a":{"N":"1"}}`, `{"a":{"Action":"PUT","Value":{"S":"x"}},"b":{"Value":{"L":[]}}}`, `{"a":{"S":"x"},"b":{"L":[]}}`},
		{`{"a":{"N":"1"}}`, `{"a":{"Action":"ADD","Value":{"N":"2.5"}},"b":{"Action":"ADD","Value":{"N":"1"}}}`, `{"a":{"N":"3.5"},"b":{"N":"1"}}`},
		{`{"a":{"SS":["a"]}}`, `{"a":{"Action":"ADD","Value":{"SS":["b"]}},"b":{"Action":"ADD","Value":{"NS":["1"]}}}`, `{"a":{"SS":["a","b"]},"b":{"NS":["1"]}}`},
		{`{"a":{"L":[{"N":"1"}]}}`, `{"a":{"Action":"ADD","Value":{"L":[{"N":"2"}]}},"b":{"Action":"ADD","Value":{"L":[]}}}`, `{"a":{"L":[{"N":"1"},{"N":"2"}]},"b":{"L":[]}}`},
		{`{"a":{"N":"1"},"b":{"N":"1"}}`, `{"a":{"Action":"DELETE"},"x":{"Action":"DELETE"}}`, `{"b":{"N":"1"}}`},
		{`{"a":{"SS":["a","b"]}}`, `{"a":{"Action":"DELETE","Value":{"SS":["b","z"]}},"x":{"Action":"DELETE","Value":{"NS":["1"]}}}`, `{"a":{"SS":["a"]}}`},
		{`{"a":{"SS":["b"]},"c":{"N":"1"}}`, `{"a":{"Action":"DELETE","Value":{"SS":["b"]}}}`, `{"c":{"N":"1"}}`},
		{`{"a":{"M":{"b":{"N":"1"}}}}`, `{"a.b":{"Action":"PUT","Value":{"N":"2"}}}`, `{"a":{"M":{"b":{"N":"1"}}},"a.b":{"N":"2"}}`},
		{`{"a":{"N":"1"}}`, `{}`, `{"a":{"N":"1"}}`},
		{``, `{"a":{"Value":{"N":"1"}}}`, `{"a":{"N":"1"},"k":{"S":"key"}}`},
		{``, `{"a":{"Action":"ADD","Value":{"L":[]}},"b":{"Action":"DELETE"}}`, `{"a":{"L":[]},"k":{"S":"key"}}`},
		{``, `{}`, `{"k":{"S":"key"}}`},
		{``, `{"a":{"Action":"DELETE"}}`, ``},
		{``, `{"a":{"Action":"DELETE","Value":{"SS":["a"]}}}`, ``},
	} {
		u := parse(t, OpUpdate, `{"AttributeUpdates":`+c.updates+`}`).Update
		after, err := apply(t, u, c.old)
		require.NoError(t, err, c.updates)
		assert.Equal(t, c.want, text(after), "%s on %s", c.updates, c.old)
	}
	for _, c := range []struct{ old, updates string }{
		{`{"a":{"S":"x"}}`, `{"a":{"Action":"ADD","Value":{"N":"1"}}}`},
		{`{"a":{"NS":["1"]}}`, `{"a":{"Action":"ADD","Value":{"SS":["1"]}}}`},
		{`{"a":{"N":"1"}}`, `{"a":{"Action":"ADD","Value":{"L":[]}}}`},
		{`{"a":{"NS":["1"]}}`, `{"a":{"Action":"DELETE","Value":{"SS":["1"]}}}`},
	} {
		u := parse(t, OpUpdate, `{"AttributeUpdates":`+c.updates+`}`).Update
		_, err := apply(t, u, c.old)
		assert.Equal(t, "Type mismatch for attribute to update", validation(t, err), c.updates)
	}
	const invalid = "One or more parameter values were invalid: "
	for entry, want := range map[string]string{
		`{}`:                                    invalid + "Only DELETE action is allowed when no attribute value is specified",
		`{"Action":"PUT"}`:                      invalid + "Only DELETE action is allowed when no attribute value is specified",
		`{"Action":"ADD"}`:                      invalid + "Only DELETE action is allowed when no attribute value is specified",
		`{"Action":"DELETE","Value":{"S":"x"}}`: invalid + "DELETE action with value is not supported for the type S",
		`{"Action":"DELETE","Value":{"N":"1"}}`: invalid + "DELETE action with value is not supported for the type N",
		`{"Action":"ADD","Value":{"S":"x"}}`:    invalid + "ADD action is not supported for the type S",
		`{"Action":"ADD","Value":{"B":"AA=="}}`: invalid + "ADD action is not supported for the type B",
		`{"Action":"ADD","Value":{"M":{}}}`:     invalid + "ADD action is not supported for the type M",
		`{"Action":"PUT","Value":{"SS":[]}}`:    invalid + "An string set  may not be empty",
		`{"Action":"SET","Value":{"S":"x"}}`:    "Member must satisfy enum value set: [ADD, DELETE, PUT]",
	} {
		assert.Equal(t, want, refusal(t, OpUpdate, `{"AttributeUpdates":{"a":`+entry+`}}`), entry)
	}
	assert.Equal(t, "Empty attribute name", refusal(t, OpUpdate, `{"AttributeUpdates":{"":{"Action":"DELETE"}}}`))
}

func TestNoUpdate(t *testing.T) {
	var u *Update
	after, err := apply(t, u, "")
	require.NoError(t, err)
	assert.Equal(t, `{"k":{"S":"key"}}`, text(after), "an update of nothing creates the item")
	after, err = apply(t, u, `{"a":{"N":"1"}}`)
	require.NoError(t, err)
	assert.Equal(t, `{"a":{"N":"1"}}`, text(after))
	assert.NoError(t, u.CheckKeys("k"))
	assert.Nil(t, u.Part(after))
	assert.Empty(t, u.String())
	_, _, ok := u.Assigned("a")
	assert.False(t, ok)
}

// aws-dynamodb#15
func TestCheckKeys(t *testing.T) {
	for _, text := range []string{
		expression(t, "SET leaseKey = :s"),
		expression(t, "SET x = :one, leaseKey.a = :s"),
		expression(t, "REMOVE leaseKey"),
		expression(t, "ADD leaseKey :one"),
		expression(t, "DELETE leaseKey :ss"),
		`{"AttributeUpdates":{"leaseKey":{"Value":{"S":"s1"}}}}`,
		`{"AttributeUpdates":{"leaseKey":{"Action":"DELETE"},"x":{"Action":"DELETE"}}}`,
	} {
		u := parse(t, OpUpdate, text).Update
		assert.Equal(t, "One or more parameter values were invalid: Cannot update attribute leaseKey. This attribute is part of the key",
			validation(t, u.CheckKeys("other", "leaseKey")), text)
		assert.NoError(t, u.CheckKeys("other"), text)
	}
	assert.NoError(t, parse(t, OpUpdate, expression(t, "SET x = leaseKey")).Update.CheckKeys("leaseKey"))
}

func TestAssigned(t *testing.T) {
	u := parse(t, OpUpdate, expression(t, "SET a = :s, b = a, c = :one + :one, d.e = :s REMOVE f ADD g :one DELETE h :ss")).Update
	for name, want := range map[string]struct {
		v           attr.Value
		literal, ok bool
	}{
		"a": {attr.String("x"), true, true},
		"b": {ok: true},
		"c": {ok: true},
		"d": {},
		"f": {},
		"g": {ok: true},
		"h": {},
		"z": {},
	} {
		v, literal, ok := u.Assigned(name)
		assert.Equal(t, want.v, v, name)
		assert.Equal(t, want.literal, literal, name)
		assert.Equal(t, want.ok, ok, name)
	}
	u = parse(t, OpUpdate, `{"AttributeUpdates":{"a":{"Value":{"N":"1"}},"b":{"Action":"DELETE"}}}`).Update
	v, literal, ok := u.Assigned("a")
	assert.Equal(t, attr.Int(1), v)
	assert.True(t, literal && ok)
	_, _, ok = u.Assigned("b")
	assert.False(t, ok)
}

// UPDATED_OLD and UPDATED_NEW. aws-dynamodb#16
func TestPart(t *testing.T) {
	const doc = `{"a":{"M":{"b":{"S":"dog"},"c":{"L":[{"N":"1"},{"N":"2"},{"N":"3"}]}}},"d":{"S":"cat"}}`
	for _, c := range []struct{ old, update, updatedOld, updatedNew string }{
		{doc, "SET d = :s, n = :t", `{"d":{"S":"cat"}}`, `{"d":{"S":"x"},"n":{"S":"y"}}`},
		{`{"d":{"S":"x"}}`, "SET d = :s", `{"d":{"S":"x"}}`, `{"d":{"S":"x"}}`}, // unchanged
		{doc, "REMOVE d", `{"d":{"S":"cat"}}`, ``},
		{doc, "REMOVE d SET n = :s", `{"d":{"S":"cat"}}`, `{"n":{"S":"x"}}`},
		{doc, "REMOVE x", ``, ``},
		{doc, "SET n = :s", ``, `{"n":{"S":"x"}}`},
		{doc, "ADD n :one", ``, `{"n":{"N":"1"}}`},
		{``, "SET n = :s", ``, `{"n":{"S":"x"}}`}, // created: no key among them
		{``, "REMOVE n", ``, ``},
		{doc, "SET a.b = :s", `{"a":{"M":{"b":{"S":"dog"}}}}`, `{"a":{"M":{"b":{"S":"x"}}}}`},
		{doc, "SET a.c[1] = :s, a.b = :t", `{"a":{"M":{"b":{"S":"dog"},"c":{"L":[{"N":"2"}]}}}}`, `{"a":{"M":{"b":{"S":"y"},"c":{"L":[{"S":"x"}]}}}}`},
		{doc, "SET a.x = :s", ``, `{"a":{"M":{"x":{"S":"x"}}}}`},
		{doc, "REMOVE a.c[1], a.c[3]", `{"a":{"M":{"c":{"L":[{"N":"2"}]}}}}`, `{"a":{"M":{"c":{"L":[{"N":"3"}]}}}}`}, // the next one moved up
		{doc, "SET a.c[100] = :s", ``, ``}, // appended at 3, not at 100
		{`{"a":{"SS":["a"]}}`, "DELETE a :ss", `{"a":{"SS":["a"]}}`, ``},
	} {
		u := parse(t, OpUpdate, expression(t, c.update)).Update
		after, err := apply(t, u, c.old)
		require.NoError(t, err)
		assert.Equal(t, c.updatedOld, text(u.Part(item(t, c.old))), "%s: old", c.update)
		assert.Equal(t, c.updatedNew, text(u.Part(after)), "%s: new", c.update)
	}
	u := parse(t, OpUpdate, `{"AttributeUpdates":{}}`).Update
	assert.Nil(t, u.Part(item(t, doc)))
}
