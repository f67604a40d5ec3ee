package lease

import "time"

// throughput measures how fast a shard is read: a moving average, with weight
// 1/2, of the rate seen in a window of one renewal period. It is not safe for
// concurrent use.
type throughput struct {
	window []load
	mean   float64 // KiB/s
	known  bool    // mean has a value
}

// load is what was delivered at one instant.
type load struct {
	at    time.Time
	bytes int64
}

// loadGrain is the time within which deliveries are counted as one, which
// bounds the window to its length in milliseconds.
const loadGrain = time.Millisecond

// seed starts the average at what the lease's former owner measured.
func (t *throughput) seed(kibps float64) { t.mean, t.known = kibps, true }

func (t *throughput) add(now time.Time, bytes int64) {
	if n := len(t.window); n > 0 && now.Sub(t.window[n-1].at) < loadGrain {
		t.window[n-1].bytes += bytes
		return
	}
	t.window = append(t.window, load{now, bytes})
}

// advance feeds the average with the rate of the window that ends now. It is
// called once a period: the average decays with each call. As long as nothing
// was ever delivered, and the average not seeded, the rate stays unknown.
func (t *throughput) advance(now time.Time, window time.Duration) {
	if t.window == nil && !t.known {
		return
	}
	old := 0
	for old < len(t.window) && now.Sub(t.window[old].at) >= window {
		old++
	}
	t.window = append(t.window[:0], t.window[old:]...)
	var bytes int64
	for _, l := range t.window {
		bytes += l.bytes
	}
	rate := float64(bytes) / 1024 / window.Seconds()
	if !t.known {
		t.seed(rate)
		return
	}
	t.mean = (t.mean + rate) / 2
}
