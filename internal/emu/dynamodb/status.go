package dynamodb

import "time"

// The states of a table or index, as DescribeTable names them.
const (
	creating = "CREATING"
	updating = "UPDATING"
	deleting = "DELETING"
	active   = "ACTIVE"
)

// tableLife is when a table's states change. A zero deletion is none.
type tableLife struct {
	created time.Time
	active  time.Time // CREATING until then
	resized time.Time // UPDATING until then, for capacity or billing mode
	deleted time.Time // DELETING from then …
	gone    time.Time // … until then
}

// indexLife is when an index's states change.
type indexLife struct {
	withTable bool      // created in CreateTable: ACTIVE with the table
	allocated time.Time // table UPDATING and Backfilling false until then
	active    time.Time // CREATING until then
	ready     time.Time // Query does not know it until then
	resized   time.Time // UPDATING until then
	deleted   time.Time // DELETING from then …
	gone      time.Time // … until then
}

// due reports whether an instant that is set has come.
func due(t, now time.Time) bool { return !t.IsZero() && !t.After(now) }

// status is the index's state:
//
//	table being created      CREATING   (an index of CreateTable only)
//	before allocated         CREATING   Backfilling false, table UPDATING
//	before active            CREATING   Backfilling true, table ACTIVE
//	after deletion           DELETING   table UPDATING
//	capacity being changed   UPDATING   table UPDATING
//	otherwise                ACTIVE
func (l indexLife) status(now time.Time) string {
	switch {
	case due(l.deleted, now):
		return deleting
	case now.Before(l.active):
		return creating
	case now.Before(l.resized):
		return updating
	}
	return active
}

// backfilling returns the member of that name, nil when it is absent.
func (l indexLife) backfilling(now time.Time) *bool {
	if l.withTable || l.status(now) != creating {
		return nil
	}
	b := !now.Before(l.allocated)
	return &b
}

// allocating reports whether resources are being found for the index.
func (l indexLife) allocating(now time.Time) bool {
	return !l.withTable && l.status(now) == creating && now.Before(l.allocated)
}

// status is the table's state:
//
//	after deletion                              DELETING
//	before active                               CREATING
//	capacity or billing mode being changed      UPDATING
//	an index being allocated, resized, deleted  UPDATING
//	otherwise                                   ACTIVE   (also while backfilling)
func (t *table) status(now time.Time) string {
	switch {
	case due(t.life.deleted, now):
		return deleting
	case now.Before(t.life.active):
		return creating
	case now.Before(t.life.resized):
		return updating
	}
	for _, x := range t.indexes {
		if s := x.life.status(now); s == deleting || s == updating || x.life.allocating(now) {
			return updating
		}
	}
	return active
}

// busyIndex returns an index that is being created, changed or deleted.
func (t *table) busyIndex(now time.Time) *index {
	for _, x := range t.indexes {
		if x.life.status(now) != active {
			return x
		}
	}
	return nil
}
