package assignment

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/leader"
	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/workermetrics"
)

func interval(d time.Duration) func(*Config) { return func(c *Config) { c.Interval = d } }

// lease-assignment-and-worker-metrics#19
func TestFollower(t *testing.T) {
	inCloud(t, func(t *testing.T, c *cloud) {
		c.create(lease.Lease{Key: "k"})
		c.worker("L").leads()
		c.reports("L", "F")
		f := c.worker("F").works()
		for range 600 {
			time.Sleep(time.Second)
			f.Poke("leases were created")
		}
		synctest.Wait()
		assert.Zero(t, c.aws.Count("Scan", "F/loop"))
		assert.Zero(t, c.aws.Count("UpdateItem", "F/loop"))
		assert.Equal(t, "k:", c.owners())
		for _, m := range f.measured.All() {
			assert.Contains(t, []string{"Success", "Time"}, m.Name)
		}
		success := f.figures("Success")
		assert.NotContains(t, success, 0.0)
		assert.InDelta(t, 11, len(success), 1, "once a minute")
	})
}

// A run takes place when the lock is won, then as often as its scans may cost,
// and when an event calls for one.
func TestTimesOfRuns(t *testing.T) {
	type when = []time.Duration
	runs := func(t *testing.T, c *cloud, client string) func() when {
		var mu sync.Mutex
		var out when
		start := time.Now()
		c.aws.Intercept(func(_ context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
			if i.Client == client && i.Operation == "Scan" {
				mu.Lock()
				out = append(out, time.Since(start))
				mu.Unlock()
			}
			return run(), nil
		})
		return func() when { mu.Lock(); defer mu.Unlock(); return out }
	}
	const s = time.Second
	for _, tc := range []struct {
		name   string
		change func(*Config)
		want   when
	}{
		// lease-assignment-and-worker-metrics#27 overruled.
		{"a small table", func(*Config) {}, when{0, 2 * s, 4 * s, 6 * s, 8 * s, 10 * s}},
		{"provisioned", func(cfg *Config) { cfg.Provisioned = true }, when{0}},
		{"explicit", interval(3 * s), when{0, 3 * s, 6 * s, 9 * s}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inCloud(t, func(t *testing.T, c *cloud) {
				seen := runs(t, c, "A/loop")
				c.worker("A", tc.change).works()
				time.Sleep(11 * s)
				assert.Equal(t, tc.want, seen())
			})
		})
	}
	t.Run("when a lease is about to expire", func(t *testing.T) {
		inCloud(t, func(t *testing.T, c *cloud) {
			c.create(lease.Lease{Key: "k", Owner: "X", Counter: 5})
			seen := runs(t, c, "A/loop")
			c.worker("A").works()
			time.Sleep(11 * s)
			assert.Equal(t, when{0, 2 * s, 4 * s, 6 * s, 8 * s, 10 * s, 10*s + s/10}, seen())
			assert.Equal(t, "k:A", c.owners())
		})
	})
	t.Run("at an event", func(t *testing.T) {
		inCloud(t, func(t *testing.T, c *cloud) {
			seen := runs(t, c, "A/loop")
			p := c.worker("A", interval(time.Hour)).works()
			time.Sleep(5 * s)
			c.create(lease.Lease{Key: "k"})
			for range 10 {
				p.Poke("leases were created")
			}
			time.Sleep(s / 2)
			assert.Equal(t, "k:A", c.owners(), "React at once")
			time.Sleep(5 * s)
			assert.LessOrEqual(t, len(seen()), 3, "of many pokes not every one is a scan")
		})
	})
	t.Run("not for a follower's event", func(t *testing.T) {
		inCloud(t, func(t *testing.T, c *cloud) {
			c.worker("L").leads()
			p := c.worker("A").works()
			p.Poke("leases were created")
			time.Sleep(5 * s)
			assert.Zero(t, c.aws.Count("Scan", "A/loop"))
		})
	})
}

// The time between a worker's start on a fresh table and the first assignment.
func TestFirstRun(t *testing.T) {
	inCloud(t, func(t *testing.T, c *cloud) {
		c.create(lease.Lease{Key: "1"})
		c.create(lease.Lease{Key: "2"})
		c.worker("A").works()
		time.Sleep(time.Second)
		assert.Equal(t, "1:A 2:A", c.owners(), "do better 25")
		c.worker("B").works()
		time.Sleep(4 * time.Second)
		assert.Equal(t, "1:B 2:A", c.owners(), "a worker without leases is balanced at once")
	})
}

