package lease

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/emu/attr"
	"github.com/go-kcl/kcl/internal/emu/expr"
	"github.com/go-kcl/kcl/internal/interchange"
)

// state is an item that another worker may have left under our key; nil: none.
type state struct {
	name string
	item item
}

// conditionalWrites are all conditional writes, each with the item as the
// caller read it and states that must make it fail.
var conditionalWrites = []struct {
	name    string
	do      func(context.Context, *Store) (bool, error)
	read    item // nil: nothing was there
	refused []state
	// implied terms cannot fail alone: another one asks for the same and more.
	implied []string
}{
	{
		name:    "create",
		do:      func(ctx context.Context, s *Store) (bool, error) { return s.Create(ctx, ownedLease()) },
		refused: []state{{"made by another", ownedItem().with(item{attrOwner: nil})}},
	},
	{
		name:    "renew",
		do:      refuses(func(ctx context.Context, s *Store) (Lease, bool, error) { return s.Renew(ctx, ownedLease()) }),
		read:    ownedItem().with(nil),
		refused: []state{gone, {"moved", changed(attrCounter, "7")}, {"another's hand-off", owners("C", "B")}},
	},
	{
		name: "renew during a hand-off",
		do: refuses(func(ctx context.Context, s *Store) (Lease, bool, error) {
			return s.Renew(ctx, with(ownedLease(), "B", "A"))
		}),
		read:    owners("B", "A"),
		refused: []state{gone, {"moved", testItem(owners("B", "A")).with(item{attrCounter: &number{Value: "7"}})}},
	},
	{
		name:    "checkpoint",
		do:      refuses(func(ctx context.Context, s *Store) (Lease, bool, error) { return s.Checkpoint(ctx, ownedLease()) }),
		read:    ownedItem().with(nil),
		refused: []state{gone, {"moved", changed(attrCounter, "7")}},
	},
	{
		name: "assign free lease",
		do: refuses(func(ctx context.Context, s *Store) (Lease, bool, error) {
			return s.Assign(ctx, with(ownedLease(), "", ""), "D", false)
		}),
		read:    owners("", ""),
		refused: []state{gone, {"taken", owners("C", "")}, {"hand-off without owner", owners("", "C")}},
	},
	{
		name: "assign owned lease",
		do: refuses(func(ctx context.Context, s *Store) (Lease, bool, error) {
			return s.Assign(ctx, ownedLease(), "D", false)
		}),
		read:    ownedItem().with(nil),
		refused: []state{gone, {"taken", owners("C", "")}, {"evicted", owners("", "")}, {"hand-off begun", owners("A", "C")}},
		implied: []string{attrKey},
	},
	{
		name: "assign expired lease",
		do: refuses(func(ctx context.Context, s *Store) (Lease, bool, error) {
			return s.Assign(ctx, ownedLease(), "D", true)
		}),
		read: ownedItem().with(nil),
		refused: []state{
			gone, {"taken", owners("C", "")}, {"evicted", owners("", "")}, {"hand-off begun", owners("A", "C")},
			{"renewed", changed(attrCounter, "6")},
		},
		implied: []string{attrKey},
	},
	{
		name: "complete hand-off",
		do: refuses(func(ctx context.Context, s *Store) (Lease, bool, error) {
			return s.Assign(ctx, with(ownedLease(), "B", "A"), "B", false)
		}),
		read:    owners("B", "A"),
		refused: []state{gone, {"going elsewhere", owners("C", "A")}, {"from another", owners("B", "C")}},
		implied: []string{attrKey},
	},
	{
		name: "start hand-off",
		do: refuses(func(ctx context.Context, s *Store) (Lease, bool, error) {
			return s.StartHandOff(ctx, ownedLease(), "D")
		}),
		read:    ownedItem().with(nil),
		refused: []state{gone, {"taken", owners("C", "")}, {"evicted", owners("", "")}, {"pending", owners("A", "C")}},
		implied: []string{attrKey},
	},
	{
		name:    "evict",
		do:      refuses(func(ctx context.Context, s *Store) (Lease, bool, error) { return s.Evict(ctx, ownedLease()) }),
		read:    ownedItem().with(nil),
		refused: []state{gone, {"taken", owners("C", "")}, {"evicted", owners("", "")}, {"hand-off begun", owners("A", "C")}},
		implied: []string{attrKey},
	},
	{
		name: "evict during a hand-off",
		do: refuses(func(ctx context.Context, s *Store) (Lease, bool, error) {
			return s.Evict(ctx, with(ownedLease(), "B", "A"))
		}),
		read:    owners("B", "A"),
		refused: []state{gone, {"going elsewhere", owners("C", "A")}, {"from another", owners("B", "C")}, {"done", owners("B", "")}},
		implied: []string{attrKey},
	},
	{
		name: "evict free lease",
		do: refuses(func(ctx context.Context, s *Store) (Lease, bool, error) {
			return s.Evict(ctx, with(ownedLease(), "", ""))
		}),
		read:    owners("", ""),
		refused: []state{gone, {"taken", owners("C", "")}, {"hand-off without owner", owners("", "C")}},
	},
	{
		name: "set children",
		do: func(ctx context.Context, s *Store) (bool, error) {
			return false, s.SetChildren(ctx, testKey, []string{"c"})
		},
		refused: []state{gone},
	},
	{
		name: "set hash range",
		do: func(ctx context.Context, s *Store) (bool, error) {
			return false, s.SetHashRange(ctx, testKey, hashRange("0", "1"))
		},
		refused: []state{gone},
	},
	{
		name: "delete if as read",
		do: func(ctx context.Context, s *Store) (bool, error) {
			return s.DeleteIf(ctx, ownedLease(), IfCounter|IfCheckpoint)
		},
		read: ownedItem().with(nil),
		refused: []state{
			{"renewed", changed(attrCounter, "6")},
			{"checkpointed", ownedItem().with(item{attrCheckpoint: &str{Value: "101"}})},
			{"checkpointed within the aggregate", changed(attrCheckpointSub, "4")},
		},
	},
	{
		name: "delete if ended",
		do: func(ctx context.Context, s *Store) (bool, error) {
			l := ownedLease()
			l.Checkpoint = kcl.ShardEnd
			return s.DeleteIf(ctx, l, IfCheckpoint)
		},
		read: ownedItem().with(item{attrCheckpoint: &str{Value: "SHARD_END"}, attrCheckpointSub: &number{Value: "0"}}),
		refused: []state{
			{"not ended", ownedItem().with(item{attrCheckpointSub: &number{Value: "0"}})},
			{"no such end", ownedItem().with(item{attrCheckpoint: &str{Value: "SHARD_END"}, attrCheckpointSub: &number{Value: "1"}})},
		},
	},
}

