package retrieval

import "time"

const (
	// maxBackoff bounds the wait after failures, unless the idle time is longer.
	maxBackoff = 10 * time.Second
	// shardBytesPerSecond is what the service lets be read from a shard; after a
	// larger response it refuses calls until the excess is paid off.
	shardBytesPerSecond = 2 << 20
)

// history is what the pace of a shard's reading depends on.
type history struct {
	called   bool      // any call was made
	lastOK   time.Time // of the last success; zero if there was none since the last pause
	failures int       // in a row
	// Of the last response:
	behind      time.Duration
	behindKnown bool
	bytes       int
}

// pause says how long to wait before the next call.
//
//	nothing called yet         0
//	failures                   the idle time, doubled for each further failure up to maxBackoff, plus up to half of it
//	no success since a pause   the idle time
//	else                       what is left, since the last success, of the longest of
//	                           the idle time,
//	                           the threshold (if the shard's tip is nearer than it),
//	                           the time the last response takes of the shard's throughput
//
// random is in [0, 1).
func pause(h history, now time.Time, idle, threshold time.Duration, random float64) time.Duration {
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
	case h.lastOK.IsZero():
		return idle
	}
	want := max(idle, time.Duration(h.bytes)*time.Second/shardBytesPerSecond)
	if h.behindKnown && h.behind < threshold {
		want = max(want, threshold)
	}
	return max(0, want-now.Sub(h.lastOK))
}
