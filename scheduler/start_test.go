package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/coordinator"
	"github.com/go-kcl/kcl/internal/ddb"
	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/metrics"
	"github.com/go-kcl/kcl/migration/singletable"
	"github.com/go-kcl/kcl/shardsync"
)

// refuse makes an operation fail with a code for as long as while says.
func (f *fleet) refuse(operation, code string, status int, while func(n int) bool) (calls func() int) {
	var mu sync.Mutex
	n := 0
	f.aws.Intercept(func(ctx context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
		if i.Operation == operation && i.Client != "test" {
			mu.Lock()
			n++
			refused := while(n)
			mu.Unlock()
			if refused {
				codec := wire.JSON10
				if i.Service == "kinesis" {
					codec = wire.JSON11
				}
				return (&wire.Error{Status: status, Type: code, Message: "scripted"}).Answer(codec), nil
			}
		}
		return f.intercept(ctx, i, run)
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

func always(int) bool { return true }

// states collects what OnStateChange is told.
func states(got *[]State) func(*Config) {
	return func(c *Config) { c.OnStateChange = func(s State) { *got = append(*got, s) } }
}

// figure keeps the values of one figure.
type figure struct {
	operation, name string
	mu              sync.Mutex
	values          []float64 // guarded by mu
}

func (f *figure) Record(s metrics.Sample) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.Operation == f.operation && s.Name == f.name {
		f.values = append(f.values, s.Value)
	}
}

// of has a worker report to f what it reports under that name.
func (f *figure) of(operation, name string) func(*Config) {
	f.operation, f.name = operation, name
	return func(c *Config) { c.Metrics = f }
}

// consumption#1 as ruled: a start that fails in a way that may pass is tried
// MaxInitializationAttempts times, then Run returns the last error.
func TestStartGivesUp(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet) {
		var got []State
		c := f.config("a")
		c.DynamoDB = dynamodb.NewFromConfig(c.AWS, func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
		calls := f.refuse("CreateTable", "com.amazonaws.dynamodb.v20120810#InternalServerError", 500, always)
		start := time.Now()
		var initialized figure
		m := f.start("a", states(&got), initialized.of("Scheduler:Initialize", "Initialize.Success"), func(to *Config) { to.DynamoDB = c.DynamoDB })
		<-m.done
		assert.Equal(t, []float64{0}, initialized.values)
		require.ErrorIs(t, m.err, kcl.ErrDependency)
		require.ErrorContains(t, m.err, "InternalServerError")
		assert.Equal(t, 20, calls())
		assert.GreaterOrEqual(t, time.Since(start), 19*time.Second)
		assert.Equal(t, []State{StateInitializing, StateStopped}, got)
		assert.Len(t, f.log.warnings, 1, "what repeats is told of once")
	})
}

// A worker that is stopped while its first report is under way leaves no record
// behind, for which a leader would give it leases.
func TestStoppedStartLeavesNoRecord(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet) {
		reported, stopped := make(chan struct{}), make(chan struct{})
		var once sync.Once
		f.aws.Intercept(func(ctx context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
			ans, err := f.intercept(ctx, i, run)
			if i.Operation == "UpdateItem" {
				once.Do(func() { close(reported); <-stopped })
			}
			return ans, err
		})
		m := f.start("a")
		<-reported
		m.cancel()
		synctest.Wait()
		close(stopped)
		<-m.done
		require.NoError(t, m.err)
		snap, err := f.store().Scan(t.Context())
		require.NoError(t, err)
		assert.Empty(t, snap.Others["WORKER_METRIC_STATS"])
	})
}

// An application whose name no table can have starts with a table of another
// name; a callback for the new table that fails is called again.
func TestApplicationNameThatIsNoTableName(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet) {
		tries := 0
		m := f.start("a", func(c *Config) {
			c.Application, c.Table.Name = "orders of Europe", testApp
			c.Table.Created = func(context.Context, *dynamodb.Client, string) error {
				if tries++; tries == 1 {
					return errors.New("no tags yet")
				}
				return nil
			}
		})
		f.until(time.Minute, "the lease", func() bool { return f.owners()["a"] == 1 })
		assert.Equal(t, 2, tries)
		require.NoError(t, m.stop())
	})
}

