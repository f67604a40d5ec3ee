package singletable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/go-kcl/kcl/coordinator"
	"github.com/go-kcl/kcl/internal/chance"
	"github.com/go-kcl/kcl/internal/ddb"
	"github.com/go-kcl/kcl/internal/entity"
	"github.com/go-kcl/kcl/internal/wait"
)

type item = map[string]types.AttributeValue

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

const (
	conflictTries = 5
	conflictPause = 50 * time.Millisecond // to twice that
)

// transact runs a transaction, and again a few times if another write was going
// on: the leader's own heartbeat of the lock that it checks is one. refused has
// for each action nil, or the item that did not fulfil its condition, which is
// empty if there is none or it was not asked for. If nothing was refused, all of
// it was done. When ctx ends, so that nothing is known, the error is its cause.
func (t *Tables) transact(ctx context.Context, what string, actions []types.TransactWriteItem) (refused []item, err error) {
	for try := 1; ; try++ {
		_, err = ddb.Call(ctx, t.RequestTimeout, what, func(ctx context.Context) (*dynamodb.TransactWriteItemsOutput, error) {
			return t.Client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: actions})
		})
		refused = make([]item, len(actions))
		if err == nil {
			return refused, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s: %w", what, context.Cause(ctx))
		}
		var cancelled *types.TransactionCanceledException
		if !errors.As(err, &cancelled) {
			return nil, err
		}
		conflict, conditions := false, false
		for i, r := range cancelled.CancellationReasons[:min(len(actions), len(cancelled.CancellationReasons))] {
			switch aws.ToString(r.Code) {
			case "ConditionalCheckFailed":
				conditions = true
				if refused[i] = r.Item; r.Item == nil {
					refused[i] = item{}
				}
			case "TransactionConflict":
				conflict = true
			}
		}
		switch {
		case conditions:
			return refused, nil
		case !conflict || try == conflictTries:
			return nil, err
		case !wait.For(ctx, conflictPause+chance.Below(conflictPause)):
			return nil, fmt.Errorf("%s: %w", what, context.Cause(ctx))
		}
	}
}

// expression gathers the placeholders of one action.
type expression struct {
	names  map[string]string
	values item
}

// equals returns "#name = :value" for each attribute, in order of names.
func (e *expression) equals(attributes item) (terms []string) {
	if e.names == nil {
		e.names, e.values = map[string]string{}, item{}
	}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		n, v := fmt.Sprintf("#n%d", len(e.values)), fmt.Sprintf(":v%d", len(e.values))
		e.names[n], e.values[v] = name, attributes[name]
		terms = append(terms, n+" = "+v)
	}
	return terms
}

// fence is true while the lock is this worker's.
func (t *Tables) fence() types.TransactWriteItem {
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
		TableName:                 &t.Legacy,
		Key:                       item{coordinator.LegacyKey: str(lockKey)},
		ConditionExpression:       aws.String("ownerName = :owner"),
		ExpressionAttributeValues: item{":owner": str(t.Worker)},
	}}
}

// asRead is the condition that the item says what was read: by whom it was
// written is no part of it, for the time already tells.
func asRead(s State) item {
	all := s.Values()
	return item{"tm": all["tm"], "mts": all["mts"]}
}

// write is the change of the migration's item that a decision asks for.
func (t *Tables) write(d Decision, read State) types.TransactWriteItem {
	key := item{coordinator.LegacyKey: str(coordinator.TableMigrationKey)}
	var e expression
	switch d.Do {
	case Create:
		return types.TransactWriteItem{Put: &types.Put{
			TableName:                &t.Legacy,
			Item:                     d.State.Item().Encode(coordinator.LegacyKey),
			ConditionExpression:      aws.String("attribute_not_exists(#key)"),
			ExpressionAttributeNames: map[string]string{"#key": coordinator.LegacyKey},
		}}
	case Update:
		condition := strings.Join(append(e.equals(key), e.equals(asRead(read))...), " AND ")
		set := "SET " + strings.Join(e.equals(d.State.Values()), ", ")
		return types.TransactWriteItem{Update: &types.Update{
			TableName: &t.Legacy, Key: key, UpdateExpression: &set, ConditionExpression: &condition,
			ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		}}
	default: // Delete
		condition := strings.Join(e.equals(asRead(read)), " AND ")
		return types.TransactWriteItem{Delete: &types.Delete{
			TableName: &t.Legacy, Key: key, ConditionExpression: &condition,
			ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		}}
	}
}

// finalize is the transaction that completes the migration. accept says that the
// lease table has a copy, which says COMPLETE.
func (t *Tables) finalize(d Decision, read State, accept bool) []types.TransactWriteItem {
	copied := &types.Put{
		TableName:                           &t.Lease,
		Item:                                d.State.Item().Encode(entity.LeaseTableKey),
		ConditionExpression:                 aws.String("attribute_not_exists(leaseKey)"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if accept {
		copied.ConditionExpression = aws.String("tm = :complete")
		copied.ExpressionAttributeValues = item{":complete": str(string(Complete))}
	}
	var e expression
	condition := strings.Join(e.equals(asRead(read)), " AND ")
	return []types.TransactWriteItem{
		t.fence(),
		{Put: copied},
		{Put: &types.Put{
			TableName: &t.Legacy, Item: d.State.Item().Encode(coordinator.LegacyKey), ConditionExpression: &condition,
			ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		}},
	}
}

// putLock takes the lease table's lock if there is none.
func (t *Tables) putLock(lock item) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{
		TableName:                &t.Lease,
		Item:                     coordinator.Item{Key: lockKey, Type: entity.Leader, Attributes: lock}.Encode(entity.LeaseTableKey),
		ConditionExpression:      aws.String("attribute_not_exists(#pk)"),
		ExpressionAttributeNames: map[string]string{"#pk": entity.LeaseTableKey},
	}}
}
