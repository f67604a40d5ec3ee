package leader

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/go-kcl/kcl/internal/entity"
)

// lockKey is the lock item's key.
const lockKey = "Leader"

// The lock item's attributes.
const (
	attrOwner    = "ownerName"
	attrDuration = "leaseDuration"
	attrVersion  = "recordVersionNumber"
	attrReleased = "isReleased"
)

// released is what isReleased is compared with; its presence alone marks an
// item as released to a reader.
const released = "1"

// maxDuration is where longer durations are cut: about 146 years, in whole
// milliseconds, as an item says them.
const maxDuration = math.MaxInt64 / 2 / time.Millisecond * time.Millisecond

// ErrMalformedLock says that the lock item cannot be read, so that nobody can
// lead. Delete the item Leader from the table that the log names; a new leader
// appears within a heartbeat.
var ErrMalformedLock = errors.New("malformed lock item")

// lock is what a lock item says.
type lock struct {
	owner    string
	version  string
	duration time.Duration // of the owner's terms
	released bool          // freed without being deleted; KCL never does
}

// decodeLock reads a lock item. An item that Java workers wrote before 3.5 has no
// entityType; so it is not asked for.
func decodeLock(item map[string]types.AttributeValue) (lock, error) {
	var l lock
	var duration string
	for _, a := range []struct {
		name string
		to   *string
	}{{attrOwner, &l.owner}, {attrVersion, &l.version}, {attrDuration, &duration}} {
		s, ok := item[a.name].(*types.AttributeValueMemberS)
		if !ok {
			return lock{}, fmt.Errorf("%w: %s is missing or no string", ErrMalformedLock, a.name)
		}
		*a.to = s.Value
	}
	if l.version == "" { // the version of a sighting that has seen nothing
		return lock{}, fmt.Errorf("%w: %s is empty", ErrMalformedLock, attrVersion)
	}
	ms, err := strconv.ParseInt(duration, 10, 64)
	if err != nil || ms < 0 {
		return lock{}, fmt.Errorf("%w: %s is %q, not a number of milliseconds", ErrMalformedLock, attrDuration, duration)
	}
	l.duration = maxDuration
	if ms <= int64(maxDuration/time.Millisecond) {
		l.duration = time.Duration(ms) * time.Millisecond
	}
	_, l.released = item[attrReleased]
	return l, nil
}

// encode returns the whole item, never marked as released.
func (l lock) encode(keyAttribute string) map[string]types.AttributeValue {
	item := l.content()
	item[keyAttribute], item[entity.Attribute] = str(lockKey), entity.Leader.Attr()
	return item
}

func (l lock) content() map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		attrOwner:    str(l.owner),
		attrDuration: l.encodeDuration(),
		attrVersion:  str(l.version),
	}
}

// encodeDuration writes milliseconds as a string of digits: a unit or a number
// type would make every Java worker's leader check fail.
func (l lock) encodeDuration() types.AttributeValue {
	return str(strconv.FormatInt(l.duration.Milliseconds(), 10))
}

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
