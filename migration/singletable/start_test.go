package singletable

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/coordinator"
)

// single-table-migration#15
func TestBegin(t *testing.T) {
	at := func(s Status) State { return coordinator.FreshTableMigration(s, "java", t0) }
	exists := func(s Status, migrate bool) Facts {
		f := Facts{Table: "app-CoordinatorState", Legacy: LegacyExists, Migrate: migrate}
		if s != "" {
			f.Stored, f.Found = at(s), true
		}
		return f
	}
	const early = "second deployment of the single-table migration before the first is done: item TableMigration3.5 of table app-CoordinatorState "
	const deploy = ": deploy all workers without MigrateAllEntitiesToLeaseTable first and wait until it says TABLE_MIGRATION_STATUS_DEPLOYED"
	for _, tc := range []struct {
		name  string
		facts Facts
		want  Status
		err   error
		words string
	}{
		{"S1 through", Facts{Copy: at(Complete), Copied: true}, Complete, nil, ""},
		{"S1 through, and the legacy table is not looked at", Facts{Copy: at(Complete), Copied: true, Legacy: LegacyDenied}, Complete, nil, ""},
		{"S2 half a state", Facts{Copy: at(Pending), Copied: true, Table: "x", Legacy: LegacyAbsent}, Unknown, ErrInconsistent,
			"tables contradict each other: the lease table's item TableMigration3.5 says TABLE_MIGRATION_STATUS_PENDING, last changed by java at 2026-11-30T10:21:14Z, but table x, which is to hold that state until it is TABLE_MIGRATION_STATUS_COMPLETE, does not exist or is not to be looked at: restore the table, or delete the item"},
		{"S3 no table single-table-migration#16", Facts{Legacy: LegacyAbsent}, Complete, nil, ""},
		{"S3 no table, config true single-table-migration#16", Facts{Legacy: LegacyAbsent, Migrate: true}, Complete, nil, ""},
		{"S3 at the operator's word", Facts{NoLegacyTables: true}, Complete, nil, ""},
		{"S4 no permission", Facts{Table: "x", Legacy: LegacyDenied}, Unknown, ErrDenied,
			"no permission for the legacy table: allow dynamodb:DescribeTable and dynamodb:GetItem on table x of KCL 3.0 to 3.4, or set NoLegacyTables if the application never had it or no longer uses it"},
		{"S5", exists("", false), Init, nil, ""},
		{"S6 single-table-migration#19", exists("", true), Unknown, ErrTooEarly, early + "says nothing yet" + deploy},
		{"S7", exists(Init, false), Init, nil, ""},
		{"S8 single-table-migration#19", exists(Init, true), Unknown, ErrTooEarly, early + "says TABLE_MIGRATION_STATUS_INIT" + deploy},
		{"S9", exists(Deployed, false), Deployed, nil, ""},
		{"S10 single-table-migration#19", exists(Deployed, true), Pending, nil, ""},
		{"S11", exists(Pending, false), Deployed, nil, ""},
		{"S12", exists(Pending, true), Pending, nil, ""},
		{"S13", exists(Complete, false), Complete, nil, ""},
		{"S13 config true", exists(Complete, true), Complete, nil, ""},
		{"an older copy beside the table, which rules", Facts{Copy: at(Pending), Copied: true, Legacy: LegacyExists, Stored: at(Deployed), Found: true}, Deployed, nil, ""},
		{"nobody looked", Facts{Table: "x"}, Unknown, ErrNotStarted, "single-table migration is not started: nobody looked for table x"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Begin(tc.facts)
			assert.Equal(t, tc.want, got)
			require.ErrorIs(t, err, tc.err)
			if tc.err != nil {
				assert.EqualError(t, err, tc.words)
			}
		})
	}
}

// single-table-migration#12: only two statuses are entered after a bake.
func TestBakes(t *testing.T) {
	bakes := func(c Config) (all []time.Duration) {
		for _, s := range []Status{Unknown, Init, Deployed, Pending, Complete} {
			all = append(all, c.bake(s))
		}
		return all
	}
	assert.Equal(t, []time.Duration{0, 0, time.Hour, 0, 24 * time.Hour}, bakes(Config{}))
	assert.Equal(t, []time.Duration{0, 0, time.Hour, 0, 2 * time.Hour}, bakes(Config{CompleteBake: 2 * time.Hour}))
}

// What Java clamps is an error here: in place of single-table-migration#13.
func TestConfigBounds(t *testing.T) {
	for _, b := range []time.Duration{0, time.Hour, 2 * time.Hour, 7 * 24 * time.Hour} {
		assert.NoError(t, Config{CompleteBake: b}.Validate())
	}
	assert.EqualError(t, Config{CompleteBake: 10 * time.Second}.Validate(), "singletable: CompleteBake is 10s, must be from 1h0m0s to 168h0m0s")
	assert.EqualError(t, Config{CompleteBake: 1e7 * time.Second}.Validate(), "singletable: CompleteBake is 2777h46m40s, must be from 1h0m0s to 168h0m0s")
	assert.Error(t, Config{CompleteBake: -1}.Validate())
	for _, w := range []string{"Leader", "Migration3.0", "TableMigration3.5"} {
		assert.ErrorContains(t, Config{Worker: w}.Validate(), "is the key of another item of the lease table")
	}
	assert.NoError(t, Config{Worker: "leader"}.Validate())
}

func TestBakedByWholeSeconds(t *testing.T) {
	c := Config{CompleteBake: time.Hour}
	since := time.UnixMilli(10_999)
	over, at := c.baked(Complete, since, time.UnixMilli(3_609_999))
	assert.False(t, over)
	assert.Equal(t, time.Unix(3610, 0), at)
	over, _ = c.baked(Complete, since, time.UnixMilli(3_610_000))
	assert.True(t, over)
	over, _ = c.baked(Init, since, time.UnixMilli(10_000))
	assert.True(t, over, "no bake")
}

// single-table-migration#51,53: a worker keeps the table that it writes to until
// it starts again, or until nobody reads the other one any more.
func TestWritesLeaseTable(t *testing.T) {
	for _, started := range []Status{Init, Deployed} {
		for _, now := range []Status{Init, Deployed, Pending} {
			assert.False(t, coordinator.WritesLeaseTable(started, now), "%s %s", started, now) // single-table-migration#54
		}
		assert.True(t, coordinator.WritesLeaseTable(started, Complete))
	}
	for _, started := range []Status{Pending, Complete} {
		for _, now := range []Status{Init, Deployed, Pending, Complete} {
			assert.True(t, coordinator.WritesLeaseTable(started, now), "%s %s", started, now)
		}
	}
}
