package kinesis

import "math/bits"

// uint192 holds sequence numbers (186 bits) and hash keys (128 bits), which the
// wire writes in decimal.
type uint192 struct{ hi, mid, lo uint64 }

const (
	chunkDigits = 19 // the most decimal digits that fit a uint64
	chunk       = 10_000_000_000_000_000_000
)

// parseUint192 reads a decimal without sign or leading zeros. It reports false
// for anything else, and for a number that does not fit.
func parseUint192(s string) (uint192, bool) {
	if s == "" || (s[0] == '0' && len(s) > 1) {
		return uint192{}, false
	}
	var u uint192
	for len(s) > 0 {
		n := min(len(s), chunkDigits)
		var part, scale uint64 = 0, 1
		for _, c := range []byte(s[:n]) {
			if c < '0' || c > '9' {
				return uint192{}, false
			}
			part = part*10 + uint64(c-'0')
			scale *= 10
		}
		var ok bool
		if u, ok = u.mulAdd(scale, part); !ok {
			return uint192{}, false
		}
		s = s[n:]
	}
	return u, true
}

// mulAdd returns u·m + a, and false if that does not fit.
func (u uint192) mulAdd(m, a uint64) (uint192, bool) {
	c0, lo := bits.Mul64(u.lo, m)
	c1, mid := bits.Mul64(u.mid, m)
	c2, hi := bits.Mul64(u.hi, m)
	lo, carry := bits.Add64(lo, a, 0)
	mid, carry = bits.Add64(mid, c0, carry)
	hi, carry = bits.Add64(hi, c1, carry)
	return uint192{hi, mid, lo}, c2 == 0 && carry == 0
}

func (u uint192) String() string {
	var buf [58]byte // 2^192 has 58 digits
	i := len(buf)
	for {
		var r uint64
		u.hi, r = u.hi/chunk, u.hi%chunk
		u.mid, r = bits.Div64(r, u.mid, chunk)
		u.lo, r = bits.Div64(r, u.lo, chunk)
		if u == (uint192{}) { // the leading digits
			for ; r > 0 || i == len(buf); r /= 10 {
				i--
				buf[i] = '0' + byte(r%10)
			}
			return string(buf[i:])
		}
		for range chunkDigits {
			i--
			buf[i] = '0' + byte(r%10)
			r /= 10
		}
	}
}
