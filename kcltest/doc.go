// Package kcltest is Amazon Kinesis Data Streams and Amazon DynamoDB in this
// process: what a consumer built on this library needs of them, for its tests,
// for demonstrations and for simulation.
//
// It speaks the services' own protocols, so that unmodified AWS SDK clients of
// any language talk to it: Go clients through memory ([AWS.Config]), which also
// works inside a [testing/synctest] bubble, all others over cleartext HTTP/1.1
// or HTTP/2 with prior knowledge ([AWS.Server]).
//
//	aws := kcltest.New(kcltest.Options{})
//	aws.CreateStream("orders", 4)
//	client := kinesis.NewFromConfig(aws.Config("test"))
//
// All state is in memory. Time is package time's, so it is virtual in a bubble:
// an iterator then expires after five virtual minutes, and a test that consumes a
// stream for ten minutes is over at once:
//
//	func TestConsumer(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			aws := kcltest.New(kcltest.Options{}) // inside the bubble, like its clients
//			…
//		})
//	}
//
// # What is there
//
// DynamoDB: tables, their indexes and life cycle, tags, continuous backups,
// deletion protection; items, conditions in the expression form and in the
// older one, queries, scans, batches, transactions. Not there: local indexes,
// streams, time to live, PartiQL, global tables.
//
// Kinesis: streams and their life cycle, shards, resharding, puts, iterators,
// reads, listings with every filter, quotas, retention. Not there: enhanced
// fan-out.
//
// # What goes wrong
//
// What goes wrong on AWS goes wrong here on demand, for clients in memory and over
// HTTP alike. [AWS.Inject] takes a [Fault], a plain value that says which calls of
// which clients are hit, and what becomes of them:
//
//	throttling, 5xx, no permission     Refuse, with the Code
//	iterators that expire              Refuse with ExpiredIteratorException, or five minutes in a bubble
//	records trimmed unread             24 hours in a bubble, or the stream's retention
//	slow and hanging calls             Slow, Hang
//	a write whose answer is lost       LoseAnswer
//	a client that is frozen            Freeze, FreezeAnswer, until the fault ends
//	a call that lands late             Late
//	a client that is cut off           Break or Hang for all of its calls, or those of one service
//	reads and indexes that lag         Options.StaleReads, Options.IndexLag, SetLag
//
// Signatures are read but not verified: the access key id names the client, the
// credential's scope the region.
package kcltest
