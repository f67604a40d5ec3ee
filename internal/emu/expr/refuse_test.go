package expr

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// aws-dynamodb#8
func TestReservedWords(t *testing.T) {
	assert.Len(t, reserved, 573)
	for word := range reserved {
		assert.Equal(t, strings.ToUpper(word), word)
		assert.True(t, isReserved(word))
		assert.True(t, isReserved(strings.ToLower(word)))
	}
	for _, name := range []string{"leaseOwner", "leaseKey", "streamName", "entityType", "cv", "ownerName", "mts", "h", "LOCALTIMESTAMPS", "a_very_long_name_indeed"} {
		assert.False(t, isReserved(name), name)
	}
	for _, name := range []string{"OWNER", "status", "Data", "COUNTER", "KEY", "TTL", "name", "STATE", "VALUE", "SIZE", "COUNT", "region"} {
		assert.Equal(t, "Invalid UpdateExpression: Attribute name is a reserved keyword; reserved keyword: "+name,
			refusal(t, OpUpdate, fmt.Sprintf(`{"UpdateExpression":"SET x.%s = :v","ExpressionAttributeValues":{":v":{"N":"1"}}}`, name)))
		assert.Equal(t, "Invalid ProjectionExpression: Attribute name is a reserved keyword; reserved keyword: "+name,
			refusal(t, OpGet, fmt.Sprintf(`{"ProjectionExpression":"a, %s"}`, name)))
		assert.Equal(t, "Invalid ConditionExpression: Attribute name is a reserved keyword; reserved keyword: "+name,
			refusal(t, OpPut, fmt.Sprintf(`{"ConditionExpression":"attribute_exists(%s)"}`, name)))
	}
	for word := range reserved { // each of them, bare
		assert.Contains(t, refusal(t, OpUpdate, fmt.Sprintf(`{"UpdateExpression":"REMOVE %s"}`, word)), "Invalid UpdateExpression: ")
	}
}

