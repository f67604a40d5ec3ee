package singletable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/coordinator"
	"github.com/go-kcl/kcl/internal/entity"
)

const (
	// moveBatch is how many items one transaction moves: a put and a delete each,
	// beside the fence, of the 100 actions that DynamoDB allows.
	moveBatch = 25
	// moveTries is how often a batch is tried whose items were found in the lease
	// table: each time one conflict more may be known.
	moveTries = moveBatch + 2
)

var (
	// ErrStuck says that an item of the legacy table cannot be moved. A human
	// must see to it; the error names the item and the reason.
	ErrStuck = errors.New("item cannot be moved into the lease table")
	// ErrNotLeader says that the lock is not this worker's.
	ErrNotLeader = errors.New("the leader's lock is another worker's")
)

// moving is an item on its way.
type moving struct {
	key    string
	legacy item // as read
	put    item // as it is to be in the lease table; nil if it is there already
	// over is the item there that put replaces, as read; nil if there is none.
	over item
}

// Move moves all but the lock and the migration's item from the legacy table
// into the lease table, in batches, while this worker has the lock. A batch is
// moved as a whole or not at all. It begins none once ctx has ended, and then
// returns its cause. What it has moved stays moved.
func (t *Tables) Move(ctx context.Context) (batches int, err error) {
	var all []moving
	var stuck error
	err = t.scan(ctx, t.Legacy, func(it item) {
		m, move, bad := plan(it)
		switch {
		case bad != nil:
			stuck = errors.Join(stuck, bad)
		case move:
			all = append(all, m)
		}
	})
	if err != nil {
		return 0, err
	}
	for len(all) > 0 {
		if ctx.Err() != nil {
			return batches, context.Cause(ctx)
		}
		n := min(len(all), moveBatch)
		if err := t.moveBatch(ctx, all[:n]); err != nil {
			return batches, err
		}
		all = all[n:]
		batches++
	}
	return batches, stuck
}

// plan says what becomes of an item of the legacy table. The attributes stay as
// they are, whatever they are; an item that has no kind gets the one that its key
// tells. One whose kind nobody knows would be a broken lease in the lease table.
func plan(it item) (m moving, move bool, err error) {
	d, ok := coordinator.DecodeItem(it, coordinator.LegacyKey)
	switch {
	case !ok, d.Key == lockKey, d.Key == coordinator.TableMigrationKey:
		return moving{}, false, nil
	case d.Type == "":
		if s, said := it[entity.Attribute].(*types.AttributeValueMemberS); said && s.Value != "" {
			d.Type = entity.Type(s.Value) // of a later version
		}
	}
	if d.Type == "" || d.Type == entity.Lease {
		return moving{}, false, fmt.Errorf("%w: %s has no %s of a coordinator's item: give it the right one, or delete it", ErrStuck, d.Key, entity.Attribute)
	}
	if _, taken := d.Attributes[entity.LeaseTableKey]; taken {
		return moving{}, false, fmt.Errorf("%w: %s has an attribute %s: delete that", ErrStuck, d.Key, entity.LeaseTableKey)
	}
	return moving{key: d.Key, legacy: it, put: d.Encode(entity.LeaseTableKey)}, true, nil
}

// resolve says what becomes of an item of which the lease table has one, too.
//
//	lease table's item                       the legacy one is
//	the same                                 deleted
//	Migration3.0, last changed later         deleted
//	Migration3.0, last changed before        moved over it
//	any other                                in the way of the migration
func resolve(m moving, there item) (moving, error) {
	had, wants := maps.Clone(there), maps.Clone(m.put)
	delete(had, entity.Attribute) // an old version's lacks it
	delete(wants, entity.Attribute)
	if reflect.DeepEqual(had, wants) {
		m.put, m.over = nil, nil
		return m, nil
	}
	if m.key == coordinator.ClientVersionKey {
		before, ok1 := changedAt(there)
		now, ok2 := changedAt(m.put)
		switch {
		case ok1 && ok2 && now > before:
			m.over = there
			return m, nil
		case ok1 && ok2:
			m.put, m.over = nil, nil
			return m, nil
		}
	}
	return m, fmt.Errorf("%w: %s is in both tables, and not the same: delete one of the two", ErrStuck, m.key)
}

func changedAt(it item) (ms int64, ok bool) {
	n, ok := it["mts"].(*types.AttributeValueMemberN)
	if !ok {
		return 0, false
	}
	ms, err := strconv.ParseInt(n.Value, 10, 64)
	return ms, err == nil
}

// moveBatch moves a batch, and again as it meets items in the lease table.
func (t *Tables) moveBatch(ctx context.Context, batch []moving) error {
	what := fmt.Sprintf("move %d items from table %s to table %s", len(batch), t.Legacy, t.Lease)
	for range moveTries {
		actions, of := t.batch(batch)
		refused, err := t.transact(ctx, what, actions)
		if err != nil {
			return err
		}
		if refused[0] != nil {
			return fmt.Errorf("%s: %w", what, ErrNotLeader)
		}
		again := false
		for i, there := range refused {
			if there == nil {
				continue
			}
			m := &batch[of[i]]
			if actions[i].Delete != nil {
				return fmt.Errorf("%s: %w: item %s was changed meanwhile", what, kcl.ErrDependency, m.key)
			}
			if len(there) == 0 { // it was there a moment ago
				m.over = nil
			} else if *m, err = resolve(*m, there); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			again = true
		}
		if !again {
			return nil
		}
	}
	return fmt.Errorf("%s: %w: the lease table's items changed %d times", what, kcl.ErrDependency, moveTries)
}

// batch returns the actions of a batch, and for each the place of its item.
func (t *Tables) batch(batch []moving) (actions []types.TransactWriteItem, of map[int]int) {
	actions, of = append(actions, t.fence()), map[int]int{}
	for i, m := range batch {
		if m.put != nil {
			put := &types.Put{
				TableName:                           &t.Lease,
				Item:                                m.put,
				ConditionExpression:                 aws.String("attribute_not_exists(leaseKey)"),
				ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
			}
			if m.over != nil {
				var e expression
				put.ConditionExpression = aws.String(strings.Join(e.equals(m.over), " AND "))
				put.ExpressionAttributeNames, put.ExpressionAttributeValues = e.names, e.values
			}
			of[len(actions)] = i
			actions = append(actions, types.TransactWriteItem{Put: put})
		}
		// What was changed since it was listed must not be lost.
		var e expression
		of[len(actions)] = i
		actions = append(actions, types.TransactWriteItem{Delete: &types.Delete{
			TableName:                 &t.Legacy,
			Key:                       item{coordinator.LegacyKey: str(m.key)},
			ConditionExpression:       aws.String(strings.Join(e.equals(m.legacy), " AND ")),
			ExpressionAttributeNames:  e.names,
			ExpressionAttributeValues: e.values,
		}})
	}
	return actions, of
}
