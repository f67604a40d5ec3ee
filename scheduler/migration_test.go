package scheduler

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/coordinator"
	"github.com/go-kcl/kcl/internal/testbed"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/migration/singletable"
)

// legacy is the tables of an application that runs on KCL 3.0 to 3.4.
type legacy struct {
	*fleet
	lease, coordinator, workers *testbed.Table
}

// inLegacy is inFleet for an application whose workers of KCL 3.4 have all
// stopped: their lock is gone, their records have aged.
func inLegacy(t *testing.T, shards int, f func(t *testing.T, l *legacy)) {
	t.Helper()
	inFleet(t, shards, func(t *testing.T, fl *fleet) {
		fl.leisure = true
		d := dynamodb.NewFromConfig(fl.aws.Config("test"))
		table := func(name, key string) *testbed.Table {
			return &testbed.Table{T: t, Client: d, Name: name, Key: key}
		}
		l := &legacy{fl, table(testApp, "leaseKey"), table(coordinator.LegacyTableName(testApp), coordinator.LegacyKey), table(testApp+"-WorkerMetricStats", "wid")}
		l.coordinator.Create()
		l.workers.Create()
		version := coordinator.FreshClientVersion(coordinator.ClientVersion3X, "java", time.Now()).Item()
		item := version.Encode(coordinator.LegacyKey)
		delete(item, "entityType") // which 3.4 does not write
		l.coordinator.Put(item)
		f(t, l)
	})
}

func second(c *Config) {
	c.MigrateAllEntitiesToLeaseTable, c.TableMigrationCompleteBakeTime = true, time.Hour
}

