package dynamodb

import (
	"github.com/go-kcl/kcl/internal/emu/attr"
	"github.com/go-kcl/kcl/internal/emu/expr"
)

// maxItem is the largest size of an item in bytes.
const maxItem = 409_600

// verb is what an action does.
type verb uint8

const (
	put verb = iota
	update
	remove
	check // of a condition, in a transaction
)

// action is one write of an item, alone or as part of a batch or transaction,
// as its request describes it.
type action struct {
	verb    verb
	table   string    // as sent: name or ARN
	item    attr.Item // the whole item of a put, else the key
	cond    *expr.Condition
	update  *expr.Update
	tellOld bool // a failed condition's error carries the item
}

// outcome is what an action comes to in the present state of its table.
type outcome struct {
	table   *table
	place   string
	old     attr.Item // nil: none
	oldSize int
	item    attr.Item // nil: none afterwards
	size    int
}

// fits checks the action against the keys of the table and of its indexes: which
// attributes there are, and their types. In a transaction its error is a reason
// for cancellation.
func (a *action) fits(t *table) error {
	if a.verb == put {
		if err := t.keys.checkItem(a.item); err != nil {
			return err
		}
	} else if err := t.keys.checkKey(a.item); err != nil {
		return err
	}
	if a.verb == update {
		if err := a.update.CheckKeys(t.keys.names()...); err != nil {
			return err
		}
	}
	return a.indexKeys(t, func(x *index, key expr.KeyAttr, v attr.Value) error {
		if v.Kind() != key.Kind {
			return invalidf("One or more parameter values were invalid: Type mismatch for Index Key %s Expected: %s Actual: %s IndexName: %s", key.Name, key.Kind, v.Kind(), x.name)
		}
		return nil
	})
}

// allowed checks the values of an action that fits, and the size of a put's
// item. In a transaction its error refuses the whole request.
func (a *action) allowed(t *table) error {
	if err := t.keys.checkValues(a.item); err != nil {
		return err
	}
	if err := a.indexKeys(t, indexValue); err != nil {
		return err
	}
	if a.verb == put && a.item.Size() > maxItem {
		return errItemTooLarge
	}
	return nil
}

// check is fits and allowed.
func (a *action) check(t *table) error {
	if err := a.fits(t); err != nil {
		return err
	}
	return a.allowed(t)
}

// indexKeys calls f for each value that the request itself gives to a key
// attribute of an index.
func (a *action) indexKeys(t *table, f func(*index, expr.KeyAttr, attr.Value) error) error {
	if a.verb != put && a.verb != update {
		return nil
	}
	for _, x := range t.indexes {
		if !x.life.deleted.IsZero() {
			continue
		}
		for _, key := range x.keys.attrs() {
			v, ok := a.item[key.Name]
			if a.verb == update {
				var literal bool
				v, literal, ok = a.update.Assigned(key.Name)
				ok = ok && literal
			}
			if !ok {
				continue
			}
			if err := f(x, key, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// indexValue checks the value of an index key attribute whose type fits.
func indexValue(x *index, key expr.KeyAttr, v attr.Value) error {
	limit := maxRangeKey
	if key == x.keys.hash {
		limit = maxHashKey
	}
	switch {
	case v.Kind() == attr.N:
	case v.Text() == "":
		return invalidf("One or more parameter values are not valid. A value specified for a secondary index key is not supported. The AttributeValue for a key attribute cannot contain an empty %s value. IndexName: %s, IndexKey: %s", emptyName(v), x.name, key.Name)
	case len(v.Text()) > limit:
		return invalidf("One or more parameter values were invalid: Size of %s has exceeded the maximum size limit of %d bytes. IndexName: %s", key.Name, limit, x.name)
	}
	return nil
}

// place returns the storage key of the action's item, which fits the table.
func (a *action) place(t *table) string { return t.keys.place(a.item) }

// decide tests the condition against the latest item and works out the item
// after the action. Nothing is changed.
func (a *action) decide(t *table, place string) (outcome, error) {
	o := outcome{table: t, place: place}
	o.old, o.oldSize = t.rows.latest(place)
	if !a.cond.Eval(o.old) {
		return o, conditionFailed(a.tellOld, o.old)
	}
	switch a.verb {
	case put:
		o.item, o.size = a.item, a.item.Size()
	case update:
		item, err := a.update.Apply(o.old, a.item)
		if err != nil {
			return o, err
		}
		if err := a.checkComputed(t, item); err != nil {
			return o, err
		}
		if o.item, o.size = item, item.Size(); o.size > maxItem {
			return o, errUpdateTooLarge
		}
	case check:
		o.item, o.size = o.old, o.oldSize
	}
	return o, nil
}

// checkComputed checks the index keys that an update took from the item or
// computed; those that stood in the request have been checked.
func (a *action) checkComputed(t *table, item attr.Item) error {
	for _, x := range t.indexes {
		if !x.life.deleted.IsZero() {
			continue
		}
		for _, key := range x.keys.attrs() {
			_, literal, assigned := a.update.Assigned(key.Name)
			v, ok := item[key.Name]
			if literal || !assigned || !ok {
				continue
			}
			if v.Kind() != key.Kind {
				return invalidf("The update expression attempted to update the secondary index key to unsupported type")
			}
			if err := indexValue(x, key, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// commit carries an outcome out.
func (o outcome) commit(v *view) writeCost {
	return o.table.write(o.place, o.old, o.oldSize, o.item, o.size, v)
}

func conditionFailed(tell bool, old attr.Item) error {
	e := refuse("ConditionalCheckFailedException", "The conditional request failed")
	if tell && old != nil {
		e.Fields = map[string]any{"Item": old}
	}
	return e
}
