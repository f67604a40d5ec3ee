package conformance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

var indexCases = []kase{
	{name: "dynamodb/indexes/added to a live table", run: indexAdded},
	{name: "dynamodb/indexes/deleted", run: indexDeleted},
	{name: "dynamodb/indexes/refused changes", run: refusedIndexes},
	{name: "dynamodb/indexes/refused deletion", run: indexInTheWay},
	{name: "dynamodb/indexes/queries", run: indexQueries},
	{name: "dynamodb/indexes/pages", run: indexPages},
	{name: "dynamodb/indexes/moving owners", run: indexMoves},
	{name: "dynamodb/indexes/key types", run: indexKeyTypes},
}

// addIndex asks for the index by owner.
func (t *T) addIndex(tb table) (*dynamodb.UpdateTableOutput, error) {
	index := t.indexed().GlobalSecondaryIndexes[0]
	return t.dynamodb.UpdateTable(t.ctx, &dynamodb.UpdateTableInput{
		TableName: tb.name, AttributeDefinitions: attributes("leaseKey", "S", "leaseOwner", "S"),
		GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{Create: &types.CreateGlobalSecondaryIndexAction{
			IndexName: index.IndexName, KeySchema: index.KeySchema, Projection: index.Projection,
		}}},
	})
}

func (t *T) dropIndex(tb table, name string) error {
	_, err := t.dynamodb.UpdateTable(t.ctx, &dynamodb.UpdateTableInput{TableName: tb.name,
		GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{Delete: &types.DeleteGlobalSecondaryIndexAction{IndexName: &name}}}})
	return err
}

// ownedBy asks the index for an owner's leases.
func (t *T) ownedBy(tb table, owner string, more ...func(*dynamodb.QueryInput)) (*dynamodb.QueryOutput, error) {
	in := &dynamodb.QueryInput{TableName: tb.name, IndexName: aws.String(ownerIndex),
		KeyConditionExpression: aws.String("leaseOwner = :o"), ExpressionAttributeValues: item{":o": str(owner)}}
	for _, m := range more {
		m(in)
	}
	return t.dynamodb.Query(t.ctx, in)
}

func owned(key, owner string) item { return item{"leaseKey": str(key), "leaseOwner": str(owner)} }

// indexes tells the state of each index, by name.
func (t *T) indexes(tb table) map[string]types.GlobalSecondaryIndexDescription {
	m := map[string]types.GlobalSecondaryIndexDescription{}
	for _, index := range t.describe(tb).GlobalSecondaryIndexes {
		m[*index.IndexName] = index
	}
	return m
}

func (t *T) awaitIndex(tb table) {
	t.Await("index ACTIVE", func() bool {
		return t.indexes(tb)[ownerIndex].IndexStatus == types.IndexStatusActive && t.describe(tb).TableStatus == types.TableStatusActive
	})
}

