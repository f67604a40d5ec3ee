package checkpoint

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-kcl/kcl"
)

// leaseTable is a lease's item and its owner, as the checkpointer meets them:
// answers get lost, and accepted positions are stored by renewals at any time.
type leaseTable struct {
	t        *rapid.T
	stored   kcl.Position
	pending  kcl.Position
	state    string
	accepted kcl.Position

	limit func(p kcl.Position) // checks that p may be stored
}

// fate says whether a call is carried out and whether it is answered.
func (l *leaseTable) fate() (carriedOut bool, err error) {
	switch rapid.IntRange(0, 6).Draw(l.t, "fate of the call") {
	case 0:
		return false, kcl.ErrDependency
	case 1:
		return true, kcl.ErrDependency
	}
	return true, nil
}

func (l *leaseTable) Checkpoint(_ context.Context, _, _ string, p kcl.Position) error {
	l.limit(p)
	done, err := l.fate()
	if !done {
		return err
	}
	if p.Compare(l.stored) < 0 {
		return kcl.ErrInvalidPosition
	}
	l.stored, l.pending, l.state = p, kcl.Position{}, ""
	return err
}

func (l *leaseTable) Prepare(_ context.Context, _, _ string, p kcl.Position, state []byte) error {
	l.limit(p)
	done, err := l.fate()
	if !done {
		return err
	}
	if p.Compare(l.stored) < 0 {
		return kcl.ErrInvalidPosition
	}
	l.pending, l.state = p, string(state)
	return err
}

func (l *leaseTable) Accept(_, _ string, p kcl.Position) {
	if p.Compare(l.accepted) > 0 {
		l.accepted = p
	}
}

// renew is a heartbeat, which stores what was accepted.
func (l *leaseTable) renew() {
	if l.accepted.Compare(l.stored) > 0 {
		l.limit(l.accepted)
		l.stored, l.pending, l.state = l.accepted, kcl.Position{}, ""
	}
}

type delivery struct {
	*Batch
	end  kcl.Position
	open bool // in the processor's hands
}

