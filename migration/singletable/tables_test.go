package singletable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/coordinator"
	"github.com/go-kcl/kcl/internal/interchange"
	"github.com/go-kcl/kcl/internal/testbed"
	"github.com/go-kcl/kcl/kcltest"
)

// single-table-migration#16: a fresh application has no legacy table, needs
// none, and nothing is stored of a migration, whatever the config says.
func TestFreshApplication(t *testing.T) {
	for _, migrate := range []bool{false, true} {
		inWorld(t, "", func(t *testing.T, w *world) {
			before := w.dump()
			f, err := w.tables("go").Facts(t.Context(), migrate, false)
			require.NoError(t, err)
			assert.Equal(t, Facts{Table: "app3-CoordinatorState", Legacy: LegacyAbsent, Migrate: migrate}, f)
			local, err := Begin(f)
			require.NoError(t, err)
			assert.Equal(t, Complete, local)
			assert.Equal(t, before, w.dump())
		})
	}
}

func TestFacts(t *testing.T) {
	inWorld(t, "pending", func(t *testing.T, w *world) {
		f, err := w.tables("go").Facts(t.Context(), true, false)
		require.NoError(t, err)
		assert.Equal(t, LegacyExists, f.Legacy)
		assert.Equal(t, w.stored(), f.Stored)
		assert.True(t, f.Found)
		assert.False(t, f.Copied)

		f, err = w.tables("go").Facts(t.Context(), true, true)
		require.NoError(t, err)
		assert.Equal(t, Facts{NoLegacyTables: true, Table: "app3-CoordinatorState", Migrate: true}, f)

		// single-table-migration#18: nothing can be decided, until it can.
		fault := w.inject("go", kcltest.Fault{Operations: []string{"DescribeTable"}, Effect: kcltest.Refuse, Code: "InternalServerError"})
		_, err = w.tables("go").Facts(t.Context(), true, false)
		assert.ErrorIs(t, err, kcl.ErrDependency)
		fault.Remove()
		_, err = w.tables("go").Facts(t.Context(), true, false)
		assert.NoError(t, err)

		// So with a table that somebody makes just now.
		fault = w.inject("go", kcltest.Fault{Operations: []string{"GetItem"}, Resources: []string{w.legacy.Name}, Effect: kcltest.Refuse, Code: "ResourceNotFoundException"})
		_, err = w.tables("go").Facts(t.Context(), true, false)
		assert.Error(t, err)
		fault.Remove()
		_, err = w.tables("go").Facts(t.Context(), true, false)
		assert.NoError(t, err)

		w.inject("go", kcltest.Fault{Operations: []string{"DescribeTable"}, Effect: kcltest.Refuse, Code: "AccessDeniedException"})
		f, err = w.tables("go").Facts(t.Context(), true, false)
		require.NoError(t, err)
		assert.Equal(t, LegacyDenied, f.Legacy)

		// single-table-migration#85
		spoilt := w.legacy.Item(coordinator.TableMigrationKey)
		spoilt["tm"] = str("TABLE_MIGRATION_STATUS_LATER")
		w.legacy.Put(spoilt)
		_, err = w.tables("other").Facts(t.Context(), true, false)
		assert.ErrorIs(t, err, coordinator.ErrMalformed)
	})
	// A fleet that is through needs no permission on the legacy tables.
	inWorld(t, "complete", func(t *testing.T, w *world) {
		w.inject("go", kcltest.Fault{Resources: []string{"app3-CoordinatorState", "app3-WorkerMetricStats"}, Effect: kcltest.Refuse, Code: "AccessDeniedException"})
		f, err := w.tables("go").Facts(t.Context(), false, false)
		require.NoError(t, err)
		local, err := Begin(f)
		require.NoError(t, err)
		assert.Equal(t, Complete, local)
		assert.Equal(t, LegacyNotLooked, f.Legacy)
	})
}

