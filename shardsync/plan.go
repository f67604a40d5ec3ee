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
	at := make(map[string]kcl.Position, len(t.shards))
	for id := range t.shards {
		at[id] = s.Position.Sentinel()
	}
	return t.inOrder(at, s.Stream), nil
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
	p := planner{
		tree: t, initial: s.Position.Sentinel(), leased: make(map[string]bool, len(leases)),
		planned: make(map[string]kcl.Position), descends: make(map[string]bool), wanted: make(map[string]bool),
	}
	for _, l := range leases {
		p.leased[l.ShardID] = l.Ended()
	}
	p.lostChildren()
	p.uncovered()
	return t.inOrder(p.planned, s.Stream), nil
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
	initial kcl.Position
	leased  map[string]bool // shards that have a lease; true: at SHARD_END

	// planned holds the shards to lease and where to start.
	planned map[string]kcl.Position
	// descends is D of a shard: a lease exists for it or for an ancestor from
	// which it will be reached.
	descends map[string]bool
	// wanted are the oldest ancestors to begin with, should a descendant need it.
	wanted map[string]bool
}

func (p *planner) hasLease(id string) bool {
	_, ok := p.leased[id]
	return ok
}

func (p *planner) isListed(id string) bool {
	_, ok := p.shards[id]
	return ok
}

// uncovered plans for the open shards that no lease leads to.
func (p *planner) uncovered() {
	unexpected := make(map[string]bool)
	for _, id := range p.inconsistent() {
		unexpected[id] = true
	}
	var open []string
	for id, s := range p.shards {
		if s.Open() && !p.hasLease(id) && !unexpected[id] {
			open = append(open, id)
		}
	}
	slices.Sort(open)

	// Above a leased shard nothing is looked at.
	walk(open, func(id string) []string {
		if p.hasLease(id) {
			return nil
		}
		return p.parents(id)
	}, p.decide)
	for _, id := range open {
		if !p.descends[id] {
			p.planned[id] = p.orphanStart(id)
		}
	}
}

// decide finds out whether a shard descends from a leased one. Its listed
// parents have been decided before. With LATEST, nothing that has ended is read
// for a shard that does not, but for what an expired parent's lease leads to.
func (p *planner) decide(id string) {
	if !p.isListed(id) {
		return
	}
	if p.hasLease(id) {
		p.descends[id] = true
		return
	}
	covered := func(parent string) bool { return p.descends[parent] || p.wanted[parent] }
	if !slices.ContainsFunc(p.parents(id), covered) {
		p.wanted[id] = p.orphanStart(id) != kcl.AtLatest
		return
	}
	p.descends[id] = true
	for _, parent := range p.parents(id) {
		if p.isListed(parent) && (p.wanted[parent] || !covered(parent)) {
			p.planned[parent] = p.orphanStart(parent)
		}
	}
}

// orphanStart is where to begin with a shard that no listed and leased shard leads
// to: at its beginning if there is still a lease of a parent, which then has
// expired, for that parent was being read; else at the initial position.
func (p *planner) orphanStart(id string) kcl.Position {
	for _, parent := range p.parents(id) {
		if p.hasLease(parent) {
			return kcl.AtTrimHorizon
		}
	}
	return p.initial
}

// lostChildren plans for the children of ended leases that have neither a lease
// nor leased descendants.
func (p *planner) lostChildren() {
	var check []string
	for id, ended := range p.leased {
		if ended {
			check = append(check, p.children[id]...)
		}
	}
	// reached: a lease exists for the shard or for any of its descendants.
	reached := make(map[string]bool)
	walk(check, func(id string) []string { return p.children[id] }, func(id string) {
		reached[id] = p.hasLease(id) || slices.ContainsFunc(p.children[id], func(c string) bool { return reached[c] })
	})
	seen := make(map[string]bool)
	for len(check) > 0 {
		id := check[len(check)-1]
		check = check[:len(check)-1]
		switch {
		case p.hasLease(id), seen[id]:
		case reached[id]:
			// Its own lease was cleaned up; what is missing lies further down.
			check = append(check, p.children[id]...)
		default:
			p.planned[id] = kcl.AtTrimHorizon
		}
		seen[id] = true
	}
}
