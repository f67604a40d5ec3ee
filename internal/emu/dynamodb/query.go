package dynamodb

import (
	"iter"

	"github.com/go-kcl/kcl/internal/emu/attr"
	"github.com/go-kcl/kcl/internal/emu/expr"
)

// query is Query.
type query struct {
	readOptions
	expr.Request
	ScanIndexForward *bool
}

func (r *query) compile() (plan, error) {
	var c constraints
	want := r.constrain(&c)
	c.oneOf(r.ConditionalOperator, "conditionalOperator", "OR", "AND")
	if err := c.err(); err != nil {
		return plan{}, err
	}
	if err := r.CheckForms(expr.OpQuery); err != nil {
		return plan{}, err
	}
	if err := r.ExclusiveStartKey.Check(); err != nil {
		return plan{}, err
	}
	if r.KeyConditionExpression == nil && r.KeyConditions == nil {
		return plan{}, invalidf("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
	}
	parsed, err := r.Parse(expr.OpQuery)
	if err != nil {
		return plan{}, err
	}
	if err := r.checkSelect(parsed.Projection != nil); err != nil {
		return plan{}, err
	}
	return plan{run: func(v *view) (any, error) { return r.run(v, parsed, want) }}, nil
}

func (r *query) run(v *view, parsed expr.Parsed, want detail) (any, error) {
	s, err := r.source(v)
	if err != nil {
		return nil, err
	}
	keys := s.keys()
	wanted, err := parsed.KeyCondition.Bind(keys.hash, keys.rang)
	if err != nil {
		return nil, err
	}
	if err := parsed.Filter.CheckNoKeys(keys.names()...); err != nil {
		return nil, err
	}
	if err := r.checkProjected(s, parsed); err != nil {
		return nil, err
	}
	low, high := bounds(wanted)
	forward := r.ScanIndexForward == nil || *r.ScanIndexForward
	if r.ExclusiveStartKey != nil {
		place, err := s.find(r.ExclusiveStartKey)
		if err != nil {
			return nil, err
		}
		if place < low || place >= high {
			return nil, invalidf("The provided starting key is outside query boundaries based on provided conditions")
		}
		if forward {
			low = after(place)
		} else {
			high = place
		}
	}
	entries := until(s.ascend(low), func(e entry) bool { return e.place >= high })
	if !forward {
		entries = until(s.descend(high), func(e entry) bool { return e.place < low })
	}
	how := r.cut(v, parsed)
	p := how.take(entries)
	b := bill{want: want}
	r.charge(&b, readUnits(p.bytes, readKind(r.ConsistentRead)))
	return p.answer(s, how, b), nil
}

// checkProjected refuses a projection, or a filter, of attributes that an index
// does not hold.
func (r *readOptions) checkProjected(s source, parsed expr.Parsed) error {
	if s.index == nil || s.index.projection.Type == "ALL" {
		return nil
	}
	held := map[string]bool{}
	for _, names := range [][]string{s.table.keys.names(), s.index.keys.names(), s.index.projection.NonKeys} {
		for _, name := range names {
			held[name] = true
		}
	}
	for _, name := range parsed.Projection.Names() {
		if !held[name] {
			return invalidf("One or more parameter values were invalid: Global secondary index %s does not project [%s]", s.index.name, name)
		}
	}
	return nil
}

// bounds returns the storage keys between which a Query's entries lie: from low,
// below high.
func bounds(k expr.KeyRange) (low, high string) {
	p := partition(k.Partition)
	low, high = p, pastPrefix(p)
	if k.ByPrefix {
		p += string(appendEscaped(nil, k.Low.Text()))
		return p, pastPrefix(p)
	}
	// Entries with one sort key are its bytes and what an index puts after them.
	if k.Low.Kind() != attr.Invalid {
		if low = p + sortKey(k.Low); k.LowOpen {
			low = pastPrefix(low)
		}
	}
	if k.High.Kind() != attr.Invalid {
		if high = p + sortKey(k.High); !k.HighOpen {
			high = pastPrefix(high)
		}
	}
	return low, high
}

// until ends a sequence before the first entry for which over says so.
func until(entries iter.Seq[entry], over func(entry) bool) iter.Seq[entry] {
	return func(yield func(entry) bool) {
		for e := range entries {
			if over(e) || !yield(e) {
				return
			}
		}
	}
}
