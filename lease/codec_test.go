package lease

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/entity"
	"github.com/go-kcl/kcl/internal/interchange"
)

// singleLease has every field set that a single-stream lease can have.
func singleLease() Lease {
	return Lease{
		Key: "shardId-000000000002", ShardID: "shardId-000000000002",
		Owner: "B", CheckpointOwner: "A", Counter: 42, OwnerSwitches: 3,
		Checkpoint:   kcl.Position{SequenceNumber: "49680703608781918548057079227748390711431008012854100002", SubSequenceNumber: 7},
		Pending:      kcl.Position{SequenceNumber: "49680703608781918548057079227748390711431008012854100003", SubSequenceNumber: 1},
		PendingState: []byte("state"),
		Parents:      []string{"shardId-000000000000", "shardId-000000000001"},
		Children:     []string{"shardId-000000000003", "shardId-000000000004"},
		HashRange:    hashRange("0", "340282366920938463463374607431768211455"),

		ThroughputKBps: 0.000923, HasThroughput: true,
	}
}

func multiLease() Lease {
	l := singleLease()
	l.Stream = "123456789012:orders:1700000000"
	l.Key = l.Stream + ":" + l.ShardID
	return l
}

func hashRange(start, end string) kcl.HashRange {
	r, err := kcl.ParseHashRange(start, end)
	if err != nil {
		panic(err)
	}
	return r
}

// singleItem is singleLease as it is stored.
func singleItem() item {
	return item{
		"leaseKey":                           &str{Value: "shardId-000000000002"},
		"entityType":                         &str{Value: "LEASE"},
		"leaseOwner":                         &str{Value: "B"},
		"leaseCounter":                       &number{Value: "42"},
		"ownerSwitchesSinceCheckpoint":       &number{Value: "3"},
		"checkpoint":                         &str{Value: "49680703608781918548057079227748390711431008012854100002"},
		"checkpointSubSequenceNumber":        &number{Value: "7"},
		"pendingCheckpoint":                  &str{Value: "49680703608781918548057079227748390711431008012854100003"},
		"pendingCheckpointSubSequenceNumber": &number{Value: "1"},
		"pendingCheckpointState":             &binary{Value: []byte("state")},
		"parentShardId":                      &stringSet{Value: []string{"shardId-000000000000", "shardId-000000000001"}},
		"childShardIds":                      &stringSet{Value: []string{"shardId-000000000003", "shardId-000000000004"}},
		"startingHashKey":                    &str{Value: "0"},
		"endingHashKey":                      &str{Value: "340282366920938463463374607431768211455"},
		"throughputKBps":                     &number{Value: "0.000923"},
		"checkpointOwner":                    &str{Value: "A"},
	}
}

func multiItem() item {
	it := singleItem()
	it["leaseKey"] = &str{Value: "123456789012:orders:1700000000:shardId-000000000002"}
	it["streamName"] = &str{Value: "123456789012:orders:1700000000"}
	it["shardId"] = &str{Value: "shardId-000000000002"}
	return it
}

// leases#1
func TestEncodeGivesExactlyTheAttributes(t *testing.T) {
	assert.Equal(t, singleItem(), encode(singleLease()))
	assert.Equal(t, multiItem(), encode(multiLease()))
	assert.Equal(t, item{
		"leaseKey":                     &str{Value: "shardId-000000000002"},
		"entityType":                   &str{Value: "LEASE"},
		"leaseCounter":                 &number{Value: "0"},
		"ownerSwitchesSinceCheckpoint": &number{Value: "0"},
		"checkpoint":                   &str{Value: "TRIM_HORIZON"},
		"checkpointSubSequenceNumber":  &number{Value: "0"},
	}, encode(Lease{Key: "shardId-000000000002", ShardID: "shardId-000000000002", Checkpoint: kcl.AtTrimHorizon}),
		"a new lease without options")
}

func TestEncodeSets(t *testing.T) {
	l := Lease{Key: "k", Parents: []string{"b", "a", "b"}}
	assert.Equal(t, &stringSet{Value: []string{"a", "b"}}, encode(l)[attrParents], "sorted, without the duplicate that DynamoDB refuses")
	assert.Equal(t, []string{"b", "a", "b"}, l.Parents, "the lease is left alone")
}

// leases#3
func TestRoundTrip(t *testing.T) {
	got, err := decode(encode(singleLease()), false)
	require.NoError(t, err)
	assert.Equal(t, singleLease(), got)

	got, err = decode(encode(multiLease()), true)
	require.NoError(t, err)
	assert.Equal(t, multiLease(), got)
	assert.Equal(t, got.Stream+":"+got.ShardID, got.Key)
}

