package lease_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/shardsync"
)

// stream is a stream's whole history. A shard lives from the clock of its start
// to that of its end.
type stream struct {
	clock   int
	horizon int // what had ended by then is not listed any more
	shards  []*shardsync.Shard
	start   map[string]int
	end     map[string]int // not yet: none
}

func newStream(n int) *stream {
	s := &stream{start: map[string]int{}, end: map[string]int{}}
	for i := range uint64(n) {
		s.add(kcl.HashRange{Start: kcl.HashKey{Hi: i << 60}, End: kcl.HashKey{Hi: (i+1)<<60 - 1, Lo: ^uint64(0)}})
	}
	return s
}

func (s *stream) add(r kcl.HashRange, parents ...*shardsync.Shard) {
	x := &shardsync.Shard{ID: fmt.Sprintf("shardId-%012d", len(s.shards)), HashRange: r, Start: fmt.Sprint(s.clock)}
	for _, p := range parents {
		x.Parents = append(x.Parents, p.ID)
	}
	s.start[x.ID] = s.clock
	s.shards = append(s.shards, x)
}

func (s *stream) open() (out []*shardsync.Shard) {
	for _, x := range s.shards {
		if x.Open() {
			out = append(out, x)
		}
	}
	return out
}

func (s *stream) closeShards(shards ...*shardsync.Shard) {
	s.clock++
	for _, x := range shards {
		x.End, s.end[x.ID] = fmt.Sprint(s.clock), s.clock
	}
}

func (s *stream) reshard(t *rapid.T) {
	x := rapid.SampledFrom(s.open()).Draw(t, "reshard")
	for _, y := range s.open() {
		if y.HashRange.Start == x.HashRange.End.Next() && rapid.Bool().Draw(t, "merge") {
			s.closeShards(x, y)
			s.add(kcl.HashRange{Start: x.HashRange.Start, End: y.HashRange.End}, x, y)
			return
		}
	}
	from, to := x.HashRange.Start, x.HashRange.End
	middle := kcl.HashKey{Hi: from.Hi + (to.Hi-from.Hi)/2, Lo: ^uint64(0)}
	s.closeShards(x)
	s.add(kcl.HashRange{Start: from, End: middle}, x)
	s.add(kcl.HashRange{Start: middle.Next(), End: to}, x)
}

func (s *stream) byID(id string) *shardsync.Shard {
	return s.shards[slices.IndexFunc(s.shards, func(x *shardsync.Shard) bool { return x.ID == id })]
}

// children are the shards made of one.
func (s *stream) children(id string) (out []string) {
	for _, x := range s.shards {
		if slices.Contains(x.Parents, id) {
			out = append(out, x.ID)
		}
	}
	return out
}

// listed are the shards that ListShards shows.
func (s *stream) listed() (out []shardsync.Shard) {
	for _, x := range s.shards {
		if x.Open() || s.end[x.ID] > s.horizon {
			out = append(out, *x)
		}
	}
	return out
}

// at are the listed shards that were open at an instant.
func (s *stream) at(instant int) []shardsync.Shard {
	return slices.DeleteFunc(s.listed(), func(x shardsync.Shard) bool {
		return s.start[x.ID] > instant || !x.Open() && s.end[x.ID] <= instant
	})
}

// application is what one application does with a stream.
type application struct {
	*stream
	t        *rapid.T
	settings shardsync.Settings
	from     int // the instant of the initial position
	leases   map[string]*lease.Lease
	created  map[string]int          // how often a shard's lease was
	began    map[string]kcl.Position // where the reading of a shard began
}

func (a *application) create(leases ...lease.Lease) {
	for _, l := range leases {
		require.NotContains(a.t, a.leases, l.ShardID, "two leases of a shard")
		a.leases[l.ShardID] = &l
		a.created[l.ShardID]++
	}
}

func (a *application) some(what string, ok func(*lease.Lease) bool) *lease.Lease {
	ids := slices.DeleteFunc(slices.Sorted(maps.Keys(a.leases)), func(id string) bool { return !ok(a.leases[id]) })
	if len(ids) == 0 {
		return nil
	}
	return a.leases[rapid.SampledFrom(ids).Draw(a.t, what)]
}

// has returns the leases there are of these shards.
func (a *application) has(ids []string) (out []lease.Lease) {
	for _, id := range ids {
		if l := a.leases[id]; l != nil {
			out = append(out, *l)
		}
	}
	return out
}

// readable: the shard's consumer would not wait for a parent.
func (a *application) readable(l *lease.Lease) bool {
	return !l.Ended() && !slices.ContainsFunc(a.has(l.Parents), func(p lease.Lease) bool { return !p.Ended() })
}

// endable: the consumer would not wait for the lease of a merge's other parent
// either.
func (a *application) endable(l *lease.Lease) bool {
	children := a.children(l.ShardID)
	if !a.readable(l) || len(children) == 0 {
		return false
	}
	if len(children) == 1 {
		return len(a.has(a.byID(children[0]).Parents)) == 2
	}
	return true
}

func (a *application) begin(l *lease.Lease) {
	if _, reading := a.began[l.ShardID]; !reading {
		a.began[l.ShardID] = l.Checkpoint
	}
}

func (a *application) checkpoint(l *lease.Lease) {
	a.begin(l)
	l.Checkpoint = kcl.Position{SequenceNumber: fmt.Sprint(a.clock)}
}

func (a *application) finish(l *lease.Lease) {
	a.begin(l)
	for _, x := range a.shards {
		if slices.Contains(x.Parents, l.ShardID) && a.leases[x.ID] == nil {
			a.create(x.Lease(a.settings.Stream, kcl.AtTrimHorizon))
		}
	}
	l.Children = a.children(l.ShardID)
	l.Checkpoint = kcl.ShardEnd
}

