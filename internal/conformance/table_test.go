package conformance

import (
	"regexp"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const ownerIndex = "LeaseOwnerToLeaseKeyIndex"

// table is a table of a case.
type table struct {
	name *string
	keys []string // hash key, range key
}

func attributes(kinds ...string) (defs []types.AttributeDefinition) {
	for i := 0; i < len(kinds); i += 2 {
		defs = append(defs, types.AttributeDefinition{AttributeName: &kinds[i], AttributeType: types.ScalarAttributeType(kinds[i+1])})
	}
	return defs
}

func keySchema(keys ...string) (schema []types.KeySchemaElement) {
	for i := range keys {
		schema = append(schema, types.KeySchemaElement{AttributeName: &keys[i], KeyType: []types.KeyType{types.KeyTypeHash, types.KeyTypeRange}[i]})
	}
	return schema
}

// leases describes a lease table as KCL creates it, without its index.
func (t *T) leases() *dynamodb.CreateTableInput {
	return &dynamodb.CreateTableInput{
		TableName:            aws.String(t.Unused()),
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: attributes("leaseKey", "S"),
		KeySchema:            keySchema("leaseKey"),
	}
}

// indexed is leases with the index by owner.
func (t *T) indexed() *dynamodb.CreateTableInput {
	in := t.leases()
	in.AttributeDefinitions = attributes("leaseKey", "S", "leaseOwner", "S")
	in.GlobalSecondaryIndexes = []types.GlobalSecondaryIndex{{
		IndexName: aws.String(ownerIndex), KeySchema: keySchema("leaseOwner", "leaseKey"),
		Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
	}}
	return in
}

// partitioned describes a table with partitions of items in order of a number.
func (t *T) partitioned() *dynamodb.CreateTableInput {
	in := t.leases()
	in.AttributeDefinitions = attributes("p", "S", "r", "N")
	in.KeySchema = keySchema("p", "r")
	return in
}

// create creates a table and waits until it is ACTIVE.
func (t *T) create(in *dynamodb.CreateTableInput) table {
	_, err := t.dynamodb.CreateTable(t.ctx, in)
	t.OK(err, "create table")
	tb := table{name: in.TableName}
	for _, k := range in.KeySchema {
		tb.keys = append(tb.keys, *k.AttributeName)
	}
	t.Await("table ACTIVE", func() bool { return t.describe(tb).TableStatus == types.TableStatusActive })
	return tb
}

func (t *T) describe(tb table) *types.TableDescription {
	out, err := t.dynamodb.DescribeTable(t.ctx, &dynamodb.DescribeTableInput{TableName: tb.name})
	t.OK(err, "describe table")
	return out.Table
}

func (tb table) key(i item) item {
	key := item{}
	for _, k := range tb.keys {
		key[k] = i[k]
	}
	return key
}

// lease is the key of a lease table.
func lease(key string) item { return item{"leaseKey": str(key)} }

func (t *T) put(tb table, items ...item) {
	for _, i := range items {
		_, err := t.dynamodb.PutItem(t.ctx, &dynamodb.PutItemInput{TableName: tb.name, Item: i})
		t.OK(err, "put")
	}
}

// get shows the item that has the key attributes of i, consistently read.
func (t *T) get(tb table, i item) string {
	out, err := t.dynamodb.GetItem(t.ctx, &dynamodb.GetItemInput{TableName: tb.name, Key: tb.key(i), ConsistentRead: aws.Bool(true)})
	t.OK(err, "get")
	return show(out.Item)
}

func (t *T) remove(tb table, i item) {
	_, err := t.dynamodb.DeleteItem(t.ctx, &dynamodb.DeleteItemInput{TableName: tb.name, Key: tb.key(i)})
	t.OK(err, "delete")
}

// update is an UpdateItem with an expression, whose values come out of a pool by
// their tokens, and its names, which begin with #, mean themselves.
func (t *T) update(tb table, key item, expression string, pool item, more ...func(*dynamodb.UpdateItemInput)) (*dynamodb.UpdateItemOutput, error) {
	in := &dynamodb.UpdateItemInput{TableName: tb.name, Key: key}
	if expression != "" {
		in.UpdateExpression = &expression
	}
	for _, m := range more {
		m(in)
	}
	texts := expression + " " + aws.ToString(in.ConditionExpression)
	in.ExpressionAttributeValues = used(pool, texts)
	in.ExpressionAttributeNames = names(texts)
	return t.dynamodb.UpdateItem(t.ctx, in)
}

func condition(c string) func(*dynamodb.UpdateItemInput) {
	return func(in *dynamodb.UpdateItemInput) { in.ConditionExpression = &c }
}

func returning(v types.ReturnValue) func(*dynamodb.UpdateItemInput) {
	return func(in *dynamodb.UpdateItemInput) { in.ReturnValues = v }
}

var (
	valueTokens = regexp.MustCompile(`:\w+`)
	nameTokens  = regexp.MustCompile(`#\w+`)
)

// used are those values of a pool whose tokens stand in an expression: the
// service refuses values that are not used.
func used(pool item, expression string) item {
	var out item
	for _, token := range valueTokens.FindAllString(expression, -1) {
		if v, ok := pool[token]; ok {
			if out == nil {
				out = item{}
			}
			out[token] = v
		}
	}
	return out
}

// names gives each #name of an expression the meaning name.
func names(expression string) map[string]string {
	var out map[string]string
	for _, token := range nameTokens.FindAllString(expression, -1) {
		if out == nil {
			out = map[string]string{}
		}
		out[token] = token[1:]
	}
	return out
}

// showAll shows items in the order of their text.
func showAll(items []item) []string {
	out := make([]string, len(items))
	for i, it := range items {
		out[i] = show(it)
	}
	slices.Sort(out)
	return out
}
