package lease

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/ddb"
	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/kcltest"
)

const testTable = "app"

// tableWorld is an emulated DynamoDB with an empty lease table, and a store on
// it.
type tableWorld struct {
	t      *testing.T
	aws    *kcltest.AWS
	client *dynamodb.Client // another's, for what other workers write
	store  *Store
}

func newTableWorld(t *testing.T, multiStream bool) *tableWorld {
	t.Helper()
	emu := kcltest.New(kcltest.Options{Delays: kcltest.NoDelays})
	w := &tableWorld{t: t, aws: emu, client: dynamodb.NewFromConfig(emu.Config("other"))}
	_, err := ddb.NewTable(ddb.TableConfig{Client: w.client, Table: testTable}).Prepare(t.Context())
	require.NoError(t, err)
	w.store = NewStore(StoreConfig{
		Client: dynamodb.NewFromConfig(emu.Config("store")), Table: testTable, MultiStream: multiStream,
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	return w
}

// put stores an item as it is; nil stores none.
func (w *tableWorld) put(it item) {
	w.t.Helper()
	if it == nil {
		return
	}
	_, err := w.client.PutItem(w.t.Context(), &dynamodb.PutItemInput{TableName: aws.String(testTable), Item: it})
	require.NoError(w.t, err)
}

// item returns the stored item, sets sorted; nil if there is none.
func (w *tableWorld) item(key string) item {
	w.t.Helper()
	out, err := w.client.GetItem(w.t.Context(), &dynamodb.GetItemInput{
		TableName: aws.String(testTable), Key: item{attrKey: &str{Value: key}}, ConsistentRead: aws.Bool(true),
	})
	require.NoError(w.t, err)
	for _, v := range out.Item {
		switch v := v.(type) {
		case *stringSet:
			slices.Sort(v.Value)
		case *types.AttributeValueMemberNS:
			slices.Sort(v.Value)
		case *types.AttributeValueMemberBS:
			slices.SortFunc(v.Value, bytes.Compare)
		}
	}
	return out.Item
}

func (w *tableWorld) delete(key string) {
	w.t.Helper()
	_, err := w.client.DeleteItem(w.t.Context(), &dynamodb.DeleteItemInput{
		TableName: aws.String(testTable), Key: item{attrKey: &str{Value: key}},
	})
	require.NoError(w.t, err)
}

// loseAnswer carries the store's next call of the operation out, then meanwhile,
// and breaks the connection before the answer arrives, so that the SDK tries
// again.
func (w *tableWorld) loseAnswer(operation string, meanwhile func()) {
	var once sync.Once
	w.aws.Intercept(func(_ context.Context, info wire.Info, run func() wire.Answer) (wire.Answer, error) {
		answer := run()
		var err error
		if info.Client == "store" && info.Operation == operation {
			once.Do(func() {
				if meanwhile != nil {
					meanwhile()
				}
				err = errors.New("connection reset by test")
			})
		}
		return answer, err
	})
}

// with returns the item with changes; a nil value removes the attribute.
func (it testItem) with(change item) item {
	out := maps.Clone(item(it))
	for name, v := range change {
		if out[name] = v; v == nil {
			delete(out, name)
		}
	}
	return out
}

type testItem item

// ownedItem is a lease of A with the least attributes.
func ownedItem() testItem {
	return testItem{
		attrKey:           &str{Value: "shardId-000000000000"},
		"entityType":      &str{Value: "LEASE"},
		attrOwner:         &str{Value: "A"},
		attrCounter:       &number{Value: "5"},
		attrOwnerSwitches: &number{Value: "2"},
		attrCheckpoint:    &str{Value: "100"},
		attrCheckpointSub: &number{Value: "3"},
	}
}

const testKey = "shardId-000000000000"

func ownedLease() Lease {
	return Lease{
		Key: testKey, ShardID: testKey, Owner: "A", Counter: 5, OwnerSwitches: 2,
		Checkpoint: kcl.Position{SequenceNumber: "100", SubSequenceNumber: 3},
	}
}

// foreign are attributes of every type that no version known to us writes.
func foreign() item {
	return item{
		"futureString":    &str{Value: ""},
		"futureNumber":    &number{Value: "12345678901234567890123456789012345678"},
		"futureBinary":    &binary{Value: []byte{0, 255}},
		"futureBool":      &types.AttributeValueMemberBOOL{Value: true},
		"futureNull":      &types.AttributeValueMemberNULL{Value: true},
		"futureStrings":   &stringSet{Value: []string{"a", "b"}},
		"futureNumbers":   &types.AttributeValueMemberNS{Value: []string{"1", "2.5"}},
		"futureBinaries":  &types.AttributeValueMemberBS{Value: [][]byte{{1}, {2}}},
		"futureList":      &types.AttributeValueMemberL{Value: []types.AttributeValue{&str{Value: "x"}, &number{Value: "1"}}},
		"futureMap":       &types.AttributeValueMemberM{Value: item{"leaseOwner": &str{Value: "no owner"}}},
		"future.dotted":   &str{Value: "dots are no path"},
		"leaseOwnerSince": &number{Value: "1"},
	}
}

// scripted is an HTTP client that answers DynamoDB calls itself. It is safe for
// concurrent use if the function is.
type scripted func(ctx context.Context, operation string, request map[string]any) (status int, answer any)

func (s scripted) Do(r *http.Request) (*http.Response, error) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var request map[string]any
	if err := json.Unmarshal(data, &request); err != nil {
		return nil, err
	}
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	status, answer := s(r.Context(), operation, request)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	h := http.Header{}
	h.Set("Content-Type", "application/x-amz-json-1.0")
	h.Set("X-Amz-Crc32", fmt.Sprint(crc32.ChecksumIEEE(body)))
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
}

// store returns a store that s answers.
func (s scripted) store(cfg StoreConfig) *Store {
	cfg.Table = testTable
	cfg.Client = clientOf(s)
	return NewStore(cfg)
}

// clientOf returns a client that tries each call once, through h.
func clientOf(h aws.HTTPClient) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String("http://test"),
		HTTPClient:   h,
		Credentials:  credentials.NewStaticCredentialsProvider("key", "secret", ""),
		Retryer:      aws.NopRetryer{},
	})
}

// awsError is the body of an error.
func awsError(code, message string) map[string]any {
	return map[string]any{"__type": "com.amazonaws.dynamodb.v20120810#" + code, "message": message}
}

// delay makes each call of the store take d before it is carried out.
func (w *tableWorld) delay(d time.Duration) {
	w.aws.Intercept(func(_ context.Context, info wire.Info, run func() wire.Answer) (wire.Answer, error) {
		if info.Client == "store" {
			time.Sleep(d)
		}
		return run(), nil
	})
}
