package workermetrics

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

const period = 30 * time.Second

// Each case is a row of looks at one record: when, by this host's clock, and
// what time the record said, both in seconds; and then whether the worker is
// alive at which times. Ruling 6.
func TestAlive(t *testing.T) {
	const none = -1 << 40
	type look struct{ at, says int64 }
	for _, c := range []struct {
		name  string
		looks []look
		alive map[int64]bool
	}{
		{
			// Overrules lease-assignment-and-worker-metrics#17: by what was seen,
			// not by the clock.
			"first sight counts the record's age", []look{{1000, 970}},
			map[int64]bool{1000: true, 1030: true, 1031: false},
		},
		{"exactly two periods old", []look{{1000, 940}}, map[int64]bool{1000: true, 1001: false}},
		{"older than two periods", []look{{1000, 939}}, map[int64]bool{1000: false}},
		{"a worker whose clock is slow lives once its record changes", []look{{1000, 880}, {1020, 910}}, map[int64]bool{1020: true, 1080: true, 1081: false}},
		{"a worker whose clock is fast dies two periods after the first look", []look{{1000, 9000}}, map[int64]bool{1060: true, 1061: false}},
		{"a worker whose clock is fast dies two periods after its last change", []look{{1000, 9000}, {1010, 9030}, {1060, 9030}}, map[int64]bool{1070: true, 1071: false}},
		{"looking again does not make it live longer", []look{{1000, 1000}, {1020, 1000}, {1040, 1000}, {1060, 1000}}, map[int64]bool{1060: true, 1061: false}},
		{"a clock set back is a sign of life", []look{{1000, 1000}, {1050, 400}}, map[int64]bool{1110: true, 1111: false}},
		{"after a pause in looking a change may be old", []look{{1000, 990}, {2000, 1500}}, map[int64]bool{2000: false}},
		{"after a pause in looking a fresh record is one", []look{{1000, 990}, {2000, 1990}}, map[int64]bool{2050: true, 2051: false}},
		{"an unchanged record stays dead after a pause", []look{{1000, 9000}, {2000, 9000}}, map[int64]bool{2000: false}},
		{"no time", []look{{1000, none}}, map[int64]bool{1000: false}},
		{"the time vanished", []look{{1000, 1000}, {1010, none}}, map[int64]bool{1010: false}},
		{"a time came", []look{{1000, none}, {1010, 900}}, map[int64]bool{1070: true, 1071: false}},
		{"never seen", nil, map[int64]bool{1000: false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s Sighting
			for _, l := range c.looks {
				r := Record{Worker: "w"}
				if l.says != none {
					r.Updated = time.Unix(l.says, 0)
				}
				s = s.Next(r, time.Unix(l.at, 0), period)
			}
			for at, want := range c.alive {
				assert.Equal(t, want, s.Alive(time.Unix(at, 0), period), "at %d", at)
			}
		})
	}
}

func TestStale(t *testing.T) {
	const day = 24 * 3600
	see := func(s Sighting, at, says int64) Sighting {
		r := Record{Worker: "w"}
		if says != 0 {
			r.Updated = time.Unix(says, 0)
		}
		return s.Next(r, time.Unix(at, 0), period)
	}
	stale := func(s Sighting, at int64) bool { return s.Stale(time.Unix(at, 0), day*time.Second, period) }

	old := see(Sighting{}, 10*day, 8*day)
	assert.False(t, stale(old, 10*day), "only just seen: this host's clock may be wrong")
	assert.False(t, stale(old, 10*day+60))
	assert.True(t, stale(old, 10*day+61))
	assert.False(t, stale(see(old, 10*day+30, 8*day+30), 10*day+61), "it lives, with a wrong clock")

	exact := see(Sighting{}, 10*day, 10*day)
	assert.False(t, stale(exact, 11*day), "exactly as old")
	assert.True(t, stale(exact, 11*day+1))

	// Do better 10: a record that does not say when it was written.
	timeless := see(Sighting{}, 10*day, 0)
	assert.False(t, stale(timeless, 10*day+60))
	assert.True(t, stale(timeless, 10*day+61))

	assert.False(t, stale(Sighting{}, 10*day), "never seen")
}
