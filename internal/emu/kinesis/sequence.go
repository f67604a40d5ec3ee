package kinesis

// sequence is what a sequence number of today's version says. Its 186 bits are,
// from the lowest:
//
//	  0–3    version, 2
//	  4–35   shard number
//	 36–71   second of the record, since the epoch
//	 72–79   zero
//	 80–143  index: 0 at a shard's start, 2^63 − 1 at its end
//	144–147  the low 4 bits of the shard number
//	148–183  second of the shard's creation
//	184–185  2
//
// So within a shard the index orders, and a child's numbers exceed its parents'.
type sequence struct {
	created int64
	index   uint64
	second  int64
	shard   uint32
}

// endIndex is the index of a shard's ending number.
const endIndex = 1<<63 - 1

const (
	sequenceVersion = 2
	sequenceTop     = 2
	secondBits      = 36
)

func (q sequence) encode() uint192 {
	second, created := uint64(q.second), uint64(q.created)
	return uint192{
		lo:  sequenceVersion | uint64(q.shard)<<4 | second<<36,
		mid: second>>28 | q.index<<16,
		hi:  q.index>>48 | uint64(q.shard&15)<<16 | created<<20 | sequenceTop<<56,
	}
}

func (q sequence) String() string { return q.encode().String() }

// parseSequence reports false for a number that is not of today's layout.
func parseSequence(s string) (sequence, bool) {
	u, ok := parseUint192(s)
	if !ok {
		return sequence{}, false
	}
	const secondMask = 1<<secondBits - 1
	q := sequence{
		created: int64(u.hi >> 20 & secondMask),
		index:   u.hi<<48 | u.mid>>16,
		second:  int64((u.lo>>36 | u.mid<<28) & secondMask),
		shard:   uint32(u.lo >> 4),
	}
	// The encoding of what was read is the number itself only if its fixed bits
	// and the repeated ones are as they must be.
	return q, q.index <= endIndex && q.shard <= maxShardNumber && q.encode() == u
}
