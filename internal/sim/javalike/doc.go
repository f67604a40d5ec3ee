// Package javalike is a worker that follows the rules of the Java KCL, for tests
// of mixed fleets in one process and in virtual time.
//
// It is a witness of the wire that owes nothing to this module's own packages: it
// is written straight against the AWS SDK, sends what Java workers were recorded to
// send, to the letter, and reads items as strictly as they do. What it cannot read
// it complains of ([Worker.Complaints]).
//
// It keeps Java's rules where this module has better ones: a new worker's first
// look for leases is one period late, a child looks every ten seconds for its
// parents and hears of nothing meanwhile, a stopped worker leaves its leases to
// expire, a leader may give a lease to a worker that died within the last minute.
//
// # What it is not
//
// It consumes one stream, from the horizon, by polling; its processors checkpoint
// each batch and honour each request to shut down. It measures no load, and leads
// by number of leases. A hole in the hash ranges, which a Java leader would mend, is a
// complaint, for in such a fleet there must be none. It neither asks Kinesis about
// shards whose leases wait to be deleted nor deletes the rows of workers long gone.
// It does not migrate anything: [V34] knows three tables, [V35] one.
package javalike
