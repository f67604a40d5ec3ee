package dynamodb

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/attr"
	"github.com/go-kcl/kcl/internal/interchange"
)

// recorded is a write that a real Java worker, or the migration script, sent.
type recorded struct {
	T         int64 // epoch milliseconds
	Operation string
	Status    int
	Error     string
	Request   json.RawMessage
}

func recording(t *testing.T, file string) []recorded {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	var all []recorded
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r recorded
		require.NoError(t, json.Unmarshal(lines.Bytes(), &r))
		all = append(all, r)
	}
	require.NoError(t, lines.Err())
	return all
}

// aws-dynamodb#49: what Java workers sent in eight recorded scenarios gets the
// recorded statuses and errors, and leaves the recorded items: with no delays as
// it was sent, and with the default ones by a client that waits for ACTIVE.
func TestReplayOfJavaTraffic(t *testing.T) {
	files, err := filepath.Glob("testdata/replay/*.jsonl.gz")
	require.NoError(t, err)
	require.Len(t, files, 8)
	total := 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl.gz")
		all := recording(t, file)
		total += len(all)
		t.Run(name+"/no delays", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				replay(t, newClient(Config{Timing: atOnce}), all, func(client) {}, file)
			})
		})
		t.Run(name+"/waiting for ACTIVE", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(Config{})
				waited := 0
				replay(t, c, all, func(c client) { waited += waitForActive(t, c) }, file)
				assert.NotZero(t, waited, "a table or index was ACTIVE at once")
			})
		})
	}
	assert.Equal(t, 15721, total)
}

// replay sends the writes at their times, and calls settle after those that
// create or delete a table or an index.
func replay(t *testing.T, c client, all []recorded, settle func(client), file string) {
	t.Helper()
	start, begun := all[0].T, time.Now()
	for i, r := range all {
		if at := begun.Add(time.Duration(r.T-start) * time.Millisecond); time.Now().Before(at) {
			time.Sleep(time.Until(at))
		}
		answer := c.call(r.Operation, string(r.Request))
		code := ""
		if answer.Err != nil {
			code = answer.Err.Code()
		}
		require.Equal(t, r.Status, answer.Status, "write %d: %s %s: %s", i, r.Operation, r.Request, answer.Body)
		require.Equal(t, r.Error, code, "write %d: %s %s", i, r.Operation, r.Request)
		if strings.HasSuffix(r.Operation, "Table") {
			settle(c)
		}
	}

	want := map[string][]attr.Item{}
	b, err := os.ReadFile(strings.TrimSuffix(file, ".jsonl.gz") + ".final.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &want))
	dump, err := c.dump(c.Caller, nil)
	require.NoError(t, err)
	got := map[string][]attr.Item{}
	for name, table := range dump {
		got[name] = table.Items
	}
	sameItems(t, want, got)
}

// sameItems compares tables: items in any order, numbers by value, sets without
// order.
func sameItems(t *testing.T, want, got map[string][]attr.Item) {
	t.Helper()
	texts := func(tables map[string][]attr.Item) map[string][]string {
		all := map[string][]string{}
		for name, items := range tables {
			all[name] = []string{}
			for _, item := range items {
				require.NoError(t, item.Check())
				all[name] = append(all[name], string(item.AppendJSON(nil))) // canonical
			}
		}
		return all
	}
	w, g := texts(want), texts(got)
	assert.Len(t, g, len(w))
	for name := range w {
		assert.ElementsMatch(t, w[name], g[name], "table %s", name)
	}
}

// waitForActive polls until every table and index is ACTIVE, and returns how
// often it had to wait.
func waitForActive(t *testing.T, c client) (waited int) {
	t.Helper()
	for {
		busy := false
		for _, name := range get(t, c.ok(t, "ListTables", `{}`), "TableNames").([]any) {
			d := c.ok(t, "DescribeTable", `{"TableName":%q}`, name)
			busy = busy || get(t, d, "Table.TableStatus") != "ACTIVE"
			for _, x := range indexes(t, d) {
				busy = busy || x["IndexStatus"] != "ACTIVE"
			}
		}
		if !busy {
			return waited
		}
		waited++
		require.Less(t, waited, 1000)
		time.Sleep(100 * time.Millisecond)
	}
}

// indexes returns the indexes in the answer of DescribeTable.
func indexes(t *testing.T, description string) []map[string]any {
	t.Helper()
	var d struct {
		Table struct{ GlobalSecondaryIndexes []map[string]any }
	}
	require.NoError(t, json.Unmarshal([]byte(description), &d))
	return d.Table.GlobalSecondaryIndexes
}

// Every recorded table loads, and dumps as the same items.
func TestLoadAndDumpRecordedTables(t *testing.T) {
	for _, state := range interchange.States(t) {
		t.Run(state, func(t *testing.T) {
			b := interchange.State(t, state)
			var want map[string]dumped
			require.NoError(t, json.Unmarshal(b, &want))

			c := newClient(Config{})
			require.NoError(t, c.Load(c.Caller, bytes.NewReader(b)))
			var out bytes.Buffer
			require.NoError(t, c.Dump(c.Caller, &out))
			var got map[string]dumped
			require.NoError(t, json.Unmarshal(out.Bytes(), &got))

			wantItems, gotItems := map[string][]attr.Item{}, map[string][]attr.Item{}
			for name, table := range want {
				wantItems[name], gotItems[name] = table.Items, got[name].Items
				assert.Equal(t, table.KeySchema, got[name].KeySchema)
				assert.Equal(t, table.GSI, got[name].GSI)
				assert.Equal(t, len(table.Items), c.Count(c.Caller, name))
				assert.EqualValues(t, len(table.Items), get(t, c.ok(t, "DescribeTable", `{"TableName":%q}`, name), "Table.ItemCount"))
			}
			sameItems(t, wantItems, gotItems)
		})
	}
}
