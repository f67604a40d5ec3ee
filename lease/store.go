package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/ddb"
	"github.com/go-kcl/kcl/internal/entity"
	"github.com/go-kcl/kcl/metrics"
)

const defaultRequestTimeout = 60 * time.Second

// StoreConfig says which table a [Store] works on and how.
type StoreConfig struct {
	Client *dynamodb.Client
	// Table is the lease table's name.
	Table string
	// MultiStream: items carry the identity of their stream.
	MultiStream bool
	// ConsistentReads makes [Store.Get] read consistently. KCL: consistentReads.
	ConsistentReads bool
	// RequestTimeout bounds each call, the SDK's retries included. 0 means
	// 60 s. KCL: dynamoDbRequestTimeout.
	RequestTimeout time.Duration
	// Segments is the number of segments of a [Store.Scan]; 0 derives it from
	// the table's size. KCL: leaseTableScanTotalSegments.
	Segments int
	Logger   *slog.Logger     // nil discards
	Metrics  metrics.Recorder // nil discards
}

// Store reads and writes the items of leases. Every write but [Store.Delete] is
// conditional; that the condition failed is reported by false, not by an error.
// Errors wrap [kcl.ErrThrottled], [kcl.ErrInvalidState] or [kcl.ErrDependency].
// Nothing is retried but by the SDK. A Store is safe for concurrent use.
type Store struct {
	client      *dynamodb.Client
	table       string
	multiStream bool
	consistent  bool
	timeout     time.Duration
	segments    *ddb.Segments
	log         *slog.Logger
	metrics     metrics.Recorder

	mu  sync.Mutex          // guards bad
	bad map[string]struct{} // keys of unreadable items that were logged
}

