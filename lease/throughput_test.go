package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// leases#49
func TestThroughputFigures(t *testing.T) {
	const window = time.Minute
	const mib, gib = 1 << 20, 1 << 30
	now := time.Now()
	deliver := func(n int, bytes int64, at time.Time) *throughput {
		var tp throughput
		for range n {
			tp.add(at, bytes)
		}
		return &tp
	}
	advanced := func(tp *throughput) *throughput {
		tp.advance(now, window)
		return tp
	}

	t.Run("nothing was ever delivered: unknown", func(t *testing.T) {
		assert.False(t, advanced(&throughput{}).known)
	})
	t.Run("five of 1 MiB in a minute", func(t *testing.T) {
		assert.InDelta(t, 85.33, advanced(deliver(5, mib, now)).mean, 0.005)
	})
	t.Run("one of 1 MiB", func(t *testing.T) {
		assert.InDelta(t, 17.07, advanced(deliver(1, mib, now)).mean, 0.005)
	})
	t.Run("a thousand of 1 GiB", func(t *testing.T) {
		assert.InDelta(t, 17476266.67, advanced(deliver(1000, gib, now)).mean, 0.005)
	})
	t.Run("only expired: 0, not unknown", func(t *testing.T) {
		tp := advanced(deliver(3, mib, now.Add(-window)))
		assert.True(t, tp.known)
		assert.Zero(t, tp.mean)
	})
	t.Run("what is not quite a window old counts", func(t *testing.T) {
		assert.InDelta(t, 17.07, advanced(deliver(1, mib, now.Add(-window+1))).mean, 0.005)
	})
	t.Run("decays to exactly 0", func(t *testing.T) {
		tp := advanced(deliver(1000, gib, now))
		for range 2000 {
			tp.advance(now.Add(2*window), window)
		}
		assert.True(t, tp.known)
		assert.Equal(t, 0.0, tp.mean)
	})
	t.Run("each sample has half the weight", func(t *testing.T) {
		tp := advanced(deliver(1, mib, now))
		tp.advance(now.Add(window), window)
		assert.InDelta(t, 17.07/2, tp.mean, 0.005)
	})
	t.Run("starts at what the former owner measured", func(t *testing.T) {
		var tp throughput
		tp.seed(100)
		assert.Equal(t, 100.0, tp.mean)
		tp.add(now, 6000<<10) // 100 KiB/s for a minute
		assert.Equal(t, 100.0, advanced(&tp).mean)
	})
}

func TestThroughputWindowIsBounded(t *testing.T) {
	var tp throughput
	now := time.Now()
	for i := range 100_000 {
		tp.add(now.Add(time.Duration(i)*10*time.Microsecond), 1)
	}
	assert.LessOrEqual(t, len(tp.window), 1000)
	tp.advance(now.Add(time.Second), time.Minute)
	assert.InDelta(t, 100_000.0/1024/60, tp.mean, 1e-9)
}

func TestMailboxKeepsOrderAndAllowsReentry(t *testing.T) {
	var m mailbox
	var got []int
	m.post(func() {
		got = append(got, 1)
		m.post(func() { got = append(got, 3) })
		m.deliver() // returns at once: the outer call is delivering
		got = append(got, 2)
	})
	m.deliver()
	m.deliver()
	assert.Equal(t, []int{1, 2, 3}, got)
}
