package assignment

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/workermetrics"
)

// A large fleet: 1,000 workers, 100,000 leases, in the order of a scan.
func largeFleet(owner func(i int) string) ([]lease.Lease, []workermetrics.Record) {
	leases := make([]lease.Lease, 100_000)
	for i := range leases {
		leases[i] = lease.Lease{Key: fmt.Sprintf("shardId-%012d", i), Owner: owner(i), Counter: 1}
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(leases), func(i, j int) { leases[i], leases[j] = leases[j], leases[i] })
	records := make([]workermetrics.Record, 1000)
	for i := range records {
		records[i] = report(fmt.Sprintf("worker-%04d", i), 0)
	}
	return leases, records
}

// All of a run but the calls.
func BenchmarkRun(b *testing.B) {
	for _, c := range []struct {
		name  string
		owner func(i int) string
	}{
		{"fresh", func(int) string { return "" }},
		{"steady", func(i int) string { return fmt.Sprintf("worker-%04d", i%1000) }},
		{"half of the workers are new", func(i int) string { return fmt.Sprintf("worker-%04d", i%500) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			leases, records := largeFleet(c.owner)
			m := newMemory()
			now := at(0)
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(time.Millisecond)
				m.look(leases, records, nil, now, defaults)
				v := m.view(leases, now, defaults, "")
				v.Limit, v.Balance = 1000, true
				v.idle()
				m.expiry(now, defaults)
				writes(v, ByCount(v), true)
			}
		})
	}
}
