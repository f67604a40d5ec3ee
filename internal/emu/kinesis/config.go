package kinesis

import (
	"errors"
	"fmt"
	"time"
)

// Config says how fast the service is and which of its rarer habits it shows.
// The zero value is the service with short delays, its limits on and its rarer
// habits off. All figures are fixed, not drawn: who wants chance draws them.
type Config struct {
	// CreateDuration is how long a stream stays CREATING. Default 200 ms; the
	// live service took under 4 s in 2025.
	CreateDuration time.Duration
	// DeleteDuration is how long a stream stays DELETING. Default and minimum
	// 1 s: only the second of its creation tells a stream from its predecessor.
	DeleteDuration time.Duration
	// ReshardDuration is how long a split, a merge, or one step of
	// UpdateShardCount takes. Default and minimum 1 s, or a shard could end
	// before it starts; about 30 s on the live service.
	ReshardDuration time.Duration
	// UpdateDuration is how long a stream stays UPDATING after a change of
	// capacity mode or of the largest record. Default 200 ms.
	UpdateDuration time.Duration

	// ShardQuota bounds the open shards of an account's provisioned streams in a
	// region. Default 20,000, that of the largest regions; at most 1,048,576.
	ShardQuota int
	// NoLimits switches off all throttling of calls, reads and puts, the quotas
	// of an account, and the daily ones of a stream. Bounds of one request or one
	// answer remain, and 1,048,576 open shards.
	NoLimits bool

	// LateEnd is how many answers at the end of a closed shard still carry a
	// NextShardIterator and no child shards, each time the end is come upon.
	LateEnd int
	// EmptyPages is how many empty answers come before the first data of an
	// iterator got by GetShardIterator.
	EmptyPages int
	// TrimmedPages is how many empty answers come before an iterator whose
	// position has been trimmed jumps to the oldest record.
	TrimmedPages int
	// ReadDelay is how long a stored record is not readable yet.
	ReadDelay time.Duration
	// StaleControlPlane is how long all calls but Describe and List of streams
	// see a stream in the state it has just left.
	StaleControlPlane time.Duration
	// NumberLag is how far the time in a sequence number lies behind the
	// record's arrival, in whole seconds; 0 to 3 s on the live service.
	NumberLag time.Duration

	// RefuseEarlyTimestamp makes ListShards refuse an AT_TIMESTAMP filter before
	// the horizon. By the letter of the documentation, the default, it lists
	// what it finds there, and that need not cover the key space.
	RefuseEarlyTimestamp bool
	// FillReshardGap makes AT_TIMESTAMP and FROM_TIMESTAMP filters take a closed
	// shard as open until its children start. By the letter, the default, such a
	// time between two seconds finds neither parents nor children.
	FillReshardGap bool
}

// The defaults and bounds of a Config.
const (
	defaultCreateDuration = 200 * time.Millisecond
	defaultUpdateDuration = 200 * time.Millisecond
	minDeleteDuration     = time.Second
	minReshardDuration    = time.Second
	defaultShardQuota     = 20_000
	maxNumberLag          = 3 * time.Second
	maxPages              = 1 << 16
	maxConfiguredDelay    = 24 * time.Hour
)

// withDefaults fills in what is zero, and names every field out of bounds.
func (c Config) withDefaults() (Config, error) {
	var faults []error
	span := func(name string, d *time.Duration, unset, least, most time.Duration) {
		if *d == 0 {
			*d = unset
		}
		if *d < least || *d > most {
			faults = append(faults, fmt.Errorf("%s is %v; it must lie between %v and %v", name, *d, least, most))
		}
	}
	count := func(name string, n *int, unset, least, most int) {
		if *n == 0 {
			*n = unset
		}
		if *n < least || *n > most {
			faults = append(faults, fmt.Errorf("%s is %d; it must lie between %d and %d", name, *n, least, most))
		}
	}
	span("CreateDuration", &c.CreateDuration, defaultCreateDuration, 0, maxConfiguredDelay)
	span("DeleteDuration", &c.DeleteDuration, minDeleteDuration, minDeleteDuration, maxConfiguredDelay)
	span("ReshardDuration", &c.ReshardDuration, minReshardDuration, minReshardDuration, maxConfiguredDelay)
	span("UpdateDuration", &c.UpdateDuration, defaultUpdateDuration, 0, maxConfiguredDelay)
	span("ReadDelay", &c.ReadDelay, 0, 0, maxConfiguredDelay)
	span("StaleControlPlane", &c.StaleControlPlane, 0, 0, maxConfiguredDelay)
	span("NumberLag", &c.NumberLag, 0, 0, maxNumberLag)
	count("ShardQuota", &c.ShardQuota, defaultShardQuota, 1, maxShards)
	count("LateEnd", &c.LateEnd, 0, 0, maxPages)
	count("EmptyPages", &c.EmptyPages, 0, 0, maxPages)
	count("TrimmedPages", &c.TrimmedPages, 0, 0, maxPages)
	return c, errors.Join(faults...)
}
