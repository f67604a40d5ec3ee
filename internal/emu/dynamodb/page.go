package dynamodb

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/go-kcl/kcl/internal/emu/attr"
	"github.com/go-kcl/kcl/internal/emu/expr"
)

// source is what Query and Scan read: a table as it was at an instant, or an
// index as far as it has caught up.
type source struct {
	table *table
	index *index // nil: the table itself
	at    time.Time
}

// keys returns the key that a Query's condition speaks of.
func (s source) keys() keySchema {
	if s.index != nil {
		return s.index.keys
	}
	return s.table.keys
}

// marker returns the LastEvaluatedKey that stands for an item's place.
func (s source) marker(item attr.Item) attr.Item {
	key := s.table.keys.pick(item)
	if s.index != nil {
		s.index.keys.pickInto(key, item)
	}
	return key
}

// find returns the storage key that a marker stands for. The marker holds
// exactly the key attributes, rightly typed; its item need not exist any more.
func (s source) find(marker attr.Item) (string, error) {
	attrs := s.table.keys.attrs()
	if s.index != nil {
		for _, a := range s.index.keys.attrs() {
			if a != s.table.keys.hash && a != s.table.keys.rang {
				attrs = append(attrs, a)
			}
		}
	}
	if len(marker) != len(attrs) {
		return "", errStartKey
	}
	for _, a := range attrs {
		if v, ok := marker[a.Name]; !ok || v.Kind() != a.Kind {
			return "", errStartKey
		}
	}
	place := s.table.keys.place(marker)
	if s.index != nil {
		place = s.index.place(marker, place)
	}
	return place, nil
}

var errStartKey = invalidf("The provided starting key is invalid: The provided key element does not match the schema")

func (s source) ascend(from string) iter.Seq[entry] {
	if s.index != nil {
		return s.index.ascend(from)
	}
	return s.table.rows.ascend(from, s.at)
}

func (s source) descend(before string) iter.Seq[entry] {
	if s.index != nil {
		return s.index.descend(before)
	}
	return s.table.rows.descend(before, s.at)
}

// cut says how a page is made of the entries that a read comes upon.
type cut struct {
	limit   int // of entries before the filter; 0: none
	bytes   int
	filter  *expr.Condition
	project *expr.Projection
	count   bool // items are only counted, and not answered
}

// page is what a Query or Scan answers.
type page struct {
	items   []attr.Item
	count   int
	scanned int
	bytes   int       // of what was scanned
	last    attr.Item // the last entry's item if the page was cut after it
	place   string    // the last entry's place
}

// take makes a page of the entries. It ends with the entry that reaches the
// limit, whether or not anything follows, or before the one that would exceed
// the bytes.
func (c cut) take(entries iter.Seq[entry]) page {
	var p page
	var latest attr.Item
	for e := range entries {
		if p.scanned > 0 && p.bytes+e.size > c.bytes {
			p.last = latest
			break
		}
		latest, p.place = e.item, e.place
		p.scanned++
		p.bytes += e.size
		if c.filter.Eval(e.item) {
			p.count++
			if !c.count {
				p.items = append(p.items, c.project.Apply(e.item))
			}
		}
		if p.scanned == c.limit {
			p.last = latest
			break
		}
	}
	return p
}

// pageAnswer is the answer of Query and Scan.
type pageAnswer struct {
	page
	counted  bool      // Items are left out
	next     attr.Item // LastEvaluatedKey, nil at the end
	consumed *consumed
}

func (p page) answer(s source, c cut, b bill) pageAnswer {
	a := pageAnswer{page: p, counted: c.count, consumed: b.one()}
	if p.last != nil {
		a.next = s.marker(p.last)
	}
	return a
}

// appendJSON implements [appender].
func (a pageAnswer) appendJSON(dst []byte) []byte {
	dst = slices.Grow(dst, a.bytes*2+200) // the types' names and quotes come on top
	dst = fmt.Appendf(dst, `{"Count":%d,"ScannedCount":%d`, a.count, a.scanned)
	if !a.counted {
		dst = append(dst, `,"Items":[`...)
		for i, item := range a.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = item.AppendJSON(dst)
		}
		dst = append(dst, ']')
	}
	if a.next != nil {
		dst = a.next.AppendJSON(append(dst, `,"LastEvaluatedKey":`...))
	}
	if a.consumed != nil {
		dst = a.consumed.appendJSON(append(dst, `,"ConsumedCapacity":`...))
	}
	return append(dst, '}')
}