func indexAdded(t *T) {
	tb := t.create(t.leases())
	t.put(tb, owned("a", "A"), owned("b", "B"), lease("c"))
	t.Run("query before", func(t *T) {
		_, err := t.ownedBy(tb, "A")
		t.Refused("ValidationException", err)
		t.True(err != nil && contains(err, "The table does not have the specified index"), "the text by which the library knows it")
	})
	out, err := t.addIndex(tb)
	t.OK(err)
	t.Run("answer", func(t *T) {
		d := out.TableDescription
		t.Equal(types.TableStatusUpdating, d.TableStatus)
		t.Equal(1, len(d.GlobalSecondaryIndexes), "indexes")
		index := d.GlobalSecondaryIndexes[0]
		t.Equal(types.IndexStatusCreating, index.IndexStatus)
		t.True(index.Backfilling != nil && !*index.Backfilling, "Backfilling is false, and told")
	})
	t.Run("query while CREATING", func(t *T) {
		_, err := t.ownedBy(tb, "A")
		t.Refused("ValidationException", err)
	})
	t.Run("the same name while CREATING", func(t *T) {
		_, err := t.addIndex(tb) // with which code is not known of such an index
		t.True(slices.Contains([]string{"ResourceInUseException", "LimitExceededException", "ValidationException"}, codeOf(err)), "refused: ", brief(err))
	})
	t.Run("another index while CREATING", func(t *T) {
		_, err := t.dynamodb.UpdateTable(t.ctx, &dynamodb.UpdateTableInput{TableName: tb.name, AttributeDefinitions: attributes("leaseKey", "S", "other", "S"),
			GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{Create: &types.CreateGlobalSecondaryIndexAction{
				IndexName: aws.String("another"), KeySchema: keySchema("other"), Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
			}}}})
		t.Refused("LimitExceededException", err)
	})
	t.Run("written to meanwhile", func(t *T) {
		t.put(tb, owned("d", "A"))
		t.Equal(`{leaseKey:"d" leaseOwner:"A"}`, t.get(tb, lease("d")))
	})
	t.Run("backfilling", func(t *T) {
		t.Await("Backfilling", func() bool { return aws.ToBool(t.indexes(tb)[ownerIndex].Backfilling) })
		t.Equal(types.TableStatusActive, t.describe(tb).TableStatus, "table")
		_, err := t.ownedBy(tb, "A")
		t.Refused("ValidationException", err)
		t.True(err != nil && contains(err, "backfilling global secondary index"), "the text by which the library knows it")
	})
	t.Run("ACTIVE", func(t *T) {
		t.awaitIndex(tb)
		t.True(t.indexes(tb)[ownerIndex].Backfilling == nil, "Backfilling is told no more")
		t.Equal([]string{"leaseKey S", "leaseOwner S"}, definitions(t.describe(tb).AttributeDefinitions))
		out, err := t.ownedBy(tb, "A")
		t.OK(err)
		t.Equal([]string{`{leaseKey:"a" leaseOwner:"A"}`, `{leaseKey:"d" leaseOwner:"A"}`}, showAll(out.Items))
	})
	t.Run("the same name", func(t *T) {
		_, err := t.addIndex(tb)
		t.Refused("ValidationException", err)
	})
}

func contains(err error, text string) bool { return strings.Contains(err.Error(), text) }

// A table cannot be deleted while an index is created or deleted.
func indexInTheWay(t *T) {
	drop := func(tb table) error {
		_, err := t.dynamodb.DeleteTable(t.ctx, &dynamodb.DeleteTableInput{TableName: tb.name})
		return err
	}
	t.Run("of a table whose index is CREATING", func(t *T) {
		tb := t.create(t.leases())
		_, err := t.addIndex(tb)
		t.OK(err)
		t.Refused("ResourceInUseException", drop(tb))
	})
	t.Run("of an index that is CREATING, in its first phase", func(t *T) {
		tb := t.create(t.leases())
		_, err := t.addIndex(tb)
		t.OK(err)
		t.Refused("ResourceInUseException", t.dropIndex(tb, ownerIndex))
	})
	t.Run("of a table whose index is DELETING", func(t *T) {
		tb := t.create(t.indexed())
		t.OK(t.dropIndex(tb, ownerIndex))
		t.Refused("ResourceInUseException", drop(tb))
	})
	t.Run("of a table whose index is ACTIVE", func(t *T) { t.OK(drop(t.create(t.indexed()))) })
}

func indexDeleted(t *T) {
	tb := t.create(t.indexed())
	t.put(tb, owned("a", "A"))
	t.OK(t.dropIndex(tb, ownerIndex))
	t.Run("DELETING", func(t *T) {
		t.Equal(types.IndexStatusDeleting, t.indexes(tb)[ownerIndex].IndexStatus)
	})
	t.Run("gone", func(t *T) {
		t.Await("index gone", func() bool { return len(t.indexes(tb)) == 0 })
		t.Equal([]string{"leaseKey S"}, definitions(t.describe(tb).AttributeDefinitions), "definitions are pruned")
		_, err := t.ownedBy(tb, "A")
		t.Refused("ValidationException", err)
		t.Equal(`{leaseKey:"a" leaseOwner:"A"}`, t.get(tb, lease("a")), "the item stays")
	})
}

