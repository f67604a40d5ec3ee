package expr

import (
	"encoding/json"
	"testing"

	"github.com/go-kcl/kcl/internal/emu/attr"
)

// A renewal as the emulation carries it out, from the decoded request to the new
// item, in either form.
func BenchmarkRenewal(b *testing.B) {
	const lease = `{"leaseKey":{"S":"shardId-000000000001"},"leaseOwner":{"S":"A"},"leaseCounter":{"N":"7"},"checkpoint":{"S":"49590338271490256608559692538361571095921575989136588898"},
		"checkpointSubSequenceNumber":{"N":"0"},"ownerSwitchesSinceCheckpoint":{"N":"0"},"startingHashKey":{"S":"0"},"endingHashKey":{"S":"85070591730234615865843651857942052863"},"entityType":{"S":"LEASE"}}`
	for _, form := range []struct{ name, text string }{
		{"Expected", leaseWrites[0].older},
		{"expressions", leaseWrites[0].expressions},
	} {
		b.Run(form.name, func(b *testing.B) {
			r := request(b, form.text)
			old := item(b, lease)
			b.ReportAllocs()
			for b.Loop() {
				p, err := r.Parse(OpUpdate)
				if err != nil || !p.Condition.Eval(old) {
					b.Fatal("refused", err)
				}
				if _, err := p.Update.Apply(old, old); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(form.name+" with decoding", func(b *testing.B) {
			old := item(b, lease)
			b.ReportAllocs()
			for b.Loop() {
				var r Request
				if err := json.Unmarshal([]byte(form.text), &r); err != nil {
					b.Fatal(err)
				}
				p, err := r.Parse(OpUpdate)
				if err != nil || !p.Condition.Eval(old) {
					b.Fatal("refused", err)
				}
				if _, err := p.Update.Apply(old, old); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A filter of a scan, over one item.
func BenchmarkFilter(b *testing.B) {
	filter := parse(b, OpScan, `{"FilterExpression":"#et = :lease","ExpressionAttributeNames":{"#et":"entityType"},"ExpressionAttributeValues":{":lease":{"S":"LEASE"}}}`).Filter
	it := attr.Item{"entityType": attr.String("LEASE"), "leaseKey": attr.String("s1")}
	b.ReportAllocs()
	for b.Loop() {
		if !filter.Eval(it) {
			b.Fatal("no match")
		}
	}
}
