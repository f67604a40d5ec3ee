package dynamodb

import (
	"github.com/go-kcl/kcl/internal/emu/attr"
	"github.com/go-kcl/kcl/internal/emu/expr"
)

// writeOptions are the members that PutItem, UpdateItem and DeleteItem share
// besides the expressions.
type writeOptions struct {
	TableName                           *string
	ReturnConsumedCapacity              *string
	ReturnItemCollectionMetrics         *string
	ReturnValues                        *string
	ReturnValuesOnConditionCheckFailure *string
}

func (o *writeOptions) tables() []string { return named(o.TableName) }

// tellOld reports whether a failed condition's error shall carry the item.
func tellOld(member *string) bool { return member != nil && *member == "ALL_OLD" }

// writeAnswer is the answer to a write of one item.
type writeAnswer struct {
	Attributes       attr.Item // left out when empty
	ConsumedCapacity *consumed
}

// appendJSON implements [appender].
func (a writeAnswer) appendJSON(dst []byte) []byte {
	if len(a.Attributes) == 0 {
		return appendAnswer(dst, "", nil, a.ConsumedCapacity)
	}
	return appendAnswer(dst, "Attributes", a.Attributes, a.ConsumedCapacity)
}

// appendAnswer appends an answer of an item, unless its member is "", and of the
// capacity consumed, unless it is nil.
func appendAnswer(dst []byte, member string, item attr.Item, c *consumed) []byte {
	dst = append(dst, '{')
	if member != "" {
		dst = append(append(append(dst, '"'), member...), `":`...)
		dst = item.AppendJSON(dst)
		if c != nil {
			dst = append(dst, ',')
		}
	}
	if c != nil {
		dst = c.appendJSON(append(dst, `"ConsumedCapacity":`...))
	}
	return append(dst, '}')
}

// compile checks what the three writes have in common, up to the table. item is
// the item or the key, member its name in the request.
func (o *writeOptions) compile(op expr.Op, x *expr.Request, item attr.Item, member string) (expr.Parsed, detail, error) {
	var c constraints
	c.table(o.TableName, "tableName")
	c.required(item != nil, member)
	want := c.detail(o.ReturnConsumedCapacity)
	c.oneOf(o.ReturnItemCollectionMetrics, "returnItemCollectionMetrics", "SIZE", "NONE")
	c.oneOf(o.ReturnValues, "returnValues", "ALL_NEW", "UPDATED_OLD", "ALL_OLD", "NONE", "UPDATED_NEW")
	c.oneOf(o.ReturnValuesOnConditionCheckFailure, "returnValuesOnConditionCheckFailure", "ALL_OLD", "NONE")
	c.oneOf(x.ConditionalOperator, "conditionalOperator", "OR", "AND")
	if err := c.err(); err != nil {
		return expr.Parsed{}, want, err
	}
	if op != expr.OpUpdate && o.ReturnValues != nil && *o.ReturnValues != "NONE" && *o.ReturnValues != "ALL_OLD" {
		return expr.Parsed{}, want, invalidf("ReturnValues can only be ALL_OLD or NONE")
	}
	if err := x.CheckForms(op); err != nil {
		return expr.Parsed{}, want, err
	}
	if err := item.Check(); err != nil {
		return expr.Parsed{}, want, err
	}
	parsed, err := x.Parse(op)
	return parsed, want, err
}

// plan returns how to carry out an action alone. attributes picks what the
// answer tells of the item, nil for nothing.
func (a *action) plan(want detail, attributes func(outcome) attr.Item) plan {
	return plan{
		touches: []Touch{a.touch()},
		run: func(v *view) (any, error) {
			t, err := v.dataTable(a.table)
			if err != nil {
				return nil, err
			}
			if err := a.check(t); err != nil {
				return nil, err
			}
			place := a.place(t)
			if v.inConflict(0, t, place) {
				return nil, errConflict
			}
			o, err := a.decide(t, place)
			if err != nil {
				return nil, err
			}
			b := bill{want: want}
			b.addWrite(a.table, o.commit(v), 1)
			answer := writeAnswer{ConsumedCapacity: b.one()}
			if attributes != nil {
				answer.Attributes = attributes(o)
			}
			return answer, nil
		},
	}
}

func (a *action) touch() Touch {
	return Touch{Table: tableName(&a.table), Key: a.item}
}

// putItem is PutItem.
type putItem struct {
	writeOptions
	expr.Request
	Item attr.Item
}

func (r *putItem) compile() (plan, error) {
	parsed, want, err := r.writeOptions.compile(expr.OpPut, &r.Request, r.Item, "item")
	if err != nil {
		return plan{}, err
	}
	a := &action{verb: put, table: *r.TableName, item: r.Item, cond: parsed.Condition, tellOld: tellOld(r.ReturnValuesOnConditionCheckFailure)}
	return a.plan(want, r.oldAttributes()), nil
}

// deleteItem is DeleteItem.
type deleteItem struct {
	writeOptions
	expr.Request
	Key attr.Item
}

func (r *deleteItem) compile() (plan, error) {
	parsed, want, err := r.writeOptions.compile(expr.OpDelete, &r.Request, r.Key, "key")
	if err != nil {
		return plan{}, err
	}
	a := &action{verb: remove, table: *r.TableName, item: r.Key, cond: parsed.Condition, tellOld: tellOld(r.ReturnValuesOnConditionCheckFailure)}
	return a.plan(want, r.oldAttributes()), nil
}

// oldAttributes returns what PutItem and DeleteItem answer: the old item or
// nothing.
func (o *writeOptions) oldAttributes() func(outcome) attr.Item {
	if o.ReturnValues == nil || *o.ReturnValues != "ALL_OLD" {
		return nil
	}
	return func(o outcome) attr.Item { return o.old }
}

// updateItem is UpdateItem.
type updateItem struct {
	writeOptions
	expr.Request
	Key attr.Item
}

func (r *updateItem) compile() (plan, error) {
	parsed, want, err := r.writeOptions.compile(expr.OpUpdate, &r.Request, r.Key, "key")
	if err != nil {
		return plan{}, err
	}
	a := &action{verb: update, table: *r.TableName, item: r.Key, cond: parsed.Condition, update: parsed.Update, tellOld: tellOld(r.ReturnValuesOnConditionCheckFailure)}
	return a.plan(want, r.attributes(parsed.Update)), nil
}

func (r *updateItem) attributes(u *expr.Update) func(outcome) attr.Item {
	if r.ReturnValues == nil {
		return nil
	}
	switch *r.ReturnValues {
	case "ALL_OLD":
		return func(o outcome) attr.Item { return o.old }
	case "ALL_NEW":
		return func(o outcome) attr.Item { return o.item }
	case "UPDATED_OLD":
		return func(o outcome) attr.Item { return u.Part(o.old) }
	case "UPDATED_NEW":
		return func(o outcome) attr.Item { return u.Part(o.item) }
	}
	return nil
}
