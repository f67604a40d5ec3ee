package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/testbed"
	"github.com/go-kcl/kcl/metrics"
)

// table is a Leases that writes down what it is asked.
type table struct {
	mu     sync.Mutex
	writes []string
	err    error         // of the next writes
	takes  time.Duration // of each write
}

func (l *table) write(what string) error {
	time.Sleep(l.takes)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	l.writes = append(l.writes, what)
	return nil
}

func (l *table) Checkpoint(_ context.Context, key, token string, p kcl.Position) error {
	return l.write(fmt.Sprintf("%s %s checkpoint %s", key, token, p))
}

func (l *table) Prepare(_ context.Context, key, token string, p kcl.Position, state []byte) error {
	return l.write(fmt.Sprintf("%s %s prepare %s %q", key, token, p, state))
}

func (l *table) Accept(key, token string, p kcl.Position) {
	_ = l.write(fmt.Sprintf("%s %s accept %s", key, token, p))
}

// took returns the writes since the last call.
func (l *table) took() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.writes
	l.writes = nil
	return w
}

func at(seq string, sub ...int64) kcl.Position {
	p := kcl.Position{SequenceNumber: seq}
	if len(sub) > 0 {
		p.SubSequenceNumber = sub[0]
	}
	return p
}

func newCheckpointer(last kcl.Position) (*Checkpointer, *table) {
	l := &table{}
	return New(Config{Leases: l, Key: "k", Token: "t", Last: last}), l
}

// consumption#43
func TestAllowed(t *testing.T) {
	for name, tc := range map[string]struct {
		p, last, permitted kcl.Position
		ok                 bool
	}{
		"none":                                {kcl.Position{}, at("5"), at("10"), false},
		"not a number":                        {at("x"), at("5"), at("10"), false},
		"negative sub-sequence number":        {at("7", -1), at("5"), at("10"), false},
		"backwards":                           {at("4"), at("5"), at("10"), false},
		"backwards by sub-sequence number":    {at("5", 1), at("5", 2), at("10"), false},
		"the last one":                        {at("5"), at("5"), at("10"), true},
		"forwards":                            {at("7"), at("5"), at("10"), true},
		"longer number":                       {at("10"), at("9"), at("10"), true},
		"all that was delivered":              {at("10", 2), at("5"), at("10", 2), true},
		"too large":                           {at("11"), at("5"), at("10"), false},
		"too large by sub-sequence number":    {at("10", 3), at("5"), at("10", 2), false},
		"TRIM_HORIZON at the start":           {kcl.AtTrimHorizon, kcl.AtTrimHorizon, at("10"), false},
		"TRIM_HORIZON after progress":         {kcl.AtTrimHorizon, at("5"), at("10"), false},
		"LATEST at the start":                 {kcl.AtLatest, kcl.AtTrimHorizon, at("10"), false},
		"LATEST after progress":               {kcl.AtLatest, at("5"), at("10"), false},
		"AT_TIMESTAMP":                        {kcl.AtTimestampSentinel, kcl.AtTimestampSentinel, at("10"), false},
		"SHARD_END before the shard's end":    {kcl.ShardEnd, at("5"), at("10"), false},
		"SHARD_END at the shard's end":        {kcl.ShardEnd, at("5"), kcl.ShardEnd, true},
		"number at the shard's end":           {at("7"), at("5"), kcl.ShardEnd, true},
		"number once SHARD_END is stored":     {at("7"), kcl.ShardEnd, kcl.ShardEnd, false},
		"first number after a sentinel":       {at("0"), kcl.AtTrimHorizon, at("10"), true},
		"number before anything is delivered": {at("0"), kcl.AtTrimHorizon, kcl.AtTrimHorizon, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := allowed(tc.p, tc.last, tc.permitted)
			if tc.ok {
				assert.NoError(t, err)
				return
			}
			assert.ErrorIs(t, err, kcl.ErrInvalidPosition)
		})
	}
}

// consumption#43: a refused position writes nothing and changes nothing.
func TestRefusedPositionWritesNothing(t *testing.T) {
	c, l := newCheckpointer(at("5"))
	b := c.Deliver(at("10"))
	for _, p := range []kcl.Position{at("4"), at("11"), {}, at("x"), kcl.AtLatest, kcl.AtTrimHorizon, kcl.ShardEnd} {
		assert.ErrorIs(t, b.CheckpointAt(t.Context(), p), kcl.ErrInvalidPosition)
		_, err := b.Prepare(t.Context(), p, nil)
		assert.ErrorIs(t, err, kcl.ErrInvalidPosition)
	}
	assert.Empty(t, l.took())
	assert.Equal(t, at("5"), c.Last())
	require.NoError(t, b.CheckpointAt(t.Context(), at("7")))
	assert.Equal(t, []string{"k t checkpoint 7"}, l.took())
}

