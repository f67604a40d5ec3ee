package singletable

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/coordinator"
	"github.com/go-kcl/kcl/internal/ddb"
	"github.com/go-kcl/kcl/internal/entity"
)

const (
	// defaultRequestTimeout is below every sound duration of the leader's lock:
	// a call must end before the term does in which it began.
	defaultRequestTimeout = 10 * time.Second
	maxPages              = 100_000 // 100 GB at 1 MB a page
	lockKey               = "Leader"
)

// TablesConfig says where the application's tables are.
type TablesConfig struct {
	Client *dynamodb.Client
	// Lease is the lease table's name, Legacy that of the coordinator state's
	// table of KCL 3.0 to 3.4, LegacyRecords that of the workers' records of
	// then.
	Lease, Legacy, LegacyRecords string
	// Worker is this worker's id.
	Worker string
	// Period is how often workers report. 0 means 30 s.
	Period time.Duration
	// RequestTimeout bounds each read, the SDK's retries included, and each change
	// of the migration's item with all that it takes. It is to be well below the
	// duration of the leader's lock. 0 means 10 s.
	RequestTimeout time.Duration
	// Logger is told of what a human should know. Nil means none.
	Logger *slog.Logger
}

// Tables does what decisions ask for. It keeps nothing in mind but that a
// permission is missing; it is safe for concurrent use.
type Tables struct {
	TablesConfig
	lease, legacy *coordinator.Store
	unfenced      atomic.Bool
}

// NewTables makes no call.
func NewTables(c TablesConfig) *Tables {
	if c.Period == 0 {
		c.Period = defaultPeriod
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = defaultRequestTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Tables{
		TablesConfig: c,
		lease:        coordinator.NewStore(coordinator.StoreConfig{Client: c.Client, Table: c.Lease, RequestTimeout: c.RequestTimeout, Logger: c.Logger}),
		legacy: coordinator.NewStore(coordinator.StoreConfig{Client: c.Client, Table: c.Legacy, KeyAttribute: coordinator.LegacyKey,
			RequestTimeout: c.RequestTimeout, Logger: c.Logger}),
	}
}

// Facts finds out what [Begin] needs. If the lease table says COMPLETE, or on
// the operator's word, the legacy table is not looked at. An item that is no
// state is an error that wraps [coordinator.ErrMalformed].
func (t *Tables) Facts(ctx context.Context, migrate, noLegacyTables bool) (f Facts, err error) {
	f = Facts{NoLegacyTables: noLegacyTables, Table: t.Legacy, Migrate: migrate}
	if f.Copy, f.Copied, err = t.lease.TableMigration(ctx); err != nil {
		return f, err
	}
	if noLegacyTables || f.Copied && f.Copy.Value == Complete {
		return f, nil
	}
	if _, err = t.describe(ctx); missing(err) {
		f.Legacy = LegacyAbsent
		return f, nil
	}
	if err == nil {
		// A table that is missing now is being made, or deleted: not known yet.
		f.Stored, f.Found, err = t.legacy.TableMigration(ctx)
	}
	switch {
	case err == nil:
		f.Legacy = LegacyExists
	case ddb.Denied(err):
		f.Legacy = LegacyDenied
	default:
		return f, err
	}
	return f, nil
}

func (t *Tables) describe(ctx context.Context) (*dynamodb.DescribeTableOutput, error) {
	return ddb.Call(ctx, t.RequestTimeout, "describe table "+t.Legacy, func(ctx context.Context) (*dynamodb.DescribeTableOutput, error) {
		return t.Client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &t.Legacy})
	})
}

func missing(err error) bool { return ddb.Code(err) == "ResourceNotFoundException" }

// Read reads the migration's item for the term of that number, 0 for none.
// Failing and what else tells of earlier reads is left to the caller; the error
// is the reason of Failed, Malformed and Gone.
func (t *Tables) Read(ctx context.Context, term uint64) (Read, error) {
	r := Read{At: time.Now(), Term: term}
	m, found, err := t.legacy.TableMigration(ctx)
	switch {
	case err == nil && found:
		r.Outcome, r.State = Found, m
	case err == nil:
		r.Outcome = None
	case errors.Is(err, coordinator.ErrMalformed):
		r.Outcome = Malformed
	case missing(err), ddb.Denied(err):
		r.Outcome = Gone
		m, found, copyErr := t.lease.TableMigration(ctx)
		if copyErr != nil {
			r.Outcome = Failed
			return r, copyErr
		}
		r.CopyComplete = found && m.Value == Complete
	default:
		r.Outcome = Failed
	}
	return r, err
}

