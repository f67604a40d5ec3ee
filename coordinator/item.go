package coordinator

import (
	"maps"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/go-kcl/kcl/internal/entity"
)

// The keys of the items that hold a migration's state.
const (
	ClientVersionKey  = "Migration3.0"
	TableMigrationKey = "TableMigration3.5"
)

// Item is an item of the coordinator state, whatever its kind.
type Item struct {
	// Key is the partition key's value.
	Key string
	// Type is the item's kind. It is inferred from Key when the item carries
	// none, or one this version does not know, and empty when that fails too.
	Type entity.Type
	// Attributes is all but the partition key and entityType.
	Attributes map[string]types.AttributeValue
}

// LegacyKey is the partition key of the table that held the coordinator state
// before KCL 3.5; see [LegacyTableName].
const LegacyKey = "key"

// DecodeItem reads an item of the table whose partition key is keyAttribute:
// leaseKey, or [LegacyKey]. ok is false when that is no string, which the
// table's schema rules out.
func DecodeItem(av map[string]types.AttributeValue, keyAttribute string) (it Item, ok bool) {
	key, ok := av[keyAttribute].(*types.AttributeValueMemberS)
	if !ok {
		return Item{}, false
	}
	it = Item{Key: key.Value, Type: typeOf(key.Value, av), Attributes: maps.Clone(av)}
	delete(it.Attributes, keyAttribute)
	delete(it.Attributes, entity.Attribute)
	return it, true
}

// itemOf reads an item of the lease table.
func itemOf(av map[string]types.AttributeValue) (it Item, ok bool) {
	return DecodeItem(av, entity.LeaseTableKey)
}

func typeOf(key string, av map[string]types.AttributeValue) entity.Type {
	if s, ok := av[entity.Attribute].(*types.AttributeValueMemberS); ok {
		switch t := entity.Type(s.Value); t {
		case entity.Lease, entity.Stream, entity.Leader, entity.ClientVersionMigration, entity.TableMigration, entity.WorkerMetricStats:
			return t
		}
	}
	switch key {
	case ClientVersionKey:
		return entity.ClientVersionMigration
	case TableMigrationKey:
		return entity.TableMigration
	}
	return ""
}

// Encode returns the whole item as the table holds it whose partition key is
// keyAttribute. Type must be given: without it Java takes the item for a lease.
func (it Item) Encode(keyAttribute string) map[string]types.AttributeValue {
	av := make(map[string]types.AttributeValue, len(it.Attributes)+2)
	maps.Copy(av, it.Attributes)
	av[keyAttribute] = str(it.Key)
	av[entity.Attribute] = it.Type.Attr()
	return av
}

func (it Item) encode() map[string]types.AttributeValue { return it.Encode(entity.LeaseTableKey) }

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
