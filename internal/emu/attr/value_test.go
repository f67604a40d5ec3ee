package attr

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

func decode(t *testing.T, text string) Value {
	t.Helper()
	var v Value
	require.NoError(t, json.Unmarshal([]byte(text), &v), text)
	return v
}

func encode(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

// nested returns {"L":[…]} of that many levels around the number 1.
func nested(levels int) string {
	return strings.Repeat(`{"L":[`, levels) + `{"N":"1"}` + strings.Repeat(`]}`, levels)
}

func TestValueJSON(t *testing.T) {
	for text, back := range map[string]string{ // "" means unchanged
		`{"S":""}`:                        "", // aws-dynamodb#5
		`{"S":"a\"b\\c\n"}`:               "",
		`{"S":"é𝄞"}`:                      "",
		`{"S":"\u00e9\ud834\udd1e"}`:      `{"S":"é𝄞"}`,
		`{"N":"85.0"}`:                    `{"N":"85"}`,
		`{"B":""}`:                        "",
		`{"B":"/wAB"}`:                    "",
		`{"BOOL":true}`:                   "",
		`{"BOOL":false}`:                  "",
		`{"NULL":true}`:                   "",
		`{"M":{}}`:                        "",                               // aws-dynamodb#6
		`{"L":[]}`:                        "",                               // aws-dynamodb#6
		`{"SS":["b","a","","é"]}`:         `{"SS":["","a","b","é"]}`,        // aws-dynamodb#5
		`{"NS":["10","9.50","-1","1e2"]}`: `{"NS":["-1","9.5","10","100"]}`, // aws-dynamodb#2
		`{"BS":["/w==","AA==",""]}`:       `{"BS":["","AA==","/w=="]}`,
		`{"L":[{"N":"1.0E-6"},{"S":"x"},{"M":{"b":{"N":"0.0"},"a":{"L":[]}}}]}`:   `{"L":[{"N":"0.000001"},{"S":"x"},{"M":{"a":{"L":[]},"b":{"N":"0"}}}]}`, // aws-dynamodb#2
		` { "S" : "a" , "Q" : [ {"x":[1,-2.5e3,null,true,"}"]} ] , "N" : null } `: `{"S":"a"}`,
		nested(31): "",
	} {
		if back == "" {
			back = text
		}
		v := decode(t, text)
		require.NoError(t, v.Check(), text)
		assert.Equal(t, back, encode(t, v), text)
		assert.True(t, v.Equal(decode(t, back)), text)
	}
}

// The rows of the number table in every place a number can stand.
// aws-dynamodb#2
func TestNumbersInEveryPlace(t *testing.T) {
	for _, c := range numberForms {
		for _, place := range []string{`{"N":"#"}`, `{"NS":["#"]}`, `{"L":[{"N":"#"}]}`, `{"M":{"a":{"N":"#"}}}`, `{"M":{"a":{"L":[{"NS":["#"]}]}}}`} {
			got := encode(t, decode(t, strings.Replace(place, "#", c.sent, 1)))
			assert.Equal(t, strings.Replace(place, "#", c.returned, 1), got)
		}
	}
}

func TestRulesOfValues(t *testing.T) {
	const invalid = "One or more parameter values were invalid: "
	for text, message := range map[string]string{
		`{}`:                     "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes",
		`null`:                   "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes",
		`{"Q":"a"}`:              "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes",
		`{"s":"a"}`:              "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes",
		`{"S":null}`:             "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes",
		`{"S":"a","N":"1"}`:      "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes",
		`{"NULL":false}`:         invalid + "Null attribute value types must have the value of true", // aws-dynamodb#6
		`{"SS":[]}`:              invalid + "An string set  may not be empty",                        // aws-dynamodb#5
		`{"NS":[]}`:              invalid + "An number set  may not be empty",                        // aws-dynamodb#5
		`{"BS":[]}`:              invalid + "Binary sets should not be empty",                        // aws-dynamodb#5
		`{"SS":["a","b","a"]}`:   invalid + "Input collection [a, b, a] contains duplicates.",
		`{"NS":["1","1.0"]}`:     invalid + "Input collection [1, 1] contains duplicates.",
		`{"BS":["AA==","AA=="]}`: invalid + "Input collection [AA==, AA==]of type BS contains duplicates.",
		`{"SS":["a",null]}`:      invalid + "An string set may not have a null string as a member",
		`{"BS":[null]}`:          invalid + "Binary sets may not contain null or empty values",
		`{"N":"dog"}`:            "The parameter cannot be converted to a numeric value: dog",
		`{"N":""}`:               "The parameter cannot be converted to a numeric value",
		`{"NS":["1","dog"]}`:     "The parameter cannot be converted to a numeric value: dog",
		`{"M":{"":{"S":"a"}}}`:   "Empty attribute name",
		nested(32):               "Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond supported limit",
		`{"L":[{"S":"a"},{"M":{"b":{"SS":[]}}},{"N":"dog"}]}`:              invalid + "An string set  may not be empty",
		`{"M":{"a":{"L":[{}]}}}`:                                           "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes",
		strings.Repeat(`{"M":{"a":`, 32) + `{}` + strings.Repeat(`}}`, 32): "Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond supported limit",
	} {
		v := decode(t, text)
		assert.Equal(t, Invalid, v.Kind(), text)
		assert.Equal(t, error(Invalidf("%s", message)), v.Check(), text)
	}
}

func TestWrongJSONTypes(t *testing.T) {
	for text, message := range map[string]string{
		`{"S":5}`:                     "NUMBER_VALUE cannot be converted to String",
		`{"N":5}`:                     "NUMBER_VALUE cannot be converted to String",
		`{"N":-1.5e3}`:                "NUMBER_VALUE cannot be converted to String",
		`{"S":true}`:                  "TRUE_VALUE cannot be converted to String",
		`{"S":["a"]}`:                 "Start of list found where not expected",
		`{"S":{}}`:                    "Start of structure or map found where not expected.",
		`{"BOOL":"true"}`:             "STRING_VALUE cannot be converted to Boolean",
		`{"NULL":1}`:                  "NUMBER_VALUE cannot be converted to Boolean",
		`{"SS":"a"}`:                  "Unexpected value type in payload",
		`{"SS":[1]}`:                  "NUMBER_VALUE cannot be converted to String",
		`{"NS":[1]}`:                  "NUMBER_VALUE cannot be converted to String",
		`{"M":[]}`:                    "Start of list found where not expected",
		`{"L":{}}`:                    "Start of structure or map found where not expected.",
		`{"L":["a"]}`:                 "Unexpected value type in payload",
		`{"B":"*"}`:                   "'*' can not be converted to a Blob: Invalid Base64",
		`{"B":"AAA"}`:                 "'AAA' can not be converted to a Blob: Invalid Base64",
		`{"B":"AB=="}`:                "'AB==' can not be converted to a Blob: Invalid Base64",
		`{"BS":["AA"]}`:               "'AA' can not be converted to a Blob: Invalid Base64",
		`"a"`:                         "Unexpected value type in payload",
		`[]`:                          "Start of list found where not expected",
		`{"M":{"a":{"L":[{"S":5}]}}}`: "NUMBER_VALUE cannot be converted to String",
		// A wrong type outweighs a broken rule, wherever they stand.
		`{"L":[{"SS":[]},{"S":5}]}`: "NUMBER_VALUE cannot be converted to String",
	} {
		var v Value
		err := json.Unmarshal([]byte(text), &v)
		var e *wire.Error
		require.ErrorAs(t, err, &e, text)
		assert.Equal(t, "com.amazon.coral.service#SerializationException", e.Type, text)
		assert.Equal(t, message, e.Message, text)
	}
}

func TestItemJSON(t *testing.T) {
	var it Item
	require.NoError(t, json.Unmarshal([]byte(`{"b":{"N":"1e3"},"a":{"S":"x"}}`), &it))
	assert.Equal(t, Item{"a": String("x"), "b": Int(1000)}, it)
	assert.Equal(t, `{"a":{"S":"x"},"b":{"N":"1000"}}`, encode(t, it))

	holder := struct{ Key, Absent, Null, Empty Item }{}
	require.NoError(t, json.Unmarshal([]byte(`{"Key":{"k":{"S":"x"}},"Null":null,"Empty":{}}`), &holder))
	assert.Equal(t, Item{"k": String("x")}, holder.Key)
	assert.Nil(t, holder.Absent)
	assert.Nil(t, holder.Null)
	assert.Equal(t, Item{}, holder.Empty)
	assert.Equal(t, `{"Key":{"k":{"S":"x"}},"Absent":null,"Null":null,"Empty":{}}`, encode(t, holder))

	var e *wire.Error
	require.ErrorAs(t, json.Unmarshal([]byte(`{"Key":{"k":{"N":5}}}`), &holder), &e)
	assert.Equal(t, "SerializationException", e.Code())
}

// The rules are checked later than the types, in their turn.
func TestItemCheck(t *testing.T) {
	for text, message := range map[string]string{
		`{"z":{"SS":[]},"b":{"N":"dog"},"a":{"S":"fine"}}`:  "The parameter cannot be converted to a numeric value: dog",
		`{"":{"S":"a"},"b":{"N":"dog"}}`:                    "Empty attribute name",
		`{"` + strings.Repeat("a", 65_536) + `":{"S":"a"}}`: "Attribute name is too large, must be less than 65536 bytes",
	} {
		var it Item
		require.NoError(t, json.Unmarshal([]byte(text), &it))
		assert.Equal(t, error(Invalidf("%s", message)), it.Check())
	}
	var it Item
	require.NoError(t, json.Unmarshal([]byte(`{"`+strings.Repeat("a", 65_535)+`":{"S":""}}`), &it))
	assert.NoError(t, it.Check())
	assert.NoError(t, Item(nil).Check())
}

func TestEqual(t *testing.T) {
	values := []Value{
		String("1"), Int(1), Binary("1"), Bool(true), Bool(false), Null(), String(""), Int(0),
		Set(SS, "1"), Set(NS, "1"), Set(BS, "1"), Set(SS, "1", "2"),
		List(), List(Int(1)), List(Int(1), Int(2)), List(Int(2), Int(1)),
		Map(Item{}), Map(Item{"a": Int(1)}), Map(Item{"a": Int(2)}), Map(Item{"b": Int(1)}),
	}
	for i, v := range values {
		for j, w := range values {
			assert.Equal(t, i == j, v.Equal(w), "%s, %s", encode(t, v), encode(t, w))
		}
	}
	assert.True(t, decode(t, `{"L":[{"N":"7.0"},{"SS":["a","b"]}]}`).Equal(decode(t, `{"L":[{"N":"07"},{"SS":["b","a"]}]}`)))
	assert.True(t, decode(t, `{"M":{"a":{"NS":["1","2"]}}}`).Equal(decode(t, `{"M":{"a":{"NS":["2.0","1"]}}}`)))
	assert.False(t, Value{}.Equal(Value{}), "an invalid value equals nothing")
}

// aws-dynamodb#4
func TestKey(t *testing.T) {
	assert.Equal(t, number(t, "1000").Key(), number(t, "1e3").Key())
	assert.Equal(t, number(t, "0").Key(), number(t, "-0.0").Key())
	assert.NotEqual(t, String("1000").Key(), number(t, "1000").Key())
	assert.NotEqual(t, String("a").Key(), Binary("a").Key())
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		v, w  Value
		order int
		ok    bool
	}{
		{String("Z"), String("a"), -1, true},
		{String("z"), String("é"), -1, true}, // by UTF-8 bytes
		{String("a"), String("a"), 0, true},
		{Binary("\xff"), Binary("\x00"), 1, true}, // unsigned
		{Int(9), Int(10), -1, true},
		{String("9"), Int(10), 0, false},
		{Bool(true), Bool(false), 0, false},
		{List(), List(), 0, false},
	} {
		order, ok := Compare(c.v, c.w)
		assert.Equal(t, c.order, order)
		assert.Equal(t, c.ok, ok)
	}
}

