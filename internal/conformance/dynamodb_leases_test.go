package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

var leaseCases = []kase{
	{name: "dynamodb/conditions/failure", run: conditionFailure},
	{name: "dynamodb/conditions/failure of the older form", run: olderConditionFailure},
	{name: "dynamodb/conditions/lease writes", run: leaseWrites},
	{name: "dynamodb/conditions/lease writes of the older form", run: olderLeaseWrites},
	{name: "dynamodb/conditions/one of many", run: oneOfMany},
}

// A failed condition changes nothing, and returns the item if that is wished and
// there is one.
func conditionFailure(t *T) {
	tb := t.create(t.leases())
	never := aws.String("leaseOwner = :Q")
	values := used(pool(), *never)
	writes := map[string]func(key string, wish types.ReturnValuesOnConditionCheckFailure) error{
		"put": func(key string, wish types.ReturnValuesOnConditionCheckFailure) error {
			_, err := t.dynamodb.PutItem(t.ctx, &dynamodb.PutItemInput{TableName: tb.name, Item: lease(key), ConditionExpression: never, ExpressionAttributeValues: values, ReturnValuesOnConditionCheckFailure: wish})
			return err
		},
		"update": func(key string, wish types.ReturnValuesOnConditionCheckFailure) error {
			_, err := t.update(tb, lease(key), "SET leaseCounter = :n8", pool(), condition(*never),
				func(in *dynamodb.UpdateItemInput) { in.ReturnValuesOnConditionCheckFailure = wish })
			return err
		},
		"delete": func(key string, wish types.ReturnValuesOnConditionCheckFailure) error {
			_, err := t.dynamodb.DeleteItem(t.ctx, &dynamodb.DeleteItemInput{TableName: tb.name, Key: lease(key), ConditionExpression: never, ExpressionAttributeValues: values, ReturnValuesOnConditionCheckFailure: wish})
			return err
		},
	}
	for name, write := range sorted(writes) {
		t.put(tb, sample())
		failed := func(err error) item {
			failure := (*types.ConditionalCheckFailedException)(nil)
			if !errors.As(err, &failure) {
				t.Fatalf("want a failed condition, got %s", brief(err))
			}
			return failure.Item
		}
		t.Run(name, func(t *T) {
			t.Equal("none", show(failed(write("s1", ""))))
			t.Equal(show(sample()), t.get(tb, lease("s1")))
		})
		t.Run(name+" wishing the item", func(t *T) {
			t.Equal(show(sample()), show(failed(write("s1", types.ReturnValuesOnConditionCheckFailureAllOld))))
		})
		t.Run(name+" of an absent item", func(t *T) {
			t.Equal("none", show(failed(write("absent", types.ReturnValuesOnConditionCheckFailureAllOld))))
			t.Equal("none", t.get(tb, lease("absent")))
		})
		t.Run(name+" wishing something else", func(t *T) {
			t.Refused("ValidationException", write("s1", "ALL_NEW"))
		})
	}
}

// The same of the older form, which is how Java workers read what beat them.
func olderConditionFailure(t *T) {
	tb := t.create(t.leases())
	writes := map[string]string{
		"PutItem":    `"Item":{"leaseKey":{"S":%q}}`,
		"UpdateItem": `"Key":{"leaseKey":{"S":%q}},"AttributeUpdates":{"leaseCounter":{"Value":{"N":"8"}}}`,
		"DeleteItem": `"Key":{"leaseKey":{"S":%q}}`,
	}
	for operation, members := range sorted(writes) {
		t.put(tb, sample())
		try := func(key, more string) answer {
			a := t.send(operation, fmt.Sprintf(`{"TableName":%q,"Expected":{"leaseOwner":{"Value":{"S":"Q"}}},%s%s}`, *tb.name, fmt.Sprintf(members, key), more))
			t.RefusedRaw("ConditionalCheckFailedException", a)
			return a
		}
		t.Run(operation, func(t *T) {
			t.Equal(nil, try("s1", "").get("Item"))
			t.Equal(show(sample()), t.get(tb, lease("s1")))
		})
		t.Run(operation+" wishing the item", func(t *T) {
			b, err := json.Marshal(try("s1", `,"ReturnValuesOnConditionCheckFailure":"ALL_OLD"`).get("Item"))
			t.OK(err)
			got := item{}
			if string(b) != "null" {
				got, err = attributevalue.UnmarshalMapJSON(b)
				t.OK(err)
			}
			t.Equal(show(sample()), show(got))
		})
		t.Run(operation+" of an absent item", func(t *T) {
			t.Equal(nil, try("absent", `,"ReturnValuesOnConditionCheckFailure":"ALL_OLD"`).get("Item"))
			t.Equal("none", t.get(tb, lease("absent")))
		})
	}
}

