package sim

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The laws of the single-table migration.
const (
	oneActs       law = "one acts as leader, by the lock that counts"
	lockTerm      law = "the lock is its owner's for its term"
	steps         law = "the stored status takes allowed steps, and tells who took them"
	supported     law = "INIT is stored once every lease owner knows the migration"
	fullBake      law = "a bake is in full"
	evidence      law = "a bake is undone on evidence only"
	drainedFirst  law = "nobody uses the legacy tables at PENDING and COMPLETE"
	leaseWriters  law = "at COMPLETE every lease owner reports to the lease table"
	nothingLost   law = "no item of the coordinator is lost or changed"
	writeTarget   law = "a worker writes where its deployment says"
	cleanLegacy   law = "the legacy tables end with the migration's item and aged rows"
	noLegacyCalls law = "a worker restarted after COMPLETE makes no call to the legacy tables"
	soundListings law = "a worker of 3.4 meets nothing that it cannot read before the second deployment"
	noPause       law = "leadership has no pause at COMPLETE"
	inTime        law = "the migration goes on in time"
	staysPut      law = "a straggler keeps the migration where it is"
)

const (
	stateTable  = simApp + "-CoordinatorState"
	reportTable = simApp + "-WorkerMetricStats"
	stateKey    = "TableMigration3.5"
	versionKey  = "Migration3.0"

	statusPrefix = "TABLE_MIGRATION_STATUS_"
	noStatus     = "none"
	isInit       = statusPrefix + "INIT"
	isDeployed   = statusPrefix + "DEPLOYED"
	isPending    = statusPrefix + "PENDING"
	isComplete   = statusPrefix + "COMPLETE"
	itemMove     = "move"

	// A row counts for two report periods. A leader sees that it has grown old
	// at a scan, by when it saw it change at one before.
	rowLives  = time.Minute
	rowLooked = rowLives + 2*assignEvery + 10*time.Second
)

// keyName is the partition key of each table.
var keyName = map[string]string{simApp: "leaseKey", stateTable: "key", reportTable: "wid"}

type row = map[string]types.AttributeValue

// chronicle is what is written in the tables while they become one, and finds
// what must not happen.
type chronicle struct {
	eyes  *dynamodb.Client // calls in no time
	tell  func(format string, args ...any)
	kill  func(*hand)
	bake  time.Duration // before COMPLETE
	loose sync.WaitGroup

	mu sync.Mutex // held over calls that take no time
	// Guarded by mu.
	hands     []*hand
	items     map[string]map[string]row       // by table and key
	lockAt    map[string]time.Time            // by table: when its lock was last written
	reporting map[string]map[string]time.Time // by table and worker: since when without a pause
	owned     map[string]time.Time            // by worker: when it last had a lease
	kept      map[string]row                  // the coordinator's items: what they are to hold
	keptAt    map[string]time.Time            // when they were written to the legacy table
	complete  time.Time
	second    bool // the second deployment has begun
	traps     []trap
	tokens    map[string]bool // of the transactions that were looked at for traps
	lost      map[string]bool // of those whose answers are lost
	nth       map[string]int  // how many there were, by kind
	ghosts    []func()        // writes of the dead that have not landed yet
	died      time.Time       // the last to do so
	counts    map[string]int
	wrong     []violation
}

func newChronicle(eyes *dynamodb.Client, tell func(string, ...any)) *chronicle {
	c := &chronicle{
		eyes: eyes, tell: tell, items: map[string]map[string]row{}, lockAt: map[string]time.Time{}, reporting: map[string]map[string]time.Time{},
		owned: map[string]time.Time{}, kept: map[string]row{}, keptAt: map[string]time.Time{}, tokens: map[string]bool{}, lost: map[string]bool{},
		nth: map[string]int{}, counts: map[string]int{},
	}
	for table := range keyName {
		c.items[table], c.reporting[table] = map[string]row{}, map[string]time.Time{}
	}
	return c
}

