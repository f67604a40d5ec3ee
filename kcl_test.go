package kcl_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-kcl/kcl"
)

func at(seq string, sub ...int64) kcl.Position {
	p := kcl.Position{SequenceNumber: seq}
	if len(sub) > 0 {
		p.SubSequenceNumber = sub[0]
	}
	return p
}

// consumption#49: the order of positions, sentinels around numbers of any
// length, ties by sub-sequence number.
func TestPositionOrder(t *testing.T) {
	long := strings.Repeat("9", 56)
	longer := "1" + strings.Repeat("0", 56)
	ascending := []kcl.Position{
		at("nonsense"), kcl.AtTimestampSentinel, kcl.AtTrimHorizon, kcl.AtLatest,
		at("0"), at("9"), at("10"), at("10", 1), at("10", 2), at("11"), at(long), at(longer), at(longer, 7), kcl.ShardEnd,
	}
	for i, p := range ascending {
		for j, q := range ascending {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			assert.Equal(t, want, p.Compare(q), "%s and %s", p, q)
		}
	}
	assert.Zero(t, at("SHARD_END", 5).Compare(kcl.ShardEnd), "a sentinel's sub-sequence number does not count")
	assert.Zero(t, at("007").Compare(at("7")), "numbers are compared by value")
	assert.Zero(t, at("x", 1).Compare(at("y", 2)), "what is no position has no order")
	assert.NotEqual(t, at("007"), at("7"), "equality is by text")
}

func TestPositionValidate(t *testing.T) {
	for _, p := range []kcl.Position{at("0"), at("1", 9), kcl.AtTrimHorizon, kcl.AtLatest, kcl.AtTimestampSentinel, kcl.ShardEnd} {
		assert.NoError(t, p.Validate(), p)
	}
	for _, p := range []kcl.Position{{}, at("x"), at("-1"), at("1.5"), at("1", -1), at("shard_end"), at(" 1")} {
		assert.ErrorIs(t, p.Validate(), kcl.ErrInvalidPosition, "%q", p)
	}
}

func TestPositionText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := at(rapid.StringMatching(`[0-9]{1,60}`).Draw(t, "number"), rapid.Int64Range(0, 1<<40).Draw(t, "sub"))
		b, err := json.Marshal(p)
		require.NoError(t, err)
		var back kcl.Position
		require.NoError(t, json.Unmarshal(b, &back))
		require.Equal(t, p, back)
	})
	for text, want := range map[string]kcl.Position{"": {}, "12:3": at("12", 3), "TRIM_HORIZON": kcl.AtTrimHorizon} {
		var p kcl.Position
		require.NoError(t, p.UnmarshalText([]byte(text)))
		assert.Equal(t, want, p)
		assert.Equal(t, text, p.String())
	}
	for _, text := range []string{"x", "1:x", "1:-1", "1:+1", "1:-0", "1:", ":1", "1:2:3", "1:99999999999999999999", "SHARD_END:x"} {
		_, err := kcl.ParsePosition(text)
		assert.ErrorIs(t, err, kcl.ErrInvalidPosition, text)
		p := at("7")
		assert.Error(t, p.UnmarshalText([]byte(text)))
		assert.Equal(t, at("7"), p, "a bad text changes nothing")
	}
}

func TestHashKey(t *testing.T) {
	for _, s := range []string{"0", "1", "18446744073709551615", "18446744073709551616", "340282366920938463463374607431768211455"} {
		k, err := kcl.ParseHashKey(s)
		require.NoError(t, err, s)
		assert.Equal(t, s, k.String())
	}
	assert.Equal(t, "340282366920938463463374607431768211455", kcl.MaxHashKey.String())
	assert.Equal(t, kcl.HashKey{}, kcl.MaxHashKey.Next())
	assert.Equal(t, "18446744073709551616", kcl.HashKey{Lo: ^uint64(0)}.Next().String())
	big, small := kcl.HashKey{Hi: 2, Lo: 1}, kcl.HashKey{Hi: 1, Lo: 2}
	assert.Equal(t, []int{1, -1, 0}, []int{big.Compare(small), small.Compare(big), big.Compare(big)})
	for _, s := range []string{"", "-1", "x", "340282366920938463463374607431768211456", "999999999999999999999999999999999999999", strings.Repeat("9", 60)} {
		_, err := kcl.ParseHashKey(s)
		assert.Error(t, err, s)
	}
	rapid.Check(t, func(t *rapid.T) {
		k := kcl.HashKey{Hi: rapid.Uint64().Draw(t, "hi"), Lo: rapid.Uint64().Draw(t, "lo")}
		back, err := kcl.ParseHashKey(k.String())
		require.NoError(t, err)
		require.Equal(t, k, back)
	})
}

