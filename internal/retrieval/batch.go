package retrieval

import (
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/go-kcl/kcl"
)

// Batch is one response.
type Batch struct {
	Records []kcl.Record
	// Behind is MillisBehindLatest, if BehindKnown.
	Behind      time.Duration
	BehindKnown bool
	// End is set on a shard's last batch.
	End bool
	// Children are the shards that follow, at the end only. There are none if
	// the shard or its stream is gone.
	Children   []Child
	ReceivedAt time.Time
	// Bytes is the size of all Data.
	Bytes int

	footprint int64 // what it takes of the budget
	account   *account
}

// Child is a shard that another one was split or merged into.
type Child struct {
	ShardID string
	Parents []string
	// HashRange is zero if the service gave none that can be read.
	HashRange kcl.HashRange
}

// Release gives the batch's part of the budget back. It is to be called once
// the records have been processed; further calls do nothing.
func (b *Batch) Release() {
	if b.account != nil {
		b.account.release(b.footprint)
		b.account = nil
	}
}

// recordOverhead is about what a record takes besides its data: the two structs
// it passes through, its sequence number and partition key.
const recordOverhead = 384

// newBatch converts a response that [validate] has passed.
func newBatch(out *kinesis.GetRecordsOutput) *Batch {
	b := &Batch{End: out.NextShardIterator == nil, ReceivedAt: time.Now()}
	if out.MillisBehindLatest != nil {
		b.Behind, b.BehindKnown = time.Duration(*out.MillisBehindLatest)*time.Millisecond, true
	}
	if len(out.Records) > 0 {
		b.Records = make([]kcl.Record, len(out.Records))
	}
	for i := range out.Records {
		in := &out.Records[i]
		r := &b.Records[i]
		r.Position.SequenceNumber = *in.SequenceNumber
		r.Data = in.Data
		if in.PartitionKey != nil {
			r.PartitionKey = *in.PartitionKey
		}
		if in.ApproximateArrivalTimestamp != nil {
			r.ArrivedAt = *in.ApproximateArrivalTimestamp
		}
		if in.EncryptionType != types.EncryptionTypeNone {
			r.EncryptionType = string(in.EncryptionType)
		}
		b.Bytes += len(in.Data)
	}
	b.footprint = int64(b.Bytes + recordOverhead*len(b.Records))
	for _, c := range out.ChildShards {
		b.Children = append(b.Children, newChild(c))
	}
	return b
}

func newChild(in types.ChildShard) Child {
	c := Child{ShardID: aws.ToString(in.ShardId), Parents: in.ParentShards}
	if r := in.HashKeyRange; r != nil {
		// A range that cannot be read is left out: the auditor fills it in.
		c.HashRange, _ = kcl.ParseHashRange(aws.ToString(r.StartingHashKey), aws.ToString(r.EndingHashKey))
	}
	return c
}

// errInvalidResponse marks a response that must not be believed: it says that
// the shard has ended without naming children, or the reverse. Acting on one
// would strand a shard; asking again gives the right one.
var errInvalidResponse = errors.New("invalid response")

// validate holds a response against what the service promises.
func validate(out *kinesis.GetRecordsOutput) error {
	ended := out.NextShardIterator == nil
	switch {
	case ended && len(out.ChildShards) == 0:
		return fmt.Errorf("%w: the shard has ended, but no child shards are named", errInvalidResponse)
	case !ended && len(out.ChildShards) > 0:
		return fmt.Errorf("%w: child shards are named, but the shard has not ended", errInvalidResponse)
	}
	for _, c := range out.ChildShards {
		if len(c.ParentShards) == 0 || aws.ToString(c.ShardId) == "" {
			return fmt.Errorf("%w: child shard %q has no parents", errInvalidResponse, aws.ToString(c.ShardId))
		}
	}
	for i := range out.Records {
		if out.Records[i].SequenceNumber == nil {
			return fmt.Errorf("%w: a record has no sequence number", errInvalidResponse)
		}
	}
	return nil
}
