// Package workermetrics is a worker's own record in the lease table: how busy
// the worker is and, by being written again and again, the proof that it lives.
//
// Each worker writes its record every period, 30 s unless configured, at once
// when it starts and once more when it begins to drain. The leader reads all of
// them with its scan of the lease table and gives leases only to workers whose
// record says that they live, are well, and stay. A worker that stops deletes
// its record last, when it holds no lease.
//
// # Who is alive
//
// A [Sighting] holds what this process saw of a record. A worker is alive if the
// record was seen to change within two periods. Only at first sight is its time
// compared with the clock of this host, for there is nothing else to go by; so
// a worker whose clock is wrong is misjudged for one period and no longer.
//
// # Metrics
//
// Operation WorkerMetricStatsReporter: Success (Count) and Time (Milliseconds)
// of each report, level Summary, dimension WorkerIdentifier.
//
// It is one of the library's own parts, exported to be read and reused at one's
// own risk; its API is not promised.
package workermetrics
