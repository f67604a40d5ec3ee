// Package singletable moves a running application from the three tables of KCL
// 3.0 to 3.4 (leases, coordinator state, workers' records) into the one lease
// table of KCL 3.5, with a way back until the last step, in a fleet whose
// workers may be old and new, Go and Java.
//
// # Authority
//
// The item TableMigration3.5 of the legacy coordinator-state table says how far
// the migration is. The worker that holds the leader's lock in that same table
// changes it, in transactions that hold only while it has the lock, and only if
// the item is as it was read. At the end one transaction stores COMPLETE in both
// tables; from then on the lease table alone is looked at.
//
// # Statuses
//
//	        every lease owner      for an hour           nobody writes to, and        for a day
//	        knows the migration    so                    nothing is left in, the      so
//	                                                     legacy tables
//	none ─────────────────▶ INIT ─────────▶ DEPLOYED ──────────────────▶ PENDING ────────────▶ COMPLETE
//	  ▲                       │                 ▲                           │
//	  └───────────────────────┘                 └───────────────────────────┘
//	      an owner is old                         somebody writes there again
//
// A worker is deployed twice: first without [Config.MigrateAllEntitiesToLeaseTable], which
// leads to DEPLOYED, then with it, which leads to COMPLETE. By what is stored and
// by that setting it has a status of its own, which says where it reads and
// writes ([Begin], [coordinator.WritesLeaseTable]). A fresh application has no legacy table and is
// COMPLETE without anything being stored.
//
// # Decisions
//
// [Decide] is the whole of it: a pure function of a [View], with its table of
// rows. What is not known (a new leader's fleet, an owner that has just gone, a
// read that failed) changes nothing: it only keeps the next status from being
// entered. So the time that a status must last goes on through changes of the
// leader and of the fleet.
//
// # Two locks
//
// Before COMPLETE the leader's lock is that of the legacy table, afterwards that
// of the lease table. A worker that has won the first acts by it only once it has
// read the item in that very term: whoever completes the migration held that lock
// until then, so the read shows it.
//
// It is one of the library's own parts, exported to be read and reused at one's
// own risk; its API is not promised.
package singletable