// consumption#44
func TestSamePositionTwiceIsOneWrite(t *testing.T) {
	c, l := newCheckpointer(kcl.AtTrimHorizon)
	b := c.Deliver(at("10", 2))
	for range 2 {
		require.NoError(t, b.CheckpointAt(t.Context(), at("10", 2)))
		require.NoError(t, b.Checkpoint(t.Context()))
		require.NoError(t, c.Final().Checkpoint(t.Context()))
	}
	assert.Equal(t, []string{"k t checkpoint 10:2"}, l.took())
}

// consumption#49: order and equality, with numbers of the length that Kinesis
// gives.
func TestOrderOfPositions(t *testing.T) {
	const n = "49590338271490256608559692538361571095921575989136588898"
	ordered := []kcl.Position{
		kcl.AtTimestampSentinel, kcl.AtTrimHorizon, kcl.AtLatest,
		at("0"), at("9"), at("10"), at(n[:55]), at(n), at(n, 1), at(n, 12), at(n[:55] + "9"), at("1" + n),
		kcl.ShardEnd,
	}
	for i, p := range ordered {
		for j, q := range ordered {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			assert.Equal(t, want, p.Compare(q), "%s and %s", p, q)
			assert.Equal(t, i == j, p == q, "%s and %s", p, q)
		}
	}
	end := kcl.ShardEnd
	end.SubSequenceNumber = 7
	assert.Zero(t, end.Compare(kcl.ShardEnd), "two SHARD_END are equal")
	assert.True(t, end.IsSentinel())
}

// consumption#46
func TestPrepare(t *testing.T) {
	ctx := t.Context()
	c, l := newCheckpointer(at("5"))
	b := c.Deliver(at("10"))

	first, err := b.Prepare(ctx, at("6", 3), []byte("state"))
	require.NoError(t, err)
	second, err := b.Prepare(ctx, at("8"), nil)
	require.NoError(t, err)
	assert.Equal(t, []string{`k t prepare 6:3 "state"`, `k t prepare 8 ""`}, l.took())
	assert.Equal(t, at("5"), c.Last(), "the checkpoint stays where it is")
	assert.Equal(t, at("6", 3), first.Position)

	require.NoError(t, first.Commit(ctx))
	require.NoError(t, second.Commit(ctx), "in rising order")
	assert.Equal(t, []string{"k t checkpoint 6:3", "k t checkpoint 8"}, l.took())
	assert.ErrorIs(t, first.Commit(ctx), kcl.ErrInvalidPosition, "an earlier one after a later one")

	same, err := b.Prepare(ctx, at("8"), []byte("x"))
	require.NoError(t, err)
	require.NoError(t, same.Commit(ctx))
	assert.Empty(t, l.took(), "at the last checkpoint there is nothing to prepare")
}

func TestPrepareFails(t *testing.T) {
	c, l := newCheckpointer(at("5"))
	l.err = fmt.Errorf("lease k: %w", kcl.ErrThrottled)
	p, err := c.Deliver(at("10")).Prepare(t.Context(), at("6"), nil)
	assert.Nil(t, p)
	assert.ErrorIs(t, err, kcl.ErrThrottled)
}

// A failed write leaves the checkpoint where it was, and may be tried again.
func TestFailedWrite(t *testing.T) {
	c, l := newCheckpointer(at("5"))
	b := c.Deliver(at("10"))
	for _, class := range []error{kcl.ErrThrottled, kcl.ErrDependency, kcl.ErrInvalidState, kcl.ErrLeaseLost} {
		l.err = fmt.Errorf("lease k: %w", class)
		assert.ErrorIs(t, b.Checkpoint(t.Context()), class)
		assert.Equal(t, at("5"), c.Last())
	}
	l.err = nil
	require.NoError(t, b.Checkpoint(t.Context()))
	assert.Equal(t, at("10"), c.Last())
}

