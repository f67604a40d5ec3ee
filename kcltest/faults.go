package kcltest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

// Fault is something that goes wrong with some calls. It is a plain value: which
// calls it hits, how many of them, and what becomes of those. [AWS.Inject] puts
// it in force. Of several faults that match a call the one injected first hits it.
type Fault struct {
	// Clients, Services ("kinesis", "dynamodb"), Operations and Resources (names
	// of streams and tables) say which calls are meant; an empty list means all.
	// A call that names several resources is meant if any of them is.
	Clients, Services, Operations, Resources []string
	// Except are clients that are not meant, such as the one a test looks with.
	Except []string

	// Skip lets so many of these calls pass first. Times is how many are hit then,
	// 0 for no limit. Chance is the share of the rest that is hit, 0 meaning all;
	// the choice follows from the seed, the client, the operation and how many
	// such calls that client has made: not from what other clients do.
	Skip, Times int
	Chance      float64
	// For is how long the fault is in force, from its injection. Default 0: until
	// it is removed.
	For time.Duration

	// Effect is what happens to a call that is hit.
	Effect Effect
	// Delay is waited before the effect.
	Delay time.Duration
	// Code is the error of a refused call: any that the service knows, such as
	// "ThrottlingException" or "ExpiredIteratorException". Message is its text;
	// the more usual codes have one by default.
	Code, Message string
}

// Effect is what a [Fault] does to a call.
type Effect uint8

const (
	// Slow has the call carried out and answered, after Delay. If the caller gives
	// up before that, nothing happens.
	Slow Effect = iota
	// Refuse answers with the error named by Code.
	Refuse
	// Break breaks the connection; the call is not carried out.
	Break
	// LoseAnswer has the call carried out, and breaks the connection instead of
	// answering.
	LoseAnswer
	// Hang does nothing until the caller gives up.
	Hang
	// Late has the call carried out after Delay, whether the caller still waits
	// for the answer or not.
	Late
	// Freeze stops the call where it is until the fault ends. Then it is carried
	// out, whether the caller still waits or not, after those that were stopped
	// before it.
	Freeze
	// FreezeAnswer has the call carried out, and withholds the answer until the
	// fault ends. A client of which some calls have arrived and some have not is
	// one FreezeAnswer with a Chance or Times, and a Freeze injected after it.
	FreezeAnswer
)

// String names the effect.
func (e Effect) String() string {
	names := []string{"slow", "refuse", "break", "lose answer", "hang", "late", "freeze", "freeze answer"}
	if int(e) < len(names) {
		return names[e]
	}
	return fmt.Sprintf("effect %d", uint8(e))
}

// Injection is a [Fault] in force.
type Injection struct {
	aws   *AWS
	fault Fault
	id    uint64

	mu sync.Mutex
	// Guarded by mu.
	seen   int            // calls that are meant
	hits   int            // of those
	tosses map[string]int // by client and operation
	ended  bool
	frozen []func() // goes on with each stopped call, in the order of their coming
}

// Hits returns how many calls were hit so far.
func (i *Injection) Hits() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.hits
}

// Remove ends the fault. Frozen calls go on; other calls that it has hit are not
// helped by that. It may be called twice.
func (i *Injection) Remove() {
	i.aws.mu.Lock()
	i.aws.faults = slices.DeleteFunc(i.aws.faults, func(other *Injection) bool { return other == i })
	i.aws.mu.Unlock()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended = true
	frozen := i.frozen
	i.frozen = nil
	if len(frozen) > 0 {
		go func() { // ends with the last call
			for _, goOn := range frozen {
				goOn()
			}
		}()
	}
}

// Inject puts a fault in force until it is removed, or its time is over.
func (a *AWS) Inject(f Fault) *Injection {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.injected++
	i := &Injection{aws: a, fault: f, id: a.injected, tosses: make(map[string]int)}
	a.faults = append(a.faults, i)
	if f.For > 0 {
		time.AfterFunc(f.For, i.Remove)
	}
	return i
}

// hit returns the injection that hits a call, nil if none does.
func (a *AWS) hit(info wire.Info) *Injection {
	a.mu.Lock()
	faults := slices.Clone(a.faults)
	a.mu.Unlock()
	for _, i := range faults {
		if i.takes(info) {
			return i
		}
	}
	return nil
}

