// Package chance is where the library's jitter comes from. It draws on
// crypto/rand, as the AWS SDK does for its own, so that whoever fixes that
// (testing/cryptotest) sees a fleet do the same again.
package chance

import (
	crand "crypto/rand"
	"encoding/binary"
	"math/rand/v2"
	"time"
)

// source is a [rand.Source] without state, and so safe for concurrent use.
type source struct{}

func (source) Uint64() uint64 {
	var b [8]byte
	_, _ = crand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

// Float64 returns a number in [0, 1).
func Float64() float64 { return rand.New(source{}).Float64() }

// Below returns a duration in [0, d). It panics if d is not positive.
func Below(d time.Duration) time.Duration {
	return time.Duration(rand.New(source{}).Int64N(int64(d)))
}
