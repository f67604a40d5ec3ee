package kinesis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// family is a stream whose shard 0 was split at 10 h into 2 and 3, whose shards 3
// and 1 were merged at 20 h into 4, and whose shard 2 was split at 30 h into 5
// and 6; up to the time it is at.
func family(t *testing.T, cfg Config, at time.Duration, run func(t *testing.T, w *world)) {
	t.Helper()
	bubble(t, cfg, func(t *testing.T, w *world) {
		w.create("s", 2)
		for _, step := range []struct {
			done time.Duration
			do   func()
		}{
			{10 * time.Hour, func() { w.split("s", 0) }},
			{20 * time.Hour, func() { w.merge("s", 3, 1) }},
			{30 * time.Hour, func() { w.split("s", 2) }},
		} {
			if step.done < at {
				sleepUntil(step.done - time.Second)
				step.do()
			}
		}
		sleepUntil(at)
		run(t, w)
	})
}

// aws-kinesis#27
func TestFilters(t *testing.T) {
	const h = time.Hour
	kind := func(name string) m { return m{"Type": name} }
	at := func(d time.Duration) m { return m{"Type": "AT_TIMESTAMP", "Timestamp": after0(d)} }
	from := func(d time.Duration) m { return m{"Type": "FROM_TIMESTAMP", "Timestamp": after0(d)} }
	afterID := func(n uint32) m { return m{"Type": "AFTER_SHARD_ID", "ShardId": shardID(n)} }
	fill := Config{FillReshardGap: true}
	for _, c := range []struct {
		at     time.Duration
		cfg    Config
		filter m
		want   []int
	}{
		{at: 40 * h, filter: nil, want: []int{1, 2, 3, 4, 5, 6}},
		{at: 40 * h, filter: kind("FROM_TRIM_HORIZON"), want: []int{1, 2, 3, 4, 5, 6}},
		{at: 40 * h, filter: kind("AT_TRIM_HORIZON"), want: []int{1, 2, 3}},
		{at: 40 * h, filter: kind("AT_LATEST"), want: []int{4, 5, 6}},
		{at: 40 * h, filter: at(18 * h), want: []int{1, 2, 3}},
		{at: 40 * h, filter: at(25 * h), want: []int{2, 4}},
		{at: 40 * h, filter: at(35 * h), want: []int{4, 5, 6}},
		{at: 40 * h, filter: at(20 * h), want: []int{1, 2, 3}},
		{at: 40 * h, filter: at(20*h + 500*time.Millisecond), want: []int{2}},
		{at: 40 * h, cfg: fill, filter: at(20*h + 500*time.Millisecond), want: []int{1, 2, 3}},
		{at: 40 * h, filter: at(20*h + time.Second), want: []int{2, 4}},
		{at: 40 * h, cfg: fill, filter: at(20*h + time.Second), want: []int{2, 4}},
		{at: 40 * h, filter: from(25 * h), want: []int{2, 4, 5, 6}},
		{at: 40 * h, filter: from(10 * h), want: []int{1, 2, 3, 4, 5, 6}},
		{at: 40 * h, filter: afterID(2), want: []int{3, 4, 5, 6}},
		{at: 40 * h, filter: afterID(0), want: []int{1, 2, 3, 4, 5, 6}},
		{at: 40 * h, filter: afterID(6), want: []int{}},
		{at: 12 * h, filter: kind("AT_TRIM_HORIZON"), want: []int{0, 1}},
		{at: 12 * h, filter: nil, want: []int{0, 1, 2, 3}},
		{at: 45 * h, filter: nil, want: []int{2, 4, 5, 6}},
		{at: 45 * h, filter: kind("AT_TRIM_HORIZON"), want: []int{2, 4}},
		{at: 55 * h, filter: nil, want: []int{4, 5, 6}},
		{at: 55 * h, filter: kind("AT_TRIM_HORIZON"), want: []int{4, 5, 6}},

		// Beyond the table: the horizon within the second between parents and
		// children, times without a documented correction, both sides of a bound.
		{at: 34*h + 500*time.Millisecond, filter: kind("AT_TRIM_HORIZON"), want: []int{0, 1}},
		{at: 44*h + 500*time.Millisecond, filter: from(5 * h), want: []int{2, 4, 5, 6}},
		{at: 44*h + 500*time.Millisecond, cfg: fill, filter: from(5 * h), want: []int{1, 2, 3, 4, 5, 6}},
		{at: 34*h + 999*time.Millisecond, filter: nil, want: []int{0, 1, 2, 3, 4, 5, 6}},
		{at: 34*h + time.Second, filter: kind("AT_TRIM_HORIZON"), want: []int{1, 2, 3}},
		{at: 34*h + time.Second, filter: nil, want: []int{1, 2, 3, 4, 5, 6}},
		{at: 40 * h, filter: at(100 * h), want: []int{4, 5, 6}},
		{at: 40 * h, filter: at(5 * h), want: []int{1}},
		{at: 40 * h, filter: at(-time.Minute), want: []int{}},
		{at: 40 * h, filter: from(20 * h), want: []int{1, 2, 3, 4, 5, 6}},
		{at: 40 * h, filter: from(20*h + time.Millisecond), want: []int{2, 4, 5, 6}},
		{at: 40 * h, cfg: fill, filter: from(20*h + time.Millisecond), want: []int{1, 2, 3, 4, 5, 6}},
		{at: 40 * h, filter: from(100 * h), want: []int{4, 5, 6}},
	} {
		t.Run(fmt.Sprintf("%v %v %v", c.at, c.filter, c.cfg.FillReshardGap), func(t *testing.T) {
			family(t, c.cfg, c.at, func(t *testing.T, w *world) {
				assert.Equal(t, c.want, w.numbers("s", c.filter))
			})
		})
	}
	family(t, Config{}, 45*h, func(t *testing.T, w *world) {
		four := w.shardOf("s", 4)
		assert.Equal(t, [2]string{shardID(3), shardID(1)}, [2]string{four.ParentShardId, four.AdjacentParentShardId})
	})
	family(t, Config{RefuseEarlyTimestamp: true}, 40*h, func(t *testing.T, w *world) {
		assert.Equal(t, []int{1, 2, 3}, w.numbers("s", at(16*h)))
		r := w.refused("ListShards", m{"StreamName": "s", "ShardFilter": at(16*h - time.Millisecond)})
		assert.Equal(t, "InvalidArgumentException", r.Code)
		assert.Equal(t, []int{1, 2, 3, 4, 5, 6}, w.numbers("s", from(5*h)))
	})
}

