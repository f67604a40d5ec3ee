// Package ddb is what every package that talks to DynamoDB shares: the classes
// of errors, the set-up of the lease table with its index, and the number of
// scan segments.
package ddb
