package dynamodb

import (
	"github.com/go-kcl/kcl/internal/emu/attr"
	"github.com/go-kcl/kcl/internal/emu/expr"
)

// getItem is GetItem.
type getItem struct {
	expr.Request
	TableName              *string
	Key                    attr.Item
	ConsistentRead         bool
	ReturnConsumedCapacity *string
}

// foundItem is an item in an answer: absent when there is none, {} when the
// projection hits nothing of it.
type foundItem struct {
	Item             *attr.Item `json:",omitempty"`
	ConsumedCapacity *consumed  `json:",omitempty"`
}

// appendJSON implements [appender].
func (f foundItem) appendJSON(dst []byte) []byte {
	if f.Item == nil {
		return appendAnswer(dst, "", nil, f.ConsumedCapacity)
	}
	return appendAnswer(dst, "Item", *f.Item, f.ConsumedCapacity)
}

func (r *getItem) tables() []string { return named(r.TableName) }

func (r *getItem) compile() (plan, error) {
	var c constraints
	c.table(r.TableName, "tableName")
	c.required(r.Key != nil, "key")
	want := c.detail(r.ReturnConsumedCapacity)
	if err := c.err(); err != nil {
		return plan{}, err
	}
	if err := r.CheckForms(expr.OpGet); err != nil {
		return plan{}, err
	}
	if err := r.Key.Check(); err != nil {
		return plan{}, err
	}
	parsed, err := r.Parse(expr.OpGet)
	if err != nil {
		return plan{}, err
	}
	return plan{run: func(v *view) (any, error) {
		t, err := v.dataTable(*r.TableName)
		if err != nil {
			return nil, err
		}
		place, err := t.locate(r.Key)
		if err != nil {
			return nil, err
		}
		item, size := t.rows.asOf(place, v.readAt(r.ConsistentRead))
		b := bill{want: want}
		b.addTable(*r.TableName, readUnits(size, readKind(r.ConsistentRead)))
		answer := foundItem{ConsumedCapacity: b.one()}
		if item != nil {
			part := parsed.Projection.Apply(item)
			answer.Item = &part
		}
		return answer, nil
	}}, nil
}

// locate checks a Key member and returns the storage key of its item.
func (t *table) locate(key attr.Item) (string, error) {
	if err := t.keys.checkKey(key); err != nil {
		return "", err
	}
	if err := t.keys.checkValues(key); err != nil {
		return "", err
	}
	return t.keys.place(key), nil
}
