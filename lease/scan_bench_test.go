package lease

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"
)

// onePage answers every Scan of a segment with one page of a megabyte.
type onePage struct{ body []byte }

func (p onePage) Do(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(p.body))}, nil
}

// What a leader's scan costs it, from the bytes of the answer on.
func BenchmarkScanPage(b *testing.B) {
	var page bytes.Buffer
	n := 0
	page.WriteString(`{"Items":[`)
	for ; page.Len() < 1<<20; n++ {
		if n > 0 {
			page.WriteByte(',')
		}
		fmt.Fprintf(&page, `{"leaseKey":{"S":"shardId-%012d"},"leaseOwner":{"S":"worker-%04d"},"leaseCounter":{"N":"%d"},"checkpoint":{"S":"49680703608781918548057079227748390711431008012854100002"},`+
			`"checkpointSubSequenceNumber":{"N":"0"},"ownerSwitchesSinceCheckpoint":{"N":"0"},"parentShardId":{"SS":["shardId-000000000000"]},"entityType":{"S":"LEASE"},`+
			`"startingHashKey":{"S":"170141183460469231731687303715884105728"},"endingHashKey":{"S":"340282366920938463463374607431768211455"},"throughputKBps":{"N":"812.25"}}`, n, n%1000, n)
	}
	fmt.Fprintf(&page, `],"Count":%d,"ScannedCount":%d,"ConsumedCapacity":{"TableName":"t","CapacityUnits":128.0}}`, n, n)
	store := NewStore(StoreConfig{Table: "t", Segments: 1, Client: dynamodb.New(dynamodb.Options{
		Region: "us-east-1", Credentials: aws.AnonymousCredentials{}, HTTPClient: onePage{page.Bytes()}, DisableValidateResponseChecksum: true,
	})})
	b.ReportAllocs()
	for b.Loop() {
		snap, err := store.Scan(context.Background())
		require.NoError(b, err)
		require.Len(b, snap.Leases, n)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/lease")
}
