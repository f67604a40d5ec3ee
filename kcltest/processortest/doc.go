// Package processortest drives a [kcl.RecordProcessor] through a shard's life
// without AWS and without a fleet, and records what it checkpoints.
//
// A [Shard] is a shard and its row in the lease table, in memory. [Shard.Put]
// puts records; [Shard.Acquire] gives the shard to a processor, as when a worker
// has acquired its lease. The [Tenure] it returns calls the processor when the
// test says so, with the library's own order, checkpoint rules and redelivery:
//
//	shard := processortest.NewShard()
//	shard.Put("a", "b", "c")
//	tenure := shard.Acquire(&orders{})
//	require.NoError(t, tenure.Initialize(ctx))
//	require.NoError(t, tenure.Deliver(ctx, 2))
//	require.Equal(t, "b", shard.DataAt(shard.Checkpoint()))
//
// Acquiring the shard anew, with another processor, begins at the checkpoint:
// that is how a test shows what a crash, a hand-off or a lost lease repeats.
// Nothing happens by itself: no retries, no waits, no goroutines. A test of the
// whole, with workers, leases and streams, uses package kcltest.
//
// A processor's methods are called one at a time. Those of a Shard and a Tenure
// may be called from any goroutine, so that a test can lose the lease while a
// batch is being processed.
package processortest
