package singletable

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/coordinator"
	"github.com/go-kcl/kcl/internal/entity"
	"github.com/go-kcl/kcl/internal/testbed"
	"github.com/go-kcl/kcl/kcltest"
)

// player is a worker's Machine, led by the test's hand.
type player struct {
	*Machine
	w        *world
	name     string
	figures  testbed.Figures
	lines    testbed.Log
	number   uint64
	endTerm  context.CancelFunc
	stop     context.CancelFunc
	done     chan error
	released []map[string]types.AttributeValue // of a completed migration; to be read once Run has ended
	freed    atomic.Int64                      // otherwise
}

func (w *world) play(name string, migrate bool) *player {
	w.t.Helper()
	p := &player{w: w, name: name, done: make(chan error, 1), endTerm: func() {}}
	var err error
	p.Machine, err = NewMachine(MachineConfig{
		Config: Config{Worker: name, MigrateAllEntitiesToLeaseTable: migrate}, Tables: w.tables(name), Metrics: &p.figures, Logger: testbed.Logger(&p.lines),
		NewLock: func() map[string]types.AttributeValue {
			return item{"ownerName": str(name), "leaseDuration": str("30000"), "recordVersionNumber": str("new")}
		},
		Release: func(completed bool, took map[string]types.AttributeValue) {
			if !completed {
				p.freed.Add(1)
				return
			}
			p.released = append(p.released, took)
		},
	})
	require.NoError(w.t, err)
	_, err = p.Start(w.t.Context(), false)
	require.NoError(w.t, err)
	ctx, stop := context.WithCancel(w.t.Context())
	p.stop = stop
	go func() { p.done <- p.Run(ctx) }()
	return p
}

// lead gives the worker the lock.
func (p *player) lead() {
	p.w.leader(p.name)
	p.number++
	ctx, end := context.WithCancel(p.w.t.Context())
	p.endTerm = end
	p.Lead(ctx, p.number)
}

func (p *player) follow() {
	p.endTerm()
	p.Follow()
}

func (p *player) leave() {
	p.w.t.Helper()
	p.stop()
	require.NoError(p.w.t, <-p.done)
	p.follow()
}

// know tells what an assignment run saw now.
func (p *player) know(s Summary) {
	s.At, s.Term, s.Since = time.Now(), p.number, time.Now().Add(-time.Hour)
	p.Know(s)
}

// live lets time pass with an assignment run every 20 s.
func (p *player) live(d time.Duration, s Summary) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Second) {
		p.know(s)
	}
}

// fresh are the tables of 3.4: no state, and records that have aged.
func (w *world) fresh() {
	w.legacy.Delete(coordinator.TableMigrationKey)
	w.record.Delete("C")
	w.record.Delete("D")
}

// The whole life, by one worker: single-table-migration#22,23,32,35.
func TestLife(t *testing.T) {
	inWorld(t, "init", func(t *testing.T, w *world) {
		w.fresh()
		a := w.play("a", false)
		assert.Equal(t, Init, a.Status())
		a.lead()
		assert.False(t, a.Leads(1), "it has not read yet")
		time.Sleep(time.Second)
		assert.True(t, a.Leads(1))
		assert.Equal(t, "the fleet is not known yet", a.Report().Waits)
		a.live(time.Minute, allNew)
		began := w.stored()
		assert.Equal(t, Init, began.Value)
		a.live(time.Hour, allNew)
		assert.Equal(t, Deployed, w.stored().Value)
		assert.Equal(t, time.Hour, w.stored().At.Sub(began.At).Round(time.Second))
		assert.Equal(t, Deployed, a.Status())
		assert.Equal(t, Init, a.Started())
		a.leave()

		a = w.play("a", true)
		assert.Equal(t, Pending, a.Status())
		a.lead()
		a.live(time.Minute, drained)
		assert.Equal(t, Pending, w.stored().Value)
		assert.NotNil(t, w.lease.Item(coordinator.ClientVersionKey))
		assert.Nil(t, w.legacy.Item(coordinator.ClientVersionKey))
		w.aws.ResetCalls()
		a.live(12*time.Hour, drained)
		assert.InDelta(t, 12*60, w.aws.Count("GetItem", "a"), 3, "a read a minute")
		assert.InDelta(t, 12*12*2, w.aws.Count("Scan", "a"), 6, "a look at both tables every five")
		assert.Contains(t, a.Report().Waits, "nothing is left in the legacy tables; it is left so until ")
		assert.WithinDuration(t, w.stored().At, a.Report().Since, time.Minute, "however often it has looked since")
		a.live(12*time.Hour, drained)
		require.NoError(t, <-a.done)
		assert.Equal(t, Complete, w.stored().Value)
		assert.Equal(t, Complete, a.Status())
		assert.False(t, a.Leads(1))
		assert.Equal(t, []map[string]types.AttributeValue{{"ownerName": str("a"), "leaseDuration": str("30000"), "recordVersionNumber": str("new")}}, a.released)
		assert.Equal(t, str("a"), w.lease.Item(lockKey)["ownerName"])
		assert.Equal(t, Report{Stored: Complete, Local: Complete, Row: "X2", Since: a.Report().Since}, a.Report())
	})
}

