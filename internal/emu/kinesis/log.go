package kinesis

import "sort"

// record is one stored record. Its slices and strings are the request's own and
// are never written to, so answers may point into them.
type record struct {
	index   uint64
	arrived int64 // ms
	key     string
	data    []byte
}

func (r *record) size() int { return len(r.data) + len(r.key) }

// recordLog is a shard's records, in the order of index and of arrival.
type recordLog struct {
	records []record // from head on
	head    int
	last    uint64 // index of the newest ever stored, 0 if none
	trimmed uint64 // index of the newest trimmed, 0 if none
}

func (l *recordLog) append(r record) {
	l.records = append(l.records, r)
	l.last = r.index
}

// trim drops what arrived before the horizon.
func (l *recordLog) trim(horizon int64) {
	from := l.head
	for l.head < len(l.records) && l.records[l.head].arrived < horizon {
		l.trimmed = l.records[l.head].index
		l.head++
	}
	clear(l.records[from:l.head]) // frees the data
	switch {
	case l.head == len(l.records):
		l.records, l.head = nil, 0
	case l.head > len(l.records)/2:
		n := copy(l.records, l.records[l.head:])
		clear(l.records[n:])
		l.records, l.head = l.records[:n], 0
	}
}

// live are the untrimmed records.
func (l *recordLog) live() []record { return l.records[l.head:] }

// at returns how many live records come before an index.
func (l *recordLog) at(index uint64) int {
	live := l.live()
	return sort.Search(len(live), func(i int) bool { return live[i].index >= index })
}

// since returns how many live records arrived before ms.
func (l *recordLog) since(ms int64) int {
	live := l.live()
	return sort.Search(len(live), func(i int) bool { return live[i].arrived >= ms })
}
