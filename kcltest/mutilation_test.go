package kcltest_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// node is a value in a request's body: an object, a list, a string, or a literal.
// Unlike a map it keeps members in order, and may hold a name twice.
type node struct {
	kind  byte     // '{', '[', '"', or 0 for a literal
	text  string   // of a string; of a literal, as it stands in JSON
	names []string // of an object's values
	kids  []*node
}

func parseNode(t testing.TB, body string) *node {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	n, err := readNode(d)
	require.NoError(t, err, body)
	return n
}

func readNode(d *json.Decoder) (*node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		n := &node{kind: byte(v)}
		for d.More() {
			if n.kind == '{' {
				name, err := d.Token()
				if err != nil {
					return nil, err
				}
				n.names = append(n.names, name.(string))
			}
			kid, err := readNode(d)
			if err != nil {
				return nil, err
			}
			n.kids = append(n.kids, kid)
		}
		_, err := d.Token()
		return n, err
	case string:
		return &node{kind: '"', text: v}, nil
	case json.Number:
		return &node{text: v.String()}, nil
	case bool:
		return &node{text: strconv.FormatBool(v)}, nil
	default:
		return &node{text: "null"}, nil
	}
}

// all returns the node and all below it, parents first.
func (n *node) all() []*node {
	out := []*node{n}
	for i := 0; i < len(out); i++ {
		out = append(out, out[i].kids...)
	}
	return out
}

func (n *node) copy() *node {
	c := *n
	c.names, c.kids = slices.Clone(n.names), slices.Clone(n.kids)
	for i, kid := range c.kids {
		c.kids[i] = kid.copy()
	}
	return &c
}

func (n *node) appendJSON(b []byte) []byte {
	switch n.kind {
	case '{', '[':
		b = append(b, n.kind)
		for i, kid := range n.kids {
			if i > 0 {
				b = append(b, ',')
			}
			if n.kind == '{' {
				b = append(appendQuoted(b, n.names[i]), ':')
			}
			b = kid.appendJSON(b)
		}
		return append(b, n.kind+2)
	case '"':
		return appendQuoted(b, n.text)
	default:
		return append(b, n.text...)
	}
}

func appendQuoted(b []byte, s string) []byte {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always encodes
	}
	return append(b, quoted...)
}

// appendCBOR writes what Java's SDK would, had it the same in hand.
func (n *node) appendCBOR(b []byte, name string) []byte {
	switch n.kind {
	case '{', '[':
		if n.kind == '{' {
			b = append(b, 0xbf) // a map of indefinite length
		} else {
			b = append(b, 0x9f)
		}
		for i, kid := range n.kids {
			key := name
			if n.kind == '{' {
				key = n.names[i]
				b = appendCBORText(b, 3, key)
			}
			b = kid.appendCBOR(b, key)
		}
		return append(b, 0xff)
	case '"':
		if data, err := base64.StdEncoding.DecodeString(n.text); err == nil && name == "Data" {
			return appendCBORText(b, 2, string(data))
		}
		return appendCBORText(b, 3, n.text)
	}
	switch n.text {
	case "false":
		return append(b, 0xf4)
	case "true":
		return append(b, 0xf5)
	case "null":
		return append(b, 0xf6)
	}
	f, _ := strconv.ParseFloat(n.text, 64) // beyond its range, infinite
	if name == "Timestamp" {
		b, f = append(b, 0xc1), f*1000
	}
	if f == math.Trunc(f) && math.Abs(f) < 1<<62 {
		if f < 0 {
			return appendCBORHead(b, 1, uint64(-f)-1)
		}
		return appendCBORHead(b, 0, uint64(f))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xfb), math.Float64bits(f))
}

func appendCBORText(b []byte, major byte, s string) []byte {
	return append(appendCBORHead(b, major, uint64(len(s))), s...)
}

func appendCBORHead(b []byte, major byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64(append(b, major<<5|27), n)
}

// choices are bytes that decide what a mutilation does. Once they are used up, all
// choices are 0.
type choices []byte

// below chooses from 0 to n-1.
func (c *choices) below(n int) int {
	v := 0
	for room := n - 1; room > 0; room >>= 8 {
		if len(*c) == 0 {
			return 0
		}
		v = v<<8 | int((*c)[0])
		*c = (*c)[1:]
	}
	return v % n
}

func pick[T any](c *choices, from []T) T { return from[c.below(len(from))] }

// maxGrowth is how many bytes copies of a node may come to.
const maxGrowth = 200_000

// mutilate changes a body in one to four places.
func mutilate(root *node, c *choices) {
	for range pick(c, []int{1, 1, 1, 2, 2, 4}) {
		all := root.all()
		n := pick(c, all)
		var parent *node
		at := 0
		for _, p := range all {
			if i := slices.Index(p.kids, n); i >= 0 {
				parent, at = p, i
				break
			}
		}
		mutilateNode(n, parent, at, all, c)
	}
}

