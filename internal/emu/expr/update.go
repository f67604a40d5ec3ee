package expr

import (
	"slices"
	"strings"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

// Update is an update of one item. A nil Update changes nothing (but creates
// the item).
type Update struct {
	actions []action
	targets *pathTree // of the actions' paths, leaves numbered as they are
	older   bool      // AttributeUpdates
}

// verb says what an action does to its target.
type verb string

const (
	set       verb = "SET"
	remove    verb = "REMOVE"
	add       verb = "ADD"
	deleteOut verb = "DELETE" // members out of a set
)

// action changes one target. Only SET has a value of more than the one operand.
type action struct {
	verb   verb
	target path
	value  setValue
}

// newUpdate joins actions. clash is set when two of their targets overlap.
func newUpdate(actions []action) (u *Update, clash *pathClash) {
	paths := make([]path, len(actions))
	for i, a := range actions {
		paths[i] = a.target
	}
	tree, clash := newPathTree(paths)
	return &Update{actions: actions, targets: tree}, clash
}

// CheckKeys refuses an update with one of the table's key attributes among its
// targets.
func (u *Update) CheckKeys(keys ...string) error {
	if u == nil {
		return nil
	}
	for _, a := range u.actions {
		if name := a.target[0].name; slices.Contains(keys, name) {
			return attr.Invalidf("One or more parameter values were invalid: Cannot update attribute %s. This attribute is part of the key", name)
		}
	}
	return nil
}

// Assigned says what the update writes to a top-level attribute as a whole:
// literal is true when the value is known from the request (SET a = :v, PUT),
// in which case it is v. ok is false when the attribute is no target of SET,
// PUT or ADD.
func (u *Update) Assigned(name string) (v attr.Value, literal, ok bool) {
	if u == nil {
		return attr.Value{}, false, false
	}
	for _, a := range u.actions {
		if len(a.target) == 1 && a.target[0].name == name && (a.verb == set || a.verb == add) {
			literal = a.verb == set && a.value.op == 0 && a.value.left.kind == byValue
			if literal {
				v = a.value.left.value
			}
			return v, literal, true
		}
	}
	return attr.Value{}, false, false
}

// onlyRemoves reports whether the update has actions, none of which creates an
// item.
func (u *Update) onlyRemoves() bool {
	if u == nil || len(u.actions) == 0 {
		return false
	}
	return !slices.ContainsFunc(u.actions, func(a action) bool { return a.verb == set || a.verb == add })
}

// Apply returns the item after the update. old is nil when there is no item; key
// is what a created item starts with. The result is nil when old is nil and the
// update only removes, which creates nothing. Neither old nor key is modified.
//
// Every right-hand side and every list index means old. The error is a
// ValidationException that shows only on the stored item.
func (u *Update) Apply(old, key attr.Item) (attr.Item, error) {
	if old == nil && u.onlyRemoves() {
		return nil, nil
	}
	base := old
	if old == nil {
		base = key
	}
	if u == nil || len(u.actions) == 0 {
		return base, nil
	}
	return change{u, old}.item(u.targets, base)
}

// Part returns what the update's targets hold in the item, nested targets with
// only their part of the document, or nil: given the old item it is the
// attributes of UPDATED_OLD, given the new one those of UPDATED_NEW.
func (u *Update) Part(item attr.Item) attr.Item {
	if u == nil || item == nil {
		return nil
	}
	if part := u.targets.pick(item); len(part) > 0 {
		return part
	}
	return nil
}

// change is an update at work on an item.
type change struct {
	*Update
	old attr.Item
}

// item returns a copy of a map with what t says below it changed. The map is the
// item itself or an M in it.
func (c change) item(t *pathTree, m attr.Item) (attr.Item, error) {
	m = m.Clone()
	for i := range t.kids {
		k := &t.kids[i]
		name := k.step.name
		v, there := m[name]
		v, keep, err := c.value(k, v, there)
		if err != nil {
			return nil, err
		}
		if keep {
			m[name] = v
		} else {
			delete(m, name)
		}
	}
	return m, nil
}

// value returns what becomes of the value v at t; keep is false when nothing is
// left or was there.
func (c change) value(t *pathTree, v attr.Value, there bool) (after attr.Value, keep bool, err error) {
	if t.leaf >= 0 {
		return c.act(&c.actions[t.leaf], v, there)
	}
	switch index := t.kids[0].step.isIndex(); {
	case !there && c.old == nil && c.removesOnly(t):
		return v, false, nil
	case !there, index && v.Kind() != attr.L, !index && v.Kind() != attr.M:
		return v, false, errDocumentPath
	case index:
		list, err := c.list(t, v.List())
		if err == nil {
			err = list.CheckNesting()
		}
		return list, true, err
	}
	m, err := c.item(t, v.Map())
	if err != nil {
		return v, false, err
	}
	after = attr.Map(m)
	return after, true, after.CheckNesting()
}

// removesOnly reports whether nothing under t sets or adds: an absent item bears
// the removal of what its attributes do not have.
func (c change) removesOnly(t *pathTree) bool {
	if t.leaf >= 0 {
		v := c.actions[t.leaf].verb
		return v == remove || v == deleteOut
	}
	for i := range t.kids {
		if !c.removesOnly(&t.kids[i]) {
			return false
		}
	}
	return true
}

// list returns a copy of a list with what t says below it changed. Elements past
// its end are appended in the order of their indexes.
func (c change) list(t *pathTree, old []attr.Value) (attr.Value, error) {
	elems := slices.Clone(old)
	gone := make(map[int]bool)
	for _, k := range t.byIndex() {
		i := k.step.index
		var v attr.Value
		there := i < len(old)
		if there {
			v = old[i]
		}
		v, keep, err := c.value(k, v, there)
		switch {
		case err != nil:
			return attr.Value{}, err
		case there && keep:
			elems[i] = v
		case there:
			gone[i] = true
		case keep:
			elems = append(elems, v)
		}
	}
	kept := elems[:0]
	for i, e := range elems {
		if !gone[i] {
			kept = append(kept, e)
		}
	}
	return attr.List(kept...), nil
}

// act carries out one action on its target.
func (c change) act(a *action, v attr.Value, there bool) (after attr.Value, keep bool, err error) {
	switch a.verb {
	case set:
		after, err = a.value.of(c.old)
		return after, true, err
	case remove:
		return v, false, nil
	}
	operand := a.value.left.value
	if !there {
		return operand, a.verb == add, nil
	}
	if v.Kind() != operand.Kind() {
		if c.older {
			return v, false, attr.Invalidf("Type mismatch for attribute to update")
		}
		return v, false, errOperandType
	}
	switch {
	case a.verb == deleteOut:
		after = attr.Minus(v, operand)
		return after, len(after.Members()) > 0, nil
	case v.Kind() == attr.N:
		after, err = attr.Add(v, operand)
	case v.Kind() == attr.L: // the older form only
		after, err = appendList(v, operand)
	default:
		after = attr.Union(v, operand)
	}
	return after, true, err
}

// String renders the update in its normal form: its actions, sorted. A nil
// update is "".
func (u *Update) String() string { return strings.Join(u.Actions(), ", ") }

// Actions returns the normal forms, sorted, of the update's single actions, such
// as `SET leaseCounter = {"N":"8"}`, whichever form they came in.
func (u *Update) Actions() []string {
	if u == nil {
		return nil
	}
	var out []string
	for _, a := range u.actions {
		b := append([]byte(a.verb), ' ')
		b = a.target.appendTo(b)
		switch a.verb {
		case set:
			b = a.value.appendTo(append(b, " = "...))
		case add, deleteOut:
			b = a.value.appendTo(append(b, ' '))
		}
		out = append(out, string(b))
	}
	slices.Sort(out)
	return out
}
