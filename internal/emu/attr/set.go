package attr

import "slices"

// Set returns the set of that kind (SS, NS or BS) with those members: strings,
// numbers as canonical texts, or raw bytes. They are copied, ordered, and
// doubles fall together.
func Set(kind Kind, members ...string) Value {
	set := slices.Clone(members)
	slices.SortFunc(set, memberOrder(kind))
	return Value{kind: kind, more: &more{set: slices.Compact(set)}}
}

// Union returns the members of two sets of one kind.
func Union(v, w Value) Value {
	return Set(v.kind, append(slices.Clone(v.Members()), w.Members()...)...)
}

// Minus returns the members of v that are not in w, another set of its kind.
// None may be left.
func Minus(v, w Value) Value {
	order := memberOrder(v.kind)
	left := slices.DeleteFunc(slices.Clone(v.Members()), func(m string) bool {
		_, found := slices.BinarySearchFunc(w.Members(), m, order)
		return found
	})
	return Value{kind: v.kind, more: &more{set: left}}
}
