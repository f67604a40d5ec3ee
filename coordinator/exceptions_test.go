package coordinator

import "github.com/go-kcl/kcl/internal/interchange"

// javaExceptions is where our requests differ from those of Java workers for the
// same act, on purpose. It changes nothing that a Java worker reads.
func javaExceptions(act string, want *interchange.Sentence) {
	if act == "create" || act == "update" {
		// The item that refused the write tells a lost race from a write of ours
		// whose answer was lost. Java takes both for a lost race, and its start
		// fails.
		want.Members["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
	}
}
