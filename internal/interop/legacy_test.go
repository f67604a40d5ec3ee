package interop

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/interchange"
)

// The endings of the legacy tables' names.
const (
	coordinatorTable = "-CoordinatorState"
	metricsTable     = "-WorkerMetricStats"
)

const (
	clientKey = "Migration3.0"
	stateKey  = "TableMigration3.5"

	statusPrefix = "TABLE_MIGRATION_STATUS_"
	bake         = time.Hour // the least that either bake lasts
)

// keyOf returns an item's key, whichever its table.
func keyOf(it item) string { return text(it["leaseKey"]) + text(it["key"]) + text(it["wid"]) }

// kindOf returns an item's entityType, as a reader infers it that meets none.
func kindOf(it item) string {
	switch t := text(it["entityType"]); {
	case t != "":
		return t
	case it["wid"] != nil:
		return "WORKER_METRIC_STATS"
	case keyOf(it) == lockKey:
		return "LEADER"
	case keyOf(it) == clientKey:
		return "CLIENT_VERSION_MIGRATION"
	case keyOf(it) == stateKey:
		return "TABLE_MIGRATION"
	}
	return "LEASE"
}

// modern returns an item of a legacy table as it would stand in the lease table.
func modern(it item) item {
	out := maps.Clone(it)
	delete(out, "key")
	delete(out, "wid")
	out["leaseKey"] = &types.AttributeValueMemberS{Value: keyOf(it)}
	out["entityType"] = &types.AttributeValueMemberS{Value: kindOf(it)}
	return out
}

// step is a value that the migration's item has or had.
type step struct {
	tm, mb string
	mts    int64
}

func steps(it item) []step {
	of := func(m item) step {
		return step{strings.TrimPrefix(text(m["tm"]), statusPrefix), text(m["mb"]), number(m["mts"])}
	}
	all := []step{of(it)}
	if h, ok := it["h"].(*types.AttributeValueMemberL); ok {
		for _, v := range h.Value {
			m, _ := v.(*types.AttributeValueMemberM)
			if m == nil {
				m = &types.AttributeValueMemberM{}
			}
			all = append(all, of(m.Value))
		}
	}
	return all
}

// twins reports whether the two copies of a completed migration's item, by a worker
// of that side, are the same. Java asks the clock for each of them.
func twins(a, b []step, by string) bool {
	if d := a[0].mts - b[0].mts; by == "java" && -tick <= d && d <= tick {
		b = slices.Clone(b)
		b[0].mts = a[0].mts
	}
	return slices.Equal(a, b)
}

// tick is how far apart, in milliseconds, two readings of the clock may be that are
// taken one after the other.
const tick = 1000

// stepFaults says what is wrong with a change of the migration's item, nil if it
// is not there, by a worker at a time.
func stepFaults(was, is item, by string, now time.Time) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if is == nil {
		if s := steps(was)[0].tm; s != "INIT" {
			fault("%s is deleted", s)
		}
		return faults
	}
	all := steps(is)
	to, history := all[0], all[1:]
	if to.mb != by {
		fault("modified by %q", to.mb)
	}
	if d := now.Sub(time.UnixMilli(to.mts)); d < -time.Second || d > 10*time.Second {
		fault("modified %v ago", d)
	}
	if was == nil {
		if to.tm != "INIT" || len(history) != 1 || history[0].tm != "INIT" || history[0].mb != by || history[0].mts > to.mts {
			fault("begins with %v", all)
		}
		return faults
	}
	before := steps(was)
	from := before[0]
	if want := before[:min(len(before), 10)]; !slices.Equal(want, history) {
		fault("history %v, not %v", history, want)
	}
	switch from.tm + "→" + to.tm {
	case "DEPLOYED→PENDING", "PENDING→DEPLOYED":
	case "INIT→DEPLOYED", "PENDING→COMPLETE":
		if to.mts/1000-from.mts/1000 < int64(bake/time.Second) {
			fault("%s bakes for %d s", from.tm, to.mts/1000-from.mts/1000)
		}
	default:
		fault("%s becomes %s", from.tm, to.tm)
	}
	return faults
}