func TestRead(t *testing.T) {
	inWorld(t, "complete", func(t *testing.T, w *world) {
		tb := w.tables("go")
		r, err := tb.Read(t.Context(), 3)
		require.NoError(t, err)
		assert.Equal(t, Read{Outcome: Found, State: w.stored(), At: r.At, Term: 3}, r)
		assert.Equal(t, Complete, r.State.Value)

		fault := w.inject("go", kcltest.Fault{Operations: []string{"GetItem"}, Effect: kcltest.Refuse, Code: "InternalServerError"})
		r, err = tb.Read(t.Context(), 3)
		assert.ErrorIs(t, err, kcl.ErrDependency)
		assert.Equal(t, Failed, r.Outcome)
		fault.Remove()

		// single-table-migration#86
		denied := w.inject("go", kcltest.Fault{Resources: []string{"app3-CoordinatorState"}, Effect: kcltest.Refuse, Code: "AccessDeniedException"})
		r, err = tb.Read(t.Context(), 3)
		require.Error(t, err)
		assert.Equal(t, Gone, r.Outcome)
		assert.True(t, r.CopyComplete)
		w.lease.Delete(coordinator.TableMigrationKey)
		r, _ = tb.Read(t.Context(), 3)
		assert.Equal(t, Gone, r.Outcome)
		assert.False(t, r.CopyComplete)
		denied.Remove()

		spoilt := w.legacy.Item(coordinator.TableMigrationKey)
		delete(spoilt, "mb")
		w.legacy.Put(spoilt)
		r, err = tb.Read(t.Context(), 3)
		assert.ErrorIs(t, err, coordinator.ErrMalformed)
		assert.Equal(t, Malformed, r.Outcome)

		w.legacy.Delete(coordinator.TableMigrationKey)
		r, err = tb.Read(t.Context(), 3)
		require.NoError(t, err)
		assert.Equal(t, None, r.Outcome)
	})
}

func TestLook(t *testing.T) {
	record := func(worker string, age time.Duration) item {
		return item{"wid": str(worker), "lut": &types.AttributeValueMemberN{Value: strconv.FormatInt(time.Now().Add(-age).Unix(), 10)}}
	}
	inWorld(t, "pending", func(t *testing.T, w *world) {
		tb := w.tables("go")
		look := func() Look {
			t.Helper()
			began := time.Now()
			l, _ := tb.Look(t.Context(), 2)
			assert.Equal(t, uint64(2), l.Term)
			assert.Positive(t, l.Took)
			assert.Equal(t, time.Since(began), l.Took)
			l.At, l.Took, l.Term = time.Time{}, 0, 0
			return l
		}
		// In the bubble it is the year 2000: the recorded rows are of the future.
		w.record.Delete("C")
		w.record.Delete("D")
		w.record.Put(record("C", 61*time.Second))
		w.record.Put(item{"wid": str("no time")})
		assert.Equal(t, Look{Clean: Yes, Drained: Yes}, look())
		w.record.Put(record("D", time.Minute-time.Second))
		assert.Equal(t, Look{Clean: Yes, Drained: No, Alive: []string{"D"}}, look())
		w.legacy.Put(item{"key": str("Migration3.0"), "cv": str("x")})
		assert.Equal(t, Look{Clean: No, Left: []string{"Migration3.0"}, Drained: No, Alive: []string{"D"}}, look())
		w.inject("go", kcltest.Fault{Operations: []string{"Scan"}, Effect: kcltest.Refuse, Code: "InternalServerError"})
		assert.Equal(t, Look{}, look())
		_, err := tb.Look(t.Context(), 2)
		assert.ErrorIs(t, err, kcl.ErrDependency)
	})
	inWorld(t, "", func(t *testing.T, w *world) { // the table of records was deleted before
		w.legacy.Create()
		l, err := w.tables("go").Look(t.Context(), 1)
		require.NoError(t, err)
		assert.Equal(t, Look{At: l.At, Took: l.Took, Term: 1, Clean: Yes, Drained: Yes}, l)
	})
}

