package dynamodb

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/go-kcl/kcl/internal/emu/attr"
	"github.com/go-kcl/kcl/internal/emu/wire"
)

// dumped is a whole table as [Service.Load] and [Service.Dump] know it.
type dumped struct {
	AttributeDefinitions []attributeDefinition
	KeySchema            []keySchemaElement
	GSI                  []dumpedIndex
	Items                []attr.Item
}

type dumpedIndex struct {
	IndexName  string
	KeySchema  []keySchemaElement
	Projection projection
}

// Load puts whole tables, ACTIVE and on demand, into the caller's account and
// region: a JSON object of tables by name, each with AttributeDefinitions,
// KeySchema, GSI (a list of IndexName, KeySchema, Projection) and Items. It
// replaces tables of the same names, and loads nothing if anything is wrong.
func (s *Service) Load(who wire.Caller, r io.Reader) error {
	var all map[string]dumped
	if err := json.NewDecoder(r).Decode(&all); err != nil {
		return fmt.Errorf("tables: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.view(who)
	var loaded []*table
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t, err := v.load(name, all[name])
		if err != nil {
			return fmt.Errorf("table %s: %w", name, err)
		}
		loaded = append(loaded, t)
	}
	for _, t := range loaded {
		v.account.tables[t.name] = t
	}
	return nil
}

func (v *view) load(name string, d dumped) (*table, error) {
	defs, err := attributeTypes(d.AttributeDefinitions)
	if err != nil {
		return nil, err
	}
	if len(d.KeySchema) == 0 {
		return nil, errors.New("no KeySchema")
	}
	t := &table{name: name, arn: tableARN(v.who, name), id: v.newID()}
	t.life = tableLife{created: v.now, active: v.now}
	t.billing = billing{onDemand: true, everSet: true, onDemandAt: v.now}
	t.tags.now = map[string]string{}
	if t.keys, err = newKeySchema(d.KeySchema, defs, ""); err != nil {
		return nil, err
	}
	for _, x := range d.GSI {
		if len(x.KeySchema) == 0 {
			return nil, fmt.Errorf("index %s: no KeySchema", x.IndexName)
		}
		keys, err := newKeySchema(x.KeySchema, defs, x.IndexName)
		if err != nil {
			return nil, err
		}
		t.indexes = append(t.indexes, &index{name: x.IndexName, keys: keys, projection: x.Projection, life: indexLife{withTable: true}})
	}
	for i, item := range d.Items {
		a := action{verb: put, item: item}
		if err := item.Check(); err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		if err := a.check(t); err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		t.rows.set(a.place(t), item, item.Size(), v.now, 0)
	}
	for _, x := range t.indexes {
		t.backfill(x, v.now)
	}
	t.nextCount = v.now // a loaded table knows its size
	t.count(v.now, v.timing.Statistics)
	return t, nil
}

// Dump writes the caller's tables as [Service.Load] reads them: those named, or
// all. Items come in the order in which Scan would return them.
func (s *Service) Dump(who wire.Caller, w io.Writer, names ...string) error {
	all, err := s.dump(who, names)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	return enc.Encode(all)
}

func (s *Service) dump(who wire.Caller, names []string) (map[string]dumped, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.view(who)
	if len(names) == 0 {
		names = v.tableNames()
	}
	all := map[string]dumped{}
	for _, name := range names {
		t, err := v.controlTable(name)
		if err != nil {
			return nil, err
		}
		d := dumped{KeySchema: t.keys.describe(), GSI: []dumpedIndex{}, Items: []attr.Item{}}
		for _, def := range t.definitions() {
			d.AttributeDefinitions = append(d.AttributeDefinitions, attributeDefinition{def.Name, def.Kind.String()})
		}
		for _, x := range t.indexes {
			d.GSI = append(d.GSI, dumpedIndex{x.name, x.keys.describe(), x.projection})
		}
		for e := range t.rows.ascend("", v.now) {
			d.Items = append(d.Items, e.item)
		}
		all[name] = d
	}
	return all, nil
}

// Count returns how many items a table of the caller holds at present, whatever
// DescribeTable says; 0 if there is no such table.
func (s *Service) Count(who wire.Caller, name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.view(who).find(name); t != nil {
		return t.rows.count
	}
	return 0
}