// What workers write to a lease, in order.
func leaseWrites(t *T) {
	tb := t.create(t.leases())
	create := func() error {
		_, err := t.dynamodb.PutItem(t.ctx, &dynamodb.PutItemInput{TableName: tb.name, ConditionExpression: aws.String("attribute_not_exists(leaseKey)"),
			Item: item{"leaseKey": str("s1"), "leaseOwner": str("A"), "leaseCounter": num("7")}})
		return err
	}
	write := func(update, cond string) error {
		_, err := t.update(tb, lease("s1"), update, pool(), condition(cond))
		return err
	}
	steps := []struct {
		name  string
		err   func() error
		holds bool
		after string
	}{
		{"create", create, true, `{leaseCounter:7 leaseKey:"s1" leaseOwner:"A"}`},
		{"create again", create, false, `{leaseCounter:7 leaseKey:"s1" leaseOwner:"A"}`},
		{"renew", func() error {
			return write("SET leaseCounter = :n8", "leaseCounter = :n7 AND attribute_not_exists(checkpointOwner)")
		}, true, `{leaseCounter:8 leaseKey:"s1" leaseOwner:"A"}`},
		{"renew again, the answer lost", func() error { return write("SET leaseCounter = :n8", "leaseCounter = :n7") }, false, `{leaseCounter:8 leaseKey:"s1" leaseOwner:"A"}`},
		{"hand off", func() error {
			return write("SET leaseOwner = :B, checkpointOwner = :A, leaseCounter = leaseCounter + :n1", "leaseOwner = :A AND attribute_not_exists(checkpointOwner)")
		}, true, `{checkpointOwner:"A" leaseCounter:9 leaseKey:"s1" leaseOwner:"B"}`},
		{"take", func() error {
			return write("SET leaseCounter = leaseCounter + :n1 REMOVE checkpointOwner", "checkpointOwner = :A")
		}, true, `{leaseCounter:10 leaseKey:"s1" leaseOwner:"B"}`},
		{"evict", func() error {
			return write("ADD leaseCounter :n1 REMOVE leaseOwner", "leaseKey = :s1 AND leaseOwner = :B")
		}, true, `{leaseCounter:11 leaseKey:"s1"}`},
		{"evict what has no owner", func() error { return write("ADD leaseCounter :n1", "leaseOwner = :B") }, false, `{leaseCounter:11 leaseKey:"s1"}`},
		{"children", func() error { return write("SET childShardIds = :tags", "attribute_exists(leaseKey)") }, true, `{childShardIds:<"x" "y"> leaseCounter:11 leaseKey:"s1"}`},
		{"delete", func() error {
			_, err := t.dynamodb.DeleteItem(t.ctx, &dynamodb.DeleteItemInput{TableName: tb.name, Key: lease("s1"),
				ConditionExpression: aws.String("leaseCounter = :n"), ExpressionAttributeValues: item{":n": num("11")}})
			return err
		}, true, "none"},
		{"renew what was deleted", func() error { return write("SET leaseCounter = :n8", "leaseCounter = :n7") }, false, "none"},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *T) {
			t.holds(step.holds, step.err())
			t.Equal(step.after, t.get(tb, lease("s1")))
		})
	}
}

