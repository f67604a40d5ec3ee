package conformance

import (
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

var shardCases = []kase{
	{name: "kinesis/shards/pages", run: shardPages},
	{name: "kinesis/shards/a thousand", run: thousandShards},
	{name: "kinesis/shards/refused lists", run: shardListsRefused},
	{name: "kinesis/shards/token's life", run: shardTokenLife, hours: true},
	{name: "kinesis/shards/filters", run: shardFilters},
	{name: "kinesis/shards/filters over two days", run: shardFiltersOverDays, hours: true},
	{name: "kinesis/shards/expiry", run: shardExpiry, hours: true},
}

func shardPages(t *T) {
	name := t.stream(5)
	for _, size := range []int32{1, 2, 4, 5, 6, 1000, 10_000} {
		t.Run(fmt.Sprint(size, " a page"), func(t *T) {
			var all []types.Shard
			pages := 0
			in := &kinesis.ListShardsInput{StreamName: name, MaxResults: &size}
			for range 10 {
				out, err := t.kinesis.ListShards(t.ctx, in)
				t.OK(err)
				t.True(len(out.Shards) <= int(size), "a page holds no more than asked for")
				all, pages = append(all, out.Shards...), pages+1
				if out.NextToken == nil {
					break
				}
				in = &kinesis.ListShardsInput{NextToken: out.NextToken, MaxResults: &size}
			}
			t.Equal("0 1 2 3 4", numbers(all))
			t.Equal((5+int(size)-1)/int(size), pages, "pages")
		})
	}
	t.Run("after a shard", func(t *T) {
		out, err := t.kinesis.ListShards(t.ctx, &kinesis.ListShardsInput{StreamName: name, ExclusiveStartShardId: shardID(2)})
		t.OK(err)
		t.Equal("3 4", numbers(out.Shards))
	})
	t.Run("after a shard, in pages", func(t *T) {
		out, err := t.kinesis.ListShards(t.ctx, &kinesis.ListShardsInput{StreamName: name, ExclusiveStartShardId: shardID(1), MaxResults: aws.Int32(2)})
		t.OK(err)
		t.Equal("2 3", numbers(out.Shards))
		t.True(out.NextToken != nil, "token")
		out, err = t.kinesis.ListShards(t.ctx, &kinesis.ListShardsInput{NextToken: out.NextToken})
		t.OK(err)
		t.Equal("4", numbers(out.Shards))
	})
	t.Run("pages keep the filter", func(t *T) {
		t.split(name, 0)
		var all []types.Shard
		in := &kinesis.ListShardsInput{StreamName: name, MaxResults: aws.Int32(2), ShardFilter: &types.ShardFilter{Type: types.ShardFilterTypeAtLatest}}
		for range 10 {
			out, err := t.kinesis.ListShards(t.ctx, in)
			t.OK(err)
			all = append(all, out.Shards...)
			if out.NextToken == nil {
				break
			}
			in = &kinesis.ListShardsInput{NextToken: out.NextToken, MaxResults: aws.Int32(2)}
		}
		t.Equal("1 2 3 4 5 6", numbers(all))
	})
}

// A page holds a thousand shards, one of DescribeStream a hundred, whatever is
// asked for.
func thousandShards(t *T) {
	name := t.stream(1001)
	for _, size := range []*int32{nil, aws.Int32(10_000)} {
		t.Run(fmt.Sprint("ListShards ", aws.ToInt32(size)), func(t *T) {
			out, err := t.kinesis.ListShards(t.ctx, &kinesis.ListShardsInput{StreamName: name, MaxResults: size})
			t.OK(err)
			t.Equal(1000, len(out.Shards))
			t.True(out.NextToken != nil, "token")
		})
		t.Run(fmt.Sprint("DescribeStream ", aws.ToInt32(size)), func(t *T) {
			out, err := t.kinesis.DescribeStream(t.ctx, &kinesis.DescribeStreamInput{StreamName: name, Limit: size})
			t.OK(err)
			t.Equal(100, len(out.StreamDescription.Shards))
			t.True(aws.ToBool(out.StreamDescription.HasMoreShards), "more")
		})
	}
	t.Run("all", func(t *T) { t.Equal(1001, len(t.shards(name, nil))) })
}

func shardListsRefused(t *T) {
	name := t.stream(3)
	out, err := t.kinesis.ListShards(t.ctx, &kinesis.ListShardsInput{StreamName: name, MaxResults: aws.Int32(1)})
	t.OK(err)
	token := out.NextToken
	created := t.summary(name).StreamCreationTimestamp
	rows := map[string]struct {
		code string
		in   kinesis.ListShardsInput
	}{
		"nothing":            {"InvalidArgumentException", kinesis.ListShardsInput{}},
		"token and name":     {"InvalidArgumentException", kinesis.ListShardsInput{NextToken: token, StreamName: name}},
		"token and ARN":      {"InvalidArgumentException", kinesis.ListShardsInput{NextToken: token, StreamARN: streamARN(name)}},
		"token and filter":   {"InvalidArgumentException", kinesis.ListShardsInput{NextToken: token, ShardFilter: &types.ShardFilter{Type: types.ShardFilterTypeAtLatest}}},
		"token and start":    {"InvalidArgumentException", kinesis.ListShardsInput{NextToken: token, ExclusiveStartShardId: shardID(0)}},
		"token and creation": {"InvalidArgumentException", kinesis.ListShardsInput{NextToken: token, StreamCreationTimestamp: created}},
		"none a page":        {"ValidationException", kinesis.ListShardsInput{StreamName: name, MaxResults: aws.Int32(0)}},
		"10001 a page":       {"ValidationException", kinesis.ListShardsInput{StreamName: name, MaxResults: aws.Int32(10_001)}},
		"unknown filter":     {"ValidationException", kinesis.ListShardsInput{StreamName: name, ShardFilter: &types.ShardFilter{Type: "SOME"}}},
	}
	for label, row := range sorted(rows) {
		t.Run(label, func(t *T) {
			_, err := t.kinesis.ListShards(t.ctx, &row.in)
			t.Refused(row.code, err)
		})
	}
	t.Run("an incarnation that was not", func(t *T) { // with which code is not known
		_, err := t.kinesis.ListShards(t.ctx, &kinesis.ListShardsInput{StreamName: name, StreamCreationTimestamp: aws.Time(created.Add(-time.Hour))})
		t.True(err != nil, "refused")
	})
	t.Run("the token still works", func(t *T) {
		out, err := t.kinesis.ListShards(t.ctx, &kinesis.ListShardsInput{NextToken: token})
		t.OK(err)
		t.Equal("1 2", numbers(out.Shards))
	})
	t.Run("the incarnation that is", func(t *T) {
		out, err := t.kinesis.ListShards(t.ctx, &kinesis.ListShardsInput{StreamName: name, StreamCreationTimestamp: created})
		t.OK(err)
		t.Equal("0 1 2", numbers(out.Shards))
	})
}

func shardTokenLife(t *T) {
	name := t.stream(3)
	out, err := t.kinesis.ListShards(t.ctx, &kinesis.ListShardsInput{StreamName: name, MaxResults: aws.Int32(1)})
	t.OK(err)
	next := func() error {
		_, err := t.kinesis.ListShards(t.ctx, &kinesis.ListShardsInput{NextToken: out.NextToken})
		return err
	}
	time.Sleep(299 * time.Second)
	t.OK(next(), "after 299 s")
	time.Sleep(2 * time.Second)
	t.Refused("ExpiredNextTokenException", next(), "after 301 s")
}

// Shards 0 and 1; 0 is split into 2 and 3; 3 and 1 are merged into 4.
func shardFilters(t *T) {
	name := t.stream(2)
	// Times of shards are whole seconds, so moments to ask about lie seconds apart.
	moment := func() time.Time {
		time.Sleep(2 * time.Second)
		defer time.Sleep(2 * time.Second)
		return time.Now()
	}
	beforeSplit := moment()
	t.split(name, 0)
	beforeMerge := moment()
	t.merge(name, 3, 1)
	after := moment()
	rows := map[string]struct {
		filter types.ShardFilter
		want   string
	}{
		"FROM_TRIM_HORIZON":                {types.ShardFilter{Type: types.ShardFilterTypeFromTrimHorizon}, "0 1 2 3 4"},
		"AT_TRIM_HORIZON":                  {types.ShardFilter{Type: types.ShardFilterTypeAtTrimHorizon}, "0 1"},
		"AT_LATEST":                        {types.ShardFilter{Type: types.ShardFilterTypeAtLatest}, "2 4"},
		"AT_TIMESTAMP before the split":    {types.ShardFilter{Type: types.ShardFilterTypeAtTimestamp, Timestamp: &beforeSplit}, "0 1"},
		"AT_TIMESTAMP before the merge":    {types.ShardFilter{Type: types.ShardFilterTypeAtTimestamp, Timestamp: &beforeMerge}, "1 2 3"},
		"AT_TIMESTAMP now":                 {types.ShardFilter{Type: types.ShardFilterTypeAtTimestamp, Timestamp: &after}, "2 4"},
		"FROM_TIMESTAMP before the split":  {types.ShardFilter{Type: types.ShardFilterTypeFromTimestamp, Timestamp: &beforeSplit}, "0 1 2 3 4"},
		"FROM_TIMESTAMP before the merge":  {types.ShardFilter{Type: types.ShardFilterTypeFromTimestamp, Timestamp: &beforeMerge}, "1 2 3 4"},
		"FROM_TIMESTAMP now":               {types.ShardFilter{Type: types.ShardFilterTypeFromTimestamp, Timestamp: &after}, "2 4"},
		"FROM_TIMESTAMP before the stream": {types.ShardFilter{Type: types.ShardFilterTypeFromTimestamp, Timestamp: aws.Time(beforeSplit.Add(-time.Hour))}, "0 1 2 3 4"},
		"AFTER_SHARD_ID":                   {types.ShardFilter{Type: types.ShardFilterTypeAfterShardId, ShardId: shardID(1)}, "2 3 4"},
		"AFTER_SHARD_ID of the last":       {types.ShardFilter{Type: types.ShardFilterTypeAfterShardId, ShardId: shardID(4)}, ""},
	}
	t.Run("none", func(t *T) { t.Equal("0 1 2 3 4", numbers(t.shards(name, nil))) })
	for label, row := range sorted(rows) {
		t.Run(label, func(t *T) { t.Equal(row.want, numbers(t.shards(name, &row.filter))) })
	}
}

// The worked example of a stream that is split at 10 h, merged at 20 h and split
// at 30 h, kept for a day.
func shardFiltersOverDays(t *T) {
	name := t.stream(2)
	t0 := *t.summary(name).StreamCreationTimestamp
	until := func(d time.Duration) { time.Sleep(time.Until(t0.Add(d))) }
	at := func(d time.Duration) *time.Time { return aws.Time(t0.Add(d)) }
	list := func(want string, kind types.ShardFilterType, set func(*types.ShardFilter)) {
		filter := &types.ShardFilter{Type: kind}
		if set != nil {
			set(filter)
		}
		t.Equal(want, numbers(t.shards(name, filter)), time.Since(t0).Truncate(time.Hour), " ", kind)
	}
	both := func(atHorizon, all string) {
		list(atHorizon, types.ShardFilterTypeAtTrimHorizon, nil)
		list(all, types.ShardFilterTypeFromTrimHorizon, nil)
		t.Equal(all, numbers(t.shards(name, nil)), time.Since(t0).Truncate(time.Hour), " none")
	}
	until(10 * time.Hour)
	t.split(name, 0) // 2, 3
	until(12 * time.Hour)
	both("0 1", "0 1 2 3")
	until(20 * time.Hour)
	t.merge(name, 3, 1) // 4
	until(30 * time.Hour)
	t.split(name, 2) // 5, 6
	until(40 * time.Hour)
	both("1 2 3", "1 2 3 4 5 6")
	list("4 5 6", types.ShardFilterTypeAtLatest, nil)
	for at18, want := range map[*time.Time]string{at(18 * time.Hour): "1 2 3", at(25 * time.Hour): "2 4", at(35 * time.Hour): "4 5 6"} {
		list(want, types.ShardFilterTypeAtTimestamp, func(f *types.ShardFilter) { f.Timestamp = at18 })
	}
	for from, want := range map[*time.Time]string{at(25 * time.Hour): "2 4 5 6", at(10 * time.Hour): "1 2 3 4 5 6"} {
		list(want, types.ShardFilterTypeFromTimestamp, func(f *types.ShardFilter) { f.Timestamp = from })
	}
	for id, want := range map[int]string{2: "3 4 5 6", 0: "1 2 3 4 5 6", 6: ""} {
		list(want, types.ShardFilterTypeAfterShardId, func(f *types.ShardFilter) { f.ShardId = shardID(id) })
	}
	until(45 * time.Hour)
	both("2 4", "2 4 5 6")
	until(55 * time.Hour)
	both("4 5 6", "4 5 6")
}

// A closed shard can be read until its retention is over, and then is unknown.
func shardExpiry(t *T) {
	name := t.stream(1)
	t.putTo(name, "0", "one")
	t.split(name, 0)
	time.Sleep(23*time.Hour + 30*time.Minute)
	t.Run("before", func(t *T) {
		t.Equal("0 1 2", numbers(t.shards(name, nil)))
		texts, last := t.drain(t.iterator(name, 0, types.ShardIteratorTypeTrimHorizon), -1)
		t.Equal([]string{"one"}, texts)
		t.Equal(2, len(last.ChildShards), "children")
	})
	time.Sleep(time.Hour)
	t.Run("after", func(t *T) {
		all := t.shards(name, nil)
		t.Equal("1 2", numbers(all))
		t.Equal(*shardID(0), aws.ToString(all[0].ParentShardId), "the child still names it")
		_, err := t.kinesis.GetShardIterator(t.ctx, &kinesis.GetShardIteratorInput{StreamName: name, ShardId: shardID(0), ShardIteratorType: types.ShardIteratorTypeTrimHorizon})
		t.Refused("ResourceNotFoundException", err)
	})
	t.Run("its number is not used again", func(t *T) {
		t.split(name, 1)
		t.Equal("1 2 3 4", numbers(t.shards(name, nil)))
	})
}
