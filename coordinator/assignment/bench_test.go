package assignment

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/workermetrics"
)

// size is that of a fleet.
type size struct{ leases, workers int }

func (s size) String() string { return fmt.Sprintf("leases=%d/workers=%d", s.leases, s.workers) }

// scanned is what a scan finds of a fleet, in no order: leases with owners, by
// index, and workers that report so much CPU, or nothing if it is negative.
func (s size) scanned(owner func(i int) string, cpu func(i int) float64) ([]lease.Lease, []workermetrics.Record) {
	leases := make([]lease.Lease, s.leases)
	for i := range leases {
		leases[i] = lease.Lease{Key: fmt.Sprintf("shardId-%012d", i), Owner: owner(i), Counter: 1, ThroughputKBps: float64(50 + i%101), HasThroughput: true}
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(leases), func(i, j int) { leases[i], leases[j] = leases[j], leases[i] })
	records := make([]workermetrics.Record, s.workers)
	for i := range records {
		records[i] = report(fmt.Sprintf("worker-%04d", i), 0)
		if c := cpu(i); c >= 0 {
			records[i].Stats[workermetrics.CPU] = []float64{c}
			records[i].OperatingRange[workermetrics.CPU] = []int64{100}
		}
	}
	return leases, records
}

// All of a leader's run but the calls: to take in what a scan found, to decide,
// with a balancing each time, and to list the writes. What a scan costs is
// BenchmarkScanPage of package lease.
func BenchmarkRun(b *testing.B) {
	sizes := []size{{10_000, 1000}, {100_000, 100}, {100_000, 1000}}
	fleets := []struct {
		name   string
		owners float64 // share of the workers
		cpu    func(share float64) float64
	}{
		{"fresh", 0, func(float64) float64 { return 5 }},
		{"steady", 1, func(float64) float64 { return 50 }},
		{"half of the workers are new", 0.5, func(share float64) float64 {
			if share < 0.5 {
				return 90
			}
			return 5
		}},
	}
	for _, strategy := range []Strategy{LeaseCountBased, WorkerUtilizationAware} {
		decide := strategy.decider(Load{})
		for _, s := range sizes {
			for _, f := range fleets {
				b.Run(fmt.Sprintf("%s/%s/%s", strategy, s, f.name), func(b *testing.B) {
					owners := int(f.owners * float64(s.workers))
					leases, records := s.scanned(func(i int) string {
						if owners == 0 {
							return ""
						}
						return fmt.Sprintf("worker-%04d", i%owners)
					}, func(i int) float64 { return f.cpu(float64(i) / float64(s.workers)) })
					m := newMemory()
					now := at(0)
					b.ReportAllocs()
					for b.Loop() {
						now = now.Add(time.Millisecond)
						m.look(leases, records, nil, now, defaults)
						v := m.view(leases, now, defaults, "")
						v.Limit, v.Balance = 100_000, true
						v.idle()
						m.expiry(now, defaults)
						writes(v, decide(v), true)
					}
				})
			}
		}
	}
}
