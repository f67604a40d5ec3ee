package leader

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConfig(t *testing.T) {
	client := dynamodb.New(dynamodb.Options{})
	for _, tc := range []struct {
		name string
		give Config
		want string
	}{
		{"defaults", Config{Client: client, Table: "t", Worker: "w"}, ""},
		{"Java's", Config{Client: client, Table: "t", Worker: "w", Duration: 2 * time.Minute, Heartbeat: 30 * time.Second}, ""},
		{"twice the heartbeat", Config{Client: client, Table: "t", Worker: "w", Duration: 20 * time.Second}, ""},
		{"less: leader-and-client-version-migration#19", Config{Client: client, Table: "t", Worker: "w", Duration: 20*time.Second - 1},
			"leader: Duration is 19.999s, must be at least 2 × Heartbeat = 20s"},
		{"a heartbeat too long for the default", Config{Client: client, Table: "t", Worker: "w", Heartbeat: 16 * time.Second},
			"leader: Duration is 30s, must be at least 2 × Heartbeat = 32s"},
		{"a negative heartbeat", Config{Client: client, Table: "t", Worker: "w", Heartbeat: -1}, "leader: Heartbeat is -1ns, must be at least 1ms"},
		{"longer than the item can say", Config{Client: client, Table: "t", Worker: "w", Duration: maxDuration + time.Hour},
			"leader: Duration is " + (maxDuration + time.Hour).Truncate(time.Millisecond).String() + ", must be at most " + maxDuration.String()},
		{"nothing", Config{}, "leader: Client is nil\nleader: Table is empty\nleader: Worker is empty"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, err := New(tc.give)
			if tc.want == "" {
				require.NoError(t, err)
				require.NotNil(t, d)
				return
			}
			assert.EqualError(t, err, tc.want)
			assert.Nil(t, d)
		})
	}
}

func TestConfigDefaults(t *testing.T) {
	c, err := Config{Client: dynamodb.New(dynamodb.Options{}), Table: "t", Worker: "w"}.withDefaults()
	require.NoError(t, err)
	assert.Equal(t, 30*time.Second, c.Duration)
	assert.Equal(t, 10*time.Second, c.Heartbeat)
	assert.Equal(t, "leaseKey", c.KeyAttribute)

	// What the item cannot say must not be relied on by its owner either.
	c.Duration += 900 * time.Microsecond
	c, err = c.withDefaults()
	require.NoError(t, err)
	assert.Equal(t, 30*time.Second, c.Duration)
}