var gone = state{"gone", nil}

func owners(owner, checkpointOwner string) item {
	change := item{attrOwner: nil, attrCheckpointOwner: nil}
	if owner != "" {
		change[attrOwner] = &str{Value: owner}
	}
	if checkpointOwner != "" {
		change[attrCheckpointOwner] = &str{Value: checkpointOwner}
	}
	return ownedItem().with(change)
}

func changed(attr, n string) item { return ownedItem().with(item{attr: &number{Value: n}}) }

func refuses(f func(context.Context, *Store) (Lease, bool, error)) func(context.Context, *Store) (bool, error) {
	return func(ctx context.Context, s *Store) (bool, error) {
		_, ok, err := f(ctx, s)
		return ok, err
	}
}

// leases#17,19, ruling 5: each state that differs from what was read refuses
// the write and is left as it is, and each term of each condition is needed for
// one of them: a condition that loses a term fails this test.
func TestEveryConditionCounts(t *testing.T) {
	for _, write := range conditionalWrites {
		t.Run(write.name, func(t *testing.T) {
			for _, s := range write.refused {
				w := newTableWorld(t, false)
				w.put(s.item)
				ok, err := write.do(t.Context(), w.store)
				require.NoError(t, err, s.name)
				assert.False(t, ok, s.name)
				assert.Equal(t, s.item, w.item(testKey), s.name)
			}

			body := sentBy(t, testTable, false, func(ctx context.Context, s *Store) { _, _ = write.do(ctx, s) }).Body
			terms := conditionTerms(t, body)
			if write.read != nil {
				assert.True(t, holds(t, body, terms, write.read), "what was read fulfils the condition")
			}
			for i, term := range terms {
				rest := slices.Delete(slices.Clone(terms), i, i+1)
				needed := slices.ContainsFunc(write.refused, func(s state) bool {
					return !holds(t, body, terms, s.item) && holds(t, body, rest, s.item)
				})
				if slices.ContainsFunc(write.implied, func(attr string) bool { return strings.Contains(term, "#"+attr) }) {
					assert.False(t, needed, "term %s is said to be implied", term)
					continue
				}
				assert.True(t, needed, "no state is kept out by term %s alone", term)
			}
		})
	}
}

func conditionTerms(t *testing.T, body []byte) []string {
	t.Helper()
	var in expr.Request
	require.NoError(t, json.Unmarshal(body, &in))
	require.NotNil(t, in.ConditionExpression)
	return strings.Split(*in.ConditionExpression, " AND ")
}

