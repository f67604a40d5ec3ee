package dynamodb

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

func TestStorageKeysHaveTheOrderOfTheValues(t *testing.T) {
	number := func(s string) attr.Value {
		v, err := attr.ParseNumber(s)
		assert.NoError(t, err)
		return v
	}
	tests := []struct {
		name   string
		values []attr.Value
	}{
		{"strings", []attr.Value{attr.String("a"), attr.String("a\x00"), attr.String("a\x00b"), attr.String("a\x01"), attr.String("ab"), attr.String("b"), attr.String("é"), attr.String("\U0001d11e")}},
		{"binaries", []attr.Value{attr.Binary("\x00"), attr.Binary("\x00\x00"), attr.Binary("\x01"), attr.Binary("\x7f"), attr.Binary("\xff"), attr.Binary("\xff\xff")}},
		{"numbers", []attr.Value{
			number("-9.9e125"), number("-1e10"), number("-12.5"), number("-12"), number("-1"), number("-0.5"), number("-1e-130"),
			number("0"), number("1e-130"), number("0.05"), number("0.5"), number("0.51"), number("1"), number("9"), number("10"), number("12"), number("12.5"), number("1e10"), number("9.9e125"),
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for i, v := range tt.values {
				for _, w := range tt.values[i+1:] {
					assert.Less(t, sortKey(v), sortKey(w), "%s and %s", v.Text(), w.Text())
					assert.False(t, strings.HasPrefix(sortKey(w), sortKey(v)), "%q begins with %q", w.Text(), v.Text())
				}
			}
		})
	}
}

func TestSegmentsCutTheHashRange(t *testing.T) {
	for _, total := range []int{1, 2, 3, 7, 10, 1000, 1_000_000} {
		for _, segment := range []int{0, 1, total / 2, total - 1} {
			if segment >= total {
				continue
			}
			start := segmentStart(segment, total)
			if segment == 0 {
				assert.Empty(t, start)
				continue
			}
			first := hashOf(start)
			assert.Equal(t, segment, segmentOf(first, total), "first hash of %d of %d", segment, total)
			assert.Equal(t, segment-1, segmentOf(first-1, total), "last hash before %d of %d", segment, total)
		}
		assert.Equal(t, total-1, segmentOf(math.MaxUint64, total))
	}
}

func TestPastPrefix(t *testing.T) {
	assert.Equal(t, "ac", pastPrefix("ab"))
	assert.Equal(t, "b", pastPrefix("a\xff\xff"))
	assert.Equal(t, "a\xff", pastPrefix("a\xfe"))
	assert.Equal(t, "\x80\x81", pastPrefix("\x80\x80"))
}
