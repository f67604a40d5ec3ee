package expr

import (
	"slices"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

// Projection selects parts of an item. A nil Projection selects all.
type Projection struct{ tree *pathTree }

// Apply returns the selected part of an item, empty if the item has none of it.
// A nil Projection returns the item itself.
func (p *Projection) Apply(item attr.Item) attr.Item {
	if p == nil {
		return item
	}
	return p.tree.pick(item)
}

// Names returns the top-level attributes that the projection reads, sorted; nil
// for a nil Projection.
func (p *Projection) Names() []string {
	if p == nil {
		return nil
	}
	var names []string
	for i := range p.tree.kids {
		names = append(names, p.tree.kids[i].step.name)
	}
	slices.Sort(names)
	return names
}

// pick returns the part of a map that lies on the tree's paths.
func (t *pathTree) pick(m attr.Item) attr.Item {
	out := make(attr.Item, len(t.kids))
	for i := range t.kids {
		k := &t.kids[i]
		if v, ok := m[k.step.name]; ok {
			if part, ok := k.part(v); ok {
				out[k.step.name] = part
			}
		}
	}
	return out
}

// part returns what of v lies on the paths through t, in the containers that
// lead there; elements of a list close up, in their order. ok is false when
// nothing does.
func (t *pathTree) part(v attr.Value) (part attr.Value, ok bool) {
	switch {
	case t.leaf >= 0:
		return v, true
	case t.kids[0].step.isIndex():
		var elems []attr.Value
		for _, k := range t.byIndex() {
			if e, ok := k.step.in(v); ok {
				if part, ok := k.part(e); ok {
					elems = append(elems, part)
				}
			}
		}
		return attr.List(elems...), len(elems) > 0
	}
	m := t.pick(v.Map())
	return attr.Map(m), len(m) > 0
}

// byIndex returns the children, steps into a list, in ascending order.
func (t *pathTree) byIndex() []*pathTree {
	kids := make([]*pathTree, len(t.kids))
	for i := range t.kids {
		kids[i] = &t.kids[i]
	}
	slices.SortFunc(kids, func(a, b *pathTree) int { return a.step.index - b.step.index })
	return kids
}
