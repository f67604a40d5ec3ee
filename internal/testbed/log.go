package testbed

import (
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// Logger writes lines of text to w, of every level.
func Logger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Log keeps what is logged to it.
type Log struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

// Write implements [io.Writer].
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns all lines.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Count returns how many lines contain all parts.
func (l *Log) Count(parts ...string) (n int) {
	for line := range strings.Lines(l.String()) {
		if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(line, p) }) {
			n++
		}
	}
	return n
}
