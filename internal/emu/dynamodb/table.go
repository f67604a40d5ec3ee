package dynamodb

import (
	"slices"
	"strings"
	"time"

	"github.com/go-kcl/kcl/internal/emu/attr"
	"github.com/go-kcl/kcl/internal/emu/expr"
)

// table is one table: its definition, its life, its items.
type table struct {
	name, arn, id string
	life          tableLife
	keys          keySchema
	class         string
	billing       billing
	capacity      throughput
	protected     bool
	protectedAt   time.Time // of the last change of protected by UpdateTable
	indexes       []*index  // in the order of creation
	backups       backups
	tags          tags
	stats         statistics
	nextCount     time.Time
	rows          rows
	held          map[string]time.Time // items that a transaction touches until then, by storage key
}

// billing is a table's mode of payment.
type billing struct {
	onDemand   bool
	everSet    bool // BillingModeSummary is told, for the table is or was on demand
	onDemandAt time.Time
}

// throughput is provisioned capacity in units a second, 0 on demand.
type throughput struct {
	Read  int64 `json:"ReadCapacityUnits"`
	Write int64 `json:"WriteCapacityUnits"`
}

// statistics are the counts that DescribeTable tells, as of the last time that
// the service took them.
type statistics struct {
	items, bytes int
}

// definitions returns the types of the attributes that keys of the table and of
// its indexes use, by name.
func (t *table) definitions() []expr.KeyAttr {
	defs := t.keys.attrs()
	for _, x := range t.indexes {
		defs = append(defs, x.keys.attrs()...)
	}
	slices.SortFunc(defs, func(a, b expr.KeyAttr) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact(defs)
}

func (t *table) index(name string) *index {
	for _, x := range t.indexes {
		if x.name == name {
			return x
		}
	}
	return nil
}

// settle applies what has come due by now. A call does so before it looks.
func (t *table) settle(now time.Time, every time.Duration) {
	t.rows.settle(now)
	for _, x := range t.indexes {
		x.settle(now)
	}
	t.indexes = slices.DeleteFunc(t.indexes, func(x *index) bool { return due(x.life.gone, now) })
	t.count(now, every)
	for place, until := range t.held {
		if !until.After(now) {
			delete(t.held, place)
		}
	}
}

// write makes item (nil: none) what the place holds, in the table and in its
// indexes, and returns what that costs.
func (t *table) write(place string, old attr.Item, oldSize int, item attr.Item, size int, v *view) writeCost {
	cost := writeCost{table: writeUnits(max(oldSize, size))}
	t.rows.set(place, item, size, v.now, v.lag.Read)
	for _, x := range t.indexes {
		if x.life.status(v.now) == deleting {
			continue
		}
		if units := x.write(place, old, item, t.keys, v.now, v.drawIndex); units > 0 {
			cost.indexes = append(cost.indexes, indexCost{x.name, units})
		}
	}
	return cost
}

// backfill copies the table's items into a new index.
func (t *table) backfill(x *index, now time.Time) {
	for e := range t.rows.ascend("", now) {
		if copied := x.entryOf(e.item, e.place, t.keys); copied.item != nil {
			x.apply(copied)
		}
	}
}
