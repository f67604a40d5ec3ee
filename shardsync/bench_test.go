package shardsync

import (
	"testing"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/lease"
)

// manyShards is a stream of 100,000 shards, half of them split from the other.
func manyShards() (all []Shard, leases []lease.Lease) {
	const parents = 33_333
	for i := range parents {
		all = append(all, Shard{ID: shardName(i), HashRange: kcl.HashRange{Start: kcl.HashKey{Hi: uint64(2 * i)}, End: kcl.HashKey{Hi: uint64(2*i + 1), Lo: ^uint64(0)}}, Start: decimal(i), End: decimal(1_000_000 + i)})
		leases = append(leases, all[i].Lease(kcl.StreamIdentifier{Name: "s"}, kcl.Position{SequenceNumber: "77"}))
	}
	for i := range 2 * parents {
		p := all[i/2]
		all = append(all, Shard{ID: shardName(parents + i), Parents: []string{p.ID}, HashRange: kcl.HashRange{Start: kcl.HashKey{Hi: uint64(i)}, End: kcl.HashKey{Hi: uint64(i), Lo: ^uint64(0)}}, Start: decimal(2_000_000 + i)})
	}
	return all, leases
}

// A plan for 100,000 shards: for a new application, for one whose leases are all
// there, and for one that lacks half of them.
func BenchmarkPlan100kShards(b *testing.B) {
	all, leases := manyShards()
	cases := []struct {
		name string
		plan func() ([]lease.Lease, error)
	}{
		{"initial", func() ([]lease.Lease, error) { return PlanInitial(all, settings(kcl.TrimHorizon)) }},
		{"nothing missing", func() ([]lease.Lease, error) { return Plan(all, leases, settings(kcl.TrimHorizon)) }},
		{"half missing", func() ([]lease.Lease, error) {
			return Plan(all, leases[:len(leases)/2], settings(kcl.TrimHorizon))
		}},
	}
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.plan(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkHoles100kLeases(b *testing.B) {
	_, leases := manyShards()
	b.ReportAllocs()
	for b.Loop() {
		holes(leases)
	}
}
