package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/lease"
)

// law is what must hold, whatever happens.
type law string

const (
	everyRecord     law = "every record is processed"
	order           law = "first deliveries are in order"
	noGap           law = "a tenure is handed records without a gap"
	nothingTwice    law = "a tenure is handed nothing again that it took"
	parentsFirst    law = "children come after their parents"
	childrenKnown   law = "a shard's end is stored once its children have leases"
	forward         law = "a checkpoint never moves back"
	acceptedOnly    law = "a checkpoint covers only what was accepted"
	fencing         law = "one worker checkpoints a lease at a time"
	begin           law = "a consumer begins at the stored checkpoint"
	workEnds        law = "work on a shard ends before its lease is another's"
	term            law = "a leader works within its term"
	conditions      law = "a leader's writes meet what it read"
	patience        law = "a lease is taken from its owner only after it was silent for its term"
	gate            law = "only the leader lists shards"
	ownedAgain      law = "every lease has an owner again in time"
	even            law = "leases are spread evenly"
	peace           law = "in peace nothing moves"
	released        law = "a stopped worker leaves no lease behind"
	farewell        law = "a clean stop stores what was accepted"
	soundTable      law = "the table holds nothing malformed or orphaned"
	counterForward  law = "a lease's counter never moves back"
	creation        law = "leases are made once, at the beginning"
	deletion        law = "a lease is deleted when it is done and its children have begun"
	callbackOrder   law = "callbacks come one at a time, in order"
	cleanEnd        law = "Run returns, with no error that nothing explains, and leaves no goroutine"
	bounded         law = "memory and goroutines stay bounded"
	nothingRepeated law = "without faults nothing is repeated"
)

// violation is a broken law.
type violation struct {
	law law
	why string
}

func (v violation) String() string { return string(v.law) + ": " + v.why }

// book is what happened, in order: what processors were handed and vouched for,
// what was written of leases, and who led. It finds what must not happen.
type book struct {
	client   *dynamodb.Client // reads the table in no time
	eyes     *lease.Store
	askFirst bool // leases are never taken from an owner that renews
	tell     func(format string, args ...any)

	mu sync.Mutex
	// Guarded by mu.
	chapter
	leaders  map[string]*reign // by process
	lockless time.Time         // until when two may lead, because the lock was taken away
	wrong    []violation
}

// chapter is what is known of one stream.
type chapter struct {
	now      int                       // counts what happens
	first    map[string]map[string]int // shard → sequence number → when first delivered
	high     map[string]kcl.Position   // shard → the last of these
	vouched  map[string]map[string]int // shard → sequence number → when a processor first took it as done
	skipped  map[string][]span
	stored   map[string][]mark // shard → checkpoints as they were written
	leases   map[string]lease.Lease
	deleted  map[string]bool
	beats    map[string]beat   // by lease
	left     map[string]bool   // lease and worker that owned it before
	ended    map[string]string // shard → the process that stored its end
	tenures  map[string]*tenure
	latest   map[string]*tenure // by shard
	repeated int
}

// tenure is what one owner of a lease was handed, in order.
type tenure struct {
	shard, process string
	worker         *process
	began          time.Time
	after          kcl.Position // zero if not known
	batches        []span
	took           kcl.Position    // up to where its processor, or the policy, has it done
	work           context.Context // of the ProcessRecords that runs; nil if none does
}

// beat is the last that was heard of a lease's owner.
type beat struct {
	at      time.Time // when the counter or the owner changed last
	asked   time.Time // when the hand-off began
	renewed bool      // that owner has moved the counter
}

// span is a part of a shard.
type span struct {
	first, last kcl.Position
	at          int // when it was skipped
	records     int
	when        time.Time
}

// mark is a checkpoint and when it was stored.
type mark struct {
	kcl.Position
	by string
	at int
}

func newBook(client *dynamodb.Client, tell func(string, ...any)) *book {
	return &book{
		client: client, eyes: lease.NewStore(lease.StoreConfig{Client: client, Table: simApp}), tell: tell,
		chapter: newChapter(), leaders: map[string]*reign{},
	}
}

func newChapter() chapter {
	return chapter{
		first: map[string]map[string]int{}, high: map[string]kcl.Position{}, vouched: map[string]map[string]int{},
		skipped: map[string][]span{}, stored: map[string][]mark{}, leases: map[string]lease.Lease{}, deleted: map[string]bool{}, left: map[string]bool{},
		beats: map[string]beat{}, ended: map[string]string{}, tenures: map[string]*tenure{}, latest: map[string]*tenure{},
	}
}

