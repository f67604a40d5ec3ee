package dynamodb

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-kcl/kcl/internal/emu/attr"
	"github.com/go-kcl/kcl/internal/emu/expr"
)

const (
	maxIndexes = 20 // a table
	maxTags    = 50 // a table
)

// createTable is CreateTable.
type createTable struct {
	TableName                 *string
	AttributeDefinitions      []attributeDefinition
	KeySchema                 []keySchemaElement
	BillingMode               *string
	ProvisionedThroughput     *throughputSetting
	GlobalSecondaryIndexes    []indexSetting
	LocalSecondaryIndexes     []struct{}
	StreamSpecification       *struct{ StreamEnabled bool }
	TableClass                *string
	DeletionProtectionEnabled *bool
	Tags                      []tag
}

// indexSetting describes an index to be created.
type indexSetting struct {
	IndexName             *string
	KeySchema             []keySchemaElement
	Projection            *projectionSetting
	ProvisionedThroughput *throughputSetting
}

type projectionSetting struct {
	ProjectionType   *string
	NonKeyAttributes []string
}

type throughputSetting struct{ ReadCapacityUnits, WriteCapacityUnits *int64 }

func (r *createTable) tables() []string { return named(r.TableName) }

func (r *createTable) compile() (plan, error) {
	var c constraints
	c.table(r.TableName, "tableName")
	c.required(r.KeySchema != nil, "keySchema")
	c.required(r.AttributeDefinitions != nil, "attributeDefinitions")
	c.definitions(r.AttributeDefinitions)
	if r.KeySchema != nil {
		c.keySchema(r.KeySchema, "keySchema")
	}
	c.oneOf(r.BillingMode, "billingMode", "PROVISIONED", "PAY_PER_REQUEST")
	c.oneOf(r.TableClass, "tableClass", "STANDARD", "STANDARD_INFREQUENT_ACCESS")
	c.throughput(r.ProvisionedThroughput, "provisionedThroughput")
	for i, x := range r.GlobalSecondaryIndexes {
		c.index(x, fmt.Sprintf("globalSecondaryIndexes.%d.member", i+1))
	}
	c.tags(r.Tags, "tags")
	if err := c.err(); err != nil {
		return plan{}, err
	}
	t, err := r.table()
	if err != nil {
		return plan{}, err
	}
	return plan{run: func(v *view) (any, error) { return v.create(t) }}, nil
}

// table returns the table that the request describes, if it may exist.
func (r *createTable) table() (*table, error) {
	switch {
	case len(r.LocalSecondaryIndexes) > 0:
		return nil, invalidf("One or more parameter values were invalid: local secondary indexes are not emulated")
	case r.StreamSpecification != nil && r.StreamSpecification.StreamEnabled:
		return nil, invalidf("One or more parameter values were invalid: streams are not emulated")
	}
	t := &table{
		name:      tableName(r.TableName),
		protected: r.DeletionProtectionEnabled != nil && *r.DeletionProtectionEnabled,
	}
	if r.TableClass != nil {
		t.class = *r.TableClass
	}
	t.billing.onDemand = r.BillingMode != nil && *r.BillingMode == "PAY_PER_REQUEST"
	t.billing.everSet = t.billing.onDemand
	var err error
	if t.capacity, err = t.billing.throughput(r.ProvisionedThroughput, ""); err != nil {
		return nil, err
	}
	defs, err := attributeTypes(r.AttributeDefinitions)
	if err != nil {
		return nil, err
	}
	if t.keys, err = newKeySchema(r.KeySchema, defs, ""); err != nil {
		return nil, err
	}
	switch {
	case r.GlobalSecondaryIndexes == nil:
		if len(defs) != len(t.keys.attrs()) {
			return nil, invalidf("One or more parameter values were invalid: Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions")
		}
	case len(r.GlobalSecondaryIndexes) == 0:
		return nil, invalidf("One or more parameter values were invalid: List of GlobalSecondaryIndexes is empty")
	case len(r.GlobalSecondaryIndexes) > maxIndexes:
		return nil, invalidf("One or more parameter values were invalid: GlobalSecondaryIndex count exceeds the per-table limit of %d", maxIndexes)
	}
	for _, s := range r.GlobalSecondaryIndexes {
		x, err := newIndex(s, defs, t.billing)
		if err != nil {
			return nil, err
		}
		if t.index(x.name) != nil {
			return nil, invalidf("One or more parameter values were invalid: Duplicate index name: %s", x.name)
		}
		x.life.withTable = true
		t.indexes = append(t.indexes, x)
	}
	if used := t.definitions(); len(used) != len(defs) {
		return nil, invalidf("One or more parameter values were invalid: Some AttributeDefinitions are not used. AttributeDefinitions: [%s], keys used: [%s]",
			joinNames(r.AttributeDefinitions), joinAttrs(used))
	}
	if len(r.Tags) > maxTags {
		return nil, errTooManyTags
	}
	t.tags.now, err = newTags(r.Tags)
	return t, err
}