func TestWrite(t *testing.T) {
	inWorld(t, "init", func(t *testing.T, w *world) {
		tb, now := w.tables("D"), time.Now()
		read := w.stored()
		up := Decision{Do: Update, State: read.To(Deployed, "D", now)}

		a, err := w.tables("go").Write(t.Context(), up, read) // the lock is D's
		require.NoError(t, err)
		assert.Equal(t, NotLeader, a)
		assert.Equal(t, read, w.stored())

		a, err = tb.Write(t.Context(), Decision{Do: Create, State: coordinator.FreshTableMigration(Init, "D", now)}, State{})
		require.NoError(t, err)
		assert.Equal(t, Refused, a)

		// single-table-migration#11: neither the status nor the time may differ.
		for _, other := range []State{read.To(Deployed, "x", read.At), read.To(Init, "x", now)} {
			w.setStored(other)
			for _, d := range []Decision{up, {Do: Delete}} {
				a, err = tb.Write(t.Context(), d, read)
				require.NoError(t, err)
				assert.Equal(t, Refused, a)
				assert.Equal(t, other, w.stored())
			}
		}
		// What another version wrote survives.
		read.Extra = item{"later": str("x")}
		w.setStored(read)
		a, err = tb.Write(t.Context(), up, read)
		require.NoError(t, err)
		assert.Equal(t, Done, a)
		want := read.To(Deployed, "D", now)
		assert.Equal(t, want, w.stored())
		a, err = tb.Write(t.Context(), Decision{Do: Delete}, want)
		require.NoError(t, err)
		assert.Equal(t, Done, a)
		assert.Nil(t, w.legacy.Item(coordinator.TableMigrationKey))

		// single-table-migration#10
		fresh := coordinator.FreshTableMigration(Init, "D", now)
		a, err = tb.Write(t.Context(), Decision{Do: Create, State: fresh}, State{})
		require.NoError(t, err)
		assert.Equal(t, Done, a)
		assert.Equal(t, fresh, w.stored())
		assert.Equal(t, str("TABLE_MIGRATION"), w.legacy.Item(coordinator.TableMigrationKey)["entityType"]) // single-table-migration#4

		w.inject("D", kcltest.Fault{Operations: []string{"TransactWriteItems"}, Effect: kcltest.LoseAnswer})
		a, err = tb.Write(t.Context(), Decision{Do: Update, State: fresh.To(Deployed, "D", now)}, fresh)
		assert.ErrorIs(t, err, kcl.ErrDependency)
		assert.Equal(t, Uncertain, a)
		assert.Equal(t, Deployed, w.stored().Value)
	})
}

// A role that may not check conditions does as Java does; the item's own
// condition still holds.
func TestWriteWithoutFence(t *testing.T) {
	inWorld(t, "init", func(t *testing.T, w *world) {
		w.inject("D", kcltest.Fault{Operations: []string{"TransactWriteItems"}, Effect: kcltest.Refuse, Code: "AccessDeniedException"})
		tb, read := w.tables("D"), w.stored()
		deployed := read.To(Deployed, "D", time.Now())
		for _, step := range []struct {
			do   Decision
			read State
			want Answer
		}{
			{Decision{Do: Create, State: deployed}, State{}, Refused},
			{Decision{Do: Update, State: deployed}, read, Done},
			{Decision{Do: Update, State: deployed}, read, Refused},
			{Decision{Do: Delete}, read, Refused},
			{Decision{Do: Delete}, deployed, Done},
			{Decision{Do: Create, State: deployed}, State{}, Done},
		} {
			a, err := tb.Write(t.Context(), step.do, step.read)
			require.NoError(t, err)
			assert.Equal(t, step.want, a)
		}
		assert.Equal(t, 1, w.aws.Count("TransactWriteItems", "D"), "asked once")
		w.inject("D", kcltest.Fault{Operations: []string{"DeleteItem"}, Effect: kcltest.LoseAnswer})
		a, err := tb.Write(t.Context(), Decision{Do: Delete}, deployed)
		assert.True(t, a == Uncertain && err != nil || a == Refused, "the SDK's second attempt finds it done")
	})
}

var ourLock = item{"ownerName": str("C"), "leaseDuration": str("30000"), "recordVersionNumber": str("v1")}

func finalDecision(w *world) (Decision, State) {
	read := w.stored()
	return Decision{Do: Finalize, State: read.To(Complete, "C", time.Now())}, read
}

// single-table-migration#35: both tables say so, and the lease table's lock is
// this worker's, at once.
func TestFinalize(t *testing.T) {
	inWorld(t, "pending", func(t *testing.T, w *world) {
		d, read := finalDecision(w)
		a, took, err := w.tables("C").Finalize(t.Context(), d, read, ourLock)
		require.NoError(t, err)
		assert.Equal(t, Done, a)
		assert.True(t, took)
		assert.Equal(t, d.State, w.stored())
		assert.Equal(t, d.State.Item().Encode("leaseKey"), w.lease.Item(coordinator.TableMigrationKey))
		assert.Equal(t, str("TABLE_MIGRATION"), w.lease.Item(coordinator.TableMigrationKey)["entityType"])
		assert.Equal(t, item{"leaseKey": str("Leader"), "entityType": str("LEADER"), "ownerName": str("C"), "leaseDuration": str("30000"), "recordVersionNumber": str("v1")}, w.lease.Item("Leader"))
	})
}

