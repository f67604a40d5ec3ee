package dynamodb

import (
	"time"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

// backups is a table's continuous backup with point-in-time recovery.
type backups struct {
	on       bool
	since    time.Time // of the present recovery window
	keptDays int
}

const defaultRecoveryDays = 35

type backupsDescription struct {
	ContinuousBackupsDescription struct {
		ContinuousBackupsStatus        string
		PointInTimeRecoveryDescription struct {
			PointInTimeRecoveryStatus  string
			RecoveryPeriodInDays       int        `json:",omitempty"`
			EarliestRestorableDateTime *wire.Time `json:",omitempty"`
			LatestRestorableDateTime   *wire.Time `json:",omitempty"`
		}
	}
}

// backupTable returns the table for the two calls on backups, which do not see a
// table in the first part of its creation.
func (v *view) backupTable(nameOrARN string) (*table, error) {
	t := v.find(nameOrARN)
	if t == nil || t.status(v.now) == deleting ||
		t.status(v.now) == creating && v.now.Before(t.life.created.Add(v.timing.BackupsUnknown)) {
		return nil, refuse("TableNotFoundException", "Table not found: %s", tableName(&nameOrARN))
	}
	return t, nil
}

// backupsReady is when the table's backups can be configured.
func (v *view) backupsReady(t *table) time.Time {
	return t.life.active.Add(v.timing.BackupsUnavailable)
}

func (v *view) describeBackups(t *table) backupsDescription {
	var d backupsDescription
	b := &d.ContinuousBackupsDescription
	b.ContinuousBackupsStatus = "ENABLED"
	if v.now.Before(v.backupsReady(t)) {
		b.ContinuousBackupsStatus = "DISABLED"
	}
	p := &b.PointInTimeRecoveryDescription
	p.PointInTimeRecoveryStatus = "DISABLED"
	if t.backups.on {
		p.PointInTimeRecoveryStatus = "ENABLED"
		p.RecoveryPeriodInDays = t.backups.keptDays
		earliest := t.backups.since
		if oldest := v.now.AddDate(0, 0, -t.backups.keptDays); oldest.After(earliest) {
			earliest = oldest
		}
		p.EarliestRestorableDateTime = &wire.Time{Time: earliest}
		p.LatestRestorableDateTime = &wire.Time{Time: v.now}
	}
	return d
}

// describeContinuousBackups is DescribeContinuousBackups.
type describeContinuousBackups struct{ TableName *string }

func (r *describeContinuousBackups) tables() []string { return named(r.TableName) }

func (r *describeContinuousBackups) compile() (plan, error) {
	var c constraints
	c.table(r.TableName, "tableName")
	if err := c.err(); err != nil {
		return plan{}, err
	}
	return plan{run: func(v *view) (any, error) {
		t, err := v.backupTable(*r.TableName)
		if err != nil {
			return nil, err
		}
		return v.describeBackups(t), nil
	}}, nil
}

// updateContinuousBackups is UpdateContinuousBackups.
type updateContinuousBackups struct {
	TableName                        *string
	PointInTimeRecoverySpecification *struct {
		PointInTimeRecoveryEnabled *bool
		RecoveryPeriodInDays       *int
	}
}

func (r *updateContinuousBackups) tables() []string { return named(r.TableName) }

func (r *updateContinuousBackups) compile() (plan, error) {
	var c constraints
	c.table(r.TableName, "tableName")
	spec := r.PointInTimeRecoverySpecification
	if c.required(spec != nil, "pointInTimeRecoverySpecification"); spec != nil {
		c.required(spec.PointInTimeRecoveryEnabled != nil, "pointInTimeRecoverySpecification.pointInTimeRecoveryEnabled")
		c.between(spec.RecoveryPeriodInDays, "pointInTimeRecoverySpecification.recoveryPeriodInDays", 1, 35)
	}
	if err := c.err(); err != nil {
		return plan{}, err
	}
	return plan{run: func(v *view) (any, error) {
		t, err := v.backupTable(*r.TableName)
		if err != nil {
			return nil, err
		}
		if v.now.Before(v.backupsReady(t)) {
			return nil, refuse("ContinuousBackupsUnavailableException", "Backups are being enabled for the table: %s. Please retry later", t.name)
		}
		if *spec.PointInTimeRecoveryEnabled && !t.backups.on {
			t.backups = backups{since: v.now, keptDays: defaultRecoveryDays}
		}
		t.backups.on = *spec.PointInTimeRecoveryEnabled
		if spec.RecoveryPeriodInDays != nil {
			t.backups.keptDays = *spec.RecoveryPeriodInDays
		}
		return v.describeBackups(t), nil
	}}, nil
}
