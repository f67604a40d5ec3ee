package expr

import (
	"unicode/utf16"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

// operand is what stands beside an operator or in a function's brackets: a path,
// a value of the request, or a function of operands.
type operand struct {
	kind  operandKind
	path  path       // byPath
	value attr.Value // byValue
	name  string     // byFunction: size, if_not_exists, list_append
	args  []operand
}

type operandKind uint8

// In this order the sides of a comparison stand in its normal form.
const (
	byPath operandKind = iota + 1
	byFunction
	byValue
)

func pathOperand(p path) operand        { return operand{kind: byPath, path: p} }
func valueOperand(v attr.Value) operand { return operand{kind: byValue, value: v} }

// requestKind is the operand's type as far as the request alone decides it,
// attr.Invalid if the item does.
func (o operand) requestKind() attr.Kind {
	switch {
	case o.kind == byValue:
		return o.value.Kind()
	case o.kind == byFunction && o.name == "size":
		return attr.N
	case o.kind == byFunction && o.name == "list_append":
		return attr.L
	}
	return attr.Invalid
}

// in is the operand's value in a condition on the item; ok is false when there
// is none.
func (o operand) in(item attr.Item) (v attr.Value, ok bool) {
	switch o.kind {
	case byPath:
		return o.path.in(item)
	case byValue:
		return o.value, true
	}
	v, ok = o.args[0].in(item) // size is a condition's only function of this sort
	if !ok {
		return attr.Value{}, false
	}
	n, ok := sizeOf(v)
	return attr.Int(int64(n)), ok
}

// sizeOf is the function size: characters as UTF-16 counts them, bytes, members.
// N, BOOL and NULL have none.
func sizeOf(v attr.Value) (n int, ok bool) {
	switch v.Kind() {
	case attr.S:
		for _, r := range v.Text() {
			n += utf16.RuneLen(r)
		}
		return n, true
	case attr.B:
		return len(v.Text()), true
	case attr.SS, attr.NS, attr.BS:
		return len(v.Members()), true
	case attr.L:
		return len(v.List()), true
	case attr.M:
		return len(v.Map()), true
	}
	return 0, false
}

// appendTo appends the operand's normal form; values stand as JSON.
func (o operand) appendTo(dst []byte) []byte {
	switch o.kind {
	case byPath:
		return o.path.appendTo(dst)
	case byValue:
		return o.value.AppendJSON(dst)
	}
	return appendCall(dst, o.name, o.args)
}

func appendCall(dst []byte, name string, args []operand) []byte {
	dst = append(dst, name...)
	dst = append(dst, '(')
	for i, a := range args {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = a.appendTo(dst)
	}
	return append(dst, ')')
}