// single-table-migration#36: nothing is written anywhere.
func TestFinalizeRefused(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(w *world, read State)
		want  Answer
	}{
		{"another owner", func(w *world, _ State) { w.leader("D") }, NotLeader},
		{"no owner", func(w *world, _ State) { w.legacy.Delete(lockKey) }, NotLeader},
		{"another status", func(w *world, read State) { w.setStored(read.To(Deployed, "D", read.At)) }, Refused},
		{"another time", func(w *world, read State) { w.setStored(read.To(Pending, "D", time.Now())) }, Refused},
		{"no item", func(w *world, _ State) { w.legacy.Delete(coordinator.TableMigrationKey) }, Refused},
		{"a copy that says something else", func(w *world, read State) { w.lease.Put(read.Item().Encode("leaseKey")) }, Obstacle},
		{"a copy that says nothing", func(w *world, _ State) { w.lease.Put(item{"leaseKey": str(coordinator.TableMigrationKey)}) }, Obstacle},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, "pending", func(t *testing.T, w *world) {
				d, read := finalDecision(w)
				tc.spoil(w, read)
				before := w.dump()
				a, took, err := w.tables("C").Finalize(t.Context(), d, read, ourLock)
				assert.Equal(t, tc.want, a)
				assert.False(t, took)
				assert.Equal(t, before, w.dump())
				if tc.want == Obstacle {
					assert.EqualError(t, err, "complete the migration in tables app3-CoordinatorState and app3: item TableMigration3.5 in table app3 is in the way: delete it")
				} else {
					assert.NoError(t, err)
				}
			})
		})
	}
}

// A copy that says COMPLETE already, and a lock that somebody was faster to take,
// are no obstacles.
func TestFinalizeOverWhatIsThere(t *testing.T) {
	inWorld(t, "pending", func(t *testing.T, w *world) {
		d, read := finalDecision(w)
		w.lease.Put(read.To(Complete, "x", read.At).Item().Encode("leaseKey"))
		theirs := item{"leaseKey": str("Leader"), "entityType": str("LEADER"), "ownerName": str("D"), "leaseDuration": str("30000"), "recordVersionNumber": str("v0")}
		w.lease.Put(theirs)
		a, took, err := w.tables("C").Finalize(t.Context(), d, read, ourLock)
		require.NoError(t, err)
		assert.Equal(t, Done, a)
		assert.False(t, took)
		assert.Equal(t, theirs, w.lease.Item("Leader"))
		assert.Equal(t, d.State.Item().Encode("leaseKey"), w.lease.Item(coordinator.TableMigrationKey))
		assert.Equal(t, d.State, w.stored())
	})
}

// single-table-migration#37: the next check ends in COMPLETE without a second
// write, and the lock's version tells that it is this worker's.
func TestFinalizeAnswerLost(t *testing.T) {
	inWorld(t, "pending", func(t *testing.T, w *world) {
		d, read := finalDecision(w)
		tb := w.tables("C")
		lost := w.inject("C", kcltest.Fault{Operations: []string{"TransactWriteItems"}, Effect: kcltest.LoseAnswer})
		a, took, err := tb.Finalize(t.Context(), d, read, ourLock)
		require.ErrorIs(t, err, kcl.ErrDependency)
		assert.Equal(t, Uncertain, a)
		assert.False(t, took)
		lost.Remove()
		sent := w.aws.Count("TransactWriteItems", "C")
		r, err := tb.Read(t.Context(), 1)
		require.NoError(t, err)
		next := Decide(View{Config: Config{Worker: "C", MigrateAllEntitiesToLeaseTable: true}, Now: time.Now(), Local: Pending, Term: 1, Read: r})
		assert.Equal(t, "X8", next.Row)
		assert.Equal(t, Complete, next.Local)
		assert.Equal(t, str("v1"), w.lease.Item("Leader")["recordVersionNumber"])
		assert.Equal(t, sent, w.aws.Count("TransactWriteItems", "C"))
	})
}

func streamItem(i int) item {
	return item{"key": str(fmt.Sprintf("stream-%02d", i)), "entityType": str("STREAM"), "streamId": str(strconv.Itoa(i)), "later": &types.AttributeValueMemberL{Value: []types.AttributeValue{str("x")}}}
}

