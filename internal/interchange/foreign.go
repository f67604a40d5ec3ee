package interchange

import "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

// Foreign returns attributes of every type, such as another version may add to
// an item, sets sorted. A write must leave them alone.
func Foreign() map[string]types.AttributeValue {
	str := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	num := func(s string) types.AttributeValue { return &types.AttributeValueMemberN{Value: s} }
	return map[string]types.AttributeValue{
		"futureString":   str(""),
		"futureNumber":   num("12345678901234567890123456789012345678"),
		"futureBinary":   &types.AttributeValueMemberB{Value: []byte{0, 255}},
		"futureBool":     &types.AttributeValueMemberBOOL{Value: true},
		"futureNull":     &types.AttributeValueMemberNULL{Value: true},
		"futureStrings":  &types.AttributeValueMemberSS{Value: []string{"a", "b"}},
		"futureNumbers":  &types.AttributeValueMemberNS{Value: []string{"1", "2.5"}},
		"futureBinaries": &types.AttributeValueMemberBS{Value: [][]byte{{1}, {2}}},
		"futureList":     &types.AttributeValueMemberL{Value: []types.AttributeValue{str("x"), num("1")}},
		"futureMap": &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
			"leaseOwner": str("no owner"), "ownerName": str("no leader"), "lut": str("no time"), "mb": str("no modifier"),
		}},
		"future.dotted": str("dots are no path"),
	}
}
