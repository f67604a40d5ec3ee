package scheduler

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/ddb"
	"github.com/go-kcl/kcl/internal/emu/wire"
)

// documented are the actions that KCL asks its users to allow, by resource, for
// an application in single-table form that polls.
var documented = map[string][]string{
	"stream/" + testStream:                    {"ListShards", "GetShardIterator", "GetRecords"},
	"table/" + testApp:                        {"DescribeTable", "Scan", "GetItem", "PutItem", "UpdateItem", "DeleteItem", "CreateTable", "UpdateTable"},
	"table/" + testApp + "/" + ddb.OwnerIndex: {"Query"},
	"table/" + testApp + "-CoordinatorState":  {"DescribeTable"},
	"table/" + testApp + "-WorkerMetricStats": {"DescribeTable"},
}

// A whole life, with a reshard and cleanup, takes no permission beyond those.
// config-metrics-operations#20, for polling and single table
func TestPermissionsThatAreEnough(t *testing.T) {
	inFleet(t, 2, func(t *testing.T, f *fleet) {
		var mu sync.Mutex
		denied := make(map[string]bool)
		f.aws.Intercept(func(ctx context.Context, i wire.Info, run func() wire.Answer) (wire.Answer, error) {
			if i.Client == "test" {
				return run(), nil
			}
			resource := "table/"
			codec := wire.JSON10
			if i.Service == "kinesis" {
				resource, codec = "stream/", wire.JSON11
			}
			if len(i.Resources) > 0 {
				resource += i.Resources[0]
			}
			if i.Index != "" {
				resource += "/" + i.Index
			}
			if !slices.Contains(documented[resource], i.Operation) {
				mu.Lock()
				denied[i.Service+":"+i.Operation] = true
				mu.Unlock()
				return i.Denied().Answer(codec), nil
			}
			return run(), nil
		})
		quick := func(c *Config) {
			c.Leases.CleanupInterval, c.Leases.CompletedCleanupInterval, c.Leases.GarbageCleanupInterval = time.Second, time.Second, 5*time.Second
		}
		f.put(50)
		a, b := f.start("a", quick), f.start("b", quick)
		f.until(time.Minute, "all records", func() bool { return f.delivered() == 50 })
		_, err := f.kinesis().MergeShards(t.Context(), &kinesis.MergeShardsInput{
			StreamName: aws.String(testStream), ShardToMerge: aws.String("shardId-000000000000"), AdjacentShardToMerge: aws.String("shardId-000000000001"),
		})
		require.NoError(t, err)
		time.Sleep(3 * time.Second)
		f.put(50)
		f.until(time.Minute, "all records", func() bool { return f.delivered() == 100 })
		f.until(time.Minute, "the ended leases are gone", func() bool { return len(f.leases()) == 1 })
		require.NoError(t, a.stop())
		require.NoError(t, b.stop())
		f.requireAllProcessed()
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, map[string]bool{"kinesis:DescribeStreamSummary": true}, denied, "what is tried without being needed")
	})
}
