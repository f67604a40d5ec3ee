package expr

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAttributesToGet(t *testing.T) {
	p := parse(t, OpGet, `{"AttributesToGet":["b","a.b"]}`).Projection
	assert.Equal(t, item(t, `{"a.b":{"N":"1"},"b":{"N":"2"}}`), p.Apply(item(t, `{"a.b":{"N":"1"},"b":{"N":"2"},"a":{"M":{"b":{"N":"3"}}}}`)))
	assert.Equal(t, []string{"a.b", "b"}, p.Names())
	assert.Equal(t, "One or more parameter values were invalid: Duplicate value in attribute name: a", refusal(t, OpScan, `{"AttributesToGet":["a","b","a"]}`))
	assert.Equal(t, "Empty attribute name", refusal(t, OpScan, `{"AttributesToGet":[""]}`))
}

func TestProjection(t *testing.T) {
	const doc = `{"a":{"M":{"b":{"L":[{"N":"2"},{"N":"4"},{"M":{"x":{"S":"hi"},"y":{"S":"yo"}}}]},"c":{"N":"5"}}},"b":{"S":"hello"},"p":{"S":"x"}}`
	for src, want := range map[string]string{
		"b":                        `{"b":{"S":"hello"}}`,
		"a":                        `{"a":{"M":{"b":{"L":[{"N":"2"},{"N":"4"},{"M":{"x":{"S":"hi"},"y":{"S":"yo"}}}]},"c":{"N":"5"}}}}`,
		"a.c, b":                   `{"a":{"M":{"c":{"N":"5"}}},"b":{"S":"hello"}}`,
		"a.b[0]":                   `{"a":{"M":{"b":{"L":[{"N":"2"}]}}}}`,
		"a.b[2].y":                 `{"a":{"M":{"b":{"L":[{"M":{"y":{"S":"yo"}}}]}}}}`,
		"a.b[1],a.b[0]":            `{"a":{"M":{"b":{"L":[{"N":"2"},{"N":"4"}]}}}}`,
		"a.b[0] , a.c":             `{"a":{"M":{"b":{"L":[{"N":"2"}]},"c":{"N":"5"}}}}`,
		"a.x, a.b[0], x, a.b[3].x": `{"a":{"M":{"b":{"L":[{"N":"2"}]}}}}`,
		"x":                        `{}`,
		"a.b[3]":                   `{}`,
		"a.b.x":                    `{}`,
		"a[0]":                     `{}`,
		"b[0]":                     `{}`,
		"b.x":                      `{}`,
		"a.b[0][0]":                `{}`,
	} {
		got := parse(t, OpGet, fmt.Sprintf(`{"ProjectionExpression":%q}`, src)).Projection.Apply(item(t, doc))
		assert.Equal(t, want, text(got), src)
	}
	for src, want := range map[string]string{
		"a, a":         "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [a], path two: [a]",
		"a.b[0], c, a": "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [a, b, [0]], path two: [a]",
		"a, a.b[0]":    "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [a], path two: [a, b, [0]]",
		"a.b, a[1]":    "Two document paths conflict with each other; must remove or rewrite one of these paths; path one: [a, b], path two: [a, [1]]",
		"a,":           `Syntax error; token: "<EOF>", near: ","`,
		",a":           `Syntax error; token: ",", near: ",a"`,
		"a,,b":         `Syntax error; token: ",", near: ",,b"`,
		"a b":          `Syntax error; token: "b", near: "a b"`,
		"a = b":        `Syntax error; token: "=", near: "a = b"`,
	} {
		assert.Equal(t, "Invalid ProjectionExpression: "+want, refusal(t, OpGet, fmt.Sprintf(`{"ProjectionExpression":%q}`, src)), src)
	}
	whole := item(t, doc)
	assert.Equal(t, whole, (*Projection)(nil).Apply(whole))
	assert.Nil(t, (*Projection)(nil).Names())
	assert.Equal(t, []string{"a", "b"}, parse(t, OpScan, `{"ProjectionExpression":"b, a.x, a.y"}`).Projection.Names())
	assert.Equal(t, doc, text(whole), "a projection leaves the item as it was")
}
