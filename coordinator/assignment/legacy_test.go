package assignment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/internal/interchange"
	"github.com/go-kcl/kcl/internal/testbed"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/workermetrics"
)

// moving is a cloud of a fleet that came from KCL 3.0 to 3.4.
type moving struct {
	*cloud
	legacy *testbed.Table // the operator's hand on it
	status workermetrics.Status
}

func inMoving(t *testing.T, f func(t *testing.T, m *moving)) {
	t.Helper()
	inCloud(t, func(t *testing.T, c *cloud) {
		m := &moving{cloud: c, status: workermetrics.StatusDeployed}
		m.legacy = &testbed.Table{T: t, Client: c.Client, Name: workermetrics.LegacyTableName(c.Name), Key: "wid"}
		m.legacy.Create()
		f(t, m)
	})
}

// leader makes a worker that leads, and has begun at the present status.
func (m *moving) leader(name string, change ...func(*Config)) *peer {
	m.T.Helper()
	store := workermetrics.NewStore(workermetrics.StoreConfig{
		Client: m.dynamo(name + "/loop"), Table: m.Name, LegacyTable: m.legacy.Name,
		Status: func() workermetrics.Status { return m.status },
	})
	require.NoError(m.T, store.Init(m.T.Context()))
	return m.worker(name, append(change, func(c *Config) { c.Workers = store })...).leads()
}

// legacyReports writes records as KCL 3.0 to 3.4 does, ago.
func (m *moving) legacyReports(ago time.Duration, workers ...string) {
	m.T.Helper()
	for _, id := range workers {
		m.legacy.Put(oldRecord(id, time.Now().Add(-ago)))
	}
}

func oldRecord(worker string, updated time.Time) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		"wid": &types.AttributeValueMemberS{Value: worker}, "lut": &types.AttributeValueMemberN{Value: fmt.Sprint(updated.Unix())},
		"sts": &types.AttributeValueMemberM{}, "opr": &types.AttributeValueMemberM{},
	}
}

