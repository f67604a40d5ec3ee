package javalike

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

type item = map[string]types.AttributeValue

// What lies in the tables.
const (
	leaseEntity   = "LEASE"
	leaderEntity  = "LEADER"
	versionEntity = "CLIENT_VERSION_MIGRATION"
	tableEntity   = "TABLE_MIGRATION"
	streamEntity  = "STREAM"
	reportEntity  = "WORKER_METRIC_STATS"

	leaderKey  = "Leader"
	versionKey = "Migration3.0"

	shardEnd    = "SHARD_END"
	trimHorizon = "TRIM_HORIZON"
)

// lease is a lease as it stands in the table.
type lease struct {
	key, owner, checkpointOwner string
	checkpoint                  string
	sub                         int64
	counter, switches           int64
	pending                     string
	pendingSub                  int64
	pendingState                []byte
	parents, children           []string
	start, end                  string
	throughput                  float64
	hasThroughput               bool
}

// actualOwner is who may renew and checkpoint.
func (l *lease) actualOwner() string {
	if l.checkpointOwner != "" {
		return l.checkpointOwner
	}
	return l.owner
}

func (l *lease) handOff() bool { return l.checkpointOwner != "" }
func (l *lease) ended() bool   { return l.checkpoint == shardEnd }

// reading reads attributes and keeps what is wrong with them.
type reading struct {
	it   item
	errs []error
}

func (r *reading) wrong(name, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s "+format, append([]any{name}, args...)...))
}

func read[T types.AttributeValue](r *reading, name string, required bool) (v T, ok bool) {
	got, present := r.it[name]
	switch v, ok = got.(T); {
	case !present && required:
		r.wrong(name, "is missing")
	case present && !ok:
		r.wrong(name, "is a %T", got)
	}
	return v, ok
}

func (r *reading) text(name string, required bool) string {
	v, ok := read[*types.AttributeValueMemberS](r, name, required)
	if !ok {
		return ""
	}
	if v.Value == "" {
		r.wrong(name, "is empty")
	}
	return v.Value
}

func (r *reading) whole(name string, required bool) int64 {
	v, ok := read[*types.AttributeValueMemberN](r, name, required)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(v.Value, 10, 64)
	if err != nil {
		r.wrong(name, "is %s, no whole number", v.Value)
	}
	return n
}

func (r *reading) set(name string) []string {
	v, ok := read[*types.AttributeValueMemberSS](r, name, false)
	if !ok {
		return nil
	}
	return slices.Sorted(slices.Values(v.Value))
}

func (r *reading) position(name string, required bool) string {
	p := r.text(name, required)
	switch p {
	case "", trimHorizon, "LATEST", "AT_TIMESTAMP", shardEnd:
	default:
		if _, ok := new(big.Int).SetString(p, 10); !ok {
			r.wrong(name, "is %q, no position", p)
		}
	}
	return p
}

func decodeLease(it item) (lease, error) {
	r := &reading{it: it}
	l := lease{
		key: r.text("leaseKey", true), owner: r.text("leaseOwner", false), checkpointOwner: r.text("checkpointOwner", false),
		counter: r.whole("leaseCounter", true), switches: r.whole("ownerSwitchesSinceCheckpoint", true),
		checkpoint: r.position("checkpoint", true), sub: r.whole("checkpointSubSequenceNumber", false),
		pending: r.position("pendingCheckpoint", false), pendingSub: r.whole("pendingCheckpointSubSequenceNumber", false),
		parents: r.set("parentShardId"), children: r.set("childShardIds"),
		start: r.text("startingHashKey", false), end: r.text("endingHashKey", false),
	}
	if v, ok := read[*types.AttributeValueMemberB](r, "pendingCheckpointState", false); ok {
		l.pendingState = v.Value
	}
	if v, ok := read[*types.AttributeValueMemberN](r, "throughputKBps", false); ok {
		l.throughput, l.hasThroughput = r.real("throughputKBps", v.Value), true
	}
	if l.start != "" && l.end != "" && number(l.start).Cmp(number(l.end)) >= 0 {
		r.wrong("hash range", "from %s to %s", l.start, l.end)
	}
	return l, errors.Join(r.errs...)
}

func (r *reading) real(name, text string) float64 {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		r.wrong(name, "is %s", text)
	}
	return f
}

