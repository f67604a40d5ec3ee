package expr

import (
	"slices"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

// KeyAttr is an attribute of a key schema and its declared type, S, N or B.
type KeyAttr struct {
	Name string
	Kind attr.Kind
}

// KeyCondition is the key condition of a Query: one term for the partition key,
// perhaps one for the sort key.
type KeyCondition struct{ terms []keyTerm }

// keyTerm is a condition on one key attribute.
type keyTerm struct {
	name   string
	op     string // = < <= > >= BETWEEN begins_with
	values []attr.Value
	node   node // the same, as it came
}

// String renders the condition in its normal form.
func (k *KeyCondition) String() string {
	var nodes all
	for _, t := range k.terms {
		nodes = append(nodes, t.node)
	}
	return normal(nodes, false).String()
}

// newKeyCondition takes a condition's tree for a key condition.
func newKeyCondition(root node) (*KeyCondition, error) {
	var k KeyCondition
	nodes := []node{root}
	for len(nodes) > 0 {
		n := nodes[0]
		nodes = nodes[1:]
		if conjunction, ok := n.(all); ok {
			nodes = append(slices.Clone([]node(conjunction)), nodes...)
			continue
		}
		t, err := newKeyTerm(n)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(k.terms, func(other keyTerm) bool { return other.name == t.name }) {
			return nil, attr.Invalidf("KeyConditionExpressions must only contain one condition per key")
		}
		k.terms = append(k.terms, t)
	}
	return &k, k.checkCount()
}

func (k *KeyCondition) checkCount() error {
	if len(k.terms) != 1 && len(k.terms) != 2 {
		return attr.Invalidf("Conditions can be of length 1 or 2 only")
	}
	return nil
}

func newKeyTerm(n node) (keyTerm, error) {
	t := keyTerm{node: n}
	var operands []operand
	keyFirst := false // the operator's first operand must be the key
	switch n := n.(type) {
	case some:
		return t, errKeyOperator("OR")
	case not:
		return t, errKeyOperator("NOT")
	case in:
		return t, errKeyOperator("IN")
	case comparison:
		if n.op == "<>" {
			return t, errKeyOperator(n.op)
		}
		t.op, operands = n.op, []operand{n.left, n.right}
	case between:
		t.op, operands, keyFirst = "BETWEEN", []operand{n.operand, n.low, n.high}, true
	case call:
		if n.name != "begins_with" {
			return t, errKeyOperator(n.name)
		}
		t.op, operands, keyFirst = n.name, n.args, true
	}
	for i, o := range operands {
		switch {
		case o.kind == byFunction:
			return t, attr.Invalidf("KeyConditionExpressions cannot contain nested operations")
		case o.kind == byValue && i == 0 && keyFirst:
			return t, attr.Invalidf("Invalid condition in KeyConditionExpression: %s operator must have the key attribute as its first operand", t.op)
		case o.kind == byValue:
			t.values = append(t.values, o.value)
		case t.name != "":
			return t, attr.Invalidf("Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition")
		case len(o.path) > 1:
			return t, attr.Invalidf("KeyConditionExpressions cannot have conditions on nested attributes")
		default:
			t.name = o.path[0].name
			if i == 1 { // :v < key
				t.op = mirrored[t.op]
			}
		}
	}
	if t.name == "" {
		return t, attr.Invalidf("Invalid condition in KeyConditionExpression: No key attribute specified")
	}
	return t, nil
}

func errKeyOperator(op string) error {
	return attr.Invalidf("Invalid operator used in KeyConditionExpression: %s", op)
}

// KeyRange is the part of a table or index that a Query reads: one partition,
// and of its sort keys an interval.
type KeyRange struct {
	Partition attr.Value
	// Low and High bound the sort key; a bound of kind attr.Invalid is open.
	Low, High         attr.Value
	LowOpen, HighOpen bool // the bound itself is not in the range
	ByPrefix          bool // begins_with: Low is the prefix, and High is not set
}

// Bind holds the condition against the key schema it selects from; rang is the
// zero KeyAttr if there is no sort key.
func (k *KeyCondition) Bind(hash, rang KeyAttr) (KeyRange, error) {
	h := slices.IndexFunc(k.terms, func(t keyTerm) bool { return t.name == hash.Name })
	if h < 0 {
		return KeyRange{}, errMissedKey(hash.Name)
	}
	partition := k.terms[h]
	if partition.op != "=" {
		return KeyRange{}, errKeyNotSupported
	}
	if err := partition.check(hash); err != nil {
		return KeyRange{}, err
	}
	r := KeyRange{Partition: partition.values[0]}
	if len(k.terms) == 1 {
		return r, nil
	}
	sort := k.terms[1-h]
	switch {
	case rang.Name == "":
		return KeyRange{}, errKeyNotSupported
	case sort.name != rang.Name:
		return KeyRange{}, errMissedKey(rang.Name)
	}
	if err := sort.check(rang); err != nil {
		return KeyRange{}, err
	}
	switch v := sort.values[0]; sort.op {
	case "=":
		r.Low, r.High = v, v
	case "<", "<=":
		r.High, r.HighOpen = v, sort.op == "<"
	case ">", ">=":
		r.Low, r.LowOpen = v, sort.op == ">"
	case "BETWEEN":
		r.Low, r.High = v, sort.values[1]
	case "begins_with":
		r.Low, r.ByPrefix = v, true
	}
	return r, nil
}

var errKeyNotSupported = attr.Invalidf("Query key condition not supported")

func errMissedKey(name string) error {
	return attr.Invalidf("Query condition missed key schema element: %s", name)
}

// check holds the term's values against the key attribute's declaration.
func (t keyTerm) check(key KeyAttr) error {
	for _, v := range t.values {
		if v.Kind() != key.Kind {
			return attr.Invalidf("One or more parameter values were invalid: Condition parameter type does not match schema type")
		}
		if v.Text() == "" && t.op == "=" {
			what := "string"
			if v.Kind() == attr.B {
				what = "binary"
			}
			return attr.Invalidf("One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty %s value. Key: %s", what, key.Name)
		}
	}
	return nil
}
