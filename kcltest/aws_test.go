package kcltest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	ktypes "github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/kcltest"
)

// listen serves a on a port of this host and returns its address.
func listen(t *testing.T, a *kcltest.AWS) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := a.Server()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return "http://" + l.Addr().String()
}

func putTable(t *testing.T, c *dynamodb.Client, name string) {
	t.Helper()
	_, err := c.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName:            aws.String(name),
		BillingMode:          dtypes.BillingModePayPerRequest,
		KeySchema:            []dtypes.KeySchemaElement{{AttributeName: aws.String("k"), KeyType: dtypes.KeyTypeHash}},
		AttributeDefinitions: []dtypes.AttributeDefinition{{AttributeName: aws.String("k"), AttributeType: dtypes.ScalarAttributeTypeS}},
	})
	require.NoError(t, err)
}

func key(k string) map[string]dtypes.AttributeValue {
	return map[string]dtypes.AttributeValue{"k": &dtypes.AttributeValueMemberS{Value: k}}
}

// An unmodified SDK client consumes a stream and writes a table in a bubble,
// where five minutes pass at once and an iterator expires on time.
func TestMemoryClientInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := kcltest.New(kcltest.Options{Latency: 20 * time.Millisecond})
		require.NoError(t, a.CreateStream("orders", 2))
		c := kinesis.NewFromConfig(a.Config("reader"))
		start := time.Now()
		_, err := c.PutRecord(t.Context(), &kinesis.PutRecordInput{StreamName: aws.String("orders"), PartitionKey: aws.String("a"), Data: []byte("one")})
		require.NoError(t, err)
		took := time.Since(start)
		assert.True(t, took >= 10*time.Millisecond && took <= 30*time.Millisecond, took)

		it, err := c.GetShardIterator(t.Context(), &kinesis.GetShardIteratorInput{
			StreamName: aws.String("orders"), ShardId: aws.String("shardId-000000000000"), ShardIteratorType: ktypes.ShardIteratorTypeTrimHorizon,
		})
		require.NoError(t, err)
		out, err := c.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: it.ShardIterator})
		require.NoError(t, err)
		require.Len(t, out.Records, 1)
		assert.Equal(t, "one", string(out.Records[0].Data))

		time.Sleep(5*time.Minute + time.Second)
		_, err = c.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: it.ShardIterator})
		var expired *ktypes.ExpiredIteratorException
		require.ErrorAs(t, err, &expired)

		shards := a.Shards("orders")
		require.Len(t, shards, 2)
		require.Len(t, shards[0].Records, 1)
		assert.Equal(t, "one", string(shards[0].Records[0].Data))
		assert.Nil(t, a.Shards("nothing"))
	})
}

// A call whose context ends while it travels is given up.
func TestMemoryClientHonoursContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := kcltest.New(kcltest.Options{Latency: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := kinesis.NewFromConfig(a.Config("c")).ListStreams(ctx, &kinesis.ListStreamsInput{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(start))
		assert.Zero(t, a.Count("ListStreams"))
	})
}

// Calls are counted by client, operation and resource.
func TestCalls(t *testing.T) {
	a := kcltest.New(kcltest.Options{Delays: kcltest.NoDelays})
	require.NoError(t, a.CreateStream("orders", 1))
	for _, name := range []string{"one", "two"} {
		c := kinesis.NewFromConfig(a.Config(name))
		_, err := c.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: aws.String("orders")})
		require.NoError(t, err)
	}
	d := dynamodb.NewFromConfig(a.Config("two"))
	_, err := d.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("absent"), Key: key("x")})
	require.Error(t, err)

	assert.Equal(t, []kcltest.CallCount{
		{Client: "one", Service: "kinesis", Operation: "ListShards", Resource: "orders", Calls: 1},
		{Client: "two", Service: "dynamodb", Operation: "GetItem", Resource: "absent", Calls: 1, Errors: 1},
		{Client: "two", Service: "kinesis", Operation: "ListShards", Resource: "orders", Calls: 1},
	}, a.Calls())
	assert.Equal(t, 2, a.Count("ListShards"))
	assert.Equal(t, 1, a.Count("ListShards", "one"))
	a.ResetCalls()
	assert.Empty(t, a.Calls())
}

