//go:build interop

package interop

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// has says that the worker owns a lease and has delivered since.
func (f *fleet) has(name string) func() bool {
	before := f.delivered(name)
	return func() bool { return len(f.owned(name)) > 0 && f.delivered(name) > before }
}

// swing has leases handed over in both directions, by loads that change.
func (f *fleet) swing(goes, javas []string) {
	f.Helper()
	since := time.Now()
	f.loads.set(90, goes...)
	f.loads.set(5, javas...)
	f.until(150*time.Second, "Go busy: "+f.leader()+" moves a lease to Java", func() bool { return f.handed("go", "java", since) > 0 })
	since = time.Now()
	f.loads.set(90, javas...)
	f.loads.set(5, goes...)
	f.until(150*time.Second, "Java busy: "+f.leader()+" moves a lease to Go", func() bool { return f.handed("java", "go", since) > 0 })
}

// TestLeadJava: Java leads, a Go worker joins and is moved about, the Java leader
// is killed and Go leads, and the Java workers that are left obey.
func TestLeadJava(t *testing.T) {
	f := newFleet(t, 6)
	f.produce(12)
	f.run("java-1")
	f.until(200*time.Second, "java-1 leads a fresh application and delivers", func() bool { return f.leader() == "java-1" && f.delivered("java-1") > 0 })
	f.loads.set(90, "java-1")
	f.loads.set(5, "go-1")
	f.run("go-1")
	f.until(90*time.Second, "go-1 is given leases by java-1, and delivers", f.has("go-1"))
	f.loads.set(5, "java-2")
	f.run("java-2")
	f.until(120*time.Second, "java-2 is given leases by java-1, and delivers", f.has("java-2"))
	f.swing([]string{"go-1"}, []string{"java-1", "java-2"})
	javas := []string{"java-2"}
	f.kill("java-1")
	for n := 3; ; n++ {
		dead := slices.Clone(f.dead())
		f.until(60*time.Second, "another leads", func() bool { return f.leader() != "" && !slices.Contains(dead, f.leader()) })
		if side(f.leader()) == "go" {
			break
		}
		// Whoever wins the lock leads. Go must, to go on.
		next := "java-" + string(rune('0'+n))
		f.run(next)
		f.until(90*time.Second, next+" joins, for "+f.leader()+" leads and is to die", f.has(next))
		leader := f.leader()
		f.kill(leader)
		javas = append(slices.DeleteFunc(javas, func(j string) bool { return j == leader }), next)
	}
	f.until(60*time.Second, "every lease has a live owner under "+f.leader(), f.attended)
	f.swing([]string{"go-1"}, javas)
	f.until(60*time.Second, strings.Join(javas, " and ")+" still deliver", f.has(javas[0]))
	f.finish()
}

// TestLeadGo: Go leads, Java workers join and are moved about, the Go leader
// stops gracefully and Java leads.
func TestLeadGo(t *testing.T) {
	f := newFleet(t, 6)
	f.produce(12)
	f.run("go-1")
	f.until(30*time.Second, "go-1 leads a fresh application and delivers", func() bool { return f.leader() == "go-1" && f.delivered("go-1") > 0 })
	f.loads.set(80, "go-1")
	f.loads.set(5, "java-1")
	f.run("java-1")
	f.until(90*time.Second, "java-1 is given leases by go-1, and delivers", f.has("java-1"))
	f.swing([]string{"go-1"}, []string{"java-1"})
	f.stop("go-1")
	f.until(60*time.Second, "go-1 stopped gracefully: java-1 leads and has all", func() bool {
		return f.leader() == "java-1" && len(f.owned("java-1")) == 6
	})
	f.loads.set(90, "java-1")
	f.loads.set(5, "go-2")
	f.run("go-2")
	f.until(120*time.Second, "go-2 is given leases by java-1, and delivers", f.has("go-2"))
	f.swing([]string{"go-2"}, []string{"java-1"})
	f.finish()
}

// dead returns the names of workers that have gone.
func (f *fleet) dead() (names []string) {
	live := f.live()
	f.emu.Lock()
	defer f.emu.Unlock()
	for name := range f.workers {
		if !slices.Contains(live, name) {
			names = append(names, name)
		}
	}
	return names
}

// attended reports whether every lease of a shard not at its end has a live owner.
func (f *fleet) attended() bool {
	live := f.live()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, it := range f.items {
		if it["leaseCounter"] != nil && !ended(it) && !slices.Contains(live, actual(it)) {
			return false
		}
	}
	return true
}
