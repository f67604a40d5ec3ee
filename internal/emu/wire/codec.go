package wire

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// Codec is one of the encodings of AWS's JSON protocols. Structs carry `json`
// tags, which both encodings read; []byte is a blob, [Time] a timestamp.
type Codec interface {
	Marshal(v any) ([]byte, error)
	Unmarshal(data []byte, v any) error
	ContentType() string
}

// The encodings. DynamoDB speaks JSON10 only; Kinesis JSON11 and CBOR.
var (
	JSON10 Codec = jsonCodec("application/x-amz-json-1.0")
	JSON11 Codec = jsonCodec("application/x-amz-json-1.1")
	CBOR   Codec = cborCodec{}
)

type jsonCodec string

func (jsonCodec) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (jsonCodec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }
func (c jsonCodec) ContentType() string              { return string(c) }

type cborCodec struct{}

var (
	cborEnc = must(cbor.EncOptions{}.EncMode())
	cborDec = must(cbor.DecOptions{MaxArrayElements: 1 << 20, MaxMapPairs: 1 << 20}.DecMode())
)

func (cborCodec) Marshal(v any) ([]byte, error)      { return cborEnc.Marshal(v) }
func (cborCodec) Unmarshal(data []byte, v any) error { return cborDec.Unmarshal(data, v) }
func (cborCodec) ContentType() string                { return "application/x-amz-cbor-1.1" }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Time is a timestamp on the wire: epoch seconds with a fraction of
// milliseconds in JSON, tag 1 with integer epoch milliseconds in CBOR. Anything
// finer than a millisecond is cut off both ways.
type Time struct{ time.Time }

// MarshalJSON implements [json.Marshaler].
func (t Time) MarshalJSON() ([]byte, error) {
	ms := t.UnixMilli()
	b := strconv.AppendInt(nil, ms/1000, 10)
	if frac := ms % 1000; frac > 0 {
		b = fmt.Appendf(b, ".%03d", frac)
	}
	return b, nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (t *Time) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		return fmt.Errorf("timestamp %q is no number", b)
	}
	t.Time = time.UnixMilli(int64(f*1000 + 0.5)).UTC()
	return nil
}

// MarshalCBOR implements [cbor.Marshaler].
func (t Time) MarshalCBOR() ([]byte, error) {
	return cborEnc.Marshal(cbor.Tag{Number: 1, Content: t.UnixMilli()})
}

// UnmarshalCBOR implements [cbor.Unmarshaler].
func (t *Time) UnmarshalCBOR(b []byte) error {
	var tag cbor.RawTag
	if err := cborDec.Unmarshal(b, &tag); err == nil && tag.Number == 1 {
		b = tag.Content
	}
	var ms int64
	if err := cborDec.Unmarshal(b, &ms); err != nil {
		return fmt.Errorf("timestamp: %w", err)
	}
	t.Time = time.UnixMilli(ms).UTC()
	return nil
}
