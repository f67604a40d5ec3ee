// Package interop runs real Java KCL workers and workers of this library in one
// fleet, as processes of their own, on one emulated AWS, and watches what both
// sides write and deliver. It is nothing but tests.
//
// `make interop` plays all scenarios, `make interop RUN=name` one, `make
// interop-short` the one for continuous integration. They need Java 17 and Maven,
// which fetches the Java KCL once, and run in real time. INTEROP_ARGS gives
// flags: -defaults plays with both sides' default times, -logs DIR keeps the
// workers' logs, -minutes N is how long TestHundred kills; KCL_JAVA is the
// release of the Java KCL. The names of workers tell their side: java-1, go-1.
//
// # What is watched
//
// Records: every record that was put is processed; first deliveries of a shard
// come in order; those of its parents come first.
//
// The wire: each item that either side writes must be one that the other can
// read, by type and required attribute; a checkpoint is written by the lease's
// owner alone; a lock passes on only when it was freed or has outlived its
// duration; leases are assigned by the lock's owner, or by the owner that hands
// one over; an assignment of a Go leader to a Java worker is not taken back before
// that one could have renewed it.
//
// The tables: while an application moves from those of KCL 3.0 to 3.4 into the
// lease table, each worker writes the tables of its release and setting, the
// migration's item changes by its leader and by the rules alone, and at each of its
// states the tables hold items of the form that a fleet of Java workers left.
//
// Pauses: how long a shard's records wait to be read, and how long a lease shows
// no sign of life of an owner, is held against a bound (law, in gap_test.go) made
// of what was done to workers in that time and of the times of the side that
// leads: failover time, its assignment runs, the look for own leases, the lock's
// duration. The longest pause for each thing done stands beside its bound in the
// summary.
//
// The logs: a line in a worker's log that is a warning, an error, or in a Go
// worker's nothing that a healthy one writes, and that is not in a short list
// (harmless, in logs_test.go), fails the scenario.
package interop
