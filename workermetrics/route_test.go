package workermetrics

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/coordinator"
	"github.com/go-kcl/kcl/internal/entity"
	"github.com/go-kcl/kcl/internal/testbed"
	"github.com/go-kcl/kcl/kcltest"
)

// moving is a world with a fleet that came from KCL 3.0 to 3.4.
type moving struct {
	*world
	legacy *testbed.Table // another's hand on it; the table need not exist
	status Status         // of the worker
}

func inMoving(t *testing.T, s Status, f func(t *testing.T, m *moving)) {
	t.Helper()
	inWorld(t, func(t *testing.T, w *world) {
		m := &moving{world: w, status: s}
		m.legacy = &testbed.Table{T: t, Client: w.Client, Name: LegacyTableName("app"), Key: legacyKey}
		cfg := w.store.cfg
		cfg.LegacyTable, cfg.Status = m.legacy.Name, func() Status { return m.status }
		cfg.Logger = testbed.Logger(t.Output())
		w.store = NewStore(cfg)
		f(t, m)
	})
}

func inLegacy(t *testing.T, s Status, f func(t *testing.T, m *moving)) {
	t.Helper()
	inMoving(t, s, func(t *testing.T, m *moving) {
		m.legacy.Create()
		require.NoError(t, m.store.Init(t.Context()))
		f(t, m)
	})
}

func now() time.Time { return time.Unix(time.Now().Unix(), 0) }

// where says in which tables there is a record of the worker: "lease", "legacy".
func (m *moving) where(worker string) string {
	m.T.Helper()
	var in []string
	if m.Item(worker) != nil {
		in = append(in, "lease")
	}
	if m.legacy.Item(worker) != nil {
		in = append(in, "legacy")
	}
	return strings.Join(in, " ")
}

// old is a record as KCL 3.0 to 3.4 writes it into the legacy table.
func old(worker string, updated time.Time) item {
	it := encode(Record{Updated: updated, Load: Load{map[string][]float64{}, map[string][]int64{}}})
	delete(it, entity.Attribute)
	it[legacyKey] = &str{Value: worker}
	return it
}

// stored is a record as the lease table holds it.
func stored(worker string, updated time.Time) item {
	it := encode(Record{Updated: updated, Load: Load{map[string][]float64{}, map[string][]int64{}}})
	it[attrKey] = &str{Value: worker}
	return it
}

func (m *moving) deleteLegacy() {
	m.T.Helper()
	_, err := m.Client.DeleteTable(m.T.Context(), &dynamodb.DeleteTableInput{TableName: &m.legacy.Name})
	require.NoError(m.T, err)
	time.Sleep(time.Minute)
}

