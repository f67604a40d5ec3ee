package singletable

// steps reaches all that is one step away, of the tables or of either worker.
func (x *explorer) steps(s state, n int32) {
	if s.t[tItem] != 0 && s.t[tBaked] == 0 && statusOf[s.t[tItem]] != Deployed && statusOf[s.t[tItem]] != Complete {
		next := s
		next.t[tBaked] = 1
		for i := range next.w {
			if next.w[i][wReadFresh] == 1 {
				next.w[i][wReadBaked] = 1
			}
		}
		x.reach(next, n, step{-1, "the bake is over"})
	}
	if who := int(s.t[tLate]) - 1; who >= 0 {
		did := step{who, "sent a write that lands late"}
		next := s
		x.land(&next, who, Action(s.t[tLateAction]), s.t[tLateTo], s.t[tLateFresh], s.t[tLateSaw], did)
		next.dropLate()
		x.reach(next, n, did)
		next = s
		next.dropLate()
		x.reach(next, n, step{who, "sent a write that never lands"})
	}
	for i := range s.w {
		x.life(s, n, i)
		x.locks(s, n, i)
		x.fleet(s, n, i)
		if k := s.w[i][wKind]; k == first || k == second {
			x.check(s, n, i)
			x.answers(s, n, i)
		}
	}
}

func (s *state) dropLate() {
	for i := tLate; i <= tLateDead; i++ {
		s.t[i] = 0
	}
}

// life is starts and stops.
func (x *explorer) life(s state, n int32, i int) {
	w := s.w[i]
	if w[wKind] == down {
		for _, kind := range []uint8{old, first, second} {
			next := s
			me := &next.w[i]
			if kind == old {
				if s.t[tSecond] == 1 || s.t[tCopy] == 1 {
					continue // which is said to be unsafe
				}
			} else {
				f := Facts{Legacy: LegacyExists, Found: s.t[tItem] != 0, Migrate: kind == second, Copied: s.t[tCopy] == 1}
				f.Stored.Value, f.Copy.Value = statusOf[s.t[tItem]], Complete
				local, err := Begin(f)
				if err != nil {
					continue
				}
				me[wLocal] = uint8(local.Ordinal())
				next.t[tSecond] |= bit(kind == second)
			}
			me[wKind] = kind
			next.unseen(i)
			x.reach(next, n, step{i, []string{"", "starts as old", "starts as first", "starts as second"}[kind]})
		}
		return
	}
	if w[wFlight] == 0 && Phase(w[wMove]) != Moving { // a stop waits for both
		next := s
		if w[wLock] == legacyLock && next.t[tLockLegacy] == uint8(1+i) {
			next.t[tLockLegacy] = 0
		}
		if w[wLock] == leaseLock && next.t[tLockLease] == uint8(1+i) {
			next.t[tLockLease] = 0
		}
		next.end(i)
		x.reach(next, n, step{i, "stops"})
	}
	next := s
	if w[wFlight] != 0 && w[wLanded] == 0 && s.t[tLate] == 0 && !x.calm {
		next.late(i)
	}
	next.end(i)
	x.reach(next, n, step{i, "crashes"})
}

// unseen makes a worker's start unknown to whoever has looked before.
func (s *state) unseen(i int) {
	other := &s.w[1-i]
	other[wLookSaw], other[wFlightSaw] = 0, 0
	if s.t[tLate] == uint8(2-i) {
		s.t[tLateSaw] = 0
	}
}

// end leaves of a worker what is in the tables.
func (s *state) end(i int) {
	was := s.w[i]
	s.w[i] = [wSize]uint8{}
	if s.t[tLate] == uint8(1+i) {
		s.t[tLateDead] = 1
	}
	for _, p := range []int{wOwner, wRowLegacy, wRowLease} {
		s.w[i][p] = was[p]
	}
	s.unseen(i)
}

// late lets the write on its way land at any time.
func (s *state) late(i int) {
	w := &s.w[i]
	s.t[tLate], s.t[tLateAction], s.t[tLateTo], s.t[tLateFresh], s.t[tLateSaw] = uint8(1+i), w[wFlight], w[wFlightTo], w[wFlightFresh], w[wFlightSaw]
}

// forget drops what belongs to a term.
func (s *state) forget(i int) {
	w := &s.w[i]
	for _, p := range []int{wLeads, wReadTerm, wSupported, wDrained, wLook, wLookSaw, wMove} {
		w[p] = 0
	}
}

func (s *state) unread(i int) {
	for _, p := range []int{wRead, wReadStatus, wReadBaked, wReadFresh} {
		s.w[i][p] = 0
	}
}

