package dynamodb

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func ownerQuery(table, index, owner string) string {
	return fmt.Sprintf(`{"TableName":%q,"IndexName":%q,"KeyConditionExpression":"leaseOwner = :o","ExpressionAttributeValues":{":o":{"S":%q}}}`, table, index, owner)
}

// owned returns the lease keys that the owner index lists, sorted.
func (c client) owned(t *testing.T, table, owner string) []string {
	t.Helper()
	keys := []string{}
	answer := c.ok(t, "Query", ownerQuery(table, "owners", owner))
	for i := 0; ; i++ {
		key := get(t, answer, fmt.Sprintf("Items.%d.leaseKey.S", i))
		if key == nil {
			slices.Sort(keys)
			return keys
		}
		keys = append(keys, key.(string))
	}
}

// aws-dynamodb#25,42,43: the life of an index added to a live table, and what
// each call answers in each of its phases.
func TestIndexTimeline(t *testing.T) {
	const (
		otherIndex = "Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table"
		busyTable  = "Attempt to change a resource which is still in use: Cannot delete table while indexes are being created, updated, or deleted."
		noIndex    = "The table does not have the specified index: byOwner"
	)
	timing := RealTiming()
	// begin returns a table with one ACTIVE index, created with it.
	begin := func(t *testing.T) client {
		t.Helper()
		c := newClient(Config{Timing: &timing})
		c.createLeases(t, "leases", true)
		assert.Equal(t, "CREATING owners:CREATING", c.look(t, "leases"))
		time.Sleep(timing.TableCreateIndexed)
		assert.Equal(t, "ACTIVE owners:ACTIVE", c.look(t, "leases"))
		c.put(t, "leases", `"leaseKey":{"S":"s1"},"leaseOwner":{"S":"A"}`)
		return c
	}
	query := ownerQuery("leases", "byOwner", "A")
	add, drop := addIndex("leases", "byOwner", "leaseOwner"), dropIndex("leases", "byOwner")
	// others checks what does not depend on the phase while an index is busy.
	others := func(t *testing.T, c client) {
		t.Helper()
		c.refused(t, limit, otherIndex, "UpdateTable", addIndex("leases", "another", "leaseOwner"))
		c.refused(t, limit, otherIndex, "UpdateTable", dropIndex("leases", "owners"))
		c.refused(t, resInUse, busyTable, "DeleteTable", `{"TableName":"leases"}`)
		assert.Equal(t, []string{"s1"}, c.owned(t, "leases", "A"), "the other index works on")
	}
	begun := func(t *testing.T, c client) {
		t.Helper()
		d := c.ok(t, "UpdateTable", add)
		assert.Equal(t, "UPDATING owners:ACTIVE byOwner:CREATING/false", lookOf(t, d, "TableDescription"))
	}

	t.Run("creation", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := begin(t)
			begun(t, c)
			for _, wait := range []time.Duration{0, timing.IndexAllocate - 1} {
				time.Sleep(wait)
				assert.Equal(t, "UPDATING owners:ACTIVE byOwner:CREATING/false", c.look(t, "leases"))
				c.refused(t, validation, noIndex, "Query", query)
				others(t, c)
				c.refused(t, resInUse, "Index creation is in resource allocation phase. Retry deletion during backfilling phase or when the index is active. Table: leases Index: byOwner", "UpdateTable", drop)
				c.refused(t, resInUse, "", "UpdateTable", `{"TableName":"leases","BillingMode":"PROVISIONED","ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1}}`)
				c.put(t, "leases", `"leaseKey":{"S":"s2"},"leaseOwner":{"S":"B"}`)
			}
			time.Sleep(time.Nanosecond)
			for _, wait := range []time.Duration{0, timing.IndexBackfill - 1} {
				time.Sleep(wait)
				assert.Equal(t, "ACTIVE owners:ACTIVE byOwner:CREATING/true", c.look(t, "leases"))
				c.refused(t, validation, "Cannot read from backfilling global secondary index: byOwner", "Query", query)
				others(t, c)
				c.put(t, "leases", `"leaseKey":{"S":"s3"},"leaseOwner":{"S":"A"},"x":{"S":"y"}`)
				c.ok(t, "UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"s3"}},"UpdateExpression":"REMOVE leaseOwner"}`)
			}
			time.Sleep(time.Nanosecond)
			assert.Equal(t, "ACTIVE owners:ACTIVE byOwner:ACTIVE", c.look(t, "leases"))
			c.answers(t, `{"Count":1,"ScannedCount":1,"Items":[{"leaseKey":{"S":"s1"},"leaseOwner":{"S":"A"}}]}`, "Query", query)
			c.answers(t, `{"Count":1,"ScannedCount":1,"Items":[{"leaseKey":{"S":"s2"},"leaseOwner":{"S":"B"}}]}`, "Query", ownerQuery("leases", "byOwner", "B"))
			c.refused(t, validation, "Attempting to create an index which already exists", "UpdateTable", add)
			c.ok(t, "DeleteTable", `{"TableName":"leases"}`)
		})
	})
	t.Run("given up while backfilling", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := begin(t)
			begun(t, c)
			time.Sleep(timing.IndexAllocate)
			assert.Equal(t, "UPDATING owners:ACTIVE byOwner:DELETING", lookOf(t, c.ok(t, "UpdateTable", drop), "TableDescription"))
			time.Sleep(timing.IndexDelete)
			assert.Equal(t, "ACTIVE owners:ACTIVE", c.look(t, "leases"))
		})
	})
	t.Run("deletion", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := begin(t)
			begun(t, c)
			time.Sleep(timing.IndexAllocate + timing.IndexBackfill)
			assert.Equal(t, "UPDATING owners:ACTIVE byOwner:DELETING", lookOf(t, c.ok(t, "UpdateTable", drop), "TableDescription"))
			for _, wait := range []time.Duration{0, timing.IndexDelete - 1} {
				time.Sleep(wait)
				assert.Equal(t, "UPDATING owners:ACTIVE byOwner:DELETING", c.look(t, "leases"))
				c.refused(t, validation, noIndex, "Query", query)
				others(t, c)
				const busy = "Index is being deleted.  Table: leases Index: byOwner"
				c.refused(t, resInUse, busy, "UpdateTable", drop)
				c.refused(t, resInUse, busy, "UpdateTable", add)
				c.refused(t, resInUse, busy, "UpdateTable", `{"TableName":"leases","GlobalSecondaryIndexUpdates":[{"Update":{"IndexName":"byOwner","ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1}}}]}`)
				c.put(t, "leases", `"leaseKey":{"S":"s2"},"leaseOwner":{"S":"B"}`)
			}
			time.Sleep(time.Nanosecond)
			assert.Equal(t, "ACTIVE owners:ACTIVE", c.look(t, "leases"))
			c.ok(t, "DeleteTable", `{"TableName":"leases"}`)
		})
	})
	t.Run("the last index leaves no member behind", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := begin(t)
			c.ok(t, "UpdateTable", dropIndex("leases", "owners"))
			c.refused(t, resInUse, busyTable, "DeleteTable", `{"TableName":"leases"}`)
			time.Sleep(timing.IndexDelete)
			assert.NotContains(t, get(t, c.ok(t, "DescribeTable", `{"TableName":"leases"}`), "Table"), "GlobalSecondaryIndexes")
			c.ok(t, "DeleteTable", `{"TableName":"leases"}`)
		})
	})
}

