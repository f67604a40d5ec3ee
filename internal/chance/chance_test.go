package chance_test

import (
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-kcl/kcl/internal/chance"
)

// What is drawn keeps its bounds, reaches all of their breadth, and is the same
// again for whoever fixes the source of chance.
func TestDraws(t *testing.T) {
	draw := func(seed uint64) (numbers []float64) {
		cryptotest.SetGlobalRandom(t, seed)
		for range 1000 {
			f, d := chance.Float64(), chance.Below(time.Second)
			assert.True(t, 0 <= f && f < 1, f)
			assert.True(t, 0 <= d && d < time.Second, d)
			numbers = append(numbers, f, d.Seconds())
		}
		return numbers
	}
	first := draw(1)
	low, high := 0, 0
	for _, n := range first {
		if n < 0.1 {
			low++
		}
		if n > 0.9 {
			high++
		}
	}
	assert.InDelta(t, 200, low, 60)
	assert.InDelta(t, 200, high, 60)
	assert.Equal(t, first, draw(1))
	assert.NotEqual(t, first, draw(2))
}