// locks is the two locks won and lost.
func (x *explorer) locks(s state, n int32, i int) {
	w, other := s.w[i], s.w[1-i]
	if w[wKind] == down {
		return
	}
	if w[wLock] != free {
		if w[wFlight] == 0 && Phase(w[wMove]) != Moving {
			next := s
			next.w[i][wLock] = free
			next.forget(i)
			x.reach(next, n, step{i, "loses the lock"})
		}
		return
	}
	if w[wFlight] != 0 {
		return
	}
	complete := statusOf[w[wLocal]] == Complete
	if w[wKind] == old || !complete {
		if owner := int(s.t[tLockLegacy]) - 1; owner < 0 || owner == i || other[wLock] != legacyLock {
			next := s
			next.t[tLockLegacy] = uint8(1 + i)
			next.forget(i)
			next.w[i][wLock] = legacyLock
			if owner != i || s.t[tLateDead] == 1 {
				next.dropLateOf(owner)
			}
			x.reach(next, n, step{i, "takes the legacy lock"})
		}
		return
	}
	owner := int(s.t[tLockLease]) - 1
	waits := other[wLock] == legacyLock // and an answer of its is out, or lost
	if owner < 0 || owner == i || other[wLock] != leaseLock && !waits {
		next := s
		next.t[tLockLease] = uint8(1 + i)
		next.forget(i)
		next.w[i][wLock] = leaseLock
		x.reach(next, n, step{i, "takes the lease table's lock"})
	}
}

func (s *state) dropLateOf(who int) {
	if int(s.t[tLate])-1 == who {
		s.dropLate()
	}
}

// fleet is reports and leases.
func (x *explorer) fleet(s state, n int32, i int) {
	w := s.w[i]
	writesLease := w[wKind] == second || w[wKind] == first && statusOf[w[wLocal]] == Complete
	writesLegacy := w[wKind] == old || w[wKind] == first && !writesLease
	next := s
	me := &next.w[i]
	switch {
	case writesLease:
		me[wRowLease], me[wReported] = 1, 1
	case writesLegacy:
		me[wRowLegacy], me[wReported] = 1+bit(w[wKind] == first), 1
	}
	x.reach(next, n, step{i, "reports"})
	if w[wRowLegacy] != 0 && (!writesLegacy || w[wReported] == 0) {
		next := s
		next.w[i][wRowLegacy] = 0
		x.reach(next, n, step{i, "its legacy row ages"})
	}
	if w[wRowLease] != 0 && (!writesLease || w[wReported] == 0) {
		next := s
		next.w[i][wRowLease] = 0
		x.reach(next, n, step{i, "its row ages"})
	}
	if w[wOwner] == 1 {
		next := s
		next.w[i][wOwner] = 0
		x.reach(next, n, step{i, "has no lease any more"})
	} else if w[wReported] == 1 {
		next := s
		next.w[i][wOwner] = 1
		x.reach(next, n, step{i, "gets a lease"})
	}
	if w[wKind] == old && s.t[tEntry]&inLegacy == 0 {
		next := s
		next.t[tEntry] |= inLegacy
		x.reach(next, n, step{i, "makes the item anew"})
	}
}

// check is a decision and the step that follows from it.
func (x *explorer) check(s state, n int32, i int) {
	w := s.w[i]
	leads := w[wLock] == legacyLock
	if leads { // an assignment run
		next, sum := s, x.summarize(&s)
		if w[wKind] == first { // what it can need of it
			next.w[i][wSupported] = uint8(1 + sum.Supported())
		} else {
			next.w[i][wDrained] = uint8(1 + sum.Drained())
		}
		x.reach(next, n, step{i, "knows the fleet"})
	}
	if w[wFlight] != 0 || statusOf[w[wLocal]] == Complete {
		return
	}
	read := func(did string) {
		next := s
		me := &next.w[i]
		me[wRead], me[wReadStatus], me[wReadBaked] = uint8(None), 0, 0
		if s.t[tItem] != 0 {
			me[wRead], me[wReadStatus], me[wReadBaked] = uint8(Found), s.t[tItem], s.t[tBaked]
		}
		me[wReadFresh], me[wReadTerm] = 1, bit(leads)
		if !leads && !x.keep {
			me[wLocal] = uint8(x.decision(&next, i).Local.Ordinal())
			x.reach(next, n, step{i, did})
			return
		}
		x.reach(next, n, step{i, did})
		if Outcome(w[wRead]) == NotRead || leads && w[wReadTerm] == 0 {
			next := s
			me := &next.w[i]
			me[wRead], me[wReadStatus], me[wReadBaked], me[wReadFresh], me[wReadTerm] = uint8(Failed), 0, 0, 0, bit(leads)
			x.reach(next, n, step{i, "cannot read"})
		}
	}
	d := x.decision(&s, i)
	did := step{i, d.Row}
	next := s
	me := &next.w[i]
	me[wLocal], me[wLeads] = uint8(d.Local.Ordinal()), bit(d.Leads && leads)
	if d.CancelMove {
		me[wMove] = 0
	}
	if d.Local == Complete || d.Release {
		if me[wLock] == legacyLock {
			if next.t[tLockLegacy] == uint8(1+i) {
				next.t[tLockLegacy] = 0
			}
			me[wLock] = free
			next.forget(i)
		}
	}
	saw := w[wLookSaw]
	switch d.Do {
	case StartMove:
		me[wMove] = uint8(Moving)
		me[wLook], me[wLookSaw] = 0, 0
	case LookLeft:
		clean, drained := Yes, Yes
		if s.t[tEntry]&inLegacy != 0 {
			clean = No
		}
		if s.w[0][wRowLegacy] != 0 || s.w[1][wRowLegacy] != 0 {
			drained = No
		}
		fails := next
		fails.w[i][wLook], fails.w[i][wLookSaw] = 1, 0
		x.reach(fails, n, step{i, "looks and fails"})
		me[wLook] = uint8(1 + 3*clean + drained)
		other := s.w[1-i]
		me[wLookSaw] = bit(other[wKind] != down && other[wReported] == 1)
	case Create, Update, Delete, Finalize:
		if !leads {
			x.fail("a follower writes", did)
		}
		x.guard(&s, i, d, did)
		me[wFlight], me[wFlightSaw], me[wAfter] = uint8(d.Do), saw, uint8(d.After.Ordinal())
		me[wFlightTo] = 0
		if d.Do != Delete {
			me[wFlightTo] = uint8(d.State.Value.Ordinal())
		}
		if me[wFlightFresh] = w[wReadFresh]; d.Do == Create {
			me[wFlightFresh] = 0
		}
	}
	x.reach(next, n, did)
	read("reads")
}

