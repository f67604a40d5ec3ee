package expr

import (
	"strconv"
	"strings"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

// step is one step of a document path: into a map by name, or, where the name is
// empty (which no attribute's is), into a list by index.
type step struct {
	name  string
	index int
}

func (s step) isIndex() bool { return s.name == "" }

// path is a document path. The first step is a name. Names are those of the
// item, not placeholders; a dot in one is a dot.
type path []step

func topLevel(name string) path { return path{{name: name}} }

// String is the form in which the service's messages show a path: [a, [1], b].
func (p path) String() string {
	var b strings.Builder
	b.WriteByte('[')
	for i, s := range p {
		if i > 0 {
			b.WriteString(", ")
		}
		if s.isIndex() {
			b.WriteByte('[')
			b.WriteString(strconv.Itoa(s.index))
			b.WriteByte(']')
		} else {
			b.WriteString(s.name)
		}
	}
	b.WriteByte(']')
	return b.String()
}

func (p path) equal(q path) bool {
	if len(p) != len(q) {
		return false
	}
	for i := range p {
		if p[i] != q[i] {
			return false
		}
	}
	return true
}

// in finds what the path leads to in an item. A missing parent, a container of
// the wrong type and an index past the end all mean that there is nothing.
func (p path) in(item attr.Item) (attr.Value, bool) {
	v, ok := item[p[0].name]
	for _, s := range p[1:] {
		if !ok {
			return attr.Value{}, false
		}
		v, ok = s.in(v)
	}
	return v, ok
}

func (s step) in(v attr.Value) (attr.Value, bool) {
	if !s.isIndex() {
		v, ok := v.Map()[s.name]
		return v, ok
	}
	list := v.List()
	if s.index >= len(list) {
		return attr.Value{}, false
	}
	return list[s.index], true
}

// appendTo appends the path's normal form, an expression's with quotes around
// names that cannot stand bare: a."b.c"[1].
func (p path) appendTo(dst []byte) []byte {
	for i, s := range p {
		switch {
		case s.isIndex():
			dst = append(dst, '[')
			dst = strconv.AppendInt(dst, int64(s.index), 10)
			dst = append(dst, ']')
			continue
		case i > 0:
			dst = append(dst, '.')
		}
		if isBareName(s.name) {
			dst = append(dst, s.name...)
		} else {
			dst = strconv.AppendQuote(dst, s.name)
		}
	}
	return dst
}

func isBareName(s string) bool {
	if s == "" || !isLetter(s[0]) {
		return false
	}
	for i := range len(s) {
		if !isTokenChar(s[i]) {
			return false
		}
	}
	return true
}

// pathTree holds a set of paths none of which lies within another, by their
// common beginnings. The root stands for the item itself.
type pathTree struct {
	step step
	kids []pathTree
	leaf int // which path ends here; -1 for a step on the way
}

// newPathTree joins paths. If two overlap (one is the other or lies within it)
// or conflict (one takes for a map what the other takes for a list), clash names
// the sort and the two.
func newPathTree(paths []path) (t *pathTree, clash *pathClash) {
	t = &pathTree{leaf: -1}
	for i, p := range paths {
		if earlier, sort := t.insert(p, i); sort != "" {
			return nil, &pathClash{sort, paths[earlier], p}
		}
	}
	return t, nil
}

type pathClash struct {
	sort       string // "overlap" or "conflict"
	one, other path
}

func (c *pathClash) String() string {
	return "Two document paths " + c.sort + " with each other; must remove or rewrite one of these paths; " +
		"path one: " + c.one.String() + ", path two: " + c.other.String()
}

func (t *pathTree) insert(p path, i int) (earlier int, sort string) {
	for _, s := range p {
		if t.leaf >= 0 {
			return t.leaf, "overlap"
		}
		if len(t.kids) > 0 && t.kids[0].step.isIndex() != s.isIndex() {
			return t.first(), "conflict"
		}
		t = t.kid(s)
	}
	if t.leaf >= 0 || len(t.kids) > 0 {
		return t.first(), "overlap"
	}
	t.leaf = i
	return 0, ""
}

// kid returns the child for s, made if need be.
func (t *pathTree) kid(s step) *pathTree {
	for i := range t.kids {
		if t.kids[i].step == s {
			return &t.kids[i]
		}
	}
	t.kids = append(t.kids, pathTree{step: s, leaf: -1})
	return &t.kids[len(t.kids)-1]
}

// first is the earliest of the paths at or under t.
func (t *pathTree) first() int {
	for t.leaf < 0 {
		t = &t.kids[0]
	}
	return t.leaf
}
