package expr

import "github.com/go-kcl/kcl/internal/emu/attr"

// parseUpdate parses an UpdateExpression.
func parseUpdate(src string, s *scope) (*Update, error) {
	const member = "UpdateExpression"
	if err := checkLength(member, src); err != nil {
		return nil, err
	}
	p := newParser(member, src, s)
	var actions []action
	seen := make(map[verb]bool)
	for p.syntax == "" && (p.tok.kind != tokEnd || len(actions) == 0) {
		v := p.section()
		if seen[v] {
			p.note(repeatedSection, `The "`+string(v)+`" section can only be used once in an update expression;`)
		}
		seen[v] = true
		for p.syntax == "" {
			actions = append(actions, p.action(v))
			if !p.accept(",") {
				break
			}
		}
	}
	if p.syntax != "" {
		return nil, p.err()
	}
	u, clash := newUpdate(actions)
	if clash != nil {
		p.note(clashingPaths, clash.String())
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	return u, nil
}

func (p *parser) section() verb {
	for _, v := range []verb{set, remove, add, deleteOut} {
		if p.acceptWord(string(v)) {
			return v
		}
	}
	p.fail()
	return ""
}

func (p *parser) action(v verb) action {
	a := action{verb: v, target: p.path()}
	switch v {
	case set:
		p.expect("=")
		a.value = p.setValue()
	case add, deleteOut:
		a.value.left = p.value()
		if k := a.value.left.value.Kind(); k != attr.Invalid && !k.IsSet() && !(v == add && k == attr.N) {
			p.note(wrongAction, "Incorrect operand type for operator or function; operator: "+string(v)+", operand type: "+longKindNames[k])
		}
	}
	return a
}

// longKindNames is how the messages of ADD and DELETE call the types they do not
// take.
var longKindNames = map[attr.Kind]string{
	attr.S: "STRING", attr.N: "NUMBER", attr.B: "BINARY", attr.BOOL: "BOOLEAN",
	attr.NULL: "NULL", attr.L: "LIST", attr.M: "MAP",
}

// setValue parses operand, operand + operand or operand - operand, the whole in
// brackets or not.
func (p *parser) setValue() setValue {
	if p.accept("(") {
		s := p.sum()
		p.expect(")")
		if s.op != 0 || !p.tok.is("+") && !p.tok.is("-") {
			return s
		}
		return p.sumAfter(s.left) // the brackets held its first operand
	}
	return p.sum()
}

func (p *parser) sum() setValue { return p.sumAfter(p.updateOperand()) }

func (p *parser) sumAfter(left operand) setValue {
	s := setValue{left: left}
	if !p.tok.is("+") && !p.tok.is("-") {
		return s
	}
	s.op = p.advance().text[0]
	p.countOperator()
	s.right = p.updateOperand()
	for _, o := range []operand{s.left, s.right} {
		if k := o.requestKind(); k != attr.Invalid && k != attr.N {
			p.wrongType(string(s.op), k)
		}
	}
	return s
}

// updateOperand parses a path, a value or a function, in brackets or not.
func (p *parser) updateOperand() operand {
	switch {
	case p.accept("("):
		o := p.updateOperand()
		p.expect(")")
		return o
	case p.tok.kind == tokValue:
		return p.value()
	case p.isCall():
		f := p.call(p.updateOperand)
		p.checkUpdateCall(f)
		return f
	}
	return pathOperand(p.path())
}

func (p *parser) checkUpdateCall(f operand) {
	for _, o := range f.args {
		if o.kind == byFunction && o.name == "list_append" { // never within another function
			p.misuse(o.name)
		}
	}
	if !p.checkCall(f) {
		return
	}
	if f.name == "if_not_exists" {
		if f.args[0].kind != byPath {
			p.needsPath(f.name)
		}
		return
	}
	for _, o := range f.args {
		if k := o.requestKind(); k != attr.Invalid && k != attr.L {
			p.wrongType(f.name, k)
		}
	}
}

// parseProjection parses a ProjectionExpression.
func parseProjection(src string, s *scope) (*Projection, error) {
	const member = "ProjectionExpression"
	if err := checkLength(member, src); err != nil {
		return nil, err
	}
	p := newParser(member, src, s)
	var paths []path
	for p.syntax == "" {
		paths = append(paths, p.path())
		if !p.accept(",") {
			break
		}
	}
	if p.syntax != "" {
		return nil, p.err()
	}
	tree, clash := newPathTree(paths)
	if clash != nil {
		p.note(clashingPaths, clash.String())
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	return &Projection{tree}, nil
}
