// Package kcl is the vocabulary of a Kinesis Client Library for Go: what a
// program that consumes Amazon Kinesis data streams implements and is handed.
//
// A fleet of workers shares the shards of a stream. Each worker runs a
// [github.com/go-kcl/kcl/scheduler.Scheduler]; they find each other through one
// DynamoDB table, the lease table, whose form is that of the Java KCL 3.x, so
// that Go and Java workers can serve one application together.
//
// # What is promised
//
// Every record is handed to a processor at least once, in order within its
// shard, and a shard's records only after those of the shards it came from
// (its parents). A record is repeated when a worker ended between processing
// it and storing a checkpoint behind it. Of two workers that both believe they
// own a shard, only one can store checkpoints.
//
// # What a program implements
//
// Either a [RecordProcessor], one for each time a shard is acquired, or just a
// function for scheduler.Config.Handler. The processor stores its progress by
// a [Batch]'s Checkpoint methods.
//
// This package imports no other of the module.
package kcl