// NewStore does no I/O.
func NewStore(cfg StoreConfig) *Store {
	s := &Store{
		client:      cfg.Client,
		table:       cfg.Table,
		multiStream: cfg.MultiStream,
		consistent:  cfg.ConsistentReads,
		timeout:     cfg.RequestTimeout,
		segments:    ddb.NewSegments(cfg.Client, cfg.Table, cfg.Segments),
		log:         cfg.Logger,
		metrics:     cfg.Metrics,
		bad:         map[string]struct{}{},
	}
	if s.timeout <= 0 {
		s.timeout = defaultRequestTimeout
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.metrics == nil {
		s.metrics = metrics.Discard
	}
	return s
}

// Table returns the lease table's name.
func (s *Store) Table() string { return s.table }

// call runs one request within the request timeout. A failed condition comes
// back as the SDK's error, for the caller to read; any other error is classed
// and says what was done.
func call[T any](ctx context.Context, s *Store, act, key string, f func(context.Context) (T, error)) (T, error) {
	return ddb.Call(ctx, s.timeout, s.what(act, key), f)
}

func (s *Store) what(act, key string) string {
	if key == "" {
		return act + " in table " + s.table
	}
	return act + " " + key + " in table " + s.table
}

func keyItem(key string) item { return item{attrKey: &str{Value: key}} }

// Create stores a new lease unless there is an item with its key, and reports
// whether it did.
func (s *Store) Create(ctx context.Context, l Lease) (created bool, err error) {
	_, err = call(ctx, s, "create lease", l.Key, func(ctx context.Context) (*dynamodb.PutItemOutput, error) {
		return s.client.PutItem(ctx, &dynamodb.PutItemInput{
			TableName:                &s.table,
			Item:                     encode(l),
			ConditionExpression:      aws.String("attribute_not_exists(#leaseKey)"),
			ExpressionAttributeNames: map[string]string{"#leaseKey": attrKey},
		})
	})
	if _, failed := ddb.ConditionFailed(err); failed {
		return false, nil
	}
	return err == nil, err
}

// Get reads a lease; false if there is none. The read is consistent only if the
// configuration says so. An unreadable item is an error.
func (s *Store) Get(ctx context.Context, key string) (Lease, bool, error) {
	return s.get(ctx, key, s.consistent)
}

// GetConsistent is [Store.Get] that sees every write acknowledged before it.
func (s *Store) GetConsistent(ctx context.Context, key string) (Lease, bool, error) {
	return s.get(ctx, key, true)
}

func (s *Store) get(ctx context.Context, key string, consistent bool) (Lease, bool, error) {
	out, err := call(ctx, s, "get lease", key, func(ctx context.Context) (*dynamodb.GetItemOutput, error) {
		in := &dynamodb.GetItemInput{TableName: &s.table, Key: keyItem(key)}
		if consistent {
			in.ConsistentRead = aws.Bool(true)
		}
		return s.client.GetItem(ctx, in)
	})
	if err != nil || out.Item == nil || entity.Of(out.Item) != entity.Lease {
		return Lease{}, false, err
	}
	l, err := decode(out.Item, s.multiStream)
	if err != nil {
		return Lease{}, false, fmt.Errorf("get from table %s: %w", s.table, err)
	}
	return l, true, nil
}

// SetChildren stores the child shards of an ended shard and touches nothing
// else. A lease that is gone is left so, with a warning. No children: nothing
// is done.
func (s *Store) SetChildren(ctx context.Context, key string, children []string) error {
	if len(children) == 0 {
		return nil
	}
	w := newWrite()
	w.set(attrChildren, &stringSet{Value: sorted(children)})
	return s.setMetadata(ctx, "set children of lease", key, w)
}

// SetHashRange stores the hash range of a lease that lacks it and touches
// nothing else. A lease that is gone is left so, with a warning. A range of a
// single hash key is not stored: a Java worker could not read the item.
func (s *Store) SetHashRange(ctx context.Context, key string, r kcl.HashRange) error {
	attrs := item{}
	putHashRange(attrs, r)
	if len(attrs) == 0 {
		return nil
	}
	w := newWrite()
	w.setAll(attrs)
	return s.setMetadata(ctx, "set hash range of lease", key, w)
}

func (s *Store) setMetadata(ctx context.Context, act, key string, w *write) error {
	w.ifEqual(attrKey, &str{Value: key})
	_, _, done, err := s.update(ctx, act, key, w, "")
	if err == nil && !done {
		s.log.WarnContext(ctx, "lease is gone, not updated", "lease", key)
	}
	return err
}

// Delete deletes a lease, whatever its state. That there is none is no error.
func (s *Store) Delete(ctx context.Context, key string) error {
	_, err := call(ctx, s, "delete lease", key, func(ctx context.Context) (*dynamodb.DeleteItemOutput, error) {
		return s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &s.table, Key: keyItem(key)})
	})
	return err
}

// DeleteCondition says what must still be as it was read for a lease to be
// deleted.
type DeleteCondition uint8

// The conditions, to be joined by |.
const (
	IfCounter    DeleteCondition = 1 << iota // nobody has written as its owner
	IfCheckpoint                             // nobody has checkpointed elsewhere
)

// DeleteIf deletes a lease if what cond names is still as in l, and reports
// whether the lease is gone: also if it was gone already.
func (s *Store) DeleteIf(ctx context.Context, l Lease, cond DeleteCondition) (bool, error) {
	if cond == 0 {
		return false, errors.New("lease: DeleteIf without a condition")
	}
	w := newWrite()
	if cond&IfCounter != 0 {
		w.ifEqual(attrCounter, integerValue(l.Counter))
	}
	if cond&IfCheckpoint != 0 {
		w.ifPosition(attrCheckpoint, attrCheckpointSub, l.Checkpoint)
	}
	_, err := call(ctx, s, "delete lease", l.Key, func(ctx context.Context) (*dynamodb.DeleteItemOutput, error) {
		return s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName:                           &s.table,
			Key:                                 keyItem(l.Key),
			ConditionExpression:                 w.condition(),
			ExpressionAttributeNames:            w.names,
			ExpressionAttributeValues:           w.attributeValues(),
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		})
	})
	if old, failed := ddb.ConditionFailed(err); failed {
		_, found, err := s.after(ctx, l.Key, old)
		return err == nil && !found, err
	}
	return err == nil, err
}