// aws-dynamodb#26
func TestTwoWorkersAddTheIndex(t *testing.T) {
	tests := []struct {
		name       string
		second     SecondCreate
		code, text string
	}{
		{"in use", SecondCreateInUse, resInUse, "Attempt to change a resource which is still in use: Index is being created.  Table: leases Index: owners"},
		{"limit exceeded", SecondCreateLimitExceeded, limit, "Only 1 online index"},
		{"invalid", SecondCreateInvalid, validation, "Attempting to create an index which already exists"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(Config{SecondCreate: tt.second})
				c.createLeases(t, "leases", false)
				time.Sleep(time.Second)
				add := addIndex("leases", "owners", "leaseOwner")
				c.ok(t, "UpdateTable", add)
				c.refused(t, tt.code, tt.text, "UpdateTable", add)
				time.Sleep(DefaultTiming().IndexAllocate) // still CREATING, now backfilling
				c.refused(t, tt.code, tt.text, "UpdateTable", add)
				time.Sleep(DefaultTiming().IndexBackfill)
				c.refused(t, validation, "Attempting to create an index which already exists", "UpdateTable", add)
				assert.Equal(t, "ACTIVE owners:ACTIVE", c.look(t, "leases"))
			})
		})
	}
}

// aws-dynamodb#27
func TestIndexQueryRefusals(t *testing.T) {
	t.Run("by what is asked", func(t *testing.T) {
		c := newClient(Config{Timing: atOnce})
		c.createLeases(t, "leases", true)
		c.refused(t, validation, "The table does not have the specified index: nope", "Query", ownerQuery("leases", "nope", "A"))
		c.refused(t, validation, "The table does not have the specified index: nope", "Scan", `{"TableName":"leases","IndexName":"nope"}`)
		c.refused(t, notFound, "Requested resource not found", "Query", ownerQuery("none", "owners", "A"))
		c.refused(t, validation, "Consistent reads are not supported on global secondary indexes", "Query",
			`{"TableName":"leases","IndexName":"owners","ConsistentRead":true,"KeyConditionExpression":"leaseOwner = :o","ExpressionAttributeValues":{":o":{"S":"A"}}}`)
		c.refused(t, validation, "ALL_ATTRIBUTES", "Query",
			`{"TableName":"leases","IndexName":"owners","Select":"ALL_ATTRIBUTES","KeyConditionExpression":"leaseOwner = :o","ExpressionAttributeValues":{":o":{"S":"A"}}}`)
	})
	t.Run("ACTIVE, but not to be queried yet", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(Config{Timing: &Timing{IndexAllocate: time.Minute, IndexBackfill: time.Minute, IndexUnready: 4 * time.Minute}})
			c.createLeases(t, "leases", false)
			c.put(t, "leases", `"leaseKey":{"S":"s1"},"leaseOwner":{"S":"A"}`)
			c.ok(t, "UpdateTable", addIndex("leases", "owners", "leaseOwner"))
			time.Sleep(time.Minute)
			c.refused(t, validation, "Cannot read from backfilling global secondary index: owners", "Query", ownerQuery("leases", "owners", "A"))
			time.Sleep(time.Minute)
			assert.Equal(t, "ACTIVE owners:ACTIVE", c.look(t, "leases"))
			c.refused(t, validation, "The table does not have the specified index: owners", "Query", ownerQuery("leases", "owners", "A"))
			time.Sleep(4*time.Minute - 1)
			c.refused(t, validation, "The table does not have the specified index: owners", "Query", ownerQuery("leases", "owners", "A"))
			time.Sleep(time.Nanosecond)
			assert.Equal(t, []string{"s1"}, c.owned(t, "leases", "A"))
		})
	})
}