// leases#2, single-table-migration#2
func TestKindsOfItems(t *testing.T) {
	for _, tc := range []struct {
		name  string
		kind  types.AttributeValue
		lease bool
	}{
		{"none, as written before 3.5", nil, true},
		{"LEASE", &str{Value: "LEASE"}, true},
		{"no string", &number{Value: "1"}, true},
		{"WORKER_METRIC_STATS", &str{Value: "WORKER_METRIC_STATS"}, false},
		{"STREAM", &str{Value: "STREAM"}, false},
		{"LEADER", &str{Value: "LEADER"}, false},
		{"CLIENT_VERSION_MIGRATION", &str{Value: "CLIENT_VERSION_MIGRATION"}, false},
		{"TABLE_MIGRATION", &str{Value: "TABLE_MIGRATION"}, false},
		{"SOME_FUTURE_TYPE", &str{Value: "SOME_FUTURE_TYPE"}, false},
		{"case matters", &str{Value: "Lease"}, false},
	} {
		for _, multi := range []bool{false, true} {
			it := singleItem()
			if multi {
				it = multiItem()
			}
			delete(it, entity.Attribute)
			if tc.kind != nil {
				it[entity.Attribute] = tc.kind
			}
			var snap Snapshot
			snap.add([]map[string]types.AttributeValue{it}, multi, func(key string, err error) {
				t.Errorf("%s, multi-stream %v: reported as unreadable: %v", tc.name, multi, err)
			})
			assert.Equal(t, tc.lease, len(snap.Leases) == 1, "%s, multi-stream %v", tc.name, multi)
			assert.Empty(t, snap.BadLeases)
			assert.Equal(t, !tc.lease && tc.name != "SOME_FUTURE_TYPE" && tc.name != "case matters", len(snap.Others) == 1,
				"%s, multi-stream %v: known kinds are handed on", tc.name, multi)
		}
	}
}

// leases#4
func TestDecodeRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change item // nil value: attribute removed
		multi  bool
		attr   string // named in the error
	}{
		{"no counter", item{attrCounter: nil}, false, attrCounter},
		{"counter a string", item{attrCounter: &str{Value: "1"}}, false, attrCounter},
		{"counter no integer", item{attrCounter: &number{Value: "1.5"}}, false, attrCounter},
		{"counter beyond int64", item{attrCounter: &number{Value: "9223372036854775808"}}, false, attrCounter},
		{"no owner switches", item{attrOwnerSwitches: nil}, false, attrOwnerSwitches},
		{"owner a number", item{attrOwner: &number{Value: "1"}}, false, attrOwner},
		{"checkpoint owner a number", item{attrCheckpointOwner: &number{Value: "1"}}, false, attrCheckpointOwner},
		{"checkpoint no position", item{attrCheckpoint: &str{Value: "here"}}, false, attrCheckpoint},
		{"checkpoint a number", item{attrCheckpoint: &number{Value: "1"}}, false, attrCheckpoint},
		{"sub-sequence number negative", item{attrCheckpointSub: &number{Value: "-1"}}, false, attrCheckpoint},
		{"sub-sequence number a string", item{attrCheckpointSub: &str{Value: "1"}}, false, attrCheckpointSub},
		{"pending checkpoint no position", item{attrPending: &str{Value: "-5"}}, false, attrPending},
		{"parents a string", item{attrParents: &str{Value: "p"}}, false, attrParents},
		{"children a list", item{attrChildren: &types.AttributeValueMemberL{}}, false, attrChildren},
		{"hash range upside down", item{attrHashStart: &str{Value: "10"}, attrHashEnd: &str{Value: "9"}}, false, attrHashStart},
		{"hash key no number", item{attrHashStart: &str{Value: "x"}}, false, attrHashStart},
		{"hash key beyond 2^128", item{attrHashEnd: &str{Value: "340282366920938463463374607431768211456"}}, false, attrHashStart},
		{"multi-stream: no stream", item{attrStream: nil}, true, attrStream},
		{"multi-stream: no shard", item{attrShardID: nil}, true, attrShardID},
		{"multi-stream: stream of the wrong form", item{attrStream: &str{Value: "orders"}}, true, attrStream},
	} {
		t.Run(tc.name, func(t *testing.T) {
			it := singleItem()
			if tc.multi {
				it = multiItem()
			}
			for attr, v := range tc.change {
				if it[attr] = v; v == nil {
					delete(it, attr)
				}
			}
			_, err := decode(it, tc.multi)
			require.Error(t, err)
			assert.Contains(t, err.Error(), "shardId-000000000002", "names the key")
			assert.Contains(t, err.Error(), "attribute "+tc.attr+":", "names the attribute")
		})
	}
	t.Run("only a key", func(t *testing.T) {
		_, err := decode(item{attrKey: &str{Value: "just-a-key"}}, false)
		require.Error(t, err)
		assert.Contains(t, err.Error(), `"just-a-key"`)
	})
	t.Run("single-stream lease in a multi-stream application", func(t *testing.T) {
		_, err := decode(singleItem(), true)
		require.Error(t, err)
	})
	t.Run("no key", func(t *testing.T) {
		_, err := decode(item{attrCounter: &number{Value: "1"}}, false)
		require.ErrorContains(t, err, attrKey)
	})
}

