package lease

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
)

// holding returns a renewer with n held leases and no store, as nothing is
// written.
func holding(t testing.TB, n int) *Renewer {
	t.Helper()
	r := NewRenewer(RenewerConfig{Worker: "worker", FailoverTime: time.Hour})
	for i := range n {
		l := heldLease(i)
		l.Moved = time.Now()
		_, ok := r.hold(l, anyLoss)
		require.True(t, ok)
	}
	return r
}

func heldLease(i int) Lease {
	key := fmt.Sprintf("shardId-%012d", i)
	r, err := kcl.ParseHashRange("170141183460469231731687303715884105728", "340282366920938463463374607431768211455")
	if err != nil {
		panic(err) // the constants above
	}
	return Lease{
		Key: key, ShardID: key, Owner: "worker", Counter: 1, HashRange: r,
		Checkpoint: at("49680703608781918548057079227748390711431008012854100002"),
		Parents:    []string{"shardId-000000000000"},
	}
}

// A held lease costs memory, and no goroutine of its own.
func BenchmarkHeldLease(b *testing.B) {
	b.ReportAllocs()
	const n = 10_000
	var before, after runtime.MemStats
	for b.Loop() {
		goroutines := runtime.NumGoroutine()
		runtime.GC()
		runtime.ReadMemStats(&before)
		r := holding(b, n)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/lease")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/n, "goroutines/lease")
		runtime.KeepAlive(r)
	}
}

func TestHeldLeaseHasNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	r := holding(t, 1000)
	require.Len(t, r.Held(), 1000)
	require.LessOrEqual(t, runtime.NumGoroutine(), before)
}

// What a run of renewals costs besides its writes.
func BenchmarkRunWithNothingDue(b *testing.B) {
	r := holding(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if err := r.renewAll(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	r := holding(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := r.Get("shardId-000000000500"); !ok {
			b.Fatal("not held")
		}
	}
}