// create puts a new table into the account.
func (v *view) create(t *table) (any, error) {
	if old := v.find(t.name); old != nil {
		if old.status(v.now) == creating {
			return nil, inUse("Table is being created: %s", t.name)
		}
		return nil, refuse("ResourceInUseException", "Table already exists: %s", t.name)
	}
	wait := v.timing.TableCreate
	if len(t.indexes) > 0 {
		wait = v.timing.TableCreateIndexed
	}
	t.arn, t.id = tableARN(v.who, t.name), v.newID()
	t.life = tableLife{created: v.now, active: v.now.Add(wait)}
	t.nextCount = v.now.Add(v.timing.Statistics)
	t.billing.onDemandAt = t.life.active
	for _, x := range t.indexes {
		x.life.active, x.life.ready = t.life.active, t.life.active
	}
	v.account.tables[t.name] = t
	d := t.describe(justBefore(v.now))
	d.hideWarmth()
	return describedTable{d}, nil
}

// hideWarmth drops what the answer of CreateTable does not tell yet.
func (d *tableDescription) hideWarmth() {
	d.WarmThroughput = nil
	for i := range d.GlobalSecondaryIndexes {
		d.GlobalSecondaryIndexes[i].WarmThroughput = nil
	}
}

// newIndex returns the index that a setting describes, if it may exist.
func newIndex(s indexSetting, defs map[string]attr.Kind, b billing) (*index, error) {
	x := &index{name: *s.IndexName}
	var err error
	if x.keys, err = newKeySchema(s.KeySchema, defs, x.name); err != nil {
		return nil, err
	}
	if s.Projection.ProjectionType == nil {
		return nil, invalidf("One or more parameter values were invalid: Unknown ProjectionType: null")
	}
	x.projection = projection{Type: *s.Projection.ProjectionType, NonKeys: s.Projection.NonKeyAttributes}
	switch includes := x.projection.Type == "INCLUDE"; {
	case includes && len(x.projection.NonKeys) == 0:
		return nil, invalidf("One or more parameter values were invalid: ProjectionType is INCLUDE, but NonKeyAttributes is not specified")
	case !includes && s.Projection.NonKeyAttributes != nil:
		return nil, invalidf("One or more parameter values were invalid: ProjectionType is %s, but NonKeyAttributes is specified", x.projection.Type)
	}
	x.capacity, err = b.throughput(s.ProvisionedThroughput, x.name)
	return x, err
}

// throughput returns the capacity that a setting gives a table, or an index if
// one is named: there must be one exactly if capacity is provisioned.
func (b billing) throughput(s *throughputSetting, index string) (throughput, error) {
	of := ""
	if index != "" {
		of = " for index: " + index
	}
	switch {
	case b.onDemand && s != nil:
		return throughput{}, invalidf("One or more parameter values were invalid: Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST%s", of)
	case b.onDemand:
		return throughput{}, nil
	case s == nil:
		return throughput{}, invalidf("One or more parameter values were invalid: ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED%s", of)
	}
	return throughput{*s.ReadCapacityUnits, *s.WriteCapacityUnits}, nil
}

// attributeTypes returns the definitions as a map; each name must be defined once.
func attributeTypes(defs []attributeDefinition) (map[string]attr.Kind, error) {
	types := make(map[string]attr.Kind, len(defs))
	for _, d := range defs {
		if _, twice := types[d.AttributeName]; twice {
			return nil, invalidf("One or more parameter values were invalid: Duplicate AttributeName in AttributeDefinitions: %s", d.AttributeName)
		}
		types[d.AttributeName] = attr.KindOf(d.AttributeType)
	}
	return types, nil
}

