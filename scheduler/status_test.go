package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl"
)

// A follower says who leads, as far as it has seen; leases come in order.
func TestStatusOfAFollower(t *testing.T) {
	inFleet(t, 12, func(t *testing.T, f *fleet) {
		a := f.start("a")
		f.until(time.Minute, "a leads", func() bool { return a.Status().Leading })
		b := f.start("b")
		f.until(2*time.Minute, "b has its share", func() bool { return len(b.Status().Leases) == 6 })
		st := b.Status()
		assert.False(t, st.Leading)
		assert.Equal(t, "a", st.Leader)
		for i := 1; i < len(st.Leases); i++ {
			assert.Less(t, st.Leases[i-1].Lease, st.Leases[i].Lease)
		}
		require.NoError(t, b.stop())
		require.NoError(t, a.stop())
	})
}

// A lease says what fails, how often and since when, and to whom it is to go.
func TestStatusOfTrouble(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet) {
		f.put(10)
		hang := make(chan struct{})
		failed := make(chan struct{})
		m := f.start("a", idle, func(c *Config) {
			attempt := 0
			c.Handler = func(context.Context, *kcl.Batch) error {
				if attempt++; attempt < 5 {
					return errors.New("database is down")
				}
				close(failed)
				<-hang
				return nil
			}
		})
		f.until(time.Minute, "failures", func() bool { st := m.Status(); return len(st.Leases) == 1 && st.Leases[0].Attempts == 4 })
		l := m.Status().Leases[0]
		assert.Equal(t, "retrying", l.State)
		assert.Equal(t, "database is down", l.Error)
		assert.NotEmpty(t, l.Waiting)
		assert.WithinDuration(t, time.Now(), l.Since, 2*time.Second)

		<-failed
		_, ok, err := f.store().StartHandOff(t.Context(), f.lease(0), "java")
		require.NoError(t, err)
		require.True(t, ok)
		time.Sleep(5 * time.Second)
		assert.Equal(t, "java", m.Status().Leases[0].HandOffTo)
		close(hang)
		require.NoError(t, m.stop())
	})
}

// What is read of a shard is told with the lease, and hash ranges and positions
// that are not known are left out of the JSON.
func TestLeasesTellOfThroughput(t *testing.T) {
	inFleet(t, 1, func(t *testing.T, f *fleet) {
		m := f.start("a")
		stop := f.produce(200 * time.Millisecond)
		time.Sleep(time.Minute)
		stop()
		all, err := m.Leases(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.NotNil(t, all[0].ThroughputKBps)
		assert.Positive(t, *all[0].ThroughputKBps)
		assert.Positive(t, all[0].Counter)
		require.NoError(t, m.stop())

		text, err := json.Marshal(LeaseInfo{Lease: "key", Checkpoint: kcl.AtLatest})
		require.NoError(t, err)
		assert.JSONEq(t, `{"lease":"key","shard":"","counter":0,"checkpoint":"LATEST"}`, string(text))
		text, err = json.Marshal(Lag(1500 * time.Millisecond))
		require.NoError(t, err)
		assert.Equal(t, "1500", string(text))
	})
}