// found says what a read found: "worker@table" each, in order.
func found(f Found) string {
	var out []string
	for _, r := range f.Records {
		if r.Legacy {
			out = append(out, r.Worker+"@legacy")
		} else {
			out = append(out, r.Worker+"@lease")
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// calls are those that the worker made so far.
func calls(aws *kcltest.AWS) []kcltest.CallCount {
	return slices.DeleteFunc(aws.Calls(), func(c kcltest.CallCount) bool { return c.Client != "worker" })
}

func (m *moving) list() string {
	m.T.Helper()
	f, err := m.store.List(m.T.Context())
	require.NoError(m.T, err)
	return found(f)
}

func (m *moving) scanLegacy() string {
	m.T.Helper()
	f, err := m.store.ScanLegacy(m.T.Context())
	require.NoError(m.T, err)
	return found(f)
}

// The migration's own words for its statuses are ours.
func TestStatusesAreTheMigrations(t *testing.T) {
	assert.Equal(t, []Status{StatusInit, StatusDeployed, StatusPending, StatusComplete}, []Status{
		Status(coordinator.TableStatusInit), Status(coordinator.TableStatusDeployed),
		Status(coordinator.TableStatusPending), Status(coordinator.TableStatusComplete),
	})
}

func TestInit(t *testing.T) {
	// lease-assignment-and-worker-metrics#4
	for _, c := range []struct {
		status Status
		writes string
		looks  int // at the legacy table
	}{
		{StatusInit, "legacy", 1},
		{StatusDeployed, "legacy", 1},
		{StatusPending, "lease", 1},
		{StatusComplete, "lease", 0}, // ruling 25
	} {
		t.Run("at "+string(c.status), func(t *testing.T) {
			inLegacy(t, c.status, func(t *testing.T, m *moving) {
				require.NoError(t, m.reporter(nil).Report(t.Context()))
				assert.Equal(t, c.writes, m.where("w"))
				it := m.Item("w")
				if c.writes == "legacy" {
					it = m.legacy.Item("w")
				}
				assert.Equal(t, entity.WorkerMetricStats, entity.Of(it), "in either table")
				assert.Equal(t, c.looks, m.aws.Count("DescribeTable", "worker"))
			})
		})
	}
	for _, s := range []Status{StatusUnknown, "TABLE_MIGRATION_STATUS_UNKNOWN", "TABLE_MIGRATION_STATUS_LATER"} {
		t.Run(fmt.Sprintf("at %q", s), func(t *testing.T) { // lease-assignment-and-worker-metrics#4
			inMoving(t, s, func(t *testing.T, m *moving) {
				m.legacy.Create()
				err := m.store.Init(t.Context())
				require.ErrorIs(t, err, kcl.ErrInvalidState)
				require.ErrorIs(t, err, errUnknownStatus)
				assert.Empty(t, calls(m.aws))
				require.ErrorIs(t, m.store.Put(t.Context(), noMetrics(now())), kcl.ErrInvalidState)

				m.status = StatusInit
				require.NoError(t, m.store.Init(t.Context()), "tried again")
				require.NoError(t, m.store.Put(t.Context(), noMetrics(now())))
				assert.Equal(t, "legacy", m.where("w"))
			})
		})
	}
	t.Run("without anybody to ask for the status", func(t *testing.T) {
		inMoving(t, StatusInit, func(t *testing.T, m *moving) {
			m.store.cfg.Status = nil
			require.ErrorIs(t, m.store.Init(t.Context()), errUnknownStatus)
		})
	})
	t.Run("cannot find out whether there is a legacy table", func(t *testing.T) {
		inMoving(t, StatusInit, func(t *testing.T, m *moving) {
			m.legacy.Create()
			broken := m.fail("DescribeTable", kcltest.Break)
			require.ErrorIs(t, m.store.Init(t.Context()), kcl.ErrDependency)
			require.ErrorIs(t, m.store.Put(t.Context(), noMetrics(now())), kcl.ErrInvalidState, "nothing is decided")
			broken.Remove()
			m.status = StatusPending
			require.NoError(t, m.store.Init(t.Context()))
			require.NoError(t, m.store.Put(t.Context(), noMetrics(now())))
			assert.Equal(t, "lease", m.where("w"))
		})
	})
	t.Run("may not look for the legacy table", func(t *testing.T) {
		inMoving(t, StatusPending, func(t *testing.T, m *moving) {
			m.aws.Inject(kcltest.Fault{Clients: []string{"worker"}, Operations: []string{"DescribeTable"}, Effect: kcltest.Refuse, Code: "AccessDeniedException"})
			err := m.store.Init(t.Context())
			require.ErrorContains(t, err, "allow dynamodb:DescribeTable on it, or set NoLegacyTables")
			require.ErrorContains(t, err, "AccessDeniedException")
		})
	})
	t.Run("once", func(t *testing.T) {
		inMoving(t, StatusInit, func(t *testing.T, m *moving) {
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() { assert.NoError(t, m.store.Init(t.Context())) })
			}
			all.Wait()
			m.status = StatusUnknown
			require.NoError(t, m.store.Init(t.Context()))
			assert.LessOrEqual(t, m.aws.Count("DescribeTable", "worker"), 3)
		})
	})
	t.Run("before it", func(t *testing.T) {
		inMoving(t, StatusInit, func(t *testing.T, m *moving) {
			ctx := t.Context()
			require.ErrorIs(t, m.store.Put(ctx, noMetrics(now())), errNotInitialized)
			_, err := m.store.Delete(ctx, noMetrics(now()))
			require.ErrorIs(t, err, errNotInitialized)
			_, err = m.store.ScanLegacy(ctx)
			require.ErrorIs(t, err, errNotInitialized)
			_, err = m.store.List(ctx)
			require.ErrorIs(t, err, errNotInitialized)
			assert.ErrorIs(t, err, kcl.ErrInvalidState)
			assert.Empty(t, calls(m.aws))
		})
	})
	t.Run("without a legacy table", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			require.NoError(t, w.store.Init(t.Context()))
			f, err := w.store.ScanLegacy(t.Context())
			require.NoError(t, err)
			assert.Empty(t, f)
			r := noMetrics(now())
			r.Legacy = true
			_, err = w.store.Delete(t.Context(), r)
			require.ErrorIs(t, err, kcl.ErrInvalidState)
			assert.Empty(t, calls(w.aws))
		})
	})
}

