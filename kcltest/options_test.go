package kcltest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	ktypes "github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/kcltest"
)

// How long a table with an index, and a stream, take to become ACTIVE.
func TestDelays(t *testing.T) {
	cases := []struct {
		delays        kcltest.Delays
		table, stream time.Duration
	}{
		{kcltest.NoDelays, 0, time.Nanosecond},
		{kcltest.ShortDelays, 500 * time.Millisecond, 300 * time.Millisecond},
		{kcltest.RealDelays, 18 * time.Second, 20 * time.Second},
	}
	for _, c := range cases {
		synctest.Test(t, func(t *testing.T) {
			a := kcltest.New(kcltest.Options{Delays: c.delays})
			d, k := dynamodb.NewFromConfig(a.Config("c")), kinesis.NewFromConfig(a.Config("c"))
			indexed := putIndexedTable(t, d)
			start := time.Now()
			for indexed() != dtypes.TableStatusActive {
				time.Sleep(100 * time.Millisecond)
			}
			assert.InDelta(t, c.table, time.Since(start), float64(200*time.Millisecond), "table, %v", c.delays)

			_, err := k.CreateStream(t.Context(), &kinesis.CreateStreamInput{StreamName: aws.String("s"), ShardCount: aws.Int32(1)})
			require.NoError(t, err)
			start = time.Now()
			for status := ktypes.StreamStatusCreating; status != ktypes.StreamStatusActive; time.Sleep(100 * time.Millisecond) {
				out, err := k.DescribeStreamSummary(t.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: aws.String("s")})
				require.NoError(t, err)
				status = out.StreamDescriptionSummary.StreamStatus
			}
			assert.InDelta(t, c.stream, time.Since(start), float64(200*time.Millisecond), "stream, %v", c.delays)
		})
	}
}

// putIndexedTable begins to create a table, and returns a function that reads its
// status.
func putIndexedTable(t *testing.T, d *dynamodb.Client) func() dtypes.TableStatus {
	t.Helper()
	hash := []dtypes.KeySchemaElement{{AttributeName: aws.String("k"), KeyType: dtypes.KeyTypeHash}}
	_, err := d.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("indexed"), BillingMode: dtypes.BillingModePayPerRequest, KeySchema: hash,
		AttributeDefinitions: []dtypes.AttributeDefinition{{AttributeName: aws.String("k"), AttributeType: dtypes.ScalarAttributeTypeS}},
		GlobalSecondaryIndexes: []dtypes.GlobalSecondaryIndex{{
			IndexName: aws.String("index"), KeySchema: hash, Projection: &dtypes.Projection{ProjectionType: dtypes.ProjectionTypeKeysOnly},
		}},
	})
	require.NoError(t, err)
	return func() dtypes.TableStatus {
		out, err := d.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("indexed")})
		require.NoError(t, err)
		return out.Table.TableStatus
	}
}

