package expr

import (
	"slices"
	"strings"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

// Request holds the members of a request that say what to test, what to change
// and what to return, as decoded from JSON. Operations embed it. A nil pointer,
// map or slice is an absent member; an empty one is present. Members that an
// operation does not know are ignored by its [Op].
type Request struct {
	ConditionExpression       *string
	FilterExpression          *string
	KeyConditionExpression    *string
	UpdateExpression          *string
	ProjectionExpression      *string
	ExpressionAttributeNames  map[string]string
	ExpressionAttributeValues attr.Item

	Expected            map[string]Expected
	ConditionalOperator *string // "AND" or "OR"; the caller has checked the enumeration
	AttributeUpdates    map[string]AttributeUpdate
	ScanFilter          map[string]LegacyCondition
	QueryFilter         map[string]LegacyCondition
	KeyConditions       map[string]LegacyCondition
	AttributesToGet     []string
}

// Expected is an entry of the older condition form.
type Expected struct {
	Value              *attr.Value
	Exists             *bool
	ComparisonOperator *string
	AttributeValueList []attr.Value
}

// LegacyCondition is an entry of ScanFilter, QueryFilter or KeyConditions.
type LegacyCondition struct {
	ComparisonOperator *string
	AttributeValueList []attr.Value
}

// AttributeUpdate is an entry of the older update form.
type AttributeUpdate struct {
	Action *string // PUT, ADD or DELETE; PUT when absent
	Value  *attr.Value
}

// Op says which of a [Request]'s members the operation knows.
type Op uint8

// The operations. OpGet also stands for a table's entry in BatchGetItem. The
// members of a transaction know no older forms; OpCheck is ConditionCheck.
const (
	OpPut Op = iota
	OpUpdate
	OpDelete
	OpGet
	OpQuery
	OpScan
	OpTransactPut
	OpTransactUpdate
	OpTransactDelete
	OpTransactGet
	OpCheck
)

// Parsed is what a request says, whatever form it said it in. A nil part was
// not given; its methods work all the same.
type Parsed struct {
	Condition    *Condition    // ConditionExpression or Expected
	Filter       *Condition    // FilterExpression, ScanFilter or QueryFilter
	KeyCondition *KeyCondition // KeyConditionExpression or KeyConditions
	Update       *Update       // UpdateExpression or AttributeUpdates
	Projection   *Projection   // ProjectionExpression or AttributesToGet
}

// member is a request's member in one of the two forms.
type member string

// forms are the members that an operation knows, each list in the order in which
// the service names them.
type forms struct{ expressions, older []member }

var (
	conditional = forms{
		[]member{"ConditionExpression"},
		[]member{"Expected", "ConditionalOperator"},
	}
	operationForms = [...]forms{
		OpPut:    conditional,
		OpDelete: conditional,
		OpUpdate: {
			[]member{"UpdateExpression", "ConditionExpression"},
			[]member{"AttributeUpdates", "Expected", "ConditionalOperator"},
		},
		OpGet: {
			[]member{"ProjectionExpression"},
			[]member{"AttributesToGet"},
		},
		OpQuery: {
			[]member{"ProjectionExpression", "FilterExpression", "KeyConditionExpression"},
			[]member{"AttributesToGet", "QueryFilter", "ConditionalOperator", "KeyConditions"},
		},
		OpScan: {
			[]member{"ProjectionExpression", "FilterExpression"},
			[]member{"AttributesToGet", "ScanFilter", "ConditionalOperator"},
		},
		OpTransactPut:    {conditional.expressions, nil},
		OpTransactUpdate: {[]member{"UpdateExpression", "ConditionExpression"}, nil},
		OpTransactDelete: {conditional.expressions, nil},
		OpTransactGet:    {[]member{"ProjectionExpression"}, nil},
		OpCheck:          {conditional.expressions, nil},
	}
)

// expression returns the expression of that name, nil if the request has none.
func (r *Request) expression(m member) *string {
	switch m {
	case "ConditionExpression":
		return r.ConditionExpression
	case "FilterExpression":
		return r.FilterExpression
	case "KeyConditionExpression":
		return r.KeyConditionExpression
	case "UpdateExpression":
		return r.UpdateExpression
	}
	return r.ProjectionExpression
}

// hasOlder reports whether the request has that member of the older form.
func (r *Request) hasOlder(m member) bool {
	switch m {
	case "Expected":
		return r.Expected != nil
	case "ConditionalOperator":
		return r.ConditionalOperator != nil
	case "AttributeUpdates":
		return r.AttributeUpdates != nil
	case "ScanFilter":
		return r.ScanFilter != nil
	case "QueryFilter":
		return r.QueryFilter != nil
	case "KeyConditions":
		return r.KeyConditions != nil
	}
	return r.AttributesToGet != nil
}

// CheckForms refuses a request that mixes expressions with the older members,
// that gives placeholders without an expression to use them, or a
// ConditionalOperator with nothing to join. It is the check that comes right
// after those of single members' lengths and enumerations, and before those of
// attribute values.
func (r *Request) CheckForms(op Op) error {
	known := operationForms[op]
	var expressions, older, withValues []member
	for _, m := range known.expressions {
		if r.expression(m) != nil {
			expressions = append(expressions, m)
		}
		if m != "ProjectionExpression" {
			withValues = append(withValues, m)
		}
	}
	for _, m := range known.older {
		if r.hasOlder(m) && !(m == "KeyConditions" && r.KeyConditionExpression == nil) {
			older = append(older, m)
		}
	}
	switch {
	case len(expressions) > 0 && len(older) > 0:
		return attr.Invalidf("Can not use both expression and non-expression parameters in the same request: "+
			"Non-expression parameters: {%s} Expression parameters: {%s}", joinMembers(older, ", "), joinMembers(expressions, ", "))
	case r.ExpressionAttributeNames != nil && len(expressions) == 0:
		return attr.Invalidf("ExpressionAttributeNames can only be specified when using expressions")
	case r.ExpressionAttributeValues != nil && len(withValues) > 0 && !slices.ContainsFunc(withValues, func(m member) bool { return r.expression(m) != nil }):
		be := "is"
		if len(withValues) > 1 {
			be = "are"
		}
		return attr.Invalidf("ExpressionAttributeValues can only be specified when using expressions: %s %s null", joinMembers(withValues, " and "), be)
	case slices.Contains(older, "ConditionalOperator"):
		return r.checkConditionalOperator(op)
	}
	return nil
}

func joinMembers(members []member, by string) string {
	var b strings.Builder
	for i, m := range members {
		if i > 0 {
			b.WriteString(by)
		}
		b.WriteString(string(m))
	}
	return b.String()
}

func (r *Request) checkConditionalOperator(op Op) error {
	joined := len(r.Expected)
	switch op {
	case OpQuery:
		joined = len(r.QueryFilter)
	case OpScan:
		joined = len(r.ScanFilter)
	}
	switch joined {
	case 0:
		return attr.Invalidf("ConditionalOperator cannot be used without Filter or Expected")
	case 1:
		return attr.Invalidf("ConditionalOperator can only be used when Filter or Expected has two or more elements")
	}
	return nil
}

// Parse parses the request's parts in either form. It checks all that can be
// known without the table: the forms again, attribute values, syntax,
// placeholders undefined and unused, operand types, overlapping paths.
func (r *Request) Parse(op Op) (Parsed, error) {
	if err := r.CheckForms(op); err != nil {
		return Parsed{}, err
	}
	known := operationForms[op]
	var parsed Parsed
	for _, m := range known.older {
		if !r.hasOlder(m) {
			continue
		}
		if err := r.parseOlder(m, &parsed); err != nil {
			return Parsed{}, err
		}
	}
	if !slices.ContainsFunc(known.expressions, func(m member) bool { return r.expression(m) != nil }) {
		return parsed, nil
	}
	values := r.ExpressionAttributeValues
	if known.expressions[0] == "ProjectionExpression" && len(known.expressions) == 1 {
		values = nil // a member that these operations do not know
	}
	s, err := newScope(r.ExpressionAttributeNames, values)
	if err != nil {
		return Parsed{}, err
	}
	for _, m := range []member{"UpdateExpression", "ConditionExpression", "KeyConditionExpression", "FilterExpression", "ProjectionExpression"} {
		if src := r.expression(m); src != nil && slices.Contains(known.expressions, m) {
			if err := parseExpression(m, *src, s, &parsed); err != nil {
				return Parsed{}, err
			}
		}
	}
	if err := s.checkUnused(); err != nil {
		return Parsed{}, err
	}
	return parsed, nil
}

func (r *Request) parseOlder(m member, into *Parsed) (err error) {
	switch m {
	case "Expected":
		into.Condition, err = parseExpected(r.Expected, r.ConditionalOperator)
	case "AttributeUpdates":
		into.Update, err = parseAttributeUpdates(r.AttributeUpdates)
	case "ScanFilter":
		into.Filter, err = parseFilter("ScanFilter", r.ScanFilter, r.ConditionalOperator)
	case "QueryFilter":
		into.Filter, err = parseFilter("QueryFilter", r.QueryFilter, r.ConditionalOperator)
	case "KeyConditions":
		into.KeyCondition, err = parseKeyConditions(r.KeyConditions)
	case "AttributesToGet":
		into.Projection, err = parseAttributesToGet(r.AttributesToGet)
	}
	return err
}

func parseExpression(m member, src string, s *scope, into *Parsed) (err error) {
	switch m {
	case "UpdateExpression":
		into.Update, err = parseUpdate(src, s)
		return err
	case "ProjectionExpression":
		into.Projection, err = parseProjection(src, s)
		return err
	}
	root, err := parseCondition(m, src, s)
	if err != nil {
		return err
	}
	switch m {
	case "ConditionExpression":
		into.Condition = &Condition{root, m}
	case "FilterExpression":
		into.Filter = &Condition{root, m}
	case "KeyConditionExpression":
		into.KeyCondition, err = newKeyCondition(root)
	}
	return err
}