// moved is a legacy item as it is to stand in the lease table.
func moved(it item) item {
	out := item{}
	for name, v := range it {
		out[name] = v
	}
	out["leaseKey"] = out["key"]
	delete(out, "key")
	return out
}

// single-table-migration#43: 59 streams and the client version.
func TestMove(t *testing.T) {
	inWorld(t, "deployed", func(t *testing.T, w *world) {
		version := w.legacy.Item(coordinator.ClientVersionKey)
		for i := range 59 {
			w.legacy.Put(streamItem(i))
		}
		batches, err := w.tables("D").Move(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 3, batches)
		assert.Equal(t, 3, w.aws.Count("TransactWriteItems", "D"))
		l, err := w.tables("D").Look(t.Context(), 1)
		require.NoError(t, err)
		assert.Equal(t, Yes, l.Clean)
		assert.NotNil(t, w.legacy.Item(lockKey))
		assert.NotNil(t, w.legacy.Item(coordinator.TableMigrationKey))
		for i := range 59 {
			assert.Equal(t, moved(streamItem(i)), w.lease.Item(fmt.Sprintf("stream-%02d", i)))
		}
		version["entityType"] = str("CLIENT_VERSION_MIGRATION") // single-table-migration#44
		assert.Equal(t, moved(version), w.lease.Item(coordinator.ClientVersionKey))

		batches, err = w.tables("D").Move(t.Context())
		require.NoError(t, err)
		assert.Zero(t, batches)
	})
}

// single-table-migration#45: the second batch changes neither table.
func TestMoveLosesTheLock(t *testing.T) {
	inWorld(t, "deployed", func(t *testing.T, w *world) {
		for i := range 59 {
			w.legacy.Put(streamItem(i))
		}
		w.inject("D", kcltest.Fault{Operations: []string{"TransactWriteItems"}, Skip: 1, Effect: kcltest.Slow, Delay: time.Second})
		go func() {
			time.Sleep(500 * time.Millisecond)
			w.leader("C")
		}()
		batches, err := w.tables("D").Move(t.Context())
		assert.ErrorIs(t, err, ErrNotLeader)
		assert.Equal(t, 1, batches)
		assert.Equal(t, 35, w.count(w.legacy))
		assert.Equal(t, 25, w.count(w.lease))
	})
}

// count is how many of the streams and of the client version are there.
func (w *world) count(tb *testbed.Table) (n int) {
	for i := range 59 {
		if tb.Item(fmt.Sprintf("stream-%02d", i)) != nil {
			n++
		}
	}
	if tb.Item(coordinator.ClientVersionKey) != nil {
		n++
	}
	return n
}

// single-table-migration#46: what was moved stays moved, and the next run lists
// anew.
func TestMoveFails(t *testing.T) {
	inWorld(t, "deployed", func(t *testing.T, w *world) {
		for i := range 59 {
			w.legacy.Put(streamItem(i))
		}
		fault := w.inject("D", kcltest.Fault{Operations: []string{"TransactWriteItems"}, Skip: 1, Effect: kcltest.Refuse, Code: "InternalServerError"})
		batches, err := w.tables("D").Move(t.Context())
		assert.ErrorIs(t, err, kcl.ErrDependency)
		assert.NotErrorIs(t, err, context.Canceled)
		assert.Equal(t, 1, batches)
		assert.Equal(t, 25, w.count(w.lease))
		fault.Remove()
		batches, err = w.tables("D").Move(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 2, batches)
		assert.Equal(t, 60, w.count(w.lease))
		assert.Zero(t, w.count(w.legacy))
	})
}

// single-table-migration#48,49: no batch begins after the end, and the end is
// told apart from a failure of the service.
func TestMoveCancelled(t *testing.T) {
	why := errors.New("the term is over")
	for _, delay := range []time.Duration{0, time.Second} { // between two batches; in one
		inWorld(t, "deployed", func(t *testing.T, w *world) {
			for i := range 59 {
				w.legacy.Put(streamItem(i))
			}
			w.inject("D", kcltest.Fault{Operations: []string{"TransactWriteItems"}, Skip: 1, Effect: kcltest.Slow, Delay: delay})
			ctx, end := context.WithCancelCause(t.Context())
			if delay == 0 {
				end(why)
			} else {
				time.AfterFunc(500*time.Millisecond, func() { end(why) })
			}
			_, err := w.tables("D").Move(ctx)
			if delay != 0 {
				assert.ErrorIs(t, err, why)
				assert.NotErrorIs(t, err, kcl.ErrDependency)
				assert.Equal(t, 25, w.count(w.lease))
			} else {
				require.Error(t, err)
				assert.Zero(t, w.count(w.lease))
			}
			end(nil)
		})
	}
}

