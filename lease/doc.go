// Package lease holds the lease of a shard: its item in the lease table, every
// conditional write on it, and the loops of a worker that owns leases.
//
// It is one of the library's own parts, exported to be read and reused at one's
// own risk; its API is not promised.
package lease
