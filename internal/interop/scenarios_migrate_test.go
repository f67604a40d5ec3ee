//go:build interop

package interop

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
)

func decimal(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// reread is the time within which a leader sees that the migration's item was set back:
// Go reads it once a minute, Java every second.
const reread = 80 * time.Second

// migration is an application whose state moves from the tables of KCL 3.0 to 3.4
// into the lease table.
type migration struct {
	*fleet
	n int // workers started so far
}

// newMigration starts the application with two Java workers of 3.4.0.
func newMigration(t *testing.T) *migration {
	m := &migration{fleet: newFleet(t, 4)}
	report := 30 * time.Second // both sides' default
	if !*defaults {
		report = 4 * time.Second
		m.times.report = report.Milliseconds()
		m.times.failover = 6000 // 3.4.0 assigns leases every two of it
	}
	m.least = 150 * time.Second * time.Duration(m.slow)
	m.pardons = migrationPardons
	m.mu.Lock()
	m.legacy = newLegacy(report)
	m.mu.Unlock()
	m.produce(12)
	first := m.start("java", before35)
	m.until(200*time.Second, first+" leads a fresh application and delivers", func() bool { return m.leader() == first && m.delivered(first) > 0 })
	second := m.start("java", before35)
	m.loads.set(90, first)
	m.loads.set(5, second)
	m.until(150*time.Second, "the fleet is of Java 3.4.0, two workers", m.all(first, second))
	m.holds("3.4-legacy-three-tables")
	return m
}

// start starts a worker and returns its name.
func (m *migration) start(side string, p phase) string {
	m.n++
	name := side + "-" + strconv.Itoa(m.n)
	var more []string
	m.java = *version
	switch p {
	case before35:
		m.java = "3.4.0"
	case phase1:
		more = append(more, "--bake-seconds=3600")
	case phase2:
		more = append(more, "--single-table=true", "--bake-seconds=3600")
	}
	m.mu.Lock()
	m.legacy.phases[name] = p
	m.mu.Unlock()
	m.run(name, more...)
	return name
}

// join starts a worker that is to have leases.
func (m *migration) join(side string, p phase) string {
	m.Helper()
	return m.joins(m.start(side, p), p)
}

// joins waits until a worker that has been started has leases.
func (m *migration) joins(name string, p phase) string {
	m.Helper()
	m.loads.set(90, m.live()...)
	m.loads.set(5, name)
	m.until(150*time.Second, name+", of "+p.String()+", joins under "+m.leader()+", and delivers", m.has(name))
	m.loads.set(50, m.live()...)
	return name
}

// wave replaces the fleet by two workers, the first of which leads.
func (m *migration) wave(leads, follows string, p phase) (first, second string) {
	m.Helper()
	old := m.live()
	first = m.join(leads, p)
	// The leader last: nobody but the first is left to follow it.
	leader := m.leader()
	for _, name := range old {
		if name != leader {
			m.stop(name)
		}
	}
	if slices.Contains(old, leader) {
		m.stop(leader)
	}
	m.until(90*time.Second, first+" leads, and has every lease", func() bool { return m.leader() == first && m.attended() })
	second = m.join(follows, p)
	m.until(60*time.Second, first+" and "+second+" have every lease, and "+first+" leads", func() bool {
		return m.all(first, second)() && m.leader() == first
	})
	return first, second
}

// at waits for a status of the migration.
func (m *migration) at(limit time.Duration, status string) {
	m.Helper()
	m.until(limit, "the migration is at "+status, func() bool { return m.migration() == status })
}

// flows waits until nothing is left behind.
func (m *migration) flows() {
	m.Helper()
	m.until(90*time.Second, "records flow", func() bool { return m.attended() && m.behind() < 3*time.Second })
}

// play takes the application from 3.4.0 to COMPLETE, and on.
func play(t *testing.T, leads, follows string) {
	m := newMigration(t)
	first, _ := m.wave(leads, follows, phase1)
	m.at(60*time.Second, "INIT")
	m.holds("3.5-table-migration-init")
	early := ""
	if leads == "java" { // which looks every second
		// Who is asked to migrate too early waits, and comes in once it may.
		early = m.start(follows, phase2)
		time.Sleep(8 * time.Second)
		assert.False(t, m.reporting(early), "a worker takes part that was asked to migrate before all were ready")
	}
	m.age("INIT")
	m.at(reread, "DEPLOYED")
	m.holds("3.5-table-migration-deployed", early)
	assert.Equal(t, first, m.leader())
	m.flows()
	if early != "" {
		m.joins(early, phase2)
		m.stop(early)
	}

	first, _ = m.wave(leads, follows, phase2)
	m.at(60*time.Second, "PENDING")
	m.flows()
	m.holds("3.5-table-migration-pending")
	assert.Equal(t, first, m.leader())
	m.age("PENDING")
	m.at(reread, "COMPLETE")
	m.until(60*time.Second, "somebody leads by the lease table's lock", m.settled)
	m.flows()
	m.holds("3.5-table-migration-complete")

	// Who starts now needs no telling that it is over.
	third := m.start(follows, phase1)
	m.mu.Lock()
	m.legacy.phases[third] = phase2 // whatever it is asked
	m.mu.Unlock()
	m.joins(third, phase2)
	leader := m.leader()
	m.stop(leader)
	m.until(60*time.Second, leader+" stopped: another leads by the lease table's lock", m.settled)
	m.flows()
	m.holds("3.5-table-migration-complete")
	m.finish()
	assert.Equal(t, []string{"INIT", "DEPLOYED", "PENDING", "COMPLETE"}, m.path())
}

// settled says that a live worker has the lease table's lock, and nobody another.
func (m *migration) settled() bool {
	live := m.live()
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(live, text(m.items[lockKey]["ownerName"])) && m.legacy.coordinator[lockKey] == nil
}

// migrationPardons are what workers may log while the tables change.
var migrationPardons = []string{
	// How a Java worker learns that the old lock is not the one that counts any more.
	`WARN +DynamoDBLockBasedLeaderDecider handleLeaderLockResult failed, releasing lock and returning false`,
	// One that is asked to migrate too early tries again.
	`ERROR Scheduler Caught exception when initializing LeaseCoordinator`,
	`level=WARN msg="start failed, tried again" .* err="second deployment of the single-table migration before the first is done`,
}

// TestMigrateJavaAlone has none but Java workers: what the other scenarios hold
// mixed fleets to, Java alone does.
func TestMigrateJavaAlone(t *testing.T) { play(t, "java", "java") }

// TestMigrateBack goes back: to 3.4.0 before the end of phase 1 and after it, and
// from phase 2 to phase 1 while its bake lasts.
func TestMigrateBack(t *testing.T) { back(t, "go", "java") }

func back(t *testing.T, leads, follows string) {
	m := newMigration(t)
	m.wave(leads, follows, phase1)
	m.at(60*time.Second, "INIT")
	m.holds("3.5-table-migration-init")
	// A worker of 3.4.0 that owns leases: the fleet is not ready any more.
	straggler := m.join("java", before35)
	m.at(60*time.Second, "")
	m.stop(straggler)
	m.at(120*time.Second, "INIT")
	m.age("INIT")
	m.at(reread, "DEPLOYED")
	m.holds("3.5-table-migration-deployed")

	m.wave("java", "java", before35)
	m.flows()
	m.holds("3.4-legacy-three-tables")

	m.wave(follows, leads, phase1)
	m.flows()
	m.wave(leads, follows, phase2)
	m.at(60*time.Second, "PENDING")
	m.holds("3.5-table-migration-pending")

	m.wave(follows, leads, phase1)
	m.flows()
	m.finish()
	assert.Equal(t, []string{"INIT", "", "INIT", "DEPLOYED", "PENDING", "DEPLOYED"}, m.path())
}

// TestMigrateGoLeads has Go workers take the application from 3.4.0 to COMPLETE,
// with Java workers of 3.5 that follow.
func TestMigrateGoLeads(t *testing.T) { play(t, "go", "java") }

// TestMigrateJavaLeads is the other way round.
func TestMigrateJavaLeads(t *testing.T) { play(t, "java", "go") }