// stored is the migration's status in a table, "" if it has none.
func stored(tb *testbed.Table) string {
	if s, ok := tb.Item(coordinator.TableMigrationKey)["tm"].(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

// keys are a table's items.
func keys(tb *testbed.Table) (out []string) {
	tb.T.Helper()
	scan, err := tb.Client.Scan(tb.T.Context(), &dynamodb.ScanInput{TableName: &tb.Name, ConsistentRead: aws.Bool(true)})
	require.NoError(tb.T, err)
	for _, it := range scan.Items {
		out = append(out, it[tb.Key].(*types.AttributeValueMemberS).Value)
	}
	return out
}

func (f *fleet) leading(ms ...*member) (n int) {
	for _, m := range ms {
		if m.Status().Leading {
			n++
		}
	}
	return n
}

// lookOn looks every 50 ms for that long whether there is a leader. It fails if
// there are two, and returns the longest time without one.
func (f *fleet) lookOn(d time.Duration, ms ...*member) (gap time.Duration) {
	last := time.Now()
	for end := last.Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		n := f.leading(ms...)
		require.LessOrEqual(f.t, n, 1, "leaders")
		if n == 1 {
			gap, last = max(gap, time.Since(last)), time.Now()
		}
	}
	return max(gap, time.Since(last))
}

// The whole life of the migration in a fleet of two, with records all the time.
// single-table-migration#54,59,61
func TestTableMigration(t *testing.T) {
	inLegacy(t, 4, func(t *testing.T, l *legacy) {
		status := func(m *member) TableMigrationStatus { return *m.Status().TableMigration }
		var figures testbed.Figures
		a, b := l.start("a", func(c *Config) { c.Metrics = &figures }), l.start("b")
		l.until(time.Minute, "leases", func() bool { return l.owners()["a"] == 2 && l.owners()["b"] == 2 })
		assert.Equal(t, string(singletable.Init), status(a).Status)
		assert.Contains(t, keys(l.coordinator), "Leader", "the lock of the legacy table")
		assert.NotContains(t, keys(l.lease), "Leader")
		assert.ElementsMatch(t, []string{"a", "b"}, keys(l.workers))
		l.put(20)
		l.until(time.Minute, "INIT", func() bool { return stored(l.coordinator) == string(singletable.Init) })
		l.until(time.Minute, "a reason", func() bool { return status(a).Waiting != "" })
		assert.Contains(t, status(a).Waiting, "every lease owner knows the migration; it is left so until ")
		assert.Equal(t, "the leader decides", status(b).Waiting)

		time.Sleep(59 * time.Minute)
		require.Equal(t, string(singletable.Init), stored(l.coordinator))
		l.put(20)
		l.until(5*time.Minute, "DEPLOYED", func() bool { return stored(l.coordinator) == string(singletable.Deployed) })
		l.until(time.Minute, "all know", func() bool {
			return status(a).Status == string(singletable.Deployed) && status(b).Status == string(singletable.Deployed)
		})
		assert.Equal(t, "all workers can be deployed with MigrateAllEntitiesToLeaseTable", status(a).Waiting)
		assert.Equal(t, []float64{0, 1, 2}, slices.Compact(figures.Values(singletable.Operation, "StatusOrdinal")))

		require.NoError(t, a.stop())
		a = l.start("a", second)
		l.until(time.Minute, "join", func() bool { return l.owners()["a"] == 2 })
		assert.Equal(t, string(singletable.Pending), status(a).Status)
		assert.ElementsMatch(t, []string{"b"}, keys(l.workers), "its record is in the lease table now")
		assert.Contains(t, keys(l.lease), "a")
		l.put(20)
		before := l.coordinator.Item(coordinator.TableMigrationKey)
		time.Sleep(10 * time.Minute)
		require.Equal(t, before, l.coordinator.Item(coordinator.TableMigrationKey), "a straggler keeps it at DEPLOYED")

		require.NoError(t, b.stop())
		b = l.start("b", second)
		took := l.until(3*time.Minute, "PENDING", func() bool { return stored(l.coordinator) == string(singletable.Pending) })
		t.Log("from the last start to PENDING:", took)
		assert.ElementsMatch(t, []string{"Leader", coordinator.TableMigrationKey}, keys(l.coordinator))
		assert.Contains(t, keys(l.lease), coordinator.ClientVersionKey)
		assert.Equal(t, &types.AttributeValueMemberS{Value: "CLIENT_VERSION_MIGRATION"}, l.lease.Item(coordinator.ClientVersionKey)["entityType"])
		l.put(20)

		time.Sleep(time.Hour - time.Minute)
		require.Equal(t, string(singletable.Pending), stored(l.coordinator))
		gap := l.lookOn(2*time.Minute, a, b)
		assert.LessOrEqual(t, gap, 300*time.Millisecond, "without a leader while the lock changes its table")
		assert.Equal(t, string(singletable.Complete), stored(l.coordinator))
		assert.Equal(t, string(singletable.Complete), stored(l.lease))
		assert.Equal(t, TableMigrationStatus{Status: string(singletable.Complete), Stored: string(singletable.Complete), Since: status(a).Since}, status(a))
		assert.Equal(t, string(singletable.Complete), status(b).Status)
		assert.ElementsMatch(t, []string{coordinator.TableMigrationKey}, keys(l.coordinator))
		assert.Contains(t, keys(l.lease), "Leader")
		l.put(20)

		// The legacy tables can go.
		for _, tb := range []*testbed.Table{l.coordinator, l.workers} {
			_, err := tb.Client.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: &tb.Name})
			require.NoError(t, err)
		}
		l.aws.ResetCalls()
		l.put(20)
		time.Sleep(5 * time.Minute)
		require.NoError(t, a.stop())
		a = l.start("a", func(c *Config) { c.MigrateAllEntitiesToLeaseTable = false })
		l.until(time.Minute, "join", func() bool { return l.owners()["a"] == 2 })
		assert.Equal(t, string(singletable.Complete), status(a).Status)
		l.until(time.Minute, "all records", func() bool { return l.delivered() >= 120 })
		for _, c := range l.aws.Calls() {
			assert.False(t, c.Client != "test" && (c.Resource == l.coordinator.Name || c.Resource == l.workers.Name), "%v", c)
		}
		require.NoError(t, a.stop())
		require.NoError(t, b.stop())
		assert.Zero(t, l.requireAllProcessed(), "repeated")
	})
}

