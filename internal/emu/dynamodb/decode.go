package dynamodb

import (
	"encoding/json"
	"reflect"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

// operation is how to decode an operation's requests.
type operation struct {
	request func() request   // a new one
	members map[string][]int // the request's fields by their names
}

func of[T any, P interface {
	*T
	request
}]() operation {
	members := map[string][]int{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if !f.Anonymous && f.IsExported() && f.Tag == "" {
			members[f.Name] = f.Index
		}
	}
	return operation{func() request { return P(new(T)) }, members}
}

func (o operation) decode(body []byte) (request, error) {
	if req, ok := o.decodeQuickly(body); ok {
		return req, nil
	}
	req := o.request()
	return req, json.Unmarshal(body, req)
}

// decodeQuickly decodes the bodies of the most frequent calls in one pass.
// encoding/json goes over a body, and over the items in it, several times.
func (o operation) decodeQuickly(body []byte) (request, bool) {
	req := o.request()
	v := reflect.ValueOf(req).Elem()
	return req, attr.DecodeMembers(body, func(name string) any {
		field, ok := o.members[name]
		if !ok {
			return nil
		}
		return v.FieldByIndex(field).Addr().Interface()
	})
}
