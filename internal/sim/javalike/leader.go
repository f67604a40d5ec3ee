package javalike

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// assigner gives leases to workers, on the leader.
type assigner struct {
	led      bool
	failures int
	runs     int
	seen     map[string]*sighting
}

// sighting is what a leader knows of a lease. What it finds no owner of has never
// moved.
type sighting struct {
	lease    lease
	moved    time.Time
	deadline time.Time // of a hand-off
	reassign bool      // expired, or nobody's
	to       string    // whom it is given to in this run, in memory
	changed  bool
}

// actual is whose lease it is, as far as the run has got.
func (s *sighting) actual() string {
	if s.changed {
		return s.to
	}
	return s.lease.actualOwner()
}

func (s *sighting) blocked(now time.Time) bool {
	return !s.reassign && !s.lease.ended() && s.lease.handOff() && now.Before(s.deadline)
}

// assign is one run.
func (w *Worker) assign(ctx context.Context) {
	a := &w.assigner
	if !w.decider.isLeader(ctx, w) {
		a.led = false
		return
	}
	if !a.led {
		*a = assigner{led: true, seen: map[string]*sighting{}}
	}
	err := w.assignOnce(ctx)
	switch {
	case err == nil:
		a.failures = 0
	case ctx.Err() != nil:
	default:
		if a.failures++; a.failures >= 3 {
			w.decider.resign(ctx, w)
		}
		w.Tell("%s fails to assign, %d: %v", w.Name, a.failures, err)
	}
}

func (w *Worker) assignOnce(ctx context.Context) error {
	leases, reports, err := w.scanAll(ctx, "assignment scan")
	if err == nil && w.wire.legacy {
		reports, err = w.legacyReports(ctx)
	}
	if err != nil {
		return err
	}
	now := time.Now()
	all := w.assigner.look(leases, now, w.Failover, w.HandOffTimeout)
	var active []string
	for _, r := range reports {
		if r.valid && !r.failing && now.Sub(r.updated) <= 2*reportPeriod {
			active = append(active, r.worker)
		}
	}
	slices.Sort(active)
	decide(all, active, w.assigner.runs%3 == 0, now)
	w.assigner.runs++

	for _, s := range all {
		if !s.changed || s.blocked(now) {
			continue
		}
		in := w.wire.assign(s.lease, s.to)
		graceful := !s.reassign && !s.lease.ended() && !s.lease.handOff()
		if graceful {
			in = w.wire.startHandOff(s.lease, s.to)
		}
		is, done, werr := w.update(ctx, in)
		err = errors.Join(err, werr)
		if !done {
			continue
		}
		l, derr := decodeLease(is)
		if derr != nil {
			w.complain("assignment", s.lease.key, derr)
			continue
		}
		w.Tell("%s gives %s of %q to %s, gracefully %v", w.Name, l.key, s.lease.actualOwner(), l.owner, graceful)
		if s.lease = l; graceful {
			s.deadline = time.Now().Add(w.HandOffTimeout + w.Failover)
		} else {
			s.moved = time.Now()
		}
	}
	return err
}

// look notes what a scan found, and returns it in the order in which leases are
// given away.
func (a *assigner) look(leases []lease, now time.Time, failover, timeout time.Duration) []*sighting {
	next := make(map[string]*sighting, len(leases))
	var all []*sighting
	for _, l := range leases {
		s := &sighting{lease: l}
		was := a.seen[l.key]
		switch {
		case was == nil && l.actualOwner() == "":
		case was == nil, l.counter > was.lease.counter:
			s.moved = now
		default:
			s.moved = was.moved
		}
		if l.handOff() {
			if s.deadline = now.Add(timeout + failover); was != nil && was.lease.owner == l.owner && was.lease.checkpointOwner == l.checkpointOwner {
				s.deadline = was.deadline
			}
		}
		s.reassign = l.actualOwner() == "" || now.Sub(s.moved) > failover
		next[l.key] = s
		all = append(all, s)
	}
	a.seen = next
	slices.SortFunc(all, func(x, y *sighting) int {
		return cmp.Or(x.moved.Compare(y.moved), strings.Compare(x.lease.key, y.lease.key))
	})
	return all
}

// decide evens the number of leases: those that are nobody's first, and now and
// then the others.
func decide(all []*sighting, active []string, balance bool, now time.Time) {
	if len(active) == 0 {
		return
	}
	count := map[string]int{}
	for _, s := range all {
		count[s.actual()]++
	}
	target := (len(all) + len(active) - 1) / len(active)
	give := func(s *sighting, to string) {
		count[s.actual()]--
		count[to]++
		s.to, s.changed = to, true
	}
	least := func() { slices.SortStableFunc(active, func(x, y string) int { return count[x] - count[y] }) }
	least()
	i := 0
	for _, s := range all {
		if !s.reassign {
			continue
		}
		for i < len(active) && count[active[i]] >= target {
			i++
		}
		if i == len(active) {
			break // spilled
		}
		give(s, active[i])
	}
	if !balance {
		return
	}
	least()
	for left, right := 0, len(active)-1; left < right; {
		from, to := active[right], active[left]
		switch i := slices.IndexFunc(all, func(s *sighting) bool { return s.actual() == from && !s.blocked(now) }); {
		case count[to] >= target:
			left++
		case count[from] <= target, i < 0:
			right--
		default:
			give(all[i], to)
		}
	}
}

// scanAll reads the table as the assignment does. What it cannot read it leaves
// out. An unknown entity is taken for a lease.
func (w *Worker) scanAll(ctx context.Context, act string) (leases []lease, reports []report, err error) {
	in := &dynamodb.ScanInput{TableName: &w.wire.lease, Segment: aws.Int32(0), TotalSegments: aws.Int32(1)}
	err = w.scan(ctx, in, func(it item) error {
		entity := entityOf(it)
		if w.wire.legacy {
			entity = leaseEntity
		}
		err := decode(entity, it)
		switch entity {
		case reportEntity:
			if r, rerr := decodeReport("leaseKey", it); rerr == nil {
				reports = append(reports, r)
			}
		case leaderEntity, versionEntity, tableEntity, streamEntity:
		default:
			if l, lerr := decodeLease(it); lerr == nil {
				leases = append(leases, l)
			}
		}
		if err != nil {
			w.complain(act, text(it["leaseKey"]), err)
		}
		return nil
	})
	return leases, reports, err
}

// legacyReports reads the workers' own table, where one bad row fails all.
func (w *Worker) legacyReports(ctx context.Context) (all []report, err error) {
	err = w.scan(ctx, &dynamodb.ScanInput{TableName: &w.wire.stats}, func(it item) error {
		r, err := decodeReport("wid", it)
		if err != nil {
			w.complain("scan of reports", text(it["wid"]), err)
			return fmt.Errorf("report of %q: %w", text(it["wid"]), err)
		}
		all = append(all, r)
		return nil
	})
	return all, err
}
