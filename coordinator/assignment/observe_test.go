package assignment

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/leader"
	"github.com/go-kcl/kcl/lease"
)

// Ruling 2: contenders watch the leases of a silent leader, so that who wins the
// lock knows in its first run that they are expired.
func TestSilentLeader(t *testing.T) {
	inCloud(t, func(t *testing.T, c *cloud) {
		for i := range 4 {
			c.create(lease.Lease{Key: fmt.Sprint(i)})
		}
		c.worker("A").works()
		time.Sleep(5 * time.Second)
		b := c.worker("B").works()
		time.Sleep(time.Minute)
		f, _ := c.fleet()
		require.Len(t, f["A"], 2)
		c.kill("A")
		for !b.leading() {
			time.Sleep(100 * time.Millisecond)
		}
		assert.Equal(t, 2, c.aws.Count("GetItem", "B/loop"), "single leases were read")
		assert.Equal(t, 1, c.aws.Count("Query", "B/loop"))
		// The lock expires 30 s after the last heartbeat, and B, which looks at it
		// every 10 s, has suspected A for at most 10 s less the jitter.
		time.Sleep(1200 * time.Millisecond)
		f, _ = c.fleet()
		assert.Len(t, f["B"], 4, "without another failover time")
	})
}

func (p *peer) leading() bool {
	_, ok := p.decider.Leading()
	return ok
}

func TestObserveIsBounded(t *testing.T) {
	inCloud(t, func(t *testing.T, c *cloud) {
		for i := range 130 {
			c.create(lease.Lease{Key: fmt.Sprintf("%03d", i), Owner: "X", Counter: 1})
		}
		p := c.worker("A")
		p.observe(t.Context(), "X")
		assert.Equal(t, 100, c.aws.Count("GetItem", "A/loop"))
		assert.Zero(t, c.aws.Count("Scan", "A/loop"))
		assert.Len(t, p.memory.leases, 100)
	})
}

func TestWatch(t *testing.T) {
	start := at(0)
	sees := func(name string, last float64) func() (leader.Sighting, bool) {
		return func() (leader.Sighting, bool) {
			return leader.Sighting{Leader: name, Duration: 30 * time.Second, Since: start, Last: at(last)}, true
		}
	}
	none := func() (leader.Sighting, bool) { return leader.Sighting{}, false }
	var w watch
	w = w.next(none, at(0), 10*time.Second)
	assert.Zero(t, w)
	w = w.next(sees("X", 14), at(14), 10*time.Second)
	assert.Zero(t, w, "not suspect yet")
	w = w.next(sees("X", 15), at(15), 10*time.Second)
	assert.Equal(t, "X", w.leader)
	assert.False(t, w.at.Before(at(15)))
	assert.True(t, w.at.Before(at(20)), "its leases need 10 s more to expire, and the lock does in 15")
	first := w.at
	w = w.next(sees("X", 16), at(16), 10*time.Second)
	assert.Equal(t, first, w.at, "once in a silence")
	w.at = time.Time{}
	assert.Zero(t, w.next(sees("X", 25), at(25), 10*time.Second).at)
	assert.NotZero(t, w.next(sees("Y", 25), at(25), 10*time.Second).at, "another leader")
	assert.Zero(t, w.next(none, at(26), 10*time.Second), "it is back")

	spread := map[time.Time]bool{}
	for range 20 {
		spread[watch{}.next(sees("X", 15), at(15), 10*time.Second).at] = true
	}
	assert.Greater(t, len(spread), 15, "contenders do not look all at once")
}
