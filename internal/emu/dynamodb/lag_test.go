package dynamodb

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

// aws-dynamodb#37
func TestReadsThatAreNotConsistent(t *testing.T) {
	const lag = time.Second
	reads := map[string]struct{ operation, body, path string }{
		"GetItem":      {"GetItem", `{"TableName":"leases","ConsistentRead":%v,"Key":{"leaseKey":{"S":"s1"}}}`, "Item.n.N"},
		"Query":        {"Query", `{"TableName":"leases","ConsistentRead":%v,"KeyConditionExpression":"leaseKey = :k","ExpressionAttributeValues":{":k":{"S":"s1"}}}`, "Items.0.n.N"},
		"Scan":         {"Scan", `{"TableName":"leases","ConsistentRead":%v}`, "Items.0.n.N"},
		"BatchGetItem": {"BatchGetItem", `{"RequestItems":{"leases":{"ConsistentRead":%v,"Keys":[{"leaseKey":{"S":"s1"}}]}}}`, "Responses.leases.0.n.N"},
	}
	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(Config{Timing: atOnce, Lag: Lag{Read: lag}, Seed: 1})
				c.createLeases(t, "leases", false)
				value := func(consistent bool) int {
					v := get(t, c.ok(t, read.operation, read.body, consistent), read.path)
					if v == nil {
						return -1 // not there
					}
					n, err := strconv.Atoi(v.(string))
					require.NoError(t, err)
					return n
				}
				stale, backwards, last := 0, 0, -1
				for n := range 40 {
					c.put(t, "leases", `"leaseKey":{"S":"s1"},"n":{"N":"%d"}`, n)
					assert.Equal(t, n, value(true))
					for range 3 {
						v := value(false)
						assert.LessOrEqual(t, v, n)
						assert.GreaterOrEqual(t, v, n-11, "older than the lag allows")
						if v < n {
							stale++
						}
						if v < last {
							backwards++
						}
						last = v
					}
					// A condition sees the latest.
					c.ok(t, "UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}},"UpdateExpression":"SET x = :n","ConditionExpression":"n = :n","ExpressionAttributeValues":{":n":{"N":"%d"}}}`, n)
					time.Sleep(100 * time.Millisecond)
				}
				assert.NotZero(t, stale, "no read was stale")
				assert.NotZero(t, backwards, "no read went backwards")

				time.Sleep(lag)
				assert.Equal(t, 39, value(false), "nothing is older than the lag")
				c.ok(t, "DeleteItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}}}`)
				assert.Equal(t, -1, value(true))
				seen := map[int]bool{}
				for range 20 {
					seen[value(false)] = true
					time.Sleep(20 * time.Millisecond)
				}
				assert.True(t, seen[39], "a deleted item may still show")
				time.Sleep(lag)
				assert.Equal(t, -1, value(false))
			})
		})
	}
}

// An item that is deleted twice shows late readers all that it has been, and
// leaves nothing behind in the end.
func TestLateReadersSeeAnItemComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lag = 10 * time.Second
		c := newClient(Config{Timing: atOnce, Lag: Lag{Read: lag}})
		c.createLeases(t, "leases", false)
		start := time.Now()
		for n := range 2 {
			c.put(t, "leases", `"leaseKey":{"S":"s1"},"n":{"N":"%d"}`, n)
			time.Sleep(4 * time.Second)
			c.ok(t, "DeleteItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}}}`)
			time.Sleep(4 * time.Second)
		}
		// At 16 s the first deletion's time is over, the second's is not.
		rows := &c.find(t, "leases").rows
		place := partition(attr.String("s1"))
		for second, want := range map[int]string{5: "", 7: "", 8: "1", 11: "1", 12: "", 16: ""} {
			item, _ := rows.asOf(place, start.Add(time.Duration(second)*time.Second))
			assert.Equal(t, want, item["n"].Text(), "after %d s", second)
		}
		time.Sleep(lag)
		assert.Zero(t, c.find(t, "leases").rows.all.len())
		assert.Empty(t, c.find(t, "leases").rows.grave)
	})
}

// find returns the table as a call finds it.
func (c client) find(t *testing.T, name string) *table {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.view(c.Caller).find(name)
	require.NotNil(t, found)
	return found
}

// Transactions read what is committed, whatever the lag.
func TestTransactionsNeverReadLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(Config{Timing: atOnce, Lag: Lag{Read: time.Second}})
		c.createLeases(t, "leases", false)
		for n := range 50 {
			c.put(t, "leases", `"leaseKey":{"S":"s1"},"n":{"N":"%d"}`, n)
			c.answers(t, fmt.Sprintf(`{"Responses":[{"Item":{"n":{"N":"%d"}}}]}`, n), "TransactGetItems", `{"TransactItems":[{"Get":{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}},"ProjectionExpression":"n"}}]}`)
		}
	})
}

// A lag that begins in the middle of a run makes no item look as if it had
// never been, and one that ends leaves nothing late.
func TestLagChangesWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(Config{Timing: atOnce})
		c.createLeases(t, "leases", true)
		c.put(t, "leases", `"leaseKey":{"S":"s1"},"n":{"N":"0"}`)
		time.Sleep(time.Second)
		c.put(t, "leases", `"leaseKey":{"S":"s1"},"n":{"N":"1"}`)
		c.SetLag(Lag{Read: time.Minute, Index: time.Minute})
		for range 20 {
			c.answers(t, `{"Item":{"n":{"N":"1"}}}`, "GetItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}},"ProjectionExpression":"n"}`)
		}
		c.put(t, "leases", `"leaseKey":{"S":"s1"},"n":{"N":"2"},"leaseOwner":{"S":"A"}`)
		assert.Empty(t, c.owned(t, "leases", "A"))
		seen := map[any]bool{}
		for range 20 {
			seen[get(t, c.ok(t, "GetItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}}}`), "Item.n.N")] = true
			time.Sleep(time.Second)
		}
		assert.Equal(t, map[any]bool{"1": true, "2": true}, seen)
		c.SetLag(Lag{})
		for range 20 {
			c.answers(t, `{"Item":{"n":{"N":"2"}}}`, "GetItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}},"ProjectionExpression":"n"}`)
		}
		c.put(t, "leases", `"leaseKey":{"S":"s2"},"leaseOwner":{"S":"A"}`)
		assert.Contains(t, c.owned(t, "leases", "A"), "s2", "a write without lag shows at once")
	})
}

// The same calls at the same times get the same answers.
func TestChanceComesFromTheSeed(t *testing.T) {
	run := func(seed uint64) (log []string) {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(Config{Timing: atOnce, Lag: Lag{Read: time.Second, Index: time.Second}, Seed: seed})
			c.createLeases(t, "leases", true)
			log = append(log, c.ok(t, "DescribeTable", `{"TableName":"leases"}`))
			for i := range 30 {
				c.put(t, "leases", `"leaseKey":{"S":"s1"},"leaseOwner":{"S":"w%d"}`, i)
				time.Sleep(100 * time.Millisecond)
				log = append(log, c.ok(t, "GetItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"s1"}}}`), c.ok(t, "Scan", `{"TableName":"leases","IndexName":"owners"}`))
			}
		})
		return log
	}
	first := run(1)
	assert.Equal(t, first, run(1))
	assert.NotEqual(t, first, run(2))
}
