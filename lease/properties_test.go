package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Ruling 1: whatever an owner's clocks did, as long as not both went wrong, what
// it takes for a live term is one by the true time too, so that no observer has
// called the lease expired; what it gives up is over; and undisturbed clocks
// leave no doubt.
func TestNoLiveTermIsOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		step := rapid.SampledFrom([]time.Duration{0, 1, time.Second, testTerm / 2, testTerm - 1, testTerm, testTerm + 1, time.Hour})
		passed := step.Draw(t, "passed")
		suspended, set := time.Duration(0), time.Duration(0)
		if rapid.Bool().Draw(t, "suspends") {
			suspended = min(passed, step.Draw(t, "suspended for"))
			set = step.Draw(t, "wall clock set forward by")
		} else {
			set = step.Draw(t, "wall clock set by") - step.Draw(t, "wall clock set back by")
		}
		began := readClocks()
		now := reading{mono: began.mono.Add(passed - suspended), wall: began.wall.Add(passed + set)}
		mono, wall := began.since(now)
		worth := judge(mono, wall, testTerm)

		observed := Lease{Moved: began.mono} // seen at once
		expired := observed.Expired(began.mono.Add(passed), testTerm)
		require.False(t, worth == live && expired, "two act")
		require.False(t, worth == over && !expired, "given up too early")
		require.True(t, suspended > 0 || set != 0 || worth != doubtful, "doubt for no reason")

		todo := nextStep(worth, true, rapid.Bool().Draw(t, "unsaved"), mono, testTerm/3)
		require.Equal(t, worth == over, todo == giveItUp)
		require.False(t, worth == doubtful && todo == skip, "what is in doubt is not asked about")
	})
}