// A worker writes where it began to, whatever becomes of the status but for
// COMPLETE, and reads where records are now. After COMPLETE a Java worker that
// began before goes on writing to the legacy table, and gets no leases.
func TestRoute(t *testing.T) {
	// lease-assignment-and-worker-metrics#5
	t.Run("of a worker that began at INIT", func(t *testing.T) {
		inLegacy(t, StatusInit, func(t *testing.T, m *moving) {
			r := m.reporter(nil)
			require.NoError(t, r.Report(t.Context()))
			m.Put(stored("other", now()))
			for _, s := range []Status{StatusInit, StatusDeployed, StatusPending, StatusUnknown} {
				m.status = s
				m.legacy.Delete("w")
				require.NoError(t, r.Report(t.Context()))
				assert.Equal(t, "legacy", m.where("w"), "%s", s)
				assert.Equal(t, "w@legacy", m.scanLegacy(), "%s", s)
				assert.Equal(t, "other@lease w@legacy", m.list(), "%s", s)
			}

			m.status = StatusComplete
			m.legacy.Delete("w")
			scans := m.aws.Count("Scan", "worker")
			require.NoError(t, r.Report(t.Context()))
			assert.Equal(t, "lease", m.where("w"), "where alone leaders look from now on")
			assert.Empty(t, m.scanLegacy())
			assert.Equal(t, "other@lease w@lease", m.list())
			assert.Equal(t, scans+1, m.aws.Count("Scan", "worker"), "only the lease table is read")

			ok, err := r.Delete(t.Context())
			require.NoError(t, err)
			assert.True(t, ok, "its own record goes last, from where it wrote it")
			assert.Empty(t, m.where("w"))
		})
	})
	// lease-assignment-and-worker-metrics#4: the choice of the beginning stays.
	t.Run("of a worker that began at PENDING", func(t *testing.T) {
		inLegacy(t, StatusPending, func(t *testing.T, m *moving) {
			r := m.reporter(nil)
			m.legacy.Put(old("other", now()))
			for _, s := range []Status{StatusPending, StatusDeployed, StatusInit} {
				m.status = s
				m.Delete("w")
				require.NoError(t, r.Report(t.Context()))
				assert.Equal(t, "lease", m.where("w"), "%s", s)
				assert.Equal(t, "other@legacy w@lease", m.list(), "%s", s)
			}
			ok, err := r.Delete(t.Context())
			require.NoError(t, err)
			assert.True(t, ok)
			assert.Empty(t, m.where("w"))
		})
	})
	t.Run("of a worker that began at COMPLETE", func(t *testing.T) {
		inLegacy(t, StatusComplete, func(t *testing.T, m *moving) {
			m.legacy.Put(old("other", now()))
			require.NoError(t, m.reporter(nil).Report(t.Context()))
			assert.Equal(t, "w@lease", m.list())
			assert.Empty(t, m.scanLegacy())
		})
	})
}

