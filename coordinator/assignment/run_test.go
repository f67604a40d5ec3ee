package assignment

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/lease"
)

func noHandOff(c *Config) { c.NoHandOff = true }

// What is written for each state of a lease, as it stands in the table.
func TestRunWrites(t *testing.T) {
	t.Run("an unowned lease", func(t *testing.T) {
		inCloud(t, func(t *testing.T, c *cloud) {
			c.create(lease.Lease{Key: "k"})
			c.reports("A")
			require.NoError(t, c.worker("A").leads().assigns())
			assert.Equal(t, "k:A", c.owners())
			assert.Equal(t, int64(1), c.get("k").Counter)
		})
	})
	t.Run("an expired lease of a dead worker", func(t *testing.T) { // lease-assignment-and-worker-metrics#28
		inCloud(t, func(t *testing.T, c *cloud) {
			c.create(lease.Lease{Key: "k", Owner: "X", Counter: 5})
			p := c.worker("A").leads()
			c.reports("A")
			require.NoError(t, p.assigns())
			time.Sleep(10 * time.Second)
			require.NoError(t, p.assigns())
			assert.Equal(t, "k:X", c.owners(), "as old as the failover time")
			time.Sleep(time.Millisecond)
			require.NoError(t, p.assigns())
			assert.Equal(t, "k:A", c.owners())
			l := c.get("k")
			assert.Equal(t, int64(6), l.Counter)
			assert.Equal(t, int64(1), l.OwnerSwitches)
		})
	})
	// lease-assignment-and-worker-metrics#32: and its deadline has not passed.
	// lease-assignment-and-worker-metrics#33: row R2, the holder is the target.
	for name, leaseOf := range map[string]lease.Lease{
		"an expired lease in hand-off":                       {Key: "k", Owner: "A", CheckpointOwner: "X", Counter: 5},
		"an expired lease in hand-off by the only worker":    {Key: "k", Owner: "X", CheckpointOwner: "A", Counter: 5},
		"an expired lease in hand-off between two that died": {Key: "k", Owner: "X", CheckpointOwner: "Y", Counter: 5},
	} {
		t.Run(name, func(t *testing.T) {
			inCloud(t, func(t *testing.T, c *cloud) {
				c.create(leaseOf)
				p := c.worker("A").leads()
				c.reports("A")
				require.NoError(t, p.assigns())
				time.Sleep(10*time.Second + time.Millisecond)
				require.NoError(t, p.assigns())
				c.reports("A") // in case that it is A's lease that expired
				require.NoError(t, p.assigns())
				assert.Equal(t, "k:A", c.owners())
				assert.Equal(t, int64(6), c.get("k").Counter)
			})
		})
	}

	balanced := func(t *testing.T, c *cloud, change ...func(*Config)) *peer {
		for _, key := range []string{"1", "2"} {
			c.create(lease.Lease{Key: key, Owner: "A", Counter: 4})
		}
		p := c.worker("A", change...).leads()
		c.reports("A", "B")
		require.NoError(t, p.assigns())
		assert.Equal(t, "1:A 2:A", c.owners(), "A may not have found them yet")
		c.renew("1")
		c.renew("2")
		require.NoError(t, p.assigns())
		return p
	}
	t.Run("a held lease, to balance", func(t *testing.T) { // lease-assignment-and-worker-metrics#34
		inCloud(t, func(t *testing.T, c *cloud) {
			p := balanced(t, c)
			assert.Equal(t, "1:B<A 2:A", c.owners())
			assert.Equal(t, int64(5), c.get("1").Counter)
			assert.Equal(t, []float64{0, 1}, p.figures("NumOfLeasesReassignment"))
			c.renew("1") // its owner still can

			// lease-assignment-and-worker-metrics#35
			writes := c.aws.Count("UpdateItem", "A/loop")
			for range 9 { // 36 s
				time.Sleep(4 * time.Second)
				c.renew("1")
				c.renew("2")
				c.reports("A", "B")
				require.NoError(t, p.assigns())
			}
			assert.Equal(t, writes, c.aws.Count("UpdateItem", "A/loop"))
			assert.Equal(t, "1:B<A 2:A", c.owners())

			// lease-assignment-and-worker-metrics#36, do better 17
			time.Sleep(4 * time.Second)
			c.renew("1")
			c.renew("2")
			before := c.get("1").Counter
			require.NoError(t, p.assigns())
			assert.Equal(t, "1:B 2:A", c.owners())
			assert.Equal(t, before+1, c.get("1").Counter)
		})
	})
	t.Run("a held lease, to balance, without hand-offs", func(t *testing.T) { // lease-assignment-and-worker-metrics#37
		inCloud(t, func(t *testing.T, c *cloud) {
			balanced(t, c, noHandOff)
			assert.Equal(t, "1:B 2:A", c.owners())
			l := c.get("1")
			assert.Equal(t, int64(6), l.Counter)
			assert.Equal(t, int64(1), l.OwnerSwitches)
		})
	})
	t.Run("an ended lease is not balanced", func(t *testing.T) { // do better 22
		inCloud(t, func(t *testing.T, c *cloud) {
			for _, key := range []string{"1", "2"} {
				c.create(lease.Lease{Key: key, Owner: "A", Counter: 5, Checkpoint: kcl.ShardEnd})
			}
			p := c.worker("A").leads()
			c.reports("A", "B")
			require.NoError(t, p.assigns())
			assert.Equal(t, "1:A 2:A", c.owners())
		})
	})
	t.Run("a decider that wants an ended lease moved", func(t *testing.T) { // lease-assignment-and-worker-metrics#37
		inCloud(t, func(t *testing.T, c *cloud) {
			c.create(lease.Lease{Key: "k", Owner: "A", Counter: 5, Checkpoint: kcl.ShardEnd})
			p := c.worker("A").leads()
			p.decide = func(View) Plan { return Plan{Balance: []Move{{0, "B"}}} }
			require.NoError(t, p.assigns())
			assert.Equal(t, "k:B", c.owners())
			assert.Equal(t, int64(6), c.get("k").Counter)
		})
	})
}

