package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/go-kcl/kcl/internal/entity"
)

// The attributes of both migrations' items.
const (
	attrBy      = "mb"
	attrAt      = "mts"
	attrHistory = "h"
)

// maxHistory is how many replaced values an item keeps. Longer lists are read
// (KCL's migration script leaves them) and cut by the next change.
const maxHistory = 10

// ClientVersion says which algorithms the fleet runs, spelled as on the wire.
type ClientVersion string

// The client versions. ClientVersionInit only occurs in histories.
const (
	ClientVersionInit           ClientVersion = "CLIENT_VERSION_INIT"
	ClientVersionUpgradeFrom2X  ClientVersion = "CLIENT_VERSION_UPGRADE_FROM_2X"
	ClientVersion2X             ClientVersion = "CLIENT_VERSION_2X"
	ClientVersion3XWithRollback ClientVersion = "CLIENT_VERSION_3X_WITH_ROLLBACK"
	ClientVersion3X             ClientVersion = "CLIENT_VERSION_3X"
)

// TableStatus says how far the move from the tables of KCL 3.0 to 3.4 into the
// lease table is, spelled as on the wire.
type TableStatus string

// The table statuses. All but [TableStatusUnknown] are stored.
const (
	TableStatusUnknown  TableStatus = "TABLE_MIGRATION_STATUS_UNKNOWN" // before a start has decided
	TableStatusInit     TableStatus = "TABLE_MIGRATION_STATUS_INIT"
	TableStatusDeployed TableStatus = "TABLE_MIGRATION_STATUS_DEPLOYED"
	TableStatusPending  TableStatus = "TABLE_MIGRATION_STATUS_PENDING"
	TableStatusComplete TableStatus = "TABLE_MIGRATION_STATUS_COMPLETE"
)

// tableStatuses are in the order in which a migration passes through them.
var tableStatuses = [...]TableStatus{TableStatusUnknown, TableStatusInit, TableStatusDeployed, TableStatusPending, TableStatusComplete}

// Ordinal is the status as metrics report it: 0 for [TableStatusUnknown] and
// for what is no status, up to 4 for [TableStatusComplete].
func (s TableStatus) Ordinal() int { return max(0, slices.Index(tableStatuses[:], s)) }

// ParseTableStatus returns the status that is stored as s. Only those that are
// stored count; case matters.
func ParseTableStatus(s string) (status TableStatus, ok bool) {
	status = TableStatus(s)
	if !status.known() {
		return "", false
	}
	return status, true
}

// stage is the value that a migration moves through, with what its item is
// called.
type stage interface {
	~string
	item() (key string, t entity.Type, attribute string)
	known() bool
}

func (ClientVersion) item() (key string, t entity.Type, attribute string) {
	return ClientVersionKey, entity.ClientVersionMigration, "cv"
}

func (v ClientVersion) known() bool {
	switch v {
	case ClientVersionInit, ClientVersionUpgradeFrom2X, ClientVersion2X, ClientVersion3XWithRollback, ClientVersion3X:
		return true
	}
	return false
}

func (TableStatus) item() (key string, t entity.Type, attribute string) {
	return TableMigrationKey, entity.TableMigration, "tm"
}

func (s TableStatus) known() bool {
	switch s {
	case TableStatusInit, TableStatusDeployed, TableStatusPending, TableStatusComplete:
		return true
	}
	return false
}

// Change is a value that a migration has or had.
type Change[V stage] struct {
	Value V
	// By is the worker, or the tool, that set it.
	By string
	// At is when, by that worker's clock, in whole milliseconds.
	At time.Time
	// Extra is what else a history entry holds. Nil in the current value.
	Extra map[string]types.AttributeValue
}

// Migration is the state of one of the two migrations, as its item holds it.
type Migration[V stage] struct {
	Change[V]
	// History is the replaced values, newest first.
	History []Change[V]
	// Extra is the attributes that this version does not know.
	Extra map[string]types.AttributeValue
}

// The states of the two migrations.
type (
	ClientVersionState  = Migration[ClientVersion]
	TableMigrationState = Migration[TableStatus]
)

// FreshClientVersion is the state that a new application begins with. Like
// Java's it says that [ClientVersionInit] came before.
func FreshClientVersion(v ClientVersion, worker string, now time.Time) ClientVersionState {
	var m ClientVersionState
	m.Value, m.By, m.At = ClientVersionInit, worker, milliseconds(now)
	return m.To(v, worker, now)
}

// FreshTableMigration is the state that a migration begins with. Like Java's it
// says that [TableStatusInit] came before, even when s is that.
func FreshTableMigration(s TableStatus, worker string, now time.Time) TableMigrationState {
	var m TableMigrationState
	m.Value, m.By, m.At = TableStatusInit, worker, milliseconds(now)
	return m.To(s, worker, now)
}

