package conformance

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

var conditionCases = []kase{
	{name: "dynamodb/conditions/expression", run: conditionExpressions},
	{name: "dynamodb/conditions/expression on an absent item", run: conditionsOfNothing},
	{name: "dynamodb/conditions/older form", run: olderConditions},
	{name: "dynamodb/conditions/older form refused", run: olderConditionsRefused},
	{name: "dynamodb/conditions/refused expressions", run: expressionsRefused},
}

// sample is what conditions and updates are tried on; pool are their operands.
func sample() item {
	return item{
		"leaseKey": str("s1"), "leaseOwner": str("A"), "leaseCounter": num("7"), "checkpoint": str("shardId-01"), "payload": bin(1, 2, 3),
		"tags": strs("x", "y"), "sizes": nums("1", "2.5"), "children": list(str("x"), num("1")), "tree": tree(item{"leaf": str("L"), "status": num("1")}),
		"flag": truth(true), "nothing": null(),
	}
}

func pool() item {
	return item{
		":A": str("A"), ":B": str("B"), ":s1": str("s1"), ":x": str("x"), ":z": str("z"), ":shard": str("shard"), ":text": str("shardId-01"),
		":n0": num("0"), ":n1": num("1"), ":n2": num("2"), ":n6": num("6"), ":n7": num("7"), ":n7decimal": num("7.0"), ":n07": num("07"), ":n8": num("8"), ":n10": num("10"), ":n70": num("70"),
		":tags": strs("y", "x"), ":tagZ": strs("z"), ":tagX": strs("x"), ":sizes": nums("2.50", "1"), ":items": list(str("x"), num("1.0")), ":list": list(str("n")), ":empty": list(), ":yes": truth(true), ":no": truth(false), ":null": null(),
		":tree": tree(item{"status": num("1"), "leaf": str("L")}), ":S": str("S"), ":N": str("N"), ":SS": str("SS"), ":data": bin(1, 2, 3), ":data1": bin(1), ":Q": str("Q"),
	}
}

