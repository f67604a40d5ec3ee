package kinesis

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// aws-kinesis#13
func TestUniformBoundsOfThree(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 3)
		var got []hashKeyRange
		for _, s := range w.shards("s", nil) {
			got = append(got, s.HashKeyRange)
		}
		assert.Equal(t, []hashKeyRange{
			{"0", "113427455640312821154458202477256070484"},
			{"113427455640312821154458202477256070485", "226854911280625642308916404954512140969"},
			{"226854911280625642308916404954512140970", "340282366920938463463374607431768211455"},
		}, got)
	})
}

func TestUniformBounds(t *testing.T) {
	space := new(big.Int).Lsh(big.NewInt(1), 128)
	for _, n := range []int{1, 2, 3, 7, 16, 1000, 9999, 100_000} {
		step := new(big.Int).Div(space, big.NewInt(int64(n)))
		shards := uniform(n, 0)
		for _, i := range []int{0, 1, n / 2, n - 1} {
			if i >= n {
				continue
			}
			want := new(big.Int).Mul(step, big.NewInt(int64(i)))
			assert.Equal(t, want.String(), shards[i].lo.String(), "%d of %d", i, n)
			if i > 0 {
				assert.Equal(t, shards[i-1].hi.plus(1), shards[i].lo, "%d of %d", i, n)
			}
		}
		assert.Equal(t, maxHashKey, shards[n-1].hi)
	}
}

func TestHashKeyArithmetic(t *testing.T) {
	low, high := hashKey{0, 1<<64 - 1}, hashKey{1, 0}
	assert.Equal(t, high, low.plus(1))
	assert.Equal(t, low, high.minus(1))
	assert.True(t, low.less(high))
	assert.False(t, high.less(low))
	assert.Zero(t, low.compare(low))
	assert.True(t, low.near(high) && high.near(low))
	assert.False(t, low.near(hashKey{1, 1 << 20}))
	assert.False(t, hashKey{}.near(maxHashKey))

	_, ok := parseHashKey("340282366920938463463374607431768211456")
	assert.False(t, ok)
	k, ok := parseHashKey("340282366920938463463374607431768211455")
	assert.True(t, ok)
	assert.Equal(t, maxHashKey, k)
}

// aws-kinesis#24
func TestKeysOfThreeShards(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.create("s", 3)
		for key, want := range map[string]struct {
			hash  string
			shard int
		}{
			"a": {"16955237001963240173058271559858726497", 0},
			"f": {"190917122200326810055233066464581373159", 1},
			"e": {"299611584147932843547128611849858313266", 2},
		} {
			require.Equal(t, want.hash, hashOf(key).String(), key)
			assert.Equal(t, shardID(uint32(want.shard)), w.put("s", key).ShardId, key)
			assert.Equal(t, shardID(uint32(want.shard)), w.put("s", "x", want.hash).ShardId, key)
		}
	})
}
