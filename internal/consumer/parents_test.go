package consumer

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/lease"
)

var begun = []string{"new", "initialize TRIM_HORIZON"}

// consumption#21
func TestAwaitParents(t *testing.T) {
	for name, stream := range map[string]kcl.StreamIdentifier{
		"single stream": {Name: "orders"},
		"multi-stream":  {AccountID: "123456789012", Name: "orders", CreationEpoch: 17},
	} {
		setUp := func(s *stage, parents ...string) {
			s.stream.Stream = stream
			s.lease.Key = stream.LeaseKey(shard)
			s.lease.Parents = parents
			s.rows.put(s.lease)
		}
		bubble(t, name+", no lease", func(t *testing.T, s *stage) {
			setUp(s, parent)
			s.rows.put(lease.Lease{Key: "elsewhere:1:" + parent, Checkpoint: at(5)})
			s.start()
			assert.Equal(t, begun, s.took())
		})
		bubble(t, name+", ended already", func(t *testing.T, s *stage) {
			setUp(s, parent, other)
			s.rows.put(lease.Lease{Key: stream.LeaseKey(parent), Checkpoint: kcl.ShardEnd})
			s.start()
			assert.Equal(t, begun, s.took())
		})
		bubble(t, name+", blocked until both have ended", func(t *testing.T, s *stage) {
			setUp(s, parent, other)
			s.rows.put(lease.Lease{Key: stream.LeaseKey(parent), Checkpoint: at(5)})
			s.rows.put(lease.Lease{Key: stream.LeaseKey(other), Checkpoint: kcl.AtTrimHorizon})
			s.start()
			st := s.c.Status()
			assert.Equal(t, StateWaiting, st.State)
			assert.Equal(t, "waits for its parents to be processed to their end: "+parent+", "+other, st.Waiting)
			settle(10 * time.Second)
			s.rows.put(lease.Lease{Key: stream.LeaseKey(other), Checkpoint: kcl.ShardEnd})
			settle(parentPoll)
			assert.Empty(t, s.took())
			assert.Equal(t, "waits for its parents to be processed to their end: "+parent, s.c.Status().Waiting)
			s.rows.put(lease.Lease{Key: stream.LeaseKey(parent), Checkpoint: kcl.ShardEnd})
			settle(parentPoll)
			assert.Equal(t, begun, s.took(), "a second later at the latest")
		})
	}
}

// A read that lags does not show a lease that was created a moment ago. It is no
// proof that there is none.
func TestParentThatALaggingReadMisses(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		s.rows.stale = map[string]bool{parent: true}
		phase(s, "waiting")
		assert.Equal(t, StateWaiting, s.c.Status().State)
		s.rows.put(lease.Lease{Key: parent, Checkpoint: kcl.ShardEnd})
		settle(parentPoll)
		assert.Equal(t, begun, s.took())
	})
}

func TestPokeLooksAtParentsAtOnce(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		phase(s, "waiting")
		reads := s.rows.gets
		s.rows.put(lease.Lease{Key: parent, Checkpoint: kcl.ShardEnd})
		s.c.Poke()
		synctest.Wait()
		assert.Equal(t, begun, s.took())
		assert.Equal(t, reads+2, s.rows.gets, "the parent's lease, then its own")
	})
}

// A parent that this worker itself processes costs no reads.
func TestParentHeldByThisWorker(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		s.held.leases[parent] = lease.Lease{Key: parent, Checkpoint: at(5)}
		phase(s, "waiting")
		settle(time.Hour)
		assert.Zero(t, s.rows.gets)
		s.held.mu.Lock()
		s.held.leases[parent] = lease.Lease{Key: parent, Checkpoint: kcl.ShardEnd}
		s.held.mu.Unlock()
		s.c.Poke()
		synctest.Wait()
		assert.Equal(t, begun, s.took())
	})
}

// Twelve children of a long backlog: at first each looks every second, then the
// worker's reads stay within KCL's own and 1,440 an hour.
func TestWaitingForParentsStaysCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		polls := new(ParentPolls)
		var stages []*stage
		for range 12 {
			s := newStage(t)
			s.cfg.ParentPolls = polls
			phase(s, "waiting")
			stages = append(stages, s)
		}
		reads := func() (n int) {
			for _, s := range stages {
				s.rows.mu.Lock()
				n += s.rows.gets
				s.rows.mu.Unlock()
			}
			return n
		}
		settle(5500 * time.Millisecond)
		assert.GreaterOrEqual(t, reads(), 12*5)
		before := reads()
		settle(time.Hour)
		assert.LessOrEqual(t, reads()-before, 12*360+1440+firstPolls)
		for _, s := range stages {
			s.rows.mu.Lock()
			assert.GreaterOrEqual(t, s.rows.gets, 360, "none is left out")
			s.rows.mu.Unlock()
			s.rows.put(lease.Lease{Key: parent, Checkpoint: kcl.ShardEnd})
		}
		settle(slowParentPoll + parentPoll)
		for _, s := range stages {
			assert.Equal(t, begun, s.took())
		}
	})
}

// A single child goes on looking every three seconds at worst.
func TestSingleChildLooksOften(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		phase(s, "waiting")
		settle(2 * time.Hour)
		s.rows.put(lease.Lease{Key: parent, Checkpoint: kcl.ShardEnd})
		settle(3 * time.Second)
		assert.Equal(t, begun, s.took())
	})
}

func TestParentPollIntervalIsObeyed(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		s.cfg.ParentPollInterval = 7 * time.Second
		phase(s, "waiting")
		settle(700*time.Second - 1)
		assert.Equal(t, 100, s.rows.gets)
	})
}

func TestParentsNotReadable(t *testing.T) {
	bubble(t, "", func(t *testing.T, s *stage) {
		s.rows.fail(errTest)
		phase(s, "waiting")
		st := s.c.Status()
		assert.Equal(t, "cannot read its parents' leases", st.Waiting)
		assert.ErrorIs(t, st.Err, errTest)
		settle(time.Hour)
		assert.Len(t, s.log.took(), 1, "what repeats is told once: "+strings.Join(s.log.took(), "; "))
	})
}