// number reads a hash key; what is none is -1.
func number(s string) *big.Int {
	if n, ok := new(big.Int).SetString(s, 10); ok {
		return n
	}
	return big.NewInt(-1)
}

// lock is the leader's lock.
type lock struct {
	owner, version string
	lasts          time.Duration
	released       bool
}

func decodeLock(it item) (lock, error) {
	r := &reading{it: it}
	l := lock{owner: r.text("ownerName", true), version: r.text("recordVersionNumber", true)}
	ms, err := strconv.ParseInt(r.text("leaseDuration", true), 10, 64)
	if err != nil {
		r.wrong("leaseDuration", "is no number of milliseconds: %v", err)
	}
	_, l.released = it["isReleased"]
	l.lasts = time.Duration(ms) * time.Millisecond
	return l, errors.Join(r.errs...)
}

// report is a worker's row.
type report struct {
	worker  string
	updated time.Time // whole seconds
	valid   bool
	failing bool
}

func decodeReport(key string, it item) (report, error) {
	r := &reading{it: it}
	out := report{worker: r.text(key, true), updated: time.Unix(r.whole("lut", true), 0)}
	for _, name := range []string{"sup", "slu"} {
		r.whole(name, false)
	}
	read[*types.AttributeValueMemberM](r, "properties", false)
	sts, opr := r.lists("sts"), r.lists("opr")
	out.valid = true
	for metric, values := range sts {
		limits := opr[metric]
		out.valid = out.valid && len(limits) > 0 && limits[0] != 0
		out.failing = out.failing || len(values) > 0 && values[len(values)-1] == -1
	}
	for metric, limits := range opr {
		for _, v := range limits {
			if v != float64(int64(v)) {
				r.wrong("opr", "of %s is %v, no whole number", metric, v)
			}
		}
	}
	return out, errors.Join(r.errs...)
}

// lists reads a map of lists of numbers.
func (r *reading) lists(name string) map[string][]float64 {
	m, ok := read[*types.AttributeValueMemberM](r, name, false)
	if !ok {
		return nil
	}
	out := make(map[string][]float64, len(m.Value))
	for metric, v := range m.Value {
		l, ok := v.(*types.AttributeValueMemberL)
		if !ok {
			r.wrong(name, "of %s is a %T", metric, v)
			continue
		}
		for _, v := range l.Value {
			n, ok := v.(*types.AttributeValueMemberN)
			if !ok {
				r.wrong(name, "of %s holds a %T", metric, v)
				continue
			}
			out[metric] = append(out[metric], r.real(name, n.Value))
		}
	}
	return out
}

// decodeState reads the state of a migration, whose status is called so.
func decodeState(status string, it item) (string, error) {
	r := &reading{it: it}
	now := r.text(status, true)
	r.text("mb", true)
	r.whole("mts", true)
	if h, ok := read[*types.AttributeValueMemberL](r, "h", false); ok {
		for _, v := range h.Value {
			m, ok := v.(*types.AttributeValueMemberM)
			if !ok {
				r.wrong("h", "holds a %T", v)
				continue
			}
			past := &reading{it: m.Value}
			past.text(status, true)
			past.text("mb", true)
			past.whole("mts", true)
			r.errs = append(r.errs, past.errs...)
		}
	}
	return now, errors.Join(r.errs...)
}

// Decode reads an item of the lease table as a worker of 3.5 does, and says what it
// cannot read.
func Decode(it map[string]types.AttributeValue) error { return decode(entityOf(it), it) }

// decode reads an item of a known type for its form only.
func decode(entity string, it item) (err error) {
	switch entity {
	case leaderEntity:
		_, err = decodeLock(it)
	case versionEntity:
		_, err = decodeState("cv", it)
	case tableEntity:
		_, err = decodeState("tm", it)
	case streamEntity:
		r := &reading{it: it}
		r.text("streamId", true)
		err = errors.Join(r.errs...)
	case reportEntity:
		_, err = decodeReport("leaseKey", it)
	default:
		_, err = decodeLease(it)
	}
	return err
}

// entityOf is the type an item says it is of; a lease may not say.
func entityOf(it item) string {
	if v, ok := it["entityType"].(*types.AttributeValueMemberS); ok {
		return v.Value
	}
	return leaseEntity
}

func text(v types.AttributeValue) string {
	if s, ok := v.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}
