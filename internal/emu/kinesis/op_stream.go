package kinesis

import (
	"slices"
	"strings"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

type streamModeDetails struct {
	StreamMode *string
}

func (m *streamModeDetails) check(v *violations, required bool) {
	if m == nil {
		if required {
			v.require("streamModeDetails", false)
		}
		return
	}
	if v.require("streamModeDetails.streamMode", m.StreamMode != nil) {
		v.enum("streamModeDetails.streamMode", m.StreamMode, "PROVISIONED", "ON_DEMAND")
	}
}

func (m *streamModeDetails) onDemand() bool {
	return m != nil && m.StreamMode != nil && *m.StreamMode == "ON_DEMAND"
}

type createStreamInput struct {
	StreamName         *string
	ShardCount         *int64
	StreamModeDetails  *streamModeDetails
	MaxRecordSizeInKiB *int64
	Tags               map[string]string
}

func (in *createStreamInput) check(v *violations) {
	v.integer("shardCount", in.ShardCount, 1, maxShardNumber)
	in.StreamModeDetails.check(v, false)
	v.integer("maxRecordSizeInKiB", in.MaxRecordSizeInKiB, 1024, 10_240)
	if !in.StreamModeDetails.onDemand() {
		v.require("shardCount", in.ShardCount != nil)
	}
	if v.require("streamName", in.StreamName != nil) {
		v.text("streamName", in.StreamName, nameText)
	}
}

func (in *createStreamInput) stream() string { return (&streamRef{StreamName: in.StreamName}).stream() }

func createStream(t *turn, in *createStreamInput) (any, *wire.Error) {
	key := streamKey{t.Account, t.Region, *in.StreamName}
	if err := t.throttle(key.name); err != nil {
		return nil, err
	}
	onDemand := in.StreamModeDetails.onDemand()
	shards := onDemandShards
	switch {
	case onDemand && in.ShardCount != nil: // code and text assumed
		return nil, validation("ShardCount must not be specified for a stream in On-Demand mode.")
	case !onDemand:
		shards = int(*in.ShardCount)
	}
	if _, taken := t.settled(key); taken {
		return nil, streamExists(key)
	}
	if err := t.streamQuota(onDemand); err != nil {
		return nil, err
	}
	if !onDemand {
		if err := t.shardQuota(shards); err != nil {
			return nil, err
		}
	}
	st := t.create(key, shards)
	st.active = t.now + instant(t.cfg.CreateDuration)
	st.onDemand = onDemand
	if in.MaxRecordSizeInKiB != nil {
		st.maxRecord = int(*in.MaxRecordSizeInKiB) * kib
	}
	for k, v := range in.Tags {
		st.tags[k] = v
	}
	return nil, nil
}

// create puts a stream in place. Its shards start some seconds before it, as on
// the live service, yet after those of a deleted stream of the same name: so no
// number of one is a number of the other.
func (s *Service) create(key streamKey, shards int) *stream {
	created := s.last.sec()
	start := created - initialShardsBefore
	if last, ok := s.former[key]; ok {
		start = max(start, last+1)
		delete(s.former, key)
	}
	st := newStream(key, created, uniform(shards, start))
	s.streams[key] = st
	return st
}

// streamQuota refuses one stream more than the account may have.
func (t *turn) streamQuota(onDemand bool) *wire.Error {
	if t.cfg.NoLimits {
		return nil
	}
	young, demand := 0, 0
	for _, st := range t.ours() {
		if st.status(t.now) == creating {
			young++
		}
		if st.onDemand {
			demand++
		}
	}
	if young >= creatingStreams {
		return limitExceeded("This request would have exceed the limit on the number  of streams that can simultaneously "+
			"be in CREATING or DELETING for the account %s. Limit: %d.", t.Account, creatingStreams)
	}
	if onDemand && demand >= onDemandStreams { // text assumed
		return limitExceeded("This request would exceed the limit on the number of On-Demand streams for the account %s. Limit: %d.",
			t.Account, onDemandStreams)
	}
	return nil
}

// deleteStreamInput will need EnforceConsumerDeletion once there are consumers.
type deleteStreamInput struct{ streamRef }

func deleteStream(t *turn, in *deleteStreamInput) (any, *wire.Error) {
	if err := t.throttle(in.stream()); err != nil {
		return nil, err
	}
	st, err := t.find(&in.streamRef)
	if err != nil {
		return nil, err
	}
	if st.gone != 0 { // assumed
		return nil, notActive(st.key, deleting)
	}
	st.pending = nil
	// A successor must have seconds left that no shard of this one started at.
	st.gone = max(t.now+instant(t.cfg.DeleteDuration), instant(st.lastStart()+1)*second)
	return nil, nil
}

type describeStreamInput struct {
	streamRef
	ExclusiveStartShardId *string
	Limit                 *int64
}

func (in *describeStreamInput) check(v *violations) {
	v.integer("limit", in.Limit, 1, 10_000)
	v.text("exclusiveStartShardId", in.ExclusiveStartShardId, nameText)
	in.streamRef.check(v)
}

// maxListed bounds a page of DescribeStream and of ListStreams, whatever a
// caller asks for.
const maxListed = 100

// description is what both ways to describe a stream share.
type description struct {
	StreamName              string
	StreamARN               string
	StreamStatus            string
	StreamModeDetails       modeOutput
	RetentionPeriodHours    int64
	StreamCreationTimestamp wire.Time
	EnhancedMonitoring      []monitoring
	EncryptionType          string
}

type modeOutput struct{ StreamMode string }

type monitoring struct{ ShardLevelMetrics []string }

func (st *stream) mode() modeOutput {
	if st.onDemand {
		return modeOutput{"ON_DEMAND"}
	}
	return modeOutput{"PROVISIONED"}
}

func (st *stream) describe(now instant) description {
	return description{
		StreamName:              st.key.name,
		StreamARN:               st.key.arn(),
		StreamStatus:            st.status(now),
		StreamModeDetails:       st.mode(),
		RetentionPeriodHours:    st.retention,
		StreamCreationTimestamp: wireTime(st.created * 1000),
		EnhancedMonitoring:      []monitoring{{ShardLevelMetrics: []string{}}},
		EncryptionType:          "NONE",
	}
}

// listable says whether a description shows shards.
func (st *stream) listable(now instant) bool {
	s := st.status(now)
	return s == active || s == updating
}

type describeStreamOutput struct {
	StreamDescription struct {
		description
		Shards        []shardOutput
		HasMoreShards bool
	}
}

func describeStream(t *turn, in *describeStreamInput) (any, *wire.Error) {
	if err := t.throttle(in.stream()); err != nil {
		return nil, err
	}
	st, err := t.find(&in.streamRef)
	if err != nil {
		return nil, err
	}
	next, err := after(st.key, in.ExclusiveStartShardId)
	if err != nil {
		return nil, err
	}
	var out describeStreamOutput
	d := &out.StreamDescription
	d.description = st.describe(t.now)
	var page []*shard
	if st.listable(t.now) {
		page, d.HasMoreShards = st.page(next, pageSize(in.Limit, maxListed), func(*shard) bool { return true })
	}
	d.Shards = shardOutputs(page)
	return out, nil
}

type describeStreamSummaryInput struct{ streamRef }

type describeStreamSummaryOutput struct {
	StreamDescriptionSummary struct {
		description
		OpenShardCount     int
		ConsumerCount      int
		MaxRecordSizeInKiB int
	}
}

func describeStreamSummary(t *turn, in *describeStreamSummaryInput) (any, *wire.Error) {
	if err := t.throttle(in.stream()); err != nil {
		return nil, err
	}
	st, err := t.find(&in.streamRef)
	if err != nil {
		return nil, err
	}
	var out describeStreamSummaryOutput
	d := &out.StreamDescriptionSummary
	d.description = st.describe(t.now)
	if st.listable(t.now) {
		d.OpenShardCount = len(st.open)
	}
	d.MaxRecordSizeInKiB = st.maxRecord / kib
	return out, nil
}

type listStreamsInput struct {
	ExclusiveStartStreamName *string
	NextToken                *string
	Limit                    *int64
}

func (in *listStreamsInput) check(v *violations) {
	v.integer("limit", in.Limit, 1, 10_000)
	v.text("exclusiveStartStreamName", in.ExclusiveStartStreamName, nameText)
	v.text("nextToken", in.NextToken, tokenText)
}

func (in *listStreamsInput) stream() string { return "" }

type streamSummary struct {
	StreamName              string
	StreamARN               string
	StreamStatus            string
	StreamModeDetails       modeOutput
	StreamCreationTimestamp wire.Time
}

type listStreamsOutput struct {
	StreamNames     []string
	StreamSummaries []streamSummary
	HasMoreStreams  bool
	NextToken       string `json:",omitempty"`
}

func listStreams(t *turn, in *listStreamsInput) (any, *wire.Error) {
	if err := t.throttle(""); err != nil {
		return nil, err
	}
	after := ""
	switch {
	case in.NextToken != nil && in.ExclusiveStartStreamName != nil:
		return nil, invalidArgument("NextToken and ExclusiveStartStreamName cannot be provided together.") // text assumed
	case in.NextToken != nil:
		token, ok := parseStreamsToken(*in.NextToken)
		if !ok || token.account != t.Account || token.region != t.Region {
			return nil, invalidArgument("Invalid NextToken.") // text assumed
		}
		if err := t.tokenAge(token.issued); err != nil {
			return nil, err
		}
		after = token.name
	case in.ExclusiveStartStreamName != nil:
		after = *in.ExclusiveStartStreamName
	}
	streams := slices.DeleteFunc(t.ours(), func(st *stream) bool { return st.key.name <= after })
	slices.SortFunc(streams, func(a, b *stream) int { return strings.Compare(a.key.name, b.key.name) })

	out := listStreamsOutput{StreamNames: []string{}, StreamSummaries: []streamSummary{}}
	if n := pageSize(in.Limit, maxListed); len(streams) > n {
		streams = streams[:n]
		out.HasMoreStreams = true
		out.NextToken = streamsToken{issued: t.now.ms(), streamKey: streams[n-1].key}.String()
	}
	for _, st := range streams {
		out.StreamNames = append(out.StreamNames, st.key.name)
		out.StreamSummaries = append(out.StreamSummaries, streamSummary{
			StreamName:              st.key.name,
			StreamARN:               st.key.arn(),
			StreamStatus:            st.status(t.now),
			StreamModeDetails:       st.mode(),
			StreamCreationTimestamp: wireTime(st.created * 1000),
		})
	}
	return out, nil
}
