package scheduler

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/coordinator"
	"github.com/go-kcl/kcl/migration/singletable"
)

// role is a client for which only some actions on the legacy tables are allowed.
type role struct {
	aws.HTTPClient

	mu sync.Mutex
	// allowed, by table, what is allowed; used what of it was made use of, denied
	// what else was tried. Guarded by mu.
	allowed map[string][]string
	used    map[string]map[string]bool
	denied  map[string]map[string]bool
}

func (r *role) become(allowed map[string][]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.allowed, r.used, r.denied = allowed, map[string]map[string]bool{}, map[string]map[string]bool{}
}

func (r *role) Do(q *http.Request) (*http.Response, error) {
	operation, body, err := peek(q)
	if err != nil {
		return nil, err
	}
	for _, a := range actions(operation, body) {
		if !r.permits(a.table, a.name) {
			return &http.Response{
				StatusCode: http.StatusBadRequest, Request: q, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
				Body: io.NopCloser(strings.NewReader(`{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"no permission for ` + a.name + ` on ` + a.table + `"}`)),
			}, nil
		}
	}
	return r.HTTPClient.Do(q)
}

type action struct{ table, name string }

// actions are those that a call of DynamoDB needs permission for: a transaction,
// for each of its own.
func actions(operation string, body []byte) (out []action) {
	var in struct {
		TableName     string
		TransactItems []map[string]struct{ TableName string }
	}
	_ = json.Unmarshal(body, &in) // another service's call names no table
	if operation != "TransactWriteItems" {
		return []action{{in.TableName, operation}}
	}
	names := map[string]string{"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}
	for _, it := range in.TransactItems {
		for kind, i := range it {
			out = append(out, action{i.TableName, names[kind]})
		}
	}
	return out
}

func (r *role) permits(table, name string) bool {
	if table != coordinator.LegacyTableName(testApp) && table != testApp+"-WorkerMetricStats" {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	into := r.used
	ok := slices.Contains(r.allowed[table], name)
	if !ok {
		into = r.denied
	}
	if into[table] == nil {
		into[table] = map[string]bool{}
	}
	into[table][name] = true
	return ok
}

// took returns what was made use of, sorted as the allowed lists are.
func (r *role) took() map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string][]string{}
	for table, names := range r.used {
		out[table] = slices.Sorted(maps.Keys(names))
	}
	return out
}

// documentedStages are the actions, by table, that the page says are needed.
func documentedStages(t *testing.T) (out []map[string][]string) {
	t.Helper()
	page, err := os.ReadFile("../docs/single-table-migration.md")
	require.NoError(t, err)
	_, rows, found := strings.Cut(string(page), "| stage | `-CoordinatorState` | `-WorkerMetricStats` |\n|---|---|---|\n")
	require.True(t, found)
	for line := range strings.Lines(rows) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			break
		}
		stage := map[string][]string{}
		for i, table := range []string{coordinator.LegacyTableName(testApp), testApp + "-WorkerMetricStats"} {
			if names := regexp.MustCompile("`(\\w+)`").FindAllString(cells[2+i], -1); names != nil {
				slices.Sort(names)
				stage[table] = strings.Fields(strings.ReplaceAll(strings.Join(names, " "), "`", ""))
			}
		}
		out = append(out, stage)
	}
	return out
}

// What docs/single-table-migration.md says is needed at each stage is enough, and
// no more than is used.
func TestMigrationPermissions(t *testing.T) {
	stages := documentedStages(t)
	require.Len(t, stages, 3)
	inLegacy(t, 1, func(t *testing.T, l *legacy) {
		r := &role{}
		as := func(c *Config) { r.HTTPClient, c.AWS.HTTPClient = c.AWS.HTTPClient, r }
		leave := func(m *member, stage int) {
			t.Helper()
			require.NoError(t, m.stop())
			assert.Equal(t, stages[stage], r.took(), "stage %d", stage)
			assert.Empty(t, r.denied, "stage %d", stage)
		}

		r.become(stages[0])
		m := l.start("a", as)
		l.until(2*time.Minute, "INIT", func() bool { return stored(l.coordinator) == string(singletable.Init) })
		time.Sleep(time.Hour + time.Minute)
		require.Equal(t, string(singletable.Deployed), stored(l.coordinator))
		leave(m, 0)

		l.workers.Put(map[string]types.AttributeValue{
			"wid": &types.AttributeValueMemberS{Value: "gone"}, "lut": &types.AttributeValueMemberN{Value: "1"},
		}) // to be deleted
		r.become(stages[1])
		m = l.start("a", as, second)
		l.until(5*time.Minute, "PENDING", func() bool { return stored(l.coordinator) == string(singletable.Pending) })
		time.Sleep(time.Hour - time.Minute)
		l.until(5*time.Minute, "COMPLETE", func() bool { return stored(l.lease) == string(singletable.Complete) })
		time.Sleep(time.Minute)
		leave(m, 1)

		r.become(stages[2])
		m = l.start("a", as)
		l.until(time.Minute, "the lease", func() bool { return l.owners()["a"] == 1 })
		time.Sleep(30 * time.Minute)
		leave(m, 2)
	})
}

// The start that may not look says so, and ends at once: unless the lease table
// says that there is nothing to look for, or the operator.
// config-metrics-operations#21
func TestStartDeniedLegacyTables(t *testing.T) {
	for _, tc := range []struct {
		name    string
		allowed map[string][]string
		message string
	}{
		{"state", map[string][]string{}, "allow dynamodb:DescribeTable and dynamodb:GetItem on table orders-app-CoordinatorState"},
		{"records", map[string][]string{coordinator.LegacyTableName(testApp): {"DescribeTable", "GetItem"}}, "orders-app-WorkerMetricStats"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inLegacy(t, 1, func(t *testing.T, l *legacy) {
				r := &role{}
				r.become(tc.allowed)
				as := func(c *Config) { r.HTTPClient, c.AWS.HTTPClient = c.AWS.HTTPClient, r }
				began := time.Now()
				m := l.start("a", as)
				<-m.done
				require.ErrorContains(t, m.err, tc.message)
				assert.ErrorContains(t, m.err, "dynamodb:DescribeTable")
				assert.Less(t, time.Since(began), 5*time.Second)

				m = l.start("b", as, func(c *Config) { c.NoLegacyTables = true })
				l.until(time.Minute, "the lease", func() bool { return l.owners()["b"] == 1 })
				require.NoError(t, m.stop())
				l.lease.Put(coordinator.FreshTableMigration(singletable.Complete, "java", time.Now()).Item().Encode("leaseKey"))
				m = l.start("c", as)
				l.until(time.Minute, "the lease", func() bool { return l.owners()["c"] == 1 })
				require.NoError(t, m.stop())
			})
		})
	}
}

// single-table-migration, Do better 20: a table that somebody has deleted is
// missed at the start.
func TestStartWithoutTableOfRecords(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet) {
		f.table(coordinator.LegacyTableName(testApp), coordinator.LegacyKey)
		m := f.start("a")
		<-m.done
		require.ErrorContains(t, m.err, `table orders-app-WorkerMetricStats does not exist, where workers' records belong until the single-table migration is complete: restore it, or create it with the string wid as its partition key`)
	})
}
