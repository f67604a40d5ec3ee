package shardsync

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/lease"
)

// ErrInconsistent says that a listing shows children of shards that are still
// open. A reshard came between two of its pages; listing again helps.
var ErrInconsistent = errors.New("shard listing is inconsistent")

// Settings are what a plan depends on besides shards and leases.
type Settings struct {
	Stream   kcl.StreamIdentifier
	Position kcl.InitialPosition
	// IgnoreUnexpectedChildren tolerates open shards whose parents are open, as
	// DynamoDB Streams show them. They get no lease of their own.
	IgnoreUnexpectedChildren bool
}

// PlanInitial returns the leases for a stream that has none: one for each shard
// of a listing that was filtered by the initial position.
func PlanInitial(shards []Shard, s Settings) ([]lease.Lease, error) {
	t := index(shards)
	if err := t.check(s); err != nil {
		return nil, err
	}
	plan := make([]lease.Lease, 0, len(t.shards))
	for _, shard := range t.shards {
		plan = append(plan, shard.Lease(s.Stream, s.Position.Sentinel()))
	}
	slices.SortFunc(plan, t.byStart)
	return plan, nil
}

// Plan returns the leases that a stream lacks, in the order in which to create
// them, from all its shards in retention and its leases. The same input in
// another order gives the same plan; with the plan carried out, the next one is
// empty.
//
// An open shard needs a lease of its own, or of an ancestor whose end will
// create those of its descendants. With LATEST a missing part of the hash key
// space is filled at the level of the leases beside it; with TRIM_HORIZON and
// AT_TIMESTAMP by the oldest listed ancestors that have no leased ancestor.
//
// Two leases more than the Java KCL's are planned, at TRIM_HORIZON, because no
// one else would ever read the shard from its beginning: a child that should
// have been created when its parent's lease reached SHARD_END; and a shard of
// whose expired parents there is a lease.
func Plan(shards []Shard, leases []lease.Lease, s Settings) ([]lease.Lease, error) {
	t := index(shards)
	if err := t.check(s); err != nil {
		return nil, err
	}
	leased := make(map[string]lease.Lease, len(leases))
	for _, l := range leases {
		leased[l.ShardID] = l
	}
	p := planner{tree: t, leased: leased, fromStart: s.Position != kcl.Latest}
	p.lostChildren()
	p.uncovered()

	plan := make([]lease.Lease, 0, len(p.planned))
	for id, at := range p.planned {
		if at.IsZero() {
			at = s.Position.Sentinel()
		}
		plan = append(plan, t.shards[id].Lease(s.Stream, at))
	}
	slices.SortFunc(plan, t.byStart)
	return plan, nil
}

func (t tree) check(s Settings) error {
	if s.IgnoreUnexpectedChildren {
		return nil
	}
	if ids := t.inconsistent(); len(ids) > 0 {
		const shown = 10
		more := ""
		if len(ids) > shown {
			more = fmt.Sprintf(" and %d more", len(ids)-shown)
		}
		return fmt.Errorf("%w: parents of %s%s are still open", ErrInconsistent, strings.Join(ids[:min(shown, len(ids))], ", "), more)
	}
	return nil
}

// planner works out Plan. The fields behind leased are its results so far.
type planner struct {
	tree
	leased    map[string]lease.Lease
	fromStart bool

	// planned holds the shards to lease and where to start, zero meaning the
	// initial position.
	planned map[string]kcl.Position
	// descends is D of a shard: a lease exists for it or for an ancestor from
	// which it will be reached.
	descends map[string]bool
	// wanted are the oldest ancestors to begin with, should a descendant need it.
	wanted map[string]bool
}

func (p *planner) plan(id string, at kcl.Position) {
	if p.planned == nil {
		p.planned = make(map[string]kcl.Position)
	}
	if _, ok := p.planned[id]; !ok {
		p.planned[id] = at
	}
}

// uncovered plans for the open shards that no lease leads to.
func (p *planner) uncovered() {
	p.descends = make(map[string]bool)
	p.wanted = make(map[string]bool)
	unexpected := make(map[string]bool)
	for _, id := range p.inconsistent() {
		unexpected[id] = true
	}
	var open []string
	for id, s := range p.shards {
		if _, ok := p.leased[id]; s.Open() && !ok && !unexpected[id] {
			open = append(open, id)
		}
	}
	slices.Sort(open)

	// Above a leased shard nothing is looked at.
	walk(open, func(id string) []string {
		if _, ok := p.leased[id]; ok {
			return nil
		}
		return p.shards[id].Parents
	}, p.decide)
	for _, id := range open {
		if !p.descends[id] {
			p.plan(id, p.orphanStart(id))
		}
	}
}

// decide finds out whether a shard descends from a leased one. Its listed
// parents have been decided before.
func (p *planner) decide(id string) {
	s, listed := p.shards[id]
	if !listed {
		return
	}
	if _, ok := p.leased[id]; ok {
		p.descends[id] = true
		return
	}
	covered := func(parent string) bool { return p.descends[parent] || p.wanted[parent] }
	if !slices.ContainsFunc(s.Parents, covered) {
		p.wanted[id] = p.fromStart
		return
	}
	p.descends[id] = true
	for _, parent := range s.Parents {
		_, listed := p.shards[parent]
		_, ok := p.leased[parent]
		if listed && !ok && (p.wanted[parent] || !covered(parent)) {
			p.plan(parent, p.orphanStart(parent))
		}
	}
}

// orphanStart is where to begin with a shard that no leased shard leads to: at
// its beginning if there is still a lease of a parent that has expired, for that
// parent was being read; else at the initial position.
func (p *planner) orphanStart(id string) kcl.Position {
	for _, parent := range p.shards[id].Parents {
		_, listed := p.shards[parent]
		if _, ok := p.leased[parent]; ok && !listed {
			return kcl.AtTrimHorizon
		}
	}
	return kcl.Position{}
}

// lostChildren plans for the children of ended leases that have neither a lease
// nor leased descendants.
func (p *planner) lostChildren() {
	// reached: a lease exists for the shard or for any of its descendants.
	reached := make(map[string]bool)
	ids := make([]string, 0, len(p.shards))
	for id := range p.shards {
		ids = append(ids, id)
	}
	walk(ids, func(id string) []string { return p.children[id] }, func(id string) {
		_, ok := p.leased[id]
		reached[id] = ok || slices.ContainsFunc(p.children[id], func(c string) bool { return reached[c] })
	})

	var check []string
	for id, l := range p.leased {
		if l.Ended() {
			check = append(check, p.children[id]...)
		}
	}
	seen := make(map[string]bool)
	for len(check) > 0 {
		id := check[len(check)-1]
		check = check[:len(check)-1]
		if _, ok := p.leased[id]; ok || seen[id] {
			continue
		}
		seen[id] = true
		if reached[id] {
			// Its own lease was cleaned up; what is missing lies further down.
			check = append(check, p.children[id]...)
			continue
		}
		p.plan(id, kcl.AtTrimHorizon)
	}
}