// aws-dynamodb#1: every answer, errors too, has a request id and the right
// checksum, so that a Go client logs no warning; a wrong or missing checksum
// does not fail a Go call, one that is no number does.
func TestDynamoDBChecksums(t *testing.T) {
	a := kcltest.New(kcltest.Options{Delays: kcltest.NoDelays})
	url := listen(t, a)
	call := func(change func(http.Header)) (log string, found, missing error) {
		var b strings.Builder
		c := dynamodb.New(dynamodb.Options{
			Region: "us-east-1", BaseEndpoint: aws.String(url), Logger: logging.NewStandardLogger(&b),
			Credentials: credentials.NewStaticCredentialsProvider("x", "y", ""),
			HTTPClient: roundTrip(func(r *http.Request) (*http.Response, error) {
				resp, err := http.DefaultClient.Do(r)
				if err != nil {
					return nil, err
				}
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				assert.Regexp(t, `^[0-9A-Z]{52}$`, resp.Header.Get("X-Amzn-Requestid"))
				assert.Equal(t, strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10), resp.Header.Get("X-Amz-Crc32"))
				resp.Body = io.NopCloser(strings.NewReader(string(body)))
				change(resp.Header)
				return resp, nil
			}),
		})
		_, found = c.ListTables(t.Context(), &dynamodb.ListTablesInput{})
		_, missing = c.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("absent"), Key: key("x")})
		return b.String(), found, missing
	}

	log, found, missing := call(func(http.Header) {})
	require.NoError(t, found)
	var rnf *dtypes.ResourceNotFoundException
	require.ErrorAs(t, missing, &rnf)
	assert.Empty(t, log)

	_, found, _ = call(func(h http.Header) { h.Set("X-Amz-Crc32", "1") })
	require.NoError(t, found)
	_, found, _ = call(func(h http.Header) { h.Del("X-Amz-Crc32") })
	require.NoError(t, found)
	_, found, _ = call(func(h http.Header) { h.Set("X-Amz-Crc32", "none") })
	require.Error(t, found)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) Do(r *http.Request) (*http.Response, error) { return f(r) }

// aws-kinesis#1: an unknown stream, on the wire.
func TestKinesisErrorOnTheWire(t *testing.T) {
	url := listen(t, kcltest.New(kcltest.Options{}))
	resp, body := post(t, http.DefaultClient, url, "Kinesis_20131202.DescribeStreamSummary", "application/x-amz-json-1.1", []byte(`{"StreamName":"X"}`))
	assert.Equal(t, 400, resp.StatusCode)
	assert.JSONEq(t, `{"__type":"ResourceNotFoundException","message":"Stream X under account 123456789012 not found."}`, string(body))
	assert.Regexp(t, `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`, resp.Header.Get("X-Amzn-Requestid"))
	assert.NotEmpty(t, resp.Header.Get("X-Amz-Id-2"))
}

func post(t *testing.T, c *http.Client, url, target, contentType string, body []byte) (*http.Response, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(string(body)))
	require.NoError(t, err)
	r.Header.Set("X-Amz-Target", target)
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=someone/20260101/us-east-1/kinesis/aws4_request, SignedHeaders=host, Signature=00")
	resp, err := c.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, out
}

// aws-kinesis#55: one cleartext port takes HTTP/2 by prior knowledge with CBOR
// maps of indefinite length, and HTTP/1.1 with JSON.
func TestOnePortForAllClients(t *testing.T) {
	a := kcltest.New(kcltest.Options{})
	require.NoError(t, a.CreateStream("orders", 1))
	url := listen(t, a)

	h2 := new(http.Protocols)
	h2.SetUnencryptedHTTP2(true)
	java := &http.Client{Transport: &http.Transport{Protocols: h2}}
	t.Cleanup(java.CloseIdleConnections)
	// {_ "StreamName": "orders"} with an indefinite map, as the Java SDK sends it.
	body := append([]byte{0xbf}, must(cbor.Marshal("StreamName"))...)
	body = append(append(body, must(cbor.Marshal("orders"))...), 0xff)
	resp, out := post(t, java, url, "Kinesis_20131202.ListShards", "application/x-amz-cbor-1.1", body)
	assert.Equal(t, 200, resp.StatusCode)
	assert.Equal(t, 2, resp.ProtoMajor)
	assert.Equal(t, "application/x-amz-cbor-1.1", resp.Header.Get("Content-Type"))
	var decoded struct{ Shards []struct{ ShardId string } }
	require.NoError(t, cbor.Unmarshal(out, &decoded))
	require.Len(t, decoded.Shards, 1)
	assert.Equal(t, "shardId-000000000000", decoded.Shards[0].ShardId)

	resp, out = post(t, http.DefaultClient, url, "Kinesis_20131202.ListShards", "application/x-amz-json-1.1", []byte(`{"StreamName":"orders"}`))
	assert.Equal(t, 1, resp.ProtoMajor)
	require.NoError(t, json.Unmarshal(out, &decoded))
	assert.Len(t, decoded.Shards, 1)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// What is no call of a service is refused as the services do it.
func TestStrangeRequests(t *testing.T) {
	url := listen(t, kcltest.New(kcltest.Options{}))
	cases := []struct {
		name, target, contentType, body, want string
		status                                int
	}{
		{"unknown operation", "DynamoDB_20120810.Nothing", "application/x-amz-json-1.0", "{}", "UnknownOperationException", 400},
		{"unknown operation of Kinesis", "Kinesis_20131202.Nothing", "application/x-amz-json-1.1", "{}", "UnknownOperationException", 400},
		{"unknown content type", "DynamoDB_20120810.ListTables", "text/plain", "{}", "", 404},
		{"no JSON", "DynamoDB_20120810.ListTables", "application/x-amz-json-1.0", "{", "SerializationException", 400},
		{"no JSON for Kinesis", "Kinesis_20131202.ListStreams", "application/x-amz-json-1.1", "{", "SerializationException", 400},
		{"no target", "", "application/x-amz-json-1.1", "{}", "UnknownOperationException", 400},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			resp, body := post(t, http.DefaultClient, url, c.target, c.contentType, []byte(c.body))
			assert.Equal(t, c.status, resp.StatusCode)
			assert.Contains(t, string(body), c.want)
		})
	}
	resp, err := http.Get(url) //nolint:noctx
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, 403, resp.StatusCode)
}

