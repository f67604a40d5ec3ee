package kinesis

import (
	"maps"
	"sync"
	"time"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

// Service is the streams of all accounts and regions. It implements
// [wire.Service]; all its methods may be called at the same time.
type Service struct {
	cfg Config

	mu      sync.Mutex // guards all below
	last    instant    // of the latest call; time does not go back
	streams map[streamKey]*stream
	former  map[streamKey]int64 // the last second at which a shard of a stream deleted lately started
	calls   map[quota]*window
}

// quota is what a limit of the control plane holds for.
type quota struct{ account, region, operation string }

// New returns a service without streams. The error names every field of cfg
// that is out of bounds.
func New(cfg Config) (*Service, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Service{
		cfg:     cfg,
		streams: make(map[streamKey]*stream),
		former:  make(map[streamKey]int64),
		calls:   make(map[quota]*window),
	}, nil
}

// operations are all there are. (Those of enhanced fan-out are to come.)
var operations = map[string]operation{
	"CreateStream":                  bind(createStream),
	"DeleteStream":                  bind(deleteStream),
	"DescribeStream":                bind(describeStream),
	"DescribeStreamSummary":         bind(describeStreamSummary),
	"ListStreams":                   bind(listStreams),
	"DescribeLimits":                bind(describeLimits),
	"IncreaseStreamRetentionPeriod": bind(increaseRetention),
	"DecreaseStreamRetentionPeriod": bind(decreaseRetention),
	"UpdateStreamMode":              bind(updateStreamMode),
	"UpdateMaxRecordSize":           bind(updateMaxRecordSize),
	"AddTagsToStream":               bind(addTags),
	"RemoveTagsFromStream":          bind(removeTags),
	"ListTagsForStream":             bind(listTags),
	"ListShards":                    bind(listShards),
	"SplitShard":                    bind(splitShard),
	"MergeShards":                   bind(mergeShards),
	"UpdateShardCount":              bind(updateShardCount),
	"PutRecord":                     bind(putRecord),
	"PutRecords":                    bind(putRecords),
	"GetShardIterator":              bind(getShardIterator),
	"GetRecords":                    bind(getRecords),
}

type operation func(*Service, *wire.Call) wire.Prepared

// request is a decoded body.
type request interface {
	// check gathers what the shape constraints refuse.
	check(*violations)
	// stream is the name of the stream it is about, "" if it does not say.
	stream() string
}

// Prepare implements [wire.Service].
func (s *Service) Prepare(c *wire.Call) wire.Prepared {
	op := operations[c.Operation]
	if op != nil {
		return op(s, c)
	}
	var body map[string]any
	if err := c.Codec.Unmarshal(c.Body, &body); err != nil { // comes before the operation's name
		return refused(c, serialization(err))
	}
	return refused(c, unknownOperation())
}

func refused(c *wire.Call, err *wire.Error) wire.Prepared {
	return wire.Prepared{Run: func() wire.Answer { return err.Answer(c.Codec) }}
}

// bind makes an operation of a function that answers a checked request. The
// function runs under the lock; what it returns is encoded after, so it must not
// point to anything that changes.
func bind[T any, P interface {
	*T
	request
}](answer func(*turn, P) (any, *wire.Error)) operation {
	return func(s *Service, c *wire.Call) wire.Prepared {
		in := P(new(T))
		if err := c.Codec.Unmarshal(c.Body, in); err != nil {
			return refused(c, serialization(err))
		}
		var v violations
		in.check(&v)
		p := wire.Prepared{Run: func() wire.Answer {
			out, err := any(nil), v.err()
			if err == nil {
				out, err = s.take(c.Caller, c.Operation, func(t *turn) (any, *wire.Error) { return answer(t, in) })
			}
			if err != nil {
				return err.Answer(c.Codec)
			}
			return wire.OK(c.Codec, out)
		}}
		if name := in.stream(); name != "" {
			p.Resources = []string{name}
		}
		return p
	}
}

// turn is one call at its instant. It exists under the service's lock.
type turn struct {
	*Service
	wire.Caller
	operation string
	now       instant
}

// take runs a call under the lock.
func (s *Service) take(c wire.Caller, operation string, answer func(*turn) (any, *wire.Error)) (any, *wire.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return answer(&turn{s, c, operation, s.tick()})
}

// tick is the present. The lock is held.
func (s *Service) tick() instant {
	s.last = max(s.last, instant(time.Now().UnixNano()))
	return s.last
}

// throttle counts a call of the control plane against the account's quota.
func (t *turn) throttle(stream string) *wire.Error {
	limit, ok := callsASecond[t.operation]
	if !ok || t.cfg.NoLimits {
		return nil
	}
	q := quota{t.Account, t.Region, t.operation}
	w := t.calls[q]
	if w == nil {
		w = new(window)
		t.calls[q] = w
	}
	switch {
	case w.allow(t.now, second, limit):
		return nil
	case stream == "":
		return limitExceeded("Rate exceeded for account %s.", t.Account) // text assumed
	default:
		return streamRateExceeded(stream, t.Account)
	}
}

// settled finds a stream as it is now.
func (t *turn) settled(key streamKey) (*stream, bool) {
	st := t.streams[key]
	if st == nil || key.region != t.Region {
		return nil, false
	}
	if st.gone != 0 && st.gone <= t.now {
		delete(t.streams, key)
		maps.DeleteFunc(t.former, func(_ streamKey, start int64) bool { return start+initialShardsBefore < t.now.sec() })
		t.former[key] = st.lastStart()
		return nil, false
	}
	st.settle(t.now)
	return st, true
}

// find is settled for a request that names its stream.
func (t *turn) find(r *streamRef) (*stream, *wire.Error) {
	key, err := r.resolve(t.Caller)
	if err != nil {
		return nil, err
	}
	st, ok := t.settled(key)
	if !ok {
		return nil, streamNotFound(key)
	}
	return st, nil
}

// seen is a stream's state as all calls but Describe and List of streams see it.
func (t *turn) seen(st *stream) string {
	return st.status(t.now - instant(t.cfg.StaleControlPlane))
}

// ours are the account's streams in the region, in no order.
func (t *turn) ours() []*stream {
	var streams []*stream
	for key := range t.streams {
		if key.account != t.Account {
			continue
		}
		if st, ok := t.settled(key); ok {
			streams = append(streams, st)
		}
	}
	return streams
}

// provisionedShards are the open shards that count towards the account's quota.
func (t *turn) provisionedShards() int {
	n := 0
	for _, st := range t.ours() {
		if !st.onDemand {
			n += len(st.open)
		}
	}
	return n
}

// maxShards bounds a stream's first shards and, without limits, an account's
// open ones: a mistyped figure must not take all memory.
const maxShards = 1 << 20

// shardQuota refuses more open shards than the account may have.
func (t *turn) shardQuota(more int) *wire.Error {
	quota := t.cfg.ShardQuota
	if t.cfg.NoLimits {
		quota = maxShards
	}
	n := t.provisionedShards()
	if n+more <= quota {
		return nil
	}
	return limitExceeded("This request would exceed the shard limit for the account %s in %s. "+
		"Current shard count for the account: %d. Limit: %d. "+
		"Number of additional shards that would have resulted from this request: %d. "+
		"Refer to the AWS Service Limits page (http://docs.aws.amazon.com/general/latest/gr/aws_service_limits.html) "+
		"for current limits and how to request higher limits.", t.Account, t.Region, n, quota, more)
}

// dryRun answers a call that would have worked and asked not to be done.
func (t *turn) dryRun(st *stream) *wire.Error {
	if !t.cfg.NoLimits && !st.dryRuns.allow(t.now, second, dryRunsASecond) {
		return refuse("ThrottlingException", "Rate exceeded")
	}
	return refuse("DryRunOperationException", "Request would have succeeded, but DryRun flag is set.") // text assumed
}