// consumption#2: a start that fails twice at any step and then succeeds gives
// one worker with one of each loop. config-metrics-operations#35
func TestStartTriedAgain(t *testing.T) {
	for _, operation := range []string{"CreateTable", "DescribeTable", "PutItem", "GetItem", "DescribeStreamSummary", "UpdateItem"} {
		t.Run(operation, func(t *testing.T) {
			inFleet(t, 2, func(t *testing.T, f *fleet) {
				f.put(10)
				var got []State
				f.refuse(operation, "InternalServerError", 500, func(n int) bool { return n <= 8 }) // 4 tries of the SDK each
				var initialized figure
				m := f.start("a", states(&got), initialized.of("Scheduler:Initialize", "Initialize.Success"))
				<-m.Ready()
				assert.Equal(t, []float64{1}, initialized.values)
				f.until(time.Minute, "all records", func() bool { return f.delivered() == 10 })
				time.Sleep(30 * time.Second)
				assert.Equal(t, map[string]int{"a": 2}, f.owners())
				require.NoError(t, m.stop())
				assert.Equal(t, []State{StateInitializing, StateStarted, StateStopping, StateStopped}, got)
			})
		})
	}
}

// What another try cannot mend ends a start at once, with a message that names
// the thing.
func TestStartFailsAtOnce(t *testing.T) {
	cases := []struct {
		name            string
		prepare         func(f *fleet)
		change          func(*Config)
		is              error
		message         string
		operation, code string
	}{
		{name: "no permission", operation: "DescribeTable", code: "AccessDeniedException", message: testApp},
		{name: "unknown credentials", operation: "DescribeTable", code: "UnrecognizedClientException", message: testApp},
		{name: "no permission to create", operation: "CreateTable", code: "AccessDeniedException", message: testApp},
		{name: "no permission to read an item", operation: "GetItem", code: "AccessDeniedException", message: testApp},
		{name: "no permission to put an item", operation: "PutItem", code: "AccessDeniedException", message: testApp},
		{name: "no permission for the index", operation: "Query", code: "AccessDeniedException", message: ddb.OwnerIndex},
		{name: "no permission to scan", operation: "Scan", code: "AccessDeniedException", message: "scan table " + testApp},
		{name: "no permission to report", operation: "UpdateItem", code: "AccessDeniedException", message: "AccessDeniedException"},
		{name: "a table that cannot be", operation: "CreateTable", code: "ValidationException", message: testApp},
		{name: "a stream that cannot be", operation: "DescribeStreamSummary", code: "InvalidArgumentException", message: "stream " + testStream},
		{name: "unknown stream", change: func(c *Config) { c.Streams = kcl.SingleStream("nothing", kcl.Latest) },
			is: shardsync.ErrStreamNotFound, message: "stream nothing"},
		{name: "a table of another application", prepare: func(f *fleet) { f.table(testApp, "id") },
			is: ddb.ErrUnsuitable, message: "its key is id (HASH, S)"},
		{name: "a foreign index of the same name", prepare: func(f *fleet) { f.table(testApp, "leaseKey", "leaseKey") },
			is: ddb.ErrUnsuitable, message: "LeaseOwnerToLeaseKeyIndex"},
		{name: "a legacy table whose state is of another version", prepare: func(f *fleet) { f.legacyState("TABLE_MIGRATION_STATUS_NEW") },
			is: coordinator.ErrMalformed, message: testApp + "-CoordinatorState"}, // single-table-migration#85
		{name: "a state whose table is gone", prepare: func(f *fleet) { f.state("TABLE_MIGRATION_STATUS_PENDING") },
			is: singletable.ErrInconsistent, message: testApp + "-CoordinatorState"},
		{name: "an application of 2.x", prepare: func(f *fleet) { f.version("CLIENT_VERSION_UPGRADE_FROM_2X") },
			is: coordinator.ErrRefused, message: "CLIENT_VERSION_UPGRADE_FROM_2X"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inFleet(t, 1, func(t *testing.T, f *fleet) {
				if c.prepare != nil {
					c.prepare(f)
				}
				if c.operation != "" {
					f.refuse(c.operation, "com.amazon.coral.service#"+c.code, 400, always)
				}
				start := time.Now()
				m := f.start("a", func(cfg *Config) {
					if c.change != nil {
						c.change(cfg)
					}
				})
				<-m.done
				require.ErrorContains(t, m.err, c.message)
				if c.is != nil {
					require.ErrorIs(t, m.err, c.is)
				}
				if c.code != "" {
					require.ErrorContains(t, m.err, c.code)
				}
				assert.Less(t, time.Since(start), 3*time.Second)
				assert.Equal(t, StateStopped, m.Status().State)
			})
		})
	}
}

