//go:build interop

package interop

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/coordinator"
	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/workermetrics"
)

// phase is what a worker makes of the legacy tables.
type phase int

const (
	before35 phase = iota // KCL 3.0 to 3.4: knows no other
	phase1                // 3.5: writes them, reads both
	phase2                // 3.5, asked to migrate: writes the lease table, reads both
)

func (p phase) String() string { return []string{"3.4", "phase 1", "phase 2"}[p] }

// legacy is the tables of KCL 3.0 to 3.4. The watch's mutex guards it.
type legacy struct {
	coordinator map[string]item // by key
	metrics     map[string]item // by worker
	phases      map[string]phase
	report      time.Duration // how often workers report
	path        []string      // statuses the migration's item has had
}

func newLegacy(report time.Duration) *legacy {
	return &legacy{coordinator: map[string]item{}, metrics: map[string]item{}, phases: map[string]phase{}, report: report}
}

// status is what the migration's item says, without its prefix, "" without item.
func (l *legacy) status() string {
	return statusOf(l.coordinator[stateKey])
}

// lockItem is the lock that counts, nil without one. The caller holds mu.
func (w *watch) lockItem() item {
	lock := w.items[lockKey]
	if lock == nil && w.legacy != nil && w.legacy.status() != "COMPLETE" {
		lock = w.legacy.coordinator[lockKey]
	}
	return lock
}

// holder is who has it. The caller holds mu.
func (w *watch) holder() string { return text(w.lockItem()["ownerName"]) }

// created holds a call against who may make tables. The caller holds mu.
func (w *watch) created(i wire.Info, ans wire.Answer) {
	if w.legacy == nil || i.Operation != "CreateTable" || ans.Err != nil {
		return
	}
	if w.legacy.phases[i.Client] != before35 {
		w.faultLocked("%s, of %s, makes table %v", i.Client, w.legacy.phases[i.Client], i.Resources)
	}
	w.tell("%s makes table %v", i.Client, i.Resources)
}

// legacyWritten looks at what a client has written to a legacy table, and says
// whether it is one. The caller holds mu.
func (w *watch) legacyWritten(client string, c change) bool {
	l := w.legacy
	if l == nil {
		return false
	}
	var items map[string]item
	var attr string
	switch c.table {
	case app + coordinatorTable:
		items, attr = l.coordinator, "key"
	case app + metricsTable:
		items, attr = l.metrics, "wid"
	default:
		return false
	}
	was := items[c.key]
	is := w.see(c.table, attr, c.key)
	if is == nil {
		delete(items, c.key)
	} else {
		items[c.key] = is
		for _, f := range unreadable(modern(is)) {
			w.faultLocked("%s's %s of %s in %s: %s", client, c.op, c.key, c.table, f)
		}
	}
	w.moved(client, c.op, c.table, c.key, is)
	switch {
	case c.table == app+metricsTable:
		if is == nil {
			break
		}
		if _, err := workermetrics.Decode(modern(is)); err != nil {
			w.faultLocked("%s's record cannot be read by Go: %v", client, err)
		}
		if c.key != client {
			w.faultLocked("%s writes the record of %s", client, c.key)
		}
	case c.key == lockKey:
		w.lock(client, was, is)
	case c.key == stateKey:
		w.step(client, was, is)
	case is != nil:
		it, ok := coordinator.DecodeItem(is, attr)
		if !ok || string(it.Type) != kindOf(is) {
			w.faultLocked("%s's %s: Go reads a %q", client, c.key, it.Type)
		}
	}
	return true
}

// see reads an item as it stands, nil without one.
func (w *watch) see(table, attr, key string) item {
	out, err := w.eyes.GetItem(context.Background(), &dynamodb.GetItemInput{
		TableName: aws.String(table), ConsistentRead: aws.Bool(true), Key: item{attr: &types.AttributeValueMemberS{Value: key}},
	})
	if err != nil {
		w.faultLocked("cannot look at %s: %v", key, err)
		return nil
	}
	return out.Item
}

// moved holds a write against which table it belongs into. The caller holds mu.
func (w *watch) moved(client, op, table, key string, is item) {
	l := w.legacy
	if l == nil || is == nil || kindOf(is) == "LEASE" {
		return
	}
	p, status := l.phases[client], l.status()
	bad := func() { w.faultLocked("%s, of %s, at %q: %s of %s in %s", client, p, status, op, key, table) }
	switch kindOf(is) {
	case "WORKER_METRIC_STATS":
		if (table == app) != (p == phase2) || p > before35 && (is["sup"] == nil || is["slu"] == nil || is["entityType"] == nil) {
			bad()
		}
	case "LEADER":
		// A follower that does not know yet that the migration is complete may take
		// the old lock, and frees it in the same breath: the end of a scenario looks.
		if table == app && status != "COMPLETE" || p > before35 && is["entityType"] == nil {
			bad()
		}
	case "CLIENT_VERSION_MIGRATION":
		if (table == app) != (p == phase2) {
			bad()
		}
	case "TABLE_MIGRATION":
		if p == before35 || table == app && (steps(is)[0].tm != "COMPLETE" || p != phase2) {
			bad()
		}
	}
}

