package consumer

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
)

// always answers every failure with a.
func always(a kcl.Action) func(kcl.Failure) kcl.Action {
	return func(kcl.Failure) kcl.Action { return a }
}

func TestRetryDelay(t *testing.T) {
	for n, want := range map[int]time.Duration{
		1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 3: 400 * time.Millisecond,
		9: 25600 * time.Millisecond, 10: 30 * time.Second, 1 << 20: 30 * time.Second,
	} {
		assert.Equal(t, want, retryDelay(n, firstRetry, maxRetry), n)
	}
}

func TestPolicyOfAFailingBatch(t *testing.T) {
	bubble(t, "retry after", func(t *testing.T, s *stage) {
		s.cfg.OnFailure = always(kcl.RetryAfter(time.Minute))
		results := failing(errTest, errTest)
		s.actor.onProcess = func(context.Context, *kcl.Batch) error { return results() }
		s.start()
		s.took()
		start := time.Now()
		s.deliver(batch(1, 2))
		settle(2 * time.Minute)
		assert.Equal(t, []string{"process 1-2", "process 1-2", "process 1-2"}, s.took())
		assert.Equal(t, 2*time.Minute, time.Since(start))
	})
	bubble(t, "skip", func(t *testing.T, s *stage) {
		s.cfg.OnFailure = always(kcl.Skip)
		results := failing(errTest)
		var failed *kcl.Batch
		s.actor.onProcess = func(_ context.Context, b *kcl.Batch) error {
			if failed == nil {
				failed = b
			}
			return results()
		}
		s.start()
		s.took()
		s.deliver(batch(1, 2), batch(3, 4))
		assert.Equal(t, []string{"process 1-2", "process 3-4"}, s.took())
		assert.Equal(t, []string{"ERROR processor failed callback=ProcessRecords first=1 last=2"}, s.log.took())
		require.NoError(t, failed.Checkpoint(t.Context()), "skipped records count as processed")
		assert.Equal(t, []string{"checkpoint 2"}, s.took())
	})
	bubble(t, "stop shard", func(t *testing.T, s *stage) {
		phase(s, "stopped")
		s.deliver(batch(3, 4))
		settle(24 * time.Hour)
		assert.Empty(t, s.took(), "nothing is delivered, and the lease is kept")
		assert.True(t, s.feed.closed, "fetching has ended")
		st := s.c.Status()
		assert.Equal(t, StateStopped, st.State)
		assert.Equal(t, "stopped by OnFailure after ProcessRecords failed", st.Waiting)
		assert.Equal(t, errTest, st.Err)
		var final error
		s.actor.onShutdown = func(ctx context.Context, cp kcl.Checkpointer) error {
			final = cp.Checkpoint(ctx)
			return nil
		}
		s.c.Stop(false)
		assert.Equal(t, Released, s.ended().End)
		assert.NoError(t, final)
		assert.Equal(t, []string{"shutdown requested", "release", "drop", "lease lost"}, s.took(), "the failed batch is not covered")
	})
	bubble(t, "stop worker", func(t *testing.T, s *stage) {
		var cause error
		s.cfg.OnFailure = always(kcl.StopWorker)
		s.cfg.StopWorker = func(err error) { cause = err }
		s.actor.onProcess = func(context.Context, *kcl.Batch) error { return errTest }
		s.start()
		s.deliver(batch(1, 2))
		require.ErrorIs(t, cause, errTest)
		assert.EqualError(t, cause, "shard shardId-000000000003: ProcessRecords: scripted failure")
		s.goesOn()
		s.c.Stop(false)
		assert.Equal(t, Released, s.ended().End)
	})
}

func TestPanicIsAFailure(t *testing.T) {
	for name, value := range map[string]any{"error": errTest, "text": "oh no"} {
		bubble(t, name, func(t *testing.T, s *stage) {
			var got kcl.Failure
			s.cfg.OnFailure = func(f kcl.Failure) kcl.Action { got = f; return kcl.Skip }
			s.actor.onProcess = func(context.Context, *kcl.Batch) error { panic(value) }
			s.start()
			s.deliver(batch(1, 2))
			require.NotNil(t, got.Panic)
			assert.Equal(t, value, got.Panic.Value)
			assert.Contains(t, string(got.Panic.Stack), "ProcessRecords")
			assert.EqualError(t, got.Err, fmt.Sprintf("panic: %v", value))
			assert.Equal(t, value == any(errTest), errors.Is(got.Err, errTest))
			s.goesOn()
		})
	}
}

