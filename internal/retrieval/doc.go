// Package retrieval reads one shard after another's records from Kinesis and
// hands them out in batches: at present by polling.
//
// A [Reader] holds what the shards of a worker share: the client, the bounds
// and the [Budget] of memory. Its Open starts a [Poller], which has one
// goroutine: wait for room, wait for the pace, fetch, queue. What it fetched
// ahead waits in a bounded channel for [Poller.Next].
//
// # Where reading goes on
//
// The iterator advances with each valid response. When it is lost (expired, or
// refused), reading goes on AFTER the last record read; while nothing was read,
// where it began: AT the checkpoint, since a checkpoint may lie in the middle
// of an aggregate, and in place of LATEST at the time of the first iterator, so
// that nothing that arrived since is skipped.
//
// # Failures
//
// No failure ends a Poller or reaches its consumer: it tries again for ever, no
// sooner than the idle time after the call before, and [Poller.Status] says
// why nothing comes. The SDK's own retries are turned off for GetRecords and
// GetShardIterator, as they would ignore that pace. The end of a shard is
// believed when the response names children, or when the service, asked again
// by other calls, confirms that stream or shard are gone.
package retrieval