// A checkpoint whose answer was lost may be stored: then an earlier one is
// reached already, and cannot be named any more.
func TestLaterCheckpointTurnsOutToBeStored(t *testing.T) {
	ctx := t.Context()
	c, l := newCheckpointer(kcl.AtTrimHorizon)
	first := c.Deliver(at("10"))
	first.Accept()
	second := c.Deliver(at("20"))
	l.err = kcl.ErrDependency
	require.ErrorIs(t, second.Checkpoint(ctx), kcl.ErrDependency)
	l.err = fmt.Errorf("lease k: %w", kcl.ErrInvalidPosition)
	require.NoError(t, first.Checkpoint(ctx))
	require.NoError(t, c.Final().Checkpoint(ctx))
	require.ErrorIs(t, second.CheckpointAt(ctx, at("10")), kcl.ErrInvalidPosition)
}

// A batch's Checkpoint stores that batch's end, whenever it is called.
func TestBatchCheckpointIsItsOwnEnd(t *testing.T) {
	ctx := t.Context()
	c, l := newCheckpointer(kcl.AtTrimHorizon)
	first := c.Deliver(at("10"))
	first.Accept()
	second := c.Deliver(at("20"))
	second.Accept()
	third := c.Deliver(at("30"))

	require.NoError(t, first.Checkpoint(ctx), "late, with another batch in hand")
	assert.Equal(t, []string{"k t checkpoint 10"}, l.took())
	require.NoError(t, third.Checkpoint(ctx), "still in hand")
	assert.Equal(t, []string{"k t checkpoint 30"}, l.took())
	require.NoError(t, second.Checkpoint(ctx), "a later one is stored")
	assert.Empty(t, l.took())
}

// A failed batch is not covered by its own Checkpoint any more, nor by the last
// one's, until a retry or the policy has settled it.
func TestFailedBatchIsNotCovered(t *testing.T) {
	ctx := t.Context()
	c, l := newCheckpointer(kcl.AtTrimHorizon)
	c.Deliver(at("10")).Accept()
	failed := c.Deliver(at("20"))
	failed.Fail(kcl.Position{})

	assert.ErrorIs(t, failed.Checkpoint(ctx), kcl.ErrInvalidPosition)
	require.NoError(t, c.Final().Checkpoint(ctx))
	assert.Equal(t, []string{"k t checkpoint 10"}, l.took())

	retry := c.Deliver(at("20"))
	assert.ErrorIs(t, failed.Checkpoint(ctx), kcl.ErrInvalidPosition, "the retry is under way")
	retry.Fail(at("15"))
	require.NoError(t, c.Final().Checkpoint(ctx))
	assert.Equal(t, []string{"k t checkpoint 15"}, l.took(), "what FailedAt says is done counts")

	retry = c.Deliver(at("20"))
	retry.Fail(kcl.Position{})
	retry.Accept() // skipped by the policy
	require.NoError(t, failed.Checkpoint(ctx))
	assert.Equal(t, []string{"k t checkpoint 20"}, l.took())
}

func TestExplicitCheckpointInAFailedBatch(t *testing.T) {
	c, l := newCheckpointer(kcl.AtTrimHorizon)
	b := c.Deliver(at("20"))
	b.Fail(kcl.Position{})
	require.NoError(t, b.CheckpointAt(t.Context(), at("12")), "the processor says so itself")
	require.NoError(t, c.Final().Checkpoint(t.Context()))
	assert.Equal(t, []string{"k t checkpoint 12"}, l.took())
}

// consumption#30: without records, the end is where the batch before ended, and
// nothing more is permitted.
func TestEmptyBatch(t *testing.T) {
	ctx := t.Context()
	c, l := newCheckpointer(kcl.AtTrimHorizon)
	empty := c.Deliver(kcl.Position{})
	require.NoError(t, empty.Checkpoint(ctx))
	assert.Empty(t, l.took())
	assert.ErrorIs(t, empty.CheckpointAt(ctx, at("1")), kcl.ErrInvalidPosition)
	empty.Accept()
	c.Deliver(at("10")).Accept()
	require.NoError(t, c.Deliver(kcl.Position{}).Checkpoint(ctx))
	assert.Equal(t, []string{"k t checkpoint 10"}, l.took())
}

func TestEndOfShard(t *testing.T) {
	ctx := t.Context()
	c, l := newCheckpointer(kcl.AtTrimHorizon)
	b := c.Deliver(at("10"))
	b.Accept()
	assert.ErrorIs(t, c.End(ctx), kcl.ErrInvalidPosition, "the end was not reached")
	c.ReachEnd()
	require.NoError(t, b.Checkpoint(ctx), "the last record, in ShardEnded")
	require.NoError(t, b.Checkpoint(ctx))
	l.err = kcl.ErrThrottled
	assert.ErrorIs(t, c.End(ctx), kcl.ErrThrottled)
	l.err = nil
	require.NoError(t, c.End(ctx))
	require.NoError(t, c.End(ctx))
	require.NoError(t, b.Checkpoint(ctx), "nothing goes back behind SHARD_END")
	assert.Equal(t, []string{"k t checkpoint 10", "k t checkpoint SHARD_END"}, l.took())
}