// single-table-migration#87: leaders that come and go, each without knowledge of
// the fleet at first, and owners that have just gone, do not restart the bake.
func TestBakeOutlivesLeaders(t *testing.T) {
	inWorld(t, "init", func(t *testing.T, w *world) {
		w.fresh()
		w.leader("x")
		began := coordinator.FreshTableMigration(Init, "x", time.Now())
		w.setStored(began)
		for i := range 6 {
			p := w.play(fmt.Sprint("w", i), false)
			p.lead()
			time.Sleep(40 * time.Second)
			p.live(40*time.Second, departed)
			p.live(8*time.Minute, allNew)
			assert.Equal(t, began, w.stored())
			p.leave()
		}
		p := w.play("last", false)
		p.lead()
		p.live(5*time.Minute, allNew)
		p.leave()
		assert.Equal(t, Deployed, w.stored().Value)
		assert.Equal(t, time.Hour, w.stored().At.Sub(began.At).Round(time.Second))
	})
}

// single-table-migration#25,33: what shows that somebody is old undoes it.
func TestEvidenceUndoes(t *testing.T) {
	inWorld(t, "init", func(t *testing.T, w *world) {
		w.fresh()
		a := w.play("a", false)
		a.lead()
		a.live(time.Minute, allNew)
		require.Equal(t, Init, w.stored().Value)
		a.live(time.Minute, oneOld)
		assert.Nil(t, w.legacy.Item(coordinator.TableMigrationKey))
		a.leave()

		w.setStored(coordinator.FreshTableMigration(Pending, "x", time.Now()))
		w.lease.Put(moved(w.legacy.Item(coordinator.ClientVersionKey)))
		w.legacy.Delete(coordinator.ClientVersionKey)
		b := w.play("b", true)
		b.lead()
		b.live(time.Minute, drained)
		require.Equal(t, Pending, w.stored().Value)
		b.live(time.Minute, oneLegacy)
		assert.Equal(t, Deployed, w.stored().Value)
		assert.Equal(t, Pending, b.Status())
		b.live(time.Minute, drained)
		assert.Equal(t, Pending, w.stored().Value)
		assert.Less(t, time.Since(w.stored().At), time.Minute)
		b.leave()
	})
}

// single-table-migration#27,38: a follower writes nothing, learns what is stored,
// and is told of COMPLETE.
func TestFollower(t *testing.T) {
	inWorld(t, "init", func(t *testing.T, w *world) {
		w.fresh()
		p := w.play("p", false)
		p.Know(allNew)
		for _, s := range []Status{Deployed, Pending, Complete} {
			w.setStored(coordinator.FreshTableMigration(s, "x", time.Now()))
			before := w.dump()
			time.Sleep(31 * time.Second)
			assert.Equal(t, before, w.dump())
			assert.Equal(t, s, p.Report().Stored)
		}
		require.NoError(t, <-p.done)
		assert.Equal(t, Complete, p.Status())
		assert.Equal(t, []map[string]types.AttributeValue{nil}, p.released)
		assert.Empty(t, p.figures.Values(Operation, "StatusOrdinal"))
	})
}

