package kinesis

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

const (
	testAccount = "012345678901"
	testRegion  = "eu-west-1"
	testARN     = "arn:aws:kinesis:eu-west-1:012345678901:stream/"
)

// m is the body of a request.
type m = map[string]any

// world is a service and somebody who calls it.
type world struct {
	testing.TB
	*Service
	wire.Caller
	codec wire.Codec
	log   []byte // all answers, if wanted
	keep  bool
}

// bubble runs a test at 2000-01-01T00:00:00Z, with time its own.
func bubble(t *testing.T, cfg Config, run func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { run(t, newWorld(t, cfg)) })
}

func newWorld(t testing.TB, cfg Config) *world {
	t.Helper()
	s, err := New(cfg)
	require.NoError(t, err)
	return &world{TB: t, Service: s, Caller: wire.Caller{Client: "key", Account: testAccount, Region: testRegion}, codec: wire.JSON11}
}

// inCBOR spares a test with much data the cost of base64.
func (w *world) inCBOR() { w.codec = wire.CBOR }

// as is the same service, called by another account.
func (w *world) as(account string) *world {
	other := *w
	other.Account = account
	return &other
}

func (w *world) answer(operation string, in any) wire.Answer {
	w.Helper()
	body, err := w.codec.Marshal(in)
	require.NoError(w, err)
	return w.raw(operation, body)
}

func (w *world) raw(operation string, body []byte) wire.Answer {
	w.Helper()
	a := w.Prepare(&wire.Call{Caller: w.Caller, Service: "kinesis", Operation: operation, Codec: w.codec, Body: body}).Run()
	require.Equal(w, w.codec.ContentType(), a.ContentType)
	if w.keep {
		w.log = append(append(w.log, a.Body...), '\n')
	}
	return a
}

// do makes a call that must succeed.
func (w *world) do(operation string, in m) []byte {
	w.Helper()
	a := w.answer(operation, in)
	require.Nil(w, a.Err, "%s: %s", operation, a.Body)
	require.Equal(w, http.StatusOK, a.Status)
	return a.Body
}

// get makes a call that must succeed and decodes its answer.
func get[T any](w *world, operation string, in m) T {
	w.Helper()
	var out T
	require.NoError(w, w.codec.Unmarshal(w.do(operation, in), &out))
	return out
}

// refusal is an error as a client sees it.
type refusal struct {
	Status        int
	Code, Message string
}

// refused makes a call that must fail.
func (w *world) refused(operation string, in any) refusal {
	w.Helper()
	return w.refusal(w.answer(operation, in))
}

func (w *world) refusal(a wire.Answer) refusal {
	w.Helper()
	require.NotNil(w, a.Err, "the call succeeded: %s", a.Body)
	var body map[string]string
	require.NoError(w, w.codec.Unmarshal(a.Body, &body))
	r := refusal{Status: a.Status, Code: body["__type"], Message: body["message"]}
	if text, ok := body["Message"]; ok {
		require.Equal(w, "SerializationException", r.Code)
		r.Message = text
	}
	return r
}

// bad is a refusal with status 400.
func bad(code, message string) refusal { return refusal{http.StatusBadRequest, code, message} }

func (w *world) create(name string, shards int) {
	w.Helper()
	require.NoError(w, w.Create(StreamSpec{Account: w.Account, Region: w.Region, Name: name, Shards: shards}))
}

func (w *world) status(name string) string {
	w.Helper()
	return get[describeStreamSummaryOutput](w, "DescribeStreamSummary", m{"StreamName": name}).StreamDescriptionSummary.StreamStatus
}

// awaitActive sleeps until nothing of the stream is under way.
func (w *world) awaitActive(name string) {
	w.Helper()
	st := w.peek(name)
	if wait := time.Duration(max(st.active, st.updated)) - time.Duration(time.Now().UnixNano()); wait > 0 {
		time.Sleep(wait)
	}
	require.Equal(w, active, w.status(name))
}

// peek is a stream's state, settled.
func (w *world) peek(name string) *stream {
	w.Helper()
	_, ok := w.Shards(w.Account, w.Region, name)
	require.True(w, ok)
	return w.streams[streamKey{w.Account, w.Region, name}]
}

