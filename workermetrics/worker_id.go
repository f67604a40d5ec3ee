package workermetrics

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// maxKeyBytes is DynamoDB's limit for a partition key.
const maxKeyBytes = 2048

// otherKeys are the keys of the lease table's items that coordinate the fleet.
var otherKeys = []string{"Leader", "Migration3.0", "TableMigration3.5"}

// streamKey matches the serialized identifier of a stream, which is the key of
// the stream's item, and what begins with it, the key of a lease of a
// multi-stream application.
var streamKey = regexp.MustCompile(`^[0-9]+:[^:]+:[0-9]+(:|$)`)

// CheckWorkerID returns an error if a worker must not have this id, because the
// worker's record would overwrite another item of the lease table: a lease, a
// stream's, one that coordinates the fleet, or one with a key that the caller
// names. In a single-stream application the stream's name is such a key.
func CheckWorkerID(id string, keys ...string) error {
	switch {
	case strings.TrimSpace(id) == "":
		return fmt.Errorf("worker id %q is blank", id)
	case len(id) > maxKeyBytes:
		return fmt.Errorf("worker id is %d bytes long, must be at most %d", len(id), maxKeyBytes)
	case slices.Contains(otherKeys, id), slices.Contains(keys, id):
		return fmt.Errorf("worker id %q is the key of another item of the lease table", id)
	case strings.HasPrefix(id, "shardId-"), streamKey.MatchString(id):
		return fmt.Errorf("worker id %q looks like the key of a lease or a stream", id)
	}
	return nil
}
