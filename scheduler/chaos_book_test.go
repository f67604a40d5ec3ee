package scheduler

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/lease"
)

// book is what happened, in order: what processors vouched for, and what was
// written of leases. It finds what must not happen.
type book struct {
	eyes  *lease.Store // reads the table in no time
	lines *lineLog

	mu sync.Mutex
	// Guarded by mu.
	now     int                       // counts events
	first   map[string]map[string]int // shard → sequence number → when first delivered
	vouched map[string]map[string]int // … → when a processor first took it as done
	skipped map[string][]span
	stored  map[string][]mark // shard → checkpoints as they were written
	leases  map[string]lease.Lease
	deleted map[string]bool
	reads   map[string]*read // by the tenure's token
	wrong   []string
}

// read is what one tenure was handed, in order.
type read struct {
	shard, client string
	after         kcl.Position // zero if not known
	batches       []span
}

// span is a part of a shard.
type span struct {
	first, last kcl.Position
	at          int // when it was skipped
	records     int
}

// mark is a checkpoint and when it was stored.
type mark struct {
	kcl.Position
	by string
	at int
}

func newBook(eyes *lease.Store) *book {
	return &book{
		eyes: eyes, first: map[string]map[string]int{}, vouched: map[string]map[string]int{}, skipped: map[string][]span{},
		stored: map[string][]mark{}, leases: map[string]lease.Lease{}, deleted: map[string]bool{},
		reads: map[string]*read{},
	}
}

// note stores now as the time of records that have none. It needs b.mu.
func (b *book) note(in map[string]map[string]int, shard string, records []kcl.Record) {
	b.now++
	if in[shard] == nil {
		in[shard] = make(map[string]int)
	}
	for _, r := range records {
		if _, known := in[shard][r.Position.SequenceNumber]; !known {
			in[shard][r.Position.SequenceNumber] = b.now
		}
	}
}

// vouch says that a processor has these records done.
func (b *book) vouch(shard string, records ...kcl.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.note(b.vouched, shard, records)
	if len(records) > 0 {
		b.trail("%s done %s to %s", shard, records[0].Position, records[len(records)-1].Position)
	}
}

func (b *book) skip(f kcl.Failure) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now++
	b.skipped[f.Shard.ShardID] = append(b.skipped[f.Shard.ShardID], span{first: f.First, last: f.Last, at: b.now})
}

// delivered says that a batch begins.
func (b *book) delivered(p *process, batch *kcl.Batch) {
	p.c.note(p.name, batch)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.note(b.first, batch.Shard.ShardID, batch.Records)
	b.trail("%s to %s: %s to %s", batch.Shard.ShardID, p.client, batch.Records[0].Position, batch.Records[len(batch.Records)-1].Position)
	l, found := b.leases[batch.Shard.LeaseKey]
	if (!found || l.ActualOwner() != p.name) && p.awake() && p.c.askFirst {
		b.complain("%s is handed records of %s, which is %q's", p.client, batch.Shard.ShardID, l.ActualOwner())
	}
	r := b.reads[batch.Shard.LeaseToken]
	if r == nil {
		r = &read{shard: batch.Shard.ShardID, client: p.client}
		b.reads[batch.Shard.LeaseToken] = r
	}
	n := len(batch.Records)
	r.batches = append(r.batches, span{first: batch.Records[0].Position, last: batch.Records[n-1].Position, records: n})
}

// begins says that a processor is initialized.
func (b *book) begins(p *process, in *kcl.Initialization) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reads[in.Shard.LeaseToken] = &read{shard: in.Shard.ShardID, client: p.client, after: in.Position}
	if l := b.leases[in.Shard.LeaseKey]; l.Checkpoint != in.Position && p.awake() && l.ActualOwner() == p.name {
		b.complain("%s begins %s at %s instead of %s", p.client, in.Shard.ShardID, in.Position, l.Checkpoint)
	}
}

// wrongly is complain for callers without b.mu.
func (b *book) wrongly(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complain(format, args...)
}

func (b *book) trail(format string, args ...any) {
	if b.lines != nil {
		fmt.Fprintf(b.lines, "%s %d "+format+"\n", append([]any{time.Now().Format(time.RFC3339Nano), b.now}, args...)...)
	}
}

func (b *book) complain(format string, args ...any) {
	b.wrong = append(b.wrong, fmt.Sprintf(format, args...))
}

// watch carries out a call and looks at the lease that it wrote.
func (b *book) watch(p *process, i wire.Info, key string, run func() wire.Answer) wire.Answer {
	switch i.Operation {
	case "PutItem", "UpdateItem", "DeleteItem":
	default:
		return run()
	}
	b.mu.Lock() // over two calls that do not sleep
	defer b.mu.Unlock()
	ans := run()
	if ans.Err != nil || key == "" {
		return ans
	}
	l, found, err := b.eyes.GetConsistent(context.Background(), key)
	if err != nil {
		b.complain("lease %s cannot be read: %v", key, err)
		return ans
	}
	b.now++
	before, known := b.leases[key]
	if delete(b.leases, key); found {
		b.leases[key] = l
	}
	switch {
	case found && known:
		b.changed(p, before, l)
	case found:
		b.created(p, l)
	case known:
		b.gone(p, before)
	}
	return ans
}