// step looks at a change of the migration's item. The caller holds mu.
func (w *watch) step(client string, was, is item) {
	l := w.legacy
	now := time.Now()
	fault := func(format string, args ...any) {
		w.faultLocked("%s at %q→%q: "+format, append([]any{client, statusOf(was), statusOf(is)}, args...)...)
	}
	for _, f := range stepFaults(was, is, client, now) {
		fault("%s", f)
	}
	if owner := text(l.coordinator[lockKey]["ownerName"]); owner != client {
		fault("%q has the lock", owner)
	}
	w.tell("%s: the migration is at %q, was %q", client, statusOf(is), statusOf(was))
	l.path = append(l.path, statusOf(is))
	if is == nil {
		return
	}
	it, _ := coordinator.DecodeItem(is, "key")
	if _, err := coordinator.TableMigrationOf(it); err != nil {
		fault("Go cannot read it: %v", err)
	}
	switch statusOf(is) {
	case "INIT", "DEPLOYED":
		if statusOf(was) == "PENDING" {
			break
		}
		// An owner that has only just been given a lease may not have been seen.
		for key, it := range w.items {
			owner := text(it["leaseOwner"])
			if it["leaseCounter"] != nil && owner != "" && l.phases[owner] == before35 && now.Sub(w.beats[key]) < l.report {
				fault("%s is %s's, of %s", key, owner, l.phases[owner])
			}
		}
	case "PENDING", "COMPLETE":
		for key := range l.coordinator {
			if key != lockKey && key != stateKey {
				fault("%s is left in the legacy table", key)
			}
		}
		for worker, it := range l.metrics {
			if d := now.Sub(time.Unix(number(it["lut"]), 0)); d <= 2*l.report {
				fault("%s has reported to the legacy table %v ago", worker, d)
			}
		}
	}
	if statusOf(is) == "COMPLETE" {
		twin := w.see(app, "leaseKey", stateKey)
		if twin == nil || !twins(steps(is), steps(twin), side(client)) {
			fault("the lease table says %v, not %v", steps(twin), steps(is))
		}
	}
}

// statusOf is the status that the migration's item says, "" without one.
func statusOf(it item) string {
	if it == nil {
		return ""
	}
	return steps(it)[0].tm
}

// migration is the status of the migration's item.
func (w *watch) migration() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.legacy.status()
}

// age sets the migration's item back, as if its bake had lasted.
func (f *fleet) age(status string) {
	f.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	it := f.see(app+coordinatorTable, "key", stateKey)
	if got := statusOf(it); got != status {
		f.Fatalf("the migration is at %q, not %q", got, status)
	}
	back := number(it["mts"]) - (bake + 100*time.Second).Milliseconds()
	_, err := f.eyes.UpdateItem(context.Background(), &dynamodb.UpdateItemInput{
		TableName: aws.String(app + coordinatorTable), Key: item{"key": it["key"]},
		UpdateExpression: aws.String("SET mts = :back"), ConditionExpression: aws.String("tm = :status"),
		ExpressionAttributeValues: item{":back": decimal(back), ":status": it["tm"]},
	})
	if err != nil {
		f.Fatalf("cannot set the migration's item back: %v", err)
	}
	f.legacy.coordinator[stateKey] = f.see(app+coordinatorTable, "key", stateKey)
	f.say("the bake of %s is cut short", status)
}

// tables returns what the application's tables hold, by the ending of their name.
func (f *fleet) tables() map[string][]item {
	f.Helper()
	all := map[string][]item{}
	for _, ending := range []string{"", coordinatorTable, metricsTable} {
		out, err := f.eyes.Scan(context.Background(), &dynamodb.ScanInput{TableName: aws.String(app + ending), ConsistentRead: aws.Bool(true)})
		if err != nil {
			f.Fatalf("cannot look into %s: %v", app+ending, err)
		}
		all[ending] = out.Items
	}
	return all
}

// holds compares the tables' form with that at a recorded moment of an all-Java
// fleet, of the workers that live and are not left out.
func (f *fleet) holds(state string, except ...string) {
	f.Helper()
	want := recordedForm(f.T, state)
	workers := slices.DeleteFunc(f.live(), func(name string) bool { return slices.Contains(except, name) })
	// An item of a migration means nothing to workers of 3.4.
	migrating := slices.ContainsFunc(want, func(line string) bool { return strings.Contains(line, stateKey) })
	var got []string
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(500 * time.Millisecond) { // a report is on its way
		got = slices.DeleteFunc(form(f.tables(), workers), func(line string) bool { return !migrating && strings.Contains(line, stateKey) })
		if slices.Equal(want, got) {
			f.phase("the tables are as recorded: %s", state)
			return
		}
	}
	f.Errorf("the tables are not as recorded of Java alone, %s:\n%s\nbut\n%s", state, strings.Join(want, "\n"), strings.Join(got, "\n"))
}

// path returns the statuses that the migration's item has had.
func (w *watch) path() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.legacy.path)
}