// aws-dynamodb#28
func TestAttributeDefinitionsAreThoseInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(Config{})
		c.createLeases(t, "leases", false)
		defs := func() (names []string) {
			t.Helper()
			d := c.ok(t, "DescribeTable", `{"TableName":"leases"}`)
			for i := 0; ; i++ {
				name := get(t, d, fmt.Sprintf("Table.AttributeDefinitions.%d.AttributeName", i))
				if name == nil {
					return names
				}
				names = append(names, name.(string))
			}
		}
		time.Sleep(time.Second)
		assert.ElementsMatch(t, []string{"leaseKey"}, defs())
		// An extra definition is dropped.
		c.ok(t, "UpdateTable", `{"TableName":"leases","AttributeDefinitions":[{"AttributeName":"leaseOwner","AttributeType":"S"},{"AttributeName":"extra","AttributeType":"N"},{"AttributeName":"leaseKey","AttributeType":"S"}],
			"GlobalSecondaryIndexUpdates":[{"Create":{"IndexName":"owners","KeySchema":[{"AttributeName":"leaseOwner","KeyType":"HASH"},{"AttributeName":"leaseKey","KeyType":"RANGE"}],"Projection":{"ProjectionType":"KEYS_ONLY"}}}]}`)
		for range 3 {
			assert.ElementsMatch(t, []string{"leaseKey", "leaseOwner"}, defs())
			time.Sleep(2 * time.Second)
		}
		c.ok(t, "UpdateTable", dropIndex("leases", "owners"))
		time.Sleep(time.Second)
		assert.ElementsMatch(t, []string{"leaseKey"}, defs())
	})
}

