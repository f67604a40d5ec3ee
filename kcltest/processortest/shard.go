package processortest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-kcl/kcl"
)

// DefaultShardID is the id of a new Shard.
const DefaultShardID = "shardId-000000000000"

// Shard is a shard and its lease.
type Shard struct {
	mu       sync.Mutex // guards what follows
	info     kcl.ShardInfo
	records  []kcl.Record
	closed   bool
	children []string

	checkpoint kcl.Position
	pending    *kcl.PendingCheckpoint
	stored     []kcl.Position
	refuse     error
	tenures    int // the last one holds the lease
}

// NewShard returns an open, empty shard, never checkpointed.
func NewShard() *Shard {
	return &Shard{
		info: kcl.ShardInfo{
			Stream: kcl.StreamIdentifier{Name: "stream"}, ShardID: DefaultShardID, LeaseKey: DefaultShardID,
			HashRange: kcl.HashRange{End: kcl.MaxHashKey},
		},
		checkpoint: kcl.AtTrimHorizon,
	}
}

// SetInfo changes what processors are told of the shard from the next Acquire
// on. The lease's token is set by Acquire.
func (s *Shard) SetInfo(info kcl.ShardInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info = info
}

// SetCheckpoint makes p the stored checkpoint, as if an earlier owner had left
// it, with what that one had prepared, if anything.
func (s *Shard) SetCheckpoint(p kcl.Position, pending *kcl.PendingCheckpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checkpoint, s.pending = p, pending
}

// Put appends a record for each data and returns their positions.
func (s *Shard) Put(data ...string) []kcl.Position {
	var records []kcl.Record
	for _, d := range data {
		records = append(records, kcl.Record{PartitionKey: "key", Data: []byte(d)})
	}
	positions, err := s.PutRecords(records...)
	if err != nil {
		panic(err) // positions that PutRecords makes up are in order
	}
	return positions
}

// PutRecords appends records and returns their positions. A record without a
// position is given the next one, one without a time of arrival the present.
// Positions must rise; the error names the first that does not, and nothing is
// appended then.
func (s *Shard) PutRecords(records ...kcl.Record) ([]kcl.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.records)
	var positions []kcl.Position
	for _, r := range records {
		if r.Position.IsZero() {
			r.Position = next(all)
		}
		if err := r.Position.Validate(); err != nil || r.Position.IsSentinel() {
			return nil, fmt.Errorf("processortest: %q is no record's position", r.Position)
		}
		if n := len(all); n > 0 && r.Position.Compare(all[n-1].Position) <= 0 {
			return nil, fmt.Errorf("processortest: position %s does not lie behind %s", r.Position, all[n-1].Position)
		}
		if r.ArrivedAt.IsZero() {
			r.ArrivedAt = time.Now()
		}
		all = append(all, r)
		positions = append(positions, r.Position)
	}
	s.records = all
	return positions, nil
}

// next returns a position behind all records, of the length that Kinesis gives.
func next(records []kcl.Record) kcl.Position {
	const first = "49590338271490256608559692538361571095921575989136588898"
	if len(records) == 0 {
		return kcl.Position{SequenceNumber: first}
	}
	last := []byte(records[len(records)-1].Position.SequenceNumber)
	for i := len(last) - 1; i >= 0; i-- {
		if last[i]++; last[i] <= '9' {
			return kcl.Position{SequenceNumber: string(last)}
		}
		last[i] = '0'
	}
	return kcl.Position{SequenceNumber: "1" + string(last)}
}

// Close closes the shard, as a split or a merge does: no record follows, and
// once all are delivered the shard has ended.
func (s *Shard) Close(children ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.children = true, slices.Clone(children)
}

// Checkpoint returns the stored checkpoint.
func (s *Shard) Checkpoint() kcl.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.checkpoint
}

// Checkpoints returns every checkpoint that was stored, in order.
func (s *Shard) Checkpoints() []kcl.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.stored)
}

// Pending returns the prepared checkpoint, or nil.
func (s *Shard) Pending() *kcl.PendingCheckpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending == nil {
		return nil
	}
	p := *s.pending
	return &p
}

// DataAt returns the data of the record at p, or "" if there is none.
func (s *Shard) DataAt(p kcl.Position) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.records {
		if r.Position == p {
			return string(r.Data)
		}
	}
	return ""
}

// RefuseCheckpoints makes every write of a checkpoint fail with err, until it is
// called with nil. Wrap kcl.ErrThrottled, kcl.ErrDependency or
// kcl.ErrInvalidState, as the library does.
func (s *Shard) RefuseCheckpoints(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = err
}

// Acquire gives the shard to p. An earlier tenure has lost the lease: what it
// checkpoints is refused with kcl.ErrLeaseLost, but its processor is told only
// by [Tenure.LoseLease], as if its worker had crashed.
func (s *Shard) Acquire(p kcl.RecordProcessor) *Tenure { return s.acquire(p, false) }

// AcquireHandler gives the shard to a function like scheduler.Config.Handler:
// what it returns nil for is checkpointed.
func (s *Shard) AcquireHandler(handle func(ctx context.Context, b *kcl.Batch) error) *Tenure {
	return s.acquire(handler{process: handle}, true)
}

type handler struct {
	kcl.NopProcessor
	process func(context.Context, *kcl.Batch) error
}

func (h handler) ProcessRecords(ctx context.Context, b *kcl.Batch) error { return h.process(ctx, b) }

func (s *Shard) acquire(p kcl.RecordProcessor, auto bool) *Tenure {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tenures++
	info := s.info
	info.LeaseToken = "tenure-" + strconv.Itoa(s.tenures)
	t := &Tenure{
		shard: s, id: s.tenures, info: info, processor: p, auto: auto, turn: make(chan struct{}, 1),
		last: s.checkpoint, accepted: s.checkpoint, permitted: s.checkpoint, read: s.checkpoint,
	}
	if n := len(s.records); n > 0 && s.checkpoint == kcl.AtLatest {
		t.read = s.records[n-1].Position
	}
	return t
}

// store writes p, or with prepare p and state as pending, for tenure t. It needs
// s.mu.
func (s *Shard) store(t *Tenure, p kcl.Position, prepare bool, state []byte) error {
	switch {
	case t.lost || t.id != s.tenures:
		return fmt.Errorf("lease %s: %w", s.info.LeaseKey, kcl.ErrLeaseLost)
	case s.refuse != nil:
		return s.refuse
	case prepare:
		s.pending = &kcl.PendingCheckpoint{Position: p, State: slices.Clone(state)}
	default:
		if p != s.checkpoint {
			s.stored = append(s.stored, p)
		}
		s.checkpoint, s.pending = p, nil
	}
	return nil
}
