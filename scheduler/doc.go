// Package scheduler runs one worker of a fleet that consumes Kinesis streams,
// the Go counterpart of the Java KCL's Scheduler. It is the only package in
// which the others meet.
//
// [New] checks a [Config] and makes no call. [Scheduler.Run] joins the fleet and
// consumes until it is told to stop.
//
// # How a worker joins
//
// It makes sure of the lease table and its index, refuses applications that it
// cannot serve, writes the record that shows it lives, and starts its loops:
// renewal, discovery, contention for the leader's lock, assignment, cleanup. A
// start that fails is tried again, [Config.MaxInitializationAttempts] times in
// all, unless trying is useless.
//
// One worker leads, by a lock in the lease table; while an application is moved
// from the tables of KCL 3.0 to 3.4, by one in another of them. Only the leader
// lists shards: if there are no leases yet, at once when it has won the lock. Only
// the leader assigns leases, and brings that move on. All other workers find what
// is assigned to them, and what is stored.
//
// # How it consumes
//
// Each lease that this worker acquires has a consumer until the lease is lost,
// handed over, released or its shard has ended. Renewals never wait for a
// consumer.
//
// # How it stops
//
// Gracefully, it asks for no more leases, hands its own to others if it leads,
// frees the lock, has every processor checkpoint, releases its leases, and
// deletes its record. What is not done in time is cut off: the leases are then
// released at their last checkpoint. A worker that dies releases nothing: its
// leases are taken over when they have not been renewed for FailoverTime, and a
// dead leader is replaced when its lock's duration is over.
package scheduler
