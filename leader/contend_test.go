package leader

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/kcltest"
)

// leader-and-client-version-migration#1,3
func TestOneOfManyLeads(t *testing.T) {
	inWorld(t, kcltest.Options{Latency: 20 * time.Millisecond}, func(t *testing.T, w *world) {
		var workers []*worker
		for i := range 10 {
			workers = append(workers, w.start(fmt.Sprint("w", i)))
		}
		var leaders []string
		for _, x := range workers {
			term, leads, err := x.Ask(t.Context())
			require.NoError(t, err)
			if leads {
				leaders = append(leaders, x.name)
				assert.Equal(t, uint64(1), term.Number)
				assert.Equal(t, 30*time.Second, term.Duration)
			}
		}
		require.Len(t, leaders, 1)
		item := w.item()
		version := text(item, "recordVersionNumber")
		id, err := uuid.Parse(version)
		require.NoError(t, err)
		assert.Equal(t, uuid.Version(4), id.Version())
		assert.Equal(t, map[string]types.AttributeValue{
			"leaseKey": str("Leader"), "entityType": str("LEADER"), "ownerName": str(leaders[0]),
			"leaseDuration": str("30000"), "recordVersionNumber": str(version),
		}, item)
	})
}

// leader-and-client-version-migration#4
func TestKeyAttributeOfTheLegacyTable(t *testing.T) {
	inWorldOf(t, kcltest.Options{}, "key", func(t *testing.T, w *world) {
		x := w.start("go", func(c *Config) { c.KeyAttribute = "key" })
		_, leads, err := x.Ask(t.Context())
		require.NoError(t, err)
		require.True(t, leads)
		assert.Equal(t, "Leader", text(w.item(), "key"))
		time.Sleep(15 * time.Second) // a heartbeat
		require.True(t, x.leads())
		require.NoError(t, x.stop())
		assert.Nil(t, w.item())
	})
}

// leader-and-client-version-migration#2,5: what Java wrote, without entityType
// even, holds the lock, and the first sight proves nothing however old it is.
func TestStaleItemIsOutwaited(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.Put(w.javaLock("java", "v1", "200"))
		time.Sleep(time.Hour)
		x := w.start("go")
		_, leads, err := x.Ask(t.Context())
		require.NoError(t, err)
		require.False(t, leads)
		seen, ok := x.Seen()
		require.True(t, ok)
		assert.Equal(t, Sighting{Leader: "java", Duration: 200 * time.Millisecond, Since: seen.Since, Last: seen.Since}, seen)

		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		require.False(t, x.leads(), "exactly its duration")
		time.Sleep(2 * time.Nanosecond)
		synctest.Wait()
		require.True(t, x.leads())
		assert.Equal(t, "go", text(w.item(), "ownerName"))
		_, ok = x.Seen()
		assert.False(t, ok, "while leading")
	})
}

// leader-and-client-version-migration#6,7
func TestLiveItemIsNotTaken(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		x := w.start("go", times(10*time.Second, 3*time.Second)) // a shorter lock of its own changes nothing
		require.NoError(t, askErr(t, x))
		require.NoError(t, x.stop())
		w.Put(w.javaLock("java", "v0", "60000"))
		y := w.start("go2", times(10*time.Second, 3*time.Second))
		for i := range 20 {
			time.Sleep(59 * time.Second)
			require.False(t, y.leads())
			w.Put(w.javaLock("java", fmt.Sprint("v", i+1), "60000"))
		}
		assert.Zero(t, w.aws.Count("PutItem", "go2"))
		silentSince := time.Now()
		after := w.awaitLead(y, 2*time.Minute)
		assert.Greater(t, after, time.Minute)
		assert.LessOrEqual(t, time.Since(silentSince), time.Minute+4*time.Second)
	})
}

func askErr(t *testing.T, x *worker) error {
	t.Helper()
	_, _, err := x.Ask(t.Context())
	return err
}

// leader-and-client-version-migration#9
func TestOneOfTwoStealsAndTheOtherDoesNotSleep(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.Put(w.javaLock("java", "v1", "20000"))
		a, b := w.start("a"), w.start("b")
		require.NoError(t, askErr(t, a))
		require.NoError(t, askErr(t, b))
		// Hold both steals until both were sent.
		both := make(chan struct{})
		n := 0
		arrived := make(chan struct{}, 2)
		go func() {
			for range 2 {
				<-arrived
				n++
			}
			close(both)
		}()
		w.faults(func(_, operation string) fault {
			if operation != "PutItem" {
				return nil
			}
			return func(_ context.Context, run func() wire.Answer) (wire.Answer, error) {
				arrived <- struct{}{}
				<-both
				return run(), nil
			}
		})
		time.Sleep(20*time.Second + 1)
		synctest.Wait()
		assert.Equal(t, 2, n)
		assert.Equal(t, 1, w.aws.Count("PutItem", "a"))
		assert.Equal(t, 1, w.aws.Count("PutItem", "b"))
		require.NotEqual(t, a.leads(), b.leads())
		loser, winner := a, b
		if a.leads() {
			loser, winner = b, a
		}
		// The refused write has shown who leads now.
		seen, ok := loser.Seen()
		require.True(t, ok)
		assert.Equal(t, Sighting{Leader: winner.name, Duration: 30 * time.Second, Since: time.Now(), Last: time.Now()}, seen)
	})
}