func refusedIndexes(t *T) {
	tb := t.create(t.leases())
	index := t.indexed().GlobalSecondaryIndexes[0]
	create := func(name string) types.GlobalSecondaryIndexUpdate {
		return types.GlobalSecondaryIndexUpdate{Create: &types.CreateGlobalSecondaryIndexAction{IndexName: &name, KeySchema: index.KeySchema, Projection: index.Projection}}
	}
	both := attributes("leaseKey", "S", "leaseOwner", "S")
	rows := map[string]struct {
		code string
		in   dynamodb.UpdateTableInput
	}{
		"no update": {"ValidationException", dynamodb.UpdateTableInput{GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{}}},
		"key not defined": {"ValidationException", dynamodb.UpdateTableInput{AttributeDefinitions: attributes("leaseKey", "S"),
			GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{create("one")}}},
		"two creations": {"LimitExceededException", dynamodb.UpdateTableInput{AttributeDefinitions: both,
			GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{create("one"), create("two")}}},
		"one name twice": {"ValidationException", dynamodb.UpdateTableInput{AttributeDefinitions: both,
			GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{create("one"), create("one")}}},
		"key redefined": {"ValidationException", dynamodb.UpdateTableInput{AttributeDefinitions: attributes("leaseKey", "N", "leaseOwner", "S"),
			GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{create("one")}}},
		"deletion of an unknown one": {"ResourceNotFoundException", dynamodb.UpdateTableInput{
			GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{Delete: &types.DeleteGlobalSecondaryIndexAction{IndexName: aws.String("unknown")}}}}},
		"deletion protection beside": {"ValidationException", dynamodb.UpdateTableInput{AttributeDefinitions: both, DeletionProtectionEnabled: aws.Bool(true),
			GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{create("one")}}},
	}
	for name, row := range sorted(rows) {
		t.Run(name, func(t *T) {
			row.in.TableName = tb.name
			_, err := t.dynamodb.UpdateTable(t.ctx, &row.in)
			t.Refused(row.code, err)
			t.Equal(0, len(t.indexes(tb)), "indexes")
			if err == nil { // for the next row
				t.Await("indexes ACTIVE", func() bool {
					for name, index := range t.indexes(tb) {
						if index.IndexStatus == types.IndexStatusActive {
							_ = t.dropIndex(tb, name)
						}
					}
					return len(t.indexes(tb)) == 0
				})
			}
		})
	}
}

func indexQueries(t *T) {
	tb := t.create(t.indexed())
	t.put(tb,
		item{"leaseKey": str("b"), "leaseOwner": str("A"), "leaseCounter": num("1")},
		owned("a", "A"), owned("c", "B"), lease("d"))
	t.Run("keys of items that have both", func(t *T) {
		out, err := t.ownedBy(tb, "A")
		t.OK(err)
		t.Equal([]string{`{leaseKey:"a" leaseOwner:"A"}`, `{leaseKey:"b" leaseOwner:"A"}`}, showAll(out.Items))
		t.Equal("2 2", fmt.Sprint(out.Count, out.ScannedCount))
	})
	t.Run("in order of the sort key", func(t *T) {
		out, err := t.ownedBy(tb, "A")
		t.OK(err)
		t.Equal(`{leaseKey:"a" leaseOwner:"A"}`, show(out.Items[0]))
	})
	t.Run("nobody", func(t *T) {
		out, err := t.ownedBy(tb, "Z")
		t.OK(err)
		t.Equal(0, len(out.Items))
		t.True(out.LastEvaluatedKey == nil, "no last key")
	})
	t.Run("both keys", func(t *T) {
		out, err := t.ownedBy(tb, "A", func(in *dynamodb.QueryInput) {
			in.KeyConditionExpression = aws.String("leaseOwner = :o AND begins_with(leaseKey, :k)")
			in.ExpressionAttributeValues[":k"] = str("b")
		})
		t.OK(err)
		t.Equal([]string{`{leaseKey:"b" leaseOwner:"A"}`}, showAll(out.Items))
	})
	rows := map[string]func(*dynamodb.QueryInput){
		"consistent":        func(in *dynamodb.QueryInput) { in.ConsistentRead = aws.Bool(true) },
		"unknown index":     func(in *dynamodb.QueryInput) { in.IndexName = aws.String("unknown") },
		"all attributes":    func(in *dynamodb.QueryInput) { in.Select = types.SelectAllAttributes },
		"no hash condition": func(in *dynamodb.QueryInput) { in.KeyConditionExpression = aws.String("leaseKey = :o") },
		"filter on its key": func(in *dynamodb.QueryInput) { in.FilterExpression = aws.String("leaseOwner = :o") },
		"wrong type":        func(in *dynamodb.QueryInput) { in.ExpressionAttributeValues[":o"] = num("1") },
		"strange start":     func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = lease("a") },
		"start elsewhere":   func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = owned("c", "B") },
	}
	for name, spoil := range sorted(rows) {
		t.Run("refused/"+name, func(t *T) {
			_, err := t.ownedBy(tb, "A", spoil)
			t.Refused("ValidationException", err)
		})
	}
	t.Run("scan", func(t *T) {
		out, err := t.dynamodb.Scan(t.ctx, &dynamodb.ScanInput{TableName: tb.name, IndexName: aws.String(ownerIndex)})
		t.OK(err)
		t.Equal([]string{`{leaseKey:"a" leaseOwner:"A"}`, `{leaseKey:"b" leaseOwner:"A"}`, `{leaseKey:"c" leaseOwner:"B"}`}, showAll(out.Items))
	})
}

