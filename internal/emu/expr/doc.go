// Package expr is the expression engine of the emulated DynamoDB: conditions,
// filters, key conditions, updates and projections.
//
// A request says these things in one of two forms: as expressions with
// placeholders, or in the older members (Expected, AttributeUpdates, ScanFilter,
// …) that Java workers still send. Both are parsed into the same trees, so that
// what they mean can be evaluated, and compared, without regard to the form:
// [Condition.String] and [Update.String] render a tree in a normal form.
//
// A request goes through [Request.CheckForms] and then [Request.Parse], which
// need no table; what depends on a table's keys is asked of the parts later
// ([Update.CheckKeys], [Condition.CheckNoKeys], [KeyCondition.Bind]).
//
// Every error is a [*wire.Error] of type
// com.amazon.coral.validate#ValidationException.
package expr