// single-table-migration#19: too early is told, and what is too early once may be
// right a few tries later.
func TestSecondDeploymentTooEarly(t *testing.T) {
	inLegacy(t, 1, func(t *testing.T, l *legacy) {
		m := l.start("a", second)
		<-m.done
		require.ErrorIs(t, m.err, singletable.ErrTooEarly)
		assert.ErrorContains(t, m.err, "deploy all workers without MigrateAllEntitiesToLeaseTable first")
		assert.Empty(t, l.owners())

		m = l.start("b", second)
		time.Sleep(5 * time.Second)
		l.coordinator.Put(coordinator.FreshTableMigration(singletable.Deployed, "java", time.Now()).Item().Encode(coordinator.LegacyKey))
		l.until(10*time.Second, "the lease", func() bool { return l.owners()["b"] == 1 })
		assert.Equal(t, string(singletable.Pending), m.Status().TableMigration.Status)
		require.NoError(t, m.stop())
	})
}

// A fresh application never makes a legacy table, and needs none.
// single-table-migration#16
func TestFreshApplicationHasOneTable(t *testing.T) {
	for _, migrate := range []bool{false, true} {
		inFleet(t, 2, func(t *testing.T, f *fleet) {
			a := f.start("a", func(c *Config) { c.MigrateAllEntitiesToLeaseTable = migrate })
			b := f.start("b")
			f.put(20)
			f.until(time.Minute, "all records", func() bool { return f.delivered() == 20 })
			time.Sleep(20 * time.Minute)
			require.NoError(t, a.stop())
			time.Sleep(time.Minute)
			out, err := dynamodb.NewFromConfig(f.aws.Config("test")).ListTables(t.Context(), &dynamodb.ListTablesInput{})
			require.NoError(t, err)
			assert.Equal(t, []string{testApp}, out.TableNames)
			tb := &testbed.Table{T: t, Client: dynamodb.NewFromConfig(f.aws.Config("test")), Name: testApp, Key: "leaseKey"}
			assert.NotContains(t, keys(tb), coordinator.TableMigrationKey)
			for _, c := range f.aws.Calls() {
				legacy := c.Resource == coordinator.LegacyTableName(testApp) || c.Resource == testApp+"-WorkerMetricStats"
				assert.False(t, legacy && c.Operation != "DescribeTable", "%v", c)
			}
			require.NoError(t, b.stop())
		})
	}
}

// A worker of 3.4 that joins a fresh application would make a leader of its own.
func TestLegacyTableAppears(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet) {
		m := f.start("a")
		f.until(time.Minute, "the lease", func() bool { return f.owners()["a"] == 1 })
		f.table(coordinator.LegacyTableName(testApp), "key")
		time.Sleep(15 * time.Minute)
		f.log.mu.Lock()
		assert.Contains(t, fmt.Sprint(f.log.warnings), "a worker of KCL 3.0 to 3.4 has joined")
		f.log.mu.Unlock()
		require.NoError(t, m.stop())
	})
}

// The leader's death right after the last transaction, of which it never had the
// answer, costs its lock's term and no more. single-table-migration#37
func TestLeaderDiesAtCompletion(t *testing.T) {
	inLegacy(t, 2, func(t *testing.T, l *legacy) {
		dying, other := l.pending()
		l.aws.Inject(kcltest.Fault{Clients: []string{dying.name}, Operations: []string{"TransactWriteItems"}, Effect: kcltest.LoseAnswer})
		l.until(3*time.Minute, "COMPLETE", func() bool { return stored(l.lease) == string(singletable.Complete) })
		l.kill(dying)
		took := l.until(time.Minute, "another leader", func() bool { return other.Status().Leading })
		t.Log("without a leader for", took)
		assert.LessOrEqual(t, took, 45*time.Second)
	})
}

