package javalike

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	ktypes "github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// firstSync makes the leases of a fresh application, if nobody else does while it
// waits and it may. Then it idles, though the leader may give it leases meanwhile.
func (w *Worker) firstSync(ctx context.Context, may func() bool) error {
	for until := time.Now().Add(w.random(time.Second, 30*time.Second)); ; {
		none, err := w.empty(ctx)
		if err != nil || !none {
			return err
		}
		if !time.Now().Before(until) {
			break
		}
		if !sleep(ctx, 3*time.Second) {
			return ctx.Err()
		}
	}
	if !may() {
		return nil
	}
	if err := w.syncEmpty(ctx); err != nil {
		return err
	}
	sleep(ctx, syncIdle)
	return ctx.Err()
}

// syncEmpty makes a lease for each shard, oldest first.
func (w *Worker) syncEmpty(ctx context.Context) error {
	in := &kinesis.ListShardsInput{StreamName: &w.Stream, ShardFilter: &ktypes.ShardFilter{Type: ktypes.ShardFilterTypeAtTrimHorizon}}
	var shards []ktypes.Shard
	for {
		out, err := w.streams.ListShards(ctx, in)
		if err != nil {
			return err
		}
		shards = append(shards, out.Shards...)
		if out.NextToken == nil {
			break
		}
		in = &kinesis.ListShardsInput{NextToken: out.NextToken}
	}
	if len(shards) == 0 {
		return errors.New("the stream has no shards")
	}
	if _, err := w.list(ctx, "shard sync"); err != nil {
		return err
	}
	slices.SortFunc(shards, func(x, y ktypes.Shard) int {
		return number(*x.SequenceNumberRange.StartingSequenceNumber).Cmp(number(*y.SequenceNumberRange.StartingSequenceNumber))
	})
	for _, s := range shards {
		l := lease{key: *s.ShardId, checkpoint: trimHorizon, start: *s.HashKeyRange.StartingHashKey, end: *s.HashKeyRange.EndingHashKey}
		for _, p := range []*string{s.ParentShardId, s.AdjacentParentShardId} {
			if p != nil {
				l.parents = append(l.parents, *p)
			}
		}
		if _, err := w.put(ctx, w.wire.create(l)); err != nil {
			return err
		}
	}
	w.Tell("%s has made the leases of %d shards", w.Name, len(shards))
	return nil
}

// audit looks for holes in the hash ranges of the leases.
type audit struct {
	hole string
	runs int // in which it was found
}

func (w *Worker) auditRun(ctx context.Context) {
	if !w.decider.isLeader(ctx, w) {
		return
	}
	all, err := w.list(ctx, "audit")
	if err == nil && len(all) == 0 {
		err = w.syncEmpty(ctx)
		all = nil
	}
	if err != nil {
		w.Tell("%s cannot audit: %v", w.Name, err)
		return
	}
	found := hole(all)
	if len(all) == 0 || found == "" {
		w.audit = audit{}
		return
	}
	if found != w.audit.hole {
		w.audit = audit{hole: found}
	}
	if w.audit.runs++; w.audit.runs == auditConfidence {
		w.complain("audit", "", fmt.Errorf("a hole that stays: %s", found))
	}
}

// hole describes the first part of the hash keys that no lease covers whose shard
// is still read.
func hole(all []lease) string {
	all = slices.DeleteFunc(slices.Clone(all), func(l lease) bool { return l.ended() || l.start == "" })
	slices.SortFunc(all, func(x, y lease) int { return number(x.start).Cmp(number(y.start)) })
	next := new(big.Int)
	for _, l := range all {
		if number(l.start).Cmp(next) > 0 {
			return fmt.Sprintf("from %s to %s", next, l.key)
		}
		if end := number(l.end); end.Cmp(next) >= 0 {
			next = end.Add(end, big.NewInt(1))
		}
	}
	if top := new(big.Int).Lsh(big.NewInt(1), 128); next.Cmp(top) < 0 {
		return fmt.Sprintf("from %s on", next)
	}
	return ""
}
