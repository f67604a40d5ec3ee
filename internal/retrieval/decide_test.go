package retrieval

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/assert"

	"github.com/go-kcl/kcl"
)

func TestPause(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	const idle = 1500 * time.Millisecond
	for name, tc := range map[string]struct {
		history   history
		threshold time.Duration
		random    float64
		want      time.Duration
	}{
		"nothing called yet":                      {history{}, 0, 0, 0},
		"rest of the idle time":                   {history{called: true, lastOK: ago(time.Second)}, 0, 0, 500 * time.Millisecond},
		"idle time is over":                       {history{called: true, lastOK: ago(2 * time.Second)}, 0, 0, 0},
		"near the tip, threshold":                 {history{called: true, lastOK: ago(time.Second), behind: 2 * time.Second, behindKnown: true}, 5 * time.Second, 0, 4 * time.Second},
		"exactly the threshold behind":            {history{called: true, lastOK: ago(time.Second), behind: 5 * time.Second, behindKnown: true}, 5 * time.Second, 0, 500 * time.Millisecond},
		"near the tip, threshold below idle time": {history{called: true, lastOK: ago(time.Second), behindKnown: true}, time.Millisecond, 0, 500 * time.Millisecond},
		"lag not known":                           {history{called: true, lastOK: ago(time.Second)}, 5 * time.Second, 0, 500 * time.Millisecond},
		"10 MiB take five seconds":                {history{called: true, lastOK: ago(time.Second), bytes: 10 << 20}, 0, 0, 4 * time.Second},
		"first failure":                           {history{called: true, failures: 1}, 0, 0, idle},
		"first failure, jitter":                   {history{called: true, failures: 1}, 0, 0.5, idle + idle/4},
		"second failure":                          {history{called: true, failures: 2, lastOK: now}, 0, 0, 2 * idle},
		"third failure":                           {history{called: true, failures: 3}, 0, 0, 4 * idle},
		"fourth failure is capped":                {history{called: true, failures: 4}, 0, 0, maxBackoff},
		"thousandth failure is capped":            {history{called: true, failures: 1000}, 0, 0, maxBackoff},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{IdleTime: idle, ReducedTPSThreshold: tc.threshold, BytesPerSecond: defaultBytesPerSecond}
			assert.Equal(t, tc.want, pause(tc.history, now, &cfg, tc.random))
		})
	}
	t.Run("idle time longer than the cap", func(t *testing.T) {
		assert.Equal(t, time.Minute, pause(history{called: true, failures: 3}, now, &Config{IdleTime: time.Minute}, 0))
	})
	t.Run("throughput not looked at", func(t *testing.T) {
		h := history{called: true, lastOK: now, bytes: 10 << 20}
		assert.Equal(t, idle, pause(h, now, &Config{IdleTime: idle, BytesPerSecond: -1}, 0))
	})
}

func TestClassify(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want kind
	}{
		{apiError("ExpiredIteratorException"), kindExpired},
		{apiError("InvalidArgumentException"), kindRefused},
		{apiError("ResourceNotFoundException"), kindNotFound},
		{apiError("ProvisionedThroughputExceededException"), kindThrottled},
		{apiError("LimitExceededException"), kindThrottled},
		{apiError("ThrottlingException"), kindThrottled},
		{apiError("KMSThrottlingException"), kindThrottled},
		{apiError("AccessDeniedException"), kindOther},
		{apiError("InternalFailure"), kindOther},
		{fmt.Errorf("call: %w", context.DeadlineExceeded), kindTimeout},
		{fmt.Errorf("call: %w", errInvalidResponse), kindInvalid},
		{errors.New("connection reset"), kindOther},
	} {
		t.Run(tc.err.Error(), func(t *testing.T) { assert.Equal(t, tc.want, classify(tc.err)) })
	}
}

// consumption#26
func TestLevel(t *testing.T) {
	for name, tc := range map[string]struct {
		kind      kind
		n, ignore int
		want      slog.Level
	}{
		"first timeout, two ignored":     {kindTimeout, 1, 2, slog.LevelDebug},
		"second timeout, two ignored":    {kindTimeout, 2, 2, slog.LevelDebug},
		"third timeout, two ignored":     {kindTimeout, 3, 2, slog.LevelWarn},
		"fourth timeout repeats":         {kindTimeout, 4, 2, slog.LevelDebug},
		"first timeout, none ignored":    {kindTimeout, 1, 0, slog.LevelWarn},
		"other error, two ignored":       {kindOther, 1, 2, slog.LevelWarn},
		"refused position":               {kindRefused, 1, 2, slog.LevelWarn},
		"repeated other error":           {kindOther, 2, 2, slog.LevelDebug},
		"expired iterator is ordinary":   {kindExpired, 1, 0, slog.LevelInfo},
		"first throttle":                 {kindThrottled, 1, 0, slog.LevelWarn},
		"fifth throttle repeats":         {kindThrottled, 5, 0, slog.LevelDebug},
		"sixth throttle is an error":     {kindThrottled, 6, 0, slog.LevelError},
		"seventh throttle repeats again": {kindThrottled, 7, 0, slog.LevelDebug},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, level(tc.kind, tc.n, tc.ignore)) })
	}
}

