package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

const testTerm = 10 * time.Second

func TestJudgeReadsBothClocks(t *testing.T) {
	for name, c := range map[string]struct {
		mono, wall time.Duration
		want       trust
	}{
		"fresh":                                     {0, 0, live},
		"exactly as old as the term":                {testTerm, testTerm, live},
		"one tick older":                            {testTerm + 1, testTerm + 1, over},
		"old by the monotonic clock only":           {testTerm + 1, time.Second, over},
		"old by the monotonic clock, wall set back": {testTerm + 1, -time.Hour, over},
		"old by the wall clock only: suspended":     {time.Second, time.Hour, doubtful},
		"a tick too old by the wall clock only":     {testTerm, testTerm + 1, doubtful},
		"wall clock set back":                       {time.Second, -time.Hour, live},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, judge(c.mono, c.wall, testTerm)) })
	}
}

func TestReadingKeepsTheClocksApart(t *testing.T) {
	now := readClocks()
	began := reading{mono: now.mono.Add(-time.Second), wall: now.wall.Add(-time.Hour)}
	mono, wall := began.since(now)
	assert.Equal(t, time.Second, mono)
	assert.Equal(t, time.Hour, wall)
}

func TestNextStep(t *testing.T) {
	const period = 3308 * time.Millisecond
	for name, c := range map[string]struct {
		trust             trust
		possible, unsaved bool
		age               time.Duration
		want              step
	}{
		"over":                                {over, true, true, period, giveItUp},
		"owners that cannot be":               {live, false, true, period, giveItUp},
		"a position waits":                    {live, true, true, 0, storeIt},
		"a position waits, in doubt":          {doubtful, true, true, 0, storeIt},
		"in doubt, however young":             {doubtful, true, false, 0, renewIt},
		"a period old":                        {live, true, false, period, renewIt},
		"exactly half a period old":           {live, true, false, period / 2, renewIt},
		"written less than half a period ago": {live, true, false, period/2 - 1, skip},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, nextStep(c.trust, c.possible, c.unsaved, c.age, period))
		})
	}
}

// leases#48: the renewal keeps KCL's interval; discovery may be quicker.
func TestIntervals(t *testing.T) {
	assert.Equal(t, 3308*time.Millisecond, renewalPeriod(10*time.Second, 25*time.Millisecond))
	assert.Equal(t, time.Millisecond, renewalPeriod(3*time.Millisecond, 25*time.Millisecond))

	kcl := pace{failover: 10 * time.Second, epsilon: 25 * time.Millisecond}
	explicit, provisioned := kcl, kcl
	explicit.assignment = 20 * time.Second
	provisioned.provisioned = true
	quickFailover := kcl
	quickFailover.failover = 500 * time.Millisecond

	for name, c := range map[string]struct {
		pace  pace
		units float64
		idle  time.Duration
		want  time.Duration
	}{
		"holds leases":                          {kcl, 0.5, -1, 2 * time.Second},
		"first minute without a lease":          {kcl, 0.5, 0, time.Second},
		"end of the first minute":               {kcl, 0.5, time.Minute - 1, time.Second},
		"longer without a lease":                {kcl, 0.5, time.Minute, 2 * time.Second},
		"a query of one unit":                   {kcl, 1, -1, 3 * time.Second},
		"a costly query: never slower than KCL": {kcl, 100, -1, 9975 * time.Millisecond},
		"explicit assignment interval":          {explicit, 0.5, 0, 9975 * time.Millisecond},
		"provisioned table":                     {provisioned, 0.5, 0, 9975 * time.Millisecond},
		"short failover time":                   {quickFailover, 0.5, -1, 475 * time.Millisecond},
		"short failover time, no lease":         {quickFailover, 0.5, 0, 475 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, c.pace.interval(c.units, c.idle)) })
	}
}

// What the queries of a worker cost stays within its budget as long as KCL's
// own interval allows.
func TestDiscoveryCost(t *testing.T) {
	p := pace{failover: 10 * time.Second, epsilon: 25 * time.Millisecond}
	for _, n := range []int{0, 1, 40, 100, 150} {
		keys := make([]string, n)
		for i := range keys {
			keys[i] = "shardId-000000000000"
		}
		units := queryUnits(keys, "host-1.example.com-0a1b2c3d")
		perHour := units * float64(time.Hour) / float64(p.interval(units, -1))
		assert.LessOrEqual(t, perHour, 1200.0, "%d leases", n)
	}
	assert.Equal(t, 0.5, queryUnits(nil, "w"))
}

func TestFateOf(t *testing.T) {
	for name, c := range map[string]struct {
		owner, checkpointOwner string
		want                   fate
	}{
		"ours":                          {"me", "", acquired},
		"the index lags":                {"other", "", notOurs},
		"nobody's any more":             {"", "", notOurs},
		"being handed to us":            {"me", "other", waiting},
		"being handed over by us":       {"other", "me", notOurs},
		"to be handed by us to us":      {"me", "me", waiting},
		"being handed on between other": {"other", "third", notOurs},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, fateOf(Lease{Owner: c.owner, CheckpointOwner: c.checkpointOwner}, "me"))
		})
	}
}

func TestMustTransfer(t *testing.T) {
	for name, c := range map[string]struct {
		ended, alive bool
		left         time.Duration
		want         bool
	}{
		"consumer has time":          {false, true, 1, false},
		"consumer's time is up":      {false, true, 0, true},
		"no consumer":                {false, false, time.Second, true},
		"at shard end":               {true, false, time.Second, false},
		"at shard end, time is up":   {true, true, -1, false},
		"no consumer, nor any time":  {false, false, -1, true},
		"at shard end, nobody there": {true, false, -1, false},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, mustTransfer(c.ended, c.alive, c.left)) })
	}
}
