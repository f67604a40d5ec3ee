package attr

// DecodeMembers reads a JSON object quickly: place returns, for a member's name,
// a pointer to what its value goes to, which holds nothing yet. It can do so for
// values of type Item, map[string]string, *string, *int and bool. It is false
// for an object that it has no quick way for, right or wrong, such as one with
// an unknown member or a null; places are then filled in part.
func DecodeMembers(b []byte, place func(name string) any) bool {
	d := decoder{b: b, strict: true}
	err := d.object(func(name string) error { return d.into(place(name)) })
	return err == nil && d.peek() == 0 && d.i == len(b)
}

// into reads a value into what p points to.
func (d *decoder) into(p any) (err error) {
	switch p := p.(type) {
	case **string:
		var s string
		s, err = d.text("String")
		*p = &s
	case *bool:
		*p, err = d.truth()
	case *Item:
		*p, err = d.item(0)
	case **int:
		var n int
		n, err = d.count()
		*p = &n
	case *map[string]string:
		if *p != nil {
			return errSyntax // the member is there twice
		}
		m := make(map[string]string)
		*p = m
		err = d.object(func(name string) error {
			s, err := d.text("String")
			m[name] = s
			return err
		})
	default:
		err = errSyntax
	}
	return err
}

// count reads a natural number of few digits.
func (d *decoder) count() (n int, err error) {
	c := d.peek()
	start := d.i
	for d.i < len(d.b) && isDigit(d.b[d.i]) {
		n = 10*n + int(d.b[d.i]-'0')
		d.i++
	}
	if digits := d.i - start; digits == 0 || digits > 9 || c == '0' && digits > 1 {
		return 0, errSyntax
	}
	return n, nil
}