// What is wrong with a condition shows from the request alone. aws-dynamodb#8,10
func TestConditionsRefused(t *testing.T) {
	const invalid = "Invalid ConditionExpression: "
	for src, want := range map[string]string{
		"":                               "The expression can not be empty;",
		" ":                              `Syntax error; token: "<EOF>", near: " "`,
		"a":                              `Syntax error; token: "<EOF>", near: "a"`,
		":n5":                            `Syntax error; token: "<EOF>", near: ":n5"`,
		"a AND b = c":                    `Syntax error; token: "AND", near: "a AND b"`,
		"a = ":                           `Syntax error; token: "<EOF>", near: "= "`,
		"a == b":                         `Syntax error; token: "=", near: "== b"`,
		"a != b":                         `Syntax error; token: "!", near: "a !="`,
		"a = b c":                        `Syntax error; token: "c", near: "b c"`,
		"a = b)":                         `Syntax error; token: ")", near: "b)"`,
		"(a = b":                         `Syntax error; token: "<EOF>", near: "b"`,
		"a = (b = c)":                    `Syntax error; token: "<EOF>", near: ")"`,
		"a IN ()":                        `Syntax error; token: ")", near: "()"`,
		"a IN :l":                        `Syntax error; token: ":l", near: "IN :l"`,
		"a BETWEEN b":                    `Syntax error; token: "<EOF>", near: "b"`,
		"a BETWEEN b OR c":               `Syntax error; token: "OR", near: "b OR c"`,
		"NOT":                            `Syntax error; token: "<EOF>", near: "NOT"`,
		"NOT a":                          `Syntax error; token: "<EOF>", near: "a"`,
		"_a = b":                         `Syntax error; token: "_", near: "_a"`,
		"1a = b":                         `Syntax error; token: "1", near: "1a"`,
		"a[x] = b":                       `Syntax error; token: "x", near: "[x]"`,
		"a[#x] = b":                      `Syntax error; token: "#x", near: "[#x]"`,
		"a[:n5] = b":                     `Syntax error; token: ":n5", near: "[:n5]"`,
		"a[-1] = b":                      `Syntax error; token: "-", near: "[-1"`,
		"a.1 = b":                        `Syntax error; token: "1", near: ".1 ="`,
		"a. = b":                         `Syntax error; token: "=", near: ". = b"`,
		"a[99999999999] = b":             "List index is not within the allowable range; index: [99999999999]",
		"attribute_exists()":             `Syntax error; token: ")", near: "()"`,
		"# = b":                          `Syntax error; token: "#", near: "# ="`,
		"a = 5":                          `Syntax error; token: "5", near: "= 5"`,
		"a = \"b\"":                      `Syntax error; token: """, near: "= "b"`,
		"((a = b))":                      "The expression has redundant parentheses;",
		"(((a)) = b)":                    "The expression has redundant parentheses;",
		"a = b AND ((c = d))":            "The expression has redundant parentheses;",
		"((attribute_exists(a)))":        "The expression has redundant parentheses;",
		"#x = a":                         "An expression attribute name used in the document path is not defined; attribute name: #x",
		"a = :x":                         "An expression attribute value used in expression is not defined; attribute value: :x",
		"a = b OR #x = :x":               "An expression attribute name used in the document path is not defined; attribute name: #x",
		"a = a":                          "The first operand must be distinct from the remaining operands for this operator or function; operator: =, first operand: [a]",
		"a.b[2] < a.b[2]":                "The first operand must be distinct from the remaining operands for this operator or function; operator: <, first operand: [a, b, [2]]",
		"contains(a, a)":                 "The first operand must be distinct from the remaining operands for this operator or function; operator: contains, first operand: [a]",
		"a IN (b, a)":                    "The first operand must be distinct from the remaining operands for this operator or function; operator: IN, first operand: [a]",
		"size(a)":                        "The function is not allowed to be used this way in an expression; function: size",
		"a = b AND size(c)":              "The function is not allowed to be used this way in an expression; function: size",
		"NOT size(c)":                    "The function is not allowed to be used this way in an expression; function: size",
		"attribute_exists(a) = :bool":    "The function is not allowed to be used this way in an expression; function: attribute_exists",
		"begins_with(a, contains(b, c))": "The function is not allowed to be used this way in an expression; function: contains",
		"if_not_exists(a, b) = :n5":      "The function is not allowed to be used this way in an expression; function: if_not_exists",
		"list_append(a, b) = :l":         "The function is not allowed to be used this way in an expression; function: list_append",
		"dog(a) = :n5":                   "Invalid function name; function: dog",
		"SIZE(a) = :n5":                  "Invalid function name; function: SIZE",
		"Contains(a, b)":                 "Invalid function name; function: Contains",
		"size(a, b) = :n5":               "Incorrect number of operands for operator or function; operator or function: size, number of operands: 2",
		"contains(a)":                    "Incorrect number of operands for operator or function; operator or function: contains, number of operands: 1",
		"attribute_exists(:n5)":          "Operator or function requires a document path; operator or function: attribute_exists",
		"attribute_not_exists(size(a))":  "Operator or function requires a document path; operator or function: attribute_not_exists",
		"a < :ss":                        "Incorrect operand type for operator or function; operator or function: <, operand type: SS",
		":bool >= a":                     "Incorrect operand type for operator or function; operator or function: >=, operand type: BOOL",
		"size(a) > :null":                "Incorrect operand type for operator or function; operator or function: >, operand type: NULL",
		"a BETWEEN :l AND b":             "Incorrect operand type for operator or function; operator or function: BETWEEN, operand type: L",
		":m BETWEEN a AND b":             "Incorrect operand type for operator or function; operator or function: BETWEEN, operand type: M",
		"a BETWEEN :n6 AND :n5":          "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; lower bound operand: AttributeValue: {N:6}, upper bound operand: AttributeValue: {N:5}",
		"a BETWEEN :n5 AND :s":           "The BETWEEN operator requires same data type for lower and upper bounds; lower bound operand: AttributeValue: {N:5}, upper bound operand: AttributeValue: {S:s}",
		"begins_with(a, :n5)":            "Incorrect operand type for operator or function; operator or function: begins_with, operand type: N",
		"begins_with(a, :bool)":          "Incorrect operand type for operator or function; operator or function: begins_with, operand type: BOOL",
		"begins_with(:n5, a)":            "Incorrect operand type for operator or function; operator or function: begins_with, operand type: N",
		"attribute_type(a, :s)":          "Invalid attribute type name found; type: s, valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}",
		"attribute_type(a, :n5)":         "Incorrect operand type for operator or function; operator or function: attribute_type, operand type: N",
		"attribute_type(a, b)":           "Incorrect operand type for operator or function; operator or function: attribute_type, operand type: {NS,SS,L,BS,N,M,B,BOOL,NULL,S}",
		"size(:n5) = a":                  "Incorrect operand type for operator or function; operator or function: size, operand type: N",
		"size(:bool) = a":                "Incorrect operand type for operator or function; operator or function: size, operand type: BOOL",
		// What AND and OR would skip is checked too, the weightiest mistake told.
		"attribute_exists(a) OR begins_with(b, :n5)": "Incorrect operand type for operator or function; operator or function: begins_with, operand type: N",
		"a < :ss OR ((b = :x))":                      "The expression has redundant parentheses;",
		"a < :ss OR size(b)":                         "The function is not allowed to be used this way in an expression; function: size",
		"a < :ss OR b = status":                      "Attribute name is a reserved keyword; reserved keyword: status",
		"a < :ss OR b = :x":                          "Incorrect operand type for operator or function; operator or function: <, operand type: SS",
		"a = :x AND b <":                             `Syntax error; token: "<EOF>", near: "<"`,
	} {
		assert.Equal(t, invalid+want, refusal(t, OpPut, conditionRequest(t, src)), src)
	}
}