// The winner of the lock that the one who completed the migration has left does
// not act by it.
func TestWinnerOfAnAbandonedLock(t *testing.T) {
	inWorld(t, "pending", func(t *testing.T, w *world) {
		p := w.play("p", true)
		time.Sleep(time.Second) // it has read PENDING
		w.setStored(w.stored().To(Complete, "x", time.Now()))
		p.lead()
		for range 100 {
			assert.False(t, p.Leads(p.number))
			time.Sleep(10 * time.Millisecond)
		}
		require.NoError(t, <-p.done)
		assert.Equal(t, []map[string]types.AttributeValue{nil}, p.released)
	})
}

// single-table-migration#37: the lock of a completion whose answer was lost is
// handed on.
func TestCompletionWhoseAnswerIsLost(t *testing.T) {
	inWorld(t, "pending", func(t *testing.T, w *world) {
		w.record.Delete("C")
		w.record.Delete("D")
		w.setStored(coordinator.FreshTableMigration(Pending, "x", time.Now().Add(-25*time.Hour)))
		w.inject("p", kcltest.Fault{Operations: []string{"TransactWriteItems"}, Effect: kcltest.LoseAnswer})
		p := w.play("p", true)
		p.lead()
		p.live(time.Minute, drained)
		require.NoError(t, <-p.done)
		assert.Equal(t, Complete, w.stored().Value)
		assert.Equal(t, []map[string]types.AttributeValue{{"ownerName": str("p"), "leaseDuration": str("30000"), "recordVersionNumber": str("new")}}, p.released)
	})
}

// A stop right after it hands that lock on, too: nobody else would free it.
func TestStopAfterALostCompletion(t *testing.T) {
	for _, landed := range []bool{true, false} {
		inWorld(t, "pending", func(t *testing.T, w *world) {
			w.record.Delete("C")
			w.record.Delete("D")
			w.setStored(coordinator.FreshTableMigration(Pending, "x", time.Now().Add(-25*time.Hour)))
			effect := kcltest.Break
			if landed {
				effect = kcltest.LoseAnswer
			}
			fault := w.inject("p", kcltest.Fault{Operations: []string{"TransactWriteItems"}, Effect: effect})
			p := w.play("p", true)
			p.lead()
			for fault.Hits() == 0 {
				p.know(drained)
				time.Sleep(10 * time.Millisecond)
			}
			p.stop() // while it waits for the answer
			require.NoError(t, <-p.done)
			if landed {
				assert.Equal(t, Complete, w.stored().Value)
				assert.Len(t, p.released, 1)
				assert.Equal(t, str("new"), p.released[0]["recordVersionNumber"])
				assert.Equal(t, Complete, p.Status())
			} else {
				assert.Equal(t, Pending, w.stored().Value)
				assert.Empty(t, p.released)
				assert.Equal(t, Pending, p.Status())
			}
			p.follow()
		})
	}
}

// single-table-migration#40: a leader that cannot read does not act, keeps the
// lock for a while, and goes on once it can.
func TestReadsFail(t *testing.T) {
	inWorld(t, "deployed", func(t *testing.T, w *world) {
		fault := w.inject("p", kcltest.Fault{Operations: []string{"GetItem"}, Resources: []string{"app3-CoordinatorState"}, Skip: 2, Effect: kcltest.Refuse, Code: "InternalServerError"})
		p := w.play("p", false)
		time.Sleep(time.Second)
		p.lead()
		time.Sleep(10 * time.Second)
		assert.False(t, p.Leads(1))
		assert.Zero(t, p.freed.Load())
		time.Sleep(20 * time.Second)
		assert.NotZero(t, p.freed.Load())
		assert.Equal(t, "the state cannot be read", p.Report().Waits)
		fault.Remove()
		time.Sleep(20 * time.Second)
		assert.True(t, p.Leads(1))
		// One that has read goes on through a failed look for news.
		w.inject("p", kcltest.Fault{Operations: []string{"GetItem"}, Effect: kcltest.Refuse, Code: "InternalServerError", For: 10 * time.Minute})
		w.aws.ResetCalls()
		time.Sleep(5 * time.Minute)
		assert.True(t, p.Leads(1))
		assert.LessOrEqual(t, w.aws.Count("GetItem", "p"), 5*3, "a read a minute, by three attempts of the SDK")
		p.leave()
	})
}

