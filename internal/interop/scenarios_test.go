//go:build interop

package interop

import (
	"testing"
	"time"
)

// TestShort has both sides lead, and each follow the other, within minutes: the
// application is a Go worker's, so that nobody waits for a Java worker's first
// look at a fresh one.
func TestShort(t *testing.T) {
	f := newFleet(t, 4)
	f.produce(10)
	f.run("go-1")
	f.until(20*time.Second, "go-1 leads and delivers", func() bool { return f.leader() == "go-1" && f.delivered("go-1") > 0 })
	f.loads.set(80, "go-1")
	f.loads.set(20, "java-1")
	f.run("java-1")
	f.until(60*time.Second, "java-1 is given leases by go-1, and delivers", func() bool {
		return len(f.owned("java-1")) >= 1 && f.delivered("java-1") > 0
	})
	f.stop("go-1")
	f.until(60*time.Second, "go-1 stopped gracefully: java-1 leads and has all", func() bool {
		return f.leader() == "java-1" && len(f.owned("java-1")) == 4
	})
	f.loads.set(90, "java-1")
	f.loads.set(20, "go-2")
	f.run("go-2")
	f.until(60*time.Second, "go-2 is given leases by java-1, and delivers", func() bool {
		return len(f.owned("go-2")) >= 1 && f.delivered("go-2") > 0
	})
	f.kill("java-1")
	f.until(60*time.Second, "java-1 killed: go-2 leads and has all", func() bool {
		return f.leader() == "go-2" && len(f.owned("go-2")) == 4
	})
	f.finish()
}
