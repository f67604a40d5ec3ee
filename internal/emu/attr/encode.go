package attr

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// MarshalJSON implements [json.Marshaler].
func (v Value) MarshalJSON() ([]byte, error) { return v.AppendJSON(nil), nil }

// MarshalJSON implements [json.Marshaler]; names are sorted. A nil item is null.
func (it Item) MarshalJSON() ([]byte, error) {
	if it == nil {
		return []byte("null"), nil
	}
	return it.AppendJSON(nil), nil
}

// AppendJSON appends the JSON form of the item, names sorted, so that the same
// item always has the same answer.
func (it Item) AppendJSON(dst []byte) []byte {
	names := make([]string, 0, len(it))
	for name := range it {
		names = append(names, name)
	}
	slices.Sort(names)
	dst = append(dst, '{')
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, name), ':')
		dst = it[name].AppendJSON(dst)
	}
	return append(dst, '}')
}

// AppendJSON appends the JSON form of v, {} if it is [Invalid].
func (v Value) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	if v.kind != Invalid {
		dst = append(dst, '"')
		dst = append(dst, v.kind.String()...)
		dst = append(dst, '"', ':')
	}
	switch v.kind {
	case S:
		dst = appendString(dst, v.text)
	case N:
		dst = append(dst, '"')
		dst = append(dst, v.text...)
		dst = append(dst, '"')
	case B:
		dst = appendBase64(dst, v.text)
	case BOOL:
		if v.truth {
			dst = append(dst, "true"...)
		} else {
			dst = append(dst, "false"...)
		}
	case NULL:
		dst = append(dst, "true"...)
	case SS, NS:
		dst = appendArray(dst, v.Members(), appendString)
	case BS:
		dst = appendArray(dst, v.Members(), appendBase64)
	case L:
		dst = appendArray(dst, v.List(), func(dst []byte, e Value) []byte { return e.AppendJSON(dst) })
	case M:
		dst = v.Map().AppendJSON(dst)
	}
	return append(dst, '}')
}

func appendArray[T any](dst []byte, elems []T, elem func([]byte, T) []byte) []byte {
	dst = append(dst, '[')
	for i, e := range elems {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = elem(dst, e)
	}
	return append(dst, ']')
}

func appendBase64(dst []byte, raw string) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, []byte(raw))
	return append(dst, '"')
}

// appendString quotes s. Only strings with something to escape take the slow
// way.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic("attr: a string does not encode: " + err.Error())
			}
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}
