package expr

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/attr"
	"github.com/go-kcl/kcl/internal/emu/wire"
)

// request decodes a request's members from JSON.
func request(t testing.TB, text string) *Request {
	t.Helper()
	var r Request
	require.NoError(t, json.Unmarshal([]byte(text), &r), text)
	return &r
}

// parse parses a request that must be right.
func parse(t testing.TB, op Op, text string) Parsed {
	t.Helper()
	p, err := request(t, text).Parse(op)
	require.NoError(t, err, text)
	return p
}

// refusal returns the message with which a request is refused.
func refusal(t testing.TB, op Op, text string) string {
	t.Helper()
	p, err := request(t, text).Parse(op)
	require.Error(t, err, text)
	require.Equal(t, Parsed{}, p, text)
	return validation(t, err)
}

// validation returns the message of a ValidationException.
func validation(t testing.TB, err error) string {
	t.Helper()
	var e *wire.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, 400, e.Status)
	require.Equal(t, "com.amazon.coral.validate#ValidationException", e.Type)
	return e.Message
}

// item decodes an item; "" is the absent item.
func item(t testing.TB, text string) attr.Item {
	t.Helper()
	if text == "" {
		return nil
	}
	var it attr.Item
	require.NoError(t, json.Unmarshal([]byte(text), &it), text)
	require.NoError(t, it.Check(), text)
	return it
}

// text is an item's JSON, "" for the absent one.
func text(it attr.Item) string {
	if it == nil {
		return ""
	}
	return string(it.AppendJSON(nil))
}

// with is a request with an expression in that member and, of the values, those
// that the expression uses.
func with(t testing.TB, member, src, values string) string {
	t.Helper()
	all := item(t, "{"+values+"}")
	used := attr.Item{}
	for tok := nextToken(src, 0); tok.kind != tokEnd; tok = nextToken(src, tok.to) {
		if v, ok := all[tok.text]; ok {
			used[tok.text] = v
		}
	}
	request := fmt.Sprintf(`{%q:%q`, member, src)
	if len(used) > 0 {
		request += `,"ExpressionAttributeValues":` + text(used)
	}
	return request + "}"
}
