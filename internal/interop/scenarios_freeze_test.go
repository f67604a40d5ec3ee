//go:build interop

package interop

import (
	"flag"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-kcl/kcl/kcltest"
)

// TestFreeze freezes a Go leader, with the short lock that is its default, among
// Java workers that want to lead: for less than the lock lasts, for longer, and
// until its leases are gone, too. The Java workers are new each time and slow to
// take up what the leader gives them.
func TestFreeze(t *testing.T) {
	f := newFleet(t, 4)
	var eager []string
	if !*defaults {
		f.times.lock, f.times.beat = 30_000, 10_000  // Go's default
		eager = []string{"--lock-heartbeat-ms=3000"} // who looks more often takes the lock within 38 s
	}
	f.produce(12)
	f.run("go-1")
	f.until(30*time.Second, "go-1 leads a fresh application and delivers", func() bool { return f.leader() == "go-1" && f.delivered("go-1") > 0 })
	n := 0
	for _, d := range []time.Duration{20 * time.Second, 45 * time.Second, 75 * time.Second} {
		if n > 0 {
			f.stop(f.javas()...)
			f.until(90*time.Second, "the Java workers stopped: go-1 leads and has all", func() bool { return f.leader() == "go-1" && len(f.owned("go-1")) == 4 })
		}
		f.loads.set(70, "go-1")
		for i := range 2 {
			n++
			name := "java-" + strconv.Itoa(n)
			f.loads.set(20, name)
			f.run(name, eager...)
			if i == 0 {
				f.sluggish(name)
			}
			f.until(120*time.Second, name+" joins, and delivers", f.has(name))
		}
		f.until(60*time.Second, "go-1 owns a lease and leads, all is delivered", func() bool {
			return f.leader() == "go-1" && len(f.owned("go-1")) > 0 && f.behind() < 3*time.Second
		})
		before := len(f.reigned())
		f.signal("go-1", syscall.SIGSTOP)
		time.Sleep(d)
		then := f.leader()
		left := len(f.owned("go-1"))
		f.signal("go-1", syscall.SIGCONT)
		f.phase("go-1, leading, frozen for %v: then %q leads, go-1 owns %d", d, then, left)
		// With defaults, too, its lock lasts 30 s; but a Java worker looks rarely then.
		switch {
		case d < 30*time.Second:
			assert.Equal(t, "go-1", then, "the lock lasts 30 s")
			assert.Len(t, f.reigned(), before, "nobody else has led")
		case !*defaults:
			assert.Equal(t, "java", side(then), "the lock was outlived")
			if d > 60*time.Second {
				assert.Zero(t, left, "leases of a frozen worker")
			}
		}
		f.until(90*time.Second, "every lease is owned, somebody leads", func() bool { return f.leader() != "" && f.attended() })
		// It obeys whoever leads.
		f.loads.set(80, f.live()...)
		f.loads.set(10, "go-1")
		f.until(90*time.Second, "go-1 delivers again under "+f.leader(), f.has("go-1"))
		if then != "go-1" || d < 30*time.Second {
			assert.Equal(t, then, f.leader(), "who led when go-1 went on leads still")
		}
	}
	f.finish()
}

// sluggish freezes a worker once it is given a lease, for longer than a lease
// lasts: a Go leader, knowing how late Java workers renew, leaves it to the worker.
func (f *fleet) sluggish(name string) {
	f.Helper()
	var key string
	f.until(90*time.Second, name+" is given a lease by "+f.leader(), func() bool {
		keys := f.given(name)
		if len(keys) > 0 {
			key = keys[0]
		}
		return key != ""
	})
	f.signal(name, syscall.SIGSTOP)
	time.Sleep(f.times.failoverTime() + 4*time.Second)
	owner := f.attr(key, "leaseOwner")
	f.signal(name, syscall.SIGCONT)
	assert.Equal(f, name, owner, "%s, given away and not yet renewed", key)
	f.phase("%s froze as it was given %s, and has it still", name, short(key))
}

// javas returns the live Java workers.
func (f *fleet) javas() (names []string) {
	for _, name := range f.live() {
		if side(name) == "java" {
			names = append(names, name)
		}
	}
	return names
}

// given returns the leases that were given to the worker and that it has not
// written yet.
func (w *watch) given(worker string) (keys []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(w.coming)) {
		if w.coming[key] == worker {
			keys = append(keys, key)
		}
	}
	return keys
}

// reigned returns who has led, in order.
func (w *watch) reigned() []reign {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.reigns)
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
