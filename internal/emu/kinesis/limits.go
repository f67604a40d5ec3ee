package kinesis

import "time"

// instant is a moment in nanoseconds since the epoch.
type instant int64

func (t instant) ms() int64  { return int64(t) / int64(time.Millisecond) }
func (t instant) sec() int64 { return int64(t) / int64(time.Second) }

const second = instant(time.Second)

// window is an allowance of a sliding span: what was taken at t counts until
// t + span, not at that instant any more. What was refused does not count. The
// zero value is ready for use.
type window struct {
	taken []taking // from head on, oldest first
	head  int
	calls int // sums over taken[head:]
	kib   int
}

type taking struct {
	at         instant
	calls, kib int32
}

// expire forgets what no longer counts.
func (w *window) expire(now, span instant) {
	for w.head < len(w.taken) && w.taken[w.head].at <= now-span {
		w.calls -= int(w.taken[w.head].calls)
		w.kib -= int(w.taken[w.head].kib)
		w.head++
	}
	if w.head > len(w.taken)/2 {
		w.taken = w.taken[:copy(w.taken, w.taken[w.head:])]
		w.head = 0
	}
}

func (w *window) add(now instant, calls, kib int) {
	w.calls += calls
	w.kib += kib
	if n := len(w.taken); n > w.head && w.taken[n-1].at == now {
		w.taken[n-1].calls += int32(calls)
		w.taken[n-1].kib += int32(kib)
		return
	}
	w.taken = append(w.taken, taking{now, int32(calls), int32(kib)})
}

// allow takes one call if fewer than limit were taken within span.
func (w *window) allow(now, span instant, limit int) bool {
	w.expire(now, span)
	if w.calls >= limit {
		return false
	}
	w.add(now, 1, 0)
	return true
}

// A shard's limits.
const (
	kib = 1 << 10
	mib = 1 << 20

	putRecordsASecond = 1000
	putKiBASecond     = 1024
	putBurst          = 10 * mib // for records over 1 MiB

	readsASecond     = 5 // of all consumers together
	readBytesASecond = 2 * mib
	iteratorsASecond = 5 // of an account
)

// A stream's limits.
const (
	listShardsASecond = 1000
	dryRunsASecond    = 1
	shardCountsADay   = 10
	modeSwitchesADay  = 2
)

// An account's limits in a region.
const (
	creatingStreams = 5
	onDemandStreams = 50
)

// callsASecond are the quotas of the control plane, for an account in a region.
var callsASecond = map[string]int{
	"DescribeLimits":                1,
	"ListStreams":                   5,
	"CreateStream":                  5,
	"DeleteStream":                  5,
	"SplitShard":                    5,
	"MergeShards":                   5,
	"IncreaseStreamRetentionPeriod": 5,
	"DecreaseStreamRetentionPeriod": 5,
	"AddTagsToStream":               5,
	"ListTagsForStream":             5,
	"RemoveTagsFromStream":          5,
	"DescribeStream":                10,
	"UpdateShardCount":              10,
	"DescribeStreamSummary":         20,
}

// traffic is what a shard's limits remember.
type traffic struct {
	puts      window
	burst     tank
	reads     window
	readAgain instant            // when the debt of the last read is paid
	iterators map[string]*window // by account
}

// read takes one GetRecords call if the shard's limits allow it.
func (t *traffic) read(now instant) bool {
	return now >= t.readAgain && t.reads.allow(now, second, readsASecond)
}

// owe records what a read returned: the next one waits for as long as these
// bytes take at the shard's rate.
func (t *traffic) owe(now instant, bytes int) {
	t.readAgain = now + instant(bytes)*second/readBytesASecond
}

// iterator takes one GetShardIterator call of the account.
func (t *traffic) iterator(now instant, account string) bool {
	w := t.iterators[account]
	if w == nil {
		if t.iterators == nil {
			t.iterators = make(map[string]*window)
		}
		w = new(window)
		t.iterators[account] = w
	}
	return w.allow(now, second, iteratorsASecond)
}

// put takes a record of so many bytes, if the limits allow it. A call's records
// of up to 1 MiB count by the KiB, rounded up over their sum, which so far is
// *sum; larger ones come out of a tank.
func (t *traffic) put(now instant, sum *int, size int) bool {
	t.puts.expire(now, second)
	if t.puts.calls >= putRecordsASecond {
		return false
	}
	if size > mib {
		if !t.burst.take(now, size) {
			return false
		}
		t.puts.add(now, 1, 0)
		return true
	}
	more := roundKiB(*sum+size) - roundKiB(*sum)
	if t.puts.kib+more > putKiBASecond {
		return false
	}
	t.puts.add(now, 1, more)
	*sum += size
	return true
}

func roundKiB(n int) int { return (n + kib - 1) / kib }

// tank holds putBurst bytes and refills at 1 MiB a second. The zero value is
// full.
type tank struct {
	missing int
	at      instant
}

func (k *tank) take(now instant, size int) bool {
	refilled := min(int64(k.missing), int64(min(now-k.at, putBurst/mib*second))*mib/int64(second))
	missing := k.missing - int(refilled)
	if missing+size > putBurst {
		return false
	}
	k.missing, k.at = missing+size, now
	return true
}
