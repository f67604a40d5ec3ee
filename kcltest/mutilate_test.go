package kcltest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/interchange"
	"github.com/go-kcl/kcl/kcltest"
)

// hangTimeout bounds, in real time, what a world does: it is never near it.
const hangTimeout = time.Minute

// mutilated is a request to be mutilated.
type mutilated struct {
	operation, body string
	tables          []byte // further tables that it is about
}

// mutilatedRequests are fullRequests and what Java workers sent.
func mutilatedRequests(t testing.TB) []mutilated {
	t.Helper()
	all := kcltest.New(kcltest.Options{Delays: kcltest.NoDelays})
	for _, state := range interchange.States(t) {
		require.NoError(t, all.LoadTables(bytes.NewReader(interchange.State(t, state))))
	}
	var dump bytes.Buffer
	require.NoError(t, all.DumpTables(&dump))
	var tables map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(dump.Bytes(), &tables))

	var out []mutilated
	for _, r := range fullRequests {
		out = append(out, mutilated{operation: r.operation, body: r.body})
	}
	for _, r := range interchange.Recordings(t) {
		body := parseNode(t, string(r.Body))
		named := map[string]json.RawMessage{}
		for _, n := range body.all() {
			for i, name := range n.names {
				if name == "StreamName" {
					n.kids[i].text = "orders"
				}
			}
			if table, ok := tables[n.text]; ok && n.kind == '"' {
				named[n.text] = table
			}
		}
		load, err := json.Marshal(named)
		require.NoError(t, err)
		out = append(out, mutilated{r.Operation, string(body.appendJSON(nil)), load})
	}
	return out
}

// Whatever a client sends, the answer is a success, or a refusal that the operation
// documents and that leaves everything as it was.
func TestMutilatedRequests(t *testing.T) {
	for i, r := range mutilatedRequests(t) {
		worlds := 6
		if i >= len(fullRequests) {
			if worlds = 1; i%5 > 0 { // to take little time
				continue
			}
		}
		rnd := rand.NewChaCha8([32]byte{byte(i), byte(i >> 8)})
		for range worlds { // for some are emptied soon
			inMutilated(t, r, func(w *mutilatedWorld) {
				for _, asCBOR := range []bool{false, true, false, true, false, false} {
					c := make(choices, 200)
					_, _ = rnd.Read(c) // always full
					w.try(r, asCBOR, c)
				}
			})
		}
	}
}

func FuzzMutilatedRequests(f *testing.F) {
	all := mutilatedRequests(f)
	for i := range fullRequests {
		f.Add(uint16(i), false, []byte("some choices"))
		f.Add(uint16(i), true, []byte("and more choices of what to change"))
	}
	f.Fuzz(func(t *testing.T, which uint16, asCBOR bool, how []byte) {
		r := all[int(which)%len(all)]
		inMutilated(t, r, func(w *mutilatedWorld) { w.try(r, asCBOR, how) })
	})
}

// Every operation is mutilated.
func TestFullRequestsCoverEveryOperation(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range fullRequests {
		seen[r.operation] = true
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(clientErrors)), slices.Collect(maps.Keys(seen)))
}

// mutilatedWorld is a table and a stream with something in them, served over HTTP.
type mutilatedWorld struct {
	*testing.T
	*kcltest.AWS
	handler http.Handler
	tokens  map[string]string // what requests name by $
	before  map[string]string // the state of each service, "" if unknown
	judges  map[string]*judge
}

func inMutilated(t *testing.T, r mutilated, do func(*mutilatedWorld)) {
	t.Helper()
	hang := time.AfterFunc(hangTimeout, func() { panic("no end of " + r.operation + " " + r.body) })
	defer hang.Stop()
	synctest.Test(t, func(t *testing.T) {
		a := kcltest.New(kcltest.Options{Delays: kcltest.NoDelays, NoThrottling: true})
		w := &mutilatedWorld{T: t, AWS: a, handler: a.Handler(), before: map[string]string{},
			judges: map[string]*judge{"dynamodb": newJudge("dynamodb"), "kinesis": newJudge("kinesis")}}
		if len(r.tables) > 0 {
			require.NoError(t, a.LoadTables(bytes.NewReader(r.tables)))
		}
		w.setUp()
		do(w)
	})
}