func TestHashRange(t *testing.T) {
	r, err := kcl.ParseHashRange("5", "9")
	require.NoError(t, err)
	for k, in := range map[uint64]bool{4: false, 5: true, 9: true, 10: false} {
		assert.Equal(t, in, r.Contains(kcl.HashKey{Lo: k}), k)
	}
	one, err := kcl.ParseHashRange("5", "5")
	require.NoError(t, err)
	assert.Equal(t, "5-5", one.String())
	for _, bad := range [][2]string{{"9", "5"}, {"x", "5"}, {"5", ""}} {
		_, err := kcl.ParseHashRange(bad[0], bad[1])
		assert.Error(t, err, bad)
	}
	assert.True(t, kcl.HashRange{}.IsZero())

	text, err := json.Marshal(r)
	require.NoError(t, err)
	assert.Equal(t, `{"start":"5","end":"9"}`, string(text))
	var back kcl.HashRange
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, r, back)
}

// shard-sync#49: what is, and what is not, the identity of a stream.
func TestParseStreamIdentifier(t *testing.T) {
	for _, s := range []string{
		":s:1", "123456789abc:s:1", "123456789012::1", "123456789012:s", "123456789012:s:", "123456789012:s:-123",
		"123456789012:s:abc", "", "::", "123456789012:s:0", "123456789012:s:1:x", "123456789012:s:99999999999999999999",
	} {
		_, err := kcl.ParseStreamIdentifier(s)
		assert.Error(t, err, "%q", s)
	}
	id, err := kcl.ParseStreamIdentifier("123456789:s:1")
	require.NoError(t, err, "an account of 9 digits is taken as it is")
	assert.Equal(t, kcl.StreamIdentifier{AccountID: "123456789", Name: "s", CreationEpoch: 1}, id)

	for _, arn := range []string{
		"arn:xaws:kinesis:us-east-1:123456789012:stream/s", "arn:aws:dynamodb:us-east-1:123456789012:stream/s",
		"arn:aws:kinesis::123456789012:stream/s", "arn:aws:kinesis:us-east-1::stream/s", "arn:aws:kinesis:us-east-1:12345678901:stream/s",
		"arn:aws:kinesis:us-east-1:12345678901x:stream/s", "arn:aws:kinesis:us-east-1:123456789012:table/s", "arn:aws:kinesis:us-east-1:123456789012:stream/",
	} {
		_, err := kcl.StreamByName(arn)
		assert.Error(t, err, arn)
		_, err = kcl.StreamByARN(arn, 1)
		assert.Error(t, err, arn)
	}
	_, err = kcl.StreamByARN("arn:aws:kinesis:us-east-1:123456789012:stream/s", 0)
	assert.Error(t, err)
}

// shard-sync#50: serialized forms, and what makes two streams the same.
func TestStreamIdentifierForms(t *testing.T) {
	multi, err := kcl.ParseStreamIdentifier("123456789012:stream:1")
	require.NoError(t, err)
	assert.Equal(t, "123456789012:stream:1", multi.String())
	assert.Equal(t, "123456789012:stream:1:shardId-000000000000", multi.LeaseKey("shardId-000000000000"))

	name, err := kcl.StreamByName("stream")
	require.NoError(t, err)
	arn, err := kcl.StreamByName("arn:aws-cn:kinesis:cn-north-1:123456789012:stream/stream")
	require.NoError(t, err)
	for _, id := range []kcl.StreamIdentifier{name, arn} {
		assert.Equal(t, "stream", id.String())
		assert.Equal(t, "shardId-7", id.LeaseKey("shardId-7"))
	}
	assert.Equal(t, "cn-north-1", arn.Region())
	assert.Empty(t, name.Region())
	assert.False(t, name.Equal(arn), "one knows its account, the other does not")

	byARN, err := kcl.StreamByARN("arn:aws:kinesis:us-east-1:123456789012:stream/stream", 1)
	require.NoError(t, err)
	assert.True(t, byARN.Equal(multi), "the ARN is no part of the identity")
}

