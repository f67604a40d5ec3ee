package dynamodb

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/internal/interchange"
)

// recordedShapes are the requests of real Java workers.
func recordedShapes(t testing.TB) []interchange.Recording {
	t.Helper()
	return slices.DeleteFunc(interchange.Recordings(t), func(r interchange.Recording) bool {
		_, ok := operations[r.Operation]
		return !ok
	})
}

// Every shape of request of a Java worker is understood: without tables, only
// the table is missing.
func TestRecordedRequestsAreUnderstood(t *testing.T) {
	shapes := recordedShapes(t)
	assert.Len(t, shapes, 251)
	for _, s := range shapes {
		c := newClient(Config{Timing: atOnce})
		p := c.Prepare(&wire.Call{Caller: c.Caller, Operation: s.Operation, Codec: wire.JSON10, Body: s.Body})
		assert.NotEmpty(t, p.Resources, "%s %s", s.Operation, s.Body)
		if a := p.Run(); s.Operation == "CreateTable" {
			assert.Nil(t, a.Err, "%s %s", s.Operation, s.Body)
		} else if assert.NotNil(t, a.Err, "%s %s", s.Operation, s.Body) {
			assert.Equal(t, notFound, a.Err.Code(), "%s %s: %s", s.Operation, s.Body, a.Err.Message)
		}
	}
}

// Whatever is sent, the answer is JSON and no fault of ours.
func FuzzCall(f *testing.F) {
	names := make([]string, 0, len(operations))
	for name := range operations {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, s := range recordedShapes(f) {
		if i%10 == 0 {
			f.Add(slices.Index(names, s.Operation), []byte(s.Body))
		}
	}
	f.Add(slices.Index(names, "TransactGetItems"), []byte(`{"TransactItems":[{}]}`))
	f.Add(slices.Index(names, "BatchWriteItem"), []byte(`{"RequestItems":{"app4":[{"PutRequest":{}},{"DeleteRequest":{"Key":null}}]}}`))
	f.Add(slices.Index(names, "BatchGetItem"), []byte(`{"RequestItems":{"app4":{"Keys":[null]}}}`))
	f.Add(slices.Index(names, "UpdateTable"), []byte(`{"TableName":"app4","GlobalSecondaryIndexUpdates":[{}]}`))
	tables := interchange.State(f, "3.5-client-version-3x")
	f.Fuzz(func(t *testing.T, operation int, body []byte) {
		if operation < 0 || operation >= len(names) {
			return
		}
		c := newClient(Config{Timing: atOnce})
		require.NoError(t, c.Load(c.Caller, bytes.NewReader(tables)))
		a := c.call(names[operation], string(body))
		assert.Less(t, a.Status, 500, "%s %s: %s", names[operation], body, a.Body)
		if len(a.Body) > 0 {
			assert.True(t, json.Valid(a.Body), "%s", a.Body)
		}
	})
}
