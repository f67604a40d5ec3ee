package conformance

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

var updateCases = []kase{
	{name: "dynamodb/updates/expression", run: updateExpressions},
	{name: "dynamodb/updates/refused", run: updatesRefused},
	{name: "dynamodb/updates/absent item", run: updatesOfNothing},
	{name: "dynamodb/updates/returned values", run: returnedValues},
	{name: "dynamodb/updates/returned values of put and delete", run: returnedByPutAndDelete},
	{name: "dynamodb/updates/older form", run: olderUpdates},
	{name: "dynamodb/updates/older form refused", run: olderUpdatesRefused},
	{name: "dynamodb/updates/both forms at once", run: mixedForms},
}

// updateExpressions: which attributes of the sample does an update change, and to
// what? "-" means that one is gone.
func updateExpressions(t *T) {
	tb := t.create(t.leases())
	rows := []struct {
		expression string
		want       map[string]string
	}{
		{"SET leaseOwner = :B", map[string]string{"leaseOwner": `"B"`}},
		{"SET leaseOwner = :n1", map[string]string{"leaseOwner": "1"}},
		{"SET fresh = :tree", map[string]string{"fresh": `{leaf:"L" status:1}`}},
		{"SET leaseCounter = leaseCounter + :n1", map[string]string{"leaseCounter": "8"}},
		{"SET leaseCounter = :n10 - leaseCounter", map[string]string{"leaseCounter": "3"}},
		{"SET leaseOwner = checkpoint, checkpoint = leaseOwner", map[string]string{"leaseOwner": `"shardId-01"`, "checkpoint": `"A"`}},
		{"SET a = if_not_exists(leaseOwner, :B), b = if_not_exists(absent, :B)", map[string]string{"a": `"A"`, "b": `"B"`}},
		{"SET c = if_not_exists(absent, :n0) + :n1", map[string]string{"c": "1"}},
		{"SET children = list_append(children, :list)", map[string]string{"children": `["x" 1 "n"]`}},
		{"SET children = list_append(:list, children)", map[string]string{"children": `["n" "x" 1]`}},
		{"SET children[0] = :n1, children[9] = :x", map[string]string{"children": `[1 1 "x"]`}},
		{"SET tree.leaf = :B, tree.#status = tree.#status + :n1", map[string]string{"tree": `{leaf:"B" status:2}`}},
		{"REMOVE leaseOwner", map[string]string{"leaseOwner": "-"}},
		{"REMOVE absent", map[string]string{}},
		{"REMOVE children[0], tree.leaf", map[string]string{"children": "[1]", "tree": "{status:1}"}},
		{"ADD leaseCounter :n1", map[string]string{"leaseCounter": "8"}},
		{"ADD fresh :n2", map[string]string{"fresh": "2"}},
		{"ADD tags :tagZ", map[string]string{"tags": `<"x" "y" "z">`}},
		{"ADD tags :tagX", map[string]string{}},
		{"ADD fresh :tags", map[string]string{"fresh": `<"x" "y">`}},
		{"DELETE tags :tagX", map[string]string{"tags": `<"y">`}},
		{"DELETE tags :tagZ", map[string]string{}},
		{"DELETE tags :tags", map[string]string{"tags": "-"}},
		{"DELETE absent :tags", map[string]string{}},
		{"SET leaseOwner = :B REMOVE checkpoint ADD leaseCounter :n1 DELETE tags :tagX", map[string]string{"leaseOwner": `"B"`, "checkpoint": "-", "leaseCounter": "8", "tags": `<"y">`}},
		{"add leaseCounter :n1 set leaseOwner = :B", map[string]string{"leaseCounter": "8", "leaseOwner": `"B"`}},
	}
	for _, row := range rows {
		t.Run(row.expression, func(t *T) {
			t.put(tb, sample())
			out, err := t.update(tb, lease("s1"), row.expression, pool(), returning(types.ReturnValueAllNew))
			t.OK(err)
			t.Equal(row.want, changes(sample(), out.Attributes))
			t.Equal(t.get(tb, lease("s1")), show(out.Attributes), "ALL_NEW is what is stored")
		})
	}
}

