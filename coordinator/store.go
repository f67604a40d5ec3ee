package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/ddb"
	"github.com/go-kcl/kcl/internal/entity"
)

const (
	defaultRequestTimeout = 60 * time.Second
	// maxPages ends a scan whose pages never end: 100 GB at 1 MB a page.
	maxPages = 100_000
)

// StoreConfig says where the state is.
type StoreConfig struct {
	Client *dynamodb.Client
	// Table is the lease table's name, or that of a legacy table.
	Table string
	// KeyAttribute is Table's partition key: [LegacyKey] for a legacy table.
	// Empty means leaseKey, the lease table's.
	KeyAttribute string
	// RequestTimeout bounds each call, retries included. 0 means 60 s.
	RequestTimeout time.Duration
	// Logger is told of items that cannot be read. Nil means none.
	Logger *slog.Logger
}

// Store reads and writes the coordinator state. It is safe for concurrent use.
type Store struct {
	client  *dynamodb.Client
	table   string
	key     string // the table's partition key
	timeout time.Duration
	log     *slog.Logger
}

// NewStore returns a store; it makes no call.
func NewStore(c StoreConfig) *Store {
	s := &Store{client: c.Client, table: c.Table, key: c.KeyAttribute, timeout: c.RequestTimeout, log: c.Logger}
	if s.timeout == 0 {
		s.timeout = defaultRequestTimeout
	}
	if s.key == "" {
		s.key = entity.LeaseTableKey
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s
}

// Table returns the table's name.
func (s *Store) Table() string { return s.table }

// what names a call in its error.
func (s *Store) what(verb, key string) string { return verb + " " + key + " in table " + s.table }

func (s *Store) keyOf(key string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{s.key: str(key)}
}

// Get reads an item, strongly consistent. found is false if there is none.
func (s *Store) Get(ctx context.Context, key string) (it Item, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName:      &s.table,
		Key:            s.keyOf(key),
		ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return Item{}, false, ddb.Error(s.what("get", key), err)
	}
	it, found = DecodeItem(out.Item, s.key)
	return it, found, nil
}

// List returns the items of one kind, by an eventually consistent scan with a
// filter. Items that carry no entityType are not found.
func (s *Store) List(ctx context.Context, t entity.Type) ([]Item, error) {
	var items []Item
	var from map[string]types.AttributeValue
	for range maxPages {
		out, err := s.scan(ctx, t, from)
		if err != nil {
			return nil, ddb.Error("list "+string(t)+" in table "+s.table, err)
		}
		for _, av := range out.Items {
			if it, ok := DecodeItem(av, s.key); ok {
				items = append(items, it)
			}
		}
		if from = out.LastEvaluatedKey; len(from) == 0 {
			return items, nil
		}
	}
	return nil, fmt.Errorf("list %s in table %s: %w: more than %d pages", t, s.table, kcl.ErrDependency, maxPages)
}

func (s *Store) scan(ctx context.Context, t entity.Type, from map[string]types.AttributeValue) (*dynamodb.ScanOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.client.Scan(ctx, &dynamodb.ScanInput{
		TableName:                 &s.table,
		FilterExpression:          aws.String("#t = :t"),
		ExpressionAttributeNames:  map[string]string{"#t": entity.Attribute},
		ExpressionAttributeValues: map[string]types.AttributeValue{":t": t.Attr()},
		ExclusiveStartKey:         from,
	})
}

// errNoType would put an item into the table that Java takes for a lease.
var errNoType = errors.New("item has no entityType")

// Create puts a whole item if there is none with its key. created is false if
// there is. Type must be given.
func (s *Store) Create(ctx context.Context, it Item) (created bool, err error) {
	what := s.what("create", it.Key)
	if it.Type == "" {
		return false, fmt.Errorf("%s: %w", what, errNoType)
	}
	item := it.Encode(s.key)
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	_, err = s.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName:                           &s.table,
		Item:                                item,
		ConditionExpression:                 aws.String("attribute_not_exists(#key)"),
		ExpressionAttributeNames:            map[string]string{"#key": s.key},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if old, failed := ddb.ConditionFailed(err); failed {
		return reflect.DeepEqual(old, item), nil
	}
	return err == nil, ddb.Error(what, err)
}

