package retrieval

import (
	"context"
	"slices"
	"sync"
)

// DefaultBudget bounds the bytes that a worker's shards hold in memory.
const DefaultBudget = 256 << 20

// Budget bounds the memory of the records that all shards of a worker have
// fetched and not yet processed. A shard that holds nothing is always admitted,
// so that none starves and a full budget cannot stop the one that would drain
// it; the bound may be exceeded by one response for each such shard, and by
// what a response is larger than the one before. The others are admitted in the
// order they came.
type Budget struct {
	limit int64

	mu      sync.Mutex // guards what follows and the fields of accounts
	used    int64
	waiting []*account
}

// NewBudget returns a Budget of limit bytes; 0 means [DefaultBudget].
func NewBudget(limit int64) *Budget {
	if limit <= 0 {
		limit = DefaultBudget
	}
	return &Budget{limit: limit}
}

// Used returns how many bytes are held.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// account is one shard's part of a Budget.
type account struct {
	b        *Budget
	held     int64
	need     int64
	admitted chan struct{} // closed on admission; nil unless waiting
}

// reserve takes n bytes, before a response of about that size is fetched. It
// returns nil, or a channel to [account.wait] for when there is no room yet.
func (a *account) reserve(n int64) <-chan struct{} {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	if a.held == 0 || len(a.b.waiting) == 0 && a.b.fits(n) {
		a.add(n)
		return nil
	}
	a.need, a.admitted = n, make(chan struct{})
	a.b.waiting = append(a.b.waiting, a)
	return a.admitted
}

// wait waits for what reserve asked for. It fails only with ctx; then nothing
// is reserved.
func (a *account) wait(ctx context.Context, admitted <-chan struct{}) error {
	select {
	case <-admitted:
		return nil
	case <-ctx.Done():
	}
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	if a.admitted == nil { // admitted meanwhile
		a.add(-a.need)
	} else {
		a.leaveQueue()
	}
	a.b.admit()
	return ctx.Err()
}

// release gives n bytes back.
func (a *account) release(n int64) {
	if n == 0 {
		return
	}
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	a.add(-n)
	if a.held == 0 && a.admitted != nil {
		a.enter()
	}
	a.b.admit()
}

// settle replaces the reserved bytes by those that came.
func (a *account) settle(reserved, came int64) {
	if came > reserved {
		a.b.mu.Lock()
		a.add(came - reserved)
		a.b.mu.Unlock()
		return
	}
	a.release(reserved - came)
}

// The rest needs b.mu.

func (b *Budget) fits(n int64) bool { return b.used+min(n, b.limit) <= b.limit }

func (a *account) add(n int64) {
	a.held += n
	a.b.used += n
}

func (a *account) enter() {
	a.add(a.need)
	close(a.admitted)
	a.leaveQueue()
}

func (a *account) leaveQueue() {
	a.admitted = nil
	a.b.waiting = slices.DeleteFunc(a.b.waiting, func(w *account) bool { return w == a })
}

// admit lets in whoever waits longest, for as long as there is room.
func (b *Budget) admit() {
	for len(b.waiting) > 0 && b.fits(b.waiting[0].need) {
		b.waiting[0].enter()
	}
}
