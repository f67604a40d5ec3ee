package singletable

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/workermetrics"
)

const period = 30 * time.Second

func row(worker string, legacy bool, age time.Duration, support int, said time.Duration) Row {
	r := Row{Record: workermetrics.Record{Legacy: legacy}}
	r.Worker, r.Updated = worker, t0.Add(-age)
	if support > 0 {
		r.Support, r.SupportUpdated = support, t0.Add(-said)
	}
	return r
}

func owned(owners ...string) (leases []lease.Lease) {
	for _, o := range owners {
		leases = append(leases, lease.Lease{Owner: o})
	}
	return leases
}

// single-table-migration#70
func TestSummarize(t *testing.T) {
	now := t0
	for _, tc := range []struct {
		name   string
		leases []lease.Lease
		rows   []Row
		want   Summary
		least  int
		sup    Knowledge
		dry    Knowledge
	}{
		{name: "nothing", want: Summary{Support: map[int]int{}}, sup: NotKnown, dry: Yes},
		{
			name: "an owner in the lease table, a worker without leases in the legacy one", leases: owned("w1"),
			rows: []Row{row("w1", false, 0, 1, 0), row("w2", true, 0, 1, 0)},
			want: Summary{Workers: []string{"w1", "w2"}, LegacyWorkers: []string{"w2"}, LeaseWorkers: []string{"w1"}, Owners: []string{"w1"}, Support: map[int]int{1: 1}},
			sup:  Yes, dry: No, least: 1,
		},
		{
			name: "two report, one owns single-table-migration#30", leases: owned("w1", "w1", ""),
			rows: []Row{row("w1", false, 0, 1, 0), row("w2", false, 0, 1, 0)},
			want: Summary{Workers: []string{"w1", "w2"}, LeaseWorkers: []string{"w1", "w2"}, Owners: []string{"w1"}, Support: map[int]int{1: 1}},
			sup:  Yes, dry: Yes, least: 1,
		},
		{
			name: "an owner that does not report single-table-migration#31,87", leases: owned("w1", "w2"),
			rows: []Row{row("w1", false, 0, 1, 0), row("w2", false, 61*time.Second, 1, 61*time.Second)},
			want: Summary{Workers: []string{"w1"}, LeaseWorkers: []string{"w1"}, Owners: []string{"w1", "w2"}, Silent: []string{"w2"}, Support: map[int]int{1: 2}},
			sup:  NotKnown, dry: NotKnown, least: 1,
		},
		{
			name: "as old as a live row may be", leases: owned("w1"), rows: []Row{row("w1", true, time.Minute, 1, time.Minute)},
			want: Summary{Workers: []string{"w1"}, LegacyWorkers: []string{"w1"}, Owners: []string{"w1"}, Support: map[int]int{1: 1}},
			sup:  Yes, dry: No, least: 1,
		},
		{
			name: "a millisecond older", leases: owned("w1"), rows: []Row{row("w1", true, time.Minute+time.Millisecond, 1, 0)},
			want: Summary{Owners: []string{"w1"}, Silent: []string{"w1"}, Support: map[int]int{1: 1}},
			sup:  NotKnown, dry: NotKnown, least: 1,
		},
		{
			name: "both sides of a hand-off are owners", leases: []lease.Lease{{Owner: "w1", CheckpointOwner: "w2"}},
			rows: []Row{row("w1", false, 0, 1, 0), row("w2", true, 0, 0, 0)},
			want: Summary{Workers: []string{"w1", "w2"}, LeaseWorkers: []string{"w1"}, LegacyWorkers: []string{"w2"}, Owners: []string{"w1", "w2"}, Old: []string{"w2"}, Support: map[int]int{0: 1, 1: 1}},
			sup:  No, dry: No,
		},
		{
			name: "a row of 3.4 single-table-migration#71", leases: owned("w1"), rows: []Row{row("w1", true, 0, 0, 0)},
			want: Summary{Workers: []string{"w1"}, LegacyWorkers: []string{"w1"}, Owners: []string{"w1"}, Old: []string{"w1"}, Support: map[int]int{0: 1}},
			sup:  No, dry: No,
		},
		{
			name: "support said 90 s ago single-table-migration#71", leases: owned("w1"), rows: []Row{row("w1", true, 0, 1, 90*time.Second)},
			want: Summary{Workers: []string{"w1"}, LegacyWorkers: []string{"w1"}, Owners: []string{"w1"}, Support: map[int]int{1: 1}},
			sup:  Yes, dry: No, least: 1,
		},
		{
			name: "support said longer ago: 3.4 goes by the same name single-table-migration#71", leases: owned("w1"), rows: []Row{row("w1", true, 0, 1, 91*time.Second)},
			want: Summary{Workers: []string{"w1"}, LegacyWorkers: []string{"w1"}, Owners: []string{"w1"}, Old: []string{"w1"}, Support: map[int]int{0: 1}},
			sup:  No, dry: No,
		},
		{
			name: "the row that last said so counts single-table-migration#71", leases: owned("w1"),
			rows: []Row{row("w1", true, 0, 0, 0), row("w1", false, 50*time.Second, 3, 50*time.Second), row("w1", false, 55*time.Second, 1, 55*time.Second)},
			want: Summary{Workers: []string{"w1"}, LegacyWorkers: []string{"w1"}, LeaseWorkers: []string{"w1"}, Owners: []string{"w1"}, Support: map[int]int{3: 1}},
			sup:  Yes, dry: No, least: 3,
		},
		{
			name: "later versions single-table-migration#71", leases: owned("w1", "w2"),
			rows: []Row{row("w1", false, 0, 2, 0), row("w2", false, 0, 3, 0)},
			want: Summary{Workers: []string{"w1", "w2"}, LeaseWorkers: []string{"w1", "w2"}, Owners: []string{"w1", "w2"}, Support: map[int]int{2: 1, 3: 1}},
			sup:  Yes, dry: Yes, least: 2,
		},
		{
			name: "a row without a time", leases: owned("w1"), rows: []Row{{Record: workermetrics.Record{Worker: "w1"}}},
			want: Summary{Owners: []string{"w1"}, Silent: []string{"w1"}, Support: map[int]int{0: 1}},
			sup:  NotKnown, dry: NotKnown,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.want.At = now
			got := Summarize(tc.leases, tc.rows, now, period)
			assert.Equal(t, tc.want, got)
			assert.Equal(t, tc.least, got.MinSupport())
			assert.Equal(t, tc.sup, got.Supported())
			assert.Equal(t, tc.dry, got.Drained())
		})
	}
}

