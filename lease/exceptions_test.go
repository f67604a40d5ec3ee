package lease

import (
	"slices"

	"github.com/go-kcl/kcl/internal/interchange"
)

// javaExceptions are the places where our requests differ from what real Java
// workers send for the same act, on purpose. None changes what a Java worker
// reads.
var javaExceptions = []struct {
	acts  []string
	apply func(want *interchange.Sentence)
}{
	{
		// KCL before 3.5 wrote no entityType. It ignores the attribute.
		acts:  []string{"create, 2.7"},
		apply: func(w *interchange.Sentence) { w.Item = plus(w.Item, `entityType = {"S":"LEASE"}`) },
	},
	{
		// A checkpoint returns the item, so that it can stand in for the next
		// renewal: a hand-off begun since then shows in it.
		acts:  []string{"checkpoint", "checkpoint, multi-stream", "prepare"},
		apply: func(w *interchange.Sentence) { w.Members["ReturnValues"] = "ALL_NEW" },
	},
	{
		// The item that refused a write tells a lost answer from a lost lease.
		// Java asks for it when it renews and assigns only; one helper sends all
		// of our updates.
		acts:  []string{"checkpoint", "checkpoint, multi-stream", "prepare", "start hand-off", "set children"},
		apply: func(w *interchange.Sentence) { w.Members["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD" },
	},
	{
		// The leader's pace follows from what its scans cost.
		acts:  []string{"scan"},
		apply: func(w *interchange.Sentence) { w.Members["ReturnConsumedCapacity"] = "TOTAL" },
	},
	{
		// KCL 2.7 sends the default explicitly, 3.5 does not.
		acts:  []string{"get"},
		apply: func(w *interchange.Sentence) { delete(w.Members, "ConsistentRead") },
	},
}

// The other differences are whole requests or terms that Java never sends:
//
//   - Assign with ifCounter adds leaseCounter = observed, so that a lease taken
//     to be expired is not taken from an owner that has just renewed it.
//   - Checkpoint adds SET throughputKBps when a rate is known, as the renewal
//     that it replaces would.
//   - DeleteIf: Java deletes leases unconditionally.
//   - Evict has no caller in KCL 3.5.1, so that there is no recording of it.
//     TestOurOwnRequests holds all four to the letter.

func plus(s []string, more ...string) []string {
	s = append(slices.Clone(s), more...)
	slices.Sort(s)
	return s
}