// clean does what a Cleaner does with an ended lease.
func (a *application) clean(l *lease.Lease) {
	children := a.has(l.Children)
	if len(children) == len(l.Children) && lease.Deletable(*l, children, len(a.has(l.Parents))) {
		delete(a.leases, l.ShardID)
	}
}

// sync creates what a plan says.
func (a *application) sync() []lease.Lease {
	have := make([]lease.Lease, 0, len(a.leases))
	for _, l := range a.leases {
		have = append(have, *l)
	}
	plan, err := shardsync.Plan(a.listed(), have, a.settings)
	require.NoError(a.t, err)
	a.create(plan...)
	return plan
}

func newApplication(t *rapid.T) *application {
	s := newStream(rapid.IntRange(1, 3).Draw(t, "first shards"))
	for range rapid.IntRange(0, 6).Draw(t, "reshards before") {
		s.reshard(t)
	}
	s.horizon = rapid.IntRange(0, s.clock).Draw(t, "horizon")
	a := &application{
		stream: s, t: t, leases: map[string]*lease.Lease{}, created: map[string]int{}, began: map[string]kcl.Position{},
		settings: shardsync.Settings{Stream: kcl.StreamIdentifier{Name: "s"}},
	}
	switch rapid.IntRange(0, 2).Draw(t, "position") {
	case 0:
		a.settings.Position, a.from = kcl.Latest, s.clock
	case 1:
		a.settings.Position, a.from = kcl.TrimHorizon, s.horizon
	case 2:
		a.settings.Position = kcl.AtTimestamp(time.Unix(1, 0))
		a.from = rapid.IntRange(s.horizon, s.clock).Draw(t, "timestamp")
	}
	plan, err := shardsync.PlanInitial(s.at(a.from), a.settings)
	require.NoError(t, err)
	a.create(plan...)
	return a
}

// drain reads everything there is, and cleans up what it can.
func (a *application) drain() {
	for busy := true; busy; {
		busy = false
		for _, id := range slices.Sorted(maps.Keys(a.leases)) {
			switch l := a.leases[id]; {
			case a.endable(l):
				a.finish(l)
				busy = true
			case a.readable(l):
				a.checkpoint(l)
			}
		}
	}
	for n := -1; n != len(a.leases); {
		n = len(a.leases)
		for _, l := range a.leases {
			a.clean(l)
		}
	}
}

// asked reports whether the initial position asks for records of a shard, and
// whether it lies within them.
func (a *application) asked(x *shardsync.Shard) (any, within bool) {
	return x.Open() || a.end[x.ID] > a.from, a.start[x.ID] <= a.from
}

func (a *application) checkDrained() {
	for _, x := range a.shards {
		any, within := a.asked(x)
		began, read := a.began[x.ID]
		require.Equal(a.t, any, read, "%s read", x.ID)
		if read {
			want := kcl.AtTrimHorizon
			if within {
				want = a.settings.Position.Sentinel()
			}
			require.Equal(a.t, want, began, x.ID)
		}
		require.Equal(a.t, x.Open(), a.leases[x.ID] != nil, "lease of %s is left", x.ID)
	}
}

// actions are what happens to a stream and an application at any time.
func (a *application) actions() map[string]func(*rapid.T) {
	on := func(what string, ok func(*lease.Lease) bool, do func(*lease.Lease)) func(*rapid.T) {
		return func(*rapid.T) {
			if l := a.some(what, ok); l != nil {
				do(l)
			}
		}
	}
	return map[string]func(*rapid.T){
		"reshard": func(t *rapid.T) {
			if len(a.shards) < 25 {
				a.reshard(t)
			}
		},
		"checkpoint": on("checkpoint", a.readable, a.checkpoint),
		"finish":     on("finish", a.endable, a.finish),
		"expire": func(t *rapid.T) {
			// What was not read to its end does not expire here.
			limit := a.clock
			for id, end := range a.end {
				if l := a.leases[id]; l != nil && !l.Ended() {
					limit = min(limit, end-1)
				}
			}
			a.horizon = rapid.IntRange(a.horizon, max(a.horizon, limit)).Draw(t, "horizon")
		},
		"clean": on("clean", func(l *lease.Lease) bool { return l.Ended() }, a.clean),
	}
}

// However a stream is resharded and read, its shards expire and its leases are
// cleaned up, nobody waits for ever, an application that has lost nothing needs
// no sync, and every shard from the initial position on is read once, from its
// beginning or from that position.
func TestNothingIsReadTwiceOrNever(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newApplication(t)
		actions := a.actions()
		actions[""] = func(t *rapid.T) { require.Empty(t, a.sync(), "leases are missing") }
		t.Repeat(actions)
		a.drain()
		a.checkDrained()
		for id, n := range a.created {
			require.Equal(t, 1, n, "leases of %s", id)
		}
	})
}

// The lease of an ended shard stays for as long as a child that nobody has read
// from could get lost: then a sync finds it again, at its beginning.
func TestUnreadChildrenAreFoundAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newApplication(t)
		actions := a.actions()
		actions["lose"] = func(t *rapid.T) {
			l := a.some("lost", func(l *lease.Lease) bool {
				_, reading := a.began[l.ShardID]
				_, first := a.asked(a.byID(l.ShardID))
				return !reading && !first && len(a.has(a.children(l.ShardID))) == 0 // else there is no hole to see
			})
			if l == nil {
				return
			}
			delete(a.leases, l.ShardID)
			plan := a.sync()
			require.Len(t, plan, 1)
			require.Equal(t, l.ShardID, plan[0].ShardID)
			require.Equal(t, kcl.AtTrimHorizon, plan[0].Checkpoint)
		}
		t.Repeat(actions)
		a.drain()
		a.checkDrained()
	})
}
