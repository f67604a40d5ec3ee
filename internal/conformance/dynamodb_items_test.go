package conformance

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

var itemCases = []kase{
	{name: "dynamodb/items/every type", run: everyType},
	{name: "dynamodb/items/put, get, delete", run: putGetDelete},
	{name: "dynamodb/items/keys", run: itemKeys},
	{name: "dynamodb/items/values", run: itemValues},
	{name: "dynamodb/items/projections", run: itemProjections},
	{name: "dynamodb/items/size", run: itemSize},
	{name: "dynamodb/items/capacity", run: itemCapacity},
}

var numberCases = []kase{
	{name: "dynamodb/numbers/as they come back", run: numberForms},
	{name: "dynamodb/numbers/refused", run: numbersRefused},
	{name: "dynamodb/numbers/arithmetic", run: numberArithmetic},
	{name: "dynamodb/numbers/equality", run: numberEquality},
}

func everyType(t *T) {
	tb := t.create(t.leases())
	rows := map[string]types.AttributeValue{
		"string":       str("é𝄞 x"),
		"empty string": str(""),
		"number":       num("-12.5"),
		"binary":       bin(0, 255, 7),
		"empty binary": bin(),
		"true":         truth(true),
		"false":        truth(false),
		"null":         null(),
		"strings":      strs("b", "a", ""),
		"numbers":      nums("10", "9", "-1.5"),
		"binaries":     bins([]byte{2}, []byte{1, 0}),
		"list":         list(str("x"), num("1"), list(), tree(item{})),
		"empty list":   list(),
		"map":          tree(item{"a": num("1"), "b": tree(item{"c": strs("x")})}),
		"empty map":    tree(item{}),
	}
	for name, v := range sorted(rows) {
		t.Run(name, func(t *T) {
			want := item{"leaseKey": str(name), "v": v}
			t.put(tb, want)
			t.Equal(show(want), t.get(tb, want))
		})
	}
	t.Run("odd names", func(t *T) {
		want := item{"leaseKey": str("names"), "a.b": num("1"), "a b": num("2"), "status": num("3"), "ä": num("4"), "#x": num("5"), ":y": num("6")}
		t.put(tb, want)
		t.Equal(show(want), t.get(tb, want))
	})
}

func putGetDelete(t *T) {
	tb := t.create(t.leases())
	one := item{"leaseKey": str("s1"), "a": num("1"), "b": num("2")}
	t.Run("absent", func(t *T) {
		t.Equal("none", t.get(tb, one))
		out, err := t.dynamodb.DeleteItem(t.ctx, &dynamodb.DeleteItemInput{TableName: tb.name, Key: lease("s1"), ReturnValues: types.ReturnValueAllOld})
		t.OK(err)
		t.True(out.Attributes == nil, "nothing is returned of nothing")
	})
	t.Run("put replaces the whole item", func(t *T) {
		t.put(tb, one)
		t.put(tb, item{"leaseKey": str("s1"), "b": num("3")})
		t.Equal(`{b:3 leaseKey:"s1"}`, t.get(tb, one))
	})
	t.Run("delete", func(t *T) {
		t.put(tb, one)
		t.remove(tb, one)
		t.Equal("none", t.get(tb, one))
	})
	t.Run("by ARN", func(t *T) {
		t.put(tb, one)
		out, err := t.dynamodb.GetItem(t.ctx, &dynamodb.GetItemInput{TableName: t.describe(tb).TableArn, Key: lease("s1")})
		t.OK(err)
		t.Equal(show(one), show(out.Item))
	})
}