// single-table-migration#74: a leader by the legacy table's lock that cannot do its
// work gives that lock up, and another takes over.
func TestLeaderGivesUpLegacyLock(t *testing.T) {
	inLegacy(t, 2, func(t *testing.T, l *legacy) {
		a := l.start("a")
		l.until(time.Minute, "a leader", func() bool { return a.Status().Leading })
		b := l.start("b")
		time.Sleep(5 * time.Second)
		l.aws.Inject(kcltest.Fault{Clients: []string{"a"}, Operations: []string{"Scan"}, Effect: kcltest.Break})
		l.until(2*time.Minute, "another leader", func() bool { return b.Status().Leading })
		assert.False(t, a.Status().Leading)
		assert.Equal(t, &types.AttributeValueMemberS{Value: "b"}, l.coordinator.Item("Leader")["ownerName"])
		require.NoError(t, a.stop())
		require.NoError(t, b.stop())
	})
}

// A leader that cannot read how far the migration is does not lead, and leaves the
// lock to who can. single-table-migration#40
func TestLeaderThatCannotReadTheState(t *testing.T) {
	inLegacy(t, 2, func(t *testing.T, l *legacy) {
		began := time.Now()
		b := l.start("b")
		l.until(time.Minute, "a leader", func() bool { return b.Status().Leading })
		// Of c's reads those of the lock succeed.
		var denied atomic.Int64
		c := l.start("c", refusing(func(operation, body string) bool {
			no := time.Since(began) > time.Minute && operation == "GetItem" && strings.Contains(body, coordinator.TableMigrationKey)
			if no {
				denied.Add(1)
			}
			return no
		}))
		time.Sleep(time.Minute)
		require.NoError(t, b.stop())
		l.until(time.Minute, "the lock", func() bool { return lockOf(l.coordinator) == "c" })
		d := l.start("d")
		gap := l.lookOn(time.Minute, c, d)
		assert.True(t, d.Status().Leading)
		assert.Less(t, gap, 30*time.Second, "it keeps the lock for 15 s")
		assert.Positive(t, denied.Load())
		require.NoError(t, d.stop())
	})
}

func lockOf(tb *testbed.Table) string {
	s, _ := tb.Item("Leader")["ownerName"].(*types.AttributeValueMemberS)
	if s == nil {
		return ""
	}
	return s.Value
}

// refusing cuts off the calls that refuse says.
func refusing(refuse func(operation, body string) bool) func(*Config) {
	return func(c *Config) { c.AWS.HTTPClient = refuser{c.AWS.HTTPClient, refuse} }
}

type refuser struct {
	aws.HTTPClient
	refuse func(operation, body string) bool
}

func (r refuser) Do(q *http.Request) (*http.Response, error) {
	operation, body, err := peek(q)
	if err != nil {
		return nil, err
	}
	if r.refuse(operation, string(body)) {
		return nil, errCut
	}
	return r.HTTPClient.Do(q)
}

// peek reads what a request calls, and leaves it to be sent. Both are empty for one
// without a body, which is none of DynamoDB's.
func peek(q *http.Request) (operation string, body []byte, err error) {
	if q.Body == nil {
		return "", nil, nil
	}
	if body, err = io.ReadAll(q.Body); err != nil {
		return "", nil, err
	}
	q.Body = io.NopCloser(bytes.NewReader(body))
	_, operation, _ = strings.Cut(q.Header.Get("X-Amz-Target"), ".")
	return operation, body, nil
}

// single-table-migration#77: a leader that cannot report goes on assigning.
func TestReportsAndAssignmentAreApart(t *testing.T) {
	inFleet(t, 4, func(t *testing.T, f *fleet) {
		var broken atomic.Bool
		a := f.start("a", refusing(func(operation, body string) bool {
			return broken.Load() && operation == "UpdateItem" && strings.Contains(body, "WORKER_METRIC_STATS")
		}))
		f.until(time.Minute, "a leader", func() bool { return a.Status().Leading })
		b, c := f.start("b"), f.start("c")
		f.until(2*time.Minute, "a spread", func() bool { o := f.owners(); return o["a"] > 0 && o["b"] > 0 && o["c"] > 0 })
		broken.Store(true)
		time.Sleep(2 * time.Minute)
		f.kill(b)
		f.until(time.Minute, "a new owner", func() bool { return f.owners()["b"] == 0 })
		assert.True(t, a.Status().Leading)
		require.NoError(t, c.stop())
	})
}

