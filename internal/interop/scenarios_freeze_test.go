//go:build interop

package interop

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/go-kcl/kcl/kcltest"
)

// TestFreeze freezes a Go leader for less than its lock lasts, and for longer,
// among Java workers that want to lead.
func TestFreeze(t *testing.T) {
	f := newFleet(t, 4)
	if !*defaults {
		f.times.lock, f.times.beat = 30_000, 10_000 // Go's default
	}
	f.bound = 120 * time.Second * time.Duration(f.slow) // the freeze, the lock, and what an assignment takes
	f.excused["go-1"] = true
	f.produce(12)
	f.run("go-1")
	f.until(30*time.Second, "go-1 leads a fresh application and delivers", func() bool { return f.leader() == "go-1" && f.delivered("go-1") > 0 })
	f.loads.set(70, "go-1")
	for _, name := range []string{"java-1", "java-2"} {
		f.loads.set(20, name)
		f.run(name)
		f.until(120*time.Second, name+" joins, and delivers", f.has(name))
	}
	// In 20 s nobody takes the lock, in 45 s Java does, in 75 s it takes the leases, too.
	for _, d := range []time.Duration{20 * time.Second, 45 * time.Second, 75 * time.Second} {
		f.until(60*time.Second, "go-1 owns a lease, and all is delivered", func() bool {
			return len(f.owned("go-1")) > 0 && f.behind() < 3*time.Second
		})
		leader := f.leader()
		f.signal("go-1", syscall.SIGSTOP)
		time.Sleep(d)
		f.signal("go-1", syscall.SIGCONT)
		f.phase("go-1, while %s led, frozen for %v; now %q leads", leader, d, f.leader())
		f.until(90*time.Second, "every lease is owned, somebody leads", func() bool { return f.leader() != "" && f.attended() })
		f.loads.set(80, f.live()...)
		f.loads.set(10, "go-1")
		f.until(90*time.Second, "go-1 delivers again", f.has("go-1"))
	}
	f.finish()
}

var minutes = flag.Int("minutes", 10, "how long TestHundred kills workers")

// TestHundred kills at random in a fleet of two Java and two Go workers on 100
// shards. Records wait between delivery and checkpoint, so that kills repeat some.
func TestHundred(t *testing.T) {
	f := newFleet(t, 100, kcltest.Options{NoThrottling: true})
	slow := []string{"--idle-ms=2000", "--process-ms=300"}
	done := make(chan struct{})
	defer close(done)
	go func() { // until the scenario is over
		for tick := time.Tick(time.Second); ; {
			select {
			case <-tick:
			case <-done:
				return
			}
			for _, name := range f.live() { // each lease is work
				f.loads.set(2+0.9*float64(len(f.owned(name))), name)
			}
		}
	}()
	f.produce(30)
	f.run("go-1", slow...)
	f.until(60*time.Second, "go-1 leads a fresh application and delivers", func() bool { return f.leader() == "go-1" && f.delivered("go-1") > 0 })
	for _, name := range []string{"java-2", "go-3", "java-4"} {
		f.run(name, slow...)
		f.until(180*time.Second, name+" joins, and delivers", f.has(name))
	}
	end := time.Now().Add(time.Duration(*minutes) * time.Minute)
	for n := 5; time.Now().Before(end); n++ {
		time.Sleep(time.Duration(20+rand.IntN(40)) * time.Second)
		f.gone()
		victim := f.live()[rand.IntN(4)]
		f.kill(victim)
		f.phase("%s killed", victim)
		time.Sleep(time.Duration(rand.IntN(20)) * time.Second)
		next := side(victim) + "-" + strconv.Itoa(n)
		f.run(next, slow...)
		f.until(240*time.Second, next+" joins, and delivers", f.has(next))
		if !slices.Contains(f.live(), f.leader()) {
			f.until(90*time.Second, "somebody leads", func() bool { return slices.Contains(f.live(), f.leader()) })
		}
	}
	f.until(120*time.Second, "every lease is owned", f.attended)
	f.finish()
}