// Look looks at what is left in the legacy tables. Tables that cannot be read
// are not known; the error says why.
func (t *Tables) Look(ctx context.Context, term uint64) (l Look, err error) {
	l = Look{At: time.Now(), Term: term, Clean: Yes, Drained: Yes}
	defer func() { l.Took = time.Since(l.At) }()
	err = t.scan(ctx, t.Legacy, func(it map[string]types.AttributeValue) {
		if key := keyIn(it, coordinator.LegacyKey); key != lockKey && key != coordinator.TableMigrationKey {
			l.Clean = No
			if len(l.Left) < maxNames {
				l.Left = append(l.Left, key)
			}
		}
	})
	if err != nil && l.Clean == Yes {
		l.Clean = NotKnown
	}
	rowsErr := t.scan(ctx, t.LegacyRecords, func(it map[string]types.AttributeValue) {
		if t.alive(it, time.Now()) {
			l.Drained = No
			if len(l.Alive) < maxNames {
				l.Alive = append(l.Alive, keyIn(it, legacyRecordKey))
			}
		}
	})
	if missing(rowsErr) {
		rowsErr = nil // nobody can report there
	}
	if rowsErr != nil && l.Drained == Yes {
		l.Drained = NotKnown
	}
	return l, errors.Join(err, rowsErr)
}

// The attributes of a worker's record that the look needs.
const (
	legacyRecordKey = "wid"
	attrUpdated     = "lut"
)

// alive reports whether a worker's record was written within two periods, by
// its own clock. A record whose time makes no sense counts: nobody else reads it
// either.
func (t *Tables) alive(it map[string]types.AttributeValue, now time.Time) bool {
	n, ok := it[attrUpdated].(*types.AttributeValueMemberN)
	if !ok {
		return false
	}
	sec, err := strconv.ParseInt(n.Value, 10, 64)
	return err == nil && now.Sub(time.Unix(sec, 0)) <= 2*t.Period
}

func keyIn(it map[string]types.AttributeValue, attribute string) string {
	if s, ok := it[attribute].(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

// scan reads a whole table, strongly consistent.
func (t *Tables) scan(ctx context.Context, table string, each func(map[string]types.AttributeValue)) error {
	var from map[string]types.AttributeValue
	for range maxPages {
		out, err := ddb.Call(ctx, t.RequestTimeout, "scan table "+table, func(ctx context.Context) (*dynamodb.ScanOutput, error) {
			return t.Client.Scan(ctx, &dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true), ExclusiveStartKey: from})
		})
		if err != nil {
			return err
		}
		for _, it := range out.Items {
			each(it)
		}
		if from = out.LastEvaluatedKey; len(from) == 0 {
			return nil
		}
	}
	return fmt.Errorf("scan table %s: %w: more than %d pages", table, kcl.ErrDependency, maxPages)
}

// Answer is what came of a write.
type Answer uint8

// The answers.
const (
	Uncertain Answer = iota // it may have landed, or may yet
	Done
	Refused   // the item is not as it was read
	NotLeader // the lock is not this worker's
	Obstacle  // something is in the way that a human must remove
)

// Write does what a decision to create, update or delete asks for; read is the
// state that it was decided on.
func (t *Tables) Write(ctx context.Context, d Decision, read State) (Answer, error) {
	ctx, cancel := t.timed(ctx)
	defer cancel()
	w := t.write(d, read)
	what := "change " + coordinator.TableMigrationKey + " in table " + t.Legacy
	if t.unfenced.Load() {
		return t.plain(ctx, what, w)
	}
	refused, err := t.transact(ctx, what, []types.TransactWriteItem{t.fence(), w})
	switch {
	case ddb.Denied(err):
		t.unfenced.Store(true)
		t.Logger.LogAttrs(ctx, slog.LevelWarn, "no permission for dynamodb:ConditionCheckItem on the legacy table: the move of its items needs it",
			slog.String("table", t.Legacy))
		return t.plain(ctx, what, w)
	case err != nil:
		return Uncertain, err
	case refused[0] != nil:
		return NotLeader, nil
	case refused[1] != nil:
		return Refused, nil
	}
	return Done, nil
}

