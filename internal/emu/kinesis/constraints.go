package kinesis

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

// maxViolations is how many one answer lists.
const maxViolations = 10

// violations gathers what the shape constraints of a request refuse. They are
// checked before anything of the stream is looked at.
type violations []string

func (v *violations) add(field, value, constraint string) {
	if len(*v) < maxViolations {
		*v = append(*v, "Value "+value+" at '"+field+"' failed to satisfy constraint: Member must "+constraint)
	}
}

func (v violations) err() *wire.Error {
	if len(v) == 0 {
		return nil
	}
	plural := "s"
	if len(v) == 1 {
		plural = ""
	}
	return validation("%d validation error%s detected: %s", len(v), plural, strings.Join(v, "; "))
}

func (v *violations) require(field string, present bool) bool {
	if !present {
		v.add(field, "null", "not be null")
	}
	return present
}

// textRule bounds a string member. Without a pattern any text will do; lengths
// are in characters, and a max of 0 leaves them to the pattern.
type textRule struct {
	pattern  string
	match    func(string) bool
	min, max int
}

var (
	nameText     = textRule{"[a-zA-Z0-9_.-]+", isName, 1, 128}
	arnText      = textRule{arnPattern, regexp.MustCompile("^" + arnPattern + "$").MatchString, 1, 2048}
	sequenceText = textRule{`0|([1-9]\d{0,128})`, isDecimal(129), 0, 0}
	hashKeyText  = textRule{`0|([1-9]\d{0,38})`, isDecimal(39), 0, 0}
	keyText      = textRule{"", nil, 1, 256} // partition keys
	iteratorText = textRule{"", nil, 1, 512}
	tokenText    = textRule{"", nil, 1, 1 << 20}
)

const arnPattern = `arn:aws.*:kinesis:.*:\d{12}:stream/\S+`

func isName(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '.', c == '-':
		default:
			return false
		}
	}
	return s != ""
}

func isDecimal(digits int) func(string) bool {
	return func(s string) bool {
		if s == "" || len(s) > digits || (s[0] == '0' && len(s) > 1) {
			return false
		}
		for _, c := range []byte(s) {
			if c < '0' || c > '9' {
				return false
			}
		}
		return true
	}
}

// text checks an optional member.
func (v *violations) text(field string, s *string, r textRule) {
	if s == nil {
		return
	}
	if r.match != nil && !r.match(*s) {
		v.add(field, quote(*s), "satisfy regular expression pattern: "+r.pattern)
	}
	if r.max > 0 {
		v.length(field, quote(*s), utf8.RuneCountInString(*s), r.min, r.max)
	}
}

func (v *violations) length(field, value string, n, least, most int) {
	if n < least {
		v.add(field, value, fmt.Sprintf("have length greater than or equal to %d", least))
	}
	if n > most {
		v.add(field, value, fmt.Sprintf("have length less than or equal to %d", most))
	}
}

// integer checks an optional member.
func (v *violations) integer(field string, n *int64, least, most int64) {
	if n == nil {
		return
	}
	if *n < least {
		v.add(field, quote(strconv.FormatInt(*n, 10)), fmt.Sprintf("have value greater than or equal to %d", least))
	}
	if *n > most {
		v.add(field, quote(strconv.FormatInt(*n, 10)), fmt.Sprintf("have value less than or equal to %d", most))
	}
}

// enum checks an optional member.
func (v *violations) enum(field string, s *string, values ...string) {
	if s == nil {
		return
	}
	for _, w := range values {
		if *s == w {
			return
		}
	}
	v.add(field, quote(*s), "satisfy enum value set: ["+strings.Join(values, ", ")+"]")
}

// blob checks a required member; an empty one is legal.
func (v *violations) blob(field string, b []byte, most int) {
	if v.require(field, b != nil) {
		v.length(field, fmt.Sprintf("'java.nio.HeapByteBuffer[pos=0 lim=%d cap=%d]'", len(b), len(b)), len(b), 0, most)
	}
}

func quote(s string) string { return "'" + s + "'" }
