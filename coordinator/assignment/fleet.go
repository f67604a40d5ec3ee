package assignment

import (
	"slices"
	"strings"
	"time"
)

// Fleet is who holds what, as this process last saw the whole table as leader.
type Fleet struct {
	// Seen is when the table was read.
	Seen    time.Time
	Workers []Holder // sorted by id
	// Unowned are the keys of the leases without an owner, sorted.
	Unowned []string
}

// Holder is a worker of the fleet, or one that is named by leases only.
type Holder struct {
	Worker string
	// Standing is "active" (gets leases), "silent" (leases of it have expired
	// since its last report), "draining", "dead", "invalid" (its record is of no
	// use) or "unknown" (it has no record).
	Standing string
	// LastSeen is its last known sign of life; zero if none is known.
	LastSeen time.Time
	// Leases are the keys of the leases that it renews, or should, sorted.
	Leases []string
	// Incoming are the keys of the leases that others are to hand to it, sorted.
	Incoming []string
}

// Fleet returns who holds what; false if this process has not led lately.
func (l *Loop) Fleet() (Fleet, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.looked.IsZero() {
		return Fleet{}, false
	}
	f := Fleet{Seen: l.looked}
	f.Workers, f.Unowned = l.memory.holders()
	return f, true
}

func (m *memory) holders() (list []Holder, unowned []string) {
	byID := make(map[string]*Holder, len(m.workers))
	holder := func(id string) *Holder {
		h := byID[id]
		if h == nil {
			h = &Holder{Worker: id, Standing: "unknown"}
			byID[id] = h
		}
		return h
	}
	for id, w := range m.workers {
		h := holder(id)
		h.Standing, h.LastSeen = w.stand.String(), w.seen.LastSeen()
	}
	for id := range m.unreadable {
		holder(id).Standing = invalidRecord.String()
	}
	for key, s := range m.leases {
		owner := s.actualOwner()
		if owner == "" {
			unowned = append(unowned, key)
			continue
		}
		h := holder(owner)
		h.Leases = append(h.Leases, key)
		if s.owner != "" && s.owner != owner {
			h = holder(s.owner)
			h.Incoming = append(h.Incoming, key)
		}
	}
	for _, h := range byID {
		slices.Sort(h.Leases)
		slices.Sort(h.Incoming)
		list = append(list, *h)
	}
	slices.SortFunc(list, func(a, b Holder) int { return strings.Compare(a.Worker, b.Worker) })
	slices.Sort(unowned)
	return list, unowned
}