// readOptions are the members that Query and Scan share besides the expressions.
type readOptions struct {
	TableName              *string
	IndexName              *string
	Select                 *string
	Limit                  *int
	ExclusiveStartKey      attr.Item
	ConsistentRead         bool
	ReturnConsumedCapacity *string
}

func (o *readOptions) tables() []string { return named(o.TableName) }

// indexName returns the index that is read, "" for the table itself.
func (o *readOptions) indexName() string {
	if o.IndexName == nil {
		return ""
	}
	return *o.IndexName
}

func (o *readOptions) constrain(c *constraints) detail {
	c.table(o.TableName, "tableName")
	if o.IndexName != nil {
		c.name(o.IndexName, "indexName")
	}
	c.oneOf(o.Select, "select", "SPECIFIC_ATTRIBUTES", "COUNT", "ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES")
	if o.Limit != nil && *o.Limit < 1 {
		c.add(*o.Limit, "limit", "have value greater than or equal to 1")
	}
	return c.detail(o.ReturnConsumedCapacity)
}

// checkSelect checks Select against the projection that was given.
func (o *readOptions) checkSelect(projected bool) error {
	if o.Select == nil {
		return nil
	}
	switch s := *o.Select; {
	case s == "SPECIFIC_ATTRIBUTES" && !projected:
		return invalidf("One or more parameter values were invalid: Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES")
	case s != "SPECIFIC_ATTRIBUTES" && projected:
		return invalidf("One or more parameter values were invalid: Cannot specify the AttributesToGet or ProjectionExpression when choosing to get %s", s)
	case s == "ALL_PROJECTED_ATTRIBUTES" && o.IndexName == nil:
		return invalidf("One or more parameter values were invalid: ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName")
	}
	return nil
}

// source returns what the request reads.
func (o *readOptions) source(v *view) (source, error) {
	t, err := v.dataTable(*o.TableName)
	if err != nil {
		return source{}, err
	}
	if o.IndexName == nil {
		return source{table: t, at: v.readAt(o.ConsistentRead)}, nil
	}
	x := t.index(*o.IndexName)
	switch {
	case x == nil || x.life.allocating(v.now) || x.life.status(v.now) == deleting:
		return source{}, errNoIndex(*o.IndexName)
	case x.life.status(v.now) == creating:
		return source{}, invalidf("Cannot read from backfilling global secondary index: %s", x.name)
	case v.now.Before(x.life.ready):
		return source{}, errNoIndex(*o.IndexName)
	case o.ConsistentRead:
		return source{}, invalidf("Consistent reads are not supported on global secondary indexes")
	case o.Select != nil && *o.Select == "ALL_ATTRIBUTES" && x.projection.Type != "ALL":
		return source{}, invalidf("One or more parameter values were invalid: Select type ALL_ATTRIBUTES is not supported for global secondary index %s because its projection type is not ALL", x.name)
	}
	return source{table: t, index: x}, nil
}

func errNoIndex(name string) error {
	return invalidf("The table does not have the specified index: %s", name)
}

// cut returns how the request's page is cut.
func (o *readOptions) cut(v *view, parsed expr.Parsed) cut {
	c := cut{
		bytes:   v.pageBytes,
		filter:  parsed.Filter,
		project: parsed.Projection,
		count:   o.Select != nil && *o.Select == "COUNT",
	}
	if o.Limit != nil {
		c.limit = *o.Limit
	}
	return c
}

// charge adds what reading the page costs.
func (o *readOptions) charge(b *bill, units float64) {
	if o.IndexName != nil {
		b.addTable(*o.TableName, 0)
		b.addIndex(*o.TableName, *o.IndexName, units)
		return
	}
	b.addTable(*o.TableName, units)
}
