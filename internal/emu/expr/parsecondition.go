package expr

import (
	"strconv"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

// parseCondition parses a condition, filter or key condition.
func parseCondition(m member, src string, s *scope) (node, error) {
	if err := checkLength(m, src); err != nil {
		return nil, err
	}
	p := newParser(m, src, s)
	root := p.condition(p.or())
	if err := p.err(); err != nil {
		return nil, err
	}
	return root, nil
}

// phrase is a piece of a condition: a node, or an operand that is yet to become
// a part of one. Which of the two stands in brackets shows only at their end.
type phrase struct {
	node      node
	operand   operand
	bracketed bool
}

// condition takes a phrase for a condition. Of operands only a function can be
// one.
func (p *parser) condition(f phrase) node {
	if f.node != nil {
		return f.node
	}
	if f.operand.kind != byFunction {
		p.fail()
		return nil
	}
	if f.operand.name == "size" {
		p.misuse("size")
	}
	return call{f.operand.name, f.operand.args}
}

// operandOf takes a phrase for an operand. Of functions only size can be one.
func (p *parser) operandOf(f phrase) operand {
	if f.node != nil {
		p.fail()
		return operand{}
	}
	if f.operand.kind == byFunction && f.operand.name != "size" {
		p.misuse(f.operand.name)
	}
	return f.operand
}

func (p *parser) or() phrase {
	first := p.and()
	if !p.tok.isWord("OR") {
		return first
	}
	nodes := some{p.condition(first)}
	for p.acceptWord("OR") {
		nodes = append(nodes, p.condition(p.and()))
	}
	return phrase{node: nodes}
}

func (p *parser) and() phrase {
	first := p.not()
	if !p.tok.isWord("AND") {
		return first
	}
	nodes := all{p.condition(first)}
	for p.acceptWord("AND") {
		nodes = append(nodes, p.condition(p.not()))
	}
	return phrase{node: nodes}
}

func (p *parser) not() phrase {
	if p.acceptWord("NOT") {
		return phrase{node: not{p.condition(p.not())}}
	}
	return p.comparison()
}

// comparison parses an operand and, if an operator follows, the rest of the
// comparison.
func (p *parser) comparison() phrase {
	first := p.phrase()
	switch {
	case p.tok.kind == tokSign && mirrored[p.tok.text] != "":
		first = phrase{node: p.compare(p.operandOf(first))}
	case p.tok.isWord("BETWEEN"):
		first = phrase{node: p.between(p.operandOf(first))}
	case p.tok.isWord("IN"):
		first = phrase{node: p.in(p.operandOf(first))}
	}
	p.settle()
	return first
}

func (p *parser) compare(left operand) node {
	op := p.advance().text
	p.countOperator()
	right := p.operandOf(p.phrase())
	p.distinct(op, left, right)
	if op != "=" && op != "<>" {
		p.ordered(op, left, right)
	}
	return comparison{op, left, right}
}

func (p *parser) between(o operand) node {
	n := between{operand: o}
	p.advance()
	p.countOperator()
	n.low = p.operandOf(p.phrase())
	if !p.acceptWord("AND") {
		p.fail()
	}
	n.high = p.operandOf(p.phrase())
	p.ordered("BETWEEN", n.operand, n.low, n.high)
	p.bounds(n.low, n.high)
	return n
}

func (p *parser) in(o operand) node {
	n := in{operand: o}
	p.advance()
	p.countOperator()
	p.expect("(")
	for p.syntax == "" {
		n.list = append(n.list, p.operandOf(p.phrase()))
		if !p.accept(",") {
			break
		}
	}
	p.expect(")")
	if count := len(n.list) + 1; count > maxInOperands {
		p.note(wrongCount, "The IN operator is provided with too many operands; number of operands: "+strconv.Itoa(count))
	}
	p.distinct("IN", n.operand, n.list...)
	return n
}

// phrase parses a path, a value, a function, or anything in brackets.
func (p *parser) phrase() phrase {
	switch {
	case p.accept("("):
		inner := p.or()
		p.expect(")")
		if inner.bracketed {
			p.note(redundantParens, "The expression has redundant parentheses;")
		}
		inner.bracketed = true
		return inner
	case p.tok.kind == tokValue:
		return phrase{operand: p.value()}
	case p.isCall():
		f := p.call(func() operand { return p.operandOf(p.phrase()) })
		p.checkConditionCall(f)
		return phrase{operand: f}
	}
	return phrase{operand: pathOperand(p.path())}
}

func (p *parser) checkConditionCall(f operand) {
	if !p.checkCall(f) {
		return
	}
	first := f.args[0]
	switch f.name {
	case "attribute_exists", "attribute_not_exists":
		if first.kind != byPath {
			p.needsPath(f.name)
		}
		return
	case "size":
		switch k := first.requestKind(); k {
		case attr.N, attr.BOOL, attr.NULL:
			p.wrongType(f.name, k)
		}
		return
	}
	second := f.args[1]
	p.distinct(f.name, first, second)
	switch f.name {
	case "begins_with":
		for _, o := range f.args {
			if k := o.requestKind(); k != attr.Invalid && k != attr.S && k != attr.B {
				p.wrongType(f.name, k)
			}
		}
	case "attribute_type":
		switch {
		case second.kind != byValue:
			p.note(wrongOperand, "Incorrect operand type for operator or function; operator or function: "+
				"attribute_type, operand type: {NS,SS,L,BS,N,M,B,BOOL,NULL,S}")
		case second.value.Kind() == attr.S:
			if attr.KindOf(second.value.Text()) == attr.Invalid {
				p.note(wrongOperand, "Invalid attribute type name found; type: "+second.value.Text()+
					", valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}")
			}
		case second.value.Kind() != attr.Invalid:
			p.wrongType(f.name, second.value.Kind())
		}
	}
}

// distinct refuses the same path on both sides.
func (p *parser) distinct(operator string, first operand, rest ...operand) {
	for _, o := range rest {
		if first.kind == byPath && o.kind == byPath && first.path.equal(o.path) {
			p.note(sameOperand, "The first operand must be distinct from the remaining operands for this operator or function; "+
				"operator: "+operator+", first operand: "+first.path.String())
		}
	}
}

// ordered refuses operands of the request that have no order.
func (p *parser) ordered(operator string, operands ...operand) {
	for _, o := range operands {
		if k := o.requestKind(); k != attr.Invalid && !k.IsScalar() {
			p.wrongType(operator, k)
		}
	}
}

// bounds refuses bounds of BETWEEN, both from the request, that nothing can lie
// between. Bounds from the item make the term false instead.
func (p *parser) bounds(low, high operand) {
	if low.kind != byValue || high.kind != byValue || low.value.Check() != nil || high.value.Check() != nil {
		return
	}
	shown := "lower bound operand: " + shownValue(low.value) + ", upper bound operand: " + shownValue(high.value)
	if low.value.Kind() != high.value.Kind() {
		p.note(wrongOperand, "The BETWEEN operator requires same data type for lower and upper bounds; "+shown)
	} else if order, ok := attr.Compare(low.value, high.value); ok && order > 0 {
		p.note(wrongOperand, "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; "+shown)
	}
}

func shownValue(v attr.Value) string {
	return "AttributeValue: {" + v.Kind().String() + ":" + v.Text() + "}"
}
