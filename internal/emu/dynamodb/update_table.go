package dynamodb

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

// updateTable is UpdateTable.
type updateTable struct {
	TableName                   *string
	AttributeDefinitions        []attributeDefinition
	BillingMode                 *string
	ProvisionedThroughput       *throughputSetting
	GlobalSecondaryIndexUpdates []indexUpdate
	TableClass                  *string
	DeletionProtectionEnabled   *bool
}

// indexUpdate is one of three things to do with an index.
type indexUpdate struct {
	Create *indexSetting
	Update *struct {
		IndexName             *string
		ProvisionedThroughput *throughputSetting
	}
	Delete *struct{ IndexName *string }
}

func (u indexUpdate) name() string {
	switch {
	case u.Create != nil:
		return *u.Create.IndexName
	case u.Update != nil:
		return *u.Update.IndexName
	}
	return *u.Delete.IndexName
}

func (r *updateTable) tables() []string { return named(r.TableName) }

func (r *updateTable) compile() (plan, error) {
	if err := r.check(); err != nil {
		return plan{}, err
	}
	return plan{run: func(v *view) (any, error) {
		t, err := v.changeable(*r.TableName)
		if err != nil {
			return nil, err
		}
		if r.DeletionProtectionEnabled != nil {
			return v.protect(t, *r.DeletionProtectionEnabled)
		}
		change, err := r.plan(v, t)
		if err != nil {
			return nil, err
		}
		return describedTable{change(v, t)}, nil
	}}, nil
}

// check does the checks that need no table.
func (r *updateTable) check() error {
	var c constraints
	c.table(r.TableName, "tableName")
	c.definitions(r.AttributeDefinitions)
	c.oneOf(r.BillingMode, "billingMode", "PROVISIONED", "PAY_PER_REQUEST")
	c.oneOf(r.TableClass, "tableClass", "STANDARD", "STANDARD_INFREQUENT_ACCESS")
	c.throughput(r.ProvisionedThroughput, "provisionedThroughput")
	for i, u := range r.GlobalSecondaryIndexUpdates {
		at := fmt.Sprintf("globalSecondaryIndexUpdates.%d.member", i+1)
		if u.Create != nil {
			c.index(*u.Create, at+".create")
		}
		if u.Update != nil {
			c.name(u.Update.IndexName, at+".update.indexName")
			c.required(u.Update.ProvisionedThroughput != nil, at+".update.provisionedThroughput")
			c.throughput(u.Update.ProvisionedThroughput, at+".update.provisionedThroughput")
		}
		if u.Delete != nil {
			c.name(u.Delete.IndexName, at+".delete.indexName")
		}
	}
	if err := c.err(); err != nil {
		return err
	}
	others := len(r.GlobalSecondaryIndexUpdates) > 0 || r.BillingMode != nil || r.ProvisionedThroughput != nil || r.TableClass != nil
	switch {
	case r.DeletionProtectionEnabled != nil && others:
		return invalidf("DeletionProtection modification must be the only operation in the request")
	case r.DeletionProtectionEnabled == nil && !others:
		return invalidf("At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, GlobalSecondaryIndexUpdates or SSESpecification or ReplicaUpdates is required")
	}
	return r.checkIndexUpdates()
}

func (r *updateTable) checkIndexUpdates() error {
	seen := map[string]bool{}
	built := false
	for _, u := range r.GlobalSecondaryIndexUpdates {
		given := 0
		for _, ok := range []bool{u.Create != nil, u.Update != nil, u.Delete != nil} {
			if ok {
				given++
			}
		}
		if given != 1 {
			return invalidf("One or more parameter values were invalid: One of GlobalSecondaryIndexUpdate.Create, GlobalSecondaryIndexUpdate.Update or GlobalSecondaryIndexUpdate.Delete must be specified")
		}
		if seen[u.name()] {
			return invalidf("One or more parameter values were invalid: Only one global secondary index update per index is allowed simultaneously. Index: %s", u.name())
		}
		seen[u.name()] = true
		built = built || u.Update == nil
	}
	if built && (r.ProvisionedThroughput != nil && r.BillingMode == nil || r.TableClass != nil) {
		return invalidf("One or more parameter values were invalid: an index can be created or deleted beside a change of BillingMode or of an index's throughput only")
	}
	return nil
}

// changeable returns the table if UpdateTable can do anything with it.
func (v *view) changeable(name string) (*table, error) {
	t, err := v.controlTable(name)
	if err != nil {
		return nil, err
	}
	switch t.status(v.now) {
	case creating:
		return nil, inUse("Table is being created: %s", t.name)
	case deleting:
		return nil, inUse("Table is being deleted: %s", t.name)
	}
	return t, nil
}