// takes reports whether the call is hit, and counts it.
func (i *Injection) takes(info wire.Info) bool {
	f := i.fault
	means := func(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }
	if slices.Contains(f.Except, info.Client) || !means(f.Clients, info.Client) || !means(f.Services, info.Service) || !means(f.Operations, info.Operation) {
		return false
	}
	if len(f.Resources) > 0 && !slices.ContainsFunc(info.Resources, func(r string) bool { return slices.Contains(f.Resources, r) }) {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.seen++
	if i.seen <= f.Skip || f.Times > 0 && i.hits >= f.Times || f.Chance > 0 && !i.tossLocked(info) {
		return false
	}
	i.hits++
	return true
}

// tossLocked reports whether chance picks the call. It needs i.mu.
func (i *Injection) tossLocked(info wire.Info) bool {
	key := info.Client + " " + info.Operation
	i.tosses[key]++
	h := fnv.New64a()
	fmt.Fprint(h, key, " ", i.id)
	return rand.New(rand.NewPCG(i.aws.opts.Seed^h.Sum64(), uint64(i.tosses[key]))).Float64() < i.fault.Chance
}

var (
	errFault = errors.New("kcltest: injected fault")
	errHang  = errors.New("kcltest: no answer")
)

// apply does to a call what the fault says.
func (i *Injection) apply(ctx context.Context, info wire.Info, codec wire.Codec, run func() wire.Answer) (wire.Answer, error) {
	f := i.fault
	if f.Effect == Late {
		answer := make(chan wire.Answer, 1)
		time.AfterFunc(f.Delay, func() { answer <- run() })
		return await(ctx, answer)
	}
	if f.Delay > 0 {
		if err := sleep(ctx, f.Delay); err != nil {
			return wire.Answer{}, err
		}
	}
	switch f.Effect {
	case Refuse:
		return refusal(info, f.Code, f.Message).Answer(codec), nil
	case Break:
		return wire.Answer{}, errFault
	case LoseAnswer:
		run()
		return wire.Answer{}, errFault
	case Hang:
		<-ctx.Done()
		return wire.Answer{}, errors.Join(errHang, ctx.Err())
	case Freeze:
		answer := make(chan wire.Answer, 1)
		i.freeze(func() { answer <- run() })
		return await(ctx, answer)
	case FreezeAnswer:
		answer, ans := make(chan wire.Answer, 1), run()
		i.freeze(func() { answer <- ans })
		return await(ctx, answer)
	default:
		return run(), nil
	}
}

// freeze keeps goOn until the fault ends.
func (i *Injection) freeze(goOn func()) {
	i.mu.Lock()
	if !i.ended {
		i.frozen = append(i.frozen, goOn)
		i.mu.Unlock()
		return
	}
	i.mu.Unlock()
	goOn()
}

// await returns the answer, unless the caller gives up before it comes. The channel
// must have room for it.
func await(ctx context.Context, answer <-chan wire.Answer) (wire.Answer, error) {
	select {
	case ans := <-answer:
		return ans, nil
	case <-ctx.Done():
		return wire.Answer{}, ctx.Err()
	}
}

// refusals are the errors that a Fault knows the form of, besides those that
// take it as it is: HTTP status, prefix on DynamoDB's wire, text.
var refusals = map[string]struct {
	status       int
	prefix, text string
}{
	"ThrottlingException":                    {400, "com.amazon.coral.availability#", "Rate exceeded"},
	"ProvisionedThroughputExceededException": {400, "", "Rate exceeded"},
	"RequestLimitExceeded":                   {400, "", "Rate exceeded"},
	"LimitExceededException":                 {400, "", "Rate exceeded"},
	"InternalServerError":                    {500, "", "Internal server error"},
	"InternalFailure":                        {500, "", ""},
	"ServiceUnavailable":                     {503, "", "Service unavailable"},
	"ExpiredIteratorException":               {400, "", "Iterator expired."},
	"ExpiredNextTokenException":              {400, "", "NextToken expired."},
	"ResourceNotFoundException":              {400, "", "Requested resource not found"},
	"ConditionalCheckFailedException":        {400, "", "The conditional request failed"},
	"ValidationException":                    {400, "com.amazon.coral.validate#", "invalid"},
	"UnrecognizedClientException":            {400, "com.amazon.coral.service#", "The security token included in the request is invalid."},
	"ExpiredTokenException":                  {400, "com.amazon.coral.service#", "The security token included in the request is expired"},
}

func refusal(info wire.Info, code, message string) *wire.Error {
	if code == "AccessDeniedException" && message == "" {
		return info.Denied()
	}
	r, known := refusals[code]
	e := &wire.Error{Status: http.StatusBadRequest, Type: code, Message: message}
	if known {
		e.Status = r.status
		if message == "" {
			e.Message = r.text
		}
	}
	if info.Service == serviceDynamoDB {
		prefix := r.prefix
		if prefix == "" {
			prefix = "com.amazonaws.dynamodb.v20120810#"
		}
		e.Type = prefix + code
	}
	return e
}