// aws-dynamodb#38,51: what an unmodified Go client retries, and what reaches the
// caller after one call.
func TestWhatTheSDKRetries(t *testing.T) {
	cases := []struct {
		code  string
		calls int
	}{
		{"ThrottlingException", 4}, {"ProvisionedThroughputExceededException", 4}, {"RequestLimitExceeded", 4}, {"LimitExceededException", 4},
		{"ConditionalCheckFailedException", 1}, {"TransactionConflictException", 1}, {"ResourceInUseException", 1},
	}
	for _, c := range cases {
		t.Run(c.code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := kcltest.New(kcltest.Options{Delays: kcltest.NoDelays})
				d := dynamodb.NewFromConfig(a.Config("c"))
				putTable(t, d, "table")
				a.Intercept(func(ctx context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
					return (&wire.Error{Status: 400, Type: "com.amazonaws.dynamodb.v20120810#" + c.code, Message: "scripted"}).Answer(wire.JSON10), nil
				})
				_, err := d.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("table"), Item: key("x")})
				var api smithy.APIError
				require.ErrorAs(t, err, &api)
				assert.Equal(t, c.code, api.ErrorCode())
				assert.Equal(t, c.calls, a.Count("PutItem"))
			})
		})
	}
}

// aws-dynamodb#39: a write whose answer is lost is sent again by the SDK and
// meets its own effect.
func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := kcltest.New(kcltest.Options{Delays: kcltest.NoDelays})
		d := dynamodb.NewFromConfig(a.Config("c"))
		putTable(t, d, "table")
		lose := func(op string) {
			var once sync.Once
			a.Intercept(func(ctx context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
				ans := run()
				var err error
				if i.Operation == op {
					once.Do(func() { err = fmt.Errorf("answer lost") })
				}
				return ans, err
			})
		}
		create := &dynamodb.PutItemInput{TableName: aws.String("table"), Item: key("x"), ConditionExpression: aws.String("attribute_not_exists(k)")}
		lose("PutItem")
		_, err := d.PutItem(t.Context(), create)
		var failed *dtypes.ConditionalCheckFailedException
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, 2, a.Count("PutItem"))

		lose("TransactWriteItems")
		_, err = d.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []dtypes.TransactWriteItem{
			{Put: &dtypes.Put{TableName: aws.String("table"), Item: key("y"), ConditionExpression: aws.String("attribute_not_exists(k)")}},
		}})
		require.NoError(t, err, "the token tells the service that it is the same call")
		assert.Equal(t, 2, a.Count("TransactWriteItems"))
	})
}

