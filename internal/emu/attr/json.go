package attr

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// errSyntax is for bytes that are no JSON, which whoever decodes a whole request
// with encoding/json has refused before.
var errSyntax = malformed("")

// decoder reads one JSON text. It is written out, not left to reflection,
// because a simulation decodes millions of items.
type decoder struct {
	b []byte
	i int
	// strict refuses what it would pass over. Else the text has been checked to
	// be JSON.
	strict bool
}

// peek skips blanks and returns the next byte, 0 at the end.
func (d *decoder) peek() byte {
	for d.i < len(d.b) {
		switch c := d.b[d.i]; c {
		case ' ', '\t', '\r', '\n':
			d.i++
		default:
			return c
		}
	}
	return 0
}

// accept takes the next byte if it is c.
func (d *decoder) accept(c byte) bool {
	if d.peek() != c {
		return false
	}
	d.i++
	return true
}

// word takes the literal w if it is next.
func (d *decoder) word(w string) bool {
	d.peek()
	end := d.i + len(w)
	if end > len(d.b) || string(d.b[d.i:end]) != w {
		return false
	}
	d.i = end
	return true
}

func (d *decoder) null() bool { return d.word("null") }

// wrongType is the answer to a JSON type that is out of place; want is the
// member's type, "" for a structure.
func (d *decoder) wrongType(want string) error {
	var got string
	switch c := d.peek(); {
	case c == '[':
		return malformed("Start of list found where not expected")
	case c == '{':
		return malformed("Start of structure or map found where not expected.")
	case c == '"':
		got = "STRING_VALUE"
	case c == 't':
		got = "TRUE_VALUE"
	case c == 'f':
		got = "FALSE_VALUE"
	case c == '-' || isDigit(c):
		got = "NUMBER_VALUE"
	default:
		return errSyntax
	}
	if want == "" {
		return malformed("Unexpected value type in payload")
	}
	return malformed(got + " cannot be converted to " + want)
}

// object calls member for each member of an object, in their order; member reads
// its value.
func (d *decoder) object(member func(name string) error) error {
	if !d.accept('{') {
		return d.wrongType("")
	}
	if d.accept('}') {
		return nil
	}
	for {
		name, err := d.text("String")
		if err != nil {
			return err
		}
		if !d.accept(':') {
			return errSyntax
		}
		if err := member(name); err != nil {
			return err
		}
		if d.accept('}') {
			return nil
		}
		if !d.accept(',') {
			return errSyntax
		}
	}
}

// array calls elem for each element of an array.
func (d *decoder) array(elem func() error) error {
	if !d.accept('[') {
		return d.wrongType("")
	}
	if d.accept(']') {
		return nil
	}
	for {
		if err := elem(); err != nil {
			return err
		}
		if d.accept(']') {
			return nil
		}
		if !d.accept(',') {
			return errSyntax
		}
	}
}

// text reads a string for a member of type want.
func (d *decoder) text(want string) (string, error) {
	if d.peek() != '"' {
		return "", d.wrongType(want)
	}
	start := d.i
	plain := true
	for d.i++; d.i < len(d.b); d.i++ {
		switch c := d.b[d.i]; {
		case c == '\\':
			plain = false
			d.i++
		case c == '"':
			d.i++
			quoted := d.b[start:d.i]
			if plain && utf8.Valid(quoted) {
				return string(quoted[1 : len(quoted)-1]), nil
			}
			var s string
			if err := json.Unmarshal(quoted, &s); err != nil {
				return "", errSyntax
			}
			return s, nil
		case c < ' ':
			return "", errSyntax
		}
	}
	return "", errSyntax
}

func (d *decoder) truth() (bool, error) {
	switch {
	case d.word("true"):
		return true, nil
	case d.word("false"):
		return false, nil
	}
	return false, d.wrongType("Boolean")
}

// skip passes over one value of any type.
func (d *decoder) skip() error {
	if d.strict {
		return errSyntax
	}
	level := 0
	for {
		switch c := d.peek(); c {
		case 0:
			return errSyntax
		case '{', '[':
			level++
			d.i++
		case '}', ']':
			level--
			d.i++
		case '"':
			if _, err := d.text("String"); err != nil {
				return err
			}
		case ',', ':':
			if level == 0 {
				return errSyntax
			}
			d.i++
			continue
		default:
			d.i++
			for d.i < len(d.b) && !strings.ContainsRune(" \t\r\n,:{}[]\"", rune(d.b[d.i])) {
				d.i++
			}
		}
		if level < 0 {
			return errSyntax
		}
		if level == 0 {
			return nil
		}
	}
}
