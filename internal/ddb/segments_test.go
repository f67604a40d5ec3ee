package ddb

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"

	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/kcltest"
)

// leases#38, single-table-migration#64
func TestSegmentsFor(t *testing.T) {
	for bytes, want := range map[int64]int{
		0: 1, 1024: 1, 104857600: 1, 214748364: 1, 214748365: 2, 322122547: 2, 1 << 30: 5, 2 << 30: 10, 5 << 30: 25,
		31 * (1 << 30) / 5: 31, 31*(1<<30)/5 + 1: 32, 100 << 30: 32, 1 << 62: 32,
	} {
		assert.Equal(t, want, segmentsFor(bytes), "%d bytes", bytes)
	}
}

// leases#38, single-table-migration#64
func TestSegmentsAskSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		emu := kcltest.New(kcltest.Options{Delays: kcltest.NoDelays})
		client := dynamodb.NewFromConfig(emu.Config("a"))
		var size atomic.Int64 // -1: fails, -2: no table
		emu.Intercept(func(context.Context, wire.Info, func() wire.Answer) (wire.Answer, error) {
			switch n := size.Load(); n {
			case -1:
				return failure("AccessDeniedException", "no").Answer(wire.JSON10), nil
			case -2:
				return failure("ResourceNotFoundException", "no").Answer(wire.JSON10), nil
			default:
				return wire.OK(wire.JSON10, map[string]any{"Table": map[string]any{"TableSizeBytes": n}}), nil
			}
		})
		count := func(s *Segments) int { return s.Count(t.Context()) }

		fixed := NewSegments(client, testTable, 50)
		assert.Equal(t, 50, count(fixed), "no cap on what is configured")
		assert.Zero(t, emu.Count("DescribeTable"))

		s := NewSegments(client, testTable, 0)
		size.Store(-1)
		assert.Equal(t, 10, count(s), "not known")
		size.Store(1 << 30)
		assert.Equal(t, 5, count(s), "asked again at once after a failure")
		assert.Equal(t, 2, emu.Count("DescribeTable"))

		size.Store(2 << 30)
		time.Sleep(2*time.Hour - 1)
		assert.Equal(t, 5, count(s), "not asked again within 2 hours")
		assert.Equal(t, 2, emu.Count("DescribeTable"))
		time.Sleep(time.Nanosecond)
		assert.Equal(t, 10, count(s))
		assert.Equal(t, 3, emu.Count("DescribeTable"))

		time.Sleep(2 * time.Hour)
		size.Store(-1)
		assert.Equal(t, 10, count(s), "what was known last")
		size.Store(100 << 30)
		assert.Equal(t, 32, count(s))

		missing := NewSegments(client, testTable, 0)
		size.Store(-2)
		assert.Equal(t, 10, count(missing), "no table")
		size.Store(0)
		assert.Equal(t, 10, count(missing), "remembered for 2 hours")
		time.Sleep(2 * time.Hour)
		assert.Equal(t, 1, count(missing))
	})
}
