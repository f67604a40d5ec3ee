package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// plainEvery is the pace of progress lines where they cannot be redrawn.
const plainEvery = 5 * time.Second

// screen shows progress: one line that is redrawn on a terminal, and plain lines
// now and then elsewhere.
type screen struct {
	w        io.Writer
	terminal bool
	every    time.Duration // the pace of plain lines

	mu   sync.Mutex
	last time.Duration // when a plain line was last printed; guarded by mu
}

func newScreen(w io.Writer) *screen {
	s := &screen{w: w, every: plainEvery, last: -plainEvery}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil {
			s.terminal = info.Mode()&os.ModeCharDevice != 0
		}
	}
	return s
}

// rows has progress print lines that stay at that pace, on a terminal as elsewhere.
func (s *screen) rows(every time.Duration) { s.terminal, s.every, s.last = false, every, 0 }

const eraseLine = "\r\x1b[K"

// say prints a line that stays.
func (s *screen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal {
		fmt.Fprint(s.w, eraseLine)
	}
	fmt.Fprintf(s.w, format+"\n", args...)
}

// progress shows how things stand.
func (s *screen) progress(at time.Duration, line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line = fmt.Sprintf("%3.0fs  %s", at.Seconds(), line)
	switch {
	case s.terminal:
		fmt.Fprint(s.w, eraseLine, line)
	case at-s.last >= s.every:
		s.last = at
		fmt.Fprintln(s.w, line)
	}
}

// clear takes the redrawn line away.
func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal {
		fmt.Fprint(s.w, eraseLine)
	}
}