// What hinders only the look for a misspelt stream hinders no start.
func TestStartWithoutDescribing(t *testing.T) {
	for _, code := range []string{"AccessDeniedException", "LimitExceededException"} {
		inFleet(t, 1, func(t *testing.T, f *fleet) {
			f.refuse("DescribeStreamSummary", code, 400, always)
			m := f.start("a")
			f.until(10*time.Second, "the lease", func() bool { return f.owners()["a"] == 1 })
			require.NoError(t, m.stop())
		})
	}
}

type valueKey struct{}

// Values of Run's context reach the callbacks. Clients that the worker makes say
// whose they are, those it is given stay as they are.
func TestValuesAndUserAgent(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet) {
		f.put(1)
		var mu sync.Mutex
		agents := make(map[string]bool) // by service: all calls of the worker name the library
		c := f.config("a")
		inner := c.AWS.HTTPClient
		c.AWS.HTTPClient = doer(func(r *http.Request) (*http.Response, error) {
			service, _, _ := strings.Cut(r.Header.Get("X-Amz-Target"), "_")
			named := strings.Contains(r.UserAgent(), userAgent+"/"+version)
			mu.Lock()
			if was, known := agents[service]; !known || was {
				agents[service] = named
			}
			mu.Unlock()
			return inner.Do(r)
		})
		c.Leases.WorkerUtilization.DisableWorkerMetrics = true // that call to EC2's metadata service is not AWS's API
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "seven"))
		defer cancel()
		var seen any
		c.Handler = func(ctx context.Context, _ *kcl.Batch) error {
			seen = ctx.Value(valueKey{})
			cancel()
			return nil
		}
		s, err := New(c)
		require.NoError(t, err)
		require.NoError(t, s.Run(ctx))
		assert.Equal(t, "seven", seen)
		assert.Equal(t, map[string]bool{"DynamoDB": true, "Kinesis": true}, agents)

		clear(agents)
		f.put(1)
		c.Kinesis, c.DynamoDB = kinesis.NewFromConfig(c.AWS), dynamodb.NewFromConfig(c.AWS)
		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
		s, err = New(c)
		require.NoError(t, err)
		require.NoError(t, s.Run(ctx))
		assert.Equal(t, map[string]bool{"DynamoDB": false, "Kinesis": false}, agents)
	})
}

type doer func(*http.Request) (*http.Response, error)

func (d doer) Do(r *http.Request) (*http.Response, error) { return d(r) }

// table creates a table with a hash key, and with an index of the owners' name
// whose only key is indexKey.
func (f *fleet) table(name, key string, indexKey ...string) {
	f.t.Helper()
	d := dynamodb.NewFromConfig(f.aws.Config("test"))
	in := &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: &key, KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: &key, AttributeType: types.ScalarAttributeTypeS}},
	}
	for _, k := range indexKey {
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName: aws.String(ddb.OwnerIndex), Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
			KeySchema: []types.KeySchemaElement{{AttributeName: aws.String(k), KeyType: types.KeyTypeHash}},
		})
	}
	_, err := d.CreateTable(f.t.Context(), in)
	require.NoError(f.t, err)
	time.Sleep(time.Second)
}

