package expr

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

// renderer writes trees back as expressions, every name and value a placeholder.
type renderer struct {
	names  map[string]string
	values attr.Item
}

func (r *renderer) name(s string) string {
	token := "#n" + strconv.Itoa(len(r.names))
	r.names[token] = s
	return token
}

func (r *renderer) path(p path) string {
	var b strings.Builder
	for i, s := range p {
		switch {
		case s.isIndex():
			fmt.Fprintf(&b, "[%d]", s.index)
		case i > 0:
			b.WriteString("." + r.name(s.name))
		default:
			b.WriteString(r.name(s.name))
		}
	}
	return b.String()
}

func (r *renderer) operand(o operand) string {
	switch o.kind {
	case byPath:
		return r.path(o.path)
	case byValue:
		token := ":v" + strconv.Itoa(len(r.values))
		r.values[token] = o.value
		return token
	}
	return r.call(o.name, o.args)
}

func (r *renderer) call(name string, args []operand) string {
	return name + "(" + r.list(args) + ")"
}

func (r *renderer) list(operands []operand) string {
	var out []string
	for _, o := range operands {
		out = append(out, r.operand(o))
	}
	return strings.Join(out, ",")
}

// node writes a node with all the brackets it could need.
func (r *renderer) node(n node) string {
	join := func(nodes []node, by string) string {
		var out []string
		for _, m := range nodes {
			out = append(out, r.bracketed(m))
		}
		return strings.Join(out, by)
	}
	switch n := n.(type) {
	case all:
		return join(n, " AND ")
	case some:
		return join(n, " OR ")
	case not:
		return "NOT " + r.bracketed(n.node)
	case comparison:
		return r.operand(n.left) + n.op + r.operand(n.right)
	case between:
		return r.operand(n.operand) + " BETWEEN " + r.operand(n.low) + " AND " + r.operand(n.high)
	case in:
		return r.operand(n.operand) + " IN (" + r.list(n.list) + ")"
	case call:
		return r.call(n.name, n.args)
	}
	panic(fmt.Sprintf("a node of type %T", n))
}

func (r *renderer) bracketed(n node) string {
	switch n.(type) {
	case all, some, not:
		return "(" + r.node(n) + ")"
	}
	return r.node(n)
}

func (r *renderer) update(u *Update) string {
	var b strings.Builder
	for _, v := range []verb{set, remove, add, deleteOut} {
		before := b.Len()
		for _, a := range u.actions {
			if a.verb != v {
				continue
			}
			if b.Len() == before {
				b.WriteString(" " + string(v) + " ")
			} else {
				b.WriteString(", ")
			}
			b.WriteString(r.path(a.target))
			switch v {
			case set:
				b.WriteString(" = " + r.operand(a.value.left))
				if a.value.op != 0 {
					b.WriteString(string(a.value.op) + r.operand(a.value.right))
				}
			case add, deleteOut:
				b.WriteString(" " + r.operand(a.value.left))
			}
		}
	}
	return b.String()
}

func newRenderer() *renderer { return &renderer{map[string]string{}, attr.Item{}} }

// request is a request with the rendered expression; long ones give none.
func (r *renderer) request(member string, src string) (*Request, bool) {
	var out Request
	switch member {
	case "ConditionExpression":
		out.ConditionExpression = &src
	case "UpdateExpression":
		out.UpdateExpression = &src
	}
	if len(r.names) > 0 {
		out.ExpressionAttributeNames = r.names
	}
	if len(r.values) > 0 {
		out.ExpressionAttributeValues = r.values
	}
	return &out, len(src) <= maxExpression
}

// fuzzNames and fuzzValues give placeholders their meaning in fuzzed requests.
var (
	fuzzNames  = map[string]string{"#a": "a", "#d": "x.y", "#s": "size", "#b": "b"}
	fuzzValues = `":n5":{"N":"5.0"},":n6":{"N":"6"},":s":{"S":"s"},":b":{"B":"AQ=="},":ss":{"SS":["a","b"]},":t":{"S":"SS"},":l":{"L":[{"N":"5"}]},":bool":{"BOOL":true}`
	fuzzItems  = []string{
		``,
		`{"a":{"N":"5"},"b":{"SS":["a","c"]},"c":{"L":[{"N":"1"},{"M":{"d":{"S":"x"}}}]},"size":{"S":"ss"},"x.y":{"NULL":true}}`,
		`{"a":{"S":"s"},"b":{"M":{"a":{"N":"7"}}},"c":{"L":[]},"d":{"B":"AQE="}}`,
	}
)

// fuzzRequest is a request with src and those of the placeholders it uses.
func fuzzRequest(t *testing.T, src string, set func(*Request, *string)) *Request {
	var r Request
	set(&r, &src)
	all := item(t, "{"+fuzzValues+"}")
	for tok := nextToken(src, 0); tok.kind != tokEnd; tok = nextToken(src, tok.to) {
		if name, ok := fuzzNames[tok.text]; ok {
			if r.ExpressionAttributeNames == nil {
				r.ExpressionAttributeNames = map[string]string{}
			}
			r.ExpressionAttributeNames[tok.text] = name
		}
		if v, ok := all[tok.text]; ok {
			if r.ExpressionAttributeValues == nil {
				r.ExpressionAttributeValues = attr.Item{}
			}
			r.ExpressionAttributeValues[tok.text] = v
		}
	}
	return &r
}

