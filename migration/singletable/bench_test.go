package singletable

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/workermetrics"
)

// What a leader's run adds for the migration, of a large fleet.
func BenchmarkSummarize(b *testing.B) {
	const workers, leasesEach = 1000, 100
	now := time.Now()
	rows := make([]Row, workers)
	leases := make([]lease.Lease, 0, workers*leasesEach)
	for i := range rows {
		name := fmt.Sprintf("worker-%04d", i)
		rows[i].Record = workermetrics.Record{Worker: name, Updated: now, Support: SupportCode, SupportUpdated: now}
		for range leasesEach {
			leases = append(leases, lease.Lease{Owner: name})
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if s := Summarize(leases, rows, now, 30*time.Second); len(s.Owners) != workers {
			b.Fatal(len(s.Owners))
		}
	}
}
