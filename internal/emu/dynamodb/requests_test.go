package dynamodb

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

// shape is a request that a real Java worker sent.
type shape struct {
	Operation string
	Request   json.RawMessage
}

func recordedShapes(t testing.TB) []shape {
	t.Helper()
	files, err := filepath.Glob("testdata/requests/*.jsonl")
	require.NoError(t, err)
	var all []shape
	for _, file := range files {
		f, err := os.Open(file)
		require.NoError(t, err)
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var s shape
			require.NoError(t, json.Unmarshal(lines.Bytes(), &s))
			if _, ok := operations[s.Operation]; ok {
				all = append(all, s)
			}
		}
		require.NoError(t, lines.Err())
	}
	return all
}

// Every shape of request of a Java worker is understood: without tables, only
// the table is missing.
func TestRecordedRequestsAreUnderstood(t *testing.T) {
	shapes := recordedShapes(t)
	assert.Len(t, shapes, 251)
	for _, s := range shapes {
		c := newClient(Config{Timing: atOnce})
		p := c.Prepare(&wire.Call{Caller: c.Caller, Operation: s.Operation, Codec: wire.JSON10, Body: s.Request})
		assert.NotEmpty(t, p.Resources, "%s %s", s.Operation, s.Request)
		if a := p.Run(); s.Operation == "CreateTable" {
			assert.Nil(t, a.Err, "%s %s", s.Operation, s.Request)
		} else if assert.NotNil(t, a.Err, "%s %s", s.Operation, s.Request) {
			assert.Equal(t, notFound, a.Err.Code(), "%s %s: %s", s.Operation, s.Request, a.Err.Message)
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
			f.Add(slices.Index(names, s.Operation), []byte(s.Request))
		}
	}
	f.Add(slices.Index(names, "TransactGetItems"), []byte(`{"TransactItems":[{}]}`))
	f.Add(slices.Index(names, "BatchWriteItem"), []byte(`{"RequestItems":{"app4":[{"PutRequest":{}},{"DeleteRequest":{"Key":null}}]}}`))
	f.Add(slices.Index(names, "BatchGetItem"), []byte(`{"RequestItems":{"app4":{"Keys":[null]}}}`))
	f.Add(slices.Index(names, "UpdateTable"), []byte(`{"TableName":"app4","GlobalSecondaryIndexUpdates":[{}]}`))
	tables, err := os.ReadFile("testdata/tables/3.5-client-version-3x.json")
	require.NoError(f, err)
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
