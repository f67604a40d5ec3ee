package sim

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/kcltest"
)

// A seed always draws the same scenario, in order; many seeds draw everything
// that there is.
func TestDraw(t *testing.T) {
	met := map[string]int{}
	for seed := range uint64(400) {
		s := draw(seed)
		require.Equal(t, s.String(), draw(seed).String())
		require.True(t, slices.IsSortedFunc(s.events, func(a, b event) int { return int(a.at - b.at) }), "seed %d", seed)
		met[s.profile.String()]++
		met[s.feed.pattern]++
		for _, e := range s.events {
			met[e.what]++
			for _, f := range e.faults {
				met[f.Effect.String()]++
				met[f.Code]++
			}
		}
	}
	for p := range profiles {
		assert.Positive(t, met[p.String()], "profile %s", p)
	}
	for name := range patterns {
		assert.Positive(t, met[name], "%s records", name)
	}
	for _, o := range occurrences {
		assert.Positive(t, met[o.what], "event %s", o.what)
	}
	for _, e := range []kcltest.Effect{kcltest.Slow, kcltest.Refuse, kcltest.Break, kcltest.LoseAnswer, kcltest.Hang, kcltest.Late, kcltest.Freeze, kcltest.FreezeAnswer} {
		assert.Positive(t, met[e.String()], "fault %s", e)
	}
	for _, f := range refusals {
		assert.Positive(t, met[f.Code], "refusal %s", f.Code)
	}
}

// What is left out of a scenario leaves the rest as it was.
func TestWithout(t *testing.T) {
	s := draw(1)
	short := s.without(1, 3)
	assert.Equal(t, slices.Concat(s.events[:1], s.events[3:]), short.events)
	assert.Len(t, draw(1).events, len(short.events)+2)
	assert.Equal(t, s.settings, short.settings)
}
