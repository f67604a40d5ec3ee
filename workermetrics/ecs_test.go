package workermetrics

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const ecsBase = "http://169.254.170.2/v4/abc"

// task is a task's metadata endpoint: a path's answer, or a status without one.
type task map[string]string

func (k task) host() Host {
	h := files{}.host()
	h.Getenv = func(name string) string {
		if name == envECSv4 {
			return ecsBase
		}
		return ""
	}
	h.HTTP = doer(func(r *http.Request) (*http.Response, error) {
		for path, body := range k {
			if r.URL.String() == ecsBase+path {
				return answer(http.StatusOK, body)
			}
		}
		return answer(http.StatusNotFound, "")
	})
	return h
}

func ecsStatsText(total, before, system, systemBefore uint64) string {
	return fmt.Sprintf(`{"read":"2026-01-01T00:00:00Z",
		"cpu_stats":{"cpu_usage":{"total_usage":%d,"percpu_usage":[1]},"system_cpu_usage":%d,"online_cpus":2},
		"precpu_stats":{"cpu_usage":{"total_usage":%d},"system_cpu_usage":%d,"online_cpus":2}}`, total, system, before, systemBefore)
}

const (
	busyStats   = `{"cpu_stats":{"cpu_usage":{"total_usage":150000000},"system_cpu_usage":300000000,"online_cpus":2},"precpu_stats":{"cpu_usage":{"total_usage":100000000},"system_cpu_usage":200000000}}`
	ecsSelf     = `{"DockerId":"me","Name":"app","Limits":{"CPU":50}}`
	oneInTask   = `{"Containers":[{"DockerId":"me","Limits":{"CPU":50}}]}`
	twoInTask   = `{"Containers":[{"DockerId":"other","Limits":{"CPU":30}},{"DockerId":"me","Limits":{"CPU":50}}]}`
	limitedTask = `{"Limits":{"CPU":4,"Memory":512},"Containers":[{"DockerId":"me","Limits":{"CPU":50}}]}`
)

// lease-assignment-and-worker-metrics#52
func TestECSCPU(t *testing.T) {
	for _, c := range []struct {
		name, stats, task, self string
		want                    float64
	}{
		{"no limit of the task, one container", busyStats, oneInTask, ecsSelf, 50},
		{"50 of 80 shares", busyStats, twoInTask, ecsSelf, 80},
		{"a limit of the task", busyStats, limitedTask, ecsSelf, 25},
		{"a limit without CPU", busyStats, `{"Limits":{"Memory":512},"Containers":[{"DockerId":"me","Limits":{"CPU":50}}]}`, ecsSelf, 50},
		{"a container that the task does not know has 2 shares", busyStats, `{"Containers":[{"DockerId":"other","Limits":{"CPU":4}}]}`, ecsSelf, 100},
		{"a fraction of a processor", busyStats, `{"Limits":{"CPU":0.5},"Containers":[{"DockerId":"me","Limits":{"CPU":50}}]}`, ecsSelf, 100},
		{"the machine's counter stands still", ecsStatsText(2, 1, 5, 5), oneInTask, ecsSelf, 100},
		{"so do both", ecsStatsText(1, 1, 5, 5), oneInTask, ecsSelf, 100},
		{"no reading of the machine before", ecsStatsText(150, 100, 200, 0), oneInTask, ecsSelf, 25},
		{"no reading before", ecsStatsText(150, 0, 300, 0), "", "", 0},
		{"the container's counter began anew", ecsStatsText(1, 100, 300, 200), oneInTask, ecsSelf, 0},
		{"the machine's counter began anew", ecsStatsText(150, 100, 200, 300), oneInTask, ecsSelf, 0},
		{"not running yet", "null", "", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := task{"/stats": c.stats, "/task": c.task, "": c.self}
			m, err := NewECSCPU(k.host())
			require.NoError(t, err)
			assert.Equal(t, c.want, captured(t, m))
		})
	}
	for _, c := range []struct{ name, path, text string }{
		{"no stats", "/stats", ""},
		{"stats are no JSON", "/stats", "<html>"},
		{"stats of the wrong type", "/stats", `{"cpu_stats":{"system_cpu_usage":"5"}}`},
		{"task is no JSON", "/task", "x"},
		{"self is no JSON", "", "x"},
		{"no shares", "/task", `{"Containers":[{"DockerId":"me","Limits":{"CPU":0}}]}`}, // do better 12
		{"no containers", "/task", `{"Limits":{"CPU":4}}`},
		{"none of the shares", "/task", `{"Containers":[{"DockerId":"me"},{"DockerId":"other","Limits":{"CPU":30}}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := task{"/stats": busyStats, "/task": oneInTask, "": ecsSelf}
			k[c.path] = c.text
			m, err := NewECSCPU(k.host())
			require.NoError(t, err)
			fails(t, m)
		})
	}
	// Do better 12: what was missing at first is asked for again.
	for _, missing := range []string{"/stats", "/task", ""} {
		t.Run("recovers from "+missing, func(t *testing.T) {
			k := task{"/stats": busyStats, "/task": twoInTask, "": ecsSelf}
			lost := k[missing]
			delete(k, missing)
			m, err := NewECSCPU(k.host())
			require.NoError(t, err)
			fails(t, m)
			k[missing] = lost
			assert.Equal(t, 80.0, captured(t, m))
			delete(k, "/task")
			assert.Equal(t, 80.0, captured(t, m), "asks for the limit once")
		})
	}
	for _, base := range []string{"", "no URL", "http://%zz", "/v4"} {
		h := Host{Getenv: func(string) string { return base }}
		_, err := NewECSCPU(h)
		assert.Error(t, err, base)
	}
	t.Run("ends with its context", func(t *testing.T) {
		h := task{}.host()
		h.HTTP = doer(func(r *http.Request) (*http.Response, error) { return nil, r.Context().Err() })
		m, err := NewECSCPU(h)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = m.Capture(ctx)
		assert.ErrorIs(t, err, context.Canceled)
	})
}

// The client that a Host has of itself works, and keeps no connection.
func TestECSOverHTTP(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.True(t, r.Close)
		k := task{"/stats": busyStats, "/task": twoInTask, "": ecsSelf}
		_, _ = io.WriteString(w, k[strings.TrimPrefix(r.URL.Path, "/v4/abc")])
	}))
	m, err := NewECSCPU(Host{Getenv: func(string) string { return server.URL + "/v4/abc" }})
	require.NoError(t, err)
	assert.Equal(t, 80.0, captured(t, m))
	server.Close()
	fails(t, m)
}

func FuzzECS(f *testing.F) {
	f.Add(busyStats, twoInTask, "me")
	f.Add(ecsStatsText(5, 1, 1<<63, 5), limitedTask, "")
	f.Fuzz(func(t *testing.T, stats, metadata, id string) {
		var s ecsStats
		var k ecsTask
		if json.Unmarshal([]byte(stats), &s) != nil || json.Unmarshal([]byte(metadata), &k) != nil {
			return
		}
		if cores, err := k.cores(id, s.Now.Online); err == nil {
			require.Positive(t, cores)
			percent := s.percentOf(cores)
			require.False(t, percent > 100, percent)
		}
	})
}
