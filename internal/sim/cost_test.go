package sim

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/scheduler"
)

// bill sums up what DynamoDB charges for a fleet.
type bill struct {
	mu sync.Mutex
	// Read and write units: writes of leases, other writes, scans, other reads.
	leases, others, scans, reads float64
}

// meter asks of each call to DynamoDB what it costs.
type meter struct {
	next aws.HTTPClient
	bill *bill
}

func (m meter) Do(r *http.Request) (*http.Response, error) {
	service, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if !strings.HasPrefix(service, "DynamoDB") || operation == "DescribeTable" {
		return m.next.Do(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var in map[string]any
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	in["ReturnConsumedCapacity"] = "TOTAL"
	if body, err = json.Marshal(in); err != nil {
		return nil, err
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp, err := m.next.Do(r)
	if err != nil {
		return nil, err
	}
	if body, err = io.ReadAll(resp.Body); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	var out struct {
		ConsumedCapacity struct{ CapacityUnits float64 }
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return nil, err
	}
	units := out.ConsumedCapacity.CapacityUnits

	m.bill.mu.Lock()
	defer m.bill.mu.Unlock()
	switch operation {
	case "Scan":
		m.bill.scans += units
	case "GetItem", "Query":
		m.bill.reads += units
	default:
		if strings.Contains(string(body), `"shardId-`) || strings.Contains(string(must(json.Marshal(in["Key"]))), "shardId-") {
			m.bill.leases += units
		} else {
			m.bill.others += units
		}
	}
	return resp, nil
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// A fleet costs no more than one of Java workers with default settings: 1089
// write units a lease-hour, whether records flow or not; for each worker at most
// 500 write and 2,000 read units an hour, besides the leader's scans, which take
// at most 50 read units a second. Spec config-metrics-operations 9.5.
func TestCost(t *testing.T) {
	notWhileRacing(t)
	const workers, shards, hours = 3, 12, 1. / 3
	for _, c := range []struct {
		name string
		kbps float64 // a shard
	}{{"idle", 0}, {"under load", 5}} {
		t.Run(c.name, func(t *testing.T) {
			inBed(t, 1, shards, gapWorld, func(b *bed) {
				bill := new(bill)
				b.flowing(shards, c.kbps)
				for _, name := range []string{"a", "b", "c"} {
					w := b.start(name, unsigned, func(c *scheduler.Config) { c.AWS.HTTPClient = meter{c.AWS.HTTPClient, bill} })
					<-w.Ready()
				}
				b.until(gapLimit, "an even spread", func() bool { return b.spread() <= 1 })
				time.Sleep(2 * time.Minute)
				bill.mu.Lock()
				bill.leases, bill.others, bill.scans, bill.reads = 0, 0, 0, 0
				bill.mu.Unlock()
				d := len(b.deliveries)
				time.Sleep(20 * time.Minute)
				require.Equal(t, c.kbps > 0, len(b.deliveries) > d)

				bill.mu.Lock()
				defer bill.mu.Unlock()
				lease, other := bill.leases/shards/hours, bill.others/workers/hours
				scans, reads := bill.scans/hours/3600, bill.reads/workers/hours
				t.Logf("%s: %.0f write units a lease-hour; a worker-hour %.0f write and %.0f read units; scans %.2f read units a second", c.name, lease, other, reads, scans)
				assert.InDelta(t, 1089, lease, 5)
				assert.LessOrEqual(t, lease, 1089.)
				assert.LessOrEqual(t, other, 500.)
				assert.LessOrEqual(t, reads, 2000.)
				assert.LessOrEqual(t, scans, 50.)
				for _, units := range []float64{other, reads, scans} {
					assert.Positive(t, units)
				}
			})
		})
	}
}
