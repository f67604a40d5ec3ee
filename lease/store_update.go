package lease

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/ddb"
	"github.com/go-kcl/kcl/internal/entity"
)

// write gathers the clauses of one conditional write. Every name is a
// placeholder, so that none can collide with a reserved word.
type write struct {
	sets, removes, adds, conds []string
	names                      map[string]string
	values                     item
}

func newWrite() *write { return &write{names: map[string]string{}, values: item{}} }

func (w *write) name(attr string) string {
	w.names["#"+attr] = attr
	return "#" + attr
}

func (w *write) value(prefix, attr string, v types.AttributeValue) string {
	w.values[prefix+attr] = v
	return prefix + attr
}

func (w *write) set(attr string, v types.AttributeValue) {
	w.sets = append(w.sets, w.name(attr)+" = "+w.value(":", attr, v))
}

func (w *write) setAll(attrs item) {
	for attr, v := range attrs {
		w.set(attr, v)
	}
}

func (w *write) remove(attr string) { w.removes = append(w.removes, w.name(attr)) }

func (w *write) increment(attr string) {
	w.adds = append(w.adds, w.name(attr)+" "+w.value(":add_", attr, integerValue(1)))
}

func (w *write) ifEqual(attr string, v types.AttributeValue) {
	w.conds = append(w.conds, w.name(attr)+" = "+w.value(":was_", attr, v))
}

func (w *write) ifAbsent(attr string) {
	w.conds = append(w.conds, "attribute_not_exists("+w.name(attr)+")")
}

// ifText asks that a text attribute is as it was read, empty meaning absent.
func (w *write) ifText(attr, s string) {
	if s == "" {
		w.ifAbsent(attr)
		return
	}
	w.ifEqual(attr, &str{Value: s})
}

// ifPosition asks that a position is as it was read. A sub-sequence number that
// is absent reads as 0.
func (w *write) ifPosition(attr, subAttr string, p kcl.Position) {
	w.ifText(attr, p.SequenceNumber)
	if p.IsZero() {
		return
	}
	if p.SubSequenceNumber != 0 {
		w.ifEqual(subAttr, integerValue(p.SubSequenceNumber))
		return
	}
	w.conds = append(w.conds, fmt.Sprintf("(attribute_not_exists(%[1]s) OR %[1]s = %[2]s)",
		w.name(subAttr), w.value(":was_", subAttr, integerValue(0))))
}

func (w *write) condition() *string { return aws.String(strings.Join(w.conds, " AND ")) }

// update returns the update expression. The clauses are sorted, so that equal
// writes are equal requests.
func (w *write) update() *string {
	var clauses []string
	for _, c := range []struct {
		word  string
		parts []string
	}{{"SET", w.sets}, {"REMOVE", w.removes}, {"ADD", w.adds}} {
		if len(c.parts) > 0 {
			slices.Sort(c.parts)
			clauses = append(clauses, c.word+" "+strings.Join(c.parts, ", "))
		}
	}
	return aws.String(strings.Join(clauses, " "))
}

// attributeValues is nil rather than empty: DynamoDB refuses an empty map.
func (w *write) attributeValues() item {
	if len(w.values) == 0 {
		return nil
	}
	return w.values
}

// update sends w. When it was done, now is the item that DynamoDB returned, if
// ret asks for it; when the condition failed, old is the item that it met, or
// nil.
func (s *Store) update(ctx context.Context, act, key string, w *write, ret types.ReturnValue) (now, old item, done bool, err error) {
	out, err := call(ctx, s, act, key, func(ctx context.Context) (*dynamodb.UpdateItemOutput, error) {
		return s.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName:                           &s.table,
			Key:                                 keyItem(key),
			UpdateExpression:                    w.update(),
			ConditionExpression:                 w.condition(),
			ExpressionAttributeNames:            w.names,
			ExpressionAttributeValues:           w.attributeValues(),
			ReturnValues:                        ret,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		})
	})
	if old, failed := ddb.ConditionFailed(err); failed {
		return nil, old, false, nil
	}
	if err != nil {
		return nil, nil, false, err
	}
	return out.Attributes, nil, true, nil
}

// after returns the lease that a refused write met: old if DynamoDB returned
// it, else what a consistent read finds, for not every emulator returns the
// item.
func (s *Store) after(ctx context.Context, key string, old item) (Lease, bool, error) {
	if old == nil {
		return s.GetConsistent(ctx, key)
	}
	if entity.Of(old) != entity.Lease {
		return Lease{}, false, nil
	}
	l, err := decode(old, s.multiStream)
	if err != nil {
		return Lease{}, false, fmt.Errorf("item in table %s: %w", s.table, err)
	}
	return l, true, nil
}

// returned reads the item that a write of l returned.
func (s *Store) returned(l Lease, now item) (Lease, error) {
	next, err := decode(now, s.multiStream)
	if err != nil {
		return l, fmt.Errorf("item written to table %s: %w", s.table, err)
	}
	next.Token = l.Token
	return next, nil
}