// state stores how far the single-table migration is in a new lease table,
// legacyState in a new legacy table.
func (f *fleet) state(tm string) {
	f.t.Helper()
	f.table(testApp, "leaseKey")
	f.putState(testApp, "leaseKey", tm)
}

func (f *fleet) legacyState(tm string) {
	f.t.Helper()
	f.table(testApp+"-CoordinatorState", "key")
	f.putState(testApp+"-CoordinatorState", "key", tm)
}

func (f *fleet) putState(table, key, tm string) {
	f.t.Helper()
	_, err := dynamodb.NewFromConfig(f.aws.Config("test")).PutItem(f.t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: map[string]types.AttributeValue{
		key: &types.AttributeValueMemberS{Value: "TableMigration3.5"}, "entityType": &types.AttributeValueMemberS{Value: "TABLE_MIGRATION"},
		"tm": &types.AttributeValueMemberS{Value: tm}, "mb": &types.AttributeValueMemberS{Value: "java"}, "mts": &types.AttributeValueMemberN{Value: "1"},
	}})
	require.NoError(f.t, err)
}

// version stores a client version in a new lease table.
func (f *fleet) version(cv string) {
	f.t.Helper()
	d := dynamodb.NewFromConfig(f.aws.Config("test"))
	_, err := ddb.NewTable(ddb.TableConfig{Client: d, Table: testApp, BillingMode: types.BillingModePayPerRequest}).Prepare(f.t.Context())
	require.NoError(f.t, err)
	_, err = d.PutItem(f.t.Context(), &dynamodb.PutItemInput{TableName: aws.String(testApp), Item: map[string]types.AttributeValue{
		"leaseKey": &types.AttributeValueMemberS{Value: "Migration3.0"}, "entityType": &types.AttributeValueMemberS{Value: "CLIENT_VERSION_MIGRATION"},
		"cv": &types.AttributeValueMemberS{Value: cv}, "mb": &types.AttributeValueMemberS{Value: "java"}, "mts": &types.AttributeValueMemberN{Value: "1"},
	}})
	require.NoError(f.t, err)
}

// With leases in the table nobody lists shards at a start, and a worker is ready
// within a second. consumption#3,4 shard-sync#28
func TestStartWithLeases(t *testing.T) {
	inFleet(t, 4, func(t *testing.T, f *fleet) {
		first := f.start("first")
		f.until(time.Minute, "leases", func() bool { return f.owners()["first"] == 4 })
		require.NoError(t, first.stop())
		f.aws.ResetCalls()

		var ms []*member
		for i := range 5 {
			start := time.Now()
			m := f.start(fmt.Sprint("w", i))
			<-m.Ready()
			assert.Less(t, time.Since(start), time.Second)
			ms = append(ms, m)
		}
		time.Sleep(time.Minute)
		assert.Zero(t, f.aws.Count("ListShards"))
		for _, m := range ms {
			require.NoError(t, m.stop())
		}
	})
}

// The steps of a start come in their order: the table, the application's state,
// the worker's record, the lock, and only then the shards, by whoever has it.
// leader-and-client-version-migration#52
func TestOrderOfAStart(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet) {
		var mu sync.Mutex
		var ops []string
		f.aws.Intercept(func(ctx context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
			ans, err := f.intercept(ctx, i, run)
			if i.Client == "a" {
				mu.Lock()
				ops = append(ops, i.Operation)
				mu.Unlock()
			}
			return ans, err
		})
		m := f.start("a")
		f.until(time.Minute, "the lease", func() bool { return f.owners()["a"] == 1 })
		require.NoError(t, m.stop())
		order := []string{"CreateTable", "PutItem" /* Migration3.0 */, "UpdateItem" /* report */, "PutItem" /* lock */, "Scan", "ListShards", "PutItem" /* lease */, "UpdateItem" /* assignment */}
		at := 0
		for _, op := range ops {
			if at < len(order) && op == order[at] {
				at++
			}
		}
		assert.Equal(t, len(order), at, "%v", ops)
		assert.Less(t, slices.Index(ops, "UpdateItem"), slices.Index(ops, "ListShards"))
	})
}

