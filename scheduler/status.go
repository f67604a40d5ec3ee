package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/lease"
)

// Status says what a worker does at one moment. It encodes to JSON and holds
// nothing secret, no record data among it.
type Status struct {
	Worker      string `json:"worker"`
	Application string `json:"application"`
	State       State  `json:"state"`
	// Leading: this worker has the leader's lock. Leader is who has it, as far as
	// this worker has seen.
	Leading bool   `json:"leading"`
	Leader  string `json:"leader,omitempty"`
	// Draining: the worker stops and wants no more leases.
	Draining bool `json:"draining"`
	// TableMigration is where the move from the tables of KCL 3.0 to 3.4 stands;
	// nil before the worker has joined.
	TableMigration *TableMigrationStatus `json:"table_migration,omitempty"`
	// BufferedBytes is the record data that is fetched and not yet processed.
	BufferedBytes int64 `json:"buffered_bytes"`
	// Leases are those held, sorted by key.
	Leases []LeaseStatus `json:"leases"`
}

// TableMigrationStatus says where the single-table migration stands, as far as
// this worker knows. Statuses are spelled as in the tables:
// TABLE_MIGRATION_STATUS_INIT, _DEPLOYED, _PENDING and _COMPLETE. An application
// that never had the tables of KCL 3.0 to 3.4 is at COMPLETE, with nothing stored.
type TableMigrationStatus struct {
	// Status is this worker's own: it says which tables it uses.
	Status string `json:"status"`
	// Stored is the application's, as last read; empty if nothing is stored.
	Stored string `json:"stored,omitempty"`
	// Waiting says in words what the migration waits for, and Since since when. The
	// leader knows; the others wait for the leader.
	Waiting string    `json:"waiting,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	// Error is something that a human has to see to.
	Error string `json:"error,omitempty"`
}

func (l *leadership) migrationStatus() *TableMigrationStatus {
	r := l.machine.Report()
	st := &TableMigrationStatus{Status: string(r.Local), Stored: string(r.Stored), Waiting: r.Waits, Since: r.Since}
	if r.Err != nil {
		st.Error = r.Err.Error()
	}
	return st
}

// LeaseStatus says what happens to a held lease.
type LeaseStatus struct {
	Lease  string `json:"lease"`
	Stream string `json:"stream"`
	Shard  string `json:"shard"`
	Owner  string `json:"owner"`
	// State is the phase of the shard's consumer, in words.
	State string `json:"state"`
	// Waiting says in words what keeps records from being delivered, empty if
	// nothing does. Since is when that, or State, began.
	Waiting string    `json:"waiting,omitempty"`
	Since   time.Time `json:"since"`
	// Attempts counts what has failed in a row; Error is the last failure.
	Attempts int    `json:"attempts,omitempty"`
	Error    string `json:"error,omitempty"`
	// Processed is how far the processor came, Checkpoint what is stored of it.
	Processed  kcl.Position `json:"processed"`
	Checkpoint kcl.Position `json:"checkpoint"`
	// Behind is how far the last batch lay behind the shard's tip
	// (MillisBehindLatest); nil before the first.
	Behind *Lag `json:"behind_ms,omitempty"`
	// HandOffTo is the worker that a pending hand-off is for.
	HandOffTo string `json:"hand_off_to,omitempty"`
}

// Lag is a duration that encodes to JSON as whole milliseconds.
type Lag time.Duration

// MarshalJSON implements [json.Marshaler].
func (l Lag) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(l).Milliseconds()) }

// Status returns what the worker does at present. It makes no call.
func (s *Scheduler) Status() Status {
	s.mu.Lock()
	st := Status{Worker: s.cfg.WorkerIdentifier, Application: s.cfg.Application, State: s.state, Leases: []LeaseStatus{}}
	w := s.worker
	s.mu.Unlock()
	if w == nil {
		return st
	}
	st.BufferedBytes = w.budget.Used()
	if _, st.Leading = w.leads.Leading(); st.Leading {
		st.Leader = st.Worker
	} else if seen, ok := w.leads.Seen(); ok {
		st.Leader = seen.Leader
	}
	st.TableMigration = w.leads.migrationStatus()
	w.mu.Lock()
	st.Draining = w.draining
	w.mu.Unlock()
	for _, t := range w.list() {
		st.Leases = append(st.Leases, w.leaseStatus(t))
	}
	slices.SortFunc(st.Leases, func(a, b LeaseStatus) int { return strings.Compare(a.Lease, b.Lease) })
	return st
}

func (w *worker) leaseStatus(t *tenure) LeaseStatus {
	c := t.consumer.Status()
	ls := LeaseStatus{
		Lease: t.lease.Key, Stream: c.Shard.Stream.String(), Shard: c.Shard.ShardID, Owner: w.cfg.WorkerIdentifier,
		State: string(c.State), Waiting: c.Waiting, Since: c.Since, Attempts: c.Attempts,
		Processed: c.Accepted, Checkpoint: t.lease.Checkpoint,
	}
	if c.Err != nil {
		ls.Error = c.Err.Error()
	}
	if c.BehindKnown {
		lag := Lag(c.Behind)
		ls.Behind = &lag
	}
	w.mu.Lock()
	ended := t.ended
	w.mu.Unlock()
	if ended {
		ls.State, ls.Waiting = "ended", "kept until its children are being processed, then deleted"
	}
	if l, ok := w.renewer.Get(t.lease.Key); ok && l.Token == t.lease.Token {
		ls.Checkpoint = l.Checkpoint
		if l.HandOffPending() {
			ls.HandOffTo = l.Owner
		}
	}
	return ls
}

// LeaseInfo is a lease as the lease table has it.
type LeaseInfo struct {
	Lease  string `json:"lease"`
	Stream string `json:"stream,omitempty"`
	Shard  string `json:"shard"`
	// Owner owns the lease, or is to own it when CheckpointOwner, who then still
	// processes the shard, has handed it over. Empty: nobody.
	Owner           string        `json:"owner,omitempty"`
	CheckpointOwner string        `json:"checkpoint_owner,omitempty"`
	Counter         int64         `json:"counter"`
	Checkpoint      kcl.Position  `json:"checkpoint"`
	Pending         kcl.Position  `json:"pending_checkpoint,omitzero"`
	Parents         []string      `json:"parents,omitempty"`
	Children        []string      `json:"children,omitempty"`
	HashRange       kcl.HashRange `json:"hash_range,omitzero"`
	// ThroughputKBps is what the owner reads of the shard, KiB a second; nil if
	// not known.
	ThroughputKBps *float64 `json:"throughput_kbps,omitempty"`
}

// Leases lists all leases of the application, whoever owns them, sorted by key.
// It scans the lease table, whose cost grows with its size, and may be called
// before Run. Items that cannot be read are left out, with a line in the log.
func (s *Scheduler) Leases(ctx context.Context) ([]LeaseInfo, error) {
	_, d := s.clients()
	store := lease.NewStore(lease.StoreConfig{
		Client: d, Table: s.cfg.Table.Name, RequestTimeout: s.cfg.Leases.RequestTimeout,
		Segments: s.cfg.Leases.ScanSegments, Logger: s.log,
	})
	snap, err := store.Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("scheduler: list leases: %w", err)
	}
	out := make([]LeaseInfo, 0, len(snap.Leases))
	for _, l := range snap.Leases {
		i := LeaseInfo{
			Lease: l.Key, Stream: l.Stream, Shard: l.ShardID, Owner: l.Owner, CheckpointOwner: l.CheckpointOwner,
			Counter: l.Counter, Checkpoint: l.Checkpoint, Pending: l.Pending, Parents: l.Parents, Children: l.Children,
			HashRange: l.HashRange,
		}
		if l.HasThroughput {
			kbps := l.ThroughputKBps
			i.ThroughputKBps = &kbps
		}
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b LeaseInfo) int { return strings.Compare(a.Lease, b.Lease) })
	return out, nil
}