// leader-and-client-version-migration#10
func TestReleasedItemIsTakenAtOnce(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		item := w.javaLock("java", "v1", "120000")
		item["isReleased"] = str("1")
		item["data"] = &types.AttributeValueMemberB{Value: []byte("x")}
		w.Put(item)
		x := w.start("go")
		_, leads, err := x.Ask(t.Context())
		require.NoError(t, err)
		require.True(t, leads)
		item = w.item()
		assert.Equal(t, "go", text(item, "ownerName"))
		assert.NotContains(t, item, "isReleased")
		assert.NotContains(t, item, "data")
	})
}

// leader-and-client-version-migration#18: memory is the process's, not the name's.
func TestRestartUnderTheSameName(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		old := w.start("go")
		require.NoError(t, askErr(t, old))
		w.cut("go") // killed
		require.Error(t, old.stop())
		w.heal()
		restarted := w.start("go")
		_, leads, err := restarted.Ask(t.Context())
		require.NoError(t, err)
		require.False(t, leads)
		after := w.awaitLead(restarted, time.Minute)
		assert.Greater(t, after, 30*time.Second)
		assert.Less(t, after, 32*time.Second)
	})
}

// The ruling in place of leader-and-client-version-migration#21: a contender
// looks at the pace of its heartbeats, whatever it is asked, and when the lock
// can expire; a true answer never outlives the term.
func TestContenderTimesItsLooks(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.Put(w.javaLock("java", "v1", "25000"))
		var looks []time.Duration
		began := time.Now()
		w.faults(func(client, operation string) fault {
			if client == "go" && operation == "GetItem" {
				looks = append(looks, time.Since(began))
			}
			return nil
		})
		x := w.start("go")
		for range 24_000 {
			_, leads, err := x.Ask(t.Context())
			require.NoError(t, err)
			require.False(t, leads)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		assert.True(t, x.leads())
		assert.Equal(t, []time.Duration{0, 10 * time.Second, 20 * time.Second, 25*time.Second + 1}, looks)
	})
}

// Java's idle contender costs 240 reads an hour, its leader 120 writes.
func TestCost(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		x := w.start("a")
		require.NoError(t, askErr(t, x))
		y := w.start("b")
		require.NoError(t, askErr(t, y))
		time.Sleep(time.Hour)
		assert.InDelta(t, 360, w.aws.Count("UpdateItem", "a"), 1)
		assert.Equal(t, 1, w.aws.Count("GetItem", "a"))
		assert.InDelta(t, 361, w.aws.Count("GetItem", "b"), 1)
		assert.Zero(t, w.aws.Count("PutItem", "b"))
	})
}

// A killed leader is replaced 30 to 40 s after its last heartbeat, and those
// who wait are told when to suspect it and when it was replaced.
func TestKilledLeaderIsReplaced(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		a := w.start("a")
		require.NoError(t, askErr(t, a))
		time.Sleep(3 * time.Second)
		b := w.start("b")
		require.NoError(t, askErr(t, b))
		time.Sleep(26 * time.Second)
		synctest.Wait()
		w.cut("a") // 9 s after a's last heartbeat
		killed := time.Now()

		for {
			<-b.Changed()
			s, ok := b.Seen()
			require.True(t, ok)
			if s.Suspect() {
				assert.Equal(t, "a", s.Leader)
				break
			}
		}
		suspected := time.Since(killed)
		<-b.Changed()
		synctest.Wait()
		require.True(t, b.leads())
		replaced := time.Since(killed)
		assert.Less(t, suspected, replaced-9*time.Second, "time to watch its leases for one failover")
		assert.Greater(t, replaced+9*time.Second, 30*time.Second)
		assert.LessOrEqual(t, replaced+9*time.Second, 41*time.Second)
		assert.Equal(t, 1, b.log.Count("INFO", "leader seen", "leader=a"))
		assert.Equal(t, 1, b.log.Count("INFO", "leadership won"))
	})
}

func TestSilentLockIsWarnedOf(t *testing.T) {
	inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
		w.Put(w.javaLock("java", "v1", "30000"))
		w.fail("", "PutItem", unavailable)
		x := w.start("go")
		time.Sleep(50 * time.Second)
		assert.Zero(t, x.log.Count("WARN", "twice its duration"))
		time.Sleep(10 * time.Minute)
		assert.Equal(t, 1, x.log.Count("WARN", "twice its duration", "leader=java"))
	})
}

// A put whose answer was lost is recognised by its version.
func TestLostAnswerOfAnAcquire(t *testing.T) {
	for name, tc := range map[string]struct {
		fault fault
		limit time.Duration
	}{
		"repeated by the SDK": {landed, time.Second},
		"never answered":      {landedSilently, 7 * time.Second}, // the call's bound, and the pause
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, kcltest.Options{}, func(t *testing.T, w *world) {
				n := 0
				w.faults(func(_, operation string) fault {
					if operation == "PutItem" {
						if n++; n == 1 {
							return tc.fault
						}
					}
					return nil
				})
				x := w.start("go")
				w.awaitLead(x, tc.limit)
				assert.Equal(t, "go", text(w.item(), "ownerName"))
				assert.Zero(t, x.log.Count("leader seen"), "it is not another's")
			})
		})
	}
}