// changes are the attributes that differ: their later values, "-" for none.
func changes(before, after item) map[string]string {
	m := map[string]string{}
	for name := range before {
		if after[name] == nil {
			m[name] = "-"
		}
	}
	for name, v := range after {
		if before[name] == nil || showValue(before[name]) != showValue(v) {
			m[name] = showValue(v)
		}
	}
	return m
}

func updatesRefused(t *T) {
	tb := t.create(t.leases())
	for _, expression := range []string{
		"SET leaseKey = :s1",                         // a key, even to its own value
		"REMOVE leaseKey",                            //
		"ADD leaseKey :n1",                           //
		"SET leaseOwner = :A, leaseOwner = :B",       // overlapping paths
		"SET tree = :A REMOVE tree.leaf",             //
		"SET children[0] = :A, children[0] = :B",     //
		"SET leaseOwner = :A SET leaseCounter = :n1", // a clause twice
		"SET c = absent + :n1",                       // a missing operand
		"SET c = absent",                             //
		"SET c = leaseOwner + :n1",                   // an operand of a wrong type, stored
		"SET c = leaseCounter + :A",                  // and sent
		"SET c = list_append(leaseOwner, :list)",     //
		"SET absent.deep = :A",                       // no parent
		"SET leaseOwner.deep = :A",                   //
		"REMOVE absent.deep",                         //
		"ADD leaseOwner :n1",                         // wrong types
		"ADD leaseCounter :tags",                     //
		"ADD leaseCounter :A",                        //
		"ADD children :list",                         // which the older form allows
		"ADD tags :sizes",                            //
		"DELETE tags :x",                             //
		"DELETE tags :sizes",                         //
		"DELETE leaseCounter :tags",                  //
		"SET leaseOwner",                             // syntax
		"leaseOwner = :A",                            //
		"SET a = :A,",                                //
		"SET status = :A",                            // a reserved word
		"SET a = attribute_exists(leaseOwner)",       // no function for updates
		"SET a = :n1 + :n1 + :n1",                    // two operands at most
	} {
		t.Run(expression, func(t *T) {
			t.put(tb, sample())
			_, err := t.update(tb, lease("s1"), expression, pool())
			t.Refused("ValidationException", err)
			t.Equal(show(sample()), t.get(tb, lease("s1")))
		})
	}
	t.Run("a failed condition comes before a wrong stored type", func(t *T) {
		t.put(tb, sample())
		_, err := t.update(tb, lease("s1"), "ADD leaseOwner :n1", pool(), condition("leaseOwner = :B"))
		t.Refused("ConditionalCheckFailedException", err)
	})
}

// An update creates an item, unless all it does is to take away.
func updatesOfNothing(t *T) {
	tb := t.create(t.leases())
	rows := map[string]string{
		"":                                   `{leaseKey:"new"}`,
		"SET leaseCounter = :n1":             `{leaseCounter:1 leaseKey:"new"}`,
		"ADD leaseCounter :n1":               `{leaseCounter:1 leaseKey:"new"}`,
		"ADD tags :tagX":                     `{leaseKey:"new" tags:<"x">}`,
		"REMOVE leaseOwner":                  "none",
		"DELETE tags :tagX":                  "none",
		"SET leaseCounter = :n1 REMOVE tags": `{leaseCounter:1 leaseKey:"new"}`,
	}
	for expression, want := range sorted(rows) {
		t.Run(fmt.Sprintf("%q", expression), func(t *T) {
			_, err := t.update(tb, lease("new"), expression, pool())
			t.OK(err)
			t.Equal(want, t.get(tb, lease("new")))
			t.remove(tb, lease("new"))
		})
	}
}

