package workermetrics

import (
	"slices"
	"strings"

	"github.com/go-kcl/kcl/internal/interchange"
)

// javaExceptions are the places where our report differs from what real Java
// workers send, on purpose. None changes what a Java worker reads.
func javaExceptions(want *interchange.Sentence) {
	// A lease or another item that has a worker's name as its key is not spoilt.
	if !strings.HasSuffix(want.Table, "-WorkerMetricStats") {
		want.Terms = append(want.Terms, `attribute_not_exists(leaseKey) OR entityType = {"S":"WORKER_METRIC_STATS"}`)
	}
	// KCL before 3.5 wrote no entityType. It ignores the attribute.
	kind := `SET entityType = {"S":"WORKER_METRIC_STATS"}`
	if !slices.Contains(want.Actions, kind) {
		want.Actions = append(want.Actions, kind)
		slices.Sort(want.Actions)
	}
	// Nothing reads the item that comes back.
	delete(want.Members, "ReturnValues")
}

// readExceptions are the places where our reads differ from Java's.
func readExceptions(want *interchange.Sentence) {
	if want.Operation == "Scan" {
		// The leader's pace follows from what its scans cost.
		want.Members["ReturnConsumedCapacity"] = "TOTAL"
	}
}

// The deletion of a record could not be recorded, for it takes a day to become
// due; TestDeleteRequests holds it to the letter. Java cannot delete a record
// that does not say when it was written, and fails at it in every run.