// Reads that are not consistent, and the index, trail behind as far as is asked
// for, at the start or later.
func TestLag(t *testing.T) {
	cases := []struct {
		name         string
		options      kcltest.Options
		set          func(*kcltest.AWS)
		table, index bool // late
	}{
		{name: "none"},
		{name: "reads", options: kcltest.Options{StaleReads: time.Hour}, table: true},
		{name: "index", options: kcltest.Options{IndexLag: time.Hour}, index: true},
		{name: "reads, later", set: func(a *kcltest.AWS) { a.SetLag(time.Hour, 0) }, table: true},
		{name: "index, later", set: func(a *kcltest.AWS) { a.SetLag(0, time.Hour) }, index: true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.options.Delays = kcltest.NoDelays
				a := kcltest.New(c.options)
				if c.set != nil {
					c.set(a)
				}
				d := dynamodb.NewFromConfig(a.Config("c"))
				putIndexedTable(t, d)
				time.Sleep(time.Minute)
				_, err := d.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("indexed"), Item: key("x")})
				require.NoError(t, err)
				look := func(consistent bool) (table, index bool) {
					got, err := d.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("indexed"), Key: key("x"), ConsistentRead: &consistent})
					require.NoError(t, err)
					out, err := d.Query(t.Context(), &dynamodb.QueryInput{
						TableName: aws.String("indexed"), IndexName: aws.String("index"), KeyConditionExpression: aws.String("k = :k"),
						ExpressionAttributeValues: map[string]dtypes.AttributeValue{":k": &dtypes.AttributeValueMemberS{Value: "x"}},
					})
					require.NoError(t, err)
					return got.Item != nil, len(out.Items) > 0
				}
				table, index := look(false)
				assert.Equal(t, !c.table, table)
				if !c.table { // which would make a query late too
					assert.Equal(t, !c.index, index)
				}
				table, _ = look(true)
				assert.True(t, table, "a consistent read is never late")
				time.Sleep(2 * time.Hour)
				table, index = look(false)
				assert.True(t, table && index, "nothing is late for ever")
			})
		})
	}
}

// A shard serves five reads a second, unless quotas are lifted.
func TestThrottling(t *testing.T) {
	for _, lifted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a := kcltest.New(kcltest.Options{NoThrottling: lifted})
			require.NoError(t, a.CreateStream("s", 1))
			k := kinesis.NewFromConfig(a.Config("c"), func(o *kinesis.Options) { o.Retryer = aws.NopRetryer{} })
			it, err := k.GetShardIterator(t.Context(), &kinesis.GetShardIteratorInput{
				StreamName: aws.String("s"), ShardId: aws.String("shardId-000000000000"), ShardIteratorType: ktypes.ShardIteratorTypeTrimHorizon,
			})
			require.NoError(t, err)
			refused := 0
			for range 10 {
				if _, err := k.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: it.ShardIterator}); err != nil {
					refused++
				}
			}
			assert.Equal(t, lifted, refused == 0, "%d of 10 refused", refused)
		})
	}
}

// A client's account and region are those of its key and its configuration, over
// HTTP those of its signature.
func TestAccountsAndRegions(t *testing.T) {
	a := kcltest.New(kcltest.Options{Accounts: map[string]string{"other": "210987654321"}, Delays: kcltest.NoDelays})
	require.NoError(t, a.CreateStream("orders", 1))
	arn := func(cfg aws.Config) (string, error) {
		out, err := kinesis.NewFromConfig(cfg).DescribeStreamSummary(t.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: aws.String("orders")})
		if err != nil {
			return "", err
		}
		return *out.StreamDescriptionSummary.StreamARN, nil
	}
	got, err := arn(a.Config("one"))
	require.NoError(t, err)
	assert.Equal(t, "arn:aws:kinesis:us-east-1:123456789012:stream/orders", got)

	var notFound *ktypes.ResourceNotFoundException
	_, err = arn(a.Config("other"))
	require.ErrorAs(t, err, &notFound)
	assert.Contains(t, notFound.ErrorMessage(), "account 210987654321")
	elsewhere := a.Config("one")
	elsewhere.Region = "eu-west-1"
	_, err = arn(elsewhere)
	require.ErrorAs(t, err, &notFound, "the region is that of the signature")

	// An in-memory client is known by its name, whatever it signs with.
	renamed := a.Config("one")
	renamed.Credentials = a.Config("other").Credentials
	got, err = arn(renamed)
	require.NoError(t, err)
	assert.Equal(t, 1, a.Count("DescribeStreamSummary", "other"))
	assert.Contains(t, got, ":123456789012:")
}

