package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/ddb"
	"github.com/go-kcl/kcl/internal/entity"
	"github.com/go-kcl/kcl/internal/testbed"
	"github.com/go-kcl/kcl/metrics"
)

// What the pages of a scripted scan hold.
func leaseJSON(key string) map[string]any {
	return map[string]any{
		attrKey: map[string]any{"S": key}, attrCounter: map[string]any{"N": "1"}, attrOwnerSwitches: map[string]any{"N": "0"},
	}
}

func otherJSON(key string) map[string]any {
	return map[string]any{attrKey: map[string]any{"S": key}, entity.Attribute: map[string]any{"S": "WORKER_METRIC_STATS"}}
}

func badJSON(key string) map[string]any { return map[string]any{attrKey: map[string]any{"S": key}} }

// pages answers scans page by page, each naming the next by the key "page-n",
// and counts them.
type pages struct {
	pages [][]map[string]any
	units float64 // of each page, when asked for

	mu       sync.Mutex
	requests []map[string]any
}

func (p *pages) answer(_ context.Context, _ string, request map[string]any) (int, any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, request)
	n := 0
	if start, ok := request["ExclusiveStartKey"].(map[string]any); ok {
		if _, err := fmt.Sscanf(start[attrKey].(map[string]any)["S"].(string), "page-%d", &n); err != nil {
			panic(err)
		}
	}
	out := map[string]any{"Items": p.pages[n]}
	if request["ReturnConsumedCapacity"] == "TOTAL" {
		out["ConsumedCapacity"] = map[string]any{"CapacityUnits": p.units}
	}
	if n+1 < len(p.pages) {
		out["LastEvaluatedKey"] = map[string]any{attrKey: map[string]any{"S": fmt.Sprintf("page-%d", n+1)}}
	}
	return 200, out
}

func keysOf(leases []Lease) []string {
	keys := []string{}
	for _, l := range leases {
		keys = append(keys, l.Key)
	}
	slices.Sort(keys)
	return keys
}

// leases#36, single-table-migration#65
func TestEmpty(t *testing.T) {
	for _, tc := range []struct {
		name  string
		pages [][]map[string]any
		empty bool
		scans int
	}{
		{"others, then a lease", [][]map[string]any{{otherJSON("w1"), otherJSON("w2")}, {leaseJSON("a")}}, false, 2},
		{"only others", [][]map[string]any{{otherJSON("w1")}}, true, 1},
		{"only others on two pages", [][]map[string]any{{otherJSON("w1")}, {}}, true, 2},
		{"nothing", [][]map[string]any{{}}, true, 1},
		{"a lease, then more", [][]map[string]any{{leaseJSON("a")}, {leaseJSON("b")}}, false, 1},
		{"only a lease that cannot be read", [][]map[string]any{{badJSON("a")}}, true, 1},
	} {
		for _, consistent := range []bool{false, true} {
			p := &pages{pages: tc.pages}
			empty, err := scripted(p.answer).store(StoreConfig{}).Empty(t.Context(), consistent)
			require.NoError(t, err)
			assert.Equal(t, tc.empty, empty, tc.name)
			assert.Len(t, p.requests, tc.scans, tc.name)
			for _, r := range p.requests {
				assert.Equal(t, consistent, r["ConsistentRead"] == true, tc.name)
				assert.NotContains(t, r, "Limit", "DynamoDB's limit would count the others")
			}
		}
	}
}