// aws-dynamodb#50, and the other rules for requests that add an index.
func TestUpdateTableRefusals(t *testing.T) {
	index := func(name, attribute string) string {
		return fmt.Sprintf(`{"Create":{"IndexName":%q,"KeySchema":[{"AttributeName":%q,"KeyType":"HASH"}],"Projection":{"ProjectionType":"KEYS_ONLY"}}}`, name, attribute)
	}
	const nothing = "At least one of ProvisionedThroughput, BillingMode, "
	tests := []struct{ name, body, code, text string }{
		{"nothing to do", `{"TableName":"leases"}`, validation, nothing},
		{"nothing to do, unknown table", `{"TableName":"none"}`, validation, nothing},
		{"empty list", `{"TableName":"leases","GlobalSecondaryIndexUpdates":[]}`, validation, nothing},
		{"empty list, unknown table", `{"TableName":"none","GlobalSecondaryIndexUpdates":[]}`, validation, nothing},
		{"unknown table", dropIndex("none", "iii"), notFound, "Requested resource not found: Table: none not found"},
		{"unknown index", dropIndex("leases", "iii"), notFound, "Requested resource not found: Index iii for table leases"},
		{"two indexes", `{"TableName":"leases","AttributeDefinitions":[{"AttributeName":"a","AttributeType":"S"}],"GlobalSecondaryIndexUpdates":[` + index("iii", "a") + `,` + index("jjj", "a") + `]}`, limit, "Only 1 online index"},
		{"one index twice", `{"TableName":"leases","AttributeDefinitions":[{"AttributeName":"a","AttributeType":"S"}],"GlobalSecondaryIndexUpdates":[` + index("iii", "a") + `,{"Delete":{"IndexName":"iii"}}]}`, validation, "Only one global secondary index update per index is allowed simultaneously"},
		{"no definitions", `{"TableName":"leases","GlobalSecondaryIndexUpdates":[` + index("iii", "leaseKey") + `]}`, validation, "AttributeDefinitions is not specified for index: iii"},
		{"definition missing, though the table has it", `{"TableName":"leases","AttributeDefinitions":[{"AttributeName":"a","AttributeType":"S"}],"GlobalSecondaryIndexUpdates":[` + index("iii", "leaseKey") + `]}`, validation, "AttributeDefinitions is not specified for index: iii"},
		{"redefined", `{"TableName":"leases","AttributeDefinitions":[{"AttributeName":"leaseKey","AttributeType":"N"}],"GlobalSecondaryIndexUpdates":[` + index("iii", "leaseKey") + `]}`, validation, "Attributes cannot be redefined"},
		{"index throughput on demand", `{"TableName":"leases","AttributeDefinitions":[{"AttributeName":"a","AttributeType":"S"}],"GlobalSecondaryIndexUpdates":[{"Create":{"IndexName":"iii","KeySchema":[{"AttributeName":"a","KeyType":"HASH"}],"Projection":{"ProjectionType":"KEYS_ONLY"},"ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1}}}]}`, validation, "Neither ReadCapacityUnits"},
		{"table class beside an index", `{"TableName":"leases","TableClass":"STANDARD","AttributeDefinitions":[{"AttributeName":"a","AttributeType":"S"}],"GlobalSecondaryIndexUpdates":[` + index("iii", "a") + `]}`, validation, "beside"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(Config{Timing: atOnce})
			c.createLeases(t, "leases", false)
			c.refused(t, tt.code, tt.text, "UpdateTable", tt.body)
			assert.Equal(t, "ACTIVE", c.look(t, "leases"))
		})
	}
}

func TestIndexCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timing := RealTiming()
		c := newClient(Config{Timing: &timing})
		resize := func(index string, n int) string {
			return fmt.Sprintf(`{"TableName":"leases","GlobalSecondaryIndexUpdates":[{"Update":{"IndexName":%q,"ProvisionedThroughput":{"ReadCapacityUnits":%d,"WriteCapacityUnits":%d}}}]}`, index, n, n)
		}
		c.createLeases(t, "leases", true)
		time.Sleep(timing.TableCreateIndexed)
		c.refused(t, validation, "Neither ReadCapacityUnits", "UpdateTable", resize("owners", 5))

		// Provisioning the table takes a figure for each index.
		provision := `{"TableName":"leases","BillingMode":"PROVISIONED","ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1}%s}`
		c.refused(t, validation, "ProvisionedThroughput is not specified for index: owners", "UpdateTable", provision, "")
		d := c.ok(t, "UpdateTable", provision, `,"GlobalSecondaryIndexUpdates":[{"Update":{"IndexName":"owners","ProvisionedThroughput":{"ReadCapacityUnits":5,"WriteCapacityUnits":5}}}]`)
		assert.Equal(t, "UPDATING owners:UPDATING", lookOf(t, d, "TableDescription"))
		assert.Equal(t, "UPDATING owners:UPDATING", c.look(t, "leases"))
		c.refused(t, resInUse, "Index is being updated.  Table: leases Index: owners", "UpdateTable", resize("owners", 6))
		c.refused(t, resInUse, "", "DeleteTable", `{"TableName":"leases"}`)
		time.Sleep(timing.Throughput)
		c.ok(t, "UpdateTable", resize("owners", 6))
		time.Sleep(timing.Throughput)
		assert.Equal(t, "ACTIVE owners:ACTIVE", c.look(t, "leases"))
		assert.Equal(t, map[string]any{"ReadCapacityUnits": 6.0, "WriteCapacityUnits": 6.0, "NumberOfDecreasesToday": 0.0},
			get(t, c.ok(t, "DescribeTable", `{"TableName":"leases"}`), "Table.GlobalSecondaryIndexes.0.ProvisionedThroughput"))
		c.refused(t, validation, "must both be specified", "UpdateTable", addIndex("leases", "another", "leaseOwner"))
		c.refused(t, notFound, "Index none for table leases", "UpdateTable", resize("none", 6))
	})
}

// aws-dynamodb#23
func TestIndexListsItemsWithBothKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lag = 3 * time.Second
		c := newClient(Config{Timing: atOnce, Lag: Lag{Index: lag}})
		c.createLeases(t, "leases", true)
		for i := range 6 {
			owner := fmt.Sprintf(`,"leaseOwner":{"S":"%c"}`, 'A'+i%2)
			if i >= 4 {
				owner = ""
			}
			c.put(t, "leases", `"leaseKey":{"S":"s%d"},"leaseCounter":{"N":"1"}%s`, i, owner)
		}
		time.Sleep(lag)
		c.answers(t, `{"Count":2,"ScannedCount":2,"Items":[{"leaseKey":{"S":"s0"},"leaseOwner":{"S":"A"}},{"leaseKey":{"S":"s2"},"leaseOwner":{"S":"A"}}]}`, "Query", ownerQuery("leases", "owners", "A"))
		c.answers(t, `{"Count":4,"ScannedCount":4}`, "Scan", `{"TableName":"leases","IndexName":"owners","Select":"COUNT"}`)

		c.ok(t, "UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"s0"}},"AttributeUpdates":{"leaseOwner":{"Action":"DELETE"}}}`)
		assert.Equal(t, []string{"s0", "s2"}, c.owned(t, "leases", "A"), "still listed")
		time.Sleep(lag)
		assert.Equal(t, []string{"s2"}, c.owned(t, "leases", "A"))

		c.ok(t, "DeleteItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"s2"}}}`)
		time.Sleep(lag)
		assert.Equal(t, []string{}, c.owned(t, "leases", "A"))
	})
}

