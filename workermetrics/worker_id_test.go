package workermetrics

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCheckWorkerID(t *testing.T) {
	for _, id := range []string{"host-1a2b3c", "Leader2", "leader", "my:worker", "1:2", "12:a:b", "shard-1", strings.Repeat("w", 2048)} {
		assert.NoError(t, CheckWorkerID(id, "orders"), id)
	}
	for id, message := range map[string]string{
		"":                                    `worker id "" is blank`,
		" \t":                                 `worker id " \t" is blank`,
		"Leader":                              `worker id "Leader" is the key of another item of the lease table`,
		"Migration3.0":                        `worker id "Migration3.0" is the key of another item of the lease table`,
		"TableMigration3.5":                   `worker id "TableMigration3.5" is the key of another item of the lease table`,
		"orders":                              `worker id "orders" is the key of another item of the lease table`,
		"shardId-000000000001":                `worker id "shardId-000000000001" looks like the key of a lease or a stream`,
		"123456789012:orders:1":               `worker id "123456789012:orders:1" looks like the key of a lease or a stream`,
		"123456789012:orders:1:shardId-00001": `worker id "123456789012:orders:1:shardId-00001" looks like the key of a lease or a stream`,
		strings.Repeat("w", 2049):             "worker id is 2049 bytes long, must be at most 2048",
	} {
		assert.EqualError(t, CheckWorkerID(id, "orders"), message, id)
	}
}
