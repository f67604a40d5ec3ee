package kcl

import (
	"cmp"
	"fmt"
	"math/bits"
)

// HashKey is a place in the hash key space of a stream, 0 to 2^128 - 1. A
// record goes to the shard whose range holds the MD5 of its partition key, or
// its explicit hash key.
type HashKey struct{ Hi, Lo uint64 }

// MaxHashKey is 2^128 - 1, the end of the hash key space.
var MaxHashKey = HashKey{^uint64(0), ^uint64(0)}

// ParseHashKey reads an unsigned decimal number below 2^128.
func ParseHashKey(s string) (HashKey, error) {
	if !isDigits(s) {
		return HashKey{}, fmt.Errorf("hash key %q is not a decimal number", s)
	}
	var k HashKey
	for i := range len(s) {
		h1, l1 := bits.Mul64(k.Lo, 10)
		h2, l2 := bits.Mul64(k.Hi, 10)
		var carry uint64
		k.Lo, carry = bits.Add64(l1, uint64(s[i]-'0'), 0)
		k.Hi, carry = bits.Add64(h1, l2, carry)
		if carry != 0 || h2 != 0 {
			return HashKey{}, fmt.Errorf("hash key %q is not below 2^128", s)
		}
	}
	return k, nil
}

// String returns k in decimal.
func (k HashKey) String() string {
	var buf [39]byte
	i := len(buf)
	for {
		var r uint64
		k.Hi, r = k.Hi/10, k.Hi%10
		k.Lo, r = bits.Div64(r, k.Lo, 10)
		i--
		buf[i] = byte('0' + r)
		if k == (HashKey{}) {
			return string(buf[i:])
		}
	}
}

// Compare returns -1, 0 or +1 as k is below, equal to or above l.
func (k HashKey) Compare(l HashKey) int {
	if c := cmp.Compare(k.Hi, l.Hi); c != 0 {
		return c
	}
	return cmp.Compare(k.Lo, l.Lo)
}

// Next returns k + 1; of [MaxHashKey], 0.
func (k HashKey) Next() HashKey {
	lo, carry := bits.Add64(k.Lo, 1, 0)
	return HashKey{k.Hi + carry, lo}
}

// MarshalText implements [encoding.TextMarshaler].
func (k HashKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (k *HashKey) UnmarshalText(b []byte) (err error) {
	*k, err = ParseHashKey(string(b))
	return err
}

// HashRange is a shard's part of the hash key space, both ends included. The
// zero HashRange means that the range is not known.
type HashRange struct {
	Start HashKey `json:"start"`
	End   HashKey `json:"end"`
}

// ParseHashRange reads both ends. It returns an error unless start ≤ end.
func ParseHashRange(start, end string) (HashRange, error) {
	s, err := ParseHashKey(start)
	if err != nil {
		return HashRange{}, err
	}
	e, err := ParseHashKey(end)
	if err != nil {
		return HashRange{}, err
	}
	if s.Compare(e) > 0 {
		return HashRange{}, fmt.Errorf("hash range %s to %s is empty", start, end)
	}
	return HashRange{s, e}, nil
}

// IsZero reports whether the range is not known.
func (r HashRange) IsZero() bool { return r == HashRange{} }

// Contains reports whether k lies in r.
func (r HashRange) Contains(k HashKey) bool {
	return r.Start.Compare(k) <= 0 && k.Compare(r.End) <= 0
}

// String returns "start-end".
func (r HashRange) String() string { return r.Start.String() + "-" + r.End.String() }