// A change that was made after the listing is not lost.
func TestMoveMeetsAChange(t *testing.T) {
	inWorld(t, "deployed", func(t *testing.T, w *world) {
		w.inject("D", kcltest.Fault{Operations: []string{"TransactWriteItems"}, Times: 1, Effect: kcltest.Slow, Delay: time.Second})
		changed := w.legacy.Item(coordinator.ClientVersionKey)
		changed["mb"] = str("later")
		time.AfterFunc(500*time.Millisecond, func() { w.legacy.Put(changed) })
		_, err := w.tables("D").Move(t.Context())
		assert.ErrorContains(t, err, "item Migration3.0 was changed meanwhile")
		assert.Equal(t, changed, w.legacy.Item(coordinator.ClientVersionKey))
		assert.Nil(t, w.lease.Item(coordinator.ClientVersionKey))
		_, err = w.tables("D").Move(t.Context())
		require.NoError(t, err)
		assert.Equal(t, str("later"), w.lease.Item(coordinator.ClientVersionKey)["mb"])
	})
}

func at(it item, ms int) item {
	out := moved(it)
	out["mts"] = &types.AttributeValueMemberN{Value: strconv.Itoa(ms)}
	return out
}

// Items that are in both tables.
func TestMoveConflicts(t *testing.T) {
	for _, tc := range []struct {
		name  string
		there func(version item) []item
		stuck string
		want  func(version item) item // of Migration3.0
	}{
		{"the same", func(v item) []item { return []item{moved(streamItem(0)), moved(v)} }, "", func(v item) item { return moved(v) }},
		{"an older one", func(v item) []item { return []item{at(v, 5)} }, "", func(v item) item { v["entityType"] = str("CLIENT_VERSION_MIGRATION"); return moved(v) }},
		{"a newer one", func(v item) []item { return []item{at(v, 1896033740081)} }, "", func(v item) item { return at(v, 1896033740081) }},
		{"another stream's id", func(v item) []item {
			s := moved(streamItem(0))
			s["streamId"] = str("other")
			return []item{s}
		}, "stream-00 is in both tables, and not the same: delete one of the two", nil},
		{"a version without a time", func(v item) []item {
			m := at(v, 1)
			delete(m, "mts")
			return []item{m}
		}, "Migration3.0 is in both tables, and not the same: delete one of the two", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, "deployed", func(t *testing.T, w *world) {
				w.legacy.Put(streamItem(0))
				version := w.legacy.Item(coordinator.ClientVersionKey)
				for _, it := range tc.there(version) {
					w.lease.Put(it)
				}
				before := w.dump()
				_, err := w.tables("D").Move(t.Context())
				if tc.stuck != "" {
					require.ErrorIs(t, err, ErrStuck)
					assert.ErrorContains(t, err, tc.stuck)
					assert.Equal(t, before, w.dump())
					return
				}
				require.NoError(t, err)
				assert.Zero(t, w.count(w.legacy))
				assert.Equal(t, moved(streamItem(0)), w.lease.Item("stream-00"))
				assert.Equal(t, tc.want(version), w.lease.Item(coordinator.ClientVersionKey))
			})
		})
	}
}

