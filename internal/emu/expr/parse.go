package expr

import (
	"strconv"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

// The service's limits for one expression.
const (
	maxExpression = 4096 // bytes, as sent
	maxOperators  = 300  // comparators, functions, + and -; not AND, OR, NOT
	maxInOperands = 100  // of IN, the left one counted
)

// parser reads one expression. The trees it makes have their placeholders
// replaced already.
//
// A syntax error ends the parse. Every other mistake is only noted, for the
// service reports the weightiest one of an expression and not the first: see
// [fault].
type parser struct {
	member member
	src    string
	scope  *scope

	last, tok token
	syntax    string // the syntax error
	faults    [faultKinds]string
	settled   bool // see settle
	operators int
}

// fault is a sort of mistake, weightiest first.
type fault uint8

const (
	tooManyOperators fault = iota
	redundantParens
	unknownFunction
	misusedFunction
	reservedWord
	repeatedSection
	undefinedName
	undefinedValue
	clashingPaths
	wrongCount   // of a function's operands
	sameOperand  // twice, in one comparison or function
	wrongAction  // for a type: ADD, DELETE
	wrongOperand // of a comparison or function
	faultKinds   = iota
)

// newParser begins the parse of a member's expression.
func newParser(m member, src string, s *scope) *parser {
	p := &parser{member: m, src: src, scope: s}
	p.tok = nextToken(src, 0)
	return p
}

// checkLength refuses an expression for its length alone.
func checkLength(m member, src string) error {
	switch {
	case src == "":
		return attr.Invalidf("Invalid %s: The expression can not be empty;", m)
	case len(src) > maxExpression:
		return attr.Invalidf("Invalid %s: Expression size has exceeded the maximum allowed size; expression size: %d", m, len(src))
	}
	return nil
}

// err is the expression's weightiest mistake.
func (p *parser) err() error {
	if p.tok.kind != tokEnd {
		p.fail()
	}
	if p.syntax != "" {
		return attr.Invalidf("Invalid %s: %s", p.member, p.syntax)
	}
	for _, f := range p.faults {
		if f != "" {
			return attr.Invalidf("Invalid %s: %s", p.member, f)
		}
	}
	return nil
}

// advance takes the current token.
func (p *parser) advance() token {
	p.last = p.tok
	p.tok = nextToken(p.src, p.tok.to)
	return p.last
}

func (p *parser) accept(sign string) bool {
	if !p.tok.is(sign) {
		return false
	}
	p.advance()
	return true
}

func (p *parser) acceptWord(word string) bool {
	if !p.tok.isWord(word) {
		return false
	}
	p.advance()
	return true
}

func (p *parser) expect(sign string) {
	if !p.accept(sign) {
		p.fail()
	}
}

// fail ends the parse with a syntax error at the current token. From then on
// there are no more tokens, so that every loop ends.
func (p *parser) fail() {
	if p.syntax == "" {
		after := p.tok
		if p.tok.kind != tokEnd {
			after = nextToken(p.src, p.tok.to)
		}
		p.syntax = "Syntax error; token: \"" + p.tok.text + "\", near: \"" + p.src[p.last.from:after.to] + "\""
	}
	p.tok = token{kind: tokEnd, from: len(p.src), to: len(p.src)}
}

// note keeps the first mistake of each sort.
func (p *parser) note(f fault, text string) {
	if p.faults[f] == "" && !(p.settled && f >= undefinedName) {
		p.faults[f] = text
	}
}

// settle ends one term of a condition. Of the lighter mistakes, those of the
// first term that has any count.
func (p *parser) settle() {
	for _, f := range p.faults[undefinedName:] {
		p.settled = p.settled || f != ""
	}
}

func (p *parser) countOperator() {
	if p.operators++; p.operators > maxOperators {
		p.note(tooManyOperators, "The expression contains too many operators; operator count: "+strconv.Itoa(p.operators))
	}
}

// path parses name, name.name and name[index], where each name is bare or a
// placeholder.
func (p *parser) path() path {
	steps := path{{name: p.pathName()}}
	for p.syntax == "" {
		switch {
		case p.accept("."):
			steps = append(steps, step{name: p.pathName()})
		case p.accept("["):
			digits := p.tok.text
			if p.tok.kind != tokNumber {
				p.fail()
				return steps
			}
			index, err := strconv.ParseInt(digits, 10, 32)
			if err != nil {
				p.syntax = "List index is not within the allowable range; index: [" + digits + "]"
				p.fail()
				return steps
			}
			p.advance()
			p.expect("]")
			steps = append(steps, step{index: int(index)})
		default:
			return steps
		}
	}
	return steps
}

// pathName parses one name of a path. A placeholder without a meaning still
// gives a name, so that the step is not taken for an index.
func (p *parser) pathName() string {
	switch p.tok.kind {
	case tokWord:
		if p.isKeyword(p.tok) {
			break
		}
		t := p.advance()
		if isReserved(t.text) {
			p.note(reservedWord, "Attribute name is a reserved keyword; reserved keyword: "+t.text)
		}
		return t.text
	case tokName:
		t := p.advance()
		if name, ok := p.scope.name(t.text); ok {
			return name
		}
		p.note(undefinedName, "An expression attribute name used in the document path is not defined; attribute name: "+t.text)
		return t.text
	}
	p.fail()
	return "?"
}

// isKeyword reports whether a word cannot be a name in this expression, bare or
// not reserved.
func (p *parser) isKeyword(t token) bool {
	words := conditionKeywords
	if p.inUpdate() {
		words = updateKeywords
	}
	for _, w := range words {
		if t.isWord(w) {
			return true
		}
	}
	return false
}

func (p *parser) inUpdate() bool { return p.member == "UpdateExpression" }

var (
	conditionKeywords = []string{"AND", "OR", "NOT", "BETWEEN", "IN"}
	updateKeywords    = []string{"SET", "REMOVE", "ADD", "DELETE"}
)

// value parses :v.
func (p *parser) value() operand {
	if p.tok.kind != tokValue {
		p.fail()
		return operand{}
	}
	t := p.advance()
	v, ok := p.scope.value(t.text)
	if !ok {
		p.note(undefinedValue, "An expression attribute value used in expression is not defined; attribute value: "+t.text)
	}
	return valueOperand(v)
}

// isCall reports whether a function begins at the current token.
func (p *parser) isCall() bool {
	return p.tok.kind == tokWord && !p.isKeyword(p.tok) && nextToken(p.src, p.tok.to).is("(")
}

// call parses name(operand, …). argument parses one operand.
func (p *parser) call(argument func() operand) operand {
	f := operand{kind: byFunction, name: p.advance().text}
	p.countOperator()
	p.expect("(")
	for p.syntax == "" {
		f.args = append(f.args, argument())
		if !p.accept(",") {
			break
		}
	}
	p.expect(")")
	return f
}

// functions are those of conditions and of updates, with the number of their
// operands.
var functions = map[string]struct {
	operands int
	update   bool
}{
	"attribute_exists":     {1, false},
	"attribute_not_exists": {1, false},
	"attribute_type":       {2, false},
	"begins_with":          {2, false},
	"contains":             {2, false},
	"size":                 {1, false},
	"if_not_exists":        {2, true},
	"list_append":          {2, true},
}

// checkCall checks what the two sorts of expression check alike, and reports
// whether the function has its operands.
func (p *parser) checkCall(f operand) bool {
	known, ok := functions[f.name]
	switch {
	case !ok:
		p.note(unknownFunction, "Invalid function name; function: "+f.name)
	case known.update != p.inUpdate():
		p.misuse(f.name)
	case known.operands != len(f.args):
		p.note(wrongCount, "Incorrect number of operands for operator or function; operator or function: "+
			f.name+", number of operands: "+strconv.Itoa(len(f.args)))
	default:
		return true
	}
	return false
}

func (p *parser) misuse(function string) {
	p.note(misusedFunction, "The function is not allowed to be used this way in an expression; function: "+function)
}

func (p *parser) needsPath(function string) {
	p.note(wrongOperand, "Operator or function requires a document path; operator or function: "+function)
}

func (p *parser) wrongType(operator string, kind attr.Kind) {
	p.note(wrongOperand, "Incorrect operand type for operator or function; operator or function: "+
		operator+", operand type: "+kind.String())
}