// No text makes the parser panic; a tree written back is the same tree; and its
// value is that of its negation's negation.
func FuzzCondition(f *testing.F) {
	for _, src := range []string{
		"a = :n5", ":n5 <> #d.#s[2]", "NOT (a < b OR c >= :s) AND attribute_exists(a.b[1])", "a IN (:n5, :s, b)",
		"a BETWEEN :n5 AND :n6", "begins_with(a, :s) OR contains(b, :n5)", "size(#s) > :n6", "attribute_type(a, :t)",
		"((a = b))", "(a) = b", "NOT NOT a = b", "a = ", "a IN (", "size(size(a)) = b", "a[99999999999] = b", "a.b.c[0][1] <= :l", "(((((",
		"a = :undefined", "status = a", "é = a", "a\x00b",
	} {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		r := fuzzRequest(t, src, func(r *Request, s *string) { r.ConditionExpression = s })
		p, err := r.Parse(OpPut)
		if err != nil {
			validation(t, err)
			return
		}
		w := newRenderer()
		again, short := w.request("ConditionExpression", w.node(p.Condition.root))
		if !short {
			return
		}
		q, err := again.Parse(OpPut)
		require.NoError(t, err, *again.ConditionExpression)
		require.Equal(t, p.Condition.String(), q.Condition.String())
		negation := Condition{root: not{p.Condition.root}}
		for _, text := range fuzzItems {
			require.Equal(t, p.Condition.Eval(item(t, text)), q.Condition.Eval(item(t, text)))
			require.NotEqual(t, p.Condition.Eval(item(t, text)), negation.Eval(item(t, text)))
		}
		require.Equal(t, p.Condition.String(), (&Condition{root: not{negation.root}}).String())
	})
}

func FuzzUpdate(f *testing.F) {
	for _, src := range []string{
		"SET a = :n5, #d = if_not_exists(a, :s) REMOVE b.a, c[1].d ADD d :ss DELETE b :ss", "ADD a :n5", "SET a = a + :n6",
		"SET c = list_append(c, :l), a = (b)", "SET c[0] = :s, c[7] = c[1].d", "REMOVE c[0], c[1]", "SET a = b - (a)", "DELETE b :ss",
		"SET", "SET a = :s SET b = :s", "SET a = :s, a.b = :s", "ADD a :s", "remove a", "SET a.b = :s, a[1] = :s", "SET a = f(b)",
	} {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		r := fuzzRequest(t, src, func(r *Request, s *string) { r.UpdateExpression = s })
		p, err := r.Parse(OpUpdate)
		if err != nil {
			validation(t, err)
			return
		}
		w := newRenderer()
		again, short := w.request("UpdateExpression", w.update(p.Update))
		if !short {
			return
		}
		q, err := again.Parse(OpUpdate)
		require.NoError(t, err, *again.UpdateExpression)
		require.Equal(t, p.Update.String(), q.Update.String())
		for _, text := range fuzzItems {
			one, errOne := apply(t, p.Update, text)
			other, errOther := apply(t, q.Update, text)
			require.Equal(t, errOne == nil, errOther == nil) // which error is told may differ with the order
			if errOne != nil {
				validation(t, errOne)
				continue
			}
			require.True(t, one.Equal(other), "%s", text)
			require.NoError(t, one.Check())
			p.Update.Part(one)
		}
	})
}

func FuzzProjection(f *testing.F) {
	for _, src := range []string{"a, b.a", "c[0], c[1].d", "#d", "a, a", "c[0],", "a.b, a[0]"} {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		r := fuzzRequest(t, src, func(r *Request, s *string) { r.ProjectionExpression = s })
		r.ExpressionAttributeValues = nil
		p, err := r.Parse(OpGet)
		if err != nil {
			validation(t, err)
			return
		}
		for _, text := range fuzzItems {
			whole := item(t, text)
			part := p.Projection.Apply(whole)
			require.True(t, part.Equal(p.Projection.Apply(whole)))
			for name := range part {
				require.Contains(t, whole, name)
			}
		}
	})
}

// A request of the older forms never panics either, and no error is any but a
// ValidationException.
func FuzzOlder(f *testing.F) {
	for _, text := range []string{
		leaseWrites[0].older, leaseWrites[1].older, leaseWrites[4].older,
		`{"Expected":{"a":{"ComparisonOperator":"BETWEEN","AttributeValueList":[{"N":"1"},{"N":"2"}]}},"ConditionalOperator":"OR"}`,
		`{"AttributeUpdates":{"":{}},"Expected":{"":{"Value":null}}}`, `{"Expected":{"a":{"ComparisonOperator":"IN","AttributeValueList":[{}]}}}`,
		`{"AttributeUpdates":{"a":{"Action":"ADD","Value":{"SS":[]}}}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var r Request
		if json.Unmarshal([]byte(text), &r) != nil {
			return
		}
		for _, op := range []Op{OpPut, OpUpdate, OpGet, OpQuery, OpScan, OpCheck} {
			p, err := r.Parse(op)
			if err != nil {
				validation(t, err)
				continue
			}
			for _, it := range fuzzItems {
				p.Condition.Eval(item(t, it))
				p.Filter.Eval(item(t, it))
				if _, err := p.Update.Apply(item(t, it), attr.Item{"k": attr.Int(1)}); err != nil {
					validation(t, err)
				}
				p.Projection.Apply(item(t, it))
			}
			_, _ = p.Condition.String(), p.Update.String()
		}
	})
}
