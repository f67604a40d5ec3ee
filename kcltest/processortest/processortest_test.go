package processortest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/kcltest/processortest"
)

// actor notes what it is called with, and does what its hooks say.
type actor struct {
	kcl.NopProcessor
	calls      []string
	init       *kcl.Initialization
	last       *kcl.Batch
	process    func(context.Context, *kcl.Batch) error
	ended      func(context.Context) error
	shutdown   func(context.Context, kcl.Checkpointer) error
	lostBecame error
}

func (a *actor) Initialize(_ context.Context, in *kcl.Initialization) error {
	a.calls = append(a.calls, "initialize")
	a.init = in
	return nil
}

func (a *actor) ProcessRecords(ctx context.Context, b *kcl.Batch) error {
	call := "process"
	for _, r := range b.Records {
		call += " " + string(r.Data)
	}
	a.calls = append(a.calls, call)
	a.last = b
	if a.process != nil {
		return a.process(ctx, b)
	}
	return nil
}

func (a *actor) LeaseLost(ctx context.Context) {
	a.calls = append(a.calls, "lease lost")
	a.lostBecame = context.Cause(ctx)
}

func (a *actor) ShardEnded(ctx context.Context) error {
	a.calls = append(a.calls, "shard ended")
	if a.ended != nil {
		return a.ended(ctx)
	}
	return nil
}

func (a *actor) ShutdownRequested(ctx context.Context, cp kcl.Checkpointer) error {
	a.calls = append(a.calls, "shutdown requested")
	if a.shutdown != nil {
		return a.shutdown(ctx, cp)
	}
	return nil
}

func (a *actor) took() []string {
	c := a.calls
	a.calls = nil
	return c
}

var errTest = errors.New("scripted failure")

// begin returns a shard with five records, a to e, and a processor that is
// initialized.
func begin(t *testing.T) (*processortest.Shard, *processortest.Tenure, *actor) {
	t.Helper()
	s := processortest.NewShard()
	s.Put("a", "b", "c", "d", "e")
	a := &actor{}
	tn := s.Acquire(a)
	require.NoError(t, tn.Initialize(t.Context()))
	a.took()
	return s, tn, a
}

func TestWholeLife(t *testing.T) {
	ctx := t.Context()
	s := processortest.NewShard()
	p := s.Put("a", "b", "c")
	a := &actor{process: func(ctx context.Context, b *kcl.Batch) error { return b.Checkpoint(ctx) }}
	tn := s.Acquire(a)
	assert.ErrorIs(t, tn.Deliver(ctx, 0), processortest.ErrNotInitialized)
	require.NoError(t, tn.Initialize(ctx))
	assert.Equal(t, kcl.AtTrimHorizon, a.init.Position)
	assert.Nil(t, a.init.Pending)
	assert.Equal(t, "tenure-1", a.init.Shard.LeaseToken)
	require.NoError(t, tn.Deliver(ctx, 2))
	assert.False(t, a.last.AtShardEnd)
	assert.ErrorIs(t, tn.End(ctx), processortest.ErrNotAtEnd)
	s.Close("shardId-000000000001", "shardId-000000000002")
	assert.ErrorIs(t, tn.End(ctx), processortest.ErrNotAtEnd)
	require.NoError(t, tn.Deliver(ctx, 0))
	assert.True(t, a.last.AtShardEnd)
	assert.Equal(t, []string{"shardId-000000000001", "shardId-000000000002"}, a.last.ChildShards)
	require.NoError(t, tn.Deliver(ctx, 0))
	require.NoError(t, tn.End(ctx))
	assert.Equal(t, []string{"initialize", "process a b", "process c", "shard ended"}, a.took())
	assert.Equal(t, []kcl.Position{p[1], p[2], kcl.ShardEnd}, s.Checkpoints())
	for _, f := range []func(context.Context) error{tn.End, tn.LoseLease, tn.Shutdown, tn.Stop, tn.Initialize} {
		assert.ErrorIs(t, f(ctx), processortest.ErrOver)
	}
}

