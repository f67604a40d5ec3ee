package dynamodb

import (
	"time"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

// tableDescription is a table on the wire.
type tableDescription struct {
	AttributeDefinitions      []attributeDefinition  `json:"AttributeDefinitions,omitempty"`
	TableName                 string                 `json:"TableName"`
	KeySchema                 []keySchemaElement     `json:"KeySchema,omitempty"`
	TableStatus               string                 `json:"TableStatus"`
	CreationDateTime          *wire.Time             `json:"CreationDateTime,omitempty"`
	ProvisionedThroughput     throughputDescription  `json:"ProvisionedThroughput"`
	TableSizeBytes            int                    `json:"TableSizeBytes"`
	ItemCount                 int                    `json:"ItemCount"`
	TableArn                  string                 `json:"TableArn"`
	TableID                   string                 `json:"TableId"`
	BillingModeSummary        *billingModeSummary    `json:"BillingModeSummary,omitempty"`
	GlobalSecondaryIndexes    []indexDescription     `json:"GlobalSecondaryIndexes,omitempty"`
	TableClassSummary         *tableClassSummary     `json:"TableClassSummary,omitempty"`
	DeletionProtectionEnabled bool                   `json:"DeletionProtectionEnabled"`
	WarmThroughput            *warmThroughputSummary `json:"WarmThroughput,omitempty"`
}

type indexDescription struct {
	IndexName             string                 `json:"IndexName"`
	KeySchema             []keySchemaElement     `json:"KeySchema"`
	Projection            projection             `json:"Projection"`
	IndexStatus           string                 `json:"IndexStatus"`
	Backfilling           *bool                  `json:"Backfilling,omitempty"`
	ProvisionedThroughput throughputDescription  `json:"ProvisionedThroughput"`
	IndexSizeBytes        int                    `json:"IndexSizeBytes"`
	ItemCount             int                    `json:"ItemCount"`
	IndexArn              string                 `json:"IndexArn"`
	WarmThroughput        *warmThroughputSummary `json:"WarmThroughput,omitempty"`
}

type attributeDefinition struct {
	AttributeName string `json:"AttributeName"`
	AttributeType string `json:"AttributeType"`
}

type keySchemaElement struct {
	AttributeName string `json:"AttributeName"`
	KeyType       string `json:"KeyType"`
}

type throughputDescription struct {
	throughput
	NumberOfDecreasesToday int `json:"NumberOfDecreasesToday"`
}

type billingModeSummary struct {
	BillingMode                       string     `json:"BillingMode"`
	LastUpdateToPayPerRequestDateTime *wire.Time `json:"LastUpdateToPayPerRequestDateTime,omitempty"`
}

type tableClassSummary struct {
	TableClass string `json:"TableClass"`
}

type warmThroughputSummary struct {
	ReadUnitsPerSecond  int64  `json:"ReadUnitsPerSecond"`
	WriteUnitsPerSecond int64  `json:"WriteUnitsPerSecond"`
	Status              string `json:"Status"`
}

// describe returns the table as it looks at that instant.
func (t *table) describe(at time.Time) tableDescription {
	status := t.status(at)
	d := tableDescription{
		TableName:                 t.name,
		TableStatus:               status,
		ProvisionedThroughput:     throughputDescription{throughput: t.capacity},
		TableSizeBytes:            t.stats.bytes,
		ItemCount:                 t.stats.items,
		TableArn:                  t.arn,
		TableID:                   t.id,
		DeletionProtectionEnabled: t.protected,
	}
	if t.class != "" {
		d.TableClassSummary = &tableClassSummary{t.class}
	}
	if t.billing.everSet {
		d.BillingModeSummary = &billingModeSummary{BillingMode: "PROVISIONED"}
		if t.billing.onDemand {
			d.BillingModeSummary.BillingMode = "PAY_PER_REQUEST"
		}
		if status != creating {
			d.BillingModeSummary.LastUpdateToPayPerRequestDateTime = &wire.Time{Time: t.billing.onDemandAt}
		}
	}
	if status == deleting {
		return d
	}
	for _, def := range t.definitions() {
		d.AttributeDefinitions = append(d.AttributeDefinitions, attributeDefinition{def.Name, def.Kind.String()})
	}
	d.CreationDateTime = &wire.Time{Time: t.life.created}
	d.KeySchema = t.keys.describe()
	d.WarmThroughput = t.warm(t.capacity)
	for _, x := range t.indexes {
		d.GlobalSecondaryIndexes = append(d.GlobalSecondaryIndexes, indexDescription{
			IndexName:             x.name,
			KeySchema:             x.keys.describe(),
			Projection:            x.projection,
			IndexStatus:           x.life.status(at),
			Backfilling:           x.life.backfilling(at),
			ProvisionedThroughput: throughputDescription{throughput: x.capacity},
			IndexSizeBytes:        x.stats.bytes,
			ItemCount:             x.stats.items,
			IndexArn:              t.arn + "/index/" + x.name,
			WarmThroughput:        t.warm(x.capacity),
		})
	}
	return d
}

// justBefore returns the instant at which an answer describes what its call has
// started: even what takes no time is told as begun, not as done.
func justBefore(now time.Time) time.Time { return now.Add(-1) }

// warm returns what a table or index can take at once: the first figures of an
// on-demand table, or else what is provisioned.
func (t *table) warm(capacity throughput) *warmThroughputSummary {
	if t.billing.onDemand {
		return &warmThroughputSummary{12000, 4000, active}
	}
	return &warmThroughputSummary{capacity.Read, capacity.Write, active}
}

func (k keySchema) describe() []keySchemaElement {
	elements := []keySchemaElement{{k.hash.Name, "HASH"}}
	if k.hasRange() {
		elements = append(elements, keySchemaElement{k.rang.Name, "RANGE"})
	}
	return elements
}

// count takes the statistics when their time has come. No write has happened
// since then, for every call settles the table first.
func (t *table) count(now time.Time, every time.Duration) {
	if t.nextCount.After(now) {
		return
	}
	t.stats = statistics{t.rows.count, t.rows.bytes}
	for _, x := range t.indexes {
		x.stats = statistics{x.entries.len(), x.bytes}
	}
	t.nextCount = t.nextCount.Add(now.Sub(t.nextCount).Truncate(every) + every)
}

// describeTable is DescribeTable.
type describeTable struct{ TableName *string }

func (r *describeTable) tables() []string { return named(r.TableName) }

func (r *describeTable) compile() (plan, error) {
	var c constraints
	c.table(r.TableName, "tableName")
	if err := c.err(); err != nil {
		return plan{}, err
	}
	return plan{run: func(v *view) (any, error) {
		t, err := v.controlTable(*r.TableName)
		if err != nil {
			return nil, err
		}
		if v.now.Before(t.life.created.Add(v.timing.TableUnseen)) {
			return nil, errNoNamedTable(t.name)
		}
		return struct{ Table tableDescription }{t.describe(v.now)}, nil
	}}, nil
}

// describedTable is the answer of the calls that change a table.
type describedTable struct{ TableDescription tableDescription }

func named(name *string) []string {
	if name == nil {
		return nil
	}
	return []string{*name}
}