func TestFilterMembers(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 3)
		for _, filter := range []m{
			{"Type": "AT_TIMESTAMP"}, {"Type": "FROM_TIMESTAMP"}, {"Type": "AFTER_SHARD_ID"},
			{"Type": "AT_LATEST", "Timestamp": 1}, {"Type": "AT_LATEST", "ShardId": "shardId-000000000000"},
			{"Type": "AT_TIMESTAMP", "Timestamp": 1, "ShardId": "shardId-000000000000"},
			{"Type": "AFTER_SHARD_ID", "Timestamp": 1, "ShardId": "shardId-000000000000"},
		} {
			assert.Equal(t, "InvalidArgumentException", w.refused("ListShards", m{"StreamName": "s", "ShardFilter": filter}).Code, filter)
		}
		both := m{"StreamName": "s", "ExclusiveStartShardId": shardID(1), "ShardFilter": m{"Type": "AT_LATEST"}}
		assert.Equal(t, []int{2}, numbersOf(t, get[listShardsOutput](w, "ListShards", both).Shards))
		assert.Equal(t, bad("ResourceNotFoundException", "Could not find shard shardId-x in stream s under account 012345678901."),
			w.refused("ListShards", m{"StreamName": "s", "ExclusiveStartShardId": "shardId-x"}))
	})
}

// aws-kinesis#12: ListShards' half.
func TestListShardsPages(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 2500)
		for _, c := range []struct {
			in   m
			want []int // sizes of the pages
		}{
			{m{}, []int{1000, 1000, 500}},
			{m{"MaxResults": 10_000}, []int{1000, 1000, 500}},
			{m{"MaxResults": 900}, []int{900, 900, 700}},
			{m{"ExclusiveStartShardId": shardID(1499)}, []int{1000}},
			{m{"ShardFilter": m{"Type": "AT_LATEST"}}, []int{1000, 1000, 500}},
		} {
			c.in["StreamName"] = "s"
			pageSize := c.in["MaxResults"]
			var sizes, all []int
			for in := c.in; in != nil; {
				out := get[listShardsOutput](w, "ListShards", in)
				sizes = append(sizes, len(out.Shards))
				all = append(all, numbersOf(t, out.Shards)...)
				in = nil
				if out.NextToken != "" {
					in = m{"NextToken": out.NextToken}
					if pageSize != nil {
						in["MaxResults"] = pageSize
					}
				}
			}
			assert.Equal(t, c.want, sizes, c.in)
			for i := range all {
				require.Equal(t, all[0]+i, all[i])
			}
			require.Equal(t, 2499, all[len(all)-1])
		}
	})
}