// leases#37, single-table-migration#65
func TestListLimit(t *testing.T) {
	for _, tc := range []struct {
		name  string
		pages [][]map[string]any
		limit int
		want  []string
		scans int
	}{
		{"reached by the first page", [][]map[string]any{{leaseJSON("a"), leaseJSON("b")}, {leaseJSON("c")}}, 2, []string{"a", "b"}, 1},
		{"one a page", [][]map[string]any{{leaseJSON("a")}, {leaseJSON("b")}, {leaseJSON("c")}}, 2, []string{"a", "b"}, 2},
		{"more than there are", [][]map[string]any{{leaseJSON("a"), leaseJSON("b")}}, 10, []string{"a", "b"}, 1},
		{"in the middle of a page", [][]map[string]any{{leaseJSON("a"), leaseJSON("b"), leaseJSON("c")}}, 2, []string{"a", "b"}, 1},
		{"none", [][]map[string]any{{leaseJSON("a")}, {otherJSON("w"), leaseJSON("b")}}, 0, []string{"a", "b"}, 2},
	} {
		p := &pages{pages: tc.pages}
		leases, err := scripted(p.answer).store(StoreConfig{}).list(t.Context(), new(dynamodb.ScanInput), tc.limit)
		require.NoError(t, err)
		assert.Equal(t, tc.want, keysOf(leases), tc.name)
		assert.Len(t, p.requests, tc.scans, tc.name)
	}
}

// One bad item costs one log line and is counted; it is no reason to stop.
func TestBadItemIsLoggedOnce(t *testing.T) {
	var log testbed.Log
	var rec testbed.Figures
	p := &pages{pages: [][]map[string]any{{leaseJSON("a"), badJSON("broken")}, {leaseJSON("b"), otherJSON("w")}}}
	s := scripted(p.answer).store(StoreConfig{Segments: 1, Logger: testbed.Logger(&log), Metrics: &rec})
	for range 3 {
		leases, err := s.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "b"}, keysOf(leases))
		snap, err := s.Scan(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "b"}, keysOf(snap.Leases))
		assert.Equal(t, []string{"broken"}, snap.BadLeases)
	}
	assert.Equal(t, 1, log.Count("level=WARN"), log.String())
	assert.Equal(t, 1, log.Count("level=WARN", "lease=broken", attrCounter), log.String())
	want := metrics.Sample{Operation: "ListLeases", Name: "LeaseDeserializationFailureCount", Value: 1, Unit: metrics.Count}
	assert.Equal(t, want, rec.All()[0])
	assert.Len(t, rec.All(), 6, "counted each time")
}

// No more keys than maxBadKeys are remembered, and no line is logged for what
// cannot be remembered.
func TestBadItemsAreBounded(t *testing.T) {
	var log testbed.Log
	var page []map[string]any
	for i := range maxBadKeys + 5 {
		page = append(page, badJSON(fmt.Sprint("broken-", i)))
	}
	s := scripted((&pages{pages: [][]map[string]any{page}}).answer).
		store(StoreConfig{Logger: testbed.Logger(&log)})
	for range 2 {
		_, err := s.List(t.Context())
		require.NoError(t, err)
	}
	assert.Equal(t, maxBadKeys, log.Count("level=WARN"))
	assert.Len(t, s.bad, maxBadKeys)
}

