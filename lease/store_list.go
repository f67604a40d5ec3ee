package lease

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/go-kcl/kcl/internal/ddb"
	"github.com/go-kcl/kcl/internal/entity"
	"github.com/go-kcl/kcl/metrics"
)

// ErrIndexNotReady: the index of owners does not exist, is being built, or was
// built so recently that DynamoDB does not serve it yet. It passes, unless
// nobody has asked for the index.
var ErrIndexNotReady = errors.New("index of lease owners is not ready")

// maxBadKeys bounds the keys of unreadable items that are remembered as logged.
// When there are more, the others are logged at level Debug only.
const maxBadKeys = 1000

// maxSegmentReaders bounds the connections of a scan; KCL derives at most 32
// segments, but any number can be configured.
const maxSegmentReaders = 64

// Snapshot is what a scan of the whole table found.
type Snapshot struct {
	Leases []Lease
	// BadLeases are the keys of leases that could not be read.
	BadLeases []string
	// Others are the items of the other known kinds, by kind. Items of unknown
	// kinds are passed over.
	Others map[entity.Type][]map[string]types.AttributeValue
	// ReadUnits is the read capacity that the scan consumed.
	ReadUnits float64
}

// List returns every lease of the table, by a scan that is not consistent and
// reads page after page. Items that are no leases or cannot be read are
// skipped, the latter with one log line each.
func (s *Store) List(ctx context.Context) ([]Lease, error) {
	return s.list(ctx, &dynamodb.ScanInput{}, 0)
}

// ListStream is [Store.List] for one stream of a multi-stream application,
// given by its serialized identifier.
func (s *Store) ListStream(ctx context.Context, stream string) ([]Lease, error) {
	return s.list(ctx, &dynamodb.ScanInput{
		FilterExpression:          aws.String("#streamName = :streamName"),
		ExpressionAttributeNames:  map[string]string{"#streamName": attrStream},
		ExpressionAttributeValues: item{":streamName": &str{Value: stream}},
	}, 0)
}

// Empty reports whether the table holds no lease that can be read; other kinds
// of item do not count. It reads until it finds one.
func (s *Store) Empty(ctx context.Context, consistent bool) (bool, error) {
	in := &dynamodb.ScanInput{}
	if consistent {
		in.ConsistentRead = aws.Bool(true)
	}
	leases, err := s.list(ctx, in, 1)
	return err == nil && len(leases) == 0, err
}

