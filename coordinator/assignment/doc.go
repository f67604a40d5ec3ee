// Package assignment decides which worker gets which lease. Every worker runs a
// [Loop]; only the leader's does anything.
//
// A run reads the whole lease table, leases and workers' records, and the records
// in the table of KCL 3.0 to 3.4 where there is one, remembers what it saw, has a [Decider] plan who gets what, and writes each change with a
// condition, so that what another leader or an owner did meanwhile wins. Workers
// find out by looking for leases that name them, or by their next renewal.
//
// # Authority
//
// The table is the truth and this process's clock the only one. A lease is
// expired when this process saw its counter stand still for the failover time;
// a worker is alive when this process saw its record change (package
// workermetrics). What was seen is kept from one term of leadership to the next,
// for it stays true, and may begin before the first ([Loop.Observe]).
//
// # States of a lease
//
//	unowned    nobody renews it                          assigned, first
//	abandoned  given to a worker that drains or has      assigned, if its counter
//	           vanished, and never renewed since         still stands
//	expired    its counter stood still too long          assigned, if its counter
//	                                                     still stands
//	overdue    a hand-off past its deadline, though      assigned to whom it was
//	           its owner renews                          meant for
//	pending    a hand-off under way                      left alone
//	held       all else                                  balanced, when it is time
//
// A counter that never moved since the owner changed, or since a hand-off began,
// may stand still for longer: a worker needs time to find its new lease.
//
// # Targets
//
// A worker gets leases while it is alive, its record is valid and of no failing
// metric (a draining worker reports one), and it has room. A worker with a lease
// that expired gets none until its record has changed since, for a record stays
// fresh for a minute after its worker's death.
//
// A worker with a record in either table, because it has started anew while the
// fleet moves its tables, is one worker: the newer record tells of it, or the one
// that shows life. The other is deleted when it is stale, from where it is.
//
// # Load
//
// By [LeaseCountBased] every worker gets the same number of leases. By
// [WorkerUtilizationAware], the default, every worker's load is to be near the
// fleet's average. A worker's load is the moving average of what it reports, by
// metric; of one that reports nothing it is the throughput of its leases, of
// which a fair share is 100. What a lease costs a worker is taken to be what its
// throughput costs the fleet on average, an idle lease counting a little and one
// of unknown throughput as the average one.
//
//	free leases   each to the worker with the lowest load relative to the
//	              average, which grows with every lease it gets
//	balancing     the metric with the most excess counts; whoever is above its
//	              band (10 %), or its own operating range, gives up to 60 % of
//	              its excess to those that stay below the average with it
//
// Runs follow each other faster than reports do, so the load of a lease that
// came to a worker, or is to come, is added until the reports show it, by the
// moving average's own arithmetic; that of one that left is taken off. A lease
// stays where it came until most of it shows, and a worker that gave gets none
// by balancing as long. Throughput is averaged over the last minute or so, for
// owners write that of a few seconds. If nobody stays below the average with even
// the least of a giver's leases, that one goes to a worker well below it whose
// load will then be less than the giver's was. So a step in load is answered by
// moves within two balancing intervals, and then there is rest: load that would
// have to be cut finer than leases are stays where it is.
//
// Load may say nothing of leases, because they are idle or cost little beside what
// else a worker does. A worker without leases gets one of whoever has the most, if
// it has room. While no load is to be moved, one with less than half of its fair
// share of throughput gets one of theirs a balancing, and idle leases are spread
// by number.
//
// In a fleet of which only some workers report their load these are, together,
// to carry their fair share of throughput, and each its part of it by its load.
//
// # Time
//
// A run follows the last one after what its scan cost, at 50 read units a
// second, but at least 2 s and at most twice the failover time. One more run may
// come between two when a lease is about to expire, and an event ([Loop.Poke])
// brings the next one forward. Every call of a run ends before the term it
// began in.
//
// # Failure
//
// A failed condition is an answer and counts as FailedAssignmentCount. Any other
// failed write fails the run when the other writes are done. So does a scan that
// fails twice. After three failed runs in a row that span at least the lock's
// duration leadership is given up ([leader.Failures]). A panic fails its run and
// no more.
//
// # Metrics
//
// Operation LeaseAssignmentManager. Level Summary: Success (Count) and Time
// (Milliseconds) of each run of a leader, and once a minute of a worker that
// does not lead; TotalLeases, NumWorkers, ExpiredLeases (expired or without
// owner), NumOfLeasesReassignment (moved to balance) on balancing runs, and where
// above 0 LeaseSpillover, NumWorkersWithInvalidEntry,
// NumWorkersWithFailingWorkerMetric, LeaseDeserializationFailureCount,
// ForceLeaderRelease (Count). Level Detailed: FailedAssignmentCount (Count),
// ParallelyAssignLeases.Success and .Time, LeaseAndWorkerMetricsLoad.Time,
// AssignExpiredOrUnassignedLeases.Time, BalanceWorkerVariance.Time.
//
// [Strategy] and its values are for programs, by way of scheduler.Config, and kept
// compatible. All else is one of the library's own parts, exported to be read and
// reused at one's own risk.
package assignment
