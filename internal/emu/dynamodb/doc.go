// Package dynamodb is an Amazon DynamoDB in this process: tables, global
// secondary indexes, items, batches and transactions, as far as a fleet of KCL
// workers and its tools can tell it from the service.
//
// Authority. What is modelled is the behaviour measured on the real service,
// its error codes, texts and the order of its checks included. Not modelled:
// local secondary indexes, streams, TTL, PartiQL, global tables, resource
// policies, capacity limits (nothing is throttled by itself).
//
// Time. The state is a function of the clock: there are no goroutines, timers
// or sleeps. A call is carried out at one instant, time.Now, under one mutex,
// after everything that has come due by then. So a table turns ACTIVE, an index
// catches up or a tag appears at its exact time, in a testing/synctest bubble
// as on a wall clock, but nobody is told: a client sees it when it asks.
//
// How long things take is [Timing], how far reads and indexes trail behind is
// [Lag]. Chance comes from one seeded source, so that a run whose calls come in
// the same order at the same times gives the same answers.
//
// Files. service.go decodes and dispatches calls; action.go says what a write
// of an item comes to, page.go what a read of many does. table.go, index.go and
// rows.go are the state, with keys.go and ordered.go beneath; status.go and
// describe.go say how it looks at an instant. The operations have files named
// after them.
//
// Order of an item call: JSON types, members' constraints, mixing of the two
// forms, attribute values, expressions, and only then, under the lock: the table
// exists, the key fits, an ongoing transaction, the condition, the update, the
// size of its result.
package dynamodb
