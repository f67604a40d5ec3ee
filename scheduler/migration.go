package scheduler

import (
	"context"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/go-kcl/kcl/coordinator"
	"github.com/go-kcl/kcl/coordinator/assignment"
	"github.com/go-kcl/kcl/internal/entity"
	"github.com/go-kcl/kcl/leader"
	"github.com/go-kcl/kcl/migration/singletable"
	"github.com/go-kcl/kcl/workermetrics"
)

// tableCallPart is the part of the leader's term that a call of the table
// migration may take: whatever it does must be known before another can lead.
const tableCallPart = 3

// maxTableCall bounds those calls where a term is long.
const maxTableCall = 10 * time.Second

// leadership says whether this worker acts as leader: it has the lock, and, of a
// lock in the legacy table, it knows that the migration has not ended.
type leadership struct {
	*leader.Decider
	machine *singletable.Machine
	cfg     Config

	mu      sync.Mutex
	changed chan struct{} // closed, and replaced, by watch; guarded by mu
}

// newMachine makes this worker's part of the single-table migration. The lock is
// that of the decider, which is made once the machine has started.
func newMachine(c Config, d *dynamodb.Client, decider func() *leader.Decider) (*singletable.Machine, error) {
	return singletable.NewMachine(singletable.MachineConfig{
		Config: singletable.Config{
			Worker: c.WorkerIdentifier, MigrateAllEntitiesToLeaseTable: c.MigrateAllEntitiesToLeaseTable, CompleteBake: c.TableMigrationCompleteBakeTime,
		},
		Tables: singletable.NewTables(singletable.TablesConfig{
			Client: d, Lease: c.Table.Name, Legacy: c.CoordinatorStateTable, LegacyRecords: c.WorkerMetricsTable, Worker: c.WorkerIdentifier,
			Period: c.Leases.WorkerReportInterval, Logger: c.Logger,
			RequestTimeout: min(c.Leases.RequestTimeout, c.Leader.LeaseDuration/tableCallPart, maxTableCall),
		}),
		SummaryAge: summaryAge(c),
		Patience:   c.Leader.LeaseDuration / 2,
		NewLock:    func() map[string]types.AttributeValue { return decider().Claim() },
		Release: func(completed bool, took map[string]types.AttributeValue) {
			if completed {
				decider().Move(c.Table.Name, entity.LeaseTableKey, took)
				return
			}
			// What counts cannot be read here; another worker may be able to.
			if term, leading := decider().Leading(); leading && term.Table != c.Table.Name {
				ctx, cancel := context.WithCancel(context.Background())
				cancel() // not waited for
				_ = decider().Resign(ctx, term)
			}
		},
		Logger: c.Logger, Metrics: c.Metrics,
	})
}

// summaryAge is how long what an assignment run saw of the fleet is good for: a
// few runs.
func summaryAge(c Config) time.Duration {
	return max(3*c.Leases.WorkerReportInterval, 4*max(c.Leases.AssignmentInterval, 2*c.Leases.FailoverTime))
}

// state is the coordinator's state, in whichever table it is. The machine has
// started.
func state(c Config, d *dynamodb.Client, m *singletable.Machine) (*coordinator.Routed, error) {
	r := coordinator.RoutedConfig{
		Lease: coordinator.NewStore(coordinator.StoreConfig{
			Client: d, Table: c.Table.Name, RequestTimeout: c.Leases.RequestTimeout, Logger: c.Logger,
		}),
		Started: m.Started(), Status: m.Status,
	}
	if m.Started() != singletable.Complete {
		r.Legacy = coordinator.NewStore(coordinator.StoreConfig{
			Client: d, Table: c.CoordinatorStateTable, KeyAttribute: coordinator.LegacyKey, RequestTimeout: c.Leases.RequestTimeout, Logger: c.Logger,
		})
	}
	return coordinator.NewRouted(r)
}

// newLeadership makes the decider over the lock that counts at present.
func newLeadership(c Config, d *dynamodb.Client, m *singletable.Machine) (*leadership, error) {
	lc := leader.Config{
		Client: d, Table: c.Table.Name, Worker: c.WorkerIdentifier,
		Duration: c.Leader.LeaseDuration, Heartbeat: c.Leader.HeartbeatPeriod, Logger: c.Logger, Metrics: c.Metrics,
	}
	if m.Status() != singletable.Complete {
		lc.Table, lc.KeyAttribute = c.CoordinatorStateTable, coordinator.LegacyKey
	}
	decider, err := leader.New(lc)
	if err != nil {
		return nil, err
	}
	return &leadership{Decider: decider, machine: m, cfg: c, changed: make(chan struct{})}, nil
}

// Leading is the decider's answer, but for a term by the legacy table's lock in
// which it is not known yet that this is the lock that counts.
func (l *leadership) Leading() (leader.Term, bool) {
	term, leading := l.Decider.Leading()
	if !leading || term.Table != l.cfg.Table.Name && !l.machine.Leads(term.Number) {
		return leader.Term{}, false
	}
	return term, true
}

// Changed is closed when Leading, or what the decider has seen, changes.
func (l *leadership) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// watch tells the machine of the decider's terms, and everybody of what either
// comes to, until ctx ends.
func (l *leadership) watch(ctx context.Context) {
	told, end := uint64(0), func() {}
	defer func() { end() }()
	for {
		decided, migrated := l.Decider.Changed(), l.machine.Changed()
		term, leading := l.Decider.Leading()
		if !leading || term.Table == l.cfg.Table.Name {
			term.Number = 0
		}
		if term.Number != told {
			end()
			if told, end = term.Number, func() {}; told == 0 {
				l.machine.Follow()
			} else {
				var termCtx context.Context
				termCtx, end = term.Context(ctx)
				l.machine.Lead(termCtx, told)
			}
		}
		l.mu.Lock()
		close(l.changed)
		l.changed = make(chan struct{})
		l.mu.Unlock()
		select {
		case <-decided:
		case <-migrated:
		case <-ctx.Done():
			return
		}
	}
}

// know tells the machine what an assignment run of the leader's saw.
func (l *leadership) know(t leader.Term, s assignment.Scanned) {
	rows := make([]singletable.Row, len(s.Workers))
	for i, w := range s.Workers {
		rows[i] = singletable.Row{Record: w.Record, Sighting: w.Sighting}
	}
	sum := singletable.Summarize(s.Leases, rows, time.Now(), l.cfg.Leases.WorkerReportInterval)
	sum.At, sum.Term, sum.Since = s.At, t.Number, s.Since
	l.machine.Know(sum)
}

// newWorkers makes the store of the workers' records.
func newWorkers(c Config, d *dynamodb.Client, m *singletable.Machine) *workermetrics.Store {
	sc := workermetrics.StoreConfig{
		Client: d, Table: c.Table.Name, Period: c.Leases.WorkerReportInterval, RequestTimeout: c.Leases.RequestTimeout, Logger: c.Logger,
	}
	if !c.noLegacyTables() {
		sc.LegacyTable, sc.Status = c.WorkerMetricsTable, func() workermetrics.Status { return workermetrics.Status(m.Status()) }
	}
	return workermetrics.NewStore(sc)
}

// noLegacyTables reports whether there is no use in looking for the tables of
// KCL 3.0 to 3.4: the operator says so, or no table can be called as they are.
func (c Config) noLegacyTables() bool {
	return c.NoLegacyTables || !tableName.MatchString(c.CoordinatorStateTable) || !tableName.MatchString(c.WorkerMetricsTable)
}
