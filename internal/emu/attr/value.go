package attr

import (
	"slices"
	"strings"
)

// Kind is the type of a [Value].
type Kind uint8

// The kinds, in the service's spelling. The zero Value is Invalid.
const (
	Invalid Kind = iota
	S
	N
	B
	BOOL
	NULL
	SS
	NS
	BS
	L
	M
)

var kindNames = [...]string{"", "S", "N", "B", "BOOL", "NULL", "SS", "NS", "BS", "L", "M"}

// String returns the kind as it stands in a request: "S", "NS", ….
func (k Kind) String() string { return kindNames[k] }

// KindOf returns the kind with that spelling, Invalid for any other string.
func KindOf(name string) Kind {
	if name == "" {
		return Invalid
	}
	return Kind(max(0, slices.Index(kindNames[:], name)))
}

// IsSet reports whether k is SS, NS or BS.
func (k Kind) IsSet() bool { return k == SS || k == NS || k == BS }

// IsScalar reports whether k is S, N or B: the kinds that have an order and can
// be table keys.
func (k Kind) IsScalar() bool { return k == S || k == N || k == B }

// Value is one attribute value. It is immutable; copy it freely. Compare with
// [Value.Equal], not with ==.
type Value struct {
	kind  Kind
	truth bool   // BOOL
	text  string // S; N, canonical; B, raw bytes
	more  *more  // sets, lists, maps; the error of an Invalid value
}

// more is what only the rarer kinds have; apart, so that Value stays small.
type more struct {
	set  []string // members in the service's order, no duplicates
	list []Value
	m    Item
	err  error
}

// Item is a stored item, a key or the content of a map. Items that have been
// stored or handed to another package are not modified any more.
type Item map[string]Value

// String returns an S.
func String(s string) Value { return Value{kind: S, text: s} }

// Binary returns a B; the string holds the raw bytes.
func Binary(b string) Value { return Value{kind: B, text: b} }

// Bool returns a BOOL.
func Bool(b bool) Value { return Value{kind: BOOL, truth: b} }

// Null returns the NULL value.
func Null() Value { return Value{kind: NULL} }

// List returns an L; the slice becomes the value's.
func List(elems ...Value) Value { return Value{kind: L, more: &more{list: elems}} }

// Map returns an M; the map becomes the value's.
func Map(m Item) Value { return Value{kind: M, more: &more{m: m}} }

// memberOrder is the order in which the service returns a set of that kind.
func memberOrder(kind Kind) func(a, b string) int {
	if kind == NS {
		return compareNumbers
	}
	return strings.Compare
}

// Kind returns the value's type.
func (v Value) Kind() Kind { return v.kind }

// Text returns the string of an S, the canonical decimal of an N, the raw bytes
// of a B, and "" for every other kind.
func (v Value) Text() string { return v.text }

// True reports whether v is the BOOL true.
func (v Value) True() bool { return v.truth }

// Members returns a set's members in the service's order (SS and BS by bytes,
// NS by value), nil for every other kind. The caller does not modify it.
func (v Value) Members() []string {
	if v.more == nil {
		return nil
	}
	return v.more.set
}

// List returns the elements of an L, nil for every other kind. The caller does
// not modify it.
func (v Value) List() []Value {
	if v.more == nil {
		return nil
	}
	return v.more.list
}

// Map returns the content of an M, nil for every other kind. The caller does
// not modify it.
func (v Value) Map() Item {
	if v.more == nil {
		return nil
	}
	return v.more.m
}

// Has reports whether the set v contains the scalar w: w's kind is the set's,
// and its value is a member.
func (v Value) Has(w Value) bool {
	switch {
	case v.kind == SS && w.kind == S, v.kind == NS && w.kind == N, v.kind == BS && w.kind == B:
		_, found := slices.BinarySearchFunc(v.Members(), w.text, memberOrder(v.kind))
		return found
	}
	return false
}

// Equal reports whether v and w have the same type and value: numbers by value,
// sets without order, lists and maps deep.
func (v Value) Equal(w Value) bool {
	if v.kind != w.kind {
		return false
	}
	switch v.kind {
	case S, N, B:
		return v.text == w.text
	case BOOL:
		return v.truth == w.truth
	case NULL:
		return true
	case SS, NS, BS:
		return slices.Equal(v.Members(), w.Members())
	case L:
		return slices.EqualFunc(v.List(), w.List(), Value.Equal)
	case M:
		return v.Map().Equal(w.Map())
	}
	return false
}

// Equal reports whether two items have the same attributes with equal values. A
// nil item and an empty one are equal.
func (it Item) Equal(other Item) bool {
	if len(it) != len(other) {
		return false
	}
	for name, v := range it {
		w, ok := other[name]
		if !ok || !v.Equal(w) {
			return false
		}
	}
	return true
}

// Compare orders two S (by UTF-8 bytes), two N (by value) or two B (by unsigned
// bytes). For any other pair ok is false.
func Compare(v, w Value) (order int, ok bool) {
	if v.kind != w.kind {
		return 0, false
	}
	switch v.kind {
	case S, B:
		return strings.Compare(v.text, w.text), true
	case N:
		return compareNumbers(v.text, w.text), true
	}
	return 0, false
}

// Key is a scalar in a form that can be compared with == and used in Go maps:
// the numbers 1e3 and 1000 are one key.
type Key struct {
	Kind Kind
	Text string // as [Value.Text]
}

// Key returns the comparable form of an S, N or B.
func (v Value) Key() Key { return Key{v.kind, v.text} }

// Clone returns a copy of the item that may be modified. The values are shared,
// for they are immutable.
func (it Item) Clone() Item {
	c := make(Item, len(it)+2) // room for what an update adds
	for name, v := range it {
		c[name] = v
	}
	return c
}
