//go:build interop

package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/workermetrics"
)

// watch stands between both sides and DynamoDB.
type watch struct {
	eyes   *dynamodb.Client // reads the table unseen
	leases *lease.Store
	tell   func(string, ...any)

	mu sync.Mutex
	// Guarded by mu.
	items      map[string]item
	beats      map[string]time.Time // when the owner last wrote the lease
	owners     map[string]string    // last that each lease had
	locked     time.Time            // when the lock was last written
	leaders    []string             // in order
	moves      []move
	assigned   map[string]int // by the side that leads: leases given to whom, "java→go"
	faults     []string
	silences   []span // in which a lease was without an owner's sign of life
	upsets     []*upset
	reigns     []reign
	absence    []span             // when nobody was there to own leases; before anybody did, too
	coming     map[string]string  // by lease: the worker that it was given to and that has not written it yet
	units      map[string]float64 // by side and kind
	late       int                // assignments by one that had the lock and has lost it
	attendance bool               // somebody is there to own leases
	begun      bool               // an owner has written a lease
	gifts      map[string]gift    // by lease
	left       map[string]bool    // workers told to go, or killed
	held       map[string]float64 // seconds that leases were owned, by side
	legacy     *legacy            // nil unless the application has tables of KCL 3.0 to 3.4
}

// gift is an assignment that a Go leader has made.
type gift struct {
	to string
	at time.Time
}

// patience is how long a Go leader leaves a lease, whose counter has not moved
// since it was assigned, to its owner: a Java worker renews late.
const patience = 20 * time.Second

// inFlight is how long after it was thawed the calls of a worker may still land
// that it was frozen in.
const inFlight = time.Second

// move is a change of a lease's actual owner.
type move struct {
	lease, from, to string
	graceful        bool
	at              time.Time
}

func newWatch(tell func(string, ...any)) *watch {
	return &watch{
		tell: tell, items: map[string]item{}, beats: map[string]time.Time{}, owners: map[string]string{},
		assigned: map[string]int{}, units: map[string]float64{},
		coming: map[string]string{}, absence: []span{{to: never}},
		gifts: map[string]gift{}, left: map[string]bool{}, held: map[string]float64{},
	}
}

func (w *watch) look(a *kcltest.AWS) {
	w.eyes = dynamodb.NewFromConfig(a.Config("eyes"))
	w.leases = lease.NewStore(lease.StoreConfig{Client: w.eyes, Table: app})
	a.Intercept(w.intercept)
}

var never = time.Unix(1<<40, 0)

type bodyKey struct{}

// wrap hands the body of each call to intercept, and has DynamoDB say what the
// call costs.
func (w *watch) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if _, op, ok := strings.Cut(r.Header.Get("X-Amz-Target"), "DynamoDB_20120810."); ok {
			switch op {
			case "PutItem", "UpdateItem", "DeleteItem", "GetItem", "Scan", "Query":
				var in map[string]json.RawMessage
				if json.Unmarshal(body, &in) == nil {
					in["ReturnConsumedCapacity"] = json.RawMessage(`"TOTAL"`)
					if b, err := json.Marshal(in); err == nil {
						body = b
					}
				}
			}
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		next.ServeHTTP(rw, r.WithContext(context.WithValue(r.Context(), bodyKey{}, body)))
	})
}

func (w *watch) intercept(ctx context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
	body, ours := ctx.Value(bodyKey{}).([]byte)
	if i.Service != "dynamodb" || !ours {
		return run(), nil
	}
	switch i.Operation {
	case "PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems":
	case "BatchWriteItem":
		w.fault("%s makes a %s, which nobody watches", i.Client, i.Operation)
		return run(), nil
	default:
		ans := run()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.bill(i, "read", ans)
		w.created(i, ans)
		return ans, nil
	}
	changes, ok := changesOf(i.Operation, body)
	if !ok {
		return run(), nil // refused
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	ans := run()
	what := "other writes"
	if strings.HasPrefix(changes[0].key, "shardId-") {
		what = "lease writes"
	}
	w.bill(i, what, ans)
	if ans.Err != nil {
		return ans, nil
	}
	for _, c := range changes {
		switch {
		case c.table == app:
			w.written(i.Client, c.op, c.key)
		case !w.legacyWritten(i.Client, c):
			w.faultLocked("%s writes to table %s", i.Client, c.table)
		}
	}
	return ans, nil
}

// change is what a call writes.
type change struct{ op, table, key string }

// changesOf reads what a call would write.
func changesOf(op string, body []byte) (all []change, ok bool) {
	type one struct {
		TableName string
		Key, Item map[string]struct{ S string }
	}
	of := func(op string, in *one) {
		c := change{op: op, table: in.TableName}
		for _, attr := range []string{"leaseKey", "key", "wid"} {
			c.key += in.Key[attr].S + in.Item[attr].S
		}
		all = append(all, c)
	}
	if op != "TransactWriteItems" {
		var in one
		if json.Unmarshal(body, &in) != nil {
			return nil, false
		}
		of(op, &in)
		return all, true
	}
	var in struct{ TransactItems []map[string]*one }
	if json.Unmarshal(body, &in) != nil {
		return nil, false
	}
	for _, action := range in.TransactItems {
		for op, what := range action {
			if op != "ConditionCheck" {
				of(op+"Item", what)
			}
		}
	}
	return all, len(all) > 0
}

// bill adds what a call cost. The caller holds mu.
func (w *watch) bill(i wire.Info, what string, ans wire.Answer) {
	var out struct {
		ConsumedCapacity struct{ CapacityUnits float64 }
	}
	if json.Unmarshal(ans.Body, &out) == nil {
		w.units[side(i.Client)+" "+what] += out.ConsumedCapacity.CapacityUnits
	}
}

func (w *watch) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faultLocked(format, args...)
}

