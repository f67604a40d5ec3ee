package assignment

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/lease"
	"github.com/go-kcl/kcl/workermetrics"
)

func TestFleet(t *testing.T) {
	inCloud(t, func(t *testing.T, c *cloud) {
		c.create(lease.Lease{Key: "1", Owner: "A", Counter: 1})
		c.create(lease.Lease{Key: "2"})
		p := c.worker("A", func(cfg *Config) { cfg.MaxLeases = 1 }).leads()
		_, ok := p.Fleet()
		assert.False(t, ok)
		c.reports("A")
		require.NoError(t, p.assigns())
		f, ok := p.Fleet()
		assert.True(t, ok)
		assert.Equal(t, []string{"2"}, f.Unowned)
		require.Len(t, f.Workers, 1)
		assert.Equal(t, "active", f.Workers[0].Standing)
		assert.Equal(t, []string{"1"}, f.Workers[0].Leases)
		assert.True(t, f.Seen.Equal(time.Now()))
	})
}

func TestHolders(t *testing.T) {
	k := func(key, owner, from string) lease.Lease {
		return lease.Lease{Key: key, Owner: owner, CheckpointOwner: from}
	}
	m := newMemory()
	leases := []lease.Lease{k("3", "A", ""), k("1", "A", ""), k("4", "B", "A"), k("5", "", ""), k("2", "", ""), k("6", "X", "")}
	m.look(leases, []workermetrics.Record{report("A", 0), drains(report("B", 0))}, map[string]string{"U": "bad"}, at(0), defaults)
	list, unowned := m.holders()
	assert.Equal(t, []Holder{
		{Worker: "A", Standing: "active", LastSeen: at(0), Leases: []string{"1", "3", "4"}},
		{Worker: "B", Standing: "draining", LastSeen: at(0), Incoming: []string{"4"}},
		{Worker: "U", Standing: "invalid"},
		{Worker: "X", Standing: "unknown", Leases: []string{"6"}},
	}, list)
	assert.Equal(t, []string{"2", "5"}, unowned)
}