// aws-kinesis#60: with the same seed, two runs in a bubble get the same answers
// to the byte, request ids and iterators included; aws-kinesis#4: none of them
// has a stream id.
func TestSameSeedSameAnswers(t *testing.T) {
	run := func(seed uint64) (out []string) {
		synctest.Test(t, func(t *testing.T) {
			a := kcltest.New(kcltest.Options{Seed: seed, Latency: 5 * time.Millisecond})
			cfg := a.Config("c")
			inner := cfg.HTTPClient
			cfg.HTTPClient = roundTrip(func(r *http.Request) (*http.Response, error) {
				resp, err := inner.Do(r)
				if err != nil {
					return nil, err
				}
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				resp.Body = io.NopCloser(strings.NewReader(string(body)))
				out = append(out, fmt.Sprint(time.Now(), resp.Header, string(body)))
				return resp, nil
			})
			c := kinesis.NewFromConfig(cfg)
			_, err := c.CreateStream(t.Context(), &kinesis.CreateStreamInput{StreamName: aws.String("s"), ShardCount: aws.Int32(3)})
			require.NoError(t, err)
			time.Sleep(time.Minute)
			for _, k := range []string{"a", "e", "f"} {
				_, err := c.PutRecord(t.Context(), &kinesis.PutRecordInput{StreamName: aws.String("s"), PartitionKey: aws.String(k), Data: []byte(k)})
				require.NoError(t, err)
			}
			_, err = c.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: aws.String("s"), MaxResults: aws.Int32(2)})
			require.NoError(t, err)
			it, err := c.GetShardIterator(t.Context(), &kinesis.GetShardIteratorInput{StreamName: aws.String("s"), ShardId: aws.String("shardId-000000000000"), ShardIteratorType: ktypes.ShardIteratorTypeTrimHorizon})
			require.NoError(t, err)
			_, err = c.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: it.ShardIterator})
			require.NoError(t, err)
			_, err = c.DescribeStreamSummary(t.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: aws.String("s")})
			require.NoError(t, err)
		})
		return out
	}
	first := run(1)
	assert.Equal(t, first, run(1))
	assert.NotEqual(t, first, run(2))
	for _, answer := range first {
		assert.NotRegexp(t, regexp.MustCompile(`"StreamId"`), answer)
	}
}

// Calls made at one instant arrive at different ones, however alike they are: else
// the Go scheduler would order them, each time anew.
func TestNoTwoCallsArriveAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := kcltest.New(kcltest.Options{Latency: 5 * time.Millisecond, Delays: kcltest.NoDelays})
		d := dynamodb.NewFromConfig(a.Config("c"))
		putTable(t, d, "table")
		var mu sync.Mutex
		arrived := map[time.Time]bool{}
		a.Intercept(func(_ context.Context, _ wire.Info, run func() wire.Answer) (wire.Answer, error) {
			mu.Lock()
			defer mu.Unlock()
			arrived[time.Now()] = true
			return run(), nil
		})
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				in := key(fmt.Sprint("shard-", i/10))
				in["owner"] = &dtypes.AttributeValueMemberS{Value: fmt.Sprint("w", i%10)}
				_, err := d.PutItem(t.Context(), &dynamodb.PutItemInput{
					TableName: aws.String("table"), Item: in,
					ConditionExpression: aws.String("attribute_not_exists(k) OR k = :k"), ExpressionAttributeValues: map[string]dtypes.AttributeValue{":k": in["k"]},
				})
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		assert.Len(t, arrived, 100)
	})
}

// A whole table survives a dump and a load.
func TestDumpAndLoad(t *testing.T) {
	a := kcltest.New(kcltest.Options{Delays: kcltest.NoDelays})
	d := dynamodb.NewFromConfig(a.Config("c"))
	putTable(t, d, "table")
	_, err := d.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("table"), Item: key("x")})
	require.NoError(t, err)
	var dump strings.Builder
	require.NoError(t, a.DumpTables(&dump, "table"))

	b := kcltest.New(kcltest.Options{Delays: kcltest.NoDelays})
	require.NoError(t, b.LoadTables(strings.NewReader(dump.String())))
	got, err := dynamodb.NewFromConfig(b.Config("c")).GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("table"), Key: key("x")})
	require.NoError(t, err)
	assert.Equal(t, key("x"), got.Item)
}

// OnCall and the logger learn of what happens.
func TestOnCall(t *testing.T) {
	var calls []kcltest.Call
	a := kcltest.New(kcltest.Options{Logger: slog.New(slog.DiscardHandler), OnCall: func(c kcltest.Call) { calls = append(calls, c) }})
	_, err := kinesis.NewFromConfig(a.Config("c")).DescribeStreamSummary(t.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: aws.String("s")})
	require.Error(t, err)
	require.Len(t, calls, 1)
	assert.Equal(t, "ResourceNotFoundException", calls[0].Code)
	assert.Equal(t, []string{"s"}, calls[0].Resources)
	assert.Equal(t, 400, calls[0].Status)
}
