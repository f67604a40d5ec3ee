package dynamodb

import (
	"time"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

// Config sets up a [Service]. The zero value is a service with short delays
// ([DefaultTiming]) and no lag.
type Config struct {
	// Timing says how long control operations take. Nil means DefaultTiming;
	// a pointer to the zero Timing means that everything is done at once.
	Timing *Timing
	// Lag says how far reads may trail behind; [Service.SetLag] changes it.
	Lag Lag
	// Seed starts the source of all chance: lags and table ids.
	Seed uint64
	// SecondCreate is the error of an UpdateTable that creates an index whose
	// name another one is being created under.
	SecondCreate SecondCreate
	// PageBytes is what a page of Query and Scan holds, 1 MiB if 0. Tests set
	// it to get many pages from few items.
	PageBytes int
	// Conflict, if set, is asked for each item that a write or a transaction
	// (TransactGetItems too) is about to touch, in the request's order; true
	// means that another transaction is just writing the item. It is called
	// without locks, by any number of callers at once.
	Conflict func(Touch) bool
}

// Touch is an item that a call is about to write, check or read in a
// transaction.
type Touch struct {
	Client    string // see wire.Caller
	Operation string // UpdateItem, TransactWriteItems, …
	Table     string
	// Key holds the item's key attributes; for a put, the whole item.
	Key attr.Item
}

// SecondCreate is an error for the second creation of an index, see [Config].
// Which one the service gives is not known for sure; clients must treat all
// three alike.
type SecondCreate uint8

// The errors of a second creation.
const (
	SecondCreateInUse         SecondCreate = iota // ResourceInUseException
	SecondCreateLimitExceeded                     // LimitExceededException
	SecondCreateInvalid                           // ValidationException
)

// Lag says how far reads may trail behind the writes. Conditions, updates,
// consistent reads and transactions always see the latest state.
type Lag struct {
	// Read is the longest time by which a read that is not consistent may be
	// late: each call (of a batch, each item) sees the table as it was a random
	// time ago, from 0 to Read, so that of two reads the second may be the older.
	Read time.Duration
	// Index is the longest time after which a write shows in an index: a random
	// time from 0 to Index for each change, in order for one item. An entry that
	// moves within the index is removed and inserted independently, so the item
	// may show twice, or not at all, for a while.
	Index time.Duration
	// Transaction is for how long after its answer a transaction still counts as
	// going on: other writes and transactions on its items are in conflict with
	// it, and its token is in use.
	Transaction time.Duration
}

// Timing holds the delays of control operations, counted from the call that
// started them unless it says otherwise. A delay of 0 is none.
type Timing struct {
	TableCreate        time.Duration // CREATING, without indexes
	TableCreateIndexed time.Duration // CREATING, with indexes
	TableUnseen        time.Duration // DescribeTable does not know a new table yet
	TableDelete        time.Duration // DELETING, without indexes
	TableDeleteIndexed time.Duration // DELETING, with indexes
	Throughput         time.Duration // UPDATING for capacity or billing mode

	IndexAllocate time.Duration // index CREATING, Backfilling false, table UPDATING
	IndexBackfill time.Duration // then CREATING, Backfilling true, table ACTIVE
	IndexUnready  time.Duration // then ACTIVE, but Query says there is no such index
	IndexDelete   time.Duration // index DELETING, table UPDATING

	BackupsUnknown     time.Duration // continuous backups: TableNotFound, at most until ACTIVE
	BackupsUnavailable time.Duration // continuous backups: not available, counted from ACTIVE

	TagsInUse time.Duration // tag calls: ResourceInUse (earlier: not found), counted back from ACTIVE
	TagsStale time.Duration // a tag write does not show yet
	TagsBusy  time.Duration // a tag write forbids further ones and DeleteTable

	ProtectionPause time.Duration // a change of deletion protection forbids further settings
	Statistics      time.Duration // between two counts of items and bytes; 0 means 6 h
}

// DefaultTiming returns delays long enough for every state to be met, and short
// enough for a demonstration in real time.
func DefaultTiming() Timing {
	return Timing{
		TableCreate:        250 * time.Millisecond,
		TableCreateIndexed: 500 * time.Millisecond,
		TableDelete:        250 * time.Millisecond,
		TableDeleteIndexed: 500 * time.Millisecond,
		Throughput:         250 * time.Millisecond,
		IndexAllocate:      time.Second,
		IndexBackfill:      2 * time.Second,
		IndexDelete:        250 * time.Millisecond,
		BackupsUnknown:     100 * time.Millisecond,
		BackupsUnavailable: 250 * time.Millisecond,
		TagsStale:          250 * time.Millisecond,
		TagsBusy:           200 * time.Millisecond,
		ProtectionPause:    15 * time.Second,
	}
}

// RealTiming returns delays as measured on the service in 2026: the middle of
// what was seen for small tables. An index that says ACTIVE long before it can
// be queried, and a table that DescribeTable does not see at first, are rare and
// left to [Timing.IndexUnready] (3 to 5 minutes were reported) and
// [Timing.TableUnseen].
func RealTiming() Timing {
	return Timing{
		TableCreate:        5 * time.Second,
		TableCreateIndexed: 18 * time.Second,
		TableDelete:        5 * time.Second,
		TableDeleteIndexed: 10 * time.Second,
		Throughput:         10 * time.Second,
		IndexAllocate:      40 * time.Second,
		IndexBackfill:      480 * time.Second,
		IndexDelete:        4 * time.Second,
		BackupsUnknown:     2 * time.Second,
		BackupsUnavailable: 2 * time.Second,
		TagsInUse:          time.Second,
		TagsStale:          2 * time.Second,
		TagsBusy:           1500 * time.Millisecond,
		ProtectionPause:    15 * time.Second,
	}
}

const (
	defaultPageBytes  = 1 << 20
	defaultStatistics = 6 * time.Hour
)