func TestLimitsOfExpressions(t *testing.T) {
	condition := func(src string) string { return fmt.Sprintf(`{"ConditionExpression":%q}`, src) }
	long := func(n int) string {
		const src = "attribute_exists(#)"
		return strings.Replace(src, "#", strings.Repeat("x", n-len(src)+1), 1)
	}
	parse(t, OpPut, condition(long(4096)))
	assert.Equal(t, "Invalid ConditionExpression: Expression size has exceeded the maximum allowed size; expression size: 4097",
		refusal(t, OpPut, condition(long(4097))))

	many := func(n int) string { return strings.Repeat("a<b or ", n-1) + "a<b" }
	parse(t, OpPut, condition(many(300)))
	assert.Equal(t, "Invalid ConditionExpression: The expression contains too many operators; operator count: 301",
		refusal(t, OpPut, condition(many(301))))

	listed := func(n int) string { return "a IN (b" + strings.Repeat(",c", n-1) + ")" }
	parse(t, OpPut, condition(listed(99)))
	assert.Equal(t, "Invalid ConditionExpression: The IN operator is provided with too many operands; number of operands: 101",
		refusal(t, OpPut, condition(listed(100))))

	deep := strings.Repeat("NOT (", 300) + "a = b" + strings.Repeat(")", 300)
	parse(t, OpPut, condition(deep))

	big := strings.Repeat("x", 2<<20)
	assert.Equal(t, "Combined size of ExpressionAttributeNames and ExpressionAttributeValues exceeds max size",
		refusal(t, OpPut, fmt.Sprintf(`{"ConditionExpression":"a = :v","ExpressionAttributeValues":{":v":{"S":%q}}}`, big)))
}