func TestSingleStream(t *testing.T) {
	for _, c := range []struct {
		name     string
		position kcl.InitialPosition
		fault    string
	}{
		{"", kcl.TrimHorizon, "empty"}, {"arn:aws:kinesis:nonsense", kcl.TrimHorizon, "ARN"},
		{"s", kcl.InitialPosition{}, "initial position"}, {"s", kcl.AtTimestamp(time.Time{}), "time"},
	} {
		_, err := kcl.SingleStream(c.name, c.position).Streams(t.Context())
		assert.ErrorContains(t, err, c.fault)
	}
	_, err := kcl.SingleStream("", kcl.InitialPosition{}).Streams(t.Context())
	assert.ErrorContains(t, err, "empty")
	assert.ErrorContains(t, err, "initial position", "both faults at once")
	when := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tracker := kcl.SingleStream("s", kcl.AtTimestamp(when))
	assert.False(t, tracker.MultiStream())
	got, err := tracker.Streams(t.Context())
	require.NoError(t, err)
	require.Len(t, got, 1)
	assert.Equal(t, when, got[0].Position.Timestamp())
	assert.Equal(t, kcl.AtTimestampSentinel, got[0].Position.Sentinel())
	assert.Equal(t, "AT_TIMESTAMP 2026-01-02T03:04:05Z", got[0].Position.String())
}

func TestFailedAt(t *testing.T) {
	cause := errors.New("no space")
	err := kcl.FailedAt(at("12", 3), cause)
	require.ErrorIs(t, err, cause)
	p, ok := kcl.FailurePosition(errors.Join(errors.New("other"), err))
	assert.True(t, ok)
	assert.Equal(t, at("12", 3), p)
	_, ok = kcl.FailurePosition(cause)
	assert.False(t, ok)
	assert.NoError(t, kcl.FailedAt(at("12"), nil))
}

func TestActions(t *testing.T) {
	d, ok := kcl.RetryAfter(time.Second).Delay()
	assert.True(t, ok)
	assert.Equal(t, time.Second, d)
	d, ok = kcl.RetryAfter(-time.Second).Delay()
	assert.True(t, ok)
	assert.Zero(t, d, "a negative delay is none")
	for want, a := range map[string]kcl.Action{
		"default": {}, "skip": kcl.Skip, "stop shard": kcl.StopShard, "stop worker": kcl.StopWorker, "retry after 1s": kcl.RetryAfter(time.Second),
	} {
		assert.Equal(t, want, a.String())
	}
	_, ok = kcl.Skip.Delay()
	assert.False(t, ok)
}

func TestCloneSharesNothing(t *testing.T) {
	data := []byte("abc")
	c := kcl.Record{Data: data}.Clone()
	data[0] = 'x'
	assert.Equal(t, "abc", string(c.Data))
}

func TestPreparedCommits(t *testing.T) {
	var committed bool
	p := kcl.NewPrepared(at("1"), func(context.Context) error { committed = true; return nil })
	require.NoError(t, p.Commit(t.Context()))
	assert.True(t, committed)
}

func FuzzParsePosition(f *testing.F) {
	f.Add("49546986683135544286507457936321625675700192471156785154:3")
	f.Add("SHARD_END")
	f.Fuzz(func(t *testing.T, s string) {
		p, err := kcl.ParsePosition(s)
		if err != nil {
			require.ErrorIs(t, err, kcl.ErrInvalidPosition)
			return
		}
		back, err := kcl.ParsePosition(p.String())
		require.NoError(t, err)
		require.Equal(t, p, back)
	})
}
