package attr

import (
	"math/big"
	"strconv"
	"strings"
)

// The service's limits for numbers, of requests and of results.
const (
	maxDigits   = 38   // significant
	maxExponent = 125  // of the leading digit: 9.99…E+125
	minExponent = -130 // of the leading digit: 1E-130
)

var (
	errOverflow  = Invalidf("Number overflow. Attempting to store a number with magnitude larger than supported range")
	errUnderflow = Invalidf("Number underflow. Attempting to store a number with magnitude smaller than supported range")
	errPrecision = Invalidf("Attempting to store more than 38 significant digits in a Number")
)

// ParseNumber returns the N that a decimal text means, or its
// ValidationException.
func ParseNumber(s string) (Value, error) {
	text, err := canonicalNumber(s)
	if err != nil {
		return Value{}, err
	}
	return Value{kind: N, text: text}, nil
}

// Int returns an N.
func Int(i int64) Value { return Value{kind: N, text: strconv.FormatInt(i, 10)} }

// canonicalNumber checks a number as sent and returns its canonical text, which
// is s itself when s has that form already.
func canonicalNumber(s string) (string, error) {
	if isPlainInteger(s) {
		return s, nil
	}
	d, err := parseDecimal(s)
	if err != nil {
		return "", err
	}
	return d.canonical(), nil
}