// Placeholders that are unused, undefined, malformed, or have no expression.
// aws-dynamodb#8
func TestPlaceholders(t *testing.T) {
	const (
		names  = `"ExpressionAttributeNames":`
		values = `"ExpressionAttributeValues":`
	)
	for _, c := range []struct {
		op            Op
		request, want string
	}{
		{OpPut, `{"ConditionExpression":"#a = b",` + names + `{"#a":"x","#b":"y"}}`,
			"Value provided in ExpressionAttributeNames unused in expressions: keys: {#b}"},
		{OpPut, `{"ConditionExpression":"a = :v",` + values + `{":z":{"N":"1"},":v":{"N":"1"},":b":{"N":"1"}}}`,
			"Value provided in ExpressionAttributeValues unused in expressions: keys: {:b, :z}"},
		{OpPut, `{"ConditionExpression":"a = :v",` + names + `{"#n":"x"},` + values + `{":v":{"N":"1"},":b":{"N":"1"}}}`,
			"Value provided in ExpressionAttributeNames unused in expressions: keys: {#n}"},
		{OpPut, `{"ConditionExpression":"#a = b"}`,
			"Invalid ConditionExpression: An expression attribute name used in the document path is not defined; attribute name: #a"},
		{OpPut, `{"ConditionExpression":"#a = b",` + names + `{"#A":"x"}}`,
			"Invalid ConditionExpression: An expression attribute name used in the document path is not defined; attribute name: #a"},
		{OpUpdate, `{"UpdateExpression":"SET a = :v"}`,
			"Invalid UpdateExpression: An expression attribute value used in expression is not defined; attribute value: :v"},
		{OpUpdate, `{"UpdateExpression":"SET a = :v","ConditionExpression":"b = :w",` + values + `{":v":{"N":"1"}}}`,
			"Invalid ConditionExpression: An expression attribute value used in expression is not defined; attribute value: :w"},
		{OpGet, `{"ProjectionExpression":"#a.#b",` + names + `{"#a":"x"}}`,
			"Invalid ProjectionExpression: An expression attribute name used in the document path is not defined; attribute name: #b"},
		{OpPut, `{` + names + `{"#a":"x"}}`, "ExpressionAttributeNames can only be specified when using expressions"},
		{OpPut, `{` + names + `{}}`, "ExpressionAttributeNames can only be specified when using expressions"},
		{OpPut, `{` + values + `{":v":{"N":"1"}}}`,
			"ExpressionAttributeValues can only be specified when using expressions: ConditionExpression is null"},
		{OpUpdate, `{` + values + `{":v":{"N":"1"}}}`,
			"ExpressionAttributeValues can only be specified when using expressions: UpdateExpression and ConditionExpression are null"},
		{OpScan, `{"ProjectionExpression":"a",` + values + `{":v":{"N":"1"}}}`,
			"ExpressionAttributeValues can only be specified when using expressions: FilterExpression is null"},
		{OpQuery, `{"ProjectionExpression":"a",` + values + `{":v":{"N":"1"}}}`,
			"ExpressionAttributeValues can only be specified when using expressions: FilterExpression and KeyConditionExpression are null"},
		{OpPut, `{"ConditionExpression":"a = b",` + names + `{}}`, "ExpressionAttributeNames must not be empty"},
		{OpPut, `{"ConditionExpression":"a = b",` + values + `{}}`, "ExpressionAttributeValues must not be empty"},
		{OpPut, `{"ConditionExpression":"#a = b",` + names + `{"a":"x","#b":"x"}}`, `ExpressionAttributeNames contains invalid key: Syntax error; key: "a"`},
		{OpPut, `{"ConditionExpression":"#a = b",` + names + `{"#":"x"}}`, `ExpressionAttributeNames contains invalid key: Syntax error; key: "#"`},
		{OpPut, `{"ConditionExpression":"#a = b",` + names + `{"#a-b":"x"}}`, `ExpressionAttributeNames contains invalid key: Syntax error; key: "#a-b"`},
		{OpPut, `{"ConditionExpression":"#a = b",` + names + `{"#a":""}}`, "ExpressionAttributeNames contains invalid value: Empty attribute name for key #a"},
		{OpPut, `{"ConditionExpression":"a = :v",` + values + `{"v":{"N":"1"}}}`, `ExpressionAttributeValues contains invalid key: Syntax error; key: "v"`},
		{OpPut, `{"ConditionExpression":"a = :v",` + values + `{"":{"N":"1"}}}`, `ExpressionAttributeValues contains invalid key: Syntax error; key: ""`},
		{OpPut, `{"ConditionExpression":"a = :v",` + values + `{":w":{"N":"dog"},":v":{"SS":[]}}}`,
			"ExpressionAttributeValues contains invalid value: One or more parameter values were invalid: An string set  may not be empty for key :v"},
		{OpUpdate, `{"UpdateExpression":""}`, "Invalid UpdateExpression: The expression can not be empty;"},
		{OpGet, `{"ProjectionExpression":""}`, "Invalid ProjectionExpression: The expression can not be empty;"},
		{OpQuery, `{"KeyConditionExpression":""}`, "Invalid KeyConditionExpression: The expression can not be empty;"},
		{OpScan, `{"FilterExpression":""}`, "Invalid FilterExpression: The expression can not be empty;"},
	} {
		assert.Equal(t, c.want, refusal(t, c.op, c.request), c.request)
	}
	// One placeholder serves several expressions, and a get has no values to give.
	parse(t, OpUpdate, `{"UpdateExpression":"SET #a = :v","ConditionExpression":"#a <> :v OR a IN (:v)",`+names+`{"#a":"x"},`+values+`{":v":{"N":"1"}}}`)
	parse(t, OpGet, `{"ProjectionExpression":"a",`+values+`{":v":{"N":"1"}}}`)
}

