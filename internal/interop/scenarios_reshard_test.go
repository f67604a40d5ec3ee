//go:build interop

package interop

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/require"
)

// flowing says that every open shard has delivered a record.
func (f *fleet) flowing() bool {
	shards := map[string]bool{}
	for _, e := range f.seen() {
		if e.Event == "record" {
			shards[e.Shard] = true
		}
	}
	for _, s := range f.open() {
		if !shards[*s.ShardId] {
			return false
		}
	}
	return true
}

// said reports whether the worker has told that event of the shard.
func (f *fleet) said(worker, what, shard string) bool {
	for _, e := range f.seen() {
		if e.Worker == worker && e.Event == what && e.Shard == shard {
			return true
		}
	}
	return false
}

// TestReshard merges, splits and updates the shard count while parents and
// children are on different sides.
func TestReshard(t *testing.T) {
	f := newFleet(t, 2)
	f.produce(12)
	f.run("go-1")
	f.until(30*time.Second, "go-1 leads a fresh application and delivers", func() bool { return f.leader() == "go-1" && f.delivered("go-1") > 0 })
	f.loads.set(60, "go-1")
	f.loads.set(20, "java-1")
	f.run("java-1")
	f.until(90*time.Second, "one shard is Go's, one Java's", func() bool {
		return len(f.owned("java-1")) == 1 && len(f.owned("go-1")) == 1 && f.delivered("java-1") > 20
	})
	f.merge(*f.open()[0].ShardId, *f.open()[1].ShardId)
	f.until(90*time.Second, "parents on both sides are done, their child delivers", func() bool { return len(f.open()) == 1 && f.flowing() })
	f.split(*f.open()[0].ShardId)
	f.until(90*time.Second, "split: both children deliver", func() bool { return len(f.open()) == 2 && f.flowing() })
	_, err := f.admin.UpdateShardCount(context.Background(), &kinesis.UpdateShardCountInput{
		StreamName: aws.String(stream), TargetShardCount: aws.Int32(4), ScalingType: types.ScalingTypeUniformScaling,
	})
	require.NoError(t, err)
	f.until(120*time.Second, "UpdateShardCount to 4: all deliver", func() bool { return len(f.open()) == 4 && f.flowing() })
	f.loads.set(90, "go-1")
	f.loads.set(20, "java-1")
	f.until(120*time.Second, "java-1 owns a shard", f.has("java-1"))
	parent := f.owned("java-1")[0]
	f.split(parent)
	f.until(90*time.Second, "java-1 has ended its shard", func() bool { return f.said("java-1", "shard_ended", parent) })
	f.kill("java-1")
	f.until(120*time.Second, "java-1 killed: Go has the children", func() bool { return len(f.open()) == 5 && f.flowing() && f.attended() })
	f.run("java-2")
	f.loads.set(20, "java-2")
	f.until(120*time.Second, "java-2 joins, and delivers", f.has("java-2"))
	parent = f.owned("go-1")[0]
	f.split(parent)
	f.until(90*time.Second, "go-1 has ended its shard", func() bool { return f.said("go-1", "shard_ended", parent) })
	f.kill("go-1")
	f.until(120*time.Second, "go-1 killed: Java leads and has the children", func() bool { return f.leader() == "java-2" && len(f.open()) == 6 && f.flowing() && f.attended() })
	f.finish()
}
