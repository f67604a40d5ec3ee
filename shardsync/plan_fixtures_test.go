package shardsync

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/lease"
)

// shard makes a shard from "id(parents) start-end from-to", where "-" stands for
// no end, and M for the end of the hash key space.
func shard(t *testing.T, spec string) Shard {
	t.Helper()
	var s Shard
	f := strings.Fields(spec)
	require.Len(t, f, 3, spec)
	id, parents, _ := strings.Cut(strings.TrimSuffix(f[0], ")"), "(")
	s.ID = "shardId-" + id
	for p := range strings.SplitSeq(parents, ",") {
		if p != "" {
			s.Parents = append(s.Parents, "shardId-"+p)
		}
	}
	s.Start, s.End, _ = strings.Cut(f[1], "..")
	from, to, _ := strings.Cut(f[2], "-")
	s.HashRange = hashRange(t, from, to)
	return s
}

func hashRange(t *testing.T, from, to string) kcl.HashRange {
	t.Helper()
	if to == "M" {
		to = kcl.MaxHashKey.String()
	}
	r, err := kcl.ParseHashRange(from, to)
	require.NoError(t, err)
	return r
}

func shards(t *testing.T, specs ...string) []Shard {
	t.Helper()
	out := make([]Shard, len(specs))
	for i, s := range specs {
		out[i] = shard(t, s)
	}
	return out
}

// graphs are the shard trees of the worked examples.
func graphs(t *testing.T) map[string][]Shard {
	t.Helper()
	g := map[string][]Shard{
		"A": shards(t,
			"0() 11..102 0-99", "1() 11..102 100-199", "2() 11..102 200-299", "3() 11..102 300-399",
			"4() 11 400-499", "5() 11..205 500-M", "6(0,1) 103..205 0-199", "7(2,3) 103..205 200-399",
			"8(6,7) 206 0-399", "9(5) 206 500-799", "10(5) 206 800-M"),
		"B": shards(t,
			"0() 1000..1049 0-499", "1() 1000..1049 500-M", "2(0,1) 1050..1099 0-M",
			"3(2) 1100..1149 0-499", "4(2) 1100..1149 500-M", "5(3,4) 1150..1199 0-M",
			"6(5) 1200..1249 0-499", "7(5) 1200..1249 500-M", "8(6,7) 1250..1299 0-M",
			"9(8) 1300 0-499", "10(8) 1300 500-M"),
		"C": shards(t,
			"0() 11..102 0-399", "1() 11 400-499", "2() 11..102 500-599", "3() 11..102 600-M",
			"4(0) 103..205 0-199", "5(0) 103..205 200-399", "6(2,3) 103 500-M",
			"7(4) 206 0-99", "8(4) 206 100-199", "9(5) 206 200-299", "10(5) 206 300-399"),
		"D": shards(t, "0() 10..99 0-M", "1(0) 100 0-499", "2(0) 100 500-M"),
		"E": shards(t, "0() 10..99 0-499", "1() 10..99 500-M", "2(0,1) 100 0-M"),
		"G": shards(t, "0() 10..99 0-M", "1(0) 100..199 0-499", "2(0) 100 500-M", "3(1) 200 0-249", "4(1) 200 250-499"),
	}
	g["D'"], g["E'"] = g["D"][1:], g["E"][1:]
	return g
}

func settings(p kcl.InitialPosition) Settings {
	return Settings{Stream: kcl.StreamIdentifier{Name: "s"}, Position: p}
}

// leasesOf makes leases from shard numbers; a number with an e is at SHARD_END.
func leasesOf(list string) []lease.Lease {
	var out []lease.Lease
	for n := range strings.SplitSeq(list, ",") {
		if n == "" {
			continue
		}
		id, ended := strings.CutSuffix(n, "e")
		l := lease.Lease{Key: "shardId-" + id, ShardID: "shardId-" + id, Checkpoint: kcl.Position{SequenceNumber: "12"}}
		if ended {
			l.Checkpoint = kcl.ShardEnd
		}
		out = append(out, l)
	}
	return out
}

// render lists a plan as shard numbers; one at TRIM_HORIZON although the initial
// position is another is marked with a T.
func render(plan []lease.Lease, p kcl.InitialPosition) string {
	var out []string
	for _, l := range plan {
		n := strings.TrimPrefix(l.ShardID, "shardId-")
		switch l.Checkpoint {
		case p.Sentinel():
		case kcl.AtTrimHorizon:
			n += "T"
		default:
			n += fmt.Sprintf("?%v", l.Checkpoint)
		}
		out = append(out, n)
	}
	return strings.Join(out, ",")
}