// turn begins a new chapter.
func (b *book) turn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.chapter = newChapter()
}

// breaks notes that a law is broken.
func (b *book) breaks(l law, format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.breaksLocked(l, format, args...)
}

func (b *book) breaksLocked(l law, format string, args ...any) {
	v := violation{l, fmt.Sprintf(format, args...)}
	b.wrong = append(b.wrong, v)
	b.tell("BROKEN %s", v)
}

// broken returns the laws that were broken so far.
func (b *book) broken() []violation {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.wrong)
}

// vouch says that a processor has these records done.
func (b *book) vouch(shard string, records ...kcl.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now++
	if b.vouched[shard] == nil {
		b.vouched[shard] = make(map[string]int)
	}
	for _, r := range records {
		if _, known := b.vouched[shard][r.Position.SequenceNumber]; !known {
			b.vouched[shard][r.Position.SequenceNumber] = b.now
		}
	}
}

func (b *book) skip(f kcl.Failure) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now++
	b.skipped[f.Shard.ShardID] = append(b.skipped[f.Shard.ShardID], span{first: f.First, last: f.Last, at: b.now})
	if t := b.tenures[f.Shard.LeaseToken]; t != nil {
		t.took = f.Last
	}
}

// took says that a processor has returned, with these records done.
func (b *book) took(s kcl.ShardInfo, records []kcl.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.tenures[s.LeaseToken]; t != nil { // else of another chapter
		t.took = records[len(records)-1].Position
	}
}

// begins says that a processor is initialized.
func (b *book) begins(p *process, in *kcl.Initialization) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := &tenure{shard: in.Shard.ShardID, process: p.id, worker: p, began: time.Now(), after: in.Position}
	b.tenures[in.Shard.LeaseToken], b.latest[t.shard] = t, t
	if l := b.leases[in.Shard.LeaseKey]; l.Checkpoint != in.Position && p.awake() && l.ActualOwner() == p.name {
		b.breaksLocked(begin, "%s begins %s at %s instead of %s", p.id, t.shard, in.Position, l.Checkpoint)
	}
}

// rests says that ProcessRecords returns.
func (b *book) rests(s kcl.ShardInfo) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.tenures[s.LeaseToken]; t != nil {
		t.work = nil
	}
}

// delivered says that a batch begins.
func (b *book) delivered(ctx context.Context, p *process, batch *kcl.Batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now++
	shard, n := batch.Shard.ShardID, len(batch.Records)
	if b.first[shard] == nil {
		b.first[shard] = make(map[string]int)
	}
	for _, r := range batch.Records {
		if _, known := b.first[shard][r.Position.SequenceNumber]; known {
			b.repeated++
			continue
		}
		if r.Position.Compare(b.high[shard]) <= 0 {
			b.breaksLocked(order, "%s is handed %s of %s after %s", p.id, r.Position, shard, b.high[shard])
		}
		b.first[shard][r.Position.SequenceNumber], b.high[shard] = b.now, r.Position
	}
	l, found := b.leases[batch.Shard.LeaseKey]
	if (!found || l.ActualOwner() != p.name) && p.awake() && b.askFirst {
		b.breaksLocked(fencing, "%s is handed records of %s, which is %q's", p.id, shard, l.ActualOwner())
	}
	for _, parent := range batch.Shard.Parents {
		if l, leased := b.leases[parent]; leased && !l.Ended() {
			b.breaksLocked(parentsFirst, "%s is handed records of %s, and its parent %s is at %s", p.id, shard, parent, l.Checkpoint)
		}
	}
	t := b.tenures[batch.Shard.LeaseToken]
	if t == nil { // a handler's
		t = &tenure{shard: shard, process: p.id, worker: p, began: time.Now()}
		b.tenures[batch.Shard.LeaseToken], b.latest[shard] = t, t
	}
	t.work = ctx
	if first := batch.Records[0].Position; first.Compare(t.took) <= 0 {
		b.breaksLocked(nothingTwice, "%s is handed %s of %s again, and had it done up to %s", p.id, first, shard, t.took)
	}
	t.batches = append(t.batches, span{first: batch.Records[0].Position, last: batch.Records[n-1].Position, records: n, when: time.Now()})
}