func TestPanicInEveryCallback(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		var callbacks []kcl.Callback
		s.cfg.OnFailure = func(f kcl.Failure) kcl.Action {
			if f.Panic != nil {
				callbacks = append(callbacks, f.Callback)
			}
			panic("and here")
		}
		news := failing(errTest)
		s.cfg.NewProcessor = func(context.Context, kcl.ShardInfo) (kcl.RecordProcessor, error) {
			if news() != nil {
				panic("new")
			}
			return s.actor, nil
		}
		inits := failing(errTest)
		s.actor.onInitialize = func(context.Context, *kcl.Initialization) error {
			if inits() != nil {
				panic("initialize")
			}
			return nil
		}
		s.actor.onEnded = func(context.Context) error { panic("ended") }
		s.actor.onShutdown = func(context.Context, kcl.Checkpointer) error { panic("shutdown") }
		s.actor.onLost = func(context.Context) { panic("lost") }
		s.start()
		settle(time.Second)
		s.deliver(endOf(batch(1, 0)))
		s.c.Stop(false)
		assert.Equal(t, Released, s.ended().End)
		assert.Equal(t, []kcl.Callback{
			kcl.CallbackNew, kcl.CallbackInitialize, kcl.CallbackShardEnded,
			kcl.CallbackShutdownRequested, kcl.CallbackLeaseLost,
		}, callbacks)
	})
}

// consumption#22: initialize is repeated on the same processor, and the shard is
// opened once.
func TestInitializeFails(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		news := failing(errTest, errTest)
		makes := s.cfg.NewProcessor
		s.cfg.NewProcessor = func(ctx context.Context, shard kcl.ShardInfo) (kcl.RecordProcessor, error) {
			if err := news(); err != nil {
				return nil, err
			}
			return makes(ctx, shard)
		}
		inits := failing(errTest, errTest, errTest)
		s.actor.onInitialize = func(context.Context, *kcl.Initialization) error { return inits() }
		opened := 0
		open := s.cfg.Open
		s.cfg.Open = func(ctx context.Context, sh shardToRead) Source { opened++; return open(ctx, sh) }
		s.start()
		s.deliver(batch(1, 2))
		settle(time.Minute)
		init := "initialize TRIM_HORIZON"
		assert.Equal(t, []string{"new", init, init, init, init, "process 1-2"}, s.took())
		assert.Equal(t, 1, opened)
	})
	bubble(t, "no processor and no error", func(t *testing.T, s *stage) {
		s.cfg.NewProcessor = func(context.Context, kcl.ShardInfo) (kcl.RecordProcessor, error) { return nil, nil }
		s.cfg.OnFailure = always(kcl.Skip)
		s.start()
		settle(time.Minute)
		st := s.c.Status()
		assert.EqualError(t, st.Err, "it returned no processor", "skipping is no way out")
		assert.Equal(t, "NewProcessor failed and is tried again", st.Waiting)
		s.c.Stop(false)
		assert.Equal(t, Released, s.ended().End)
		assert.Equal(t, []string{"close", "release", "drop"}, s.took())
	})
	bubble(t, "skip", func(t *testing.T, s *stage) {
		s.cfg.OnFailure = always(kcl.Skip)
		s.actor.onInitialize = func(context.Context, *kcl.Initialization) error { return errTest }
		s.start()
		s.deliver(batch(1, 2))
		assert.Equal(t, append(begun, "process 1-2"), s.took())
	})
}

