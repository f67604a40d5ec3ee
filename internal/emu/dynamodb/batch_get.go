package dynamodb

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/go-kcl/kcl/internal/emu/attr"
	"github.com/go-kcl/kcl/internal/emu/expr"
)

// Limits of batches.
const (
	maxBatchGets   = 100
	maxBatchWrites = 25
	maxBatchBytes  = 16 << 20
)

// batchGetItem is BatchGetItem.
type batchGetItem struct {
	RequestItems           map[string]*batchKeys
	ReturnConsumedCapacity *string
}

// batchKeys is what a batch reads of one table. Entries that were not processed
// are answered in the same form.
type batchKeys struct {
	Keys                     []sentKey
	ConsistentRead           bool              `json:",omitempty"`
	ProjectionExpression     *string           `json:",omitempty"`
	ExpressionAttributeNames map[string]string `json:",omitempty"`
	AttributesToGet          []string          `json:",omitempty"`
}

// sentKey is a key with its text as sent: a batch may read an item twice if the
// numbers in its key are written in two ways.
type sentKey struct {
	attr.Item
	text string
}

// UnmarshalJSON implements [json.Unmarshaler].
func (k *sentKey) UnmarshalJSON(b []byte) error {
	if err := k.Item.UnmarshalJSON(b); err != nil {
		return err
	}
	var plain map[string]map[string]any
	if err := json.Unmarshal(b, &plain); err != nil {
		return err
	}
	text, err := json.Marshal(plain) // names sorted
	k.text = string(text)
	return err
}

func (r *batchGetItem) tables() []string { return slices.Sorted(maps.Keys(r.RequestItems)) }

func (r *batchGetItem) compile() (plan, error) {
	var c constraints
	want := c.detail(r.ReturnConsumedCapacity)
	c.batch(r.RequestItems == nil, len(r.RequestItems))
	names := r.tables()
	sum := 0
	for _, name := range names {
		at := "requestItems." + name + ".member"
		c.table(&name, at)
		k := r.RequestItems[name]
		if k == nil {
			c.required(false, at)
			continue
		}
		if c.required(k.Keys != nil, at+".keys"); k.Keys != nil {
			c.length(len(k.Keys), at+".keys", 1, maxBatchGets, fmt.Sprintf("%d keys", len(k.Keys)))
		}
		sum += len(k.Keys)
	}
	if err := c.err(); err != nil {
		return plan{}, err
	}
	if sum > maxBatchGets {
		return plan{}, invalidf("Too many items requested for the BatchGetItem call")
	}
	projections := map[string]*expr.Projection{}
	for _, name := range names {
		k := r.RequestItems[name]
		x := expr.Request{ProjectionExpression: k.ProjectionExpression, ExpressionAttributeNames: k.ExpressionAttributeNames, AttributesToGet: k.AttributesToGet}
		if err := x.CheckForms(expr.OpGet); err != nil {
			return plan{}, err
		}
		seen := map[string]bool{}
		for _, key := range k.Keys {
			if err := key.Check(); err != nil {
				return plan{}, err
			}
			if seen[key.text] {
				return plan{}, errDuplicateKeys
			}
			seen[key.text] = true
		}
		parsed, err := x.Parse(expr.OpGet)
		if err != nil {
			return plan{}, err
		}
		projections[name] = parsed.Projection
	}
	return plan{run: func(v *view) (any, error) { return r.run(v, names, projections, want) }}, nil
}

func (r *batchGetItem) run(v *view, names []string, projections map[string]*expr.Projection, want detail) (any, error) {
	type located struct {
		name  string
		table *table
		key   sentKey
		place string
	}
	var all []located
	for _, name := range names {
		t, err := v.dataTable(name)
		if err != nil {
			return nil, err
		}
		for _, key := range r.RequestItems[name].Keys {
			place, err := t.locate(key.Item)
			if err != nil {
				return nil, err
			}
			all = append(all, located{name, t, key, place})
		}
	}
	answer := struct {
		Responses        map[string][]attr.Item
		UnprocessedKeys  map[string]batchKeys
		ConsumedCapacity []consumed `json:",omitempty"`
	}{map[string][]attr.Item{}, map[string]batchKeys{}, nil}
	for _, name := range names {
		answer.Responses[name] = []attr.Item{}
	}
	b := bill{want: want}
	bytes := 0
	for _, l := range all {
		asked := r.RequestItems[l.name]
		item, size := l.table.rows.asOf(l.place, v.readAt(asked.ConsistentRead))
		if bytes += size; bytes > maxBatchBytes {
			left, ok := answer.UnprocessedKeys[l.name]
			if !ok {
				left = *asked
				left.Keys = nil
			}
			left.Keys = append(left.Keys, l.key)
			answer.UnprocessedKeys[l.name] = left
			continue
		}
		b.addTable(l.name, readUnits(size, readKind(asked.ConsistentRead)))
		if item != nil {
			answer.Responses[l.name] = append(answer.Responses[l.name], projections[l.name].Apply(item))
		}
	}
	answer.ConsumedCapacity = b.lines()
	return answer, nil
}

// batch checks the map of a batch's tables.
func (c *constraints) batch(absent bool, n int) {
	if absent {
		c.required(false, "requestItems")
		return
	}
	c.length(n, "requestItems", 1, maxBatchGets, "{}")
}