func TestExplicitShardEnd(t *testing.T) {
	c, l := newCheckpointer(at("10"))
	c.ReachEnd()
	odd := kcl.ShardEnd
	odd.SubSequenceNumber = 3
	require.NoError(t, c.Final().CheckpointAt(t.Context(), odd))
	require.NoError(t, c.End(t.Context()))
	assert.Equal(t, []string{"k t checkpoint SHARD_END"}, l.took())
	assert.Equal(t, kcl.ShardEnd, c.Last())
}

// The handler form: what is accepted is handed on for the next renewal, and no
// position before it can be stored behind the renewal's back.
func TestAuto(t *testing.T) {
	ctx := t.Context()
	l := &table{}
	c := New(Config{Leases: l, Key: "k", Token: "t", Last: kcl.AtTrimHorizon, Auto: true})
	first := c.Deliver(at("10"))
	first.Accept()
	second := c.Deliver(at("20"))
	second.Fail(at("15"))
	second.Fail(at("15"))
	assert.Equal(t, []string{"k t accept 10", "k t accept 15"}, l.took())
	assert.ErrorIs(t, first.CheckpointAt(ctx, at("8")), kcl.ErrInvalidPosition)
	require.NoError(t, first.Checkpoint(ctx))
	assert.Empty(t, l.took())
	third := c.Deliver(at("20"))
	require.NoError(t, third.Checkpoint(ctx), "a handler may also ask for a checkpoint at once")
	third.Accept()
	assert.Equal(t, []string{"k t checkpoint 20"}, l.took())
}

// Writes of one tenure are made one at a time, and waiting for one's turn ends
// with the context.
func TestWritesAreMadeOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l := newCheckpointer(kcl.AtTrimHorizon)
		l.takes = time.Second
		b := c.Deliver(at("20"))
		start := time.Now()
		var wg sync.WaitGroup
		for _, seq := range []string{"10", "20"} {
			wg.Go(func() { _ = b.CheckpointAt(context.Background(), at(seq)) })
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Millisecond, kcl.ErrStopping)
		defer cancel()
		err := b.Checkpoint(ctx)
		assert.ErrorIs(t, err, kcl.ErrDependency)
		assert.ErrorIs(t, err, kcl.ErrStopping)
		wg.Wait()
		assert.Equal(t, 2*time.Second, time.Since(start))
		assert.Equal(t, []string{"k t checkpoint 10", "k t checkpoint 20"}, l.took())
	})
}

// Positions are read and moved while a write is under way: nothing waits for it.
func TestDeliveryDoesNotWaitForAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l := newCheckpointer(kcl.AtTrimHorizon)
		l.takes = time.Hour
		b := c.Deliver(at("10"))
		done := make(chan error, 1)
		go func() { done <- b.Checkpoint(context.Background()) }()
		synctest.Wait()
		start := time.Now()
		b.Accept()
		c.Deliver(at("20"))
		assert.Equal(t, kcl.AtTrimHorizon, c.Last())
		assert.Equal(t, at("10"), c.Accepted())
		assert.Zero(t, time.Since(start))
		require.NoError(t, <-done)
	})
}

func TestFigures(t *testing.T) {
	rec := &testbed.Figures{}
	l := &table{}
	c := New(Config{Leases: l, Last: kcl.AtTrimHorizon, Metrics: rec, Dimensions: []metrics.Dimension{metrics.Shard("s")}})
	require.NoError(t, c.Deliver(at("1")).Checkpoint(t.Context()))
	l.err = errors.New("x")
	c.ReachEnd()
	require.Error(t, c.End(t.Context()))
	dims := []metrics.Dimension{metrics.Shard("s")}
	assert.Equal(t, []metrics.Sample{
		{Operation: "ProcessTask", Name: "UpdateLease.Success", Value: 1, Unit: metrics.Count, Level: metrics.Detailed, Dimensions: dims},
		{Operation: "ShutdownTask", Name: "UpdateLease.Success", Value: 0, Unit: metrics.Count, Level: metrics.Detailed, Dimensions: dims},
	}, slices.DeleteFunc(rec.All(), func(s metrics.Sample) bool { return s.Unit != metrics.Count }))
}
