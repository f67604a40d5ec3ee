package sim

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/kcltest"
	"github.com/go-kcl/kcl/scheduler"
)

// A fleet that goes on for days, with reshards all the time, holds no more in the
// end than when the stream had first lost what it does not keep.
func TestMemoryStaysBounded(t *testing.T) {
	if racing {
		t.Skip("the race detector's own memory is no matter of ours")
	}
	inBed(t, 1, 4, kcltest.Options{}, func(b *bed) {
		for _, name := range []string{"a", "b"} {
			b.start(name, unsigned, func(c *scheduler.Config) {
				c.Handler = func(context.Context, *kcl.Batch) error { return nil } // keeps nothing
				c.Leases.FailoverTime, c.Leases.AssignmentInterval, c.Leases.WorkerReportInterval = 10*time.Minute, 10*time.Minute, 5*time.Minute
				c.Leases.CleanupInterval, c.Leases.CompletedCleanupInterval = 10*time.Minute, 10*time.Minute
				c.Leader.LeaseDuration, c.Leader.HeartbeatPeriod = time.Hour, 10*time.Minute
				c.Shards.AuditorInterval = 10 * time.Minute
				c.Polling.IdleTimeBetweenReads = 10 * time.Minute
			})
		}
		stop := b.produceSlowly(16, 5*time.Minute)
		day := func() (heap uint64, goroutines int) {
			for range 48 {
				b.reshard()
				time.Sleep(30*time.Minute - 3*time.Second)
			}
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc, runtime.NumGoroutine()
		}
		day()
		before, goroutines := day()
		after, now := day()
		t.Logf("%d KiB, then %d KiB; %d goroutines, then %d", before>>10, after>>10, goroutines, now)
		assert.Less(t, after, before+before/20, "bytes of heap")
		assert.InDelta(t, goroutines, now, 4)
		stop()
	})
}