// single-table-migration#84: an unknown kind counts as none where the key tells.
func TestPlan(t *testing.T) {
	for _, tc := range []struct {
		name string
		it   item
		kind string // "": it stays
		bad  string
	}{
		{"the lock", item{"key": str("Leader")}, "", ""},
		{"the state", item{"key": str("TableMigration3.5")}, "", ""},
		{"a version of 3.4", item{"key": str("Migration3.0"), "cv": str("x")}, "CLIENT_VERSION_MIGRATION", ""},
		{"a version of an unknown kind", item{"key": str("Migration3.0"), "entityType": str("LATER")}, "CLIENT_VERSION_MIGRATION", ""},
		{"a stream", item{"key": str("s"), "entityType": str("STREAM")}, "STREAM", ""},
		{"of a later version", item{"key": str("s"), "entityType": str("LATER")}, "LATER", ""},
		{"of no kind", item{"key": str("s"), "x": str("y")}, "", "item cannot be moved into the lease table: s has no entityType of a coordinator's item: give it the right one, or delete it"},
		{"a lease", item{"key": str("s"), "entityType": str("LEASE")}, "", "item cannot be moved into the lease table: s has no entityType of a coordinator's item: give it the right one, or delete it"},
		{"with the other table's key", item{"key": str("s"), "entityType": str("STREAM"), "leaseKey": str("z")}, "", "item cannot be moved into the lease table: s has an attribute leaseKey: delete that"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, move, err := plan(tc.it)
			assert.Equal(t, tc.kind != "", move)
			if tc.bad != "" {
				assert.EqualError(t, err, tc.bad)
				assert.ErrorIs(t, err, ErrStuck)
				return
			}
			require.NoError(t, err)
			if move {
				want := moved(tc.it)
				want["entityType"] = str(tc.kind)
				assert.Equal(t, moving{key: keyIn(tc.it, "key"), legacy: tc.it, put: want}, m)
			}
		})
	}
	inWorld(t, "deployed", func(t *testing.T, w *world) { // the others are moved all the same
		w.legacy.Put(item{"key": str("odd")})
		_, err := w.tables("D").Move(t.Context())
		assert.ErrorIs(t, err, ErrStuck)
		assert.NotNil(t, w.lease.Item(coordinator.ClientVersionKey))
		assert.Nil(t, w.lease.Item("odd"))
		assert.NotNil(t, w.legacy.Item("odd"))
	})
}

// answers is a service that answers so many calls with a conflict.
type answers struct {
	conflicts, calls int
	slow             time.Duration
}

func (a *answers) Do(r *http.Request) (*http.Response, error) {
	a.calls++
	select {
	case <-time.After(a.slow):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if a.calls <= a.conflicts {
		return &http.Response{StatusCode: 400, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(
			`{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","CancellationReasons":[{"Code":"TransactionConflict"},{"Code":"None"}]}`))}, nil
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}"))}, nil
}

var _ aws.HTTPClient = (*answers)(nil)

// A heartbeat of the lock that runs into the transaction is no failure.
func TestConflictIsTriedAgain(t *testing.T) {
	for conflicts, want := range map[int]Answer{0: Done, 1: Done, 4: Done, 5: Uncertain} {
		synctest.Test(t, func(t *testing.T) {
			a := &answers{conflicts: conflicts}
			tb := testTables(interchange.Client(a), "C")
			began := time.Now()
			got, err := tb.Write(t.Context(), Decision{Do: Update, State: State{}.To(Deployed, "C", t0)}, State{})
			assert.Equal(t, want, got)
			assert.Equal(t, want == Uncertain, err != nil)
			assert.Equal(t, min(conflicts+1, 5), a.calls)
			assert.Less(t, time.Since(began), 500*time.Millisecond)
		})
	}
}

// A change of the item is over in time, whatever happens to its calls.
func TestWritesAreBounded(t *testing.T) {
	inWorld(t, "pending", func(t *testing.T, w *world) {
		w.inject("C", kcltest.Fault{Operations: []string{"TransactWriteItems"}, Effect: kcltest.Hang})
		d, read := finalDecision(w)
		began := time.Now()
		a, _, err := w.tables("C").Finalize(t.Context(), d, read, ourLock)
		assert.Equal(t, Uncertain, a)
		assert.ErrorIs(t, err, kcl.ErrDependency)
		assert.ErrorContains(t, err, "no answer within 10s")
		assert.Equal(t, 10*time.Second, time.Since(began))
		d.Do = Update
		a, err = w.tables("C").Write(t.Context(), d, read)
		assert.Equal(t, Uncertain, a)
		assert.ErrorIs(t, err, kcl.ErrDependency)
		assert.Equal(t, 20*time.Second, time.Since(began))
	})
	synctest.Test(t, func(t *testing.T) { // each attempt is answered, after 3 s
		a := &answers{conflicts: 100, slow: 3 * time.Second}
		began := time.Now()
		got, err := testTables(interchange.Client(a), "C").Write(t.Context(), Decision{Do: Update, State: State{}.To(Deployed, "C", t0)}, State{})
		assert.Equal(t, Uncertain, got)
		assert.ErrorIs(t, err, kcl.ErrDependency)
		assert.LessOrEqual(t, time.Since(began), 10*time.Second)
	})
}