// A worker whose clock is slow lives, and knows what it says it knows, as far as
// this process has seen it write.
func TestSlowClock(t *testing.T) {
	r := row("w1", true, 10*time.Minute, 1, 10*time.Minute)
	first := workermetrics.Sighting{}.Next(r.Record, t0.Add(-20*time.Second), period)
	r.Sighting = first
	assert.Equal(t, []string{"w1"}, Summarize(owned("w1"), []Row{r}, t0, period).Silent, "seen once: only its clock speaks")
	r.Updated, r.SupportUpdated = r.Updated.Add(30*time.Second), r.SupportUpdated.Add(30*time.Second)
	r.Sighting = first.Next(r.Record, t0, period)
	s := Summarize(owned("w1"), []Row{r}, t0.Add(time.Minute), period)
	assert.Equal(t, []string{"w1"}, s.LegacyWorkers)
	assert.Equal(t, Yes, s.Supported())
	assert.Equal(t, No, s.Drained())
	// 3.4 under the same name, with the same clock.
	r.SupportUpdated = r.Updated.Add(-91 * time.Second)
	assert.Equal(t, []string{"w1"}, Summarize(owned("w1"), []Row{r}, t0, period).Old)
}

// single-table-migration#79: figures by section 10.
func TestFigures(t *testing.T) {
	for _, tc := range []struct {
		name string
		s    Summary
		want Figures
	}{
		{"nobody", Summary{}, Figures{}},
		{"first deployment", Summary{Owners: []string{"a", "b"}, LegacyWorkers: []string{"a", "b"}, Support: map[int]int{1: 2}}, Figures{Phase1Workers: 2}},
		{"second deployment half way", Summary{Owners: []string{"a", "b"}, LegacyWorkers: []string{"a"}, LeaseWorkers: []string{"b"}, Support: map[int]int{1: 2}}, Figures{Phase1Workers: 1, Phase2Workers: 1}},
		{"more workers than owners: never below 0", Summary{Owners: []string{"a"}, LeaseWorkers: []string{"a", "b"}, Support: map[int]int{1: 1}}, Figures{Phase2Workers: 2}},
		{"before the first", Summary{Owners: []string{"a", "b"}, LegacyWorkers: []string{"a", "b"}, Support: map[int]int{0: 1, 1: 1}}, Figures{Phase1Workers: 1, PrePhase1Workers: 1}},
	} {
		assert.Equal(t, tc.want, tc.s.Figures(), tc.name)
	}
}
