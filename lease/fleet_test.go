package lease

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/kcltest"
)

// A small fleet under faults of every kind: requests and answers get lost, hang
// or arrive late, workers are cut off for longer than a term, leases are
// reassigned by the rules of a leader and handed over. At no instant do two
// workers hold one lease, and no checkpoint ever moves back.
func TestFleetUnderFaults(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inWorld(t, kcltest.Options{Latency: 10 * time.Millisecond, Seed: seed, StaleReads: time.Second, IndexLag: time.Second},
				func(t *testing.T, w *world) { newFleet(w, seed).run(3 * time.Minute) })
		})
	}
}

const fleetLeases = 5

type fleet struct {
	w     *world
	peers []*fleetPeer
	names []string

	mu sync.Mutex
	// guarded by mu
	rng *rand.Rand
}

type fleetPeer struct {
	*peer
	f *fleet

	mu sync.Mutex
	// guarded by mu
	cut time.Time // nothing passes until then
}

func newFleet(w *world, seed uint64) *fleet {
	f := &fleet{w: w, rng: rand.New(rand.NewPCG(seed, 1))}
	for _, name := range []string{"a", "b", "c"} {
		p := &fleetPeer{f: f}
		p.peer = w.peer(name, func(rc *RenewerConfig) {
			told := rc.Events.HandOffRequested
			rc.Events.HandOffRequested = func(l Lease) { told(l); go p.handOver(l) } // ends before the bubble does
		})
		p.line.rule = func(string, string) fault { return p.fault() }
		f.peers = append(f.peers, p)
		f.names = append(f.names, name)
	}
	for i := range fleetLeases {
		w.create(lease(fmt.Sprint("s", i), ""))
	}
	return f
}

func (f *fleet) roll(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rng.IntN(n)
}

// fault strikes one request in ten.
func (p *fleetPeer) fault() fault {
	p.mu.Lock()
	cut := time.Now().Before(p.cut)
	p.mu.Unlock()
	switch {
	case cut:
		return broken
	case p.f.roll(10) > 0:
		return nil
	}
	late := time.Duration(p.f.roll(12000)) * time.Millisecond
	return []fault{throttled, broken, unanswered, func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		select {
		case <-time.After(late):
			return send()
		case <-r.Context().Done(): // and lands all the same
			time.AfterFunc(late, func() { _, _ = send() })
			return nil, r.Context().Err()
		}
	}}[p.f.roll(4)]
}

// consume checkpoints one held lease a second, one further each time.
func (p *fleetPeer) consume(ctx context.Context) {
	next := map[string]int{}
	for ctx.Err() == nil {
		for _, l := range p.Held() {
			n := next[l.Token]
			if n == 0 {
				n, _ = strconv.Atoi(l.Checkpoint.SequenceNumber)
			}
			n++
			next[l.Token] = n
			switch p.f.roll(4) {
			case 0:
				_ = p.Checkpoint(ctx, l.Key, l.Token, at(fmt.Sprint(n)))
			case 1:
				_ = p.Prepare(ctx, l.Key, l.Token, at(fmt.Sprint(n)), nil)
			default:
				p.Accept(l.Key, l.Token, at(fmt.Sprint(n)))
			}
		}
		time.Sleep(time.Second)
	}
}

func (p *fleetPeer) handOver(l Lease) {
	time.Sleep(time.Duration(p.f.roll(3000)) * time.Millisecond)
	_ = p.Transfer(p.f.w.t.Context(), l.Key, l.Token)
}

// lead assigns what is free or silent, and asks for a hand-off now and then. Its
// own calls do not fail.
func (f *fleet) lead(ctx context.Context) {
	seen := map[string]Lease{}
	for ctx.Err() == nil {
		for i := range fleetLeases {
			l := f.w.item(fmt.Sprint("s", i))
			now := time.Now()
			l.Moved = now
			if old, known := seen[l.Key]; known && old.Counter == l.Counter {
				l.Moved = old.Moved
			}
			seen[l.Key] = l
			to := f.names[f.roll(len(f.names))]
			switch {
			case l.Available(now, testTerm):
				_, _, _ = f.w.look.Assign(ctx, l, to, true)
			case !l.HandOffPending() && f.roll(30) == 0 && l.Owner != to:
				_, _, _ = f.w.look.StartHandOff(ctx, l, to)
			}
		}
		if f.roll(20) == 0 {
			p := f.peers[f.roll(len(f.peers))]
			p.mu.Lock()
			p.cut = time.Now().Add(time.Duration(f.roll(30)) * time.Second)
			p.mu.Unlock()
		}
		time.Sleep(time.Second)
	}
}

func (f *fleet) run(d time.Duration) {
	t := f.w.t
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var wg sync.WaitGroup
	for _, p := range f.peers {
		wg.Go(func() { p.Run(ctx) })
		wg.Go(func() { p.finder.Run(ctx) })
		wg.Go(func() { p.consume(ctx) })
	}
	wg.Go(func() { f.lead(ctx) })

	reached := map[string]kcl.Position{}
	for look := 0; ctx.Err() == nil && !t.Failed(); look++ {
		for i := range fleetLeases {
			key := fmt.Sprint("s", i)
			var by []string
			for _, p := range f.peers {
				if p.holds(key) {
					by = append(by, p.name)
				}
			}
			assert.LessOrEqual(t, len(by), 1, "%s is held by %v", key, by)
			if look%20 != i { // each item once a second
				continue
			}
			now := f.w.item(key).Checkpoint
			assert.GreaterOrEqual(t, now.Compare(reached[key]), 0, "%s went back from %v to %v", key, reached[key], now)
			reached[key] = now
		}
		time.Sleep(50 * time.Millisecond)
	}
	cancel()
	wg.Wait()
	for i := range fleetLeases {
		key := fmt.Sprint("s", i)
		assert.False(t, reached[key].IsSentinel(), "%s never got anywhere", key)
		t.Logf("%s reached %v", key, reached[key])
	}
	time.Sleep(time.Minute) // for what lands late
}