// consumption#50
func TestStartAt(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	since := at.Add(time.Hour)
	number := kcl.Position{SequenceNumber: "17", SubSequenceNumber: 3}
	for name, tc := range map[string]struct {
		shard Shard
		last  string
		since time.Time
		want  string
	}{
		"TRIM_HORIZON":                         {shardAt(kcl.AtTrimHorizon), "", time.Time{}, "TRIM_HORIZON"},
		"TRIM_HORIZON, nothing read":           {shardAt(kcl.AtTrimHorizon), "", since, "TRIM_HORIZON"},
		"TRIM_HORIZON, read to 20":             {shardAt(kcl.AtTrimHorizon), "20", since, "AFTER_SEQUENCE_NUMBER 20"},
		"LATEST":                               {shardAt(kcl.AtLatest), "", time.Time{}, "LATEST"},
		"LATEST, nothing read":                 {shardAt(kcl.AtLatest), "", since, "AT_TIMESTAMP 2026-01-02T04:04:05Z"},
		"LATEST, read to 20":                   {shardAt(kcl.AtLatest), "20", since, "AFTER_SEQUENCE_NUMBER 20"},
		"AT_TIMESTAMP":                         {Shard{Checkpoint: kcl.AtTimestampSentinel, Timestamp: at}, "", time.Time{}, "AT_TIMESTAMP 2026-01-02T03:04:05Z"},
		"AT_TIMESTAMP, nothing read":           {Shard{Checkpoint: kcl.AtTimestampSentinel, Timestamp: at}, "", since, "AT_TIMESTAMP 2026-01-02T03:04:05Z"},
		"AT_TIMESTAMP of a config without one": {Shard{Checkpoint: kcl.AtTimestampSentinel}, "", time.Time{}, "TRIM_HORIZON"},
		"SHARD_END":                            {shardAt(kcl.ShardEnd), "", time.Time{}, "LATEST"},
		"number":                               {shardAt(number), "", time.Time{}, "AT_SEQUENCE_NUMBER 17"},
		"number, nothing read":                 {shardAt(number), "", since, "AT_SEQUENCE_NUMBER 17"},
		"number, read to 20":                   {shardAt(number), "20", since, "AFTER_SEQUENCE_NUMBER 20"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, startOf(startAt(tc.shard, tc.last, tc.since))) })
	}
}

// consumption#55
func TestValidate(t *testing.T) {
	it := aws.String("next")
	orphan := []types.ChildShard{{ShardId: aws.String("shardId-000000000008")}}
	for name, tc := range map[string]struct {
		out   kinesis.GetRecordsOutput
		valid bool
	}{
		"iterator, no children":     {kinesis.GetRecordsOutput{NextShardIterator: it}, true},
		"end with children":         {kinesis.GetRecordsOutput{ChildShards: split()}, true},
		"end without children":      {kinesis.GetRecordsOutput{}, false},
		"iterator with children":    {kinesis.GetRecordsOutput{NextShardIterator: it, ChildShards: split()}, false},
		"child without parents":     {kinesis.GetRecordsOutput{ChildShards: append(split(), orphan...)}, false},
		"child without id":          {kinesis.GetRecordsOutput{ChildShards: []types.ChildShard{{ParentShards: []string{shardID}}}}, false},
		"record without a sequence": {kinesis.GetRecordsOutput{NextShardIterator: it, Records: []types.Record{{}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := validate(&tc.out)
			if tc.valid {
				assert.NoError(t, err)
				return
			}
			assert.ErrorIs(t, err, errInvalidResponse)
		})
	}
}

func TestShardBefore(t *testing.T) {
	for id, want := range map[string]string{
		"shardId-000000000007":  "shardId-000000000006",
		"shardId-000000000100":  "shardId-000000000099",
		"shardId-000000000000":  "",
		"shardId-":              "",
		"shardId-x":             "",
		"other":                 "",
		"shardId-0000000001000": "shardId-0000000000999",
	} {
		assert.Equal(t, want, shardBefore(id), id)
	}
}

func TestConvertRecord(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	b := newBatch(&kinesis.GetRecordsOutput{
		Records: []types.Record{
			{SequenceNumber: aws.String("1"), PartitionKey: aws.String("k"), Data: []byte("abc"), ApproximateArrivalTimestamp: &at, EncryptionType: types.EncryptionTypeKms},
			{SequenceNumber: aws.String("2"), EncryptionType: types.EncryptionTypeNone},
		},
		ChildShards:        split(),
		MillisBehindLatest: aws.Int64(1500),
	})
	assert.Equal(t, []kcl.Record{
		{Position: kcl.Position{SequenceNumber: "1"}, PartitionKey: "k", Data: []byte("abc"), ArrivedAt: at, EncryptionType: "KMS"},
		{Position: kcl.Position{SequenceNumber: "2"}},
	}, b.Records)
	hash := func(n uint64) kcl.HashKey { return kcl.HashKey{Lo: n} }
	assert.Equal(t, []Child{
		{"shardId-000000000008", []string{shardID}, kcl.HashRange{Start: hash(0), End: hash(9)}},
		{"shardId-000000000009", []string{shardID}, kcl.HashRange{Start: hash(10), End: hash(19)}},
	}, b.Children)
	assert.True(t, b.End)
	assert.Equal(t, 1500*time.Millisecond, b.Behind)
	assert.True(t, b.BehindKnown)
	assert.Equal(t, 3, b.Bytes)
	assert.False(t, newBatch(&kinesis.GetRecordsOutput{}).BehindKnown)
}
