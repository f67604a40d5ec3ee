package singletable

import (
	"maps"
	"slices"
	"time"

	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/workermetrics"
)

// SupportCode is this migration's entry in KCL's list of features that a worker
// says in its record that it knows.
const SupportCode = 1

// Row is a worker's record, in one of the two tables.
type Row struct {
	workermetrics.Record
	// Sighting is what this process saw of the row. The zero Sighting leaves it
	// to the row's own clock whether the worker lives.
	Sighting workermetrics.Sighting
}

// seen is the worker's last sign of life by this row, by this host's clock.
func (r Row) seen() time.Time {
	if t := r.Sighting.LastSeen(); !t.IsZero() {
		return t
	}
	if r.Sighting == (workermetrics.Sighting{}) {
		return r.Updated
	}
	return time.Time{}
}

// active reports whether the row's worker wrote it within two periods.
func (r Row) active(now time.Time, period time.Duration) bool {
	return !r.Updated.IsZero() && !r.seen().IsZero() && now.Sub(r.seen()) <= 2*period
}

// code is the worker's support code by this row: 0 if it last said so more than
// three periods ago. A worker of KCL 3.4 that goes by the same name leaves the
// code and its time as they are.
func (r Row) code(now time.Time, period time.Duration) int {
	if r.Support <= 0 || r.SupportUpdated.IsZero() {
		return 0
	}
	said := r.SupportUpdated
	if seen := r.seen(); !seen.IsZero() && !r.Updated.IsZero() {
		said = seen.Add(r.SupportUpdated.Sub(r.Updated)) // both are of the worker's clock
	}
	if now.Sub(said) > 3*period {
		return 0
	}
	return r.Support
}

// Summary is what the leader knows of the fleet from one assignment run. Workers
// that nobody can see count as unknown, not as old.
type Summary struct {
	// At is when the run's reads began, Term the leader's term, and Since when this
	// process began to see of every record whether its worker lives.
	At    time.Time
	Term  uint64
	Since time.Time

	// LegacyWorkers and LeaseWorkers are the workers that live by their row in
	// the legacy and in the lease table, Workers those in either. Sorted.
	Workers, LegacyWorkers, LeaseWorkers []string
	// Owners is all that own a lease or are about to hand one over. Sorted.
	Owners []string
	// Silent is those of Owners that live by neither table. Sorted.
	Silent []string
	// Old is those of Owners that live and do not know this migration. Sorted.
	Old []string
	// Support counts Owners by support code.
	Support map[int]int
}

// MinSupport is the least support code of a lease owner, 0 if there is none.
func (s Summary) MinSupport() int {
	least, first := 0, true
	for code := range s.Support {
		if first || code < least {
			least, first = code, false
		}
	}
	return least
}

// Summarize derives the leader's knowledge from a scan. Rows are all that were
// read, valid or not. Period is how often workers report.
func Summarize(leases []lease.Lease, rows []Row, now time.Time, period time.Duration) Summary {
	s := Summary{At: now, Support: map[int]int{}}
	best := map[string]Row{} // by worker, the row that last told of the support code
	for _, r := range rows {
		if r.active(now, period) {
			s.Workers = append(s.Workers, r.Worker)
			if r.Legacy {
				s.LegacyWorkers = append(s.LegacyWorkers, r.Worker)
			} else {
				s.LeaseWorkers = append(s.LeaseWorkers, r.Worker)
			}
		}
		if b, ok := best[r.Worker]; !ok || r.SupportUpdated.After(b.SupportUpdated) {
			best[r.Worker] = r
		}
	}
	owners := map[string]bool{}
	for i := range leases {
		owners[leases[i].Owner], owners[leases[i].CheckpointOwner] = true, true
	}
	delete(owners, "")
	s.Owners = slices.Sorted(maps.Keys(owners))
	for _, list := range []*[]string{&s.Workers, &s.LegacyWorkers, &s.LeaseWorkers} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	for _, w := range s.Owners {
		code := 0
		if r, ok := best[w]; ok {
			code = r.code(now, period)
		}
		s.Support[code]++
		if _, lives := slices.BinarySearch(s.Workers, w); !lives {
			s.Silent = append(s.Silent, w)
		} else if code < SupportCode {
			s.Old = append(s.Old, w)
		}
	}
	return s
}

// Knowledge is an answer that may be missing. What is missing changes nothing.
type Knowledge uint8

// The answers.
const (
	NotKnown Knowledge = iota
	Yes
	No // there is evidence against it
)

// Supported says whether every lease owner knows this migration.
//
//	some owner lives and does not know it   No
//	some owner cannot be seen               NotKnown: it may be gone, its leases are given away soon
//	there is no owner                       NotKnown
//	otherwise                               Yes
func (s Summary) Supported() Knowledge {
	switch {
	case len(s.Old) > 0:
		return No
	case len(s.Silent) > 0 || len(s.Owners) == 0:
		return NotKnown
	}
	return Yes
}

// Drained says whether every lease owner, and everybody else, reports to the
// lease table alone.
//
//	somebody lives by the legacy table   No
//	some owner cannot be seen            NotKnown
//	otherwise                            Yes
func (s Summary) Drained() Knowledge {
	switch {
	case len(s.LegacyWorkers) > 0:
		return No
	case len(s.Silent) > 0:
		return NotKnown
	}
	return Yes
}

// Figures are the fleet's numbers as metrics report them.
type Figures struct{ Phase1Workers, Phase2Workers, PrePhase1Workers int }

// Figures counts workers by what they run. Those without leases count only in
// the second deployment, as in KCL; no number is below 0.
func (s Summary) Figures() Figures {
	knowing := 0
	for code, n := range s.Support {
		if code >= SupportCode {
			knowing += n
		}
	}
	second := len(s.LeaseWorkers)
	return Figures{
		Phase1Workers:    max(0, knowing-second),
		Phase2Workers:    second,
		PrePhase1Workers: max(0, len(s.Owners)-knowing),
	}
}
