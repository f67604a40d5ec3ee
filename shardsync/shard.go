package shardsync

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/lease"
)

// Shard is a shard as ListShards tells of it.
type Shard struct {
	ID string
	// Parents are the shards it was made of, sorted: none, one or two. They may
	// have expired since.
	Parents   []string
	HashRange kcl.HashRange
	// Start is the first sequence number; End the last one, empty while the
	// shard is open.
	Start, End string
}

// Open reports whether the shard still takes records.
func (s Shard) Open() bool { return s.End == "" }

// Lease returns a new lease for s in a stream, at p.
func (s Shard) Lease(stream kcl.StreamIdentifier, p kcl.Position) lease.Lease {
	l := lease.Lease{
		Key:        stream.LeaseKey(s.ID),
		ShardID:    s.ID,
		Checkpoint: p,
		Parents:    s.Parents,
		HashRange:  s.HashRange,
	}
	if stream.CreationEpoch != 0 {
		l.Stream = stream.String()
	}
	return l
}

// fromSDK returns a shard, with an error if it has no id or, which harms nothing
// else of it, a hash range that cannot be read.
func fromSDK(in types.Shard) (Shard, error) {
	s := Shard{ID: aws.ToString(in.ShardId)}
	if s.ID == "" {
		return Shard{}, fmt.Errorf("a shard has no id")
	}
	for _, p := range []*string{in.ParentShardId, in.AdjacentParentShardId} {
		if id := aws.ToString(p); id != "" {
			s.Parents = append(s.Parents, id)
		}
	}
	slices.Sort(s.Parents)
	s.Parents = slices.Compact(s.Parents)
	if r := in.SequenceNumberRange; r != nil {
		s.Start, s.End = aws.ToString(r.StartingSequenceNumber), aws.ToString(r.EndingSequenceNumber)
	}
	var err error
	if s.HashRange, err = rangeFromSDK(in.HashKeyRange); err != nil {
		return s, fmt.Errorf("shard %s: %w", s.ID, err)
	}
	return s, nil
}

// rangeFromSDK returns the range; zero, for not known, without one.
func rangeFromSDK(in *types.HashKeyRange) (kcl.HashRange, error) {
	if in == nil {
		return kcl.HashRange{}, nil
	}
	return kcl.ParseHashRange(aws.ToString(in.StartingHashKey), aws.ToString(in.EndingHashKey))
}

// tree indexes the shards of a listing.
type tree struct {
	shards   map[string]*Shard
	children map[string][]string // by listed parent, in listing order
}

func index(shards []Shard) tree {
	t := tree{shards: make(map[string]*Shard, len(shards)), children: make(map[string][]string)}
	for i := range shards {
		t.shards[shards[i].ID] = &shards[i]
	}
	for _, s := range shards {
		for _, p := range s.Parents {
			if _, listed := t.shards[p]; listed {
				t.children[p] = append(t.children[p], s.ID)
			}
		}
	}
	return t
}

// parents returns a shard's parents; none of one that is not listed.
func (t tree) parents(id string) []string {
	if s, listed := t.shards[id]; listed {
		return s.Parents
	}
	return nil
}

// inconsistent returns the ids, sorted, of shards one of whose listed parents is
// still open: the listing's pages are from before and after a reshard.
func (t tree) inconsistent() []string {
	var out []string
	for id, s := range t.shards {
		if slices.ContainsFunc(s.Parents, func(p string) bool {
			parent, listed := t.shards[p]
			return listed && parent.Open()
		}) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// walk visits the shards reachable from starts by next, each once, those that
// next names before those it names them for. It needs no recursion, for a
// shard's history may be long. A cycle, which the service never makes, is cut.
func walk(starts []string, next func(id string) []string, visit func(id string)) {
	const (
		entered = 1
		done    = 2
	)
	state := make(map[string]uint8)
	var stack []string
	for _, s := range starts {
		stack = append(stack, s)
		for len(stack) > 0 {
			id := stack[len(stack)-1]
			if state[id] != 0 {
				stack = stack[:len(stack)-1]
				if state[id] == entered {
					state[id] = done
					visit(id)
				}
				continue
			}
			state[id] = entered
			for _, n := range next(id) {
				if state[n] == 0 {
					stack = append(stack, n)
				}
			}
		}
	}
}

// inOrder returns new leases for the shards, each at its position, in the order
// of creation: by first sequence number, so that ancestors come first, then by
// shard id.
func (t tree) inOrder(at map[string]kcl.Position, stream kcl.StreamIdentifier) []lease.Lease {
	// Numbers without leading zeros compare by length, then as text.
	type entry struct{ start, id string }
	entries := make([]entry, 0, len(at))
	for id := range at {
		entries = append(entries, entry{strings.TrimLeft(t.shards[id].Start, "0"), id})
	}
	slices.SortFunc(entries, func(a, b entry) int {
		if c := cmp.Compare(len(a.start), len(b.start)); c != 0 {
			return c
		}
		if c := strings.Compare(a.start, b.start); c != 0 {
			return c
		}
		return strings.Compare(a.id, b.id)
	})
	leases := make([]lease.Lease, len(entries))
	for i, e := range entries {
		leases[i] = t.shards[e.id].Lease(stream, at[e.id])
	}
	return leases
}

// depths returns how many generations of listed ancestors each shard has.
func (t tree) depths() map[string]int {
	out := make(map[string]int, len(t.shards))
	walk(slices.Collect(maps.Keys(t.shards)), t.parents, func(id string) {
		d := 0
		for _, p := range t.parents(id) {
			if _, listed := t.shards[p]; listed {
				d = max(d, out[p]+1)
			}
		}
		out[id] = d
	})
	return out
}

// waves splits leases, given in creation order, into groups of which each holds
// shards of one generation, so that those of a group may be created in any order
// once the groups before it exist.
func waves(shards []Shard, leases []lease.Lease) [][]lease.Lease {
	depths := index(shards).depths()
	byDepth := make(map[int][]lease.Lease)
	for _, l := range leases {
		d := depths[l.ShardID]
		byDepth[d] = append(byDepth[d], l)
	}
	out := make([][]lease.Lease, 0, len(byDepth))
	for _, d := range slices.Sorted(maps.Keys(byDepth)) {
		out = append(out, byDepth[d])
	}
	return out
}
