package workermetrics

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

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
	// Period is how often workers report. 0 means [DefaultPeriod].
	Period time.Duration
	// RequestTimeout bounds each call, the SDK's retries included. 0 means
	// 60 s. KCL: dynamoDbRequestTimeout.
	RequestTimeout time.Duration
}

// Store writes and deletes workers' records. They are read by lease.Store's
// Scan. Errors wrap kcl.ErrThrottled, kcl.ErrInvalidState or kcl.ErrDependency,
// but for those of a record that must not be written. Nothing is retried but by
// the SDK. A Store is safe for concurrent use.
type Store struct{ cfg StoreConfig }

// NewStore does no I/O.
func NewStore(cfg StoreConfig) *Store {
	if cfg.Period <= 0 {
		cfg.Period = DefaultPeriod
	}
	if cfg.RequestTimeout <= 0 {
		cfg.RequestTimeout = defaultRequestTimeout
	}
	return &Store{cfg}
}

// Put writes r, whatever the item says; what it does not set stays as it is. A
// record that others could not read, or that is two periods old, is an error.
func (s *Store) Put(ctx context.Context, r Record) error {
	if err := r.check(time.Now(), s.cfg.Period); err != nil {
		return fmt.Errorf("record of worker %q: %w", r.Worker, err)
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
	_, err := ddb.Call(ctx, s.cfg.RequestTimeout, s.what("put", r), func(ctx context.Context) (*dynamodb.UpdateItemOutput, error) {
		return s.cfg.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName:                 &s.cfg.Table,
			Key:                       s.key(r),
			UpdateExpression:          aws.String("SET " + strings.Join(sets, ", ")),
			ExpressionAttributeNames:  names,
			ExpressionAttributeValues: values,
		})
	})
	return err
}

// Delete deletes the record if it still says the time that r says, and reports
// whether it did: false means that the worker is back, or the record gone.
func (s *Store) Delete(ctx context.Context, r Record) (bool, error) {
	in := &dynamodb.DeleteItemInput{TableName: &s.cfg.Table, Key: s.key(r)}
	if r.Updated.IsZero() {
		// Without a time only its kind tells the item from one that has the
		// same key.
		in.ConditionExpression = aws.String("attribute_exists(#key) AND attribute_not_exists(#lut) AND #kind = :kind")
		in.ExpressionAttributeNames = map[string]string{"#key": attrKey, "#lut": attrUpdated, "#kind": entity.Attribute}
		in.ExpressionAttributeValues = item{":kind": entity.WorkerMetricStats.Attr()}
	} else {
		in.ConditionExpression = aws.String("attribute_exists(#key) AND #lut = :lut")
		in.ExpressionAttributeNames = map[string]string{"#key": attrKey, "#lut": attrUpdated}
		in.ExpressionAttributeValues = item{":lut": timeValue(r.Updated)}
	}
	_, err := ddb.Call(ctx, s.cfg.RequestTimeout, s.what("delete", r), func(ctx context.Context) (*dynamodb.DeleteItemOutput, error) {
		return s.cfg.Client.DeleteItem(ctx, in)
	})
	if _, failed := ddb.ConditionFailed(err); failed {
		return false, nil
	}
	return err == nil, err
}

func (s *Store) key(r Record) map[string]types.AttributeValue {
	return item{attrKey: &str{Value: r.Worker}}
}

func (s *Store) what(act string, r Record) string {
	return act + " record of worker " + r.Worker + " in table " + s.cfg.Table
}
