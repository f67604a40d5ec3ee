// Package shardsync finds a stream's shards and sees to it that leases for them
// exist.
//
// # Who lists
//
// Only the leader lists shards. A worker that finds the lease table empty waits
// for leases like every other; if it leads, it lists the shards at once, with
// the filter that the initial position calls for, and creates a lease for each.
// All work is done under a context that ends before the leader's term does, so
// that a leader that was replaced in the middle stops paging.
//
// From then on leases come from readers: who reaches a shard's end creates the
// leases of its children. The [Auditor] watches that the leases together cover
// the hash key space, and creates what is missing when it has seen the same hole
// several times.
//
// # What is decided where
//
// [Plan] and [PlanInitial] are pure: shards, leases and the initial position go
// in, leases to create come out, in the order of creation. The [Detector] pages
// ListShards; [Sync] ties both to the lease table, with conditional puts, so that
// two of them at once do no harm.
//
// It is one of the library's own parts, exported to be read and reused at one's
// own risk; its API is not promised.
package shardsync
