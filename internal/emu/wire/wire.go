// Package wire is what the emulated services share: the form of a call, of its
// answer and of an error, and the two encodings AWS SDKs speak to them.
//
// An HTTP front (package kcltest) turns a request into a [Call], asks the
// service to decode it, and writes the [Answer]. Between the decoding and the
// execution lies the one place where calls are counted and faults injected.
package wire

import (
	"context"
	"fmt"
	"net/http"
)

// Caller says who sent a call, as read from the signature's credential.
type Caller struct {
	Client  string // the access key id; in-memory clients use their own name
	Account string // 12 digits
	Region  string
}

// ARNPrefix returns "arn:aws:service:region:account:" for the caller.
func (c Caller) ARNPrefix(service string) string {
	return "arn:aws:" + service + ":" + c.Region + ":" + c.Account + ":"
}

// Call is one request to a service, its body not yet decoded.
type Call struct {
	Caller
	Service   string // "dynamodb" or "kinesis"
	Operation string // what follows the dot of X-Amz-Target
	Codec     Codec
	Body      []byte
	Header    http.Header
}

// Answer is what the front writes. Request ids and checksums are the front's.
type Answer struct {
	Status      int
	ContentType string
	Header      http.Header // further headers, or nil
	Body        []byte
	// Err is the error that Body tells of, for counters and logs.
	Err *Error
}

// Prepared is a decoded call: what it touches, and how to carry it out.
type Prepared struct {
	// Resources are the names of the tables or streams the call names, each
	// once. It is empty when the call names none or could not be decoded.
	Resources []string
	// Index is the index of the table that is read, if one is.
	Index string
	// Run carries the call out at the present instant. It holds no lock when it
	// returns and never sleeps.
	Run func() Answer
}

// Service is one emulated service.
type Service interface {
	Prepare(*Call) Prepared
}

// Error is a service's refusal.
type Error struct {
	Status     int            // HTTP status
	Type       string         // "__type" as on the wire, with its prefix if it has one
	Message    string         // left out of the body when empty
	MessageKey string         // "message" unless set
	Fields     map[string]any // further members of the body
}

func (e *Error) Error() string { return e.Type + ": " + e.Message }

// Code is Type without its prefix.
func (e *Error) Code() string {
	for i := len(e.Type) - 1; i >= 0; i-- {
		if e.Type[i] == '#' {
			return e.Type[i+1:]
		}
	}
	return e.Type
}

// Answer encodes e.
func (e *Error) Answer(c Codec) Answer {
	body := make(map[string]any, len(e.Fields)+2)
	for k, v := range e.Fields {
		body[k] = v
	}
	body["__type"] = e.Type
	if e.Message != "" {
		key := e.MessageKey
		if key == "" {
			key = "message"
		}
		body[key] = e.Message
	}
	b, err := c.Marshal(body)
	if err != nil {
		panic("wire: an error's fields do not encode: " + err.Error()) // only our own plain values go in
	}
	return Answer{Status: e.Status, ContentType: c.ContentType(), Body: b, Err: e}
}

// OK encodes out as a 200. A nil out is an empty body.
func OK(c Codec, out any) Answer {
	a := Answer{Status: http.StatusOK, ContentType: c.ContentType()}
	if out == nil {
		return a
	}
	b, err := c.Marshal(out)
	if err != nil {
		panic("wire: an answer does not encode: " + err.Error())
	}
	a.Body = b
	return a
}

// Info describes a call that is about to run.
type Info struct {
	Caller
	Service   string
	Operation string
	Resources []string
	Index     string
}

// Denied is the refusal of a call for which the caller has no permission.
func (i Info) Denied() *Error {
	resource := "*"
	if len(i.Resources) > 0 {
		kind := "table/"
		if i.Service == "kinesis" {
			kind = "stream/"
		}
		resource = i.ARNPrefix(i.Service) + kind + i.Resources[0]
		if i.Index != "" {
			resource += "/index/" + i.Index
		}
	}
	action := i.Service + ":" + i.Operation
	e := &Error{
		Status: http.StatusBadRequest, Type: "AccessDeniedException",
		Message: fmt.Sprintf("User: arn:aws:sts::%s:assumed-role/kcltest/%s is not authorized to perform: %s on resource: %s because no identity-based policy allows the %s action",
			i.Account, i.Client, action, resource, action),
	}
	if i.Service == "dynamodb" {
		e.Type, e.MessageKey = "com.amazon.coral.service#AccessDeniedException", "Message"
	}
	return e
}

// Interceptor stands between the decoding of a call and its execution. It may
// wait, answer without run, call run and answer something else, or return an
// error, which the client sees as a broken connection. It must call run at most
// once; run may be called after the interceptor has returned, for a call that
// lands late.
type Interceptor func(ctx context.Context, info Info, run func() Answer) (Answer, error)
