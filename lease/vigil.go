package lease

import (
	"slices"
	"time"
)

const (
	// vigilPoll is how often a lease is read that is to be handed over to this
	// worker. Nobody reads its shard between the last record of the one owner and
	// the first of the next, so this is part of the gap.
	vigilPoll = 300 * time.Millisecond
	// vigilWidth is how many leases are read at that pace; more of them are read
	// less often, at the same cost: 27 read units a second.
	vigilWidth = 8
	// vigilEnd is when a lease is left to the ordinary discovery: by then the
	// leader has ended the hand-off, or nobody leads.
	vigilEnd = time.Minute
)

// vigil holds the leases that this worker waits for, and since when. Its zero
// value waits for none.
type vigil map[string]time.Time

// after returns the vigil after a pass at now that looked at the given keys, or
// at all if there are none, and found these waiting.
func (v vigil) after(now time.Time, looked, waiting []string) vigil {
	next := vigil{}
	for key, since := range v {
		if len(looked) > 0 && !slices.Contains(looked, key) {
			next[key] = since
		}
	}
	for _, key := range waiting {
		next[key] = now
		if since, known := v[key]; known {
			next[key] = since
		}
	}
	return next
}

// next returns the keys to look at, and how long after the last look; none when
// there is nothing to wait for.
func (v vigil) next(now time.Time) (keys []string, pause time.Duration) {
	for key, since := range v {
		if now.Sub(since) < vigilEnd {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, vigilPoll * time.Duration(max(1, (len(keys)+vigilWidth-1)/vigilWidth))
}
