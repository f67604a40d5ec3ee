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

// 100 workers that measure their load, 10,000 leases.
func BenchmarkByLoad(b *testing.B) {
	view := func(owners int, cpu func(i int) float64) View {
		v := View{Limit: 1000, Balance: true, ReportPeriod: 30 * time.Second}
		for i := range 10_000 {
			l := Lease{Lease: &lease.Lease{Key: fmt.Sprintf("shardId-%012d", i)}, State: Unowned}
			if owners > 0 {
				l = held(l.Key, fmt.Sprintf("worker-%04d", i%owners))
			}
			l.ThroughputKBps, l.HasThroughput = float64(50+i%101), true
			v.Leases = append(v.Leases, l)
		}
		for i := range 100 {
			r := report(fmt.Sprintf("worker-%04d", i), 0)
			r.Stats[workermetrics.CPU] = []float64{cpu(i)}
			r.OperatingRange[workermetrics.CPU] = []int64{100}
			v.Workers = append(v.Workers, Worker{r.Worker, r, at(0)})
		}
		return v
	}
	for _, c := range []struct {
		name   string
		owners int
		cpu    func(i int) float64
	}{
		{"fresh", 0, func(int) float64 { return 5 }},
		{"steady", 100, func(int) float64 { return 50 }},
		{"half of the workers are new", 50, func(i int) float64 {
			if i < 50 {
				return 90
			}
			return 5
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			v, decide := view(c.owners, c.cpu), ByLoad(Load{})
			b.ReportAllocs()
			for b.Loop() {
				decide(v)
			}
		})
	}
}
