package javalike

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	ktypes "github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// How a tenure ends.
const (
	EndedShard = "the shard has ended"
	EndedLost  = "the lease is lost"
	EndedAsked = "asked to finish"
)

// consumer reads one shard for one tenure.
type consumer struct {
	w       *Worker
	t       Tenure
	parents []string

	lostOnce, askOnce sync.Once // over nothing but a close
	lost, request     chan struct{}
	done              chan struct{}
	why               string // once done
}

func (c *consumer) lose()      { c.lostOnce.Do(func() { close(c.lost) }) }
func (c *consumer) ask()       { c.askOnce.Do(func() { close(c.request) }) }
func (c *consumer) over() bool { return closed(c.done) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// dispatch starts a consumer for each lease that has none, and looks after the
// others.
func (w *Worker) dispatch(ctx context.Context) {
	for _, key := range w.heldKeys() {
		l, token, ok := w.holding(key)
		w.mu.Lock()
		if ok && w.consumers[token] == nil {
			c := &consumer{
				w: w, t: Tenure{w.Name, key, token}, parents: l.parents,
				lost: make(chan struct{}), request: make(chan struct{}), done: make(chan struct{}),
			}
			w.consumers[token] = c
			w.jobs.Go(func() {
				defer close(c.done)
				c.why = c.run(ctx)
			})
		}
		w.mu.Unlock()
	}
	w.lookAfter(ctx)
}

// lookAfter tells consumers of leases that are lost.
func (w *Worker) lookAfter(context.Context) {
	w.mu.Lock()
	all := slices.Collect(maps.Values(w.consumers))
	w.mu.Unlock()
	for _, c := range all {
		_, token, ok := w.holding(c.t.Shard)
		mine := ok && token == c.t.Token
		switch {
		case c.over() && mine && c.why != EndedShard:
			w.drop(c.t.Shard) // so that its heartbeat ends
		case c.over() && !mine:
			w.mu.Lock()
			delete(w.consumers, c.t.Token)
			w.mu.Unlock()
		case !mine:
			c.lose()
		}
	}
}

// parting asks all consumers to finish, and reports whether some have not.
func (w *Worker) parting() (some bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.consumers {
		if !c.over() {
			c.ask()
			some = true
		}
	}
	return some
}

// run consumes the shard until its end or the tenure's, and says which.
func (c *consumer) run(ctx context.Context) string {
	w := c.w
	for !c.parentsDone(ctx) { // and hears of nothing else meanwhile
		if !sleep(ctx, parentPoll) {
			return EndedLost
		}
	}
	var stored lease
	for {
		if closed(c.lost) || closed(c.request) {
			return c.leave(ctx, false)
		}
		l, found, err := w.getLease(ctx, c.t.Shard)
		if stored = l; err == nil && found {
			break
		}
		if !sleep(ctx, taskBackoff) {
			return EndedLost
		}
	}
	if stored.ended() {
		return c.endShard(ctx, nil)
	}
	w.Processor.Began(c.t, stored.checkpoint)
	why, children := c.read(ctx, stored.checkpoint)
	if why == EndedShard {
		why = c.endShard(ctx, children)
	}
	if ctx.Err() == nil {
		w.Processor.Ended(c.t, why)
	}
	if why == EndedAsked {
		return c.leave(ctx, true)
	}
	return why
}

// parentsDone reports whether all parents that have a lease are at their end.
func (c *consumer) parentsDone(ctx context.Context) bool {
	for _, p := range c.parents {
		if l, found, err := c.w.getLease(ctx, p); err != nil || found && !l.ended() {
			return false
		}
	}
	return true
}

// leave gives the lease up, and hands it over if that was asked for.
func (c *consumer) leave(ctx context.Context, graceful bool) string {
	l, token, ok := c.w.holding(c.t.Shard)
	if !ok || token != c.t.Token {
		return EndedLost
	}
	if l.handOff() {
		if err := c.w.transfer(ctx, l); err != nil {
			c.w.Tell("%s cannot hand %s over: %v", c.w.Name, l.key, err)
		}
	} else if !graceful {
		return EndedLost
	}
	c.w.drop(c.t.Shard)
	return EndedAsked
}

// read hands out records from a checkpoint on, and stores another after each batch.
func (c *consumer) read(ctx context.Context, position string) (why string, children []ktypes.ChildShard) {
	w, iterator := c.w, (*string)(nil)
	for {
		switch {
		case ctx.Err() != nil, closed(c.lost):
			return EndedLost, nil
		case closed(c.request):
			return EndedAsked, nil
		}
		if iterator == nil {
			in := &kinesis.GetShardIteratorInput{StreamName: &w.Stream, ShardId: &c.t.Shard, ShardIteratorType: ktypes.ShardIteratorTypeTrimHorizon}
			if position != trimHorizon {
				in.ShardIteratorType, in.StartingSequenceNumber = ktypes.ShardIteratorTypeAtSequenceNumber, &position
			}
			out, err := w.streams.GetShardIterator(ctx, in)
			if err != nil {
				w.Tell("%s gets no iterator of %s: %v", w.Name, c.t.Shard, err)
				sleep(ctx, w.ReadPeriod)
				continue
			}
			iterator = out.ShardIterator
		}
		out, err := w.streams.GetRecords(ctx, &kinesis.GetRecordsInput{ShardIterator: iterator, Limit: aws.Int32(10000)})
		if err != nil {
			w.Tell("%s cannot read %s: %v", w.Name, c.t.Shard, err)
			iterator = nil
			sleep(ctx, w.ReadPeriod)
			continue
		}
		if closed(c.lost) || closed(c.request) || ctx.Err() != nil {
			continue
		}
		fresh := slices.DeleteFunc(slices.Clone(out.Records), func(r ktypes.Record) bool { return !later(*r.SequenceNumber, position) })
		if n := len(fresh); n > 0 {
			bytes := 0
			for _, r := range fresh {
				bytes += len(r.Data)
			}
			w.measure(c.t.Shard, bytes)
			w.Processor.Process(ctx, c.t, fresh)
			position = *fresh[n-1].SequenceNumber
			done, err := w.storeCheckpoint(ctx, c.t, position, 0)
			if err != nil {
				w.Tell("%s cannot checkpoint %s: %v", w.Name, c.t.Shard, err)
			} else if !done {
				return EndedLost, nil
			}
		}
		if iterator = out.NextShardIterator; iterator == nil {
			return EndedShard, out.ChildShards
		}
		sleep(ctx, w.ReadPeriod)
	}
}

func later(number, than string) bool {
	a, _ := new(big.Int).SetString(number, 10)
	b, ok := new(big.Int).SetString(than, 10)
	return !ok || a.Cmp(b) > 0
}

// errGiveUp ends a tenure at the end of its shard; another worker tries again.
var errGiveUp = errors.New("the lease is given up")

// endShard makes the children's leases and stores the end, in that order.
func (c *consumer) endShard(ctx context.Context, children []ktypes.ChildShard) string {
	for {
		switch done, err := c.finish(ctx, children); {
		case errors.Is(err, errGiveUp):
			c.w.Tell("%s at the end of %s: %v", c.w.Name, c.t.Shard, err)
			c.w.drop(c.t.Shard)
			return EndedLost
		case err == nil && !done:
			return EndedLost
		case err == nil:
			return EndedShard
		default:
			c.w.Tell("%s at the end of %s: %v", c.w.Name, c.t.Shard, err)
			if !sleep(ctx, taskBackoff) {
				return EndedLost
			}
		}
	}
}

func (c *consumer) finish(ctx context.Context, children []ktypes.ChildShard) (done bool, err error) {
	w := c.w
	if _, token, ok := w.holding(c.t.Shard); !ok || token != c.t.Token {
		return false, errGiveUp
	}
	if len(children) == 1 {
		if err := c.merging(ctx, children[0]); err != nil {
			return false, err
		}
	}
	var ids []string
	for _, child := range children {
		ids = append(ids, *child.ShardId)
		l := lease{
			key: *child.ShardId, checkpoint: trimHorizon, parents: child.ParentShards,
			start: *child.HashKeyRange.StartingHashKey, end: *child.HashKeyRange.EndingHashKey,
		}
		if _, err := w.put(ctx, w.wire.create(l)); err != nil {
			return false, err
		}
	}
	if len(ids) > 0 {
		if _, _, err := w.update(ctx, w.wire.setChildren(c.t.Shard, ids)); err != nil {
			return false, err
		}
	}
	l, found, err := w.getLease(ctx, c.t.Shard)
	if err != nil {
		return false, err
	}
	if !found {
		return false, fmt.Errorf("%w: it is not in the table", errGiveUp)
	}
	if !l.ended() {
		if done, err := w.storeCheckpoint(ctx, c.t, shardEnd, 0); err != nil || !done {
			return false, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = append(w.done, l)
	return true, nil
}

// merging looks whether both parents of a merge's child have a lease, or none.
func (c *consumer) merging(ctx context.Context, child ktypes.ChildShard) error {
	if len(child.ParentShards) != 2 {
		return fmt.Errorf("%w: a merge of %v", errGiveUp, child.ParentShards)
	}
	n := 0
	for _, p := range child.ParentShards {
		_, found, err := c.w.getLease(ctx, p)
		if err != nil {
			return err
		}
		if found {
			n++
		}
	}
	if n != 1 {
		return nil
	}
	if c.w.random(0, 30) == 0 {
		return fmt.Errorf("%w: a parent of %s has no lease", errGiveUp, *child.ShardId)
	}
	return fmt.Errorf("a parent of %s has no lease yet", *child.ShardId)
}

// cleanUp deletes the leases of ended shards whose children have begun.
func (w *Worker) cleanUp(ctx context.Context) {
	w.mu.Lock()
	todo := w.done
	w.done = nil
	due := time.Since(w.cleaned) >= cleanupCompleted
	w.mu.Unlock()
	for _, l := range todo {
		gone := false
		if due {
			var err error
			if gone, err = w.cleanOne(ctx, l); err != nil {
				w.Tell("%s cannot clean %s up: %v", w.Name, l.key, err)
			}
		}
		w.mu.Lock()
		if gone {
			w.cleaned = time.Now()
		} else {
			w.done = append(w.done, l)
		}
		w.mu.Unlock()
	}
}

func (w *Worker) cleanOne(ctx context.Context, l lease) (gone bool, err error) {
	is, found, err := w.getLease(ctx, l.key)
	if err != nil || !found {
		return err == nil, err
	}
	if len(is.children) == 0 {
		return false, nil
	}
	for _, key := range is.children {
		child, found, err := w.getLease(ctx, key)
		if err != nil || !found || child.checkpoint == trimHorizon || child.checkpoint == "AT_TIMESTAMP" {
			return false, err
		}
	}
	for _, key := range l.parents {
		if _, found, err := w.getLease(ctx, key); err != nil || found {
			return false, err
		}
	}
	w.Tell("%s deletes %s", w.Name, l.key)
	_, err = w.db.DeleteItem(ctx, w.wire.delete(l.key))
	return err == nil, err
}
