package dynamodb

import (
	"iter"
	"time"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

// rows are a table's items by storage key. Items are immutable, so what a read
// returns may be encoded after the lock is given back.
type rows struct {
	all   ordered[*row]
	count int // items, without the deleted ones kept for late readers
	bytes int
	grave []grave // deleted rows, in the order of deletion
}

// row is an item with as much of its past as late readers may see.
type row struct {
	version
	older []version // oldest first
	// cut is set when versions before older[0] existed and were dropped, so that
	// a reader who is later still must not take the item for not yet created.
	cut bool
}

// version is what an item was from an instant on.
type version struct {
	since time.Time
	item  attr.Item // nil: there was none
	size  int
}

type grave struct {
	place string
	since time.Time // of the deletion; another one makes its own grave
	until time.Time
}

// entry is an item as a page of Query or Scan takes it up: with its storage key
// and the size that it counts.
type entry struct {
	place string
	item  attr.Item
	size  int
}

// latest returns the committed item, nil if there is none, and its size.
func (r *rows) latest(place string) (attr.Item, int) {
	if row, ok := r.all.get(place); ok {
		return row.item, row.size
	}
	return nil, 0
}

// asOf returns the item as it was at that instant.
func (r *rows) asOf(place string, at time.Time) (attr.Item, int) {
	row, ok := r.all.get(place)
	if !ok {
		return nil, 0
	}
	v := row.asOf(at)
	return v.item, v.size
}

func (r *row) asOf(at time.Time) version {
	if !r.since.After(at) {
		return r.version
	}
	for i := len(r.older) - 1; i >= 0; i-- {
		if !r.older[i].since.After(at) {
			return r.older[i]
		}
	}
	switch {
	case !r.cut:
		return version{}
	case len(r.older) > 0:
		return r.older[0]
	}
	return r.version
}

// set makes item (nil: none) what the place holds from now on. Versions that a
// reader up to lag late may see are kept.
func (r *rows) set(place string, item attr.Item, size int, now time.Time, lag time.Duration) {
	old, ok := r.all.get(place)
	if item == nil && (!ok || old.item == nil) {
		return
	}
	if ok && old.item != nil {
		r.count--
		r.bytes -= old.size
	}
	if item != nil {
		r.count++
		r.bytes += size
	}
	switch {
	case !ok:
		r.all.put(place, &row{version: version{now, item, size}})
		return
	case lag <= 0 && item == nil:
		r.all.delete(place)
		return
	case lag <= 0:
		old.older, old.cut = nil, true
	default:
		old.keep(now.Add(-lag))
	}
	old.version = version{now, item, size}
	if item == nil {
		r.grave = append(r.grave, grave{place, now, now.Add(lag)})
	}
}

// keep moves the present version to the older ones and drops those that nobody
// sees who reads at oldest or later.
func (r *row) keep(oldest time.Time) {
	r.older = append(r.older, r.version)
	drop := 0
	for drop+1 < len(r.older) && !r.older[drop+1].since.After(oldest) {
		drop++
	}
	if drop > 0 {
		r.older = append(r.older[:0], r.older[drop:]...)
		r.cut = true
	}
}

// settle forgets deleted rows that no reader sees any more.
func (r *rows) settle(now time.Time) {
	n := 0
	for n < len(r.grave) && !r.grave[n].until.After(now) {
		if row, ok := r.all.get(r.grave[n].place); ok && row.item == nil && row.since.Equal(r.grave[n].since) {
			r.all.delete(r.grave[n].place)
		}
		n++
	}
	if n > 0 {
		r.grave = append(r.grave[:0], r.grave[n:]...)
	}
}

// ascend visits the items as they were at that instant, from a storage key on.
func (r *rows) ascend(from string, at time.Time) iter.Seq[entry] {
	return visible(r.all.ascend(from), at)
}

// descend visits the items below a storage key, greatest first.
func (r *rows) descend(before string, at time.Time) iter.Seq[entry] {
	return visible(r.all.descend(before), at)
}

func visible(all iter.Seq2[string, *row], at time.Time) iter.Seq[entry] {
	return func(yield func(entry) bool) {
		for place, row := range all {
			if v := row.asOf(at); v.item != nil && !yield(entry{place, v.item, v.size}) {
				return
			}
		}
	}
}
