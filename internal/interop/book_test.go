package interop

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/kcltest"
)

// event is what a worker of either side says happened to it, a line of JSON.
type event struct {
	MS     int64  `json:"ms"`
	Event  string `json:"event"`
	Worker string `json:"worker"`
	Shard  string `json:"shard"`
	Seq    string `json:"seq"`
	Sub    int64  `json:"sub"`
	Key    string `json:"key"`
	// Of initialize.
	At      string `json:"at"`
	Pending string `json:"pending"`

	Error    string `json:"error"`
	Graceful any    `json:"graceful"`
}

// side is whose worker it is: workers are named java-… and go-….
func side(worker string) string {
	s, _, _ := strings.Cut(worker, "-")
	return s
}

func short(key string) string {
	return strings.TrimLeft(strings.TrimPrefix(key, "shardId-"), "0") + "."
}

// notable is how long something must take to be held against a bound; the least
// bound is longer.
const notable = 2 * time.Second

// verdict is what became of a stream's records.
type verdict struct {
	put      int
	missing  []string
	bySide   map[string]int // first deliveries
	byWorker map[string]int
	repeated map[string]int // later ones, by side
	faults   []string
	// unread holds the times from a record's arrival to its first delivery that are
	// longer than notable. Records that arrived before the very first delivery are
	// left aside: a Java worker takes more than a minute to begin on a fresh
	// application.
	unread []span
	// across counts the shards that began on one side after a parent had ended
	// on another, or the same: "java→go".
	across map[string]int
}

// judge holds the deliveries against what the stream holds. since leaves out
// records that arrived before, which nobody was to read.
func judge(shards []kcltest.StoredShard, events []event, since time.Time) verdict {
	v := verdict{bySide: map[string]int{}, byWorker: map[string]int{}, repeated: map[string]int{}, across: map[string]int{}}
	// Lines of two processes reach us in any order; their clock is one.
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.MS, b.MS) })
	type mark struct {
		at int
		ms int64
	}
	first := map[string]map[string]mark{} // shard → sequence number
	high := map[string]event{}
	for i, e := range events {
		if e.Event != "record" {
			continue
		}
		seen := first[e.Shard]
		if seen == nil {
			seen = map[string]mark{}
			first[e.Shard] = seen
		}
		if _, again := seen[e.Seq]; again {
			v.repeated[side(e.Worker)]++
			continue
		}
		seen[e.Seq] = mark{i, e.MS}
		v.bySide[side(e.Worker)]++
		v.byWorker[e.Worker]++
		if h, ok := high[e.Shard]; ok && position(e.Seq).Compare(position(h.Seq)) < 0 {
			v.faults = append(v.faults, fmt.Sprintf("%s delivers %s of %s first after %s by %s", e.Worker, e.Seq, e.Shard, h.Seq, h.Worker))
			continue
		}
		high[e.Shard] = e
	}
	begun := map[string]string{} // by shard: who delivered its first record
	for _, e := range events {
		if e.Event == "record" && begun[e.Shard] == "" {
			begun[e.Shard] = e.Worker
		}
	}
	var opened time.Time
	for _, e := range events {
		if e.Event == "record" {
			opened = time.UnixMilli(e.MS)
			break
		}
	}
	for _, s := range shards {
		last := map[string]int{}
		for _, p := range s.Parents {
			last[p] = -1
			for _, m := range first[p] {
				last[p] = max(last[p], m.at)
			}
			if last[p] >= 0 && begun[s.ID] != "" {
				v.across[side(events[last[p]].Worker)+"→"+side(begun[s.ID])]++
			}
		}
		for _, r := range s.Records {
			if r.Arrived.Before(since) {
				continue
			}
			v.put++
			m, ok := first[s.ID][r.SequenceNumber]
			if !ok {
				v.missing = append(v.missing, s.ID+" "+r.SequenceNumber)
				continue
			}
			for _, p := range slices.Sorted(maps.Keys(last)) {
				if m.at < last[p] {
					v.faults = append(v.faults, fmt.Sprintf("%s of %s is delivered before its parent %s is done", r.SequenceNumber, s.ID, p))
				}
			}
			if at := time.UnixMilli(m.ms); at.Sub(r.Arrived) > notable && r.Arrived.After(opened) {
				v.unread = append(v.unread, span{s.ID, r.Arrived, at, events[m.at].Worker})
			}
		}
	}
	return v
}

func position(seq string) kcl.Position { return kcl.Position{SequenceNumber: seq} }

func TestJudge(t *testing.T) {
	at := time.UnixMilli(1000)
	record := func(seq string) kcltest.StoredRecord {
		return kcltest.StoredRecord{SequenceNumber: seq, Arrived: at}
	}
	shards := []kcltest.StoredShard{
		{ID: "p", Records: []kcltest.StoredRecord{record("8"), record("11")}},
		{ID: "c", Parents: []string{"p"}, Records: []kcltest.StoredRecord{record("20")}},
	}
	e := func(ms int64, worker, shard, seq string) event {
		return event{MS: ms, Event: "record", Worker: worker, Shard: shard, Seq: seq}
	}

	v := judge(shards, []event{e(3000, "go-1", "c", "20"), e(990, "java-1", "p", "8"), e(1200, "java-1", "p", "11"), e(1300, "go-1", "p", "11")}, at)
	assert.Empty(t, v.faults)
	assert.Empty(t, v.missing)
	assert.Equal(t, map[string]int{"java": 2, "go": 1}, v.bySide)
	assert.Equal(t, map[string]int{"go": 1}, v.repeated)
	assert.Empty(t, v.unread, "two seconds are nothing")
	assert.Equal(t, map[string]int{"java→go": 1}, v.across)

	v = judge(shards, []event{e(3001, "go-1", "c", "20"), e(990, "java-1", "p", "8"), e(5000, "java-1", "p", "11"), e(9000, "go-1", "c", "20")}, at)
	assert.Equal(t, []span{{"p", at, time.UnixMilli(5000), "java-1"}, {"c", at, time.UnixMilli(3001), "go-1"}}, v.unread)
	v = judge(shards, []event{e(4000, "java-1", "p", "8"), e(7000, "java-1", "p", "11"), e(9000, "go-1", "c", "20")}, at)
	assert.Empty(t, v.unread, "all arrived before the first delivery")

	assert.Equal(t, []string{"c 20"}, judge(shards, []event{e(1, "go-1", "p", "8"), e(2, "go-1", "p", "11")}, at).missing)
	assert.Len(t, judge(shards, []event{e(1, "go-1", "p", "11"), e(2, "java-1", "p", "8")}, at).faults, 1, "out of order")
	assert.Len(t, judge(shards, []event{e(1, "go-1", "p", "8"), e(2, "go-1", "c", "20"), e(3, "go-1", "p", "11")}, at).faults, 1, "before its parent")
	assert.Zero(t, judge(shards, nil, at.Add(1)).put, "not asked for")
}