// What a stream holds: shards and their parents, records in order.
func TestShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := kcltest.New(kcltest.Options{})
		require.NoError(t, a.CreateStream("s", 2))
		require.Error(t, a.CreateStream("s", 2), "the name is taken")
		require.Error(t, a.CreateStream("t", 0))
		k := kinesis.NewFromConfig(a.Config("c"))
		put, err := k.PutRecord(t.Context(), &kinesis.PutRecordInput{
			StreamName: aws.String("s"), PartitionKey: aws.String("p"), ExplicitHashKey: aws.String("0"), Data: []byte("d"),
		})
		require.NoError(t, err)
		_, err = k.MergeShards(t.Context(), &kinesis.MergeShardsInput{
			StreamName: aws.String("s"), ShardToMerge: aws.String("shardId-000000000000"), AdjacentShardToMerge: aws.String("shardId-000000000001"),
		})
		require.NoError(t, err)
		start := time.Now()
		time.Sleep(5 * time.Second)
		got := a.Shards("s")
		require.Len(t, got, 3)
		require.Len(t, got[0].Records, 1)
		assert.WithinDuration(t, start, got[0].Records[0].Arrived, time.Second)
		got[0].Records[0].Arrived = time.Time{}
		assert.Equal(t, []kcltest.StoredShard{
			{ID: "shardId-000000000000", Closed: true, Records: []kcltest.StoredRecord{{SequenceNumber: *put.SequenceNumber, PartitionKey: "p", Data: []byte("d")}}},
			{ID: "shardId-000000000001", Closed: true, Records: []kcltest.StoredRecord{}},
			{ID: "shardId-000000000002", Parents: []string{"shardId-000000000000", "shardId-000000000001"}, Records: []kcltest.StoredRecord{}},
		}, got)
	})
}

// A call whose connection breaks counts as an error; one that names several
// tables counts for the first.
func TestCountsOfOddCalls(t *testing.T) {
	var calls []kcltest.Call
	a := kcltest.New(kcltest.Options{Delays: kcltest.NoDelays, OnCall: func(c kcltest.Call) { calls = append(calls, c) }})
	d := dynamodb.NewFromConfig(a.Config("c"), func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	a.Intercept(func(context.Context, wire.Info, func() wire.Answer) (wire.Answer, error) {
		return wire.Answer{Status: 200}, errors.New("cable cut")
	})
	_, err := d.ListTables(t.Context(), &dynamodb.ListTablesInput{})
	require.ErrorContains(t, err, "cable cut")
	a.Intercept(nil)
	_, err = d.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]dtypes.KeysAndAttributes{
		"a": {Keys: []map[string]dtypes.AttributeValue{key("x")}}, "b": {Keys: []map[string]dtypes.AttributeValue{key("x")}},
	}})
	require.Error(t, err)
	assert.Equal(t, []kcltest.CallCount{
		{Client: "c", Service: "dynamodb", Operation: "BatchGetItem", Resource: "a", Calls: 1, Errors: 1},
		{Client: "c", Service: "dynamodb", Operation: "ListTables", Calls: 1, Errors: 1},
	}, a.Calls())
	require.Len(t, calls, 2)
	assert.Zero(t, calls[0].Status)
	assert.Equal(t, []string{"a", "b"}, calls[1].Resources)
}

// OnCall is told how long a call took, the hook's part included.
func TestOnCallTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took time.Duration
		a := kcltest.New(kcltest.Options{OnCall: func(c kcltest.Call) { took = c.Took }})
		a.Intercept(func(_ context.Context, _ wire.Info, run func() wire.Answer) (wire.Answer, error) {
			time.Sleep(3 * time.Second)
			return run(), nil
		})
		_, err := kinesis.NewFromConfig(a.Config("c")).ListStreams(t.Context(), &kinesis.ListStreamsInput{})
		require.NoError(t, err)
		assert.Equal(t, 3*time.Second, took)
	})
}

