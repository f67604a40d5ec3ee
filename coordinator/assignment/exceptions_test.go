package assignment

import (
	"slices"

	"github.com/go-kcl/kcl/internal/interchange"
)

// javaException is where a leader's write differs from a Java leader's for the
// same act, on purpose: an expired or abandoned lease is taken only if its
// counter still stands, so that an owner who has just renewed it keeps it. A
// Java worker cannot tell: such a write only fails more often.
func javaException(from State, want *interchange.Sentence) {
	if from == Expired || from == Abandoned {
		want.Terms = append(want.Terms, `leaseCounter = {"N":"5"}`)
		slices.Sort(want.Terms)
	}
}