// guard holds what must be known before the item is changed.
func (x *explorer) guard(s *state, i int, d Decision, step step) {
	w := &s.w[i]
	supported, drained := Knowledge(max(1, w[wSupported])-1), Knowledge(max(1, w[wDrained])-1)
	baked := w[wReadBaked] == 1
	clean, unused := NotKnown, NotKnown
	if w[wLook] != 0 {
		clean, unused = Knowledge((w[wLook]-1)/3), Knowledge((w[wLook]-1)%3)
	}
	switch {
	case d.Do == Create && d.State.Value == Init && supported != Yes:
		x.fail("INIT although not every lease owner is known to know the migration", step)
	case d.Do == Update && d.State.Value == Deployed && statusOf[w[wReadStatus]] == Init && (supported != Yes || !baked):
		x.fail("DEPLOYED too early", step)
	case d.Do == Update && d.State.Value == Pending && (drained != Yes || clean != Yes):
		x.fail("PENDING too early", step)
	case d.Do == Finalize && (drained != Yes || clean != Yes || unused != Yes || !baked):
		x.fail("COMPLETE too early", step)
	}
}

// answers is what becomes of writes and moves on their way.
func (x *explorer) answers(s state, n int32, i int) {
	w := s.w[i]
	if w[wFlight] != 0 {
		if w[wLanded] == 0 {
			next := s
			did := step{i, "has its write land"}
			if x.land(&next, i, Action(w[wFlight]), w[wFlightTo], w[wFlightFresh], w[wFlightSaw], did) {
				next.w[i][wLanded], next.w[i][wFlightFresh] = landedDone, 1
			} else {
				next.w[i][wLanded] = landedRefused
			}
			x.reach(next, n, did)
		} else {
			next := s
			me := &next.w[i]
			unread := w[wLanded] == landedRefused
			me[wRead], me[wReadStatus], me[wReadBaked], me[wReadFresh] = uint8(NotRead), 0, 0, 0
			if !unread {
				me[wLocal] = w[wAfter]
				me[wRead], me[wReadTerm], me[wReadFresh] = uint8(None), 1, w[wFlightFresh]
				if w[wFlightTo] != 0 {
					me[wRead], me[wReadStatus] = uint8(Found), w[wFlightTo]
					me[wReadBaked] = bit(w[wFlightFresh] == 1 && s.t[tBaked] == 1)
				}
			}
			next.landed(i)
			if statusOf[me[wLocal]] == Complete { // it has the other lock already, or contends for it
				if next.t[tLockLegacy] == uint8(1+i) {
					next.t[tLockLegacy] = 0
				}
				me[wLock] = free
				next.forget(i)
				if next.t[tLockLease] == uint8(1+i) {
					me[wLock] = leaseLock
				}
			}
			x.reach(next, n, step{i, "hears of its write"})
		}
		if x.calm {
			return
		}
		next := s
		me := &next.w[i]
		if w[wLanded] == 0 && s.t[tLate] == 0 {
			next.late(i)
		}
		me[wRead], me[wReadStatus], me[wReadBaked], me[wReadFresh], me[wLeads] = uint8(NotRead), 0, 0, 0, 0
		next.landed(i)
		x.reach(next, n, step{i, "hears nothing of its write"})
	}
	if Phase(w[wMove]) == Moving {
		next := s
		next.w[i][wMove] = uint8(MoveFailed)
		x.reach(next, n, step{i, "its move fails"})
		fenced := s.t[tLockLegacy] == uint8(1+i)
		if fenced {
			next.t[tEntry] = inLease // also if it is there already: the same, or the newer one
			x.reach(next, n, step{i, "its move hears nothing"})
			next.w[i][wMove] = uint8(Moved)
			x.reach(next, n, step{i, "moves"})
		}
	}
}

// landed ends a write.
func (s *state) landed(i int) {
	for _, p := range []int{wFlight, wFlightTo, wAfter, wFlightFresh, wFlightSaw, wLanded} {
		s.w[i][p] = 0
	}
}