// conditionExpressions: does the condition hold for the sample?
func conditionExpressions(t *T) {
	tb := t.create(t.leases())
	t.put(tb, sample())
	rows := map[string]bool{
		"leaseOwner = :A": true, "leaseOwner = :B": false, "absent = :A": false, "leaseOwner = :n7": false, "absent = gone": false,
		"leaseOwner <> :A": false, "leaseOwner <> :B": true, "absent <> :A": true, "leaseOwner <> :n7": true, "absent <> gone": true,
		"leaseCounter = :n7": true, "leaseCounter = :n7decimal": true, "leaseCounter = :n07": true, "leaseCounter = :n70": false,
		"leaseCounter < :n8": true, "leaseCounter < :n7": false, "leaseCounter <= :n7": true, "leaseCounter > :n6": true, "leaseCounter >= :n8": false,
		"leaseCounter < :n10": true, "checkpoint < :n10": false, "absent < :n10": false, "leaseOwner < :B": true, "payload > :data1": true,
		":n6 < leaseCounter": true, "checkpoint = recoveryKey": false, "leaseOwner = leaseKey": false, "leaseKey = :s1": true,
		"leaseCounter BETWEEN :n6 AND :n8": true, "leaseCounter BETWEEN :n8 AND :n10": false, "absent BETWEEN :n6 AND :n8": false, "checkpoint BETWEEN :n6 AND :n8": false,
		"leaseOwner IN (:B, :A)": true, "leaseOwner IN (:B, :n7)": false, "absent IN (:A)": false,
		"attribute_exists(leaseOwner)": true, "attribute_exists(absent)": false, "attribute_exists(nothing)": true, "attribute_exists(tree.leaf)": true, "attribute_exists(children[2])": false,
		"attribute_not_exists(leaseOwner)": false, "attribute_not_exists(absent)": true, "attribute_not_exists(tree.absent)": true, "attribute_not_exists(leaseOwner.deeper)": true,
		"attribute_type(leaseCounter, :N)": true, "attribute_type(leaseCounter, :S)": false, "attribute_type(tags, :SS)": true, "attribute_type(absent, :S)": false,
		"begins_with(checkpoint, :shard)": true, "begins_with(checkpoint, :x)": false, "begins_with(absent, :x)": false, "begins_with(leaseCounter, :shard)": false, "begins_with(payload, :data1)": true,
		"contains(checkpoint, :shard)": true, "contains(tags, :x)": true, "contains(tags, :z)": false, "contains(children, :x)": true, "contains(children, :n1)": true, "contains(absent, :x)": false, "contains(tree, :x)": false, "contains(leaseCounter, :n7)": false,
		"size(checkpoint) = :n10": true, "size(tags) = :n2": true, "size(children) > :n1": true, "size(tree) = :n2": true, "size(payload) < :n2": false, "size(absent) > :n0": false, ":n1 < size(tags)": true, "size(leaseCounter) > :n0": false,
		"tags = :tags": true, "sizes = :sizes": true, "children = :items": true, "tree = :tree": true, "flag = :yes": true, "flag = :no": false, "nothing = :null": true, "payload = :data": true,
		"tree.leaf = :A": false, "tree.#status = :n1": true, "children[0] = :x": true, "children[1] = :n1": true, "children[9] = :n1": false,
		"NOT leaseOwner = :A": false, "NOT absent = :A": true, "NOT attribute_exists(absent)": true,
		"leaseOwner = :B OR leaseCounter = :n7": true, "leaseOwner = :A AND leaseCounter = :n8": false, "NOT leaseOwner = :B AND leaseCounter = :n7": true,
		"leaseOwner = :A OR leaseOwner = :B AND leaseCounter = :n8":   true,
		"(leaseOwner = :A OR leaseOwner = :B) AND leaseCounter = :n8": false,
		"NOT (leaseOwner = :A AND leaseCounter = :n8)":                true,
		"Attribute_Exists2 <> :A and leaseOwner = :A":                 true,
	}
	for expression, holds := range sorted(rows) {
		t.Run(expression, func(t *T) {
			_, err := t.dynamodb.PutItem(t.ctx, &dynamodb.PutItemInput{TableName: tb.name, Item: sample(), ConditionExpression: &expression,
				ExpressionAttributeNames: names(expression), ExpressionAttributeValues: used(pool(), expression)})
			t.holds(holds, err)
		})
	}
}

// holds notes a fault unless a write on condition went as it should.
func (t *T) holds(want bool, err error) {
	if want {
		t.OK(err)
		return
	}
	t.Refused("ConditionalCheckFailedException", err)
}

// An absent item is like one without attributes.
func conditionsOfNothing(t *T) {
	tb := t.create(t.leases())
	rows := map[string]bool{
		"attribute_not_exists(leaseKey)": true, "attribute_exists(leaseKey)": false, "leaseKey = :s1": false,
		"leaseKey <> :s1": true, "NOT leaseOwner = :A": true, "attribute_not_exists(leaseOwner) OR leaseOwner = :A": true,
	}
	for expression, holds := range sorted(rows) {
		values := used(pool(), expression)
		t.Run("delete if "+expression, func(t *T) {
			_, err := t.dynamodb.DeleteItem(t.ctx, &dynamodb.DeleteItemInput{TableName: tb.name, Key: lease("s1"), ConditionExpression: &expression, ExpressionAttributeValues: values})
			t.holds(holds, err)
		})
		t.Run("update if "+expression, func(t *T) {
			_, err := t.update(tb, lease("s1"), "SET leaseCounter = :n1", pool(), condition(expression))
			t.holds(holds, err)
			if !holds {
				t.Equal("none", t.get(tb, lease("s1")))
			}
			t.remove(tb, lease("s1"))
		})
	}
}

// wireItem is an item as JSON.
func (t *T) wireItem(i item) string {
	b, err := attributevalue.MarshalMapJSON(i)
	t.OK(err)
	return string(b)
}

