package sim

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/scheduler"
)

// drainer is a processor that checkpoints every tenth record only, and at the
// request to shut down does as it is told.
type drainer struct {
	kcl.NopProcessor
	note      func(*kcl.Batch)
	requested func(ctx context.Context, cp kcl.Checkpointer) error
	n         int
}

func (d *drainer) ProcessRecords(ctx context.Context, b *kcl.Batch) error {
	d.note(b)
	if d.n += len(b.Records); d.n < 10 {
		return nil
	}
	d.n = 0
	return b.Checkpoint(ctx)
}

func (d *drainer) ShutdownRequested(ctx context.Context, cp kcl.Checkpointer) error {
	return d.requested(ctx, cp)
}

// draining starts a worker with such processors.
func (b *bed) draining(name string, requested func(context.Context, kcl.Checkpointer) error, change ...func(*scheduler.Config)) *worker {
	var w *worker
	w = b.add(name, append([]func(*scheduler.Config){func(c *scheduler.Config) {
		c.Handler = nil
		c.NewProcessor = func(context.Context, kcl.ShardInfo) (kcl.RecordProcessor, error) {
			return &drainer{note: func(batch *kcl.Batch) { b.note(w.id, batch) }, requested: requested}, nil
		}
	}}, change...)...)
	w.run()
	return w
}

// honours checkpoints when it is asked to shut down.
func honours(ctx context.Context, cp kcl.Checkpointer) error { return cp.Checkpoint(ctx) }

// Leases that move while records flow: nothing is delivered twice where the
// processor checkpoints at the request to shut down, nothing is lost where it does
// not, nor where it fails or blocks until it is forced.
func TestHandOffUnderLoad(t *testing.T) {
	notWhileRacing(t) // TestHandOffCorners does
	const shards = 12
	for _, c := range []struct {
		name      string
		requested func(context.Context, kcl.Checkpointer) error
		repeats   bool
		within    time.Duration // of the third worker's start: an even spread
	}{
		{"honoured", honours, false, time.Minute},
		{"honoured slowly", func(ctx context.Context, cp kcl.Checkpointer) error {
			time.Sleep(15 * time.Second)
			return cp.Checkpoint(ctx)
		}, false, time.Minute},
		{"ignored", func(context.Context, kcl.Checkpointer) error { return nil }, true, time.Minute},
		{"panics", func(context.Context, kcl.Checkpointer) error { panic("at the request to shut down") }, true, time.Minute},
		{"blocks", func(ctx context.Context, _ kcl.Checkpointer) error { <-ctx.Done(); return ctx.Err() }, true, 2 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBed(t, 1, shards, gapWorld, func(b *bed) {
				f, stop := b.flowing(shards, 1)
				<-b.draining("a", c.requested).Ready()
				<-b.draining("b", c.requested).Ready()
				b.until(gapLimit, "an even spread", func() bool { return b.spread() <= 1 })
				time.Sleep(time.Minute)
				m := b.watchMoves()
				<-b.draining("c", c.requested).Ready()
				b.until(c.within, "an even spread of what is read", func() bool { return b.spread() <= 1 && len(m.so()) >= shards/3 })
				time.Sleep(time.Minute)
				stop()
				b.until(time.Minute, "all are processed", func() bool { return b.distinct() == f.put })
				assert.Equal(t, c.repeats, b.repeated() > 0, "%d repeated", b.repeated())
			})
		})
	}
}