// form says in lines, in order, which items tables hold and which attributes of
// which types each has. Of the workers' own records it tells those of workers
// only, and of leases what does not come and go with an owner.
func form(tables map[string][]item, workers []string) (lines []string) {
	for table, items := range tables {
		for _, it := range items {
			k := kindOf(it)
			name := keyOf(it)
			switch k {
			case "WORKER_METRIC_STATS":
				if !slices.Contains(workers, name) {
					continue
				}
				name = "worker"
			case "LEASE":
				name = "lease"
			}
			var attrs []string
			for attr, v := range it {
				if k == "LEASE" && (attr == "leaseOwner" || attr == "checkpointOwner" || attr == "throughputKBps") {
					continue
				}
				attrs = append(attrs, attr+" "+typeOf(v))
			}
			slices.Sort(attrs)
			line := fmt.Sprintf("%s: %s: %s", table, name, strings.Join(attrs, ", "))
			if tag := text(it["entityType"]); tag != "" {
				line += "; tagged " + tag
			}
			if k == "TABLE_MIGRATION" {
				line += ";"
				for _, s := range steps(it) {
					line += " " + s.tm
				}
			}
			if h, ok := it["h"].(*types.AttributeValueMemberL); ok {
				inner := map[string]bool{}
				for _, v := range h.Value {
					m, _ := v.(*types.AttributeValueMemberM)
					if m == nil {
						inner["a "+typeOf(v)] = true
						continue
					}
					for attr, v := range m.Value {
						inner[attr+" "+typeOf(v)] = true
					}
				}
				line += "; h of " + strings.Join(slices.Sorted(maps.Keys(inner)), ", ")
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// recordedForm is that of what a fleet of Java workers alone left at a moment.
func recordedForm(t testing.TB, state string) []string {
	tables := map[string][]item{}
	for table, items := range recordedTables(t, state) {
		// The recorded workers kept their names, so that records of theirs are left
		// in the table that they no longer write.
		if table == metricsTable && (strings.HasSuffix(state, "-pending") || strings.HasSuffix(state, "-complete")) {
			continue
		}
		tables[table] = items
	}
	return form(tables, []string{"C", "D"})
}

// recordedTables returns the items by the ending of their table's name.
func recordedTables(t testing.TB, state string) map[string][]item {
	var tables map[string]struct{ Items []json.RawMessage }
	require.NoError(t, json.Unmarshal(interchange.State(t, state), &tables), state)
	out := map[string][]item{}
	for name, content := range tables {
		role := ""
		for _, ending := range []string{coordinatorTable, metricsTable} {
			if strings.HasSuffix(name, ending) {
				role = ending
			}
		}
		for _, raw := range content.Items {
			it, err := attributevalue.UnmarshalMapJSON(raw)
			require.NoError(t, err, state)
			out[role] = append(out[role], it)
		}
	}
	return out
}

var migrationStates = []string{
	"3.4-legacy-three-tables", "3.5-table-migration-init", "3.5-table-migration-deployed", "3.5-table-migration-pending", "3.5-table-migration-complete",
}

// What Java workers left in tables of KCL 3.0 to 3.4 can be read.
func TestRecordedLegacyItemsAreReadable(t *testing.T) {
	n := 0
	for _, state := range migrationStates {
		for _, items := range recordedTables(t, state) {
			for _, it := range items {
				n++
				assert.Empty(t, unreadable(modern(it)), "%s %s", state, keyOf(it))
			}
		}
	}
	require.Greater(t, n, 30)
}

func TestForm(t *testing.T) {
	seen := map[string]string{}
	for _, state := range migrationStates {
		f := recordedForm(t, state)
		assert.NotContains(t, seen, strings.Join(f, "\n"), state)
		seen[strings.Join(f, "\n")] = state
	}
	assert.Equal(t, []string{
		"-CoordinatorState: TableMigration3.5: entityType S, h L, key S, mb S, mts N, tm S; tagged TABLE_MIGRATION; COMPLETE PENDING DEPLOYED INIT INIT; h of mb S, mts N, tm S",
		": Leader: entityType S, leaseDuration S, leaseKey S, ownerName S, recordVersionNumber S; tagged LEADER",
		": Migration3.0: cv S, entityType S, h L, leaseKey S, mb S, mts N; tagged CLIENT_VERSION_MIGRATION; h of cv S, mb S, mts N",
		": TableMigration3.5: entityType S, h L, leaseKey S, mb S, mts N, tm S; tagged TABLE_MIGRATION; COMPLETE PENDING DEPLOYED INIT INIT; h of mb S, mts N, tm S",
		": lease: checkpoint S, checkpointSubSequenceNumber N, endingHashKey S, leaseCounter N, leaseKey S, ownerSwitchesSinceCheckpoint N, startingHashKey S",
		": worker: entityType S, leaseKey S, lut N, opr M, slu N, sts M, sup N; tagged WORKER_METRIC_STATS",
	}, recordedForm(t, "3.5-table-migration-complete"))
}

func TestSteps(t *testing.T) {
	state := func(name string) item {
		for _, it := range recordedTables(t, "3.5-table-migration-"+name)[coordinatorTable] {
			if keyOf(it) == stateKey {
				return it
			}
		}
		t.Fatal(name)
		return nil
	}
	aged := func(it item) item { // as the recording aged it
		out := maps.Clone(it)
		out["mts"] = &types.AttributeValueMemberN{Value: fmt.Sprint(number(it["mts"]) - 3700_000)}
		return out
	}
	at := func(it item) time.Time { return time.UnixMilli(number(it["mts"])) }
	first, deployed, pending, complete := state("init"), state("deployed"), state("pending"), state("complete")
	for _, c := range []struct {
		was, is item
		by      string
		want    string
	}{
		{nil, first, "D", ""},
		{aged(first), deployed, "D", ""},
		{deployed, pending, "C", ""},
		{aged(pending), complete, "C", ""},
		{first, nil, "D", ""},

		{nil, first, "C", `modified by "D"`},
		{nil, deployed, "D", "begins with"},
		{first, deployed, "D", "INIT bakes for 15 s"},
		{pending, complete, "C", "PENDING bakes for"},
		{aged(deployed), pending, "C", "history"},
		{deployed, complete, "C", "DEPLOYED becomes COMPLETE"},
		{deployed, nil, "D", "DEPLOYED is deleted"},
	} {
		now := time.Now()
		if c.is != nil {
			now = at(c.is)
		}
		got := strings.Join(stepFaults(c.was, c.is, c.by, now), "\n")
		if c.want == "" {
			assert.Empty(t, got)
			continue
		}
		assert.Contains(t, got, c.want)
	}
	assert.Contains(t, strings.Join(stepFaults(deployed, pending, "C", at(pending).Add(time.Minute)), "\n"), "modified 1m0s ago")
}

func TestTwins(t *testing.T) {
	h := step{"PENDING", "java-1", 1000}
	at := func(tm string, mts int64) []step { return []step{{tm, "java-1", mts}, h} }
	assert.True(t, twins(at("COMPLETE", 5000), at("COMPLETE", 5000), "go"))
	assert.False(t, twins(at("COMPLETE", 5000), at("COMPLETE", 5001), "go"))
	assert.True(t, twins(at("COMPLETE", 5000), at("COMPLETE", 5001), "java"))
	assert.True(t, twins(at("COMPLETE", 5001), at("COMPLETE", 5000), "java"))
	assert.False(t, twins(at("COMPLETE", 5000), at("COMPLETE", 7000), "java"))
	assert.False(t, twins(at("COMPLETE", 5000), at("PENDING", 5000), "java"))
	assert.False(t, twins(at("COMPLETE", 5000), append(at("COMPLETE", 5000), h), "java"))
}
