package kinesis

// maxReadBytes bounds one GetRecords, in bytes of data and keys. No single record
// is larger.
const maxReadBytes = 10 * mib

// moment is when a shard is read, in ms, and the horizon then.
type moment struct{ now, horizon int64 }

// readPage is what one GetRecords returns.
type readPage struct {
	records []record
	bytes   int // of data and keys
	behind  int64
	next    iterator // unless end
	end     bool
}

// from is the index of the i-th live record, or the one past the last.
func (l *recordLog) from(i int) uint64 {
	if live := l.live(); i < len(live) {
		return live[i].index
	}
	return l.last + 1
}

// read decides what an iterator gets from a trimmed log.
//
//	position trimmed, pages due  nothing, nearly the whole retention behind
//	data ahead, pages due        nothing, less behind each time
//	data ahead                   up to limit records and maxReadBytes
//	no data yet                  nothing, 0 behind
//	past the last record of a    the end, unless it is to come late
//	shard that is complete
func (s *shard) read(it iterator, limit int, m moment, cfg *Config) readPage {
	p := readPage{next: it}
	p.next.issued = m.now
	log := &s.log
	if it.next <= log.trimmed && it.passed < uint64(cfg.TrimmedPages) {
		p.next.passed++
		p.behind = m.now - m.horizon
		return p
	}
	if it.next <= log.trimmed { // or a shard of which the rest was trimmed would never end
		it.next = log.trimmed + 1
		p.next.next = it.next
	}
	first := log.at(it.next)
	ahead := log.live()[first:max(first, log.since(m.now-cfg.ReadDelay.Milliseconds()+1))]
	switch {
	case len(ahead) > 0 && it.blank < uint64(cfg.EmptyPages):
		p.next.blank++
		// The scan moves from the horizon to the first record.
		arrived, left := ahead[0].arrived, int64(cfg.EmptyPages)-int64(it.blank)
		p.behind = m.now - arrived + (arrived-m.horizon)*left/int64(cfg.EmptyPages)
		return p
	case len(ahead) > 0:
		for len(p.records) < min(limit, len(ahead)) {
			size := ahead[len(p.records)].size()
			if p.bytes+size > maxReadBytes {
				break
			}
			p.bytes += size
			p.records = ahead[:len(p.records)+1]
		}
		newest := &p.records[len(p.records)-1]
		p.next.next = newest.index + 1
		if len(p.records) < len(ahead) {
			p.behind = m.now - newest.arrived
		}
	}
	if s.complete(m.now) && p.next.next > log.last {
		p.end = it.late >= uint64(cfg.LateEnd)
		p.next.late++
	}
	return p
}
