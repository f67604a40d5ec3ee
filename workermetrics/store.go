package workermetrics

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/ddb"
	"github.com/go-kcl/kcl/internal/entity"
)

const (
	// DefaultPeriod is how often a worker reports unless configured. KCL:
	// workerMetricsReporterFreqInMillis.
	DefaultPeriod = 30 * time.Second

	defaultRequestTimeout = 60 * time.Second
)

// StoreConfig says where records are.
type StoreConfig struct {
	Client *dynamodb.Client
	// Table is the lease table's name.
	Table string
	// LegacyTable is the name of the table that KCL 3.0 to 3.4 keep records in:
	// [LegacyTableName], unless the application gave it another. It is never
	// created. "" says that there is none, and nothing looks for it. KCL:
	// workerMetricsTableConfig.
	LegacyTable string
	// Status is asked for this worker's own status in the move of the legacy
	// table into the lease table, as it is now: a worker that is configured to
	// move is at [StatusPending] once [StatusDeployed] is stored. It must return at
	// once, and may be called from any goroutine. Needed if LegacyTable is given.
	Status func() Status
	// Period is how often workers report. 0 means [DefaultPeriod].
	Period time.Duration
	// RequestTimeout bounds each call, the SDK's retries included. 0 means
	// 60 s. KCL: dynamoDbRequestTimeout.
	RequestTimeout time.Duration
	Logger         *slog.Logger // nil discards
}

// Store reads, writes and deletes workers' records. They are in the lease table
// and, in a fleet that came from KCL 3.0 to 3.4, in the legacy table as well:
//
//	status at Init      this worker writes to
//	INIT, DEPLOYED      the legacy table; the lease table once the status is COMPLETE
//	PENDING, COMPLETE   the lease table
//	unknown             Init fails
//
//	status now          records are read from
//	COMPLETE            the lease table
//	any other           the lease table and the legacy table
//
// A record is deleted from the table that it was read from. While there is no
// legacy table, reads of it find nothing; writes to it and deletions fail. With a
// legacy table configured all methods fail before [Store.Init].
//
// Errors wrap kcl.ErrThrottled, kcl.ErrInvalidState (there is no table, or no
// Init) or kcl.ErrDependency, but for those of a record that must not be
// written. Nothing is retried but by the SDK. A Store is safe for concurrent use.
type Store struct {
	cfg   StoreConfig
	log   *slog.Logger
	route atomic.Pointer[route] // nil before Init has succeeded
}

// NewStore does no I/O.
func NewStore(cfg StoreConfig) *Store {
	if cfg.Period <= 0 {
		cfg.Period = DefaultPeriod
	}
	if cfg.RequestTimeout <= 0 {
		cfg.RequestTimeout = defaultRequestTimeout
	}
	s := &Store{cfg: cfg, log: cfg.Logger}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if cfg.LegacyTable == "" {
		s.route.Store(&route{})
	}
	return s
}

// Put writes r to this worker's table, whatever the record there says; what it does
// not set stays as it is. A record that others could not read, or that is two
// periods old, is an error; so is an item of another kind that has this key.
func (s *Store) Put(ctx context.Context, r Record) error {
	if err := r.check(time.Now(), s.cfg.Period); err != nil {
		return fmt.Errorf("record of worker %q: %w", r.Worker, err)
	}
	route, err := s.routed()
	if err != nil {
		return err
	}
	t, err := s.writable(route, s.ownLegacy(route))
	if err != nil {
		return fmt.Errorf("put record of worker %s: %w", r.Worker, err)
	}
	attrs := encode(r)
	names := make(map[string]string, len(attrs))
	values := make(item, len(attrs))
	var sets []string
	for _, attr := range slices.Sorted(maps.Keys(attrs)) {
		names["#"+attr] = attr
		values[":"+attr] = attrs[attr]
		sets = append(sets, "#"+attr+" = :"+attr)
	}
	in := &dynamodb.UpdateItemInput{
		TableName:                 &t.name,
		Key:                       t.keyOf(r.Worker),
		UpdateExpression:          aws.String("SET " + strings.Join(sets, ", ")),
		ExpressionAttributeNames:  names,
		ExpressionAttributeValues: values,
	}
	if t.key == attrKey { // the legacy table holds nothing else, and nothing says so
		in.ConditionExpression = aws.String("attribute_not_exists(#key) OR #" + entity.Attribute + " = :" + entity.Attribute)
		names["#key"] = t.key
	}
	_, err = call(ctx, s, t.what("put", r.Worker), func(ctx context.Context) (*dynamodb.UpdateItemOutput, error) {
		return s.cfg.Client.UpdateItem(ctx, in)
	})
	if _, failed := ddb.ConditionFailed(err); failed {
		return fmt.Errorf("%w: table %s has an item %s that is no worker's record: give the worker another identifier", kcl.ErrInvalidState, t.name, r.Worker)
	}
	return err
}

// Delete deletes the record from the table that it is in if it still says the
// time that r says, and reports whether it did: false means that the worker is
// back, or the record gone.
func (s *Store) Delete(ctx context.Context, r Record) (bool, error) {
	route, err := s.routed()
	if err != nil {
		return false, err
	}
	return s.delete(ctx, route, r)
}

// deleteOwn is [Store.Delete] of the record that [Store.Put] wrote.
func (s *Store) deleteOwn(ctx context.Context, r Record) (bool, error) {
	route, err := s.routed()
	if err != nil {
		return false, err
	}
	r.Legacy = s.ownLegacy(route)
	return s.delete(ctx, route, r)
}

func (s *Store) delete(ctx context.Context, route route, r Record) (bool, error) {
	t, err := s.writable(route, r.Legacy)
	if err != nil {
		return false, fmt.Errorf("delete record of worker %s: %w", r.Worker, err)
	}
	in := &dynamodb.DeleteItemInput{
		TableName: &t.name, Key: t.keyOf(r.Worker),
		ExpressionAttributeNames: map[string]string{"#key": t.key, "#lut": attrUpdated},
	}
	switch {
	case !r.Updated.IsZero():
		in.ConditionExpression = aws.String("attribute_exists(#key) AND #lut = :lut")
		in.ExpressionAttributeValues = item{":lut": timeValue(r.Updated)}
	case r.Legacy:
		in.ConditionExpression = aws.String("attribute_exists(#key) AND attribute_not_exists(#lut)")
	default:
		// Without a time only its kind tells the item from one that has the
		// same key.
		in.ConditionExpression = aws.String("attribute_exists(#key) AND attribute_not_exists(#lut) AND #kind = :kind")
		in.ExpressionAttributeNames["#kind"] = entity.Attribute
		in.ExpressionAttributeValues = item{":kind": entity.WorkerMetricStats.Attr()}
	}
	_, err = call(ctx, s, t.what("delete", r.Worker), func(ctx context.Context) (*dynamodb.DeleteItemOutput, error) {
		return s.cfg.Client.DeleteItem(ctx, in)
	})
	if _, failed := ddb.ConditionFailed(err); failed {
		return false, nil
	}
	return err == nil, err
}

// call runs one request within the request timeout.
func call[T any](ctx context.Context, s *Store, what string, f func(context.Context) (T, error)) (T, error) {
	return ddb.Call(ctx, s.cfg.RequestTimeout, what, f)
}

func (t table) keyOf(worker string) map[string]types.AttributeValue {
	return item{t.key: &str{Value: worker}}
}

func (t table) what(act, worker string) string {
	return act + " record of worker " + worker + " in table " + t.name
}
