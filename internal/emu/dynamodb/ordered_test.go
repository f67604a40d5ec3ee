package dynamodb

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOrderedAgainstMap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var o ordered[int]
	model := map[string]int{}
	for i := range 20_000 {
		key := fmt.Sprintf("%04x", rnd.IntN(3000))
		if rnd.IntN(5) < 2 {
			o.delete(key)
			delete(model, key)
		} else {
			o.put(key, i)
			model[key] = i
		}
		if i%997 != 0 {
			continue
		}
		require.Equal(t, len(model), o.len())
		sorted := slices.Sorted(maps.Keys(model))
		from := fmt.Sprintf("%04x", rnd.IntN(3000))
		at, _ := slices.BinarySearch(sorted, from)

		var up, down []string
		for k, v := range o.ascend(from) {
			require.Equal(t, model[k], v)
			up = append(up, k)
		}
		for k := range o.descend(from) {
			down = append(down, k)
		}
		require.True(t, slices.Equal(sorted[at:], up), "ascend from %s", from)
		below := slices.Clone(sorted[:at])
		slices.Reverse(below)
		require.True(t, slices.Equal(below, down), "descend before %s", from)

		v, ok := o.get(from)
		want, has := model[from]
		require.Equal(t, has, ok)
		require.Equal(t, want, v)
	}
	for key := range model {
		o.delete(key)
	}
	assert.Zero(t, o.len())
	for range o.ascend("") {
		t.Fatal("an empty map has entries")
	}
	for range o.descend("\xff") {
		t.Fatal("an empty map has entries")
	}
}

func TestOrderedStopsWhenAsked(t *testing.T) {
	var o ordered[int]
	for i := range 1000 {
		o.put(fmt.Sprintf("%04d", i), i)
	}
	var got []int
	for _, v := range o.ascend("0500") {
		if got = append(got, v); len(got) == 3 {
			break
		}
	}
	for _, v := range o.descend("0500") {
		if got = append(got, v); len(got) == 6 {
			break
		}
	}
	assert.Equal(t, []int{500, 501, 502, 499, 498, 497}, got)
}
