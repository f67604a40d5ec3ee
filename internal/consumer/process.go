package consumer

import (
	"context"
	"time"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/checkpoint"
	"github.com/go-kcl/kcl/internal/retrieval"
	"github.com/go-kcl/kcl/internal/wait"
	"github.com/go-kcl/kcl/metrics"
)

// process hands batch after batch to the processor, and returns the shard's
// last one. It is false when the consumer is to leave first.
func (c *Consumer) process(work, stay context.Context) (end *retrieval.Batch, ok bool) {
	for {
		c.say(StateReading, "")
		b, err := c.source.Next(stay)
		if err != nil {
			return nil, false
		}
		if stay.Err() != nil {
			b.Release()
			return nil, false
		}
		ok := c.deliver(work, stay, b)
		b.Release()
		switch {
		case !ok, work.Err() != nil:
			return nil, false
		case b.End:
			return b, true
		}
	}
}

// deliver hands one batch to the processor until it is done. It is false when
// the consumer is to leave.
func (c *Consumer) deliver(work, stay context.Context, b *retrieval.Batch) bool {
	c.observe(b)
	scope := metrics.Scope{Recorder: c.cfg.Metrics, Operation: "ProcessTask", Dimensions: c.dims}
	scope.Count("RecordsProcessed", float64(len(b.Records)), metrics.Summary)
	records := behind(b.Records, c.checkpoint.Last())
	bytes := size(records)
	scope.Add("DataBytesProcessed", float64(bytes), metrics.Bytes, metrics.Summary)
	empty := len(records) == 0
	if empty && (b.End || !c.cfg.CallWithEmptyBatches) {
		scope.Done("", time.Now(), nil, metrics.Summary)
		return true
	}
	c.cfg.Leases.Delivered(c.lease.Key, c.lease.Token, bytes)
	for attempt := 1; ; attempt++ {
		if !c.confirm(work, stay) {
			return false
		}
		start := time.Now()
		delivery := c.checkpoint.Deliver(lastPosition(records))
		if attempt == 1 {
			c.say(StateProcessing, "the processor has the batch")
		}
		panicked, err := c.callProcessor(work, b, records, delivery)
		scope.Done("", start, err, metrics.Summary)
		if err == nil {
			delivery.Accept()
			return true
		}
		done := doneBefore(records, err)
		delivery.Fail(done)
		if c.outOfHands(work, err) {
			return false
		}
		f := kcl.Failure{
			Callback: kcl.CallbackProcessRecords, Err: err, Attempt: attempt, Panic: panicked,
			Last: lastPosition(records),
		}
		if !empty {
			f.First = records[0].Position
		}
		v, delay := c.judge(f, true)
		rest := behind(behind(records, c.checkpoint.Last()), done)
		switch {
		case v == stopped:
			b.Release()
			c.park(stay, kcl.CallbackProcessRecords, err)
			return false
		case v == skipped, !empty && len(rest) == 0:
			delivery.Accept()
			return true
		}
		c.sayFailing(StateRetrying, "ProcessRecords failed; the batch is delivered again", attempt, err)
		if len(rest) < len(records) {
			attempt = 0 // it is another call now
		}
		records = rest
		if !wait.For(stay, delay) {
			return false
		}
	}
}

func (c *Consumer) callProcessor(work context.Context, b *retrieval.Batch, records []kcl.Record, delivery *checkpoint.Batch) (*kcl.Panic, error) {
	batch := &kcl.Batch{
		Shard: c.info, Records: records, Behind: b.Behind, ReceivedAt: b.ReceivedAt,
		AtShardEnd: b.End, ChildShards: childIDs(b.Children), Checkpointer: delivery,
	}
	defer c.timed("ProcessTask", "RecordProcessor.processRecords.Time", c.dims)()
	return guard(func() error { return c.processor.ProcessRecords(work, batch) })
}

// confirm makes sure that the lease is still ours, before records are handed
// out.
func (c *Consumer) confirm(work, stay context.Context) bool {
	for attempt := 1; ; attempt++ {
		err := c.cfg.Leases.Confirm(work, c.lease.Key, c.lease.Token)
		if err == nil {
			return true
		}
		if c.outOfHands(work, err) {
			return false
		}
		c.failing(stay, StateProcessing, "cannot confirm its lease", attempt, err)
		if !wait.For(stay, c.tableRetry(attempt)) {
			return false
		}
	}
}

// observe takes down how far the shard is behind.
func (c *Consumer) observe(b *retrieval.Batch) {
	if !b.BehindKnown {
		return
	}
	c.mu.Lock()
	c.status.Behind, c.status.BehindKnown = b.Behind, true
	c.mu.Unlock()
	ms := float64(b.Behind) / float64(time.Millisecond)
	shard := metrics.Scope{Recorder: c.cfg.Metrics, Operation: "ProcessTask", Dimensions: c.dims}
	shard.Add("MillisBehindLatest", ms, metrics.Milliseconds, metrics.Summary)
	application := metrics.Scope{Recorder: c.cfg.Metrics, Operation: "ApplicationTracker"}
	application.Add("MillisBehindLatest", ms, metrics.Milliseconds, metrics.Summary)
}

// behind returns the records behind p. A zero p is before all.
func behind(records []kcl.Record, p kcl.Position) []kcl.Record {
	if p.IsZero() {
		return records
	}
	for len(records) > 0 && records[0].Position.Compare(p) <= 0 {
		records = records[1:]
	}
	return records
}

// doneBefore returns the position of the last record that err, made by
// [kcl.FailedAt], says is done; zero if it says nothing of the records.
func doneBefore(records []kcl.Record, err error) kcl.Position {
	p, given := kcl.FailurePosition(err)
	if !given || len(records) == 0 || p.Compare(lastPosition(records)) > 0 {
		return kcl.Position{}
	}
	var done kcl.Position
	for i := range records {
		if records[i].Position.Compare(p) >= 0 {
			break
		}
		done = records[i].Position
	}
	return done
}

func lastPosition(records []kcl.Record) kcl.Position {
	if len(records) == 0 {
		return kcl.Position{}
	}
	return records[len(records)-1].Position
}

func size(records []kcl.Record) int {
	n := 0
	for i := range records {
		n += len(records[i].Data)
	}
	return n
}

func childIDs(children []retrieval.Child) []string {
	var ids []string
	for _, c := range children {
		ids = append(ids, c.ShardID)
	}
	return ids
}