// holds reports whether it fulfils the condition made of some of the terms of
// the request.
func holds(t *testing.T, body []byte, terms []string, it item) bool {
	t.Helper()
	if len(terms) == 0 {
		return true
	}
	var in expr.Request
	require.NoError(t, json.Unmarshal(body, &in))
	condition := strings.Join(terms, " AND ")
	in.ConditionExpression, in.UpdateExpression = &condition, nil
	unused := func(name string) bool { return !slices.Contains(placeholders(condition), name) }
	maps.DeleteFunc(in.ExpressionAttributeNames, func(name, _ string) bool { return unused(name) })
	maps.DeleteFunc(in.ExpressionAttributeValues, func(name string, _ attr.Value) bool { return unused(name) })
	if len(in.ExpressionAttributeValues) == 0 {
		in.ExpressionAttributeValues = nil
	}
	parsed, err := in.Parse(expr.OpDelete)
	require.NoError(t, err)
	return parsed.Condition.Eval(interchange.Canonical(t, it))
}

func placeholders(expression string) []string {
	return strings.FieldsFunc(expression, func(r rune) bool { return strings.ContainsRune(" ()=,", r) })
}

// Each write leaves every attribute alone that it does not know.
func TestWritesLeaveForeignAttributesAlone(t *testing.T) {
	owned := testItem(singleItem()).with(item{attrOwner: &str{Value: "A"}, attrCheckpointOwner: nil})
	ownedL := with(singleLease(), "A", "")
	pending := singleItem() // (B, A)
	pendingL := singleLease()
	for _, tc := range []struct {
		name  string
		state item
		do    func(context.Context, *Store) error
		want  item // changes
	}{
		{"renew", owned, func(ctx context.Context, s *Store) error { return must(s.Renew(ctx, ownedL)) }, item{
			attrCounter: &number{Value: "43"},
		}},
		{"renew, learning of a hand-off", pending, func(ctx context.Context, s *Store) error { return must(s.Renew(ctx, ownedL)) }, item{
			attrCounter: &number{Value: "43"},
		}},
		{"checkpoint", owned, func(ctx context.Context, s *Store) error {
			l := ownedL.Clone()
			l.Checkpoint, l.Pending, l.PendingState, l.OwnerSwitches = kcl.ShardEnd, kcl.Position{}, nil, 0
			l.Children, l.HashRange, l.HasThroughput = nil, kcl.HashRange{}, false
			return must(s.Checkpoint(ctx, l))
		}, item{
			attrCounter: &number{Value: "43"}, attrOwnerSwitches: &number{Value: "0"},
			attrCheckpoint: &str{Value: "SHARD_END"}, attrCheckpointSub: &number{Value: "0"},
			attrPending: nil, attrPendingSub: nil, attrPendingState: nil,
		}},
		{"assign", owned, func(ctx context.Context, s *Store) error { return must(s.Assign(ctx, ownedL, "C", true)) }, item{
			attrOwner: &str{Value: "C"}, attrCounter: &number{Value: "43"}, attrOwnerSwitches: &number{Value: "4"},
		}},
		{"complete hand-off", pending, func(ctx context.Context, s *Store) error { return must(s.Assign(ctx, pendingL, "B", false)) }, item{
			attrCheckpointOwner: nil, attrCounter: &number{Value: "43"},
		}},
		{"start hand-off", owned, func(ctx context.Context, s *Store) error { return must(s.StartHandOff(ctx, ownedL, "B")) }, item{
			attrOwner: &str{Value: "B"}, attrCheckpointOwner: &str{Value: "A"},
		}},
		{"evict", owned, func(ctx context.Context, s *Store) error { return must(s.Evict(ctx, ownedL)) }, item{
			attrOwner: nil, attrCounter: &number{Value: "43"},
		}},
		{"evict during a hand-off", pending, func(ctx context.Context, s *Store) error { return must(s.Evict(ctx, pendingL)) }, item{
			attrCheckpointOwner: nil, attrCounter: &number{Value: "43"},
		}},
		{"set children", owned, func(ctx context.Context, s *Store) error { return s.SetChildren(ctx, ownedL.Key, []string{"c"}) }, item{
			attrChildren: &stringSet{Value: []string{"c"}},
		}},
		{"set hash range", owned, func(ctx context.Context, s *Store) error {
			return s.SetHashRange(ctx, ownedL.Key, hashRange("1", "2"))
		}, item{
			attrHashStart: &str{Value: "1"}, attrHashEnd: &str{Value: "2"},
		}},
		{"create, too late", owned, func(ctx context.Context, s *Store) error {
			_, err := s.Create(ctx, ownedL)
			return err
		}, nil},
		{"delete, refused", owned, func(ctx context.Context, s *Store) error {
			_, err := s.DeleteIf(ctx, Lease{Key: ownedL.Key, Counter: 1}, IfCounter)
			return err
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newTableWorld(t, false)
			w.put(testItem(tc.state).with(foreign()))
			before := w.item(ownedL.Key)
			require.NoError(t, tc.do(t.Context(), w.store))
			assert.Equal(t, testItem(before).with(tc.want), w.item(ownedL.Key))
		})
	}
}

func must(_ Lease, ok bool, err error) error {
	if err == nil && !ok {
		return errors.New("refused")
	}
	return err
}
