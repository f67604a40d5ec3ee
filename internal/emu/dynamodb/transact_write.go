package dynamodb

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-kcl/kcl/internal/emu/attr"
	"github.com/go-kcl/kcl/internal/emu/expr"
)

const maxTransactBytes = 4 << 20 // of the items, keys and values in a transaction's request

// transactWriteItems is TransactWriteItems.
type transactWriteItems struct {
	transactWrite
	digest [sha256.Size]byte // of the content, whatever the order of JSON members
}

type transactWrite struct {
	TransactItems               []transactAction
	ClientRequestToken          *string
	ReturnConsumedCapacity      *string
	ReturnItemCollectionMetrics *string
}

// transactAction holds exactly one of four actions.
type transactAction struct {
	ConditionCheck, Put, Update, Delete *transactMember
}

// transactMember is any of the four; each has its own of Item and Key.
type transactMember struct {
	expr.Request
	TableName                           *string
	Item                                attr.Item
	Key                                 attr.Item
	ReturnValuesOnConditionCheckFailure *string
}

// UnmarshalJSON implements [json.Unmarshaler].
func (r *transactWriteItems) UnmarshalJSON(b []byte) error {
	if err := json.Unmarshal(b, &r.transactWrite); err != nil {
		return err
	}
	if r.ClientRequestToken == nil {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var content map[string]any
	if err := dec.Decode(&content); err != nil {
		return err
	}
	plain, err := json.Marshal(content) // names sorted
	r.digest = sha256.Sum256(plain)
	return err
}

// only returns the action that is given, its verb and what its request part is;
// ok is false if there is none or more than one.
func (a transactAction) only() (m *transactMember, v verb, op expr.Op, ok bool) {
	n := 0
	for _, c := range []struct {
		m  *transactMember
		v  verb
		op expr.Op
	}{{a.ConditionCheck, check, expr.OpCheck}, {a.Put, put, expr.OpTransactPut}, {a.Update, update, expr.OpTransactUpdate}, {a.Delete, remove, expr.OpTransactDelete}} {
		if c.m != nil {
			m, v, op = c.m, c.v, c.op
			n++
		}
	}
	return m, v, op, n == 1
}

func (r *transactWriteItems) tables() []string {
	return transactTables(r.TransactItems, func(a transactAction) *string {
		if m, _, _, ok := a.only(); ok {
			return m.TableName
		}
		return nil
	})
}

func (r *transactWriteItems) compile() (plan, error) {
	want, err := r.constrain()
	if err != nil {
		return plan{}, err
	}
	var p plan
	payload := 0
	actions := make([]*action, len(r.TransactItems))
	for i, item := range r.TransactItems {
		m, does, op, ok := item.only()
		if !ok {
			return plan{}, errOneOfActions
		}
		if actions[i], err = m.compile(does, op); err != nil {
			return plan{}, err
		}
		p.touches = append(p.touches, actions[i].touch())
		payload += actions[i].item.Size() + m.ExpressionAttributeValues.Size()
	}
	if payload > maxTransactBytes {
		return plan{}, errTransactPayload
	}
	p.run = func(v *view) (any, error) { return r.run(v, actions, want) }
	return p, nil
}

func (r *transactWriteItems) constrain() (detail, error) {
	var c constraints
	want := c.detail(r.ReturnConsumedCapacity)
	c.oneOf(r.ReturnItemCollectionMetrics, "returnItemCollectionMetrics", "SIZE", "NONE")
	c.transaction(r.TransactItems == nil, len(r.TransactItems))
	if r.ClientRequestToken != nil {
		c.length(len(*r.ClientRequestToken), "clientRequestToken", 1, 36, *r.ClientRequestToken)
	}
	for i, item := range r.TransactItems {
		m, does, _, ok := item.only()
		if !ok {
			continue
		}
		at := fmt.Sprintf("transactItems.%d.member.%s.", i+1, map[verb]string{check: "conditionCheck", put: "put", update: "update", remove: "delete"}[does])
		c.table(m.TableName, at+"tableName")
		if does == put {
			c.required(m.Item != nil, at+"item")
		} else {
			c.required(m.Key != nil, at+"key")
		}
		if does == update {
			c.required(m.UpdateExpression != nil, at+"updateExpression")
		}
		if does == check {
			c.required(m.ConditionExpression != nil, at+"conditionExpression")
		}
		c.oneOf(m.ReturnValuesOnConditionCheckFailure, at+"returnValuesOnConditionCheckFailure", "ALL_OLD", "NONE")
	}
	return want, c.err()
}

func (m *transactMember) compile(v verb, op expr.Op) (*action, error) {
	a := &action{verb: v, table: *m.TableName, item: m.Key, tellOld: tellOld(m.ReturnValuesOnConditionCheckFailure)}
	if v == put {
		a.item = m.Item
	}
	if err := m.CheckForms(op); err != nil {
		return nil, err
	}
	if err := a.item.Check(); err != nil {
		return nil, err
	}
	parsed, err := m.Parse(op)
	a.cond, a.update = parsed.Condition, parsed.Update
	return a, err
}

func (r *transactWriteItems) run(v *view, actions []*action, want detail) (any, error) {
	// Every table must exist, whatever else is wrong.
	spots := make([]spot, len(actions))
	for i, a := range actions {
		t, err := v.dataTable(a.table)
		if err != nil {
			return nil, err
		}
		spots[i].table = t
	}
	if r.ClientRequestToken != nil {
		known, err := v.account.tokens.check(*r.ClientRequestToken, r.digest, v.now)
		if err != nil {
			return nil, err
		}
		if known {
			return r.repeated(spots, actions, want), nil
		}
	}
	// What refuses the whole request goes before what cancels it.
	var misfit error
	seen := make(map[spot]bool, len(actions))
	for i, a := range actions {
		t := spots[i].table
		if err := a.fits(t); err != nil {
			if misfit == nil {
				misfit = invalidAt(i, len(actions), err)
			}
			continue
		}
		if err := a.allowed(t); err != nil {
			return nil, err
		}
		spots[i].place = a.place(t)
		if seen[spots[i]] {
			return nil, errSameItem
		}
		seen[spots[i]] = true
	}
	if misfit != nil {
		return nil, misfit
	}
	outcomes, err := decideAll(v, actions, spots)
	if err != nil {
		return nil, err
	}
	b := bill{want: want, kind: writeKindOf}
	for i, o := range outcomes {
		b.addWrite(actions[i].table, o.commit(v), 2) // a check leaves its item as it is, and costs as much
		if v.lag.Transaction > 0 {
			o.table.hold(o.place, v.now.Add(v.lag.Transaction))
		}
	}
	if r.ClientRequestToken != nil {
		v.account.tokens.add(*r.ClientRequestToken, r.digest, v.now.Add(v.lag.Transaction))
	}
	return transactAnswer{b.lines()}, nil
}

type transactAnswer struct {
	ConsumedCapacity []consumed `json:",omitempty"`
}

// repeated is the answer to a transaction that has been carried out: it is
// charged as a read of the items.
func (r *transactWriteItems) repeated(spots []spot, actions []*action, want detail) transactAnswer {
	b := bill{want: want, kind: readKindOf}
	for i, a := range actions {
		_, size := spots[i].table.rows.latest(a.place(spots[i].table))
		b.addTable(a.table, readUnits(size, transactional))
	}
	return transactAnswer{b.lines()}
}

// decideAll works out all outcomes, or the cancellation with its reasons. Every
// failing condition is told, and of the updates that fail the first.
func decideAll(v *view, actions []*action, spots []spot) ([]outcome, error) {
	outcomes := make([]outcome, len(actions))
	reasons := make([]reason, len(actions))
	invalid := false
	for i, a := range actions {
		reasons[i] = reasonNone
		if v.inConflict(i, spots[i].table, spots[i].place) {
			reasons[i] = reasonConflict
			continue
		}
		var err error
		if outcomes[i], err = a.decide(spots[i].table, spots[i].place); err == nil {
			continue
		}
		reason := reasonOf(err)
		if reason.Code == "ValidationError" {
			if invalid {
				continue
			}
			invalid = true
		}
		reasons[i] = reason
	}
	return outcomes, cancelled(reasons)
}

// hold makes the item part of a transaction until then.
func (t *table) hold(place string, until time.Time) {
	if t.held == nil {
		t.held = map[string]time.Time{}
	}
	t.held[place] = until
}
