package kinesis

import (
	"fmt"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

// maxDataBytes bounds a record's data, whatever its stream allows.
const maxDataBytes = 10 * mib

// entry is one record to be put, on its own or of a batch.
type entry struct {
	Data            []byte
	PartitionKey    *string
	ExplicitHashKey *string
}

func (e *entry) check(v *violations, prefix string) {
	if v.require(prefix+"partitionKey", e.PartitionKey != nil) {
		v.text(prefix+"partitionKey", e.PartitionKey, keyText)
	}
	v.text(prefix+"explicitHashKey", e.ExplicitHashKey, hashKeyText)
	v.blob(prefix+"data", e.Data, maxDataBytes)
}

func (e *entry) size() int { return len(e.Data) + len(*e.PartitionKey) }

// place says where the record belongs in the key space, if the stream takes it.
func (e *entry) place(st *stream) (hashKey, *wire.Error) {
	if e.size() > st.maxRecord { // code and text assumed
		return hashKey{}, invalidArgument("Record size exceeds %d bytes in stream %s under account %s.", st.maxRecord, st.key.name, st.key.account)
	}
	if e.ExplicitHashKey == nil {
		return hashOf(*e.PartitionKey), nil
	}
	k, ok := parseHashKey(*e.ExplicitHashKey)
	if !ok {
		return k, invalidArgument("Invalid ExplicitHashKey. ExplicitHashKey must be in the range: [0, 2^128-1]. Specified value was %s", *e.ExplicitHashKey)
	}
	return k, nil
}

// writable finds a stream that takes records; one that is still being created is
// not there yet.
func (t *turn) writable(r *streamRef) (*stream, *wire.Error) {
	st, err := t.find(r)
	if err != nil {
		return nil, err
	}
	if t.seen(st) == creating {
		return nil, streamNotFound(st.key)
	}
	return st, nil
}

// store appends a record, if the shard's limits allow it. sum is what the call
// has put into the shard so far.
func (t *turn) store(st *stream, s *shard, e *entry, sum *int) (number string, ok bool) {
	if !t.cfg.NoLimits && !s.traffic().put(t.now, sum, e.size()) {
		return "", false
	}
	s.log.trim(st.horizon(t.now))
	st.lastIndex++
	r := record{index: st.lastIndex, arrived: t.now.ms(), key: *e.PartitionKey, data: e.Data}
	s.log.append(r)
	return s.numberOf(&r, t.numberLag()).String(), true
}

// numberLag is in seconds.
func (s *Service) numberLag() int64 { return instant(s.cfg.NumberLag).sec() }

type putRecordInput struct {
	streamRef
	entry
	SequenceNumberForOrdering *string
	DryRun                    bool
}

func (in *putRecordInput) check(v *violations) {
	v.text("sequenceNumberForOrdering", in.SequenceNumberForOrdering, sequenceText)
	in.entry.check(v, "")
	in.streamRef.check(v)
}

type putRecordOutput struct{ ShardId, SequenceNumber string }

func putRecord(t *turn, in *putRecordInput) (any, *wire.Error) {
	st, err := t.writable(&in.streamRef)
	if err != nil {
		return nil, err
	}
	k, err := in.place(st)
	if err != nil {
		return nil, err
	}
	// The next number exceeds any that was given out before, so there is nothing
	// to do for the ordering but to refuse what cannot be.
	if in.SequenceNumberForOrdering != nil {
		q, ok := parseSequence(*in.SequenceNumberForOrdering)
		if !ok || q.second > t.now.sec() {
			return nil, invalidArgument("ExclusiveMinimumSequenceNumber %s used in PutRecord on stream %s under account %s is invalid.",
				*in.SequenceNumberForOrdering, st.key.name, st.key.account)
		}
	}
	if in.DryRun {
		return nil, t.dryRun(st)
	}
	s := st.writer(k, t.now)
	number, ok := t.store(st, s, &in.entry, new(int))
	if !ok {
		return nil, shardRateExceeded(st.key, s.number)
	}
	return putRecordOutput{ShardId: shardID(s.number), SequenceNumber: number}, nil
}

type putRecordsInput struct {
	streamRef
	Records []entry
	DryRun  bool
}

// Bounds of one PutRecords.
const (
	maxPutRecords      = 500
	maxPutRecordsBytes = 10 * mib // of data and keys
)

func (in *putRecordsInput) check(v *violations) {
	if v.require("records", in.Records != nil) {
		shown := "'[...]'"
		if len(in.Records) == 0 {
			shown = "'[]'"
		}
		v.length("records", shown, len(in.Records), 1, maxPutRecords)
		for i := range in.Records {
			in.Records[i].check(v, fmt.Sprintf("records.%d.member.", i+1))
		}
	}
	in.streamRef.check(v)
}

type putRecordsOutput struct {
	FailedRecordCount int
	Records           []putResult
}

type putResult struct {
	ShardId        string `json:",omitempty"`
	SequenceNumber string `json:",omitempty"`
	ErrorCode      string `json:",omitempty"`
	ErrorMessage   string `json:",omitempty"`
}

// putRecords stores each record that its shard has room for, whatever becomes of
// those before it.
func putRecords(t *turn, in *putRecordsInput) (any, *wire.Error) {
	st, err := t.writable(&in.streamRef)
	if err != nil {
		return nil, err
	}
	keys := make([]hashKey, len(in.Records))
	total := 0
	for i := range in.Records {
		if keys[i], err = in.Records[i].place(st); err != nil {
			return nil, err // of the whole call
		}
		total += in.Records[i].size()
	}
	if total > maxPutRecordsBytes { // text assumed
		return nil, invalidArgument("Records size exceeds 10 MB limit")
	}
	if in.DryRun {
		return nil, t.dryRun(st)
	}
	out := putRecordsOutput{Records: make([]putResult, len(in.Records))}
	sums := make(map[*shard]*int)
	for i, k := range keys {
		s := st.writer(k, t.now)
		if sums[s] == nil {
			sums[s] = new(int)
		}
		number, ok := t.store(st, s, &in.Records[i], sums[s])
		if !ok {
			e := shardRateExceeded(st.key, s.number)
			out.Records[i] = putResult{ErrorCode: e.Type, ErrorMessage: e.Message}
			out.FailedRecordCount++
			continue
		}
		out.Records[i] = putResult{ShardId: shardID(s.number), SequenceNumber: number}
	}
	return out, nil
}
