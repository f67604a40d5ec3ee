package expr

import "github.com/go-kcl/kcl/internal/emu/attr"

var (
	errNoSuchAttribute = attr.Invalidf("The provided expression refers to an attribute that does not exist in the item")
	errOperandType     = attr.Invalidf("An operand in the update expression has an incorrect data type")
	errDocumentPath    = attr.Invalidf("The document path provided in the update expression is invalid for update")
)

// setValue is the right-hand side of SET: an operand, or the sum or difference
// of two.
type setValue struct {
	op          byte // '+', '-', or 0 for left alone
	left, right operand
}

// of computes the value from the item as it was before the update.
func (s setValue) of(old attr.Item) (attr.Value, error) {
	left, err := s.left.compute(old)
	if err != nil || s.op == 0 {
		return left, err
	}
	right, err := s.right.compute(old)
	if err != nil {
		return attr.Value{}, err
	}
	if left.Kind() != attr.N || right.Kind() != attr.N {
		return attr.Value{}, errOperandType
	}
	if s.op == '+' {
		return attr.Add(left, right)
	}
	return attr.Subtract(left, right)
}

// compute is the operand's value in an update of the item.
func (o operand) compute(old attr.Item) (attr.Value, error) {
	switch o.kind {
	case byValue:
		return o.value, nil
	case byPath:
		if v, ok := o.path.in(old); ok {
			return v, nil
		}
		return attr.Value{}, errNoSuchAttribute
	}
	if o.name == "if_not_exists" {
		if v, ok := o.args[0].path.in(old); ok {
			return v, nil
		}
		return o.args[1].compute(old)
	}
	head, err := o.args[0].compute(old) // list_append
	if err != nil {
		return attr.Value{}, err
	}
	tail, err := o.args[1].compute(old)
	if err != nil {
		return attr.Value{}, err
	}
	return appendList(head, tail)
}

func appendList(head, tail attr.Value) (attr.Value, error) {
	if head.Kind() != attr.L || tail.Kind() != attr.L {
		return attr.Value{}, errOperandType
	}
	elems := make([]attr.Value, 0, len(head.List())+len(tail.List()))
	return attr.List(append(append(elems, head.List()...), tail.List()...)...), nil
}

// appendTo appends the normal form.
func (s setValue) appendTo(dst []byte) []byte {
	dst = s.left.appendTo(dst)
	if s.op != 0 {
		dst = append(dst, ' ', s.op, ' ')
		dst = s.right.appendTo(dst)
	}
	return dst
}
