package lease

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/ddb"
	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/internal/interchange"
	"github.com/go-kcl/kcl/internal/testbed"
	"github.com/go-kcl/kcl/kcltest"
)

const testTable = "app"

// tableWorld is an emulated DynamoDB with an empty lease table, and a store on
// it.
type tableWorld struct {
	*testbed.Table // another's hand on it
	aws            *kcltest.AWS
	store          *Store
}

func newTableWorld(t *testing.T, multiStream bool) *tableWorld {
	t.Helper()
	w := &tableWorld{aws: kcltest.New(kcltest.Options{Delays: kcltest.NoDelays})}
	w.Table = &testbed.Table{T: t, Client: dynamodb.NewFromConfig(w.aws.Config("other")), Name: testTable, Key: attrKey}
	_, err := ddb.NewTable(ddb.TableConfig{Client: w.Client, Table: testTable}).Prepare(t.Context())
	require.NoError(t, err)
	w.store = NewStore(StoreConfig{
		Client: dynamodb.NewFromConfig(w.aws.Config("store")), Table: testTable, MultiStream: multiStream, Logger: testbed.Logger(t.Output()),
	})
	return w
}

// put stores an item as it is; nil stores none.
func (w *tableWorld) put(it item) {
	w.T.Helper()
	if it != nil {
		w.Put(it)
	}
}

// item returns the stored item, sets sorted; nil if there is none.
func (w *tableWorld) item(key string) item {
	w.T.Helper()
	it := w.Item(key)
	interchange.SortSets(it)
	return it
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
	it := interchange.Foreign()
	it["leaseOwnerSince"] = &number{Value: "1"}
	return it
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
	cfg.Client = interchange.Client(s)
	return NewStore(cfg)
}

// awsError is the body of an error.
func awsError(code, message string) map[string]any {
	return map[string]any{"__type": "com.amazonaws.dynamodb.v20120810#" + code, "message": message}
}

// delay makes each call of the store take d before it is carried out.
func (w *tableWorld) delay(d time.Duration) {
	w.aws.Inject(kcltest.Fault{Clients: []string{"store"}, Effect: kcltest.Slow, Delay: d})
}
