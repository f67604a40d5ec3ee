package kinesis

import (
	"maps"
	"slices"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

// changeable finds an ACTIVE stream for a change of its settings.
func (t *turn) changeable(r *streamRef) (*stream, *wire.Error) {
	if err := t.throttle(r.stream()); err != nil {
		return nil, err
	}
	st, err := t.find(r)
	if err != nil {
		return nil, err
	}
	if state := t.seen(st); state != active {
		return nil, notActive(st.key, state)
	}
	return st, nil
}

// Bounds of the retention, in hours.
const (
	minRetention = 24
	maxRetention = 8760
)

type retentionInput struct {
	streamRef
	RetentionPeriodHours *int64
}

func (in *retentionInput) check(v *violations) {
	v.require("retentionPeriodHours", in.RetentionPeriodHours != nil)
	in.streamRef.check(v)
}

func increaseRetention(t *turn, in *retentionInput) (any, *wire.Error) {
	return t.changeRetention(in, func(asked, present int64) bool { return asked < present }, "shorter", "Decrease")
}

func decreaseRetention(t *turn, in *retentionInput) (any, *wire.Error) {
	return t.changeRetention(in, func(asked, present int64) bool { return asked > present }, "longer", "Increase")
}

func (t *turn) changeRetention(in *retentionInput, wrong func(asked, present int64) bool, how, other string) (any, *wire.Error) {
	st, err := t.changeable(&in.streamRef)
	if err != nil {
		return nil, err
	}
	hours := *in.RetentionPeriodHours
	switch {
	case hours < minRetention:
		return nil, invalidArgument("Minimum allowed retention period is %d hours. Requested retention period (%d hours) is too short.", minRetention, hours)
	case hours > maxRetention:
		return nil, invalidArgument("Maximum allowed retention period is %d hours. Requested retention period (%d hours) is too long.", maxRetention, hours)
	case wrong(hours, st.retention):
		return nil, invalidArgument("Requested retention period (%d hours) for stream %s can not be %s than existing retention period (%d hours). "+
			"Use %sRetentionPeriod API.", hours, st.key.name, how, st.retention, other)
	}
	st.retain(t.now, hours)
	return nil, nil
}

type updateStreamModeInput struct {
	arnRef
	StreamModeDetails *streamModeDetails
}

func (in *updateStreamModeInput) check(v *violations) {
	in.StreamModeDetails.check(v, true)
	in.arnRef.check(v)
}

func updateStreamMode(t *turn, in *updateStreamModeInput) (any, *wire.Error) {
	st, err := t.changeable(in.ref())
	if err != nil {
		return nil, err
	}
	if st.onDemand == in.StreamModeDetails.onDemand() {
		return nil, nil // assumed
	}
	if !t.cfg.NoLimits && !st.switched.allow(t.now, day, modeSwitchesADay) { // text assumed
		return nil, limitExceeded("Stream %s under account %s has switched its capacity mode %d times within 24 hours.",
			st.key.name, st.key.account, modeSwitchesADay)
	}
	st.onDemand = !st.onDemand
	st.updated = t.now + instant(t.cfg.UpdateDuration)
	return nil, nil
}

type updateMaxRecordSizeInput struct {
	arnRef
	MaxRecordSizeInKiB *int64
}

func (in *updateMaxRecordSizeInput) check(v *violations) {
	if v.require("maxRecordSizeInKiB", in.MaxRecordSizeInKiB != nil) {
		v.integer("maxRecordSizeInKiB", in.MaxRecordSizeInKiB, 1024, 10_240)
	}
	in.arnRef.check(v)
}

func updateMaxRecordSize(t *turn, in *updateMaxRecordSizeInput) (any, *wire.Error) {
	st, err := t.changeable(in.ref())
	if err != nil {
		return nil, err
	}
	st.maxRecord = int(*in.MaxRecordSizeInKiB) * kib
	st.updated = t.now + instant(t.cfg.UpdateDuration)
	return nil, nil
}

// maxTagsOfStream bounds a stream's tags.
const maxTagsOfStream = 50

type addTagsInput struct {
	streamRef
	Tags map[string]string
}

func (in *addTagsInput) check(v *violations) {
	v.require("tags", len(in.Tags) > 0)
	in.streamRef.check(v)
}

func addTags(t *turn, in *addTagsInput) (any, *wire.Error) {
	st, err := t.changeable(&in.streamRef)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(st.tags)
	maps.Copy(all, in.Tags)
	if len(all) > maxTagsOfStream {
		return nil, invalidArgument("Failed to add tags to stream %s under account %s because a given stream cannot have more than %d tags associated with it.",
			st.key.name, st.key.account, maxTagsOfStream)
	}
	st.tags = all
	return nil, nil
}

type removeTagsInput struct {
	streamRef
	TagKeys []string
}

func (in *removeTagsInput) check(v *violations) {
	v.require("tagKeys", len(in.TagKeys) > 0)
	in.streamRef.check(v)
}

func removeTags(t *turn, in *removeTagsInput) (any, *wire.Error) {
	st, err := t.changeable(&in.streamRef)
	if err != nil {
		return nil, err
	}
	for _, k := range in.TagKeys {
		delete(st.tags, k)
	}
	return nil, nil
}

type listTagsInput struct {
	streamRef
	ExclusiveStartTagKey *string
	Limit                *int64
}

func (in *listTagsInput) check(v *violations) {
	v.integer("limit", in.Limit, 1, maxTagsOfStream)
	in.streamRef.check(v)
}

type tag struct{ Key, Value string }

type listTagsOutput struct {
	Tags        []tag
	HasMoreTags bool
}

func listTags(t *turn, in *listTagsInput) (any, *wire.Error) {
	if err := t.throttle(in.stream()); err != nil {
		return nil, err
	}
	st, err := t.find(&in.streamRef)
	if err != nil {
		return nil, err
	}
	out := listTagsOutput{Tags: []tag{}}
	for _, k := range slices.Sorted(maps.Keys(st.tags)) {
		if in.ExclusiveStartTagKey != nil && k <= *in.ExclusiveStartTagKey {
			continue
		}
		if len(out.Tags) == pageSize(in.Limit, maxTagsOfStream) {
			out.HasMoreTags = true
			break
		}
		out.Tags = append(out.Tags, tag{k, st.tags[k]})
	}
	return out, nil
}

type describeLimitsInput struct{}

func (in *describeLimitsInput) check(*violations) {}
func (in *describeLimitsInput) stream() string    { return "" }

type describeLimitsOutput struct {
	ShardLimit               int
	OpenShardCount           int
	OnDemandStreamCount      int
	OnDemandStreamCountLimit int
}

func describeLimits(t *turn, _ *describeLimitsInput) (any, *wire.Error) {
	if err := t.throttle(""); err != nil {
		return nil, err
	}
	out := describeLimitsOutput{
		ShardLimit:               t.cfg.ShardQuota,
		OpenShardCount:           t.provisionedShards(),
		OnDemandStreamCountLimit: onDemandStreams,
	}
	for _, st := range t.ours() {
		if st.onDemand {
			out.OnDemandStreamCount++
		}
	}
	return out, nil
}
