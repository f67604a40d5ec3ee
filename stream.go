package kcl

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// StreamIdentifier names a stream. A single-stream application knows its
// stream by name alone; in a multi-stream application the account and the
// creation epoch, which tells a stream from an earlier one of the same name,
// are part of the identity.
type StreamIdentifier struct {
	// AccountID is the 12-digit account, or empty.
	AccountID string
	// Name is the stream's name.
	Name string
	// CreationEpoch is the stream's creation time in whole seconds since 1970,
	// or 0 in a single-stream application.
	CreationEpoch int64
	// ARN is the stream's ARN where it is known. It is sent with requests and
	// needed for a stream of another account; it is no part of the identity.
	ARN string
}

// String returns the serialized form that lease keys and lease items carry:
// "account:name:epoch" when the epoch is known, else the bare name.
func (s StreamIdentifier) String() string {
	if s.CreationEpoch == 0 {
		return s.Name
	}
	return s.AccountID + ":" + s.Name + ":" + strconv.FormatInt(s.CreationEpoch, 10)
}

// Equal reports whether both name the same stream. ARNs do not count.
func (s StreamIdentifier) Equal(o StreamIdentifier) bool {
	s.ARN, o.ARN = "", ""
	return s == o
}

// LeaseKey returns the key of the lease of a shard of s: the shard id alone in
// a single-stream application, else the serialized stream, a colon and the
// shard id.
func (s StreamIdentifier) LeaseKey(shardID string) string {
	if s.CreationEpoch == 0 {
		return shardID
	}
	return s.String() + ":" + shardID
}

// Region returns the region that the ARN names, or "" without an ARN.
func (s StreamIdentifier) Region() string {
	if m := arnPattern.FindStringSubmatch(s.ARN); m != nil {
		return m[1]
	}
	return ""
}

var (
	multiPattern = regexp.MustCompile(`^([0-9]+):([^:]+):([0-9]+)$`)
	arnPattern   = regexp.MustCompile(`^arn:aws[^:]*:kinesis:([-a-z0-9]+):([0-9]{12}):stream/(.+)$`)
)

// ParseStreamIdentifier reads the serialized form of a multi-stream
// application, "account:name:epoch". The epoch must be above 0.
func ParseStreamIdentifier(s string) (StreamIdentifier, error) {
	m := multiPattern.FindStringSubmatch(s)
	if m == nil {
		return StreamIdentifier{}, fmt.Errorf("stream identifier %q is not of the form account:name:epoch", s)
	}
	epoch, err := strconv.ParseInt(m[3], 10, 64)
	if err != nil || epoch <= 0 {
		return StreamIdentifier{}, fmt.Errorf("stream identifier %q: the creation epoch must be a number above 0", s)
	}
	return StreamIdentifier{AccountID: m[1], Name: m[2], CreationEpoch: epoch}, nil
}

// StreamByName returns the identifier of a single-stream application's stream,
// given by name or ARN.
func StreamByName(nameOrARN string) (StreamIdentifier, error) {
	if strings.HasPrefix(nameOrARN, "arn:") {
		return streamByARN(nameOrARN, 0)
	}
	if nameOrARN == "" {
		return StreamIdentifier{}, errors.New("stream name is empty")
	}
	return StreamIdentifier{Name: nameOrARN}, nil
}

// StreamByARN returns the identifier of a multi-stream application's stream.
// The creation epoch, in seconds since 1970, must be above 0; it is not
// checked against the service.
func StreamByARN(arn string, creationEpoch int64) (StreamIdentifier, error) {
	if creationEpoch <= 0 {
		return StreamIdentifier{}, fmt.Errorf("stream %q: the creation epoch must be above 0, not %d", arn, creationEpoch)
	}
	return streamByARN(arn, creationEpoch)
}

func streamByARN(arn string, epoch int64) (StreamIdentifier, error) {
	m := arnPattern.FindStringSubmatch(arn)
	if m == nil {
		return StreamIdentifier{}, fmt.Errorf("%q is not the ARN of a stream", arn)
	}
	return StreamIdentifier{AccountID: m[2], Name: m[3], CreationEpoch: epoch, ARN: arn}, nil
}

// InitialPosition says where an application begins to read a stream it has no
// checkpoints for. The zero value is none and is refused: starting at the tip
// by accident loses what came before.
type InitialPosition struct {
	sentinel Position
	at       time.Time
}

var (
	// TrimHorizon begins at the oldest record that the stream still holds.
	TrimHorizon = InitialPosition{sentinel: AtTrimHorizon}
	// Latest begins at the stream's tip at the time a worker first reads a
	// shard; what was put before is never seen.
	Latest = InitialPosition{sentinel: AtLatest}
)

// AtTimestamp begins with the first record that arrived at or after t, with
// milliseconds' precision. Every worker must be given the same t: it is not
// stored.
func AtTimestamp(t time.Time) InitialPosition {
	return InitialPosition{sentinel: AtTimestampSentinel, at: t}
}

// IsZero reports whether p was not given.
func (p InitialPosition) IsZero() bool { return p.sentinel.IsZero() }

// Sentinel returns the position that a new lease stores for p.
func (p InitialPosition) Sentinel() Position { return p.sentinel }

// Timestamp returns the instant given to [AtTimestamp], else the zero time.
func (p InitialPosition) Timestamp() time.Time { return p.at }

func (p InitialPosition) validate() error {
	switch {
	case p.IsZero():
		return errors.New("an initial position must be given: kcl.TrimHorizon, kcl.Latest or kcl.AtTimestamp")
	case p.sentinel == AtTimestampSentinel && p.at.IsZero():
		return errors.New("initial position AT_TIMESTAMP needs a time")
	}
	return nil
}

// String returns the sentinel's name and, for AT_TIMESTAMP, the instant.
func (p InitialPosition) String() string {
	if p.sentinel == AtTimestampSentinel {
		return p.sentinel.SequenceNumber + " " + p.at.UTC().Format(time.RFC3339Nano)
	}
	return p.sentinel.SequenceNumber
}

// StreamConfig is a stream to consume and how.
type StreamConfig struct {
	Stream   StreamIdentifier
	Position InitialPosition
}

// StreamTracker says which streams an application consumes. [SingleStream]
// serves for one.
type StreamTracker interface {
	// Streams returns the streams to consume at present.
	Streams(ctx context.Context) ([]StreamConfig, error)
	// MultiStream reports whether lease keys carry the stream's identity. The
	// answer never changes: leases of one form cannot be read in the other.
	MultiStream() bool
}

// SingleStream tracks one stream, given by its name or ARN, for ever. An empty
// name, an ARN that is none, or a zero position is reported by scheduler.New.
func SingleStream(nameOrARN string, p InitialPosition) StreamTracker {
	return singleStream{nameOrARN, p}
}

type singleStream struct {
	nameOrARN string
	position  InitialPosition
}

func (s singleStream) Streams(context.Context) ([]StreamConfig, error) {
	id, err := StreamByName(s.nameOrARN)
	if err = errors.Join(err, s.position.validate()); err != nil {
		return nil, fmt.Errorf("stream %q: %w", s.nameOrARN, err)
	}
	return []StreamConfig{{Stream: id, Position: s.position}}, nil
}

func (singleStream) MultiStream() bool { return false }