// lease-assignment-and-worker-metrics#6, single-table-migration#55
func TestNoLegacyTable(t *testing.T) {
	// check holds a store against a table that is not there.
	check := func(t *testing.T, m *moving) {
		ctx := t.Context()
		m.Put(stored("other", now()))
		assert.Empty(t, m.scanLegacy())
		assert.Equal(t, "other@lease", m.list())

		err := m.store.Put(ctx, noMetrics(now()))
		require.ErrorIs(t, err, kcl.ErrInvalidState)
		assert.ErrorContains(t, err, "put record of worker w")
		assert.ErrorContains(t, err, m.legacy.Name)
		for _, updated := range []time.Time{now(), {}} {
			_, err = m.store.Delete(ctx, Record{Worker: "w", Updated: updated, Legacy: true})
			require.ErrorIs(t, err, kcl.ErrInvalidState)
			assert.ErrorContains(t, err, "delete record of worker w")
			assert.ErrorContains(t, err, m.legacy.Name)
		}
		ok, err := m.store.Delete(ctx, Record{Worker: "other", Updated: now()})
		require.NoError(t, err)
		assert.True(t, ok, "the lease table is there")
		assert.Zero(t, m.aws.Count("CreateTable", "worker"))
	}
	t.Run("from the beginning", func(t *testing.T) {
		inMoving(t, StatusDeployed, func(t *testing.T, m *moving) {
			require.NoError(t, m.store.Init(t.Context()))
			check(t, m)
			assert.Equal(t, 1, m.aws.Count("Scan", "worker"), "of the lease table")
			assert.Zero(t, m.aws.Count("UpdateItem", "worker"))
			assert.Equal(t, 1, m.aws.Count("DeleteItem", "worker"))
		})
	})
	t.Run("deleted meanwhile", func(t *testing.T) {
		inLegacy(t, StatusDeployed, func(t *testing.T, m *moving) {
			m.legacy.Put(old("w", now()))
			assert.Equal(t, "w@legacy", m.scanLegacy())
			m.deleteLegacy()
			check(t, m)
		})
	})
	t.Run("deleted between two pages", func(t *testing.T) {
		inLegacy(t, StatusDeployed, func(t *testing.T, m *moving) {
			m.crowd(8)
			m.aws.Inject(kcltest.Fault{Clients: []string{"worker"}, Operations: []string{"Scan"}, Skip: 1, Effect: kcltest.Refuse, Code: "ResourceNotFoundException"})
			assert.Empty(t, m.scanLegacy())
		})
	})
	t.Run("a worker that reports all the same", func(t *testing.T) {
		inMoving(t, StatusInit, func(t *testing.T, m *moving) {
			require.NoError(t, m.store.Init(t.Context()))
			r := m.reporter(nil)
			stop := m.run(r)
			time.Sleep(DefaultPeriod)
			synctest.Wait()
			stop()
			assert.Equal(t, slices.Repeat([]float64{0}, 7), m.figures.Values(operation, "Success"))
			_, err := r.Delete(t.Context())
			require.ErrorIs(t, err, kcl.ErrInvalidState)
		})
	})
}

// crowd fills the legacy table with n records, so large that a page holds few.
func (m *moving) crowd(n int) {
	m.T.Helper()
	for i := range n {
		it := old(fmt.Sprint("w", i), now())
		it["properties"] = &object{Value: item{"large": &str{Value: strings.Repeat("x", 300_000)}}}
		m.legacy.Put(it)
	}
}