// lease-assignment-and-worker-metrics#55: a crashed worker whose record is still
// fresh gets none of its leases back.
func TestCrash(t *testing.T) {
	inCloud(t, func(t *testing.T, c *cloud) {
		for i := range 9 {
			c.create(lease.Lease{Key: fmt.Sprint(i)})
		}
		c.worker("A").works()
		time.Sleep(time.Second) // A leads
		b := c.worker("B").works()
		c.worker("C").works()
		time.Sleep(time.Minute)
		f, ok := c.fleet()
		require.True(t, ok)
		require.Len(t, f["B"], 3, c.owners())
		c.kill("B")
		crashed := time.Now()
		for time.Since(crashed) < 30*time.Second {
			if f, _ = c.fleet(); len(f["B"]) == 0 {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		assert.Less(t, time.Since(crashed), 15*time.Second)
		assert.Empty(t, f["B"])
		assert.Len(t, f["A"], 5-len(f["C"])%2)
		b.stop()
	})
}

// fleet says who owns what by the table.
func (c *cloud) fleet() (byWorker map[string][]string, ok bool) {
	c.T.Helper()
	all, err := c.leases.List(c.T.Context())
	require.NoError(c.T, err)
	byWorker = map[string][]string{}
	for _, l := range all {
		byWorker[l.ActualOwner()] = append(byWorker[l.ActualOwner()], l.Key)
	}
	return byWorker, len(all) > 0
}

// Overrules lease-assignment-and-worker-metrics#21: leadership is given up after
// three failing runs in a row that span the lock's duration. Ruling 10.
func TestFailingRuns(t *testing.T) {
	inCloud(t, func(t *testing.T, c *cloud) {
		a := c.worker("A").works()
		time.Sleep(time.Second)
		require.True(t, a.leading())
		failing := func(ok func(n int) bool) {
			n := 0
			c.aws.Intercept(func(_ context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
				if i.Client == "A/loop" && i.Operation == "Scan" {
					if n++; !ok(n) {
						return wire.Answer{}, errBroken
					}
				}
				return run(), nil
			})
		}
		failing(func(n int) bool { return n%11 == 0 }) // five runs in a row fail at two scans each, then one succeeds
		time.Sleep(5 * time.Minute)
		assert.True(t, a.leading(), "a success in between starts the count anew")
		assert.Empty(t, a.figures("ForceLeaderRelease"))

		b := c.worker("B").works()
		failing(func(int) bool { return false })
		time.Sleep(28 * time.Second)
		assert.True(t, a.leading())
		time.Sleep(7 * time.Second)
		assert.False(t, a.leading())
		assert.Equal(t, []float64{1}, a.figures("ForceLeaderRelease"))
		time.Sleep(12 * time.Second)
		assert.True(t, b.leading())
	})
}

// lease-assignment-and-worker-metrics#22
func TestPanic(t *testing.T) {
	inCloud(t, func(t *testing.T, c *cloud) {
		c.create(lease.Lease{Key: "k"})
		panics := 1
		a := c.worker("A")
		a.decide = func(v View) Plan {
			if panics > 0 {
				panics--
				panic("bad plan")
			}
			return ByCount(v)
		}
		a.works()
		time.Sleep(time.Second)
		assert.False(t, a.leading(), "at once")
		assert.Equal(t, []float64{1}, a.figures("ForceLeaderRelease"))
		time.Sleep(time.Minute)
		assert.True(t, a.leading())
		assert.Equal(t, "k:A", c.owners(), "the next run works")
	})
}

// A panic in a write fails the run too, and no more.
func TestPanicInAWrite(t *testing.T) {
	inCloud(t, func(t *testing.T, c *cloud) {
		c.create(lease.Lease{Key: "k"})
		c.reports("A")
		p := c.worker("A").leads()
		p.memory.leases = nil
		leases := p.cfg.Leases
		p.cfg.Leases = nil
		_, err := p.write(t.Context(), []write{{lease: c.get("k"), to: "A"}})
		assert.ErrorIs(t, err, leader.ErrPanic)
		p.cfg.Leases = leases
		require.NoError(t, p.assigns())
		assert.Equal(t, "k:A", c.owners())
	})
}

// lease-assignment-and-worker-metrics#23, single-table-migration#73,74
func TestStopDuringARun(t *testing.T) {
	inCloud(t, func(t *testing.T, c *cloud) {
		c.create(lease.Lease{Key: "1"})
		c.create(lease.Lease{Key: "2"})
		a := c.worker("A", interval(time.Second)).lives().contends()
		hang := c.aws.Inject(kcltest.Fault{Clients: []string{"A/loop"}, Operations: []string{"Scan"}, Effect: kcltest.Hang})
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { a.Loop.Run(ctx) })
		for hang.Hits() == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
		done.Wait()
		assert.NotContains(t, a.figures("Success"), 0.0)
		assert.True(t, a.leading())
		hang.Remove()
		scans := c.aws.Count("Scan", "A/loop")
		time.Sleep(time.Minute)
		assert.Equal(t, scans, c.aws.Count("Scan", "A/loop"), "no further run")

		a.goes(a.Loop.Run)
		time.Sleep(10 * time.Millisecond)
		assert.Equal(t, "1:A 2:A", c.owners())
		assert.Equal(t, []float64{0}, a.figures("NumOfLeasesReassignment"), "the first run balances")
	})
}

// Ruling 5: what a leader calls ends before its term.
func TestRunsEndWithTheTerm(t *testing.T) {
	inCloud(t, func(t *testing.T, c *cloud) {
		a := c.worker("A").leads()
		term, _ := a.decider.Leading()
		c.aws.Inject(kcltest.Fault{Clients: []string{"A/loop"}, Effect: kcltest.Hang})        // its scans
		c.aws.Inject(kcltest.Fault{Operations: []string{"UpdateItem"}, Effect: kcltest.Hang}) // its heartbeats
		err := a.assigns()
		assert.ErrorIs(t, err, leader.ErrTermOver)
		assert.True(t, term.Over())
		assert.LessOrEqual(t, time.Since(term.Until), time.Millisecond)
		assert.False(t, a.course.failures.Count(term, term.Began, time.Now(), err))
		assert.Zero(t, a.course.failures.Failed())
	})
}

// What others of this worker are told, so that they need neither scan nor wait.
func TestTells(t *testing.T) {
	inCloud(t, func(t *testing.T, c *cloud) {
		for _, key := range []string{"1", "2", "3"} {
			c.create(lease.Lease{Key: key})
		}
		c.create(lease.Lease{Key: "4", Owner: "B", CheckpointOwner: "A", Counter: 1})
		c.reports("A", "B")
		var (
			mu        sync.Mutex
			assigned  []string
			scanned   []int
			reporting []string
		)
		p := c.worker("A", func(cfg *Config) {
			cfg.Assigned = func(key string) {
				mu.Lock()
				defer mu.Unlock()
				assigned = append(assigned, key)
			}
			cfg.Scanned = func(term leader.Term, s Scanned) {
				assert.False(t, term.Over())
				scanned = append(scanned, len(s.Leases))
				for _, w := range s.Workers {
					reporting = append(reporting, w.Worker)
					assert.True(t, w.Sighting.Alive(time.Now(), workermetrics.DefaultPeriod))
				}
				assert.False(t, s.At.After(s.Since))
			}
		}).leads()
		require.NoError(t, p.assigns())
		assert.Equal(t, "1:A 2:A 3:B 4:B<A", c.owners())
		assert.ElementsMatch(t, []string{"1", "2"}, assigned)
		assert.Equal(t, []int{4}, scanned)
		assert.Equal(t, []string{"A", "B"}, reporting)
	})
}

func TestNewNamesAllFaults(t *testing.T) {
	_, err := New(Config{FailoverTime: -1, MaxLeases: -1, Interval: -time.Second, Strategy: "RANDOM", Load: Load{Dampening: 200}})
	require.Error(t, err)
	for _, want := range []string{
		"Leases is missing", "Workers is missing", "Leader is missing", "Worker is missing",
		"FailoverTime is -1ns, must not be negative", "Interval is -1s, must not be negative", "MaxLeases is -1, must not be negative",
		`Strategy is "RANDOM", must be WORKER_UTILIZATION_AWARE or LEASE_COUNT_BASED`, "Load.Dampening is 200, must be above 0 and at most 100",
	} {
		assert.ErrorContains(t, err, want)
	}
}

// Do better 24.
func TestWarnsOfAnotherStrategy(t *testing.T) {
	for strategy, want := range map[Strategy]int{LeaseCountBased: 1, WorkerUtilizationAware: 0} {
		t.Run(string(strategy), func(t *testing.T) {
			inCloud(t, func(t *testing.T, c *cloud) {
				p := c.worker("A", func(cfg *Config) { cfg.Strategy = strategy })
				var log bytes.Buffer
				p.log = slog.New(slog.NewTextHandler(&log, nil))
				p.leads()
				c.reports("A")
				c.loaded("J", 50)
				for range 3 {
					require.NoError(t, p.assigns())
				}
				assert.Equal(t, want, strings.Count(log.String(), "this leader assigns by number of leases"))
			})
		})
	}
}

// loaded has a worker report that load of its processor.
func (c *cloud) loaded(worker string, percent float64) {
	c.T.Helper()
	r := workermetrics.Record{Worker: worker, Updated: time.Unix(time.Now().Unix(), 0), Load: workermetrics.Load{
		Stats: map[string][]float64{workermetrics.CPU: {percent}}, OperatingRange: map[string][]int64{workermetrics.CPU: {100}},
	}}
	require.NoError(c.T, c.records.Put(c.T.Context(), r))
}

// What workers report and what owners write of their leases' throughput decides,
// and what has just been given counts in the next run, seconds later.
func TestAssignsByLoad(t *testing.T) {
	inCloud(t, func(t *testing.T, c *cloud) {
		p := c.worker("A").leads()
		for worker, percent := range map[string]float64{"A": 80, "B": 40, "C": 60} {
			c.loaded(worker, percent)
		}
		for key, owner := range map[string]string{"1": "A", "2": "A", "3": "B", "4": "B", "5": "C", "6": "C"} {
			c.create(lease.Lease{Key: key, Owner: owner, Counter: 1})
		}
		for i, key := range []string{"7", "8", "9"} {
			c.create(lease.Lease{Key: key})
			require.NoError(t, p.assigns())
			time.Sleep(2 * time.Second)
			assert.Equal(t, []string{"B", "C", "B"}[i], c.get(key).Owner)
		}
	})
}
