package dynamodb

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

// constraints collects a request's breaches of its members' constraints
// (presence, lengths, ranges, enumerations, patterns), which the service tells
// all at once.
type constraints []string

func (c *constraints) add(value any, member, rule string, args ...any) {
	shown := "null"
	if value != nil {
		shown = fmt.Sprintf("'%v'", value)
	}
	*c = append(*c, fmt.Sprintf("Value %s at '%s' failed to satisfy constraint: Member must "+rule, append([]any{shown, member}, args...)...))
}

// err returns the ValidationException for what was collected, or nil.
func (c constraints) err() error {
	switch len(c) {
	case 0:
		return nil
	case 1:
		return invalidf("1 validation error detected: %s", c[0])
	}
	return invalidf("%d validation errors detected: %s", len(c), strings.Join(c, "; "))
}

func (c *constraints) required(present bool, member string) {
	if !present {
		c.add(nil, member, "not be null")
	}
}

// length checks the length of a list or the like, shown as what it is of.
func (c *constraints) length(n int, member string, low, high int, shown any) {
	if n < low {
		c.add(shown, member, "have length greater than or equal to %d", low)
	}
	if n > high {
		c.add(shown, member, "have length less than or equal to %d", high)
	}
}

func (c *constraints) between(n *int, member string, low, high int) {
	switch {
	case n == nil:
	case *n < low:
		c.add(*n, member, "have value greater than or equal to %d", low)
	case *n > high:
		c.add(*n, member, "have value less than or equal to %d", high)
	}
}

// oneOf checks an optional member against an enumeration.
func (c *constraints) oneOf(value *string, member string, allowed ...string) {
	if value == nil {
		return
	}
	for _, a := range allowed {
		if *value == a {
			return
		}
	}
	c.add(*value, member, "satisfy enum value set: [%s]", strings.Join(allowed, ", "))
}

var namePattern = regexp.MustCompile(`^[a-zA-Z0-9_.-]*$`)

// name checks the name of a new table or of an index, and the part of an ARN
// that stands for one.
func (c *constraints) name(name *string, member string) {
	if name == nil {
		c.required(false, member)
		return
	}
	if !namePattern.MatchString(*name) {
		c.add(*name, member, "satisfy regular expression pattern: [a-zA-Z0-9_.-]+")
	}
	c.length(len(*name), member, 3, 255, *name)
}

// table checks a member that holds a table's name or its ARN.
func (c *constraints) table(name *string, member string) {
	if name != nil && strings.HasPrefix(*name, "arn:") {
		c.length(len(*name), member, 1, 1024, *name)
		return
	}
	c.name(name, member)
}

// tableName returns the name in a member that holds a name or an ARN.
func tableName(nameOrARN *string) string {
	if nameOrARN == nil {
		return ""
	}
	if rest, ok := strings.CutPrefix(*nameOrARN, "arn:"); ok {
		if _, name, ok := strings.Cut(rest, ":table/"); ok {
			name, _, _ = strings.Cut(name, "/")
			return name
		}
	}
	return *nameOrARN
}

// resolve returns the name of the table that a member means for the caller, and
// whether it can be one of the caller's tables at all: an ARN may name another
// account's or region's.
func resolve(who wire.Caller, nameOrARN string) (name string, own bool) {
	name = tableName(&nameOrARN)
	return name, name == nameOrARN || nameOrARN == tableARN(who, name)
}

func tableARN(who wire.Caller, name string) string {
	return who.ARNPrefix("dynamodb") + "table/" + name
}