// olderConditions: does Expected hold for the sample?
func olderConditions(t *T) {
	tb := t.create(t.leases())
	t.put(tb, sample())
	op := func(attribute, operator string, operands ...string) string {
		values := ""
		for i, o := range operands {
			if i > 0 {
				values += ","
			}
			values += o
		}
		return fmt.Sprintf(`{%q:{"ComparisonOperator":%q,"AttributeValueList":[%s]}}`, attribute, operator, values)
	}
	rows := map[string]struct {
		expected string
		holds    bool
	}{
		"value":                      {`{"leaseOwner":{"Value":{"S":"A"}}}`, true},
		"other value":                {`{"leaseOwner":{"Value":{"S":"B"}}}`, false},
		"value of absent":            {`{"absent":{"Value":{"S":"B"}}}`, false},
		"value, Exists":              {`{"leaseKey":{"Value":{"S":"s1"},"Exists":true}}`, true},
		"other value, Exists":        {`{"leaseOwner":{"Value":{"S":"B"},"Exists":true}}`, false},
		"number by value":            {`{"leaseCounter":{"Value":{"N":"7.0"}}}`, true},
		"number, leading zero":       {`{"leaseCounter":{"Value":{"N":"07"}}}`, true},
		"not there":                  {`{"absent":{"Exists":false}}`, true},
		"not there, but is":          {`{"leaseOwner":{"Exists":false}}`, false},
		"not there, but null":        {`{"nothing":{"Exists":false}}`, false},
		"nothing expected":           {`{}`, true},
		"dots are part of the name":  {`{"tree.leaf":{"Exists":false}}`, true},
		"both":                       {`{"leaseOwner":{"Value":{"S":"A"}},"leaseCounter":{"Value":{"N":"7"}}}`, true},
		"one of both":                {`{"leaseOwner":{"Value":{"S":"A"}},"leaseCounter":{"Value":{"N":"8"}}}`, false},
		"EQ":                         {op("leaseOwner", "EQ", `{"S":"A"}`), true},
		"EQ set":                     {op("tags", "EQ", `{"SS":["y","x"]}`), true},
		"EQ absent":                  {op("absent", "EQ", `{"S":"A"}`), false},
		"EQ other type":              {op("leaseOwner", "EQ", `{"N":"1"}`), false},
		"EQ with Value":              {`{"leaseOwner":{"ComparisonOperator":"EQ","Value":{"S":"A"}}}`, true},
		"NE":                         {op("leaseOwner", "NE", `{"S":"B"}`), true},
		"NE same":                    {op("leaseOwner", "NE", `{"S":"A"}`), false},
		"NE absent":                  {op("absent", "NE", `{"S":"A"}`), true},
		"NE other type":              {op("leaseOwner", "NE", `{"N":"1"}`), true},
		"NULL absent":                {`{"absent":{"ComparisonOperator":"NULL"}}`, true},
		"NULL, empty list":           {op("absent", "NULL"), true},
		"NULL there":                 {`{"leaseOwner":{"ComparisonOperator":"NULL"}}`, false},
		"NULL of a null":             {`{"nothing":{"ComparisonOperator":"NULL"}}`, false},
		"NOT_NULL there":             {`{"leaseOwner":{"ComparisonOperator":"NOT_NULL"}}`, true},
		"NOT_NULL absent":            {`{"absent":{"ComparisonOperator":"NOT_NULL"}}`, false},
		"LT":                         {op("leaseCounter", "LT", `{"N":"10"}`), true},
		"LT same":                    {op("leaseCounter", "LT", `{"N":"7"}`), false},
		"LE same":                    {op("leaseCounter", "LE", `{"N":"7"}`), true},
		"GT":                         {op("leaseCounter", "GT", `{"N":"6"}`), true},
		"GE same":                    {op("leaseCounter", "GE", `{"N":"7"}`), true},
		"GT of absent":               {op("absent", "GT", `{"N":"6"}`), false},
		"GT of another type":         {op("checkpoint", "GT", `{"N":"6"}`), false},
		"BETWEEN":                    {op("leaseCounter", "BETWEEN", `{"N":"6"}`, `{"N":"8"}`), true},
		"BETWEEN outside":            {op("leaseCounter", "BETWEEN", `{"N":"8"}`, `{"N":"9"}`), false},
		"BETWEEN of another type":    {op("checkpoint", "BETWEEN", `{"N":"6"}`, `{"N":"8"}`), false},
		"IN":                         {op("leaseOwner", "IN", `{"S":"B"}`, `{"S":"A"}`), true},
		"IN none":                    {op("leaseOwner", "IN", `{"S":"B"}`), false},
		"CONTAINS text":              {op("checkpoint", "CONTAINS", `{"S":"Id-"}`), true},
		"CONTAINS member":            {op("tags", "CONTAINS", `{"S":"x"}`), true},
		"CONTAINS absent":            {op("absent", "CONTAINS", `{"S":"x"}`), false},
		"CONTAINS of another type":   {op("leaseCounter", "CONTAINS", `{"S":"x"}`), false},
		"NOT_CONTAINS":               {op("tags", "NOT_CONTAINS", `{"S":"z"}`), true},
		"NOT_CONTAINS member":        {op("tags", "NOT_CONTAINS", `{"S":"x"}`), false},
		"NOT_CONTAINS absent":        {op("absent", "NOT_CONTAINS", `{"S":"x"}`), false},
		"BEGINS_WITH":                {op("checkpoint", "BEGINS_WITH", `{"S":"shard"}`), true},
		"BEGINS_WITH absent":         {op("absent", "BEGINS_WITH", `{"S":"shard"}`), false},
		"BEGINS_WITH on a number":    {op("leaseCounter", "BEGINS_WITH", `{"S":"shard"}`), false},
		"equal lists of equal value": {op("children", "EQ", `{"L":[{"S":"x"},{"N":"1.0"}]}`), true},
	}
	for name, row := range sorted(rows) {
		t.Run(name, func(t *T) {
			t.olderHolds(row.holds, t.send("PutItem", fmt.Sprintf(`{"TableName":%q,"Item":%s,"Expected":%s}`, *tb.name, t.wireItem(sample()), row.expected)))
		})
	}
	for operator, holds := range sorted(map[string]bool{"AND": false, "OR": true}) {
		t.Run("joined by "+operator, func(t *T) {
			t.olderHolds(holds, t.send("PutItem", fmt.Sprintf(`{"TableName":%q,"Item":%s,"ConditionalOperator":%q,
				"Expected":{"leaseOwner":{"Value":{"S":"B"}},"leaseCounter":{"Value":{"N":"7"}}}}`, *tb.name, t.wireItem(sample()), operator)))
		})
	}
}

