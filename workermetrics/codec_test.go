package workermetrics

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/entity"
	"github.com/go-kcl/kcl/internal/interchange"
)

func fromJSON(t testing.TB, text string) item {
	t.Helper()
	it, err := attributevalue.UnmarshalMapJSON([]byte(text))
	require.NoError(t, err)
	return it
}

// Every record that Java wrote is read, and written back as it was, but for the
// kind, which KCL before 3.5 did not write.
func TestGoldenRecords(t *testing.T) {
	records, loads, legacy, untagged := 0, 0, 0, 0
	for _, g := range interchange.Items(t) {
		key := attrKey
		switch {
		case strings.HasSuffix(g.Table, "-WorkerMetricStats"):
			legacy++
			key = legacyKey
		case entity.Of(g.Attributes) != entity.WorkerMetricStats:
			continue
		}
		records++
		r, err := decode(g.Attributes, key)
		require.NoError(t, err, g.State)
		assert.True(t, r.Valid(), "%s %s", g.State, r.Worker)
		assert.False(t, r.Failing(), "%s %s", g.State, r.Worker)
		if !r.Throughput() {
			loads++
		}
		back := encode(r)
		back[key] = g.Attributes[key]
		if g.Attributes[entity.Attribute] == nil {
			untagged++
			delete(back, entity.Attribute)
			assert.Zero(t, r.Support, "%s %s", g.State, r.Worker)
		} else {
			assert.Equal(t, 1, r.Support, "%s %s", g.State, r.Worker)
		}
		assert.Equal(t, interchange.Canonical(t, g.Attributes), interchange.Canonical(t, back), g.State)
	}
	assert.Equal(t, 31, records)
	assert.Equal(t, 2, loads)
	assert.Equal(t, 10, legacy)
	assert.Equal(t, 2, untagged)
}

func TestDecode(t *testing.T) {
	got, err := Decode(fromJSON(t, `{
		"leaseKey":{"S":"w"}, "entityType":{"S":"WORKER_METRIC_STATS"}, "lut":{"N":"1796033650"},
		"sts":{"M":{"C":{"L":[{"N":"85.0"},{"N":"-1"},{"N":"1.0E-6"}]},"M":{"L":[]}}},
		"opr":{"M":{"C":{"L":[{"N":"100"},{"N":"7"}]},"M":{"L":[{"N":"90"}]}}},
		"sup":{"N":"1"}, "slu":{"N":"1796033649"},
		"properties":{"M":{"a":{"S":"b"}}}, "p":{"M":{"x":{"L":[{"NULL":true}]}}}}`))
	require.NoError(t, err)
	assert.Equal(t, Record{
		Worker:  "w",
		Updated: time.Unix(1796033650, 0),
		Load: Load{
			Stats:          map[string][]float64{"C": {85, -1, 1e-6}, "M": {}},
			OperatingRange: map[string][]int64{"C": {100, 7}, "M": {90}},
		},
		Support:        1,
		SupportUpdated: time.Unix(1796033649, 0),
	}, got)
}

