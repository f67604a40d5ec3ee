package conformance

import "slices"

// difference is what a target does otherwise than the real service.
type difference struct {
	target string
	// shows is a regular expression for what the checks find, so that another
	// fault of the same check is not taken for this one.
	shows string
	// checks are names of checks; a final * stands for any end. Each must be met,
	// and by so many checks together.
	checks []string
	times  int
	// sometimes says that it is a race, met in some runs: it need not be met, and
	// has no times.
	sometimes bool
	// does is what the target does, real what the service does, known how that is
	// known: names of sources.
	does, real, known string
}

// sources are what vouches for the service.
var sources = []struct{ name, is string }{
	{"model", "the service model that the AWS SDKs are made of"},
	{"docs", "the developer guide"},
	{"suite", "paritysuite/dynamodb-conformance, run on the service"},
	{"scylla", "scylladb's test/alternator, written to pass on the service"},
	{"dynalite", "the test files of dynalite, written to pass on the service"},
	{"kinesalite", "the test files of kinesalite, written to pass on the service"},
	{"ack", "measurements on the service by aws-controllers-k8s"},
	{"java", "requests recorded from Java workers"},
}

var differences = slices.Concat(motoDynamoDB, motoKinesis, dynaliteDynamoDB, kinesisLocalKinesis)
