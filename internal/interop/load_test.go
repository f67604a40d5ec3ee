//go:build interop

package interop

import (
	"fmt"
	"net/http"
	"sync"
)

// loads says how busy each worker takes itself to be: to Java workers as the
// metadata of an ECS task, to ours in plain.
type loads struct {
	mu      sync.Mutex
	percent map[string]float64 // guarded by mu; 50 unless set
}

func (l *loads) set(percent float64, workers ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range workers {
		l.percent[w] = percent
	}
}

func (l *loads) of(worker string) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p, ok := l.percent[worker]; ok {
		return p
	}
	return 50
}

func (l *loads) handler() http.Handler {
	mux := http.NewServeMux()
	answer := func(pattern, format string, args func(worker string) []any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, format, args(r.PathValue("worker"))...)
		})
	}
	none := func(string) []any { return nil }
	answer("/plain/{worker}", "%g", func(w string) []any { return []any{l.of(w)} })
	answer("/ecs/{worker}", `{"DockerId":"d","Limits":{"CPU":2}}`, none)
	answer("/ecs/{worker}/task", `{"Limits":{"CPU":2},"Containers":[{"DockerId":"d","Limits":{"CPU":2}}]}`, none)
	answer("/ecs/{worker}/stats", `{"cpu_stats":{"cpu_usage":{"total_usage":%d},"system_cpu_usage":200000000,"online_cpus":2},`+
		`"precpu_stats":{"cpu_usage":{"total_usage":100000000},"system_cpu_usage":100000000,"online_cpus":2}}`,
		func(w string) []any { return []any{100_000_000 + int(l.of(w)*1_000_000)} })
	return mux
}