// single-table-migration#47,48,50: the move has a goroutine of its own; a stop, or
// the end of the term, ends it, and nothing is written afterwards.
func TestMoveEndsWithTheTerm(t *testing.T) {
	for _, end := range []string{"stop", "follow", "not drained"} {
		inWorld(t, "deployed", func(t *testing.T, w *world) {
			w.record.Delete("C")
			w.record.Delete("D")
			for i := range 59 {
				w.legacy.Put(streamItem(i))
			}
			p := w.play("p", true)
			w.inject("p", kcltest.Fault{Operations: []string{"TransactWriteItems"}, Effect: kcltest.Slow, Delay: 5 * time.Second})
			p.lead()
			time.Sleep(time.Second)
			p.know(drained)
			time.Sleep(6 * time.Second) // the second batch is on its way
			assert.Equal(t, 25, w.count(w.lease))
			assert.True(t, p.Leads(1), "the worker leads all the while")
			switch end {
			case "stop":
				began := time.Now()
				p.stop()
				p.stop()
				require.NoError(t, <-p.done) // the term goes on
				assert.Less(t, time.Since(began), time.Second)
			case "follow":
				p.follow()
			case "not drained": // single-table-migration#29
				p.know(oneLegacy)
			}
			synctest.Wait()
			sent := w.aws.Count("TransactWriteItems", "p")
			time.Sleep(time.Minute)
			assert.Equal(t, sent, w.aws.Count("TransactWriteItems", "p"), end)
			assert.Equal(t, 25, w.count(w.lease), end)
			if end != "stop" {
				p.leave()
			}
			p.follow()
		})
	}
}

// What stands in the way is named, and is no reason for a storm of calls.
func TestObstacle(t *testing.T) {
	inWorld(t, "pending", func(t *testing.T, w *world) {
		w.record.Delete("C")
		w.record.Delete("D")
		w.setStored(coordinator.FreshTableMigration(Pending, "x", time.Now().Add(-25*time.Hour)))
		w.lease.Put(w.stored().Item().Encode("leaseKey"))
		p := w.play("p", true)
		p.lead()
		p.live(10*time.Minute, drained)
		assert.LessOrEqual(t, w.aws.Count("TransactWriteItems", "p"), 11)
		w.lease.Delete(coordinator.TableMigrationKey)
		p.live(2*time.Minute, drained)
		assert.Equal(t, Complete, w.stored().Value)
	})
}

func TestRunBeforeTheStart(t *testing.T) {
	m, err := NewMachine(MachineConfig{Tables: testTables(nil, "a")})
	require.NoError(t, err)
	assert.ErrorIs(t, m.Run(t.Context()), ErrNotStarted) // single-table-migration#17,41
	_, err = NewMachine(MachineConfig{Config: Config{CompleteBake: time.Second}})
	assert.Error(t, err)
}