// What comes between the scan and the write wins.
func TestRaces(t *testing.T) {
	unowned := lease.Lease{Key: "k"}
	expired := lease.Lease{Key: "k", Owner: "X", Counter: 5}
	for _, tc := range []struct {
		name      string
		lease     lease.Lease
		meanwhile func(c *cloud)
		after     string
	}{
		{"another leader assigned it", unowned, func(c *cloud) { c.assign("k", "B") }, "k:B"},          // lease-assignment-and-worker-metrics#38
		{"it was deleted", unowned, func(c *cloud) { c.deleteLease("k") }, ""},                         // lease-assignment-and-worker-metrics#39
		{"its owner renewed it", expired, func(c *cloud) { c.renew("k") }, "k:X"},                      // ruling 4, do better 19
		{"another leader assigned the expired", expired, func(c *cloud) { c.assign("k", "B") }, "k:B"}, // lease-assignment-and-worker-metrics#38
	} {
		t.Run(tc.name, func(t *testing.T) {
			inCloud(t, func(t *testing.T, c *cloud) {
				c.create(tc.lease)
				p := c.worker("A").leads()
				if tc.lease.Owner != "" {
					require.NoError(t, p.assigns())
					time.Sleep(11 * time.Second)
				}
				c.reports("A")
				c.before("A/loop", "UpdateItem", func() { tc.meanwhile(c) })
				require.NoError(t, p.assigns())
				assert.Equal(t, tc.after, c.owners())
				assert.Equal(t, []float64{1}, p.figures("FailedAssignmentCount"))
			})
		})
	}

	// lease-assignment-and-worker-metrics#40
	t.Run("two leaders that saw the same", func(t *testing.T) {
		inCloud(t, func(t *testing.T, c *cloud) {
			a, b := c.worker("A"), c.worker("B")
			for name, l := range map[string]lease.Lease{
				"unowned": {Key: "unowned"}, "expired": {Key: "expired", Owner: "X", Counter: 5}, "held": {Key: "held", Owner: "X", Counter: 5},
				"overdue": {Key: "overdue", Owner: "X", CheckpointOwner: "Y", Counter: 5},
			} {
				c.create(l)
				seen := c.get(name)
				w := write{lease: seen, ifCounter: name == "expired", handOff: name == "held"}
				for i, p := range []*peer{a, b} {
					w.to = p.name
					done, err := p.write(t.Context(), []write{w})
					require.NoError(t, err)
					assert.Equal(t, i == 0, done == 1, "%s by %s", name, p.name)
				}
			}
			assert.Equal(t, "expired:A held:A<X overdue:A unowned:A", c.owners())
		})
	})
}

