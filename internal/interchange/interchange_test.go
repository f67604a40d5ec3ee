package interchange

import (
	"encoding/json"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

func TestBothFormsSayTheSame(t *testing.T) {
	want := Sentence{
		Operation: "UpdateItem", Table: "t",
		Key:     []string{`k = {"S":"a"}`},
		Terms:   []string{`a = {"N":"1"}`, "attribute_not_exists(b)"},
		Actions: []string{`ADD c {"N":"1"}`, "REMOVE d", `SET e = {"SS":["x","y"]}`},
		Members: map[string]any{"ReturnValues": "ALL_NEW"},
	}
	for name, body := range map[string]string{
		"expressions": `{"TableName":"t", "Key":{"k":{"S":"a"}}, "ReturnValues":"ALL_NEW",
			"ConditionExpression":"attribute_not_exists(#b) AND #a = :one", "UpdateExpression":"SET #e = :e ADD #c :one REMOVE #d",
			"ExpressionAttributeNames":{"#a":"a","#b":"b","#c":"c","#d":"d","#e":"e"},
			"ExpressionAttributeValues":{":one":{"N":"1.0"},":e":{"SS":["y","x"]}}}`,
		"older members": `{"TableName":"t", "Key":{"k":{"S":"a"}}, "ReturnValues":"ALL_NEW",
			"Expected":{"a":{"Value":{"N":"1"}},"b":{"Exists":false}},
			"AttributeUpdates":{"c":{"Action":"ADD","Value":{"N":"1"}},"d":{"Action":"DELETE"},"e":{"Value":{"SS":["x","y"]}}}}`,
	} {
		assert.Equal(t, want, Parse(t, Request{"UpdateItem", json.RawMessage(body)}), name)
	}
}

// Whatever was recorded can be compared, and no expression is left as it was
// written.
func TestRecordings(t *testing.T) {
	all := Recordings(t)
	assert.Len(t, all, 289)
	for _, r := range all {
		for name := range Parse(t, r.Request).Members {
			assert.NotContains(t, name, "Expression", "%s: %s", r.Scenario, r.Body)
			assert.NotEqual(t, "Expected", name, "%s: %s", r.Scenario, r.Body)
		}
	}
	assert.Equal(t, all[0], Java(t, all[0].Scenario, 1))
}

func TestItems(t *testing.T) {
	assert.Len(t, States(t), 17)
	items := map[string]int{}
	for _, it := range Items(t) {
		items[it.State+" "+it.Table]++
		assert.NotEmpty(t, it.Attributes)
	}
	assert.Len(t, items, 27, "tables")
	assert.Equal(t, 8, items["3.5-reshard-pending-and-sub-sequence-checkpoints app5"])
}

func TestSent(t *testing.T) {
	key := map[string]types.AttributeValue{"k": &types.AttributeValueMemberS{Value: "a"}}
	r := Sent(t, func(c *dynamodb.Client) {
		_, err := c.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String("t"), Key: key})
		require.ErrorIs(t, err, ErrCaptured)
	})
	assert.Equal(t, Sentence{Operation: "DeleteItem", Table: "t", Key: []string{`k = {"S":"a"}`}, Members: map[string]any{}}, Parse(t, r))
}

func TestForeignHasEveryType(t *testing.T) {
	kinds := map[attr.Kind]bool{}
	for _, v := range Canonical(t, Foreign()) {
		kinds[v.Kind()] = true
	}
	for k := attr.S; k <= attr.M; k++ {
		assert.True(t, kinds[k], k)
	}
}
