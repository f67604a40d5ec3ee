package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report is the outcome of the demonstration. Its JSON form is part of the
// program's interface.
type report struct {
	counts
	Workers            int                       `json:"workers"`
	Shards             int                       `json:"shards"`
	LeaderChanges      int                       `json:"leader_changes"`
	ListShardsCalls    int                       `json:"list_shards_calls"`
	ListShardsCallers  int                       `json:"list_shards_callers"`
	ListShardsByWorker map[string]map[string]int `json:"list_shards_by_worker"`
	CallsByOperation   map[string]int            `json:"calls_by_operation"`
	LeasesOverTime     []leaseCount              `json:"leases_over_time"`
	ElapsedSeconds     float64                   `json:"elapsed_seconds"`
	Load               []phase                   `json:"load,omitempty"` // with -load

	names []string
}

// leaseCount is how many leases each worker held.
type leaseCount struct {
	Seconds float64        `json:"seconds"`
	Leases  map[string]int `json:"leases"`
}

func (d *demo) report() report {
	r := report{
		counts: d.ledger.counts(), Workers: d.o.workers, Shards: d.o.shards,
		Load:               d.phases,
		ListShardsByWorker: d.lists.byWorker(), CallsByOperation: make(map[string]int), LeasesOverTime: []leaseCount{},
		ElapsedSeconds: time.Since(d.start).Round(10 * time.Millisecond).Seconds(),
	}
	r.ListShardsCalls, r.ListShardsCallers = d.lists.totals()
	for _, c := range d.aws.Calls() {
		if c.Client != "producer" {
			r.CallsByOperation[c.Operation] += c.Calls
		}
	}
	d.fleet.mu.Lock()
	defer d.fleet.mu.Unlock()
	r.LeaderChanges = d.fleet.leaders
	for _, w := range d.fleet.workers {
		r.names = append(r.names, w.name)
	}
	for _, s := range d.fleet.samples {
		lc := leaseCount{Seconds: s.at.Round(100 * time.Millisecond).Seconds(), Leases: make(map[string]int)}
		for i, n := range s.leases {
			lc.Leases[r.names[i]] = n
		}
		r.LeasesOverTime = append(r.LeasesOverTime, lc)
	}
	return r
}

// verdict is an error unless all is well.
func (r report) verdict() error {
	if r.Missing == 0 && r.OutOfOrder == 0 && r.BeforeParent == 0 {
		return nil
	}
	return fmt.Errorf("%d records are missing, %d out of order, %d before their parent shard's", r.Missing, r.OutOfOrder, r.BeforeParent)
}

func (r report) writeJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

func (r report) write(w io.Writer) {
	fmt.Fprintf(w, "\ndone in %.1f s\n\n", r.ElapsedSeconds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range []struct {
		name string
		n    int
	}{
		{"records put", r.Put}, {"processed", r.Processed}, {"seen twice", r.Duplicates}, {"missing", r.Missing},
		{"out of order", r.OutOfOrder}, {"before their parent's", r.BeforeParent}, {"shards ended", r.ShardsEnded},
		{"leader changes", r.LeaderChanges},
	} {
		fmt.Fprintf(t, "%s\t%d\t\n", row.name, row.n)
	}
	t.Flush()
	for _, p := range r.Load {
		p.write(w)
	}

	fmt.Fprintf(w, "\nleases held, over time; that of an ended shard is kept for some minutes\n")
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "seconds\t%s\t\n", strings.Join(r.names, "\t"))
	for i, s := range r.LeasesOverTime {
		if i > 0 && i < len(r.LeasesOverTime)-1 && maps.Equal(s.Leases, r.LeasesOverTime[i-1].Leases) {
			continue // only what changed
		}
		fmt.Fprintf(t, "%.0f\t", s.Seconds)
		for _, n := range r.names {
			fmt.Fprintf(t, "%d\t", s.Leases[n])
		}
		fmt.Fprintln(t)
	}
	t.Flush()

	fmt.Fprintf(w, "\nListShards calls of the workers: %d, by %d of them\n", r.ListShardsCalls, r.ListShardsCallers)
	for _, worker := range slices.Sorted(maps.Keys(r.ListShardsByWorker)) {
		for _, cause := range slices.Sorted(maps.Keys(r.ListShardsByWorker[worker])) {
			fmt.Fprintf(w, "  %s, %s: %d\n", worker, cause, r.ListShardsByWorker[worker][cause])
		}
	}

	fmt.Fprintf(w, "\ncalls of the workers\n")
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	ops := slices.SortedFunc(maps.Keys(r.CallsByOperation), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.CallsByOperation[b], r.CallsByOperation[a]), cmp.Compare(a, b))
	})
	for _, op := range ops {
		fmt.Fprintf(t, "%s\t%d\t\n", op, r.CallsByOperation[op])
	}
	t.Flush()
}

func (p phase) write(w io.Writer) {
	settled := "settled"
	if !p.Settled {
		settled = "not settled"
	}
	fmt.Fprintf(w, "\n%s: %s after %.0f s and %d moves\n", p.Name, settled, p.Seconds, p.Moves)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "worker\tspeed\tleases\tby its speed\tload\t\n")
	for _, s := range p.Workers {
		fmt.Fprintf(t, "%s\t%g\t%d\t%.1f\t%.0f %%\t\n", s.Worker, s.Speed, s.Leases, s.BySpeed, s.Load)
	}
	t.Flush()
}
