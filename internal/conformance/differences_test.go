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
	// does is what the target does. why tells how the service is known to do
	// otherwise: [model] the service model of the SDKs, [docs] the developer guide,
	// [suite] paritysuite/dynamodb-conformance, [scylla] scylladb test/alternator,
	// [dynalite] and [kl] the test files of dynalite and kinesalite, all written to
	// pass on the service, [ack] aws-controllers-k8s' measurements, [java] requests
	// recorded from Java workers.
	does, why string
}

var differences = slices.Concat(motoDynamoDB, motoKinesis, dynaliteDynamoDB, kinesisLocalKinesis)