func TestDecodeTolerates(t *testing.T) {
	decoded := func(t *testing.T, change item) Lease {
		t.Helper()
		it := singleItem()
		for attr, v := range change {
			if it[attr] = v; v == nil {
				delete(it, attr)
			}
		}
		l, err := decode(it, false)
		require.NoError(t, err)
		return l
	}
	t.Run("a pending state that is a number, as KCL creates it", func(t *testing.T) {
		l := decoded(t, item{attrPendingState: &number{Value: "5"}})
		assert.Nil(t, l.PendingState)
		assert.Equal(t, singleLease().Pending, l.Pending)
	})
	t.Run("no checkpoint", func(t *testing.T) {
		assert.True(t, decoded(t, item{attrCheckpoint: nil}).Checkpoint.IsZero())
		assert.True(t, decoded(t, item{attrCheckpoint: &str{}}).Checkpoint.IsZero(), "empty")
	})
	t.Run("no sub-sequence number reads as 0", func(t *testing.T) {
		assert.Zero(t, decoded(t, item{attrCheckpointSub: nil}).Checkpoint.SubSequenceNumber)
	})
	t.Run("half a hash range is none", func(t *testing.T) {
		assert.True(t, decoded(t, item{attrHashStart: nil}).HashRange.IsZero())
		assert.True(t, decoded(t, item{attrHashEnd: &str{}}).HashRange.IsZero())
	})
	t.Run("a shard of one hash key", func(t *testing.T) {
		l := decoded(t, item{attrHashStart: &str{Value: "5"}, attrHashEnd: &str{Value: "5"}})
		assert.Equal(t, hashRange("5", "5"), l.HashRange)
		assert.NotContains(t, encode(l), attrHashStart, "not written: a Java worker could not read it")
		assert.NotContains(t, encode(l), attrHashEnd)
	})
	t.Run("a throughput that is none", func(t *testing.T) {
		assert.False(t, decoded(t, item{attrThroughput: &str{Value: "fast"}}).HasThroughput)
		assert.False(t, decoded(t, item{attrThroughput: &number{Value: "x"}}).HasThroughput)
	})
	t.Run("Java's exponent form", func(t *testing.T) {
		assert.InDelta(t, 9.23e-4, decoded(t, item{attrThroughput: &number{Value: "9.23E-4"}}).ThroughputKBps, 1e-12)
	})
	t.Run("attributes of a later version", func(t *testing.T) {
		assert.Equal(t, singleLease(), decoded(t, item{"another": &types.AttributeValueMemberNULL{Value: true}}))
	})
	t.Run("a set has no order", func(t *testing.T) {
		l := decoded(t, item{attrChildren: &stringSet{Value: []string{"b", "a"}}})
		assert.Equal(t, []string{"a", "b"}, l.Children)
	})
}

// leases#27
func TestThroughputOnTheWire(t *testing.T) {
	for _, tc := range []struct {
		in   float64
		want string // empty: not sent
	}{
		{0, "0"},
		{1e-131, "0"},
		{5e-324, "0"},
		{4.9e-7, "0"},
		{5e-7, "0.000001"},
		{0.0078125, "0.007813"}, // exactly half way: up
		{0.000923, "0.000923"},
		{1.0 / 3, "0.333333"},
		{85, "85"},
		{1999999.123213123, "1999999.123213"},
		{1e20, "100000000000000000000"},
		{math.NaN(), ""},
		{math.Inf(1), ""},
		{math.Inf(-1), ""},
		{-1, ""},
		{1e126, ""},
		{math.MaxFloat64, ""},
	} {
		v := throughputValue(Lease{ThroughputKBps: tc.in, HasThroughput: true})
		if tc.want == "" {
			assert.Nil(t, v, "%v", tc.in)
			continue
		}
		assert.Equal(t, &number{Value: tc.want}, v, "%v", tc.in)
	}
	assert.Nil(t, throughputValue(Lease{ThroughputKBps: 1}), "not known")
}

