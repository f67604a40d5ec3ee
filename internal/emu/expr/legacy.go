package expr

import (
	"maps"
	"slices"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

const invalidParameter = "One or more parameter values were invalid: "

// operandRule is what an operator of the older forms takes: how many operands,
// and of which types (none: of any).
type operandRule struct {
	least, most int
	kinds       []attr.Kind
}

var (
	scalars = []attr.Kind{attr.S, attr.N, attr.B}
	texts   = []attr.Kind{attr.S, attr.B}

	operandRules = map[string]operandRule{
		"EQ":           {1, 1, nil},
		"NE":           {1, 1, nil},
		"LT":           {1, 1, scalars},
		"LE":           {1, 1, scalars},
		"GT":           {1, 1, scalars},
		"GE":           {1, 1, scalars},
		"NULL":         {0, 0, nil},
		"NOT_NULL":     {0, 0, nil},
		"CONTAINS":     {1, 1, scalars},
		"NOT_CONTAINS": {1, 1, scalars},
		"BEGINS_WITH":  {1, 1, texts},
		"IN":           {1, 1 << 30, scalars},
		"BETWEEN":      {2, 2, scalars},
	}
)

// conditionTerm is what an operator of the older forms says of one top-level
// attribute, as a node.
func conditionTerm(name, operator string, values []attr.Value) (node, error) {
	if err := checkOperands(operator, values); err != nil {
		return nil, err
	}
	at := pathOperand(topLevel(name))
	operands := make([]operand, len(values))
	for i, v := range values {
		operands[i] = valueOperand(v)
	}
	one := func(function string) call { return call{function, append([]operand{at}, operands...)} }
	switch operator {
	case "EQ", "NE", "LT", "LE", "GT", "GE":
		return comparison{comparators[operator], at, operands[0]}, nil
	case "NULL":
		return one("attribute_not_exists"), nil
	case "NOT_NULL":
		return one("attribute_exists"), nil
	case "CONTAINS":
		return one("contains"), nil
	case "NOT_CONTAINS": // false, too, of an attribute that is missing
		return all{call{"attribute_exists", []operand{at}}, not{one("contains")}}, nil
	case "BEGINS_WITH":
		return one("begins_with"), nil
	case "IN":
		return in{at, operands}, nil
	}
	return between{at, operands[0], operands[1]}, nil
}

var comparators = map[string]string{"EQ": "=", "NE": "<>", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}

func checkOperands(operator string, values []attr.Value) error {
	rule, ok := operandRules[operator]
	if !ok {
		return attr.Invalidf("Comparison type does not exist in DynamoDB: %s", operator)
	}
	for _, v := range values {
		if err := v.Check(); err != nil {
			return err
		}
	}
	if len(values) < rule.least || len(values) > rule.most {
		return attr.Invalidf(invalidParameter+"Invalid number of argument(s) for the %s ComparisonOperator", operator)
	}
	for _, v := range values {
		if v.Kind() != values[0].Kind() {
			return attr.Invalidf(invalidParameter + "AttributeValues inside AttributeValueList must be of same type")
		}
		if rule.kinds != nil && !slices.Contains(rule.kinds, v.Kind()) {
			return attr.Invalidf(invalidParameter+"ComparisonOperator %s is not valid for %s AttributeValue type", operator, v.Kind())
		}
	}
	if operator == "BETWEEN" {
		if order, _ := attr.Compare(values[0], values[1]); order > 0 {
			return attr.Invalidf("The BETWEEN condition was provided a range where the lower bound is greater than the upper bound")
		}
	}
	return nil
}

// conjunction joins the terms of an older form's member, whose attributes are in
// an order that does not change from call to call.
func conjunction(m member, terms []node, operator *string) *Condition {
	switch {
	case len(terms) == 0:
		return nil
	case len(terms) == 1:
		return &Condition{terms[0], m}
	case operator != nil && *operator == "OR":
		return &Condition{some(terms), m}
	}
	return &Condition{all(terms), m}
}

// parseExpected parses the member Expected.
func parseExpected(expected map[string]Expected, operator *string) (*Condition, error) {
	var terms []node
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		n, err := expected[name].term(name)
		if err != nil {
			return nil, err
		}
		terms = append(terms, n)
	}
	return conjunction("Expected", terms, operator), nil
}