func returnedValues(t *T) {
	tb := t.create(t.leases())
	before := item{"leaseKey": str("s1"), "leaseOwner": str("A"), "leaseCounter": num("7"), "tree": tree(item{"a": num("1"), "b": num("2")})}
	rows := []struct {
		key, expression                        string
		allOld, updatedOld, updatedNew, allNew string
	}{
		{"s1", "SET leaseOwner = :B, fresh = :n1 REMOVE leaseCounter",
			show(before), `{leaseCounter:7 leaseOwner:"A"}`, `{fresh:1 leaseOwner:"B"}`, `{fresh:1 leaseKey:"s1" leaseOwner:"B" tree:{a:1 b:2}}`},
		{"s1", "SET leaseOwner = :A", show(before), `{leaseOwner:"A"}`, `{leaseOwner:"A"}`, show(before)},
		{"s1", "SET tree.a = :n8", show(before), `{tree:{a:1}}`, `{tree:{a:8}}`, `{leaseCounter:7 leaseKey:"s1" leaseOwner:"A" tree:{a:8 b:2}}`},
		{"s1", "REMOVE leaseOwner", show(before), `{leaseOwner:"A"}`, "none", `{leaseCounter:7 leaseKey:"s1" tree:{a:1 b:2}}`},
		{"s1", "REMOVE absent", show(before), "none", "none", show(before)},
		{"s1", "ADD leaseCounter :n1", show(before), "{leaseCounter:7}", "{leaseCounter:8}", `{leaseCounter:8 leaseKey:"s1" leaseOwner:"A" tree:{a:1 b:2}}`},
		{"new", "SET leaseOwner = :B", "none", "none", `{leaseOwner:"B"}`, `{leaseKey:"new" leaseOwner:"B"}`},
		{"new", "REMOVE leaseOwner", "none", "none", "none", "none"},
	}
	for _, row := range rows {
		for _, cell := range []struct {
			mode types.ReturnValue
			want string
		}{
			{types.ReturnValueNone, "none"}, {types.ReturnValueAllOld, row.allOld}, {types.ReturnValueUpdatedOld, row.updatedOld},
			{types.ReturnValueUpdatedNew, row.updatedNew}, {types.ReturnValueAllNew, row.allNew},
		} {
			t.Run(fmt.Sprintf("%s of %s after %s", cell.mode, row.key, row.expression), func(t *T) {
				t.put(tb, before)
				t.remove(tb, lease("new"))
				out, err := t.update(tb, lease(row.key), row.expression, pool(), returning(cell.mode))
				t.OK(err)
				t.Equal(cell.want, show(out.Attributes))
			})
		}
	}
}

func returnedByPutAndDelete(t *T) {
	tb := t.create(t.leases())
	old := item{"leaseKey": str("s1"), "leaseOwner": str("A")}
	put := func(mode types.ReturnValue) (item, error) {
		out, err := t.dynamodb.PutItem(t.ctx, &dynamodb.PutItemInput{TableName: tb.name, Item: lease("s1"), ReturnValues: mode})
		if err != nil {
			return nil, err
		}
		return out.Attributes, nil
	}
	remove := func(mode types.ReturnValue) (item, error) {
		out, err := t.dynamodb.DeleteItem(t.ctx, &dynamodb.DeleteItemInput{TableName: tb.name, Key: lease("s1"), ReturnValues: mode})
		if err != nil {
			return nil, err
		}
		return out.Attributes, nil
	}
	for name, write := range sorted(map[string]func(types.ReturnValue) (item, error){"put": put, "delete": remove}) {
		t.Run(name+" NONE", func(t *T) {
			t.put(tb, old)
			got, err := write(types.ReturnValueNone)
			t.OK(err)
			t.Equal("none", show(got))
		})
		t.Run(name+" ALL_OLD", func(t *T) {
			t.put(tb, old)
			got, err := write(types.ReturnValueAllOld)
			t.OK(err)
			t.Equal(show(old), show(got))
		})
		t.Run(name+" ALL_OLD of nothing", func(t *T) {
			t.remove(tb, lease("s1"))
			got, err := write(types.ReturnValueAllOld)
			t.OK(err)
			t.Equal("none", show(got))
		})
		for _, mode := range []types.ReturnValue{types.ReturnValueAllNew, types.ReturnValueUpdatedNew, types.ReturnValueUpdatedOld} {
			t.Run(name+" "+string(mode), func(t *T) {
				_, err := write(mode)
				t.Refused("ValidationException", err)
			})
		}
	}
}

