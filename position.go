package kcl

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Position is a place in a shard: a record's sequence number and, for a record
// that was aggregated with others, its index within the aggregate. KCL calls it
// the extended sequence number. Positions of one shard are comparable with ==
// and ordered by [Position.Compare].
//
// A stored position may also be one of KCL's sentinels, the constants
// [AtTrimHorizon], [AtLatest], [AtTimestampSentinel] and [ShardEnd]. The zero
// Position is none.
type Position struct {
	// SequenceNumber is a decimal number of up to 129 digits, or a sentinel.
	SequenceNumber string
	// SubSequenceNumber is 0 but for records from inside an aggregate.
	SubSequenceNumber int64
}

// The sentinels, spelled as in the lease table.
var (
	// AtTrimHorizon stands for the oldest record that the stream still holds.
	AtTrimHorizon = Position{SequenceNumber: "TRIM_HORIZON"}
	// AtLatest stands for the shard's tip at the time it is first read.
	AtLatest = Position{SequenceNumber: "LATEST"}
	// AtTimestampSentinel stands for the instant that the stream's initial
	// position names; the instant itself is not stored.
	AtTimestampSentinel = Position{SequenceNumber: "AT_TIMESTAMP"}
	// ShardEnd lies behind a closed shard's last record.
	ShardEnd = Position{SequenceNumber: "SHARD_END"}
)

// sentinelRank orders sentinels around the numbers, which have rank 0.
func sentinelRank(s string) (rank int, ok bool) {
	switch s {
	case "AT_TIMESTAMP":
		return -3, true
	case "TRIM_HORIZON":
		return -2, true
	case "LATEST":
		return -1, true
	case "SHARD_END":
		return 1, true
	}
	return 0, false
}

// IsZero reports whether p is no position at all.
func (p Position) IsZero() bool { return p == Position{} }

// IsSentinel reports whether p is one of the sentinels, whatever its
// sub-sequence number.
func (p Position) IsSentinel() bool {
	_, ok := sentinelRank(p.SequenceNumber)
	return ok
}

// Validate returns an error that wraps [ErrInvalidPosition] unless p is a
// sentinel or a decimal number with a sub-sequence number of at least 0.
func (p Position) Validate() error {
	if p.IsSentinel() {
		return nil
	}
	if !isDigits(p.SequenceNumber) {
		return fmt.Errorf("%w: %q is neither a sequence number nor a sentinel", ErrInvalidPosition, p.SequenceNumber)
	}
	if p.SubSequenceNumber < 0 {
		return fmt.Errorf("%w: sub-sequence number %d is negative", ErrInvalidPosition, p.SubSequenceNumber)
	}
	return nil
}

// Compare returns -1, 0 or +1 as p lies before, at or behind q: AT_TIMESTAMP,
// TRIM_HORIZON, LATEST, then numbers by value, then SHARD_END; equal numbers
// by sub-sequence number. Sub-sequence numbers of sentinels do not count.
// A position that is not valid sorts before all valid ones.
func (p Position) Compare(q Position) int {
	pr, ps := rank(p)
	qr, qs := rank(q)
	if pr != qr {
		return cmp.Compare(pr, qr)
	}
	if ps || qs || pr == rankInvalid {
		return 0
	}
	if c := compareDecimal(p.SequenceNumber, q.SequenceNumber); c != 0 {
		return c
	}
	return cmp.Compare(p.SubSequenceNumber, q.SubSequenceNumber)
}

const rankInvalid = -4

func rank(p Position) (r int, sentinel bool) {
	if r, ok := sentinelRank(p.SequenceNumber); ok {
		return r, true
	}
	if !isDigits(p.SequenceNumber) {
		return rankInvalid, false
	}
	return 0, false
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// compareDecimal compares two digit strings by value.
func compareDecimal(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if c := cmp.Compare(len(a), len(b)); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}

// String returns "sequence" or, with a sub-sequence number other than 0,
// "sequence:sub".
func (p Position) String() string {
	if p.SubSequenceNumber == 0 {
		return p.SequenceNumber
	}
	return p.SequenceNumber + ":" + strconv.FormatInt(p.SubSequenceNumber, 10)
}

// ParsePosition reads what [Position.String] returns: "sequence" or
// "sequence:sub". Its error wraps [ErrInvalidPosition].
func ParsePosition(s string) (Position, error) {
	seq, sub, found := strings.Cut(s, ":")
	p := Position{SequenceNumber: seq}
	if found {
		n, err := strconv.ParseInt(sub, 10, 64)
		if err != nil || !isDigits(sub) {
			return Position{}, fmt.Errorf("%w: %q: the sub-sequence number is none of 0 to 2^63 - 1", ErrInvalidPosition, s)
		}
		p.SubSequenceNumber = n
	}
	if err := p.Validate(); err != nil {
		return Position{}, err
	}
	return p, nil
}

// MarshalText implements [encoding.TextMarshaler]; the zero Position is empty
// text.
func (p Position) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (p *Position) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*p = Position{}
		return nil
	}
	q, err := ParsePosition(string(b))
	if err != nil {
		return err
	}
	*p = q
	return nil
}