// aws-kinesis#28
func TestNextTokenStandsAlone(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 3)
		token := get[listShardsOutput](w, "ListShards", m{"StreamName": "s", "MaxResults": 1}).NextToken
		others := m{
			"StreamName": "s", "StreamARN": testARN + "s", "ShardFilter": m{"Type": "AT_LATEST"},
			"ExclusiveStartShardId": shardID(0), "StreamCreationTimestamp": after0(0),
		}
		for name, value := range others {
			assert.Equal(t, bad("InvalidArgumentException", "NextToken and "+name+" cannot be provided together."),
				w.refused("ListShards", m{"NextToken": token, name: value}))
		}
		assert.Equal(t, []int{1}, numbersOf(t, get[listShardsOutput](w, "ListShards", m{"NextToken": token, "MaxResults": 1}).Shards))
		assert.Equal(t, []int{1, 2}, numbersOf(t, get[listShardsOutput](w, "ListShards", m{"NextToken": token}).Shards))

		assert.Equal(t, bad("InvalidArgumentException", "Either NextToken or StreamName should be provided."), w.refused("ListShards", m{}))
		for _, garbage := range []string{"x", token[:len(token)-4], strings.ToLower(token), w.iterator("s", 0, "LATEST", nil)} {
			assert.Equal(t, "InvalidArgumentException", w.refused("ListShards", m{"NextToken": garbage}).Code)
		}
	})
}

// aws-kinesis#29,57: tokens carry the filter and live for 300,000 ms.
func TestNextTokenAgesAndFilters(t *testing.T) {
	family(t, Config{}, 40*time.Hour, func(t *testing.T, w *world) {
		first := get[listShardsOutput](w, "ListShards", m{"StreamName": "s", "MaxResults": 1, "ShardFilter": m{"Type": "AT_TRIM_HORIZON"}})
		assert.Equal(t, []int{1}, numbersOf(t, first.Shards))
		time.Sleep(299 * time.Second)
		second := get[listShardsOutput](w, "ListShards", m{"NextToken": first.NextToken, "MaxResults": 1})
		assert.Equal(t, []int{2}, numbersOf(t, second.Shards))
		third := get[listShardsOutput](w, "ListShards", m{"NextToken": second.NextToken})
		assert.Equal(t, []int{3}, numbersOf(t, third.Shards), "without the filter 4, 5 and 6 would follow")
		assert.Empty(t, third.NextToken)

		time.Sleep(time.Second)
		w.do("ListShards", m{"NextToken": first.NextToken})
		time.Sleep(time.Millisecond)
		assert.Equal(t, "ExpiredNextTokenException", w.refused("ListShards", m{"NextToken": first.NextToken}).Code)
		w.do("ListShards", m{"NextToken": second.NextToken})

		at := get[listShardsOutput](w, "ListShards", m{"StreamName": "s", "MaxResults": 1,
			"ShardFilter": m{"Type": "AT_TIMESTAMP", "Timestamp": after0(25 * time.Hour)}})
		assert.Equal(t, []int{4}, numbersOf(t, get[listShardsOutput](w, "ListShards", m{"NextToken": at.NextToken}).Shards))
	})
}

// Each page is of its own time: a reshard may fall between two.
func TestPagesAreNoSnapshot(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 2)
		w.split("s", 0)
		first := get[listShardsOutput](w, "ListShards", m{"StreamName": "s", "MaxResults": 1})
		assert.Empty(t, first.Shards[0].SequenceNumberRange.EndingSequenceNumber)
		w.awaitActive("s")
		assert.Equal(t, []int{1, 2, 3}, numbersOf(t, get[listShardsOutput](w, "ListShards", m{"NextToken": first.NextToken}).Shards))

		w.do("DeleteStream", m{"StreamName": "s"})
		sleepUntil(10 * time.Second)
		w.create("s", 9)
		assert.Equal(t, "ResourceNotFoundException", w.refused("ListShards", m{"NextToken": first.NextToken}).Code, "a token is of one stream")
	})
}

// aws-kinesis#30
func TestListShardsRate(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 1)
		w.create("t", 1)
		for range 1000 {
			w.do("ListShards", m{"StreamName": "s"})
		}
		assert.Equal(t, bad("LimitExceededException", "Rate exceeded for stream s under account 012345678901."),
			w.refused("ListShards", m{"StreamName": "s"}))
		for range 1000 {
			w.do("ListShards", m{"StreamName": "t"})
		}
		time.Sleep(time.Second)
		w.do("ListShards", m{"StreamName": "s"})
	})
}
