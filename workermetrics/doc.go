// Package workermetrics is a worker's own record in the lease table: how busy
// the worker is and, by being written again and again, the proof that it lives.
//
// Each worker writes its record every period, 30 s unless configured, at once
// when it starts and once more when it begins to drain. The leader reads all of
// them with its scan of the lease table and gives leases only to workers whose
// record says that they live, are well, and stay. A worker that stops deletes
// its record last, when it holds no lease.
//
// # Two tables
//
// KCL 3.0 to 3.4 keep the records in a table of their own. A fleet that comes from
// there moves to the lease table by one rollout after another, and meanwhile has
// records in both. A [Store] that is told of the legacy table knows which to use:
// writes go where the worker's status sent them when it started, reads follow the
// status as it is, and a record is deleted from where it was found.
//
// # Who is alive
//
// A [Sighting] holds what this process saw of a record. A worker is alive if the
// record was seen to change within two periods. Only at first sight is its time
// compared with the clock of this host, for there is nothing else to go by; so
// a worker whose clock is wrong is misjudged for one period and no longer.
//
// # How busy
//
// A [Sampler] captures the worker's metrics every second. At each report the mean
// of the samples since the last one goes into the record, behind those of the
// reports before; a period in which no capture went well says so with
// [NoSample], and the leaders then pass the worker over. The first report waits
// for a sample, for a record without figures would look like that of the idlest
// worker.
//
//	C   CPU                  chosen by itself on ECS, Kubernetes and EC2
//	NI  network, received    needs the machine's bandwidth
//	NO  network, sent        needs the machine's bandwidth
//	M   memory               of a Go program
//
// A program may bring others; see [Metric].
//
// # Metrics
//
// Operation WorkerMetricStatsReporter: Success (Count) and Time (Milliseconds)
// of each report, level Summary, dimension WorkerIdentifier; and
// InMemoryMetricStatsReporterFailure (Count), 1 for each capture that failed,
// level Summary, no dimension.
//
// [Metric] and what makes one are for a program to hand to its scheduler. All
// else is one of the library's own parts, exported to be read and reused at
// one's own risk; its API is not promised.
package workermetrics
