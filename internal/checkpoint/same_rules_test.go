package checkpoint

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/kcltest/processortest"
)

// processortest, which must not know this package, decides as it does: random
// processors are run against both.
func TestProcessortestHasTheSameRules(t *testing.T) {
	for seed := range uint64(300) {
		sameRules(t, seed)
	}
}

type both struct{ ours, theirs kcl.Checkpointer }

func sameRules(t *testing.T, seed uint64) {
	ctx := t.Context()
	rng := rand.New(rand.NewPCG(seed, 1))
	auto := seed%2 == 1
	c := New(Config{Leases: &table{}, Last: kcl.AtTrimHorizon, Auto: auto})
	shard := processortest.NewShard()
	positions := append(shard.Put("a", "b", "c", "d", "e", "f", "g", "h"), kcl.AtTrimHorizon, kcl.ShardEnd, kcl.Position{})
	var batches []both
	var prepared [][2]*kcl.Prepared

	same := func(ours, theirs error, what string) {
		t.Helper()
		require.Equal(t, errors.Is(ours, kcl.ErrInvalidPosition), errors.Is(theirs, kcl.ErrInvalidPosition), "seed %d: %s: %v; %v", seed, what, ours, theirs)
		require.Equal(t, ours == nil, theirs == nil, "seed %d: %s: %v; %v", seed, what, ours, theirs)
		stored := c.Last()
		if auto {
			stored = c.Accepted() // with the next renewal
		}
		require.Equal(t, stored, shard.Checkpoint(), "seed %d: %s", seed, what)
	}
	try := func() {
		b := batches[rng.IntN(len(batches))]
		p := positions[rng.IntN(len(positions))]
		switch rng.IntN(4) {
		case 0:
			same(b.ours.Checkpoint(ctx), b.theirs.Checkpoint(ctx), "checkpoint")
		case 1:
			same(b.ours.CheckpointAt(ctx, p), b.theirs.CheckpointAt(ctx, p), "checkpoint at "+p.String())
		case 2:
			x, errX := b.ours.Prepare(ctx, p, nil)
			y, errY := b.theirs.Prepare(ctx, p, nil)
			same(errX, errY, "prepare "+p.String())
			if errX == nil {
				prepared = append(prepared, [2]*kcl.Prepared{x, y})
			}
		case 3:
			if n := len(prepared); n > 0 {
				p := prepared[rng.IntN(n)]
				same(p[0].Commit(ctx), p[1].Commit(ctx), "commit "+p[0].Position.String())
			}
		}
	}
	process := func(_ context.Context, b *kcl.Batch) error {
		ours := c.Deliver(b.Records[len(b.Records)-1].Position)
		batches = append(batches, both{ours, b})
		for range rng.IntN(4) {
			try()
		}
		switch i := rng.IntN(len(b.Records)); rng.IntN(3) {
		case 0:
			ours.Fail(kcl.Position{})
			return errors.New("failed")
		case 1:
			var done kcl.Position
			if i > 0 {
				done = b.Records[i-1].Position
			}
			ours.Fail(done)
			return kcl.FailedAt(b.Records[i].Position, errors.New("failed"))
		}
		ours.Accept()
		return nil
	}
	tenure := shard.Acquire(processor{process: process})
	if auto {
		tenure = shard.AcquireHandler(process)
	}
	require.NoError(t, tenure.Initialize(ctx))
	for range 12 {
		if err := tenure.Deliver(ctx, 1+rng.IntN(3)); err != nil && rng.IntN(4) == 0 {
			tenure.Skip()
			batches[len(batches)-1].ours.(*Batch).Accept()
		}
		try()
	}
	final := c.Final().Checkpoint(ctx)
	require.NoError(t, final)
	require.NoError(t, tenure.Shutdown(ctx))
	require.Equal(t, c.Last(), shard.Checkpoint(), "seed %d", seed)
}

type processor struct {
	kcl.NopProcessor
	process func(context.Context, *kcl.Batch) error
}

func (p processor) ProcessRecords(ctx context.Context, b *kcl.Batch) error { return p.process(ctx, b) }

func (processor) ShutdownRequested(ctx context.Context, cp kcl.Checkpointer) error {
	return cp.Checkpoint(ctx)
}
