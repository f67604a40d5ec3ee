package kinesis

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

// checksum. What does not decode to exactly what it was made of is garbage.

// tokenLife is how long they last, in ms. One of exactly that age still works.
const tokenLife = 300_000

// iterator is a position in a shard at the time of its issue.
type iterator struct {
	streamKey
	issued  int64 // ms
	created int64 // of the stream
	shard   uint32
	next    uint64 // the first index that has not been read
	blank   uint64 // empty answers so far before the first data
	passed  uint64 // empty answers so far at a trimmed position
	late    uint64 // answers so far at the shard's end
}

// shardsToken continues ListShards.
type shardsToken struct {
	streamKey
	issued  int64
	created int64
	next    uint32
	filter  shardFilter
}

// streamsToken continues ListStreams after streamKey.
type streamsToken struct {
	streamKey
	issued int64
}

const (
	iteratorKind = iota + 1
	shardsKind
	streamsKind
)

func (it iterator) String() string {
	return pack(iteratorKind, it.streamKey,
		uint64(it.issued), uint64(it.created), uint64(it.shard), it.next, it.blank, it.passed, it.late)
}

func parseIterator(s string) (iterator, bool) {
	key, n, ok := unpack(s, iteratorKind, 7)
	if !ok || n[2] > maxShardNumber {
		return iterator{}, false
	}
	return iterator{
		streamKey: key, issued: int64(n[0]), created: int64(n[1]), shard: uint32(n[2]),
		next: n[3], blank: n[4], passed: n[5], late: n[6],
	}, true
}

func (k shardsToken) String() string {
	return pack(shardsKind, k.streamKey,
		uint64(k.issued), uint64(k.created), uint64(k.next), uint64(k.filter.kind), uint64(k.filter.ms))
}

func parseShardsToken(s string) (shardsToken, bool) {
	key, n, ok := unpack(s, shardsKind, 5)
	if !ok || n[2] > maxShardNumber || n[3] >= uint64(len(filterKinds)) {
		return shardsToken{}, false
	}
	return shardsToken{
		streamKey: key, issued: int64(n[0]), created: int64(n[1]), next: uint32(n[2]),
		filter: shardFilter{kind: filterKind(n[3]), ms: int64(n[4])},
	}, true
}

func (k streamsToken) String() string {
	return pack(streamsKind, k.streamKey, uint64(k.issued))
}

func parseStreamsToken(s string) (streamsToken, bool) {
	key, n, ok := unpack(s, streamsKind, 1)
	if !ok {
		return streamsToken{}, false
	}
	return streamsToken{streamKey: key, issued: int64(n[0])}, true
}

func pack(kind byte, key streamKey, numbers ...uint64) string {
	b := make([]byte, 0, 256)
	b = append(b, 0, kind)
	for _, s := range []string{key.account, key.region, key.name} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	for _, n := range numbers {
		b = binary.AppendUvarint(b, n)
	}
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return base64.StdEncoding.EncodeToString(b)
}

func unpack(s string, kind byte, count int) (key streamKey, numbers []uint64, ok bool) {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(b) < 6 || b[0] != 0 || b[1] != kind {
		return key, nil, false
	}
	rest := b[2 : len(b)-4]
	number := func() uint64 {
		n, size := binary.Uvarint(rest)
		if size <= 0 {
			rest = nil // the encoding of what was read will not be s
			return 0
		}
		rest = rest[size:]
		return n
	}
	for _, p := range []*string{&key.account, &key.region, &key.name} {
		n := number()
		if n > uint64(len(rest)) {
			return key, nil, false
		}
		*p, rest = string(rest[:n]), rest[n:]
	}
	for range count {
		numbers = append(numbers, number())
	}
	return key, numbers, pack(kind, key, numbers...) == s
}

// tokenAge refuses a page token that is too old.
func (t *turn) tokenAge(issued int64) *wire.Error {
	if t.now.ms()-issued > tokenLife { // text assumed
		return refuse("ExpiredNextTokenException", "NextToken expired. The token was created at time %s while right now it is %s "+
			"which is further in the future than the tolerated delay of %d milliseconds.", clockText(issued), clockText(t.now.ms()), tokenLife)
	}
	return nil
}

// clockText writes a time as the service's messages do.
func clockText(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("Mon Jan 02 15:04:05 UTC 2006")
}

func wireTime(ms int64) wire.Time { return wire.Time{Time: time.UnixMilli(ms).UTC()} }
