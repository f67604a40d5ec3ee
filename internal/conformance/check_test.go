package conformance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/assert"
)

const (
	// patience bounds what a case waits for; virtual in a bubble.
	patience = 15 * time.Second
	// pollPause lies between two looks at something waited for.
	pollPause = 100 * time.Millisecond
)

// kase is one case of the suite.
type kase struct {
	name string
	run  func(*T)
	// hours says that the case lets minutes or hours pass, which only a bubble can.
	hours bool
	// quotas says that the case is about throttling. Other cases run without,
	// where the target lets one choose.
	quotas bool
}

// finding is what came of one check.
type finding struct {
	check  string // path: service, case, check
	faults []string
}

// world is where one case runs.
type world struct {
	config   aws.Config
	dynamodb *dynamodb.Client
	kinesis  *kinesis.Client

	mu       sync.Mutex
	findings []finding // guarded by mu
	named    int       // guarded by mu
}

// T is what a check reports to. It is like a testing.T, but a check that fails is
// only noted, since with some targets it may be a known difference.
type T struct {
	*world
	ctx  context.Context
	path string

	mu     sync.Mutex
	faults []string // guarded by mu
	parts  int      // guarded by mu
	active *T       // guarded by mu; the part that is running
}

// stop ends a check that cannot go on.
type stop struct{}

// Run runs a check that is part of this one.
func (t *T) Run(name string, check func(*T)) {
	part := &T{world: t.world, ctx: t.ctx, path: t.path + "/" + name}
	t.begin(part)
	part.do(check)
	t.begin(nil)
}

func (t *T) begin(part *T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.active = part
	if part != nil {
		t.parts++
	}
}

// do runs a check and notes what came of it: of one that has parts, only faults
// of its own.
func (t *T) do(check func(*T)) {
	defer func() {
		if p := recover(); p != nil && p != (stop{}) {
			t.Errorf("panic at %s: %v", panicked(), p)
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.parts > 0 && len(t.faults) == 0 {
			return
		}
		t.world.mu.Lock()
		defer t.world.mu.Unlock()
		t.findings = append(t.findings, finding{check: t.path, faults: t.faults})
	}()
	check(t)
}

// panicked is the line of a case at which it panicked, mostly for want of a member
// in an answer.
func panicked() string {
	pcs := make([]uintptr, 256)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		f, more := frames.Next()
		if strings.Contains(f.Function, "internal/conformance.") && !strings.HasSuffix(f.File, "check_test.go") {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
		if !more {
			return "?"
		}
	}
}

// Errorf notes a fault, as one of the part that is running, if any: so a helper
// made by a case serves its parts. It may be called by any goroutine.
func (t *T) Errorf(format string, args ...any) {
	t.mu.Lock()
	if part := t.active; part != nil {
		t.mu.Unlock()
		part.Errorf(format, args...)
		return
	}
	defer t.mu.Unlock()
	t.faults = append(t.faults, fmt.Sprintf(format, args...))
}

// Fatalf notes a fault and ends the check.
func (t *T) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	panic(stop{})
}

// Equal notes a fault if got is not want.
func (t *T) Equal(want, got any, about ...any) {
	if !assert.ObjectsAreEqual(want, got) {
		t.Errorf("%swant %v, got %v", prefix(about), want, got)
	}
}

// True notes a fault if what the rest says does not hold.
func (t *T) True(holds bool, about ...any) {
	if !holds {
		t.Errorf("not so: %s", fmt.Sprint(about...))
	}
}

// OK ends the check if there is an error.
func (t *T) OK(err error, about ...any) {
	if err != nil {
		t.Fatalf("%swant no error, got %s", prefix(about), brief(err))
	}
}

// Refused notes a fault unless err is the service's refusal with this code.
func (t *T) Refused(code string, err error, about ...any) {
	if got := codeOf(err); got != code {
		t.Errorf("%swant %s, got %s", prefix(about), code, brief(err))
	}
}

// Await waits until something is so, and ends the check if it never is.
func (t *T) Await(what string, is func() bool) {
	for end := time.Now().Add(patience); !is(); time.Sleep(pollPause) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// Unused returns a name that nothing has yet.
func (t *T) Unused() string {
	t.world.mu.Lock()
	defer t.world.mu.Unlock()
	t.named++
	slug := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, t.path[:min(len(t.path), 60)])
	return fmt.Sprintf("%s-%d", slug, t.named)
}

func prefix(about []any) string {
	if len(about) == 0 {
		return ""
	}
	return fmt.Sprint(about...) + ": "
}

// codeOf is the code of a service's error, "" for none.
func codeOf(err error) string {
	if api := (smithy.APIError)(nil); errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// brief is an error in a line.
func brief(err error) string {
	if err == nil {
		return "no error"
	}
	if api := (smithy.APIError)(nil); errors.As(err, &api) {
		return api.ErrorCode() + ": " + api.ErrorMessage()
	}
	return err.Error()
}

// sorted goes through the rows of a table in the order of their names.
func sorted[V any](rows map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, name := range slices.Sorted(maps.Keys(rows)) {
			if !yield(name, rows[name]) {
				return
			}
		}
	}
}