// targets are the workers that the last look would give leases to.
func (p *peer) targets() string {
	var ids []string
	for id, w := range p.memory.workers {
		if w.stand == active {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

// lease-assignment-and-worker-metrics#9, single-table-migration#72
func TestWorkersOfBothKinds(t *testing.T) {
	inMoving(t, func(t *testing.T, m *moving) {
		for _, key := range []string{"1", "2", "3"} {
			m.create(lease.Lease{Key: key})
		}
		m.reports("A")
		m.legacyReports(0, "B", "C")
		p := m.leader("A")
		require.NoError(t, p.assigns())
		owners := map[string]bool{}
		for _, key := range []string{"1", "2", "3"} {
			owners[m.get(key).Owner] = true
		}
		assert.Equal(t, map[string]bool{"A": true, "B": true, "C": true}, owners)
		assert.Equal(t, []float64{3}, p.figures("NumWorkers"))
	})
}

// Do better 11: a worker with a record in either table, because it has started
// anew at another status, is one worker.
func TestWorkerInBothTables(t *testing.T) {
	for _, tc := range []struct {
		name             string
		legacy, leaseTab time.Duration // age of the records
		drains           bool          // as the newer says; the older says the contrary
	}{
		{"moved on", 20 * time.Second, 5 * time.Second, false},
		{"moved on and drains", 20 * time.Second, 5 * time.Second, true},
		{"rolled back", 5 * time.Second, 20 * time.Second, false},
		{"rolled back and drains", 5 * time.Second, 20 * time.Second, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inMoving(t, func(t *testing.T, m *moving) {
				put := func(age time.Duration, drains bool) workermetrics.Record {
					r := workermetrics.Record{Worker: "B", Updated: time.Unix(time.Now().Unix(), 0).Add(-age), Load: workermetrics.Load{
						Stats: map[string][]float64{"C": {50}}, OperatingRange: map[string][]int64{"C": {100}},
					}}
					if drains {
						r.Load = r.Load.Draining()
					}
					return r
				}
				newer := tc.leaseTab < tc.legacy
				require.NoError(t, m.records.Put(t.Context(), put(tc.leaseTab, tc.drains == newer)))
				// Through a store that writes there.
				store := workermetrics.NewStore(workermetrics.StoreConfig{
					Client: m.Client, Table: m.Name, LegacyTable: m.legacy.Name,
					Status: func() workermetrics.Status { return workermetrics.StatusInit },
				})
				require.NoError(t, store.Init(t.Context()))
				require.NoError(t, store.Put(t.Context(), put(tc.legacy, tc.drains != newer)))

				p := m.leader("A")
				require.NoError(t, p.assigns())
				want, count := "B", 1.0
				if tc.drains {
					want, count = "", 0
				}
				assert.Equal(t, want, p.targets())
				assert.Equal(t, []float64{count}, p.figures("NumWorkers"))
				assert.Equal(t, !newer, p.memory.workers["B"].record.Legacy)
			})
		})
	}
}

// Which of a worker's two records tells of it, look by look. Each look says what
// time the record in either table says, 0 for no record.
func TestRecordThatTells(t *testing.T) {
	type look struct {
		at, leaseTable, legacy int64
		tells                  bool // the one in the legacy table
		stand                  standing
	}
	for _, tc := range []struct {
		name  string
		looks []look
	}{
		{"the newer", []look{{1000, 990, 980, false, active}}},
		{"the newer, in the legacy table", []look{{1000, 980, 990, true, active}}},
		{"of two alike, the one in the lease table", []look{{1000, 990, 990, false, active}}},
		{"the newer of two that are dead", []look{{1000, 700, 800, true, dead}}},
		{"follows a worker that moves on, and back", []look{
			{1000, 0, 990, true, active}, {1020, 1015, 990, false, active}, {1040, 1015, 1035, true, active},
		}},
		{"the last one left", []look{{1000, 990, 980, false, active}, {1010, 0, 980, true, active}}},
		// Ruling 6: the clock of the host that the worker ran on before was fast.
		{"the one that shows life", []look{
			{1000, 1000, 1600, true, active}, {1030, 1030, 1600, true, active}, {1060, 1060, 1600, true, active}, {1061, 1061, 1600, false, active},
			{1090, 1090, 1600, false, active}, {1600, 1600, 1600, false, active},
		}},
		{"none of them", []look{{1000, 990, 1600, true, active}, {1061, 990, 1600, true, dead}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, reversed := range []bool{false, true} { // the order in which they were read is none
				m := newMemory()
				for _, l := range tc.looks {
					var records []workermetrics.Record
					for legacy, says := range map[bool]int64{false: l.leaseTable, true: l.legacy} {
						if says != 0 {
							r := report("W", float64(says))
							r.Updated, r.Legacy = time.Unix(says, 0), legacy
							records = append(records, r)
						}
					}
					slices.SortFunc(records, func(a, b workermetrics.Record) int {
						if a.Legacy == reversed {
							return -1
						}
						return 1
					})
					m.look(nil, records, nil, time.Unix(l.at, 0), defaults)
					require.Len(t, m.workers, 1)
					require.Len(t, m.records, len(records))
					w := m.workers["W"]
					assert.Equal(t, l.tells, w.record.Legacy, "at %d", l.at)
					assert.Equal(t, l.stand, w.stand, "at %d", l.at)
				}
			}
		})
	}
}

// lease-assignment-and-worker-metrics#18, do better 10, single-table-migration#69
func TestStaleRecordsOfBothTables(t *testing.T) {
	const day = 24 * time.Hour
	inMoving(t, func(t *testing.T, m *moving) {
		m.reports("new", "back")
		m.legacyReports(0, "old", "back", "again", "moved", "A")
		timeless := oldRecord("timeless", time.Now())
		delete(timeless, "lut")
		m.legacy.Put(timeless)
		time.Sleep(day + time.Second)
		m.reports("moved", "A")
		m.legacyReports(0, "back")
		p := m.leader("A")
		require.NoError(t, p.assigns())
		time.Sleep(time.Minute + time.Second)

		// A deletion that fails is no failure.
		m.failing("A/loop", "DeleteItem", 7)
		require.NoError(t, p.assigns())
		assert.Equal(t, 7, m.aws.Count("DeleteItem", "A/loop"))
		assert.NotNil(t, m.legacy.Item("old"))

		m.aws.Intercept(func(_ context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
			if i.Client == "A/loop" && i.Operation == "DeleteItem" && m.legacy.Item("again")["lut"].(*types.AttributeValueMemberN).Value != fmt.Sprint(time.Now().Unix()) {
				m.legacyReports(0, "again")
			}
			return run(), nil
		})
		require.NoError(t, p.assigns())
		assert.Nil(t, m.legacy.Item("old"))
		assert.Nil(t, m.legacy.Item("timeless"))
		assert.Nil(t, m.legacy.Item("moved"), "what a worker left in its former table")
		assert.NotNil(t, m.Item("moved"))
		assert.Nil(t, m.legacy.Item("A"), "this worker, too")
		assert.NotNil(t, m.Item("A"))
		assert.Nil(t, m.Item("back"))
		assert.NotNil(t, m.legacy.Item("back"))
		assert.Nil(t, m.Item("new"))
		assert.NotNil(t, m.legacy.Item("again"), "lease-assignment-and-worker-metrics#8")
	})
}

// What is stale: not the record that tells of the leader itself, and of the others
// no more than are to be deleted in one run.
func TestStaleOfALook(t *testing.T) {
	var records []workermetrics.Record
	for _, id := range []string{"A", "B", "C"} {
		r := report(id, 0)
		records = append(records, r)
		r.Updated, r.Legacy = r.Updated.Add(-time.Second), true
		records = append(records, r)
	}
	m := newMemory()
	m.look(nil, records, nil, at(0), defaults)
	later := at((25 * time.Hour).Seconds())
	m.look(nil, records, nil, later, defaults)
	var got []string
	for _, r := range m.stale(later, defaults, "A", 100) {
		got = append(got, fmt.Sprint(r.Worker, r.Legacy))
	}
	assert.ElementsMatch(t, []string{"Atrue", "Bfalse", "Btrue", "Cfalse", "Ctrue"}, got)
	assert.Len(t, m.stale(later, defaults, "A", 3), 3)
	assert.Empty(t, m.stale(at(10), defaults, "A", 100))
}

// Do better 8: one that cannot be read is told of once, and fails no run.
func TestUnreadableLegacyRecord(t *testing.T) {
	inMoving(t, func(t *testing.T, m *moving) {
		m.create(lease.Lease{Key: "k"})
		bad := oldRecord("B", time.Now())
		bad["opr"] = &types.AttributeValueMemberS{Value: "x"}
		m.legacy.Put(bad)
		m.legacyReports(0, "C")
		var log bytes.Buffer
		p := m.leader("A")
		p.log = slog.New(slog.NewTextHandler(&log, nil))
		for range 3 {
			require.NoError(t, p.assigns())
		}
		assert.Equal(t, "k:C", m.owners())
		assert.Equal(t, []float64{1, 1, 1}, p.figures("NumWorkersWithInvalidEntry"))
		assert.Equal(t, 1, strings.Count(log.String(), "worker's record cannot be read"), log.String())
		assert.Contains(t, log.String(), `table app-WorkerMetricStats: record of worker \"B\": attribute opr`)

		// Beside one that can be read, of the same worker.
		m.reports("B")
		require.NoError(t, p.assigns())
		assert.Equal(t, "B C", p.targets())
		// Two of one worker.
		worse := maps.Clone(bad)
		delete(worse, "wid")
		worse["leaseKey"], worse["entityType"] = bad["wid"], &types.AttributeValueMemberS{Value: "WORKER_METRIC_STATS"}
		m.Put(worse)
		require.NoError(t, p.assigns())
		assert.Equal(t, "C", p.targets())
	})
}

func TestLegacyReads(t *testing.T) {
	scans := func(m *moving) int { // of the leader, of the legacy table
		n := 0
		for _, c := range m.aws.Calls() {
			if c.Client == "A/loop" && c.Operation == "Scan" && c.Resource == m.legacy.Name {
				n += c.Calls
			}
		}
		return n
	}
	fault := func(m *moving, times int) {
		m.aws.Inject(kcltest.Fault{Clients: []string{"A/loop"}, Operations: []string{"Scan"}, Resources: []string{m.legacy.Name}, Times: times, Effect: kcltest.Break})
	}
	t.Run("before COMPLETE and not after", func(t *testing.T) { // lease-assignment-and-worker-metrics#5, single-table-migration#67
		inMoving(t, func(t *testing.T, m *moving) {
			m.reports("A")
			m.legacyReports(0, "B")
			p := m.leader("A")
			for i, s := range []workermetrics.Status{workermetrics.StatusInit, workermetrics.StatusDeployed, workermetrics.StatusPending, workermetrics.StatusUnknown} {
				m.status = s
				require.NoError(t, p.assigns())
				assert.Equal(t, "A B", p.targets())
				assert.Equal(t, i+1, scans(m))
			}
			m.status = workermetrics.StatusComplete
			require.NoError(t, p.assigns())
			assert.Equal(t, "A", p.targets())
			assert.Equal(t, 4, scans(m))
		})
	})
	t.Run("of a table that is deleted meanwhile", func(t *testing.T) { // lease-assignment-and-worker-metrics#6
		inMoving(t, func(t *testing.T, m *moving) {
			m.reports("A")
			m.legacyReports(0, "B")
			m.legacyReports(48*time.Hour, "stale")
			p := m.leader("A")
			require.NoError(t, p.assigns())
			time.Sleep(time.Minute + time.Second)
			m.reports("A")
			m.before("A/loop", "DeleteItem", func() { // between the scan and the deletion of a stale record
				_, err := m.Client.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: &m.legacy.Name})
				require.NoError(t, err)
				time.Sleep(time.Second)
			})
			for range 3 {
				require.NoError(t, p.assigns())
			}
			assert.Equal(t, "A", p.targets())
			assert.Equal(t, 1, m.aws.Count("DeleteItem", "A/loop"))
		})
	})
	t.Run("that fail once", func(t *testing.T) { // lease-assignment-and-worker-metrics#25, single-table-migration#68
		inMoving(t, func(t *testing.T, m *moving) {
			m.legacyReports(0, "B")
			p := m.leader("A")
			fault(m, 1)
			start := time.Now()
			require.NoError(t, p.assigns())
			assert.Equal(t, loadPause, time.Since(start)) // Do better 16
			assert.Equal(t, 2, scans(m))
			assert.Equal(t, "B", p.targets())
		})
	})
	t.Run("that are cut short are not made again", func(t *testing.T) { // single-table-migration#68
		inMoving(t, func(t *testing.T, m *moving) {
			p := m.leader("A")
			m.aws.Inject(kcltest.Fault{Clients: []string{"A/loop"}, Operations: []string{"Scan"}, Resources: []string{m.legacy.Name}, Effect: kcltest.Hang})
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("stopping"))
			defer cancel()
			_, err := p.load(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, 1, scans(m))
		})
	})
	t.Run("that fail twice", func(t *testing.T) { // lease-assignment-and-worker-metrics#25, single-table-migration#68
		inMoving(t, func(t *testing.T, m *moving) {
			p := m.leader("A")
			fault(m, 2)
			require.ErrorIs(t, p.assigns(), kcl.ErrDependency)
			assert.Equal(t, 2, scans(m))
		})
	})
	t.Run("at the same time as those of the lease table", func(t *testing.T) { // single-table-migration#67
		inMoving(t, func(t *testing.T, m *moving) {
			p := m.leader("A")
			m.aws.Inject(kcltest.Fault{Clients: []string{"A/loop"}, Operations: []string{"Scan"}, Effect: kcltest.Slow, Delay: time.Second})
			start := time.Now()
			require.NoError(t, p.assigns())
			assert.Equal(t, time.Second, time.Since(start))
		})
	})
	t.Run("end when those of the lease table have failed", func(t *testing.T) {
		inMoving(t, func(t *testing.T, m *moving) {
			p := m.leader("A")
			m.aws.Inject(kcltest.Fault{Clients: []string{"A/loop"}, Operations: []string{"Scan"}, Resources: []string{m.legacy.Name}, Effect: kcltest.Hang})
			m.aws.Inject(kcltest.Fault{Clients: []string{"A/loop"}, Operations: []string{"Scan"}, Effect: kcltest.Break})
			start := time.Now()
			err := p.assigns()
			require.ErrorIs(t, err, kcl.ErrDependency)
			assert.ErrorContains(t, err, "scan leases")
			assert.Equal(t, loadPause, time.Since(start))
		})
	})
	t.Run("cost as much as others", func(t *testing.T) {
		inMoving(t, func(t *testing.T, m *moving) {
			p := m.leader("A")
			snap, err := p.load(t.Context())
			require.NoError(t, err)
			alone := snap.ReadUnits
			for i := range 6 {
				it := oldRecord(fmt.Sprint("B", i), time.Now())
				it["properties"] = &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"x": &types.AttributeValueMemberS{Value: strings.Repeat("x", 40_000)}}}
				m.legacy.Put(it)
			}
			snap, err = p.load(t.Context())
			require.NoError(t, err)
			assert.InDelta(t, 28, snap.ReadUnits-alone, 2) // 240 KB, but for what an empty table costs
		})
	})
	t.Run("of a store that was not initialized", func(t *testing.T) {
		inMoving(t, func(t *testing.T, m *moving) {
			p := m.worker("A", func(c *Config) {
				c.Workers = workermetrics.NewStore(workermetrics.StoreConfig{Client: m.Client, Table: m.Name, LegacyTable: m.legacy.Name})
			}).leads()
			require.ErrorIs(t, p.assigns(), kcl.ErrInvalidState)
		})
	})
}