func TestRedelivery(t *testing.T) {
	ctx := t.Context()
	for name, tc := range map[string]struct {
		fail func(context.Context, *kcl.Batch) error
		want []string // the next two deliveries of 2
	}{
		"nothing done": {func(context.Context, *kcl.Batch) error { return errTest }, []string{"process a b c", "process d e"}},
		"panic":        {func(context.Context, *kcl.Batch) error { panic(errTest) }, []string{"process a b c", "process d e"}},
		"checkpointed": {func(ctx context.Context, b *kcl.Batch) error {
			return errors.Join(b.CheckpointAt(ctx, b.Records[0].Position), errTest)
		}, []string{"process b c", "process d e"}},
		"failed at":        {func(_ context.Context, b *kcl.Batch) error { return kcl.FailedAt(b.Records[2].Position, errTest) }, []string{"process c", "process d e"}},
		"all checkpointed": {func(ctx context.Context, b *kcl.Batch) error { return errors.Join(b.Checkpoint(ctx), errTest) }, []string{"process d e"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, tn, a := begin(t)
			a.process = tc.fail
			assert.ErrorIs(t, tn.Deliver(ctx, 3), errTest)
			a.process = nil
			a.took()
			require.NoError(t, tn.Deliver(ctx, 2))
			require.NoError(t, tn.Deliver(ctx, 2))
			assert.Equal(t, tc.want, a.took())
		})
	}
	t.Run("skipped", func(t *testing.T) {
		s, tn, a := begin(t)
		a.process = func(context.Context, *kcl.Batch) error { return errTest }
		require.Error(t, tn.Deliver(ctx, 3))
		a.process = nil
		failed := a.last
		assert.ErrorIs(t, failed.Checkpoint(ctx), kcl.ErrInvalidPosition)
		tn.Skip()
		require.NoError(t, failed.Checkpoint(ctx))
		assert.Equal(t, "c", s.DataAt(s.Checkpoint()))
		require.NoError(t, tn.Deliver(ctx, 0))
		assert.Equal(t, []string{"process a b c", "process d e"}, a.took())
	})
}

func TestPanic(t *testing.T) {
	_, tn, a := begin(t)
	a.process = func(context.Context, *kcl.Batch) error { panic("oh no") }
	err := tn.Deliver(t.Context(), 1)
	var p *processortest.PanicError
	require.ErrorAs(t, err, &p)
	assert.EqualError(t, err, "panic: oh no")
	assert.Contains(t, string(p.Stack), "ProcessRecords")
}

// The next owner begins at the checkpoint; the one before can store nothing.
func TestNextTenure(t *testing.T) {
	ctx := t.Context()
	s, tn, a := begin(t)
	require.NoError(t, tn.Deliver(ctx, 3))
	require.NoError(t, a.last.CheckpointAt(ctx, a.last.Records[0].Position))
	_, err := a.last.Prepare(ctx, a.last.Records[1].Position, []byte("state"))
	require.NoError(t, err)

	b := &actor{}
	next := s.Acquire(b)
	assert.ErrorIs(t, a.last.Checkpoint(ctx), kcl.ErrLeaseLost)
	require.NoError(t, next.Initialize(ctx))
	assert.Equal(t, "a", s.DataAt(b.init.Position))
	assert.Equal(t, &kcl.PendingCheckpoint{Position: a.last.Records[1].Position, State: []byte("state")}, b.init.Pending)
	require.NoError(t, next.Deliver(ctx, 0))
	assert.Equal(t, []string{"initialize", "process b c d e"}, b.took())
	require.NoError(t, b.last.Checkpoint(ctx))
	assert.Nil(t, s.Pending())
	require.NoError(t, tn.LoseLease(ctx))
	assert.Equal(t, []string{"process a b c", "lease lost"}, a.took())
}

func TestLoseTheLeaseWhileProcessing(t *testing.T) {
	for name, tc := range map[string]struct {
		end       func(*processortest.Tenure, context.Context) error
		want, got error
	}{
		"lost": {(*processortest.Tenure).LoseLease, kcl.ErrLeaseLost, nil},
		"stop": {(*processortest.Tenure).Stop, kcl.ErrStopping, kcl.ErrStopping},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, tn, a := begin(t)
				a.process = func(ctx context.Context, b *kcl.Batch) error {
					<-ctx.Done()
					time.Sleep(time.Second)
					return errors.Join(context.Cause(ctx), b.Checkpoint(context.Background()))
				}
				done := make(chan error, 1)
				go func() { done <- tn.Deliver(context.Background(), 2) }()
				synctest.Wait()
				require.NoError(t, tc.end(tn, context.Background()))
				err := <-done
				assert.ErrorIs(t, err, tc.want)
				assert.ErrorIs(t, err, kcl.ErrLeaseLost, "checkpoints are refused")
				assert.Equal(t, []string{"process a b", "lease lost"}, a.took(), "once the batch was done")
				assert.Equal(t, tc.got, a.lostBecame)
				assert.ErrorIs(t, tn.Deliver(context.Background(), 1), processortest.ErrOver)
			})
		})
	}
}

