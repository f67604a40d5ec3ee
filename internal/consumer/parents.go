package consumer

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-kcl/kcl/lease"
)

const (
	// parentPoll is how often a parent's lease is read, so long as ParentPolls
	// lets; slowParentPoll is KCL's own interval, parentShardPollIntervalMillis,
	// and always allowed.
	parentPoll     = time.Second
	slowParentPoll = 10 * time.Second

	// A worker's consumers together may poll this often beyond KCL's interval,
	// after a first lot: 720 read units an hour and 75 once, its part of what a
	// worker may cost besides its leases.
	pollsPerSecond = 0.4
	firstPolls     = 150
)

// ParentPolls shares out a worker's reads of parents' leases, which cost read
// units, among the consumers that wait for parents on other workers. A reshard
// is over within the first lot; children of a long backlog, which may wait for
// hours, slow down. The zero value is ready.
type ParentPolls struct {
	mu   sync.Mutex // guards what follows
	used float64
	at   time.Time
}

// take reports whether n reads may be made at now, and counts them if so.
func (p *ParentPolls) take(n int, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.at.IsZero() {
		p.used = max(0, p.used-now.Sub(p.at).Seconds()*pollsPerSecond)
	}
	p.at = now
	if p.used+float64(n) > firstPolls {
		return false
	}
	p.used += float64(n)
	return true
}

// awaitParents waits until no parent's lease keeps the shard from being
// processed. It is false when the consumer is to leave first.
func (l life) awaitParents() bool {
	open := slices.Clone(l.info.Parents)
	if len(open) == 0 {
		return l.stay.Err() == nil
	}
	var read time.Time
	for failures := 0; ; {
		if l.stay.Err() != nil {
			return false
		}
		now := time.Now()
		if now.Sub(read) >= slowParentPoll || l.cfg.ParentPolls.take(l.elsewhere(open), now) {
			read = now
			blocked, err := l.blockedBy(&open)
			switch {
			case err != nil:
				failures++
				l.failing(StateWaiting, "cannot read its parents' leases", failures, err)
			case len(blocked) == 0:
				return true
			default:
				failures = 0
				l.say(StateWaiting, "waits for its parents to be processed to their end: "+strings.Join(blocked, ", "))
			}
		}
		if l.pauseOrPoke(parentPoll) {
			read = time.Time{}
		}
	}
}

// elsewhere returns how many of the shards' leases this worker does not hold.
func (l life) elsewhere(shardIDs []string) int {
	n := 0
	for _, id := range shardIDs {
		if _, held := l.cfg.Leases.Get(l.info.Stream.LeaseKey(id)); !held {
			n++
		}
	}
	return n
}

// blockedBy returns which of the open parents' leases are not at SHARD_END. A
// parent without a lease does not count. Those that have ended are taken out of
// open, for that is final. What this worker holds itself it need not read.
func (l life) blockedBy(open *[]string) ([]string, error) {
	var blocked []string
	for _, parent := range slices.Clone(*open) {
		p, found, err := l.parentLease(parent)
		if err != nil {
			return nil, err
		}
		switch {
		case found && p.Ended():
			*open = slices.DeleteFunc(*open, func(id string) bool { return id == parent })
		case found:
			blocked = append(blocked, parent)
		}
	}
	return blocked, nil
}

func (l life) parentLease(shardID string) (lease.Lease, bool, error) {
	key := l.info.Stream.LeaseKey(shardID)
	if p, held := l.cfg.Leases.Get(key); held {
		return p, true, nil
	}
	return l.cfg.Store.Get(l.stay, key)
}

// pauseOrPoke waits for d, for stay to end, or for Poke; then it is true.
func (l life) pauseOrPoke(d time.Duration) (poked bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.stay.Done():
	case <-l.poked:
		return true
	}
	return false
}

// pause waits for d, or for ctx; then it is false.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
