package singletable

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/coordinator"
	"github.com/go-kcl/kcl/internal/interchange"
)

// Where our requests differ from those of Java workers for the same act, on
// purpose. It changes nothing that a Java worker reads.
//
//   - The item is changed only by the leader (the fence), and if its time is as
//     read beside its status: Java goes by the status alone, and a leader of
//     before may undo what his successor did.
//   - What is in the way in the lease table is asked for, to be looked at.
//   - What is moved is deleted only as read: a later change is not lost.
//   - The lease table's lock is taken with COMPLETE, so that there is no pause.
const allOld = "ALL_OLD"

// actionsOf returns what each action of a transaction says.
func actionsOf(t *testing.T, r interchange.Request) (all []interchange.Sentence) {
	t.Helper()
	require.Equal(t, "TransactWriteItems", r.Operation)
	var in struct {
		TransactItems      []map[string]json.RawMessage
		ClientRequestToken string
	}
	require.NoError(t, json.Unmarshal(r.Body, &in))
	assert.NotEmpty(t, in.ClientRequestToken)
	for _, actions := range in.TransactItems {
		require.Len(t, actions, 1)
		for verb, body := range actions {
			// A check has the parts of a delete.
			op := map[string]string{"ConditionCheck": "DeleteItem", "Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem"}[verb]
			s := interchange.Parse(t, interchange.Request{Operation: op, Body: body})
			s.Operation = verb
			all = append(all, s)
		}
	}
	return all
}

func testTables(client *dynamodb.Client, worker string) *Tables {
	return NewTables(TablesConfig{Client: client, Lease: "app3", Legacy: "app3-CoordinatorState", LegacyRecords: "app3-WorkerMetricStats", Worker: worker})
}

func stateIn(t *testing.T, text json.RawMessage) State {
	t.Helper()
	av, err := attributevalue.UnmarshalMapJSON(text)
	require.NoError(t, err)
	av["entityType"] = str("TABLE_MIGRATION")
	it, ok := coordinator.DecodeItem(av, coordinator.LegacyKey)
	require.True(t, ok)
	m, err := coordinator.TableMigrationOf(it)
	require.NoError(t, err)
	return m
}

// before is the state that was changed to s.
func before(s State) State { return State{Change: s.History[0], History: s.History[1:]} }

func mts(t *testing.T, s State) string {
	t.Helper()
	text, err := attributevalue.MarshalMapJSON(item{"mts": s.Values()["mts"]})
	require.NoError(t, err)
	var v struct{ Mts struct{ N string } }
	require.NoError(t, json.Unmarshal(text, &v))
	return `mts = {"N":"` + v.Mts.N + `"}`
}

func TestReadsAreJavas(t *testing.T) {
	for _, j := range []struct {
		name string
		line int
		act  func(*Tables)
	}{
		{"describe", 2, func(tb *Tables) { _, _ = tb.describe(context.Background()) }},
		{"get", 3, func(tb *Tables) { _, _ = tb.Read(context.Background(), 1) }},
		{"scan", 11, func(tb *Tables) { _ = tb.scan(context.Background(), tb.Legacy, nil) }},
	} {
		t.Run(j.name, func(t *testing.T) {
			java := interchange.Java(t, "single-table-phase-2-3.5", j.line)
			got := interchange.Sent(t, func(c *dynamodb.Client) { j.act(testTables(c, "C")) })
			assert.Equal(t, interchange.Parse(t, java.Request), interchange.Parse(t, got))
		})
	}
}