// Items and keys that do not fit the table.
func itemKeys(t *T) {
	plain, ranged := t.create(t.leases()), t.create(t.partitioned())
	long := strings.Repeat("k", 2049)
	puts := map[string]struct {
		tb table
		i  item
	}{
		"no key":       {plain, item{"a": num("1")}},
		"wrong type":   {plain, item{"leaseKey": num("1")}},
		"empty":        {plain, lease("")},
		"too long":     {plain, lease(long)},
		"no range key": {ranged, item{"p": str("a")}},
	}
	for name, row := range sorted(puts) {
		t.Run("put/"+name, func(t *T) {
			_, err := t.dynamodb.PutItem(t.ctx, &dynamodb.PutItemInput{TableName: row.tb.name, Item: row.i})
			t.Refused("ValidationException", err)
		})
	}
	keys := map[string]struct {
		tb  table
		key item
	}{
		"missing":      {plain, item{"a": str("1")}},
		"wrong type":   {plain, item{"leaseKey": num("1")}},
		"one too many": {plain, item{"leaseKey": str("a"), "a": str("1")}},
		"empty":        {plain, lease("")},
		"half":         {ranged, item{"p": str("a")}},
	}
	for name, row := range sorted(keys) {
		t.Run("get/"+name, func(t *T) {
			_, err := t.dynamodb.GetItem(t.ctx, &dynamodb.GetItemInput{TableName: row.tb.name, Key: row.key})
			t.Refused("ValidationException", err)
		})
		t.Run("update/"+name, func(t *T) {
			_, err := t.dynamodb.UpdateItem(t.ctx, &dynamodb.UpdateItemInput{TableName: row.tb.name, Key: row.key})
			t.Refused("ValidationException", err)
		})
		t.Run("delete/"+name, func(t *T) {
			_, err := t.dynamodb.DeleteItem(t.ctx, &dynamodb.DeleteItemInput{TableName: row.tb.name, Key: row.key})
			t.Refused("ValidationException", err)
		})
	}
	t.Run("longest", func(t *T) { t.put(plain, lease(long[:2048])) })
}

// Values as they stand on the wire.
func itemValues(t *T) {
	tb := t.create(t.leases())
	rows := map[string]struct{ value, code string }{
		"no type":              {`{}`, "ValidationException"},
		"two types":            {`{"S":"a","N":"1"}`, "ValidationException"},
		"null that is not":     {`{"NULL":false}`, "ValidationException"},
		"empty strings":        {`{"SS":[]}`, "ValidationException"},
		"empty numbers":        {`{"NS":[]}`, "ValidationException"},
		"empty binaries":       {`{"BS":[]}`, "ValidationException"},
		"string twice":         {`{"SS":["a","a"]}`, "ValidationException"},
		"number twice":         {`{"NS":["1","1"]}`, "ValidationException"},
		"number as a number":   {`{"N":5}`, "SerializationException"},
		"list as a map":        {`{"L":{}}`, "SerializationException"},
		"deep inside":          {`{"L":[{"M":{"a":{"SS":[]}}}]}`, "ValidationException"},
		"empty name":           {`{"M":{"":{"S":"a"}}}`, "ValidationException"},
		"too deep":             {strings.Repeat(`{"L":[`, 33) + strings.Repeat(`]}`, 33), "ValidationException"},
		"unknown type":         {`{"X":"a"}`, "ValidationException"},
		"binary not in base64": {`{"B":"%%%"}`, "SerializationException"},
	}
	for name, row := range sorted(rows) {
		t.Run(name, func(t *T) {
			t.RefusedRaw(row.code, t.send("PutItem", fmt.Sprintf(`{"TableName":%q,"Item":{"leaseKey":{"S":"a"},"v":%s}}`, *tb.name, row.value)))
		})
	}
}