func (t *T) olderHolds(want bool, a answer) {
	if want {
		t.Accepted(a)
		return
	}
	t.RefusedRaw("ConditionalCheckFailedException", a)
}

func olderConditionsRefused(t *T) {
	tb := t.create(t.leases())
	rows := map[string]string{
		"Exists without a value":      `"Expected":{"a":{"Exists":true}}`,
		"absence with a value":        `"Expected":{"a":{"Exists":false,"Value":{"S":"x"}}}`,
		"Exists beside an operator":   `"Expected":{"a":{"Exists":true,"ComparisonOperator":"NULL"}}`,
		"nothing about an attribute":  `"Expected":{"a":{}}`,
		"value and list":              `"Expected":{"a":{"ComparisonOperator":"EQ","Value":{"S":"x"},"AttributeValueList":[{"S":"x"}]}}`,
		"operator without operand":    `"Expected":{"a":{"ComparisonOperator":"EQ"}}`,
		"list without operator":       `"Expected":{"a":{"AttributeValueList":[{"S":"x"}]}}`,
		"two operands of EQ":          `"Expected":{"a":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"x"},{"S":"y"}]}}`,
		"one operand of BETWEEN":      `"Expected":{"a":{"ComparisonOperator":"BETWEEN","AttributeValueList":[{"N":"1"}]}}`,
		"bounds in reverse":           `"Expected":{"a":{"ComparisonOperator":"BETWEEN","AttributeValueList":[{"N":"2"},{"N":"1"}]}}`,
		"LE of a list":                `"Expected":{"a":{"ComparisonOperator":"LE","AttributeValueList":[{"L":[]}]}}`,
		"BEGINS_WITH a number":        `"Expected":{"a":{"ComparisonOperator":"BEGINS_WITH","AttributeValueList":[{"N":"1"}]}}`,
		"IN with two types":           `"Expected":{"a":{"ComparisonOperator":"IN","AttributeValueList":[{"N":"1"},{"S":"x"}]}}`,
		"unknown operator":            `"Expected":{"a":{"ComparisonOperator":"LIKE","AttributeValueList":[{"S":"x"}]}}`,
		"ConditionalOperator alone":   `"ConditionalOperator":"AND"`,
		"ConditionalOperator of none": `"ConditionalOperator":"OR","Expected":{}`,
		"with an expression":          `"Expected":{"a":{"Exists":false}},"ConditionExpression":"attribute_not_exists(a)"`,
	}
	for name, members := range sorted(rows) {
		t.Run(name, func(t *T) {
			t.remove(tb, lease("s1")) // which an emulator has put
			t.RefusedRaw("ValidationException", t.send("PutItem", fmt.Sprintf(`{"TableName":%q,"Item":{"leaseKey":{"S":"s1"}},%s}`, *tb.name, members)))
			t.Equal("none", t.get(tb, lease("s1")))
		})
	}
}

