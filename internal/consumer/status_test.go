package consumer

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/retrieval"
)

func TestStatusOfReading(t *testing.T) {
	since := time.Now()
	for name, tc := range map[string]struct {
		source retrieval.Status
		want   string
	}{
		"nothing came yet": {retrieval.Status{}, "waits for the first answer from Kinesis"},
		"nothing new":      {retrieval.Status{Fetched: since}, "no new records"},
		"throttled":        {retrieval.Status{Waiting: "throttled by Kinesis", Failures: 3, Err: errTest, Since: since, Fetched: since}, "throttled by Kinesis"},
	} {
		bubble(t, name, func(t *testing.T, s *stage) {
			s.feed.status = tc.source
			s.start()
			st := s.c.Status()
			assert.Equal(t, StateReading, st.State)
			assert.Equal(t, tc.want, st.Waiting)
			assert.Equal(t, tc.source.Failures, st.Attempts)
			assert.Equal(t, tc.source.Err, st.Err)
			assert.Equal(t, s.c.Shard(), st.Shard)
		})
	}
}

func TestStatusOfEachPhase(t *testing.T) {
	for name, want := range map[string]Status{
		"waiting":  {State: StateWaiting, Waiting: "waits for its parents to be processed to their end: " + parent},
		"starting": {State: StateStarting, Waiting: "Initialize failed and is tried again", Attempts: 1, Err: errTest},
		"retrying": {State: StateRetrying, Waiting: "ProcessRecords failed; the batch is delivered again", Attempts: 1, Err: errTest},
		"stopped":  {State: StateStopped, Waiting: "stopped by OnFailure after ProcessRecords failed", Attempts: 1, Err: errTest},
		"ending":   {State: StateEnding, Waiting: "ShardEnded failed and is tried again", Attempts: 1, Err: errTest},
		"merging":  {State: StateEnding, Waiting: "cannot prepare the shard's end", Attempts: 1, Err: errBlocked},
	} {
		bubble(t, name, func(t *testing.T, s *stage) {
			phase(s, name)
			st := s.c.Status()
			if errors.Is(st.Err, errBlocked) {
				st.Err = errBlocked
			}
			assert.Equal(t, time.Now(), st.Since)
			assert.Equal(t, want, Status{State: st.State, Waiting: st.Waiting, Attempts: st.Attempts, Err: st.Err})
		})
	}
	bubble(t, "busy", func(t *testing.T, s *stage) {
		s.actor.onProcess = func(context.Context, *kcl.Batch) error { time.Sleep(time.Hour); return nil }
		s.start()
		s.deliver(batch(1, 2))
		settle(40 * time.Second)
		st := s.c.Status()
		assert.Equal(t, StateProcessing, st.State)
		assert.Equal(t, 40*time.Second, time.Since(st.Since))
		settle(time.Hour)
	})
}

func TestOverdue(t *testing.T) {
	now := time.Now()
	long := now.Add(-time.Minute)
	for name, tc := range map[string]struct {
		status Status
		want   bool
	}{
		"the processor has been busy for long":    {Status{State: StateProcessing, Since: long}, true},
		"the processor is busy":                   {Status{State: StateProcessing, Since: long.Add(1)}, false},
		"a batch fails and fails":                 {Status{State: StateRetrying, Since: long, Attempts: 9}, true},
		"Initialize does not return":              {Status{State: StateStarting, Since: long}, true},
		"ShardEnded does not return":              {Status{State: StateEnding, Since: long}, true},
		"ShutdownRequested does not return":       {Status{State: StateLeaving, Since: long}, true},
		"parents take long":                       {Status{State: StateWaiting, Since: long}, false},
		"parents' leases cannot be read":          {Status{State: StateWaiting, Since: long, Attempts: 3}, true},
		"no new records":                          {Status{State: StateReading, Since: long}, false},
		"Kinesis does not answer":                 {Status{State: StateReading, Since: long, Attempts: 3}, true},
		"stopped by the policy, told at the time": {Status{State: StateStopped, Since: long, Attempts: 1}, false},
		"not started":                             {Status{State: StateNew, Since: long}, false},
		"done":                                    {Status{State: StateDone, Since: long}, false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, !overdueAt(tc.status, now, time.Minute).After(now))
		})
	}
}

// One line when a shard begins to be overdue, and a figure each minute.
func TestReport(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		s.actor.onProcess = func(context.Context, *kcl.Batch) error { time.Sleep(5 * time.Minute); return nil }
		s.start()
		s.deliver(batch(1, 2), batch(3, 4))
		settle(500 * time.Millisecond) // between the instants at which the batches end
		for range 10 * 60 {
			time.Sleep(time.Second)
			s.c.Report(time.Now())
		}
		line := "WARN shard delivers nothing state=processing"
		assert.Equal(t, []string{line, line}, s.log.took(), "one for each batch")
		each := []float64{60_500, 120_500, 180_500, 240_500}
		assert.Equal(t, slices.Concat(each, each), s.rec.Values("ProcessTask", "NotDelivering.Time"))
	})
}

// Asked only when there can be something to say, it says all that and at once.
func TestReportSaysWhenToAskAgain(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		s.actor.onProcess = func(context.Context, *kcl.Batch) error { time.Sleep(150 * time.Second); return nil }
		s.start()
		asked := 0
		ask := func(until time.Time) {
			for time.Now().Before(until) {
				again := s.c.Report(time.Now())
				asked++
				if !assert.True(t, again.After(time.Now())) {
					return
				}
				time.Sleep(time.Until(again))
			}
		}
		ask(time.Now().Add(10 * time.Minute))
		s.deliver(batch(1, 2), batch(3, 4))
		ask(time.Now().Add(10 * time.Minute))
		line := "WARN shard delivers nothing state=processing"
		assert.Equal(t, []string{line, line}, s.log.took(), "one for each batch")
		assert.Equal(t, []float64{60_000, 120_000, 60_000, 120_000}, s.rec.Values("ProcessTask", "NotDelivering.Time"))
		assert.LessOrEqual(t, asked, 30, "it need not be asked each second")
	})
}

// A batch that fails and fails is overdue, however often it is delivered.
func TestReportOfARetriedBatch(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		phase(s, "retrying")
		start := time.Now()
		s.log.took()
		for range 10 * 60 {
			time.Sleep(time.Second)
			s.c.Report(time.Now())
		}
		assert.Equal(t, []string{"WARN shard delivers nothing state=retrying"}, s.log.took())
		assert.Len(t, s.rec.Values("ProcessTask", "NotDelivering.Time"), 10)
		st := s.c.Status()
		assert.Equal(t, start, st.Since)
		assert.Greater(t, st.Attempts, 20)
	})
}

// do-better 9: a lease at AT_TIMESTAMP in an application without one.
func TestTimestampNotConfigured(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, p := range map[string]kcl.InitialPosition{"configured": kcl.AtTimestamp(at), "not configured": kcl.TrimHorizon} {
		bubble(t, name, func(t *testing.T, s *stage) {
			s.stream.Position = p
			s.rows.put(withCheckpoint(s, kcl.AtTimestampSentinel))
			s.start()
			if name == "configured" {
				assert.Equal(t, at, s.feed.shard.Timestamp)
				assert.Empty(t, s.log.took())
				return
			}
			assert.True(t, s.feed.shard.Timestamp.IsZero())
			assert.Len(t, s.log.took(), 1)
		})
	}
}
