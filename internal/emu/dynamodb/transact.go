package dynamodb

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

// maxTransact is how many actions a transaction holds.
const maxTransact = 100

var (
	errSameItem        = invalidf("Transaction request cannot include multiple operations on one item")
	errOneOfActions    = invalidf("TransactItems can only contain one of Check, Put, Update or Delete")
	errTransactPayload = invalidf("Transaction payload size cannot exceed the maximum limit of 4 MB")
)

// spot is an item's place in a table: what two actions must not share.
type spot struct {
	table *table
	place string
}

// reason is why an action of a cancelled transaction failed, None if it did not.
type reason struct {
	Code    string
	Message string    `json:",omitempty"`
	Item    attr.Item `json:",omitempty"`
}

var (
	reasonNone     = reason{Code: "None"}
	reasonConflict = reason{Code: "TransactionConflict", Message: errConflict.Message}
)

// reasonOf returns the cancellation reason that an action's error comes to.
func reasonOf(err error) reason {
	e := wireError(err)
	switch e.Code() {
	case "ConditionalCheckFailedException":
		item, _ := e.Fields["Item"].(attr.Item)
		return reason{"ConditionalCheckFailed", e.Message, item}
	case "ValidationException":
		return reason{Code: "ValidationError", Message: e.Message}
	}
	return reason{Code: e.Code(), Message: e.Message}
}

// cancelled returns the TransactionCanceledException for one reason an action,
// nil if no action failed.
func cancelled(reasons []reason) error {
	codes := make([]string, len(reasons))
	for i, r := range reasons {
		codes[i] = r.Code
	}
	if !slices.ContainsFunc(codes, func(code string) bool { return code != "None" }) {
		return nil
	}
	e := refuse("TransactionCanceledException", "Transaction cancelled, please refer cancellation reasons for specific reasons [%s]", strings.Join(codes, ", "))
	e.MessageKey = "Message"
	e.Fields = map[string]any{"CancellationReasons": reasons}
	return e
}

// invalidAt is the cancellation by the first action that does not fit its table:
// nothing else has been looked at then.
func invalidAt(i, n int, err error) error {
	reasons := slices.Repeat([]reason{reasonNone}, n)
	reasons[i] = reasonOf(err)
	return cancelled(reasons)
}

// transactTables returns the tables of a transaction's actions, once each.
func transactTables[A any](actions []A, table func(A) *string) []string {
	var names []string
	for _, a := range actions {
		if name := table(a); name != nil && !slices.Contains(names, *name) {
			names = append(names, *name)
		}
	}
	return names
}

func (c *constraints) transaction(absent bool, n int) {
	if c.required(!absent, "transactItems"); !absent {
		c.length(n, "transactItems", 1, maxTransact, fmt.Sprintf("%d items", n))
	}
}
