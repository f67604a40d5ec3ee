package assignment

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/lease"
)

// Ruling 7.
func TestHandOver(t *testing.T) {
	setUp := func(t *testing.T, c *cloud, change ...func(*Config)) *peer {
		for _, key := range []string{"1", "2", "3", "4"} {
			c.create(lease.Lease{Key: key, Owner: "L", Counter: 1})
		}
		c.create(lease.Lease{Key: "5", Owner: "A", Counter: 1})
		c.create(lease.Lease{Key: "6", Owner: "A", Counter: 1})
		p := c.worker("L", change...).leads()
		c.reports("L", "A", "B")
		d := drains(report("D", 0))
		d.Updated = time.Unix(time.Now().Unix(), 0)
		require.NoError(t, c.records.Put(t.Context(), d))
		return p
	}
	t.Run("to the live workers that do not drain", func(t *testing.T) {
		inCloud(t, func(t *testing.T, c *cloud) {
			p := setUp(t, c)
			n, err := p.HandOver(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 4, n)
			assert.Equal(t, "1:B<L 2:B<L 3:B<L 4:A<L 5:A 6:A", c.owners())
			c.create(lease.Lease{Key: "7"})
			require.NoError(t, p.assigns())
			assert.Equal(t, "1:B<L 2:B<L 3:B<L 4:A<L 5:A 6:A 7:A", c.owners(), "it gets no more itself")
		})
	})
	t.Run("what it was given and has not taken up, at once", func(t *testing.T) {
		inCloud(t, func(t *testing.T, c *cloud) {
			p := setUp(t, c, func(cfg *Config) { cfg.Holds = func(key string) bool { return key != "2" && key != "4" } })
			n, err := p.HandOver(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 4, n)
			assert.Equal(t, "1:B<L 2:B 3:B<L 4:A 5:A 6:A", c.owners(), "nobody would complete a hand-off of 2 and 4")
		})
	})
	t.Run("within the limit", func(t *testing.T) {
		inCloud(t, func(t *testing.T, c *cloud) {
			p := setUp(t, c, func(cfg *Config) { cfg.MaxLeases = 2 })
			n, err := p.HandOver(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 2, n)
			assert.Equal(t, "1:B<L 2:B<L 3:L 4:L 5:A 6:A", c.owners())
		})
	})
	t.Run("not without hand-offs", func(t *testing.T) {
		inCloud(t, func(t *testing.T, c *cloud) {
			n, err := setUp(t, c, noHandOff).HandOver(t.Context())
			require.NoError(t, err)
			assert.Zero(t, n)
		})
	})
	t.Run("not by a follower", func(t *testing.T) {
		inCloud(t, func(t *testing.T, c *cloud) {
			setUp(t, c)
			c.create(lease.Lease{Key: "7", Owner: "F", Counter: 1})
			f := c.worker("F")
			n, err := f.HandOver(t.Context())
			require.NoError(t, err)
			assert.Zero(t, n)
			assert.Zero(t, c.aws.Count("Scan", "F/loop"))
		})
	})
	t.Run("a write that fails is told", func(t *testing.T) {
		inCloud(t, func(t *testing.T, c *cloud) {
			p := setUp(t, c)
			c.failing("L/loop", "UpdateItem", 1)
			n, err := p.HandOver(t.Context())
			require.ErrorContains(t, err, "hand over leases: 1 of 4 assignments failed")
			assert.Equal(t, 3, n)
		})
	})
	t.Run("waits for a run", func(t *testing.T) {
		inCloud(t, func(t *testing.T, c *cloud) {
			p := setUp(t, c)
			var during int
			n := 0
			c.aws.Intercept(func(_ context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
				if i.Client == "L/loop" && i.Operation == "Scan" {
					n++
					during = max(during, n)
					time.Sleep(time.Second)
					n--
				}
				return run(), nil
			})
			var both sync.WaitGroup
			both.Go(func() { assert.NoError(t, p.assigns()) })
			both.Go(func() {
				_, err := p.HandOver(t.Context())
				assert.NoError(t, err)
			})
			both.Wait()
			assert.Equal(t, 1, during)
		})
	})
}

func TestHandOverPlan(t *testing.T) {
	v := setup{counts: []int{1, 3}, limit: 4, more: []Lease{
		held("a", "L"), held("b", "L"), held("c", "L"), held("d", "L"), held("e", "L"),
		ended(held("x", "L")), in(Pending, "p", "W1", "L", 0), in(Pending, "q", "L", "W1", 0), in(Unowned, "u", "", "", 0),
	}}.view()
	p := handOver(v, "L", ByCount)
	assert.Equal(t, "a→W1 b→W1 c→W2", moved(v, p.Balance), "W1 has one besides the one on its way")
	assert.Equal(t, 2, p.Spill)
	assert.Empty(t, p.Assign)
}

// A leader that was suspended has let its leases go, and to its own eyes still
// renews them: it does not ask itself to hand them over.
func TestBalancesOwnLeasesOnlyIfHeld(t *testing.T) {
	for _, holds := range []bool{true, false} {
		t.Run(fmt.Sprint("held: ", holds), func(t *testing.T) {
			inCloud(t, func(t *testing.T, c *cloud) {
				for _, key := range []string{"1", "2", "3", "4"} {
					c.create(lease.Lease{Key: key, Owner: "L", Counter: 1})
				}
				p := c.worker("L", func(cfg *Config) {
					cfg.Strategy, cfg.Holds = LeaseCountBased, func(string) bool { return holds }
				}).leads()
				c.reports("L")
				require.NoError(t, p.assigns())
				for _, key := range []string{"1", "2", "3", "4"} {
					c.renew(key)
				}
				c.reports("L", "B")
				time.Sleep(time.Second)
				require.NoError(t, p.assigns())
				if holds {
					assert.Equal(t, 2, strings.Count(c.owners(), "B<L"), c.owners())
					return
				}
				assert.Equal(t, "1:L 2:L 3:L 4:L", c.owners())
			})
		})
	}
}
