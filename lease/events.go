package lease

import "sync"

// Loss says why a lease is no longer held.
type Loss string

// The reasons.
const (
	// LossRefused: a write met an item that is no longer ours, or none.
	LossRefused Loss = "refused"
	// LossExpired: the term ended before a renewal succeeded.
	LossExpired Loss = "expired"
	// LossTransferred: a hand-off was completed, or is about to be, as the
	// consumer's time is up.
	LossTransferred Loss = "transferred"
	// LossReleased: this worker gave the lease back.
	LossReleased Loss = "released"
	// LossDropped: this worker forgot the lease; in the table it is still ours.
	LossDropped Loss = "dropped"
	// LossStopped: the renewer has ended.
	LossStopped Loss = "stopped"
)

// Events are what a [Renewer] tells of. Any may be nil. They are called without
// a lock held, one at a time, in the order in which things happened, from
// whichever goroutine caused them: so they may call the renewer, but must
// return at once, for renewals may wait for them.
type Events struct {
	// Acquired: the lease is held, under a new token.
	Acquired func(Lease)
	// Lost ends what Acquired began; the token tells which tenure it was. It
	// also comes for a lease that this worker dropped, released or transferred.
	Lost func(Lease, Loss)
	// HandOffRequested comes once a tenure: the lease's consumer shall stop
	// gracefully, then the lease is to be transferred. If the consumer does not
	// get there in time, the renewer transfers it.
	HandOffRequested func(Lease)
}

// mailbox delivers calls in the order they were posted, one at a time. There
// are at most three a tenure.
type mailbox struct {
	mu sync.Mutex
	// guarded by mu
	calls      []func()
	delivering bool
}

func (m *mailbox) post(f func()) {
	m.mu.Lock()
	m.calls = append(m.calls, f)
	m.mu.Unlock()
}

// deliver makes the calls posted so far, unless another goroutine is at it,
// which then makes them. No lock may be held.
func (m *mailbox) deliver() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.delivering {
		return
	}
	m.delivering = true
	for len(m.calls) > 0 {
		f := m.calls[0]
		m.calls = m.calls[1:]
		m.mu.Unlock()
		f()
		m.mu.Lock()
	}
	m.calls = nil
	m.delivering = false
}
