// Package leader elects one worker of a fleet by the lock of the Java KCL 3.x:
// an item of the lease table, with the same attributes, conditions and times,
// so that Go and Java workers contend for one lock. An application of KCL 3.0 to
// 3.4 has it in another table, until the single-table migration is complete:
// [Decider.Move].
//
// # Authority
//
// The item is the authority. Its recordVersionNumber is new after every write
// of its owner. Whoever wants to change the item names the version it has read,
// so of two that want the lock one gets it. What a worker remembers of the item
// only tells it when to try.
//
// # States
//
//	            won: put, its condition held
//	contending ──────────────────────────────▶ leading
//	    ▲                                         │ every Heartbeat: a new version
//	    └─────────────────────────────────────────┘
//	      stolen, not renewed for Duration, resigned, or the clock jumped
//
// [Decider.Run] is the one goroutine: it contends, keeps the lock alive, and
// frees it before it returns. All other methods look at its state, or ask it to
// act, and make no call to AWS themselves.
//
// # Time
//
// No clock is compared between hosts. An owner counts its term from before the
// call that won or renewed it; a contender counts an owner's silence from after
// the read that first showed the present version, and takes over when that is
// longer than the duration the item names. So, with clocks of equal rate, a term
// has ended by its owner's count before anybody takes over. The first sight of
// an item proves nothing, however old it is: a worker restarted under its old
// name waits for its own item like everybody else.
//
// An owner looks at the monotonic and at the wall clock. When the first says
// that the term is over, it is. When only the second does, the machine was
// suspended or its clock was set: the worker pauses and makes one conditional
// renewal, which begins a new term or shows that the lock is lost.
//
// A contender looks every Heartbeat, and at the moment when the lock it sees
// can expire.
//
// # Failures
//
// A write that got no answer may have landed. The versions of such writes are
// remembered: an item that carries one is this worker's, and is renewed on
// condition of that version. Every call ends within half a Heartbeat, so that a
// hanging one leaves time for another.
//
// A lock item that is missing an attribute, or whose duration is no number, is
// reported and left alone: it is never taken over.
//
// # What leading does not promise
//
// A true answer is no fence. Between the answer and a write another worker may
// have taken over, so a leader's writes carry conditions of their own. A [Term]
// gives the calls made under it a context that ends with it.
//
// It is one of the library's own parts, exported to be read and reused at one's
// own risk; its API is not promised.
package leader
