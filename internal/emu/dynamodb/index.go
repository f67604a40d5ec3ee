package dynamodb

import (
	"container/heap"
	"iter"
	"time"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

// index is a global secondary index: its definition, its life, and a copy of
// the items that have all of its key attributes.
type index struct {
	name       string
	keys       keySchema
	projection projection
	capacity   throughput
	life       indexLife
	stats      statistics

	entries ordered[entry] // by [index.place]
	bytes   int
	// late holds the changes that do not show yet; last the due time of an
	// item's newest one, by the item's storage key, so that they stay in order.
	late lateness
	last map[string]time.Time
	seq  int
}

// projection says which attributes an index holds besides the keys.
type projection struct {
	Type    string   `json:"ProjectionType"` // KEYS_ONLY, INCLUDE or ALL
	NonKeys []string `json:"NonKeyAttributes,omitempty"`
}

// change inserts an entry, or removes the one at that place.
type change struct {
	due   time.Time
	seq   int
	entry entry // item nil: remove
	of    string
}

// lateness orders changes by due time, and by age among equals.
type lateness []change

func (l lateness) Len() int { return len(l) }
func (l lateness) Less(i, j int) bool {
	return l[i].due.Before(l[j].due) || l[i].due.Equal(l[j].due) && l[i].seq < l[j].seq
}
func (l lateness) Swap(i, j int) { l[i], l[j] = l[j], l[i] }
func (l *lateness) Push(c any)   { *l = append(*l, c.(change)) }
func (l *lateness) Pop() any {
	last := (*l)[len(*l)-1]
	(*l)[len(*l)-1] = change{}
	*l = (*l)[:len(*l)-1]
	return last
}

// place returns the storage key of the entry for an item: that of the index key,
// then the table's key, for several items may share an index key.
func (x *index) place(item attr.Item, of string) string {
	return x.keys.place(item) + of[8:]
}

// holds reports whether an item belongs in the index. Items from before the
// index may hold values that a write would be refused for; they are left out.
func (x *index) holds(item attr.Item) bool {
	if item == nil {
		return false
	}
	for _, a := range x.keys.attrs() {
		v, ok := item[a.Name]
		if !ok || v.Kind() != a.Kind || v.Kind() != attr.N && v.Text() == "" {
			return false
		}
	}
	return x.keys.checkLengths(item) == nil
}

// entryOf returns what the index holds of an item, the zero entry if nothing.
func (x *index) entryOf(item attr.Item, of string, table keySchema) entry {
	if !x.holds(item) {
		return entry{}
	}
	e := entry{place: x.place(item, of), item: item}
	if x.projection.Type != "ALL" {
		e.item = make(attr.Item, 4)
		table.pickInto(e.item, item)
		x.keys.pickInto(e.item, item)
		for _, name := range x.projection.NonKeys {
			if v, ok := item[name]; ok {
				e.item[name] = v
			}
		}
	}
	e.size = e.item.Size()
	return e
}

// same reports whether two states of an item look the same to the index.
func (x *index) same(old, item attr.Item, table keySchema) bool {
	if old == nil || item == nil {
		return false
	}
	if x.projection.Type == "ALL" {
		return old.Equal(item)
	}
	for _, names := range [][]string{x.keys.names(), table.names(), x.projection.NonKeys} {
		for _, name := range names {
			v, had := old[name]
			w, has := item[name]
			if had != has || had && !v.Equal(w) {
				return false
			}
		}
	}
	return true
}

// write brings a committed change of an item to the index, at once or after the
// delays that draw returns, and returns the write units it costs.
func (x *index) write(of string, old, item attr.Item, table keySchema, now time.Time, draw func() time.Duration) (units int) {
	if x.same(old, item, table) {
		return 0
	}
	was, is := x.entryOf(old, of, table), x.entryOf(item, of, table)
	// The changes of one write are independent of each other, but none shows
	// before those of an earlier write on the item.
	earliest, newest := x.last[of], x.last[of]
	show := func(e entry) {
		due := now.Add(draw())
		if due.Before(earliest) {
			due = earliest
		}
		if !due.After(now) {
			x.apply(e)
			return
		}
		x.seq++
		heap.Push(&x.late, change{due, x.seq, e, of})
		if due.After(newest) {
			newest = due
		}
	}
	switch {
	case was.item == nil && is.item == nil:
		return 0
	case was.place == is.place:
		show(is)
		units = writeUnits(max(was.size, is.size))
	default:
		if was.item != nil {
			show(entry{place: was.place})
			units += writeUnits(was.size)
		}
		if is.item != nil {
			show(is)
			units += writeUnits(is.size)
		}
	}
	if newest.After(now) {
		if x.last == nil {
			x.last = map[string]time.Time{}
		}
		x.last[of] = newest
	}
	return units
}

func (x *index) apply(e entry) {
	if old, ok := x.entries.get(e.place); ok {
		x.bytes -= old.size
	}
	if e.item == nil {
		x.entries.delete(e.place)
		return
	}
	x.entries.put(e.place, e)
	x.bytes += e.size
}

// settle applies the changes that have come due.
func (x *index) settle(now time.Time) {
	for len(x.late) > 0 && !x.late[0].due.After(now) {
		c := heap.Pop(&x.late).(change)
		x.apply(c.entry)
		if x.last[c.of].Equal(c.due) {
			delete(x.last, c.of)
		}
	}
}

// ascend visits the entries from a place on.
func (x *index) ascend(from string) iter.Seq[entry] { return values(x.entries.ascend(from)) }

// descend visits the entries below a place, greatest first.
func (x *index) descend(before string) iter.Seq[entry] { return values(x.entries.descend(before)) }

func values(all iter.Seq2[string, entry]) iter.Seq[entry] {
	return func(yield func(entry) bool) {
		for _, e := range all {
			if !yield(e) {
				return
			}
		}
	}
}

// stop drops what an index holds when it is being deleted.
func (x *index) stop() {
	x.entries, x.bytes, x.late, x.last = ordered[entry]{}, 0, nil, nil
}
