package dynamodb

import (
	"fmt"
	"strings"
	"testing"
)

// leaseTable returns a service with a table of so many leases of ten workers,
// as a Java worker writes them.
func leaseTable(b *testing.B, n int) client {
	b.Helper()
	c := newClient(Config{Timing: atOnce})
	c.call("CreateTable", `{"TableName":"leases","BillingMode":"PAY_PER_REQUEST",
		"AttributeDefinitions":[{"AttributeName":"leaseKey","AttributeType":"S"},{"AttributeName":"leaseOwner","AttributeType":"S"}],
		"KeySchema":[{"AttributeName":"leaseKey","KeyType":"HASH"}],
		"GlobalSecondaryIndexes":[{"IndexName":"owners","KeySchema":[{"AttributeName":"leaseOwner","KeyType":"HASH"},{"AttributeName":"leaseKey","KeyType":"RANGE"}],"Projection":{"ProjectionType":"KEYS_ONLY"}}]}`)
	for i := range n {
		if a := c.call("PutItem", leasePut(i)); a.Err != nil {
			b.Fatal(a.Err)
		}
	}
	return c
}

func leasePut(i int) string {
	return fmt.Sprintf(`{"TableName":"leases","Item":{"leaseKey":{"S":"shardId-%012d"},"leaseOwner":{"S":"worker-%d"},"leaseCounter":{"N":"7"},"checkpoint":{"S":"49590338271490256608559692538361571095921575989136588898"},"checkpointSubSequenceNumber":{"N":"0"},"ownerSwitchesSinceCheckpoint":{"N":"0"},"startingHashKey":{"S":"0"},"endingHashKey":{"S":"340282366920938463463374607431768211455"},"throughputKBps":{"N":"0.0"}}}`, i, i%10)
}

func bench(b *testing.B, c client, operation string, body func(i int) string) {
	b.Helper()
	bodies := make([]string, 1000)
	for i := range bodies {
		bodies[i] = body(i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if a := c.call(operation, bodies[i%len(bodies)]); a.Err != nil {
			b.Fatal(a.Err)
		}
	}
}

func BenchmarkRenewLease(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("of %d", n), func(b *testing.B) {
			c := leaseTable(b, n)
			bench(b, c, "UpdateItem", func(i int) string {
				return fmt.Sprintf(`{"TableName":"leases","Key":{"leaseKey":{"S":"shardId-%012d"}},"Expected":{"leaseOwner":{"Value":{"S":"worker-%d"}},"checkpointOwner":{"Exists":false}},"AttributeUpdates":{"leaseCounter":{"Action":"PUT","Value":{"N":"8"}}},"ReturnValuesOnConditionCheckFailure":"ALL_OLD"}`, i, i%10)
			})
		})
	}
}

func BenchmarkRenewLeaseByExpression(b *testing.B) {
	c := leaseTable(b, 1_000)
	bench(b, c, "UpdateItem", func(i int) string {
		return fmt.Sprintf(`{"TableName":"leases","Key":{"leaseKey":{"S":"shardId-%012d"}},"ConditionExpression":"leaseOwner = :o AND attribute_not_exists(checkpointOwner)","UpdateExpression":"SET leaseCounter = :c","ExpressionAttributeValues":{":o":{"S":"worker-%d"},":c":{"N":"8"}}}`, i, i%10)
	})
}

func BenchmarkCreateLease(b *testing.B) {
	c := leaseTable(b, 0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c.call("PutItem", leasePut(i))
	}
}

// A page of 1 MB: some 3,000 leases.
func BenchmarkScanPage(b *testing.B) {
	c := leaseTable(b, 10_000)
	a := c.call("Scan", `{"TableName":"leases"}`)
	b.SetBytes(int64(len(a.Body)))
	bench(b, c, "Scan", func(int) string { return `{"TableName":"leases"}` })
}

// The leases of one worker of ten, 100 of them.
func BenchmarkQueryOwnerIndex(b *testing.B) {
	c := leaseTable(b, 1_000)
	bench(b, c, "Query", func(i int) string { return ownerQuery("leases", "owners", fmt.Sprintf("worker-%d", i%10)) })
}

func BenchmarkLoad(b *testing.B) {
	var all strings.Builder
	items := make([]string, 10_000)
	for i := range items {
		_, item, _ := strings.Cut(leasePut(i), `"Item":`)
		items[i] = strings.TrimSuffix(item, "}")
	}
	fmt.Fprintf(&all, `{"leases":{"AttributeDefinitions":[{"AttributeName":"leaseKey","AttributeType":"S"}],"KeySchema":[{"AttributeName":"leaseKey","KeyType":"HASH"}],"GSI":[],"Items":[%s]}}`, strings.Join(items, ","))
	b.ReportAllocs()
	for b.Loop() {
		c := newClient(Config{})
		if err := c.Load(c.Caller, strings.NewReader(all.String())); err != nil {
			b.Fatal(err)
		}
	}
}