// Items of other kinds are no leases: the application is fresh.
// leader-and-client-version-migration#54
func TestStartWithOtherItemsOnly(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, f *fleet) {
		f.version("CLIENT_VERSION_3X")
		d := dynamodb.NewFromConfig(f.aws.Config("test"))
		_, err := d.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(testApp), Item: map[string]types.AttributeValue{
			"leaseKey": &types.AttributeValueMemberS{Value: "gone"}, "entityType": &types.AttributeValueMemberS{Value: "WORKER_METRIC_STATS"},
			"lut": &types.AttributeValueMemberN{Value: "1"}, "sts": &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{}},
			"opr": &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{}},
		}})
		require.NoError(t, err)
		m := f.start("a")
		f.until(time.Minute, "leases", func() bool { return f.owners()["a"] == 2 })
		require.NoError(t, m.stop())
	})
}

// A first sync that keeps failing ends the leader after the attempts that a
// start has, with its error; the lock is free for another.
// leader-and-client-version-migration#55 and shard-sync#33, as ruled
func TestFirstSyncFails(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, f *fleet) {
		calls := f.refuse("ListShards", "InternalFailure", 500, always)
		m := f.start("a")
		<-m.Ready()
		<-m.done
		require.ErrorContains(t, m.err, "first shard sync of stream orders")
		assert.GreaterOrEqual(t, calls(), 20)
		assert.Empty(t, f.lockOwner())
	})
	inFleet(t, 2, func(t *testing.T, f *fleet) {
		f.refuse("ListShards", "AccessDeniedException", 400, always)
		start := time.Now()
		m := f.start("a")
		<-m.done
		require.ErrorContains(t, m.err, "AccessDeniedException")
		assert.Less(t, time.Since(start), 5*time.Second, "permission does not come by waiting")
	})
}

// The leader lists and creates leases while its own loops run: what it gives
// itself stays its own. shard-sync#63
func TestLeaderKeepsItsOwnLeases(t *testing.T) {
	inFleet(t, 6, func(t *testing.T, f *fleet) {
		f.aws.Intercept(func(ctx context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
			if i.Operation == "ListShards" {
				time.Sleep(25 * time.Second)
			}
			return f.intercept(ctx, i, run)
		})
		a, b := f.start("a"), f.start("b")
		f.until(2*time.Minute, "leases", func() bool { o := f.owners(); return o["a"]+o["b"] == 6 })
		time.Sleep(time.Minute)
		for k, l := range f.leases() {
			assert.Zero(t, l.OwnerSwitches, k)
		}
		require.NoError(t, a.stop())
		require.NoError(t, b.stop())
	})
}

// A leader that dies after some of the puts: the next one creates the rest, and
// nothing is done twice. shard-sync#35
func TestLeaderDiesWhileItCreatesLeases(t *testing.T) {
	inFleet(t, 60, func(t *testing.T, f *fleet) {
		var ms = make(map[string]*member)
		var mu sync.Mutex
		puts, dead := 0, ""
		f.aws.Intercept(func(ctx context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
			if i.Operation == "PutItem" && f.lockOwner() == i.Client {
				mu.Lock()
				if puts++; puts == 20 && dead == "" {
					dead = i.Client
					f.kill(ms[dead])
				}
				mu.Unlock()
			}
			return f.intercept(ctx, i, run)
		})
		for _, n := range []string{"a", "b", "c"} {
			m := f.start(n)
			mu.Lock()
			ms[n] = m
			mu.Unlock()
		}
		f.until(3*2*time.Minute+time.Minute, "all leases", func() bool { time.Sleep(time.Second); return len(f.leases()) == 60 })
		require.NotEmpty(t, dead)
		f.until(2*time.Minute, "all owned by the living", func() bool { o := f.owners(); return o[""] == 0 && o[dead] == 0 })
		for k, l := range f.leases() {
			assert.Equal(t, kcl.AtTrimHorizon, l.Checkpoint, k)
		}
	})
}