func indexPages(t *T) {
	tb := t.create(t.indexed())
	for i := range 7 {
		t.put(tb, owned(fmt.Sprint(i), "A"))
	}
	var from item
	seen := map[string]bool{}
	pages := 0
	for range 10 {
		out, err := t.ownedBy(tb, "A", func(in *dynamodb.QueryInput) { in.Limit, in.ExclusiveStartKey = aws.Int32(3), from })
		t.OK(err)
		pages++
		for _, i := range out.Items {
			t.True(!seen[show(i)], show(i), " comes once")
			seen[show(i)] = true
		}
		if from = out.LastEvaluatedKey; from == nil {
			break
		}
		t.Equal(show(out.Items[len(out.Items)-1]), show(from), "the last key is that of index and table")
	}
	t.Equal(7, len(seen), "items")
	t.Equal(3, pages, "pages")
}

func indexMoves(t *T) {
	tb := t.create(t.indexed())
	t.put(tb, owned("a", "A"))
	count := func(owner string) int {
		out, err := t.ownedBy(tb, owner)
		t.OK(err)
		return len(out.Items)
	}
	t.Run("another owner", func(t *T) {
		_, err := t.update(tb, lease("a"), "SET leaseOwner = :B", item{":B": str("B")})
		t.OK(err)
		t.Await("index follows", func() bool { return count("A") == 0 && count("B") == 1 })
	})
	t.Run("no owner", func(t *T) {
		_, err := t.update(tb, lease("a"), "REMOVE leaseOwner", nil)
		t.OK(err)
		t.Await("index follows", func() bool { return count("B") == 0 })
	})
	t.Run("deleted", func(t *T) {
		t.put(tb, owned("a", "C"))
		t.Await("index follows", func() bool { return count("C") == 1 })
		t.remove(tb, lease("a"))
		t.Await("index follows", func() bool { return count("C") == 0 })
	})
}

func indexKeyTypes(t *T) {
	tb := t.create(t.indexed())
	rows := map[string]item{"number": {":v": num("1")}, "null": {":v": null()}, "empty": {":v": str("")}}
	for name, pool := range sorted(rows) {
		t.Run("put "+name, func(t *T) {
			_, err := t.dynamodb.PutItem(t.ctx, &dynamodb.PutItemInput{TableName: tb.name, Item: item{"leaseKey": str("b"), "leaseOwner": pool[":v"]}})
			t.Refused("ValidationException", err)
		})
		t.Run("update to "+name, func(t *T) {
			t.put(tb, owned("a", "A"))
			_, err := t.update(tb, lease("a"), "SET leaseOwner = :v", pool)
			t.Refused("ValidationException", err)
			t.Equal(`{leaseKey:"a" leaseOwner:"A"}`, t.get(tb, lease("a")))
		})
	}
}
