package dynamodb

import (
	"iter"
	"slices"
	"sort"
	"strings"
)

// maxChunk bounds what one insertion moves. A table of 100,000 items has some
// 600 chunks, so the moves within a chunk and within the list of chunks cost
// about the same.
const maxChunk = 256

// ordered is a map whose keys are visited in byte order, from any key on, in
// either direction. The zero value is empty.
type ordered[V any] struct {
	chunks [][]keyed[V] // none empty; keys ascend within and across chunks
	n      int
}

type keyed[V any] struct {
	key string
	val V
}

func (o *ordered[V]) len() int { return o.n }

// find returns where key is or would be inserted. Unless o is empty, the chunk
// exists, though the place may be one past its end.
func (o *ordered[V]) find(key string) (chunk, at int, ok bool) {
	chunk = sort.Search(len(o.chunks), func(i int) bool { return o.chunks[i][0].key > key })
	if chunk > 0 {
		chunk--
	}
	if chunk == len(o.chunks) {
		return 0, 0, false
	}
	at, ok = slices.BinarySearchFunc(o.chunks[chunk], key, func(e keyed[V], k string) int { return strings.Compare(e.key, k) })
	return chunk, at, ok
}

func (o *ordered[V]) get(key string) (V, bool) {
	c, i, ok := o.find(key)
	if !ok {
		var zero V
		return zero, false
	}
	return o.chunks[c][i].val, true
}

func (o *ordered[V]) put(key string, val V) {
	if len(o.chunks) == 0 {
		o.chunks = [][]keyed[V]{{{key, val}}}
		o.n = 1
		return
	}
	c, i, ok := o.find(key)
	if ok {
		o.chunks[c][i].val = val
		return
	}
	o.n++
	grown := slices.Insert(o.chunks[c], i, keyed[V]{key, val})
	if len(grown) <= maxChunk {
		o.chunks[c] = grown
		return
	}
	half := len(grown) / 2
	upper := slices.Clone(grown[half:])
	clear(grown[half:])
	o.chunks[c] = grown[:half]
	o.chunks = slices.Insert(o.chunks, c+1, upper)
}

func (o *ordered[V]) delete(key string) {
	c, i, ok := o.find(key)
	if !ok {
		return
	}
	o.n--
	o.chunks[c] = slices.Delete(o.chunks[c], i, i+1)
	if len(o.chunks[c]) == 0 {
		o.chunks = slices.Delete(o.chunks, c, c+1)
	}
}

// ascend visits the entries whose keys are at least from, lowest first. The
// map must not change meanwhile.
func (o *ordered[V]) ascend(from string) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		c, i, _ := o.find(from)
		for ; c < len(o.chunks); c++ {
			for ; i < len(o.chunks[c]); i++ {
				if e := &o.chunks[c][i]; !yield(e.key, e.val) {
					return
				}
			}
			i = 0
		}
	}
}

// descend visits the entries whose keys are below before, highest first.
func (o *ordered[V]) descend(before string) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		c, i, _ := o.find(before)
		for ; c >= 0 && c < len(o.chunks); c-- {
			for i--; i >= 0; i-- {
				if e := &o.chunks[c][i]; !yield(e.key, e.val) {
					return
				}
			}
			if c > 0 {
				i = len(o.chunks[c-1])
			}
		}
	}
}
