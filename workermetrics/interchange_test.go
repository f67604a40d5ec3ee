package workermetrics

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/interchange"
)

func sentBy(t *testing.T, table string, act func(context.Context, *Store)) interchange.Sentence {
	t.Helper()
	return interchange.Parse(t, interchange.Sent(t, func(c *dynamodb.Client) {
		act(t.Context(), NewStore(StoreConfig{Client: c, Table: table}))
	}))
}

// sentToLegacy is sentBy a worker that writes to the legacy table, which exists.
func sentToLegacy(t *testing.T, legacy string, act func(context.Context, *Store)) interchange.Sentence {
	t.Helper()
	return interchange.Parse(t, interchange.Sent(t, func(c *dynamodb.Client) {
		s := NewStore(StoreConfig{Client: c, Table: "app3", LegacyTable: legacy, Status: func() Status { return StatusDeployed }})
		s.route.Store(&route{writesLegacy: true, legacyExists: true})
		act(t.Context(), s)
	}))
}

// Our reports have the keys, attributes and types of those that Java workers
// sent, the support code among them, but for javaExceptions.
func TestReportsAreJavas(t *testing.T) {
	for _, java := range []interchange.Recording{
		interchange.Java(t, "fresh-3.5-two-workers", 12),
		interchange.Java(t, "worker-metrics-3.5", 12),
		interchange.Java(t, "legacy-tables-3.4", 14),
		interchange.Java(t, "single-table-phase-1-3.5", 7),
	} {
		t.Run(java.Scenario, func(t *testing.T) {
			want := interchange.Parse(t, java.Request)
			i := slices.IndexFunc(want.Actions, func(s string) bool { return strings.HasPrefix(s, "SET lut = ") })
			require.GreaterOrEqual(t, i, 0)
			lut := strings.TrimPrefix(want.Actions[i], "SET lut = ")
			javaExceptions(&want)
			send := sentBy
			if strings.HasSuffix(want.Table, "-WorkerMetricStats") {
				send = sentToLegacy
				assert.Equal(t, LegacyTableName("app3"), want.Table)
			}

			var at struct{ N json.Number }
			require.NoError(t, json.Unmarshal([]byte(lut), &at))
			sec, err := at.N.Int64()
			require.NoError(t, err)
			rec := Record{Worker: java.Worker, Updated: time.Unix(sec, 0), Load: Load{map[string][]float64{}, map[string][]int64{}}}
			if slices.Contains(want.Actions, `SET sup = {"N":"1"}`) { // KCL before 3.5 has none
				rec.Support, rec.SupportUpdated = 1, rec.Updated
			}
			if java.Worker == "J" {
				rec.Load = Load{map[string][]float64{"C": {85}}, map[string][]int64{"C": {100}}}
			}
			synctest.Test(t, func(t *testing.T) { // in the year 2000, so that the record is not too old to be sent
				ours := send(t, want.Table, func(ctx context.Context, s *Store) { s.Put(ctx, rec) })
				assert.Equal(t, want, ours)
			})
		})
	}
}

func TestDeleteRequests(t *testing.T) {
	want := interchange.Sentence{Operation: "DeleteItem", Table: "app", Key: []string{`leaseKey = {"S":"w"}`}, Members: map[string]any{}}
	want.Terms = []string{"attribute_exists(leaseKey)", `lut = {"N":"1000"}`}
	assert.Equal(t, want, sentBy(t, "app", func(ctx context.Context, s *Store) {
		s.Delete(ctx, Record{Worker: "w", Updated: time.Unix(1000, 0)})
	}))
	want.Terms = []string{"attribute_exists(leaseKey)", "attribute_not_exists(lut)", `entityType = {"S":"WORKER_METRIC_STATS"}`}
	assert.Equal(t, want, sentBy(t, "app", func(ctx context.Context, s *Store) { s.Delete(ctx, Record{Worker: "w"}) }))

	want.Table, want.Key = "app3-WorkerMetricStats", []string{`wid = {"S":"w"}`}
	want.Terms = []string{"attribute_exists(wid)", `lut = {"N":"1000"}`}
	assert.Equal(t, want, sentToLegacy(t, want.Table, func(ctx context.Context, s *Store) {
		s.Delete(ctx, Record{Worker: "w", Updated: time.Unix(1000, 0), Legacy: true})
	}))
	want.Terms = []string{"attribute_exists(wid)", "attribute_not_exists(lut)"}
	assert.Equal(t, want, sentToLegacy(t, want.Table, func(ctx context.Context, s *Store) { s.Delete(ctx, Record{Worker: "w", Legacy: true}) }))
}

// What we look for and read is what Java workers looked for and read, in the same
// way, but for readExceptions.
func TestReadsAreJavas(t *testing.T) {
	for _, c := range []struct {
		scenario string
		line     int
		act      func(context.Context, *Store)
	}{
		{"single-table-phase-1-3.5", 4, func(ctx context.Context, s *Store) { s.route.Store(nil); s.Init(ctx) }},
		{"legacy-tables-3.4", 21, func(ctx context.Context, s *Store) { s.ScanLegacy(ctx) }},
		{"single-table-phase-1-3.5", 11, func(ctx context.Context, s *Store) { s.ScanLegacy(ctx) }},
		{"single-table-phase-2-3.5", 8, func(ctx context.Context, s *Store) { s.ScanLegacy(ctx) }},
	} {
		t.Run(fmt.Sprint(c.scenario, " ", c.line), func(t *testing.T) {
			want := interchange.Parse(t, interchange.Java(t, c.scenario, c.line).Request)
			readExceptions(&want)
			assert.Equal(t, want, sentToLegacy(t, want.Table, c.act))
		})
	}
	t.Run("the lease table alone", func(t *testing.T) {
		want := interchange.Parse(t, interchange.Java(t, "client-version-phase-2-3.5", 13).Request)
		readExceptions(&want)
		assert.Equal(t, want, sentBy(t, want.Table, func(ctx context.Context, s *Store) { s.List(ctx) }))
	})
}
