package workermetrics

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// files is a machine's file system, which a test may change as it goes.
type files map[string]string

func (f files) host() Host {
	fsys := fstest.MapFS{}
	for name, text := range f {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return Host{Files: fsys, HTTP: doer(noNetwork), Getenv: func(string) string { return "" }, OS: "linux"}
}

func (h Host) write(name, text string) {
	h.Files.(fstest.MapFS)[name] = &fstest.MapFile{Data: []byte(text)}
}

func (h Host) remove(name string) { delete(h.Files.(fstest.MapFS), name) }

type doer func(*http.Request) (*http.Response, error)

func (d doer) Do(r *http.Request) (*http.Response, error) { return d(r) }

func noNetwork(*http.Request) (*http.Response, error) { return nil, errors.New("no network") }

func answer(status int, body string) (*http.Response, error) {
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: io.NopCloser(strings.NewReader(body))}, nil
}

func captured(t *testing.T, m Metric) float64 {
	t.Helper()
	v, err := m.Capture(t.Context())
	require.NoError(t, err)
	return v
}

func fails(t *testing.T, m Metric) {
	t.Helper()
	_, err := m.Capture(t.Context())
	assert.Error(t, err)
}

// The zero Host is the machine that the test runs on.
func TestRealHost(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no /proc")
	}
	for _, m := range []Metric{NewLinuxCPU(Host{}), NewGoMemory(Host{})} {
		captured(t, m)
		captured(t, m)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	h := Host{HTTP: doer(func(*http.Request) (*http.Response, error) {
		return answer(http.StatusOK, strings.Repeat("x", 2*maxAnswer))
	})}
	b, err := h.ask(t.Context(), http.MethodGet, "http://host", "", "")
	require.NoError(t, err)
	assert.Len(t, b, maxAnswer)
}

func TestRanges(t *testing.T) {
	m := NewLinuxCPU(Host{})
	assert.Equal(t, 100, m.OperatingRange())
	assert.Equal(t, 80, WithOperatingRange(m, 80).OperatingRange())
	assert.Equal(t, CPU, WithOperatingRange(m, 80).Name())
}

// metric is one that a test makes up.
type metric struct {
	name    string
	limit   int
	capture func(context.Context) (float64, error)
}

func (m metric) Name() string                                 { return m.name }
func (m metric) OperatingRange() int                          { return m.limit }
func (m metric) Capture(ctx context.Context) (float64, error) { return m.capture(ctx) }

func constant(name string, percent float64) Metric {
	return metric{name: name, capture: func(context.Context) (float64, error) { return percent, nil }}
}
