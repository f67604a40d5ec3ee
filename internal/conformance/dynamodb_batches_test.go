package conformance

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

var batchCases = []kase{
	{name: "dynamodb/batches/write", run: batchWrites},
	{name: "dynamodb/batches/refused writes", run: batchWritesRefused},
	{name: "dynamodb/batches/get", run: batchGets},
	{name: "dynamodb/batches/refused gets", run: batchGetsRefused},
}

func putRequest(i item) types.WriteRequest {
	return types.WriteRequest{PutRequest: &types.PutRequest{Item: i}}
}

func deleteRequest(key item) types.WriteRequest {
	return types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: key}}
}

// numbered are n keys or items.
func numbered(n int) (items []item) {
	for i := range n {
		items = append(items, lease(fmt.Sprintf("s%03d", i)))
	}
	return items
}

func batchWrites(t *T) {
	one, two := t.create(t.leases()), t.create(t.leases())
	t.put(one, lease("old"))
	out, err := t.dynamodb.BatchWriteItem(t.ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
		*one.name: {putRequest(sample()), deleteRequest(lease("old")), deleteRequest(lease("absent"))},
		*two.name: {putRequest(lease("a"))},
	}})
	t.OK(err)
	t.Run("done", func(t *T) {
		t.Equal([]string{show(sample()), "none", `{leaseKey:"a"}`}, []string{t.get(one, lease("s1")), t.get(one, lease("old")), t.get(two, lease("a"))})
	})
	t.Run("nothing left over, and told so", func(t *T) {
		t.True(out.UnprocessedItems != nil && len(out.UnprocessedItems) == 0, "an empty list")
	})
	t.Run("25", func(t *T) {
		var requests []types.WriteRequest
		for _, i := range numbered(25) {
			requests = append(requests, putRequest(i))
		}
		_, err := t.dynamodb.BatchWriteItem(t.ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{*two.name: requests}})
		t.OK(err)
		keys, _ := t.scan(two, nil)
		t.Equal(26, len(keys))
	})
}

func batchWritesRefused(t *T) {
	tb := t.create(t.leases())
	var many []types.WriteRequest
	for _, i := range numbered(26) {
		many = append(many, putRequest(i))
	}
	rows := map[string]struct {
		code     string
		requests map[string][]types.WriteRequest
	}{
		"nothing":            {"ValidationException", map[string][]types.WriteRequest{}},
		"an empty table":     {"ValidationException", map[string][]types.WriteRequest{*tb.name: {}}},
		"26":                 {"ValidationException", map[string][]types.WriteRequest{*tb.name: many}},
		"a key twice":        {"ValidationException", map[string][]types.WriteRequest{*tb.name: {putRequest(lease("a")), putRequest(item{"leaseKey": str("a"), "b": num("1")})}}},
		"put and delete":     {"ValidationException", map[string][]types.WriteRequest{*tb.name: {putRequest(lease("a")), deleteRequest(lease("a"))}}},
		"a bad key":          {"ValidationException", map[string][]types.WriteRequest{*tb.name: {putRequest(lease("a")), putRequest(item{"b": num("1")})}}},
		"an empty key":       {"ValidationException", map[string][]types.WriteRequest{*tb.name: {putRequest(lease("a")), putRequest(lease(""))}}},
		"a bad value":        {"ValidationException", map[string][]types.WriteRequest{*tb.name: {putRequest(lease("a")), putRequest(item{"leaseKey": str("b"), "v": num("dog")})}}},
		"an unknown table":   {"ResourceNotFoundException", map[string][]types.WriteRequest{*tb.name: {putRequest(lease("a"))}, t.Unused(): {putRequest(lease("a"))}}},
		"neither of the two": {"ValidationException", map[string][]types.WriteRequest{*tb.name: {putRequest(lease("a")), {}}}},
	}
	for name, row := range sorted(rows) {
		t.Run(name, func(t *T) {
			_, err := t.dynamodb.BatchWriteItem(t.ctx, &dynamodb.BatchWriteItemInput{RequestItems: row.requests})
			t.Refused(row.code, err)
			t.Equal("none", t.get(tb, lease("a")), "nothing was written")
			t.remove(tb, lease("a"))
		})
	}
}

func batchGets(t *T) {
	one, two := t.create(t.leases()), t.create(t.leases())
	t.put(one, sample(), lease("s2"))
	get := func(requests map[string]types.KeysAndAttributes) *dynamodb.BatchGetItemOutput {
		out, err := t.dynamodb.BatchGetItem(t.ctx, &dynamodb.BatchGetItemInput{RequestItems: requests})
		t.OK(err)
		return out
	}
	t.Run("what there is", func(t *T) {
		out := get(map[string]types.KeysAndAttributes{*one.name: {Keys: []item{lease("s2"), lease("absent"), lease("s1")}, ConsistentRead: aws.Bool(true)}, *two.name: {Keys: []item{lease("x")}}})
		t.Equal([]string{show(sample()), `{leaseKey:"s2"}`}, showAll(out.Responses[*one.name]))
		nothing, told := out.Responses[*two.name]
		t.True(told && len(nothing) == 0, "a table of which nothing was found is told")
		t.True(out.UnprocessedKeys != nil && len(out.UnprocessedKeys) == 0, "nothing left over, and told so")
	})
	t.Run("projection", func(t *T) {
		out := get(map[string]types.KeysAndAttributes{*one.name: {Keys: []item{lease("s1")}, ProjectionExpression: aws.String("leaseCounter")}})
		t.Equal([]string{"{leaseCounter:7}"}, showAll(out.Responses[*one.name]))
	})
	t.Run("100", func(t *T) {
		t.Equal(0, len(get(map[string]types.KeysAndAttributes{*two.name: {Keys: numbered(100)}}).Responses[*two.name]))
	})
}

func batchGetsRefused(t *T) {
	tb := t.create(t.leases())
	rows := map[string]struct {
		code     string
		requests map[string]types.KeysAndAttributes
	}{
		"nothing":          {"ValidationException", map[string]types.KeysAndAttributes{}},
		"no keys":          {"ValidationException", map[string]types.KeysAndAttributes{*tb.name: {Keys: []item{}}}},
		"101":              {"ValidationException", map[string]types.KeysAndAttributes{*tb.name: {Keys: numbered(101)}}},
		"a key twice":      {"ValidationException", map[string]types.KeysAndAttributes{*tb.name: {Keys: []item{lease("a"), lease("a")}}}},
		"a bad key":        {"ValidationException", map[string]types.KeysAndAttributes{*tb.name: {Keys: []item{{"b": str("a")}}}}},
		"an unknown table": {"ResourceNotFoundException", map[string]types.KeysAndAttributes{*tb.name: {Keys: []item{lease("a")}}, t.Unused(): {Keys: []item{lease("a")}}}},
	}
	for name, row := range sorted(rows) {
		t.Run(name, func(t *T) {
			_, err := t.dynamodb.BatchGetItem(t.ctx, &dynamodb.BatchGetItemInput{RequestItems: row.requests})
			t.Refused(row.code, err)
		})
	}
}
