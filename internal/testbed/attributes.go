package testbed

import (
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"pgregory.net/rapid"
)

// Attribute draws an attribute value of any type, lists and maps two deep. Its
// numbers are spelled as DynamoDB returns them.
func Attribute(t *rapid.T) types.AttributeValue { return attribute(t, 2) }

var (
	texts   = rapid.SampledFrom([]string{"", "x", "0", "5", "TRIM_HORIZON", "SHARD_END", "LEASE", "CLIENT_VERSION_2X", "\x00é"})
	numbers = rapid.SampledFrom([]string{"0", "1", "-1", "1.5", "1E-6", "1796033728812", "9223372036854775807", "9223372036854775808", "1E+125"})
)

func attribute(t *rapid.T, depth int) types.AttributeValue {
	last := 9
	if depth == 0 {
		last = 7
	}
	switch rapid.IntRange(0, last).Draw(t, "type") {
	case 0:
		return &types.AttributeValueMemberS{Value: texts.Draw(t, "text")}
	case 1:
		return &types.AttributeValueMemberN{Value: numbers.Draw(t, "number")}
	case 2:
		return &types.AttributeValueMemberB{Value: rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "bytes")}
	case 3:
		return &types.AttributeValueMemberBOOL{Value: rapid.Bool().Draw(t, "bool")}
	case 4:
		return &types.AttributeValueMemberNULL{Value: true}
	case 5:
		return &types.AttributeValueMemberSS{Value: rapid.SliceOfN(texts, 1, 3).Draw(t, "texts")}
	case 6:
		return &types.AttributeValueMemberNS{Value: rapid.SliceOfN(numbers, 1, 3).Draw(t, "numbers")}
	case 7:
		return &types.AttributeValueMemberBS{Value: [][]byte{{1}}}
	case 8:
		l := &types.AttributeValueMemberL{Value: []types.AttributeValue{}}
		for range rapid.IntRange(0, 2).Draw(t, "elements") {
			l.Value = append(l.Value, attribute(t, depth-1))
		}
		return l
	default:
		m := &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{}}
		for i := range rapid.IntRange(0, 2).Draw(t, "entries") {
			m.Value[fmt.Sprint("m", i)] = attribute(t, depth-1)
		}
		return m
	}
}

// Spoil returns a copy of an item in which some attributes, or some of what they
// hold, are missing, or have any value.
func Spoil(t *rapid.T, item map[string]types.AttributeValue) map[string]types.AttributeValue {
	for range rapid.IntRange(0, 2).Draw(t, "spoiled") {
		item = spoilOne(t, item)
	}
	return item
}

func spoilOne(t *rapid.T, item map[string]types.AttributeValue) map[string]types.AttributeValue {
	item = maps.Clone(item)
	if len(item) == 0 {
		return item
	}
	name := rapid.SampledFrom(slices.Sorted(maps.Keys(item))).Draw(t, "attribute")
	switch rapid.IntRange(0, 3).Draw(t, "spoil") {
	case 0:
		delete(item, name)
	case 1:
		item[name] = Attribute(t)
	default:
		item[name] = spoilInside(t, item[name])
	}
	return item
}

func spoilInside(t *rapid.T, v types.AttributeValue) types.AttributeValue {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return &types.AttributeValueMemberS{Value: texts.Draw(t, "text")}
	case *types.AttributeValueMemberN:
		return &types.AttributeValueMemberN{Value: numbers.Draw(t, "number")}
	case *types.AttributeValueMemberM:
		return &types.AttributeValueMemberM{Value: spoilOne(t, v.Value)}
	case *types.AttributeValueMemberL:
		if len(v.Value) > 0 {
			l := slices.Clone(v.Value)
			i := rapid.IntRange(0, len(l)-1).Draw(t, "element")
			if rapid.Bool().Draw(t, "inside") {
				l[i] = spoilInside(t, l[i])
			} else {
				l[i] = Attribute(t)
			}
			return &types.AttributeValueMemberL{Value: l}
		}
	}
	return v
}

// Strange returns a copy of an item with attributes of another version.
func Strange(t *rapid.T, item map[string]types.AttributeValue) map[string]types.AttributeValue {
	item = maps.Clone(item)
	for i := range rapid.IntRange(1, 3).Draw(t, "strange attributes") {
		item[fmt.Sprint("later", i)] = Attribute(t)
	}
	return item
}
