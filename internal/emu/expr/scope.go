package expr

import (
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/go-kcl/kcl/internal/emu/attr"
	"github.com/go-kcl/kcl/internal/emu/wire"
)

// maxSubstitutions bounds the placeholders' names and values together, bytes.
const maxSubstitutions = 2 << 20

// scope is what the placeholders of a request's expressions stand for, and which
// of them an expression has used.
type scope struct {
	names  map[string]string
	values attr.Item
	used   map[string]struct{}
}

// newScope checks the two maps of placeholders.
func newScope(names map[string]string, values attr.Item) (*scope, error) {
	size := 0
	if names != nil {
		if err := checkPlaceholders("ExpressionAttributeNames", '#', maps.Keys(names), len(names)); err != nil {
			return nil, err
		}
		for token, name := range names {
			if name == "" {
				return nil, attr.Invalidf("ExpressionAttributeNames contains invalid value: Empty attribute name for key %s", token)
			}
			size += len(token) + len(name)
		}
	}
	if values != nil {
		if err := checkPlaceholders("ExpressionAttributeValues", ':', maps.Keys(values), len(values)); err != nil {
			return nil, err
		}
		var wrong string
		for token, v := range values {
			if v.Check() != nil && (wrong == "" || token < wrong) {
				wrong = token
			}
			size += len(token) + v.Size()
		}
		if wrong != "" {
			return nil, attr.Invalidf("ExpressionAttributeValues contains invalid value: %s for key %s", message(values[wrong].Check()), wrong)
		}
	}
	if size > maxSubstitutions {
		return nil, attr.Invalidf("Combined size of ExpressionAttributeNames and ExpressionAttributeValues exceeds max size")
	}
	return &scope{names: names, values: values, used: make(map[string]struct{}, len(names)+len(values))}, nil
}

func checkPlaceholders(member string, sigil byte, tokens iter.Seq[string], n int) error {
	if n == 0 {
		return attr.Invalidf("%s must not be empty", member)
	}
	wrong, found := "", false
	for token := range tokens {
		if !isPlaceholder(token, sigil) && (!found || token < wrong) {
			wrong, found = token, true
		}
	}
	if found {
		return attr.Invalidf("%s contains invalid key: Syntax error; key: \"%s\"", member, wrong)
	}
	return nil
}

func isPlaceholder(token string, sigil byte) bool {
	if len(token) < 2 || token[0] != sigil {
		return false
	}
	for i := 1; i < len(token); i++ {
		if !isTokenChar(token[i]) {
			return false
		}
	}
	return true
}

func (s *scope) name(token string) (string, bool) {
	name, ok := s.names[token]
	s.used[token] = struct{}{}
	return name, ok
}

func (s *scope) value(token string) (attr.Value, bool) {
	v, ok := s.values[token]
	s.used[token] = struct{}{}
	return v, ok
}

// checkUnused refuses placeholders that no expression used.
func (s *scope) checkUnused() error {
	if len(s.used) == len(s.names)+len(s.values) { // all used ones are defined
		return nil
	}
	if left := s.unused(maps.Keys(s.names)); len(left) > 0 {
		return errUnused("ExpressionAttributeNames", left)
	}
	return errUnused("ExpressionAttributeValues", s.unused(maps.Keys(s.values)))
}

func (s *scope) unused(tokens iter.Seq[string]) []string {
	var left []string
	for token := range tokens {
		if _, ok := s.used[token]; !ok {
			left = append(left, token)
		}
	}
	slices.Sort(left)
	return left
}

func errUnused(member string, tokens []string) error {
	return attr.Invalidf("Value provided in %s unused in expressions: keys: {%s}", member, strings.Join(tokens, ", "))
}

// message is the text of a ValidationException.
func message(err error) string {
	if e := (*wire.Error)(nil); errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}
