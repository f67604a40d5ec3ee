package leader

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/wire"
	"github.com/go-kcl/kcl/kcltest"
)

// No schedule of lost calls, lost answers, slow calls and kills lets two lead at
// a time, and when it is over one leads.
func TestNeverTwoLeaders(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, seed) // the SDK's jitter
			inWorld(t, kcltest.Options{Latency: 300 * time.Millisecond, Seed: seed}, func(t *testing.T, w *world) {
				rng := newRand(seed)
				var quiet atomic.Bool
				w.faults(func(client, _ string) fault {
					if quiet.Load() || client == "operator" {
						return nil
					}
					switch rng(12) {
					case 0, 1:
						return lost
					case 2, 3:
						return landed
					case 4:
						return landedSilently
					case 5:
						return unavailable
					case 6: // lands long after everybody has given it up
						return func(ctx context.Context, run func() wire.Answer) (wire.Answer, error) {
							time.AfterFunc(time.Duration(rng(20))*time.Second, func() { run() })
							<-ctx.Done()
							return wire.Answer{}, ctx.Err()
						}
					}
					return nil
				})
				workers := []*worker{w.start("a"), w.start("b"), w.start("c", times(4*time.Second, time.Second)), w.start("d", times(20*time.Second, 5*time.Second))}
				led := map[string]bool{}
				for range 4_000 { // seven minutes
					time.Sleep(100 * time.Millisecond)
					var leaders []string
					for _, x := range workers {
						term, leads := x.Leading()
						if !leads {
							continue
						}
						leaders = append(leaders, x.name)
						led[x.name] = true
						if rng(300) == 0 {
							go func() { _ = x.Resign(t.Context(), term) }()
						}
					}
					require.LessOrEqual(t, len(leaders), 1, "%v lead", leaders)
				}
				assert.Greater(t, len(led), 1, "the faults have moved the lock")
				quiet.Store(true)
				time.Sleep(2 * time.Minute)
				leaders := 0
				for _, x := range workers {
					if x.leads() {
						leaders++
					}
				}
				assert.Equal(t, 1, leaders)
				for _, x := range workers {
					require.NoError(t, x.stop())
				}
				assert.Nil(t, w.item())
			})
		})
	}
}

// newRand returns a small repeatable generator that any goroutine may use.
func newRand(seed uint64) func(n int) int {
	state := make(chan uint64, 1)
	state <- seed*2 + 1
	return func(n int) int {
		s := <-state
		s = s*6364136223846793005 + 1442695040888963407
		state <- s
		return int(s>>33) % n
	}
}