// isPlainInteger reports whether s is an integer in canonical form, small enough
// to need no other check: nearly every number there is.
func isPlainInteger(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	if len(digits) == 0 || len(digits) > maxDigits || digits[0] == '0' && len(s) > 1 {
		return false
	}
	for i := range len(digits) {
		if !isDigit(digits[i]) {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// decimal is the number ±0.digits × 10^point. The digits have no zero at either
// end; none at all are zero.
type decimal struct {
	negative bool
	digits   string
	point    int
}

// parseDecimal reads [+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?. It checks the
// exponent before anything is expanded.
func parseDecimal(s string) (decimal, error) {
	if s == "" {
		return decimal{}, Invalidf("The parameter cannot be converted to a numeric value")
	}
	bad := func() (decimal, error) {
		return decimal{}, Invalidf("The parameter cannot be converted to a numeric value: %s", s)
	}
	rest := s
	var d decimal
	if rest[0] == '+' || rest[0] == '-' {
		d.negative = rest[0] == '-'
		rest = rest[1:]
	}
	whole := leadingDigits(rest)
	rest = rest[len(whole):]
	var fraction string
	if strings.HasPrefix(rest, ".") {
		fraction = leadingDigits(rest[1:])
		rest = rest[1+len(fraction):]
	}
	if len(whole)+len(fraction) == 0 {
		return bad()
	}
	exp := 0
	if rest != "" {
		if rest[0] != 'e' && rest[0] != 'E' {
			return bad()
		}
		var ok bool
		if exp, ok = parseExponent(rest[1:]); !ok {
			return bad()
		}
	}

	d.digits = whole + fraction
	d.point = len(whole) + exp
	significant := strings.TrimLeft(d.digits, "0")
	if significant == "" {
		// Zero is ranged as it was written: 0.0e126 is a zero at 1e125.
		return decimal{}, checkRange(exp - len(fraction))
	}
	d.point -= len(d.digits) - len(significant)
	d.digits = strings.TrimRight(significant, "0")
	if err := checkRange(d.point - 1); err != nil {
		return decimal{}, err
	}
	if len(d.digits) > maxDigits {
		return decimal{}, errPrecision
	}
	return d, nil
}

func leadingDigits(s string) string {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return s[:n]
}

// parseExponent reads [+-]?\d+, held to ±1e9: past that its size means nothing,
// and it still outweighs every digit a request has room for.
func parseExponent(s string) (exp int, ok bool) {
	const held = 1_000_000_000
	negative := false
	if s != "" && (s[0] == '+' || s[0] == '-') {
		negative = s[0] == '-'
		s = s[1:]
	}
	if s == "" || leadingDigits(s) != s {
		return 0, false
	}
	for i := range len(s) {
		exp = min(exp*10+int(s[i]-'0'), held)
	}
	if negative {
		exp = -exp
	}
	return exp, true
}

// checkRange checks the exponent of a leading digit.
func checkRange(exponent int) error {
	if exponent > maxExponent {
		return errOverflow
	}
	if exponent < minExponent {
		return errUnderflow
	}
	return nil
}

// canonical writes d in plain form.
func (d decimal) canonical() string {
	if d.digits == "" {
		return "0"
	}
	var b strings.Builder
	if d.negative {
		b.WriteByte('-')
	}
	switch n := len(d.digits); {
	case d.point <= 0:
		b.WriteString("0.")
		b.WriteString(strings.Repeat("0", -d.point))
		b.WriteString(d.digits)
	case d.point >= n:
		b.WriteString(d.digits)
		b.WriteString(strings.Repeat("0", d.point-n))
	default:
		b.WriteString(d.digits[:d.point])
		b.WriteByte('.')
		b.WriteString(d.digits[d.point:])
	}
	return b.String()
}

// compareNumbers orders two canonical numbers. Their plain form needs no
// arithmetic: a longer integer part is larger, and between equal lengths the
// text decides ('.' sorts before every digit, as the end of the text does).
func compareNumbers(a, b string) int {
	negA, negB := a[0] == '-', b[0] == '-'
	switch {
	case negA && negB:
		return comparePositive(b[1:], a[1:])
	case negA:
		return -1
	case negB:
		return 1
	}
	return comparePositive(a, b)
}

func comparePositive(a, b string) int {
	if la, lb := integerDigits(a), integerDigits(b); la != lb {
		if la < lb {
			return -1
		}
		return 1
	}
	return strings.Compare(a, b)
}

func integerDigits(s string) int {
	if i := strings.IndexByte(s, '.'); i >= 0 {
		return i
	}
	return len(s)
}

// Add returns v + w, exact; both are N. A result out of range or of more than 38
// digits is a ValidationException.
func Add(v, w Value) (Value, error) { return sum(v.text, w.text, 1) }

// Subtract returns v - w; see [Add].
func Subtract(v, w Value) (Value, error) { return sum(v.text, w.text, -1) }

func sum(a, b string, sign int64) (Value, error) {
	if x, ok := smallInt(a); ok {
		if y, ok := smallInt(b); ok {
			return Int(x + sign*y), nil
		}
	}
	// Canonical texts, so they parse.
	x, err := parseDecimal(a)
	if err != nil {
		return Value{}, err
	}
	y, err := parseDecimal(b)
	if err != nil {
		return Value{}, err
	}
	// Both at the lower of the two last digits' places: at most 256 digits.
	place := min(x.point-len(x.digits), y.point-len(y.digits))
	r := x.unscaled(place)
	if sign < 0 {
		r.Sub(r, y.unscaled(place))
	} else {
		r.Add(r, y.unscaled(place))
	}
	d := decimal{negative: r.Sign() < 0, digits: r.Abs(r).String()}
	d.point = place + len(d.digits)
	d.digits = strings.TrimRight(d.digits, "0")
	if d.digits == "" {
		return Int(0), nil
	}
	if err := checkRange(d.point - 1); err != nil {
		return Value{}, err
	}
	if len(d.digits) > maxDigits {
		return Value{}, errOverflow // the service gives this text, not that of precision
	}
	return Value{kind: N, text: d.canonical()}, nil
}

// smallInt returns a canonical integer of at most 18 digits: two of them cannot
// overflow an int64 together.
func smallInt(s string) (int64, bool) {
	if len(s) > 18 {
		return 0, false
	}
	i, err := strconv.ParseInt(s, 10, 64)
	return i, err == nil
}

// unscaled returns d in units of 10^place; d's last digit does not lie below.
func (d decimal) unscaled(place int) *big.Int {
	if d.digits == "" {
		return new(big.Int)
	}
	zeros := d.point - len(d.digits) - place
	i, ok := new(big.Int).SetString(d.digits+strings.Repeat("0", zeros), 10)
	if !ok {
		panic("attr: digits that are none: " + d.digits)
	}
	if d.negative {
		i.Neg(i)
	}
	return i
}
