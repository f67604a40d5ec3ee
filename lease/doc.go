// Package lease holds the lease of a shard: its item in the lease table, every
// conditional write on it, and the loops of a worker that owns leases.
//
// The table is the authority, what a worker holds in memory is a cache of it.
// Each write names what it builds on: an owner's the counter that it knows, a
// leader's both owners, and the counter too when it takes the lease to be
// expired. A refused condition is an answer: somebody else moved.
//
// The state of a lease is its owner and its checkpoint owner. The counter moves
// with every write but that which starts a hand-off:
//
//	from    to      by                                               counter
//	-       (–, –)  [Store.Create]                                   0
//	(–, –)  (A, –)  [Store.Assign]                                   +1
//	(A, –)  (A, –)  [Store.Renew], [Store.Checkpoint]                +1
//	(A, –)  (B, –)  [Store.Assign]; A learns by its next write       +1
//	(A, –)  (B, A)  [Store.StartHandOff]; A learns by its next write stays
//	(B, A)  (B, A)  A's [Store.Renew], [Store.Checkpoint]            +1
//	(B, A)  (B, –)  A's [Store.Assign], or [Store.Evict]             +1
//	(B, A)  (C, –)  [Store.Assign], when A is silent or too slow     +1
//	(A, –)  (–, –)  [Store.Evict]                                    +1
//	any     -       [Store.Delete], [Store.DeleteIf]
//
// In (B, A) only A renews and checkpoints; B begins once A is gone.
//
// A write whose answer was lost is sent again by the SDK and meets its own
// effect. Renewals, checkpoints and assignments recognize it in the item that
// refused them.
//
// A [Discoverer] finds what was assigned to its worker, a [Renewer] holds it, a
// [Cleaner] deletes the leases of shards that are read to their end.
//
// An owner counts a lease's term, the failover time, from before the write that
// won or renewed it; an observer counts from after the read that showed the
// counter. So the owner gives up first. It trusts neither clock alone: when the
// monotonic one says that the term is over it gives up, when only the wall clock
// does, as after a suspend, it makes one conditional write, which decides.
//
// Metrics, by operation:
//
//	RenewAllLeases          LostLeases, CurrentLeases, Success, Time,
//	                        RenewLease.Success, RenewLease.Time
//	LeaseRenewerInitialize  Fault
//	LeaseDiscovery          Success, Time, GetLease:Error, ListLeaseKeysForWorker.Time,
//	                        FetchNewLeases.Time, NewLeasesDiscovered, OwnerMismatch
//	ListLeases, ScanLeases  LeaseDeserializationFailureCount
//
// It is one of the library's own parts, exported to be read and reused at one's
// own risk; its API is not promised.
package lease