func itemProjections(t *T) {
	tb := t.create(t.leases())
	t.put(tb, item{"leaseKey": str("a"), "owner": str("A"), "m": tree(item{"x": num("1"), "y": num("2")}), "l": list(num("1"), num("2"))})
	rows := map[string]string{
		"#owner":          `{owner:"A"}`,
		"leaseKey, m.x":   `{leaseKey:"a" m:{x:1}}`,
		"l[1]":            `{l:[2]}`,
		"nothing":         `{}`,
		"m.nothing, l[7]": `{}`,
	}
	for projection, want := range sorted(rows) {
		t.Run(projection, func(t *T) {
			out, err := t.dynamodb.GetItem(t.ctx, &dynamodb.GetItemInput{TableName: tb.name, Key: lease("a"),
				ProjectionExpression: &projection, ExpressionAttributeNames: names(projection)})
			t.OK(err)
			t.Equal(want, show(out.Item))
		})
	}
	t.Run("of an absent item", func(t *T) {
		out, err := t.dynamodb.GetItem(t.ctx, &dynamodb.GetItemInput{TableName: tb.name, Key: lease("z"), ProjectionExpression: aws.String("m")})
		t.OK(err)
		t.Equal("none", show(out.Item))
	})
	t.Run("older form", func(t *T) {
		a := t.send("GetItem", fmt.Sprintf(`{"TableName":%q,"Key":{"leaseKey":{"S":"a"}},"AttributesToGet":["owner","nothing"]}`, *tb.name))
		t.Accepted(a)
		t.Equal(map[string]any{"owner": map[string]any{"S": "A"}}, a.get("Item"))
	})
	for name, projection := range sorted(map[string]string{"reserved word": "owner", "overlap": "m, m.x", "empty": "", "syntax": "a,,b"}) {
		t.Run("refused/"+name, func(t *T) {
			_, err := t.dynamodb.GetItem(t.ctx, &dynamodb.GetItemInput{TableName: tb.name, Key: lease("a"), ProjectionExpression: &projection})
			t.Refused("ValidationException", err)
		})
	}
}

func itemSize(t *T) {
	tb := t.create(t.leases())
	sized := func(n int) item { // leaseKey 8 + 1, v 1
		return item{"leaseKey": str("a"), "v": str(strings.Repeat("x", n-10))}
	}
	t.Run("put 400 KB", func(t *T) { t.put(tb, sized(409_600)) })
	t.Run("put a byte more", func(t *T) {
		_, err := t.dynamodb.PutItem(t.ctx, &dynamodb.PutItemInput{TableName: tb.name, Item: sized(409_601)})
		t.Refused("ValidationException", err)
	})
	t.Run("grow beyond", func(t *T) {
		t.put(tb, sized(409_600))
		_, err := t.update(tb, lease("a"), "SET w = :w", item{":w": str("1")})
		t.Refused("ValidationException", err)
	})
}

func itemCapacity(t *T) {
	tb := t.create(t.indexed())
	put := func(i item, mode types.ReturnConsumedCapacity) *types.ConsumedCapacity {
		out, err := t.dynamodb.PutItem(t.ctx, &dynamodb.PutItemInput{TableName: tb.name, Item: i, ReturnConsumedCapacity: mode})
		t.OK(err)
		return out.ConsumedCapacity
	}
	units := func(c *types.ConsumedCapacity) string {
		if c == nil {
			return "none"
		}
		return fmt.Sprint(aws.ToFloat64(c.CapacityUnits))
	}
	t.Run("not asked for", func(t *T) { t.Equal("none", units(put(lease("a"), ""))) })
	t.Run("item", func(t *T) { t.Equal("1", units(put(lease("a"), types.ReturnConsumedCapacityTotal))) })
	t.Run("item with an index entry", func(t *T) {
		t.Equal("2", units(put(owned("b", "A"), types.ReturnConsumedCapacityTotal)))
	})
	t.Run("consistent scan", func(t *T) {
		out, err := t.dynamodb.Query(t.ctx, &dynamodb.QueryInput{TableName: tb.name, KeyConditionExpression: aws.String("leaseKey = :a"),
			ExpressionAttributeValues: item{":a": str("a")}, ConsistentRead: aws.Bool(true), ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal})
		t.OK(err)
		t.Equal("1", units(out.ConsumedCapacity), "consistent")
		get, err := t.dynamodb.GetItem(t.ctx, &dynamodb.GetItemInput{TableName: tb.name, Key: lease("a"), ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal})
		t.OK(err)
		t.Equal("0.5", units(get.ConsumedCapacity), "not consistent")
	})
}

