package wire

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A timestamp is seconds with a fraction in JSON and tagged milliseconds in
// CBOR; what is finer than a millisecond is cut off.
func TestTime(t *testing.T) {
	when := time.UnixMilli(1506440188749).UTC()
	in := struct{ T Time }{Time{when.Add(999 * time.Microsecond)}}
	b, err := JSON11.Marshal(in)
	require.NoError(t, err)
	assert.Equal(t, `{"T":1506440188.749}`, string(b))
	for _, text := range []string{`{"T":1506440188.749}`, `{"T":1.506440188749E9}`} {
		var out struct{ T Time }
		require.NoError(t, JSON11.Unmarshal([]byte(text), &out))
		assert.Equal(t, when, out.T.Time, text)
	}
	b, err = JSON11.Marshal(struct{ T Time }{Time{time.Unix(5, 0)}})
	require.NoError(t, err)
	assert.Equal(t, `{"T":5}`, string(b))

	b, err = CBOR.Marshal(Time{when})
	require.NoError(t, err)
	assert.Equal(t, "c11b0000015ebed5134d", hex.EncodeToString(b))
	var out Time
	require.NoError(t, CBOR.Unmarshal(b, &out))
	assert.Equal(t, when, out.Time)
	assert.Error(t, JSON11.Unmarshal([]byte(`{"T":"now"}`), &struct{ T Time }{}))
	assert.Error(t, CBOR.Unmarshal([]byte{0x61, 'x'}, &out))
}

// An error's body has its type, its text under the key it asks for, and what
// else belongs to it.
func TestErrorAnswer(t *testing.T) {
	e := &Error{Status: 400, Type: "com.amazonaws.dynamodb.v20120810#SomethingException", Message: "m", MessageKey: "Message", Fields: map[string]any{"Item": 1}}
	a := e.Answer(JSON10)
	assert.JSONEq(t, `{"__type":"com.amazonaws.dynamodb.v20120810#SomethingException","Message":"m","Item":1}`, string(a.Body))
	assert.Equal(t, 400, a.Status)
	assert.Equal(t, "application/x-amz-json-1.0", a.ContentType)
	assert.Equal(t, "SomethingException", e.Code())
	assert.Equal(t, "Plain", (&Error{Type: "Plain"}).Code())
	assert.JSONEq(t, `{"__type":"Plain"}`, string((&Error{Type: "Plain"}).Answer(JSON11).Body), "no text, no member")
	assert.Empty(t, OK(JSON11, nil).Body)
}