// pending begins with two workers of the second deployment, a minute before the
// migration is completed: the leader and the other.
func (l *legacy) pending(change ...func(*Config)) (leads, other *member) {
	l.t.Helper()
	l.coordinator.Put(coordinator.FreshTableMigration(singletable.Deployed, "java", time.Now()).Item().Encode(coordinator.LegacyKey))
	a, b := l.start("a", append(change, second)...), l.start("b", append(change, second)...)
	l.until(3*time.Minute, "PENDING", func() bool { return stored(l.coordinator) == string(singletable.Pending) })
	time.Sleep(time.Hour - time.Minute)
	if b.Status().Leading {
		return b, a
	}
	require.True(l.t, a.Status().Leading)
	return a, b
}

// The other worker takes the lock of the legacy table as soon as the leader, who
// leads on by the new lock, has freed it. It must not lead before it has read that
// this lock counts no more: single-table-migration#61.
func TestFormerLockAfterCompletion(t *testing.T) {
	inLegacy(t, 2, func(t *testing.T, l *legacy) {
		var blind atomic.Value // the client that cannot read the state
		blind.Store("")
		leads, other := l.pending(func(c *Config) {
			name := c.WorkerIdentifier
			refusing(func(operation, body string) bool {
				return name == blind.Load() && operation == "GetItem" && strings.Contains(body, coordinator.TableMigrationKey)
			})(c)
		})
		blind.Store(other.name)
		l.until(2*time.Minute, "COMPLETE", func() bool { return stored(l.lease) == string(singletable.Complete) })
		l.until(20*time.Second, "the former lock", func() bool { return lockOf(l.coordinator) == other.name })
		assert.False(t, other.Status().Leading)
		assert.Less(t, l.lookOn(10*time.Second, leads, other), 100*time.Millisecond)
		assert.True(t, leads.Status().Leading)
		blind.Store("")
		l.until(40*time.Second, "it knows", func() bool { return other.Status().TableMigration.Status == string(singletable.Complete) })
		require.NoError(t, leads.stop())
		l.until(12*time.Second, "the other leads", func() bool { return other.Status().Leading })
		require.NoError(t, other.stop())
	})
}

// The last transaction's answer may be long in coming, while the lock that it took
// is renewed by nobody: the leader does not wait for it for longer than that lasts.
func TestCompletionIsNotAnswered(t *testing.T) {
	inLegacy(t, 2, func(t *testing.T, l *legacy) {
		leads, other := l.pending()
		l.aws.Inject(kcltest.Fault{
			Clients: []string{leads.name}, Operations: []string{"TransactWriteItems"}, Effect: kcltest.FreezeAnswer, For: 10 * time.Minute,
		})
		l.until(2*time.Minute, "COMPLETE", func() bool { return stored(l.lease) == string(singletable.Complete) })
		l.until(maxTableCall+time.Second, "it knows", func() bool {
			return leads.Status().TableMigration.Status == string(singletable.Complete)
		})
		assert.Less(t, l.lookOn(3*time.Minute, leads, other), 300*time.Millisecond)
		assert.True(t, leads.Status().Leading)
		assert.Equal(t, leads.name, lockOf(l.lease))
		require.NoError(t, leads.stop())
		require.NoError(t, other.stop())
	})
}

