package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/internal/sim/javalike"
	"github.com/go-kcl/kcl/kcltest"
)

// Java's times, by which leases#60 bounds how long a lease lies idle. The Go
// workers' are the same or shorter.
const (
	leaderCycle    = 20 * time.Second
	discoveryCycle = 10 * time.Second
	lockExpiry     = 2 * time.Minute
	lockPoll       = 30 * time.Second
	reportCounts   = time.Minute // for how long a dead worker's report has a Java leader take it for alive
	parentPoll     = 10 * time.Second
	firstRenewal   = failover/3 + 2*time.Second // after discovery, and calls: an owner's first sign
)

// ledger is what happened in a mixed fleet, and finds what must not.
type ledger struct {
	aws  *kcltest.AWS
	eyes *dynamodb.Client // reads the table in no time
	tell func(format string, args ...any)

	mu sync.Mutex
	// Guarded by mu.
	items      map[string]map[string]types.AttributeValue
	beats      map[string]time.Time // of leases that are not at their end
	begun      bool                 // every lease had an owner once
	departures []departure
	javaLed    time.Time                // when a Java worker last wrote the lock
	lockAt     time.Time                // when anybody did
	gone       map[string]bool          // leases that were deleted
	tenants    map[string]*tenant       // the latest, by shard
	worst      map[string]time.Duration // idle, by what the bound is made of
	counts     map[string]int
	wrong      []string
}

// departure is when a worker died, stopped, or froze.
type departure struct {
	at  time.Time
	led bool
	who string
}

// tenant is who processes a shard, for one tenure.
type tenant struct {
	w            *member
	shard, token string
	ended        bool
}

func newLedger(a *kcltest.AWS, eyes *dynamodb.Client, tell func(string, ...any)) *ledger {
	return &ledger{
		aws: a, eyes: eyes, tell: tell, items: map[string]map[string]types.AttributeValue{}, beats: map[string]time.Time{},
		gone: map[string]bool{}, tenants: map[string]*tenant{}, worst: map[string]time.Duration{}, counts: map[string]int{},
	}
}

// breaks notes that something is wrong. The caller holds mu.
func (l *ledger) breaks(format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	l.tell("BROKEN %s", what)
	l.wrong = append(l.wrong, what)
}

func (l *ledger) broken() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wrong
}

type written struct {
	by  *member
	key string // of the item
}

type writtenKey struct{}

// pen is where a worker's calls leave it.
type pen struct {
	w    *member
	next aws.HTTPClient
}

func (p pen) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var in struct{ Key, Item map[string]struct{ S string } }
	_ = json.Unmarshal(body, &in) // others than writes of items have no such thing
	out := r.WithContext(context.WithValue(r.Context(), writtenKey{}, written{p.w, in.Key["leaseKey"].S + in.Item["leaseKey"].S}))
	out.Body = io.NopCloser(bytes.NewReader(body))
	return p.next.Do(out)
}