func (c *cloud) assign(key, to string) {
	c.T.Helper()
	_, ok, err := c.leases.Assign(c.T.Context(), c.get(key), to, false)
	require.NoError(c.T, err)
	require.True(c.T, ok)
}

func (c *cloud) deleteLease(key string) {
	c.T.Helper()
	require.NoError(c.T, c.leases.Delete(c.T.Context(), key))
}

func TestFailures(t *testing.T) {
	// lease-assignment-and-worker-metrics#25
	t.Run("a scan that fails once", func(t *testing.T) {
		inCloud(t, func(t *testing.T, c *cloud) {
			p := c.worker("A").leads()
			c.failing("A/loop", "Scan", 1)
			require.NoError(t, p.assigns())
			assert.Equal(t, 2, c.aws.Count("Scan", "A/loop"))
		})
	})
	t.Run("a scan that fails twice", func(t *testing.T) { // lease-assignment-and-worker-metrics#25
		inCloud(t, func(t *testing.T, c *cloud) {
			p := c.worker("A").leads()
			c.failing("A/loop", "Scan", 2)
			require.ErrorIs(t, p.assigns(), kcl.ErrDependency)
			assert.Equal(t, 2, c.aws.Count("Scan", "A/loop"))
		})
	})
	t.Run("one write that is throttled", func(t *testing.T) { // lease-assignment-and-worker-metrics#41
		inCloud(t, func(t *testing.T, c *cloud) {
			for _, key := range []string{"1", "2", "3"} {
				c.create(lease.Lease{Key: key})
			}
			c.reports("A")
			p := c.worker("A").leads()
			c.aws.Inject(kcltest.Fault{
				Clients: []string{"A/loop"}, Operations: []string{"UpdateItem"}, Times: 1, Effect: kcltest.Refuse, Code: "ThrottlingException",
			})
			err := p.assigns()
			require.ErrorIs(t, err, kcl.ErrThrottled)
			require.ErrorContains(t, err, "1 of 3 assignments failed")
			assert.Equal(t, 2, strings.Count(c.owners(), ":A"), "the others were made: %s", c.owners())
			assert.Equal(t, []float64{0}, p.figures("ParallelyAssignLeases.Success"))

			require.NoError(t, p.assigns())
			assert.Equal(t, "1:A 2:A 3:A", c.owners())
		})
	})
	t.Run("a lease that cannot be read", func(t *testing.T) { // lease-assignment-and-worker-metrics#26
		inCloud(t, func(t *testing.T, c *cloud) {
			c.create(lease.Lease{Key: "good"})
			c.Put(map[string]types.AttributeValue{"leaseKey": &types.AttributeValueMemberS{Value: "bad"}})
			c.reports("A")
			p := c.worker("A").leads()
			require.NoError(t, p.assigns())
			assert.Equal(t, "good:A", c.owners())
			assert.Equal(t, []float64{1}, p.figures("LeaseDeserializationFailureCount"))
		})
	})
	t.Run("a worker's record that cannot be read", func(t *testing.T) { // do better 8
		inCloud(t, func(t *testing.T, c *cloud) {
			c.create(lease.Lease{Key: "k"})
			c.Put(map[string]types.AttributeValue{
				"leaseKey": &types.AttributeValueMemberS{Value: "B"}, "entityType": &types.AttributeValueMemberS{Value: "WORKER_METRIC_STATS"},
				"lut": &types.AttributeValueMemberS{Value: "now"},
			})
			c.reports("C")
			p := c.worker("A").leads()
			require.NoError(t, p.assigns())
			assert.Equal(t, "k:C", c.owners())
			assert.Equal(t, []float64{1}, p.figures("NumWorkersWithInvalidEntry"))
		})
	})
	t.Run("no workers", func(t *testing.T) { // lease-assignment-and-worker-metrics#45
		inCloud(t, func(t *testing.T, c *cloud) {
			c.create(lease.Lease{Key: "k"})
			p := c.worker("A").leads()
			require.NoError(t, p.assigns())
			assert.Equal(t, "k:", c.owners())
			assert.Equal(t, []float64{1}, p.figures("LeaseSpillover"))
		})
	})
	t.Run("no leases", func(t *testing.T) { // lease-assignment-and-worker-metrics#46
		inCloud(t, func(t *testing.T, c *cloud) {
			c.reports("A")
			p := c.worker("A").leads()
			require.NoError(t, p.assigns())
			assert.Zero(t, c.aws.Count("UpdateItem", "A/loop"))
		})
	})
}

