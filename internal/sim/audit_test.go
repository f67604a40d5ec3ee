package sim

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/go-kcl/kcl"
)

// trimmed reports whether a record may have left the stream unread, because
// nobody ran for as long as it was kept.
func (p *play) trimmed(r record) bool {
	return !p.back.IsZero() && r.at.Add(retention).Before(p.back.Add(5*time.Minute))
}

// missing returns the records that no processor was handed, though it could.
func (p *play) missing() (list []string) {
	p.book.mu.Lock()
	defer p.book.mu.Unlock()
	for _, r := range p.world.records() {
		if _, seen := p.book.first[r.shard][r.number]; !seen && !p.trimmed(r) {
			list = append(list, fmt.Sprintf("%s %s of %.3f s", r.shard, r.number, r.at.Sub(p.began).Seconds()))
		}
	}
	return list
}

// audit looks at the whole book, at the end.
func (p *play) audit() {
	b := p.book
	b.mu.Lock()
	defer b.mu.Unlock()
	lost := 0
	for _, r := range p.world.records() {
		if _, seen := b.first[r.shard][r.number]; !seen {
			lost++ // or missing() would have found it
		}
	}
	if lost > 0 {
		p.tell("%d records were trimmed unread", lost)
	}
	if b.repeated > 0 && p.profile == gentle {
		b.breaksLocked(nothingRepeated, "%d records", b.repeated)
	}
	records := p.byShard()
	p.auditGaps(records)
	p.auditCheckpoints(records)
}

// byShard returns the records that were put, in order.
func (p *play) byShard() map[string][]record {
	records := map[string][]record{}
	for _, r := range p.world.records() {
		records[r.shard] = append(records[r.shard], r)
	}
	return records
}

// auditGaps finds records that a tenure was not handed although it was handed
// later ones.
func (p *play) auditGaps(records map[string][]record) {
	index := make(map[string]int)
	for shard, list := range records {
		for i, r := range list {
			index[shard+r.number] = i
		}
	}
	for _, token := range slices.Sorted(maps.Keys(p.book.tenures)) {
		t, next := p.book.tenures[token], 0
		if t.after.IsZero() && len(t.batches) > 0 {
			next = index[t.shard+t.batches[0].first.SequenceNumber]
		} else if i, ok := index[t.shard+t.after.SequenceNumber]; ok {
			next = i + 1
		}
		for _, s := range t.batches {
			first, last := index[t.shard+s.first.SequenceNumber], index[t.shard+s.last.SequenceNumber]
			skipped := first > next && slices.ContainsFunc(records[t.shard][next:first], func(r record) bool { return !p.trimmed(r) })
			if skipped || last-first+1 != s.records {
				p.book.breaksLocked(noGap, "%s was handed %d records from %s of %s, %d were skipped before", t.process, s.records, s.first, t.shard, first-next)
			}
			next = max(next, last+1)
		}
	}
}

// auditCheckpoints holds all checkpoints against what processors vouched for, and
// children against parents.
func (p *play) auditCheckpoints(records map[string][]record) {
	b := p.book
	never := b.now + 1
	done := make(map[string]int) // shard → when its last record was done
	for _, shard := range slices.Sorted(maps.Keys(records)) {
		list := records[shard]
		marks := slices.Clone(b.stored[shard])
		slices.SortStableFunc(marks, func(x, y mark) int { return x.Compare(y.Position) })
		for _, m := range append(marks, mark{Position: kcl.ShardEnd, at: never}) {
			for len(list) > 0 && m.Compare(kcl.Position{SequenceNumber: list[0].number}) >= 0 {
				if at := b.doneAt(shard, list[0].number, never); at < never || !p.trimmed(list[0]) {
					done[shard] = max(done[shard], at)
				}
				list = list[1:]
			}
			if done[shard] > m.at {
				b.breaksLocked(acceptedOnly, "%s stored checkpoint %s of %s before all was done up to there", m.by, m.Position, shard)
			}
		}
	}
	for _, s := range p.aws.Shards(simStream) {
		for _, parent := range s.Parents {
			for _, first := range b.first[s.ID] {
				if first < done[parent] {
					b.breaksLocked(parentsFirst, "shard %s was read at %d before its parent %s was done at %d of %d", s.ID, first, parent, done[parent], never)
					break
				}
			}
		}
	}
}

// doneAt returns when a record was done: taken as done by a processor, or skipped
// by the policy.
func (b *book) doneAt(shard, number string, never int) int {
	at, ok := b.vouched[shard][number]
	if !ok {
		at = never
	}
	n := kcl.Position{SequenceNumber: number}
	for _, s := range b.skipped[shard] {
		if s.first.Compare(n) <= 0 && n.Compare(s.last) <= 0 {
			at = min(at, s.at)
		}
	}
	return at
}

var (
	bubble  = regexp.MustCompile(`synctest bubble \d+`)
	library = regexp.MustCompile(`(?m)^(created by )?github\.com/go-kcl/kcl(/(scheduler|lease|leader|coordinator|shardsync|workermetrics|internal/(consumer|retrieval|checkpoint|ddb))\b|[.(])`)
)

// leaves looks for goroutines that the library has left behind. A bubble with
// such does not end; so nothing else can be done than to tell, and to die.
func (p *play) leaves() {
	synctest.Wait()
	own := make([]byte, 1<<10)
	mine := bubble.FindString(string(own[:runtime.Stack(own, false)]))
	all := make([]byte, 16<<20)
	for g := range strings.SplitSeq(string(all[:runtime.Stack(all, true)]), "\n\n") {
		head, _, _ := strings.Cut(g, "\n")
		if strings.Contains(head, mine) && !strings.Contains(head, "running") && library.MatchString(g) {
			p.book.breaks(cleanEnd, "a goroutine is left: %s", g)
			fmt.Fprintln(os.Stderr, strings.Join(p.log, "\n"))
			panic(fmt.Sprintf("seed %d: a goroutine is left: %s", p.seed, g))
		}
	}
}