// aws-dynamodb#9
func TestMixedForms(t *testing.T) {
	const (
		entry    = `{"a":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"x"}]}}`
		values   = `"ExpressionAttributeValues":{":v":{"S":"x"}}`
		updates  = `"AttributeUpdates":{"a":{"Value":{"S":"v"}}}`
		update   = `"UpdateExpression":"SET a = :v"`
		cond     = `"ConditionExpression":"a = :v"`
		filter   = `"FilterExpression":"a = :v"`
		key      = `"KeyConditionExpression":"a = :v"`
		project  = `"ProjectionExpression":"b"`
		expected = `"Expected":` + entry
		operator = `"ConditionalOperator":"AND"`
	)
	for _, c := range []struct {
		op                 Op
		members            []string
		older, expressions string
	}{
		{OpUpdate, []string{update, values, expected}, "Expected", "UpdateExpression"},
		{OpUpdate, []string{cond, values, updates}, "AttributeUpdates", "ConditionExpression"},
		{OpUpdate, []string{cond, values, `"AttributeUpdates":{}`}, "AttributeUpdates", "ConditionExpression"},
		{OpUpdate, []string{update, values, expected, updates}, "AttributeUpdates, Expected", "UpdateExpression"},
		{OpUpdate, []string{update, cond, values, expected, updates, operator}, "AttributeUpdates, Expected, ConditionalOperator", "UpdateExpression, ConditionExpression"},
		{OpPut, []string{cond, values, expected, operator}, "Expected, ConditionalOperator", "ConditionExpression"},
		{OpDelete, []string{cond, values, `"Expected":{}`}, "Expected", "ConditionExpression"},
		{OpScan, []string{filter, values, `"ScanFilter":` + entry}, "ScanFilter", "FilterExpression"},
		{OpScan, []string{filter, project, values, `"ScanFilter":` + entry, `"AttributesToGet":["a"]`, operator}, "AttributesToGet, ScanFilter, ConditionalOperator", "ProjectionExpression, FilterExpression"},
		{OpScan, []string{project, `"ScanFilter":` + entry}, "ScanFilter", "ProjectionExpression"},
		{OpQuery, []string{key, filter, project, values, `"KeyConditions":` + entry, `"QueryFilter":` + entry, operator}, "QueryFilter, ConditionalOperator, KeyConditions", "ProjectionExpression, FilterExpression, KeyConditionExpression"},
		{OpQuery, []string{filter, values, `"QueryFilter":` + entry, `"KeyConditions":` + entry}, "QueryFilter", "FilterExpression"},
		{OpGet, []string{project, `"AttributesToGet":["a"]`}, "AttributesToGet", "ProjectionExpression"},
		// The forms are held against each other before anything in them.
		{OpScan, []string{`"FilterExpression":"a ="`, `"ScanFilter":{"a":{}}`}, "ScanFilter", "FilterExpression"},
	} {
		text := "{" + strings.Join(c.members, ",") + "}"
		want := fmt.Sprintf("Can not use both expression and non-expression parameters in the same request: Non-expression parameters: {%s} Expression parameters: {%s}", c.older, c.expressions)
		assert.Equal(t, want, validation(t, request(t, text).CheckForms(c.op)), text)
		assert.Equal(t, want, refusal(t, c.op, text), text)
	}
	for _, c := range []struct {
		op      Op
		members []string
	}{
		{OpQuery, []string{filter, project, values, `"KeyConditions":` + entry}}, // these may go together
		{OpUpdate, []string{updates, expected, `"ReturnValues":"ALL_OLD"`}},
		{OpUpdate, []string{updates, expected, `"ReturnValuesOnConditionCheckFailure":"ALL_OLD"`}},
		{OpTransactUpdate, []string{update, values, expected, updates}}, // unknown members are no mixing
		{OpPut, []string{cond, values, updates, `"AttributesToGet":["a"]`, filter}},
	} {
		parse(t, c.op, "{"+strings.Join(c.members, ",")+"}")
	}
}

