// Package consumer lives one shard's life on a worker, from the moment its
// lease is acquired to the moment it is given up, as straight-line code:
//
//	wait for parents → read the lease → make and initialize the processor →
//	fetch and process, batch after batch → end the shard
//
// and, from any point of it, leave: when the lease is lost, handed over or
// released. A [Consumer] has two goroutines, the one that calls Run and the one
// that fetches ahead.
//
// # What is asked of it
//
// LeaseLost, HandOff and Stop may be called at any time; the context given to
// Run ending is the hard stop. They return at once and never wait for the
// processor. They become contexts, each cancelled with the one before it:
//
//	base     ends with the hard stop                  LeaseLost is called with it
//	work     + when the lease is lost                 all other callbacks
//	running  + when the worker stops                  waits at the shard's end
//	stay     + when the lease is to be handed over    waits for parents and records, fetching, retries
//
// Fetching ends with stay, so no call is made for a shard that is being left. A
// batch in the processor's hands is finished in any case. Whatever a callback
// answers, a reason to leave wins over trying again.
//
//	phase       stop                            hand-off                         lease lost
//	waiting     release                         transfer                         leave
//	starting    release, LeaseLost              transfer, LeaseLost              LeaseLost
//	processing  ShutdownRequested, release,     ShutdownRequested, transfer,     LeaseLost
//	            LeaseLost                       LeaseLost
//	ending      as processing, if ShardEnded    goes on to end the shard, until  LeaseLost
//	            or a merge's lease fails        the renewer forces the hand-off
//	ended       nothing: the lease is kept until it is cleaned up
//
// LeaseLost is called only if there is a processor, ShutdownRequested only if
// it has been initialized; each once.
//
// # The end of a shard
//
// The children's leases are created before SHARD_END is stored, so that a crash
// in between loses nothing: the next owner reads the end again, and each step
// may be repeated.
package consumer