// protect sets deletion protection, which takes effect at once. For a while
// after a change the service refuses to be told again, even the same.
func (v *view) protect(t *table, on bool) (any, error) {
	if free := t.protectedAt.Add(v.timing.ProtectionPause); !t.protectedAt.IsZero() && v.now.Before(free) {
		return nil, throttled("Deletion protection setting for table %s modified within the previous %d milliseconds. Please try again after %s",
			t.name, v.timing.ProtectionPause.Milliseconds(), free.UTC().Format(time.RFC3339))
	}
	if on != t.protected {
		t.protected, t.protectedAt = on, v.now
	}
	return describedTable{t.describe(v.now)}, nil
}

// plan decides what the request does to a table that is neither being created
// nor deleted. Nothing is changed before all of it has been found possible.
func (r *updateTable) plan(v *view, t *table) (func(*view, *table) tableDescription, error) {
	billed, capacity, resized, err := r.planCapacity(v, t)
	if err != nil {
		return nil, err
	}
	var build *indexUpdate
	for i, u := range r.GlobalSecondaryIndexUpdates {
		if u.Update != nil {
			if err := r.planResize(v, t, u, billed); err != nil {
				return nil, err
			}
			resized = true
			continue
		}
		if build != nil {
			return nil, errOneIndexAtATime
		}
		build = &r.GlobalSecondaryIndexUpdates[i]
	}
	if !billed.onDemand && t.billing.onDemand {
		for _, x := range t.indexes {
			if !slices.ContainsFunc(r.GlobalSecondaryIndexUpdates, func(u indexUpdate) bool { return u.name() == x.name }) {
				return nil, invalidf("One or more parameter values were invalid: ProvisionedThroughput is not specified for index: %s", x.name)
			}
		}
	}
	var created *index
	if build != nil {
		if created, err = r.planBuild(v, t, *build, billed); err != nil {
			return nil, err
		}
	}
	return func(v *view, t *table) tableDescription {
		if billed.onDemand != t.billing.onDemand {
			for _, x := range t.indexes {
				x.capacity = throughput{}
			}
		}
		t.billing, t.capacity = billed, capacity
		if r.TableClass != nil {
			t.class = *r.TableClass
		}
		if resized {
			t.life.resized = v.now.Add(v.timing.Throughput)
		}
		for _, u := range r.GlobalSecondaryIndexUpdates {
			if u.Update != nil {
				x := t.index(u.name())
				x.capacity = u.Update.ProvisionedThroughput.value()
				x.life.resized = v.now.Add(v.timing.Throughput)
			}
		}
		switch {
		case created != nil:
			t.indexes = append(t.indexes, created)
			t.backfill(created, v.now)
		case build != nil:
			x := t.index(build.name())
			x.life.deleted = v.now
			x.life.gone = v.now.Add(v.timing.IndexDelete)
			x.stop()
		}
		return r.describe(v, t)
	}, nil
}

// describe is the table just after the request, told as begun. What was done
// before is told as it is.
func (r *updateTable) describe(v *view, t *table) tableDescription {
	d := t.describe(v.now)
	if r.BillingMode != nil || r.ProvisionedThroughput != nil || len(r.GlobalSecondaryIndexUpdates) > 0 {
		d.TableStatus = updating
	}
	begun := t.describe(justBefore(v.now))
	for _, u := range r.GlobalSecondaryIndexUpdates {
		for i, x := range d.GlobalSecondaryIndexes {
			if x.IndexName != u.name() {
				continue
			}
			switch {
			case u.Create != nil:
				d.GlobalSecondaryIndexes[i] = begun.GlobalSecondaryIndexes[i]
			case u.Update != nil:
				d.GlobalSecondaryIndexes[i].IndexStatus = updating
			}
		}
	}
	return d
}

// planCapacity decides about the table's billing mode and capacity; resized says
// whether they change.
func (r *updateTable) planCapacity(v *view, t *table) (b billing, capacity throughput, resized bool, err error) {
	b, capacity = t.billing, t.capacity
	if r.BillingMode == nil && r.ProvisionedThroughput == nil {
		return b, capacity, false, nil
	}
	if v.now.Before(t.life.resized) {
		return b, capacity, false, inUse("Table IOPS are currently being updated. Table: %s", t.name)
	}
	if t.status(v.now) != active {
		return b, capacity, false, inUse("Table is being updated: %s", t.name)
	}
	if r.BillingMode != nil {
		if b.onDemand = *r.BillingMode == "PAY_PER_REQUEST"; b.onDemand && !t.billing.onDemand {
			b.everSet, b.onDemandAt = true, v.now
		}
	}
	if !b.onDemand && !t.billing.onDemand && r.ProvisionedThroughput == nil {
		return b, capacity, false, nil // provisioned as before
	}
	if capacity, err = b.throughput(r.ProvisionedThroughput, ""); err != nil {
		return b, capacity, false, err
	}
	if !b.onDemand && !t.billing.onDemand && capacity == t.capacity {
		return b, capacity, false, invalidf("The provisioned throughput for the table will not change. The requested value equals the current value. Current ReadCapacityUnits provisioned for the table: %d. Requested ReadCapacityUnits: %d. Current WriteCapacityUnits provisioned for the table: %d. Requested WriteCapacityUnits: %d.",
			t.capacity.Read, capacity.Read, t.capacity.Write, capacity.Write)
	}
	return b, capacity, b.onDemand != t.billing.onDemand || capacity != t.capacity, nil
}