func TestSets(t *testing.T) {
	v := Set(NS, "10", "9", "9")
	assert.Equal(t, []string{"9", "10"}, v.Members())
	assert.True(t, v.Has(Int(10)))
	assert.False(t, v.Has(String("10")))
	assert.False(t, v.Has(Int(1)))
	assert.True(t, Union(v, Set(NS, "9", "-1")).Equal(Set(NS, "-1", "9", "10")))
	assert.Equal(t, []string{"9", "10"}, v.Members(), "the operand is as it was")
	assert.True(t, Minus(v, Set(NS, "10", "11")).Equal(Set(NS, "9")))
	assert.Empty(t, Minus(v, v).Members())
	assert.Equal(t, []string{"9", "10"}, v.Members())
	assert.True(t, Set(SS, "a").Has(String("a")))
	assert.True(t, Set(BS, "a").Has(Binary("a")))
}

// aws-dynamodb#7
func TestSize(t *testing.T) {
	for text, size := range map[string]int{
		`{"S":"é𝄞"}`:                    6,
		`{"S":""}`:                      0,
		`{"B":"/wAB"}`:                  3,
		`{"BOOL":true}`:                 1,
		`{"NULL":true}`:                 1,
		`{"SS":["ab","c"]}`:             3,
		`{"NS":["12","-42"]}`:           5,
		`{"BS":["/wAB","AA=="]}`:        4,
		`{"L":[]}`:                      3,
		`{"L":[{"S":"ab"},{"N":"12"}]}`: 3 + 2 + 2 + 2,
		`{"M":{}}`:                      3,
		`{"M":{"ab":{"S":"c"}}}`:        3 + 1 + 2 + 1,
		`{"M":{"a":{"L":[{"N":"1"}]}}}`: 3 + 1 + 1 + (3 + 1 + 2),
	} {
		assert.Equal(t, size, decode(t, text).Size(), text)
	}
	assert.Equal(t, 8+2+12+2, Item{"leaseKey": String("s1"), "leaseCounter": Int(7)}.Size())
	assert.Equal(t, 409_600, Item{"k": String(strings.Repeat("x", 409_599))}.Size())
}

