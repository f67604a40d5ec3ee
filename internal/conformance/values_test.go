package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

type item = map[string]types.AttributeValue

func str(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }
func num(v string) types.AttributeValue { return &types.AttributeValueMemberN{Value: v} }
func bin(v ...byte) types.AttributeValue {
	return &types.AttributeValueMemberB{Value: append([]byte{}, v...)}
}
func strs(v ...string) types.AttributeValue { return &types.AttributeValueMemberSS{Value: v} }
func nums(v ...string) types.AttributeValue { return &types.AttributeValueMemberNS{Value: v} }
func bins(v ...[]byte) types.AttributeValue { return &types.AttributeValueMemberBS{Value: v} }
func truth(v bool) types.AttributeValue     { return &types.AttributeValueMemberBOOL{Value: v} }
func null() types.AttributeValue            { return &types.AttributeValueMemberNULL{Value: true} }
func tree(v item) types.AttributeValue      { return &types.AttributeValueMemberM{Value: v} }
func list(v ...types.AttributeValue) types.AttributeValue {
	return &types.AttributeValueMemberL{Value: v}
}

// show writes an item as one line: attributes by name, and sets, whose order
// means nothing, sorted. Numbers stay as they were answered. No item at all is
// "none".
//
//	{leaseCounter:7 leaseKey:"s1" owners:<"a" "b">}
func show(i item) string {
	if i == nil {
		return "none"
	}
	parts := make([]string, 0, len(i))
	for _, name := range slices.Sorted(maps.Keys(i)) {
		parts = append(parts, name+":"+showValue(i[name]))
	}
	return "{" + strings.Join(parts, " ") + "}"
}

func showValue(v types.AttributeValue) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return fmt.Sprintf("%q", v.Value)
	case *types.AttributeValueMemberN:
		return v.Value
	case *types.AttributeValueMemberB:
		return fmt.Sprintf("0x%x", v.Value)
	case *types.AttributeValueMemberBOOL:
		return fmt.Sprint(v.Value)
	case *types.AttributeValueMemberNULL:
		return "null"
	case *types.AttributeValueMemberSS:
		return showSet(v.Value, "%q")
	case *types.AttributeValueMemberNS:
		return showSet(v.Value, "%s")
	case *types.AttributeValueMemberBS:
		return showSet(v.Value, "0x%x")
	case *types.AttributeValueMemberL:
		parts := make([]string, len(v.Value))
		for i, e := range v.Value {
			parts[i] = showValue(e)
		}
		return "[" + strings.Join(parts, " ") + "]"
	case *types.AttributeValueMemberM:
		return show(v.Value)
	default:
		return fmt.Sprintf("%T", v)
	}
}

func showSet[E any](members []E, form string) string {
	parts := make([]string, len(members))
	for i, m := range members {
		parts[i] = fmt.Sprintf(form, m)
	}
	slices.Sort(parts)
	return "<" + strings.Join(parts, " ") + ">"
}