// What is wrong with an expression by itself is refused, whatever the table holds.
func expressionsRefused(t *T) {
	tb := t.create(t.leases())
	rows := map[string]dynamodb.UpdateItemInput{
		"undefined value":      {ConditionExpression: aws.String("a = :a")},
		"undefined name":       {ConditionExpression: aws.String("attribute_exists(#a)")},
		"unused value":         {ConditionExpression: aws.String("attribute_exists(a)"), ExpressionAttributeValues: item{":a": str("x")}},
		"unused name":          {ConditionExpression: aws.String("attribute_exists(a)"), ExpressionAttributeNames: map[string]string{"#a": "b"}},
		"values alone":         {ExpressionAttributeValues: item{":a": str("x")}},
		"names alone":          {ExpressionAttributeNames: map[string]string{"#a": "b"}},
		"empty condition":      {ConditionExpression: aws.String("")},
		"empty update":         {UpdateExpression: aws.String("")},
		"reserved word":        {ConditionExpression: aws.String("attribute_exists(status)")},
		"syntax":               {ConditionExpression: aws.String("a = = b")},
		"path alone":           {ConditionExpression: aws.String("a")},
		"redundant brackets":   {ConditionExpression: aws.String("((a = :a))"), ExpressionAttributeValues: item{":a": str("x")}},
		"a thing with itself":  {ConditionExpression: aws.String("a = a")},
		"unknown function":     {ConditionExpression: aws.String("exists(a)")},
		"function's case":      {ConditionExpression: aws.String("ATTRIBUTE_EXISTS(a)")},
		"size alone":           {ConditionExpression: aws.String("size(a)")},
		"value's existence":    {ConditionExpression: aws.String("attribute_exists(:a)"), ExpressionAttributeValues: item{":a": str("x")}},
		"begins_with a number": {ConditionExpression: aws.String("begins_with(a, :a)"), ExpressionAttributeValues: item{":a": num("1")}},
		"less than a list":     {ConditionExpression: aws.String("a < :a"), ExpressionAttributeValues: item{":a": list()}},
		"bounds in reverse":    {ConditionExpression: aws.String("a BETWEEN :b AND :a"), ExpressionAttributeValues: item{":a": num("1"), ":b": num("2")}},
		"unknown type":         {ConditionExpression: aws.String("attribute_type(a, :a)"), ExpressionAttributeValues: item{":a": str("X")}},
		"empty set as a value": {ConditionExpression: aws.String("a = :a"), ExpressionAttributeValues: item{":a": strs()}},
	}
	unknown := t.Unused()
	for name, in := range sorted(rows) {
		t.Run(name, func(t *T) {
			t.remove(tb, lease("s1"))
			in.Key = lease("s1")
			in.TableName = tb.name
			_, err := t.dynamodb.UpdateItem(t.ctx, &in)
			t.Refused("ValidationException", err)
			t.Equal("none", t.get(tb, lease("s1")))
		})
		t.Run("before the table is looked up/"+name, func(t *T) {
			in.Key = lease("s1")
			in.TableName = &unknown
			_, err := t.dynamodb.UpdateItem(t.ctx, &in)
			t.Refused("ValidationException", err)
		})
	}
}
