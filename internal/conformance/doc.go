// Package conformance holds kcltest, and other emulators of Kinesis and
// DynamoDB, against one list of what this library relies on. It is tests only.
//
// The suite is written against the plain AWS SDK clients, with signed HTTP where
// a client cannot say what Java workers say. A case is a named function over the
// clients of a target; what it finds it reports check by check, so that one row
// of a table can fail without the others.
//
//	make test         kcltest in memory, each case in a bubble: every check passes
//	make conformance  kcltest over HTTP, moto, dynalite, kinesis-local, in real
//	                  time: what differs is listed in differences_*_test.go with
//	                  what the service does and how that is known, and a
//	                  difference that is not listed, or no longer there, fails
//
// DIFFERENCES.md is the list for readers.
//
// The real service is the authority: what a case expects was measured on it, or
// is documented, and a check that only an emulator vouches for has no place
// here. Texts of errors are not compared, but for the ones the library reads.
//
// Files: check_test.go is the harness, target_test.go the targets,
// dynamodb_*_test.go and kinesis_*_test.go the cases, suite_test.go their list.
package conformance