// parts looks at a lease when a worker has stopped that stores by itself what its
// handler took.
func (b *book) parts(p *process, l lease.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.latest[l.ShardID]; t != nil && t.process == p.id && p.temper == "handler" && l.Checkpoint.Compare(t.took) < 0 {
		b.breaksLocked(farewell, "%s has stopped, had %s done up to %s, and left it at %s", p.id, t.shard, t.took, l.Checkpoint)
	}
}

// buries looks at the leases of shards that a worker has read to their end when it
// has stopped. What it has given up a leader may have given to it again.
func (b *book) buries(p *process, all []lease.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range all {
		if l.ActualOwner() == p.name && b.ended[l.ShardID] == p.id && !b.left[l.Key+" "+p.name] {
			b.breaksLocked(released, "%s has stopped and still owns %s, which has ended", p.id, l.Key)
		}
	}
}

// accepted says that a checkpoint which a processor asked for was taken. One
// that is stored already does no harm, whoever asks for it.
func (b *book) accepted(p *process, s kcl.ShardInfo, at kcl.Position, asked time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	mine, latest := b.tenures[s.LeaseToken], b.latest[s.ShardID]
	covered := latest != nil && (latest.after.IsZero() || at.Compare(latest.after) <= 0)
	if mine != nil && latest != mine && latest.began.Before(asked) && !covered {
		b.breaksLocked(fencing, "%s's checkpoint of %s is taken, though %s has begun on it at %s", p.id, s.ShardID, latest.process, latest.began)
	}
}

// wireItem is what matters here of an item as DynamoDB sends it.
type wireItem map[string]struct{ S, N string }

// watch carries out a call of a process and looks at what it reads or writes.
// It holds b.mu over calls that take no time.
func (b *book) watch(a attempt, i wire.Info, run func() wire.Answer) wire.Answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	ans := run()
	if i.Service == streams && i.Operation == "ListShards" && ans.Err == nil {
		b.lists(a)
	}
	if i.Service != dynamoDB || ans.Err != nil || !slices.Contains(i.Resources, simApp) {
		return ans
	}
	switch i.Operation {
	case "PutItem", "UpdateItem", "DeleteItem":
		if a.key == leaderKey {
			b.locked(a, i.Operation)
		} else if a.key != "" {
			b.written(a)
		}
	case "Scan", "Query", "GetItem":
		if i.Index == "" {
			b.reads(a, ans.Body)
		}
	}
	return ans
}

// written looks at a lease that has just been written.
func (b *book) written(a attempt) {
	l, found, err := b.eyes.GetConsistent(context.Background(), a.key)
	if err != nil { // not a lease, or one that cannot be read
		if raw, _ := b.raw(a.key); raw["entityType"].S == "" || raw["entityType"].S == "LEASE" {
			b.breaksLocked(soundTable, "%s wrote %s: %v", a.p.id, a.key, err)
		}
		return
	}
	b.now++
	before, known := b.leases[a.key]
	if delete(b.leases, a.key); found {
		b.leases[a.key] = l
	}
	switch {
	case found && known:
		b.changed(a, before, l)
	case found:
		b.created(a, l)
	case known:
		b.gone(a, before)
	}
}

// raw reads an item.
func (b *book) raw(key string) (wireItem, error) {
	out, err := b.client.GetItem(context.Background(), &dynamodb.GetItemInput{
		TableName: aws.String(simApp), Key: map[string]types.AttributeValue{"leaseKey": &types.AttributeValueMemberS{Value: key}}, ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return nil, err
	}
	it := wireItem{}
	for name, v := range out.Item {
		e := it[name]
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			e.S = v.Value
		case *types.AttributeValueMemberN:
			e.N = v.Value
		}
		it[name] = e
	}
	return it, nil
}

func (b *book) created(a attempt, l lease.Lease) {
	if b.deleted[l.Key] {
		b.breaksLocked(creation, "%s made lease %s anew", a.p.id, l.Key)
	}
	follows := slices.ContainsFunc(l.Parents, func(p string) bool { _, leased := b.leases[p]; return leased })
	if l.Owner != "" || l.Checkpoint != kcl.AtTrimHorizon && (follows || l.Checkpoint != a.p.play.initial().Sentinel()) {
		b.breaksLocked(creation, "%s made lease %s of %q at %s", a.p.id, l.Key, l.Owner, l.Checkpoint)
	}
	ownsParent := slices.ContainsFunc(l.Parents, func(p string) bool {
		return b.leases[p].ActualOwner() == a.p.name || b.left[p+" "+a.p.name] // and does not know yet
	})
	if !ownsParent && !b.leads(a) {
		b.breaksLocked(term, "%s made lease %s, and neither leads nor owns a parent", a.p.id, l.Key)
	}
	b.noteWrite(a, l)
}

