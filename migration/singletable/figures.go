package singletable

import (
	"time"

	"github.com/go-kcl/kcl/metrics"
)

// The operations of the figures that a [Machine] reports, all of them Summary.
//
//	TableMigration            StatusOrdinal      the stored status's, by the leader, at every check        None
//	                          Phase1Worker, Phase2Worker, PrePhase1Worker
//	                                             by the leader that knows the fleet, likewise              Count
//	                          ReadFault          0 or 1, at every read of the item                         Count
//	                          WriteFault, DeleteFault, CompletionFault
//	                                             0 or 1, at every such write; 1 also if it was refused     Count
//	                          LegacyTableAppeared
//	                                             1, once, by the leader of a fresh application           Count
//	WorkerMetrics             FleetMinSupportCode
//	                                             by the leader, at every assignment run                    None
//	TableMigrationInitialize  Success, Time      at every attempt of a start                               Count, Milliseconds
//	TableMigrationAsyncMove   Success, Time, BatchCount
//	                                             at the end of every move                                  Count, Milliseconds
//
// A leader checks when something has changed and at least once a minute, where
// KCL's does once a second. KCL's Time of a check is not reported: most make no
// call.
const (
	Operation           = "TableMigration"
	OperationInitialize = "TableMigrationInitialize"
	OperationMove       = "TableMigrationAsyncMove"
)

// unitNone is CloudWatch's unit of what has none.
const unitNone metrics.Unit = "None"

func (m *Machine) scope(operation string) metrics.Scope {
	return metrics.Scope{Recorder: m.cfg.Metrics, Operation: operation}
}

func (m *Machine) fault(name string, failed bool) {
	n := 0.0
	if failed {
		n = 1
	}
	m.scope(Operation).Count(name, n, metrics.Summary)
}

// measure reports a leader's check.
func (m *Machine) measure(v View, d Decision) {
	if v.Term == 0 || d.Do != Wait {
		return
	}
	scope := m.scope(Operation)
	stored, _ := v.Read.status()
	if d.Local == Complete {
		stored = Complete
	}
	scope.Add("StatusOrdinal", float64(stored.Ordinal()), unitNone, metrics.Summary)
	if d.Local == Complete || v.known(Yes) != Yes {
		return
	}
	f := v.Summary.Figures()
	scope.Count("Phase1Worker", float64(f.Phase1Workers), metrics.Summary)
	scope.Count("Phase2Worker", float64(f.Phase2Workers), metrics.Summary)
	scope.Count("PrePhase1Worker", float64(f.PrePhase1Workers), metrics.Summary)
}

// measureFleet reports what an assignment run shows.
func (m *Machine) measureFleet(s Summary, complete bool) {
	if len(s.Owners) > 0 {
		m.scope("WorkerMetrics").Add("FleetMinSupportCode", float64(s.MinSupport()), unitNone, metrics.Summary)
	}
	if complete {
		m.scope(Operation).Add("StatusOrdinal", float64(Complete.Ordinal()), unitNone, metrics.Summary)
	}
}

// measureWrite reports a write's answer.
func (m *Machine) measureWrite(a Action, answer Answer) {
	name := "WriteFault"
	switch a {
	case Delete:
		name = "DeleteFault"
	case Finalize:
		name = "CompletionFault"
	}
	m.fault(name, answer != Done)
}

func (m *Machine) measureStart(began time.Time, err error) {
	m.scope(OperationInitialize).Done("", began, err, metrics.Summary)
}

func (m *Machine) measureMove(began time.Time, batches int, err error) {
	m.scope(OperationMove).Done("", began, err, metrics.Summary)
	m.scope(OperationMove).Count("BatchCount", float64(batches), metrics.Summary)
}