// single-table-migration#17,18,19: a start may be tried again, and once it has
// succeeded it is a no-op.
func TestStartAgain(t *testing.T) {
	inWorld(t, "init", func(t *testing.T, w *world) {
		m, err := NewMachine(MachineConfig{Config: Config{Worker: "a", MigrateAllEntitiesToLeaseTable: true}, Tables: w.tables("a")})
		require.NoError(t, err)
		for range 3 {
			_, err = m.Start(t.Context(), false)
			require.ErrorIs(t, err, ErrTooEarly)
			assert.Equal(t, Unknown, m.Status())
		}
		fault := w.inject("a", kcltest.Fault{Operations: []string{"DescribeTable"}, Effect: kcltest.Refuse, Code: "InternalServerError"})
		_, err = m.Start(t.Context(), false)
		require.Error(t, err)
		fault.Remove()
		w.setStored(w.stored().To(Deployed, "x", time.Now()))
		s, err := m.Start(t.Context(), false)
		require.NoError(t, err)
		assert.Equal(t, Pending, s)
		w.aws.ResetCalls()
		s, err = m.Start(t.Context(), false)
		require.NoError(t, err)
		assert.Equal(t, Pending, s)
		assert.Zero(t, w.aws.Count("GetItem", "a")+w.aws.Count("DescribeTable", "a"))
	})
}

// single-table-migration#20: the worker's own status is unknown before its start,
// set by the first start alone, and may be asked for at any time.
func TestStatusOfAWorker(t *testing.T) {
	inWorld(t, "deployed", func(t *testing.T, w *world) {
		m, err := NewMachine(MachineConfig{Config: Config{Worker: "a", MigrateAllEntitiesToLeaseTable: true}, Tables: w.tables("a")})
		require.NoError(t, err)
		assert.Equal(t, Unknown, m.Status())
		assert.Equal(t, Unknown, m.Started())
		results := make(chan Status)
		for range 4 {
			go func() {
				_ = m.Report()
				s, _ := m.Start(t.Context(), false)
				results <- s
			}()
		}
		for range 4 {
			assert.Equal(t, Pending, <-results)
		}
		w.setStored(coordinator.FreshTableMigration(Complete, "x", time.Now()))
		s, err := m.Start(t.Context(), false)
		require.NoError(t, err)
		assert.Equal(t, Pending, s)
		require.NoError(t, m.Run(t.Context()))
		assert.Equal(t, Complete, m.Status())
		assert.Equal(t, Pending, m.Started())
	})
}

// What is stored is told of a worker that needs not read it any more, too: only an
// application that never had other tables has nothing stored.
func TestStoredOnceComplete(t *testing.T) {
	complete := coordinator.FreshTableMigration(Complete, "x", time.Now()).Item()
	for name, tc := range map[string]struct {
		set    func(w *world)
		gone   bool // only after the start
		stored Status
	}{
		"in the legacy table":               {set: func(w *world) { w.legacy.Put(complete.Encode(coordinator.LegacyKey)) }, stored: Complete},
		"in the lease table":                {set: func(w *world) { w.lease.Put(complete.Encode(entity.LeaseTableKey)) }, stored: Complete},
		"in the lease table, and then gone": {set: func(w *world) { w.lease.Put(complete.Encode(entity.LeaseTableKey)); w.drop() }, gone: true, stored: Complete},
		"nowhere":                           {set: (*world).drop},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, "pending", func(t *testing.T, w *world) {
				if !tc.gone {
					tc.set(w)
				}
				p := w.play("p", false)
				assert.Equal(t, tc.stored == Complete && !tc.gone, p.Report().Stored == Complete)
				if tc.gone {
					tc.set(w)
				}
				time.Sleep(time.Minute)
				assert.Equal(t, Complete, p.Report().Local)
				assert.Equal(t, tc.stored, p.Report().Stored)
				p.leave()
			})
		})
	}
}