func TestDecodeTolerates(t *testing.T) {
	for _, c := range []struct{ name, item string }{
		{"all but the key is absent", `{"leaseKey":{"S":"w"}}`},
		{"null stands for absent", `{"leaseKey":{"S":"w"},"lut":{"NULL":true},"sts":{"NULL":true},"opr":{"NULL":true}}`},
		{"a support code of the wrong type", `{"leaseKey":{"S":"w"},"sup":{"S":"1"},"slu":{"S":"2"}}`},
		{"a fractional support code", `{"leaseKey":{"S":"w"},"sup":{"N":"1.5"},"slu":{"N":"2.5"}}`},
		{"a support code below none", `{"leaseKey":{"S":"w"},"sup":{"N":"-1"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Decode(fromJSON(t, c.item))
			require.NoError(t, err)
			assert.Equal(t, Record{Worker: "w"}, got)
		})
	}
}

// What a Java worker could not read is no record for us either.
func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct{ name, item, message string }{
		{"no key", `{"lut":{"N":"1"}}`, "worker record without leaseKey"},
		{"a key of the wrong type", `{"leaseKey":{"N":"1"}}`, "worker record without leaseKey"},
		{"time as a string", `{"leaseKey":{"S":"w"},"lut":{"S":"1"}}`, `record of worker "w": attribute lut: has the wrong type`},
		{"time with a fraction", `{"leaseKey":{"S":"w"},"lut":{"N":"1.5"}}`, `record of worker "w": attribute lut: strconv.ParseInt: parsing "1.5": invalid syntax`},
		{"stats of the wrong type", `{"leaseKey":{"S":"w"},"sts":{"L":[]}}`, `record of worker "w": attribute sts: has the wrong type`},
		{"a metric's stats of the wrong type", `{"leaseKey":{"S":"w"},"sts":{"M":{"C":{"N":"1"}}}}`, `record of worker "w": attribute sts: metric C has the wrong type`},
		{"a value as a string", `{"leaseKey":{"S":"w"},"sts":{"M":{"C":{"L":[{"S":"1"}]}}}}`, `record of worker "w": attribute sts: metric C: has the wrong type`},
		{"a null value", `{"leaseKey":{"S":"w"},"sts":{"M":{"C":{"L":[{"NULL":true}]}}}}`, `record of worker "w": attribute sts: metric C: has the wrong type`},
		{"an operating range with a fraction", `{"leaseKey":{"S":"w"},"opr":{"M":{"C":{"L":[{"N":"99.5"}]}}}}`, `record of worker "w": attribute opr: metric C: strconv.ParseInt: parsing "99.5": invalid syntax`},
		{"an operating range as a string", `{"leaseKey":{"S":"w"},"opr":{"M":{"C":{"L":[{"S":"1"}]}}}}`, `record of worker "w": attribute opr: metric C: has the wrong type`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Decode(fromJSON(t, c.item))
			assert.EqualError(t, err, c.message)
		})
	}
}

// lease-assignment-and-worker-metrics#7
func TestCheck(t *testing.T) {
	now := time.Unix(1000, 0)
	good := Record{Worker: "w", Updated: time.Unix(941, 0), Load: Load{Stats: map[string][]float64{"C": {1}}}}
	require.NoError(t, good.check(now, 30*time.Second))
	for _, c := range []struct {
		message string
		spoil   func(*Record)
	}{
		{"worker id is missing", func(r *Record) { r.Worker = "" }},
		{"time of update is missing", func(r *Record) { r.Updated = time.Time{} }},
		{"time of update is 1m0s ago, must be less than 1m0s", func(r *Record) { r.Updated = time.Unix(940, 0) }},
		{"map of stats is missing", func(r *Record) { r.Stats = nil }},
		{"metric C has no values", func(r *Record) { r.Stats = map[string][]float64{"C": {}} }},
		{"metric C has the value NaN", func(r *Record) { r.Stats = map[string][]float64{"C": {math.NaN()}} }},
		{"metric C has the value -Inf", func(r *Record) { r.Stats = map[string][]float64{"C": {math.Inf(-1)}} }},
	} {
		r := good
		c.spoil(&r)
		assert.EqualError(t, r.check(now, 30*time.Second), c.message)
	}
}

func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		`{"leaseKey":{"S":"w"},"lut":{"N":"1796033650"},"sts":{"M":{"C":{"L":[{"N":"85.0"}]}}},"opr":{"M":{"C":{"L":[{"N":"100"}]}}},"sup":{"N":"1"},"slu":{"N":"5"}}`,
		`{"leaseKey":{"S":"w"},"sts":{"M":{}},"opr":{"M":{"":{"L":[{"N":"-9223372036854775808"}]}}}}`,
		`{"leaseKey":{"NULL":true},"lut":{"BOOL":true}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		it, err := attributevalue.UnmarshalMapJSON(text)
		if err != nil {
			return // no item
		}
		r, err := Decode(it)
		if err != nil {
			return
		}
		r.Valid()
		r.Failing()
		r.Draining()
		back := encode(r)
		back[attrKey] = &str{Value: r.Worker}
		again, err := Decode(back)
		require.NoError(t, err)
		// A NaN, which DynamoDB has not, differs from itself.
		assert.Equal(t, encode(r), encode(again))
		for name, v := range it {
			n, ok := v.(*types.AttributeValueMemberN)
			if ok && name == attrUpdated {
				sec, err := strconv.ParseInt(n.Value, 10, 64)
				require.NoError(t, err)
				require.Equal(t, sec, r.Updated.Unix())
			}
		}
	})
}