// reporting says that each of the workers has a record of its own that is young,
// in the table of its phase.
func (f *fleet) reporting(workers ...string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range workers {
		it := f.legacy.metrics[name]
		if f.legacy.phases[name] == phase2 {
			it = f.items[name]
		}
		if it == nil || time.Since(time.Unix(number(it["lut"]), 0)) > 2*f.legacy.report {
			return false
		}
	}
	return true
}

// The watch finds what must not be written while the tables change. No Java is
// needed for that.
func TestWatchMigration(t *testing.T) {
	f := newFleet(t, 1, kcltest.Options{Delays: kcltest.NoDelays})
	f.tell = func(string, ...any) {} // its findings are wanted
	l := newLegacy(5 * time.Second)
	f.mu.Lock()
	f.legacy = l
	maps.Copy(l.phases, map[string]phase{"java-1": before35, "go-2": phase1, "go-3": phase2})
	f.mu.Unlock()
	client := func(name string) *dynamodb.Client {
		return dynamodb.New(dynamodb.Options{
			Region: "us-east-1", BaseEndpoint: aws.String(f.endpoint),
			Credentials: credentials.NewStaticCredentialsProvider(name, "secret", ""),
		})
	}
	table := func(by, ending, key string) {
		_, err := client(by).CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: aws.String(app + ending), BillingMode: types.BillingModePayPerRequest,
			KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String(key), KeyType: types.KeyTypeHash}},
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String(key), AttributeType: types.ScalarAttributeTypeS}},
		})
		require.NoError(t, err)
	}
	table("java-1", "", "leaseKey")
	table("java-1", coordinatorTable, "key")
	f.finds("")
	table("go-2", metricsTable, "wid")
	f.finds("go-2, of phase 1, makes table")

	s := func(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }
	put := func(by, ending string, it item) {
		t.Helper()
		_, err := client(by).PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(app + ending), Item: it})
		require.NoError(t, err)
	}
	lock := func(owner string) item {
		return item{"key": s("Leader"), "entityType": s("LEADER"), "ownerName": s(owner), "leaseDuration": s("60000"), "recordVersionNumber": s("v")}
	}
	state := func(by, now string, history ...string) item {
		change := func(status string) item {
			return item{"tm": s(statusPrefix + status), "mb": s(by), "mts": decimal(time.Now().UnixMilli() / 1e4 * 1e4)}
		}
		it := change(now)
		it["key"], it["entityType"] = s(stateKey), s("TABLE_MIGRATION")
		h := &types.AttributeValueMemberL{}
		for _, status := range history {
			h.Value = append(h.Value, &types.AttributeValueMemberM{Value: change(status)})
		}
		it["h"] = h
		return it
	}
	record := func(key, worker string, ago time.Duration) item {
		lut := decimal(time.Now().Add(-ago).Unix())
		return item{key: s(worker), "entityType": s("WORKER_METRIC_STATS"), "lut": lut, "slu": lut, "sup": decimal(1),
			"sts": &types.AttributeValueMemberM{}, "opr": &types.AttributeValueMemberM{}}
	}

	put("go-2", coordinatorTable, lock("go-2"))
	put("go-2", metricsTable, record("wid", "go-2", 0))
	put("go-3", "", record("leaseKey", "go-3", 0))
	f.finds("")
	assert.Equal(t, "go-2", f.leader())
	put("go-2", "", record("leaseKey", "go-2", 0))
	f.finds("go-2, of phase 1")
	put("go-3", metricsTable, record("wid", "go-3", 0))
	f.finds("go-3, of phase 2")
	untagged := lock("go-2")
	delete(untagged, "entityType")
	put("go-2", coordinatorTable, untagged)
	f.finds("PutItem of Leader in shop-CoordinatorState")

	put("go-3", coordinatorTable, state("go-3", "INIT", "INIT"))
	f.finds(`"go-2" has the lock`)
	put("go-2", coordinatorTable, state("go-2", "COMPLETE", "INIT"))
	f.finds("INIT becomes COMPLETE")
	put("go-2", coordinatorTable, state("go-2", "PENDING", "DEPLOYED"))
	f.finds("has reported to the legacy table")
	put("java-1", coordinatorTable, item{"key": s(clientKey), "cv": s("CLIENT_VERSION_3X"), "mb": s("java-1"), "mts": decimal(1)})
	f.finds("")
	put("go-2", coordinatorTable, state("go-2", "COMPLETE", "PENDING"))
	f.finds("Migration3.0 is left in the legacy table")

	_, err := client("go-3").TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{ConditionCheck: &types.ConditionCheck{TableName: aws.String(app + coordinatorTable), Key: item{"key": s("Leader")}, ConditionExpression: aws.String("attribute_exists(ownerName)")}},
		{Put: &types.Put{TableName: aws.String(app), Item: item{"leaseKey": s(clientKey), "cv": s("CLIENT_VERSION_3X")}}},
	}})
	require.NoError(t, err)
	f.finds("Migration3.0")
	put("go-3", "", item{"leaseKey": s(lockKey), "ownerName": s("go-3"), "leaseDuration": s("60000"), "recordVersionNumber": s("v")})
	f.finds("go-3")
}
