//go:build interop

package interop

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// all says that these workers, and nobody else, own every lease.
func (f *fleet) all(names ...string) func() bool {
	return func() bool {
		n := 0
		for _, name := range names {
			have := len(f.owned(name))
			if have == 0 {
				return false
			}
			n += have
		}
		return n == len(f.open()) && f.attended()
	}
}

// TestRoll replaces the workers of a Java fleet by Go workers, one by one, and
// then those by Java workers, while records flow.
func TestRoll(t *testing.T) {
	f := newFleet(t, 4)
	f.produce(12)
	f.run("java-1")
	f.until(200*time.Second, "java-1 leads a fresh application and delivers", func() bool { return f.leader() == "java-1" && f.delivered("java-1") > 0 })
	f.loads.set(90, "java-1")
	f.loads.set(5, "java-2")
	f.run("java-2")
	f.until(150*time.Second, "the fleet is Java's, two workers", f.all("java-1", "java-2"))
	for _, step := range [][2]string{{"java-1", "go-1"}, {"java-2", "go-2"}, {"go-1", "java-3"}, {"go-2", "java-4"}} {
		old, young := step[0], step[1]
		f.loads.set(90, f.live()...)
		f.loads.set(5, young)
		f.run(young)
		f.until(120*time.Second, young+" joins under "+f.leader()+", and delivers", f.has(young))
		f.stop(old)
		f.until(90*time.Second, old+" stopped gracefully: every lease is with "+strings.Join(f.live(), " and "), f.attended)
		f.until(60*time.Second, "somebody leads", func() bool { return contains(f.live(), f.leader()) })
	}
	f.finish()
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// TestHandOver stops an application under Java, has it go on under Go alone, and
// then under Java again: each begins exactly where the other has stopped.
func TestHandOver(t *testing.T) {
	f := newFleet(t, 3)
	f.produce(12)
	limit := 200 * time.Second
	for _, name := range []string{"java-1", "go-1", "java-2", "go-2"} {
		before, events := f.checkpoints(), len(f.seen())
		f.run(name)
		f.until(limit, name+" delivers from every shard", func() bool {
			shards := map[string]bool{}
			for _, e := range f.seen()[events:] {
				if e.Event == "record" {
					shards[e.Shard] = true
				}
			}
			return len(shards) == 3
		})
		limit = 90 * time.Second
		time.Sleep(5 * time.Second)
		f.stop(name)
		last := map[string]string{}
		for _, e := range f.seen()[events:] {
			switch {
			case e.Event == "initialize" && before[e.Shard] != "":
				assert.Equal(t, before[e.Shard], e.At+":0", "%s begins %s", name, e.Shard)
			case e.Event == "record":
				last[e.Shard] = e.Seq + ":0"
			}
		}
		assert.Equal(t, last, f.checkpoints(), "%s has stopped", name)
		f.phase("%s stopped, its positions stored", name)
	}
	f.rest()
	f.run("go-3")
	f.drained(60 * time.Second)
	f.stop("go-3")
	f.conclude(time.Time{})
	v := judge(f.aws.Shards(stream), f.seen(), time.Time{})
	assert.Empty(t, v.repeated, "records delivered again")
}