// olderUpdates are updateExpressions in the form of AttributeUpdates, and what
// each does to an absent item.
func olderUpdates(t *T) {
	tb := t.create(t.leases())
	rows := map[string]struct {
		updates string
		want    map[string]string
		created string
	}{
		"PUT":                  {`{"leaseOwner":{"Action":"PUT","Value":{"S":"B"}}}`, map[string]string{"leaseOwner": `"B"`}, `{leaseKey:"new" leaseOwner:"B"}`},
		"PUT unsaid":           {`{"leaseOwner":{"Value":{"S":"B"}}}`, map[string]string{"leaseOwner": `"B"`}, `{leaseKey:"new" leaseOwner:"B"}`},
		"PUT another type":     {`{"leaseOwner":{"Action":"PUT","Value":{"N":"1"}}}`, map[string]string{"leaseOwner": "1"}, `{leaseKey:"new" leaseOwner:1}`},
		"PUT a dotted name":    {`{"tree.leaf":{"Action":"PUT","Value":{"N":"1"}}}`, map[string]string{"tree.leaf": "1"}, `{leaseKey:"new" tree.leaf:1}`},
		"ADD a number":         {`{"leaseCounter":{"Action":"ADD","Value":{"N":"1"}}}`, map[string]string{"leaseCounter": "8"}, `{leaseCounter:1 leaseKey:"new"}`},
		"ADD to a set":         {`{"tags":{"Action":"ADD","Value":{"SS":["z"]}}}`, map[string]string{"tags": `<"x" "y" "z">`}, `{leaseKey:"new" tags:<"z">}`},
		"ADD to a list":        {`{"children":{"Action":"ADD","Value":{"L":[{"S":"n"}]}}}`, map[string]string{"children": `["x" 1 "n"]`}, `{children:["n"] leaseKey:"new"}`},
		"DELETE":               {`{"leaseOwner":{"Action":"DELETE"}}`, map[string]string{"leaseOwner": "-"}, "none"},
		"DELETE what is not":   {`{"absent":{"Action":"DELETE"}}`, map[string]string{}, "none"},
		"DELETE from a set":    {`{"tags":{"Action":"DELETE","Value":{"SS":["x","z"]}}}`, map[string]string{"tags": `<"y">`}, "none"},
		"DELETE all of a set":  {`{"tags":{"Action":"DELETE","Value":{"SS":["x","y"]}}}`, map[string]string{"tags": "-"}, "none"},
		"DELETE and PUT":       {`{"tags":{"Action":"DELETE"},"a":{"Value":{"N":"85.0"}}}`, map[string]string{"tags": "-", "a": "85"}, `{a:85 leaseKey:"new"}`},
		"nothing":              {`{}`, map[string]string{}, `{leaseKey:"new"}`},
		"PUT an empty string":  {`{"leaseOwner":{"Value":{"S":""}}}`, map[string]string{"leaseOwner": `""`}, `{leaseKey:"new" leaseOwner:""}`},
		"PUT a set":            {`{"tags":{"Value":{"SS":["b","a"]}}}`, map[string]string{"tags": `<"a" "b">`}, `{leaseKey:"new" tags:<"a" "b">}`},
		"PUT an empty map":     {`{"m":{"Value":{"M":{}}}}`, map[string]string{"m": "{}"}, `{leaseKey:"new" m:{}}`},
		"ADD a set of numbers": {`{"sizes":{"Action":"ADD","Value":{"NS":["1.0","3"]}}}`, map[string]string{"sizes": "<1 2.5 3>"}, `{leaseKey:"new" sizes:<1 3>}`},
	}
	send := func(key, updates string) {
		t.Accepted(t.send("UpdateItem", fmt.Sprintf(`{"TableName":%q,"Key":{"leaseKey":{"S":%q}},"AttributeUpdates":%s}`, *tb.name, key, updates)))
	}
	for name, row := range sorted(rows) {
		t.Run(name, func(t *T) {
			t.put(tb, sample())
			send("s1", row.updates)
			out, err := t.dynamodb.GetItem(t.ctx, &dynamodb.GetItemInput{TableName: tb.name, Key: lease("s1")})
			t.OK(err)
			t.Equal(row.want, changes(sample(), out.Item))
		})
		t.Run(name+" of an absent item", func(t *T) {
			t.remove(tb, lease("new"))
			send("new", row.updates)
			t.Equal(row.created, t.get(tb, lease("new")))
		})
	}
}