// newKeySchema returns the key of a table, or of an index if one is named.
func newKeySchema(elements []keySchemaElement, defs map[string]attr.Kind, index string) (keySchema, error) {
	if elements[0].KeyType != "HASH" {
		return keySchema{}, invalidf("Invalid KeySchema: The first KeySchemaElement is not a HASH key type")
	}
	if len(elements) > 1 {
		if elements[1].KeyType != "RANGE" {
			return keySchema{}, invalidf("Invalid KeySchema: The second KeySchemaElement is not a RANGE key type")
		}
		if elements[0].AttributeName == elements[1].AttributeName {
			return keySchema{}, invalidf("Both the Hash Key and the Range Key element in the KeySchema have the same name")
		}
	}
	attrs := make([]expr.KeyAttr, 2)
	var undefined []string
	for i, e := range elements {
		kind, ok := defs[e.AttributeName]
		if !ok {
			undefined = append(undefined, e.AttributeName)
		}
		attrs[i] = expr.KeyAttr{Name: e.AttributeName, Kind: kind}
	}
	if len(undefined) > 0 {
		if index != "" {
			return keySchema{}, invalidf("One or more parameter values were invalid: Some index key attributes are not defined in AttributeDefinitions: %s, IndexName: %s", strings.Join(undefined, ", "), index)
		}
		return keySchema{}, invalidf("One or more parameter values were invalid: Some index key attributes are not defined in AttributeDefinitions. Keys: [%s]", strings.Join(undefined, ", "))
	}
	return keySchema{hash: attrs[0], rang: attrs[1]}, nil
}

func (c *constraints) definitions(defs []attributeDefinition) {
	for i, d := range defs {
		member := fmt.Sprintf("attributeDefinitions.%d.member.", i+1)
		c.length(len(d.AttributeName), member+"attributeName", 1, 255, d.AttributeName)
		c.oneOf(&d.AttributeType, member+"attributeType", "B", "N", "S")
	}
}

func (c *constraints) keySchema(elements []keySchemaElement, member string) {
	c.length(len(elements), member, 1, 2, elements)
	for i, e := range elements {
		at := fmt.Sprintf("%s.%d.member.", member, i+1)
		c.length(len(e.AttributeName), at+"attributeName", 1, 255, e.AttributeName)
		c.oneOf(&e.KeyType, at+"keyType", "HASH", "RANGE")
	}
}

func (c *constraints) throughput(s *throughputSetting, member string) {
	if s == nil {
		return
	}
	for _, u := range []struct {
		units *int64
		name  string
	}{{s.ReadCapacityUnits, "readCapacityUnits"}, {s.WriteCapacityUnits, "writeCapacityUnits"}} {
		at := member + "." + u.name
		if c.required(u.units != nil, at); u.units != nil && *u.units < 1 {
			c.add(*u.units, at, "have value greater than or equal to 1")
		}
	}
}

func (c *constraints) index(s indexSetting, member string) {
	c.name(s.IndexName, member+".indexName")
	if c.required(s.KeySchema != nil, member+".keySchema"); s.KeySchema != nil {
		c.keySchema(s.KeySchema, member+".keySchema")
	}
	if c.required(s.Projection != nil, member+".projection"); s.Projection != nil {
		c.oneOf(s.Projection.ProjectionType, member+".projection.projectionType", "ALL", "INCLUDE", "KEYS_ONLY")
		if s.Projection.NonKeyAttributes != nil {
			c.length(len(s.Projection.NonKeyAttributes), member+".projection.nonKeyAttributes", 1, 20, s.Projection.NonKeyAttributes)
		}
	}
	c.throughput(s.ProvisionedThroughput, member+".provisionedThroughput")
}

func joinNames(defs []attributeDefinition) string {
	names := make([]string, len(defs))
	for i, d := range defs {
		names[i] = d.AttributeName
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func joinAttrs(attrs []expr.KeyAttr) string {
	names := make([]string, len(attrs))
	for i, a := range attrs {
		names[i] = a.Name
	}
	return strings.Join(names, ", ")
}
