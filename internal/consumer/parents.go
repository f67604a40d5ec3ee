package consumer

import (
	"cmp"
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
func (c *Consumer) awaitParents(stay context.Context) bool {
	open := slices.Clone(c.info.Parents)
	if len(open) == 0 {
		return stay.Err() == nil
	}
	var read time.Time
	for failures := 0; ; {
		if stay.Err() != nil {
			return false
		}
		now := time.Now()
		if c.pollDue(now, read, open) {
			read = now
			blocked, err := c.blockedBy(stay, &open)
			switch {
			case err != nil:
				failures++
				c.failing(stay, StateWaiting, "cannot read its parents' leases", failures, err)
			case len(blocked) == 0:
				return true
			default:
				failures = 0
				c.say(StateWaiting, "waits for its parents to be processed to their end: "+strings.Join(blocked, ", "))
			}
		}
		if c.pauseOrPoke(stay, cmp.Or(c.cfg.ParentPollInterval, parentPoll)) {
			read = time.Time{}
		}
	}
}

// pollDue reports whether the open parents' leases may be read now, the last
// time having been read.
func (c *Consumer) pollDue(now, read time.Time, open []string) bool {
	return c.cfg.ParentPollInterval > 0 || now.Sub(read) >= slowParentPoll ||
		c.cfg.ParentPolls.take(c.elsewhere(open), now)
}

// elsewhere returns how many of the shards' leases this worker does not hold.
func (c *Consumer) elsewhere(shardIDs []string) int {
	n := 0
	for _, id := range shardIDs {
		if _, held := c.cfg.Leases.Get(c.info.Stream.LeaseKey(id)); !held {
			n++
		}
	}
	return n
}

// blockedBy returns which of the open parents' leases are not at SHARD_END. A
// parent without a lease does not count. Those that have ended are taken out of
// open, for that is final. What this worker holds itself it need not read.
func (c *Consumer) blockedBy(ctx context.Context, open *[]string) ([]string, error) {
	var blocked []string
	for _, parent := range slices.Clone(*open) {
		p, found, err := c.parentLease(ctx, parent)
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

// parentLease finds a parent's lease. That there is none must not be a lagging
// read's word: a parent's lease may be a moment older than its child's.
func (c *Consumer) parentLease(ctx context.Context, shardID string) (lease.Lease, bool, error) {
	key := c.info.Stream.LeaseKey(shardID)
	if p, held := c.cfg.Leases.Get(key); held {
		return p, true, nil
	}
	p, found, err := c.cfg.Store.Get(ctx, key)
	if err != nil || found {
		return p, found, err
	}
	return c.cfg.Store.GetConsistent(ctx, key)
}

// pauseOrPoke waits for d, for ctx, or for Poke; then it is true.
func (c *Consumer) pauseOrPoke(ctx context.Context, d time.Duration) (poked bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-c.poked:
		return true
	}
	return false
}