// shards lists all pages of a filter.
func (w *world) shards(name string, filter m) []shardOutput {
	w.Helper()
	in := m{"StreamName": name}
	if filter != nil {
		in["ShardFilter"] = filter
	}
	var all []shardOutput
	for {
		out := get[listShardsOutput](w, "ListShards", in)
		all = append(all, out.Shards...)
		if out.NextToken == "" {
			return all
		}
		in = m{"NextToken": out.NextToken}
	}
}

// numbers lists shards by their numbers.
func (w *world) numbers(name string, filter m) []int {
	w.Helper()
	return numbersOf(w, w.shards(name, filter))
}

func numbersOf(t testing.TB, shards []shardOutput) []int {
	t.Helper()
	out := []int{}
	for _, s := range shards {
		n, ok := parseShardID(s.ShardId)
		require.True(t, ok)
		require.Equal(t, shardID(n), s.ShardId)
		out = append(out, int(n))
	}
	return out
}

func (w *world) shardOf(name string, number int) shardOutput {
	w.Helper()
	all := w.shards(name, nil)
	i := slices.IndexFunc(all, func(s shardOutput) bool { return s.ShardId == shardID(uint32(number)) })
	require.GreaterOrEqual(w, i, 0)
	return all[i]
}

// split cuts a shard in the middle, or at a key.
func (w *world) split(name string, number int, at ...string) {
	w.Helper()
	key := ""
	if len(at) > 0 {
		key = at[0]
	} else {
		s, ok := w.peek(name).shard(uint32(number))
		require.True(w, ok)
		key = middle(s).String()
	}
	require.Empty(w, w.do("SplitShard", m{"StreamName": name, "ShardToSplit": shardID(uint32(number)), "NewStartingHashKey": key}))
}

func middle(s *shard) hashKey {
	half := func(k hashKey) hashKey { return hashKey{k.hi >> 1, k.lo>>1 | k.hi<<63} }
	k := half(s.lo)
	l := half(s.hi)
	lo := k.lo + l.lo
	carry := uint64(0)
	if lo < k.lo {
		carry = 1
	}
	return hashKey{k.hi + l.hi + carry, lo}.plus(1)
}

func (w *world) merge(name string, lower, upper int) {
	w.Helper()
	require.Empty(w, w.do("MergeShards", m{
		"StreamName": name, "ShardToMerge": shardID(uint32(lower)), "AdjacentShardToMerge": shardID(uint32(upper)),
	}))
}

// put stores a record under a key, at an explicit hash if one is given.
func (w *world) put(name, key string, hash ...string) putRecordOutput {
	w.Helper()
	in := m{"StreamName": name, "PartitionKey": key, "Data": []byte("data of " + key)}
	if len(hash) > 0 {
		in["ExplicitHashKey"] = hash[0]
	}
	return get[putRecordOutput](w, "PutRecord", in)
}

// iterator gets one; more is what its type needs.
func (w *world) iterator(name string, number int, kind string, more m) string {
	w.Helper()
	return get[getShardIteratorOutput](w, "GetShardIterator", iteratorInput(name, number, kind, more)).ShardIterator
}

func iteratorInput(name string, number int, kind string, more m) m {
	in := m{"StreamName": name, "ShardId": shardID(uint32(number)), "ShardIteratorType": kind}
	for k, v := range more {
		in[k] = v
	}
	return in
}

func (w *world) read(iterator string) getRecordsOutput {
	w.Helper()
	return get[getRecordsOutput](w, "GetRecords", m{"ShardIterator": iterator})
}

func keysOf(out getRecordsOutput) []string {
	keys := []string{}
	for _, r := range out.Records {
		keys = append(keys, r.PartitionKey)
	}
	return keys
}

// after0 is a time since the bubble's start, as JSON writes it.
func after0(d time.Duration) json.Number {
	b, err := wireTime(bubbleStart.Add(d).UnixMilli()).MarshalJSON()
	if err != nil {
		panic(err)
	}
	return json.Number(b)
}

var bubbleStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// sleepUntil sleeps until so long after the bubble's start.
func sleepUntil(d time.Duration) { time.Sleep(time.Until(bubbleStart.Add(d))) }