func (w *mutilatedWorld) setUp() {
	w.ok("CreateTable", `{"TableName":"leases","BillingMode":"PAY_PER_REQUEST","Tags":[{"Key":"a","Value":"b"}],
		"AttributeDefinitions":[{"AttributeName":"leaseKey","AttributeType":"S"},{"AttributeName":"leaseOwner","AttributeType":"S"}],
		"KeySchema":[{"AttributeName":"leaseKey","KeyType":"HASH"}],
		"GlobalSecondaryIndexes":[{"IndexName":"owners","KeySchema":[{"AttributeName":"leaseOwner","KeyType":"HASH"},{"AttributeName":"leaseKey","KeyType":"RANGE"}],"Projection":{"ProjectionType":"KEYS_ONLY"}}]}`)
	for _, k := range []string{"a", "b", "c"} {
		w.ok("PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"`+k+`"},"leaseOwner":{"S":"A"},"leaseCounter":{"N":"1"},"a":{"S":"A"},"b":{"L":[{"S":"A"}]},"d":{"L":[{"N":"1"}]},"f":{"SS":["A","B"]},"x":{"L":[{"M":{"a":{"SS":["a"]}}}]}}}`)
	}
	w.ok("CreateStream", `{"StreamName":"orders","ShardCount":2}`)
	time.Sleep(2 * time.Second)
	put := w.ok("PutRecord", `{"StreamName":"orders","PartitionKey":"a","ExplicitHashKey":"1","Data":"eA=="}`)
	w.ok("SplitShard", `{"StreamName":"orders","ShardToSplit":"shardId-000000000000","NewStartingHashKey":"85070591730234615865843651857942052864"}`)
	time.Sleep(2 * time.Second)
	w.ok("PutRecord", `{"StreamName":"orders","PartitionKey":"a","Data":"eA=="}`)
	w.ok("CreateStream", `{"StreamName":"payments","ShardCount":1}`)
	time.Sleep(2 * time.Second)
	w.tokens = map[string]string{
		"$number":   put["SequenceNumber"].(string),
		"$iterator": w.ok("GetShardIterator", `{"StreamName":"orders","ShardId":"shardId-000000000000","ShardIteratorType":"TRIM_HORIZON"}`)["ShardIterator"].(string),
		"$shards":   w.ok("ListShards", `{"StreamName":"orders","MaxResults":1}`)["NextToken"].(string),
		"$streams":  w.ok("ListStreams", `{"Limit":1}`)["NextToken"].(string),
	}
}

var kinesisOperation = regexp.MustCompile("Stream|Shard|Record|Limits")

// serviceOf is the service that has an operation.
func serviceOf(operation string) string {
	if kinesisOperation.MatchString(operation) {
		return "kinesis"
	}
	return "dynamodb"
}

// call sends a body to an operation.
func (w *mutilatedWorld) call(operation, contentType string, body []byte) *http.Response {
	service := serviceOf(operation)
	r := httptest.NewRequest(http.MethodPost, "http://aws/", bytes.NewReader(body))
	r.Header.Set("X-Amz-Target", map[string]string{"dynamodb": "DynamoDB_20120810.", "kinesis": "Kinesis_20131202."}[service]+operation)
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20000101/us-east-1/"+service+"/aws4_request, SignedHeaders=host, Signature=0")
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	return rec.Result()
}

// ok sends what must succeed, and returns the answer.
func (w *mutilatedWorld) ok(operation, body string) map[string]any {
	w.Helper()
	a := w.call(operation, "application/json", []byte(body))
	text, err := io.ReadAll(a.Body)
	require.NoError(w, err)
	require.Equal(w, 200, a.StatusCode, "%s %s: %s", operation, body, text)
	var out map[string]any
	if len(text) > 0 {
		require.NoError(w, json.Unmarshal(text, &out))
	}
	return out
}

// state is all that a service holds.
func (w *mutilatedWorld) state(service string) string {
	w.Helper()
	var b bytes.Buffer
	if service == "dynamodb" {
		require.NoError(w, w.DumpTables(&b))
		for _, name := range w.ok("ListTables", `{}`)["TableNames"].([]any) {
			for _, index := range w.indexes(name.(string)) {
				fmt.Fprintln(&b, w.ok("Scan", fmt.Sprintf(`{"TableName":%q,"IndexName":%q}`, name, index)))
			}
			fmt.Fprintln(&b, w.ok("DescribeContinuousBackups", fmt.Sprintf(`{"TableName":%q}`, name)),
				w.ok("ListTagsOfResource", fmt.Sprintf(`{"ResourceArn":"arn:aws:dynamodb:us-east-1:123456789012:table/%s"}`, name)))
		}
		return b.String()
	}
	for _, name := range w.ok("ListStreams", `{"Limit":10000}`)["StreamNames"].([]any) {
		in := fmt.Sprintf(`{"StreamName":%q}`, name)
		fmt.Fprintln(&b, w.ok("DescribeStreamSummary", in), w.ok("ListShards", in), w.ok("ListTagsForStream", in), w.Shards(name.(string)))
	}
	return b.String()
}

// indexes are the names of a table's indexes.
func (w *mutilatedWorld) indexes(table string) (names []string) {
	list, _ := w.ok("DescribeTable", fmt.Sprintf(`{"TableName":%q}`, table))["Table"].(map[string]any)["GlobalSecondaryIndexes"].([]any)
	for _, x := range list {
		names = append(names, x.(map[string]any)["IndexName"].(string))
	}
	return names
}

// loads fails unless the tables are such as could have been made by whole requests.
func (w *mutilatedWorld) loads(after string) {
	w.Helper()
	var stored, loaded bytes.Buffer
	require.NoError(w, w.DumpTables(&stored))
	other := kcltest.New(kcltest.Options{})
	if assert.NoError(w, other.LoadTables(bytes.NewReader(stored.Bytes())), after) {
		require.NoError(w, other.DumpTables(&loaded))
		assert.Equal(w, stored.String(), loaded.String(), after)
	}
}

// try sends a request, changed as the choices say.
func (w *mutilatedWorld) try(r mutilated, asCBOR bool, c choices) {
	w.Helper()
	service := serviceOf(r.operation)
	root := parseNode(w, r.body)
	for _, n := range root.all() {
		if token, ok := w.tokens[n.text]; ok {
			n.text = token
		}
	}
	mutilate(root, &c)
	body, contentType := root.appendJSON(nil), map[string]string{"dynamodb": "application/x-amz-json-1.0", "kinesis": "application/x-amz-json-1.1"}[service]
	if asCBOR = asCBOR && service == "kinesis"; asCBOR {
		body, contentType = root.appendCBOR(nil, ""), "application/x-amz-cbor-1.1"
	}
	if c.below(40) == 1 { // the rest is lost
		body = body[:c.below(len(body)+1)]
	}
	shown := fmt.Sprintf("%s %.2000q", r.operation, body)

	if w.before[service] == "" {
		w.before[service] = w.state(service)
	}
	var a *http.Response
	if !assert.NotPanics(w, func() { a = w.call(r.operation, contentType, body) }, shown) {
		w.FailNow()
	}
	text, err := io.ReadAll(a.Body)
	require.NoError(w, err)
	assert.Contains(w, []int{200, 400}, a.StatusCode, "%s: %s", shown, text)
	if asCBOR {
		assert.Equal(w, contentType, a.Header.Get("Content-Type"), shown)
		text = jsonOf(w, text)
	}
	assert.True(w, utf8.Valid(text), "%s: %q", shown, text)
	code, err := w.judges[service].code(w, r.operation, a.StatusCode, a.Header, text)
	assert.NoError(w, err, "%s: %s", shown, text)
	if a.StatusCode != 200 {
		assert.Contains(w, strings.Fields(clientErrors[r.operation]+" "+commonErrors), code, "%s: %s", shown, text)
	}
	if a.StatusCode != 200 || slices.ContainsFunc([]string{"Get", "Describe", "List", "Query", "Scan", "BatchGet", "TransactGet"}, func(p string) bool { return strings.HasPrefix(r.operation, p) }) {
		assert.Equal(w, w.before[service], w.state(service), "%s: %.300s", shown, text)
	} else {
		time.Sleep(2 * time.Second) // until what it began is done
		w.before[service] = ""
		w.loads(shown)
	}
	if w.Failed() {
		w.FailNow()
	}
}

// judge reads answers as the SDK does.
type judge struct {
	client reflect.Value
	answer *http.Response
}

func newJudge(service string) *judge {
	j := new(judge)
	unchecked := []func(*middleware.Stack) error{func(s *middleware.Stack) error {
		_, _ = s.Initialize.Remove("OperationInputValidation") // what is sent does not matter; some have none
		return nil
	}}
	if service == "kinesis" {
		j.client = reflect.ValueOf(kinesis.New(kinesis.Options{Region: "us-east-1", BaseEndpoint: aws.String("http://aws"), HTTPClient: j,
			Credentials: aws.AnonymousCredentials{}, Retryer: aws.NopRetryer{}, APIOptions: unchecked}))
	} else {
		j.client = reflect.ValueOf(dynamodb.New(dynamodb.Options{Region: "us-east-1", BaseEndpoint: aws.String("http://aws"), HTTPClient: j,
			Credentials: aws.AnonymousCredentials{}, Retryer: aws.NopRetryer{}, APIOptions: unchecked}))
	}
	return j
}

// Do implements aws.HTTPClient.
func (j *judge) Do(*http.Request) (*http.Response, error) { return j.answer, nil }

// code is that of the error that an answer tells of, "" for none. It returns an error
// if the answer is not understood.
func (j *judge) code(t testing.TB, operation string, status int, h http.Header, body []byte) (string, error) {
	j.answer = &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body))}
	method := j.client.MethodByName(operation)
	require.True(t, method.IsValid(), operation)
	out := method.Call([]reflect.Value{reflect.ValueOf(context.Background()), reflect.New(method.Type().In(1).Elem())})
	err, _ := out[1].Interface().(error)
	if err == nil {
		return "", nil
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return "", err
	}
	return api.ErrorCode(), nil
}

// jsonOf is what an answer in CBOR says, in JSON.
func jsonOf(t testing.TB, text []byte) []byte {
	t.Helper()
	if len(text) == 0 {
		return nil
	}
	var v any
	require.NoError(t, cbor.Unmarshal(text, &v), "%q", text)
	out, err := json.Marshal(plain(v))
	require.NoError(t, err)
	return out
}

func plain(v any) any {
	switch v := v.(type) {
	case map[any]any:
		out := map[string]any{}
		for k, e := range v {
			out[k.(string)] = plain(e)
		}
		return out
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
		return v
	case time.Time: // 1000 times what it is: the service's milliseconds
		return float64(v.Unix()) / 1000
	}
	return v
}