// lease-assignment-and-worker-metrics#18, do better 10
func TestStaleRecords(t *testing.T) {
	const day = 24 * time.Hour
	inCloud(t, func(t *testing.T, c *cloud) {
		c.reports("old", "again")
		c.Put(map[string]types.AttributeValue{
			"leaseKey": &types.AttributeValueMemberS{Value: "timeless"}, "entityType": &types.AttributeValueMemberS{Value: "WORKER_METRIC_STATS"},
		})
		time.Sleep(day + time.Second)
		p := c.worker("A").leads()
		c.reports("A")
		require.NoError(t, p.assigns())
		for _, id := range []string{"old", "again", "timeless", "A"} {
			assert.NotNil(t, c.Item(id), "%s: only just seen", id)
		}
		time.Sleep(time.Minute)
		c.failing("A/loop", "DeleteItem", 3)
		time.Sleep(time.Second)
		require.NoError(t, p.assigns(), "a deletion that fails is no failure")
		assert.NotNil(t, c.Item("old"))

		c.before("A/loop", "DeleteItem", func() { c.reports("again") }) // lease-assignment-and-worker-metrics#8
		require.NoError(t, p.assigns())
		assert.Nil(t, c.Item("old"))
		assert.Nil(t, c.Item("timeless"))
		assert.NotNil(t, c.Item("again"))
		assert.NotNil(t, c.Item("A"))
	})
}

func TestFigures(t *testing.T) {
	inCloud(t, func(t *testing.T, c *cloud) {
		c.create(lease.Lease{Key: "1"})
		c.create(lease.Lease{Key: "2", Owner: "A", Counter: 1})
		c.create(lease.Lease{Key: "3", Owner: "A", Counter: 1})
		c.reports("A")
		d := drains(report("D", 0))
		d.Updated = time.Unix(time.Now().Unix(), 0)
		require.NoError(t, c.records.Put(t.Context(), d))
		i := report("I", 0)
		i.Stats, i.Updated = map[string][]float64{"C": {1}}, d.Updated
		require.NoError(t, c.records.Put(t.Context(), i))

		p := c.worker("A", func(cfg *Config) { cfg.MaxLeases = 2 }).leads()
		require.NoError(t, p.assigns())
		for name, want := range map[string]float64{
			"TotalLeases": 3, "NumWorkers": 1, "ExpiredLeases": 1, "LeaseSpillover": 1, "NumOfLeasesReassignment": 0,
			"NumWorkersWithInvalidEntry": 1, "NumWorkersWithFailingWorkerMetric": 1,
			"LeaseAndWorkerMetricsLoad.Time": 0, "AssignExpiredOrUnassignedLeases.Time": 0, "BalanceWorkerVariance.Time": 0,
		} {
			assert.Equal(t, []float64{want}, p.figures(name), name)
		}
		p.measured.Reset()
		time.Sleep(2 * time.Second)
		require.NoError(t, p.assigns())
		assert.Empty(t, p.figures("NumOfLeasesReassignment"), "not a balancing run")
		for _, m := range p.measured.All() {
			assert.Equal(t, "LeaseAssignmentManager", m.Operation)
			assert.Empty(t, m.Dimensions)
		}
	})
}
