package kinesis

import (
	"crypto/md5"
	"encoding/binary"
	"math/bits"
)

// hashKey is a point of the key space 0..2^128 − 1.
type hashKey struct{ hi, lo uint64 }

var maxHashKey = hashKey{1<<64 - 1, 1<<64 - 1}

// parseHashKey reports false for what is no decimal or lies beyond the key space.
func parseHashKey(s string) (hashKey, bool) {
	u, ok := parseUint192(s)
	return hashKey{u.mid, u.lo}, ok && u.hi == 0
}

// hashOf is where a partition key falls.
func hashOf(partitionKey string) hashKey {
	sum := md5.Sum([]byte(partitionKey))
	return hashKey{binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:])}
}

func (k hashKey) String() string { return uint192{0, k.hi, k.lo}.String() }

func (k hashKey) compare(l hashKey) int {
	switch {
	case k == l:
		return 0
	case k.hi < l.hi || (k.hi == l.hi && k.lo < l.lo):
		return -1
	default:
		return 1
	}
}

func (k hashKey) less(l hashKey) bool { return k.compare(l) < 0 }

func (k hashKey) plus(n uint64) hashKey {
	lo, carry := bits.Add64(k.lo, n, 0)
	return hashKey{k.hi + carry, lo}
}

func (k hashKey) minus(n uint64) hashKey {
	lo, borrow := bits.Sub64(k.lo, n, 0)
	return hashKey{k.hi - borrow, lo}
}

// near says whether two bounds differ by no more than what rounding explains:
// that of up to 10,000 shards' bounds, over some generations.
func (k hashKey) near(l hashKey) bool {
	if k.less(l) {
		k, l = l, k
	}
	lo, borrow := bits.Sub64(k.lo, l.lo, 0)
	return k.hi-l.hi-borrow == 0 && lo < 1<<20
}

// uniformBound is where shard i of n equal ones begins: i·⌊2^128/n⌋.
func uniformBound(i, n int) hashKey {
	if i == 0 {
		return hashKey{} // also the only shard of one, whose width does not fit
	}
	hi, r := bits.Div64(1, 0, uint64(n))
	lo, _ := bits.Div64(r, 0, uint64(n))
	carry, low := bits.Mul64(lo, uint64(i))
	return hashKey{hi*uint64(i) + carry, low}
}