// A returned ErrLeaseLost ends the consumer quietly, and its lease's heartbeat.
func TestReturnedLeaseLostEndsQuietly(t *testing.T) {
	lost := fmt.Errorf("checkpoint: %w", kcl.ErrLeaseLost)
	for name, script := range map[string]func(*actor){
		"initialize": func(a *actor) { a.onInitialize = func(context.Context, *kcl.Initialization) error { return lost } },
		"process":    func(a *actor) { a.onProcess = func(context.Context, *kcl.Batch) error { return lost } },
		"ended":      func(a *actor) { a.onEnded = func(context.Context) error { return lost } },
	} {
		bubble(t, name, func(t *testing.T, s *stage) {
			s.cfg.OnFailure = func(kcl.Failure) kcl.Action { t.Error("asked for an action"); return kcl.Skip }
			script(s.actor)
			s.feed.batches <- endOf(batch(1, 2))
			s.start()
			assert.Equal(t, Result{End: Lost}, s.ended())
			trace := s.took()
			assert.Equal(t, "lease lost", trace[len(trace)-1])
			assert.Contains(t, trace, "drop")
			assert.NotContains(t, trace, "checkpoint SHARD_END")
			assert.Empty(t, s.log.took())
		})
	}
	bubble(t, "shutdown", func(t *testing.T, s *stage) {
		s.actor.onShutdown = func(context.Context, kcl.Checkpointer) error { return lost }
		s.start()
		s.took()
		s.c.Stop(false)
		assert.Equal(t, Result{End: Lost}, s.ended())
		assert.Equal(t, []string{"close", "shutdown requested", "drop", "lease lost"}, s.took())
		assert.Empty(t, s.log.took())
	})
}

// A callback's context carries the values of Run's, and says why it was
// cancelled.
func TestCallbackContexts(t *testing.T) {
	waitFor := func(causes map[string]error, name string) func(context.Context) {
		return func(ctx context.Context) {
			if ctx.Value(ctxKey{}) != "value" {
				causes[name] = errors.New("the values of Run's context are missing")
				return
			}
			select {
			case <-ctx.Done():
				causes[name] = context.Cause(ctx)
			case <-time.After(time.Hour):
			}
		}
	}
	run := func(s *stage) map[string]error {
		causes := map[string]error{}
		s.actor.onProcess = func(ctx context.Context, _ *kcl.Batch) error { waitFor(causes, "process")(ctx); return nil }
		s.actor.onShutdown = func(ctx context.Context, _ kcl.Checkpointer) error { waitFor(causes, "shutdown")(ctx); return nil }
		s.actor.onLost = waitFor(causes, "lost")
		s.start()
		s.deliver(batch(1, 2))
		return causes
	}
	bubble(t, "lease lost", func(t *testing.T, s *stage) {
		causes := run(s)
		s.c.LeaseLost()
		settle(2 * time.Hour)
		s.ended()
		assert.Equal(t, map[string]error{"process": kcl.ErrLeaseLost}, causes, "LeaseLost has time to clean up")
	})
	bubble(t, "graceful stop", func(t *testing.T, s *stage) {
		causes := run(s)
		s.c.Stop(false)
		settle(4 * time.Hour)
		s.ended()
		assert.Empty(t, causes, "nothing is cancelled")
	})
	bubble(t, "hard stop", func(t *testing.T, s *stage) {
		causes := run(s)
		s.stop()
		s.ended()
		assert.Equal(t, map[string]error{"process": kcl.ErrStopping, "lost": kcl.ErrStopping}, causes)
	})
	bubble(t, "graceful stop, then hard", func(t *testing.T, s *stage) {
		causes := run(s)
		s.c.Stop(false)
		settle(time.Hour + time.Minute) // the batch is done
		s.stop()
		s.ended()
		assert.Equal(t, map[string]error{"shutdown": kcl.ErrStopping, "lost": kcl.ErrStopping}, causes)
	})
	bubble(t, "shard end, lease lost", func(t *testing.T, s *stage) {
		causes := map[string]error{}
		s.actor.onEnded = func(ctx context.Context) error { waitFor(causes, "ended")(ctx); return nil }
		s.start()
		s.deliver(endOf(batch(1, 2)))
		s.c.LeaseLost()
		assert.Equal(t, Lost, s.ended().End)
		assert.Equal(t, map[string]error{"ended": kcl.ErrLeaseLost}, causes)
	})
}
