package expr

import (
	"iter"
	"slices"
	"strings"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

// Condition is a condition or a filter. A nil Condition always holds.
type Condition struct {
	root node
	from member
}

// Eval reports whether the condition holds for the item; an absent item is nil.
func (c *Condition) Eval(item attr.Item) bool {
	return c == nil || c.root.holds(item)
}

// CheckNoKeys refuses a Query filter that names one of the table's or index's
// key attributes.
func (c *Condition) CheckNoKeys(keys ...string) error {
	if c == nil {
		return nil
	}
	for name := range attributes(c.root) {
		if slices.Contains(keys, name) {
			what := "Filter Expression"
			if c.from != "FilterExpression" {
				what = string(c.from)
			}
			return attr.Invalidf("%s can only contain non-primary key attributes: Primary key attribute: %s", what, name)
		}
	}
	return nil
}

// node is a part of a condition that is true or false of an item. Only operands
// of the request can be wrong, and parsing has refused those, so evaluation
// cannot fail.
type node interface {
	holds(item attr.Item) bool
}

type (
	// all is AND, some is OR, of two nodes or more.
	all  []node
	some []node
	// not is NOT.
	not struct{ node node }
	// comparison is one of = <> < <= > >=.
	comparison struct {
		op          string
		left, right operand
	}
	between struct{ operand, low, high operand }
	in      struct {
		operand operand
		list    []operand
	}
	// call is a function that is a condition by itself.
	call struct {
		name string
		args []operand
	}
)

func (n all) holds(item attr.Item) bool {
	for _, m := range n {
		if !m.holds(item) {
			return false
		}
	}
	return true
}

func (n some) holds(item attr.Item) bool {
	for _, m := range n {
		if m.holds(item) {
			return true
		}
	}
	return false
}

func (n not) holds(item attr.Item) bool { return !n.node.holds(item) }

func (n comparison) holds(item attr.Item) bool {
	left, okLeft := n.left.in(item)
	right, okRight := n.right.in(item)
	there := okLeft && okRight
	switch n.op {
	case "=":
		return there && left.Equal(right)
	case "<>": // true also when one side or both are missing
		return !there || !left.Equal(right)
	}
	if !there {
		return false
	}
	order, ok := attr.Compare(left, right)
	if !ok {
		return false
	}
	switch n.op {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}

func (n between) holds(item attr.Item) bool {
	return comparison{">=", n.operand, n.low}.holds(item) && comparison{"<=", n.operand, n.high}.holds(item)
}

func (n in) holds(item attr.Item) bool {
	for _, o := range n.list {
		if (comparison{"=", n.operand, o}).holds(item) {
			return true
		}
	}
	return false
}

func (n call) holds(item attr.Item) bool {
	v, ok := n.args[0].in(item)
	switch n.name {
	case "attribute_exists":
		return ok
	case "attribute_not_exists":
		return !ok
	}
	w, okSecond := n.args[1].in(item)
	if !ok || !okSecond {
		return false
	}
	switch n.name {
	case "attribute_type":
		return v.Kind().String() == w.Text()
	case "begins_with":
		return v.Kind() == w.Kind() && isText(v) && strings.HasPrefix(v.Text(), w.Text())
	}
	return contains(v, w)
}

func isText(v attr.Value) bool { return v.Kind() == attr.S || v.Kind() == attr.B }

// contains is the function of that name: part of a string or binary, member of a
// set, element of a list; maps contain nothing.
func contains(v, w attr.Value) bool {
	switch {
	case isText(v):
		return v.Kind() == w.Kind() && strings.Contains(v.Text(), w.Text())
	case v.Kind() == attr.L:
		return slices.ContainsFunc(v.List(), w.Equal)
	}
	return v.Has(w)
}

// attributes yields the top-level attributes that a node reads, perhaps more
// than once.
func attributes(n node) iter.Seq[string] {
	return func(yield func(string) bool) {
		operands(n, func(o operand) bool { return o.kind != byPath || yield(o.path[0].name) })
	}
}

// operands calls visit for every operand under n until it returns false.
func operands(n node, visit func(operand) bool) bool {
	var each func(os ...operand) bool
	each = func(os ...operand) bool {
		for _, o := range os {
			if !visit(o) || !each(o.args...) {
				return false
			}
		}
		return true
	}
	switch n := n.(type) {
	case all:
		return !slices.ContainsFunc(n, func(m node) bool { return !operands(m, visit) })
	case some:
		return !slices.ContainsFunc(n, func(m node) bool { return !operands(m, visit) })
	case not:
		return operands(n.node, visit)
	case comparison:
		return each(n.left, n.right)
	case between:
		return each(n.operand, n.low, n.high)
	case in:
		return each(n.operand) && each(n.list...)
	case call:
		return each(n.args...)
	}
	return true
}
