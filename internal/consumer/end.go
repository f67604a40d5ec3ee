package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/retrieval"
	"github.com/go-kcl/kcl/internal/wait"
	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/metrics"
)

// mergePoll is how often the leases of a merge's parents are read while one is
// missing; giveUpOdds is the chance, each time, of leaving the shard to another
// worker instead. Both missing and both present are fine: one missing tells of
// a lease table that is being mended, or broken.
const (
	mergePoll  = time.Second
	giveUpOdds = 1.0 / 30
)

var (
	// errInvalid: this worker cannot end the shard; another may.
	errInvalid = errors.New("shard cannot be ended by this worker")
	// errBlocked: not yet.
	errBlocked = errors.New("one of the merged shards' leases is missing")
)

// endShard does what there is to do once the last record was processed, in this
// order: children's leases, the lease's list of them, ShardEnded, SHARD_END. It
// is false when the consumer is to leave before SHARD_END was stored.
//
// A hand-off does not stop it: the shard's end outranks that.
func (c *Consumer) endShard(work, running, stay context.Context, children []retrieval.Child) bool {
	c.checkpoint.ReachEnd()
	c.say(StateEnding, "prepares the shard's end")
	ended, ok := c.prepareEnd(work, running, children)
	if !ok || ended {
		return ok
	}
	ok = c.until(work, running, stay, kcl.CallbackShardEnded, StateEnding, func(ctx context.Context) error {
		defer c.timed("ShutdownTask", "RecordProcessor.shutdown.Time", nil)()
		return c.processor.ShardEnded(ctx)
	})
	return ok && c.storeEnd(work)
}

// prepareEnd repeats [Consumer.prepareEndOnce] until it has succeeded.
func (c *Consumer) prepareEnd(work, running context.Context, children []retrieval.Child) (ended, ok bool) {
	for attempt := 1; ; attempt++ {
		ended, err := c.prepareEndOnce(work, children)
		if work.Err() != nil {
			return false, false
		}
		patience, delay := work, c.tableRetry(attempt)
		switch {
		case err == nil:
			return ended, true
		case c.outOfHands(work, err):
			return false, false
		case errors.Is(err, errInvalid):
			c.log.Warn("lease dropped", "lease", c.lease.Key, "err", err)
			c.giveUp()
			return false, false
		case errors.Is(err, errBlocked):
			patience, delay = running, mergePoll
		}
		c.failing(work, StateEnding, "cannot prepare the shard's end", attempt, err)
		if !wait.For(patience, delay) {
			return false, false
		}
	}
}

// prepareEndOnce may be repeated. It returns whether SHARD_END is stored
// already.
func (c *Consumer) prepareEndOnce(ctx context.Context, children []retrieval.Child) (ended bool, err error) {
	if err := c.cfg.Leases.Confirm(ctx, c.lease.Key, c.lease.Token); err != nil {
		return false, err
	}
	if len(children) == 1 {
		if err := c.checkMerge(ctx, children[0]); err != nil {
			return false, err
		}
	}
	for _, child := range children {
		if err := c.createChild(ctx, child); err != nil {
			return false, err
		}
	}
	if len(children) > 0 {
		if err := c.cfg.Store.SetChildren(ctx, c.lease.Key, childIDs(children)); err != nil {
			return false, err
		}
	}
	row, found, err := c.cfg.Store.GetConsistent(ctx, c.lease.Key)
	if err == nil && !found {
		err = fmt.Errorf("%w: lease %s is gone from the table", errInvalid, c.lease.Key)
	}
	return row.Ended(), err
}

// checkMerge looks at the leases of a merge's parents.
func (c *Consumer) checkMerge(ctx context.Context, child retrieval.Child) error {
	scope := metrics.Scope{Recorder: c.cfg.Metrics, Operation: "ShutdownTask"}
	if len(child.Parents) != 2 {
		scope.Count("MissingMergeParent", 1, metrics.Summary)
		return fmt.Errorf("%w: the only child %s names %d parents, not 2", errInvalid, child.ShardID, len(child.Parents))
	}
	var missing []string
	for _, parent := range child.Parents {
		_, found, err := c.cfg.Store.GetConsistent(ctx, c.info.Stream.LeaseKey(parent))
		if err != nil {
			return err
		}
		if !found {
			missing = append(missing, parent)
		}
	}
	if len(missing) != 1 {
		return nil
	}
	scope.Count("MissingMergeParentLease", 1, metrics.Summary)
	if c.cfg.Random() < giveUpOdds {
		return fmt.Errorf("%w: the lease of %s is missing", errInvalid, missing[0])
	}
	return fmt.Errorf("%w: %s", errBlocked, missing[0])
}

// createChild creates the lease of a child shard, unless there is one. Whatever
// the stream's initial position, a child is read from its beginning.
func (c *Consumer) createChild(ctx context.Context, child retrieval.Child) error {
	key := c.info.Stream.LeaseKey(child.ShardID)
	if _, found, err := c.cfg.Store.GetConsistent(ctx, key); err != nil || found {
		return err
	}
	start := time.Now()
	_, err := c.cfg.Store.Create(ctx, lease.Lease{
		Key: key, Stream: c.lease.Stream, ShardID: child.ShardID,
		Checkpoint: kcl.AtTrimHorizon, Parents: slices.Clone(child.Parents), HashRange: child.HashRange,
	})
	scope := metrics.Scope{Recorder: c.cfg.Metrics, Operation: "ShutdownTask"}
	scope.Done("CreateLease", start, err, metrics.Detailed)
	created := 1.0
	if err != nil {
		created = 0
	}
	scope.Count("CreateLease_"+kcl.AtTrimHorizon.SequenceNumber+".Success", created, metrics.Detailed)
	return err
}

// storeEnd stores SHARD_END.
func (c *Consumer) storeEnd(work context.Context) bool {
	for attempt := 1; work.Err() == nil; attempt++ {
		err := c.checkpoint.End(work)
		switch {
		case err == nil:
			return true
		case c.outOfHands(work, err):
			return false
		}
		c.failing(work, StateEnding, "cannot store SHARD_END", attempt, err)
		wait.For(work, c.tableRetry(attempt))
	}
	return false
}