func (b *book) created(p *process, l lease.Lease) {
	if b.deleted[l.Key] {
		b.complain("%s made lease %s anew", p.client, l.Key)
	}
	if l.Owner != "" || l.Checkpoint != kcl.AtTrimHorizon {
		b.complain("%s made lease %s of %q at %s", p.client, l.Key, l.Owner, l.Checkpoint)
	}
}

func (b *book) changed(p *process, was, is lease.Lease) {
	if is.Counter < was.Counter {
		b.complain("%s moved the counter of %s back from %d to %d", p.client, is.Key, was.Counter, is.Counter)
	}
	if is.HandOffPending() && is.Owner == is.CheckpointOwner {
		b.complain("%s handed %s to itself", p.client, is.Key)
	}
	if is.Checkpoint == was.Checkpoint {
		return
	}
	b.trail("%s stored by %s: %s", is.ShardID, p.client, is.Checkpoint)
	b.stored[is.ShardID] = append(b.stored[is.ShardID], mark{is.Checkpoint, p.client, b.now})
	switch {
	case is.Checkpoint.Compare(was.Checkpoint) < 0:
		b.complain("%s moved the checkpoint of %s back from %s to %s", p.client, is.Key, was.Checkpoint, is.Checkpoint)
	case was.ActualOwner() != p.name, is.ActualOwner() != p.name:
		b.complain("%s moved the checkpoint of %s, which is %q's, then %q's", p.client, is.Key, was.ActualOwner(), is.ActualOwner())
	}
}

func (b *book) gone(p *process, was lease.Lease) {
	b.deleted[was.Key] = true
	if !was.Ended() {
		b.complain("%s deleted lease %s at %s", p.client, was.Key, was.Checkpoint)
	}
	for _, id := range was.Children {
		if l, found := b.leases[id]; !found || l.Checkpoint.IsSentinel() && !l.Ended() {
			b.complain("%s deleted lease %s although its child %s has not begun", p.client, was.Key, id)
		}
	}
}

// errors returns what is wrong so far.
func (b *book) errors() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.wrong)
}

// undelivered returns the records that no processor has seen.
func (b *book) undelivered(shards []kcltest.StoredShard) (list []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range shards {
		for _, r := range s.Records {
			if _, seen := b.first[s.ID][r.SequenceNumber]; !seen {
				list = append(list, fmt.Sprintf("%s %s of %s", s.ID, r.SequenceNumber, r.Arrived.Format(time.TimeOnly)))
			}
		}
	}
	return list
}

// gaps finds records that a tenure was not handed although it was handed later
// ones.
func (b *book) gaps(shards []kcltest.StoredShard) {
	index := make(map[string]int)
	for _, s := range shards {
		for i, r := range s.Records {
			index[s.ID+r.SequenceNumber] = i
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.reads {
		next := 0
		if r.after.IsZero() && len(r.batches) > 0 {
			next = index[r.shard+r.batches[0].first.SequenceNumber]
		} else if i, ok := index[r.shard+r.after.SequenceNumber]; ok {
			next = i + 1
		}
		for _, s := range r.batches {
			first, last := index[r.shard+s.first.SequenceNumber], index[r.shard+s.last.SequenceNumber]
			if first > next || last-first+1 != s.records {
				b.complain("%s was handed %d records from %s of %s, %d were skipped before", r.client, s.records, s.first, r.shard, first-next)
			}
			next = max(next, last+1)
		}
	}
}

// audit holds all checkpoints against what processors vouched for, and children
// against parents.
func (b *book) audit(shards []kcltest.StoredShard) {
	b.mu.Lock()
	defer b.mu.Unlock()
	never := b.now + 1
	done := make(map[string]int) // shard → when its last record was done
	for _, s := range shards {
		marks := slices.Clone(b.stored[s.ID])
		slices.SortStableFunc(marks, func(x, y mark) int { return x.Compare(y.Position) })
		records := s.Records
		for _, m := range append(marks, mark{Position: kcl.ShardEnd, at: never}) {
			for len(records) > 0 && m.Compare(kcl.Position{SequenceNumber: records[0].SequenceNumber}) >= 0 {
				done[s.ID] = max(done[s.ID], b.doneAt(s.ID, records[0].SequenceNumber, never))
				records = records[1:]
			}
			if done[s.ID] > m.at {
				b.complain("%s stored checkpoint %s of %s before all was done up to there", m.by, m.Position, s.ID)
			}
		}
	}
	for _, s := range shards {
		for _, parent := range s.Parents {
			for _, first := range b.first[s.ID] {
				if first < done[parent] {
					b.complain("shard %s was read at %d before its parent %s was done at %d of %d", s.ID, first, parent, done[parent], never)
					break
				}
			}
		}
	}
}

func (b *book) doneAt(shard, number string, never int) int {
	at, ok := b.vouched[shard][number]
	if !ok {
		at = never
	}
	p := kcl.Position{SequenceNumber: number}
	for _, s := range b.skipped[shard] {
		if s.first.Compare(p) <= 0 && p.Compare(s.last) <= 0 {
			at = min(at, s.at)
		}
	}
	return at
}