// plain is a write without the fence, for a role that may not check conditions:
// what Java does. The item's own condition is the same.
func (t *Tables) plain(ctx context.Context, what string, w types.TransactWriteItem) (Answer, error) {
	_, err := ddb.Call(ctx, t.RequestTimeout, what, func(ctx context.Context) (_ struct{}, err error) {
		switch {
		case w.Put != nil:
			_, err = t.Client.PutItem(ctx, &dynamodb.PutItemInput{TableName: w.Put.TableName, Item: w.Put.Item, ConditionExpression: w.Put.ConditionExpression,
				ExpressionAttributeNames: w.Put.ExpressionAttributeNames, ExpressionAttributeValues: w.Put.ExpressionAttributeValues})
		case w.Update != nil:
			_, err = t.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: w.Update.TableName, Key: w.Update.Key, UpdateExpression: w.Update.UpdateExpression,
				ConditionExpression: w.Update.ConditionExpression, ExpressionAttributeNames: w.Update.ExpressionAttributeNames,
				ExpressionAttributeValues: w.Update.ExpressionAttributeValues})
		default:
			_, err = t.Client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: w.Delete.TableName, Key: w.Delete.Key, ConditionExpression: w.Delete.ConditionExpression,
				ExpressionAttributeNames: w.Delete.ExpressionAttributeNames, ExpressionAttributeValues: w.Delete.ExpressionAttributeValues})
		}
		return struct{}{}, err
	})
	if _, failed := ddb.ConditionFailed(err); failed {
		return Refused, nil // or an earlier attempt of this call had landed: the next read shows it
	}
	if err != nil {
		return Uncertain, err
	}
	return Done, nil
}

// Finalize stores the state of a decision to finalize in both tables, if this
// worker has the lock and the legacy table's item is as it was read. lock is the
// content of the lease table's lock to take with it, without key and kind; took
// reports whether that was free, and is now this worker's. After [Uncertain] an
// item with lock's version means that it was taken. A copy in the lease table
// that says COMPLETE already is no obstacle, any other is one, named in the
// error.
func (t *Tables) Finalize(ctx context.Context, d Decision, read State, lock map[string]types.AttributeValue) (a Answer, took bool, err error) {
	ctx, cancel := t.timed(ctx)
	defer cancel()
	what := "complete the migration in tables " + t.Legacy + " and " + t.Lease
	accept := false
	for range finalizeTries {
		items := t.finalize(d, read, accept)
		if lock != nil {
			items = append(items, t.putLock(lock))
		}
		refused, err := t.transact(ctx, what, items)
		switch {
		case err != nil:
			return Uncertain, false, err
		case refused[0] != nil:
			return NotLeader, false, nil
		case refused[2] != nil:
			return Refused, false, nil
		case refused[1] != nil:
			it, _ := coordinator.DecodeItem(refused[1], entity.LeaseTableKey)
			copied, bad := coordinator.TableMigrationOf(it)
			if bad == nil && copied.Value == Complete && !accept {
				accept = true
				continue
			}
			return Obstacle, false, fmt.Errorf("%s: item %s in table %s is in the way: delete it", what, coordinator.TableMigrationKey, t.Lease)
		case lock != nil && refused[3] != nil:
			lock = nil // somebody was faster; it changes hands as always
			continue
		}
		return Done, lock != nil, nil
	}
	return Uncertain, false, fmt.Errorf("%s: %w: the lease table changed %d times", what, kcl.ErrDependency, finalizeTries)
}

const finalizeTries = 4

// timed bounds a change of the migration's item: the worker acts as leader while
// it waits for the answer, and must have it before anybody can lead by the lock
// that the change may have taken.
func (t *Tables) timed(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, t.RequestTimeout, fmt.Errorf("%w: no answer within %s", kcl.ErrDependency, t.RequestTimeout))
}