// What may befall a shard while its owner drains it for another worker.
func TestHandOffCorners(t *testing.T) {
	const shards = 6
	split := func(b *bed, shard types.Shard) {
		require.NoError(b.t, b.split(shard))
	}
	for _, c := range []struct {
		name    string
		drain   time.Duration // how long owners take
		keep    bool          // the workers keep their leases when they stop
		happens func(b *bed, h handOff)
		open    int           // shards, then
		within  time.Duration // from then on: all are delivered by workers that live
		repeats bool          // of the shard
	}{
		{name: "nothing", drain: 5 * time.Second, happens: func(*bed, handOff) {}, within: 10 * time.Second},
		{name: "its owner dies", drain: 20 * time.Second, happens: func(b *bed, h handOff) { b.kill(h.owner) }, within: failover + 20*time.Second, repeats: true},
		{name: "the next owner dies", drain: 5 * time.Second, happens: func(b *bed, h handOff) { b.kill(h.next) }, within: failover + 20*time.Second},
		{name: "both die", drain: 20 * time.Second, happens: func(b *bed, h handOff) { b.kill(h.owner); b.kill(h.next) }, within: failover + 20*time.Second, repeats: true},
		{name: "the leader dies", drain: 5 * time.Second, happens: func(b *bed, h handOff) { b.kill(h.leader) }, within: 45 * time.Second},
		{name: "its owner stops", drain: 5 * time.Second, happens: func(_ *bed, h handOff) { h.owner.cancel() }, within: 20 * time.Second},
		{name: "the next owner stops", drain: 5 * time.Second, happens: func(_ *bed, h handOff) { h.next.cancel() }, within: 20 * time.Second},
		{name: "its owner is restarted", drain: 5 * time.Second, keep: true, happens: func(b *bed, h handOff) {
			h.owner.cancel()
			<-h.owner.done
			h.start(h.owner.name)
		}, within: 20 * time.Second},
		{name: "its owner dies and is restarted", drain: 20 * time.Second, keep: true, happens: func(b *bed, h handOff) {
			b.kill(h.owner)
			h.start(h.owner.name)
		}, within: failover + 20*time.Second, repeats: true},
		{name: "the next owner dies and is restarted", drain: 5 * time.Second, keep: true, happens: func(b *bed, h handOff) {
			b.kill(h.next)
			h.start(h.next.name)
		}, within: failover + 20*time.Second},
		{name: "the shard is split", drain: 5 * time.Second, happens: func(b *bed, h handOff) { split(b, h.shard) }, open: shards + 1, within: 20 * time.Second},
		{name: "the shard is merged", drain: 5 * time.Second, happens: func(b *bed, h handOff) {
			require.NoError(b.t, b.merge(h.shard, h.neighbour))
		}, open: shards - 1, within: 30 * time.Second},
		{name: "the shard is split and its owner dies", drain: 20 * time.Second, happens: func(b *bed, h handOff) { split(b, h.shard); b.kill(h.owner) }, open: shards + 1, within: failover + 30*time.Second, repeats: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBed(t, 1, shards, gapWorld, func(b *bed) {
				f, stop := b.flowing(shards, 1)
				h := handOff{drains: make(chan string, 100)}
				h.start = func(name string) {
					b.draining(name, func(ctx context.Context, cp kcl.Checkpointer) error {
						h.drains <- name
						time.Sleep(c.drain)
						return cp.Checkpoint(ctx)
					}, func(cfg *scheduler.Config) { cfg.KeepLeasesOnStop = c.keep })
				}
				for _, name := range []string{"a", "b", "c"} {
					h.start(name)
				}
				b.until(gapLimit, "a leader and an even spread", func() bool {
					return b.leader() != nil && b.spread() <= 1 && len(b.counts()) == 3
				})
				time.Sleep(time.Minute)
				for len(h.drains) > 0 {
					<-h.drains
				}
				h.choose(b)
				begun, ok, err := b.store().StartHandOff(b.t.Context(), b.leases()[*h.shard.ShardId], h.next.name)
				require.NoError(t, err)
				require.True(t, ok, "the hand-off does not begin: %v", begun)
				require.Equal(t, h.owner.name, <-h.drains)
				time.Sleep(time.Second)
				b.mark()
				c.happens(b, h)
				open := cmp.Or(c.open, shards)
				b.until(c.within, "all shards are delivered by workers that live", func() bool {
					n := 0
					for key, l := range b.leases() {
						if l.Ended() {
							continue
						}
						if _, delivered := b.firstBy(key, b.living); !delivered {
							return false
						}
						n++
					}
					return n == open
				})
				stop()
				b.until(time.Minute, "all are processed", func() bool { return b.distinct() == f.put })
				if !c.repeats {
					assert.Zero(t, b.repeated(*h.shard.ShardId), "repeated records of the shard")
				}
			})
		})
	}
}

// handOff is a lease on its way, and who has to do with it.
type handOff struct {
	shard, neighbour    types.Shard
	owner, next, leader *worker
	drains              chan string // names of workers that have begun to drain a shard
	start               func(name string)
}

// choose picks the first shard that is another's than the leader's.
func (h *handOff) choose(b *bed) {
	h.leader = b.leader()
	out, err := b.kinesis().ListShards(b.t.Context(), &kinesis.ListShardsInput{StreamName: aws.String(simStream)})
	require.NoError(b.t, err)
	leases := b.leases()
	for i, s := range out.Shards {
		if owner := leases[*s.ShardId].Owner; h.shard.ShardId == nil && owner != h.leader.name {
			h.shard, h.neighbour = s, out.Shards[i+1]
			h.owner = b.workers[slices.IndexFunc(b.workers, func(w *worker) bool { return w.name == owner })]
		}
	}
	h.next = b.workers[slices.IndexFunc(b.workers, func(w *worker) bool { return w != h.owner && w != h.leader })]
}

// living reports whether a worker's process was neither killed nor stopped. It
// is for firstBy, which holds mu.
func (b *bed) living(id string) bool {
	i := slices.IndexFunc(b.workers, func(w *worker) bool { return w.id == id })
	return b.workers[i].cut == nil && b.workers[i].ctx.Err() == nil
}