// However the owners of a few leases change, the late index shows each of them
// in the end as it is, and only states that it has had.
func TestIndexCatchesUpInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lag = 2 * time.Second
		c := newClient(Config{Timing: atOnce, Lag: Lag{Index: lag}, Seed: 7})
		c.createLeases(t, "leases", true)
		rnd := rand.New(rand.NewPCG(3, 4))
		owners := []string{"A", "B", "C"}
		both, none := 0, 0
		last := map[string]string{}
		for range 300 {
			key, owner := fmt.Sprintf("s%d", rnd.IntN(3)), owners[rnd.IntN(3)]
			c.put(t, "leases", `"leaseKey":{"S":%q},"leaseOwner":{"S":%q}`, key, owner)
			last[key] = owner
			time.Sleep(time.Duration(rnd.IntN(400)) * time.Millisecond)
			listed := 0
			for _, owner := range owners {
				listed += len(c.owned(t, "leases", owner))
			}
			if listed > len(last) {
				both++
			}
			if listed < len(last) {
				none++
			}
		}
		assert.NotZero(t, both, "a moving lease never showed under both owners")
		assert.NotZero(t, none, "a moving lease was never missing")
		time.Sleep(lag)
		got := map[string]string{}
		for _, owner := range owners {
			for _, key := range c.owned(t, "leases", owner) {
				assert.Empty(t, got[key], "%s is listed twice", key)
				got[key] = owner
			}
		}
		assert.Equal(t, last, got)
	})
}

// Values that no write could have stored in an index key are left out when an
// older table gets the index.
func TestBackfillLeavesOutWhatDoesNotFit(t *testing.T) {
	c := newClient(Config{Timing: atOnce})
	c.createLeases(t, "leases", false)
	c.put(t, "leases", `"leaseKey":{"S":"good"},"leaseOwner":{"S":"A"}`)
	c.put(t, "leases", `"leaseKey":{"S":"number"},"leaseOwner":{"N":"1"}`)
	c.put(t, "leases", `"leaseKey":{"S":"empty"},"leaseOwner":{"S":""}`)
	c.put(t, "leases", `"leaseKey":{"S":"long"},"leaseOwner":{"S":"%02049d"}`, 0)
	c.put(t, "leases", `"leaseKey":{"S":"without"}`)
	c.ok(t, "UpdateTable", addIndex("leases", "owners", "leaseOwner"))
	c.answers(t, `{"Count":1,"ScannedCount":1,"Items":[{"leaseKey":{"S":"good"},"leaseOwner":{"S":"A"}}]}`, "Scan", `{"TableName":"leases","IndexName":"owners"}`)
}

func TestIndexProjections(t *testing.T) {
	for projection, want := range map[string]string{
		`{"ProjectionType":"KEYS_ONLY"}`:                             `{"k":{"S":"1"},"o":{"S":"A"}}`,
		`{"ProjectionType":"INCLUDE","NonKeyAttributes":["x","zz"]}`: `{"k":{"S":"1"},"o":{"S":"A"},"x":{"S":"2"}}`,
		`{"ProjectionType":"ALL"}`:                                   `{"k":{"S":"1"},"o":{"S":"A"},"x":{"S":"2"},"y":{"S":"3"}}`,
	} {
		c := newClient(Config{Timing: atOnce})
		c.ok(t, "CreateTable", `{"TableName":"ttt","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"k","KeyType":"HASH"}],"AttributeDefinitions":[{"AttributeName":"k","AttributeType":"S"},{"AttributeName":"o","AttributeType":"S"}],
			"GlobalSecondaryIndexes":[{"IndexName":"iii","KeySchema":[{"AttributeName":"o","KeyType":"HASH"}],"Projection":`+projection+`}]}`)
		c.put(t, "ttt", `"k":{"S":"1"},"o":{"S":"A"},"x":{"S":"1"},"y":{"S":"3"}`)
		c.ok(t, "UpdateItem", `{"TableName":"ttt","Key":{"k":{"S":"1"}},"UpdateExpression":"SET x = :x","ExpressionAttributeValues":{":x":{"S":"2"}}}`)
		c.answers(t, `{"Count":1,"ScannedCount":1,"Items":[`+want+`]}`, "Query", `{"TableName":"ttt","IndexName":"iii","KeyConditionExpression":"o = :o","ExpressionAttributeValues":{":o":{"S":"A"}}}`)
	}
}