// list scans until limit leases are found; 0 means all. The limit is not
// DynamoDB's, which counts items of every kind: a page full of others would
// look like a table without leases.
func (s *Store) list(ctx context.Context, in *dynamodb.ScanInput, limit int) ([]Lease, error) {
	var snap Snapshot
	in.TableName = &s.table
	for {
		out, err := call(ctx, s, "list leases", "", func(ctx context.Context) (*dynamodb.ScanOutput, error) {
			return s.client.Scan(ctx, in)
		})
		if err != nil {
			return nil, err
		}
		snap.add(out.Items, s.multiStream, func(key string, err error) { s.reportBad(ctx, key, err) })
		if limit > 0 && len(snap.Leases) >= limit {
			snap.Leases = snap.Leases[:limit]
			break
		}
		if len(out.LastEvaluatedKey) == 0 {
			break
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
	s.countBad("ListLeases", len(snap.BadLeases))
	return snap.Leases, nil
}

// Scan reads the whole table, all kinds of items, in segments that are read
// concurrently, at most 64 at a time. The first error ends the others and fails
// the scan.
func (s *Store) Scan(ctx context.Context) (Snapshot, error) {
	parts := make([]Snapshot, s.segments.Count(ctx))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxSegmentReaders)
	for i := range parts {
		g.Go(func() error { return s.scanSegment(ctx, &parts[i], i, len(parts)) }) // ends with its segment or ctx
	}
	if err := g.Wait(); err != nil {
		return Snapshot{}, err
	}
	all := parts[0]
	for _, p := range parts[1:] {
		all.merge(p)
	}
	s.countBad("ScanLeases", len(all.BadLeases))
	return all, nil
}

func (s *Store) scanSegment(ctx context.Context, snap *Snapshot, segment, total int) error {
	in := &dynamodb.ScanInput{
		TableName:              &s.table,
		Segment:                aws.Int32(int32(segment)),
		TotalSegments:          aws.Int32(int32(total)),
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	}
	for {
		out, err := call(ctx, s, "scan leases", "", func(ctx context.Context) (*dynamodb.ScanOutput, error) {
			return s.client.Scan(ctx, in)
		})
		if err != nil {
			return err
		}
		snap.add(out.Items, s.multiStream, func(key string, err error) { s.reportBad(ctx, key, err) })
		if c := out.ConsumedCapacity; c != nil {
			snap.ReadUnits += aws.ToFloat64(c.CapacityUnits)
		}
		if len(out.LastEvaluatedKey) == 0 {
			return nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

func (n *Snapshot) add(items []map[string]types.AttributeValue, multiStream bool, bad func(key string, err error)) {
	for _, it := range items {
		switch kind := entity.Of(it); kind {
		case entity.Lease:
			l, err := decode(it, multiStream)
			if err != nil {
				key := keyOf(it)
				n.BadLeases = append(n.BadLeases, key)
				bad(key, err)
				continue
			}
			n.Leases = append(n.Leases, l)
		case entity.Stream, entity.Leader, entity.ClientVersionMigration, entity.TableMigration, entity.WorkerMetricStats:
			if n.Others == nil {
				n.Others = map[entity.Type][]map[string]types.AttributeValue{}
			}
			n.Others[kind] = append(n.Others[kind], it)
		}
	}
}

func (n *Snapshot) merge(o Snapshot) {
	n.Leases = append(n.Leases, o.Leases...)
	n.BadLeases = append(n.BadLeases, o.BadLeases...)
	n.ReadUnits += o.ReadUnits
	for kind, items := range o.Others {
		if n.Others == nil {
			n.Others = map[entity.Type][]map[string]types.AttributeValue{}
		}
		n.Others[kind] = append(n.Others[kind], items...)
	}
}

func keyOf(it item) string {
	if v, ok := it[attrKey].(*str); ok {
		return v.Value
	}
	return ""
}

// reportBad warns of an unreadable item, once in the life of the process: the
// leader scans every few seconds.
func (s *Store) reportBad(ctx context.Context, key string, err error) {
	s.mu.Lock()
	_, known := s.bad[key]
	if !known && len(s.bad) < maxBadKeys {
		s.bad[key] = struct{}{}
	} else {
		known = true
	}
	s.mu.Unlock()
	if known {
		s.log.DebugContext(ctx, "lease item cannot be read, skipped", "lease", key, "err", err)
		return
	}
	s.log.WarnContext(ctx, "lease item cannot be read, skipped", "lease", key, "err", err)
}

func (s *Store) countBad(operation string, n int) {
	if n > 0 {
		metrics.Scope{Recorder: s.metrics, Operation: operation}.Count("LeaseDeserializationFailureCount", float64(n), metrics.Summary)
	}
}

// KeysOwnedBy returns the keys of the leases whose owner, or next owner, the
// index says worker is; the index lags behind the table. The error wraps
// [ErrIndexNotReady] as long as the index cannot be read.
func (s *Store) KeysOwnedBy(ctx context.Context, worker string) ([]string, error) {
	in := &dynamodb.QueryInput{
		TableName:                 &s.table,
		IndexName:                 aws.String(ddb.OwnerIndex),
		KeyConditionExpression:    aws.String("#leaseOwner = :leaseOwner"),
		ExpressionAttributeNames:  map[string]string{"#leaseOwner": attrOwner},
		ExpressionAttributeValues: item{":leaseOwner": &str{Value: worker}},
	}
	var keys []string
	for {
		out, err := call(ctx, s, "query leases of "+worker, "", func(ctx context.Context) (*dynamodb.QueryOutput, error) {
			return s.client.Query(ctx, in)
		})
		if ddb.IndexNotReady(err) {
			return nil, fmt.Errorf("%w: %w", ErrIndexNotReady, err)
		}
		if err != nil {
			return nil, err
		}
		for _, it := range out.Items {
			if key := keyOf(it); key != "" {
				keys = append(keys, key)
			}
		}
		if len(out.LastEvaluatedKey) == 0 {
			return keys, nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}
