// Package entity names the kinds of item that share the lease table. Every item
// but an old lease carries its kind in the attribute entityType.
package entity

import "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

// Attribute is the attribute that holds an item's kind.
const Attribute = "entityType"

// LeaseTableKey is the lease table's partition key, and so the key of every
// kind of item in it.
const LeaseTableKey = "leaseKey"

// Type is an item's kind, spelled as on the wire. Case matters.
type Type string

// The kinds in use by KCL 3.5.
const (
	Lease                  Type = "LEASE"
	Stream                 Type = "STREAM"
	Leader                 Type = "LEADER"
	ClientVersionMigration Type = "CLIENT_VERSION_MIGRATION"
	TableMigration         Type = "TABLE_MIGRATION"
	WorkerMetricStats      Type = "WORKER_METRIC_STATS"
)

// Of returns the kind of an item in the lease table. An item without the
// attribute, or with one that is no string, is a lease written before 3.5. A
// kind that is not among the constants was written by a later version and is
// to be passed over in silence.
func Of(item map[string]types.AttributeValue) Type {
	if s, ok := item[Attribute].(*types.AttributeValueMemberS); ok {
		return Type(s.Value)
	}
	return Lease
}

// Attr returns t as an attribute value.
func (t Type) Attr() types.AttributeValue { return &types.AttributeValueMemberS{Value: string(t)} }
