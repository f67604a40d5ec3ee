package dynamodb

import (
	"fmt"
	"maps"
	"slices"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

// batchWriteItem is BatchWriteItem.
type batchWriteItem struct {
	RequestItems                map[string][]batchWrite
	ReturnConsumedCapacity      *string
	ReturnItemCollectionMetrics *string
}

// batchWrite is one entry, a put or a deletion. Entries that were not processed
// are answered in the same form.
type batchWrite struct {
	PutRequest    *batchPut    `json:",omitempty"`
	DeleteRequest *batchDelete `json:",omitempty"`
}

type batchPut struct{ Item attr.Item }

type batchDelete struct{ Key attr.Item }

func (r *batchWriteItem) tables() []string { return slices.Sorted(maps.Keys(r.RequestItems)) }

func (r *batchWriteItem) compile() (plan, error) {
	var c constraints
	want := c.detail(r.ReturnConsumedCapacity)
	c.oneOf(r.ReturnItemCollectionMetrics, "returnItemCollectionMetrics", "SIZE", "NONE")
	c.batch(r.RequestItems == nil, len(r.RequestItems))
	names := r.tables()
	sum := 0
	for _, name := range names {
		at := "requestItems." + name + ".member"
		c.table(&name, at)
		writes := r.RequestItems[name]
		c.length(len(writes), at, 1, maxBatchWrites, fmt.Sprintf("%d requests", len(writes)))
		for i, w := range writes {
			if w.PutRequest != nil {
				c.required(w.PutRequest.Item != nil, fmt.Sprintf("%s.%d.member.putRequest.item", at, i+1))
			}
			if w.DeleteRequest != nil {
				c.required(w.DeleteRequest.Key != nil, fmt.Sprintf("%s.%d.member.deleteRequest.key", at, i+1))
			}
		}
		sum += len(writes)
	}
	if err := c.err(); err != nil {
		return plan{}, err
	}
	if sum > maxBatchWrites {
		return plan{}, invalidf("Too many items requested for the BatchWriteItem call")
	}
	var p plan
	var actions []*action
	for _, name := range names {
		for _, w := range r.RequestItems[name] {
			a := &action{table: name}
			switch {
			case w.PutRequest != nil && w.DeleteRequest != nil:
				return plan{}, invalidf("Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes")
			case w.PutRequest != nil:
				a.verb, a.item = put, w.PutRequest.Item
			case w.DeleteRequest != nil:
				a.verb, a.item = remove, w.DeleteRequest.Key
			default:
				return plan{}, invalidf("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes")
			}
			if err := a.item.Check(); err != nil {
				return plan{}, err
			}
			actions = append(actions, a)
			p.touches = append(p.touches, a.touch())
		}
	}
	p.run = func(v *view) (any, error) { return runBatchWrite(v, actions, want) }
	return p, nil
}

func runBatchWrite(v *view, actions []*action, want detail) (any, error) {
	spots := make([]spot, len(actions))
	seen := make(map[spot]bool, len(actions))
	for i, a := range actions {
		t, err := v.dataTable(a.table)
		if err != nil {
			return nil, err
		}
		if err := a.check(t); err != nil {
			return nil, err
		}
		spots[i] = spot{t, a.place(t)}
		if seen[spots[i]] {
			return nil, errDuplicateKeys
		}
		seen[spots[i]] = true
	}
	answer := struct {
		UnprocessedItems map[string][]batchWrite
		ConsumedCapacity []consumed `json:",omitempty"`
	}{UnprocessedItems: map[string][]batchWrite{}}
	b := bill{want: want}
	for i, a := range actions {
		at := spots[i]
		if v.inConflict(i, at.table, at.place) {
			left := batchWrite{PutRequest: &batchPut{a.item}}
			if a.verb == remove {
				left = batchWrite{DeleteRequest: &batchDelete{a.item}}
			}
			answer.UnprocessedItems[a.table] = append(answer.UnprocessedItems[a.table], left)
			continue
		}
		o, err := a.decide(at.table, at.place) // no condition and no update: nothing to fail
		if err != nil {
			return nil, err
		}
		b.addWrite(a.table, o.commit(v), 1)
	}
	answer.ConsumedCapacity = b.lines()
	return answer, nil
}