// leases#39, single-table-migration#63: see also TestErrorClasses.
func TestScanOfSegments(t *testing.T) {
	segments := []*pages{
		{pages: [][]map[string]any{{leaseJSON("a")}, {leaseJSON("b"), otherJSON("w1")}}, units: 1.5},
		{pages: [][]map[string]any{{badJSON("broken"), leaseJSON("c")}}, units: 0.5},
		{pages: [][]map[string]any{{otherJSON("w2"), map[string]any{attrKey: map[string]any{"S": "x"}, entity.Attribute: map[string]any{"S": "SOME_FUTURE_TYPE"}}}}},
	}
	answer := func(ctx context.Context, operation string, request map[string]any) (int, any) {
		if request["TotalSegments"] != 3.0 {
			panic("not three segments")
		}
		return segments[int(request["Segment"].(float64))].answer(ctx, operation, request)
	}
	snap, err := scripted(answer).store(StoreConfig{Segments: 3}).Scan(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b", "c"}, keysOf(snap.Leases))
	assert.Equal(t, []string{"broken"}, snap.BadLeases)
	require.Len(t, snap.Others, 1, "kinds that are not known are passed over")
	assert.Len(t, snap.Others[entity.WorkerMetricStats], 2)
	assert.InDelta(t, 3.5, snap.ReadUnits, 1e-9)

	t.Run("one segment throttled", func(t *testing.T) {
		s := scripted(func(ctx context.Context, operation string, request map[string]any) (int, any) {
			if request["Segment"] == 1.0 {
				return 400, awsError("ThrottlingException", "slow down")
			}
			return answer(ctx, operation, request)
		}).store(StoreConfig{Segments: 3})
		_, err := s.Scan(t.Context())
		require.ErrorIs(t, err, kcl.ErrThrottled)
	})
}

// On the emulation: every lease once, whatever the number of segments.
func TestListAndScanAgree(t *testing.T) {
	w := newTableWorld(t, true)
	var want []string
	for i := range 40 {
		l := multiLease()
		l.ShardID = fmt.Sprintf("shardId-%012d", i)
		if i >= 30 {
			l.Stream = "123456789012:parcels:1700000000"
		}
		l.Key = l.Stream + ":" + l.ShardID
		w.put(encode(l))
		want = append(want, l.Key)
	}
	w.put(item{attrKey: &str{Value: "worker"}, entity.Attribute: entity.WorkerMetricStats.Attr()})
	slices.Sort(want)

	leases, err := w.store.List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, want, keysOf(leases))

	one, err := w.store.ListStream(t.Context(), "123456789012:parcels:1700000000")
	require.NoError(t, err)
	assert.Len(t, one, 10)

	for _, n := range []int{1, 3, 50} {
		w.store.segments = ddb.NewSegments(w.store.client, testTable, n)
		snap, err := w.store.Scan(t.Context())
		require.NoError(t, err)
		assert.Equal(t, want, keysOf(snap.Leases), "%d segments", n)
		assert.Len(t, snap.Others[entity.WorkerMetricStats], 1)
		assert.Positive(t, snap.ReadUnits)
	}

	w.put(singleItem())
	leases, err = w.store.List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, want, keysOf(leases), "a single-stream lease is no lease of a multi-stream application")
}

// leases#45: the store's part, the index.
func TestKeysOwnedBy(t *testing.T) {
	w := newTableWorld(t, false)
	for key, owner := range map[string][2]string{
		"mine": {"A", ""}, "coming": {"A", "B"}, "going": {"B", "A"}, "nobody's": {"", ""}, "another's": {"C", ""},
	} {
		it := owners(owner[0], owner[1])
		it[attrKey] = &str{Value: key}
		w.put(it)
	}
	keys, err := w.store.KeysOwnedBy(t.Context(), "A")
	require.NoError(t, err)
	slices.Sort(keys)
	assert.Equal(t, []string{"coming", "mine"}, keys, "in hand-off, under the next owner")

	keys, err = w.store.KeysOwnedBy(t.Context(), "nobody")
	require.NoError(t, err)
	assert.Empty(t, keys)

	t.Run("all pages", func(t *testing.T) {
		p := &pages{pages: [][]map[string]any{{leaseJSON("a")}, {}, {leaseJSON("b"), leaseJSON("c")}}}
		keys, err := scripted(p.answer).store(StoreConfig{}).KeysOwnedBy(t.Context(), "A")
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "b", "c"}, keys)
	})
	for message, notReady := range map[string]bool{
		"The table does not have the specified index: LeaseOwnerToLeaseKeyIndex":                              true,
		"1 validation error detected: The table does not have the specified index: LeaseOwnerToLeaseKeyIndex": true,
		"Cannot read from backfilling global secondary index: LeaseOwnerToLeaseKeyIndex":                      true,
		"Query condition missed key schema element: leaseOwner":                                               false,
	} {
		_, err := scripted(func(context.Context, string, map[string]any) (int, any) {
			return 400, awsError("ValidationException", message)
		}).store(StoreConfig{}).KeysOwnedBy(t.Context(), "A")
		assert.Equal(t, notReady, errors.Is(err, ErrIndexNotReady), message)
		require.ErrorIs(t, err, kcl.ErrDependency)
	}
	t.Run("no table", func(t *testing.T) {
		s := NewStore(StoreConfig{Client: w.Client, Table: "missing"})
		_, err := s.KeysOwnedBy(t.Context(), "A")
		require.ErrorIs(t, err, kcl.ErrInvalidState)
		assert.False(t, errors.Is(err, ErrIndexNotReady))
	})
}