func TestCheckNesting(t *testing.T) {
	v := decode(t, nested(31))
	assert.NoError(t, v.CheckNesting())
	assert.Error(t, List(v).CheckNesting())
	assert.Error(t, Map(Item{"a": v}).CheckNesting())
	assert.NoError(t, String("a").CheckNesting())
}

func TestCloneLeavesTheOriginal(t *testing.T) {
	it := Item{"a": Int(1)}
	c := it.Clone()
	c["b"] = Int(2)
	assert.Equal(t, Item{"a": Int(1)}, it)
	assert.Equal(t, Item{"a": Int(1), "b": Int(2)}, c)
}

func TestKindOf(t *testing.T) {
	for k := S; k <= M; k++ {
		assert.Equal(t, k, KindOf(k.String()))
	}
	assert.Equal(t, Invalid, KindOf("s"))
	assert.Equal(t, Invalid, KindOf(""))
}

// Whatever is decoded without an error encodes to JSON that means the same.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"S":"a"}`, `{"N":"1e3"}`, `{"B":"/wAB"}`, `{"BOOL":true}`, `{"NULL":true}`, `{"SS":["a","b"]}`,
		`{"NS":["1","2"]}`, `{"BS":["AA=="]}`, `{"L":[{"S":"\ud834\udd1e"}]}`, `{"M":{"a":{"M":{}}}}`,
		`{"S":5}`, `{"x":[{"y":null}],"S":"a"}`, `{`, `{"S":"a"`, `{"S":"\"}`, `[]`, `{"S":"a"} x`, nested(33),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var v Value
		if err := v.UnmarshalJSON(b); err != nil {
			var e *wire.Error
			require.True(t, errors.As(err, &e))
			require.Equal(t, "SerializationException", e.Code())
			return
		}
		if v.Check() != nil {
			return
		}
		require.GreaterOrEqual(t, v.Size(), 0)
		encoded, err := v.MarshalJSON()
		require.NoError(t, err)
		require.True(t, json.Valid(encoded), "%s", encoded)
		var again Value
		require.NoError(t, again.UnmarshalJSON(encoded))
		require.True(t, v.Equal(again), "%s", encoded)
	})
}

// lease is a lease item as Java workers store it.
func lease() Item {
	return Item{
		"leaseKey":                     String("shardId-000000000001"),
		"leaseOwner":                   String("worker-1"),
		"leaseCounter":                 Int(1234),
		"checkpoint":                   String("49590338271490256608559692538361571095921575989136588898"),
		"checkpointSubSequenceNumber":  Int(0),
		"ownerSwitchesSinceCheckpoint": Int(3),
		"startingHashKey":              String("0"),
		"endingHashKey":                String("85070591730234615865843651857942052863"),
		"entityType":                   String("LEASE"),
		"throughputKBps":               Value{kind: N, text: "0.008266"},
	}
}

func BenchmarkDecodeLease(b *testing.B) {
	text := lease().AppendJSON(nil)
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		var it Item
		if err := it.UnmarshalJSON(text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeLease(b *testing.B) {
	it := lease()
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = it.AppendJSON(buf[:0])
	}
}

func BenchmarkAddSmall(b *testing.B) {
	v, one := Int(41), Int(1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Add(v, one); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseNumber(b *testing.B) {
	for _, s := range []string{"1796033648428", "9.23E-4"} {
		b.Run(strconv.Quote(s), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseNumber(s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
