package retrieval

import "time"

// maxBackoff bounds the wait after failures, unless the idle time is longer.
const maxBackoff = 10 * time.Second

// history is what the pace of a shard's reading depends on.
type history struct {
	called   bool // any call was made
	failures int  // in a row
	// Of the last response, which there is if called and no failures:
	lastOK      time.Time
	behind      time.Duration
	behindKnown bool
	bytes       int
}

// pause says how long to wait before the next call.
//
//	nothing called yet         0
//	failures                   the idle time, doubled for each further failure up to maxBackoff, plus up to half of it
//	else                       what is left, since the last response, of the longest of
//	                           the idle time,
//	                           the threshold (if the shard's tip is nearer than it),
//	                           the time the last response takes of the shard's throughput
//
// random is in [0, 1).
func pause(h history, now time.Time, cfg *Config, random float64) time.Duration {
	idle := cfg.IdleTime
	switch {
	case !h.called:
		return 0
	case h.failures > 0:
		d := idle
		for range h.failures - 1 {
			if d *= 2; d >= maxBackoff {
				d = max(idle, maxBackoff)
				break
			}
		}
		return d + time.Duration(random*float64(d)/2)
	}
	want := idle
	if cfg.BytesPerSecond > 0 {
		want = max(want, time.Duration(h.bytes)*time.Second/time.Duration(cfg.BytesPerSecond))
	}
	if h.behindKnown && h.behind < cfg.ReducedTPSThreshold {
		want = max(want, cfg.ReducedTPSThreshold)
	}
	return max(0, want-now.Sub(h.lastOK))
}