// single-table-migration#10,11: the writes of the item have Java's items and
// conditions, inside a transaction that holds only for the leader, and the time
// that was read beside the status.
func TestWritesAreJavas(t *testing.T) {
	for _, j := range []struct {
		scenario string
		line     int
		to       Status
	}{
		{"single-table-phase-1-3.5", 15, Init},
		{"single-table-phase-1-3.5", 17, Deployed},
		{"single-table-phase-2-3.5", 13, Pending},
	} {
		t.Run(string(j.to), func(t *testing.T) {
			java := interchange.Java(t, j.scenario, j.line)
			var in struct {
				Item             json.RawMessage
				Key              map[string]json.RawMessage
				AttributeUpdates map[string]struct{ Value json.RawMessage }
			}
			require.NoError(t, json.Unmarshal(java.Body, &in))
			d := Decision{Do: Create}
			if in.Item == nil {
				all := map[string]json.RawMessage{"key": in.Key["key"]}
				for name, u := range in.AttributeUpdates {
					all[name] = u.Value
				}
				text, err := json.Marshal(all)
				require.NoError(t, err)
				d.Do, d.State = Update, stateIn(t, text)
			} else {
				d.State = stateIn(t, in.Item)
			}
			require.Equal(t, j.to, d.State.Value)
			got := actionsOf(t, interchange.Sent(t, func(c *dynamodb.Client) {
				a, err := testTables(c, java.Worker).Write(t.Context(), d, before(d.State))
				assert.Equal(t, Uncertain, a)
				assert.ErrorIs(t, err, interchange.ErrCaptured)
			}))
			require.Len(t, got, 2)
			assert.Equal(t, fenceOf(java.Worker), got[0])
			want := interchange.Parse(t, java.Request)
			want.Operation = "Put"
			if d.Do == Update {
				want.Operation = "Update"
				want.Terms = []string{want.Terms[0], mts(t, before(d.State)), want.Terms[1]}
			}
			assert.Equal(t, want, got[1])
		})
	}
}

func fenceOf(worker string) interchange.Sentence {
	return interchange.Sentence{Operation: "ConditionCheck", Table: "app3-CoordinatorState", Key: []string{`key = {"S":"Leader"}`},
		Terms: []string{`ownerName = {"S":"` + worker + `"}`}, Members: map[string]any{}}
}

// single-table-migration#43,44: the move's transaction is Java's, but that it
// deletes only what it has read. An item of 3.4 gets its kind by it.
func TestMoveIsJavas(t *testing.T) {
	java := actionsOf(t, interchange.Java(t, "single-table-phase-2-3.5", 12).Request)
	var legacy item
	for _, it := range interchange.Items(t) {
		if it.State == "3.5-table-migration-deployed" && keyIn(it.Attributes, "key") == coordinator.ClientVersionKey {
			legacy = it.Attributes
		}
	}
	require.NotContains(t, legacy, "entityType")
	m, move, err := plan(legacy)
	require.NoError(t, err)
	require.True(t, move)
	got := actionsOf(t, interchange.Sent(t, func(c *dynamodb.Client) {
		assert.ErrorIs(t, testTables(c, "C").moveBatch(t.Context(), []moving{m}), interchange.ErrCaptured)
	}))
	java[1].Members["ReturnValuesOnConditionCheckFailure"] = allOld
	require.Empty(t, java[2].Terms)
	require.Len(t, got[2].Terms, len(legacy))
	java[2].Terms = got[2].Terms
	assert.Equal(t, java, got)
}

// single-table-migration#35: the finalizing transaction is Java's, with the time
// that was read and the lease table's lock.
func TestFinalizeIsJavas(t *testing.T) {
	sent := interchange.Java(t, "single-table-phase-2-3.5", 15)
	java := actionsOf(t, sent.Request)
	var in struct {
		TransactItems []struct {
			Put struct{ Item json.RawMessage }
		}
	}
	require.NoError(t, json.Unmarshal(sent.Body, &in))
	d := Decision{Do: Finalize, State: stateIn(t, in.TransactItems[2].Put.Item)}
	lock := item{"ownerName": str("C"), "leaseDuration": str("120000"), "recordVersionNumber": str("a93faa10-95e1-4861-96a8-082b91b0ba03")}
	got := actionsOf(t, interchange.Sent(t, func(c *dynamodb.Client) {
		a, took, err := testTables(c, "C").Finalize(t.Context(), d, before(d.State), lock)
		assert.Equal(t, Uncertain, a)
		assert.False(t, took)
		assert.ErrorIs(t, err, interchange.ErrCaptured)
	}))
	require.Len(t, got, 4)
	java[1].Members["ReturnValuesOnConditionCheckFailure"] = allOld
	java[2].Terms = append([]string{mts(t, before(d.State))}, java[2].Terms...)
	assert.Equal(t, java, got[:3])
	// The lock is as Java puts it, and as it stood there afterwards.
	want := interchange.Parse(t, interchange.Java(t, "single-table-phase-2-3.5", 18).Request)
	want.Operation = "Put"
	for i, line := range want.Item {
		if len(line) > 19 && line[:19] == "recordVersionNumber" {
			want.Item[i] = `recordVersionNumber = {"S":"a93faa10-95e1-4861-96a8-082b91b0ba03"}`
		}
	}
	assert.Equal(t, want, got[3])
}