// TableMigrationOf reads the state that an item holds. An item that is none, or
// says what this version does not know, now or in its history, is an error, and
// not to be taken for the absence of a state.
func TableMigrationOf(it Item) (TableMigrationState, error) {
	m, err := migrationOf[TableStatus](it)
	if err == nil && it.Key != TableMigrationKey {
		err = fmt.Errorf("item %s: the key is not %s", it.Key, TableMigrationKey)
	}
	if err != nil {
		return TableMigrationState{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return m, nil
}

// To returns the state after a change to v. The value it replaces goes to the
// front of the history, which keeps its newest 10.
func (m Migration[V]) To(v V, worker string, now time.Time) Migration[V] {
	history := append(make([]Change[V], 0, len(m.History)+1), m.Change)
	history = append(history, m.History...)
	return Migration[V]{
		Change:  Change[V]{Value: v, By: worker, At: milliseconds(now)},
		History: history[:min(len(history), maxHistory)],
		Extra:   m.Extra,
	}
}

func milliseconds(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli()) }

// migrationOf reads a migration's state. An item that is none, or holds a value
// that this version does not know, now or in its history, is an error.
func migrationOf[V stage](it Item) (Migration[V], error) {
	var zero V
	_, want, attribute := zero.item()
	if it.Type != want {
		return Migration[V]{}, fmt.Errorf("item %s: %s is %q, not %q", it.Key, entity.Attribute, it.Type, want)
	}
	current, err := changeOf[V](attribute, it.Attributes)
	if err != nil {
		return Migration[V]{}, fmt.Errorf("item %s: %w", it.Key, err)
	}
	m := Migration[V]{Change: current, Extra: current.Extra}
	m.Change.Extra = nil
	delete(m.Extra, attrHistory)
	if len(m.Extra) == 0 {
		m.Extra = nil
	}
	if m.History, err = historyOf[V](attribute, it.Attributes[attrHistory]); err != nil {
		return Migration[V]{}, fmt.Errorf("item %s: %w", it.Key, err)
	}
	return m, nil
}

func historyOf[V stage](attribute string, av types.AttributeValue) ([]Change[V], error) {
	if av == nil {
		return nil, nil
	}
	list, ok := av.(*types.AttributeValueMemberL)
	if !ok {
		return nil, fmt.Errorf("%s is no list", attrHistory)
	}
	var history []Change[V]
	for i, e := range list.Value {
		entry, ok := e.(*types.AttributeValueMemberM)
		if !ok {
			return nil, fmt.Errorf("%s[%d] is no map", attrHistory, i)
		}
		c, err := changeOf[V](attribute, entry.Value)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", attrHistory, i, err)
		}
		history = append(history, c)
	}
	return history, nil
}

// changeOf reads a value with who set it when. Extra is all other attributes.
func changeOf[V stage](attribute string, av map[string]types.AttributeValue) (Change[V], error) {
	value, ok := av[attribute].(*types.AttributeValueMemberS)
	if !ok {
		return Change[V]{}, fmt.Errorf("%s is missing or no string", attribute)
	}
	if !V(value.Value).known() {
		return Change[V]{}, fmt.Errorf("%s is %q, which this version does not know", attribute, value.Value)
	}
	by, ok := av[attrBy].(*types.AttributeValueMemberS)
	if !ok {
		return Change[V]{}, fmt.Errorf("%s is missing or no string", attrBy)
	}
	at, ok := av[attrAt].(*types.AttributeValueMemberN)
	if !ok {
		return Change[V]{}, fmt.Errorf("%s is missing or no number", attrAt)
	}
	ms, err := strconv.ParseInt(at.Value, 10, 64)
	if err != nil {
		return Change[V]{}, fmt.Errorf("%s: %w", attrAt, err)
	}
	c := Change[V]{Value: V(value.Value), By: by.Value, At: time.UnixMilli(ms)}
	for name, v := range av {
		switch name {
		case attribute, attrBy, attrAt:
			continue
		}
		if c.Extra == nil {
			c.Extra = map[string]types.AttributeValue{}
		}
		c.Extra[name] = v
	}
	return c, nil
}

// Values is what a change sets: all but the key, entityType and Extra.
func (m Migration[V]) Values() map[string]types.AttributeValue { return m.values() }

func (m Migration[V]) values() map[string]types.AttributeValue {
	av := m.Change.encode()
	if len(m.History) > 0 {
		list := make([]types.AttributeValue, len(m.History))
		for i, c := range m.History {
			list[i] = &types.AttributeValueMemberM{Value: c.encode()}
		}
		av[attrHistory] = &types.AttributeValueMemberL{Value: list}
	}
	return av
}

func (c Change[V]) encode() map[string]types.AttributeValue {
	_, _, attribute := c.Value.item()
	av := make(map[string]types.AttributeValue, len(c.Extra)+4)
	maps.Copy(av, c.Extra)
	av[attribute] = str(string(c.Value))
	av[attrBy] = str(c.By)
	av[attrAt] = &types.AttributeValueMemberN{Value: strconv.FormatInt(c.At.UnixMilli(), 10)}
	return av
}

// Item returns the whole item that holds m.
func (m Migration[V]) Item() Item {
	key, t, _ := m.Value.item()
	av := m.values()
	maps.Copy(av, m.Extra)
	return Item{Key: key, Type: t, Attributes: av}
}
