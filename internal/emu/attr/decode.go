package attr

import (
	"encoding/base64"
	"slices"
	"strings"
)

// UnmarshalJSON implements [json.Unmarshaler]. Its errors are
// SerializationExceptions; rules of the service that v breaks are kept for
// [Value.Check].
func (v *Value) UnmarshalJSON(b []byte) error {
	d := decoder{b: b}
	got, err := d.value(0)
	if err != nil {
		return err
	}
	if d.peek() != 0 {
		return errSyntax
	}
	*v = got
	return nil
}

// UnmarshalJSON implements [json.Unmarshaler] as for a Value. A JSON null is the
// nil item.
func (it *Item) UnmarshalJSON(b []byte) error {
	d := decoder{b: b}
	got := Item(nil)
	if !d.null() {
		var err error
		if got, err = d.item(0); err != nil {
			return err
		}
	}
	if d.peek() != 0 {
		return errSyntax
	}
	*it = got
	return nil
}

func (d *decoder) binary() (string, error) {
	s, err := d.text("Blob")
	if err != nil {
		return "", err
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil {
		return "", malformed("'" + s + "' can not be converted to a Blob: Invalid Base64")
	}
	return string(raw), nil
}

// item reads an object of values that stands under depth maps and lists.
func (d *decoder) item(depth int) (Item, error) {
	it := make(Item)
	err := d.object(func(name string) error {
		v, err := d.value(depth)
		it[name] = v
		return err
	})
	return it, err
}

// value reads one attribute value that stands under depth maps and lists.
func (d *decoder) value(depth int) (Value, error) {
	if d.null() {
		return Value{}, nil
	}
	var v Value
	types := 0
	err := d.object(func(name string) error {
		kind := KindOf(name)
		if kind == Invalid {
			return d.skip()
		}
		if d.null() { // as if it were absent
			return nil
		}
		types++
		got, err := d.typed(kind, depth)
		if types == 1 || v.kind != Invalid {
			v = got
		}
		return err
	})
	switch {
	case err != nil:
		return Value{}, err
	case types > 1 && v.kind != Invalid:
		return invalid(errTwoTypes), nil
	}
	return v, nil
}

func invalid(err error) Value { return Value{more: &more{err: err}} }

// typed reads what follows `"S":`, `"N":` and so on.
func (d *decoder) typed(kind Kind, depth int) (Value, error) {
	switch kind {
	case S:
		s, err := d.text("String")
		return String(s), err
	case N:
		s, err := d.text("String")
		if err != nil {
			return Value{}, err
		}
		text, err := canonicalNumber(s)
		if err != nil {
			return invalid(err), nil
		}
		return Value{kind: N, text: text}, nil
	case B:
		raw, err := d.binary()
		return Binary(raw), err
	case BOOL:
		b, err := d.truth()
		return Bool(b), err
	case NULL:
		b, err := d.truth()
		if err == nil && !b {
			return invalid(errNullFalse), nil
		}
		return Null(), err
	case L, M:
		if depth == maxNesting {
			return invalid(errNesting), d.skip()
		}
		if kind == L {
			return d.list(depth + 1)
		}
		return d.document(depth + 1)
	}
	return d.set(kind)
}

func (d *decoder) list(depth int) (Value, error) {
	elems := []Value{}
	var broken error
	err := d.array(func() error {
		e, err := d.value(depth)
		if broken == nil {
			broken = e.Check()
		}
		elems = append(elems, e)
		return err
	})
	if err == nil && broken != nil {
		return invalid(broken), nil
	}
	return List(elems...), err
}

func (d *decoder) document(depth int) (Value, error) {
	m := make(Item)
	var broken error
	err := d.object(func(name string) error {
		v, err := d.value(depth)
		if broken == nil {
			if broken = checkName(name); broken == nil {
				broken = v.Check()
			}
		}
		m[name] = v
		return err
	})
	if err == nil && broken != nil {
		return invalid(broken), nil
	}
	return Map(m), err
}

func (d *decoder) set(kind Kind) (Value, error) {
	var members []string
	var broken error
	refuse := func(err error) {
		if broken == nil {
			broken = err
		}
	}
	err := d.array(func() error {
		if d.null() {
			if kind == BS {
				refuse(errNullInBinSet)
			} else {
				refuse(errNullInSet)
			}
			return nil
		}
		var s string
		var err error
		if kind == BS {
			s, err = d.binary()
		} else {
			s, err = d.text("String")
		}
		if kind == NS && err == nil {
			text, bad := canonicalNumber(s)
			if bad != nil {
				refuse(bad)
			}
			s = text
		}
		members = append(members, s)
		return err
	})
	switch {
	case err != nil:
		return Value{}, err
	case broken != nil:
		return invalid(broken), nil
	case len(members) == 0:
		return invalid(emptySet(kind)), nil
	}
	v := Set(kind, members...)
	if len(v.Members()) < len(members) {
		return invalid(duplicates(kind, members)), nil
	}
	return v, nil
}

func emptySet(kind Kind) error {
	switch kind { // the texts are the service's, blanks and all
	case SS:
		return Invalidf("One or more parameter values were invalid: An string set  may not be empty")
	case NS:
		return Invalidf("One or more parameter values were invalid: An number set  may not be empty")
	}
	return Invalidf("One or more parameter values were invalid: Binary sets should not be empty")
}

func duplicates(kind Kind, members []string) error {
	if kind == BS {
		shown := slices.Clone(members)
		for i, m := range shown {
			shown[i] = base64.StdEncoding.EncodeToString([]byte(m))
		}
		return Invalidf("One or more parameter values were invalid: Input collection [%s]of type BS contains duplicates.", strings.Join(shown, ", "))
	}
	return Invalidf("One or more parameter values were invalid: Input collection [%s] contains duplicates.", strings.Join(members, ", "))
}
