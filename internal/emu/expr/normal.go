package expr

import (
	"slices"
	"strings"
)

// String renders the condition in its normal form: equal texts mean equal
// conditions, whether they came as an expression or in the older form. A nil
// condition is "".
//
// In the normal form NOT stands only where nothing shorter says the same, the
// operands of AND, OR and IN are sorted and each there once, an IN of one value
// is an =, and of the two ways to write a comparison the one with the path on
// the left is taken.
func (c *Condition) String() string {
	if c == nil {
		return ""
	}
	return normal(c.root, false).String()
}

// Terms returns the normal forms, sorted, of the terms that must all hold: the
// operands of the outermost AND, or the one condition; none for a nil condition.
func (c *Condition) Terms() []string {
	if c == nil {
		return nil
	}
	f := normal(c.root, false)
	if f.joint == "AND" {
		return f.terms
	}
	return []string{f.String()}
}

// form is a normal form: terms joined by AND or OR, or one term alone.
type form struct {
	joint string
	terms []string // sorted
}

func (f form) String() string { return strings.Join(f.terms, " "+f.joint+" ") }

func alone(term []byte) form { return form{terms: []string{string(term)}} }

// normal returns the form of n, or of its negation.
func normal(n node, negated bool) form {
	switch n := n.(type) {
	case all:
		return joined(n, negated, "AND", "OR")
	case some:
		return joined(n, negated, "OR", "AND")
	case not:
		return normal(n.node, !negated)
	case in:
		if len(n.list) == 1 {
			return normal(comparison{"=", n.operand, n.list[0]}, negated)
		}
	}
	if opposite := opposite(n); negated && opposite != nil {
		return alone(appendTerm(nil, opposite))
	}
	var prefix []byte
	if negated {
		prefix = []byte("NOT ")
	}
	return alone(appendTerm(prefix, n))
}

// joined joins the forms of an AND's or OR's operands; NOT turns one into the
// other (De Morgan: a condition has no third value).
func joined(nodes []node, negated bool, joint, opposite string) form {
	if negated {
		joint = opposite
	}
	var parts []form
	for _, n := range nodes {
		f := normal(n, negated)
		if f.joint != joint {
			parts = append(parts, f)
			continue
		}
		for _, term := range f.terms {
			parts = append(parts, form{terms: []string{term}})
		}
	}
	slices.SortFunc(parts, func(f, g form) int { return strings.Compare(f.String(), g.String()) })
	parts = slices.CompactFunc(parts, func(f, g form) bool { return f.String() == g.String() })
	if len(parts) == 1 {
		return parts[0]
	}
	terms := make([]string, len(parts))
	for i, f := range parts {
		if terms[i] = f.String(); len(f.terms) > 1 {
			terms[i] = "(" + terms[i] + ")"
		}
	}
	slices.Sort(terms)
	return form{joint, terms}
}

// opposite returns the one term that is true where n is false, if there is one.
// The ordering comparisons have none: both they and their converses are false
// for a missing attribute or another type.
func opposite(n node) node {
	switch n := n.(type) {
	case comparison:
		switch n.op {
		case "=":
			return comparison{"<>", n.left, n.right}
		case "<>":
			return comparison{"=", n.left, n.right}
		}
	case call:
		switch n.name {
		case "attribute_exists":
			return call{"attribute_not_exists", n.args}
		case "attribute_not_exists":
			return call{"attribute_exists", n.args}
		}
	}
	return nil
}

// appendTerm appends a term without AND, OR or NOT.
func appendTerm(dst []byte, n node) []byte {
	switch n := n.(type) {
	case comparison:
		left, op, right := string(n.left.appendTo(nil)), n.op, string(n.right.appendTo(nil))
		if n.left.kind > n.right.kind || n.left.kind == n.right.kind && right < left {
			left, op, right = right, mirrored[op], left
		}
		return append(dst, left+" "+op+" "+right...)
	case between:
		dst = append(n.operand.appendTo(dst), " BETWEEN "...)
		dst = append(n.low.appendTo(dst), " AND "...)
		return n.high.appendTo(dst)
	case in:
		var list []string
		for _, o := range n.list {
			list = append(list, string(o.appendTo(nil)))
		}
		slices.Sort(list)
		dst = append(n.operand.appendTo(dst), " IN ("...)
		dst = append(dst, strings.Join(slices.Compact(list), ", ")...)
		return append(dst, ')')
	case call:
		return appendCall(dst, n.name, n.args)
	}
	panic("expr: a term of another sort")
}

// mirrored is the comparator that says the same with its operands exchanged.
var mirrored = map[string]string{"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