// watch carries a call out and looks at what it has written. It holds mu over calls
// that take no time.
func (l *ledger) watch(ctx context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
	a, ok := ctx.Value(writtenKey{}).(written)
	if !ok || i.Service != dynamoDB || a.key == "" || i.Operation == "GetItem" {
		return run(), nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ans := run()
	if ans.Err != nil {
		return ans, nil
	}
	out, err := l.eyes.GetItem(context.Background(), &dynamodb.GetItemInput{
		TableName: aws.String(simApp), ConsistentRead: aws.Bool(true), Key: map[string]types.AttributeValue{"leaseKey": &types.AttributeValueMemberS{Value: a.key}},
	})
	if err != nil {
		l.breaks("cannot look at %s: %v", a.key, err)
		return ans, nil
	}
	was := l.items[a.key]
	if l.items[a.key] = out.Item; out.Item == nil {
		delete(l.items, a.key)
	} else if err := javalike.Decode(out.Item); err != nil {
		l.breaks("%s's %s of %s is nothing that Java reads: %v", a.by.id, i.Operation, a.key, err)
	}
	switch {
	case a.key == leaderKey:
		l.lockChanged(a.by, was, out.Item)
	case attribute(out.Item, "entityType") == "WORKER_METRIC_STATS":
		if age := time.Since(time.Unix(int64(whole(out.Item, "lut")), 0)); age < 0 || age > reportCounts/2 && a.by.sound() {
			l.breaks("%s reports for %v ago", a.by.id, age)
		}
	case was["leaseCounter"] != nil || out.Item["leaseCounter"] != nil:
		l.leaseChanged(a, was, out.Item)
	}
	return ans, nil
}

func attribute(it map[string]types.AttributeValue, name string) string {
	switch v := it[name].(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberN:
		return v.Value
	}
	return ""
}

func whole(it map[string]types.AttributeValue, name string) int {
	n, _ := strconv.Atoi(attribute(it, name))
	return n
}

func actualOwner(it map[string]types.AttributeValue) string {
	if o := attribute(it, "checkpointOwner"); o != "" {
		return o
	}
	return attribute(it, "leaseOwner")
}

func (l *ledger) lockChanged(by *member, was, is map[string]types.AttributeValue) {
	before := attribute(was, "ownerName")
	switch lasts := time.Duration(whole(was, "leaseDuration")) * time.Millisecond; {
	case is == nil && before != by.name, is != nil && attribute(is, "ownerName") != by.name:
		l.breaks("%s writes the lock of %s", by.id, before)
	case is != nil && was != nil && before != by.name && time.Since(l.lockAt) < lasts:
		l.breaks("%s takes the lock from %s after %v", by.id, before, time.Since(l.lockAt))
	case is != nil && before != by.name:
		l.tell("%s leads", by.id)
		l.counts[by.side()+" leads"]++
	}
	if l.lockAt = time.Now(); by.java != nil {
		l.javaLed = l.lockAt
	}
}

func (l *ledger) leaseChanged(a written, was, is map[string]types.AttributeValue) {
	now := time.Now()
	end := func(it map[string]types.AttributeValue) bool {
		return attribute(it, "checkpoint") == kcl.ShardEnd.String()
	}
	switch {
	case is == nil:
		if !end(was) {
			l.breaks("%s deletes %s at %s", a.by.id, a.key, attribute(was, "checkpoint"))
		}
		l.gone[a.key] = true
		l.counts[a.by.side()+" deletes"]++
		delete(l.beats, a.key)
		return
	case was == nil:
		l.beats[a.key] = now
		l.counts[a.by.side()+" creates"]++
		return
	}
	if whole(is, "leaseCounter") < whole(was, "leaseCounter") {
		l.breaks("%s moves the counter of %s back", a.by.id, a.key)
	}
	if before, after := attribute(was, "checkpoint"), attribute(is, "checkpoint"); before != after {
		from, err1 := kcl.ParsePosition(before)
		to, err2 := kcl.ParsePosition(after)
		switch {
		case err1 != nil || err2 != nil || to.Compare(from) < 0:
			l.breaks("%s moves the checkpoint of %s from %s to %s", a.by.id, a.key, before, after)
		case actualOwner(was) != a.by.name, actualOwner(is) != a.by.name:
			l.breaks("%s moves the checkpoint of %s, which is %s's, then %s's", a.by.id, a.key, actualOwner(was), actualOwner(is))
		}
	}
	if o := attribute(is, "leaseOwner"); o != attribute(was, "leaseOwner") {
		how := "assigns"
		if is["checkpointOwner"] != nil {
			how = "starts a hand-off"
		}
		l.counts[a.by.side()+" "+how]++
		l.tell("%s %s: %s from %q to %q", a.by.id, how, a.key, actualOwner(was), o)
	} else if was["checkpointOwner"] != nil && is["checkpointOwner"] == nil {
		l.counts[a.by.side()+" completes a hand-off"]++
	}
	l.moved(a, was, is)
	if actualOwner(was) == a.by.name && !a.by.dead.Load() && whole(is, "leaseCounter") > whole(was, "leaseCounter") { // not who gives a lease to itself
		l.silence(a.key, now)
		l.beats[a.key] = now
	}
	if end(is) {
		delete(l.beats, a.key)
	}
	if !end(is) || end(was) {
		return
	}
	for _, s := range l.aws.Shards(simStream) {
		if slices.Contains(s.Parents, a.key) && l.items[s.ID] == nil && !l.gone[s.ID] {
			l.breaks("%s ends %s, and its child %s has no lease", a.by.id, a.key, s.ID)
		}
	}
}

// moved looks at how a lease changes hands: by its leader, or by the owner that was
// asked to hand it over, or by who takes the child of a shard that it has ended; the
// counter moves, so that the former owner's next write fails, unless a hand-off
// begins, during which that goes on.
func (l *ledger) moved(a written, was, is map[string]types.AttributeValue) {
	before, after := attribute(was, "leaseOwner"), attribute(is, "leaseOwner")
	asked, asks := attribute(was, "checkpointOwner"), attribute(is, "checkpointOwner")
	if before == after && asked == asks {
		return
	}
	step := whole(is, "leaseCounter") - whole(was, "leaseCounter")
	switch {
	case asks != "" && (asked != "" || asks != before || asks == after || step != 0):
		l.breaks("%s begins a hand-off of %s with %q for %q, then %q for %q, and moves the counter by %d", a.by.id, a.key, asked, before, asks, after, step)
	case asks == "" && step != 1:
		l.breaks("%s gives %s to %q, and moves the counter by %d", a.by.id, a.key, after, step)
	}
	leads := attribute(l.items[leaderKey], "ownerName") == a.by.name
	if !leads && actualOwner(was) != a.by.name && (before != "" || after != a.by.name) && a.by.sound() {
		l.breaks("%s gives %s of %q to %q, and does not lead", a.by.id, a.key, actualOwner(was), after)
	}
}

// silence holds the time since an owner's last sign of life to its bound. The
// caller holds mu.
func (l *ledger) silence(key string, now time.Time) {
	from, ok := l.beats[key]
	if !ok || !l.begun {
		return
	}
	idle := now.Sub(from)
	bound, why := l.bound(from, now)
	l.worst[why] = max(l.worst[why], idle)
	if idle > bound {
		l.breaks("%s lies idle for %v, not %v (%s)", key, idle, bound, why)
		delete(l.beats, key) // once is enough
	}
}

// bound is how long a lease may lie idle that was last heard of at a time: as long
// as leases#60 says, for each worker that departed meanwhile.
func (l *ledger) bound(from, to time.Time) (bound time.Duration, why string) {
	const once = failover + 2*leaderCycle + discoveryCycle
	bound = once + firstRenewal
	n := 0
	for _, d := range l.departures {
		if d.at.After(to) {
			continue
		}
		if d.led && d.at.After(from.Add(-lockExpiry-lockPoll)) {
			bound += lockExpiry + lockPoll
			why += "a leader departed, "
		}
		if d.at.Before(from.Add(-reportCounts)) {
			continue
		}
		if l.javaLed.After(d.at.Add(-lockPoll)) {
			bound += reportCounts
			why += "a Java leader may take it for alive, "
		}
		if d.at.After(from) {
			if n++; n > 1 {
				bound += once
			}
		}
	}
	return bound, why + fmt.Sprintf("%d departed", n)
}

// ownerOf returns who has a lease.
func (l *ledger) ownerOf(key string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return actualOwner(l.items[key])
}

// everySilence looks at all leases.
func (l *ledger) everySilence() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.beats {
		l.silence(key, time.Now())
	}
}