// A write whose answer is lost is looked after: the item is read at once, and
// often for a while.
func TestLostAnswerIsLookedAfter(t *testing.T) {
	inWorld(t, "init", func(t *testing.T, w *world) {
		w.setStored(coordinator.FreshTableMigration(Init, "x", time.Now().Add(-2*time.Hour)))
		fault := w.inject("p", kcltest.Fault{Operations: []string{"TransactWriteItems"}, Effect: kcltest.LoseAnswer})
		p := w.play("p", false)
		p.lead()
		p.know(allNew)
		time.Sleep(5 * time.Second)
		fault.Remove()
		assert.Equal(t, Report{Stored: Deployed, Local: Deployed, Row: "D2", Waits: "all workers can be deployed with MigrateAllEntitiesToLeaseTable", Since: p.Report().Since}, p.Report())
		w.aws.ResetCalls()
		time.Sleep(time.Minute)
		assert.InDelta(t, 12, w.aws.Count("GetItem", "p"), 1)
		time.Sleep(time.Minute)
		w.aws.ResetCalls()
		time.Sleep(10 * time.Minute)
		assert.InDelta(t, 10, w.aws.Count("GetItem", "p"), 1)
		p.leave()
	})
}

// single-table-migration#85: a leader whose item has become unreadable acts no
// more, once it has seen it.
func TestItemBecomesUnreadable(t *testing.T) {
	inWorld(t, "deployed", func(t *testing.T, w *world) {
		p := w.play("p", false)
		p.lead()
		time.Sleep(time.Second)
		require.True(t, p.Leads(1))
		it := w.legacy.Item(coordinator.TableMigrationKey)
		it["tm"] = str("LATER")
		w.legacy.Put(it)
		before := w.dump()
		p.live(2*time.Minute, allNew)
		assert.False(t, p.Leads(1))
		assert.ErrorIs(t, p.Report().Err, coordinator.ErrMalformed)
		assert.Equal(t, before, w.dump())
		p.leave()
	})
}

// The end of a term ends the write that is on its way, also before anybody calls
// Follow.
func TestWriteEndsWithTheTerm(t *testing.T) {
	for _, busy := range []bool{true, false} {
		inWorld(t, "init", func(t *testing.T, w *world) {
			w.setStored(coordinator.FreshTableMigration(Init, "x", time.Now().Add(-2*time.Hour)))
			w.inject("p", kcltest.Fault{Operations: []string{"TransactWriteItems"}, Effect: kcltest.Slow, Delay: 8 * time.Second})
			p := w.play("p", false)
			p.lead()
			if busy {
				p.know(allNew)
			}
			time.Sleep(time.Second)
			p.endTerm()
			time.Sleep(time.Second)
			assert.Equal(t, "X9", p.Report().Row)
			assert.False(t, p.Leads(1))
			assert.Equal(t, Init, w.stored().Value)
			p.leave()
		})
	}
}

// Writes that fail are tried less and less often, at least once a minute.
func TestFailingWrites(t *testing.T) {
	inWorld(t, "init", func(t *testing.T, w *world) {
		w.setStored(coordinator.FreshTableMigration(Init, "x", time.Now().Add(-2*time.Hour)))
		fault := w.inject("p", kcltest.Fault{Operations: []string{"TransactWriteItems"}, Effect: kcltest.Refuse, Code: "InternalServerError"})
		p := w.play("p", false)
		p.lead()
		p.live(30*time.Minute, allNew)
		assert.InDelta(t, 36, fault.Hits()/3, 4, "by three attempts of the SDK")
		fault.Remove()
		p.live(2*time.Minute, allNew)
		assert.Equal(t, Deployed, w.stored().Value)
		p.leave()
	})
}

// Looks that fail, for want of permission for instance, are made less and less
// often, during all of the bake, and warned of once.
func TestFailingLooks(t *testing.T) {
	inWorld(t, "pending", func(t *testing.T, w *world) {
		w.record.Delete("C")
		w.record.Delete("D")
		w.setStored(coordinator.FreshTableMigration(Pending, "x", time.Now()))
		fault := w.inject("p", kcltest.Fault{Operations: []string{"Scan"}, Resources: []string{w.record.Name}, Effect: kcltest.Refuse, Code: "AccessDeniedException"})
		p := w.play("p", true)
		p.lead()
		p.live(26*time.Hour, drained)
		assert.Equal(t, Pending, w.stored().Value)
		assert.LessOrEqual(t, fault.Hits(), 26*12+10)
		assert.Equal(t, 1, p.lines.Count("level=WARN", "cannot look at the legacy tables"))
		assert.Equal(t, unreadableTables, p.Report().Waits)
		fault.Remove()
		p.live(6*time.Minute, drained)
		assert.Equal(t, Complete, w.stored().Value)
		p.leave()
	})
}