func (w *watch) faultLocked(format string, args ...any) {
	f := fmt.Sprintf(format, args...)
	w.faults = append(w.faults, f)
	w.tell("FAULT %s", f)
}

// written looks at what a client has just written. The caller holds mu.
func (w *watch) written(client, op, key string) {
	was := w.items[key]
	out, err := w.eyes.GetItem(context.Background(), &dynamodb.GetItemInput{
		TableName: aws.String(app), ConsistentRead: aws.Bool(true), Key: item{"leaseKey": &types.AttributeValueMemberS{Value: key}},
	})
	if err != nil {
		w.faultLocked("cannot look at %s: %v", key, err)
		return
	}
	is := item(out.Item)
	if is == nil {
		delete(w.items, key)
	} else {
		w.items[key] = is
		for _, f := range unreadable(is) {
			w.faultLocked("%s's %s of %s: %s", client, op, key, f)
		}
	}
	kind := text(is["entityType"])
	if is == nil {
		kind = text(was["entityType"])
	}
	w.moved(client, op, app, key, is)
	switch {
	case key == lockKey:
		w.lock(client, was, is)
	case kind == "LEASE" || kind == "" && (is["leaseCounter"] != nil || was["leaseCounter"] != nil):
		if is != nil {
			if _, _, err := w.leases.GetConsistent(context.Background(), key); err != nil {
				w.faultLocked("%s's %s of %s cannot be read by Go: %v", client, op, key, err)
			}
		}
		w.lease(client, key, was, is)
	case kind == "WORKER_METRIC_STATS" && is != nil:
		if _, err := workermetrics.Decode(is); err != nil {
			w.faultLocked("%s's record cannot be read by Go: %v", client, err)
		}
		if key != client {
			w.faultLocked("%s writes the record of %s", client, key)
		}
	}
}

func (w *watch) lock(client string, was, is item) {
	now, before, after := time.Now(), text(was["ownerName"]), text(is["ownerName"])
	switch {
	case is == nil:
		if before != client {
			w.faultLocked("%s deletes the lock of %s", client, before)
		}
		w.tell("%s frees the lock", client)
	case after != client:
		w.faultLocked("%s writes a lock of %s", client, after)
	case was != nil && before != after:
		ms, _ := strconv.Atoi(text(was["leaseDuration"]))
		if d := now.Sub(w.locked); d < time.Duration(ms)*time.Millisecond {
			w.faultLocked("%s takes the lock from %s %v after its last sign of life, not %d ms", client, before, d, ms)
		}
		fallthrough
	case was == nil:
		w.leaders = append(w.leaders, client)
		w.reigns = append(w.reigns, reign{client, now})
		w.tell("%s leads", client)
	}
	w.locked = now
}

func actual(it item) string {
	if o := text(it["checkpointOwner"]); o != "" {
		return o
	}
	return text(it["leaseOwner"])
}

func ended(it item) bool { return text(it["checkpoint"]) == "SHARD_END" }