func (b *book) changed(a attempt, was, is lease.Lease) {
	if is.Owner != was.Owner || is.CheckpointOwner != was.CheckpointOwner {
		b.left[is.Key+" "+was.ActualOwner()] = true
		b.taken(a, was, is)
		b.quits(a, was, is)
		b.tell("%s: %s → %s, by %s", is.Key, owners(was), owners(is), a.p.id)
		b.moved(a, was, is)
	}
	b.noteWrite(a, is)
	b.heard(was, is)
	if is.Counter < was.Counter {
		b.breaksLocked(counterForward, "%s moved the counter of %s back from %d to %d", a.p.id, is.Key, was.Counter, is.Counter)
	}
	if is.HandOffPending() && is.Owner == is.CheckpointOwner {
		b.breaksLocked(soundTable, "%s handed %s to itself", a.p.id, is.Key)
	}
	if is.Checkpoint == was.Checkpoint {
		return
	}
	if b.stored[is.ShardID] = append(b.stored[is.ShardID], mark{is.Checkpoint, a.p.id, b.now}); is.Ended() {
		b.tell("%s has ended, says %s", is.Key, a.p.id)
		b.ended[is.ShardID] = a.p.id
		b.follow(a, is)
	}
	switch {
	case is.Checkpoint.Compare(was.Checkpoint) < 0:
		b.breaksLocked(forward, "%s moved the checkpoint of %s back from %s to %s", a.p.id, is.Key, was.Checkpoint, is.Checkpoint)
	case was.ActualOwner() != a.p.name, is.ActualOwner() != a.p.name:
		b.breaksLocked(fencing, "%s moved the checkpoint of %s, which is %s, then %s", a.p.id, is.Key, owners(was), owners(is))
	}
}

// follow looks whether a shard that is read to its end has made way for its
// children. Of one that Kinesis has forgotten nobody knows them.
func (b *book) follow(a attempt, l lease.Lease) {
	shards := a.p.play.aws.Shards(simStream)
	if !slices.ContainsFunc(shards, func(s kcltest.StoredShard) bool { return s.ID == l.ShardID }) {
		return
	}
	for _, s := range shards {
		if _, leased := b.leases[s.ID]; slices.Contains(s.Parents, l.ShardID) && !leased && !b.deleted[s.ID] {
			b.breaksLocked(childrenKnown, "%s ended %s, and its child %s has no lease", a.p.id, l.Key, s.ID)
		}
	}
}

func owners(l lease.Lease) string {
	switch {
	case l.HandOffPending():
		return l.CheckpointOwner + " for " + l.Owner
	case l.Owner == "":
		return "nobody"
	}
	return l.Owner
}

func (b *book) gone(a attempt, was lease.Lease) {
	b.tell("%s is deleted by %s", was.Key, a.p.id)
	b.deleted[was.Key] = true
	exists := slices.ContainsFunc(a.p.play.aws.Shards(simStream), func(s kcltest.StoredShard) bool { return s.ID == was.ShardID })
	if !was.Ended() && exists {
		b.breaksLocked(deletion, "%s deleted lease %s at %s", a.p.id, was.Key, was.Checkpoint)
	}
	// Who owned it may have gone to delete it before it was given up.
	if was.ActualOwner() != a.p.name && !b.left[was.Key+" "+a.p.name] && !b.leads(a) {
		b.breaksLocked(term, "%s deleted lease %s of %s, and does not lead", a.p.id, was.Key, owners(was))
	}
	for _, id := range was.Children {
		if l, found := b.leases[id]; exists && (!found || l.Checkpoint.IsSentinel() && !l.Ended()) {
			b.breaksLocked(deletion, "%s deleted lease %s although its child %s has not begun", a.p.id, was.Key, id)
		}
	}
}

// reads notes what a process that may lead has read.
func (b *book) reads(a attempt, body []byte) {
	var out struct {
		Item  wireItem
		Items []wireItem
	}
	if err := json.Unmarshal(body, &out); err != nil {
		b.breaksLocked(soundTable, "answer to %s: %v", a.p.id, err)
		return
	}
	r := b.reign(a.p.id)
	for _, it := range append(out.Items, out.Item) {
		if key := it["leaseKey"].S; key != "" {
			r.note(key, reading{it["leaseOwner"].S, it["checkpointOwner"].S, it["leaseCounter"].N})
		}
	}
}