// Numbers come back as plain decimals, whatever form they were sent in.
func numberForms(t *T) {
	tb := t.create(t.leases())
	rows := map[string]string{
		"85.0": "85", "0.0": "0", "-0": "0", "9.23E-4": "0.000923", "7.6E-5": "0.000076", "1.0E-6": "0.000001", // as Java workers send them
		"1e3": "1000", "00012": "12", "1.10": "1.1", "+3": "3", "3.": "3", ".5": "0.5", "1.e5": "100000", "-0015.789e6": "-15789000",
		"0e125": "0", "0.0e126": "0",
		"1E125":                                  "1" + strings.Repeat("0", 125),
		"1E-130":                                 "0." + strings.Repeat("0", 129) + "1",
		"12345678901234567890123456789012345678": "12345678901234567890123456789012345678",
		"0.00000000012345678901234567890123456789012345678": "0.00000000012345678901234567890123456789012345678",
	}
	for sent, want := range sorted(rows) {
		t.Run(sent, func(t *T) {
			t.put(tb, item{"leaseKey": str(sent), "v": num(sent)})
			t.Equal(fmt.Sprintf("{leaseKey:%q v:%s}", sent, want), t.get(tb, lease(sent)))
		})
	}
	t.Run("in a set, a list, a map", func(t *T) {
		t.put(tb, item{"leaseKey": str("deep"), "s": nums("85.0", "1e1"), "l": list(num("1.50")), "m": tree(item{"x": num("-0")})})
		t.Equal(`{l:[1.5] leaseKey:"deep" m:{x:0} s:<10 85>}`, t.get(tb, lease("deep")))
	})
}

func numbersRefused(t *T) {
	tb := t.create(t.leases())
	for _, n := range []string{"", " 1", "1 ", "NaN", "Infinity", "0x10", ".", "+", "1e", "1e+", "1.2.3", "dog",
		"123456789012345678901234567890123456789", "1E126", "-1E126", "1E-131", "0e126", "0e-131", "1e99999999999"} {
		t.Run(fmt.Sprintf("%q", n), func(t *T) {
			_, err := t.dynamodb.PutItem(t.ctx, &dynamodb.PutItemInput{TableName: tb.name, Item: item{"leaseKey": str("a"), "v": num(n)}})
			t.Refused("ValidationException", err)
		})
	}
}

func numberArithmetic(t *T) {
	tb := t.create(t.leases())
	rows := map[string]struct{ from, expression, by, want string }{
		"exact decimals":      {"0.1", "ADD v :by", "0.2", "0.3"},
		"38 digits":           {"12345678901234567890123456789012345677", "SET v = v + :by", "1", "12345678901234567890123456789012345678"},
		"subtraction":         {"7", "SET v = v - :by", "7.0", "0"},
		"far apart":           {"1e30", "SET v = v + :by", "1e-7", "1000000000000000000000000000000.0000001"},
		"too many digits":     {"1e50", "SET v = v + :by", "1", ""},
		"beyond the largest":  {"9e125", "ADD v :by", "9e125", ""},
		"a negative to zero":  {"-0.5", "ADD v :by", "0.5", "0"},
		"beyond an int64":     {"9223372036854775807", "ADD v :by", "1", "9223372036854775808"},
		"beyond a float's 53": {"9007199254740992", "ADD v :by", "1", "9007199254740993"},
	}
	for name, row := range sorted(rows) {
		t.Run(name, func(t *T) {
			t.put(tb, item{"leaseKey": str(name), "v": num(row.from)})
			_, err := t.update(tb, lease(name), row.expression, item{":by": num(row.by)})
			if row.want == "" {
				t.Refused("ValidationException", err)
				return
			}
			t.OK(err)
			t.Equal(fmt.Sprintf("{leaseKey:%q v:%s}", name, row.want), t.get(tb, lease(name)))
		})
	}
}

func numberEquality(t *T) {
	tb := t.create(t.partitioned())
	one := item{"p": str("a"), "r": num("1000"), "v": str("x")}
	t.put(tb, one)
	t.Run("key", func(t *T) {
		t.Equal(show(one), t.get(tb, item{"p": str("a"), "r": num("1e3")}))
	})
	t.Run("put over it", func(t *T) {
		t.put(tb, item{"p": str("a"), "r": num("1000.0"), "v": str("y")})
		out, err := t.dynamodb.Scan(t.ctx, &dynamodb.ScanInput{TableName: tb.name})
		t.OK(err)
		t.Equal(1, len(out.Items), "items")
	})
}