func (w *watch) lease(client, key string, was, is item) {
	now := time.Now()
	if is == nil {
		if !ended(was) {
			w.faultLocked("%s deletes %s at %s", client, key, text(was["checkpoint"]))
		}
		w.hush(key, now, was, client)
		delete(w.beats, key)
		return
	}
	if was == nil {
		w.beats[key] = now
		return
	}
	if number(is["leaseCounter"]) < number(was["leaseCounter"]) {
		w.faultLocked("%s moves the counter of %s back", client, key)
	}
	if text(was["checkpoint"]) != text(is["checkpoint"]) || text(was["checkpointSubSequenceNumber"]) != text(is["checkpointSubSequenceNumber"]) {
		if actual(was) != client {
			w.faultLocked("%s moves the checkpoint of %s, which is %s's", client, key, actual(was))
		}
		if position(text(is["checkpoint"])).Compare(position(text(was["checkpoint"]))) < 0 {
			w.faultLocked("%s moves the checkpoint of %s back from %s to %s", client, key, text(was["checkpoint"]), text(is["checkpoint"]))
		}
	}
	if next := text(is["leaseOwner"]); next != "" && next != text(was["leaseOwner"]) {
		w.coming[key] = next
		for _, u := range w.upsets { // it has just gone, and the leader does not know
			if u.worker == next && (u.how != "frozen" || u.end.IsZero()) {
				u.moving = append(u.moving, key)
			}
		}
		holder := w.holder()
		g := w.gifts[key]
		delete(w.gifts, key)
		// A hand-off asks the owner, and takes nothing.
		if g.to != "" && !w.left[g.to] && side(g.to) == "java" && side(client) == "go" && is["checkpointOwner"] == nil && now.Sub(g.at) < patience {
			w.faultLocked("%s takes %s from %s, which had it for %v", client, key, g.to, now.Sub(g.at))
		}
		if holder == client && side(client) == "go" {
			w.gifts[key] = gift{next, now}
		}
		switch {
		case holder == client:
			w.assigned[side(client)+": "+side(text(was["leaseOwner"]))+"→"+side(next)]++
		case next == client && text(was["leaseOwner"]) == "":
			w.assigned[side(client)+" itself: →"+side(next)]++ // a child of a shard that it has ended
		case w.thawed(client, now):
			w.late++
			w.tell("%s, which does not lead, gives %s to %s", client, key, next)
		default:
			w.faultLocked("%s gives %s to %s, and %q leads", client, key, next, holder)
		}
	}
	if to, from := actual(is), w.owners[key]; to != "" && to != from {
		if from != "" {
			w.moves = append(w.moves, move{key, from, to, actual(was) == client && client == from, now})
			w.tell("%s: %s → %s, by %s", short(key), from, to, client)
		}
		w.owners[key] = to
	}
	if actual(was) == client { // not who gives a lease to itself
		if !w.begun {
			w.begun, w.absence[0].to = true, now // how long a fresh application takes is no matter of ours
		}
		w.hush(key, now, was, client)
		w.beats[key] = now
		if text(is["leaseOwner"]) == client {
			delete(w.gifts, key)
			delete(w.coming, key)
		}
	}
}

// thawed reports whether the worker has just been frozen, so that writes may land
// that it had on the way. The caller holds mu.
func (w *watch) thawed(worker string, now time.Time) bool {
	for _, u := range w.upsets {
		if u.worker == worker && u.how == "frozen" && now.Sub(u.end) < inFlight {
			return true
		}
	}
	return false
}

// upset notes what is done to a worker.
func (w *watch) upset(how, worker string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	u := &upset{how: how, worker: worker, at: time.Now()}
	if how == "killed" {
		u.end = u.at
	}
	if lock := w.lockItem(); text(lock["ownerName"]) == worker {
		u.lock = time.Duration(number(lock["leaseDuration"])) * time.Millisecond
	}
	for key, it := range w.items {
		if w.coming[key] == worker || text(it["checkpointOwner"]) == worker {
			u.moving = append(u.moving, key)
		}
	}
	w.upsets = append(w.upsets, u)
}

// over notes that the last thing done to the worker has its end.
func (w *watch) over(worker string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, u := range slices.Backward(w.upsets) {
		if u.worker == worker {
			u.end = time.Now()
			return
		}
	}
}

// hush notes for how long a lease has had no owner's sign of life, which by now
// gives. The caller holds mu.
func (w *watch) hush(key string, now time.Time, it item, by string) {
	if from, ok := w.beats[key]; ok && !ended(it) && now.Sub(from) > notable {
		w.silences = append(w.silences, span{key, from, now, by})
	}
}

// attend says whether there is a worker that could own leases.
func (w *watch) attend(yes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch now := time.Now(); {
	case yes && !w.attendance && w.begun:
		w.absence[len(w.absence)-1].to = now
	case !yes && w.attendance && w.begun:
		for key := range w.beats {
			w.hush(key, now, w.items[key], "")
		}
		w.absence = append(w.absence, span{from: now, to: never})
	}
	w.attendance = yes
}

func (w *watch) leader() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.holder()
}

// census adds to the seconds that leases were owned.
func (w *watch) census(every time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, it := range w.items {
		if it["leaseCounter"] != nil && actual(it) != "" {
			w.held[side(actual(it))] += every.Seconds()
		}
	}
}

// owned returns the keys of the leases, of shards not at their end, that a worker
// owns.
func (w *watch) owned(worker string) (keys []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(w.items)) {
		if it := w.items[key]; it["leaseCounter"] != nil && !ended(it) && actual(it) == worker {
			keys = append(keys, key)
		}
	}
	return keys
}

// checkpoints returns the stored positions by lease.
func (w *watch) checkpoints() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string]string{}
	for key, it := range w.items {
		if it["leaseCounter"] != nil {
			all[key] = text(it["checkpoint"]) + ":" + text(it["checkpointSubSequenceNumber"])
		}
	}
	return all
}

// handed counts the changes of owner from one side to another since then.
func (w *watch) handed(from, to string, since time.Time) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.moves {
		if side(m.from) == from && side(m.to) == to && !m.at.Before(since) {
			n++
		}
	}
	return n
}
