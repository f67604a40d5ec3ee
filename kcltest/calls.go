package kcltest

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

// Call is one answered call.
type Call struct {
	// At is when the call arrived, Took how long it took.
	At   time.Time
	Took time.Duration
	// Client is the caller's access key id.
	Client string
	// Service is "kinesis" or "dynamodb".
	Service   string
	Operation string
	// Resources are the names of the streams or tables that the call names.
	Resources []string
	// Status is the HTTP status, or 0 for a connection that was broken.
	Status int
	// Code is the error's code, empty for success.
	Code string
}

// CallCount says how often a client made a call to a resource.
type CallCount struct {
	Client    string
	Service   string
	Operation string
	// Resource is a stream's or table's name. A call that names several counts
	// for the first, one that names none for "".
	Resource string
	Calls    int
	// Errors is how many of Calls were answered with an error, the failed
	// conditions of writes included, or not at all.
	Errors int
}

type callKey struct{ client, service, operation, resource string }

type tally struct{ calls, errors int }

func (a *AWS) count(i wire.Info, code string, status int) {
	k := callKey{client: i.Client, service: i.Service, operation: i.Operation}
	if len(i.Resources) > 0 {
		k.resource = i.Resources[0]
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.calls[k]
	if t == nil {
		t = new(tally)
		a.calls[k] = t
	}
	t.calls++
	if code != "" || status == 0 {
		t.errors++
	}
}

// Calls returns the counts of all calls so far, sorted by client, service,
// operation and resource.
func (a *AWS) Calls() []CallCount {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]CallCount, 0, len(a.calls))
	for k, t := range a.calls {
		out = append(out, CallCount{
			Client: k.client, Service: k.service, Operation: k.operation, Resource: k.resource,
			Calls: t.calls, Errors: t.errors,
		})
	}
	slices.SortFunc(out, func(x, y CallCount) int {
		return cmp.Or(cmp.Compare(x.Client, y.Client), cmp.Compare(x.Service, y.Service),
			cmp.Compare(x.Operation, y.Operation), cmp.Compare(x.Resource, y.Resource))
	})
	return out
}

// Count returns how often an operation was called so far, by all clients or by
// the given ones.
func (a *AWS) Count(operation string, clients ...string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for k, t := range a.calls {
		if k.operation == operation && (len(clients) == 0 || slices.Contains(clients, k.client)) {
			n += t.calls
		}
	}
	return n
}

// ResetCalls sets all counts to zero.
func (a *AWS) ResetCalls() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.calls)
}
