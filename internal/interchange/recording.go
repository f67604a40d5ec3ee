package interchange

import (
	"bytes"
	"embed"
	"encoding/json"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

//go:embed testdata
var files embed.FS

// Request is a call as it stands on the wire.
type Request struct {
	Operation string
	Body      json.RawMessage `json:"request"`
}

// Recording is a request that a Java worker sent.
type Recording struct {
	Scenario string
	Worker   string
	Request
}

// Recordings returns every shape of request that was recorded.
func Recordings(t testing.TB) []Recording {
	t.Helper()
	var all []Recording
	for _, scenario := range names(t, "requests/*.jsonl") {
		all = append(all, recordings(t, scenario)...)
	}
	return all
}

// Java returns the request in a line, from 1, of a scenario.
func Java(t testing.TB, scenario string, line int) Recording {
	t.Helper()
	all := recordings(t, scenario)
	require.LessOrEqual(t, line, len(all), scenario)
	return all[line-1]
}

func recordings(t testing.TB, scenario string) []Recording {
	t.Helper()
	var all []Recording
	for line := range bytes.Lines(read(t, "requests/"+scenario+".jsonl")) {
		r := Recording{Scenario: scenario}
		require.NoError(t, json.Unmarshal(line, &r), scenario)
		all = append(all, r)
	}
	return all
}

// States returns the names of the recorded moments.
func States(t testing.TB) []string {
	t.Helper()
	return names(t, "tables/*.json")
}

// State returns the tables of one moment, as kcltest.AWS.LoadTables takes them.
func State(t testing.TB, name string) []byte {
	t.Helper()
	return read(t, "tables/"+name+".json")
}

// Item is an item that Java workers left in a table.
type Item struct {
	State, Table string
	Attributes   map[string]types.AttributeValue // sets sorted
}

// Items returns every item of every table at every recorded moment.
func Items(t testing.TB) []Item {
	t.Helper()
	var all []Item
	for _, state := range States(t) {
		var tables map[string]struct{ Items []json.RawMessage }
		require.NoError(t, json.Unmarshal(State(t, state), &tables), state)
		for table, content := range tables {
			for _, text := range content.Items {
				it, err := attributevalue.UnmarshalMapJSON(text)
				require.NoError(t, err, "%s %s", state, table)
				SortSets(it)
				all = append(all, Item{state, table, it})
			}
		}
	}
	return all
}

// SortSets sorts the item's sets, which have no order.
func SortSets(item map[string]types.AttributeValue) {
	for _, v := range item {
		switch v := v.(type) {
		case *types.AttributeValueMemberSS:
			slices.Sort(v.Value)
		case *types.AttributeValueMemberNS:
			slices.Sort(v.Value)
		case *types.AttributeValueMemberBS:
			slices.SortFunc(v.Value, bytes.Compare)
		}
	}
}

// Canonical returns an item in the form in which equal items are equal values:
// one spelling for each number, one order for each set.
func Canonical(t testing.TB, item map[string]types.AttributeValue) attr.Item {
	t.Helper()
	text, err := attributevalue.MarshalMapJSON(item)
	require.NoError(t, err)
	var out attr.Item
	require.NoError(t, json.Unmarshal(text, &out))
	require.NoError(t, out.Check())
	return out
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := files.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return data
}

// names returns the names of the files, without directory and ending.
func names(t testing.TB, pattern string) []string {
	t.Helper()
	found, err := fs.Glob(files, "testdata/"+pattern)
	require.NoError(t, err)
	require.NotEmpty(t, found, pattern)
	for i, f := range found {
		found[i] = strings.TrimSuffix(path.Base(f), path.Ext(f))
	}
	return found
}