// The two workers of the recorded migration are two workers at each of its
// moments, wherever their records were: lease-assignment-and-worker-metrics#9.
func TestRecordedMigration(t *testing.T) {
	for state, tc := range map[string]struct {
		status  workermetrics.Status
		records int
		legacy  bool // the records that tell
	}{
		"3.4-legacy-three-tables":      {workermetrics.StatusInit, 2, true},
		"3.5-table-migration-init":     {workermetrics.StatusInit, 2, true},
		"3.5-table-migration-deployed": {workermetrics.StatusDeployed, 2, true},
		"3.5-table-migration-pending":  {workermetrics.StatusPending, 4, false},
		"3.5-table-migration-complete": {workermetrics.StatusComplete, 2, false},
	} {
		t.Run(state, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				aws := kcltest.New(kcltest.Options{Delays: kcltest.NoDelays})
				require.NoError(t, aws.LoadTables(bytes.NewReader(interchange.State(t, state))))
				client := dynamodb.NewFromConfig(aws.Config("A"))
				store := workermetrics.NewStore(workermetrics.StoreConfig{
					Client: client, Table: "app3", LegacyTable: "app3-WorkerMetricStats", Status: func() workermetrics.Status { return tc.status },
				})
				require.NoError(t, store.Init(t.Context()))
				l := &Loop{cfg: Config{Leases: lease.NewStore(lease.StoreConfig{Client: client, Table: "app3"}), Workers: store}, memory: newMemory(), log: slog.New(slog.DiscardHandler), timing: defaults}
				snap, err := l.load(t.Context())
				require.NoError(t, err)
				v, stale, _ := l.look(t.Context(), snap, time.Now())
				assert.Empty(t, stale)
				assert.Len(t, l.memory.records, tc.records)
				require.Len(t, v.Workers, 2)
				for i, id := range []string{"C", "D"} {
					assert.Equal(t, id, v.Workers[i].ID)
					assert.Equal(t, tc.legacy, v.Workers[i].Record.Legacy)
				}
			})
		})
	}
}
