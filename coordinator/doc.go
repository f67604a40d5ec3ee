// Package coordinator stores what a fleet shares besides its leases: the items
// of the lease table that say how far an application's migrations are. It also
// decides, from them, whether this version may serve the application at all
// ([Routed.Start]).
//
// # Items
//
//	leaseKey           entityType                content
//	Migration3.0       CLIENT_VERSION_MIGRATION  cv, mb, mts, h: [ClientVersionState]
//	TableMigration3.5  TABLE_MIGRATION           tm, mb, mts, h: [TableMigrationState]
//	Leader             LEADER                    the leader's lock; package leader
//
// Every item but a lease carries entityType, or Java workers would take it for
// a broken lease. [Store.Get] and [Store.List] hand items out untyped; what
// expects a migration's state asks for it by [Store.ClientVersion] or
// [Store.TableMigration] and gets an error for an item that is none.
//
// Applications of KCL 3.0 to 3.4 keep these items, and streams' ones, in a table
// of their own, by the same keys. While the single-table migration (package
// migration/singletable) moves them, [Routed] finds each where it is.
//
// # Writes
//
// An item is created only while it is absent, and changed only while it still
// says what the change was decided on. A failed condition is an answer (false),
// not an error. DynamoDB returns the item that refused a write; when that item
// holds exactly what was to be written, an earlier attempt of the same call
// had landed and its answer was lost, so the write counts as done.
// Attributes that another version wrote survive every change.
//
// It is one of the library's own parts, exported to be read and reused at one's
// own risk; its API is not promised.
package coordinator
