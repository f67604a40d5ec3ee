package lease

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/entity"
)

// The attributes of a lease item.
const (
	attrKey             = entity.LeaseTableKey
	attrOwner           = "leaseOwner"
	attrCounter         = "leaseCounter"
	attrOwnerSwitches   = "ownerSwitchesSinceCheckpoint"
	attrCheckpoint      = "checkpoint"
	attrCheckpointSub   = "checkpointSubSequenceNumber"
	attrPending         = "pendingCheckpoint"
	attrPendingSub      = "pendingCheckpointSubSequenceNumber"
	attrPendingState    = "pendingCheckpointState"
	attrParents         = "parentShardId" // singular, though a set
	attrChildren        = "childShardIds"
	attrHashStart       = "startingHashKey"
	attrHashEnd         = "endingHashKey"
	attrThroughput      = "throughputKBps"
	attrCheckpointOwner = "checkpointOwner"
	attrStream          = "streamName" // the whole serialized identifier
	attrShardID         = "shardId"
)

type (
	item = map[string]types.AttributeValue
	// The attribute values in use.
	str       = types.AttributeValueMemberS
	number    = types.AttributeValueMemberN
	binary    = types.AttributeValueMemberB
	stringSet = types.AttributeValueMemberSS
)

var (
	errMissing   = errors.New("is missing")
	errWrongType = errors.New("has the wrong type")
)

// attrError says which attribute makes an item unreadable.
func attrError(key, attr string, err error) error {
	return fmt.Errorf("lease %q: attribute %s: %w", key, attr, err)
}

// decode reads a lease item. The caller has made sure that it is one (see
// [entity.Of]). Attributes that it does not know are passed over. What decides
// nothing (pending state, throughput) is taken as absent when it is malformed;
// anything else that is malformed fails the item, for a lease whose owner or
// checkpoint were misread would be stolen or read from the wrong place.
func decode(it item, multiStream bool) (Lease, error) {
	d := decoder{item: it}
	l := Lease{Key: d.required(attrKey)}
	d.key = l.Key
	l.Counter = d.integer(attrCounter, true)
	l.OwnerSwitches = d.integer(attrOwnerSwitches, true)
	l.Owner = d.text(attrOwner)
	l.CheckpointOwner = d.text(attrCheckpointOwner)
	l.Checkpoint = d.position(attrCheckpoint, attrCheckpointSub)
	l.Pending = d.position(attrPending, attrPendingSub)
	// A KCL that creates a lease with a pending state stores a number here.
	if b, ok := it[attrPendingState].(*binary); ok {
		l.PendingState = slices.Clone(b.Value)
	}
	l.Parents = d.set(attrParents)
	l.Children = d.set(attrChildren)
	l.HashRange = d.hashRange()
	if n, ok := it[attrThroughput].(*number); ok {
		f, err := strconv.ParseFloat(n.Value, 64)
		if err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			l.ThroughputKBps, l.HasThroughput = f, true
		}
	}
	if multiStream {
		l.Stream = d.required(attrStream)
		l.ShardID = d.required(attrShardID)
		if d.err == nil {
			if _, err := kcl.ParseStreamIdentifier(l.Stream); err != nil {
				d.fail(attrStream, err)
			}
		}
	} else {
		l.ShardID = l.Key
	}
	if d.err != nil {
		return Lease{}, d.err
	}
	return l, nil
}

// decoder keeps the first error.
type decoder struct {
	item item
	key  string
	err  error
}

func (d *decoder) fail(attr string, err error) {
	if d.err == nil {
		d.err = attrError(d.key, attr, err)
	}
}

func (d *decoder) text(attr string) string {
	switch v := d.item[attr].(type) {
	case nil:
		return ""
	case *str:
		return v.Value
	default:
		d.fail(attr, errWrongType)
		return ""
	}
}

func (d *decoder) required(attr string) string {
	s := d.text(attr)
	if s == "" {
		d.fail(attr, errMissing)
	}
	return s
}

func (d *decoder) integer(attr string, required bool) int64 {
	switch v := d.item[attr].(type) {
	case nil:
		if required {
			d.fail(attr, errMissing)
		}
		return 0
	case *number:
		n, err := strconv.ParseInt(v.Value, 10, 64)
		if err != nil {
			d.fail(attr, err)
			return 0
		}
		return n
	default:
		d.fail(attr, errWrongType)
		return 0
	}
}