// The record of a worker that is gone, but whose clock was fast, looks alive by
// itself. It holds the migration up until its time has passed, and has nothing
// stored and undone again meanwhile.
func TestFastClock(t *testing.T) {
	inWorld(t, "deployed", func(t *testing.T, w *world) {
		w.record.Delete("C")
		w.record.Delete("D")
		w.record.Put(item{"wid": str("gone"), "lut": &types.AttributeValueMemberN{Value: fmt.Sprint(time.Now().Add(time.Hour).Unix())}})
		w.setStored(coordinator.FreshTableMigration(Deployed, "x", time.Now()))
		before := w.stored()
		p := w.play("p", true)
		p.lead()
		p.live(time.Hour, drained)
		assert.Equal(t, before, w.stored())
		assert.Equal(t, "still writing to the legacy table: gone", p.Report().Waits)
		assert.LessOrEqual(t, w.aws.Count("TransactWriteItems", "p"), 2)
		assert.LessOrEqual(t, w.aws.Count("Scan", "p"), 2*130)
		p.live(3*time.Minute, drained)
		assert.Equal(t, Pending, w.stored().Value)
		p.leave()
	})
}

// single-table-migration#79
func TestMeasured(t *testing.T) {
	inWorld(t, "init", func(t *testing.T, w *world) {
		w.fresh()
		p := w.play("p", false)
		assert.Equal(t, []float64{1}, p.figures.Values(OperationInitialize, "Success"))
		time.Sleep(time.Minute)
		assert.Empty(t, p.figures.Values(Operation, "StatusOrdinal"), "a follower")
		p.lead()
		time.Sleep(time.Second)
		assert.Equal(t, []float64{0}, p.figures.Values(Operation, "StatusOrdinal"))
		assert.Empty(t, p.figures.Values(Operation, "Phase1Worker"), "the fleet is not known")
		p.figures.Reset()
		p.know(allNew)
		time.Sleep(time.Second)
		assert.Equal(t, []float64{0}, p.figures.Values(Operation, "WriteFault"))
		for name, want := range map[string]float64{"StatusOrdinal": 1, "Phase1Worker": 2, "Phase2Worker": 0, "PrePhase1Worker": 0} {
			assert.Equal(t, []float64{want}, p.figures.Values(Operation, name), name)
		}
		p.figures.Reset()
		w.setStored(w.stored().To(Init, "x", time.Now().Add(time.Minute)))
		p.know(oneOld)
		time.Sleep(500 * time.Millisecond)
		assert.Equal(t, []float64{1}, p.figures.Values(Operation, "DeleteFault"), "refused")
		assert.Equal(t, []float64{0}, p.figures.Values(Operation, "ReadFault"))
		p.leave()
	})
	inWorld(t, "pending", func(t *testing.T, w *world) {
		w.record.Delete("C")
		w.record.Delete("D")
		w.setStored(coordinator.FreshTableMigration(Deployed, "x", time.Now()))
		w.legacy.Put(streamItem(0))
		p := w.play("p", true)
		p.lead()
		p.live(time.Minute, drained)
		assert.Equal(t, []float64{1}, p.figures.Values(OperationMove, "Success"))
		assert.Equal(t, []float64{1}, p.figures.Values(OperationMove, "BatchCount"))
		assert.Contains(t, p.figures.Values(Operation, "StatusOrdinal"), 3.0)
		p.live(25*time.Hour, drained)
		ordinals := p.figures.Values(Operation, "StatusOrdinal")
		assert.Equal(t, 4.0, ordinals[len(ordinals)-1])
		assert.Equal(t, []float64{0}, p.figures.Values(Operation, "CompletionFault"))
		assert.LessOrEqual(t, len(ordinals), 25*180*2, "a check at each assignment run")
	})
}
