package dynamodb

import "encoding/json"

// Sizes of the units that capacity is counted in.
const (
	writeUnitBytes = 1 << 10
	readUnitBytes  = 4 << 10
)

// scanPartitions is how many storage partitions a fresh on-demand table has. A
// Scan costs at least one read for each that its page looks into.
const scanPartitions = 4

// writeUnits is what writing so many bytes costs.
func writeUnits(bytes int) int { return units(bytes, writeUnitBytes) }

// units is the number of unit-sized pieces of so many bytes, at least 1.
func units(bytes, unit int) int { return max(1, (bytes+unit-1)/unit) }

// How much of a unit a read of 4 KB costs, in halves.
const (
	eventual      = 1
	consistent    = 2
	transactional = 4
)

func readKind(isConsistent bool) int {
	if isConsistent {
		return consistent
	}
	return eventual
}

// readUnits is what reading so many bytes costs.
func readUnits(bytes, kind int) float64 {
	return float64(units(bytes, readUnitBytes)*kind) / 2
}

// writeCost is what a write costs the table and those of its indexes to which it
// makes a difference.
type writeCost struct {
	table   int
	indexes []indexCost
}

type indexCost struct {
	name  string
	units int
}

// consumed is ConsumedCapacity in an answer. Table and indexes are told for
// INDEXES only, kinds of units for transactions only.
type consumed struct {
	TableName              string                   `json:"TableName"`
	CapacityUnits          float64                  `json:"CapacityUnits"`
	ReadCapacityUnits      float64                  `json:"ReadCapacityUnits,omitempty"`
	WriteCapacityUnits     float64                  `json:"WriteCapacityUnits,omitempty"`
	Table                  *consumedUnits           `json:"Table,omitempty"`
	GlobalSecondaryIndexes map[string]consumedUnits `json:"GlobalSecondaryIndexes,omitempty"`
}

type consumedUnits struct {
	CapacityUnits      float64 `json:"CapacityUnits"`
	ReadCapacityUnits  float64 `json:"ReadCapacityUnits,omitempty"`
	WriteCapacityUnits float64 `json:"WriteCapacityUnits,omitempty"`
}

func (c *consumed) appendJSON(dst []byte) []byte {
	b, err := json.Marshal(c)
	if err != nil {
		panic("dynamodb: consumed capacity does not encode: " + err.Error())
	}
	return append(dst, b...)
}

// detail is how much a request wants to know of consumed capacity.
type detail uint8

const (
	noCapacity detail = iota
	totalCapacity
	indexCapacity
)

func (c *constraints) detail(member *string) detail {
	c.oneOf(member, "returnConsumedCapacity", "INDEXES", "TOTAL", "NONE")
	switch {
	case member == nil:
		return noCapacity
	case *member == "TOTAL":
		return totalCapacity
	case *member == "INDEXES":
		return indexCapacity
	}
	return noCapacity
}

// unitsKind says which of the members for kinds of units are filled.
type unitsKind uint8

const (
	anyUnits   unitsKind = iota // none: not a transaction
	readKindOf                  // ReadCapacityUnits
	writeKindOf
)

// bill adds up what a call consumed, by table.
type bill struct {
	want   detail
	kind   unitsKind
	tables []string // as the request names them, in the order first seen
	costs  map[string]*cost
}

type cost struct {
	table   float64
	indexes map[string]float64
}

func (b *bill) of(table string) *cost {
	c := b.costs[table]
	if c == nil {
		c = &cost{}
		if b.costs == nil {
			b.costs = map[string]*cost{}
		}
		b.costs[table] = c
		b.tables = append(b.tables, table)
	}
	return c
}

func (b *bill) addTable(table string, units float64) {
	if b.want != noCapacity {
		b.of(table).table += units
	}
}

func (b *bill) addIndex(table, index string, units float64) {
	if b.want == noCapacity {
		return
	}
	c := b.of(table)
	if c.indexes == nil {
		c.indexes = map[string]float64{}
	}
	c.indexes[index] += units
}

// addWrite adds a write; factor is 2 for the table's share in a transaction.
func (b *bill) addWrite(table string, w writeCost, factor int) {
	b.addTable(table, float64(w.table*factor))
	for _, x := range w.indexes {
		b.addIndex(table, x.name, float64(x.units))
	}
}

// lines returns an entry for each table, nil if none is wanted.
func (b *bill) lines() []consumed {
	if b.want == noCapacity {
		return nil
	}
	lines := make([]consumed, 0, len(b.tables))
	for _, name := range b.tables {
		c := b.costs[name]
		total := c.table
		for _, u := range c.indexes {
			total += u
		}
		all := b.units(total)
		line := consumed{TableName: name, CapacityUnits: total, ReadCapacityUnits: all.ReadCapacityUnits, WriteCapacityUnits: all.WriteCapacityUnits}
		if b.want == indexCapacity {
			t := b.units(c.table)
			line.Table = &t
			for index, u := range c.indexes {
				if line.GlobalSecondaryIndexes == nil {
					line.GlobalSecondaryIndexes = map[string]consumedUnits{}
				}
				line.GlobalSecondaryIndexes[index] = b.units(u)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func (b *bill) units(n float64) consumedUnits {
	switch b.kind {
	case readKindOf:
		return consumedUnits{CapacityUnits: n, ReadCapacityUnits: n}
	case writeKindOf:
		return consumedUnits{CapacityUnits: n, WriteCapacityUnits: n}
	}
	return consumedUnits{CapacityUnits: n}
}

// one returns the entry of a call on one table, nil if none is wanted.
func (b *bill) one() *consumed {
	if lines := b.lines(); len(lines) > 0 {
		return &lines[0]
	}
	return nil
}