// What a human has to see to is in the status of the leader, and then not any more.
func TestStatusSaysWhatIsWrong(t *testing.T) {
	inLegacy(t, 1, func(t *testing.T, l *legacy) {
		m := l.start("a")
		l.until(time.Minute, "INIT", func() bool { return stored(l.coordinator) == string(singletable.Init) })
		item := l.coordinator.Item(coordinator.TableMigrationKey)
		broken := maps.Clone(item)
		broken["tm"] = &types.AttributeValueMemberS{Value: "TABLE_MIGRATION_STATUS_LATER"}
		l.coordinator.Put(broken)
		l.until(2*time.Minute, "the error", func() bool { return m.Status().TableMigration.Error != "" })
		assert.Contains(t, m.Status().TableMigration.Error, "item TableMigration3.5 of the legacy table")
		assert.False(t, m.Status().Leading)
		l.coordinator.Put(item)
		l.until(2*time.Minute, "no error", func() bool { return m.Status().TableMigration.Error == "" })
		l.until(time.Second, "it leads", func() bool { return m.Status().Leading })
		require.NoError(t, m.stop())
	})
}

// What an assignment run saw of the fleet is good for a few runs, however seldom
// they are.
func TestSummaryAge(t *testing.T) {
	age := func(report, interval, failover time.Duration) time.Duration {
		return summaryAge(Config{Leases: LeaseConfig{WorkerReportInterval: report, AssignmentInterval: interval, FailoverTime: failover}})
	}
	assert.Equal(t, 90*time.Second, age(30*time.Second, 0, 10*time.Second))
	assert.Equal(t, 8*time.Minute, age(30*time.Second, 0, time.Minute))
	assert.Equal(t, 20*time.Minute, age(30*time.Second, 5*time.Minute, 10*time.Second))
	assert.Equal(t, 15*time.Minute, age(5*time.Minute, 0, 10*time.Second))
}

// A leader that is stopped while its last transaction is on its way keeps the
// lock until that has ended, and frees the lock that it took by it. Ruling 7.
func TestStopDuringCompletion(t *testing.T) {
	inLegacy(t, 2, func(t *testing.T, l *legacy) {
		leads, other := l.pending()
		slow := l.aws.Inject(kcltest.Fault{Clients: []string{leads.name}, Operations: []string{"TransactWriteItems"}, Effect: kcltest.Slow, Delay: 3 * time.Second})
		l.until(2*time.Minute, "the transaction", func() bool { return slow.Hits() > 0 })
		require.NoError(t, leads.stop())
		assert.Equal(t, string(singletable.Complete), stored(l.lease))
		assert.NotEqual(t, leads.name, lockOf(l.lease))
		assert.NotEqual(t, leads.name, lockOf(l.coordinator))
		l.until(45*time.Second, "the other leads", func() bool { return other.Status().Leading })
		require.NoError(t, other.stop())
	})
}

// A straggler whose clock is slow keeps the migration where it is as any other:
// what this process saw of its record counts, not the time that it says. Ruling 6.
// However seldom the leader looks, it notices when that one has gone.
func TestStragglerWithASlowClock(t *testing.T) {
	for _, interval := range []time.Duration{0, time.Minute, 150 * time.Second} {
		t.Run(interval.String(), func(t *testing.T) {
			inLegacy(t, 1, func(t *testing.T, l *legacy) {
				l.coordinator.Put(coordinator.FreshTableMigration(singletable.Deployed, "java", time.Now()).Item().Encode(coordinator.LegacyKey))
				before := l.coordinator.Item(coordinator.TableMigrationKey)
				m := l.start("a", second, func(c *Config) { c.Leases.AssignmentInterval = interval })
				for range 40 {
					l.workers.Put(map[string]types.AttributeValue{
						"wid": &types.AttributeValueMemberS{Value: "java"}, "lut": &types.AttributeValueMemberN{Value: fmt.Sprint(time.Now().Add(-5 * time.Minute).Unix())},
						"sts": &types.AttributeValueMemberM{}, "opr": &types.AttributeValueMemberM{},
					})
					time.Sleep(30 * time.Second)
					require.Equal(t, before, l.coordinator.Item(coordinator.TableMigrationKey))
				}
				l.until(2*time.Minute+2*interval, "PENDING", func() bool { return stored(l.coordinator) == string(singletable.Pending) })
				require.NoError(t, m.stop())
			})
		})
	}
}