// consumption#43,46: whatever a processor does, whatever fails of it and of its
// calls: the checkpoint never moves back, nor beyond what was delivered; without
// being named it never covers a batch that failed; nil says that it is reached;
// and a prepared one stays apart until it is committed.
func TestCheckpointsOfAnyProcessor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		start := rapid.SampledFrom([]kcl.Position{kcl.AtTrimHorizon, kcl.AtLatest, at("5"), at("5", 2)}).Draw(t, "start")
		l := &leaseTable{t: t, stored: start}
		auto := rapid.Bool().Draw(t, "auto")
		c := New(Config{Leases: l, Key: "k", Token: "t", Last: start, Auto: auto})
		var (
			batches   []*delivery
			prepared  []*kcl.Prepared
			delivered = start // the end of it
			done      = start // accepted, or named by the processor
			named     kcl.Position
			ended     bool
		)
		reached := func(p kcl.Position) {
			if p.Compare(done) > 0 {
				done = p
			}
		}
		last := start // stored, at the last look
		l.limit = func(p kcl.Position) {
			require.GreaterOrEqual(t, p.Compare(c.Last()), 0, "%s is before the checkpoint, %s", p, c.Last())
			require.True(t, !auto || p.Compare(c.Accepted()) >= 0, "%s is before what the next renewal stores, %s", p, c.Accepted())
			if p.IsSentinel() {
				require.True(t, p == kcl.ShardEnd && ended, "%s is stored", p)
				return
			}
			require.True(t, ended || p.Compare(delivered) <= 0, "%s was not delivered", p)
			covered := p.Compare(done) <= 0 || p == named
			for _, b := range batches {
				covered = covered || b.open && p == b.end
			}
			require.True(t, covered, "%s was neither accepted nor named", p)
		}
		name := func(p kcl.Position, call func() error) error {
			named = p
			err := call()
			if named = (kcl.Position{}); err == nil {
				reached(p)
			}
			return err
		}
		number := func() kcl.Position {
			return at(fmt.Sprint(rapid.IntRange(1, 60).Draw(t, "number")), rapid.Int64Range(0, 3).Draw(t, "sub"))
		}
		anywhere := func() kcl.Position {
			if rapid.IntRange(0, 5).Draw(t, "odd") == 0 {
				return rapid.SampledFrom([]kcl.Position{{}, at("x"), kcl.AtTrimHorizon, kcl.AtLatest, kcl.ShardEnd}).Draw(t, "position")
			}
			return number()
		}
		on := func(do func(b *delivery)) func(*rapid.T) {
			return func(t *rapid.T) {
				if len(batches) > 0 {
					do(rapid.SampledFrom(batches).Draw(t, "batch"))
				}
			}
		}
		inHand := func(do func(b *delivery)) func(*rapid.T) {
			return func(t *rapid.T) {
				if n := len(batches); n > 0 && batches[n-1].open {
					do(batches[n-1])
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"deliver": func(t *rapid.T) {
				if n := len(batches); ended || n > 0 && batches[n-1].open {
					return
				}
				end := c.Accepted() // a batch without records
				if p := number(); p.Compare(end) > 0 {
					end = p
				}
				if end.Compare(delivered) > 0 {
					delivered = end
				}
				batches = append(batches, &delivery{c.Deliver(end), end, true})
			},
			"accept": inHand(func(b *delivery) {
				b.open = false
				reached(b.end)
				b.Accept()
			}),
			"fail": inHand(func(b *delivery) {
				b.open = false
				p := kcl.Position{}
				if n := number(); rapid.Bool().Draw(t, "in part") && n.Compare(b.end) <= 0 {
					p = n
					reached(p)
				}
				b.Fail(p)
			}),
			"skip": func(t *rapid.T) {
				if n := len(batches); n > 0 && !batches[n-1].open {
					reached(batches[n-1].end)
					batches[n-1].Accept()
				}
			},
			"checkpoint": on(func(b *delivery) {
				open := b.open
				if err := b.Checkpoint(ctx); err == nil {
					if open {
						reached(b.end)
					}
					got := l.stored
					if auto && l.accepted.Compare(got) > 0 {
						got = l.accepted // by the next renewal
					}
					require.GreaterOrEqual(t, got.Compare(b.end), 0, "%s is not reached", b.end)
				}
			}),
			"checkpoint at": on(func(b *delivery) {
				p := anywhere()
				if name(p, func() error { return b.CheckpointAt(ctx, p) }) == nil {
					require.GreaterOrEqual(t, l.stored.Compare(p), 0, "%s is not reached", p)
				}
			}),
			"prepare": on(func(b *delivery) {
				p, before := anywhere(), l.stored
				var x *kcl.Prepared
				err := name(p, func() (err error) {
					x, err = b.Prepare(ctx, p, []byte("state of "+p.String()))
					return err
				})
				require.Equal(t, before, l.stored, "a prepared checkpoint is not one")
				if err != nil {
					return
				}
				if p.Compare(c.Last()) != 0 {
					require.Equal(t, x.Position, l.pending)
					require.Equal(t, "state of "+p.String(), l.state)
				}
				prepared = append(prepared, x)
			}),
			"commit": func(t *rapid.T) {
				if len(prepared) == 0 {
					return
				}
				x := rapid.SampledFrom(prepared).Draw(t, "prepared")
				if name(x.Position, func() error { return x.Commit(ctx) }) == nil {
					require.GreaterOrEqual(t, l.stored.Compare(x.Position), 0)
				}
			},
			"final": func(t *rapid.T) {
				if c.Final().Checkpoint(ctx) == nil {
					require.GreaterOrEqual(t, l.stored.Compare(c.Accepted()), 0, "what was accepted is not stored")
				}
			},
			"renew": func(*rapid.T) { l.renew() },
			"end": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "at the end") > 0 {
					return
				}
				for _, b := range batches {
					if b.open {
						return
					}
				}
				ended = true
				reached(kcl.ShardEnd)
				c.ReachEnd()
				if c.End(ctx) == nil {
					require.Equal(t, kcl.ShardEnd, l.stored)
				}
			},
			"": func(t *rapid.T) {
				require.GreaterOrEqual(t, l.stored.Compare(last), 0, "the checkpoint went from %s to %s", last, l.stored)
				require.LessOrEqual(t, c.Last().Compare(l.stored), 0, "%s is told of, %s is stored", c.Last(), l.stored)
				require.LessOrEqual(t, c.Accepted().Compare(done), 0, "%s counts as accepted", c.Accepted())
				last = l.stored
			},
		})
	})
}