func TestScanLegacy(t *testing.T) {
	// single-table-migration#56
	t.Run("reads records of whatever kind they say they are", func(t *testing.T) {
		inLegacy(t, StatusInit, func(t *testing.T, m *moving) {
			for worker, kind := range map[string]item{
				"3.4": {}, "3.5": {entity.Attribute: entity.WorkerMetricStats.Attr()}, "odd": {entity.Attribute: entity.Lease.Attr()}, "odder": {entity.Attribute: &number{Value: "1"}},
			} {
				it := old(worker, now())
				it["later"] = &str{Value: "x"}
				if kind[entity.Attribute] != nil {
					it[entity.Attribute] = kind[entity.Attribute]
				}
				m.legacy.Put(it)
			}
			f, err := m.store.ScanLegacy(t.Context())
			require.NoError(t, err)
			assert.Equal(t, "3.4@legacy 3.5@legacy odd@legacy odder@legacy", found(f))
			assert.Empty(t, f.Unreadable)
			i := slices.IndexFunc(f.Records, func(r Record) bool { return r.Worker == "3.4" })
			want := noMetrics(now())
			want.Worker, want.Legacy = "3.4", true
			assert.Equal(t, want, f.Records[i])
			assert.True(t, want.Valid())
		})
	})
	t.Run("reads page after page", func(t *testing.T) {
		inLegacy(t, StatusInit, func(t *testing.T, m *moving) {
			m.crowd(8)
			f, err := m.store.ScanLegacy(t.Context())
			require.NoError(t, err)
			assert.Len(t, f.Records, 8)
			pages := m.aws.Count("Scan", "worker")
			assert.Greater(t, pages, 1)
			assert.Greater(t, f.ReadUnits, 250.0, "of all pages")

			m.aws.Inject(kcltest.Fault{Clients: []string{"worker"}, Operations: []string{"Scan"}, Skip: 1, Effect: kcltest.Break})
			f, err = m.store.ScanLegacy(t.Context())
			require.ErrorIs(t, err, kcl.ErrDependency)
			assert.Empty(t, f)
		})
	})
	t.Run("skips what it cannot read", func(t *testing.T) { // do better 8
		inLegacy(t, StatusInit, func(t *testing.T, m *moving) {
			bad := old("bad", now())
			bad[attrUpdated] = &str{Value: "now"}
			m.legacy.Put(bad)
			m.legacy.Put(old("good", now()))
			f, err := m.store.ScanLegacy(t.Context())
			require.NoError(t, err)
			assert.Equal(t, "good@legacy", found(f))
			require.Len(t, f.Unreadable, 1)
			assert.Equal(t, "bad", f.Unreadable[0].Worker)
			assert.EqualError(t, f.Unreadable[0].Err, `table app-WorkerMetricStats: record of worker "bad": attribute lut: has the wrong type`)
		})
	})
	for code, class := range map[string]error{"ThrottlingException": kcl.ErrThrottled, "AccessDeniedException": kcl.ErrDependency} {
		t.Run("fails by "+code, func(t *testing.T) {
			inLegacy(t, StatusInit, func(t *testing.T, m *moving) {
				m.aws.Inject(kcltest.Fault{Clients: []string{"worker"}, Operations: []string{"Scan"}, Effect: kcltest.Refuse, Code: code})
				_, err := m.store.ScanLegacy(t.Context())
				require.ErrorIs(t, err, class)
				assert.ErrorContains(t, err, "scan worker records in table app-WorkerMetricStats")
			})
		})
	}
	t.Run("ends with its context", func(t *testing.T) {
		inLegacy(t, StatusInit, func(t *testing.T, m *moving) {
			m.fail("Scan", kcltest.Hang)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := m.store.ScanLegacy(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
	})
}

func TestList(t *testing.T) {
	// single-table-migration#57
	t.Run("finds records only", func(t *testing.T) {
		inLegacy(t, StatusPending, func(t *testing.T, m *moving) {
			for key, kind := range map[string]entity.Type{
				"shardId-0": entity.Lease, "Leader": entity.Leader, "Migration3.0": entity.ClientVersionMigration, "orders": entity.Stream, "later": "LATER",
			} {
				m.Put(item{attrKey: &str{Value: key}, entity.Attribute: kind.Attr()})
			}
			m.Put(item{attrKey: &str{Value: "shardId-1"}}) // a lease from before 3.5
			m.Put(stored("new", now()))
			bad := stored("bad", now())
			bad[attrStats] = &str{Value: "x"}
			m.Put(bad)
			m.Put(stored("both", now()))
			m.legacy.Put(old("both", now()))
			worse := old("worse", now())
			worse[attrStats] = &str{Value: "x"}
			m.legacy.Put(worse)
			f, err := m.store.List(t.Context())
			require.NoError(t, err)
			assert.Equal(t, "both@lease both@legacy new@lease", found(f))
			require.Len(t, f.Unreadable, 2)
			assert.Equal(t, "bad", f.Unreadable[0].Worker)
			assert.Equal(t, "worse", f.Unreadable[1].Worker)
			assert.Positive(t, f.ReadUnits)
		})
	})
	t.Run("fails with either table", func(t *testing.T) {
		for skip := range 2 {
			inLegacy(t, StatusPending, func(t *testing.T, m *moving) {
				m.aws.Inject(kcltest.Fault{Clients: []string{"worker"}, Operations: []string{"Scan"}, Skip: skip, Effect: kcltest.Break})
				_, err := m.store.List(t.Context())
				require.ErrorIs(t, err, kcl.ErrDependency)
			})
		}
	})
	t.Run("fails without a lease table", func(t *testing.T) {
		inLegacy(t, StatusPending, func(t *testing.T, m *moving) {
			m.store.cfg.Table = "other"
			_, err := m.store.List(t.Context())
			require.ErrorIs(t, err, kcl.ErrInvalidState)
		})
	})
}

// A record is deleted from the table that it was read from, whatever the status
// and this worker's own table: lease-assignment-and-worker-metrics#18.
func TestDeleteFromItsTable(t *testing.T) {
	at := time.Unix(1000, 0)
	for _, s := range []Status{StatusInit, StatusPending} {
		for _, c := range []struct {
			name    string
			record  Record
			updated time.Time // of what is stored in either table
			left    string
		}{
			{"lease table", Record{Updated: at}, at, "legacy"},
			{"legacy table", Record{Updated: at, Legacy: true}, at, "lease"},
			// lease-assignment-and-worker-metrics#8, single-table-migration#58
			{"legacy table, written again since", Record{Updated: at, Legacy: true}, at.Add(time.Second), "lease legacy"},
			// do better 10
			{"lease table, without a time", Record{}, time.Time{}, "legacy"},
			{"legacy table, without a time", Record{Legacy: true}, time.Time{}, "lease"},
			{"legacy table, without a time, written again since", Record{Legacy: true}, at, "lease legacy"},
		} {
			t.Run(string(s)+" "+c.name, func(t *testing.T) {
				inLegacy(t, s, func(t *testing.T, m *moving) {
					m.Put(stored("x", c.updated))
					m.legacy.Put(old("x", c.updated))
					c.record.Worker = "x"
					for _, live := range []Status{s, StatusComplete} {
						m.status = live
						ok, err := m.store.Delete(t.Context(), c.record)
						require.NoError(t, err)
						assert.Equal(t, c.left != "lease legacy" && live == s, ok)
						assert.Equal(t, c.left, m.where("x"))
					}
				})
			})
		}
	}
	t.Run("at COMPLETE", func(t *testing.T) {
		inLegacy(t, StatusInit, func(t *testing.T, m *moving) {
			m.legacy.Put(old("x", at))
			m.status = StatusComplete
			ok, err := m.store.Delete(t.Context(), Record{Worker: "x", Updated: at, Legacy: true})
			require.NoError(t, err)
			assert.True(t, ok)
		})
	})
}
