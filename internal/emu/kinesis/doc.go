// Package kinesis is Amazon Kinesis Data Streams in this process, as far as a
// consumer library, its tests and its demonstration meet the service. It takes
// decoded requests from an HTTP front ([wire.Call]) and knows nothing of
// sockets.
//
// # Authority
//
// The answers are the live service's as far as they are publicly known: error
// codes and texts, the order of checks, the timeline of a reshard, sequence
// numbers to the bit, paging and expiry of tokens, the limits of reads, puts
// and control-plane calls. Where nobody was found to have shown what the
// service does, the comment at the place says "derived" or "assumed".
//
// # Time
//
// State is a function of the clock, which is [time.Now] and so virtual in a
// synctest bubble: there is no goroutine and no timer here. Each call happens
// at one instant, under one mutex, and whatever fell due at or before that
// instant (a stream became ACTIVE, a shard was split, records and shards
// expired) is applied before the call is answered. The instant never goes back,
// whatever the wall clock does. What the wire shows or compares in milliseconds
// is cut to milliseconds, sequence numbers use the second, and allowances count
// in nanoseconds. Nothing sleeps.
//
// # Repeatability
//
// Two runs that make the same calls at the same instants get the same answers to
// the byte. Iterators and tokens are pure functions of what they stand for;
// shards are listed by number, streams by name; no answer depends on chance or
// on the order of a map.
//
// # A reshard
//
//	call        status UPDATING; lists unchanged; the parents take puts
//	completion  the parents get their ending number, of second t; the children
//	            appear, and start at t + 1; status ACTIVE
//	t + 1       the children take the puts; readers of the parents may meet the end
//
// Every reshard, and every step of UpdateShardCount, takes at least a second, so
// that no shard ends before it starts.
//
// # The horizon
//
// One instant, max(now − retention, what it was before retention last changed),
// decides which records are readable, which shards have expired and what
// AT_TRIM_HORIZON lists. It never moves back. A closed shard counts as open at
// the horizon until the horizon reaches its children's first second, for it took
// puts until then.
//
// # Not here
//
// Enhanced fan-out: its operations are unknown ones, so that a client fails at
// once and not halfway. Consumers will belong to a stream, as shards do, and their
// operations to the table in service.go. Nor are there encryption, policies,
// resource tags, queues and channels, or the scaling of on-demand streams.
package kinesis
