package kinesis

import (
	"slices"
	"time"
)

// A stream's states.
const (
	creating = "CREATING"
	active   = "ACTIVE"
	updating = "UPDATING"
	deleting = "DELETING"
)

// stream is one stream. It is settled, which is to say brought up to the
// present, whenever a call finds it.
type stream struct {
	key       streamKey
	created   int64   // StreamCreationTimestamp, a whole second
	active    instant // when CREATING ends
	updated   instant // when UPDATING ends
	gone      instant // when DELETING ends, 0 if nobody deleted it
	onDemand  bool
	retention int64 // hours
	floor     int64 // ms; the horizon never lies before it
	maxRecord int   // bytes of data and key
	tags      map[string]string

	shards    []*shard // not expired, by number
	open      []*shard // without an ending number, by key; no gaps
	closed    []*shard // not expired, in the order of their ends
	nextShard uint32
	lastIndex uint64 // of any of its records; so numbers of one shard have gaps
	pending   []step // what is left of the reshard under way
	swept     int64  // ms; when all logs were last trimmed

	listed   window // ListShards
	dryRuns  window
	scaled   window // UpdateShardCount, a day
	switched window // UpdateStreamMode, a day
}

// How a stream begins.
const (
	defaultRecordBytes  = 1 * mib
	defaultRetention    = 24 // hours
	onDemandShards      = 4
	initialShardsBefore = 3 // seconds by which its first shards start before it
)

const day = 24 * instant(time.Hour)

// sweepEvery is how often records are trimmed that nobody reads or writes past.
const sweepEvery = int64(time.Hour / time.Millisecond)

func newStream(key streamKey, created int64, shards []*shard) *stream {
	return &stream{
		key:       key,
		created:   created,
		retention: defaultRetention,
		floor:     created * 1000,
		maxRecord: defaultRecordBytes,
		tags:      make(map[string]string),
		shards:    shards,
		open:      slices.Clone(shards),
		nextShard: uint32(len(shards)),
		swept:     created * 1000,
	}
}

func (st *stream) status(now instant) string {
	switch {
	case st.gone != 0:
		return deleting
	case now < st.active:
		return creating
	case now < st.updated:
		return updating
	default:
		return active
	}
}

// horizon is the one instant, in ms, that says what is still there: a record
// that arrived before it is gone.
func (st *stream) horizon(now instant) int64 {
	return max(now.ms()-st.retention*time.Hour.Milliseconds(), st.floor)
}

// retain changes the retention. The horizon stands where it is, or moves on.
func (st *stream) retain(now instant, hours int64) {
	st.floor = st.horizon(now)
	st.retention = hours
}

// settle applies what was due by now.
func (st *stream) settle(now instant) {
	for len(st.pending) > 0 && st.pending[0].due <= now {
		st.apply(st.pending[0])
		st.pending = st.pending[1:]
	}
	h := st.horizon(now)
	expired := func(s *shard) bool { return !s.open() && s.handover() <= h }
	if len(st.closed) > 0 && expired(st.closed[0]) {
		st.shards = slices.DeleteFunc(st.shards, expired)
		st.closed = slices.DeleteFunc(st.closed, expired)
	}
	if now.ms()-st.swept >= sweepEvery {
		for _, s := range st.shards {
			s.log.trim(h)
		}
		st.swept = now.ms()
	}
}

// shard finds an unexpired shard.
func (st *stream) shard(number uint32) (*shard, bool) {
	i, found := indexOf(st.shards, number)
	if !found {
		return nil, false
	}
	return st.shards[i], true
}

// writer is the shard that takes a put for k: the open one, or its parent as
// long as the open one has not begun.
func (st *stream) writer(k hashKey, now instant) *shard {
	s := st.open[covering(st.open, k)]
	for s.start > now.sec() {
		p, _ := st.shard(uint32(s.parent))
		if !p.holds(k) {
			p, _ = st.shard(uint32(s.adjacent))
		}
		s = p
	}
	return s
}

// lastStart is the latest second at which one of its shards starts.
func (st *stream) lastStart() int64 {
	last := int64(0)
	for _, s := range st.shards {
		last = max(last, s.start)
	}
	return last
}