// A call that is carried out after its caller has gone is not answered.
func TestCallerHasGone(t *testing.T) {
	a := kcltest.New(kcltest.Options{Delays: kcltest.NoDelays})
	ctx, cancel := context.WithCancel(t.Context())
	a.Intercept(func(_ context.Context, _ wire.Info, run func() wire.Answer) (wire.Answer, error) {
		ans := run()
		cancel()
		return ans, nil
	})
	d := dynamodb.NewFromConfig(a.Config("c"))
	_, err := d.ListTables(ctx, &dynamodb.ListTablesInput{})
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 1, a.Count("ListTables"))
}

// Only the tables that are asked for are dumped; without names all are.
func TestDumpByName(t *testing.T) {
	a := kcltest.New(kcltest.Options{Delays: kcltest.NoDelays})
	d := dynamodb.NewFromConfig(a.Config("c"))
	putTable(t, d, "one")
	putTable(t, d, "two")
	var some, all strings.Builder
	require.NoError(t, a.DumpTables(&some, "one"))
	require.NoError(t, a.DumpTables(&all))
	assert.NotContains(t, some.String(), `"two"`)
	for _, dump := range []string{some.String(), all.String()} {
		assert.Contains(t, dump, `"one"`)
	}
	assert.Contains(t, all.String(), `"two"`)
}

// Ids differ from call to call and follow the seed.
func TestRequestIDs(t *testing.T) {
	ids := func(seed uint64, client string) (out []string) {
		a := kcltest.New(kcltest.Options{Seed: seed})
		cfg := a.Config(client)
		inner := cfg.HTTPClient
		cfg.HTTPClient = roundTrip(func(r *http.Request) (*http.Response, error) {
			resp, err := inner.Do(r)
			require.NoError(t, err)
			out = append(out, resp.Header.Get("X-Amzn-Requestid"))
			return resp, nil
		})
		for range 2 {
			_, err := dynamodb.NewFromConfig(cfg).ListTables(t.Context(), &dynamodb.ListTablesInput{})
			require.NoError(t, err)
		}
		return out
	}
	first := ids(1, "a")
	assert.NotEqual(t, first[0], first[1])
	assert.Equal(t, first, ids(1, "a"))
	assert.NotEqual(t, first, ids(1, "b"))
	assert.NotEqual(t, first, ids(2, "a"))
}

// Requests that no SDK makes: without a signature, without an operation, too
// large.
func TestRefusals(t *testing.T) {
	url := listen(t, kcltest.New(kcltest.Options{}))
	send := func(change func(*http.Request), body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("X-Amz-Target", "DynamoDB_20120810.ListTables")
		r.Header.Set("Content-Type", "application/x-amz-json-1.0; charset=utf-8")
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=someone/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=00")
		change(r)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		var b strings.Builder
		require.NoError(t, resp.Write(&b))
		return resp.StatusCode, b.String()
	}
	status, _ := send(func(*http.Request) {}, "{}")
	assert.Equal(t, 200, status)
	status, text := send(func(r *http.Request) { r.Header.Del("Authorization") }, "{}")
	assert.Equal(t, 400, status)
	assert.Contains(t, text, "com.amazon.coral.service#MissingAuthenticationTokenException")
	status, text = send(func(r *http.Request) { r.Header.Set("X-Amz-Target", "DynamoDB_20120810.") }, "{}")
	assert.Equal(t, 400, status)
	assert.Contains(t, text, "UnknownOperationException")
	status, _ = send(func(*http.Request) {}, `{"ExclusiveStartTableName":"`+strings.Repeat("x", 16<<20)+`"}`)
	assert.Equal(t, 413, status)
}

// A request that breaks off is not answered as if it had come whole.
func TestBrokenRequest(t *testing.T) {
	url := listen(t, kcltest.New(kcltest.Options{}))
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	defer c.Close()
	_, err = fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nX-Amz-Target: DynamoDB_20120810.ListTables\r\nTransfer-Encoding: chunked\r\n\r\nno length\r\n")
	require.NoError(t, err)
	answer, err := io.ReadAll(c)
	require.NoError(t, err)
	assert.NotContains(t, string(answer), "200 OK")
}