// indexWork says what is being done to an index in that state.
var indexWork = map[string]string{creating: "created", updating: "updated", deleting: "deleted"}

// planResize checks a change of an index's capacity.
func (r *updateTable) planResize(v *view, t *table, u indexUpdate, b billing) error {
	x := t.index(u.name())
	if x == nil {
		return errNoNamedIndex(t, u.name())
	}
	if doing := indexWork[x.life.status(v.now)]; doing != "" {
		return inUse("Index is being %s.  Table: %s Index: %s", doing, t.name, x.name)
	}
	if v.now.Before(t.life.resized) {
		return inUse("Table IOPS are currently being updated. Table: %s", t.name)
	}
	_, err := b.throughput(u.Update.ProvisionedThroughput, x.name)
	return err
}

// planBuild decides about the creation or deletion of an index. It returns the
// index to be created, nil for a deletion.
func (r *updateTable) planBuild(v *view, t *table, u indexUpdate, b billing) (*index, error) {
	name := u.name()
	if v.now.Before(t.life.resized) {
		return nil, inUse("Can't create or delete indexes while table IOPS are being updated. Table: %s", t.name)
	}
	old := t.index(name)
	var created *index
	if u.Create != nil {
		var err error
		if created, err = r.newIndex(t, *u.Create, b); err != nil {
			return nil, err
		}
		if old != nil && old.life.status(v.now) == active {
			return nil, invalidf("Attempting to create an index which already exists")
		}
	} else if old == nil {
		return nil, errNoNamedIndex(t, name)
	}
	for _, x := range t.indexes {
		if s := x.life.status(v.now); x != old && (s == creating || s == deleting) {
			return nil, errOneIndexAtATime
		}
	}
	if old != nil {
		switch status := old.life.status(v.now); {
		case status == deleting || status == updating:
			return nil, inUse("Index is being %s.  Table: %s Index: %s", indexWork[status], t.name, name)
		case u.Create != nil: // it is being created
			return nil, v.secondCreate.err(t.name, name)
		case old.life.allocating(v.now):
			return nil, inUse("Index creation is in resource allocation phase. Retry deletion during backfilling phase or when the index is active. Table: %s Index: %s", t.name, name)
		}
		return nil, nil
	}
	if len(t.indexes) >= maxIndexes {
		return nil, limitExceeded("Number of global secondary indexes would exceed the per-table limit of %d", maxIndexes)
	}
	created.life = indexLife{
		allocated: v.now.Add(v.timing.IndexAllocate),
		active:    v.now.Add(v.timing.IndexAllocate + v.timing.IndexBackfill),
		ready:     v.now.Add(v.timing.IndexAllocate + v.timing.IndexBackfill + v.timing.IndexUnready),
	}
	return created, nil
}

// newIndex returns the index to be created. Its keys must be defined in the
// request, even if the table knows them, and not otherwise than the table does.
func (r *updateTable) newIndex(t *table, s indexSetting, b billing) (*index, error) {
	if len(r.AttributeDefinitions) == 0 {
		return nil, invalidf("AttributeDefinitions is not specified for index: %s", *s.IndexName)
	}
	defs, err := attributeTypes(r.AttributeDefinitions)
	if err != nil {
		return nil, err
	}
	known := map[string]attr.Kind{}
	for _, d := range t.definitions() {
		known[d.Name] = d.Kind
	}
	for _, e := range s.KeySchema {
		defined, ok := defs[e.AttributeName]
		if !ok {
			return nil, invalidf("AttributeDefinitions is not specified for index: %s", *s.IndexName)
		}
		if kind, ok := known[e.AttributeName]; ok && kind != defined {
			return nil, invalidf("One or more parameter values were invalid: Attributes cannot be redefined. Please check that your attribute has the same type as previously defined. Existing schema: %s Requested: %s AttributeName: %s", kind, defined, e.AttributeName)
		}
	}
	return newIndex(s, defs, b)
}

func (s *throughputSetting) value() throughput {
	return throughput{*s.ReadCapacityUnits, *s.WriteCapacityUnits}
}

func (s SecondCreate) err(table, index string) error {
	switch s {
	case SecondCreateLimitExceeded:
		return errOneIndexAtATime
	case SecondCreateInvalid:
		return invalidf("Attempting to create an index which already exists")
	}
	return inUse("Index is being created.  Table: %s Index: %s", table, index)
}
