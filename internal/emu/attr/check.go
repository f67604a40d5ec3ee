package attr

// The service's limits for the shape of values.
const (
	maxNesting    = 31     // of maps and lists in one attribute
	maxNameLength = 65_535 // of an attribute's name, bytes
)

var (
	errNoType       = Invalidf("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes")
	errTwoTypes     = Invalidf("Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes")
	errNullFalse    = Invalidf("One or more parameter values were invalid: Null attribute value types must have the value of true")
	errEmptyName    = Invalidf("Empty attribute name")
	errLongName     = Invalidf("Attribute name is too large, must be less than 65536 bytes")
	errNullInSet    = Invalidf("One or more parameter values were invalid: An string set may not have a null string as a member")
	errNullInBinSet = Invalidf("One or more parameter values were invalid: Binary sets may not contain null or empty values")
	errNesting      = Invalidf("Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond supported limit")
)

// Check returns the ValidationException (a [*wire.Error]) that v was decoded
// with, at any depth, or nil.
func (v Value) Check() error {
	switch {
	case v.kind != Invalid:
		return nil
	case v.more == nil:
		return errNoType
	}
	return v.more.err
}

// Check returns the first ValidationException (by attribute name) among the
// item's names and values, or nil.
func (it Item) Check() error {
	var first string
	var found error
	for name, v := range it {
		err := checkName(name)
		if err == nil {
			err = v.Check()
		}
		if err != nil && (found == nil || name < first) {
			first, found = name, err
		}
	}
	return found
}

func checkName(name string) error {
	if name == "" {
		return errEmptyName
	}
	if len(name) > maxNameLength {
		return errLongName
	}
	return nil
}

// CheckNesting refuses a value whose maps and lists are nested too deep. Decoded
// values have passed; one that was put together from them may not.
func (v Value) CheckNesting() error {
	if v.deeperThan(maxNesting) {
		return errNesting
	}
	return nil
}

func (v Value) deeperThan(levels int) bool {
	if v.kind != L && v.kind != M {
		return false
	}
	if levels == 0 {
		return true
	}
	for _, e := range v.List() {
		if e.deeperThan(levels - 1) {
			return true
		}
	}
	for _, e := range v.Map() {
		if e.deeperThan(levels - 1) {
			return true
		}
	}
	return false
}