// The older forms' operands are checked from the request alone. aws-dynamodb#47
func TestOlderConditionsRefused(t *testing.T) {
	const invalid = "One or more parameter values were invalid: "
	count := func(op string) string {
		return invalid + "Invalid number of argument(s) for the " + op + " ComparisonOperator"
	}
	type_ := func(op, kind string) string {
		return invalid + "ComparisonOperator " + op + " is not valid for " + kind + " AttributeValue type"
	}
	const sameType = invalid + "AttributeValues inside AttributeValueList must be of same type"
	one, two := `{"S":"a"}`, `{"S":"a"},{"S":"b"}`
	type row struct{ operator, operands, want string }
	rows := []row{
		{"IN", ``, count("IN")},
		{"BETWEEN", ``, count("BETWEEN")},
		{"BETWEEN", one, count("BETWEEN")},
		{"BETWEEN", two + "," + one, count("BETWEEN")},
		{"NULL", one, count("NULL")},
		{"NOT_NULL", one, count("NOT_NULL")},
		{"IN", `{"N":"3"},{"S":"dog"}`, sameType},
		{"BETWEEN", `{"N":"4"},{"S":"dog"}`, sameType},
		{"IN", `{"L":[]},{"L":[]}`, type_("IN", "L")},
		{"BETWEEN", `{"NS":["1"]},{"NS":["2"]}`, type_("BETWEEN", "NS")},
		{"BETWEEN", `{"N":"4"},{"N":"3"}`, "The BETWEEN condition was provided a range where the lower bound is greater than the upper bound"},
		{"BETWEEN", `{"S":"dog"},{"S":"ant"}`, "The BETWEEN condition was provided a range where the lower bound is greater than the upper bound"},
		{"BEGINS_WITH", `{"N":"3"}`, type_("BEGINS_WITH", "N")},
		{"BEGINS_WITH", `{"SS":["a"]}`, type_("BEGINS_WITH", "SS")},
		{"EQ", `{"N":"dog"}`, "The parameter cannot be converted to a numeric value: dog"},
		{"LIKE", one, "Comparison type does not exist in DynamoDB: LIKE"},
	}
	for _, op := range []string{"EQ", "NE", "LT", "LE", "GT", "GE", "CONTAINS", "NOT_CONTAINS", "BEGINS_WITH"} {
		rows = append(rows, row{op, ``, count(op)}, row{op, two, count(op)})
	}
	for _, op := range []string{"LT", "LE", "GT", "GE", "CONTAINS", "NOT_CONTAINS"} {
		rows = append(rows, row{op, `{"L":[]}`, type_(op, "L")}, row{op, `{"BOOL":true}`, type_(op, "BOOL")}, row{op, `{"NS":["1"]}`, type_(op, "NS")})
	}
	for _, r := range rows {
		entry := fmt.Sprintf(`{"a":{"ComparisonOperator":%q,"AttributeValueList":[%s]}}`, r.operator, r.operands)
		assert.Equal(t, r.want, refusal(t, OpPut, `{"Expected":`+entry+`}`), entry)
		assert.Equal(t, r.want, refusal(t, OpScan, `{"ScanFilter":`+entry+`}`), entry)
		assert.Equal(t, r.want, refusal(t, OpQuery, `{"KeyConditions":`+entry+`}`), entry)
	}

	for entry, want := range map[string]string{
		`{}`:                                 "Value must be provided when Exists is null for Attribute: a",
		`{"Exists":true}`:                    "Value must be provided when Exists is true for Attribute: a",
		`{"Exists":false,"Value":{"N":"1"}}`: "Value cannot be used when Exists is false for Attribute: a",
		`{"Exists":false,"ComparisonOperator":"EQ","AttributeValueList":[{"N":"1"}]}`:    "Exists and ComparisonOperator cannot be used together for Attribute: a",
		`{"Exists":true,"ComparisonOperator":"NULL"}`:                                    "Exists and ComparisonOperator cannot be used together for Attribute: a",
		`{"Value":{"N":"1"},"ComparisonOperator":"EQ","AttributeValueList":[{"N":"1"}]}`: "Value and AttributeValueList cannot be used together for Attribute: a",
		`{"Value":{"N":"1"},"AttributeValueList":[{"N":"1"}]}`:                           "Value and AttributeValueList cannot be used together for Attribute: a",
		`{"ComparisonOperator":"EQ"}`:                                                    "Value or AttributeValueList must be used with ComparisonOperator: EQ for Attribute: a",
		`{"AttributeValueList":[{"N":"1"}]}`:                                             "AttributeValueList can only be used with a ComparisonOperator for Attribute: a",
	} {
		assert.Equal(t, invalid+want, refusal(t, OpPut, `{"Expected":{"a":`+entry+`}}`), entry)
	}
	assert.Equal(t, count("BETWEEN"), refusal(t, OpPut, `{"Expected":{"a":{"ComparisonOperator":"BETWEEN","Value":{"N":"1"}}}}`))
	assert.Equal(t, "The filter condition for an attribute cannot be null: a", refusal(t, OpScan, `{"ScanFilter":{"a":{}}}`))

	const (
		without = "ConditionalOperator cannot be used without Filter or Expected"
		alone   = "ConditionalOperator can only be used when Filter or Expected has two or more elements"
	)
	for _, c := range []struct {
		op            Op
		request, want string
	}{
		{OpPut, `{"ConditionalOperator":"AND"}`, without},
		{OpPut, `{"ConditionalOperator":"AND","Expected":{}}`, without},
		{OpDelete, `{"ConditionalOperator":"OR","Expected":{}}`, without},
		{OpUpdate, `{"ConditionalOperator":"OR","AttributeUpdates":{"a":{"Action":"DELETE"}}}`, without},
		{OpScan, `{"ConditionalOperator":"OR","ScanFilter":{}}`, without},
		{OpQuery, `{"ConditionalOperator":"OR","KeyConditions":{"a":{"ComparisonOperator":"NULL"}}}`, without},
		{OpPut, `{"ConditionalOperator":"AND","Expected":{"a":{"Exists":false}}}`, alone},
	} {
		assert.Equal(t, c.want, refusal(t, c.op, c.request), c.request)
	}
}
