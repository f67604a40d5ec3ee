package leader

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestNext(t *testing.T) {
	const minute = time.Minute
	held := lock{owner: "java", version: "v1", duration: minute}
	renewed := lock{owner: "java", version: "v2", duration: minute}
	freed := lock{owner: "java", version: "v1", duration: minute, released: true}
	seen := sighting{lock: held, at: t0}

	for _, tc := range []struct {
		name  string
		item  lock
		found bool
		seen  sighting
		mine  bool
		after time.Duration // since the sighting
		want  action
		// standing is what a worker that stands back does instead.
		standing action
	}{
		{"absent", lock{}, false, sighting{}, false, 0, acquire, wait},
		{"absent, seen before", lock{}, false, seen, false, time.Hour, acquire, wait},
		{"released: leader-and-client-version-migration#10", freed, true, sighting{}, false, 0, reclaim, wait},
		{"released under our own version", freed, true, seen, true, 0, reclaim, wait},
		{"ours", held, true, sighting{}, true, 0, adopt, wait},
		{"first sight, however old", held, true, sighting{}, false, time.Hour, observe, observe},
		{"another version: leader-and-client-version-migration#6", renewed, true, seen, false, time.Hour, observe, observe},
		{"same version, in time", held, true, seen, false, minute - 1, wait, wait},
		{"exactly its duration: leader-and-client-version-migration#8", held, true, seen, false, minute, wait, wait},
		{"one tick more", held, true, seen, false, minute + 1, steal, wait},
		{"a duration of nothing, first sight", lock{version: "v1"}, true, sighting{}, false, 0, observe, observe},
		{"a duration of nothing, seen just now", lock{version: "v1"}, true, sighting{lock: lock{version: "v1"}, at: t0}, false, 0, wait, wait},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now := t0.Add(tc.after)
			assert.Equal(t, tc.want, next(tc.item, tc.found, tc.seen, tc.mine, now, false))
			assert.Equal(t, tc.standing, next(tc.item, tc.found, tc.seen, tc.mine, now, true))
		})
	}
}

// leader-and-client-version-migration#7: the duration that counts is the item's.
func TestNextWaitsForTheItemsDuration(t *testing.T) {
	item := lock{owner: "java", version: "v1", duration: time.Minute}
	seen := sighting{lock: item, at: t0}
	for after := time.Duration(0); after <= time.Minute; after += time.Second {
		assert.Equal(t, wait, next(item, true, seen, false, t0.Add(after), false), after)
	}
	assert.Equal(t, steal, next(item, true, seen, false, t0.Add(time.Minute+1), false))
}

func TestNextLook(t *testing.T) {
	const beat = 10 * time.Second
	seen := func(at, duration time.Duration) sighting {
		return sighting{lock: lock{version: "v1", duration: duration}, at: t0.Add(at)}
	}
	for _, tc := range []struct {
		name      string
		seen      sighting
		standBack time.Time
		want      time.Duration // from now, which is t0
	}{
		{"nothing seen", sighting{}, time.Time{}, beat},
		{"cannot expire before the next heartbeat", seen(0, 30*time.Second), time.Time{}, beat},
		{"expires before the next heartbeat", seen(-25*time.Second, 30*time.Second), time.Time{}, 5*time.Second + 1},
		{"a short one just seen", seen(0, 200*time.Millisecond), time.Time{}, 200*time.Millisecond + 1},
		{"is expired and was not taken", seen(-time.Hour, 30*time.Second), time.Time{}, beat},
		{"for ever", seen(0, maxDuration), time.Time{}, beat},
		{"stands back for less than a heartbeat", sighting{}, t0.Add(3 * time.Second), 3 * time.Second},
		{"stands back for longer", seen(-25*time.Second, 30*time.Second), t0.Add(time.Minute), 5*time.Second + 1},
		{"stood back", sighting{}, t0.Add(-time.Second), beat},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.want, nextLook(tc.seen, t0, beat, tc.standBack).Sub(t0))
		})
	}
}

func TestJudge(t *testing.T) {
	const d = 30 * time.Second
	for _, tc := range []struct {
		name       string
		mono, wall time.Duration
		want       standing
	}{
		{"just renewed", 0, 0, certain},
		{"exactly its duration: leader-and-client-version-migration#8", d, d, certain},
		{"over by both clocks", d + 1, d + 1, over},
		{"over by the monotonic clock, the wall clock set back", d + 1, -time.Hour, over},
		{"over by the wall clock only: suspended, or set forward", time.Second, d + 1, doubtful},
		{"wall clock set back", time.Second, -time.Hour, certain},
	} {
		t.Run(tc.name, func(t *testing.T) { assert.Equal(t, tc.want, judge(tc.mono, tc.wall, d)) })
	}
}

// An owner's term is over, by its own count, before anybody may take over: it
// counts from before its write, others from after a read that shows it.
func TestTermEndsBeforeTheLockMayBeStolen(t *testing.T) {
	const d = 30 * time.Second
	item := lock{owner: "go", version: "v1", duration: d}
	for sent := range 3 { // seconds; the write, then the read
		for shown := range 3 {
			seen := sighting{lock: item, at: t0.Add(time.Duration(sent+shown) * time.Second)}
			for now := t0; !now.After(t0.Add(2 * d)); now = now.Add(time.Second / 2) {
				leads := judge(now.Sub(t0), now.Sub(t0), d) == certain
				steals := next(item, true, seen, false, now, false) == steal
				assert.False(t, leads && steals, "sent %d shown %d at %v", sent, shown, now.Sub(t0))
			}
		}
	}
}

func TestOwn(t *testing.T) {
	o := own{known: "v1", unsure: "v2"}
	assert.True(t, o.has(lock{owner: "go", version: "v1"}, "go"))
	assert.True(t, o.has(lock{owner: "go", version: "v2"}, "go"))
	assert.False(t, o.has(lock{owner: "go", version: "v3"}, "go"), "a former process of this name")
	assert.False(t, o.has(lock{owner: "java", version: "v1"}, "go"))
	assert.False(t, own{}.has(lock{owner: "go", version: "v1"}, "go"))
}