// Every lease that Java wrote is read, and written back as it was.
func TestGoldenLeases(t *testing.T) {
	leases, multi, pending, subs := 0, 0, 0, 0
	for _, g := range interchange.Items(t) {
		want, name := g.Attributes, g.State+" "+keyOf(g.Attributes)
		if keyOf(want) == "" || want[attrCounter] == nil {
			continue
		}
		leases++
		require.Equal(t, entity.Lease, entity.Of(want), name)
		multiStream := want[attrStream] != nil
		l, err := decode(want, multiStream)
		require.NoError(t, err, name)

		want[entity.Attribute] = entity.Lease.Attr() // which KCL before 3.5 did not write
		// Numbers are equal if their values are.
		if n, ok := want[attrThroughput].(*number); ok {
			want[attrThroughput] = plain(t, n.Value)
		}
		assert.Equal(t, want, encode(l), name)

		if multiStream {
			multi++
		}
		if !l.Pending.IsZero() {
			pending++
		}
		if l.Checkpoint.SubSequenceNumber > 0 {
			subs++
		}
	}
	assert.Equal(t, 40, leases)
	assert.Positive(t, multi, "multi-stream leases seen")
	assert.Positive(t, pending, "pending checkpoints seen")
	assert.Positive(t, subs, "sub-sequence numbers seen")
}

func plain(t *testing.T, s string) *number {
	t.Helper()
	var f float64
	require.NoError(t, json.Unmarshal([]byte(s), &f))
	return throughputValue(Lease{ThroughputKBps: f, HasThroughput: true}).(*number)
}

// FuzzDecode: no item makes decode panic, an error names the key, and what is
// read is written and read again unchanged.
func FuzzDecode(f *testing.F) {
	f.Add("shardId-000000000000", "A", "", "1", "0", "TRIM_HORIZON", "0", "", "", "0", "9", "0.5", "", uint8(0))
	f.Add("k", "", "B", "9223372036854775807", "-1", "SHARD_END", "", "5", "x", "5", "5", "1E-6", "1:a:1", uint8(3))
	f.Add("", "", "", "", "", "", "", "", "", "", "", "", "", uint8(255))
	f.Add("k", "A", "A", "1", "1", "00", "-1", "LATEST", "2", "1", "", "NaN", "1:s:0", uint8(16))
	f.Fuzz(func(t *testing.T, key, owner, cpOwner, counter, switches, seq, sub, pending, pendingSub, start, end, kbps, stream string, kinds uint8) {
		it := item{}
		put := func(attr, v string, n bool, bit uint8) {
			if kinds&bit != 0 {
				n = !n // the wrong type
			}
			switch {
			case v == "" && !n:
			case n:
				it[attr] = &number{Value: v}
			default:
				it[attr] = &str{Value: v}
			}
		}
		put(attrKey, key, false, 1)
		put(attrOwner, owner, false, 2)
		put(attrCheckpointOwner, cpOwner, false, 4)
		put(attrCounter, counter, true, 8)
		put(attrOwnerSwitches, switches, true, 16)
		put(attrCheckpoint, seq, false, 32)
		put(attrCheckpointSub, sub, true, 64)
		put(attrPending, pending, false, 128)
		put(attrPendingSub, pendingSub, true, 0)
		put(attrHashStart, start, false, 0)
		put(attrHashEnd, end, false, 0)
		put(attrThroughput, kbps, true, 0)
		put(attrStream, stream, false, 0)
		put(attrShardID, key, false, 0)

		multi := stream != ""
		l, err := decode(it, multi)
		if err != nil {
			if k := keyOf(it); !strings.Contains(err.Error(), strconv.Quote(k)) {
				t.Fatalf("error %q does not name key %q", err, k)
			}
			return
		}
		back, err := decode(encode(l), multi)
		if err != nil {
			t.Fatalf("%+v does not survive: %v", l, err)
		}
		if l.HashRange.Start == l.HashRange.End {
			l.HashRange = kcl.HashRange{} // never written
		}
		if l.HasThroughput = throughputValue(l) != nil; l.HasThroughput {
			l.ThroughputKBps = back.ThroughputKBps // rounded
		} else {
			l.ThroughputKBps = 0
		}
		assert.Equal(t, l, back)
	})
}

func BenchmarkDecode(b *testing.B) {
	it := singleItem()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decode(it, false); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	l := singleLease()
	b.ReportAllocs()
	for b.Loop() {
		encode(l)
	}
}