func olderUpdatesRefused(t *T) {
	tb := t.create(t.leases())
	rows := map[string]string{
		"a key":                      `{"leaseKey":{"Value":{"S":"s1"}}}`,
		"PUT without a value":        `{"a":{"Action":"PUT"}}`,
		"ADD without a value":        `{"a":{"Action":"ADD"}}`,
		"ADD a string":               `{"a":{"Action":"ADD","Value":{"S":"x"}}}`,
		"ADD to another type":        `{"leaseOwner":{"Action":"ADD","Value":{"N":"1"}}}`,
		"DELETE a string":            `{"leaseOwner":{"Action":"DELETE","Value":{"S":"A"}}}`,
		"DELETE from another type":   `{"leaseOwner":{"Action":"DELETE","Value":{"SS":["A"]}}}`,
		"DELETE from another set":    `{"tags":{"Action":"DELETE","Value":{"NS":["1"]}}}`,
		"unknown action":             `{"a":{"Action":"SET","Value":{"N":"1"}}}`,
		"PUT an empty set":           `{"a":{"Value":{"SS":[]}}}`,
		"PUT what is not a number":   `{"a":{"Value":{"N":"dog"}}}`,
		"PUT beyond 38 digits":       `{"a":{"Value":{"N":"123456789012345678901234567890123456789"}}}`,
		"one right, one wrong":       `{"leaseOwner":{"Value":{"S":"B"}},"checkpoint":{"Action":"ADD","Value":{"N":"1"}}}`,
		"ADD set of another element": `{"tags":{"Action":"ADD","Value":{"NS":["1"]}}}`,
	}
	for name, updates := range sorted(rows) {
		t.Run(name, func(t *T) {
			t.put(tb, sample())
			t.RefusedRaw("ValidationException", t.send("UpdateItem", fmt.Sprintf(`{"TableName":%q,"Key":{"leaseKey":{"S":"s1"}},"AttributeUpdates":%s}`, *tb.name, updates)))
			t.Equal(show(sample()), t.get(tb, lease("s1")))
		})
	}
}

// Expressions and older members exclude each other.
func mixedForms(t *T) {
	tb := t.create(t.leases())
	rows := map[string]struct{ operation, members string }{
		"Expected":         {"UpdateItem", `"Key":{"leaseKey":{"S":"s1"}},"UpdateExpression":"REMOVE leaseOwner","Expected":{"a":{"Exists":false}}`},
		"AttributeUpdates": {"UpdateItem", `"Key":{"leaseKey":{"S":"s1"}},"ConditionExpression":"attribute_not_exists(a)","AttributeUpdates":{"leaseOwner":{"Action":"DELETE"}}`},
		"ScanFilter":       {"Scan", `"FilterExpression":"attribute_exists(a)","ScanFilter":{"a":{"ComparisonOperator":"NULL"}}`},
		"AttributesToGet":  {"GetItem", `"Key":{"leaseKey":{"S":"s1"}},"ProjectionExpression":"a","AttributesToGet":["a"]`},
		"delete":           {"DeleteItem", `"Key":{"leaseKey":{"S":"s1"}},"ConditionExpression":"attribute_not_exists(a)","Expected":{"a":{"Exists":false}}`},
	}
	for name, row := range sorted(rows) {
		t.Run(name, func(t *T) {
			t.put(tb, sample())
			t.RefusedRaw("ValidationException", t.send(row.operation, fmt.Sprintf(`{"TableName":%q,%s}`, *tb.name, row.members)))
			t.Equal(show(sample()), t.get(tb, lease("s1")))
		})
	}
	t.Run("the wish for the item belongs to neither", func(t *T) {
		t.put(tb, sample())
		t.Accepted(t.send("UpdateItem", fmt.Sprintf(`{"TableName":%q,"Key":{"leaseKey":{"S":"s1"}},"AttributeUpdates":{"leaseOwner":{"Action":"DELETE"}},
			"Expected":{"absent":{"Exists":false}},"ReturnValuesOnConditionCheckFailure":"ALL_OLD"}`, *tb.name)))
	})
}