// Update sets attributes of an item if it exists and its attributes still are
// as expected; updated is false if not. All other attributes stay.
func (s *Store) Update(ctx context.Context, key string, set, expect map[string]types.AttributeValue) (updated bool, err error) {
	e := expression{names: map[string]string{}, values: map[string]types.AttributeValue{}}
	condition := []string{e.equals(s.key, str(key))}
	for _, name := range slices.Sorted(maps.Keys(expect)) {
		condition = append(condition, e.equals(name, expect[name]))
	}
	var sets []string
	for _, name := range slices.Sorted(maps.Keys(set)) {
		sets = append(sets, e.equals(name, set[name]))
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	_, err = s.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                           &s.table,
		Key:                                 s.keyOf(key),
		UpdateExpression:                    aws.String("SET " + strings.Join(sets, ", ")),
		ConditionExpression:                 aws.String(strings.Join(condition, " AND ")),
		ExpressionAttributeNames:            e.names,
		ExpressionAttributeValues:           e.values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if old, failed := ddb.ConditionFailed(err); failed {
		return holds(old, set), nil
	}
	return err == nil, ddb.Error(s.what("update", key), err)
}

// holds reports whether the item, if there is one, has all of these attributes.
func holds(item, attributes map[string]types.AttributeValue) bool {
	for name, v := range attributes {
		if !reflect.DeepEqual(item[name], v) {
			return false
		}
	}
	return true
}

// expression gathers the placeholders of a request.
type expression struct {
	names  map[string]string
	values map[string]types.AttributeValue
}

// equals returns "#name = :value" for an attribute.
func (e *expression) equals(name string, value types.AttributeValue) string {
	n, v := fmt.Sprintf("#n%d", len(e.values)), fmt.Sprintf(":v%d", len(e.values))
	e.names[n], e.values[v] = name, value
	return n + " = " + v
}

// Delete removes an item, whatever it holds. Its absence is no error.
func (s *Store) Delete(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	_, err := s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &s.table, Key: s.keyOf(key)})
	return ddb.Error(s.what("delete", key), err)
}

// ErrMalformed is in the error for an item that should hold a migration's state
// and does not. A later version or a hand wrote it; trying again does not help.
var ErrMalformed = errors.New("malformed state")

// ClientVersion reads Migration3.0, strongly consistent. An item there that is
// no such state is an error that wraps [kcl.ErrDependency].
func (s *Store) ClientVersion(ctx context.Context) (m ClientVersionState, found bool, err error) {
	return get[ClientVersion](ctx, s)
}

// TableMigration reads TableMigration3.5, strongly consistent. The lease table
// has it only once the migration is complete. An item there that is no such
// state is an error that wraps [kcl.ErrDependency].
func (s *Store) TableMigration(ctx context.Context) (m TableMigrationState, found bool, err error) {
	return get[TableStatus](ctx, s)
}

func get[V stage](ctx context.Context, s *Store) (m Migration[V], found bool, err error) {
	var zero V
	key, _, _ := zero.item()
	it, found, err := s.Get(ctx, key)
	if err != nil || !found {
		return m, false, err
	}
	if m, err = migrationOf[V](it); err != nil {
		return m, false, fmt.Errorf("table %s: %w: %w: %w", s.table, kcl.ErrDependency, ErrMalformed, err)
	}
	if len(m.Extra) > 0 {
		s.log.LogAttrs(ctx, slog.LevelDebug, "item has attributes of another version", slog.String("item", key))
	}
	return m, true, nil
}

// CreateClientVersion stores m if there is no Migration3.0 yet.
func (s *Store) CreateClientVersion(ctx context.Context, m ClientVersionState) (created bool, err error) {
	return s.Create(ctx, m.Item())
}

// UpdateClientVersion stores m, which [Migration.To] made from a stored state,
// if the stored value is still from and all other attributes are as expected.
func (s *Store) UpdateClientVersion(ctx context.Context, m ClientVersionState, from ClientVersion, expect map[string]types.AttributeValue) (updated bool, err error) {
	key, _, attribute := from.item()
	all := map[string]types.AttributeValue{}
	maps.Copy(all, expect)
	all[attribute] = str(string(from))
	return s.Update(ctx, key, m.values(), all)
}