// What this version cannot read is skipped with a line, and the fleet works on.
func TestUnreadableItems(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, f *fleet) {
		f.put(10)
		f.version("CLIENT_VERSION_3X")
		d := dynamodb.NewFromConfig(f.aws.Config("test"))
		for _, item := range []map[string]types.AttributeValue{
			{"leaseKey": &types.AttributeValueMemberS{Value: "broken lease"}},
			{"leaseKey": &types.AttributeValueMemberS{Value: "shardId-000000000099"}, "leaseCounter": &types.AttributeValueMemberS{Value: "many"}},
			{"leaseKey": &types.AttributeValueMemberS{Value: "of the future"}, "entityType": &types.AttributeValueMemberS{Value: "SOME_FUTURE_TYPE"}},
			{"leaseKey": &types.AttributeValueMemberS{Value: "worker x"}, "entityType": &types.AttributeValueMemberS{Value: "WORKER_METRIC_STATS"}, "lut": &types.AttributeValueMemberS{Value: "now"}},
		} {
			_, err := d.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(testApp), Item: item})
			require.NoError(t, err)
		}
		m := f.start("a")
		f.until(time.Minute, "all records", func() bool { return f.delivered() == 10 })
		time.Sleep(time.Minute)
		require.NoError(t, m.stop())
		f.log.mu.Lock()
		defer f.log.mu.Unlock()
		for key, want := range map[string]int{"broken lease": 1, "shardId-000000000099": 1, "worker x": 1, "of the future": 0} {
			n := 0
			for _, w := range f.log.warnings {
				if strings.Contains(w, key) {
					n++
				}
			}
			assert.Equal(t, want, n, "lines about %s", key)
		}
	})
}

// A lease whose consumer has ended although it is still this worker's is taken up
// anew, with a new token, by a new processor. consumption#5,6,7
func TestConsumerThatGaveUpIsReplaced(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet) {
		f.put(10)
		var mu sync.Mutex
		var tokens []string
		m := f.start("a", func(c *Config) {
			inner := c.Handler
			c.Handler = func(ctx context.Context, b *kcl.Batch) error {
				mu.Lock()
				tokens = append(tokens, b.Shard.LeaseToken)
				n := len(tokens)
				mu.Unlock()
				if n == 1 {
					return fmt.Errorf("stored elsewhere: %w", kcl.ErrLeaseLost)
				}
				return inner(ctx, b)
			}
		})
		f.until(time.Minute, "all records", func() bool { return f.delivered() == 10 })
		require.NoError(t, m.stop())
		mu.Lock()
		defer mu.Unlock()
		assert.Len(t, slices.Compact(slices.Clone(tokens)), 2)
		f.requireAllProcessed()
	})
}

// Status and Leases say what is going on, and encode to JSON.
func TestStatusAndLeases(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, f *fleet) {
		f.put(10)
		m := f.start("a")
		assert.Empty(t, m.Status().Leases)
		f.until(time.Minute, "all records", func() bool { return f.delivered() == 10 })
		time.Sleep(5 * time.Second)
		st := m.Status()
		assert.Equal(t, "a", st.Leader)
		assert.True(t, st.Leading)
		assert.Equal(t, StateStarted, st.State)
		require.Len(t, st.Leases, 2)
		for _, l := range st.Leases {
			assert.Equal(t, "reading", l.State)
			assert.Equal(t, "no new records", l.Waiting)
			require.NotNil(t, l.Behind)
			assert.Zero(t, *l.Behind)
			assert.Equal(t, l.Processed, l.Checkpoint, "stored with a heartbeat")
		}
		text, err := json.Marshal(st)
		require.NoError(t, err)
		assert.Contains(t, string(text), `"behind_ms":0`)

		all, err := m.Leases(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 2)
		assert.Equal(t, "a", all[0].Owner)
		assert.Equal(t, "shardId-000000000000", all[0].Shard)
		assert.Equal(t, st.Leases[0].Checkpoint, all[0].Checkpoint)
		require.NoError(t, m.stop())
	})
}
