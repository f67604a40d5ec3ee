package dynamodb

import (
	"maps"
	"slices"
)

// deleteTable is DeleteTable.
type deleteTable struct{ TableName *string }

func (r *deleteTable) tables() []string { return named(r.TableName) }

func (r *deleteTable) compile() (plan, error) {
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
		if err := v.deletable(t); err != nil {
			return nil, err
		}
		wait := v.timing.TableDelete
		if len(t.indexes) > 0 {
			wait = v.timing.TableDeleteIndexed
		}
		t.life.deleted, t.life.gone = v.now, v.now.Add(wait)
		return describedTable{t.describe(v.now)}, nil
	}}, nil
}

// deletable says why the table cannot be deleted now, if so.
func (v *view) deletable(t *table) error {
	switch t.status(v.now) {
	case creating:
		return inUse("Table is being created: %s", t.name)
	case deleting:
		return inUse("Table is being deleted: %s", t.name)
	}
	switch {
	case t.protected:
		return invalidf("Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first.")
	case v.now.Before(t.life.resized):
		return inUse("Table: %s is in the process of being updated.", t.name)
	case t.busyIndex(v.now) != nil:
		return inUse("Cannot delete table while indexes are being created, updated, or deleted.")
	case v.now.Before(t.tags.busy):
		return inUse("Table tags are being updated: %s", t.name)
	}
	return nil
}

// maxListed is how many names a page of ListTables holds.
const maxListed = 100

// listTables is ListTables.
type listTables struct {
	ExclusiveStartTableName *string
	Limit                   *int
}

func (r *listTables) tables() []string { return nil }

func (r *listTables) compile() (plan, error) {
	var c constraints
	if r.ExclusiveStartTableName != nil {
		c.name(r.ExclusiveStartTableName, "exclusiveStartTableName")
	}
	c.between(r.Limit, "limit", 1, maxListed)
	if err := c.err(); err != nil {
		return plan{}, err
	}
	return plan{run: func(v *view) (any, error) {
		names := v.tableNames()
		if r.ExclusiveStartTableName != nil {
			start, found := slices.BinarySearch(names, *r.ExclusiveStartTableName)
			if found {
				start++
			}
			names = names[start:]
		}
		limit := maxListed
		if r.Limit != nil {
			limit = *r.Limit
		}
		out := struct {
			TableNames             []string
			LastEvaluatedTableName string `json:",omitempty"`
		}{TableNames: names}
		if len(names) > limit {
			out.TableNames, out.LastEvaluatedTableName = names[:limit], names[limit-1]
		}
		return out, nil
	}}, nil
}

// tableNames returns the names of all tables, whatever their state, sorted.
func (v *view) tableNames() []string {
	names := []string{}
	for _, name := range slices.Sorted(maps.Keys(v.account.tables)) {
		if v.find(name) != nil {
			names = append(names, name)
		}
	}
	return names
}
