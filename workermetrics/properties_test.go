package workermetrics

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-kcl/kcl/internal/entity"
	"github.com/go-kcl/kcl/internal/testbed"
)

func anyRecord(t *rapid.T) Record {
	metric := rapid.SampledFrom([]string{CPU, Memory, NetworkIn, NetworkOut, throughputKey, "later"})
	seconds := rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.Bool().Draw(t, "none") {
			return time.Time{}
		}
		return time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "seconds"), 0)
	})
	r := Record{
		Worker: rapid.StringN(1, 8, -1).Draw(t, "worker"), Updated: seconds.Draw(t, "updated"),
		Support: rapid.IntRange(0, math.MaxInt32).Draw(t, "support"), SupportUpdated: seconds.Draw(t, "support updated"),
	}
	if rapid.Bool().Draw(t, "stats") {
		r.Stats = rapid.MapOf(metric, rapid.SliceOfN(rapid.Float64(), 0, 3)).Draw(t, "stats")
	}
	if rapid.Bool().Draw(t, "operating range") {
		r.OperatingRange = rapid.MapOf(metric, rapid.SliceOfN(rapid.Int64(), 0, 2)).Draw(t, "operating range")
	}
	return r
}

func whole(r Record) item {
	it := encode(r)
	it[attrKey] = &str{Value: r.Worker}
	return it
}

// What is written is read as it was, and written again as it was.
func TestEveryRecordSurvives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRecord(t)
		back, err := Decode(whole(r))
		require.NoError(t, err)
		require.Equal(t, r, back)
		require.Equal(t, whole(r), whole(back))
	})
}

// Whatever an item holds, Decode returns: what is well, without regard to what it
// does not know, or the worker's id and an error.
func TestDecodeOfAnyItem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRecord(t)
		it := testbed.Spoil(t, whole(r))
		got, err := Decode(it)
		strange, strangeErr := Decode(testbed.Strange(t, it))
		require.Equal(t, err, strangeErr)
		require.Equal(t, got, strange)
		if err != nil {
			require.Equal(t, Record{Worker: got.Worker}, got)
			return
		}
		got.Valid()
		if got.Updated.IsZero() || got.Stats == nil {
			return
		}
		d := got
		d.Load = got.Draining()
		require.True(t, got.Throughput() && got.Stats[throughputKey] != nil || d.Failing(), "%v drains unseen", d.Load)
		require.Equal(t, entity.WorkerMetricStats, entity.Of(whole(d)))
	})
}

// Of several faults the same one is told each time, so that whoever tells of what
// has changed does not repeat itself.
func TestFaultsAreToldInTheSameWords(t *testing.T) {
	stats := item{}
	for name := 'a'; name <= 'h'; name++ {
		stats[string(name)] = &null{Value: true}
	}
	for range 20 {
		_, err := Decode(item{attrKey: &str{Value: "w"}, attrStats: &object{Value: stats}})
		require.EqualError(t, err, `record of worker "w": attribute sts: metric a has the wrong type`)
	}
}

// Ruling 6: a worker that reports is alive to whoever keeps looking, however
// wrong its clock is; one that does not is dead two periods after its last change
// was seen; looking again makes nobody live longer; and no record of a living one
// is stale.
func TestSightingOfAnyWorker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const age = time.Hour
		now := time.Unix(1_000_000, 0)
		wrong := time.Duration(rapid.IntRange(-7200, 7200).Draw(t, "clock is wrong by")) * time.Second
		record := Record{Worker: "w"}
		report := func() { record.Updated = now.Add(wrong).Truncate(time.Second) }
		report()
		var (
			s      Sighting
			began  = now     // of looking
			looked time.Time // last
			alive  time.Time // last sign of life
		)
		for range rapid.IntRange(1, 40).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{1, 5, 20, 30, 59, 60, 61, 200, 5000}).Draw(t, "pause")) * time.Second)
			before := record.Updated
			if rapid.Bool().Draw(t, "reports") {
				report()
			}
			first := looked.IsZero()
			if first {
				began = now
			}
			switch other := !record.Updated.Equal(before); {
			case first, other && now.Sub(looked) > 2*period:
				// The record's own word, which counts for no more than now.
				if alive = now; record.Updated.Before(now) {
					alive = record.Updated
				}
			case other:
				alive = now
			}
			looked = now
			was := s
			s = s.Next(record, now, period)

			require.Equal(t, now.Sub(alive) <= 2*period, s.Alive(now, period))
			require.True(t, alive.Equal(s.LastSeen()), "%v, not %v", s.LastSeen(), alive)
			if record.Updated.Equal(before) && !first {
				require.Equal(t, was.LastSeen(), s.LastSeen(), "looking again is no sign of life")
			}
			later := now.Add(time.Duration(rapid.IntRange(0, 7200).Draw(t, "later")) * time.Second)
			if s.Stale(later, age, period) {
				require.False(t, s.Alive(later, period), "a living worker's record is stale")
				require.Greater(t, later.Sub(began), 2*period)
				require.Greater(t, later.Sub(s.LastSeen()), age)
			}
		}
	})
}