// term is the entry's condition on the attribute of that name.
func (e Expected) term(name string) (node, error) {
	refuse := func(what string) (node, error) {
		return nil, attr.Invalidf(invalidParameter+"%s for Attribute: %s", what, name)
	}
	if e.Value != nil && e.AttributeValueList != nil {
		return refuse("Value and AttributeValueList cannot be used together")
	}
	if e.ComparisonOperator != nil {
		values := e.AttributeValueList
		if e.Value != nil {
			values = []attr.Value{*e.Value}
		}
		op := *e.ComparisonOperator
		switch {
		case e.Exists != nil:
			return refuse("Exists and ComparisonOperator cannot be used together")
		case values == nil && op != "NULL" && op != "NOT_NULL":
			return refuse("Value or AttributeValueList must be used with ComparisonOperator: " + op)
		}
		return conditionTerm(name, op, values)
	}
	switch {
	case e.AttributeValueList != nil:
		return refuse("AttributeValueList can only be used with a ComparisonOperator")
	case e.Exists != nil && !*e.Exists:
		if e.Value != nil {
			return refuse("Value cannot be used when Exists is false")
		}
		return conditionTerm(name, "NULL", nil)
	case e.Value == nil && e.Exists == nil:
		return refuse("Value must be provided when Exists is null")
	case e.Value == nil:
		return refuse("Value must be provided when Exists is true")
	}
	return conditionTerm(name, "EQ", []attr.Value{*e.Value})
}

// parseFilter parses ScanFilter or QueryFilter.
func parseFilter(m member, filter map[string]LegacyCondition, operator *string) (*Condition, error) {
	var terms []node
	for _, name := range slices.Sorted(maps.Keys(filter)) {
		n, err := filter[name].term(name)
		if err != nil {
			return nil, err
		}
		terms = append(terms, n)
	}
	return conjunction(m, terms, operator), nil
}

func (c LegacyCondition) term(name string) (node, error) {
	if c.ComparisonOperator == nil {
		return nil, attr.Invalidf("The filter condition for an attribute cannot be null: %s", name)
	}
	return conditionTerm(name, *c.ComparisonOperator, c.AttributeValueList)
}

// parseKeyConditions parses the member KeyConditions.
func parseKeyConditions(conditions map[string]LegacyCondition) (*KeyCondition, error) {
	var k KeyCondition
	for _, name := range slices.Sorted(maps.Keys(conditions)) {
		n, err := conditions[name].term(name)
		if err != nil {
			return nil, err
		}
		t, err := newKeyTerm(n)
		if err != nil {
			return nil, attr.Invalidf("Attempted conditional constraint is not an indexable operation")
		}
		k.terms = append(k.terms, t)
	}
	return &k, k.checkCount()
}

// parseAttributeUpdates parses the member AttributeUpdates.
func parseAttributeUpdates(updates map[string]AttributeUpdate) (*Update, error) {
	actions := make([]action, 0, len(updates))
	for _, name := range slices.Sorted(maps.Keys(updates)) {
		a, err := updates[name].action(name)
		if err != nil {
			return nil, err
		}
		actions = append(actions, a)
	}
	u, _ := newUpdate(actions) // different names cannot overlap
	u.older = true
	return u, nil
}

var verbsOf = map[string]verb{"PUT": set, "ADD": add, "DELETE": deleteOut}

func (u AttributeUpdate) action(name string) (action, error) {
	asked := "PUT"
	if u.Action != nil {
		asked = *u.Action
	}
	a := action{verb: verbsOf[asked], target: topLevel(name)}
	if name == "" {
		return a, attr.Item{"": attr.Null()}.Check()
	}
	if u.Value == nil {
		if a.verb != deleteOut {
			return a, attr.Invalidf(invalidParameter + "Only DELETE action is allowed when no attribute value is specified")
		}
		a.verb = remove
		return a, nil
	}
	if err := u.Value.Check(); err != nil {
		return a, err
	}
	a.value.left = valueOperand(*u.Value)
	switch k := u.Value.Kind(); {
	case a.verb == "":
		return a, attr.Invalidf("Member must satisfy enum value set: [ADD, DELETE, PUT]")
	case a.verb == deleteOut && !k.IsSet():
		return a, attr.Invalidf(invalidParameter+"DELETE action with value is not supported for the type %s", k)
	case a.verb == add && k != attr.N && k != attr.L && !k.IsSet():
		return a, attr.Invalidf(invalidParameter+"ADD action is not supported for the type %s", k)
	}
	return a, nil
}

// parseAttributesToGet parses the member AttributesToGet.
func parseAttributesToGet(names []string) (*Projection, error) {
	paths := make([]path, len(names))
	for i, name := range names {
		if name == "" {
			return nil, attr.Item{"": attr.Null()}.Check()
		}
		paths[i] = topLevel(name)
	}
	tree, clash := newPathTree(paths)
	if clash != nil {
		return nil, attr.Invalidf(invalidParameter+"Duplicate value in attribute name: %s", clash.one[0].name)
	}
	return &Projection{tree}, nil
}
