package assignment

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/interchange"
	"github.com/go-kcl/kcl/lease"
)

// What a leader of ours writes for a lease in each state has the key, the
// attributes, types and conditions of what a Java leader writes, but for
// javaException.
func TestWritesAreJavas(t *testing.T) {
	// Lines of the recording.
	const unowned, owned, handOff = 16, 17, 26
	for _, tc := range []struct {
		name    string
		act     int
		state   State
		lease   lease.Lease
		handOff bool
	}{
		{"unowned", unowned, Unowned, lease.Lease{Key: "shardId-000000000001"}, true},
		{"expired", owned, Expired, lease.Lease{Key: "shardId-000000000000", Owner: "H", Counter: 5}, true},
		{"abandoned", owned, Abandoned, lease.Lease{Key: "shardId-000000000000", Owner: "H", Counter: 5}, true},
		{"held", handOff, Held, lease.Lease{Key: "shardId-000000000003", Owner: "H", Counter: 5}, true},
		{"held, without hand-offs", owned, Held, lease.Lease{Key: "shardId-000000000000", Owner: "H", Counter: 5}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := interchange.Parse(t, interchange.Java(t, "reshard-and-hand-off-3.5", tc.act).Request)
			ws := writes(View{Leases: []Lease{{Lease: &tc.lease, State: tc.state}}}, Plan{Assign: []Move{{0, "I"}}}, tc.handOff)
			require.Len(t, ws, 1)
			got := interchange.Parse(t, interchange.Sent(t, func(c *dynamodb.Client) {
				l := &Loop{cfg: Config{Leases: lease.NewStore(lease.StoreConfig{Table: want.Table, Client: c})}}
				_, err := l.writeOne(t.Context(), ws[0])
				require.ErrorIs(t, err, interchange.ErrCaptured)
			}))
			javaException(tc.state, &want)
			want.Members, got.Members = nil, nil // the store's business
			assert.Equal(t, want, got)
		})
	}
}