func (d *decoder) position(attr, subAttr string) kcl.Position {
	p := kcl.Position{SequenceNumber: d.text(attr)}
	if p.SequenceNumber == "" {
		return kcl.Position{}
	}
	p.SubSequenceNumber = d.integer(subAttr, false)
	if err := p.Validate(); err != nil {
		d.fail(attr, err)
		return kcl.Position{}
	}
	return p
}

func (d *decoder) set(attr string) []string {
	switch v := d.item[attr].(type) {
	case nil:
		return nil
	case *stringSet:
		s := slices.Clone(v.Value)
		slices.Sort(s) // a set has no order; decisions want one
		return s
	default:
		d.fail(attr, errWrongType)
		return nil
	}
}

// hashRange takes a range with only one end as none, as KCL does. A shard of
// one hash key is accepted, which KCL refuses.
func (d *decoder) hashRange() kcl.HashRange {
	start, end := d.text(attrHashStart), d.text(attrHashEnd)
	if start == "" || end == "" {
		return kcl.HashRange{}
	}
	r, err := kcl.ParseHashRange(start, end)
	if err != nil {
		d.fail(attrHashStart, err)
	}
	return r
}

// encode returns the item of a new lease. What is empty in l is left out.
func encode(l Lease) item {
	it := make(item, 20)
	it[attrKey] = &str{Value: l.Key}
	it[entity.Attribute] = entity.Lease.Attr()
	it[attrCounter] = integerValue(l.Counter)
	putText(it, attrOwner, l.Owner)
	putText(it, attrCheckpointOwner, l.CheckpointOwner)
	putMutable(it, l)
	if l.PendingState != nil {
		it[attrPendingState] = &binary{Value: l.PendingState}
	}
	if len(l.Parents) > 0 {
		it[attrParents] = &stringSet{Value: sorted(l.Parents)}
	}
	return it
}

// putMutable puts what both a creation and a checkpoint write.
func putMutable(it item, l Lease) {
	it[attrOwnerSwitches] = integerValue(l.OwnerSwitches)
	if !l.Checkpoint.IsZero() {
		putPosition(it, attrCheckpoint, attrCheckpointSub, l.Checkpoint)
	}
	if !l.Pending.IsZero() {
		putPosition(it, attrPending, attrPendingSub, l.Pending)
	}
	if len(l.Children) > 0 {
		it[attrChildren] = &stringSet{Value: sorted(l.Children)}
	}
	putHashRange(it, l.HashRange)
	if v := throughputValue(l); v != nil {
		it[attrThroughput] = v
	}
	if l.Stream != "" {
		it[attrStream] = &str{Value: l.Stream}
		it[attrShardID] = &str{Value: l.ShardID}
	}
}

func putText(it item, attr, s string) {
	if s != "" {
		it[attr] = &str{Value: s}
	}
}

func putPosition(it item, attr, subAttr string, p kcl.Position) {
	it[attr] = &str{Value: p.SequenceNumber}
	it[subAttr] = integerValue(p.SubSequenceNumber)
}

// putHashRange leaves a range of one hash key out: a Java worker cannot read
// an item that has one.
func putHashRange(it item, r kcl.HashRange) {
	if r.Start.Compare(r.End) < 0 {
		it[attrHashStart] = &str{Value: r.Start.String()}
		it[attrHashEnd] = &str{Value: r.End.String()}
	}
}

func integerValue(n int64) *number { return &number{Value: strconv.FormatInt(n, 10)} }

// throughputValue rounds half up to 6 decimals, as KCL does, which keeps small
// values within DynamoDB's range of numbers. It returns nil when nothing
// sensible is known.
func throughputValue(l Lease) types.AttributeValue {
	const (
		exact = 1 << 53 / 1e6 // from here on a float64 has no 6 decimals to round
		limit = 1e126         // DynamoDB's
	)
	f := l.ThroughputKBps
	if !l.HasThroughput || math.IsNaN(f) || f < 0 || f >= limit {
		return nil
	}
	if f < exact {
		f = math.Floor(f*1e6+0.5) / 1e6
	}
	return &number{Value: strconv.FormatFloat(f, 'f', -1, 64)}
}

func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return slices.Compact(s) // DynamoDB refuses duplicates in a set
}