// departs notes that a worker will not be heard of.
func (l *ledger) departs(w *member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	led := attribute(l.items[leaderKey], "ownerName") == w.name
	l.departures = append(l.departures, departure{time.Now(), led, w.id})
}

func (l *ledger) leader() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return attribute(l.items[leaderKey], "ownerName")
}

// attended reports whether every lease that is not at its end is somebody's.
func (l *ledger) attended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.beats) == 0 {
		return false
	}
	for key := range l.beats {
		if attribute(l.items[key], "leaseOwner") == "" || attribute(l.items[key], "checkpoint") == "TRIM_HORIZON" {
			return false
		}
	}
	return true
}

// begins says that a worker begins to process a shard, and delivers that it is
// handed records of it. One does at a time, but for such as were frozen, and do not
// know better yet.
func (l *ledger) begins(w *member, shard, token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.tenants[shard]; t != nil && !t.ended && t.w != w && t.w.sound() {
		l.breaks("%s begins to process %s, and %s still does", w.id, shard, t.w.id)
	}
	l.tenants[shard] = &tenant{w: w, shard: shard, token: token}
}

func (l *ledger) delivers(w *member, shard, token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tenants[shard]
	switch {
	case t == nil || t.token != token && w.sound():
		l.breaks("%s processes %s, which another tenure has begun to", w.id, shard)
	case t.token == token && t.ended:
		l.breaks("%s processes %s after the end of its tenure", w.id, shard)
	case t.token != token:
		l.counts["late deliveries by one that was frozen"]++
	}
	l.counts[w.side()+" delivers"]++
}

func (l *ledger) ends(shard, token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.tenants[shard]; t != nil && t.token == token {
		t.ended = true
	}
}

// overdue is by how much a record was delivered too late: later than its lease may
// lie idle, and, of a shard that has parents, than these may take to be done. Records
// that came before the fleet had settled are left aside. It is of the worst one.
func (l *ledger) overdue(settled time.Time, first map[string]time.Time) (worst time.Duration, of string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	worst = -time.Hour
	for _, s := range l.aws.Shards(simStream) {
		for _, r := range s.Records {
			at := first[s.ID+" "+r.SequenceNumber]
			if r.Arrived.Before(settled) {
				continue
			}
			bound, why := l.bound(r.Arrived.Add(-firstRenewal), at)
			bound += 2 * readPeriod
			if len(s.Parents) > 0 {
				bound += parentPoll + leaderCycle + discoveryCycle
			}
			if by := at.Sub(r.Arrived) - bound; by > worst {
				worst, of = by, fmt.Sprintf("%s of %s after %v, not %v: %s", r.SequenceNumber, s.ID, at.Sub(r.Arrived), bound, why)
			}
		}
	}
	return worst, of
}
