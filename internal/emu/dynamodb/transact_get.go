package dynamodb

import (
	"fmt"

	"github.com/go-kcl/kcl/internal/emu/attr"
	"github.com/go-kcl/kcl/internal/emu/expr"
)

// transactGetItems is TransactGetItems.
type transactGetItems struct {
	TransactItems          []transactGet
	ReturnConsumedCapacity *string
}

type transactGet struct {
	Get *struct {
		expr.Request
		TableName *string
		Key       attr.Item
	}
}

func (r *transactGetItems) tables() []string {
	return transactTables(r.TransactItems, func(g transactGet) *string {
		if g.Get == nil {
			return nil
		}
		return g.Get.TableName
	})
}

func (r *transactGetItems) compile() (plan, error) {
	var c constraints
	want := c.detail(r.ReturnConsumedCapacity)
	c.transaction(r.TransactItems == nil, len(r.TransactItems))
	for i, g := range r.TransactItems {
		at := fmt.Sprintf("transactItems.%d.member.get", i+1)
		if c.required(g.Get != nil, at); g.Get != nil {
			c.table(g.Get.TableName, at+".tableName")
			c.required(g.Get.Key != nil, at+".key")
		}
	}
	if err := c.err(); err != nil {
		return plan{}, err
	}
	var p plan
	projections := make([]*expr.Projection, len(r.TransactItems))
	for i, g := range r.TransactItems {
		if err := g.Get.CheckForms(expr.OpTransactGet); err != nil {
			return plan{}, err
		}
		if err := g.Get.Key.Check(); err != nil {
			return plan{}, err
		}
		parsed, err := g.Get.Parse(expr.OpTransactGet)
		if err != nil {
			return plan{}, err
		}
		projections[i] = parsed.Projection
		p.touches = append(p.touches, Touch{Table: tableName(g.Get.TableName), Key: g.Get.Key})
	}
	p.run = func(v *view) (any, error) { return r.run(v, projections, want) }
	return p, nil
}

func (r *transactGetItems) run(v *view, projections []*expr.Projection, want detail) (any, error) {
	tables := make([]*table, len(r.TransactItems))
	for i, g := range r.TransactItems {
		t, err := v.dataTable(*g.Get.TableName)
		if err != nil {
			return nil, err
		}
		tables[i] = t
	}
	for i, g := range r.TransactItems {
		if err := tables[i].keys.checkKey(g.Get.Key); err != nil {
			return nil, invalidAt(i, len(tables), err)
		}
	}
	seen := make(map[spot]bool, len(tables))
	reasons := make([]reason, len(tables))
	answer := struct {
		Responses        []foundItem
		ConsumedCapacity []consumed `json:",omitempty"`
	}{Responses: make([]foundItem, len(tables))}
	b := bill{want: want, kind: readKindOf}
	for i, g := range r.TransactItems {
		t := tables[i]
		if err := t.keys.checkValues(g.Get.Key); err != nil {
			return nil, err
		}
		at := spot{t, t.keys.place(g.Get.Key)}
		if seen[at] {
			return nil, errSameItem
		}
		seen[at] = true
		if reasons[i] = reasonNone; v.inConflict(i, t, at.place) {
			reasons[i] = reasonConflict
			continue
		}
		item, size := t.rows.latest(at.place)
		b.addTable(*g.Get.TableName, readUnits(size, transactional))
		if part := projections[i].Apply(item); item != nil && len(part) > 0 {
			answer.Responses[i].Item = &part
		}
	}
	if err := cancelled(reasons); err != nil {
		return nil, err
	}
	answer.ConsumedCapacity = b.lines()
	return answer, nil
}
