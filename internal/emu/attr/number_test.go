package attr

import (
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func number(t *testing.T, s string) Value {
	t.Helper()
	v, err := ParseNumber(s)
	require.NoError(t, err, s)
	return v
}

// numberForms are numbers as sent and as returned.
var numberForms = []struct{ sent, returned string }{
	{"1.0E-6", "0.000001"},
	{"85.0", "85"},
	{"0.0", "0"},
	{"-0", "0"},
	{"1e3", "1000"},
	{"9.23E-4", "0.000923"},
	{"7.6E-5", "0.000076"},
	{"00012", "12"},
	{"1.10", "1.1"},
	{"+3", "3"},
	{"3.", "3"},
	{".5", "0.5"},
	{"-.5", "-0.5"},
	{"5.", "5"},
	{"1.e5", "100000"},
	{"-0015.789e6", "-15789000"},
	{"1E125", "1" + strings.Repeat("0", 125)},
	{"1E-130", "0." + strings.Repeat("0", 129) + "1"},
	{"-9.9e-130", "-0." + strings.Repeat("0", 129) + "99"},
	{"0042.1200", "42.12"},
	{"100", "100"},
	{"-7", "-7"},
	{"0", "0"},
	{"0e125", "0"},
	{"0.0e126", "0"},
	{"0e-130", "0"},
	{"12345678901234567890123456789012345678", "12345678901234567890123456789012345678"},
	{"000.12345678901234567890123456789012345678", "0.12345678901234567890123456789012345678"},
	{"1234567890123456789012345678901234567800000", "1234567890123456789012345678901234567800000"},
	{strings.Repeat("9", 38) + "e88", strings.Repeat("9", 38) + strings.Repeat("0", 88)},
}

// aws-dynamodb#2,3,46
func TestParseNumber(t *testing.T) {
	for _, c := range numberForms {
		assert.Equal(t, c.returned, number(t, c.sent).Text(), c.sent)
	}
}

// aws-dynamodb#3,46
func TestParseNumberRefuses(t *testing.T) {
	const (
		overflow  = "Number overflow. Attempting to store a number with magnitude larger than supported range"
		underflow = "Number underflow. Attempting to store a number with magnitude smaller than supported range"
		precision = "Attempting to store more than 38 significant digits in a Number"
	)
	for sent, message := range map[string]string{
		"":                                   "The parameter cannot be converted to a numeric value",
		"dog":                                "The parameter cannot be converted to a numeric value: dog",
		strings.Repeat("1", 39):              precision,
		"0." + strings.Repeat("1", 39):       precision,
		"1" + strings.Repeat("0", 37) + ".5": precision,
		"1E126":                              overflow,
		"-1E126":                             overflow,
		"11e125":                             overflow,
		"0e126":                              overflow,
		"1e99999999999":                      overflow,
		"0e99999999999":                      overflow,
		"1E-131":                             underflow,
		"0.9e-130":                           underflow,
		"0e-131":                             underflow,
		"1e-99999999999":                     underflow,
	} {
		_, err := ParseNumber(sent)
		assert.Equal(t, error(Invalidf("%s", message)), err, sent)
	}
	for _, sent := range []string{
		"NaN", "Infinity", "-Infinity", " 1", "1 ", "0x10", ".", "+", "-", "+.", "e5", ".e5", "1e", "1e+", "1e-",
		"1.2.3", "1e5.0", "1e+-5", "--1", "1,000", "1_000", "٣", "1e5e5", "\x00",
	} {
		_, err := ParseNumber(sent)
		assert.Equal(t, error(Invalidf("The parameter cannot be converted to a numeric value: %s", sent)), err, sent)
	}
}

// An absurd exponent costs no more than its text. aws-dynamodb#46
func TestParseNumberChecksExponentFirst(t *testing.T) {
	allocated := testing.AllocsPerRun(10, func() {
		_, err := ParseNumber("1e99999999999")
		require.Error(t, err)
	})
	assert.Less(t, allocated, 20.0)
}

func TestArithmetic(t *testing.T) {
	for _, c := range []struct{ a, b, sum, difference string }{
		{"0.1", "0.2", "0.3", "-0.1"}, // aws-dynamodb#3
		{"7", "1", "8", "6"},
		{"-7", "7", "0", "-14"},
		{"1e22", "1", "10000000000000000000001", "9999999999999999999999"},
		{"99999999999999999999999999999999999999", "0", "99999999999999999999999999999999999999", "99999999999999999999999999999999999999"},
		{"999999999999999999", "999999999999999999", "1999999999999999998", "0"},
		{"1e-130", "1e-130", "0." + strings.Repeat("0", 129) + "2", "0"},
		{"9e125", "0", "9" + strings.Repeat("0", 125), "9" + strings.Repeat("0", 125)},
		{"0.5", "0.5", "1", "0"},
		{"-0.25", "1.75", "1.5", "-2"},
		{"1796033648428", "3700000", "1796037348428", "1796029948428"},
	} {
		sum, err := Add(number(t, c.a), number(t, c.b))
		require.NoError(t, err, "%s + %s", c.a, c.b)
		assert.Equal(t, number(t, c.sum), sum, "%s + %s", c.a, c.b)
		difference, err := Subtract(number(t, c.a), number(t, c.b))
		require.NoError(t, err, "%s - %s", c.a, c.b)
		assert.Equal(t, number(t, c.difference), difference, "%s - %s", c.a, c.b)
	}
}

// aws-dynamodb#46
func TestArithmeticRefuses(t *testing.T) {
	overflow := error(errOverflow)
	for _, c := range []struct{ a, b string }{
		{"1e50", "1"}, // more than 38 digits has the text of an overflow
		{"1e38", "0.1"},
		{"9e125", "9e125"},
		{"1e125", "-1e-130"},
	} {
		_, err := Add(number(t, c.a), number(t, c.b))
		assert.Equal(t, overflow, err, "%s + %s", c.a, c.b)
	}
	_, err := Subtract(number(t, "9e125"), number(t, "-9e125"))
	assert.Equal(t, overflow, err)
	_, err = Subtract(number(t, "1.1e-130"), number(t, "1e-130"))
	assert.Equal(t, error(errUnderflow), err)
	_, err = Subtract(number(t, "1e38"), number(t, "1")) // 38 nines
	assert.NoError(t, err)
}

func TestCompareNumbers(t *testing.T) {
	ascending := []string{
		"-1e125", "-1000", "-999.5", "-10", "-9", "-1.5", "-1", "-0.5", "-0.05", "0", "1e-130", "0.05", "0.5",
		"1", "1.05", "1.5", "2", "9", "10", "11", "99", "100", "999.5", "1e3", "1e125",
	}
	for i, a := range ascending {
		for j, b := range ascending {
			order, ok := Compare(number(t, a), number(t, b))
			assert.True(t, ok)
			assert.Equal(t, big.NewInt(int64(i)).Cmp(big.NewInt(int64(j))), order, "%s, %s", a, b)
		}
	}
}

func TestNumberSize(t *testing.T) {
	for sent, size := range map[string]int{
		"0": 1, "7": 2, "12": 2, "123": 3, "1.5": 3, "-42": 3, "1E125": 2, "3.14159": 5, "123456": 4,
		"0.5": 2, "0.000923": 3, "100.5": 4, "1200": 2, "-0.5": 3, "1E-130": 2, "100": 2,
		"12345678901234567890123456789012345678": 20,
	} {
		assert.Equal(t, size, number(t, sent).Size(), sent)
	}
}

// The text of every accepted number is a fixed point, and means what
// big.Rat reads in what was sent.
func FuzzParseNumber(f *testing.F) {
	for _, c := range numberForms {
		f.Add(c.sent)
	}
	for _, s := range []string{"", "dog", "1e126", "1e-131", "0e126", "1e99999999999", "+.", "1..2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ParseNumber(s)
		if err != nil {
			return
		}
		again, err := ParseNumber(v.Text())
		require.NoError(t, err)
		require.Equal(t, v, again)
		require.NotContains(t, v.Text(), "e")
		sent, ok := new(big.Rat).SetString(s)
		require.True(t, ok, s)
		kept, ok := new(big.Rat).SetString(v.Text())
		require.True(t, ok)
		require.Zero(t, sent.Cmp(kept), "%s is not %s", s, v.Text())
	})
}

// Sums agree with exact rational arithmetic, or are refused for a reason.
func FuzzArithmetic(f *testing.F) {
	f.Add("0.1", "0.2")
	f.Add("1e50", "1")
	f.Add("-1e125", "1e-130")
	f.Add("999999999999999999", "1")
	f.Fuzz(func(t *testing.T, a, b string) {
		v, err := ParseNumber(a)
		if err != nil {
			return
		}
		w, err := ParseNumber(b)
		if err != nil {
			return
		}
		rat := func(v Value) *big.Rat {
			r, ok := new(big.Rat).SetString(v.Text())
			require.True(t, ok)
			return r
		}
		order, _ := Compare(v, w)
		require.Equal(t, rat(v).Cmp(rat(w)), order)
		want := new(big.Rat).Sub(rat(v), rat(w))
		got, err := Subtract(v, w)
		if err != nil {
			require.Contains(t, []error{errOverflow, errUnderflow}, err)
			return
		}
		require.Zero(t, want.Cmp(rat(got)), "%s - %s = %s", a, b, got.Text())
		require.Equal(t, number(t, got.Text()), got)
	})
}
