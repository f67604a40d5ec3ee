package leader

import "github.com/go-kcl/kcl/internal/interchange"

// javaExceptions is where our requests differ from those of Java workers for the
// same act, on purpose. It changes nothing that a Java worker reads.
func javaExceptions(act string, want *interchange.Sentence) {
	switch act {
	case "acquire", "reclaim", "steal", "renew":
		// The item that refused the write tells a lock that was taken from a write
		// of ours whose answer was lost. Java takes both for a lost lock.
		want.Members["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
	}
}

// neverSeen is what no recording holds: no Java worker released a lock without
// deleting it. The request is written down from the lock client's source.
const neverSeen = `{
	"TableName": "app1",
	"ConditionExpression": "attribute_exists(#pk) AND #ir = :ir",
	"ExpressionAttributeNames": {"#pk": "leaseKey", "#ir": "isReleased"},
	"ExpressionAttributeValues": {":ir": {"S": "1"}},
	"Item": {"entityType": {"S": "LEADER"}, "leaseDuration": {"S": "120000"}, "leaseKey": {"S": "Leader"},
		"ownerName": {"S": "A"}, "recordVersionNumber": {"S": "28d84ad2-e346-405c-829f-9e093b795fb0"}}}`