// The same as Java workers write it.
func olderLeaseWrites(t *T) {
	tb := t.create(t.leases())
	steps := []struct {
		name, operation, members string
		holds                    bool
		after                    string
	}{
		{"create", "PutItem", `"Item":{"leaseKey":{"S":"s1"},"leaseOwner":{"S":"A"},"leaseCounter":{"N":"7"}},"Expected":{"leaseKey":{"Exists":false}}`,
			true, `{leaseCounter:7 leaseKey:"s1" leaseOwner:"A"}`},
		{"create again", "PutItem", `"Item":{"leaseKey":{"S":"s1"}},"Expected":{"leaseKey":{"Exists":false}}`,
			false, `{leaseCounter:7 leaseKey:"s1" leaseOwner:"A"}`},
		{"renew", "UpdateItem", `"AttributeUpdates":{"leaseCounter":{"Action":"PUT","Value":{"N":"8"}}},
			"Expected":{"leaseCounter":{"Value":{"N":"7"},"Exists":true},"checkpointOwner":{"Exists":false}},"ReturnValuesOnConditionCheckFailure":"ALL_OLD"`,
			true, `{leaseCounter:8 leaseKey:"s1" leaseOwner:"A"}`},
		{"renew again", "UpdateItem", `"AttributeUpdates":{"leaseCounter":{"Action":"PUT","Value":{"N":"8"}}},"Expected":{"leaseCounter":{"Value":{"N":"7"},"Exists":true}}`,
			false, `{leaseCounter:8 leaseKey:"s1" leaseOwner:"A"}`},
		{"take", "UpdateItem", `"AttributeUpdates":{"leaseCounter":{"Action":"PUT","Value":{"N":"9"}},"leaseOwner":{"Action":"PUT","Value":{"S":"B"}},"ownerSwitchesSinceCheckpoint":{"Action":"ADD","Value":{"N":"1"}},"throughputKBps":{"Value":{"N":"0.0"}}},
			"Expected":{"leaseOwner":{"Value":{"S":"A"},"Exists":true},"leaseCounter":{"Value":{"N":"8"},"Exists":true}}`,
			true, `{leaseCounter:9 leaseKey:"s1" leaseOwner:"B" ownerSwitchesSinceCheckpoint:1 throughputKBps:0}`},
		{"evict", "UpdateItem", `"AttributeUpdates":{"leaseCounter":{"Action":"ADD","Value":{"N":"1"}},"leaseOwner":{"Action":"DELETE"},"ownerSwitchesSinceCheckpoint":{"Action":"DELETE"},"throughputKBps":{"Action":"DELETE"}},
			"Expected":{"leaseKey":{"Value":{"S":"s1"},"Exists":true},"leaseOwner":{"Value":{"S":"B"},"Exists":true}}`,
			true, `{leaseCounter:10 leaseKey:"s1"}`},
		{"delete", "DeleteItem", ``, true, "none"},
		{"evict what is gone", "UpdateItem", `"AttributeUpdates":{"leaseCounter":{"Action":"ADD","Value":{"N":"1"}}},"Expected":{"leaseKey":{"Value":{"S":"s1"},"Exists":true}}`,
			false, "none"},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *T) {
			members := step.members
			if step.operation != "PutItem" {
				members = `"Key":{"leaseKey":{"S":"s1"}}`
				if step.members != "" {
					members += "," + step.members
				}
			}
			t.olderHolds(step.holds, t.send(step.operation, fmt.Sprintf(`{"TableName":%q,%s}`, *tb.name, members)))
			t.Equal(step.after, t.get(tb, lease("s1")))
		})
	}
}

// Of many writers on one condition one succeeds; additions all count.
func oneOfMany(t *T) {
	tb := t.create(t.leases())
	t.put(tb, item{"leaseKey": str("s1"), "leaseCounter": num("7")})
	const many = 20
	all := func(write func() error) (succeeded int) {
		errs := make([]error, many)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { errs[i] = write() })
		}
		wg.Wait()
		for _, err := range errs {
			switch codeOf(err) {
			case "ConditionalCheckFailedException":
			default:
				t.OK(err)
				succeeded++
			}
		}
		return succeeded
	}
	t.Run("condition", func(t *T) {
		t.Equal(1, all(func() error {
			_, err := t.update(tb, lease("s1"), "SET leaseCounter = :n8", pool(), condition("leaseCounter = :n7"))
			return err
		}), "successes")
	})
	t.Run("creation", func(t *T) {
		t.Equal(1, all(func() error {
			_, err := t.dynamodb.PutItem(t.ctx, &dynamodb.PutItemInput{TableName: tb.name, Item: lease("s2"), ConditionExpression: aws.String("attribute_not_exists(leaseKey)")})
			return err
		}), "successes")
	})
	t.Run("addition", func(t *T) {
		t.Equal(many, all(func() error {
			_, err := t.update(tb, lease("s3"), "ADD leaseCounter :n1", pool())
			return err
		}), "successes")
		t.Equal(`{leaseCounter:20 leaseKey:"s3"}`, t.get(tb, lease("s3")))
	})
}