// breaks notes that a law is broken. The caller holds mu.
func (c *chronicle) breaks(l law, format string, args ...any) {
	v := violation{l, fmt.Sprintf(format, args...)}
	c.tell("BROKEN %s", v)
	c.wrong = append(c.wrong, v)
}

func (c *chronicle) broken() []violation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wrong
}

// another is a lease owner other than that one.
func (c *chronicle) another(than *hand) *hand {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.hands {
		if h != than && !h.dead.Load() && slices.Contains(c.owners(), h.name) {
			return h
		}
	}
	return nil
}

// owners are those of all leases. The caller holds mu.
func (c *chronicle) owners() (names []string) {
	for _, it := range c.items[simApp] {
		if it["leaseCounter"] == nil {
			continue
		}
		for _, a := range []string{"leaseOwner", "checkpointOwner"} {
			if name := attribute(it, a); name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// lockTable is the table of the lock that counts. The caller holds mu.
func (c *chronicle) lockTable() string {
	if !c.complete.IsZero() {
		return simApp
	}
	return stateTable
}

// holder is who has the lock that counts, and whether the term has not run out.
// The caller holds mu.
func (c *chronicle) holder() (name string, inTerm bool) {
	table := c.lockTable()
	it := c.items[table][leaderKey]
	if it == nil {
		return "", false
	}
	lasts := time.Duration(whole(it, "leaseDuration")) * time.Millisecond
	return attribute(it, "ownerName"), time.Since(c.lockAt[table]) <= lasts
}

// look asks all workers whether they lead, and says whether one does.
func (c *chronicle) look() (led bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name, inTerm := c.holder()
	leads := ""
	for _, h := range c.hands {
		if h.ours == nil || h.dead.Load() || !h.ours.Status().Leading {
			continue
		}
		led = true
		switch {
		case leads != "":
			c.breaks(oneActs, "%s and %s lead", leads, h.id)
		case name != h.name || !inTerm:
			c.breaks(oneActs, "%s leads, and the lock in %s is %q's, in its term %v", h.id, c.lockTable(), name, inTerm)
		}
		leads = h.id
	}
	return led
}

// change is what one call made of an item.
type change struct {
	touch
	was, is row
}

// wrote looks at what a call has changed. The caller holds mu.
func (c *chronicle) wrote(r request) {
	var all []change
	leads, inTerm := c.holder() // before
	for _, t := range r.touches {
		if t.how == "ConditionCheck" {
			continue
		}
		name := keyName[t.table]
		out, err := c.eyes.GetItem(context.Background(), &dynamodb.GetItemInput{
			TableName: &t.table, ConsistentRead: aws.Bool(true), Key: row{name: &types.AttributeValueMemberS{Value: t.key}},
		})
		if err != nil {
			c.breaks(nothingLost, "cannot look at %s: %v", t.key, err)
			return
		}
		was := c.items[t.table][t.key]
		if out.Item == nil {
			delete(c.items[t.table], t.key)
		} else {
			c.items[t.table][t.key] = out.Item
		}
		if t.key == leaderKey {
			c.lockChanged(r.by, t.table, was, out.Item) // if only its time
		} else if !reflect.DeepEqual(was, out.Item) {
			all = append(all, change{t, was, out.Item})
		}
	}
	acts := func(what string) {
		if leads != r.by.name || !inTerm {
			c.breaks(oneActs, "%s %s, and the lock in %s is %q's, in its term %v", r.by.id, what, c.lockTable(), leads, inTerm)
		}
	}
	coordinator := false
	for _, ch := range all {
		switch {
		case ch.key == stateKey && ch.table == stateTable:
			acts("changes the migration's status")
			c.advances(r.by, ch.was, ch.is)
		case ch.key == stateKey:
			if attribute(ch.is, "tm") != isComplete {
				c.breaks(steps, "%s puts the status %q into the lease table", r.by.id, attribute(ch.is, "tm"))
			}
		case ch.table == reportTable, isReport(ch.was), isReport(ch.is):
			c.reports(r.by, ch)
		case ch.was["leaseCounter"] != nil, ch.is["leaseCounter"] != nil:
			c.leased(ch, r.by, acts)
		default:
			coordinator = true
			c.keeps(r, ch)
		}
	}
	if coordinator && r.moves() {
		acts("moves items")
		if r.by.stage != ofSecond || !c.complete.IsZero() {
			c.breaks(writeTarget, "%s, %s, moves items", r.by.id, r.by.stage)
		}
	}
	if coordinator {
		c.allKept()
	}
}

func isReport(it row) bool { return attribute(it, "entityType") == "WORKER_METRIC_STATS" }

// lockChanged looks at a write of a lock. The caller holds mu.
func (c *chronicle) lockChanged(by *hand, table string, was, is row) {
	before := attribute(was, "ownerName")
	age, lasts := time.Since(c.lockAt[table]), time.Duration(whole(was, "leaseDuration"))*time.Millisecond
	switch {
	case is == nil && was != nil && before != by.name, is != nil && attribute(is, "ownerName") != by.name:
		c.breaks(lockTerm, "%s writes the lock of %q in %s", by.id, before, table)
	case is != nil && was != nil && before != by.name && age < lasts:
		c.breaks(lockTerm, "%s takes the lock in %s from %s after %v", by.id, table, before, age)
	case table == simApp && is != nil && c.complete.IsZero() && !c.completes():
		c.breaks(lockTerm, "%s takes the lock of the lease table before COMPLETE", by.id)
	}
	if is != nil {
		c.lockAt[table] = time.Now()
	}
	if is == nil || was != nil && before == by.name {
		return
	}
	c.tell("%s has the lock in %s", by.id, table)
	c.counts["locks taken"]++
	for _, lands := range c.ghosts {
		c.loose.Go(lands)
	}
	c.ghosts = nil
}

// completes reports whether the legacy table says COMPLETE: as it does before the
// call that stored it has been looked at.
func (c *chronicle) completes() bool {
	out, err := c.eyes.GetItem(context.Background(), &dynamodb.GetItemInput{
		TableName: aws.String(stateTable), ConsistentRead: aws.Bool(true), Key: row{"key": &types.AttributeValueMemberS{Value: stateKey}},
	})
	return err == nil && attribute(out.Item, "tm") == isComplete
}

// allowed are the steps of the stored status.
var allowed = map[[2]string]bool{
	{noStatus, isInit}: true, {isInit, noStatus}: true, {isInit, isDeployed}: true,
	{isDeployed, isPending}: true, {isPending, isDeployed}: true, {isPending, isComplete}: true,
}

// advances looks at a change of the migration's status. The caller holds mu.
func (c *chronicle) advances(by *hand, was, is row) {
	now := time.Now()
	from, to := noStatus, noStatus
	if was != nil {
		from = attribute(was, "tm")
	}
	if is != nil {
		to = attribute(is, "tm")
	}
	c.tell("%s: %s → %s", by.id, strings.TrimPrefix(from, statusPrefix), strings.TrimPrefix(to, statusPrefix))
	c.counts[strings.TrimPrefix(from, statusPrefix)+" → "+strings.TrimPrefix(to, statusPrefix)]++
	if !allowed[[2]string{from, to}] {
		c.breaks(steps, "%s stores %s after %s", by.id, to, from)
	}
	if is != nil {
		c.signed(by, was, is)
	}
	baked := func(d time.Duration) {
		if since := changedAt(was).Truncate(time.Second); now.Sub(since) < d {
			c.breaks(fullBake, "%s stores %s %v after %s", by.id, to, now.Sub(since), from)
		}
	}
	switch {
	case to == isInit, to == isDeployed && from == isInit:
		for _, name := range c.owners() {
			if r := c.items[reportTable][name]; old(r, rowLives-10*time.Second) && now.Sub(c.reporting[reportTable][name]) > assignEvery+10*time.Second {
				c.breaks(supported, "%s stores %s, and %s is of 3.4", by.id, to, name)
			}
		}
		if to == isDeployed {
			baked(time.Hour)
		}
	case to == noStatus:
		if !slices.ContainsFunc(slices.Collect(maps.Keys(c.items[reportTable])), func(name string) bool {
			return old(c.items[reportTable][name], rowLooked) && now.Sub(c.lastOwned(name)) < rowLooked
		}) {
			c.breaks(evidence, "%s undoes INIT, and no worker of 3.4 has a lease", by.id)
		}
	case to == isDeployed:
		lives := slices.ContainsFunc(slices.Collect(maps.Values(c.items[reportTable])), func(r row) bool { return age(r) < rowLooked })
		if !lives && len(c.left(0)) == 0 && by.stage != ofFirst {
			c.breaks(evidence, "%s undoes PENDING, and nobody uses the legacy tables", by.id)
		}
	case to == isPending:
		c.drained(by, to, 2*assignEvery)
	case to == isComplete:
		c.complete = now
		baked(c.bake)
		c.drained(by, to, 12*time.Second) // a look is 10 s old at most
		for _, name := range c.owners() {
			if r := c.items[simApp][name]; !isReport(r) || age(r) > rowLooked {
				c.breaks(leaseWriters, "%s stores COMPLETE, and %s, who has a lease, reported to the lease table %v ago", by.id, name, age(r))
			}
		}
	}
}

// lastOwned is when a worker last had a lease. The caller holds mu.
func (c *chronicle) lastOwned(name string) time.Time {
	if slices.Contains(c.owners(), name) {
		return time.Now()
	}
	return c.owned[name]
}

// signed looks whether a change tells who made it when, and what it was before.
func (c *chronicle) signed(by *hand, was, is row) {
	if late := time.Since(changedAt(is)); attribute(is, "mb") != by.name || late < 0 || late > 10*time.Second {
		c.breaks(steps, "%s stores %s as by %s, %v ago", by.id, attribute(is, "tm"), attribute(is, "mb"), late)
	}
	past, _ := is["h"].(*types.AttributeValueMemberL)
	switch {
	case past == nil || len(past.Value) == 0 || len(past.Value) > 10:
		c.breaks(steps, "%s stores no history with %s", by.id, attribute(is, "tm"))
	case was != nil:
		last, _ := past.Value[0].(*types.AttributeValueMemberM)
		if want := (row{"tm": was["tm"], "mb": was["mb"], "mts": was["mts"]}); last == nil || !reflect.DeepEqual(last.Value, want) {
			c.breaks(steps, "%s stores %s, and the history does not say what was before", by.id, attribute(is, "tm"))
		}
	}
}

// age is how long ago a worker reported.
func age(r row) time.Duration {
	if r == nil {
		return time.Duration(1<<63 - 1)
	}
	return time.Since(time.Unix(int64(whole(r, "lut")), 0))
}

// old reports whether a row is of a worker of 3.4 that reported within that time.
func old(r row, within time.Duration) bool {
	return r != nil && age(r) < within && whole(r, "lut")-whole(r, "slu") > int((2*reportEvery).Seconds())
}

// left are the keys of items that are to be moved, and have been for so long. The
// caller holds mu.
func (c *chronicle) left(since time.Duration) (keys []string) {
	for key := range c.items[stateTable] {
		if key != leaderKey && key != stateKey && time.Since(c.keptAt[key]) >= since {
			keys = append(keys, key)
		}
	}
	return keys
}

// drained looks whether anybody uses the legacy tables whom the leader can know.
// The caller holds mu.
func (c *chronicle) drained(by *hand, to string, known time.Duration) {
	for name, r := range c.items[reportTable] {
		if age(r) <= rowLives && time.Since(c.reporting[reportTable][name]) > known {
			c.breaks(drainedFirst, "%s stores %s, and %s has reported to the legacy table for %v, last %v ago", by.id, to, name, time.Since(c.reporting[reportTable][name]), age(r))
		}
	}
	if left := c.left(20 * time.Second); len(left) > 0 {
		c.breaks(drainedFirst, "%s stores %s, and %v are left", by.id, to, left)
	}
}

// reports looks at a worker's row. The caller holds mu.
func (c *chronicle) reports(by *hand, ch change) {
	since := c.reporting[ch.table]
	if ch.is == nil {
		delete(since, ch.key)
		return
	}
	if since[ch.key].IsZero() || age(ch.was) > rowLives {
		since[ch.key] = time.Now()
	}
	legacy := ch.table == reportTable
	switch {
	case legacy && by.stage > ofFirst, !legacy && by.stage < ofSecond && c.complete.IsZero():
		c.breaks(writeTarget, "%s, %s, reports to %s", by.id, by.stage, ch.table)
	case legacy && !c.complete.IsZero() && time.Since(c.complete) > 45*time.Second && by.stage != of34:
		c.breaks(writeTarget, "%s reports to %s %v after COMPLETE", by.id, ch.table, time.Since(c.complete))
	}
}

// leased looks at a change of a lease: of who has it, only the leader makes any,
// but for an owner that gives its lease away, and who takes the child of a shard
// that it has ended. The caller holds mu.
func (c *chronicle) leased(ch change, by *hand, acts func(string)) {
	before, after := attribute(ch.was, "leaseOwner"), attribute(ch.is, "leaseOwner")
	asked, asks := attribute(ch.was, "checkpointOwner"), attribute(ch.is, "checkpointOwner")
	if before != after || asked != asks {
		for _, name := range []string{before, asked} {
			c.owned[name] = time.Now()
		}
		if ch.was != nil && ch.is != nil && actualOwner(ch.was) != by.name && (before != "" || after != by.name) {
			acts(fmt.Sprintf("gives %s of %q to %q", ch.key, actualOwner(ch.was), after))
			c.counts["assignments"]++
		}
	}
}

// content is what an item holds, in whichever table it is.
func content(table string, it row) row {
	out := maps.Clone(it)
	delete(out, keyName[table])
	if attribute(out, "entityType") == "CLIENT_VERSION_MIGRATION" {
		delete(out, "entityType") // which 3.4 does not write
	}
	return out
}

// keeps looks at a change of one of the coordinator's items. The caller holds mu.
func (c *chronicle) keeps(r request, ch change) {
	switch {
	case r.moves():
	case ch.table == stateTable && ch.is != nil:
		c.kept[ch.key], c.keptAt[ch.key] = content(ch.table, ch.is), time.Now()
		c.tell("%s writes %s", r.by.id, ch.key)
		if r.by.stage >= ofSecond || !c.complete.IsZero() {
			c.breaks(writeTarget, "%s, %s, writes %s to the legacy table", r.by.id, r.by.stage, ch.key)
		}
	default:
		c.breaks(nothingLost, "%s changes %s in %s", r.by.id, ch.key, ch.table)
	}
	if ch.table == simApp && ch.is != nil && attribute(ch.is, "entityType") == "" {
		c.breaks(nothingLost, "%s puts %s into the lease table without its kind", r.by.id, ch.key)
	}
}

// allKept looks whether each item is where it is looked for, as it was. The caller
// holds mu.
func (c *chronicle) allKept() {
	for key, want := range c.kept {
		table := stateTable
		if c.items[table][key] == nil {
			table = simApp
		}
		if it := c.items[table][key]; it == nil || !reflect.DeepEqual(content(table, it), want) {
			c.breaks(nothingLost, "%s is %v in %s, and was %v", key, it, table, want)
		}
	}
}