// mutilateNode changes a node, in place, or what its parent says of it. The root has
// no parent.
func mutilateNode(n, parent *node, at int, all []*node, c *choices) {
	named := parent != nil && parent.kind == '{'
	switch c.below(16) {
	case 0, 10: // drop
		if parent != nil {
			parent.kids = slices.Delete(parent.kids, at, at+1)
			if named {
				parent.names = slices.Delete(parent.names, at, at+1)
			}
		}
	case 1, 11, 12: // give twice, or many times
		if parent != nil {
			for range min(pick(c, []int{1, 1, 1, 1, 1, 1, 30, 1100}), 1+maxGrowth/len(n.appendJSON(nil))) {
				parent.kids = append(parent.kids, n.copy())
				if named {
					parent.names = append(parent.names, parent.names[at])
				}
			}
		}
	case 2, 13: // retype
		*n = *pick(c, strangeNodes).copy()
	case 3: // misname
		if named {
			name := parent.names[at]
			parent.names[at] = pick(c, []string{strings.ToLower(name), strings.ToUpper(name), strings.ToLower(name[:min(1, len(name))]) + name[min(1, len(name)):],
				"", name + "s", "S", "N", "NS", "L", "M", "#a", ":a", "Foo", strings.Repeat(name, min(300, 1+maxGrowth/(len(name)+1)))})
		}
	case 4: // nest
		inner := *n
		*n = node{kind: '[', kids: []*node{&inner}}
		if c.below(2) == 0 {
			*n = node{kind: '{', names: []string{pick(c, []string{"a", "S", "L", "M", "SS", "NULL"})}, kids: []*node{&inner}}
		}
	case 5: // take out of its nest
		if len(n.kids) > 0 {
			*n = *pick(c, n.kids).copy()
		}
	case 6, 14: // put another part of the body in its place
		*n = *pick(c, all).copy()
	case 7: // nest deep
		deep := n.copy()
		for range pick(c, []int{31, 33, 2000}) {
			if c.below(2) == 0 {
				deep = &node{kind: '{', names: []string{"L"}, kids: []*node{{kind: '[', kids: []*node{deep}}}}
			} else {
				deep = &node{kind: '{', names: []string{"M"}, kids: []*node{{kind: '{', names: []string{"a"}, kids: []*node{deep}}}}
			}
		}
		*n = *deep
	case 8: // make huge
		if n.kind == '"' {
			n.text = strings.Repeat(n.text+"x", min(pick(c, []int{20, 300, 3000, maxGrowth}), 1+maxGrowth/(len(n.text)+1)))
		} else {
			*n = node{text: "1" + strings.Repeat("0", pick(c, []int{18, 38, 400}))}
		}
	case 9, 15: // misspell
		if n.kind == '"' {
			for range 1 + c.below(3) {
				n.text = misspelt(n.text, c)
			}
		}
	}
}

// misspelt cuts, doubles or replaces a part of a text.
func misspelt(s string, c *choices) string {
	from := c.below(len(s) + 1)
	to := min(len(s), from+pick(c, []int{0, 1, 2, 8, 1 << 20}))
	return s[:from] + pick(c, []string{"", pick(c, snippets), s[from:to] + s[from:to]}) + s[to:]
}

// snippets are what expressions, numbers, tokens, names and ARNs are made of.
var snippets = strings.Split("( ) , . : # + - = < > <> <= [ ] [0] [-1] [99999999999999999999] :a :n :nil #a #b #nil a leaseKey leaseOwner "+
	"SET REMOVE ADD DELETE AND OR NOT IN BETWEEN and set size( if_not_exists(a,:a) list_append( contains( attribute_exists( attribute_type(a,:a) begins_with( "+
	"0 1 -1 00 1e500 1E-500 NaN 0x1 9223372036854775808 99999999999999999999999999999999999999999 340282366920938463463374607431768211455 "+
	"arn:aws:dynamodb:us-east-1:123456789012:table/ arn:aws:kinesis:us-east-1:123456789012:stream/ /index/ shardId-000000000000 shardId- "+
	"= A é \x00 \xff", " ")

var strangeNodes = func() (out []*node) {
	for _, literal := range []string{"null", "true", "false", "0", "-1", "1", "1.5", "-0", "1e18", "1e400", "-1e400", "1E-400", "9223372036854775808", `"\ud800"`, "\"\xff\"", `"\u0000"`} {
		out = append(out, &node{text: literal})
	}
	for _, text := range []string{"", " ", "x", "#a", ":a", "leases", "orders", "ALL_OLD", "1", "-1", "NaN", "1e126", "1e-131", "AA==", "é"} {
		out = append(out, &node{kind: '"', text: text})
	}
	null := &node{text: "null"}
	return append(out, &node{kind: '['}, &node{kind: '{'}, &node{kind: '[', kids: []*node{null}},
		&node{kind: '{', names: []string{"a"}, kids: []*node{null}}, &node{kind: '{', names: []string{"S"}, kids: []*node{null}}, &node{kind: '{', names: []string{""}, kids: []*node{null}},
		&node{kind: '{', names: []string{"NULL"}, kids: []*node{{text: "false"}}}, &node{kind: '{', names: []string{"SS"}, kids: []*node{{kind: '['}}})
}()
