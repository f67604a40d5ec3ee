package leader

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/go-kcl/kcl/internal/ddb"
	pause "github.com/go-kcl/kcl/internal/wait"
)

// The conditions of the lock's writes, as Java sends them.
const (
	ifAbsent   = "attribute_not_exists(#pk)"
	ifReleased = "attribute_exists(#pk) AND #ir = :ir"
	ifVersion  = "attribute_exists(#pk) AND #rvn = :rvn"
	ifOwned    = "attribute_exists(#pk) AND #rvn = :rvn AND #on = :on"
)

// table is the lock's item in its table.
type table struct {
	client       *dynamodb.Client
	name         string
	keyAttribute string
}

// answer is what came of a conditional write.
type answer struct {
	done bool
	// old is the item that refused the write, if there is one that can be read.
	old   lock
	found bool
}

func answerOf(what string, err error) (answer, error) {
	item, failed := ddb.ConditionFailed(err)
	if !failed {
		return answer{done: err == nil}, ddb.Error(what, err)
	}
	if len(item) == 0 {
		return answer{}, nil
	}
	// An item that cannot be read is reported by the next look.
	old, err := decodeLock(item)
	return answer{old: old, found: err == nil}, nil
}

func (t table) key() map[string]types.AttributeValue {
	return map[string]types.AttributeValue{t.keyAttribute: str(lockKey)}
}

func (t table) what(verb string) string { return verb + " the leader's lock in table " + t.name }

// read reads the item, strongly consistent.
func (t table) read(ctx context.Context) (l lock, found bool, err error) {
	out, err := t.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName:      &t.name,
		Key:            t.key(),
		ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return lock{}, false, ddb.Error(t.what("read"), err)
	}
	if len(out.Item) == 0 {
		return lock{}, false, nil
	}
	l, err = decodeLock(out.Item)
	return l, err == nil, err
}

// take puts the whole item, as acquire, reclaim or steal; version is that of the
// item to steal.
func (t table) take(ctx context.Context, a action, l lock, version string) (answer, error) {
	in := &dynamodb.PutItemInput{
		TableName:                           &t.name,
		Item:                                l.encode(t.keyAttribute),
		ConditionExpression:                 aws.String(ifAbsent),
		ExpressionAttributeNames:            map[string]string{"#pk": t.keyAttribute},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	switch a {
	case reclaim:
		in.ConditionExpression = aws.String(ifReleased)
		in.ExpressionAttributeNames["#ir"] = attrReleased
		in.ExpressionAttributeValues = map[string]types.AttributeValue{":ir": str(released)}
	case steal:
		in.ConditionExpression = aws.String(ifVersion)
		in.ExpressionAttributeNames["#rvn"] = attrVersion
		in.ExpressionAttributeValues = map[string]types.AttributeValue{":rvn": str(version)}
	}
	err := apart(ctx, func() error { _, err := t.client.PutItem(ctx, in); return err })
	return answerOf(t.what("take"), err)
}

// renew writes l's version and duration if the item still is l.owner's and has
// the version known.
func (t table) renew(ctx context.Context, l lock, known string) (answer, error) {
	names, values := t.owned(l.owner, known)
	names["#ld"] = attrDuration
	values[":ld"], values[":newRvn"] = l.encodeDuration(), str(l.version)
	in := &dynamodb.UpdateItemInput{
		TableName:                           &t.name,
		Key:                                 t.key(),
		UpdateExpression:                    aws.String("SET #ld = :ld, #rvn = :newRvn"),
		ConditionExpression:                 aws.String(ifOwned),
		ExpressionAttributeNames:            names,
		ExpressionAttributeValues:           values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	err := apart(ctx, func() error { _, err := t.client.UpdateItem(ctx, in); return err })
	return answerOf(t.what("renew"), err)
}

// free deletes the item if it still is the owner's and has the version known.
func (t table) free(ctx context.Context, owner, known string) (freed bool, err error) {
	names, values := t.owned(owner, known)
	in := &dynamodb.DeleteItemInput{
		TableName:                 &t.name,
		Key:                       t.key(),
		ConditionExpression:       aws.String(ifOwned),
		ExpressionAttributeNames:  names,
		ExpressionAttributeValues: values,
	}
	err = apart(ctx, func() error { _, err := t.client.DeleteItem(ctx, in); return err })
	ans, err := answerOf(t.what("free"), err)
	return ans.done, err
}

const (
	// conflictTries is how often a write is tried that meets a transaction on the
	// lock's item, and conflictPause the pause in between.
	conflictTries = 5
	conflictPause = 50 * time.Millisecond
)

// apart repeats a write that met a transaction: those of the single-table
// migration go through only while the lock is held, so they look at its item.
// The SDK does not repeat it.
func apart(ctx context.Context, write func() error) error {
	for try := 1; ; try++ {
		err := write()
		if ddb.Code(err) != "TransactionConflictException" || try == conflictTries || !pause.For(ctx, conflictPause) {
			return err
		}
	}
}

func (t table) owned(owner, version string) (map[string]string, map[string]types.AttributeValue) {
	return map[string]string{"#pk": t.keyAttribute, "#rvn": attrVersion, "#on": attrOwner},
		map[string]types.AttributeValue{":rvn": str(version), ":on": str(owner)}
}