func TestRevokeFromACallback(t *testing.T) {
	ctx := t.Context()
	s, tn, a := begin(t)
	a.process = func(ctx context.Context, b *kcl.Batch) error {
		tn.Revoke()
		return errors.Join(context.Cause(ctx), b.Checkpoint(ctx))
	}
	assert.ErrorIs(t, tn.Deliver(ctx, 1), kcl.ErrLeaseLost)
	assert.Empty(t, s.Checkpoints())
	require.NoError(t, tn.LoseLease(ctx))
	assert.ErrorIs(t, tn.LoseLease(ctx), processortest.ErrOver)
}

func TestShutdown(t *testing.T) {
	ctx := t.Context()
	s, tn, a := begin(t)
	a.shutdown = func(ctx context.Context, cp kcl.Checkpointer) error { return errors.Join(cp.Checkpoint(ctx), errTest) }
	require.NoError(t, tn.Deliver(ctx, 2))
	assert.ErrorIs(t, tn.Shutdown(ctx), errTest)
	assert.Equal(t, "b", s.DataAt(s.Checkpoint()))
	assert.Equal(t, []string{"process a b", "shutdown requested", "lease lost"}, a.took())
	assert.ErrorIs(t, tn.Shutdown(ctx), processortest.ErrOver)

	b := &actor{}
	require.NoError(t, s.Acquire(b).Shutdown(ctx))
	assert.Equal(t, []string{"lease lost"}, b.took(), "never initialized")
}

func TestShardEndedIsRepeatedAfterAnError(t *testing.T) {
	ctx := t.Context()
	s, tn, a := begin(t)
	s.Close()
	require.NoError(t, tn.Deliver(ctx, 0))
	a.ended = func(context.Context) error { return errTest }
	assert.ErrorIs(t, tn.End(ctx), errTest)
	assert.Empty(t, s.Checkpoints())
	a.ended = func(ctx context.Context) error { return a.last.Checkpoint(ctx) }
	s.RefuseCheckpoints(kcl.ErrThrottled)
	assert.ErrorIs(t, tn.End(ctx), kcl.ErrThrottled)
	s.RefuseCheckpoints(nil)
	require.NoError(t, tn.End(ctx))
	assert.Equal(t, []kcl.Position{a.last.Records[4].Position, kcl.ShardEnd}, s.Checkpoints())
}

func TestHandler(t *testing.T) {
	ctx := t.Context()
	s := processortest.NewShard()
	p := s.Put("a", "b", "c")
	fail := true
	tn := s.AcquireHandler(func(_ context.Context, b *kcl.Batch) error {
		if fail {
			fail = false
			return kcl.FailedAt(b.Records[1].Position, errTest)
		}
		return nil
	})
	require.NoError(t, tn.Initialize(ctx))
	assert.ErrorIs(t, tn.Deliver(ctx, 0), errTest)
	require.NoError(t, tn.Deliver(ctx, 0))
	assert.Equal(t, []kcl.Position{p[0], p[2]}, s.Checkpoints())
}

func TestEmptyBatch(t *testing.T) {
	s, tn, a := begin(t)
	a.process = func(ctx context.Context, b *kcl.Batch) error { return b.Checkpoint(ctx) }
	require.NoError(t, tn.DeliverEmpty(t.Context()))
	assert.Equal(t, []string{"process"}, a.took())
	assert.Empty(t, s.Checkpoints())
}

func TestPutRecords(t *testing.T) {
	s := processortest.NewShard()
	five := kcl.Position{SequenceNumber: "5"}
	got, err := s.PutRecords(
		kcl.Record{Position: five}, kcl.Record{Position: kcl.Position{SequenceNumber: "5", SubSequenceNumber: 1}, Aggregated: true},
		kcl.Record{}, kcl.Record{Position: kcl.Position{SequenceNumber: "9"}}, kcl.Record{})
	require.NoError(t, err)
	var text []string
	for _, p := range got {
		text = append(text, p.String())
	}
	assert.Equal(t, []string{"5", "5:1", "6", "9", "10"}, text)
	for _, bad := range []kcl.Position{five, {SequenceNumber: "10"}, {SequenceNumber: "x"}, kcl.AtLatest} {
		_, err := s.PutRecords(kcl.Record{}, kcl.Record{Position: bad})
		assert.Error(t, err, bad)
	}
	assert.Equal(t, "11", s.Put("next")[0].String(), "a refused call appends nothing")
}

func TestLatestSkipsWhatIsThere(t *testing.T) {
	s := processortest.NewShard()
	s.Put("a")
	s.SetCheckpoint(kcl.AtLatest, nil)
	a := &actor{}
	tn := s.Acquire(a)
	require.NoError(t, tn.Initialize(t.Context()))
	s.Put("b")
	require.NoError(t, tn.Deliver(t.Context(), 0))
	assert.Equal(t, []string{"initialize", "process b"}, a.took())
}
